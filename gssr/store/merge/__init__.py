"""Merging the files of a run's ranks, ``NAME.sql.d/*.sql``, into ``NAME.sql``.

Where nothing is at ``NAME.sql`` the merged file is made under another name, verified, and then linked to its own: it is
there as a whole or not at all. Into a recording that holds other runs the files go one by one, each in a transaction with
its row in the ledger (the table ``merged``), so that it goes in once, however often a merge is killed and begun again. A
rank's file is deleted when the merged one, as it is on disk, was seen to hold it. Readers skip files that the ledger names.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing
from typing import NamedTuple

from gssr.store.disk import COMPANIONS, PLANTED, companion_path, is_planted, remove_unused, traces_beside
from gssr.store.format.rows import Merged, RunRow
from gssr.store.format.schema import ENDED_SUFFIX
from gssr.store.merge.copy import HolesError, RefusedError, RunCopier
from gssr.store.merge.delete import delete_runs
from gssr.store.merge.lock import Lock, acquire
from gssr.store.merge.sources import RankFile, ShardsToMerge, clear, find_rank_files, scratch_path
from gssr.store.merge.verify import all_full, missing_from
from gssr.store.read.open import RecordingError, connect
from gssr.store.read.small_tables import read_merged, read_processes, read_runs
from gssr.store.write.create import (
    READERS_SECONDS,
    create_unguarded,
    finished_runs,
    remove,
    reopen,
    seal,
    seal_again,
)
from gssr.store.write.starts import started_in
from gssr.trace_requests import REQUEST

OPERATIONS = 1_000_000
"""SQLite shows that the merge is at work after so many of its operations: some tenths of a second."""

Progress = Callable[[float], None]
"""Is told the share done, 0-1."""


class NothingToMergeError(RecordingError):
    """There is nothing to do for this process: somebody else is merging, or there are no files of ranks (any more),
    because perhaps somebody else has just merged them."""


class Outcome(NamedTuple):
    """What a merge did. ``path``: the recording; ``n_files``: how many ranks' files were merged into it and deleted;
    ``left``: sentences on what was not merged; ``waiting``: by run id, why a run that is still being recorded waits;
    ``replaced``: sentences on runs that were deleted."""

    path: str
    n_files: int
    left: tuple[str, ...]
    waiting: Mapping[str, str]
    replaced: tuple[str, ...]


def names_of(path: str) -> tuple[str, str]:
    """Return ``NAME.sql`` and ``NAME.sql.d`` of a recording, given either."""
    path = path.rstrip("/")
    if path.endswith(".d") and not os.path.isfile(path):
        path = path[:-2]
    return path, path + ".d"


def merge(
    path: str,
    patience: float = 0.0,
    own: str | None = None,
    overwrite: bool = False,
    progress: Progress = lambda _: None,
) -> Outcome:
    """Merge the ranks' files of a recording as far as possible, and delete those that were merged.

    Args:
        path: either name of the recording.
        patience: how long to wait for another merge, s; a tenth of it for readers (``seal_again``).
        own: id of the run that has just ended, if this is the merge at its end; other runs are then merged only when
            they are over.
        overwrite: the run was to replace others, so sentences say which of them stay.
        progress: called with the share that is done, 0-1.

    Runs that a merged run replaces are deleted, as its first rank has written down (gssr.store.write.starts). Raises
    NothingToMergeError, and RecordingError if nothing can be merged or written; the ranks' files are unchanged then.
    """
    target, folder = names_of(path)
    for name in (target, folder):
        if is_planted(name):
            raise RecordingError(f"{name}: can't be merged: {PLANTED}")
    gone = NothingToMergeError(f"{folder}: no such folder: there are no files of ranks to merge")
    if not os.path.isdir(folder):
        raise gone
    try:
        try:
            lock = acquire(folder, patience)
        except FileNotFoundError:  # while we waited; on a shared filesystem its name is seen longer than it is there
            raise gone from None
        if lock is None:
            raise NothingToMergeError(f"{folder}: is being merged by another gssr")
        work = _Merge(target, folder, lock, progress, own, overwrite)
        try:
            clear(folder)
            outcome = work.run()
            if _has_content(target):
                seal_again(target, min(patience / 10, READERS_SECONDS))
            return outcome
        finally:
            lock.release()
            _remove_folder(target, folder, work.replaced)
    except OSError as error:
        raise RecordingError(f"{target}: can't be merged: {error.strerror or error}") from None
    except sqlite3.Error as error:
        raise RecordingError(f"{target}: can't be merged: {error}") from None


class _Merge:
    def __init__(
        self, target: str, folder: str, lock: Lock, progress: Progress, own: str | None, overwrite: bool
    ) -> None:
        self._target, self._folder = target, folder
        self._lock, self._progress = lock, progress
        self._own, self._overwrite = own, overwrite
        self._kept: dict[str, None] = {}  # what is not overwritten, in sentences
        self.replaced: dict[str, str] = {}  # ids of runs that were deleted → of the run in whose favour
        self._refused: dict[str, str] = {}  # file → why
        self._holes: set[str] = set()
        self._copied: dict[str, int] = {}  # file → samples, where it is still to be verified
        self._verified: set[str] = set()

    def run(self) -> Outcome:
        """Merge rank files as long as there are any that can be merged, then delete those that the merged recording is
        seen to hold. A file that turns out damaged is left and its reason noted. Returns what was done and what was
        left."""
        while True:
            ledger = {row.shard: row for row in self._ledger()}
            found = find_rank_files(
                self._folder, ledger, self._refused, self._own, self._ranks() if self._own else None
            )
            if not found.sources:
                break
            try:
                if self._overwrite:
                    self._tell_what_is_kept(found)
                if self._replace(found):
                    pass  # what is left is looked at anew
                elif os.path.lexists(self._target):
                    self._add(found.sources)
                else:
                    self._build(found.sources)
            except (FileExistsError, HolesError):
                pass  # somebody has just begun to record into it; or it goes another way
            except RefusedError as error:
                self._refused[error.name] = str(error)
        if any(os.path.exists(companion_path(self._target, suffix)) for suffix in COMPANIONS) and found.merged:
            self._add([])  # a merge was killed before it had all of it on the disk
        n_files = self._delete_merged([ledger[name] for name in found.merged], found.left)
        replaced = tuple(
            f"{self._target}: {run_id} is deleted: it was over when {by} began, which replaces it (-f)"
            for run_id, by in self.replaced.items()
        )
        return Outcome(self._target, n_files, (*found.left, *self._kept), found.waiting, replaced)

    def _ledger(self) -> list[Merged]:
        """List the files that the recording was merged from; [] if it does not exist yet."""
        if not _has_content(self._target):
            return []
        with closing(connect(self._target)) as connection:
            return read_merged(connection)

    def _ranks(self) -> dict[str, list[int]]:
        """Return the ranks of each run that is in the recording already, by run id."""
        if not _has_content(self._target):
            return {}
        with closing(connect(self._target)) as connection:
            return {
                run.run_id: [process.rank for process in read_processes(connection, run.run_id)]
                for run in read_runs(connection)
            }

    def _there(self) -> list[RunRow]:
        """List the runs that are in the recording already."""
        if not _has_content(self._target):
            return []
        with closing(connect(self._target)) as connection:
            return read_runs(connection)

    def _replace(self, found: ShardsToMerge) -> bool:
        """Delete the runs that runs to be merged replace. Returns True if there were any. If the recording holds
        nothing else, what replaces them takes its place at once. Raises TakenError if it is being recorded into."""
        there = {run.run_id for run in self._there()}
        replaced = self._replaced_by(found)
        old = [source for source in found.sources if source.run.run_id in replaced]
        gone = there.intersection(replaced) - found.waiting.keys()
        if not (old or gone):
            return False
        if there:
            finished_runs(self._target)
        paths = [source.path for source in old]
        if gone == there:
            new = set(replaced.values()).difference(replaced)
            sources = [source for source in found.sources if source.run.run_id in new]
            self._build(sources, [self._target, *paths] if there else paths)
        else:
            self._drop(gone)
            for path in paths:
                remove(path)
        run_ids = dict.fromkeys((*sorted(gone), *(source.run.run_id for source in old)))
        self.replaced |= {run_id: replaced[run_id] for run_id in run_ids}
        return True

    def _replaced_by(self, found: ShardsToMerge) -> dict[str, str]:
        """Find the runs that are to be deleted because a newer one replaces them (-f). Returns the id of the newer run
        by the id of each older one. A run replaces those that were over when its first rank began, and only once one of
        its files can be merged whose command really began."""
        began = {source.run.run_id for source in found.sources if source.began}
        starts = [start for start in started_in(self._folder).values() if start.run_id in began]
        return {run_id: start.run_id for start in starts for run_id in start.replaces}

    def _tell_what_is_kept(self, found: ShardsToMerge) -> None:
        """Note which runs are not overwritten, and why."""
        own = next((source.run for source in found.sources if source.run.run_id == self._own), None)
        if own is None:
            return
        replaced = self._replaced_by(found)
        for run in (*self._there(), *found.runs.values()):
            if run.run_id in found.waiting and not run.is_in_array_of(own):
                self._keep(run.run_id, "ranks of it are being recorded, ended just now, or may be about to begin")
            elif run.run_id not in (own.run_id, *replaced) and not run.is_in_array_of(own):
                self._keep(run.run_id, "it was not over yet when this run began")

    def _keep(self, run_id: str, why: str) -> None:
        self._kept[f"{self._target}: {run_id} is not overwritten: {why}"] = None

    def _drop(self, run_ids: Collection[str]) -> None:
        """Delete runs from the recording, which holds others as well."""
        connection = reopen(self._target)
        try:
            delete_runs(connection, run_ids)
        finally:
            seal(connection)

    def _build(self, sources: list[RankFile], overwritten: Sequence[str] = ()) -> None:
        """Make the merged file under another name, verify it, and give it its own name, after removing the files
        ``overwritten``. Raises FileExistsError if the name is taken."""
        path = scratch_path(self._folder, "whole")
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

    def _add(self, sources: list[RankFile]) -> None:
        """Copy rank files into the recording, which exists, seal it and have the kernel write it to the disk. With no
        files only the latter two are done. Raises as ``_copy`` does, and if somebody is recording into it."""
        if _has_content(self._target):
            finished_runs(self._target)
        connection = reopen(self._target)
        try:
            self._copied |= self._copy(connection, sources)
        finally:
            seal(connection)
        for path in (self._target, companion_path(self._target, "-wal")):  # which stays where a reader has it open
            if os.path.exists(path):
                _sync(path)

    def _copy(self, connection: sqlite3.Connection, sources: list[RankFile]) -> dict[str, int]:
        """Copy rank files into the open recording, one after the other, and report progress. Returns how many samples
        each file has, by its name. Raises RefusedError if a file is damaged, NothingToMergeError if the lock was lost."""
        connection.set_progress_handler(self._lock.touch, OPERATIONS)
        copier = RunCopier(connection, sources, self._holes)
        for done, source in enumerate(sources):
            self._progress(done / len(sources))
            self._check_lock()
            try:
                copier.add(source)
            except sqlite3.DatabaseError as error:
                if not _is_damaged(source.path):
                    raise
                raise RefusedError(source.name, f"{source.path}: is damaged: {error}") from None
        copier.end()
        self._progress(1.0)
        return copier.copied

    def _delete_merged(self, rows: Sequence[Merged], left: list[str]) -> int:
        """Delete the ranks' files that the merged one is seen to hold. Returns how many; sentences on the others are
        appended to ``left``."""
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
        """Keep the lock alive. Raises NothingToMergeError if another process has taken it over."""
        self._lock.touch()
        if not self._lock.held:
            raise NothingToMergeError(f"{self._folder}: is being merged by another gssr, which took over")


def _has_content(path: str) -> bool:
    """Tell whether a file is there and not empty. Raises OSError if it can't be looked at."""
    try:
        return os.path.getsize(path) > 0
    except FileNotFoundError:
        return False


