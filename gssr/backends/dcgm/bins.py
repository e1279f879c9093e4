"""Values with stamps of their own, put into rows of one sampling interval.

Each field of each GPU is stamped on its own, microseconds to milliseconds apart, so time is cut into bins and a row holds
what fell into one. The edges are laid where stamps are rarest, so that one that comes a little early or late stays in its
bin; a row's time is the middle of its bin, or now if that is yet to come. Where others have the hostengine sample faster, a
bin holds several values of a field: their mean, or the last one of a counter, or all the bits.

A bin is given out when no field is to have another value in it. A field that has been silent for LATE_SECONDS is not waited
for; what comes for a bin that is out already is left out, and counted if it is that late.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

from gssr.backends.base import Row
from gssr.metrics import METRICS

LATE_SECONDS = 2.0
_SOONEST = 0.6
"""The next value of a field doesn't come before this much of its usual step."""
_MICRO = 1_000_000
_NOTHING: tuple[None, ...] = (None,) * len(METRICS)


Value = tuple[int, int, int, int | float | None, int]
"""GPU, column, stamp, the value or, with None, the word that there is none, and the us after which the next one comes."""


class Binned(NamedTuple):
    """The bins that are ready: rows whose time is still in us of the hostengine's clock, oldest first for each GPU."""

    rows: list[Row]
    late: int


class _Gpu:
    """What is known of one GPU: up to when there is nothing new in each column, the open bins, those of their columns that
    have several values, and the first bin that is not out yet."""

    __slots__ = ("known", "next", "open", "several", "together")

    def __init__(self, columns: Sequence[int], start: int) -> None:
        self.known: dict[int, float] = dict.fromkeys(columns, start)
        self.open: dict[int, list[int | float | None]] = {}
        self.several: dict[tuple[int, int], list[int | float]] = {}
        self.next: float = -math.inf
        self.together: float | None = None
        """The earliest of ``known`` where all columns came together last; these are then not kept up to date."""

    def one_by_one(self) -> dict[int, float]:
        """``known``, to be changed."""
        if self.together is not None:
            self.known, self.together = dict.fromkeys(self.known, self.together), None
        return self.known


class Bins:
    """The bins of all GPUs. Times are us of the hostengine's clock."""

    def __init__(self, columns: Sequence[Sequence[int]], interval: float, start: int) -> None:
        """``columns``: for each GPU, the places in METRICS that are watched; ``interval`` in s."""
        self._gpus = [_Gpu(each, start) for each in columns]
        self._interval = max(round(interval * _MICRO), 1)
        self._start = start
        self._n_columns = sum(map(len, columns))
        self._edge: int | None = None
        self._waiting: list[Value] = []

    def add(self, values: Sequence[Value]) -> None:
        """These values have come, those of each field in the order of their stamps."""
        self._waiting += values

    def add_together(
        self, gpu: int, columns: Sequence[int], stamps: Sequence[int], values: Sequence[int | float | None], step: int
    ) -> None:
        """As ``add``, for one value of each of these columns: usually all of a bin's, which takes a fraction of the time."""
        own, edge, interval = self._gpus[gpu], self._edge, self._interval
        if edge is not None and len(columns) == len(own.known):
            first = min(stamps)
            number = (first - edge) // interval
            if (max(stamps) - edge) // interval == number >= own.next and number not in own.open:
                row: list[int | float | None] = list(_NOTHING)
                for column, value in zip(columns, values, strict=True):
                    row[column] = value
                if values.count(None) < len(values):
                    own.open[number] = row
                own.together = first + _SOONEST * step
                return
        self._waiting += [
            (gpu, column, stamp, value, step) for column, stamp, value in zip(columns, stamps, values, strict=True)
        ]

    def take(self, now: int, everything: bool = False, complete_until: int | None = None) -> Binned:
        """The rows that are ready at this time, none of them later than that; with ``everything`` all there is. Of what is
        stamped after ``complete_until`` more will come in any case."""
        if self._edge is None and not everything and not self._all_heard(now):
            return Binned([], 0)
        late = self._sort_in(now) if self._waiting else 0
        limit = math.inf if complete_until is None else complete_until
        rows: list[Row] = []
        for position, gpu in enumerate(self._gpus):
            if not gpu.open:
                continue
            done = None if everything else self._number(min(_seen_by_all(gpu, now), limit))
            for (number, column), several in gpu.several.items():
                gpu.open[number][column] = _together(column, several)
            for number in sorted(gpu.open):
                if done is not None and number >= done:
                    break
                row = gpu.open.pop(number)
                rows.append((position, min(self._middle(number), now), *row))
                gpu.next = number + 1
            if gpu.several:
                gpu.several = {key: several for key, several in gpu.several.items() if key[0] in gpu.open}
        return Binned(rows, late)

    def _all_heard(self, now: int) -> bool:
        """Whether it is known where the edges belong: base and profiling fields are sampled at times of their own."""
        heard = {(gpu, column) for gpu, column, *_ in self._waiting}
        return len(heard) >= self._n_columns or now - self._start > LATE_SECONDS * _MICRO

    def _sort_in(self, now: int) -> int:
        if self._edge is None:
            self._edge = emptiest(sorted(stamp % self._interval for _, _, stamp, _, _ in self._waiting), self._interval)
        late, edge, interval = 0, self._edge, self._interval
        earliest = now - round(LATE_SECONDS * _MICRO)
        for position, column, stamp, value, step in self._waiting:
            gpu, number = self._gpus[position], (stamp - edge) // interval
            gpu.one_by_one()[column] = stamp + _SOONEST * step
            if value is None:
                continue
            if number < gpu.next:
                late += stamp < earliest
                continue
            row = gpu.open.get(number)
            if row is None:
                row = gpu.open[number] = list(_NOTHING)
            before = row[column]
            if before is None:
                row[column] = value
            else:
                gpu.several.setdefault((number, column), [before]).append(value)
        self._waiting = []
        return late

    def _number(self, stamp: float) -> float:
        return (stamp - (self._edge or 0)) // self._interval

    def _middle(self, number: int) -> float:
        return (self._edge or 0) + (number + 0.5) * self._interval


def _seen_by_all(gpu: _Gpu, now: int) -> float:
    """Up to when every column that speaks has spoken."""
    earliest = now - round(LATE_SECONDS * _MICRO)
    known = gpu.known.values() if gpu.together is None else (gpu.together,)
    return min((stamp for stamp in known if stamp >= earliest), default=earliest)


def emptiest(phases: Sequence[int], interval: int) -> int:
    """The middle of the longest stretch of the interval without a phase in it."""
    gaps = [(after - before, before) for before, after in zip(phases, [*phases[1:], phases[0] + interval], strict=True)]
    length, before = max(gaps)
    return (before + length // 2) % interval


def _together(column: int, several: Sequence[int | float]) -> int | float:
    metric = METRICS[column]
    if metric.kind == "counter":
        return several[-1]
    if metric.kind == "bits":
        bits = 0
        for value in several:
            bits |= int(value)
        return bits
    mean = sum(several) / len(several)
    return round(mean) if metric.integral else mean
