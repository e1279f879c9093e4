"""Following a recording that grows: what came since the last look, cheaply, and never in the writer's way.

On this host a long-lived connection reads past the last rowid it saw. On a filesystem shared between hosts nothing says
when pages cached here are stale, so each look opens the file afresh and is thrown away unless the file stood still
meanwhile.
"""

import math
import os
import sqlite3
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from gssr.store.disk import companion_path, fingerprint, journal_mode
from gssr.store.format.columns import columns_of, selected
from gssr.store.format.rows import RunRow
from gssr.store.read.open import RecordingError, connect
from gssr.store.read.small_tables import LOOK_COLUMNS, LOST_SECONDS, read_runs, state_in

_PROCESSES, _MOST_PROCESSES = "gpu_processes", 4096
_TRIES = 5
_STALE_SECONDS = 10.0
"""What a host has cached of a file on a shared filesystem may not fit together for so long: no damage if it did before, nor
where another host has only begun to write it."""


class News(NamedTuple):
    """What one look found. ``rows``: of ``samples`` as (gpu, time, then the columns asked for); ``more``: more are
    waiting; ``run`` and ``state``: the newest run, None without; ``event``: rowid of the newest event, 0 without any.
    ``processes``: the last of the new rows of ``gpu_processes``, each after its rowid. ``anew``: rows are from the
    beginning again, as the next ones cannot be had: it is another file, or samples were thinned."""

    rows: list[tuple[Any, ...]]
    more: bool
    run: RunRow | None
    state: str
    event: int = 0
    processes: Sequence[tuple[Any, ...]] = ()
    anew: bool = False


