"""What the published GSSR, 0.4.0 and older, says of a job's ranks, as runs: in a file of JSON by rank
(gssr.foreign.published_json), or in the tables that it exports (gssr.foreign.published_sqlite).

It kept no times: samples were taken at even distances up to the rank's end, each of which is the interval that was asked for
and what asking DCGM took besides. Blanks were left out of each metric's list before the lists were cut from the front to one
length, so that values of one row may be of different moments.
"""

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

import numpy as np

from gssr.arrays import Floats
from gssr.foreign.names import MEMORY_TOTAL, OF_GPUS, blanks_to_nan, of_dcgm
from gssr.foreign.series import ForeignError, ForeignGpu, ForeignSeries, ImportHints, Note, in_order, plain
from gssr.store.format.sample_arrays import Samples

TIMELESS = (
    "the older GSSR kept no times: the samples of a rank are spread evenly up to its end, each may be earlier or later by "
    "an unknown number of samples"
)


class Rank(NamedTuple):
    """One rank of a job as the published GSSR describes it; None is unknown.

    ``file``: where it was read. ``samples``: by device index on the node, columns float64[n] by DCGM's tag of the
    field, with values in DCGM's units and its blanks as they are. ``gpu_ids``: all device indices the rank had, also
    without samples. ``started``, ``ended``: unix s; ``elapsed``: s; ``sampling_seconds``: the interval that was asked
    for, s.
    """

    file: str
    job: str | None
    step: str | None
    rank: int | None
    node: str | None
    gpu_ids: tuple[int, ...]
    samples: Mapping[int, Mapping[str, Floats]]
    started: float | None
    ended: float | None
    elapsed: float | None = None
    sampling_seconds: float | None = None
    label: str | None = None
    command: str | None = None
    world_size: int | None = None


def runs_of(ranks: Sequence[Rank], told: ImportHints, notes: Sequence[str]) -> list[ForeignSeries]:
    """Make one run of each step of each job. ``notes`` are sentences added to each run. Steps without samples are left
    out; raises ForeignError if none has any."""
    steps: dict[tuple[str | None, str | None], list[Rank]] = {}
    for rank in ranks:
        steps.setdefault((rank.job, rank.step), []).append(rank)
    found = [_run(own, told, notes) for own in steps.values() if any(map(_length, _all_samples(own)))]
    if not found:
        name = ranks[0].file if ranks else "the published GSSR's files"
        raise ForeignError(f"{name}: holds no samples")
    return found


def _all_samples(ranks: Sequence[Rank]) -> Iterator[Mapping[str, Floats]]:
    return (columns for rank in ranks for columns in rank.samples.values())


def _length(columns: Mapping[str, Floats]) -> int:
    return max(map(len, columns.values()), default=0)


def _run(ranks: list[Rank], told: ImportHints, notes: Sequence[str]) -> ForeignSeries:
    """Make one run of the ranks of a step. Sorts ``ranks`` in place."""
    ranks.sort(key=lambda own: (own.rank is None, own.rank or 0))
    first = ranks[0]
    said = [Note(text) for text in notes]
    gpus: list[ForeignGpu] = []
    pieces: list[Samples] = []
    spacings: list[float] = []
    begun = [start for own in ranks if (start := _started(own)) is not None]
    shift = told.start - min(begun) if told.start is not None and begun else 0.0
    owners = _owners(ranks, said)
    for rank in ranks:
        for device, samples in rank.samples.items():
            if owners[rank.node, device] is not rank:
                continue
            at, n = len(gpus), _length(samples)
            gpus.append(_known_of(rank, device, samples, told))
            if not n:
                said.append(Note(f"{_place(rank, device)} has no samples in {os.path.basename(rank.file)}", gpu=at))
                continue
            time, spacing = _times(rank, n, told)
            spacings.append(spacing)
            if len(set(map(len, samples.values()))) > 1:
                said.append(Note(f"{_place(rank, device)} has more values of some metrics than of others: all end with "
                                 "the run, and what is missing at its begin is unknown", gpu=at))  # fmt: skip
            pieces.append(Samples(np.full(n, at), time + shift, _values(samples, n)))
    unknown = sorted({tag for own in _all_samples(ranks) for tag in own if of_dcgm(tag) is None})
    if unknown:
        said.append(Note(f"columns that GSSR does not know are left out: {', '.join(map(plain, unknown[:10]))}"))
    said += _missing_ranks(ranks)
    ends = [own.ended + shift for own in ranks if own.ended is not None]
    world = max((own.world_size or 0 for own in ranks), default=0)
    n_ranks = max((own.rank + 1 for own in ranks if own.rank is not None), default=len(ranks))
    return ForeignSeries(
        "gssr-0.x", in_order(pieces), gpus, said,
        sampling_seconds=told.interval or round(float(np.median(spacings)), 3) or None,
        label=_label(first), command=_words(first.command or ""),
        job_id=first.job, step_id=first.step,
        started_at=min(begun) + shift if begun else None, ended_at=max(ends, default=None),
        world_size=max(world, n_ranks),
    )  # fmt: skip


