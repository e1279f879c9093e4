"""Time in words and on axes.

What happened, as one letter each on a line of time, and in words.
"""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from gssr.arrays import Floats, Ints
from gssr.render.roles import Role
from gssr.render.scale import UNKNOWN, fixed

if TYPE_CHECKING:
    from gssr.model.results import StepTime
    from gssr.store.format.rows import Event


_STEPS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400)
"""Distances between labels that people read easily, seconds; beyond them whole days."""
_TINY = tuple(step * 10.0**-power for power in range(9, 1, -1) for step in (1, 2, 5))
"""Those between labels of traces."""
_SHORT = 0.05
"""Lengths below this, s, take a smaller unit."""
_FINE = 120.0
_LEAST_LABEL = 3  # 0 s
_LEAST_STEP = 0.0999
"""Spans below this many seconds are labelled in seconds."""


class Tick(NamedTuple):
    """A label of a time axis: ``at`` seconds on it."""

    at: float
    label: str


def exact(seconds: float) -> str:
    """Write a length of time of 0 or more in three digits and its own unit: ``480 ns``, ``12.3 µs``, ``4.56 ms``; in ns
    without decimals, and from a second on as ``duration``."""
    for size, name in ((1e-9, "ns"), (1e-6, "µs"), (1e-3, "ms")):
        shown = seconds / size
        if shown < 999.5:
            decimals = 0 if name == "ns" or shown >= 99.95 else 1 if shown >= 9.995 else 2
            return f"{fixed(shown, decimals)} {name}"
    return duration(seconds)


def duration(seconds: float | None) -> str:
    """Write a length of time: ``48 ms``, ``4.2 s``, ``5 min 0 s``, ``1 h 12 min``, ``2 d 3 h``; UNKNOWN for None, NaN
    and infinity."""
    if seconds is None or not math.isfinite(seconds):
        return UNKNOWN
    if 0 < seconds < _SHORT:
        return exact(seconds)
    if seconds < 59.95:
        return f"{fixed(max(seconds, 0.0), 1)} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    if whole < 86400:
        return f"{whole // 3600} h {whole % 3600 // 60} min"
    return f"{whole // 86400} d {whole % 86400 // 3600} h"


def interval_text(seconds: float) -> str:
    """Write how far samples are apart: ``100 ms``, from a second on ``1 s`` or ``2.5 s``."""
    return f"{seconds:g} s" if seconds >= 1 else f"{1000 * seconds:g} ms"


def step_text(step: "StepTime", first: float, last: float) -> str:
    """Write a step's length, how sure that is, and how it changed, if it did: ``1.62 s ± 0.3 %, 25 % longer since
    0:14:10``. Times count from ``first``; ``last`` is the end of the axis (both unix s)."""
    shown = step.seconds if step.seconds >= 1 else 1000 * step.seconds
    decimals = 2 if 1 <= step.seconds < 10 else 1 if step.seconds >= 10 else 0
    text = f"{fixed(shown, decimals)} {'s' if step.seconds >= 1 else 'ms'} ± {fixed(100 * step.accuracy, 1)} %"
    if step.changed_at is None or step.change is None:
        return text
    how = f"{fixed(100 * abs(step.change), 0)} % {'longer' if step.change > 0 else 'shorter'}"
    return f"{text}, {how} since {moment(step.changed_at - first, last - first)}"


def moment(seconds: float, span: float, step: float = 1.0) -> str:
    """Write a point on an axis ``span`` seconds long: ``30 s``, ``1:30``, or ``1:30:00`` from an hour on. ``step`` is
    the distance to its neighbours, s: below 1 s it takes a decimal, below 0.1 s as many as tell them apart."""
    if step < _LEAST_STEP:
        return f"{fixed(seconds, math.ceil(-math.log10(step) - 1e-9))} s"
    if span < _FINE:
        return f"{fixed(seconds, 1 if step < 1 else 0)} s"
    whole = round(seconds)
    sign, whole = ("-", -whole) if whole < 0 else ("", whole)
    if span < 3600 and whole < 3600:
        return f"{sign}{whole // 60}:{whole % 60:02d}"
    return f"{sign}{whole // 3600}:{whole % 3600 // 60:02d}:{whole % 60:02d}"