class Follower:
    """Follows one file, which need not exist yet. ``columns``: metric columns of ``samples``; ``from_rowid``: rows up
    to this one are known already."""

    def __init__(self, path: str, columns: Sequence[str], from_rowid: int = 0) -> None:
        self.path = path
        self.rowid = from_rowid
        """Up to where rows were handed out; give it to another Follower to go on there."""
        self._columns = list(columns)
        self._process_rowid = 0
        self._shared: bool | None = None
        self._read_at = math.inf  # monotonic, s; before that, when it was first looked at
        self._connection: sqlite3.Connection | None = None
        self._inode: tuple[int, int] | None = None
        self._last: list[float] = []  # GPU and time of the row up to which rows were handed out
        self._anew = False

    def poll(self, limit: int = 100_000) -> News:
        """Return what is new, at most ``limit`` rows. Without a file the state is ``waiting``. If the file can't be read
        just now, there are no rows, and ``more`` to come. Raises RecordingError if the file is no recording, or cannot
        be read any more."""
        problem: Exception | None = None
        self._read_at = min(self._read_at, time.monotonic())
        for _ in range(_TRIES):
            if not self._is_there():
                return News([], False, None, "waiting")
            try:
                problem, news = None, self._look_at_rest(limit)
            except FileNotFoundError:
                continue
            except (sqlite3.Error, RecordingError) as error:
                problem, news = error, None
                self.close()
            if news is not None:
                self._read_at = time.monotonic()
                if news.rows:
                    self.rowid, *self._last = news.rows[-1][:3]
                if news.processes:
                    self._process_rowid = news.processes[-1][0]
                anew, self._anew = self._anew, False
                return news._replace(rows=[row[1:] for row in news.rows], anew=anew)
            time.sleep(0.02)
        if self._shared and time.monotonic() - self._read_at < _STALE_SECONDS:
            return News([], True, None, "running")
        if isinstance(problem, sqlite3.Error):
            raise RecordingError(f"{self.path}: can't be read any more: {problem}")
        if problem is not None:
            raise problem
        return News([], True, None, "running")

    def skip_to(self, rowid: int) -> None:
        """Skip the rows up to this one, which are known already. Never goes back."""
        if rowid > self.rowid:
            self.rowid, self._last = rowid, []

    def _look_at_rest(self, limit: int) -> News | None:
        """Read what was written after the rows that were handed out already, and check that nobody wrote meanwhile.

        Returns at most ``limit`` rows of samples, the oldest first, each still after its rowid; News without rows if
        there is nothing new. A file in WAL mode is read as it is. Any other one, as on shared filesystems, is closed
        again after the look, and None is returned if it changed during the look or a transaction is under way: then look
        again. Raises OSError, sqlite3.Error, RecordingError.
        """
        if self._shared is None:
            self._shared = journal_mode(self.path) != "WAL"
        if not self._shared:
            return self._read_news(limit)
        before = fingerprint(self.path)
        try:
            news = self._read_news(limit)
        finally:
            self.close()
        after = fingerprint(self.path)
        _, (_, _, journal) = after
        # A journal means that a transaction is under way, unless whoever began it is gone.
        busy = journal > 0 and time.time() - os.stat(companion_path(self.path, "-journal")).st_mtime < LOST_SECONDS
        return None if busy or before != after else news

    def _read_news(self, limit: int) -> News:
        """Read what the file holds beyond the rows that were handed out, at most ``limit`` rows, through a connection
        that stays open. Starts from the beginning if the last row handed out is not there any more. Returns News whose
        rows each come after their rowid; without a run its state is ``running``. Raises sqlite3.Error,
        RecordingError."""
        if self._connection is None:
            self._connection = connect(self.path)
        connection = self._connection
        if self._last and self._last != list(_row(connection, self.rowid)):
            self._begin_anew()  # another file of the same name, which may even have the same inode
        columns = ", ".join(["rowid", "gpu", "time", *selected(connection, "samples", self._columns)])
        rows = connection.execute(
            f"SELECT {columns} FROM samples WHERE rowid > ? ORDER BY rowid LIMIT ?", (self.rowid, limit)
        ).fetchall()
        runs = read_runs(connection)
        run = runs[-1] if runs else None
        state = state_in(connection, run, self.path) if run else "running"
        (event,) = connection.execute("SELECT max(rowid) FROM events").fetchone()
        return News(rows, len(rows) == limit, run, state, event or 0, self._read_new_processes(connection))

    def _read_new_processes(self, connection: sqlite3.Connection) -> Sequence[tuple[Any, ...]]:
        """Read the new rows of ``gpu_processes``, the last _MOST_PROCESSES of them, oldest first and each after its
        rowid. Empty if there are none, or the file is of an earlier version without that table."""
        if not columns_of(connection, _PROCESSES):
            return ()
        columns = ", ".join(["rowid", *selected(connection, _PROCESSES, LOOK_COLUMNS)])
        query = f"SELECT {columns} FROM {_PROCESSES} WHERE rowid > ? ORDER BY rowid DESC LIMIT {_MOST_PROCESSES}"
        return connection.execute(query, (self._process_rowid,)).fetchall()[::-1]

    def _is_there(self) -> bool:
        """Tell whether the file exists and is not empty. If it was replaced by another, or is gone, what is there then
        or later is followed from its beginning."""
        try:
            status = os.stat(self.path)
        except FileNotFoundError:
            self.close()
            self.rowid = 0
            return False
        if status.st_size == 0:
            return False
        inode = (status.st_dev, status.st_ino)
        if self._inode is not None and inode != self._inode:
            self.close()
            self._begin_anew()
        self._inode = inode
        return True

    def _begin_anew(self) -> None:
        """Follow from the beginning of the file."""
        self._anew = self._anew or self.rowid > 0
        self.rowid, self._last = 0, []
        self._process_rowid = 0

    def close(self) -> None:
        """Let go of the file."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _row(connection: sqlite3.Connection, rowid: int) -> Sequence[float]:
    """Return GPU and time of a row; () if there is none."""
    return connection.execute("SELECT gpu, time FROM samples WHERE rowid = ?", (rowid,)).fetchone() or ()
