"""The traces attached to a recording: files in the folder ``NAME.traces`` beside it, as its table ``traces`` has noted them.

A recording may come from anybody, and so may the folder: only regular files below it are read, no link is followed, and
only where they are as they were noted.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from errno import ELOOP, ENOTDIR

from gssr.recognise import TRACES, recognise
from gssr.store.disk import open_below, traces_beside
from gssr.store.format.rows import AttachedTrace
from gssr.traces.open import open_traces
from gssr.traces.timeline import Timeline, TraceError

_SLACK = 2.0
"""Filesystems and archives keep times of files to 1 s or 2 s only: such a difference is none, s."""
_REPORT = "nsys-rep"


def to_open(rows: Sequence[AttachedTrace]) -> list[AttachedTrace]:
    """Return the rows without reports of Nsight Systems (.nsys-rep) whose SQLite export is attached as well."""
    made = {os.path.splitext(row.path)[0] for row in rows if row.format == "nsys"}
    return [row for row in rows if row.format != _REPORT or os.path.splitext(row.path)[0] not in made]


def open_attached(recording: str, rows: Iterable[AttachedTrace]) -> Iterator[tuple[AttachedTrace, Timeline | str]]:
    """Open the attached traces of a recording one by one, each only when the next item is taken. ``rows`` are rows of
    its table of traces. Yields each row with the timeline, which begins at the trace's own start, or with a sentence
    that names the file and says why it can't be read. Never raises for a file that is missing, changed, or no trace."""
    folder = traces_beside(recording)
    for row in to_open(list(rows)):
        yield row, _opened(folder, row)


def _opened(folder: str, row: AttachedTrace) -> Timeline | str:
    """Open one attached trace. Returns its timeline, or a sentence on why it cannot be read."""
    path = f"{folder}/{row.path}"
    try:
        problem = _problem(folder, row)
        if problem is None:
            found = recognise(path)
            if found.kind not in TRACES:
                return f"{path}: {found.no_trace}"
            timeline = next(open_traces([path]).timelines())
            problem = _problem(folder, row)  # what was read is still what was looked at
        return problem or _of_rank(timeline, row)
    except TraceError as error:
        return str(error)
    except (OSError, ValueError) as error:
        return f"{path}: can't be read: {getattr(error, 'strerror', None) or error}"


def _problem(folder: str, row: AttachedTrace) -> str | None:
    """Say in a sentence why an attached file may not be read (missing, a link, changed since it was attached); None if
    it may."""
    path = f"{folder}/{row.path}"
    try:
        for beside in _beside(folder, row):
            os.close(open_below(folder, beside))
        descriptor = open_below(folder, row.path)
    except FileNotFoundError:
        return f"{path}: is attached and not there (any more): keep the folder beside the recording"
    except OSError as error:
        link = error.errno in (ELOOP, ENOTDIR)
        why = "there is a link in the place of a file or a folder" if link else error.strerror or str(error)
        return f"{path}: is attached and not read: {why}"
    try:
        status = os.fstat(descriptor)
    finally:
        os.close(descriptor)
    if status.st_size != row.size or abs(status.st_mtime - row.mtime) > _SLACK:
        return f"{path}: has changed since it was attached, and is not read: gssr merge --attach notes it anew"
    return None


def _beside(folder: str, row: AttachedTrace) -> list[str]:
    """List the other files of a Score-P archive, relative to the folder, as libotf2 opens them by name. [] for any
    other format."""
    if row.format != "otf2":
        return []
    stem = os.path.splitext(row.path)[0]
    inside = os.path.join(folder, stem)
    events = os.listdir(inside) if os.path.isdir(inside) else []
    return [f"{stem}.def", *(f"{stem}/{name}" for name in sorted(events))]


def _of_rank(timeline: Timeline, row: AttachedTrace) -> Timeline:
    """Fill in the rank and node of a timeline's sources and tracks from its row, where the trace itself does not say
    them."""
    return replace(
        timeline,
        sources=tuple(
            one._replace(rank=row.rank if one.rank is None else one.rank, host=one.host or row.node)
            for one in timeline.sources
        ),
        tracks=tuple(
            one._replace(rank=row.rank if one.rank is None else one.rank, node=one.node or row.node)
            for one in timeline.tracks
        ),
    )
