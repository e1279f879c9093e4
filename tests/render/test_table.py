"""Tables: aligned, complete where there is room, and inside their box everywhere."""

from functools import partial

from hypothesis import given
from hypothesis import strategies as st

from gssr.render.cells import cell_width
from gssr.render.columns import bar
from gssr.render.glyphs import UTF8
from gssr.render.roles import Span, text_of
from gssr.render.table import Cell, TableColumn, table

HEAD = [
    TableColumn("metric"),
    TableColumn("mean", "right"),
    TableColumn("", drop=3, least=8, most=20),
    TableColumn("p05", "right", drop=2),
    TableColumn("p95", "right", drop=2),
    TableColumn("max", "right", drop=1),
]
LINES: list[list[Cell]] = [
    ["SM active", "60.4", partial(bar, 0.604, glyphs=UTF8), "1.0", "88.0", "99.1"],
    ["Graphics engine active", "5.0", partial(bar, 0.05, glyphs=UTF8), "0.0", "7.5", "12.0"],
]


def _texts(width: int) -> list[str]:
    return [text_of(row) for row in table(HEAD, LINES, width, UTF8)]


@given(st.integers(1, 300))
def test_a_table_stays_in_its_box(width: int) -> None:
    assert all(cell_width(line) <= width for line in _texts(width))


def test_cells_that_differ_differ_when_they_are_cut() -> None:
    lines: list[list[Cell]] = [[f"gpu:0.pid{number}", "1.0"] for number in (4000, 4001)]
    _, *rows = (text_of(row) for row in table([TableColumn("GPU"), TableColumn("busy", "right")], lines, 13, UTF8))
    assert len(set(rows)) == 2 and all("…" in row for row in rows)


def test_drawn_columns_take_what_is_left() -> None:
    assert {cell_width(line) for line in _texts(54)} == {54}
    assert {cell_width(line) for line in _texts(300)} == {22 + 4 + 20 + 3 + 4 + 4 + 5}


def test_numbers_are_aligned_on_the_right() -> None:
    title, first, second = _texts(80)
    end = title.index("mean") + 4
    assert first[:end].endswith(" 60.4") and second[:end].endswith("  5.0")


def test_columns_go_by_their_order_and_equals_go_together() -> None:
    assert _texts(36)[0].split() == ["metric", "mean", "p05", "p95", "max"]
    assert _texts(30)[0].split() == ["metric", "mean", "max"]
    assert _texts(22)[0].split() == ["metric", "mean"]


def test_names_that_differ_are_not_cut_to_the_same_as_long_as_a_column_can_go_instead() -> None:
    columns = [TableColumn("label"), TableColumn("kWh", "right"), TableColumn("wasted kWh", "right", drop=6)]
    rows: list[list[Cell]] = [[f"synthetic {name}", "0.10", "0.05"] for name in ("train", "trial")]
    titles, *drawn = (text_of(row) for row in table(columns, rows, 29, UTF8))
    assert "wasted" not in titles and [row.split()[1] for row in drawn] == ["train", "trial"]


def test_names_that_do_not_fit_keep_the_end_that_tells_them_apart() -> None:
    for name in ("x" * 40 + "node1:7", (Span("! ", "outlier"), Span("x" * 40 + "node1:7", "value"))):
        _, row = table([TableColumn("GPU", keep="end"), TableColumn("%", "right")], [[name, "50.0"]], 24, UTF8)
        text = text_of(row)
        assert text.endswith("node1:7 50.0") and "…" in text and cell_width(text) == 24


def test_a_row_with_nothing_left_is_left_out() -> None:
    rows = table(HEAD, [*LINES, ["", "", partial(bar, 0.5, glyphs=UTF8), "", "", ""]], 36, UTF8)
    assert len(rows) == 3


def test_user_text_in_a_cell_is_cleaned() -> None:
    assert "\x1b" not in text_of(table([TableColumn("x")], [["\x1b[31mred\n"]], 40, UTF8)[1])
