"""``gssr fleet --db FILE``: runs, what their GPU-hours went to, and their nodes, in an SQLite database that grows with each
look, for Datasette, Grafana and whoever knows SQL.

The file is the user's own, made by this command alone: everything else is refused, and left as it is. All of a look is
written in one transaction, so that a full disk, or a kill, leaves what was there.
"""

import json
import os
import sqlite3
import stat
from collections.abc import Iterable, Mapping
from contextlib import closing, suppress
from datetime import UTC, datetime
from typing import Any

from gssr.convert.tables import ExportError
from gssr.guarded_sqlite import (
    LIMIT_LENGTH,
    LONGEST_VALUE,
    Guarded,
    UnsafeError,
    check_table,
    distrust,
    in_one_line,
    limit,
    not_by_itself,
    uri_of,
)
from gssr.model.breakdown.categories import CATEGORIES
from gssr.model.fleet.allocations import PLACES, Allocated
from gssr.model.fleet.figures import RUN_COLUMNS, RunFigures
from gssr.model.fleet.fleet import (
    BADLY_BALANCED,
    COMPUTING,
    LEAST_SHARE_OF_CAUSE,
    Fleet,
    job_of,
    name_of,
    node_figures,
    week_of,
)
from gssr.store.disk import COMPANIONS, PLANTED, companion_path, is_file_or_none, is_planted, make_file
from gssr.store.format.schema import Column

APPLICATION_ID = 0x47535346  # "GSSF"
VERSION = 1
_MAGIC = b"SQLite format 3\0"
_PATIENCE = 30.0
"""Seconds for which somebody else may hold the database up."""
_AT_ONCE = 500

_RUN = Column("run", "TEXT", "the run's id and when it began: run_id@unix time")
TABLES: dict[str, tuple[Column, ...]] = {
    "runs": (
        _RUN,
        Column("job", "TEXT", "the job as its scheduler shows it, with its cluster; the run's id without a job"),
        Column("name", "TEXT", "the label, else the job's name, else what was run"),
        Column("started", "TEXT", "start, UTC"),
        Column("week", "TEXT", "ISO week of the start, UTC"),
        *(Column(column.name, column.type.removesuffix(" NOT NULL"), column.meaning) for column in RUN_COLUMNS),
        Column("verdicts", "TEXT", "JSON: the codes of its verdicts"),
    ),
    "causes": (
        _RUN,
        Column("cause", "TEXT", "category of GPU time; all that is no loss of the work is computing"),
        Column("what", "TEXT", "the same in words"),
        Column("is_loss", "INTEGER", "1 where a GPU could have worked, else 0"),
        Column("gpu_hours", "REAL", "GPU-hours of the run in it, h"),
    ),
    "nodes": (
        _RUN,
        Column("node", "TEXT", "the node"),
        Column("n_gpus", "INTEGER", "its GPUs in this run"),
        Column("gpu_hours", "REAL", "GPUs times the duration, h"),
        Column("wasted_gpu_hours", "REAL", "gpu_hours * (1 - score), h"),
        Column("idle_gpu_hours", "REAL", "with SM active below 2 %, h"),
        Column("throttled_gpu_hours", "REAL", "slowed down by heat or hardware, h"),
        Column("lowest_clock", "REAL", "least mean clock of a GPU relative to the run's median GPU"),
        Column("is_slow", "INTEGER", "1 where a GPU was slowed down, or ran at a lower clock than the others, else 0"),
    ),
    "jobs": (
        Column("allocation", "TEXT", "cluster, job and when it began: cluster/job_id@unix time"),
        Column("job", "TEXT", "the job as runs.job has it"),
        Column("user", "TEXT", "whose job it is"),
        Column("account", "TEXT", "what it is booked to"),
        Column("partition", "TEXT", "where it ran"),
        Column("name", "TEXT", "its name"),
        Column("state", "TEXT", "as Slurm has it"),
        Column("started", "TEXT", "start, UTC"),
        Column("started_at", "REAL", "start, unix s"),
        Column("ended_at", "REAL", "end, unix s; of a job that runs, the time of the look"),
        Column("n_gpus", "INTEGER", "GPUs that were allocated"),
        Column("gpu_hours", "REAL", "GPU-hours that were allocated, h"),
        Column("n_runs", "INTEGER", "runs that were recorded"),
        *(Column(f"{place}_gpu_hours", "REAL", f"of these: {place}, h") for place in PLACES),
    ),
}
KEYS: dict[str, tuple[str, ...]] = {
    "runs": ("run",), "causes": ("run", "cause"), "nodes": ("run", "node"), "jobs": ("allocation",),
}  # fmt: skip
INDEXES = (
    ("runs", "started_at"), ("runs", "user"), ("runs", "account"), ("runs", "job"), ("causes", "cause"), ("nodes", "node"),
    ("jobs", "started_at"), ("jobs", "user"),
)  # fmt: skip
_SUMS = """count(*) AS runs, round(sum(gpu_hours), 3) AS gpu_hours, round(sum(wasted_gpu_hours), 3) AS wasted_gpu_hours,
    round(sum(idle_gpu_hours), 3) AS idle_gpu_hours,
    round(1 - sum(wasted_gpu_hours) / nullif(sum(CASE WHEN score IS NOT NULL THEN gpu_hours END), 0), 3) AS score"""
