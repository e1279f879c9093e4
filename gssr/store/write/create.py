"""Making recordings: a new file to write, an existing one to add to, or one to be replaced."""

import fcntl
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from errno import EPERM

from gssr.guarded_sqlite import LIMIT_LENGTH, LONGEST_VALUE, Guarded, UnsafeError, distrust, limit, not_by_itself
from gssr.store.disk import (
    COMPANIONS,
    PLANTED,
    companion_path,
    is_file_or_none,
    is_planted,
    journal_mode,
    make_file,
    make_folder,
)
from gssr.store.format.columns import columns_of
from gssr.store.format.schema import APPLICATION_ID, LIVE_SUFFIX, SCHEMA_VERSION, TABLES, create_statements
from gssr.store.read.guard import check_schema, check_sizes
from gssr.store.read.open import RecordingError, connect
from gssr.store.read.private_copy import journal_names_another

_BUSY_SECONDS = 5.0
"""How long a reader's lock is waited for before the recording begins."""

_SEALING_MS = 200
"""How long each step of sealing waits for readers."""

READERS_SECONDS = 1.5
"""How long readers are waited for where there is time: a page is made in half a second."""

_LOG_BYTES = 4_000_000
"""To this a write-ahead log is cut once it is in the file: it grows where a reader holds its place, as a stopped one."""

_PAGES, _LARGE_PAGES, _MANY_BYTES = 4096, 16384, 16_000_000
"""Bytes of a page. Files with large ones are written a quarter faster, and read faster as well; a small recording would be
mostly empty pages, and one that is written tick by tick would write each of them over and over."""

_LOCK_TRIES, _LOCK_PAUSE = 40, 0.05  # s


class TakenError(RecordingError):
    """Somebody else is recording into the file."""

    def __init__(self, path: str) -> None:
        super().__init__(f"{path}: is being recorded into by another gssr: give each its own -o")


def remove(path: str) -> None:
    """Delete a recording, what SQLite keeps beside it, and a live block; of a link, what it leads to. What is not there
    is passed over. Raises OSError when a file can't be deleted."""
    file = os.path.realpath(path) if os.path.islink(path) else path
    for name in [file, file + LIVE_SUFFIX, *(companion_path(path, suffix) for suffix in COMPANIONS)]:
        try:
            os.unlink(name)
        except FileNotFoundError:
            pass


def finished_runs(path: str) -> frozenset[str]:
    """List the ids of a recording's runs, all of which have ended or are lost. Raises TakenError when somebody is
    recording into it, RecordingError as ``connect`` does or when it is damaged."""
    from gssr.store.liveness import time_in
    from gssr.store.read.small_tables import is_recorded_into

    folder = os.path.dirname(os.path.realpath(path))
    with closing(connect(path)) as connection:
        try:
            # First, so that a run which is added meanwhile is not among them.
            found = frozenset(run_id for (run_id,) in connection.execute("SELECT run_id FROM runs"))
            if is_recorded_into(connection, path, lambda: time_in(folder)):
                raise TakenError(path)
            return found
        except sqlite3.DatabaseError as error:
            raise RecordingError(f"{path}: is damaged: {error}") from None


