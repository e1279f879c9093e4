"""Where cursors go: the one in lists, and the one in time; and where in time a view may be."""

from dataclasses import replace

from gssr.tui.view import Scene, View

PAGE = 10_000
"""A page for a screen's ``move``, which moves by as much as it shows; PAGE × PAGE is to the first or the last line."""


def moved(position: int, step: int, page: int, n: int) -> int:
    """A line of ``n`` after a step of so many lines, of PAGE, or to an end; ``page`` lines are in sight."""
    if abs(step) == PAGE:
        step = max(page - 1, 1) * (1 if step > 0 else -1)
    return min(max(position + step, 0), max(n - 1, 0))


def inside(scene: Scene, end: float, span: float) -> float | None:
    """A right edge that shows something of the run; None, the newest sample, when it is there."""
    frame = scene.frame
    if end >= frame.last:
        return None
    return max(end, min(frame.first + span, frame.last))


def with_cursor(scene: Scene, columns: int) -> View:
    """The time cursor so many columns further; from the right edge where there was none. Beyond an edge of the window the
    window moves."""
    view, grid, frame = scene.view, scene.frame.grid, scene.frame
    at = (
        view.cursor
        if view.cursor is not None
        else min(frame.last, grid.end) - (0.5 if columns < 0 else 1.5) * grid.width
    )
    time = grid.start + (grid.column(at) + 0.5 + columns) * grid.width
    time = min(max(time, frame.first), frame.last)
    end = view.end
    if time < grid.start:
        end = time + (view.span or grid.n * grid.width)
    elif time >= grid.end:
        end = inside(scene, time + grid.width, view.span or 0.0)
    return replace(view, cursor=time, end=end)