_RUN_OF = "SELECT job, user, name, state, started, n_gpus, round(gpu_hours, 3) AS gpu_hours"


def _ranking(key: str) -> str:
    return f"SELECT {key}, {_SUMS} FROM runs GROUP BY {key} ORDER BY wasted_gpu_hours DESC"


VIEWS: dict[str, str] = {
    "by_user": _ranking("user"),
    "by_account": _ranking("account"),
    "by_partition": _ranking("partition"),
    "by_state": _ranking("state"),
    "by_week": f"SELECT week, {_SUMS} FROM runs GROUP BY week ORDER BY week",
    "by_cause": f"""SELECT cause, what, is_loss, sum(causes.gpu_hours >= {LEAST_SHARE_OF_CAUSE} * runs.gpu_hours) AS runs,
    round(sum(causes.gpu_hours), 3) AS gpu_hours FROM causes JOIN runs USING (run)
    GROUP BY cause ORDER BY is_loss DESC, sum(causes.gpu_hours) DESC""",
    "causes_by_user": """SELECT user, cause, what, round(sum(causes.gpu_hours), 3) AS gpu_hours
    FROM causes JOIN runs USING (run) WHERE is_loss GROUP BY user, cause ORDER BY gpu_hours DESC""",
    "lost_most": """SELECT job, (SELECT name FROM runs WHERE job = lost.job ORDER BY gpu_hours DESC LIMIT 1) AS name,
    (SELECT user FROM runs WHERE job = lost.job ORDER BY gpu_hours DESC LIMIT 1) AS user,
    (SELECT round(sum(gpu_hours), 3) FROM runs WHERE job = lost.job) AS gpu_hours,
    round(sum(hours), 3) AS lost_gpu_hours, what AS main_cause, round(max(hours), 3) AS main_cause_gpu_hours
    FROM (SELECT job, what, sum(causes.gpu_hours) AS hours FROM causes JOIN runs USING (run) WHERE is_loss
    GROUP BY job, cause) AS lost GROUP BY job ORDER BY sum(hours) DESC""",
    "waste_most": f"""{_RUN_OF}, round(wasted_gpu_hours, 3) AS wasted_gpu_hours,
    round(idle_gpu_hours, 3) AS idle_gpu_hours, round(score, 3) AS score
    FROM runs WHERE runs.wasted_gpu_hours > 0 ORDER BY runs.wasted_gpu_hours DESC""",
    "never_used_gpus": f"""{_RUN_OF}, unused_gpus, round(unused_gpus * duration_s / 3600, 3) AS unused_gpu_hours
    FROM runs WHERE unused_gpus > 0 ORDER BY unused_gpus * duration_s DESC""",
    "badly_balanced": f"""{_RUN_OF}, round(imbalance, 3) AS imbalance, round(imbalance_gpu_hours, 3) AS imbalance_gpu_hours
    FROM runs WHERE runs.imbalance >= {BADLY_BALANCED} ORDER BY runs.imbalance_gpu_hours DESC""",
    "slow_nodes": """SELECT node, count(*) AS runs, sum(is_slow) AS slow_in, round(sum(gpu_hours), 3) AS gpu_hours,
    round(sum(throttled_gpu_hours), 3) AS throttled_gpu_hours, round(min(lowest_clock), 3) AS lowest_clock
    FROM nodes GROUP BY node HAVING sum(is_slow) > 0 ORDER BY slow_in DESC, gpu_hours DESC""",
    "not_recorded": """SELECT job, user, account, name, state, started, n_gpus, round(gpu_hours, 3) AS gpu_hours, n_runs,
    round(gpu_hours - recorded_gpu_hours, 3) AS unrecorded_gpu_hours FROM jobs
    WHERE gpu_hours - recorded_gpu_hours > 0.01 * gpu_hours ORDER BY unrecorded_gpu_hours DESC""",
}
"""A view for each question of a site. In lost_most ``what`` is that of the row with max(hours): SQLite takes columns that
are not aggregated from the row of the only max()."""
_PYTHON = {"TEXT": str, "REAL": float, "INTEGER": int}


