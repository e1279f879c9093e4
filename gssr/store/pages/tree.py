"""Where the rows of a table are: the leaves of its tree of pages."""

from typing import NamedTuple

import numpy as np

from gssr.arrays import Bytes, Ints
from gssr.store.pages.file import PADDING, NotPlainError, PageFile

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
        """Some of them."""
        return Leaves(self.page[begin:end], self.low[begin:end], self.high[begin:end])


def leaves(file: PageFile, root: int, first: int, last: int) -> Leaves:
    """The leaves of the table at page ``root`` that can hold rows with first <= rowid <= last. Raises NotPlainError."""
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
    """The pages right below these, as far as their rows can be among those wanted."""
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
    """Of pages [n, page size] of this kind: where their cells begin, in all pages one after the other, and how many each
    page has, int64[n]. Raises NotPlainError."""
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
    """[n, width]: so many bytes from each of these on; ``width`` is at most PADDING."""
    assert width <= PADDING
    at_every_byte = np.ndarray((len(buffer) - width + 1,), f"V{width}", buffer, strides=(1,))
    return at_every_byte[start].view(np.uint8).reshape(-1, width)


def big_endian(digits: Bytes) -> Ints:
    """[n]: the numbers that bytes [n, width] are, the most significant first."""
    found = np.zeros(len(digits), np.int64)
    for column in range(digits.shape[1]):
        found = found << 8 | digits[:, column]
    return found


def varints(digits: Bytes) -> tuple[Ints, Ints]:
    """The numbers of variable length that rows of bytes [n, at least 8] begin with, and their lengths, int64[n] each: seven
    bits a byte, the most significant first, all but the last with the eighth bit set. Raises NotPlainError."""
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
