"""Opening traces: files and folders of them, each file a rank, told by their content."""

import itertools
import os
import re
from collections import Counter as Counts
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

from gssr.launch import rank_told
from gssr.recognise import (
    DAMAGED,
    RANK_IN_NAME,
    TRACES,
    environments_in,
    is_in_columns,
    one_for_each_process,
    recognise,
    traces_in,
)
from gssr.traces.join import from_zero, join
from gssr.traces.json_events import MOST_BYTES
from gssr.traces.kineto import read_kineto
from gssr.traces.runs import RunTraits, by_run, told_by_json, why_not_one_run
from gssr.traces.timeline import Format, Kind, Timeline, TraceError, TraceSource

__all__ = ["MOST_BYTES", "TraceError", "TraceSet", "open_runs", "open_traces"]

_RANKS = re.compile(r"(\d{1,9})(?:(?:-|:|\.\.)(\d{1,9}))?")
MOST_GPUS = 1 << 14
"""Of one file: as many as the largest training jobs have together. Each takes half a millisecond to look at."""
MOST_TRACKS = 1 << 18
"""Threads and streams of one file: as many as a recording may have ranks."""
MOST_COUNTERS = 1 << 16
"""Series of one file. Each takes a tenth of a millisecond to look at."""
_ALONE = {
    "nsys": "reports of Nsight Systems",
    "rocpd": "databases of rocprofv3",
    "rocprof": "JSON or CSV of rocprofv3",
    "cube": "profiles",
    "proton": "profiles of Proton",
    "xspace": "profiles of XLA",
}
"""What is not opened together with others."""
_OF_ALL_RANKS: dict[Format, str] = {
    "cube": "is a profile of all ranks: look at it alone",
    "proton": "is a profile: look at it alone",
    "otf2": "is a trace of Score-P (OTF2), which holds all ranks of a run: name it alone",
}
"""What is not opened together with anything, and what is said of it."""
BY_PLACE = "by its place among the files: it tells none"
"""How the note of a file ends whose rank nobody knows."""


def open_traces(
    paths: Sequence[str], *, most_bytes: int | None = None, ranks: str | None = None,
    window: tuple[int | None, int | None] = (None, None),
) -> "TraceSet":  # fmt: skip
    """Open the traces of one run; see ``open_runs`` for the arguments. Raises TraceError also if the files are of
    several runs."""
    runs = open_runs(paths, most_bytes=most_bytes, ranks=ranks, window=window)
    if len(runs) > 1:
        raise TraceError(f"{runs[1].sources[0].path}: {runs[1].why_apart}")
    return runs[0]


def open_runs(
    paths: Sequence[str], *, most_bytes: int | None = None, ranks: str | None = None,
    window: tuple[int | None, int | None] = (None, None),
) -> list["TraceSet"]:  # fmt: skip
    """Open traces in files and folders, grouped by run, each run sorted by rank. Nothing is read in full yet.

    Args:
        paths: trace files, or folders with traces.
        most_bytes: how much one file may unpack to. None: MOST_BYTES, and 60 times its size.
        ranks: only these ranks, as "0-7,12"; None for all.
        window: (begin, end) in ns; only what reaches into this time must be kept (OTF2 only). None: no limit.

    Files in folders that are no traces are passed over; traces that cannot be read are named in ``TraceSet.problems``.
    Raises TraceError for a file that is no trace, for a file with all ranks of a run beside other files, and if nothing
    can be read; ValueError, with a sentence, if ``ranks`` cannot be parsed.
    """
    wanted = None if ranks is None else ranks_of(ranks)
    problems: list[str] = []
    files = one_for_each_process([file for path in paths for file in _files_of(path, problems)])
    if not files:
        raise TraceError(problems[0] if problems else "no trace is named")
    looked_at: list[tuple[TraceSource, RunTraits]] = []
    for path, kind in files:
        try:
            looked_at.append(_looked_at(path, kind, len(files) > 1, most_bytes))
        except TraceError as error:
            problems.append(str(error))
    if not looked_at:
        raise TraceError(problems[0])
    whole = next((source for source, _ in looked_at if source.format in _OF_ALL_RANKS), None)
    if whole is not None and len(looked_at) > 1:
        raise TraceError(f"{whole.path}: {_OF_ALL_RANKS[whole.format]}")
    if whole is not None and whole.format == "cube" and wanted is not None:
        raise TraceError(f"{whole.path}: is a profile of all ranks: look at it without --ranks")
    readable = [source.path for source, _ in looked_at]
    told = [own._replace(rank=source.rank) for source, own in looked_at]
    found, runs = by_run(readable, told), []
    for run in found:
        ranked = _ranked([looked_at[at][0] for at in run])
        if wanted is not None and whole is None:
            ranked = tuple(one for one in ranked if any(one.rank in each for each in wanted))
        if ranked:
            why = "" if run is found[0] else _why_apart(found[0], run[0], readable, told)
            runs.append(TraceSet(ranked, most_bytes, wanted, window, problems, _name_of(ranked, paths), why))
    if not runs:
        raise TraceError(f"{paths[0]}: --ranks {ranks}: none of these ranks is there")
    names = [run.name for run in runs]
    return [replace(run, name=run.sources[0].path) if names.count(run.name) > 1 else run for run in runs]


