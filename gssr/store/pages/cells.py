"""The rows of some leaf pages, all found at once: where each begins, how long it is, and its rowid."""

import numpy as np

from gssr.arrays import Bytes, Ints
from gssr.store.pages.file import NotPlainError, PageFile
from gssr.store.pages.tree import LEAF, Leaves, cell_starts, pieces, varints

_OVERHEAD = 35
"""A row that is longer than a page without so many bytes goes on on other pages."""


class Cells:
    """``rowid`` int64[n] ascends; the row is ``payload`` bytes [n] from ``start`` [n] of ``buffer`` on, behind which there
    are PADDING more."""

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
        ends = np.cumsum(n_cells)
        in_place = (self.rowid[ends - n_cells] > found.low) & (self.rowid[ends - 1] <= found.high)
        if not in_place.all() or (np.diff(self.rowid) <= 0).any():
            raise NotPlainError("rows out of order")


def _behind(head: Bytes, size: Ints) -> tuple[Ints, Ints]:
    """The numbers of variable length that begin ``size`` bytes after the beginnings of ``head`` [n, 24]."""
    least, most = int(size.min()), int(size.max())
    if least == most:
        return varints(head[:, least:])
    number, length = np.empty(len(head), np.int64), np.empty(len(head), np.int64)
    for own in range(least, most + 1):
        rows = size == own
        number[rows], length[rows] = varints(head[rows, own:])
    return number, length
