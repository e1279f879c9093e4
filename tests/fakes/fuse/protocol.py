"""The kernel's side of FUSE as numbers and structs (linux/fuse.h, version 7.31): what /dev/fuse gives and takes."""

import os
import struct
from enum import IntEnum

MAJOR, MINOR = 7, 31
LONGEST_WRITE = 128 * 1024
REQUEST_BYTES = LONGEST_WRITE + 4096
BIG_WRITES, AUTO_INVALIDATE = 1 << 5, 1 << 12  # of INIT
KEEP_CACHE = 1 << 1  # of OPEN: what is cached of the file stays valid


class Op(IntEnum):
    """Requests."""

    LOOKUP, FORGET, GETATTR, SETATTR = 1, 2, 3, 4
    MKDIR, UNLINK, RMDIR, RENAME, LINK, OPEN, READ, WRITE, STATFS, RELEASE = 9, 10, 11, 12, 13, 14, 15, 16, 17, 18
    FSYNC, FLUSH, INIT, OPENDIR, READDIR, RELEASEDIR, FSYNCDIR = 20, 25, 26, 27, 28, 29, 30
    ACCESS, CREATE, INTERRUPT, DESTROY, BATCH_FORGET, RENAME2 = 34, 35, 36, 38, 42, 45


UNANSWERED = (Op.FORGET, Op.BATCH_FORGET, Op.INTERRUPT)

REQUEST = struct.Struct("<IIQQIIII")  # length, op, number, node, uid, gid, pid, padding
REPLY = struct.Struct("<IiQ")  # length, -errno, number
INIT = struct.Struct("<IIIIHHIIHHI28x")  # …, flags, background, congestion, longest write, time granularity, pages, …
OPENED = struct.Struct("<QII")  # handle, flags
READ = struct.Struct("<QQI20x")  # handle, offset, size
SETATTR = struct.Struct("<IIQQQQQQIIIIIIII")
STATFS = struct.Struct("<5Q4I24x")
_ATTRIBUTES = struct.Struct("<6Q10I")
_VALIDITY = struct.Struct("<QQQQII")  # node, generation, s of the name, s of the attributes, both in ns
_ATTRIBUTE_VALIDITY = struct.Struct("<QII")
_ENTRY = struct.Struct("<QQII")


def attributes(status: os.stat_result) -> bytes:
    """``struct fuse_attr``."""
    times = [status.st_atime_ns, status.st_mtime_ns, status.st_ctime_ns]
    return _ATTRIBUTES.pack(
        status.st_ino, status.st_size, status.st_blocks, *(ns // 10**9 for ns in times), *(ns % 10**9 for ns in times),
        status.st_mode, status.st_nlink, status.st_uid, status.st_gid, status.st_rdev, status.st_blksize, 0,
    )  # fmt: skip


def entry(node: int, valid: float, status: os.stat_result) -> bytes:
    """``struct fuse_entry_out``: a name leads to this node; the kernel may believe that for ``valid`` s."""
    seconds, ns = int(valid), int(valid % 1 * 1e9)
    return _VALIDITY.pack(node, 0, seconds, seconds, ns, ns) + attributes(status)


def attributes_for(valid: float, status: os.stat_result) -> bytes:
    """``struct fuse_attr_out``."""
    return _ATTRIBUTE_VALIDITY.pack(int(valid), int(valid % 1 * 1e9), 0) + attributes(status)


def listed(offset: int, inode: int, kind: int, name: bytes) -> bytes:
    """``struct fuse_dirent``, the next one at ``offset``."""
    padding = -(_ENTRY.size + len(name)) % 8
    return _ENTRY.pack(inode, offset, len(name), kind >> 12) + name + bytes(padding)
