"""Which runs of a recording are over, and may be replaced by a run that is given ``-f``: those alone, and only as seen by
the first of its ranks that looks. What it finds is written down (gssr.store.write.starts), and the merge deletes just that.
"""

import os
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import NamedTuple

from gssr.store.format.rows import RunRow, missing_ranks
from gssr.store.format.schema import ENDED_SUFFIX
from gssr.store.liveness import silent_seconds, time_in
from gssr.store.read.open import RecordingError, connect
from gssr.store.read.small_tables import read_processes, read_runs, state_in
from gssr.store.write.starts import FRESH_SECONDS


class _RunInFile(NamedTuple):
    """What one file holds of a run. ``silent``: since it was last written, s."""

    run: RunRow
    ranks: tuple[int, ...]
    is_running: bool
    silent: float


def find_runs_that_are_over(target: str, shards: Sequence[str], signs: Sequence[str]) -> list[RunRow]:
    """Find the runs of a recording of which nothing is being recorded, nor may be about to begin. Files that can't be
    read are passed over.

    Args:
        target: The recording ``NAME.sql``; its folder is ``NAME.sql.d``.
        shards: Names of the ranks' files in the folder, as they were before the recording was looked at.
        signs: Names of what ranks leave there that are through: ``RANK.RUN_ID.ended``.
    """
    folder = target + ".d"
    now = time_in(folder)
    parts: dict[str, list[_RunInFile]] = {}
    through = _group_ranks_by_run(signs)
    for name in shards:
        known = next((run_id for run_id in parts if name.endswith(f".{run_id}.sql")), None)
        rank = "" if known is None else name.removesuffix(f".{known}.sql").rpartition(".")[2]
        if known is not None and rank in through.get(known, ()):
            # Ranks of a run that began long ago are many, and this is asked by all ranks of the new one at once.
            parts[known].append(_RunInFile(parts[known][0].run, (int(rank),), False, parts[known][0].silent))
            continue
        for part in _parts_in(os.path.join(folder, name), now):
            parts.setdefault(part.run.run_id, []).append(part)
    for part in _parts_in(target, now):
        parts.setdefault(part.run.run_id, []).append(part)
    return [own[0].run for own in parts.values() if _is_over(own)]


def _is_over(parts: Sequence[_RunInFile]) -> bool:
    """Tell whether a run is over, given what each file holds of it: none of them is being recorded, and either all ranks
    are there or no file was written within FRESH_SECONDS. How many ranks there should be may be unknown; then none
    counts as missing."""
    if any(part.is_running for part in parts):
        return False
    ranks = {rank for part in parts for rank in part.ranks}
    is_fresh = min(part.silent for part in parts) <= FRESH_SECONDS
    return not (is_fresh and missing_ranks(parts[0].run.world_size, ranks))


def _group_ranks_by_run(signs: Sequence[str]) -> Mapping[str, set[str]]:
    """Group the ranks that are through by the ids of their runs. ``signs``: names of the form ``RANK.RUN_ID.ended``;
    other names are passed over. Ranks stay text."""
    found: dict[str, set[str]] = {}
    for sign in signs:
        rank, _, run_id = sign.removesuffix(ENDED_SUFFIX).partition(".")
        if rank.isdecimal():
            found.setdefault(run_id, set()).add(rank)
    return found


def _parts_in(path: str, now: float) -> list[_RunInFile]:
    """Read what a file holds of each run; empty of one that can't be read, or is not there."""
    try:
        silent = silent_seconds(path, now)
        with closing(connect(path)) as connection:
            return [
                _RunInFile(
                    run,
                    tuple(process.rank for process in read_processes(connection, run.run_id)),
                    state_in(connection, run, path, lambda: now) == "running",
                    silent,
                )
                for run in read_runs(connection)
            ]
    except (RecordingError, sqlite3.DatabaseError, OSError):
        return []