class _OneTransaction(Guarded):
    """A connection that ``with`` does not commit: sqlite-utils before 4 does that after each hundred rows."""

    def __exit__(self, *_: object) -> None:  # type: ignore[override]
        return None


def update_database(path: str, found: Fleet) -> int:
    """Write the runs, which must have been judged, into the database at this path, which is made if it is not there; what
    is known of the same run is replaced, all else stays. Returns how many of the runs are new. Raises ExportError."""
    is_new = _check(path)
    try:
        if is_new:
            os.close(make_file(path, os.O_EXCL))
        with closing(_open_database(path)) as connection:
            _check_tables(connection, path)
            connection.set_authorizer(not_by_itself)
            connection.execute("BEGIN IMMEDIATE")
            n_new = _write(connection, found)
            connection.execute("COMMIT")
            return n_new
    except BaseException as error:
        if is_new:
            for name in (path, *(companion_path(path, suffix) for suffix in COMPANIONS)):
                with suppress(OSError):
                    os.unlink(name)
        if not isinstance(error, (sqlite3.Error, OSError)):
            raise
        why = error.strerror if isinstance(error, OSError) else in_one_line(error)
        raise ExportError(f"{path}: can't be written: {why}") from None


def _check(path: str) -> bool:
    """Tell whether the file is to be made; an empty one can be filled. Raises ExportError where something else is
    there."""
    other = f"{path}: is no database of gssr fleet --db: name another file, or a new one"
    for suffix in COMPANIONS:
        if not is_file_or_none(companion_path(path, suffix)):
            raise ExportError(f"{path}{suffix}: is not a file")
    try:
        status = os.stat(path)
    except FileNotFoundError:
        if os.path.lexists(path):
            raise ExportError(f"{path}: is a link to nothing") from None
        return True
    except OSError as error:
        raise ExportError(f"{path}: can't be read: {error.strerror}") from None
    if not stat.S_ISREG(status.st_mode):
        raise ExportError(other)
    if status.st_uid != os.geteuid() or is_planted(path):
        raise ExportError(f"{path}: {PLANTED}: name another file")
    try:
        with open(path, "rb") as stream:
            head = stream.read(100)
    except OSError as error:
        raise ExportError(f"{path}: can't be read: {error.strerror}") from None
    if not head:
        return False
    if head[:16] != _MAGIC or head[68:72] != APPLICATION_ID.to_bytes(4, "big"):
        raise ExportError(other)
    if int.from_bytes(head[60:64], "big") > VERSION:
        raise ExportError(f"{path}: was made by a later version of gssr")
    return False


def _open_database(path: str) -> _OneTransaction:
    """Open an existing file for writing, so that nothing in it that others put there is run. Raises sqlite3.Error."""
    connection = sqlite3.connect(
        uri_of(path, "rw"), uri=True, isolation_level=None, timeout=_PATIENCE, factory=_OneTransaction
    )
    try:
        connection.budget.files = [path]
        distrust(connection)
        limit(connection, LIMIT_LENGTH, LONGEST_VALUE)
        connection.set_progress_handler(None, 0)  # how much is written depends on the recordings, not on the file
    except BaseException:
        connection.close()
        raise
    return connection


def _check_tables(connection: Guarded, path: str) -> None:
    """Raise ExportError for a file that has our mark, and holds what would do something while it is written."""
    schema = connection.execute("SELECT type, name, sql FROM sqlite_master").fetchall()
    try:
        for kind, name, sql in schema:
            if kind == "trigger":
                raise UnsafeError(f"the trigger {name!r} is in it")
            if str(name).lower() in TABLES:
                check_table(connection, name, kind, sql or "")
            if str(name).lower() in VIEWS and kind != "view":
                raise UnsafeError(f"{name} is no view")
    except UnsafeError as error:
        raise ExportError(f"{path}: was changed by something else: {in_one_line(error)}: name another file") from None


