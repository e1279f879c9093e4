"""What is sent to the terminal: enough that it shows the new rows, and next to nothing else."""

import io
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.segment import Segment
from textual._compositor import ChopsUpdate
from textual.strip import Strip

from gssr.render.cells import cell_width
from gssr.render.roles import ROLES, Row, Span, text_of
from gssr.tui.changes import MOST_KEPT, ExactUpdate, cells_of, changed_spans

rows = st.lists(
    st.builds(Span, st.text("ab█▁ 漢é0", min_size=1, max_size=6), st.sampled_from(sorted(ROLES))), max_size=6
).map(tuple)


def _spelled(row: Row) -> list[tuple[str, str]]:
    """Character and role of every cell."""
    return [
        (char if cell == 0 else "", span.role) for span in row for char in span.text for cell in range(cell_width(char))
    ]


@given(rows, rows)
def test_what_is_not_sent_was_there_before(before: Row, after: Row) -> None:
    old, new = _spelled(before), _spelled(after)
    assert len(cells_of(after)) == cell_width(text_of(after)) == len(new)
    spans = changed_spans(cells_of(before), cells_of(after))
    if len(old) != len(new):
        assert spans == [(0, max(len(old), len(new)))]
        return
    sent = {x for first, last in spans for x in range(first, last)}
    assert all(old[x] == new[x] for x in range(len(new)) if x not in sent)
    assert all(first < last for first, last in spans)
    assert all(second[0] - first[1] > MOST_KEPT for first, second in pairwise(spans))
    assert all(old[x] != new[x] for first, last in spans for x in (first, last - 1))


def test_an_update_begins_where_the_change_does() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, color_system="256", width=20)
    left, right = Strip([Segment("abcdefghij")]), Strip([Segment("0123456789")])
    update = ExactUpdate(ChopsUpdate([{0: left, 10: right}] * 2, [(0, 3, 5), (1, 8, 13), (1, 19, 20)], [[10, 20]] * 2))
    assert update.render_segments(console) == "\x1b[1;4Hde\x1b[2;9Hij\x1b[2;11H012\x1b[2;20H9"
