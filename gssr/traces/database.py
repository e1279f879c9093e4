"""Traces that are SQLite databases, opened and read as a whole."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from gssr.store.read.database import Database
from gssr.store.read.open import Readable, RecordingError
from gssr.traces.timeline import TraceError


@contextmanager
def open_database(path: str, readable: Readable, tables: Iterable[str]) -> Iterator[Database]:
    """Open the database at ``path`` for what stands under ``with``. ``tables`` are those that may be read; they are iterated
    after ``readable`` has looked at the file, and may depend on that. Raises TraceError, in the end also if the file was
    written meanwhile."""
    try:
        database = Database(path, readable, tables)
        try:
            yield database
            database.check()
        finally:
            database.close()
    except RecordingError as error:
        raise TraceError(str(error)) from None
