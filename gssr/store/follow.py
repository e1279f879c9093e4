"""Following a recording that grows: what came since the last look, cheaply, and never in the writer's way.

On this host a long-lived connection reads past the last rowid it saw. On a filesystem shared between hosts nothing says
when pages cached here are stale, so each look opens the file afresh and is thrown away unless the file stood still
meanwhile.
"""

import os
import sqlite3
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from gssr.store.filesystem import journal_mode
from gssr.store.open import RecordingError, connect, fingerprint
from gssr.store.records import Run, read_processes, read_runs, state_of

_TRIES = 5


class News(NamedTuple):
    """What one look found: rows of ``samples`` as (gpu, time, then the columns asked for), whether more are waiting, and
    how the newest run stands."""

    rows: list[tuple[Any, ...]]
    more: bool
    run: Run | None
    state: str


class Follower:
    """Follows one file, which need not exist yet. ``columns`` are metric columns of ``samples``."""

    def __init__(self, path: str, columns: Sequence[str], from_rowid: int = 0) -> None:
        self.path = path
        self.rowid = from_rowid
        """Up to where rows were handed out; give it to another Follower to go on there."""
        self._columns = list(columns)
        self._shared = journal_mode(path) != "WAL"
        self._connection: sqlite3.Connection | None = None
        self._inode: tuple[int, int] | None = None

    def poll(self, limit: int = 100_000) -> News:
        """At most ``limit`` new rows. With no file yet the state is ``waiting``. Raises RecordingError when the file is no
        recording, or has become unreadable."""
        if not self._is_there():
            return News([], False, None, "waiting")
        for attempt in range(_TRIES):
            before = fingerprint(self.path) if self._shared else None
            try:
                news = self._look(limit)
            except (sqlite3.Error, RecordingError) as error:
                self._close()
                if attempt == _TRIES - 1:
                    raise error if isinstance(error, RecordingError) else self._unreadable(error) from None
                time.sleep(0.02)
                continue
            if self._shared:
                self._close()
                after = fingerprint(self.path)
                if before != after or after.sizes[2] > 0:  # written meanwhile, or a transaction is under way
                    continue
            if news.rows:
                self.rowid = news.rows[-1][0]
            return news._replace(rows=[row[1:] for row in news.rows])
        return News([], True, None, "running")

    def close(self) -> None:
        """Let go of the file."""
        self._close()

    def _look(self, limit: int) -> News:
        if self._connection is None:
            self._connection = connect(self.path)
        connection = self._connection
        columns = ", ".join(["rowid", "gpu", "time", *self._columns])
        rows = connection.execute(
            f"SELECT {columns} FROM samples WHERE rowid > ? ORDER BY rowid LIMIT ?", (self.rowid, limit)
        ).fetchall()
        runs = read_runs(connection)
        run = runs[-1] if runs else None
        state = state_of(run, read_processes(connection, run.run_id), self.path) if run else "running"
        return News(rows, len(rows) == limit, run, state)

    def _is_there(self) -> bool:
        """Also notices a file that was replaced by another: that one is read from its beginning."""
        try:
            status = os.stat(self.path)
        except FileNotFoundError:
            self._close()
            self.rowid = 0
            return False
        if status.st_size == 0:
            return False
        inode = (status.st_dev, status.st_ino)
        if self._inode is not None and inode != self._inode:
            self._close()
            self.rowid = 0
        self._inode = inode
        return True

    def _unreadable(self, error: sqlite3.Error) -> RecordingError:
        return RecordingError(f"{self.path}: can't be read any more: {error}")

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
