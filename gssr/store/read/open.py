"""Opening recordings for reading, without ever changing them."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Container, Sequence
from typing import NamedTuple

from gssr.guarded_sqlite import Guarded, UnsafeError, answers, in_one_line, only_reads, open_guarded, uri_of
from gssr.metrics import NAMES
from gssr.store.disk import COMPANIONS, companion_path, is_file_or_none, is_hollow
from gssr.store.format.columns import columns_of
from gssr.store.format.schema import APPLICATION_ID, SCHEMA_VERSION, TABLES, create_view
from gssr.store.read.guard import check_schema, check_sizes
from gssr.store.read.private_copy import PRIVATE, copy_whole, private_folder

_CACHE_KIB = 100
"""Of pages that SQLite keeps: a thousand files are read at once, and from each hardly a page twice."""
_MAGIC = b"SQLite format 3\0"


class RecordingError(Exception):
    """A recording can't be read or written; the text is one sentence that names the file."""


def log_of(path: str) -> str:
    """Return the path of the log beside a recording (``NAME.sql`` or ``NAME.sql.d``): what the workload printed."""
    return path.rstrip("/").removesuffix(".d").removesuffix(".sql") + ".log"


def looks_like_recording(path: str) -> bool:
    """Tell whether GSSR made this file, or it is empty, by its first bytes alone: a damaged recording counts. Raises
    OSError."""
    with open(path, "rb") as stream:
        head = stream.read(100)
    return not head or (head.startswith(_MAGIC) and head[68:72] == APPLICATION_ID.to_bytes(4, "big"))


def files_of(path: str) -> list[str]:
    """List the files of a recording: ``NAME.sql`` and the shards in ``NAME.sql.d``, as far as they exist, given either
    name; of any other folder the shards in it. If nothing exists, the path itself. Raises RecordingError for a folder
    without any."""
    if path.rstrip("/").endswith(".sql.d") and os.path.isfile(path.rstrip("/")[:-2]):
        path = path.rstrip("/")[:-2]  # merged, or half so
    folder = path.rstrip("/") if os.path.isdir(path) else path + ".d"
    names = [] if os.path.isdir(path) else [path] * os.path.lexists(path)
    if os.path.isdir(folder):
        try:
            names += [os.path.join(folder, name) for name in sorted(os.listdir(folder)) if name.endswith(".sql")]
        except OSError as error:
            raise RecordingError(f"{folder}: can't be read: {error.strerror}") from None
        if not names:
            from gssr.recognise import NOTHING_INSIDE, recognise  # here: what starts beside a job must start quickly

            problem = NOTHING_INSIDE if folder.endswith(".sql.d") else recognise(folder).problem or NOTHING_INSIDE
            said = "holds no recording: looked for *.sql" if problem == NOTHING_INSIDE else problem
            raise RecordingError(f"{path}: {said}")
    return names or [path]


class Readable(NamedTuple):
    """A kind of SQLite file. ``what``: what one is called; ``maker``: who makes it; ``tables``: those that may be read,
    in lower case. ``look`` returns a clause on why a file is none of this kind, else None; it may raise UnsafeError,
    sqlite3.Error."""

    what: str
    maker: str
    tables: Container[str]
    look: Callable[[Guarded], str | None]


def connect(path: str, readable: Readable | None = None) -> sqlite3.Connection:
    """Open a recording, or another ``readable`` kind of file, for reading its tables and nothing else
    (gssr.guarded_sqlite).

    Nothing is written to its folder: if SQLite would have to repair the file first, a private copy is read. Raises
    RecordingError if it is missing, empty, of another kind, damaged, or of a newer schema.
    """
    readable = readable or RECORDING
    files = _check_file(path, readable.what)
    try:
        try:
            return _checked(
                open_guarded(uri_of(path, "ro"), files, uri=True, timeout=2.0, check_same_thread=False), path, readable
            )
        except sqlite3.OperationalError as error:
            if not os.access(path, os.R_OK):
                raise RecordingError(f"{path}: permission denied") from None
            return _by_copy(path, files, error, readable)
    except UnsafeError as error:
        raise RecordingError(f"{path}: is damaged, or not made by {readable.maker}: {error}") from None
    except sqlite3.DatabaseError as error:
        raise RecordingError(f"{path}: is damaged: {in_one_line(error)}") from None


def connect_for_questions(path: str) -> sqlite3.Connection:
    """Open a recording for the user's questions in SQL: any that only read, of any table, however long they take. The
    view ``gpu_samples`` is made for this connection. Raises RecordingError."""
    connection = connect(path)
    connection.set_authorizer(None)
    connection.set_progress_handler(None, 0)
    try:
        if set(columns_of(connection, "samples")).issuperset(NAMES):  # one of an earlier version may have fewer
            connection.execute(create_view("TEMP VIEW"))
    except sqlite3.DatabaseError as error:
        connection.close()
        raise RecordingError(f"{path}: is damaged: {error}") from None
    connection.set_authorizer(answers)
    return connection


