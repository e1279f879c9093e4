"""Merging the files of a run's ranks, ``NAME.sql.d/*.sql``, into ``NAME.sql``.

Where nothing is at ``NAME.sql`` the merged file is made under another name, verified, and then linked to its own: it is
there as a whole or not at all. Into a recording that holds other runs the files go one by one, each in a transaction with
its row in the ledger (the table ``merged``), so that it goes in once, however often a merge is killed and begun again. A
rank's file is deleted when the merged one, as it is on disk, was seen to hold it. Readers skip files that the ledger names.
"""

import os
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from typing import NamedTuple

from gssr.store.companions import COMPANIONS, beside
from gssr.store.create import create_unguarded, finished_runs, remove, reopen, seal
from gssr.store.merge.attach import clear, scratch
from gssr.store.merge.copy import Copier, HolesError, UnfitError
from gssr.store.merge.lock import Lock, acquire
from gssr.store.merge.sources import Found, Source, look
from gssr.store.merge.verify import all_full, missing_from
from gssr.store.open import RecordingError, connect, small_text
from gssr.store.private import PLANTED, is_planted
from gssr.store.records import Merged, read_merged
from gssr.store.schema import ENDED_SUFFIX

OPERATIONS = 1_000_000
"""SQLite shows that the merge is at work after so many of its operations: some tenths of a second."""

Progress = Callable[[float], None]
"""Is told the share done, 0-1."""


class BusyError(RecordingError):
    """Somebody else is merging."""


class GoneError(RecordingError):
    """There are no files of ranks (any more): perhaps somebody else has just merged them."""


class Outcome(NamedTuple):
    """``n_files`` were merged into the recording at ``path``; ``left`` says what was not, and why, in sentences; ``waiting``
    does so of runs that are still being recorded, by their ids."""

    path: str
    n_files: int
    left: tuple[str, ...]
    waiting: Mapping[str, str]


def names_of(path: str) -> tuple[str, str]:
    """``NAME.sql`` and ``NAME.sql.d`` of a recording that is named by either."""
    path = path.rstrip("/")
    if path.endswith(".d") and not os.path.isfile(path):
        path = path[:-2]
    return path, path + ".d"


def merge(path: str, patience: float = 0.0, only: str | None = None, progress: Progress = lambda _: None) -> Outcome:
    """Merge what can be merged of the recording at ``path``, either of its names, and delete the ranks' files that were.
    ``patience``: how long to wait for another merge, s. ``only``: the one run that is to be left: older ones are
    overwritten.

    Raises BusyError, GoneError, and RecordingError when nothing can be merged or written: then the ranks' files are as they
    were.
    """
    target, folder = names_of(path)
    for name in (target, folder):
        if is_planted(name):
            raise RecordingError(f"{name}: can't be merged: {PLANTED}")
    gone = GoneError(f"{folder}: no such folder: there are no files of ranks to merge")
    if not os.path.isdir(folder):
        raise gone
    try:
        try:
            lock = acquire(folder, patience)
        except FileNotFoundError:  # while we waited; on a shared filesystem its name is seen longer than it is there
            raise gone from None
        if lock is None:
            raise BusyError(f"{folder}: is being merged by another gssr")
        try:
            clear(folder)
            return _Merge(target, folder, lock, progress).run(only)
        finally:
            lock.release()
            _remove_folder(target, folder)
    except OSError as error:
        raise RecordingError(f"{target}: can't be merged: {error.strerror or error}") from None
    except sqlite3.Error as error:
        raise RecordingError(f"{target}: can't be merged: {error}") from None


