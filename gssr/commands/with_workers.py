"""Where many files are read: ``--dask`` and ``--mpi`` in place of the processes of one machine."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any

from gssr.commands import BAD_INPUT, OK, USAGE, Option, fail, tell
from gssr.version import __version__

if TYPE_CHECKING:
    from gssr.workers import Workers

WORKERS = (
    Option(
        ("--dask",),
        {"metavar": "ADDRESS", "help": "let the workers of this Dask scheduler read, such as tcp://HOST:8786"},
    ),
    Option(
        ("--mpi",), {"action": "store_true", "help": "let all ranks of an MPI job read: mpirun -n 32 gssr ..., or srun"}
    ),
)
"""Options of commands that read many files."""
_PATIENCE = 30.0
"""Seconds for which a scheduler may not answer, and have no worker, before that is said."""
_FILES = ("places", "files", "input", "file", "attach")
"""Options that name files."""


def with_workers(options: argparse.Namespace, command: Callable[[argparse.Namespace, Workers], int]) -> int:
    """Carry out a command with the workers that its options name; return its exit code.

    With ``--mpi`` only rank 0 carries it out, and all others work for it. With ``--dask`` the options' files get absolute
    names, as workers may run in other folders.
    """
    from gssr.workers import NoWorkersError, Workers

    if options.dask is not None and options.mpi:
        return fail("--dask and --mpi: choose one", USAGE)
    try:
        if options.mpi:
            with _mpi() as workers:
                return OK if workers is None else command(options, workers)
        if options.dask is not None:
            for name in _FILES:
                _name_whole(options, name)
            with _dask(options.dask) as workers:
                return command(options, workers)
        return command(options, Workers(lost=_tell_lost))
    except NoWorkersError as error:
        return fail(str(error), BAD_INPUT)


def _tell_lost(n_files: int) -> None:
    """Say that a worker was lost, and how many files are given out again for that."""
    files = f"{n_files:,} files are" if n_files != 1 else "1 file is"
    tell(f"a worker was lost: {files} given out again")


def _name_whole(options: argparse.Namespace, name: str) -> None:
    """Make the names of files absolute that an option has, if the command knows it."""
    value = getattr(options, name, None)
    if isinstance(value, str):
        setattr(options, name, os.path.abspath(value))
    elif value:
        setattr(options, name, [os.path.abspath(each) for each in value])


@contextmanager
def _mpi() -> Iterator[Workers | None]:
    """Yield, on rank 0, all other ranks as workers; on these None, after they have done all the work. A rank alone reads by
    processes, as without MPI."""
    from mpi4py import MPI
    from mpi4py.futures import MPICommExecutor

    from gssr.workers import Workers

    executor: Any
    n_workers = MPI.COMM_WORLD.Get_size() - 1
    try:
        if not n_workers:
            yield Workers(lost=_tell_lost)
            return
        with MPICommExecutor(MPI.COMM_WORLD, root=0) as executor:
            yield None if executor is None else Workers(executor, n_workers)
    finally:
        MPI.Finalize()  # a command ends without what is done at an interpreter's end


@contextmanager
def _dask(address: str) -> Iterator[Workers]:
    """Yield the workers of a Dask scheduler. Raises NoWorkersError where there is none, or one with another version of
    GSSR."""
    import logging

    distributed: Any = import_module("distributed")  # which has no types

    from gssr.commands.dask_executor import DaskExecutor
    from gssr.workers import NoWorkersError, Workers

    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # what goes wrong is said in a sentence
    what = f"--dask {address}"
    try:
        client = distributed.Client(address, timeout=_PATIENCE, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        raise NoWorkersError(f"{what}: no scheduler answers there: {error}") from None
    try:
        try:
            client.wait_for_workers(1, timeout=_PATIENCE)
        except (OSError, TimeoutError):
            raise NoWorkersError(f"{what}: no worker has come to this scheduler in {_PATIENCE:.0f} s") from None
        for worker, version in _versions(client).items():
            if version != __version__:
                has = f"GSSR {version}" if version else "no GSSR"
                raise NoWorkersError(f"{what}: the worker {worker} has {has}: install {__version__} there")
        n_workers = max(sum(client.nthreads().values()), 1)
        yield Workers(DaskExecutor(client, _tell_lost), n_workers, _presence_check(client, what))
    finally:
        with suppress(Exception):
            client.close(timeout=5)


def _versions(client: Any) -> dict[str, str]:
    """Ask each worker which version of GSSR it has; "" for none."""
    found: dict[str, str] = client.run(_own_version_text, on_error="return")
    return {worker: version if isinstance(version, str) else "" for worker, version in found.items()}


def _own_version_text() -> str:
    return __version__


def _presence_check(client: Any, what: str) -> Callable[[], None]:
    """Return a function that raises NoWorkersError if a Dask scheduler is gone, or has had no worker for a while. ``what``
    names the scheduler in errors."""
    import time

    from gssr.workers import NoWorkersError

    alone_since: float | None = None

    def check_presence() -> None:
        """Raise NoWorkersError if the scheduler is gone, or has been without a worker at every call for more than
        _PATIENCE s."""
        nonlocal alone_since
        if client.status not in ("running", "connecting"):
            raise NoWorkersError(f"{what}: the scheduler is gone")
        if client.scheduler_info()["workers"]:
            alone_since = None
            return
        alone_since = alone_since or time.monotonic()
        if time.monotonic() - alone_since > _PATIENCE:
            raise NoWorkersError(f"{what}: all workers are gone, and none has come back in {_PATIENCE:.0f} s")

    return check_presence
