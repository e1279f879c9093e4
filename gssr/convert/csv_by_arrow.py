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
        cells[-1] = pa.repeat(_text(cells[-1]), n_rows)
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
    texts = [_text(part) if isinstance(part, str) else part for part in (*parts, separator)]
    return pc.binary_join_element_wise(*texts, null_handling="replace")


def _texts(values: Sequence[str | None]) -> Any:
    """Write texts with the quotes that they need. Returns one text if all are the same, else an array, as below."""
    if values.count(values[0]) == len(values):
        return _quoted(values[0])
    numbers = {value: number for number, value in enumerate(dict.fromkeys(values))}
    return _strings([_quoted(value) for value in numbers]).take(_array(np.array([numbers[value] for value in values])))


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
    if fits.all():
        return _array(values.astype(np.int64)).cast(pa.string())
    texts = _array(np.where(fits, values, 0).astype(np.int64), fits).cast(pa.string())
    return _filled(texts, np.isfinite(values) & ~fits, values, lambda value: str(int(value)))


def _floats(values: Floats | Ints) -> Any:
    """Write numbers as Python's repr of a float does: by the fewest digits that give the same number when they are
    read."""
    values = values.astype(np.float64, copy=False) + 0.0  # no -0.0
    if (same := _of_all(values, repr)) is not None:
        return same
    size = np.abs(values)
    hard = ~((size >= _LEAST) & (size < _MOST) & (np.trunc(values) != values))
    texts = _array(values).cast(pa.string())
    if not hard.any():
        return texts
    rest = values[hard]
    whole = (np.trunc(rest) == rest) & (np.abs(rest) < _EXPONENT)
    points = _array(np.where(whole, rest, 0).astype(np.int64), whole).cast(pa.string())
    points = pc.binary_join_element_wise(points, _text(".0"), _text(""))
    return pc.replace_with_mask(texts, _flags(hard), _filled(points, np.isfinite(rest) & ~whole, rest, repr))


def _of_all(values: Floats | Ints, write: Callable[[Any], str]) -> str | None:
    """Write the one number that all values are, or nothing if none is known; None if they differ."""
    if not np.isfinite(values).any():
        return ""
    return write(values[0].item()) if (values == values[0]).all() else None


def _filled(texts: pa.Array, which: Flags, values: Floats | Ints, write: Callable[[Any], str]) -> pa.Array:
    """Put what ``write`` makes of the values that are chosen by ``which`` in their places."""
    if not which.any():
        return texts
    return pc.replace_with_mask(texts, _flags(which), _strings([write(value) for value in values[which].tolist()]))


# The first pa.array() or pa.scalar() of a process imports pandas, which takes as long as a hundred thousand rows.


def _array(values: Floats | Ints, known: Flags | None = None) -> pa.Array:
    """Give numbers to Arrow, null where they are not ``known``."""
    bits = None if known is None else pa.py_buffer(np.packbits(known, bitorder="little"))
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [bits, pa.py_buffer(values)])


def _flags(values: Flags) -> pa.Array:
    """Give flags to Arrow."""
    return pa.Array.from_buffers(pa.bool_(), len(values), [None, pa.py_buffer(np.packbits(values, bitorder="little"))])


def _strings(texts: Sequence[str]) -> pa.Array:
    """Give texts to Arrow."""
    encoded = [text.encode() for text in texts]
    ends = np.cumsum([0, *map(len, encoded)], dtype=np.int32)
    return pa.Array.from_buffers(pa.string(), len(texts), [None, pa.py_buffer(ends), pa.py_buffer(b"".join(encoded))])


def _text(value: str) -> pa.Scalar:
    """Give one text to Arrow."""
    data = value.encode()
    ends = np.array([0, len(data)], np.int32)
    return pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(ends), pa.py_buffer(data)])[0]
