"""What there is to merge: the ranks' files of a recording, and why some of them must wait.

Attaching a rank's file to the merged one, for reading, whatever state its writer left it in.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from typing import NamedTuple
from urllib.parse import quote

from gssr.guarded_sqlite import open_guarded
from gssr.store.disk import COMPANIONS
from gssr.store.format.columns import metric_columns
from gssr.store.format.rows import Gpu, RunRow, missing_ranks
from gssr.store.format.schema import ENDED_SUFFIX
from gssr.store.liveness import CLOCK, silent_seconds, time_in
from gssr.store.read.guard import check_rowid
from gssr.store.read.open import RecordingError, connect, missing_end
from gssr.store.read.private_copy import copy_whole, is_left
from gssr.store.read.small_tables import (
    ends_of,
    read_events,
    read_gpus,
    read_processes,
    read_runs,
    read_thinned,
    state_in,
)
from gssr.store.write.starts import ASIDE, FRESH_SECONDS

SUFFIX = ".sql"
THROUGH_SECONDS = 5.0
"""A rank has left its sign so soon after the end of its file, unless it was killed: it ends in tenths of a second."""


class RankFile(NamedTuple):
    """One rank's file. ``run``: its row as it is stored; ``first`` and ``last``: rowids of its samples, 1 and 0 if it
    has none. ``lost``: nobody wrote its end; ``thinned``: samples in between are gone; ``began``: its command was found
    and started."""

    path: str
    run: RunRow
    ranks: tuple[int, ...]
    gpus: tuple[Gpu, ...]
    metrics: tuple[str, ...]
    first: int
    last: int
    lost: bool
    thinned: bool
    began: bool

    @property
    def name(self) -> str:
        """The file's name, without its folder, by which the ledger knows it."""
        return os.path.basename(self.path)


class ShardsToMerge(NamedTuple):
    """The state of a folder's files. ``sources``: those that can be merged now, run by run; ``merged``: names of those
    that were; ``left``: sentences on those that cannot be; ``waiting``: by run id, why a run must wait; ``runs``: all
    runs with a file that was not merged, by id."""

    sources: list[RankFile]
    merged: list[str]
    left: list[str]
    waiting: dict[str, str]
    runs: dict[str, RunRow]


def find_rank_files(
    folder: str,
    merged: Collection[str],
    refused: dict[str, str],
    own: str | None = None,
    there: Mapping[str, Collection[int]] | None = None,
) -> ShardsToMerge:
    """Look at the files in ``folder``, and find those that can be merged now.

    Args:
        folder: Where the ranks' files are; nothing is found if it does not exist.
        merged: names of those that are in the recording already.
        refused: by name, why a file cannot be merged although it looks as if it could.
        own: a run's id; other runs are then kept back while ranks of theirs may still begin or end. None: no run is.
        there: by run id, the ranks that are in the recording already.

    Raises OSError, sqlite3.Error.
    """
    names = [name for name in sorted(os.listdir(folder)) if name.endswith(SUFFIX)] if os.path.isdir(folder) else []
    found = ShardsToMerge([], [name for name in names if name in merged], list(refused.values()), {}, {})
    recording: dict[str, int] = {}
    ranks: dict[str, set[int]] = {}
    for name in names:
        if name in merged or name in refused:
            continue
        try:
            source, state = _look_at(os.path.join(folder, name))
        except RecordingError as error:
            found.left.append(str(error))
            continue
        run_id = source.run.run_id
        found.runs.setdefault(run_id, source.run)
        if state == "running":
            recording[run_id] = recording.get(run_id, 0) + 1
        elif ranks.setdefault(run_id, set()).intersection(source.ranks):
            found.left.append(f"{source.path}: holds a rank of {run_id} that another file holds as well")
        else:
            ranks[run_id].update(source.ranks)
            found.sources.append(source)
    if own is not None:
        _leave_those_to_come(folder, found, own, {} if there is None else there)
    # A run is merged as a whole, so that its rows stay together.
    order = list(dict.fromkeys(source.run.run_id for source in found.sources if source.run.run_id not in recording))
    found.sources[:] = [source for run_id in order for source in found.sources if source.run.run_id == run_id]
    for run_id, n in recording.items():
        how_many = "1 rank is" if n == 1 else f"{n} ranks are"
        found.waiting[run_id] = f"{folder}: {run_id} is not merged: {how_many} still being recorded"
    return found