def _is_damaged(path: str) -> bool:
    """Tell whether a file can't be opened as a recording, or does not pass SQLite's quick check."""
    try:
        with closing(connect(path)) as connection:
            return connection.execute("PRAGMA quick_check(1)").fetchall() != [("ok",)]
    except (RecordingError, sqlite3.DatabaseError):
        return True


def _publish(path: str, target: str) -> None:
    """Give a file its name. Raises FileExistsError if that is taken."""
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


def _remove_folder(target: str, folder: str, overwritten: Collection[str]) -> None:
    """Remove the signs of ranks that were merged or overwritten, which may have come after their files were, and the
    folder if no rank's file is left in it, nor word of a run that may be just beginning. Never raises."""
    try:
        names = os.listdir(folder)
        gone = finished_runs(target).union(overwritten) if names else frozenset()
        # By name, so that a rank whose own sign is there knows that what was said of its run is there as well.
        signs = [name for name in sorted(names) if name.endswith(ENDED_SUFFIX) and _run_of(name) in gone]
        for name in signs:
            os.unlink(os.path.join(folder, name))
        starts = started_in(folder)
        for name, start in starts.items():
            if start.run_id in overwritten:  # so that the next merge knows as well
                os.utime(os.path.join(folder, name), (0.0, 0.0))
        over = all(start.refused or not start.fresh or start.run_id in gone for start in starts.values())
        if over and set(names).issubset([*signs, *starts]):
            for name in starts:  # from the end, so that who looks meanwhile misses none in between
                os.unlink(os.path.join(folder, name))
            os.rmdir(folder)
            remove_unused(traces_beside(target), REQUEST)
    except (OSError, RecordingError):
        pass  # something is in it, or is just being recorded


def _run_of(sign: str) -> str:
    """Return the run id in ``RANK.RUN_ID.ended``."""
    return sign.removesuffix(ENDED_SUFFIX).partition(".")[2]
