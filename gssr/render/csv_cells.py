"""Values as cells of a CSV file. A spreadsheet that opens it takes some texts for formulas and runs them."""

import math

_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def cell(value: object) -> object:
    """Return what is written for a value: None (an empty cell) for None, NaN and infinity, numbers as they are (but
    -0.0 as 0.0), and text that a spreadsheet would take for a formula after an apostrophe."""
    if isinstance(value, float):
        return value + 0.0 if math.isfinite(value) else None
    if isinstance(value, str) and value.startswith(_FORMULA):
        return f"'{value}"
    return value