def _check_file(path: str, what: str) -> list[str]:
    """Check a file and what may be beside it. Returns their paths. Raises RecordingError if one of them is not what it
    should be."""
    if os.path.exists(path) and not (os.path.isfile(path) or os.path.isdir(path)):
        raise RecordingError(f"{path}: is not a file")  # but a pipe, which might never answer, or a device
    try:
        with open(path, "rb") as stream:
            head = stream.read(16)
    except FileNotFoundError:
        from gssr.recognise import no_such_file  # here, because what starts beside a job must start quickly

        raise RecordingError(f"{path}: {no_such_file(path)}") from None
    except IsADirectoryError:
        raise RecordingError(f"{path}: is a directory, not {what}") from None
    except OSError as error:
        raise RecordingError(f"{path}: can't be read: {error.strerror}") from None
    if not head:
        raise RecordingError(f"{path}: is empty: nothing was recorded into it")
    if head != _MAGIC:
        if what != RECORDING.what:
            raise RecordingError(f"{path}: is not {what} (not an SQLite database)")
        from gssr.recognise import recognise  # here, because what starts beside a job must start quickly

        raise RecordingError(f"{path}: {recognise(path).no_recording}")
    file = os.path.realpath(path)
    for suffix in COMPANIONS:
        if not is_file_or_none(file + suffix):  # SQLite would wait for a pipe
            raise RecordingError(f"{path}: can't be read: {os.path.basename(path)}{suffix} is not a file")
        if is_hollow(file + suffix):
            raise RecordingError(f"{path}: can't be read: {os.path.basename(path)}{suffix} is one large hole")
    return [file, *(file + suffix for suffix in COMPANIONS)]


def _by_copy(
    path: str, files: Sequence[str], why: sqlite3.OperationalError, readable: Readable
) -> sqlite3.Connection:  # fmt: skip
    """Open a private copy of a file that cannot be read itself. ``why``: what SQLite said. Raises RecordingError,
    sqlite3.DatabaseError."""
    try:
        return _checked(_connect_copy(path, files), path, readable)
    except (sqlite3.OperationalError, OSError):
        raise RecordingError(f"{path}: can't be read: {why}") from None


def _connect_copy(path: str, files: Sequence[str]) -> Guarded:
    """Open a private copy, for a file with an unfinished transaction or an unreadable write-ahead log. Raises OSError,
    sqlite3.Error."""

    with private_folder() as folder:  # SQLite keeps reading from the open file
        copy = os.path.join(folder, PRIVATE)
        copy_whole(path, copy)
        return open_guarded(copy, files, check_same_thread=False)


def missing_end(path: str) -> str | None:
    """Return a sentence if the file is shorter than its own head says; None if it is whole, or if parts of it are still
    in a write-ahead log. It is not even opened then: closing it would give up the locks that SQLite holds on it in this
    process (gssr.store.pages.file). Raises OSError."""
    if os.path.exists(companion_path(path, "-wal")):
        return None
    with open(path, "rb") as stream:
        head = stream.read(100)
    if head[24:28] != head[92:96]:  # the page count is valid only with this counter
        return None
    page_size = int.from_bytes(head[16:18], "big")
    size = int.from_bytes(head[28:32], "big") * (65536 if page_size == 1 else page_size)
    found = os.path.getsize(path)
    return f"{path}: is cut off: {found:,} of {size:,} bytes are there" if found < size else None


def _checked(connection: Guarded, path: str, readable: Readable) -> sqlite3.Connection:
    """Check a connection's file and narrow the connection to reading its tables. Raises RecordingError, UnsafeError,
    sqlite3.Error; it is closed then."""
    try:
        problem = readable.look(connection)
        if problem is None:
            check_schema(connection, tables=readable.tables)
            connection.bound()
            if readable is RECORDING:
                check_sizes(connection)
            connection.execute(f"PRAGMA cache_size=-{_CACHE_KIB}").fetchall()
            connection.set_authorizer(only_reads(readable.tables))
            return connection
    except BaseException:
        connection.close()
        raise
    connection.close()
    raise RecordingError(f"{path}: {problem}")


def _what_is_wrong(connection: Guarded) -> str | None:
    """Return a clause on why this is no recording that this version knows; None if it is one."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    tables = {str(name).lower() for _, name, _ in connection.schema or ()}
    if application != APPLICATION_ID or "runs" not in tables:
        from gssr.recognise import recognise_tables

        return recognise_tables(tables).no_recording
    if version > SCHEMA_VERSION:
        return f"has schema {version}, this gssr knows up to {SCHEMA_VERSION}: read it with a newer gssr"
    return None


RECORDING = Readable("a recording", "gssr", frozenset(TABLES), _what_is_wrong)
