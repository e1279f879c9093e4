"""What a process costs: one that is run to its end, or one that is looked at while it runs."""

import os
import statistics
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
CACHE = Path(__file__).parent / ".cache"
"""Where everything that is written goes: a real disk, ignored by git."""
PYTHON = sys.executable
GSSR = (PYTHON, "-m", "gssr")
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
ENVIRONMENT["PYTHONPATH"] = str(ROOT)
MB = 1e6


class Cost(NamedTuple):
    """``wall`` and ``cpu`` (user and system, of a process and its children) in s, ``rss``: the greatest of their peaks of
    resident memory, bytes, but no less than this process's own: the kernel counts from before the new program was loaded.
    That is why nothing big is done in this process."""

    wall: float
    cpu: float
    rss: float


def spawn(
    command: Sequence[str | Path], output: Path | None = None, environment: Mapping[str, str] = ENVIRONMENT
) -> int:
    """Start a command; its pid. Standard output goes to ``output``, or nowhere; standard error nowhere."""
    words = [os.fspath(word) for word in command]
    sink = os.fspath(output or os.devnull)
    files = [
        (os.POSIX_SPAWN_OPEN, 1, sink, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666),
        (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
    ]
    return os.posix_spawnp(words[0], words, environment, file_actions=files)


def run(
    command: Sequence[str | Path], output: Path | None = None, environment: Mapping[str, str] = ENVIRONMENT
) -> Cost:
    """Run a command to its end. Raises RuntimeError when it fails."""
    began = time.perf_counter()
    _, status, usage = os.wait4(spawn(command, output, environment), 0)
    wall = time.perf_counter() - began
    if status:
        words = " ".join(map(str, command))
        raise RuntimeError(f"{words}: exit code {os.waitstatus_to_exitcode(status)}")
    return Cost(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024)


def median(costs: Iterable[Cost]) -> Cost:
    """The median of each number."""
    return Cost(*(statistics.median(column) for column in zip(*costs, strict=True)))


def child_called(name: str, parent: int, patience: float = 10.0) -> int:
    """The pid of the child of ``parent`` whose command name is ``name``. Raises RuntimeError when none turns up."""
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        for entry in os.listdir("/proc"):
            if entry.isdigit() and _name_and_parent(int(entry)) == (name, parent):
                return int(entry)
        time.sleep(0.01)
    raise RuntimeError(f"process {parent} has no child called {name}")


def _stat(pid: int) -> tuple[str, list[str]]:
    """Command name, and the fields after it, of /proc/PID/stat."""
    text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    before, _, after = text.rpartition(") ")
    return before.partition("(")[2], after.split()


def _name_and_parent(pid: int) -> tuple[str, int]:
    try:
        name, fields = _stat(pid)
    except OSError:
        return "", 0
    return name, int(fields[1])


def cpu_seconds(pid: int) -> float:
    """CPU time of a process and its threads, those that have ended as well, by the scheduler's own count: the clock whose
    number clock_getcpuclockid(3) gives. Raises OSError when there is no such process."""
    return time.clock_gettime(~pid << 3 | 2)


def stolen_seconds() -> float:
    """Time that this machine's cores could not run because its host gave them to others, all cores together, since boot; 0
    where nobody tells (see proc(5), steal). What runs here then finds its caches emptied by strangers."""
    cpu = Path("/proc/stat").read_text().partition("\n")[0].split()
    return int(cpu[8]) / os.sysconf("SC_CLK_TCK")


def proportional_bytes(pid: int) -> float:
    """Resident memory now, each page divided by the number of processes that share it."""
    for entry in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if entry.startswith("Pss:"):
            return float(entry.split()[1]) * 1024
    raise RuntimeError(f"process {pid} has ended")


def resident_bytes(pid: int) -> float:
    """Resident memory now."""
    for entry in Path(f"/proc/{pid}/status").read_text().splitlines():
        if entry.startswith("VmRSS:"):
            return float(entry.split()[1]) * 1024
    raise RuntimeError(f"process {pid} has ended")
