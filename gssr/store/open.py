"""Opening recordings: creating one to write, and opening any for reading without ever changing it."""

import os
import shutil
import sqlite3
import tempfile
import time
from contextlib import closing
from typing import NamedTuple
from urllib.parse import quote

from gssr.store.filesystem import journal_mode
from gssr.store.schema import APPLICATION_ID, SCHEMA_VERSION, TABLES, create_statements

_MAGIC = b"SQLite format 3\0"
COMPANIONS = ("-wal", "-shm", "-journal")
"""What SQLite keeps beside a database while it is open or after a crash."""


BUSY_MS = 100
"""How long the writer waits for a reader's lock before it goes on sampling and tries again at the next commit."""


class RecordingError(Exception):
    """A recording can't be read or written; the text is one sentence that names the file."""


class TakenError(RecordingError):
    """Somebody else is recording into the file."""

    def __init__(self, path: str) -> None:
        super().__init__(f"{path}: is being recorded into by another gssr: give each its own -o")


def remove(path: str) -> None:
    """Delete a recording and what SQLite keeps beside it."""
    for name in (path, *(path + suffix for suffix in COMPANIONS)):
        try:
            os.unlink(name)
        except FileNotFoundError:
            pass


def finished_runs(path: str) -> frozenset[str]:
    """Ids of a recording's runs, all of which have ended or are lost. Raises TakenError when somebody is recording into
    it, RecordingError as ``connect`` does."""
    from gssr.store.records import is_recorded_into

    with closing(connect(path)) as connection:
        try:
            if is_recorded_into(connection, path):
                raise TakenError(path)
            return frozenset(run_id for (run_id,) in connection.execute("SELECT run_id FROM runs"))
        except sqlite3.DatabaseError as error:
            raise RecordingError(f"{path}: is damaged: {error}") from None


def replace(path: str) -> None:
    """Delete a recording that is to be overwritten. Raises TakenError when somebody is recording into it by now."""
    try:
        finished_runs(path)
    except TakenError:
        raise
    except RecordingError:
        pass  # damaged, or gone already
    remove(path)


def looks_like_recording(path: str) -> bool:
    """True for a file that GSSR made (or that is empty), judged by its head alone: a damaged recording is one too."""
    with open(path, "rb") as stream:
        head = stream.read(100)
    return not head or (head.startswith(_MAGIC) and head[68:72] == APPLICATION_ID.to_bytes(4, "big"))


def create(path: str) -> sqlite3.Connection:
    """A new, empty recording, open for writing; an empty file is made one. Raises RecordingError when something else is
    there or it can't be made. Another process may be making it at the same moment: ``Writer.begin`` decides."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o666))
    except FileExistsError:
        if not _is_empty_file(path):
            raise RecordingError(f"{path}: exists already") from None
    except OSError as error:
        raise RecordingError(f"{path}: can't be written: {error.strerror}") from None
    try:
        return _open_for_writing(path)
    except sqlite3.Error as error:
        if "locked" not in str(error):  # by another process, whose file it is as well
            remove(path)
        raise RecordingError(f"{path}: can't be written: {error}") from None


def _is_empty_file(path: str) -> bool:
    try:
        return os.path.isfile(path) and os.path.getsize(path) == 0
    except OSError:
        return False


def reopen(path: str) -> sqlite3.Connection:
    """An existing recording (``finished_runs`` says whether it is one), open for writing another run into it. Raises
    RecordingError when it can't be written."""
    try:
        return _open_for_writing(path)
    except sqlite3.Error as error:
        raise RecordingError(f"{path}: can't be written: {error}") from None


def _open_for_writing(path: str) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, timeout=5.0, check_same_thread=False)
    # Before the switch to WAL, so that the file itself tells what it is from its first second on.
    connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version={SCHEMA_VERSION}")
    mode = journal_mode(path)
    for attempt in range(20):  # the busy timeout does not cover the switch to WAL
        try:
            connection.execute(f"PRAGMA journal_mode={mode}")
            break
        except sqlite3.OperationalError:
            if attempt == 19:
                connection.close()
                raise
            time.sleep(0.05)
    connection.execute("PRAGMA synchronous=NORMAL")
    connection.execute("BEGIN IMMEDIATE")
    for statement in create_statements():
        connection.execute(statement)
    _add_missing_columns(connection)
    connection.execute("COMMIT")
    connection.execute(f"PRAGMA busy_timeout={BUSY_MS}")
    return connection


def _add_missing_columns(connection: sqlite3.Connection) -> None:
    """Columns that this version knows and an older file lacks."""
    for table, columns in TABLES.items():
        present = {row[1] for row in connection.execute(f"PRAGMA table_info({table})")}
        for column in columns:
            if column.name not in present:
                connection.execute(f"ALTER TABLE {table} ADD COLUMN {column.name} {column.type}")


