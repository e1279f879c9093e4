"""The pages of a database file that is finished: nothing beside it, nobody writing it.

Where the rows of a table are: the leaves of its tree of pages, and on a leaf where each begins, how long it is, and its
rowid.
"""

import os
import weakref
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from gssr.arrays import Bytes, Ints
from gssr.store.disk import COMPANIONS, Identity, companion_path

PADDING = 256
"""Bytes behind the pages that were read: what begins within a page may be taken in pieces of up to so many."""
_HEADER = 100


class NotPlainError(Exception):
    """The file holds something that only SQLite itself can tell the meaning of, or it changes meanwhile."""


class PageFile:
    """A file's pages. It stays open until ``close``: closing one descriptor of a file gives up the locks that SQLite holds
    on it in this process."""

    def __init__(self, path: str, identity: Identity | None) -> None:
        """Open the file, if it is (still) this one. Raises NotPlainError."""
        self._beside = [companion_path(path, suffix) for suffix in COMPANIONS]
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
        """Tell whether nobody has written the file since it was opened, nor begun to: every writer of a file that is in no
        WAL mode leaves a journal beside it while it writes, and another change counter behind."""
        return (
            os.fstat(self._descriptor).st_size == self._size
            and os.pread(self._descriptor, _HEADER, 0) == self._header
            and not any(os.path.lexists(name) for name in self._beside)
        )

    def read(self, pages: Ints) -> Bytes:
        """Read these pages (numbers from 1), one after the other, and PADDING. They are read, not mapped: a mapped file that
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
    """Read page size and number of pages. Raises NotPlainError for anything out of the ordinary."""
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


LEAF, INTERIOR = 13, 5
"""Kinds of the pages of a table."""
_DEEPEST = 20
_PAGES_AT_ONCE = 4096
_LONGEST = 8
"""Bytes of the longest number that is read: 56 bits. Longer ones are negative, or of a file beyond all measure."""
LOWEST, HIGHEST = -(1 << 63), (1 << 63) - 1
"""No rowid is beyond these."""


class Leaves(NamedTuple):
    """Leaf pages in the order of their rows: ``page`` int64[n], numbers from 1; the rowids of a page's rows are above
    ``low`` and up to ``high`` (int64[n])."""

    page: Ints
    low: Ints
    high: Ints

    def part(self, begin: int, end: int) -> "Leaves":
        """Return the leaves from index ``begin`` to ``end`` - 1."""
        return Leaves(self.page[begin:end], self.low[begin:end], self.high[begin:end])


def in_parts(found: Leaves, most: int) -> Iterator[Leaves]:
    """Cut leaves into parts of at most so many pages."""
    for begin in range(0, len(found.page), most):
        yield found.part(begin, begin + most)


def leaves(file: PageFile, root: int, first: int, last: int) -> Leaves:
    """Find the leaves of the table at page ``root`` that can hold rows with first <= rowid <= last; there may be none.
    Raises NotPlainError."""
    level = Leaves(np.array([root]), np.array([LOWEST]), np.array([HIGHEST]))
    for _ in range(_DEEPEST):
        if not len(level.page):
            return level
        ordered = np.sort(level.page)
        if ordered[0] <= 1 or (ordered[1:] == ordered[:-1]).any():
            raise NotPlainError("a page that has two places")
        page = file.read(level.page[:1])
        kind = int(page[0])
        if kind == LEAF:
            empty = level.page[0] == root and not page[3:5].any()
            return level.part(0, 0) if empty else level
        if kind != INTERIOR:
            raise NotPlainError("a page of another kind")
        below = [
            _children(file, level.part(begin, begin + _PAGES_AT_ONCE), first, last)
            for begin in range(0, len(level.page), _PAGES_AT_ONCE)
        ]
        level = Leaves(*(np.concatenate([part[column] for part in below]) for column in range(3)))
        if len(level.page) > file.n_pages:
            raise NotPlainError("more pages than the file has")
    raise NotPlainError("its tree is too deep")


def _children(file: PageFile, parents: Leaves, first: int, last: int) -> Leaves:
    """Read the interior pages ``parents`` and find the pages right below them that can hold rows with first <= rowid <=
    last, in the order of their rows. Raises NotPlainError."""
    buffer, n = file.read(parents.page), len(parents.page)
    pages = buffer[: n * file.page_size].reshape(n, file.page_size)
    start, n_cells = cell_starts(pages, INTERIOR)
    if not n_cells.all():
        raise NotPlainError("a page without cells")
    cells = pieces(buffer, start, 16)
    number, _ = varints(cells[:, 4:])
    own, right = np.repeat(np.arange(n), n_cells), np.cumsum(n_cells) + np.arange(n)
    page, high = np.empty(len(start) + n, np.int64), np.empty(len(start) + n, np.int64)
    place = np.arange(len(start)) + own  # behind the right-most child of every page before
    page[place], page[right] = big_endian(cells[:, :4]), big_endian(pages[:, 8:12])
    high[place], high[right] = number, parents.high
    low = np.concatenate((parents.low[:1], high[:-1]))
    low[right[:-1] + 1] = parents.low[1:]
    if not (low < high).all():
        raise NotPlainError("rows out of order")
    wanted = (high >= first) & (low < last)
    return Leaves(page[wanted], low[wanted], high[wanted])


def cell_starts(pages: Bytes, kind: int) -> tuple[Ints, Ints]:
    """Find where the cells of pages [n, page size] of this kind begin. Returns the places in all pages one after the other,
    and how many cells each page has, int64[n]. Raises NotPlainError."""
    n, page_size = pages.shape
    head = 8 if kind == LEAF else 12
    if (pages[:, 0] != kind).any():
        raise NotPlainError("a page of another kind")
    n_cells = big_endian(pages[:, 3:5])
    most = int(n_cells.max())
    if head + 2 * most > page_size:
        raise NotPlainError("more cells than a page can hold")
    pointers = pages.view(">u2")[:, head // 2 : head // 2 + most].astype(np.int64)
    filled = np.arange(most) < n_cells[:, None]
    behind = np.where(filled, pointers, page_size - 1)
    if (behind < (head + 2 * n_cells)[:, None]).any() or (behind >= page_size).any():
        raise NotPlainError("a cell that is not on its page")
    return (pointers + (np.arange(n) * page_size)[:, None])[filled], n_cells


def pieces(buffer: Bytes, start: Ints, width: int) -> Bytes:
    """Take ``width`` bytes of the buffer from each of these places ``start`` [n] on. Returns bytes [n, width];
    ``width`` is at most PADDING."""
    assert width <= PADDING
    at_every_byte = np.ndarray((len(buffer) - width + 1,), f"V{width}", buffer, strides=(1,))
    return at_every_byte[start].view(np.uint8).reshape(-1, width)


def big_endian(digits: Bytes) -> Ints:
    """Read bytes [n, width] as numbers [n], the most significant byte first."""
    found = np.zeros(len(digits), np.int64)
    for column in range(digits.shape[1]):
        found = found << 8 | digits[:, column]
    return found


def varints(digits: Bytes) -> tuple[Ints, Ints]:
    """Read the numbers of variable length that rows of bytes [n, at least 8] begin with: seven bits a byte, the most
    significant first, all but the last byte with the eighth bit set. Returns the numbers and their lengths, int64[n] each.
    Raises NotPlainError."""
    number, length = np.zeros(len(digits), np.int64), np.ones(len(digits), np.int64)
    goes_on = np.ones(len(digits), bool)
    for column in range(_LONGEST):
        digit = digits[:, column]
        longer = number << 7 | digit & 0x7F
        number = longer if goes_on.all() else np.where(goes_on, longer, number)
        goes_on &= digit >= 0x80
        if not goes_on.any():
            return number, length
        length += goes_on
    raise NotPlainError("a number that is too long")


_OVERHEAD = 35
"""A row that is longer than a page without so many bytes goes on on other pages."""


class LeafCells:
    """The rows on some leaf pages. ``rowid`` int64[n] ascends; a row is ``payload`` bytes [n] of ``buffer`` from
    ``start`` [n] on. Behind the last row ``buffer`` has PADDING more bytes."""

    def __init__(self, file: PageFile, found: Leaves) -> None:
        """Read the pages. Raises NotPlainError."""
        n = len(found.page)
        self.buffer = file.read(found.page)
        pages = self.buffer[: n * file.page_size].reshape(n, file.page_size)
        start, n_cells = cell_starts(pages, LEAF)
        if not n_cells.all():
            raise NotPlainError("a page without rows")
        head = pieces(self.buffer, start, 24)
        self.payload, size = varints(head)
        self.rowid, length = _behind(head, size)
        self._check_rowids(found, n_cells)
        self.start = start + size + length
        page_end = (start // file.page_size + 1) * file.page_size
        if (self.payload > file.page_size - _OVERHEAD).any() or (self.start + self.payload > page_end).any():
            raise NotPlainError("a row that is not on its page")

    def _check_rowids(self, found: Leaves, n_cells: Ints) -> None:
        """Check that rowids ascend, and that those of each page lie within what its parent says. ``n_cells``: rows of
        each page. Raises NotPlainError."""
        ends = np.cumsum(n_cells)
        in_place = (self.rowid[ends - n_cells] > found.low) & (self.rowid[ends - 1] <= found.high)
        if not in_place.all() or (np.diff(self.rowid) <= 0).any():
            raise NotPlainError("rows out of order")


def _behind(head: Bytes, size: Ints) -> tuple[Ints, Ints]:
    """Read in each row of ``head`` [n, 24] the number of variable length that begins at byte ``size`` [n]. Returns the
    numbers and how many bytes each takes, int64[n] both. Raises NotPlainError."""
    least, most = int(size.min()), int(size.max())
    if least == most:
        return varints(head[:, least:])
    number, length = np.empty(len(head), np.int64), np.empty(len(head), np.int64)
    for own in range(least, most + 1):
        rows = size == own
        number[rows], length[rows] = varints(head[rows, own:])
    return number, length


# What a column's serial type says: bytes of its value; for whole numbers how far 8 bytes that begin with it are to be
# shifted.
SIZE = np.array([0, 1, 2, 3, 4, 6, 8, 8, 0, 0, 0, 0, *(n // 2 for n in range(0x80 - 12))], np.uint8)
TEXT = 10
"""Types from here on are not those of numbers; what is longer than SIZE tells has a type of several bytes."""
SHIFT = np.array([0, 56, 48, 40, 32, 16, 0, 0, 0, 0], np.int64)
