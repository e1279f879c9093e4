"""The difference of two strips, column by column."""

from collections.abc import Iterable
from itertools import groupby

from gssr.render.glyphs import MISSING
from gssr.render.roles import Role, Row, Span

SAME = 0.02
"""Differences up to this share of the full scale don't count."""
_ROLES: dict[str, Role] = {"=": "dim", "-": "outlier", "+": "value", MISSING: "plain"}


def difference_strip(fractions: Iterable[float]) -> Row:
    """One cell per difference, a fraction of the full scale: ``=`` within SAME of 0, ``-`` below, ``+`` above; NaN is
    blank."""
    marks = (
        MISSING if fraction != fraction else "=" if abs(fraction) <= SAME else "-" if fraction < 0 else "+"
        for fraction in fractions
    )  # fmt: skip
    return tuple(Span("".join(own), _ROLES[mark]) for mark, own in groupby(marks))
