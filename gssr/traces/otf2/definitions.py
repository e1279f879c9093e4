"""What the definitions of an OTF2 archive say: who is there, what regions are called and are for, who is in a communicator.

Numbers are those of OTF2's own lists (paradigms, roles of regions, types of locations and groups).
"""

import re
from collections import Counter as Counts
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from gssr.arrays import Ints
from gssr.traces.categories import category_of, operation_of, work_named
from gssr.traces.timeline import Category, Kind, Track, TrackKind

Rows = Mapping[str, Sequence[Sequence[Any]]]
UNDEFINED_LONG = (1 << 64) - 1
PARADIGMS = (
    "unknown", "user", "compiler", "OpenMP", "MPI", "CUDA", "measurement", "pthread", "HMPP", "OmpSs", "hardware", "GASPI",
    "UPC", "SHMEM", "Windows threads", "Qt threads", "ACE threads", "TBB", "OpenACC", "OpenCL", "MTAPI", "sampling", "none",
    "HIP", "Kokkos",
)  # fmt: skip
_MPI, _OF_MEASUREMENT = 4, 6
_MESSAGES, _FORK_JOIN, _THREADS, _OFFLOAD = (4, 11, 12, 13), (3, 9, 17, 20), (7, 14, 15, 16), (5, 8, 18, 19, 23)
_WAITING = (12, 13, 14, 15, 16, 17, 18, 22, 33)
"""Roles: critical and atomic regions, barriers, flush, ordered, waiting for tasks or threads."""
_FILE_IO, _DATA_TRANSFER, _ARTIFICIAL, _MEMORY = (27, 38), 30, 31, (35, 36, 37)
_CPU_THREAD, _STREAM = 1, 2
"""Types of locations."""
_COMM_LOCATIONS, _COMM_SELF, _GLOBAL_MEMBERS = 4, 6, 1
"""Types of groups, and the flag of those whose ranks are global."""
_IDLE, _WAIT = re.compile(r"\bidle\b", re.IGNORECASE), re.compile(r"wait|synchroni[sz]e|\bsync\b", re.IGNORECASE)
_RANK, _STREAM_NAME = re.compile(r"\bRank (\d{1,9})\b"), re.compile(r"\[(\d{1,6}|\?):(\d{1,9})\]")
_DRIVER = re.compile("cu[A-Z]")


class Region(NamedTuple):
    """A region of a program. ``paradigm``: as it is shown; ``on_thread`` and ``on_gpu``: its kind and category there;
    ``operation``: of a copy on a GPU the index in OPERATIONS, else -1."""

    name: str
    paradigm: str
    on_thread: tuple[Kind, Category]
    on_gpu: tuple[Kind, Category]
    operation: int


def _region(name: str, role: int, paradigm: int) -> Region:
    """Classify a region by its name and the numbers of its role and paradigm in OTF2."""
    text = PARADIGMS[paradigm] if paradigm < len(PARADIGMS) else "unknown"
    if role in _FILE_IO or (paradigm == _MPI and name.startswith("MPI_File_")):
        text = text if paradigm == _MPI else "io"
        on_thread = (Kind.CPU_OP if paradigm == _MPI else Kind.OS), Category.IO
    elif paradigm in _MESSAGES:
        on_thread = Kind.CPU_OP, Category.COMMUNICATION
    elif paradigm in _FORK_JOIN:
        on_thread = Kind.CPU_OP, Category.SYNC if role in _WAITING else Category.COMPUTE
    elif paradigm in _THREADS:
        on_thread = Kind.OS, category_of(Kind.OS, name.removeprefix("pthread_"))
    elif paradigm in _OFFLOAD:
        kind = Kind.DRIVER if _DRIVER.match(name) else Kind.RUNTIME
        on_thread = kind, Category.SYNC if _WAIT.search(name) else category_of(kind, name)
    elif paradigm == _OF_MEASUREMENT:
        on_thread = Kind.OVERHEAD, Category.OTHER
    elif role in _MEMORY:
        on_thread = Kind.OS, Category.OTHER
    else:
        on_thread = Kind.RANGE, Category.RANGE
    on_gpu = _on_gpu(name, role)
    return Region(name, text, on_thread, on_gpu, operation_of(name) if on_gpu[0] in (Kind.MEMCPY, Kind.MEMSET) else -1)