def _leave_those_to_come(folder: str, found: ShardsToMerge, own: str, there: Mapping[str, Collection[int]]) -> None:
    """Keep back runs that ended just now, if some of their ranks may yet begin or are about to leave the sign that they
    are through: the last of these ranks merges its run itself, and shows the page where its user looks for it.

    Takes the runs' files out of ``found.sources``, and enters the reason for each run in ``found.waiting``. A run is
    kept back no longer than THROUGH_SECONDS after the last change of its files, or FRESH_SECONDS if it lacks ranks.

    Args:
        folder: Where the ranks' files and signs are.
        found: What was found there; changed in place.
        own: The id of the run that is never kept back.
        there: By run id, the ranks that are merged already.
    """
    now = time_in(folder)
    signs = {name for name in os.listdir(folder) if name.endswith(ENDED_SUFFIX)}
    for run_id in dict.fromkeys(source.run.run_id for source in found.sources if source.run.run_id != own):
        sources = [source for source in found.sources if source.run.run_id == run_id]
        ranks = {rank for source in sources for rank in source.ranks}.union(there.get(run_id, ()))
        missing = missing_ranks(sources[0].run.world_size, ranks)
        written = {rank for source in sources if not source.lost for rank in source.ranks}
        through = all(f"{rank}.{run_id}{ENDED_SUFFIX}" in signs for rank in written)
        silent = min(silent_seconds(source.path, now) for source in sources)
        if silent > (THROUGH_SECONDS if missing == () else FRESH_SECONDS) or (missing == () and through):
            continue
        found.sources[:] = [source for source in found.sources if source.run.run_id != run_id]
        doing = "ended just now" if missing == () else "may be about to begin"
        found.waiting[run_id] = f"{folder}: {run_id} is not merged: ranks of it {doing}"


def _look_at(path: str) -> tuple[RankFile, str]:
    """Look at one file. Returns it, and the state of its run. Raises RecordingError if it cannot be merged."""
    if os.path.islink(path):  # it would be deleted where it is
        raise RecordingError(f"{path}: is a link: only files that are in this folder themselves are merged")
    cut_off = None
    with closing(connect(path)) as connection:
        try:
            cut_off = missing_end(path)
            runs = read_runs(connection)
            if len(runs) != 1:
                raise RecordingError(f"{path}: holds {len(runs)} runs, not one rank of one run")
            (run,) = runs
            state = state_in(connection, run, path, lambda: time_in(os.path.dirname(path)))
            first, last = ends_of(connection)
            check_rowid(last)
            thinned = any(row.end_time is not None for row in read_thinned(connection))
            source = RankFile(
                path=path,
                run=run,
                ranks=tuple(process.rank for process in read_processes(connection, run.run_id)),
                gpus=tuple(read_gpus(connection, run.run_id)),
                metrics=tuple(metric_columns(connection)),
                first=first or 1,
                last=last or 0,
                lost=run.state == "running",
                thinned=thinned,
                began=any(event.kind == "start" for event in read_events(connection, run.run_id)),
            )
        except sqlite3.DatabaseError as error:
            raise RecordingError(f"{path}: is damaged: {error}") from None
    if cut_off is not None:
        raise RecordingError(cut_off)
    return source, state


_SCRATCH = "merging-"


def scratch_path(folder: str, what: str) -> str:
    """Return the path of a file in ``folder`` for this process alone, which must delete it again (see ``clear``)."""
    return os.path.join(folder, f"{_SCRATCH}{os.uname().nodename}-{os.getpid()}-{what}")


def clear(folder: str) -> None:
    """Delete what killed merges and ranks have left in a folder: their scratch files, and what SQLite kept beside
    ranks' files that are deleted. Whoever still needs such a file makes it again."""
    for name in os.listdir(folder):
        of = next((name.removesuffix(suffix) for suffix in COMPANIONS if name.endswith(suffix)), name)
        if name.startswith((_SCRATCH, ASIDE, CLOCK)) or (of != name and not os.path.exists(os.path.join(folder, of))):
            try:
                os.unlink(os.path.join(folder, name))
            except FileNotFoundError:
                pass  # whose it is has just tidied up


@contextmanager
def attached(connection: sqlite3.Connection, path: str) -> Iterator[None]:
    """Attach a file as the schema ``shard`` within the block. The file is not changed: what its writer left in a
    write-ahead log or journal is put into a private copy. Raises sqlite3.Error, OSError."""
    copy = _private_copy(path) if is_left(path) else None
    try:
        connection.execute(f"ATTACH 'file:{quote(os.fsencode(os.path.abspath(copy or path)))}?mode=ro' AS shard")
        try:
            yield
        finally:
            if not connection.in_transaction:
                connection.execute("DETACH shard")
    finally:
        if copy is not None:
            _remove(copy)


def _private_copy(path: str) -> str:
    """Copy a file beside it, with what is left in logs put into it. Returns the copy's path. Raises OSError,
    sqlite3.Error."""
    copy = scratch_path(os.path.dirname(os.path.abspath(path)), "copy")
    try:
        copy_whole(path, copy)
        with closing(open_guarded(copy, [copy])) as connection:
            connection.execute("PRAGMA journal_mode=DELETE").fetchall()  # rolls back, or takes over what was committed
    except BaseException:
        _remove(copy)
        raise
    return copy


def _remove(copy: str) -> None:
    for suffix in ("", *COMPANIONS):
        with suppress(FileNotFoundError):
            os.unlink(copy + suffix)
