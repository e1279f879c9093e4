"""Shares of states over time as one stacked strip in colour: two states fit into the halves of a cell."""

from collections.abc import Sequence

import numpy as np
from rich.segment import Segment
from rich.style import Style

from gssr.arrays import Floats, Ints
from gssr.render.states import State
from gssr.tui.shared.history import runs_of
from gssr.tui.themes import Palette


def states_at(shares: Floats, n: int) -> Ints:
    """Return which state is at each of ``n`` heights, [n, n_cells] with the topmost height first.

    ``shares`` [n_states, n_cells] are stacked from below; values are indices of states. -1 above all of them, and
    where shares are NaN. A share too thin to reach the middle of a height is not seen.
    """
    edges = np.cumsum(np.nan_to_num(shares), axis=0)
    middle = (np.arange(n)[::-1, None, None] + 0.5) / n
    state = (middle >= edges[None]).sum(axis=1)
    return np.where(state < len(shares), state, -1)


def stacked(
    shares: Floats, height: int, states: Sequence[State], palette: Palette, in_marks: bool
) -> list[list[Segment]]:  # fmt: skip
    """Draw the shares [n_states, n_cells] as ``height`` rows, one cell for each column.

    With colours a cell shows two states, one in each half. With ``in_marks`` (colours can't tell states apart) each
    cell shows one state by its mark.
    """
    styles = [palette.style(each.role) for each in states]
    if in_marks:
        rows = states_at(shares, height).tolist()
        return [[Segment(_mark(states, at) * n, _style(styles, at)) for at, n in runs_of(row)] for row in rows]
    halves = states_at(shares, 2 * height).tolist()
    pairs: list[list[tuple[int, int]]] = [
        list(zip(halves[y], halves[y + 1], strict=True)) for y in range(0, 2 * height, 2)
    ]
    return [[_pair(styles, pair[0], pair[1], n) for pair, n in runs_of(row)] for row in pairs]


def _mark(states: Sequence[State], at: int) -> str:
    return " " if at < 0 else states[at].mark


def _style(styles: Sequence[Style], at: int) -> Style:
    return Style.null() if at < 0 else styles[at]


def _pair(styles: Sequence[Style], upper: int, lower: int, n: int) -> Segment:
    """Draw ``n`` cells whose halves show two states (indices into ``styles``, -1 for none)."""
    if upper < 0 and lower < 0:
        return Segment(" " * n)
    if upper < 0:
        return Segment("▄" * n, styles[lower])
    if lower < 0:
        return Segment("▀" * n, styles[upper])
    if upper == lower:
        return Segment("█" * n, styles[upper])
    return Segment("▀" * n, styles[upper] + Style(bgcolor=styles[lower].color))
