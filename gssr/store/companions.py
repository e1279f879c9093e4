"""The files that SQLite keeps beside a database. On its own, because what starts beside a job must start quickly: who only
looks for them needs no SQLite."""

import os

COMPANIONS = ("-wal", "-shm", "-journal")
"""What there is while a database is open, or after a crash: see ``beside``."""


def beside(path: str, suffix: str) -> str:
    """The name of one of the COMPANIONS of a database: SQLite follows links, and keeps them where the file itself is."""
    return os.path.realpath(path) + suffix
