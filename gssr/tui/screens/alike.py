"""What rows of a trace that spend their time alike do with it: bands, each one bar from 0 to 100 % of the window.

After the process summary of Vampir.
"""

import numpy as np

from gssr.model.live.frame import TracePart
from gssr.render.cells import as_many, clip, fit, pad
from gssr.render.roles import Row, Span
from gssr.render.scale import count
from gssr.render.shares import legend, split_bar
from gssr.render.table import rule
from gssr.tui.axis import gpus_text, window_text
from gssr.tui.screens.time_lines import Part, where_of
from gssr.tui.view import Scene

_TALLEST = 6
_LABEL, _WIDE_LABEL, _WIDE = 22, 44, 100
"""Cells before the bars, and from which width on there are more."""


def rows_each(scene: Scene, n: int) -> int:
    """Rows of a band: its bar, its shares in numbers where there is room, and a blank."""
    return min(max((scene.height - 3) // max(n, 1), 1), _TALLEST)


def draw(scene: Scene, part: Part, of: TracePart) -> list[Row]:
    """The bands, the largest first, and what all of them together do."""
    assert of.line_split is not None
    n, noun, width = len(part.timeline.members), scene.frame.noun, scene.width
    tall, left = rows_each(scene, n), _WIDE_LABEL if width >= _WIDE else _LABEL
    about = (Span(gpus_text(scene), "value"), Span(window_text(scene.frame), "dim"))
    rows = [rule(f"{noun} time by what it is for", width, scene.glyphs, about, (Span("u: over time", "dim"),))]
    for line in range(n):
        members, here = part.timeline.members[line], line == part.line
        where = fit(where_of(scene.frame, members), left - 13, scene.glyphs.ellipsis, "end")
        label = Span(f"{part.timeline.names[line]:<2}{len(members):>7,} {where}", "picked" if here else "plain")
        shares = of.line_split[line].tolist()
        head = pad((Span("> " if here else "  ", "value"), label), left)
        bar = split_bar(shares, width - left, scene.glyphs.track)
        below: list[Row] = [(Span(" " * left), *bar) for _ in range(tall - 3)]
        below += [(Span(" " * left), *as_many(legend(shares), width - left)), ()][: tall - 1]
        rows += [(*head, *bar), *below]
    middle = f"50 %{'100 %':>{max((width - left) // 2 - 3, 5)}}"
    rows.append((Span(f"{'':<{left}}{'0 %':<{max((width - left) // 2 - 2, 4)}}{middle}"[:width], "dim"),))
    rows += [()] * (scene.height - len(rows) - 1)
    total = legend(np.nan_to_num(of.total).tolist())
    said = f" together, {count(len(part.timeline.members), 'band')}: "
    return [clip(row, width) for row in [*rows[: scene.height - 1], as_many([(Span(said, "heading"),), *total], width)]]