def _on_gpu(name: str, role: int) -> tuple[Kind, Category]:
    """Return the kind and category that a region has on a stream of a GPU."""
    if role == _ARTIFICIAL or _IDLE.search(name):  # recorded where nothing runs
        return Kind.OTHER, Category.OTHER
    kind = work_named(name)
    if role == _DATA_TRANSFER or kind != Kind.KERNEL:
        return (Kind.MEMCPY if kind == Kind.KERNEL else kind), Category.COPY
    if role in _WAITING:
        return Kind.GPU_SYNC, Category.SYNC
    return kind, category_of(kind, name)


class Otf2Metric(NamedTuple):
    """A series of values. A recorded value times ``factor`` is in ``unit``; ``grows``: values add up since the start;
    ``value_type``: number of its type in OTF2."""

    name: str
    unit: str
    factor: float
    grows: bool
    value_type: int


class Definitions:
    """The definitions of an archive. ``ids``: the numbers of its locations; ``tracks``, ``n_events`` (as the archive
    says): parallel to it; ``place_of``: the index of a location by its number. ``unix_ns``: the unix time of its begin,
    None if unknown. ``regions``, ``comms``, ``windows``: by number; ``handles``: by number, the file and the interface.
    ``contexts``: the rows of calling contexts."""

    def __init__(self, rows: Rows) -> None:
        self._strings = {int(at): str(text) for at, text in rows.get("String", ())}
        self.resolution, self.offset, self.unix_ns = self._clock(rows.get("ClockProperties", ()))
        own = rows.get("Location", ())
        self.ids: list[int] = [int(row[0]) for row in own]
        self.n_events = [int(row[3]) for row in own]
        self.place_of = {at: place for place, at in enumerate(self.ids)}
        self._groups = {int(row[0]): row for row in rows.get("Group", ())}
        self._members = {
            int(row[3]): np.array([self.place_of.get(int(at), -1) for at in row[5]] or [-1], np.int64)
            for row in self._groups.values() if row[2] == _COMM_LOCATIONS
        }  # fmt: skip
        """By paradigm the places of the locations that are its ranks."""
        self.tracks = self._tracks(rows)
        self.regions = {
            int(row[0]): _region(self.text(row[1]) or self.text(row[2]) or f"region {row[0]}", int(row[4]), int(row[5]))
            for row in rows.get("Region", ())
        }
        self.comms = {int(row[0]): row for row in rows.get("Comm", ())}
        self._inter = {int(row[0]): row for row in rows.get("InterComm", ())}
        self.windows = {int(row[0]): int(row[2]) for row in rows.get("RmaWin", ())}
        files = [*rows.get("IoRegularFile", ()), *rows.get("IoDirectory", ())]
        names = {int(row[0]): self.text(row[1]) for row in files}
        layers = {int(row[0]): self.text(row[2]) or self.text(row[1]) for row in rows.get("IoParadigm", ())}
        self.handles = {
            int(row[0]): (
                names.get(int(row[2])) or self.text(row[1]) or "(unknown file)",
                layers.get(int(row[3]), "I/O"),
            )
            for row in rows.get("IoHandle", ())
        }
        """By number of a handle its file and its interface."""
        self.contexts = rows.get("CallingContext", ())
        self._rows = rows

    def text(self, number: int) -> str:
        """Return a string by its number; "" for none."""
        return self._strings.get(int(number), "")

    @staticmethod
    def _clock(rows: Sequence[Sequence[Any]]) -> tuple[int, int, int | None]:
        """Return the ticks per second, the first tick, and the unix time of the first tick in ns, None if unknown."""
        if not rows:
            return 1_000_000_000, 0, None
        resolution, offset, _, *unix = map(int, rows[0])
        known = unix and unix[0] not in (0, UNDEFINED_LONG)
        return max(resolution, 1), offset, unix[0] if known else None

    def ns(self, ticks: "np.ndarray[Any, np.dtype[np.uint64]]") -> Ints:
        """Convert times in ticks to ns since the archive's begin, int64[n]."""
        since = (ticks - np.uint64(self.offset)).astype(np.int64)  # wraps to what is before it
        if self.resolution == 1_000_000_000:
            return since
        whole, rest = np.divmod(since, self.resolution)
        if self.resolution < 9_000_000_000:
            return np.asarray(whole * 1_000_000_000 + rest * 1_000_000_000 // self.resolution, np.int64)
        return np.asarray(whole * 1_000_000_000 + (rest * (1e9 / self.resolution)).astype(np.int64), np.int64)

    def _tracks(self, rows: Rows) -> tuple[Track, ...]:
        """Make the track of each location, with the rank of its process as far as it is known."""
        nodes = {int(row[0]): row for row in rows.get("SystemTreeNode", ())}
        groups = {int(row[0]): row for row in rows.get("LocationGroup", ())}
        rank_of_group: dict[int, int] = {}
        own = rows.get("Location", ())
        for rank, place in enumerate(self._members.get(_MPI, np.empty(0, np.int64)).tolist()):
            if place >= 0:
                rank_of_group.setdefault(int(own[place][4]), rank)
        for at, row in groups.items():
            if at not in rank_of_group and (found := _RANK.search(self.text(row[1]))):
                rank_of_group[at] = int(found[1])
        for at, row in groups.items():
            if at not in rank_of_group and len(row) > 4 and int(row[4]) in rank_of_group:  # a GPU's, of its process
                rank_of_group[at] = rank_of_group[int(row[4])]
        host = {at: self._node(nodes, int(row[3])) for at, row in groups.items()}
        tracks = []
        streams: dict[int, int] = {}
        threads = Counts(int(row[4]) for row in own if row[2] == _CPU_THREAD)
        for row in own:
            name, group = self.text(row[1]) or f"location {row[0]}", int(row[4])
            own_rank = rank_of_group.get(group)
            node = host.get(group)
            kind: TrackKind = {_CPU_THREAD: "cpu_thread", _STREAM: "gpu_stream"}.get(int(row[2]), "other")  # type: ignore[assignment]
            if kind == "gpu_stream":
                found = _STREAM_NAME.search(name)
                device = int(found[1]) if found and found[1] != "?" else 0
                nth = streams[group] = streams.get(group, -1) + 1
                tracks.append(
                    Track(kind, name, own_rank, node, group, None, device, None, int(found[2]) if found else nth)
                )
            else:
                if own_rank is not None:
                    alone = kind == "cpu_thread" and threads[group] == 1
                    name = f"rank {own_rank}" if alone else f"rank {own_rank} {name}"
                tracks.append(Track(kind, name, own_rank, node, group))
        return tuple(tracks)

    def _node(self, nodes: Mapping[int, Sequence[Any]], at: int) -> str | None:
        """Return the name of the node above the system tree node ``at``: the innermost of the class "node", else the
        innermost. None without."""
        chain: list[Sequence[Any]] = []
        while at in nodes and len(chain) < 64:
            chain.append(nodes[at])
            at = int(nodes[at][3])
        named = [row for row in chain if self.text(row[2]).lower() in ("node", "host", "compute node")]
        chosen = named[:1] or chain[:1]
        return self.text(chosen[0][1]) or None if chosen else None

    def locations_of(self, comm: int, ranks: Ints, by: Ints) -> Ints:
        """Return the locations that have these ``ranks`` in a communicator, as indices int64[n], -1 where there is
        none. ``by`` are the indices of the locations that speak of these ranks; a communicator between two groups needs
        them."""
        if comm in self._inter:
            a, b = (self._members_of(int(at)) for at in self._inter[comm][2:4])
            return np.where(np.isin(by, a), _at(b, ranks), _at(a, ranks))
        row = self.comms.get(comm)
        group = None if row is None else self._groups.get(int(row[2]))
        if group is None:
            return np.full(len(ranks), -1)
        if group[2] == _COMM_SELF:
            return np.where(ranks == 0, by, -1)
        if int(group[4]) & _GLOBAL_MEMBERS:
            return _at(self._members.get(int(group[3]), np.empty(0, np.int64)), ranks)
        return _at(self._members_of(int(group[0])), ranks)

    def _members_of(self, group: int) -> Ints:
        """Return the locations in a group as indices, in the order of their ranks; -1 for one that is not defined,
        empty for an unknown group."""
        row = self._groups.get(group)
        if row is None:
            return np.empty(0, np.int64)
        if row[2] == _COMM_LOCATIONS:
            return self._members[int(row[3])]
        every = self._members.get(int(row[3]), np.empty(0, np.int64))
        return _at(every, np.array([min(int(at), 1 << 62) for at in row[5]], np.int64))

    def size_of(self, comm: int) -> int:
        """Return the number of members of a communicator, -1 if it is not known."""
        row = self.comms.get(comm)
        group = None if row is None else self._groups.get(int(row[2]))
        if group is None:
            return -1
        return 1 if group[2] == _COMM_SELF else len(self._members_of(int(group[0]))) or -1

    def comm_name(self, comm: int) -> str:
        """Return the program's name of a communicator, or "communicator N"."""
        row = self.comms.get(comm) or self._inter.get(comm)
        return (self.text(row[1]) if row else "") or f"communicator {comm}"

    def metrics(self) -> dict[int, tuple[Otf2Metric, ...]]:
        """Return the members of each metric class or instance, by its number."""
        members = {int(row[0]): self._metric(row) for row in self._rows.get("MetricMember", ())}
        found = {
            int(row[0]): tuple(members[int(at)] for at in row[1] if int(at) in members)
            for row in self._rows.get("MetricClass", ())
        }
        for row in self._rows.get("MetricInstance", ()):
            if int(row[1]) in found:
                found[int(row[0])] = found[int(row[1])]
        return found

    def scopes(self) -> dict[int, tuple[int, str]]:
        """Find what each metric instance is about. Returns by its number the index of a track and "", or -1 and the
        name of a group or node, "" if that is unknown."""
        nodes = {int(row[0]): self.text(row[1]) for row in self._rows.get("SystemTreeNode", ())}
        groups = {int(row[0]): self.text(row[1]) for row in self._rows.get("LocationGroup", ())}
        found = {}
        for at, _, _, scope, of in (row[:5] for row in self._rows.get("MetricInstance", ())):
            if scope == 0:
                found[int(at)] = self.place_of.get(int(of), -1), ""
            else:
                found[int(at)] = -1, {1: groups, 2: nodes}.get(int(scope), {}).get(int(of), "")
        return found

    def _metric(self, row: Sequence[Any]) -> Otf2Metric:
        _, name, _, _, mode, value_type, base, exponent, unit = row[:9]
        factor = float((10 if base else 2) ** int(exponent)) if abs(int(exponent)) < 64 else 1.0
        return Otf2Metric(self.text(name), self.text(unit).replace("#", ""), factor, int(mode) == 0, int(value_type))

    def chosen(self, ranks: Iterable[range] | None) -> list[int]:
        """Return the indices of the locations of these ranks, all for None. If the program has no ranks its processes
        are counted from 0 on. May be empty."""
        if ranks is None:
            return list(range(len(self.ids)))
        wanted = list(ranks)
        processes = {pid: number for number, pid in enumerate(dict.fromkeys(track.pid for track in self.tracks))}
        numbers = [processes[track.pid] if track.rank is None else track.rank for track in self.tracks]
        return [place for place, number in enumerate(numbers) if any(number in each for each in wanted)]


def _at(values: Ints, places: Ints) -> Ints:
    """Return ``values[places]``, -1 where the index is out of range."""
    inside = (places >= 0) & (places < len(values))
    return np.where(inside, values[np.where(inside, places, 0)] if len(values) else -1, -1)