def _write(connection: sqlite3.Connection, found: Fleet) -> int:
    """Write everything, within the transaction that has begun. Returns how many runs are new."""
    from sqlite_utils import Database

    database = Database(connection, recursive_triggers=False, execute_plugins=False)
    for name, columns in TABLES.items():
        table = database.table(name)
        types = {column.name: _PYTHON[column.type] for column in columns}
        if not table.exists():
            table.create(types, pk=_primary_key(name))
        for column in types.keys() - set(table.columns_dict):  # of an earlier version's file
            table.add_column(column, types[column])
    for name, column in INDEXES:
        database.table(name).create_index([column], if_not_exists=True)
    for name, query in VIEWS.items():
        database.create_view(name, query, replace=True)
    connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version={VERSION}")
    before = database.table("runs").count
    for name, rows in _make_rows(found).items():
        if name in ("causes", "nodes"):  # of which a run may have others than before
            keys = [(_key(run),) for run in found.runs]
            connection.executemany(f"DELETE FROM {name} WHERE run = ?", keys)
        database.table(name).upsert_all(rows, pk=_primary_key(name), batch_size=_AT_ONCE)
    return int(database.table("runs").count) - int(before)


def _primary_key(table: str) -> str | tuple[str, ...]:
    """Return the key of a table as sqlite-utils takes it: a name, or several."""
    return KEYS[table] if len(KEYS[table]) > 1 else KEYS[table][0]


def _make_rows(found: Fleet) -> Mapping[str, Iterable[dict[str, Any]]]:
    """Make the rows of each table, as values by column."""
    return {
        "runs": [_make_run_row(run) for run in found.runs],
        "causes": [row for run in found.runs for row in _causes(run)],
        "nodes": [
            {"run": _key(run), **own} for run in found.runs for own in node_figures(run)
        ],
        "jobs": [] if found.allocated is None else _make_job_rows(found.allocated),
    }  # fmt: skip


def _key(run: RunFigures) -> str:
    return f"{_text(run.run_id)}@{run.began:.0f}"


def _make_run_row(run: RunFigures) -> dict[str, Any]:
    """Make the row of a run. What is unknown is None, verdicts are a JSON list."""
    own = {
        "run": _key(run),
        "job": job_of(run),
        "name": name_of(run),
        "started": _utc(run.began),
        "week": week_of(run.started_at),
        **{column.name: getattr(run, column.name) for column in RUN_COLUMNS},
        "verdicts": None if run.verdicts is None else json.dumps(list(run.verdicts)),
    }
    return {name: _text(value) if isinstance(value, str) else value for name, value in own.items()}


def _causes(run: RunFigures) -> list[dict[str, Any]]:
    """Return a row for each category of loss in which the run has GPU-hours, one for all computing, and those outside."""
    rows: dict[str, dict[str, Any]] = {}
    for each, hours in zip(CATEGORIES, run.hours_by_category or (), strict=False):
        is_work = each.branch == "working" and not each.is_loss
        cause = COMPUTING if is_work else each.name
        own = rows.setdefault(cause, {
            "run": _key(run), "cause": cause, "what": "computes" if is_work else each.label, "is_loss": int(each.is_loss),
            "gpu_hours": 0.0,
        })  # fmt: skip
        own["gpu_hours"] += hours
    return [row for row in rows.values() if row["gpu_hours"] > 0]


def _make_job_rows(allocated: Allocated) -> list[dict[str, Any]]:
    """Make a row for each job of the accounting, whether it was recorded or not."""
    rows = []
    for use in allocated.jobs:
        job = use.allocation
        cluster = f"{job.cluster}/" if job.cluster else ""
        rows.append({
            "allocation": f"{cluster}{job.job_id}@{job.start:.0f}", "job": f"{cluster}{job.shown}", "user": job.user,
            "account": job.account, "partition": job.partition, "name": job.name, "state": job.state,
            "started": _utc(job.start), "started_at": job.start, "ended_at": job.end, "n_gpus": job.n_gpus,
            "gpu_hours": job.gpu_hours, "n_runs": use.n_runs,
            **{f"{place}_gpu_hours": getattr(use, place) for place in PLACES},
        })  # fmt: skip
    return rows


def _utc(unix_time: float) -> str | None:
    """Write a time as ``2026-05-01 12:00:00``, UTC; None where no calendar has it."""
    try:
        return datetime.fromtimestamp(unix_time, UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError, OSError):
        return None


def _text(text: str) -> str:
    """Return a text that SQLite takes: lone surrogates become escapes."""
    return text.encode("utf-8", "backslashreplace").decode()
