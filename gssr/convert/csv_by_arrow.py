"""Rows of many numbers as CSV text by pyarrow: byte for byte what Python's csv module writes, in a fraction of its time."""

import csv
import io
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gssr.arrays import Flags, Floats, Ints
from gssr.render.csv_cells import cell

_LEAST, _MOST = 1e-4, 1e10
"""From the first to below the second, both Arrow and Python write a float without an exponent; the digits are the same."""
_EXPONENT = 1e16
"""From here on Python writes a float with an exponent."""
_MOST_INT = 2.0**63
"""From here on whole numbers are no int64."""


def csv_rows(columns: Sequence[Floats | Ints | Sequence[str | None]], whole: Sequence[bool]) -> pa.Buffer:
    """Write columns of one length as CSV rows, in UTF-8.

    Args:
        columns: arrays of numbers, of which NaN and infinity become empty cells, or texts, of which None does.
        whole: for each column, whether its numbers are written as whole ones, without what is behind the point.
    """
    pieces: list[Any] = []
    for number, (column, is_whole) in enumerate(zip(columns, whole, strict=True), 1):
        end = "," if number < len(columns) else "\n"
        if not isinstance(column, np.ndarray):
            pieces += [_texts(column), end]
        elif is_whole:
            pieces += [_whole_numbers(column), end]
        else:
            pieces += _floats(column, end)
    return pc.binary_join_element_wise(*pieces, "", null_handling="replace").buffers()[2]


def _texts(values: Sequence[str | None]) -> pa.Array:
    """Write texts with the quotes that they need."""
    numbers = {value: number for number, value in enumerate(dict.fromkeys(values))}
    return pa.array(map(_quoted, numbers), pa.string()).take(pa.array([numbers[value] for value in values]))


def _quoted(value: str | None) -> str:
    """Write a text as one cell of several in a row."""
    row = io.StringIO()
    csv.writer(row, lineterminator="").writerow([cell(value), None])
    return row.getvalue()[:-1]


def _whole_numbers(values: Floats | Ints) -> pa.Array:
    """Write numbers as Python's int does."""
    fits = np.abs(values) < _MOST_INT
    texts = pa.array(np.where(fits, values, 0).astype(np.int64), mask=~fits).cast(pa.string())
    return _filled(texts, np.isfinite(values) & ~fits, values, lambda value: str(int(value)))


def _floats(values: Floats | Ints, end: str) -> tuple[pa.Array, Any]:
    """Write numbers as Python's repr of a float does: by the fewest digits that give the same number when they are read.
    Returns the digits, and what follows them: the ".0" of whole numbers, and the ``end`` of the cell."""
    values = values.astype(np.float64, copy=False)
    size, known = np.abs(values), np.isfinite(values)
    whole = (size < _EXPONENT) & (np.trunc(values) == values)
    if np.array_equal(whole, known):
        easy, written = whole, np.where(whole, values, 0).astype(np.int64)
    else:
        easy = (size >= _LEAST) & (size < _MOST) | (size == 0)
        written = np.where(easy, values, 0.0) + 0.0  # no -0.0
    texts = _filled(pa.array(written, mask=~easy).cast(pa.string()), known & ~easy, values, repr)
    whole &= easy
    if not whole.any():
        return texts, end
    if whole.all():
        return texts, f".0{end}"
    return texts, pa.array([end, f".0{end}"]).take(pa.array(whole.astype(np.int8)))


def _filled(texts: pa.Array, which: Flags, values: Floats | Ints, write: Callable[[Any], str]) -> pa.Array:
    """Put what ``write`` makes of the values that are chosen by ``which`` in their places."""
    if not which.any():
        return texts
    return pc.replace_with_mask(texts, pa.array(which), pa.array(map(write, values[which].tolist()), pa.string()))
