"""How long one run takes against another, in words: for the page of gssr compare and the screen Compare."""

from gssr.model.compare.comparison import LEAST_TOTAL_SHARE
from gssr.render.clock import duration
from gssr.render.scale import percent

_FRACTIONS = (
    (0.25, "a quarter of the time"), (1 / 3, "a third of the time"), (0.5, "half the time"), (2.0, "twice the time"),
    (3.0, "three times as long"),
)  # fmt: skip
_CLOSE = 0.08
"""So near to a fraction it is told as one."""


def compare_times(letter: str, first: float, second: float) -> str:
    """Say how the time ``second`` (s) of the run with this letter compares with A's ``first`` (s, above 0), as a fraction
    where it is close to one: "B takes half the time". Less than LEAST_TOTAL_SHARE is no difference."""
    ratio = second / first
    if abs(ratio - 1) <= LEAST_TOTAL_SHARE:
        return f"{letter} takes as long as A, {duration(second)}"
    for fraction, words in _FRACTIONS:
        if abs(ratio / fraction - 1) <= _CLOSE:
            return f"{letter} takes {words}"
    if ratio < 1:
        return f"{letter} takes {percent(1 - ratio)} less time"
    return (
        f"{letter} takes {percent(ratio - 1)} more time" if ratio < 2 else f"{letter} takes {ratio:.1f} times as long"
    )
