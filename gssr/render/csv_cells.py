"""Values as cells of a CSV file. A spreadsheet that opens it takes some texts for formulas and runs them."""

import csv
import io
import math
from collections.abc import Iterable, Iterator, Sequence

from gssr.render.cells import harmless

_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def cell(value: object) -> object:
    """Return what is written for a value: None (an empty cell) for None, NaN and infinity, numbers as they are (but
    -0.0 as 0.0), and text that a spreadsheet would take for a formula after an apostrophe."""
    if isinstance(value, float):
        return value + 0.0 if math.isfinite(value) else None
    if isinstance(value, str) and value.startswith(_FORMULA):
        return f"'{value}"
    return value


def csv_lines(rows: Iterable[Sequence[object]]) -> Iterator[str]:
    """Yield a line of CSV for each row, with text that neither a terminal nor a spreadsheet takes for a command."""
    line = io.StringIO()
    writer = csv.writer(line, lineterminator="\n")
    for row in rows:
        writer.writerow([cell(harmless(value) if isinstance(value, str) else value) for value in row])
        yield line.getvalue()
        line.seek(0)
        line.truncate()
