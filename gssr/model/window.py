"""Which part of a run is looked at: what --from, --to and --gpus mean, and where warm-up ends and tear-down begins.

A run may list very many GPUs that were never sampled. They are rows of lists; rules, phases and load balancing, whose
arrays have a row for each GPU, look at the others alone.
"""

import math
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime

import numpy as np
from numpy.typing import NDArray

from gssr.arrays import Floats, Ints
from gssr.model.results import Grid, Series, Verdict, over_space
from gssr.model.statistics.grid import coarser
from gssr.store.read.recording import RunReader
from gssr.store.read.time_window import Window

_UNITS = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0}
_NUMBER = r"(?:\d+(?:\.\d*)?|\.\d+)"
_LONGEST = 24
"""Characters of a length of time: what is longer is none that can be."""
_PLAIN = re.compile(_NUMBER)
_WITH_UNITS = re.compile("".join(f"(?:({_NUMBER}){unit})?" for unit in _UNITS))
_CLOCK = re.compile(rf"(?:(\d+):)?(\d+):({_NUMBER})")

DETECTION_BINS = 100
_FINE_BINS = 40
_FEWEST_BINS = 10
IDLE = 0.02
ACTIVE_SHARE = 0.1
"""A bin is active above IDLE and above ACTIVE_SHARE of the 95th percentile (thresholds of our own)."""
_SLOW_SHARE = 0.5
_MAX_SLOW = 0.2
_HOLD_LEADING = (5, 3)
_HOLD_TRAILING = (3, 2)

Average = Callable[[Window, int], Series]
"""(window, bins) -> the space average of the metric that tells work from waiting, in at most about so many bins."""


def extent(reader: RunReader) -> Window:
    """Find when the run began and ended: as recorded of the workload, else by the first and last sample. (0, 0) where
    neither is known."""
    run = reader.run
    start = run.started_at if run.started_at is not None else reader.first_time
    end = run.ended_at if run.ended_at is not None else reader.last_time
    if start is None:
        start = run.ended_at if run.ended_at is not None else 0.0
    return Window(start, start if end is None else max(start, end))


def parse_time(text: str, run_start: float, run_end: float) -> float:
    """Find the unix time that a --from or --to names.

    It is seconds after the run's start (``90``, ``90s``, ``5m``, ``1h30m``, ``1:30`` minutes and seconds,
    ``00:10:00``), with a minus sign before its end (``-60``, ``-5m``), or a date and time (``2026-05-01T12:00:00``,
    local time unless it names a zone). ``run_start`` and ``run_end``: unix s. Raises ValueError with a sentence for
    anything else.
    """
    words = text.strip()
    before_end = words.startswith("-")
    seconds = seconds_of(words[1:] if before_end else words)
    if seconds is not None:
        return run_end - seconds if before_end else run_start + seconds
    try:
        return datetime.fromisoformat(words).timestamp()
    except (ValueError, OverflowError, OSError):
        raise ValueError(
            f"{text!r} is not a time: give seconds, 5m or 1:30 after the start, -60 or -5m before the end, "
            "or a date and time such as 2026-05-01T12:00:00"
        ) from None


def seconds_of(words: str) -> float | None:
    """Read a length of time in s: ``90``, ``90s``, ``5m``, ``1h30m``, ``1:30`` or ``00:10:00``; None for anything else."""
    if len(words) > _LONGEST:
        return None
    if _PLAIN.fullmatch(words):
        return float(words)
    if match := _CLOCK.fullmatch(words):
        hours, minutes, seconds = match.groups(default="0")
        return int(hours) * 3600.0 + int(minutes) * 60.0 + float(seconds)
    if words and (match := _WITH_UNITS.fullmatch(words)):
        return math.fsum(float(number) * unit for number, unit in zip(match.groups("0"), _UNITS.values(), strict=True))
    return None


def cut(run: Window, start: str | float | None, end: str | float | None) -> Window:
    """Make a window of the run from --from and --to: infinite at an end where they cut nothing off. Numbers are unix
    times already, texts are read by ``parse_time``. Raises ValueError, with a sentence, for a text that is no time and
    for a window that holds nothing of the run."""
    lower = parse_time(start, *run) if isinstance(start, str) else start
    upper = parse_time(end, *run) if isinstance(end, str) else end
    lasted = f"the run lasted {run.seconds:.6g} s"
    if any(isinstance(text, str) and seconds_of(text.strip().lstrip("-")) is None for text in (start, end)):
        with suppress(ValueError, OverflowError, OSError):  # a clock that never was
            lasted = f"the run is from {_date(run.start)} to {_date(run.end)}"
    if lower is not None and upper is not None and lower >= upper:
        raise ValueError(f"the window from {start} to {end} is empty: it must begin before it ends ({lasted})")
    if lower is not None and lower >= run.end:
        raise ValueError(f"the window from {start} begins at or after the run's end ({lasted})")
    if upper is not None and upper <= run.start:
        raise ValueError(f"the window to {end} ends at or before the run's start ({lasted})")
    return Window(
        -math.inf if lower is None or lower <= run.start else lower,
        math.inf if upper is None or upper >= run.end else upper,
    )


def _date(unix_time: float) -> str:
    """Write a time as parse_time reads it: ``2026-05-01T12:00:00+02:00``, in this machine's zone. Raises ValueError,
    OverflowError or OSError where no calendar has it."""
    return datetime.fromtimestamp(unix_time).astimezone().isoformat(timespec="seconds")