class _Merge:
    def __init__(self, target: str, folder: str, lock: Lock, progress: Progress) -> None:
        self._target, self._folder = target, folder
        self._lock, self._progress = lock, progress
        self._refused: dict[str, str] = {}  # file → why
        self._holes: set[str] = set()
        self._copied: dict[str, int] = {}  # file → samples, where it is still to be verified
        self._verified: set[str] = set()

    def run(self, only: str | None) -> Outcome:
        while True:
            ledger = {row.shard: row for row in self._ledger()}
            found = look(self._folder, ledger, self._refused)
            if not found.sources:
                break
            try:
                old = self._overwritten(found, only) if only is not None else None
                if old is not None:
                    self._build([source for source in found.sources if source.run.run_id == only], old)
                elif os.path.lexists(self._target):
                    self._add(found.sources)
                else:
                    self._build(found.sources)
            except (FileExistsError, HolesError):
                pass  # somebody has just begun to record into it; or it goes another way
            except _RefusedError as error:
                self._refused[error.name] = str(error)
        if any(os.path.exists(beside(self._target, suffix)) for suffix in COMPANIONS) and found.merged:
            self._add([])  # a merge was killed before it had all of it on the disk
        n_files = self._delete_merged([ledger[name] for name in found.merged], found.left)
        return Outcome(self._target, n_files, tuple(found.left), found.waiting)

    def _ledger(self) -> list[Merged]:
        if not _has_content(self._target):
            return []
        with closing(connect(self._target)) as connection:
            return read_merged(connection)

    def _overwritten(self, found: Found, only: str) -> list[str] | None:
        """The files of older runs, which are to be overwritten; None when there are none (left). Raises TakenError when
        one is being recorded into."""
        own = [source for source in found.sources if source.run.run_id == only]
        begin = min((source.run.started_at or 0.0 for source in own), default=0.0)
        old = [
            source.path
            for source in found.sources
            if source.run.run_id != only and (source.run.started_at or 0.0) < begin
        ]
        if _has_content(self._target) and only not in finished_runs(self._target):
            old.insert(0, self._target)
        return old if own and old else None

    def _build(self, sources: list[Source], overwritten: Sequence[str] = ()) -> None:
        """Make the merged file under another name, and give it its own. Raises FileExistsError when that is taken."""
        path = scratch(self._folder, "whole")
        try:
            with closing(create_unguarded(path, sum(os.path.getsize(source.path) for source in sources))) as connection:
                copied = self._copy(connection, sources)
            _sync(path)
            with closing(connect(path)) as connection:
                ledger = {row.shard: row for row in read_merged(connection)}
                full = all_full(connection, ledger.values(), copied)
                for source in sources:
                    n = copied.get(source.name, 0)
                    missing = missing_from(connection, source.path, ledger[source.name], n, n if full else None)
                    if missing is not None:
                        raise RecordingError(f"{source.path}: can't be merged: {missing}")
                    self._lock.touch()
            self._check_lock()
            for old in overwritten:
                remove(old)
            _publish(path, self._target)
            _sync(os.path.dirname(os.path.abspath(self._target)))
        finally:
            if os.path.exists(path):
                os.unlink(path)
        self._verified.update(ledger)

    def _add(self, sources: list[Source]) -> None:
        """Add to the recording that is there."""
        if _has_content(self._target):
            finished_runs(self._target)
        connection = reopen(self._target)
        try:
            self._copied |= self._copy(connection, sources)
        finally:
            seal(connection)
        for path in (self._target, beside(self._target, "-wal")):  # which stays where a reader has it open
            if os.path.exists(path):
                _sync(path)

    def _copy(self, connection: sqlite3.Connection, sources: list[Source]) -> dict[str, int]:
        """Copy the files; how many samples each has."""
        connection.set_progress_handler(self._lock.touch, OPERATIONS)
        copier = Copier(connection, sources, self._holes)
        for done, source in enumerate(sources):
            self._progress(done / len(sources))
            self._check_lock()
            try:
                copier.add(source)
            except UnfitError as error:
                raise _RefusedError(source.name, str(error)) from None
            except sqlite3.DatabaseError as error:
                if not _damaged(source.path):
                    raise
                raise _RefusedError(source.name, f"{source.path}: is damaged: {error}") from None
        copier.end()
        self._progress(1.0)
        return copier.copied

    def _delete_merged(self, rows: Sequence[Merged], left: list[str]) -> int:
        """Delete the ranks' files that the merged one holds; how many."""
        if not rows:
            return 0
        n = 0
        with closing(connect(self._target)) as connection:
            for row in rows:
                self._check_lock()
                path = os.path.join(self._folder, row.shard)
                verified = row.shard in self._verified
                missing = None if verified else missing_from(connection, path, row, self._copied.get(row.shard))
                if missing is None:
                    remove(path)
                    n += 1
                else:
                    left.append(f"{path}: is kept: {missing}")
        return n

    def _check_lock(self) -> None:
        self._lock.touch()
        if not self._lock.held:
            raise BusyError(f"{self._folder}: is being merged by another gssr, which took over")


class _RefusedError(Exception):
    """A rank's file can't be merged."""

    def __init__(self, name: str, text: str) -> None:
        super().__init__(text)
        self.name = name


def _has_content(path: str) -> bool:
    try:
        return os.path.getsize(path) > 0
    except FileNotFoundError:
        return False


def _damaged(path: str) -> bool:
    try:
        with closing(connect(path)) as connection:
            return connection.execute("PRAGMA quick_check(1)").fetchall() != [("ok",)]
    except (RecordingError, sqlite3.DatabaseError):
        return True


def _publish(path: str, target: str) -> None:
    """Give a file its name, which must be free: FileExistsError."""
    try:
        os.link(path, target)
    except FileExistsError:
        raise
    except OSError:  # a filesystem without hard links
        if os.path.lexists(target):
            raise FileExistsError(target) from None
        os.rename(path, target)


def _sync(path: str) -> None:
    """Have the kernel write a file or a folder to the disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove_folder(target: str, folder: str) -> None:
    """Remove the signs of ranks that were merged, which may have come after their files were; and the folder when no rank's
    file is left in it."""
    try:
        names = os.listdir(folder)
        merged = finished_runs(target) if names else frozenset()
        signs = [name for name in names if name.endswith(ENDED_SUFFIX) and _run_of(name) in merged]
        for name in signs:
            os.unlink(os.path.join(folder, name))
        rest = set(names).difference(signs)
        if all(name.split(".")[0] == "run" and small_text(os.path.join(folder, name)) in merged for name in rest):
            for name in rest:
                os.unlink(os.path.join(folder, name))
            os.rmdir(folder)
    except (OSError, RecordingError):
        pass  # something is in it, or is just being recorded


def _run_of(sign: str) -> str:
    """Of which run ``RANK.RUN_ID.ended`` tells."""
    return sign.removesuffix(ENDED_SUFFIX).partition(".")[2]
