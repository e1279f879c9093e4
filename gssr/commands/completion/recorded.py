"""What of a recording can be typed: its runs, its GPUs."""

import signal
from collections.abc import Sequence
from contextlib import closing, suppress
from typing import NoReturn

_PATIENCE = 0.15
"""Seconds that a recording is read for; whoever has pressed a key waits."""


class _TooLongError(Exception):
    pass


def values(kind: str, files: Sequence[str]) -> dict[str, str]:
    """Return what can be typed for --run (``kind`` "run") or --gpus ("gpus"), each with a word of explanation.

    Read is the first of ``files`` that is a recording, or else the newest one here. Left out are values that can't be
    typed as one word, and what can't be read in _PATIENCE seconds. Empty if there is nothing.
    """
    import sqlite3

    from gssr.commands.inputs import own_recordings, with_run
    from gssr.guarded_sqlite import UnsafeError
    from gssr.store.read.open import RecordingError, files_of

    found: dict[str, str] = {}

    def enough(*_: object) -> NoReturn:
        raise _TooLongError

    before = signal.signal(signal.SIGALRM, enough)
    with suppress(_TooLongError):
        try:
            signal.setitimer(signal.ITIMER_REAL, _PATIENCE, _PATIENCE)  # again: within SQLite it may be lost
            for name in files or own_recordings():
                with suppress(RecordingError, UnsafeError, sqlite3.Error, OSError):
                    for file in files_of(with_run(name)[0]):
                        _read(kind, file, found)
                if found:
                    break
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)
    return {value: about for value, about in found.items() if _can_be_typed(kind, value)}


def _read(kind: str, file: str, found: dict[str, str]) -> None:
    """Add what one file of a recording says to ``found``. Raises RecordingError and sqlite3.Error."""
    from gssr.gpu_name import gpu_label
    from gssr.store.read.open import connect
    from gssr.store.read.small_tables import read_gpus, read_runs

    with closing(connect(file)) as connection:
        if kind == "run":
            for run in read_runs(connection):
                found.setdefault(run.label or run.run_id, run.run_id if run.label else "")
                found.setdefault(run.run_id, run.label or "")
            return
        gpus = read_gpus(connection, None)
        if len({gpu.node for gpu in gpus} - {None}) > 1:
            found |= {gpu.node: "all of its GPUs" for gpu in gpus if gpu.node}
        found |= {gpu_label(gpu): gpu.name or "" for gpu in gpus}


def _can_be_typed(kind: str, value: str) -> bool:
    """Tell whether a value can be typed as one word that no shell or parser takes for something else."""
    return (
        value.isprintable()
        and value == value.strip()
        and not value.startswith(("-", "~", "#"))  # argcomplete does not quote what only counts at the begin of a word
        and not set(value) & set("*?[")  # bash makes of it the files that fit, where a quote is open
        and not (kind == "gpus" and "," in value)
        and bool(value)
    )
