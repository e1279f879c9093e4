"""What --from, --to, --steps, --gpus and the words of a filter mean for a trace."""

import re
from collections import Counter
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Literal, NamedTuple

import numpy as np

from gssr.arrays import Flags, Ints
from gssr.model.traces.gpu_names import gpus_of, spellings
from gssr.model.traces.only import Limit
from gssr.model.traces.part import TracePiece, part_of
from gssr.model.traces.trace_steps import steps_of
from gssr.traces.timeline import Timeline, Track

_UNITS = {"ns": 1, "us": 10**3, "µs": 10**3, "ms": 10**6, "s": 10**9, "": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}
_TIME = re.compile(r"(-?)(\d{1,12}(?:\.\d{0,12})?|\.\d{1,12})(ns|us|µs|ms|s|m|h|)")
_STEPS = re.compile(r"(\d{1,12})(?:(?:-|:|\.\.)(\d{1,12}))?")
_NUMBER = re.compile(r"\d+$")
_SIZE = re.compile(r"(\d{1,15}(?:\.\d{1,6})?)([kKMGT]?)(?:i?B)?")
_POWERS = {"": 0, "k": 1, "K": 1, "M": 2, "G": 3, "T": 4}


def ns_of(text: str) -> int:
    """Parse a time such as ``1.5`` (seconds), ``250ms`` or ``-30us`` into ns.

    A positive time counts from the trace's zero; a negative one counts back from its end. Raises ValueError with a
    sentence for the user.
    """
    found = _TIME.fullmatch(text.strip())
    if found is None:
        raise ValueError(
            f"{text!r} is not a time in a trace: give seconds (1.5), 250ms, 30us or 2m, with - before its end"
        )
    sign, number, unit = found.groups()
    whole, _, rest = number.partition(".")
    rest = (rest + "0" * 13)[:13]
    ns = (int(whole or 0) * 10**13 + int(rest)) * _UNITS[unit] // 10**13
    return -ns if sign else ns


def limit(what: Literal["takes", "size"], below: bool, text: str) -> Limit:
    """Parse the limit ``text`` of a length ("takes", such as ``10us``) or of a size ("size", such as ``1M``, in powers
    of 1,024). ``below``: what is let through lies below it, else above. Raises ValueError, a sentence."""
    if what == "takes":
        return Limit(what, below, ns_of(text))
    found = _SIZE.fullmatch(text)
    if found is None:
        raise ValueError(f"{text or 'nothing'!r} is not a size: write size>4096, size>64k or size>1M")
    return Limit(what, below, float(found[1]) * 1024 ** _POWERS[found[2]])


def numbers_of(text: str) -> tuple[int, int]:
    """Parse ``12``, ``12-14`` or ``12:14``. Returns the first and the last number. Raises ValueError, a sentence."""
    found = _STEPS.fullmatch(text.strip())
    if found is None or int(found[2] or found[1]) < int(found[1]):
        raise ValueError(f"{text!r} names no steps: give a number, or the first and the last: 12-14")
    return int(found[1]), int(found[2] or found[1])


class TraceSelection(NamedTuple):
    """Which part of a trace is looked at, in the words of the options (None for all), whether as HolisticTraceAnalysis
    counts, and which ``metrics`` of one's own are asked for (gssr.model.custom_metrics)."""

    start: str | None = None
    end: str | None = None
    steps: str | None = None
    gpus: Sequence[str] | None = None
    like_hta: bool = False
    metrics: Sequence[str] = ()


WHOLE = TraceSelection()


