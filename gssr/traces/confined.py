"""Packages of native code that read files which may be from anybody: each runs in a process of its own, which has limits of
memory and time, and what it writes is read as what a stranger has written.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import IO, NamedTuple


class Limits(NamedTuple):
    """What a process may use at most: ``memory`` (bytes of address space), ``written`` (bytes of each file that it writes)
    and ``seconds`` of CPU time, None for no limit."""

    memory: int
    written: int
    seconds: int | None = None


def confine(limits: Limits) -> None:
    """Set limits on this process, which leaves no core file either."""
    asked = (
        (resource.RLIMIT_AS, limits.memory), (resource.RLIMIT_FSIZE, limits.written), (resource.RLIMIT_CPU, limits.seconds),
        (resource.RLIMIT_CORE, 0),
    )  # fmt: skip
    for kind, most in asked:
        if most is not None:
            _, hard = resource.getrlimit(kind)
            resource.setrlimit(kind, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


def command_of(send: Callable[[], None], *arguments: str) -> tuple[list[str], dict[str, str]]:
    """Return the command, and its environment, that calls a function of a module in a process of its own, where the
    arguments are in ``sys.argv``."""
    code = f"from {send.__module__} import {send.__name__} as send; send()"
    return [sys.executable, "-P", "-c", code, *arguments], os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}


@contextmanager
def written_by(
    send: Callable[[], None],
    path: str,
    arguments: Sequence[str],
    limits: Limits,
    package: str,
    variables: Mapping[str, str],
) -> Iterator[tuple[IO[bytes], int]]:
    """Let ``send``, which begins with ``confined_arguments``, read the file ``path`` with a ``package`` of native code in a
    process of its own. Returns for what stands under ``with`` a file with what it has written to its standard output, and
    its exit code.

    Args:
        send: the function that is called there.
        path: the first of its arguments.
        arguments: the others.
        limits: what it may take; with ``seconds``, of which it may need twice as many by the clock.
        package: what an error names.
        variables: further variables of its environment.

    Raises TraceError if the process does not end in time.
    """
    assert limits.seconds is not None
    command, environment = command_of(send, json.dumps(limits), path, *arguments)
    with tempfile.TemporaryFile() as written:
        try:
            process = subprocess.run(
                command, stdin=subprocess.DEVNULL, stdout=written, stderr=subprocess.DEVNULL, timeout=2 * limits.seconds,
                check=False, env=environment | {**variables},
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            from gssr.traces.timeline import TraceError  # with numpy, which the processes themselves need not load

            text = f"{path}: can't be read: {package} got no further in {2 * limits.seconds} s"
            raise TraceError(text) from None
        written.seek(0)
        yield written, process.returncode


def confined_arguments() -> list[str]:
    """Set the limits that ``written_by`` has given this process, and return its arguments."""
    confine(Limits(*json.loads(sys.argv[1])))
    return sys.argv[2:]
