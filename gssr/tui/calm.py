"""Less lightness where it would cost too much: it only repeats what height says, and every change of it is sent.

Where rows change their lightness so often that a whole terminal would take more than MOST_BYTES a cell, those rows get
one lightness.
"""

from itertools import groupby, pairwise

from gssr.render.roles import RAMP, RAMP_LOW, Role, Row, Span, text_of

MOST_BYTES = 16_000 / (120 * 40)
_CHANGE = 13
"""What changing the colour takes, bytes."""
_MANY = 8
"""Rows with more changes of lightness than this are made calm."""
_CALM: dict[Role, Role] = {
    **dict.fromkeys(RAMP, RAMP[3]),
    **dict.fromkeys(RAMP_LOW, RAMP_LOW[3]),
}


def bytes_of(row: Row) -> int:
    """About what it takes to send a row."""
    return len(text_of(row).encode()) + _CHANGE * _changes(row)


def _changes(row: Row) -> int:
    return sum(span.role in _CALM for span in row)


def too_much(total: int, cells: int, before: bool) -> bool:
    """Whether ``total`` bytes for so many cells call for calm; ``before``: they did already, and do so a little longer."""
    return total > cells * MOST_BYTES * (0.8 if before else 1.0)


def calmed(row: Row) -> Row:
    """The row with one lightness, if it has many."""
    if _changes(row) <= _MANY:
        return row
    return merged(tuple(Span(span.text, _CALM.get(span.role, span.role)) for span in row))


def merged(row: Row) -> Row:
    """The row with neighbours of the same role in one span."""
    if all(one.role != other.role for one, other in pairwise(row)):
        return row
    return tuple(
        Span("".join(span.text for span in spans), role) for role, spans in groupby(row, lambda span: span.role)
    )