def window_of(timeline: Timeline, wanted: TraceSelection, zero: int | None = None) -> tuple[int, int] | None:
    """Work out the window of a timeline that the options ask for. Returns begin and end, ns from the timeline's zero; None
    for all of it.

    ``zero``: the unix time, ns, from which the wanted times count; where it or the timeline's is unknown, they count from
    the timeline's own zero. Raises ValueError, a sentence, where nothing of the timeline is in the window.
    """
    start, end, steps = wanted[:3]
    if start is None and end is None and steps is None:
        return None
    part = part_of(timeline, like_hta=wanted.like_hta)
    first, last = part.window
    if steps is not None:
        first, last = _of_steps(part, *numbers_of(steps))
    own = timeline.clock.unix_ns
    since = 0 if zero is None or own is None else zero - own
    begin = first if start is None else max(_since(start, since, last), first)
    stop = last if end is None else min(_since(end, since, last), last)
    if begin >= stop:
        lasts = f"it lasts from {(first - since) / 1e9:.9g} to {(last - since) / 1e9:.9g} s"
        raise ValueError(
            f"the window from {start or 'its start'} to {end or 'its end'} holds nothing of the trace: {lasts}"
        )
    return begin, stop


def _since(text: str, zero: int, end: int) -> int:
    return (end if text.strip().startswith("-") else zero) + ns_of(text)


def _of_steps(part: TracePiece, first: int, last: int) -> tuple[int, int]:
    """Return the time from the begin of the step numbered ``first`` to the end of the one numbered ``last``, by the numbers
    in their names."""
    rows = steps_of(part)
    names = [part.timeline.names[at] for at in part.timeline.intervals.name[rows].tolist()]
    numbers = np.array([int(_NUMBER.findall(name)[0]) for name in names], np.float64)
    inside = rows[(numbers >= first) & (numbers <= last)]
    if not len(inside):
        there = (
            f"there are {numbers.min():.0f} to {numbers.max():.0f}" if len(rows) else "no steps are marked in the trace"
        )
        raise ValueError(f"no step from {first} to {last}: {there}")
    return int(part.start[inside].min()), int(part.end(inside).max())


def tracks_of(timeline: Timeline, wanted: Sequence[str]) -> Ints:
    """Find the tracks that ``--gpus`` names: of ranks (``3``, ``0-7``), or, where the file tells none, of GPUs by their
    number; of nodes, UUIDs and names of GPUs, by patterns. With a GPU come its process's threads. Returns their places."""
    gpus = gpus_of(timeline.tracks)
    chosen = {gpu for gpu in dict.fromkeys(gpus) if gpu is not None and _is_one(gpu, wanted)}
    own = np.array([gpu in chosen for gpu in gpus], bool)
    is_host = np.array([gpu is None for gpu in gpus], bool)
    return np.flatnonzero(own | (is_host & flag_tracks_of_processes(timeline.tracks, own)))


def flag_tracks_of_processes(tracks: Sequence[Track], wanted: Flags) -> Flags:
    """Flag the tracks of the processes that the ``wanted`` tracks belong to; both are bool[n_tracks]. A process is a rank
    of a file. In a file that tells no ranks it is a process id, if several processes of the file used GPUs and the
    wanted track tells its own; else the whole file."""
    with_gpus = {(track.source, track.pid) for track in tracks if track.kind == "gpu_stream"}
    n_with_gpus = Counter(source for source, _ in with_gpus)

    def process_of(track: Track) -> tuple[int, int | None, int | None]:
        by_pid = track.rank is None and n_with_gpus[track.source] > 1
        return track.source, track.rank, track.pid if by_pid else None

    chosen = {process_of(tracks[at]) for at in np.flatnonzero(wanted).tolist()}
    whole = {(source, rank) for source, rank, pid in chosen if pid is None}
    return np.array([process_of(each) in chosen or (each.source, each.rank) in whole for each in tracks], bool)


def _is_one(gpu: Track, wanted: Sequence[str]) -> bool:
    """Tell whether one of the words that ``--gpus`` takes names this GPU: a rank or number, a range of these, or a pattern
    that fits one of its names."""
    number = gpu.device if gpu.rank is None else gpu.rank
    for word in wanted:
        numbers = _STEPS.fullmatch(word)
        if numbers:
            if number is not None and int(numbers[1]) <= number <= int(numbers[2] or numbers[1]):
                return True
        elif any(fnmatchcase(name, word) for name in spellings(gpu)):
            return True
    return False
