"""Laying a trace over the run that it is of: whose GPUs its GPUs are, and what its times are by the recording's clock.

Samples and traces of a node are by that node's clock: where the reader corrects it (gssr.store.read.run_clocks), the trace
is moved as well.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from gssr.arrays import Floats, Ints
from gssr.gpu_name import listed
from gssr.model.joined.compare_clocks import NEAR, Check, Compared, Pair, compare, find, which
from gssr.model.traced import LaidBy
from gssr.model.traces.gpu_names import gpus_of
from gssr.model.traces.part import are
from gssr.model.traces.segments import Segments, union
from gssr.model.verdicts.words import took
from gssr.store.format.rows import Gpu, Process
from gssr.store.read.recording import RunReader
from gssr.store.read.time_window import Window
from gssr.traces.join import by_boot, from_zero, is_on
from gssr.traces.open import BY_PLACE
from gssr.traces.timeline import BUSY, Clock, Kind, Timeline, Track

NS = 1_000_000_000
_METRICS = ("gr_engine_active", "gpu_utilization", "sm_active")
"""What a trace's share busy is compared with: the first that was measured."""
_ON_THREADS = ((Kind.CPU_OP, Kind.RUNTIME, Kind.DRIVER), (Kind.RANGE,))
"""What keeps a thread busy, of a trace without GPUs."""
_MOST_CORES = 1e5


@dataclass(frozen=True, slots=True)
class Match:
    """A trace over a run. ``timeline``: its times are unix ns by the recording's clock, its GPUs are called as there.
    ``gpus``: positions of these in the run, by their first track; ``beside``: of a trace without any those that its rank
    may use. ``start``, ``end``: unix s. ``offset``: s that were added
    to its times, where the trace tells them; ``check``: what comparing them with the samples has shown, None where nobody
    compared. ``said``: sentences about what was assumed."""

    path: str
    rank: int | None
    timeline: Timeline
    gpus: Mapping[Track, int]
    beside: tuple[int, ...]
    start: float
    end: float
    clock: LaidBy
    check: Check | None
    offset: float
    said: tuple[str, ...]


def matched(reader: RunReader, timeline: Timeline, offset: float | None = None) -> Match:
    """Lay the trace of one file over the run. ``offset``: s that are added to its times; of a trace that tells no unix time,
    s from the run's begin to its zero. Raises ValueError, a clause on why the trace is not of this run or can't be laid over
    it."""
    own = timeline.intervals
    if not len(own):
        what = "holds no intervals" if timeline.profile is None else "is a profile, which has no times"
        raise ValueError(what)
    try:
        timeline = by_boot(timeline, reader.processes)
    except ValueError as error:
        if offset is None:
            raise ValueError(str(error)) from None
    since_boot = offset is None and timeline.clock.origin == "boot" and timeline.clock.unix_ns is not None
    said: list[str] = []
    ranks = _ranks(reader, timeline, said)
    if reader.clocks and timeline.clock.unix_ns is not None and not since_boot:
        ahead = next((reader.clocks.of(process.node) for process in ranks if process is not None), 0.0)
        timeline = replace(timeline, clock=timeline.clock._replace(unix_ns=timeline.clock.unix_ns - round(ahead * NS)))
    there = _TraceGpus(reader, ranks, timeline)
    first, last = _extent(reader)
    extent = int(own.start[0]), int((own.start + own.length).max())
    zero = timeline.clock.unix_ns
    window = extent if zero is None else (extent[0] + zero, extent[1] + zero)
    shift = 0 if zero is not None else round(first * NS)
    interval = round((reader.sampling_seconds or 1.0) * NS) if there.of else NS
    if offset is not None:
        found = Compared("agrees", shift + round(offset * NS))
    elif since_boot:
        found = Compared("agrees")  # it is the clock that the recording has
    else:
        found = there.compared(window, interval)
        if found.check == "different" and not there.by_uuid:
            raise ValueError(
                f"shows other work than the samples of {listed([reader.gpus[at] for at in there.of.values()], 4)} at any "
                "time within 5 s: is it of this run? --offset 0 lays it over the run all the same"
            )
        if zero is None and found.check != "elsewhere":
            raise ValueError(f"tells no unix time, and {_why(found)}: --offset S tells when it began")
    if there.renamed_node and offset is None:
        if since_boot or found.check not in ("agrees", "elsewhere"):
            raise ValueError(there.renamed_node)
        said.append(f"it {there.renamed_node}: taken for one, as the samples agree")
    is_sure = offset is not None or found.check in ("agrees", "elsewhere")
    is_moved = there.tell_apart(window, interval, found.shift if is_sure else None)
    if is_moved and zero is not None and offset is None and not since_boot:
        found = there.compared(window, interval)
    begin, end = (window[0] + found.shift) / NS, (window[1] + found.shift) / NS
    if end <= first or begin >= last:
        when = (
            f"{took(round((first - end) * NS))} before" if end <= first else f"{took(round((begin - last) * NS))} after"
        )
        why = ", or since the node was booted again" if since_boot else ""
        raise ValueError(f"lies outside of the run: it was recorded {when} it{why}")
    clock: LaidBy = "boot" if since_boot else "by comparison" if found.check == "elsewhere" else "unix"
    clock = "--offset" if offset is not None else clock
    return Match(
        timeline.sources[0].path,
        there.rank,
        there.renamed(from_zero(timeline, -(found.shift + (zero or 0))), clock),
        there.of,
        there.beside,
        begin,
        end,
        clock,
        None if offset is not None or since_boot else found.check,
        found.shift / NS if zero is not None else 0.0,
        (*said, *there.said, *_clock_said(found, zero, offset)),
    )


