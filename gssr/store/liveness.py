"""Is the process that writes a recording still there? A pid alone doesn't tell: it may have been reused, or the node may
have been booted since."""

from __future__ import annotations

import os
import time

from gssr.store.disk import companion_path, make_file

CLOCK = "clock."
"""What a file is called that is made only to see its time."""

_HOST_NAMESPACE = "pid:[4026531836]"
"""The namespace of process ids that the kernel itself begins with; the number is fixed (PROC_PID_INIT_INO)."""


def boot_id() -> str | None:
    """Return the kernel's id of this boot, followed by the namespace of process ids if that is a container's: where two
    processes get equal texts a pid means the same process. None if it cannot be read."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as stream:
            boot = stream.read().strip()
        namespace = os.readlink("/proc/self/ns/pid")
    except OSError:
        return None
    return boot if namespace == _HOST_NAMESPACE else f"{boot} {namespace}"


def process_start(pid: int) -> int | None:
    """Return when a process started, in clock ticks after boot; None if there is none, or only a zombie."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as stream:
            fields = stream.read().rpartition(b") ")[2].split()
        return None if fields[0] in (b"Z", b"X") else int(fields[19])
    except (OSError, IndexError, ValueError):
        return None


def silent_seconds(path: str, now: float) -> float:
    """Return the seconds since the file or its write-ahead log was last written; infinity if neither can be seen. An
    empty log does not count, as readers make one."""
    latest = -float("inf")
    for name in (path, companion_path(path, "-wal")):
        try:
            status = os.stat(name)
        except OSError:
            continue
        if status.st_size:
            latest = max(latest, status.st_mtime)
    return now - latest


def stamped_now(folder: str) -> float:
    """Return the unix time by the clock that stamps files in this folder, which on a network filesystem may differ from
    this host's. Makes a file there for a moment. Raises OSError if that is impossible."""
    path = os.path.join(folder, f"{CLOCK}{os.uname().nodename}-{os.getpid()}")
    try:
        os.close(make_file(path, 0))
        os.utime(path)
        return os.stat(path).st_mtime
    finally:
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass


def time_in(folder: str) -> float:
    """Return the unix time as ``stamped_now`` does, or by this host's clock if no file can be made there."""
    try:
        return stamped_now(folder)
    except OSError:
        return time.time()
