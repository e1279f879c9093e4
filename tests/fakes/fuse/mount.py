"""A shared filesystem as two hosts see it, on one machine: ``mount.py FOLDER MOUNTPOINT [--trust] -- COMMAND...``

Runs the command with FOLDER at MOUNTPOINT, through a FUSE filesystem of its own: so each command has page, attribute and
name caches of its own, which nobody tells of what another one writes, and locks that another one does not see. Writes go
through at once, reads come from the cache. As on NFS, names and attributes are believed for a second, and what is cached of
a file is dropped when it is opened; with ``--trust`` not even then, only once other attributes are seen.

It needs /dev/fuse, and a mount namespace of its own with the right to mount: ``unshare --mount``, for other users than
root ``unshare --user --map-root-user --mount``. No library.
"""

import ctypes
import errno
import os
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress

from protocol import (
    AUTO_INVALIDATE,
    BIG_WRITES,
    INIT,
    KEEP_CACHE,
    LONGEST_WRITE,
    MAJOR,
    MINOR,
    OPENED,
    READ,
    REPLY,
    REQUEST,
    REQUEST_BYTES,
    SETATTR,
    STATFS,
    UNANSWERED,
    Op,
    attributes_for,
    entry,
    listed,
)

VALID = 1.0
"""Seconds for which names and attributes are believed."""
LATENCY = 0.002
"""Seconds that a write takes, as over a network: others see what is half written."""
_ROOT = 1
_MODE, _SIZE, _ATIME, _MTIME, _ATIME_NOW, _MTIME_NOW = 1, 8, 16, 32, 128, 256  # of SETATTR
_READ_ANYWAY = ~(os.O_ACCMODE | os.O_APPEND | os.O_CREAT | os.O_EXCL)  # the kernel reads pages before it changes them
_MNT_DETACH = 2