def _owners(ranks: Sequence[Rank], said: list[Note]) -> dict[tuple[str | None, int], Rank]:
    """Choose the rank whose samples of each GPU are taken, as several ranks may have sampled one GPU: the one with the
    most samples, the first of equals. Returns it by node and device index, and appends notes to ``said``."""
    found: dict[tuple[str | None, int], Rank] = {}
    for rank in ranks:
        for device, samples in rank.samples.items():
            other = found.setdefault((rank.node, device), rank)
            if other is rank:
                continue
            n, before = _length(samples), _length(other.samples[device])
            taken = rank if n > before else other
            found[rank.node, device] = taken
            if n and before:
                said.append(Note(f"{_place(rank, device)} was sampled by ranks {other.rank} and {rank.rank}: the samples of "
                                 f"rank {taken.rank} are taken"))  # fmt: skip
    return found


def _place(rank: Rank, device: int) -> str:
    return f"GPU {device} of {plain(rank.node or f'rank {rank.rank}')}"


def _known_of(rank: Rank, device: int, samples: Mapping[str, Floats], told: ImportHints) -> ForeignGpu:
    total = max((_most(column, tag) for tag, column in samples.items()), default=0.0)
    node = plain(rank.node or told.host or "", 200) or None
    return ForeignGpu(node=node, device_index=device, rank=rank.rank, memory_total=int(total) or None)


def _most(column: Floats, tag: str) -> float:
    """Return the largest memory size in a column, in bytes; 0 if the column of this tag holds something else."""
    meant = of_dcgm(tag)
    if meant is None or meant.name != MEMORY_TOTAL:
        return 0.0
    return float(np.nanmax(blanks_to_nan(column) * meant.factor, initial=0.0))


def _values(samples: Mapping[str, Floats], n: int) -> dict[str, Floats]:
    """Convert the samples of a GPU, which are as in ``Rank.samples``, to columns by GSSR's metric names, float64[n]
    each, in the catalogue's units. DCGM's blanks become NaN. Shorter columns are filled with NaN at the front, so that
    all end together. Fields that GSSR doesn't know, or that describe a GPU, are left out."""
    found = {}
    for tag, column in samples.items():
        meant = of_dcgm(tag)
        if meant is not None and meant.name not in OF_GPUS:
            found[meant.name] = np.concatenate([np.full(n - len(column), np.nan), blanks_to_nan(column) * meant.factor])
    return found


def _started(rank: Rank) -> float | None:
    if rank.started is not None or rank.ended is None:
        return rank.started
    return None if rank.elapsed is None else rank.ended - rank.elapsed


def _times(rank: Rank, n: int, told: ImportHints) -> tuple[Floats, float]:
    """Date ``n`` samples evenly, the last one at the rank's end. Returns their times in unix s, float64[n], and the
    seconds between two of them. If the end is not known it is estimated, at last from the file's modification time."""
    started, ended = _started(rank), rank.ended
    length = rank.elapsed if rank.elapsed is not None else (ended or 0.0) - (started or ended or 0.0)
    spacing = told.interval or (length / n if length > 0 else 0.0) or rank.sampling_seconds or 1.0
    if ended is None:
        ended = os.path.getmtime(rank.file) if started is None else started + max(length, spacing * n)
    return ended - spacing * np.arange(n - 1, -1, -1.0), spacing


def _missing_ranks(ranks: Sequence[Rank]) -> list[Note]:
    """Return a note about ranks of the job that left no file; [] if none is missing or the ranks have no numbers."""
    numbers = {own.rank for own in ranks if own.rank is not None}
    most = max([*(own.world_size or 0 for own in ranks), *(number + 1 for number in numbers)], default=0)
    n = most - len(numbers)
    if n <= 0 or not numbers or most > 1 << 20:
        return []
    which = ", ".join(map(str, [rank for rank in range(most) if rank not in numbers][:5]))
    return [Note(f"nothing is there of {n} of {most} ranks ({which}{', …' if n > 5 else ''}): a rank that is killed leaves "
                 "no file")]  # fmt: skip


def _words(command: str) -> tuple[str, ...]:
    """Split a shell command into words. Returns it as one word if the shell would do more than split it, () if it is
    empty."""
    with suppress(ValueError):
        words = shlex.split(command)
        if shlex.join(words) == command:
            return tuple(words)
    return (command,) if command else ()


def _label(rank: Rank) -> str | None:
    """Return the label as the user gave it, without the job and the step."""
    return (rank.label or "").removesuffix(f"_job_{rank.job}_step_{rank.step}") or None
