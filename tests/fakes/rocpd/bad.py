"""Files of rocprofv3 that are damaged or mean ill: each is to give what is whole in it, or one sentence."""

import sqlite3
from contextlib import closing
from pathlib import Path

from tests.fakes.rocpd.files import ODD, Process, Style, Written, write


def changed(written: Written, *statements: str, values: tuple[object, ...] = ()) -> Written:
    """The file after SQL; ``{s}`` is the suffix of its first tables."""
    with closing(sqlite3.connect(written.path)) as db:
        db.execute("PRAGMA foreign_keys = OFF")
        for statement in statements:
            db.execute(statement.replace("{s}", written.tables[0]), values if "?" in statement else ())
        db.commit()
    return written


def cut(path: Path, process: Process, share: float = 0.7) -> Path:
    """A file that ends early, as of a job that was killed while it was written."""
    written = write(path, [process])
    raw = path.read_bytes()
    path.write_bytes(raw[: int(len(raw) * share)])
    return written.path


def without_ends(path: Path, process: Process) -> Written:
    """The second and the third kernel have no end, and one copy ends before it begins."""
    written = write(path, [process], Style(loose=True))
    return changed(
        written,
        "UPDATE `rocpd_kernel_dispatch{s}` SET end = NULL WHERE id IN (2, 3)",
        "UPDATE `rocpd_memory_copy{s}` SET end = start - 5 WHERE id = 1",
    )


def nameless(path: Path, process: Process) -> Written:
    """A kernel's name is not UTF-8, another's symbol is not there, and a call's string is a number."""
    written = write(path, [process], Style(loose=True))
    return changed(
        written,
        "UPDATE `rocpd_info_kernel_symbol{s}` SET display_name = CAST(? AS TEXT) WHERE id = 1",
        "UPDATE `rocpd_kernel_dispatch{s}` SET kernel_id = 999999 WHERE id = 4",
        values=(ODD,),
    )


def empty(path: Path, process: Process) -> Written:
    """All tables and views, and nothing in them but who ran."""
    written = write(path, [process])
    return changed(
        written, *(f"DELETE FROM `rocpd_{table}{{s}}`" for table in ("kernel_dispatch", "memory_copy", "region"))
    )


def no_gpu(path: Path, process: Process) -> Written:
    """Only calls: nothing ran on a GPU, or nobody asked."""
    return changed(
        write(path, [process]), *(f"DELETE FROM `rocpd_{table}{{s}}`" for table in ("kernel_dispatch", "memory_copy"))
    )


def evil_view(path: Path, process: Process) -> Written:
    """``rocpd_kernel_dispatch`` and ``kernels`` say what they like, for ever."""
    endless = (
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "
        "SELECT i AS id, 'x' AS name, i AS start, i AS end FROM n"
    )
    return changed(
        write(path, [process]), "DROP VIEW `kernels`", f"CREATE VIEW `kernels` AS {endless}",
        "DROP VIEW `rocpd_kernel_dispatch`", f"CREATE VIEW `rocpd_kernel_dispatch` AS {endless}",
    )  # fmt: skip


def view_for_a_table(path: Path, process: Process) -> Written:
    """A view in the place of a table itself."""
    return changed(
        write(path, [process]), "ALTER TABLE `rocpd_kernel_dispatch{s}` RENAME TO `old`",
        "CREATE VIEW `rocpd_kernel_dispatch{s}` AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "
        "SELECT i AS id, 'g' AS guid, 1 AS nid, 1 AS pid, 1 AS tid, 2 AS agent_id, 1 AS kernel_id, i AS dispatch_id, "
        "0 AS queue_id, 0 AS stream_id, i AS start, i + 1 AS end FROM n",
    )  # fmt: skip


def trigger(path: Path, process: Process) -> Written:
    """Would delete everything, if anything were written."""
    return changed(
        write(path, [process]),
        "CREATE TRIGGER gone AFTER INSERT ON `rocpd_string{s}` BEGIN DELETE FROM `rocpd_kernel_dispatch{s}`; END",
    )


def other_schema(path: Path, process: Process) -> Written:
    """Times are in a table of their own, as a draft of the schema had it under the same number."""
    return changed(
        write(path, [process], Style(views=False)),
        "ALTER TABLE `rocpd_kernel_dispatch{s}` RENAME COLUMN start TO start_id",
        "ALTER TABLE `rocpd_kernel_dispatch{s}` RENAME COLUMN end TO end_id",
        "CREATE TABLE `rocpd_timestamp{s}` (id INTEGER PRIMARY KEY, guid TEXT, value BIGINT, track_id INTEGER)",
    )