def _around(window: tuple[int, int]) -> Window:
    return Window((window[0] - 2 * NEAR) / NS, (window[1] + 2 * NEAR) / NS)


_WHY: dict[Check, str] = {
    "several": "several times fit the samples as well",
    "nothing": "nothing in the samples fits it",
    "different": "the samples show other work",
    "too few": "there are too few samples to compare it with",
}


def _why(found: Compared) -> str:
    return "nothing varies that could be compared" if found.is_flat else _WHY[found.check]


def _clock_said(found: Compared, zero: int | None, offset: float | None) -> Iterator[str]:
    """Yield a sentence on what was assumed of the trace's clock; nothing if it agrees.

    Nothing either if the clock is unknown (``zero`` None) or the user has given an ``offset``.
    """
    if offset is not None or zero is None or found.check == "agrees":
        return
    if found.check == "elsewhere":
        yield f"its clock is off: moved by {found.shift / NS:+.3g} s, by comparison with the samples"
        return
    why = f"moved by {took(found.every)} it fits the samples as well" if found.every else _why(found)
    ambiguous = "can't be checked" if found.check == "too few" else "is ambiguous"
    yield f"its clock {ambiguous}, the unix time is taken: {why}"


def _extent(reader: RunReader) -> tuple[float, float]:
    """Return when the run began and ended, unix s. Raises ValueError where it has no times."""
    first, last = reader.first_time, reader.last_time
    starts = [each.started_at for each in reader.processes if each.started_at is not None]
    ends = [each.ended_at for each in reader.processes if each.ended_at is not None]
    known = [time for time in (first, last, *starts, *ends) if time is not None]
    if not known:
        raise ValueError("the recording has no times to lay it over")
    return min(known), max(known)


# Whose it is


def _ranks(reader: RunReader, timeline: Timeline, said: list[str]) -> tuple[Process | None, ...]:
    """Find the rank of the run that each track of a trace belongs to.

    Returns, by track, the rank's process, or None where the rank is unknown or the run recorded no ranks. Appends to
    ``said`` sentences about what was assumed. Raises ValueError if the trace has ranks, but none of the run's.
    """
    source, of_rank = timeline.sources[0], _by_rank(reader)
    if any(BY_PLACE in note for note in source.notes):
        ranks: list[int | None] = [None] * len(timeline.tracks)
    else:
        ranks = [source.rank if track.rank is None else track.rank for track in timeline.tracks]
    told = {rank for rank in ranks if rank is not None}
    if told:
        others = sorted(told - of_rank.keys()) if of_rank else []
        called = f"rank{'s' if len(others) > 1 else ''} {', '.join(map(str, others[:4]))}"
        if len(others) == len(told):
            raise ValueError(f"is of {called}, which {'are' if len(others) > 1 else 'is'} not in the recording")
        if others:
            said.append(f"{called}: not in the recording, and left alone")
        return tuple(None if rank is None else of_rank.get(rank) for rank in ranks)
    on_node = [each for each in of_rank.values() if source.host is None or is_on(source.host, each)]
    if len(on_node) == 1 and (source.host is not None or len(of_rank) == 1):
        where = f"on {source.host}" if len(of_rank) > 1 else "of the run"
        said.append(f"it tells no rank: taken for rank {on_node[0].rank}, the only one {where}")
        return (on_node[0],) * len(ranks)
    return (None,) * len(ranks)