def _why_apart(first: Sequence[int], own: int, paths: Sequence[str], told: Sequence[RunTraits]) -> str:
    """Say in a clause why the file with index ``own`` is of another run than the files with the indices ``first``."""
    other, why = next((at, why) for at in first if (why := why_not_one_run(told[own], told[at])))
    if told[own].rank is not None and told[own].rank == told[other].rank:
        return f"is of rank {told[own].rank}, as {paths[other]} is: give one of the two"
    return f"is of another run than {paths[other]}: it {why}; open one of them"


def _name_of(sources: Sequence[TraceSource], paths: Sequence[str]) -> str:
    """Return the path, of those the user gave, that contains most of a run's files."""

    def n_within(path: str) -> int:
        return sum(f"{one.path}/".startswith(f"{path.rstrip('/')}/") for one in sources)

    return max(paths, key=n_within)


def ranks_of(text: str) -> list[range]:
    """Parse ranks such as "0-7,12" into ranges. Raises ValueError, with a sentence. A range that runs backwards is
    empty."""
    found = [_RANKS.fullmatch(word.strip()) for word in text.split(",")]
    if not all(found):
        raise ValueError(f"--ranks: {text!r} names no ranks: give numbers, as 0-7,12")
    return [range(int(each[1]), int(each[2] or each[1]) + 1) for each in found if each]


