"""Reading the figures of many recordings, by several processes where there are many of them. What can't be read is told and
never stops the rest."""

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing
from multiprocessing import get_context
from typing import NamedTuple

from gssr.model.fleet.figures import RunFigures, figures
from gssr.model.verdicts.rules import TABLE
from gssr.model.verdicts.table import Table
from gssr.model.window import extent
from gssr.store.read.open import RecordingError
from gssr.store.read.recording import open_recording

MOST_PROCESSES = 16
PER_PROCESS = 25
"""Another process pays from so many recordings on."""
_AT_ONCE = 8


class Request(NamedTuple):
    """What to read of every recording: runs that began at ``since`` (unix s) or later, None for all; whether to judge them,
    and by which rules."""

    since: float | None = None
    verdicts: bool = False
    rules: Table = TABLE


ALL = Request()


class Fleet(NamedTuple):
    """``runs``, each once, in the order of the recordings; how many recordings were looked into; sentences about what could
    not be read; ``copies``: recordings of which a run was read elsewhere already."""

    runs: tuple[RunFigures, ...]
    n_recordings: int
    unreadable: tuple[str, ...]
    copies: tuple[str, ...]


class _Read(NamedTuple):
    runs: list[RunFigures]
    problem: str | None


def read_fleet(
    names: Sequence[str], request: Request = ALL, progress: Callable[[float], None] = lambda _: None
) -> Fleet:
    """The figures of every run of these recordings. ``progress`` is told the share done, 0-1."""
    runs: dict[tuple[str, float | None], RunFigures] = {}
    unreadable: list[str] = []
    copies: dict[str, None] = {}
    for done, (name, read) in enumerate(zip(names, _all(names, request), strict=True)):
        for run in read.runs:
            if runs.setdefault((run.run_id, run.started_at), run) is not run:
                copies[name] = None
        unreadable += [read.problem] if read.problem else []
        progress((done + 1) / len(names))
    return Fleet(tuple(runs.values()), len(names), tuple(unreadable), tuple(copies))


def _all(names: Sequence[str], request: Request) -> Iterator[_Read]:
    """Of each recording, in their order."""
    n = min(len(os.sched_getaffinity(0)), MOST_PROCESSES, len(names) // PER_PROCESS)
    done = 0
    try:
        if n > 1:
            with _pool(n) as pool:
                for read in pool.map(_read, names, [request] * len(names), chunksize=_AT_ONCE):
                    done += 1
                    yield read
        else:
            yield from (_read(name, request) for name in names)
            return
    except BrokenProcessPool:
        yield from _one_by_one(names[done:], request)


def _one_by_one(names: Sequence[str], request: Request) -> Iterator[_Read]:
    """The same where one of them kills the process that reads it."""
    for name in names:
        with _pool(1) as pool:
            try:
                read = pool.submit(_read, name, request).result()
            except BrokenProcessPool:
                read = _Read([], f"{name}: the process that read it died")
        yield read


def _pool(n: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(n, get_context("fork"), initializer=_leave_interrupts_to_the_parent)


def _leave_interrupts_to_the_parent() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _read(name: str, request: Request) -> _Read:
    runs: list[RunFigures] = []
    try:
        with closing(open_recording(name)) as recording:
            readers = [own for own in recording.runs if request.since is None or extent(own)[0] >= request.since]
            runs += (figures(reader, name, request.verdicts, request.rules) for reader in readers)
            return _Read(runs, recording.damage)
    except RecordingError as error:
        return _Read(runs, str(error))
    except OSError as error:
        return _Read(runs, f"{name}: can't be read: {error.strerror}")
    except Exception as error:  # one strange file among thousands
        return _Read(runs, f"{name}: can't be read: {error!r}")
