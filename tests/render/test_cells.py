"""Text in cells: nothing from a user can break a line, steer the terminal or leave its box."""

import unicodedata

from hypothesis import example, given
from hypothesis import strategies as st
from rich.cells import cell_len

from gssr.render.cells import LONGEST, at_most, cell_width, clean, clip, fit, fit_apart, flow, pad, wrap
from gssr.render.roles import Row, Span, text_of

widths = st.integers(1, 300)
texts = st.text(max_size=200)
clean_rows = st.lists(st.builds(Span, texts.map(clean)), max_size=6).map(tuple)


@given(texts)
@example("\x1b[31mred\x1b[0m\nnew\tline\u202e\u0301\u200b")
def test_clean_text_holds_nothing_without_a_cell(text: str) -> None:
    for char in clean(text):
        assert char.isprintable()
        assert unicodedata.category(char) not in ("Cc", "Cf", "Cs", "Mn", "Me")


@given(texts)
@example("한" + "\u1100\u1161\u11a8" + "\u1161" + "ﾊﾟ" + "é")
@example("👩‍👩‍👧‍👦 ❤️ 🇩🇪 👍🏿 1️⃣ क्षि ำ")
def test_clean_text_is_as_wide_as_textual_and_rich_take_it_for(text: str) -> None:
    assert cell_width(clean(text)) == cell_len(clean(text))
    assert clean(clean(text)) == clean(text)


def test_every_character_is_as_wide_as_textual_and_rich_take_it_for() -> None:
    shown = {clean(chr(code)) for code in range(0x110000)}
    assert len(shown) > 100_000
    assert not [ascii(text) for text in shown if cell_width(text) != cell_len(text)]


def test_text_of_a_megabyte_is_cut_to_its_beginning() -> None:
    assert clean("ab\x1b" * 400_000) == ("ab?" * LONGEST)[: LONGEST - 1] + "…"


def test_wide_characters_count_twice() -> None:
    assert cell_width("学習") == 4
    assert fit("学習学習", 5, "…") == "学習…"


@given(texts, widths, st.sampled_from(["start", "end"]))
def test_fitted_text_stays_in_its_cells(text: str, width: int, keep: str) -> None:
    assert cell_width(fit(text, width, "…", keep)) <= width  # type: ignore[arg-type]


@given(st.lists(st.text("ab:. 中", max_size=20), max_size=6), st.integers(1, 30), st.sampled_from(["start", "end"]))
def test_texts_fitted_apart_stay_in_their_cells(texts: list[str], width: int, keep: str) -> None:
    found = fit_apart(texts, width, "…", keep)  # type: ignore[arg-type]
    assert all(cell_width(each) <= width for each in found)
    assert all(own == text for own, text in zip(found, texts, strict=True) if cell_width(text) <= width)


def test_what_tells_texts_apart_survives_a_cut() -> None:
    assert fit_apart(["gpu:0.pid4000", "gpu:0.pid4001", "gpu:1"], 8, "…") == ["gp…d4000", "gp…d4001", "gpu:1"]
    assert len(set(fit_apart(["rank 1 MPI_Waitall", "rank 2 MPI_Waitall"], 10, "…", "end"))) == 2


def test_a_cut_keeps_the_end_asked_for() -> None:
    assert fit("nid000012:3", 8, "…") == "nid0000…"
    assert fit("nid000012:3", 8, "…", keep="end") == "…00012:3"


@given(clean_rows, widths)
def test_clipped_rows_stay_in_their_cells(row: Row, width: int) -> None:
    clipped = clip(row, width)
    assert cell_width(text_of(clipped)) <= width
    assert text_of(row).startswith(text_of(clipped))


@given(st.text("abc学", max_size=30), widths)
def test_padded_rows_fill_their_cells(text: str, width: int) -> None:
    padded = cell_width(text_of(pad((Span(text),), width, "right")))
    half = cell_width(text) > width  # half of a wide character is never drawn
    assert padded == width or (half and padded == width - 1)


@given(texts, widths, st.text(" *ab", max_size=8), st.text(" ", max_size=8))
def test_wrapped_lines_stay_in_their_cells_and_lose_nothing(text: str, width: int, first: str, rest: str) -> None:
    rows = wrap(text, width, first, rest)
    assert all(cell_width(text_of(row)) <= width for row in rows)
    if width >= 20:
        kept = "".join(text_of(row) for row in rows).replace(" ", "")
        assert kept == (first + clean(text)).replace(" ", "")


def test_a_number_stays_with_its_unit() -> None:
    lines = [text_of(row) for row in wrap("highest nid000001:0 65.0 %, lowest 12 GB/s", 24)]
    assert lines == ["highest", "nid000001:0 65.0 %,", "lowest 12 GB/s"]
    assert [text_of(row) for row in wrap("at most 529 TFLOP/s, 12 samples", 12)] == [
        "at most",
        "529 TFLOP/s,",
        "12 samples",
    ]


@given(st.lists(clean_rows, max_size=6), widths)
def test_flowing_pieces_stay_in_their_cells(pieces: list[Row], width: int) -> None:
    assert all(cell_width(text_of(row)) <= width for row in flow(pieces, width, "…", indent="  "))


def test_the_quick_way_to_measure_agrees_with_unicode() -> None:
    for code in (*range(0x20, 0x370), *range(0x2010, 0x2028), *range(0x2190, 0x2600), *range(0x2800, 0x2900)):
        wide = unicodedata.east_asian_width(chr(code)) in "WF"
        assert cell_width(chr(code)) == 1 + wide, hex(code)


def test_rows_that_are_left_out_are_told_by_an_ellipsis() -> None:
    rows = wrap("one two three four five six", 9)
    assert at_most(rows, len(rows), 9, "…") == rows and at_most(rows, 0, 9, "…") == []
    told = [text_of(row) for row in at_most(rows, 2, 9, "…")]
    assert told == ["one two", "three …"]
