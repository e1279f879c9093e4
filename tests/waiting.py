"""Waiting for what other processes and threads do: for conditions, not for times."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

PATIENCE = 60.0  # s: a machine may be busy
UNTIL_GO = "until [ -e go ] || [ $((n += 1)) -gt 4000 ]; do sleep 0.02; done"
"""A workload that runs until the test makes a file ``go``, which it does once it has seen what it waits for. It ends some
time after a test that has failed before, too."""


def until(condition: Callable[[], Any], what: str = "it", patience: float = PATIENCE) -> Any:
    """Wait until ``condition`` holds, for ``patience`` s at most; its value."""
    begin = time.monotonic()
    while not (value := condition()):
        waited = time.monotonic() - begin
        assert waited < patience, f"waited in vain for {what}"
        time.sleep(min(0.002 + waited / 20, 0.05))
    return value


def until_ended(pid: int) -> None:
    """Wait until a process has ended, whether or not its parent has noticed."""
    until(lambda: process_state(pid) in "XZ", f"the end of process {pid}")


def process_state(pid: int) -> str:
    """The kernel's letter for a process's state; X when there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return "X"
