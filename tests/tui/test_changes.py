"""What is drawn again: everything that changed, and next to nothing else."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from gssr.render.cells import cell_width
from gssr.render.roles import ROLES, Row, Span, text_of
from gssr.tui.canvas import MOST_KEPT, cells_of, changed_spans

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