@dataclass(frozen=True, slots=True)
class TraceSet:
    """Traces of one run that are not read yet.

    ``sources``: what is known of each file, in the order of ranks. ``most_bytes``, ``ranks``, ``window``: as in
    ``open_runs``, with ranks parsed. ``problems``: sentences on traces that cannot be read, of all runs that were
    opened together; complete once all were read. ``name``: the file or folder the user gave; if it holds several runs,
    the run's first file. ``why_apart``: a clause that says why this is another run than the first one, "" for the
    first.
    """

    sources: tuple[TraceSource, ...]
    most_bytes: int | None = None
    ranks: Sequence[range] | None = None
    window: tuple[int | None, int | None] = (None, None)
    problems: list[str] = field(default_factory=list)
    name: str = ""
    why_apart: str = ""

    def timelines(self) -> Iterator[Timeline]:
        """Read the timelines one after the other, each counting from its own first interval (an OTF2 archive from the
        archive's begin). Files that cannot be read are left out, and added to ``problems``. Raises TraceError if none
        can be read."""
        for source, timeline in self._readable([]):
            yield _from_its_own_zero(source, timeline)

    def timeline(self) -> Timeline:
        """Read all files and join them into one timeline, whose times count as those of the first of ``timelines`` do where
        clocks are known: intervals of others may lie before 0. What cannot be read is in the notes of its first source.
        Raises TraceError if none can be read."""
        wrong = [] if self.why_apart else [*self.problems]  # what can't be opened is noted of the first run
        if len(self.sources) == 1:
            found = next(self.timelines())
        else:
            read = [*self._readable(wrong)]
            found, zero = join([timeline for _, timeline in read]), _from_its_own_zero(*read[0]).clock.unix_ns
            if zero is not None and found.clock.unix_ns is not None:
                found = from_zero(found, zero - found.clock.unix_ns)
        if not wrong:
            return found
        first, *others = found.sources
        return replace(found, sources=(first._replace(notes=(*dict.fromkeys(wrong), *first.notes)), *others))

    def timeline_of(self, source: TraceSource) -> Timeline:
        """Read one of the files, as ``timelines`` does. Raises TraceError."""
        return _from_its_own_zero(source, _bounded(self._read(source)))

    def lengths_of(self, source: TraceSource, kinds: Collection[Kind]) -> Iterator[Timeline]:
        """Read how long the intervals of these kinds (BUSY, RUNTIME, DRIVER, OS) in one of the files took. Yields one or
        more timelines that hold all of them together; where that saves memory, without times and tracks. Raises
        TraceError, perhaps in the end."""
        if source.format == "nsys":
            from gssr.traces.nsys import read_lengths

            yield from read_lengths(source.path, kinds)
        else:
            yield self.timeline_of(source)

    def note_problem(self, sentence: str) -> None:
        """Add a sentence on a file that can't be read to ``problems``; once, however often the file is read."""
        if sentence not in self.problems:
            self.problems.append(sentence)

    def _readable(self, wrong: list[str]) -> Iterator[tuple[TraceSource, Timeline]]:
        """Yield each source that can be read with its timeline. Sentences on the others are appended to ``wrong`` and
        to ``problems``. Raises TraceError at the end if none can be read."""
        last, n = None, 0
        for source in self.sources:
            try:
                timeline = _bounded(self._read(source))
            except TraceError as error:
                last = error
                wrong.append(str(error))
                self.note_problem(str(error))
            else:
                n += 1
                yield source, timeline
                del timeline  # before the next is read
        if last is not None and not n:
            raise last

    def _read(self, source: TraceSource) -> Timeline:
        """Read one file in full. Raises TraceError."""
        if source.format == "otf2":
            from gssr.traces.otf2.archive import read_otf2

            return _noted(read_otf2(source.path, self.ranks, self.window), source.notes)
        if source.format == "nsys":
            from gssr.traces.nsys import read_nsys

            return _noted(read_nsys(source.path, source.rank), source.notes)
        if source.format == "rocpd":
            from gssr.traces.rocpd import read_rocpd

            return _noted(read_rocpd(source.path, source.rank), source.notes)
        if source.format == "rocprof":
            from gssr.traces.rocprof import read_rocprof

            return _noted(read_rocprof(source.path, source.rank, self.most_bytes), source.notes)
        if source.format == "proton":
            from gssr.traces.proton import read_proton

            return read_proton(source.path, source.rank, self.most_bytes)
        if source.format == "xspace":
            from gssr.traces.xspace import read_xspace

            return _noted(read_xspace(source.path, source.rank, self.most_bytes), source.notes)
        if source.format == "perfetto":
            from gssr.traces.perfetto import read_perfetto

            return _noted(read_perfetto(source.path, source.rank, self.most_bytes), source.notes)
        if source.format == "cube":
            from gssr.traces.cube import read_cube

            return read_cube(source.path)
        timeline = read_kineto(source.path, self.most_bytes)
        told = timeline.sources[0].rank
        rank = source.rank if told is None or len(self.sources) > 1 else told
        notes = source.notes if rank == source.rank else ()
        sources = tuple(one._replace(rank=rank, notes=(*notes, *one.notes)) for one in timeline.sources)
        return replace(timeline, sources=sources, tracks=tuple(one._replace(rank=rank) for one in timeline.tracks))


def _from_its_own_zero(source: TraceSource, timeline: Timeline) -> Timeline:
    """Let the times of a file count from its first interval, those of an OTF2 archive from the archive's begin."""
    return from_zero(timeline, 0 if source.format == "otf2" else None)


def _bounded(timeline: Timeline) -> Timeline:
    """Return the timeline unchanged. Raises TraceError if it has more GPUs, tracks or counters than any tool writes
    into one file, as analysing it would take too long."""
    streams = (track for track in timeline.tracks if track.kind == "gpu_stream")
    gpus = {(track.rank, track.node, track.uuid or (track.pid, track.device)) for track in streams}
    for noun, n, most in (
        ("GPUs", len(gpus), MOST_GPUS), ("threads and streams", len(timeline.tracks), MOST_TRACKS),
        ("counters", len(timeline.counters), MOST_COUNTERS),
    ):  # fmt: skip
        if n > most:
            raise TraceError(
                f"{timeline.sources[0].path}: names {n:,} {noun}, and no file of a trace has more than {most:,}"
            )
    return timeline


def _noted(timeline: Timeline, notes: Sequence[str]) -> Timeline:
    own = (one._replace(notes=(*notes, *one.notes)) for one in timeline.sources)
    return replace(timeline, sources=tuple(own))


