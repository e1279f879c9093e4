"""What happened: the events of a run, newest first."""

from gssr.render.cells import clean, clip
from gssr.render.clock import moment
from gssr.render.events import told
from gssr.render.roles import Row, Span
from gssr.tui.view import Scene


def event_rows(scene: Scene) -> list[Row]:
    """The list that lies over a screen."""
    frame, room = scene.frame, max(scene.height - 2, 1)
    events = frame.events[::-1]
    top = min(scene.view.top, max(len(events) - room, 0))
    rows: list[Row] = [(Span(f"{len(events):,} events, newest first; Esc closes", "title"),), ()]
    for event in events[top : top + room]:
        at = moment(event.time - frame.first, max(frame.last - frame.first, 3600.0))
        where = "" if event.node is None else f"{event.node}: "
        rows.append(clip((Span(f"{at:>9}  ", "dim"), Span(clean(f"{where}{told(event)}"))), scene.width))
    return rows
