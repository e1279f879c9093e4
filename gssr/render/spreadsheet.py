"""Values as cells of a CSV file. Who opens it may use a spreadsheet, which takes some texts for formulas and runs them."""

import math

_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def cell(value: object) -> object:
    """What is written for a value: nothing for None, NaN and infinity, numbers as they are, and text that a spreadsheet
    would take for a formula after an apostrophe."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, str) and value.startswith(_FORMULA):
        return f"'{value}"
    return value
