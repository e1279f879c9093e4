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
_FEW = 0.1
"""A smaller share of a column is written by Python itself."""
_MOST_INT = 2.0**63
"""From here on whole numbers are no int64."""


def csv_rows(columns: Sequence[Floats | Ints | Sequence[str | None]], whole: Sequence[bool]) -> pa.Buffer:
    """Write columns of one length as CSV rows, in UTF-8.

    Args:
        columns: arrays of numbers, of which NaN and infinity become empty cells, or texts, of which None does.
        whole: for each column, whether its numbers are written as whole ones, without what is behind the point.
    """
    cells = [
        _texts(column)
        if not isinstance(column, np.ndarray)
        else _whole_numbers(column)
        if is_whole
        else _floats(column)
        for column, is_whole in zip(columns, whole, strict=True)
    ]
    n_rows = len(columns[0])
    cells[-1] = _join([cells[-1], "\n"], "")
    if isinstance(cells[-1], str):
        cells[-1] = pa.repeat(cells[-1], n_rows)
    together: list[Any] = []
    for cell_texts in cells:  # what all rows have in common is written at once
        if isinstance(cell_texts, str) and together and isinstance(together[-1], str):
            together[-1] += f",{cell_texts}"
        else:
            together.append(cell_texts)
    return _join(together, ",").buffers()[2]


def _join(parts: Sequence[Any], separator: str) -> Any:
    """Join texts row by row; what has none is empty."""
    if all(isinstance(part, str) for part in parts):
        return separator.join(parts)
    return pc.binary_join_element_wise(*parts, separator, null_handling="replace")


def _texts(values: Sequence[str | None]) -> Any:
    """Write texts with the quotes that they need. Returns one text if all are the same, else an array, as below."""
    if values.count(values[0]) == len(values):
        return _quoted(values[0])
    numbers = {value: number for number, value in enumerate(dict.fromkeys(values))}
    return pa.array(map(_quoted, numbers), pa.string()).take(pa.array([numbers[value] for value in values]))


def _quoted(value: str | None) -> str:
    """Write a text as one cell of several in a row."""
    row = io.StringIO()
    csv.writer(row, lineterminator="\n").writerow([cell(value), None])
    return row.getvalue().removesuffix(",\n")


def _whole_numbers(values: Floats | Ints) -> Any:
    """Write numbers as Python's int does."""
    if (same := _of_all(values, lambda value: str(int(value)))) is not None:
        return same
    fits = np.abs(values) < _MOST_INT
    texts = pa.array(np.where(fits, values, 0).astype(np.int64), mask=~fits).cast(pa.string())
    return _filled(texts, np.isfinite(values) & ~fits, values, lambda value: str(int(value)))


def _floats(values: Floats | Ints) -> Any:
    """Write numbers as Python's repr of a float does: by the fewest digits that give the same number when they are
    read."""
    values = values.astype(np.float64, copy=False) + 0.0  # no -0.0
    if (same := _of_all(values, repr)) is not None:
        return same
    size = np.abs(values)
    whole = (np.trunc(values) == values) & (size < _EXPONENT)
    easy = (size >= _LEAST) & (size < _MOST) & ~whole
    texts = pa.array(values, mask=~easy).cast(pa.string())
    texts = _filled(texts, np.isfinite(values) & ~(easy | whole), values, repr)
    if not values[whole].any():  # many metrics are zero most of the time
        return pc.replace_with_mask(texts, pa.array(whole), pa.scalar("0.0")) if whole.any() else texts
    if np.count_nonzero(whole) < _FEW * len(values):
        return _filled(texts, whole, values, repr)
    points = pa.array(np.where(whole, values, 0).astype(np.int64), mask=~whole).cast(pa.string())
    return pc.coalesce(texts, pc.binary_join_element_wise(points, ".0", ""))


def _of_all(values: Floats | Ints, write: Callable[[Any], str]) -> str | None:
    """Write the one number that all values are, or nothing if none is known; None if they differ."""
    if not np.isfinite(values).any():
        return ""
    return write(values[0].item()) if (values == values[0]).all() else None


def _filled(texts: pa.Array, which: Flags, values: Floats | Ints, write: Callable[[Any], str]) -> pa.Array:
    """Put what ``write`` makes of the values that are chosen by ``which`` in their places."""
    if not which.any():
        return texts
    return pc.replace_with_mask(texts, pa.array(which), pa.array(map(write, values[which].tolist()), pa.string()))
