"""Traces that are SQLite databases, opened and read as a whole."""

from collections.abc import Callable, Iterable
from typing import TypeVar

from gssr.store.read.database import Database
from gssr.store.read.open import Readable, RecordingError
from gssr.traces.timeline import TraceError

_Read = TypeVar("_Read")


def read_database(path: str, readable: Readable, tables: Iterable[str], read: Callable[[Database], _Read]) -> _Read:
    """Open the database at ``path``, call ``read`` with it, and return what it returns. ``tables`` are those that
    ``read`` may read; they are iterated after ``readable`` has looked at the file, and may depend on that. Raises
    TraceError, also if the file was written meanwhile."""
    try:
        database = Database(path, readable, tables)
        try:
            found = read(database)
            database.check()
            return found
        finally:
            database.close()
    except RecordingError as error:
        raise TraceError(str(error)) from None