def average_of(origin: float, width: float, values: Floats) -> Average:
    """Make an Average of a series that is there already: ``values`` [n] in bins of ``width`` seconds from ``origin`` (unix
    s). The function that comes back averages bins, and never cuts them finer."""

    def average_part(window: Window, most: int) -> Series:
        """Average the bins of a window, whose ends count to the nearest bin, in at most ``most`` groups. Without a bin
        in the window the result is empty."""
        first = min(max(round((window.start - origin) / width), 0), len(values))
        last = max(min(round((window.end - origin) / width), len(values)), first)
        step = max(1, -(-(last - first) // most))
        mean = coarser(values[None, first:last], step)[0]
        return over_space(Grid("", origin + first * width, step * width, mean[None]))

    return average_part


def warm_up_and_tear_down(average: Average, window: Window) -> tuple[float, float]:
    """Find how long a job warms up and how long it tears down. Returns the seconds of warm-up from the start of the window
    on, and those of tear-down before its end; 0.0 where there is none.

    The rule, on the space average of the window in at most 100 bins. Bins without samples don't count; with fewer than 10
    others nothing is left out.

    - A bin is *active* above 0.02 and above a tenth of the 95th percentile. The *working level* is the median of the active
      bins: spikes don't move it, nor do dips.
    - The job has *settled* in the first bin that reaches half the working level, if 3 of the 5 bins from it on do: a burst
      of one or two bins is part of the warm-up. It has *ended* after the last bin that reaches half the level, if 2 of the 3
      bins up to it do: a dip, however long, is no tear-down when work follows it.
    - What lies before and after is left out, if no more than a fifth of all active bins is among it. Else (the job did much
      work at a lower level, say in a second phase) only what is not active is, by the same rule of 3 in 5 and 2 in 3.
    - Nothing is left out of a job that is never active, whose level never holds, or of which nothing would be left.

    Each edge is then looked up in finer bins (a fortieth of the two bins around it, where the samples allow it).
    """
    coarse = average(window, DETECTION_BINS)
    position = np.flatnonzero(np.isfinite(coarse.mean))
    activity = coarse.mean[position]
    n = len(activity)
    if n < _FEWEST_BINS:
        return 0.0, 0.0
    active = activity > max(IDLE, ACTIVE_SHARE * float(np.percentile(activity, 95)))
    if not active.any():
        return 0.0, 0.0
    leading, reached = _count_left_out_bins(activity, active, _HOLD_LEADING)
    trailing, reached_last = _count_left_out_bins(activity[::-1], active[::-1], _HOLD_TRAILING)
    if leading + trailing >= n:
        return 0.0, 0.0
    warm_up = tear_down = 0.0
    if leading:
        at = coarse.start + float(position[leading]) * coarse.width
        warm_up = max(0.0, _fine_edge(average, at, coarse.width, reached, first=True) - window.start)
    if trailing:
        at = coarse.start + float(position[n - 1 - trailing] + 1) * coarse.width
        tear_down = max(0.0, window.end - _fine_edge(average, at, coarse.width, reached_last, first=False))
    return warm_up, tear_down


def _count_left_out_bins(activity: Floats, active: NDArray[np.bool_], hold: tuple[int, int]) -> tuple[int, float]:
    """Find how many bins at the beginning are left out, and the activity that the first one kept reaches; (0, 0.0) if
    the job has not settled in any bin, or too much would be left out.

    Args:
        activity: The activity of each bin [n], none of them NaN.
        active: Which bins are active [n], at least one.
        hold: How many bins of how many must reach the level; as ``_held`` takes them.
    """
    level = float(np.median(activity[active]))
    for least in (_SLOW_SHARE * level, float(activity[active].min())):
        held = _held(activity >= least, *hold)
        if not held.any():
            continue
        first = int(np.argmax(held))
        if active[:first].sum() <= _MAX_SLOW * active.sum():
            return first, least
    return 0, 0.0


def _held(reached: NDArray[np.bool_], span: int, needed: int) -> NDArray[np.bool_]:
    """Flag the bins that are reached and with which ``needed`` of the ``span`` bins from them on are."""
    ahead = np.concatenate((reached, np.zeros(span - 1, bool)))
    enough: NDArray[np.bool_] = np.lib.stride_tricks.sliding_window_view(ahead, span).sum(axis=1) >= needed
    return reached & enough


def _fine_edge(average: Average, at: float, width: float, least: float, first: bool) -> float:
    """Find where (unix s) the first fine bin that reaches ``least`` begins, or with ``first`` False the last one ends,
    within a bin's width of ``at``; ``at`` where none does."""
    fine = average(Window(at - width, at + width), _FINE_BINS)
    reached = np.flatnonzero(fine.mean >= least)
    if not len(reached):
        return at
    return fine.start + float(reached[0] if first else reached[-1] + 1) * fine.width


MANY = 4096
"""GPUs: of fewer also those without samples are looked at."""


def looked_at(n_rows: Ints) -> Ints:
    """Choose which GPUs are looked at, by how many rows each has [n_gpus]. Returns their numbers, ascending: all; but
    of more than MANY GPUs of which less than half have rows, those that have."""
    sampled = np.flatnonzero(n_rows)
    return sampled if len(n_rows) > MANY and 0 < 2 * len(sampled) < len(n_rows) else np.arange(len(n_rows))


def verdicts_in_all(verdicts: Sequence[Verdict], places: Ints) -> tuple[Verdict, ...]:
    """Renumber the GPUs of verdicts, from positions among ``places`` to the numbers that ``places`` [n] holds. A verdict on
    no GPU in particular is then on all of these."""
    return tuple(
        replace(verdict, gpus=tuple((places[list(verdict.gpus)] if verdict.gpus else places).tolist()))
        for verdict in verdicts
    )
