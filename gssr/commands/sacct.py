"""Slurm's accounting for ``gssr fleet --sacct``: a file of it, or what the command sacct says."""

from __future__ import annotations

import os
import subprocess
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gssr.model.fleet.allocations import Allocation

_SECONDS = 600
"""So long sacct may take."""


def from_file(path: str, now: float) -> tuple[list[Allocation], int]:
    """Read the jobs with GPUs from a file with what ``sacct --parsable2`` printed, or a CSV of it. Returns also how many
    lines could not be read. Raises ValueError, a sentence."""
    from gssr.model.fleet.allocations import read_sacct

    try:
        with open(path, encoding="utf-8", errors="replace", newline="") as stream:
            return read_sacct(stream, now)
    except OSError as error:
        raise ValueError(f"{path}: can't be read: {error.strerror}") from None
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def from_slurm(since: float, now: float) -> tuple[list[Allocation], int]:
    """Ask sacct for all users' jobs since a time (unix s). Returns as ``from_file`` does. Raises ValueError, a sentence."""
    from gssr.model.fleet.allocations import FIELDS, read_sacct

    command = [
        "sacct", "--allusers", "--allocations", "--duplicates", "--parsable2", f"--format={','.join(FIELDS)}",
        f"--starttime={_local(since)}", f"--endtime={_local(now)}",
    ]  # fmt: skip
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env={**os.environ, "SLURM_TIME_FORMAT": "%s"},
            encoding="utf-8",
            errors="replace",
            timeout=_SECONDS,
            check=False,
        )
    except FileNotFoundError:
        raise ValueError("sacct is not installed here: save its output where it is, and give that file") from None
    except OSError as error:
        raise ValueError(f"sacct can't be run: {error.strerror}") from None
    except subprocess.TimeoutExpired:
        raise ValueError(f"sacct took longer than {_SECONDS} s") from None
    if done.returncode:
        said = next((line for line in done.stderr.splitlines() if line.strip()), "it says nothing")
        raise ValueError(f"sacct failed: {said}")
    try:
        return read_sacct(done.stdout.splitlines(), now)
    except ValueError as error:
        raise ValueError(f"what sacct printed {error}") from None


def _local(unix_time: float) -> str:
    """Write a time as sacct reads it, in this machine's zone."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(unix_time))
