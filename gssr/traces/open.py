"""Opening traces: files and folders of them, each file a rank, told by their content."""

import itertools
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import cast

from gssr.recognise import TRACES, recognise
from gssr.traces.join import from_zero, join
from gssr.traces.json_events import MOST_BYTES, PIECE, Pieces
from gssr.traces.kineto import read_kineto
from gssr.traces.timeline import Format, Source, Timeline, TraceError

__all__ = ["MOST_BYTES", "TraceError", "Traces", "open_traces"]

_IN_NAME = re.compile(r"rank[-_]?(\d{1,9})(?!\d)", re.IGNORECASE)
_RANK = re.compile(rb'"distributedInfo"\s*:\s*\{[^{}]{0,2000}?"rank"\s*:\s*(\d{1,9})\b')
_OVERLAP = 4096
_MOST_FILES = 100_000


def open_traces(paths: Sequence[str], *, most_bytes: int | None = None) -> "Traces":
    """The traces in these files and folders, in order of their ranks. ``most_bytes``: what one file may unpack to; None:
    MOST_BYTES, and 200 times its size. Of folders what is no trace is passed over. Raises TraceError for a file that is
    none, and for two of one rank."""
    files = [file for path in paths for file in _files_of(path)]
    if not files:
        raise TraceError("no trace is named")
    sources = [_looked_at(path, kind, len(files) > 1, most_bytes) for path, kind in files]
    return Traces(_ranked(sources), most_bytes)


@dataclass(frozen=True, slots=True)
class Traces:
    """Traces of one run, not yet read. ``sources``: what is known of each before that, in order of their ranks."""

    sources: tuple[Source, ...]
    most_bytes: int | None = None

    def timelines(self) -> Iterator[Timeline]:
        """One after the other, each from its own first beginning on. Raises TraceError."""
        for source in self.sources:
            yield from_zero(self._read(source))

    def timeline(self) -> Timeline:
        """All of them as one. Raises TraceError."""
        return join([self._read(source) for source in self.sources])

    def _read(self, source: Source) -> Timeline:
        if source.format == "nsys":
            from gssr.traces.nsys import read_nsys

            timeline = read_nsys(source.path, source.rank)
            own = (one._replace(notes=(*source.notes, *one.notes)) for one in timeline.sources)
            return replace(timeline, sources=tuple(own))
        timeline = read_kineto(source.path, self.most_bytes)
        told = timeline.sources[0].rank
        rank = source.rank if told is None or len(self.sources) > 1 else told
        notes = source.notes if rank == source.rank else ()
        sources = tuple(one._replace(rank=rank, notes=(*notes, *one.notes)) for one in timeline.sources)
        return replace(timeline, sources=sources, tracks=tuple(one._replace(rank=rank) for one in timeline.tracks))


def _files_of(path: str) -> list[tuple[str, Format]]:
    """The traces at a path, and what they are."""
    if not os.path.isdir(path):
        found = recognise(path)
        if found.kind not in TRACES:
            raise TraceError(f"{path}: {found.problem or 'is a recording, not a trace'}")
        return [(path, cast(Format, found.kind))]
    try:
        names = sorted(os.listdir(path), key=_by_number)[:_MOST_FILES]
    except OSError as error:
        raise TraceError(f"{path}: can't be read: {error.strerror}") from None
    inside = [os.path.join(path, name) for name in names if not name.startswith(".")]
    kinds = [(file, recognise(file)) for file in inside if os.path.isfile(file)]
    traces = [(file, cast(Format, found.kind)) for file, found in kinds if found.kind in TRACES]
    if not traces:
        raise TraceError(f"{path}: {recognise(path).problem or 'holds a recording, not a trace'}")
    if len({kind == "nsys" for _, kind in traces}) > 1:
        raise TraceError(f"{path}: holds reports of Nsight Systems and traces of others: name the files of one kind")
    return traces


def _by_number(name: str) -> list[tuple[int, str]]:
    """So that rank 2 is before rank 10."""
    return [(int(digits or 0), text) for text, digits in re.findall(r"(\D*)(\d{0,18})", name)]


def _looked_at(path: str, kind: Format, has_others: bool, most_bytes: int | None) -> Source:
    """What is known of a file before it is read."""
    if kind == "nsys":
        from gssr.traces.nsys import rank_of

        rank = rank_of(path) if has_others else None
    else:
        rank = _rank_in(path, has_others, most_bytes)
    named = _IN_NAME.search(os.path.basename(path))
    if rank is not None or not named:
        return Source(path, kind, rank=rank)
    return Source(path, kind, rank=int(named[1]), notes=(f"rank {int(named[1])} by the name of the file",))


def _rank_in(path: str, has_others: bool, most_bytes: int | None) -> int | None:
    """As torch.profiler writes it, before the events or behind them. A packed file must be unpacked to its end for that:
    only where it is to be told from others."""
    pieces = Pieces(path, most_bytes)
    text = b""
    for number, piece in enumerate(pieces):
        text = text[-_OVERLAP:] + piece
        if found := _RANK.search(text):
            return int(found[1])
        if number == 0 and not pieces.is_packed:
            found = _RANK.search(_end_of(path))
            return int(found[1]) if found else None
        if not has_others:
            break
    return None


def _end_of(path: str) -> bytes:
    with open(path, "rb") as stream:
        stream.seek(max(0, os.fstat(stream.fileno()).st_size - PIECE))
        return stream.read()


def _ranked(sources: Sequence[Source]) -> tuple[Source, ...]:
    """In order of their ranks; those that tell none get what is free, in the order in which they are named."""
    of_rank: dict[int, Source] = {}
    for source in sources:
        if source.rank is None:
            continue
        if source.rank in of_rank:
            first = of_rank[source.rank].path
            raise TraceError(f"{source.path}: is of rank {source.rank}, as {first} is: give one of the two")
        of_rank[source.rank] = source
    free = (rank for rank in itertools.count() if rank not in of_rank)
    if len(sources) == 1:
        return tuple(sources)
    for source, rank in zip([source for source in sources if source.rank is None], free, strict=False):
        of_rank[rank] = source._replace(rank=rank, notes=(f"rank {rank} by its place among the files: it tells none",))
    return tuple(of_rank[rank] for rank in sorted(of_rank))
