"""The pages of a database file that is finished: nothing beside it, nobody writing it."""

import os
import weakref

import numpy as np

from gssr.arrays import Bytes, Ints
from gssr.store.disk import COMPANIONS, beside

Identity = tuple[int, int]
"""Device and inode."""

PADDING = 256
"""Bytes behind the pages that were read: what begins within a page may be taken in pieces of up to so many."""
_HEADER = 100


class NotPlainError(Exception):
    """The file holds something that only SQLite itself can tell the meaning of, or it changes meanwhile."""


def identity_of(path: str) -> Identity | None:
    """What tells whether a name still means the same file; None without one."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


class PageFile:
    """A file's pages. It stays open until ``close``: closing one descriptor of a file gives up the locks that SQLite holds
    on it in this process."""

    def __init__(self, path: str, identity: Identity | None) -> None:
        """Open the file, if it is (still) this one. Raises NotPlainError."""
        self._beside = [beside(path, suffix) for suffix in COMPANIONS]
        try:
            self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError as error:
            raise NotPlainError(str(error)) from None
        try:
            found = os.fstat(self._descriptor)
            self._header = os.pread(self._descriptor, _HEADER, 0)
            if (found.st_dev, found.st_ino) != identity:
                raise NotPlainError("it has been replaced")
            self.page_size, self.n_pages = _sizes(self._header)
            self._size = self.page_size * self.n_pages
            if not self.is_unchanged():
                raise NotPlainError("it is cut off, or being written")
        except (OSError, NotPlainError) as error:
            os.close(self._descriptor)
            raise NotPlainError(str(error)) from None
        self.close = weakref.finalize(self, os.close, self._descriptor)
        """Close the file; done by itself when nobody has it any more."""

    def is_unchanged(self) -> bool:
        """Whether nobody has written the file since it was opened, nor begun to: every writer of a file that is in no WAL
        mode leaves a journal beside it while it writes, and another change counter behind."""
        return (
            os.fstat(self._descriptor).st_size == self._size
            and os.pread(self._descriptor, _HEADER, 0) == self._header
            and not any(os.path.lexists(name) for name in self._beside)
        )

    def read(self, pages: Ints) -> Bytes:
        """These pages (numbers from 1), one after the other, and PADDING. They are read, not mapped: a mapped file that
        somebody cuts off meanwhile would end the process. Raises NotPlainError."""
        if not len(pages) or pages.min() < 1 or pages.max() > self.n_pages:
            raise NotPlainError("a page that the file does not have")
        buffer = np.empty(len(pages) * self.page_size + PADDING, np.uint8)
        buffer[-PADDING:] = 0
        memory = buffer.data
        begins = np.flatnonzero(np.concatenate(([True], np.diff(pages) != 1)))
        ends = np.append(begins[1:], len(pages))
        for begin, end, page in zip(begins.tolist(), ends.tolist(), pages[begins].tolist(), strict=True):
            at, stop = begin * self.page_size, end * self.page_size
            offset = (page - 1) * self.page_size - at
            while at < stop:  # one call reads at most 2 GiB
                n = os.preadv(self._descriptor, [memory[at:stop]], offset + at)
                if n <= 0:
                    raise NotPlainError("it is cut off")
                at += n
        return buffer


def _sizes(header: bytes) -> tuple[int, int]:
    """Page size and number of pages. Raises NotPlainError for anything out of the ordinary."""
    if len(header) < _HEADER or not header.startswith(b"SQLite format 3\0"):
        raise NotPlainError("it is no database")

    def number(at: int) -> int:
        return int.from_bytes(header[at : at + 4], "big")

    raw = int.from_bytes(header[16:18], "big")
    page_size = 65536 if raw == 1 else raw
    if page_size < 512 or page_size & (page_size - 1):
        raise NotPlainError("its page size")
    # Journal modes but WAL; no reserved bytes; the fixed fractions of payload.
    if header[18:24] != bytes((1, 1, 0, 64, 32, 32)):
        raise NotPlainError("its format")
    if number(44) != 4 or number(56) != 1:  # the schema's format, UTF-8
        raise NotPlainError("its format")
    if number(52) != 0:
        raise NotPlainError("it vacuums itself")
    if header[24:28] != header[92:96]:
        raise NotPlainError("its size is not known")
    return page_size, number(28)