def files_of(path: str) -> list[str]:
    """The files that make up a recording: of ``NAME.sql`` itself and the shards in ``NAME.sql.d`` those that exist, of
    ``NAME.sql.d`` the shards. Raises RecordingError for a folder without any; ``connect`` finds that a file is missing."""
    folder = path.rstrip("/") if os.path.isdir(path) else path + ".d"
    names = [] if os.path.isdir(path) else [path] * os.path.lexists(path)
    if os.path.isdir(folder):
        names += [os.path.join(folder, name) for name in sorted(os.listdir(folder)) if name.endswith(".sql")]
        if not names:
            raise RecordingError(f"{path}: holds no recording")
    return names or [path]


def connect(path: str) -> sqlite3.Connection:
    """A recording, open for reading only. Nothing is written to its folder: where SQLite would have to repair the file
    first, a private copy is read.

    Raises RecordingError when it is missing, empty, not a recording, or of a newer schema.
    """
    _check_file(path)
    try:
        return _checked(_connect_read_only(path), path)
    except sqlite3.OperationalError as error:
        if not os.access(path, os.R_OK):
            raise RecordingError(f"{path}: permission denied") from None
        try:
            return _checked(_connect_copy(path), path)
        except (sqlite3.Error, OSError):
            raise RecordingError(f"{path}: can't be read: {error}") from None
    except sqlite3.DatabaseError as error:
        raise RecordingError(f"{path}: is damaged: {error}") from None
    except UnicodeDecodeError:  # SQLite's message, which quotes the damage
        raise RecordingError(f"{path}: is damaged: malformed database schema") from None


def _check_file(path: str) -> None:
    try:
        with open(path, "rb") as stream:
            head = stream.read(16)
    except FileNotFoundError:
        raise RecordingError(f"{path}: no such file") from None
    except IsADirectoryError:
        raise RecordingError(f"{path}: is a directory, not a recording") from None
    except OSError as error:
        raise RecordingError(f"{path}: can't be read: {error.strerror}") from None
    if not head:
        raise RecordingError(f"{path}: is empty: nothing was recorded into it")
    if head != _MAGIC:
        raise RecordingError(f"{path}: is not a recording (not an SQLite database)")


def _connect_read_only(path: str) -> sqlite3.Connection:
    uri = f"file:{quote(os.fsencode(os.path.abspath(path)))}?mode=ro"
    connection = sqlite3.connect(uri, uri=True, isolation_level=None, timeout=2.0, check_same_thread=False)
    connection.text_factory = _text
    try:
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def _text(data: bytes) -> str:
    """Text of a file that may be damaged."""
    return data.decode("utf-8", "replace")


def _connect_copy(path: str) -> sqlite3.Connection:
    """A private copy: for a file that an unfinished transaction or an unreadable write-ahead log stands in the way of."""
    folder = tempfile.mkdtemp(prefix="gssr-")
    try:
        copy = os.path.join(folder, "recording.sql")
        for _ in range(10):
            before = fingerprint(path)
            for suffix in ("", "-wal", "-journal"):
                if os.path.exists(path + suffix):
                    shutil.copyfile(path + suffix, copy + suffix)
            if fingerprint(path) == before:
                break
            time.sleep(0.1)
        connection = sqlite3.connect(copy, isolation_level=None, check_same_thread=False)
        connection.text_factory = _text
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        return connection
    finally:
        shutil.rmtree(folder, ignore_errors=True)  # SQLite keeps reading from the open file


def missing_end(path: str) -> str | None:
    """A sentence when the file is shorter than its own head says; None when it is whole, or can't tell because parts of it
    still are in a write-ahead log."""
    with open(path, "rb") as stream:
        head = stream.read(100)
    if os.path.exists(path + "-wal") or head[24:28] != head[92:96]:  # the page count is valid only with this counter
        return None
    page_size = int.from_bytes(head[16:18], "big")
    size = int.from_bytes(head[28:32], "big") * (65536 if page_size == 1 else page_size)
    found = os.path.getsize(path)
    return f"{path}: is cut off: {found:,} of {size:,} bytes are there" if found < size else None


class Fingerprint(NamedTuple):
    """What tells whether a database was written between two looks."""

    change_counter: bytes
    sizes: tuple[int, ...]


def fingerprint(path: str) -> Fingerprint:
    """A look at the file itself; ``sizes`` of the file, its write-ahead log and its journal, -1 for none."""
    with open(path, "rb") as stream:
        counter = stream.read(100)[24:28]
    sizes = [
        os.stat(path + suffix).st_size if os.path.exists(path + suffix) else -1 for suffix in ("", "-wal", "-journal")
    ]
    return Fingerprint(counter, tuple(sizes))


def _checked(connection: sqlite3.Connection, path: str) -> sqlite3.Connection:
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
    problem = None
    if application != APPLICATION_ID or "runs" not in tables:
        if {"data", "process_metadata"} <= tables:
            problem = "is a recording of the older GSSR 0.x, which this version can't read"
        elif not tables:
            problem = "holds nothing: nothing was recorded into it"
        else:
            problem = "is an SQLite database of something else, not a recording"
    elif version > SCHEMA_VERSION:
        problem = f"has schema {version}, this gssr knows up to {SCHEMA_VERSION}: read it with a newer gssr"
    if problem:
        connection.close()
        raise RecordingError(f"{path}: {problem}")
    return connection