def time_ticks(start: float, end: float, width: int) -> list[Tick]:
    """Choose labels for an axis from ``start`` to ``end`` (seconds) that is ``width`` cells long: at round times, and
    so few that they don't touch. At least one."""
    span = end - start
    if not span > 0 or width < 1:
        return [Tick(start, moment(start, max(abs(start), 1.0)))]
    reach = max(span, abs(start), abs(end))
    for step in _steps(span):
        first = math.ceil((start - 1e-9 * span) / step)
        last = math.floor((end + 1e-9 * span) / step)
        if (last - first + 1) * (_LEAST_LABEL + 3) > width:
            continue
        found = [Tick(i * step, moment(i * step, reach, step)) for i in range(first, last + 1)]
        if found and len(found) * (max(len(tick.label) for tick in found) + 3) <= width:
            return found
    at = 0.0 if -span / width < start < 0 < end else start  # the first column begins a little before the run
    return [Tick(at, moment(at, reach))]


def _steps(span: float) -> Sequence[float]:
    least = span / 400
    days = [86400.0 * days for days in (2, 5, 10, 20, 50, 100, 200, 500, 1000)]
    return [step for step in (*_TINY, *_STEPS, *days) if step >= least]


def axis_text(start: float, end: float, width: int) -> str:
    """Write the labels of ``time_ticks`` on a line of exactly ``width`` characters, each centred on its cell. A label
    at an end is moved inside, and one that would touch the label before is left out."""
    span = end - start
    line = ""
    for tick in time_ticks(start, end, width):
        cell = 0 if span <= 0 else min(int((tick.at - start) / span * width), width - 1)
        begin = min(max(cell - len(tick.label) // 2, 0), max(width - len(tick.label), 0))
        if begin < len(line) + (1 if line else 0):
            continue
        line += " " * (begin - len(line)) + tick.label
    return line[:width].ljust(width)


BEFORE = "before"
"""When something happened that was before the time from which others count."""


def event_time(seconds: float, span: float) -> str:
    """Say when something happened on an axis ``span`` s long, as ``moment`` says it; BEFORE if ``seconds`` is below
    0."""
    return BEFORE if round(seconds) < 0 else moment(max(seconds, 0.0), span)


LOOKS: dict[str, tuple[str, Role]] = {
    "gap": ("g", "gap"), "gpu_lost": ("g", "gap"), "gpu_back": ("g", "gap"), "backend_lost": ("g", "gap"),
    "backend_back": ("g", "gap"), "storage": ("g", "gap"), "throttle_begin": ("t", "outlier"),
    "throttle_end": ("t", "outlier"), "mark": ("m", "series"),
}  # fmt: skip
"""How events are marked; those of other kinds with a star. The first in this order stays where several meet."""
OTHER: tuple[str, Role] = ("*", "value")
LEGEND = "m mark, g gap or loss, t throttling, * other"


def event_times_and_ranks(events: "Sequence[Event]") -> tuple[Floats, Ints]:
    """Return when each event was [n] (unix s), and the rank of its kind, its place in LOOKS [n]; len(LOOKS) for kinds
    that are not there. A lower rank hides a higher one."""
    kinds = {kind: rank for rank, kind in enumerate(LOOKS)}
    ranks = np.array([kinds.get(event.kind, len(kinds)) for event in events], np.int64)
    return np.array([event.time for event in events], np.float64), ranks


def event_marks_by_column(
    times: Floats, ranks: Ints, start: float, width: float, n: int
) -> dict[int, tuple[str, Role]]:
    """Choose a letter and its role for each column of time in which something happened, and return them by the column's
    index. There are ``n`` columns of ``width`` s from ``start`` (unix s). ``times`` and ``ranks`` are those of
    ``event_times_and_ranks``; of several events in a column the one with the lowest rank is shown."""
    column = np.floor((times - start) / width)
    inside = (column >= 0) & (column < n)
    looks = [*LOOKS.values(), OTHER]
    order = np.argsort(-ranks[inside], kind="stable")
    return {int(at): looks[int(rank)] for at, rank in zip(column[inside][order], ranks[inside][order], strict=True)}


def event_text(event: "Event") -> str:
    """An event in words; a mark, whose words are the user's, says that it is one."""
    return f"mark: {event.message}" if event.kind == "mark" else event.message or event.kind
