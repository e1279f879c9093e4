"""A loss of power at every page in turn: of a small recording that is being written, the file, its write-ahead log or its
journal ends at each boundary of their pages, and within some.

What SQLite has had written to the disk stays there: it waits for the journal before it changes the file, and for the log
before it copies it into the file. So what a loss of power may cut off is the log behind the last checkpoint, a journal
whose transaction has not touched the file yet, and what a transaction has appended to the file. There nothing is lost that
was on the disk, and no word is said of damage. Everything else is cut off as well: then readers show what is left, or say
a sentence.
"""

import os
import random
import re
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from gssr.store.read.open import RecordingError
from gssr.store.read.recording import open_recording
from gssr.store.write.writer import CHECKPOINT_SECONDS, COMMIT_SECONDS
from tests.faults.tried import Fault, Seen
from tests.faults.tried.job import in_words
from tests.fuzz.readers.recordings import command
from tests.fuzz.readers.seeds import record, workshop

PAGE_SIZES = (4096, 16384)
"""Of a recording, and of one that was merged from many ranks' files and is added to."""
_N_TICKS = 44
_LOG_HEAD, _FRAME_HEAD = 32, 24
_WITHIN = (0.01, 0.5)
"""Every eighth page is cut off here as well."""
Rows = NDArray[np.float64]


class Outage(NamedTuple):
    """A recording at the moment of the loss: the file at ``path``, and beside it a log or a journal called ``beside``.
    ``earlier`` is the file before the transaction that was under way, None where there was none. ``committed`` are its rows
    [n, 3], (GPU, time, SM active), and the first ``synced`` of them were on the disk for good."""

    path: Path
    beside: str
    earlier: Path | None
    committed: Rows
    synced: int


class Cut(NamedTuple):
    """``name`` ends after ``at`` bytes. ``possible``: a loss of power can do that. ``earlier``: the file itself was not
    touched yet."""

    name: str
    at: int
    possible: bool
    earlier: bool = False


def _recorded(path: Path, mode: str, page_size: int) -> None:
    """A run that is being recorded into a file in which another one has ended."""
    record(path, "r0", n_ticks=8)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(f"PRAGMA page_size={page_size}")
        connection.execute("VACUUM")
    with patch("gssr.store.write.create.journal_mode", lambda _: mode):
        writer = record(path, "r1", append=True, ended=False, n_ticks=_N_TICKS)
    for suffix in ("", "-wal", "-journal"):
        if os.path.exists(f"{path}{suffix}"):
            shutil.copyfile(f"{path}{suffix}", f"{path}{suffix}.left")
    writer._connection.close()
    for left in path.parent.glob("*.left"):
        left.replace(left.with_suffix(""))


@cache
def log_cut(page_size: int) -> Outage:
    """One that is written by way of a write-ahead log, as on a local disk."""
    folder = workshop() / f"log-{page_size}"
    folder.mkdir()
    path = folder / "run.sql"
    _recorded(path, "WAL", page_size)
    alone = folder / "alone.sql"
    shutil.copyfile(path, alone)
    synced = len(rows_of(alone))
    alone.unlink()
    return Outage(path, "run.sql-wal", None, rows_of(path), synced)


