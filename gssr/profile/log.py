"""NAME.log beside NAME.sql: what the workload prints under --live."""

import os
import stat
from errno import EPERM
from typing import NamedTuple

from gssr.profile.request import UsageError
from gssr.store.disk import FILE, PLANTED, is_planted
from gssr.store.read.open import log_of


class Log(NamedTuple):
    """An open log: what this run prints begins at the byte ``start`` of the file. ``aside``: where the file is until it
    takes the place of an earlier run's log; None when it is at its place."""

    path: str
    fd: int
    start: int
    aside: str | None = None

    def take_place(self) -> None:
        """The workload runs: what an earlier run printed is replaced. Never raises."""
        if self.aside is not None:
            try:
                os.rename(self.aside, os.path.realpath(self.path))
            except OSError:
                pass

    def forget(self) -> None:
        """If it has not taken its place, delete it. Never raises."""
        if self.aside is not None:
            try:
                os.unlink(self.aside)
            except OSError:
                pass


def check_log(recording: str, ours: bool) -> None:
    """Raises UsageError when what stands at the log's place must not be touched. ``ours``: it belongs to a recording that
    is overwritten or added to; else it may be somebody's own file."""
    path = log_of(recording)
    if not os.path.lexists(path) or (os.path.isfile(path) and ours and not is_planted(path)):
        return
    raise UsageError(f"{path}: exists, and --live would keep the output there: choose another name with -o")


def open_log(recording: str, anew: bool) -> Log:
    """Open the log for adding to it and reading; ``anew``: what it holds is deleted once the workload runs. Raises
    OSError."""
    path = log_of(recording)
    mode = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOCTTY
    if anew and os.path.isfile(path):
        aside = f"{os.path.realpath(path)}.{os.getpid()}"
        return Log(path, os.open(aside, mode | os.O_EXCL, FILE), 0, aside)
    if is_planted(path):
        raise PermissionError(EPERM, PLANTED, path)
    fd = os.open(path, mode, FILE)
    status = os.fstat(fd)
    if not stat.S_ISREG(status.st_mode):
        os.close(fd)
        raise OSError(0, "is not a file", path)
    return Log(path, fd, status.st_size)


def last_lines(log: Log, n: int, most: int = 1 << 16) -> int:
    """The byte at which the last ``n`` lines begin, at most ``most`` bytes before the end and not before this run's own
    output. Raises OSError."""
    end = os.fstat(log.fd).st_size
    begin = max(end - most, log.start)
    lines = os.pread(log.fd, end - begin, begin).split(b"\n")
    if lines[-1] == b"":
        n += 1
    if len(lines) > n:
        return end - len(b"\n".join(lines[len(lines) - n :]))
    # What was cut out begins in the middle of a line.
    return begin if begin == log.start or len(lines) == 1 else begin + len(lines[0]) + 1