def _by_rank(reader: RunReader) -> dict[int, Process]:
    """List the processes of a run by rank; of an imported run also the ranks that are known only by their GPUs."""
    found = {process.rank: process for process in reader.processes}
    owned = [(rank, at) for rank, own in reader.gpus_of_ranks.items() for at in own]
    owned += [(gpu.rank, at) for at, gpu in enumerate(reader.gpus) if gpu.rank is not None]
    for rank, at in owned:
        found.setdefault(rank, _UNKNOWN._replace(run_id=reader.run.run_id, rank=rank, node=reader.gpus[at].node))
    return found


def gpus_of_rank(reader: RunReader, rank: int) -> tuple[int, ...]:
    """Find the GPUs that a rank may use. Returns positions."""
    own = reader.gpus_of_ranks.get(rank)
    return own or tuple(at for at, gpu in enumerate(reader.gpus) if gpu.rank == rank)


_UNKNOWN = Process._make(["", 0, *(None for _ in Process._fields[2:])])


class _TraceGpus:
    """The GPUs of a trace as those of a run. ``of``: the position of each, by its first track. Raises ValueError."""

    def __init__(self, reader: RunReader, ranks: Sequence[Process | None], timeline: Timeline) -> None:
        """Match the GPUs of the trace. ``ranks``: of each of its tracks the rank, None where that is unknown."""
        self._reader, self._ranks, self._timeline = reader, ranks, timeline
        self._gpu_of = gpus_of(timeline.tracks)
        there: dict[Track, Process | None] = {}
        for gpu, process in zip(self._gpu_of, ranks, strict=True):
            if gpu is not None:
                there.setdefault(gpu, process)
        self._processes = list(dict.fromkeys(process for process in ranks if process is not None))
        self.rank = self._processes[0].rank if len(self._processes) == 1 else None
        self.of: dict[Track, int] = {}
        self.said: list[str] = []
        self.by_uuid = all(gpu.uuid for gpu in there)
        self.renamed_node = ""
        """That the trace calls a rank's node otherwise."""
        self._numbered: dict[Process, list[Track]] = {}
        """By rank, its GPUs that are known by their number among several only."""
        unknown = []
        for gpu, process in there.items():
            position = self._position(gpu, process, len([each for each in there.values() if each is process]))
            if position is None:
                unknown.append(gpu)
            else:
                self.of[gpu] = position
        self.beside = () if there else self._all_own(self._processes)
        called = ", ".join(dict.fromkeys(gpu.uuid or f"GPU {gpu.device}" for gpu in unknown[:4]))
        if there and not self.of:
            if not self._processes and not any(gpu.uuid for gpu in there):
                raise ValueError("tells neither rank nor UUID: nothing says which of the run's GPUs it is of")
            has = f"has {listed(reader.gpus, 4)}"
            raise ValueError(f"is not of this run's GPUs, as far as can be told: it is of {called}, the run {has}")
        if unknown:
            self.said.append(f"not of the run, as far as can be told, and left alone: {called}")
        if not there and not self._processes:
            raise ValueError("shows no GPU and tells no rank: nothing says whose it is")

    def _position(self, gpu: Track, process: Process | None, n_gpus: int) -> int | None:
        """Find the GPU of the run that a GPU of the trace is, one of ``n_gpus`` of its rank: by UUID; else among the GPUs of
        the rank; else by its index, where nothing can have renumbered it. Returns its position, None where it can't be
        told."""
        gpus = self._reader.gpus
        if gpu.uuid:
            wanted = _plain(gpu.uuid)
            return next((at for at, each in enumerate(gpus) if each.uuid and _plain(each.uuid) == wanted), None)
        device = gpu.device
        if process is None:
            return self._on_node(gpu)
        if gpu.node is not None and (process.node or process.hostname) and not is_on(gpu.node, process):
            self.renamed_node = f"was recorded on {gpu.node}, and rank {process.rank} of the run was on {process.node}"
        own = gpus_of_rank(self._reader, process.rank)
        if len(own) == 1 and n_gpus == 1:
            return own[0]
        if device is None:
            return None
        by_index = next((at for at in own if gpus[at].device_index == device), None)
        position = own[device] if 0 <= device < len(own) else by_index
        if position is not None:
            self._numbered.setdefault(process, []).append(gpu)
        return position

    def _all_own(self, processes: Sequence[Process]) -> tuple[int, ...]:
        return tuple(sorted({at for process in processes for at in gpus_of_rank(self._reader, process.rank)}))

    def _on_node(self, gpu: Track) -> int | None:
        """Find the GPU by its number on the node, which holds where every rank of the node may use all of the node's GPUs.
        Returns its position, None where it does not hold."""
        if gpu.node is None:
            return None
        ranks = [rank for rank, each in _by_rank(self._reader).items() if is_on(gpu.node, each)]
        owns = {gpus_of_rank(self._reader, rank) for rank in ranks}
        if len(owns) != 1:
            return None
        every = owns.pop()
        indices = [self._reader.gpus[at].device_index for at in every]
        if indices != list(range(len(every))) or gpu.device is None or not 0 <= gpu.device < len(every):
            return None
        return every[gpu.device]

    def compared(self, extent: tuple[int, int], interval: int) -> Compared:
        """Compare the trace with the samples at other times; without a unix time with all samples of the run."""
        fit = find if self._timeline.clock.unix_ns is None else compare
        return fit(self._pairs(extent, interval, fit), extent, interval)

    def _pairs(self, extent: tuple[int, int], interval: int, fit: Callable[..., Compared]) -> list[Pair]:
        """Collect the work of the trace's GPUs with the samples of the same GPUs, to be compared; without GPUs the busy
        threads of each rank with the CPU time of its processes.

        ``extent``: begin and end of the trace, ns; ``interval``: the time between samples, ns; ``fit`` is ``find`` or
        ``compare``, and chooses among a rank's GPUs where their numbers are unsure. Empty if the samples were thinned.
        """
        zero = self._timeline.clock.unix_ns or 0
        window = Window(-np.inf, np.inf) if fit is find else _around(extent)
        if self._reader.thinned_until > window.start and self.of:
            return []
        if self.of:
            unsure = {gpu: rank for rank, gpus in self._numbered.items() if not self._is_sure(rank) for gpu in gpus}
            of = {gpu: at for gpu, at in self.of.items() if gpu not in unsure}
            every = sorted({*of.values(), *self._all_own(list(unsure.values()))})
            samples = self._samples(every, window)
            found = [Pair((self._busy(gpu, zero),), *samples[at]) for gpu, at in of.items() if at in samples]
            edges = np.arange(extent[0] + interval, extent[1], interval)
            for rank in dict.fromkeys(unsure.values()):  # the one that tells most, as the one that it fits best
                most = max(
                    ((self._busy(gpu, zero),) for gpu in self._numbered[rank]),
                    key=lambda busy: (
                        float(Pair(busy, edges, np.zeros(len(edges))).shares(edges, interval).std())
                        if len(edges)
                        else 0.0
                    ),
                )
                own = [Pair(most, *samples[at]) for at in gpus_of_rank(self._reader, rank.rank) if at in samples]
                found += sorted(own, key=lambda pair: fit([pair], extent, interval).r)[-1:]
            return found
        return [pair for process in self._processes for pair in self._threads(process, window, zero)]

    def _threads(self, process: Process, window: Window, zero: int) -> list[Pair]:
        """Return the pair of a rank's busy threads and its processes' CPU time (in cores), in a list; an empty one if
        either is unknown."""
        time, cores = self._reader.workload_cpu(process.rank, window)
        own = self._timeline.intervals
        of_rank = np.array([each is process for each in self._ranks], bool)[own.track]
        kinds = next((each for each in _ON_THREADS if (are(own.kind, each) & of_rank).any()), _ON_THREADS[0])
        rows = np.flatnonzero(are(own.kind, kinds) & of_rank)
        threads = [rows[own.track[rows] == track] for track in np.unique(own.track[rows]).tolist()]
        busy = tuple(union(own.start[each] + zero, own.start[each] + own.length[each] + zero) for each in threads)
        return (
            [Pair(busy, np.rint(time * NS).astype(np.int64), np.clip(cores, 0.0, _MOST_CORES))]
            if len(time) and busy
            else []
        )

    def _busy(self, gpu: Track, zero: int) -> Segments:
        """Return the stretches of time (ns) in which a GPU of the trace is busy. ``zero``: ns to add to the trace's
        times."""
        own = self._timeline.intervals
        tracks = np.array([each is gpu for each in self._gpu_of], bool)
        rows = np.flatnonzero(tracks[own.track] & are(own.kind, BUSY))
        return union(own.start[rows] + zero, own.start[rows] + own.length[rows] + zero)

    def _samples(self, positions: Sequence[int], window: Window) -> dict[int, tuple[Ints, Floats]]:
        """Read which share of the time these GPUs (positions) were busy in a window, by the first of _METRICS that has
        samples. Returns for each GPU with samples their times (ns, ascending) and the shares (0-1), [n] both."""
        found: dict[int, tuple[Ints, Floats]] = {}
        for metric in _METRICS:
            if metric not in self._reader.metrics:
                continue
            rows = self._reader.samples([metric], np.array(positions, np.int64), window)
            known = np.isfinite(rows.values[metric])
            for at in positions:
                mine = np.flatnonzero(known & (rows.gpu == at))
                mine = mine[np.argsort(rows.time[mine], kind="stable")]
                if len(mine):
                    found[at] = (
                        np.rint(rows.time[mine] * NS).astype(np.int64),
                        np.clip(rows.values[metric][mine], 0.0, 1.0),
                    )
            if found:
                break
        return found

    def _is_sure(self, rank: Process) -> bool:
        """Tell whether the number of the rank's one GPU is the one that it has on its node, as under torchrun: it is the
        local rank, and the rank may use all of the node's GPUs."""
        indices = [self._reader.gpus[at].device_index for at in gpus_of_rank(self._reader, rank.rank)]
        numbers = [gpu.device for gpu in self._numbered[rank]]
        return numbers == [rank.local_rank] and indices == list(range(len(indices)))

    def tell_apart(self, window: tuple[int, int], interval: int, shift: int | None) -> bool:
        """Find out by their samples which GPUs of a rank the trace's GPUs are that are known by a number alone, as
        CUDA_VISIBLE_DEVICES may have changed it, and keep that in ``of``. GPUs that can't be told apart are taken out of
        ``of``, unless their number is sure.

        ``window``: begin and end of the trace, ns; ``interval``: the time between samples, ns; ``shift``: that of the
        clock (ns), None if it is not sure, and then nothing is compared. Returns True if a GPU is another than its
        number says.
        """
        before, zero = dict(self.of), self._timeline.clock.unix_ns or 0
        moved = (window[0] + (shift or 0), window[1] + (shift or 0))
        for rank, gpus in self._numbered.items():
            own = gpus_of_rank(self._reader, rank.rank)
            samples = {} if shift is None else self._samples(own, _around(moved))
            places = [
                which(
                    [Pair((self._busy(gpu, zero),), *each) for each in samples.values()], window, interval, shift or 0
                )
                for gpu in gpus
            ]
            found = [list(samples)[place] for place in places if place is not None]
            if len(set(found)) == len(gpus) and len(samples) == len(own):
                self.of.update(zip(gpus, found, strict=True))
            elif not self._is_sure(rank):
                self.of = {gpu: at for gpu, at in self.of.items() if gpu not in gpus}
                self.beside = tuple(sorted({*self.beside, *own}))
                self.said.append(
                    f"which of the {len(own)} GPUs of rank {rank.rank} is which is not told, and the samples don't tell it: "
                    "it is laid over none of them alone"
                )
        is_changed = any(self.of[gpu] != before[gpu] for gpu in self.of)
        if is_changed:
            self.said.append("its GPUs are told apart by comparing with the samples, not by their numbers")
        return is_changed

    def renamed(self, timeline: Timeline, clock: LaidBy) -> Timeline:
        """Return the timeline with its tracks called by the run's ranks, nodes and GPUs, and ``clock`` as where its clock
        comes from."""
        gpus = self._reader.gpus

        def rename_track(track: Track, gpu: Track | None, process: Process | None) -> Track:
            """Call a track by the run's rank, node and GPU. ``gpu``: the track that stands for its GPU in this object's
            tables; ``process``: the run's process that it is of; both None where that is not known. A GPU that can't be
            told from others gets no node."""
            own: Gpu | None = None if gpu is None or gpu not in self.of else gpus[self.of[gpu]]
            track = track if process is None else track._replace(rank=process.rank)
            if own is not None:
                return track._replace(node=own.node, device=own.device_index, uuid=own.uuid)
            if gpu is not None and process in self._numbered:
                return track._replace(node=None)  # not to be called like another
            return track._replace(node=(process and process.node) or track.node)

        tracks = tuple(map(rename_track, self._timeline.tracks, self._gpu_of, self._ranks))
        origin: Literal["unix", "by comparison"] = "unix" if clock in ("unix", "boot") else "by comparison"
        firsts = {gpu: tracks[at] for at, gpu in reversed(list(enumerate(self._gpu_of))) if gpu is not None}
        self.of = {firsts[gpu]: position for gpu, position in self.of.items()}
        return replace(timeline, clock=Clock(0, origin, timeline.clock.error_ns), tracks=tracks)


def _plain(uuid: str) -> str:
    return uuid.lower().removeprefix("gpu-").replace("-", "")
