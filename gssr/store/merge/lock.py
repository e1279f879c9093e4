"""One merge at a time: an exclusive file in the folder of the ranks' files.

It works on every filesystem that makes files exclusively, which all shared ones do, while locks of SQLite may not reach
other hosts. Whoever holds it touches it while at work; one that is not touched, or whose holder is gone, is taken over.
"""

from __future__ import annotations

import os
import time
from binascii import hexlify

from gssr.store.disk import FILE, small_text
from gssr.store.liveness import boot_id, process_start, stamped_now

STALE_SECONDS = 60.0
"""A lock that was not touched for so long is taken over, by the clock of the filesystem."""
_NAMELESS_SECONDS = 5.0
"""The same of one that is empty: who made it was killed before it said who it is."""
_TOUCH_SECONDS = 5.0
_NAME = "merge.lock"


class Lock:
    """The lock on a folder, as long as it is ``held``."""

    def __init__(self, path: str, text: str) -> None:
        self._path, self._text = path, text
        self._touched = time.monotonic()

    def touch(self) -> None:
        """Show that the holder is at work. Cheap enough to be called often; never raises for a file that is gone."""
        if time.monotonic() - self._touched < _TOUCH_SECONDS:
            return
        self._touched = time.monotonic()
        try:
            if self.held:
                os.utime(self._path)
        except OSError:
            pass

    @property
    def held(self) -> bool:
        """True until somebody else has taken the lock over."""
        return _text(self._path) == self._text

    def release(self) -> None:
        """Give the lock up, if it is still held."""
        if self.held:
            _unlink(self._path)


def acquire(folder: str, patience: float = 0.0) -> Lock | None:
    """Take the lock on a folder within ``patience`` s; a lock whose holder is gone is taken over. None if another
    process holds it. Raises OSError if no file can be made in the folder."""
    path = os.path.join(folder, _NAME)
    nonce = hexlify(os.urandom(8)).decode()
    pid = os.getpid()
    text = f"{os.uname().nodename}\t{boot_id()}\t{pid}\t{process_start(pid)}\t{nonce}"
    deadline = time.monotonic() + patience
    while True:
        if _make(path, text):
            return Lock(path, text)
        holder = _text(path)
        if holder is not None and _is_stale(path, holder):
            _take_away(path, holder, f"{path}.{nonce}")
        elif time.monotonic() >= deadline:
            return None
        else:
            time.sleep(0.05)


def _make(path: str, text: str) -> bool:
    """Make the lock's file. Returns False if it exists."""
    try:
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, FILE)
    except FileExistsError:
        return False
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)
    return True


def _text(path: str) -> str | None:
    """Read a lock's file; None if there is none. Raises another OSError."""
    try:
        return small_text(path)
    except FileNotFoundError:
        return None


def _is_stale(path: str, holder: str) -> bool:
    """Tell whether the holder of a lock is gone, or has not touched it for too long."""
    node, boot, pid, start, *_ = [*holder.split("\t"), "", "", "", ""]
    if node == os.uname().nodename and boot == str(boot_id()) and pid.isascii() and pid.isdigit() and len(pid) < 10:
        return str(process_start(int(pid))) != start
    try:
        untouched = stamped_now(os.path.dirname(path)) - os.stat(path).st_mtime
        return untouched > (STALE_SECONDS if holder else _NAMELESS_SECONDS)
    except FileNotFoundError:
        return False


def _take_away(path: str, holder: str, aside: str) -> None:
    """Remove a lock whose holder is gone; only one process can. If it turns out to be another's, it is put back."""
    try:
        os.rename(path, aside)
    except FileNotFoundError:
        return
    if _text(aside) != holder:
        try:
            os.link(aside, path)
        except OSError:
            pass  # a third one has it: the one in the middle will notice
    _unlink(aside)


def _unlink(path: str) -> None:
    """Delete a file, if there is one. Raises OSError if it can't be deleted."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass
