"""Lightness gives way where it would cost too much, and nothing else does."""

from hypothesis import given
from hypothesis import strategies as st

from gssr.render.roles import RAMP, RAMP_LOW, ROLES, Row, Span, text_of
from gssr.tui.canvas import MOST_BYTES, bytes_of, calmed, merged, too_much

rows = st.lists(st.builds(Span, st.text("ab█▁ ", min_size=1, max_size=4), st.sampled_from(sorted(ROLES)))).map(tuple)


@given(rows)
def test_only_lightness_is_lost(row: Row) -> None:
    calm = calmed(row)
    assert text_of(calm) == text_of(row) == text_of(merged(row))
    before = [span.role for span in row for _ in span.text]
    after = [span.role for span in calm for _ in span.text]
    for old, new in zip(before, after, strict=True):
        assert old == new or (old in RAMP and new in RAMP) or (old in RAMP_LOW and new in RAMP_LOW)
    assert [span.role for span in merged(row) for _ in span.text] == before


def test_a_terminal_full_of_marks_fits() -> None:
    row = tuple(Span("█", RAMP[x % 5]) for x in range(120))
    assert too_much(40 * bytes_of(row), 120 * 40, False)
    assert not too_much(40 * bytes_of(calmed(row)), 120 * 40, False)
    assert len(calmed(row)) == 1


def test_what_is_calm_stays_so_for_a_while() -> None:
    cells = 80 * 24
    between = int(0.9 * cells * MOST_BYTES)
    assert too_much(between, cells, True) and not too_much(between, cells, False)