@contextmanager
def overwriting(path: str) -> Iterator[frozenset[str]]:
    """Delete a recording, and give the ids of the runs it held; none of one that could not be read.

    Inside the context the recording in its place is begun, while other processes that are to overwrite it as well wait,
    and then find it taken. Raises TakenError when somebody is recording into it by now, RecordingError when it can't be
    deleted.
    """
    try:
        folder = os.open(os.path.dirname(os.path.abspath(path)), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise RecordingError(f"{path}: can't be overwritten: {error.strerror}") from None
    try:
        _lock_folder(folder, path)
        yield _delete_recording(path)
    finally:
        os.close(folder)


def put_in_place(path: str, name: str, replaces: bool) -> None:
    """Rename the whole recording ``path`` to ``name``, in the same filesystem. ``replaces``: delete the recording that
    is there.

    Raises RecordingError where something is there, or somebody records into what is to be replaced; OSError when it
    can't be renamed.
    """
    if replaces:
        with overwriting(name):
            os.rename(path, name)
        return
    if any(os.path.lexists(companion_path(name, suffix)) for suffix in COMPANIONS):
        raise RecordingError(f"{name}: what is left of another recording is beside it: choose another name")
    try:
        os.link(path, name, follow_symlinks=False)
        os.unlink(path)
    except FileExistsError:
        raise RecordingError(f"{name}: exists already") from None
    except OSError:  # a filesystem without links
        os.rename(path, name)


def _lock_folder(folder: int, path: str) -> None:
    """Lock an open folder against other processes, until it is closed. Does nothing where the filesystem has no such
    locks. Raises TakenError, about the recording ``path``, if another process holds it for longer than is waited
    (_LOCK_TRIES times _LOCK_PAUSE s)."""
    for _ in range(_LOCK_TRIES):
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            time.sleep(_LOCK_PAUSE)
        except OSError:
            return  # some network filesystems have no such locks
    raise TakenError(path)


def _delete_recording(path: str) -> frozenset[str]:
    """Delete a recording. Returns the ids of the runs that it held, all of them over; none if it could not be read.
    Raises TakenError if somebody is recording into it, RecordingError if it can't be deleted."""
    runs = frozenset[str]()
    try:
        runs = finished_runs(path)
    except TakenError:
        raise
    except RecordingError:
        pass  # damaged, or gone already
    try:
        remove(path)
    except OSError as error:
        raise RecordingError(f"{path}: can't be overwritten: {error.strerror}") from None
    return runs


def create(path: str, shrinks: bool = False) -> sqlite3.Connection:
    """Make a new, empty recording, open for writing; an empty file is made one.

    ``shrinks``: it can give pages that are free back to the filesystem (gssr.store.write.thinning). Raises
    RecordingError when something else is there or it can't be made. Another process may be making it at the same
    moment: ``Writer.begin`` decides.
    """
    own = False
    try:
        _make_empty_file(path)
        own = True
    except FileExistsError:
        if not _is_empty_file(path):
            raise RecordingError(f"{path}: exists already") from None
    except OSError as error:
        raise RecordingError(f"{path}: can't be written: {error.strerror}") from None
    try:
        return _open_for_writing(path, shrinks)
    except sqlite3.Error as error:
        if own and "locked" not in str(error):  # by another process, whose file it is as well
            remove(path)
        raise RecordingError(f"{path}: can't be written: {error}") from None


def _make_empty_file(path: str) -> None:
    """Make the empty file of a recording, and the folder ``NAME.sql.d`` around it if a merge has just removed that.
    Raises FileExistsError if anything is there, PermissionError if that or a companion of it was put there by somebody
    else, another OSError if it can't be made."""
    for name in (path, path + LIVE_SUFFIX, *(companion_path(path, suffix) for suffix in COMPANIONS)):
        if is_planted(name):
            raise PermissionError(EPERM, f"{name} {PLANTED}")
    try:
        os.close(make_file(path, os.O_EXCL))
    except FileNotFoundError:
        if not os.path.dirname(path).endswith(".sql.d"):
            raise
        make_folder(os.path.dirname(path))  # a merge has just removed it
        os.close(make_file(path, os.O_EXCL))


def _is_empty_file(path: str) -> bool:
    """Tell whether a regular, empty file is there; False where that can't be seen."""
    try:
        return os.path.isfile(path) and os.path.getsize(path) == 0
    except OSError:
        return False


def create_unguarded(path: str, size: int = 0) -> sqlite3.Connection:
    """Make a new recording to be filled in one go, or deleted when that fails: nothing protects it against a crash. It
    will have about ``size`` bytes (0: few). Raises sqlite3.Error, and OSError, also when the file exists."""
    os.close(make_file(path, os.O_EXCL))
    connection = sqlite3.connect(path, isolation_level=None, uri=True)
    pages = f"page_size={_LARGE_PAGES if size > _MANY_BYTES else _PAGES}"
    for pragma in (pages, "journal_mode=OFF", "synchronous=OFF", "locking_mode=EXCLUSIVE"):
        connection.execute(f"PRAGMA main.{pragma}").fetchall()  # but not of what is attached
    _make_tables(connection)
    return connection


def seal(connection: sqlite3.Connection) -> None:
    """Make a recording, whose writing has ended, one plain file that opens from anywhere, and close it.

    It is not waited long for readers: a job that ends may have only seconds until its SIGKILL. Never raises for a
    reader: with one, the recording stays a write-ahead log.
    """
    try:
        connection.execute(f"PRAGMA busy_timeout={_SEALING_MS}").fetchall()
        (busy, *_) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        # With a reader it stays a write-ahead log, which is as good on this host. To leave that mode regardless would change
        # the file under a reader whose lock on it is gone, as it is once its process has closed the same file.
        if not busy:
            # All of it is on the disk. What is left is a word in the head, which is right in either state: waiting for the
            # disk three times more would only hold up the end of the job.
            connection.execute("PRAGMA synchronous=OFF").fetchall()
            connection.execute("PRAGMA journal_mode=DELETE").fetchall()
    except sqlite3.Error:
        pass  # a reader has just opened it
    connection.close()


def seal_again(path: str, patience: float = READERS_SECONDS) -> None:
    """Seal a recording that has ended and is not one file yet, because a reader had it open at its end or its recorder
    was killed. Readers are waited for, ``patience`` s at most. Where somebody records into it, or it can't be written,
    it stays as it is, and nothing is raised."""
    deadline = time.monotonic() + patience
    try:
        while any(os.path.exists(companion_path(path, suffix)) for suffix in COMPANIONS):
            finished_runs(path)
            seal(reopen(path))
            if time.monotonic() >= deadline:
                return
            time.sleep(_LOCK_PAUSE)
    except RecordingError:
        pass


def reopen(path: str) -> sqlite3.Connection:
    """Open an existing recording (``finished_runs`` says whether it is one) for writing another run into it. Raises
    RecordingError when it can't be written."""
    if is_planted(path):
        raise RecordingError(f"{path}: can't be written: {PLANTED}")
    try:
        return _open_for_writing(path)
    except sqlite3.Error as error:
        raise RecordingError(f"{path}: can't be written: {error}") from None


def _open_for_writing(path: str, shrinks: bool = False) -> sqlite3.Connection:
    """Open a recording, or a file that is still empty, for writing. Tables and columns that it lacks are made, and its
    journal mode is set to what its filesystem allows. ``shrinks`` is as in ``create`` and has an effect on an empty file
    only. Raises sqlite3.Error, also if the file holds anything that no recording should."""
    # uri: for the names of files to attach, not for this one.
    connection = sqlite3.connect(
        path, isolation_level=None, timeout=_BUSY_SECONDS, check_same_thread=False, uri=True, factory=Guarded
    )
    if _is_empty_file(path):
        connection.execute("PRAGMA synchronous=OFF")  # nothing is in it yet that a loss of power could take
        if shrinks:
            connection.execute("PRAGMA auto_vacuum=INCREMENTAL")  # a choice that a database has only while it is empty
    else:
        _distrust(connection, path)
    _make_tables(connection)  # before the switch to WAL: the file itself tells what it is from its first second on
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
    connection.execute(f"PRAGMA journal_size_limit={_LOG_BYTES}").fetchall()
    return connection


def _distrust(connection: Guarded, path: str) -> None:
    """Let nothing run that somebody else put into the file, when it is written. Raises sqlite3.Error where that can't
    be made sure."""
    try:
        for suffix in COMPANIONS:
            if not is_file_or_none(companion_path(path, suffix)):
                raise UnsafeError(f"{os.path.basename(path)}{suffix} is not a file")
        if journal_names_another(path):
            raise UnsafeError(
                f"{os.path.basename(path)}-journal was not made by gssr: delete it, or choose another name"
            )
        connection.budget.files = [path, *(companion_path(path, suffix) for suffix in COMPANIONS)]
        distrust(connection)
        check_schema(connection, to_write=True)
    except OSError as error:
        raise UnsafeError(str(error.strerror)) from None
    finally:
        connection.set_progress_handler(None, 0)
    limit(connection, LIMIT_LENGTH, LONGEST_VALUE)
    check_sizes(connection, to_write=True)
    connection.set_authorizer(not_by_itself)


def _make_tables(connection: sqlite3.Connection) -> None:
    """Mark the file as a recording of this version, and make the tables and columns that it lacks, in one transaction.
    Raises sqlite3.Error, then maybe inside of the transaction."""
    connection.execute("BEGIN IMMEDIATE")
    connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version={SCHEMA_VERSION}")
    for statement in create_statements():
        connection.execute(statement)
    _add_missing_columns(connection)
    connection.execute("COMMIT")


def _add_missing_columns(connection: sqlite3.Connection) -> None:
    """Add the columns that this version knows and an older file lacks."""
    for table, columns in TABLES.items():
        present = columns_of(connection, table)
        for column in columns:
            if column.name not in present:
                connection.execute(f"ALTER TABLE {table} ADD COLUMN {column.name} {column.type}")