def _files_of(path: str, problems: list[str]) -> list[tuple[str, Format]]:
    """List the traces at a path with their formats. Sentences on damaged databases in a folder are appended to
    ``problems``. Raises TraceError if there is no trace."""
    if not os.path.isdir(path):
        found = recognise(path)
        if found.kind not in TRACES:
            raise TraceError(f"{path}: {found.no_trace}")
        return [(path, cast(Format, found.kind))]
    if (whole := recognise(path)).kind == "otf2":
        return [(path, "otf2")]
    if is_in_columns(path):
        return [(path, "nsys")]
    try:
        inside = traces_in(path)
    except OSError as error:
        raise TraceError(f"{path}: can't be read: {error.strerror}") from None
    problems += [f"{file}: {recognise(file).problem}" for file, kind in inside if kind == DAMAGED]
    traces = sorted(
        ((file, cast(Format, kind)) for file, kind in inside if kind != DAMAGED), key=lambda each: _by_number(each[0])
    )
    if not traces:
        raise TraceError(problems[0] if problems else f"{path}: {whole.problem or 'holds a recording, not a trace'}")
    return traces if len({kind for _, kind in traces}) < 2 else _of_most(path, traces, problems)


def _of_most(path: str, traces: Sequence[tuple[str, Format]], problems: list[str]) -> list[tuple[str, Format]]:
    """Keep the traces of a folder that can be opened together: the kind with the most files. Sentences on the others
    are appended to ``problems``. Raises TraceError if none can be opened, or two kinds have equally many."""
    traces = [each for each in traces if _can_be_opened(*each, problems)]
    if not traces:
        raise TraceError(problems[-1])
    together = Counts(kind if kind in _ALONE else "" for _, kind in traces)
    (most, n), *others = together.most_common()
    if others and others[0][1] == n:
        tools = [tool for kind, tool in _ALONE.items() if kind in together]
        raise TraceError(f"{path}: holds {' and '.join(tools)} and traces of others: name the files of one kind")
    problems += [
        f"{file}: is passed over, the folder holds more traces of another kind: name it to see it"
        for file, kind in traces
        if (kind if kind in _ALONE else "") != most
    ]
    return [(file, kind) for file, kind in traces if (kind if kind in _ALONE else "") == most]


def _can_be_opened(path: str, kind: Format, problems: list[str]) -> bool:
    """Tell whether a database can be opened as what it seems to be; if not, a sentence is appended to ``problems``.
    True for all other formats, which are not tried here."""
    try:
        if kind in _ALONE:
            _looked_at(path, kind, True, None)
    except TraceError as error:
        problems.append(str(error))
        return False
    return True


def _by_number(name: str) -> list[tuple[int, str]]:
    """Return a sort key for file names by which rank 2 comes before rank 10."""
    return [(int(digits or 0), text) for text, digits in re.findall(r"(\D*)(\d{0,18})", name)]


def _looked_at(path: str, kind: Format, has_others: bool, most_bytes: int | None) -> tuple[TraceSource, RunTraits]:
    """Look at a file of this kind before it is read in full. Returns its source, and what it says about its run.
    ``has_others``: it must be told from others, so more may be read; ``most_bytes``: how much it may unpack to. Raises
    TraceError."""
    if kind == "otf2" and os.path.isdir(path):
        beside = sorted(name for name in os.listdir(path) if name.endswith(".cubex"))
        notes = tuple(f"{name} beside it is a profile: name it to see it" for name in beside)
        return TraceSource(path, kind, notes=notes), RunTraits()
    told = RunTraits()
    if kind == "nsys" and has_others:
        from gssr.traces.nsys import told_by_report

        told = told_by_report(path)
    elif kind == "xspace" and has_others:
        from gssr.traces.xspace import told_by_xspace

        told = told_by_xspace(path, most_bytes)
    elif kind == "rocpd":
        if has_others:
            from gssr.traces.rocpd import check_rocpd

            check_rocpd(path)
        told = RunTraits(rank_told(environments_in(path))[0])
    elif kind in ("kineto", "chrome"):
        told = told_by_json(path, has_others, most_bytes)
    named = RANK_IN_NAME.search(os.path.basename(path))
    if told.rank is not None or not named or kind in _OF_ALL_RANKS:
        return TraceSource(path, kind, rank=told.rank), told
    return TraceSource(path, kind, rank=int(named[1]), notes=(f"rank {int(named[1])} by the name of the file",)), told


def _ranked(sources: Sequence[TraceSource]) -> tuple[TraceSource, ...]:
    """Sort sources by rank. Those without a rank get the lowest free ranks in their order, and a note; a single source
    stays as it is. Expects no two sources of one rank."""
    of_rank = {source.rank: source for source in sources if source.rank is not None}
    free = (rank for rank in itertools.count() if rank not in of_rank)
    if len(sources) == 1:
        return tuple(sources)
    for source, rank in zip([source for source in sources if source.rank is None], free, strict=False):
        of_rank[rank] = source._replace(rank=rank, notes=(f"rank {rank} {BY_PLACE}",))
    return tuple(of_rank[rank] for rank in sorted(of_rank))
