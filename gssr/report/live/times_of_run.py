"""Times, windows and events in words, as the axis of a screen counts them."""

import math

from gssr.model.frame_cache import once
from gssr.model.live.live_result import Result
from gssr.render import clock
from gssr.render.cells import clean
from gssr.render.clock import duration, exact
from gssr.store.format.rows import Event

_LEAST_SECONDS = 0.0099
"""A shorter time is written in ms."""
_LEAST_MILLISECONDS = 0.00099
"""A time of fewer seconds is written in µs."""


def seconds_text(seconds: float) -> str:
    """Write a length of time as short as it goes: ``0.2 s``, ``10 s``, ``5 min``, ``2 h``, ``1 d``; ms and µs where it
    is shorter."""
    for size, name in ((86400.0, "d"), (3600.0, "h"), (60.0, "min")):
        if seconds >= size and math.isclose(seconds / size, round(seconds / size)):
            return f"{round(seconds / size)} {name}"
    if seconds < _LEAST_SECONDS:
        return f"{seconds * 1e3:g} ms" if seconds >= _LEAST_MILLISECONDS else f"{seconds * 1e6:g} µs"
    return f"{seconds:g} s" if seconds < 600 else clock.duration(seconds)


def width_text(seconds: float) -> str:
    """How long a cell is, in two digits."""
    return seconds_text(float(f"{seconds:.2g}"))


def age_text(seconds: float) -> str:
    """Write an age in at most four cells: ``11s``, ``12m``, ``3h``, ``2d``; ``-`` if it is infinite or NaN."""
    if not math.isfinite(seconds):
        return "-"
    for size, name in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= (2 if size == 60 else 1) * size:
            return f"{int(seconds // size)}{name}"
    return f"{int(seconds)}s"


def is_growing(frame: Result) -> bool:
    """Tell whether the recording may still grow, so that its axis goes on."""
    return frame.part is None and frame.state not in ("ended", "lost")


def at_text(frame: Result, time: float) -> str:
    """Write a time (unix s) as the axis counts it: since the first sample, never negative."""
    time = max(time - (frame.first if frame.since is None else frame.since), 0.0)
    if frame.part is not None:
        return clock.moment(time, 0.0, min(frame.grid.width, 0.01))
    return clock.moment(time, max(frame.last - frame.first, 3600.0))


def event_text(frame: Result, time: float) -> str:
    """The time (unix s) of an event: ``before`` for what was before the first sample."""
    return clock.BEFORE if round(time - frame.first) < 0 else at_text(frame, time)


@once
def _places(frame: Result) -> dict[int, str]:
    gpus = frame.of_gpus or frame
    return {} if gpus.by_node else {gpu.gpu: gpus.place(position) for position, gpu in enumerate(gpus.gpus)}


def event_in_words(frame: Result, event: Event) -> str:
    """An event in words: where, of a GPU which one, and what."""
    where = event.node if event.gpu is None else _places(frame).get(event.gpu, event.node)
    return clean(f"{where}: {clock.event_text(event)}" if where else clock.event_text(event))


def is_whole(frame: Result) -> bool:
    """True where the window holds the whole run."""
    return frame.window.start <= frame.first and frame.window.end >= frame.last


def length_text(frame: Result, seconds: float) -> str:
    """A length of time, of a trace in three digits."""
    return duration(seconds) if frame.part is None else exact(seconds)


def part_text(frame: Result) -> str:
    """Say which part of the run is shown, as ``window_text`` does; "" if it is all of it."""
    is_all = is_whole(frame) and not (frame.is_live and frame.query.span is not None)
    return "" if is_all else window_text(frame)


def cut_text(frame: Result) -> str:
    """Say to which part of a trace its intervals are cut; "" if it is all of it."""
    part = part_text(frame)
    return f"cut to {part}" if part else ""


def judged_part_text(frame: Result) -> str:
    """Say which part of the run the judgement is on, as ``part_text`` does; "" if it is all of it, as it is while the newest
    columns of a growing run roll in."""
    rolls = frame.is_live and frame.query.width is not None
    return "" if rolls else part_text(frame)


def judged_title(title: str, frame: Result) -> str:
    """Write the title of what is drawn of the judgement, with the part of the run that it is on."""
    is_damaged = frame.part is not None and any(source.is_damaged for source in frame.part.trace.sources)
    return in_part(f"{title} in a damaged file" if is_damaged else title, judged_part_text(frame))


def in_part(title: str, part: str) -> str:
    """Write a title with the part of the run that it is about; "" for all of it."""
    return f"{title}, {part}" if part else title


def window_text(frame: Result) -> str:
    """Say which window is shown: ``whole run, 10 min 0 s``, ``last 5 min`` of a live run, or from when to when."""
    if frame.is_live and frame.query.span is not None:
        return f"last {seconds_text(frame.query.span)}"
    if is_whole(frame) and frame.since is not None:
        return f"all traced, {length_text(frame, frame.last - frame.first)}"
    if is_whole(frame):
        return f"whole run, {length_text(frame, frame.duration)}"
    start, end = max(frame.window.start, frame.first), min(frame.window.end, frame.last)
    return f"{at_text(frame, start)} to {at_text(frame, end)}"
