"""Traces beside a recording on the command line: those that are attached to it, and those that --attach names."""

from __future__ import annotations

import argparse
import math
import os
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING

from gssr.commands import Option

if TYPE_CHECKING:
    from gssr.model.joined.match import Match
    from gssr.store.format.rows import AttachedTrace
    from gssr.store.read.recording import RunReader
    from gssr.traces.timeline import Timeline
    from gssr.workers import Workers

ATTACH = (
    Option(
        ("--attach",),
        {
            "metavar": "TRACE", "nargs": "+", "action": "extend", "default": [],
            "help": "show these traces with the run, this time only; attached traces are always shown",
        },
    ),
    Option(
        ("--offset",),
        {
            "metavar": "S", "type": float,
            "help": "with --attach: add S seconds to the traces' times; without unix times: seconds from the run's start",
        },
    ),
)  # fmt: skip


def wrong_attach(options: argparse.Namespace, kinds: Sequence[str] = ()) -> str:
    """Say in a sentence what is wrong with --attach and --offset; "" for nothing. ``kinds``: of dumps that may stand among
    the traces."""
    from gssr.commands.inputs import traces_among

    if options.offset is not None and not options.attach:
        return f"--offset {options.offset:g}: goes with --attach"
    from gssr.recognise import DUMPS, TRACES, recognise

    there = traces_among(options.attach, (*TRACES, *kinds))
    wrong = next((name for name in options.attach if name not in there), None)
    if wrong is None:
        return ""
    found = recognise(wrong)
    no_trace = "is no trace: a recording stands before --attach, which takes all that follows"
    return f"--attach {wrong}: {found.problem or (found.no_trace if found.kind in DUMPS else no_trace)}"


DIGEST = Option(
    ("--digest",),
    {
        "action": "store_true",
        "help": "keep a summary of its traces in the recording, so that gssr analyze need not read them",
    },
)


def write_digests(
    recording: str,
    progress: Callable[[float], None] = lambda _: None,
    until: float = math.inf,
    most: int | None = None,
    workers: Workers | None = None,
) -> tuple[int, list[str]]:
    """Read the traces attached to a recording that have no digest, and write their digests into it.

    Args:
        recording: one file, which no process has open.
        progress: gets the share done, 0-1.
        until: time.monotonic at which no further trace is begun.
        most: only traces that are a rank's own, and of at most so many bytes; None: all.
        workers: who reads the traces; None: this process.

    Returns:
        How many were digested, and of others sentences that say why not.

    Raises:
        RecordingError: the recording can't be read or written.
    """
    from gssr.store.read.recording import open_recording
    from gssr.store.write.create import finished_runs
    from gssr.traces.attach import attach
    from gssr.traces.attached import to_open

    finished_runs(recording)
    with closing(open_recording(recording)) as opened:
        runs = enumerate(opened.runs)
        every = [(number, row) for number, run in runs for row in to_open(run.traces()) if row.digest is None]
    wanted = [each for each in every if most is None or (each[1].node is not None and each[1].size <= most)]
    digest_each = partial(_digest_each, recording=recording)
    found = digest_each(wanted) if workers is None else workers.map(digest_each, wanted, partial(_killed, recording))
    rows, refused = [], []
    for place, (_, row) in enumerate(wanted):
        if time.monotonic() > until:
            break
        progress(place / len(wanted))
        digests, why_not = next(found)
        refused += why_not
        rows += [row._replace(digest=text) for text in digests]
    found.close()
    attach(recording, rows)
    return len(rows), refused


def _digest_each(wanted: Sequence[tuple[int, AttachedTrace]], recording: str) -> Generator[tuple[list[str], list[str]]]:
    """Digest traces that are attached to a recording, each given by the number of its run and its row. Yields of each its
    digest, in a list, and the reasons why there is none: one of the two is empty."""
    from gssr.model.joined.digest import digest_of
    from gssr.model.joined.explain import explain_window
    from gssr.store.read.recording import open_recording
    from gssr.store.read.time_window import Window

    with closing(open_recording(recording)) as opened:
        for number, row in wanted:
            run, digests, refused = opened.runs[number], list[str](), list[str]()
            for match in laid_over(run, recording, rows=[row]):
                if isinstance(match, str):
                    refused.append(match)
                    continue
                found = explain_window(match, range(len(run.gpus)), Window())
                text = None if found is None else digest_of(found, run.gpus)
                if text is None:
                    refused.append(f"{match.path}: holds nothing of the run of which a summary could be kept")
                else:
                    digests.append(text)
            yield digests, refused


def _killed(recording: str, wanted: tuple[int, AttachedTrace]) -> tuple[list[str], list[str]]:
    """Return what is said of a trace that no worker has survived, as ``_digest_each`` does."""
    from gssr.store.disk import traces_beside

    return [], [f"{traces_beside(recording)}/{wanted[1].path}: the process that read it died"]


def laid_over(
    reader: RunReader,
    recording: str,
    attach: Sequence[str] = (),
    offset: float | None = None,
    rows: Sequence[AttachedTrace] | None = None,
) -> Iterator[Match | str]:
    """Yield the traces of a run, laid over it, one after the other; a sentence in place of each that can't be.

    Args:
        reader: the run.
        recording: its recording's path.
        attach: further traces, which need not be attached to it.
        offset: s to add to the times of these; None: as they are.
        rows: of the traces attached to the run, those that are wanted; None: all.
    """
    from gssr.model.joined.match import matched

    for path, timeline, shift in _timelines(reader, recording, attach, offset, rows):
        if timeline is None:
            yield path
            continue
        try:
            yield matched(reader, timeline, shift)
        except ValueError as error:
            yield f"{path}: not joined to the run: {error}"


def _timelines(
    reader: RunReader,
    recording: str,
    attach: Sequence[str],
    offset: float | None,
    wanted: Sequence[AttachedTrace] | None,
) -> Iterator[tuple[str, Timeline | None, float | None]]:
    """Yield (path, timeline, offset) of each trace; (a sentence, None, offset) in place of one that can't be read.

    The arguments are those of ``laid_over``. A trace of ``attach`` that is attached to the run anyway does not come
    twice.
    """
    from gssr.store.disk import traces_beside
    from gssr.traces.open import TraceError, open_traces

    every = reader.traces()
    rows = every if wanted is None else wanted
    left = (os.path.join(traces_beside(recording), row.path) for row in every if attach and row not in rows)
    there = [path for path in left if os.path.exists(path)]
    if rows:
        from gssr.traces.attached import open_attached

        for row, opened in open_attached(recording, rows):
            if isinstance(opened, str):
                yield opened, None, None
            else:
                there.append(opened.sources[0].path)
                yield row.path, opened, None
    for path in attach:
        try:
            for timeline in open_traces([path]).timelines():
                own = timeline.sources[0].path
                if not any(os.path.samefile(own, other) for other in there):
                    yield own, timeline, offset
        except (TraceError, OSError) as error:
            yield str(error), None, offset