class Filesystem:
    """Answers requests: a method per request, named as it is. A node is a file under one name: another file of the same
    name is another node."""

    def __init__(self, folder: bytes, trust: bool) -> None:
        self._paths = {_ROOT: folder}
        self._nodes: dict[tuple[bytes, int], int] = {}
        self._trust = trust

    def answer(self, op: int, node: int, data: bytes) -> bytes:
        """Raises OSError with what is the answer then."""
        if op in (Op.FLUSH, Op.FSYNCDIR, Op.ACCESS, Op.OPENDIR, Op.RELEASEDIR, Op.DESTROY):
            return bytes(OPENED.size) if op == Op.OPENDIR else b""
        method: Callable[[int, bytes], bytes] | None = None
        if op in Op.__members__.values():
            method = getattr(self, Op(op).name.lower(), None)
        if method is None:
            raise OSError(errno.ENOSYS, "not needed")
        return method(node, data)

    def _named(self, node: int, name: bytes) -> bytes:
        return os.path.join(self._paths[node], name.rstrip(b"\0"))

    def _entry(self, path: bytes) -> bytes:
        status = os.lstat(path)
        node = self._nodes.setdefault((path, status.st_ino), len(self._nodes) + _ROOT + 1)
        self._paths[node] = path
        return entry(node, VALID, status)

    def init(self, _node: int, _data: bytes) -> bytes:
        flags = BIG_WRITES | (AUTO_INVALIDATE if self._trust else 0)
        return INIT.pack(MAJOR, MINOR, LONGEST_WRITE, flags, 16, 12, LONGEST_WRITE, 1, 0, 0, 0)

    def lookup(self, node: int, data: bytes) -> bytes:
        return self._entry(self._named(node, data))

    def getattr(self, node: int, _data: bytes) -> bytes:
        return attributes_for(VALID, os.lstat(self._paths[node]))

    def setattr(self, node: int, data: bytes) -> bytes:
        what, _, _, size, _, atime, mtime, _, atime_ns, mtime_ns, _, mode, *_ = SETATTR.unpack_from(data)
        path = self._paths[node]
        if what & _MODE:
            os.chmod(path, stat.S_IMODE(mode))
        if what & _SIZE:
            os.truncate(path, size)
        if what & (_ATIME_NOW | _MTIME_NOW):
            os.utime(path)
        elif what & (_ATIME | _MTIME):
            os.utime(path, ns=(atime * 10**9 + atime_ns, mtime * 10**9 + mtime_ns))
        return self.getattr(node, b"")

    def open(self, node: int, data: bytes) -> bytes:
        flags = int.from_bytes(data[:4], "little")
        try:
            handle = os.open(self._paths[node], flags & _READ_ANYWAY | os.O_RDWR)
        except PermissionError:
            handle = os.open(self._paths[node], flags & ~os.O_APPEND)
        return self._opened(handle)

    def create(self, node: int, data: bytes) -> bytes:
        flags, mode = (int.from_bytes(data[at : at + 4], "little") for at in (0, 4))
        path = self._named(node, data[16:])
        handle = os.open(path, flags & ~(os.O_ACCMODE | os.O_APPEND) | os.O_CREAT | os.O_RDWR, stat.S_IMODE(mode))
        return self._entry(path) + self._opened(handle)

    def _opened(self, handle: int) -> bytes:
        return OPENED.pack(handle, KEEP_CACHE if self._trust else 0, 0)

    def read(self, _node: int, data: bytes) -> bytes:
        handle, offset, size = READ.unpack_from(data)
        return os.pread(handle, size, offset)

    def write(self, _node: int, data: bytes) -> bytes:
        time.sleep(LATENCY)
        handle, offset, size = READ.unpack_from(data)
        return os.pwrite(handle, data[READ.size : READ.size + size], offset).to_bytes(8, "little")

    def release(self, _node: int, data: bytes) -> bytes:
        os.close(int.from_bytes(data[:8], "little"))
        return b""

    def fsync(self, _node: int, data: bytes) -> bytes:
        os.fdatasync(int.from_bytes(data[:8], "little"))
        return b""

    def readdir(self, node: int, data: bytes) -> bytes:
        _, offset, size = READ.unpack_from(data)
        path, found = self._paths[node], b""
        for at, name in enumerate([b".", b"..", *sorted(os.listdir(path))][offset:], offset + 1):
            with suppress(FileNotFoundError):
                status = os.lstat(os.path.join(path, name))
                one = listed(at, status.st_ino, status.st_mode, name)
                if len(found) + len(one) > size:
                    break
                found += one
        return found

    def mkdir(self, node: int, data: bytes) -> bytes:
        path = self._named(node, data[8:])
        os.mkdir(path, stat.S_IMODE(int.from_bytes(data[:4], "little")))
        return self._entry(path)

    def unlink(self, node: int, data: bytes) -> bytes:
        os.unlink(self._named(node, data))
        return b""

    def rmdir(self, node: int, data: bytes) -> bytes:
        os.rmdir(self._named(node, data))
        return b""

    def rename(self, node: int, data: bytes, names_at: int = 8) -> bytes:
        old, new, _ = data[names_at:].split(b"\0", 2)
        source, target = self._named(node, old), self._named(int.from_bytes(data[:8], "little"), new)
        moved = self._nodes.pop((source, os.lstat(source).st_ino), None)
        os.rename(source, target)
        if moved is not None:
            self._nodes[target, os.lstat(target).st_ino] = moved
            self._paths[moved] = target
        return b""

    def rename2(self, node: int, data: bytes) -> bytes:
        return self.rename(node, data, names_at=16)

    def link(self, node: int, data: bytes) -> bytes:
        path = self._named(node, data[8:])
        os.link(self._paths[int.from_bytes(data[:8], "little")], path)
        return self._entry(path)

    def statfs(self, _node: int, _data: bytes) -> bytes:
        found = os.statvfs(self._paths[_ROOT])
        numbers = (found.f_blocks, found.f_bfree, found.f_bavail, found.f_files, found.f_ffree)
        return STATFS.pack(*numbers, found.f_bsize, found.f_namemax, found.f_frsize, 0)


def serve(device: int, filesystem: Filesystem) -> None:
    """Until it is unmounted."""
    while True:
        try:
            request = os.read(device, REQUEST_BYTES)
        except OSError as error:
            if error.errno in (errno.EINTR, errno.ENOENT):
                continue  # the request was taken back
            return
        length, op, number, node, *_ = REQUEST.unpack_from(request)
        try:
            failure, answer = 0, filesystem.answer(op, node, request[REQUEST.size : length])
        except OSError as error:
            failure, answer = error.errno or errno.EIO, b""
        if op in UNANSWERED:
            continue
        with suppress(FileNotFoundError):  # whoever asked was killed
            os.write(device, REPLY.pack(REPLY.size + len(answer), -failure, number) + answer)


def main(folder: str, mountpoint: str, *words: str) -> int:
    """The exit code of the command."""
    at = words.index("--")
    device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    libc = ctypes.CDLL(None, use_errno=True)
    options = f"fd={device},rootmode=40000,user_id={os.getuid()},group_id={os.getgid()},allow_other,default_permissions"
    if libc.mount(b"shared", os.fsencode(mountpoint), b"fuse", 0, options.encode()):
        print(f"mount.py: {mountpoint}: can't be mounted: {os.strerror(ctypes.get_errno())}", file=sys.stderr)
        return 2
    server = os.fork()
    if server == 0:
        os.umask(0)
        serve(device, Filesystem(os.fsencode(os.path.realpath(folder)), "--trust" in words[:at]))
        os._exit(0)
    os.close(device)
    try:
        return subprocess.run(words[at + 1 :]).returncode
    finally:
        libc.umount2(os.fsencode(mountpoint), _MNT_DETACH)
        os.waitpid(server, 0)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
