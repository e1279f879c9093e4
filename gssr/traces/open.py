"""Opening traces: files and folders of them, each file a rank, told by their content."""

import itertools
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import cast

from gssr.launch import rank_told
from gssr.recognise import RANK_IN_NAME, TRACES, environments_in, recognise, traces_in
from gssr.traces.join import from_zero, join
from gssr.traces.json_events import MOST_BYTES
from gssr.traces.kineto import read_kineto
from gssr.traces.runs import Told, apart, by_run, told_by_json
from gssr.traces.timeline import Format, Source, Timeline, TraceError

__all__ = ["MOST_BYTES", "TraceError", "Traces", "open_runs", "open_traces"]

_RANKS = re.compile(r"(\d{1,9})(?:(?:-|:|\.\.)(\d{1,9}))?")
_ALONE = {"nsys": "reports of Nsight Systems", "rocpd": "databases of rocprofv3"}
"""What is not opened together with others."""
_OF_ALL_RANKS: dict[Format, str] = {
    "cube": "is a profile of all ranks: look at it alone",
    "otf2": "is a trace of Score-P (OTF2), which holds all ranks of a run: name it alone",
}
"""What is not opened together with anything, and what is said of it."""
BY_PLACE = "by its place among the files: it tells none"
"""How the note of a file ends whose rank nobody knows."""


def open_traces(
    paths: Sequence[str], *, most_bytes: int | None = None, ranks: str | None = None,
    window: tuple[int | None, int | None] = (None, None),
) -> "Traces":  # fmt: skip
    """Open the traces of one run. See ``open_runs``; raises TraceError for those of several, too."""
    runs = open_runs(paths, most_bytes=most_bytes, ranks=ranks, window=window)
    if len(runs) > 1:
        raise TraceError(f"{runs[1].sources[0].path}: {runs[1].why_apart}")
    return runs[0]


def open_runs(
    paths: Sequence[str], *, most_bytes: int | None = None, ranks: str | None = None,
    window: tuple[int | None, int | None] = (None, None),
) -> list["Traces"]:  # fmt: skip
    """The traces in these files and folders, run by run, each in order of its ranks. ``most_bytes``: what one file may
    unpack to; None: MOST_BYTES, and 200 times its size. ``ranks``: only these are read, as "0-7,12"; ``window``: no more
    need be kept than what reaches into this time, ns. Of folders what is no trace is passed over. Raises TraceError for a
    file that is none, and for what holds all ranks of a run beside others; ValueError, a sentence, for ranks that are
    none."""
    wanted = None if ranks is None else ranks_of(ranks)
    files = [file for path in paths for file in _files_of(path)]
    if not files:
        raise TraceError("no trace is named")
    whole = next(((path, kind) for path, kind in files if kind in _OF_ALL_RANKS), None)
    if whole is not None and len(files) > 1:
        raise TraceError(f"{whole[0]}: {_OF_ALL_RANKS[whole[1]]}")
    if whole is not None and whole[1] == "cube" and wanted is not None:
        raise TraceError(f"{whole[0]}: is a profile of all ranks: look at it without --ranks")
    looked_at = [_looked_at(path, kind, len(files) > 1, most_bytes) for path, kind in files]
    told = [own._replace(rank=source.rank) for source, own in looked_at]
    found, runs = by_run([path for path, _ in files], told), []
    for run in found:
        ranked = _ranked([looked_at[at][0] for at in run])
        if wanted is not None and whole is None:
            ranked = tuple(one for one in ranked if any(one.rank in each for each in wanted))
        if ranked:
            why = "" if run is found[0] else _why_apart(found[0], run[0], [path for path, _ in files], told)
            runs.append(Traces(ranked, most_bytes, wanted, window, _name_of(ranked, paths), why))
    if not runs:
        raise TraceError(f"{paths[0]}: --ranks {ranks}: none of these ranks is there")
    names = [run.name for run in runs]
    return [replace(run, name=run.sources[0].path) if names.count(run.name) > 1 else run for run in runs]


def _why_apart(first: Sequence[int], own: int, paths: Sequence[str], told: Sequence[Told]) -> str:
    """A clause about a file that says why it is of another run than the ``first`` one's files."""
    other, why = next((at, why) for at in first if (why := apart(told[own], told[at])))
    if told[own].rank is not None and told[own].rank == told[other].rank:
        return f"is of rank {told[own].rank}, as {paths[other]} is: give one of the two"
    return f"is of another run than {paths[other]}: it {why}; open one of them"


def _name_of(sources: Sequence[Source], paths: Sequence[str]) -> str:
    """What was named that holds a run's files, all of them if anything does."""

    def n_within(path: str) -> int:
        return sum(f"{one.path}/".startswith(f"{path.rstrip('/')}/") for one in sources)

    return max(paths, key=n_within)


def ranks_of(text: str) -> list[range]:
    """The ranks that "0-7,12" means. Raises ValueError, a sentence."""
    found = [_RANKS.fullmatch(word.strip()) for word in text.split(",")]
    if not all(found):
        raise ValueError(f"--ranks: {text!r} names no ranks: give numbers, as 0-7,12")
    return [range(int(each[1]), int(each[2] or each[1]) + 1) for each in found if each]


@dataclass(frozen=True, slots=True)
class Traces:
    """Traces of one run, not yet read. ``sources``: what is known of each before that, in order of their ranks. ``name``:
    the file or folder that was named, and of a folder that holds several runs the first file; ``why_apart``: why they are of
    another run than the first of several."""

    sources: tuple[Source, ...]
    most_bytes: int | None = None
    ranks: Sequence[range] | None = None
    window: tuple[int | None, int | None] = (None, None)
    name: str = ""
    why_apart: str = ""

    def timelines(self) -> Iterator[Timeline]:
        """One after the other, each from its own first beginning on; an archive from where it begins, whichever part of it
        is read. Raises TraceError."""
        for source in self.sources:
            yield from_zero(self._read(source), 0 if source.format == "otf2" else None)

    def timeline(self) -> Timeline:
        """All of them as one. Raises TraceError."""
        if len(self.sources) == 1:
            return next(self.timelines())
        return join([self._read(source) for source in self.sources])

    def _read(self, source: Source) -> Timeline:
        if source.format == "otf2":
            from gssr.traces.otf2.archive import read_otf2

            return _noted(read_otf2(source.path, self.ranks, self.window), source.notes)
        if source.format == "nsys":
            from gssr.traces.nsys import read_nsys

            return _noted(read_nsys(source.path, source.rank), source.notes)
        if source.format == "rocpd":
            from gssr.traces.rocpd import read_rocpd

            return _noted(read_rocpd(source.path, source.rank), source.notes)
        if source.format == "cube":
            from gssr.traces.cube import read_cube

            return read_cube(source.path)
        timeline = read_kineto(source.path, self.most_bytes)
        told = timeline.sources[0].rank
        rank = source.rank if told is None or len(self.sources) > 1 else told
        notes = source.notes if rank == source.rank else ()
        sources = tuple(one._replace(rank=rank, notes=(*notes, *one.notes)) for one in timeline.sources)
        return replace(timeline, sources=sources, tracks=tuple(one._replace(rank=rank) for one in timeline.tracks))


def _noted(timeline: Timeline, notes: Sequence[str]) -> Timeline:
    own = (one._replace(notes=(*notes, *one.notes)) for one in timeline.sources)
    return replace(timeline, sources=tuple(own))


def _files_of(path: str) -> list[tuple[str, Format]]:
    """The traces at a path, and what they are."""
    if not os.path.isdir(path):
        found = recognise(path)
        if found.kind not in TRACES:
            raise TraceError(f"{path}: {found.problem or 'is a recording, not a trace'}")
        return [(path, cast(Format, found.kind))]
    if (whole := recognise(path)).kind == "otf2":
        return [(path, "otf2")]
    try:
        inside = traces_in(path)
    except OSError as error:
        raise TraceError(f"{path}: can't be read: {error.strerror}") from None
    traces = sorted(((file, cast(Format, kind)) for file, kind in inside), key=lambda each: _by_number(each[0]))
    if not traces:
        raise TraceError(f"{path}: {whole.problem or 'holds a recording, not a trace'}")
    tools = [tool for kind, tool in _ALONE.items() if any(kind == own for _, own in traces)]
    if tools and len({kind if kind in _ALONE else "" for _, kind in traces}) > 1:
        raise TraceError(f"{path}: holds {' and '.join(tools)} and traces of others: name the files of one kind")
    return traces


def _by_number(name: str) -> list[tuple[int, str]]:
    """So that rank 2 is before rank 10."""
    return [(int(digits or 0), text) for text, digits in re.findall(r"(\D*)(\d{0,18})", name)]


def _looked_at(path: str, kind: Format, has_others: bool, most_bytes: int | None) -> tuple[Source, Told]:
    """What is known of a file before it is read, and what it tells of its run."""
    if kind == "otf2" and os.path.isdir(path):
        beside = sorted(name for name in os.listdir(path) if name.endswith(".cubex"))
        notes = tuple(f"{name} beside it is a profile: name it to see it" for name in beside)
        return Source(path, kind, notes=notes), Told()
    told = Told()
    if kind == "nsys" and has_others:
        from gssr.traces.nsys import told_by_report

        told = told_by_report(path)
    elif kind == "rocpd":
        told = Told(rank_told(environments_in(path))[0])
    elif kind in ("kineto", "chrome"):
        told = told_by_json(path, has_others, most_bytes)
    named = RANK_IN_NAME.search(os.path.basename(path))
    if told.rank is not None or not named or kind in _OF_ALL_RANKS:
        return Source(path, kind, rank=told.rank), told
    return Source(path, kind, rank=int(named[1]), notes=(f"rank {int(named[1])} by the name of the file",)), told


def _ranked(sources: Sequence[Source]) -> tuple[Source, ...]:
    """In order of their ranks, of which each is there once; those that tell none get what is free, in the order in which
    they are named."""
    of_rank = {source.rank: source for source in sources if source.rank is not None}
    free = (rank for rank in itertools.count() if rank not in of_rank)
    if len(sources) == 1:
        return tuple(sources)
    for source, rank in zip([source for source in sources if source.rank is None], free, strict=False):
        of_rank[rank] = source._replace(rank=rank, notes=(f"rank {rank} {BY_PLACE}",))
    return tuple(of_rank[rank] for rank in sorted(of_rank))