@cache
def journal_cut(page_size: int) -> Outage:
    """One that is written by way of a journal, as on a filesystem shared between hosts, within a transaction that changes
    and appends more pages than SQLite holds in memory."""
    folder = workshop() / f"journal-{page_size}"
    folder.mkdir()
    path, earlier = folder / "run.sql", folder / "earlier"
    _recorded(path, "TRUNCATE", page_size)
    committed = rows_of(path)
    shutil.copyfile(path, earlier)
    pid = os.fork()
    if pid == 0:
        try:
            connection = sqlite3.connect(path, isolation_level=None)
            connection.execute("PRAGMA cache_size=1")
            connection.execute("PRAGMA synchronous=NORMAL")
            connection.execute("BEGIN IMMEDIATE")
            for _ in range(1 + page_size // 4096):
                connection.execute("INSERT INTO samples SELECT * FROM samples ORDER BY rowid LIMIT 60")
            connection.execute("UPDATE samples SET sm_active = 0.25")
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
    return Outage(path, "run.sql-journal", earlier, committed, len(committed))


def rows_of(path: Path) -> Rows:
    """All rows of the run that was being recorded. Raises RecordingError."""
    with closing(open_recording(path)) as recording:
        for run in recording.runs:
            if run.run.run_id == "r1":
                found = run.samples(["sm_active"])
                return np.column_stack([found.gpu, found.time, found.values["sm_active"]])
    return np.empty((0, 3))


def cuts_of(outage: Outage) -> Iterator[Cut]:
    """Every boundary, and some places between them."""
    page_size = int.from_bytes(outage.path.read_bytes()[16:18], "big")
    size = outage.path.stat().st_size
    before = outage.earlier.stat().st_size if outage.earlier else size
    for at in _places(0, page_size, size):
        yield Cut("run.sql", at, possible=before <= at)
    beside = outage.path.with_name(outage.beside).stat().st_size
    if outage.earlier is None:
        for at in _places(_LOG_HEAD, page_size + _FRAME_HEAD, beside):
            yield Cut(outage.beside, at, possible=True)
        return
    for at in _places(512, page_size + 8, beside):
        yield Cut(outage.beside, at, possible=True, earlier=True)
        yield Cut(outage.beside, at, possible=False)


def _places(head: int, step: int, size: int) -> Iterator[int]:
    yield 0
    for number, at in enumerate(range(head or step, size + 1, step)):
        yield at
        for part in _WITHIN if number % 8 == 0 else ():
            if at + int(part * step) < size:
                yield at + int(part * step)


def lose_power(outage: Outage, cut: Cut, folder: Path) -> Seen:
    """Cut it off, and look at what is left. Lost is what lies between the last sample that was committed and the last one
    that is left, where a loss of power can do that."""
    shutil.copyfile(outage.earlier if cut.earlier and outage.earlier else outage.path, folder / "run.sql")
    shutil.copyfile(outage.path.with_name(outage.beside), folder / outage.beside)
    os.truncate(folder / cut.name, cut.at)
    said = command(["analyze", str(folder / "run.sql")])
    try:
        left = rows_of(folder / "run.sql")
    except RecordingError:
        left = np.empty((0, 3))
    whole = outage.committed
    lost = float(whole[-1, 1] - left[-1, 1]) if len(left) else None
    if not cut.possible:
        lines = [re.sub(r"is (damaged|cut off).*", r"is \1", line.removeprefix("gssr: ")) for line in said.splitlines()]
        return Seen(None, in_words(lines, folder))
    problem = None
    if len(left) < outage.synced or not np.array_equal(left, whole[: len(left)]):
        problem = f"{cut}: {len(left)} rows are left of {outage.synced} on the disk"
    elif said:
        problem = f"{cut}: said {said!r}"
    elif lost is None or lost > (COMMIT_SECONDS if outage.earlier else CHECKPOINT_SECONDS + COMMIT_SECONDS):
        problem = f"{cut}: {lost} s of samples were lost"
    return Seen(lost, "", problem)


def _cases(make: Callable[[int], Outage]) -> tuple[Callable[[Path], Seen], ...]:
    outages = [make(page_size) for page_size in PAGE_SIZES]
    return tuple(partial(lose_power, outage, cut) for outage in outages for cut in cuts_of(outage))


def _any_of(make: Callable[[int], Outage]) -> Callable[[Path, random.Random], Seen]:
    return lambda folder, rng: rng.choice(_cases(make))(folder)


FAULTS: tuple[Fault, ...] = (
    Fault(
        "power-loss-log",
        "the recording or its write-ahead log cut off at every page in turn, pages of 4 and 16 KiB",
        _any_of(log_cut),
        partial(_cases, log_cut),
    ),
    Fault(
        "power-loss-journal",
        "the recording or its rollback journal cut off at every page in turn, pages of 4 and 16 KiB",
        _any_of(journal_cut),
        partial(_cases, journal_cut),
    ),
)
