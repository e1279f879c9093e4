"""Cells of text as arrays, against Python reading each alone."""

import random
import re

import numpy as np
import pytest

from gssr.foreign.cells import TextCells, key

_PLAIN = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,3})?")


def drawn(rng: random.Random) -> str:
    kind = rng.randrange(9)
    if kind < 5:
        digits = "".join(rng.choices("0123456789", k=rng.choice((1, 2, 3, 7, 8, 9, 15, 16, 17, 20))))
        at = rng.randrange(len(digits) + 1)
        return rng.choice(("", "", "", "-")) + (digits if kind < 2 else f"{digits[:at]}.{digits[at:]}")
    return rng.choice(
        (
            "N/A",
            "",
            "-",
            "--1",
            "1-",
            "1.2.3",
            ".",
            "5.",
            ".5",
            "1e5",
            "2E-3",
            "+4",
            "x",
            "1x",
            "٣",
            "1_0",
            "0x1F",
            "nan",
        )
    )


@pytest.mark.parametrize("width", [1, 5])
def test_every_number_is_the_one_that_python_reads(width: int) -> None:
    rng = random.Random(4)
    for length in (1, 3, 400):
        rows = [[drawn(rng) for _ in range(width)] for _ in range(length)]
        cells = TextCells("".join(", ".join(row) + "\n" for row in rows).encode(), comma=True)
        assert cells.count.tolist() == [width] * length
        for place in range(width):
            got = cells.numbers(cells.first[:-1] + place)
            words = [row[place] for row in rows]
            want = [
                int(word, 16)
                if word[:2] == "0x"
                else float(word)
                if _PLAIN.fullmatch(word) and word.isascii()
                else np.nan
                for word in words
            ]
            assert np.array_equal(got, want, equal_nan=True), [
                each for each in zip(words, got, want, strict=True) if each[1] != each[2]
            ][:5]


def test_units_are_cut_where_they_are_the_columns() -> None:
    words = ["92 %", "7", "100 %", "5 MiB", "%", " %", "3.25 %", "12345678901 %", "[N/A]", "1  %"]
    cells = TextCells("".join(f"{word}\n" for word in words).encode(), comma=True)
    got = cells.numbers(cells.first[:-1], b"%")
    assert np.array_equal(got, [92, 7, 100, *[np.nan] * 3, 3.25, 12345678901, *[np.nan] * 2], equal_nan=True)
    assert cells.unread == 4  # "5 MiB", twice "%", "1  %"


def test_words_of_lines_are_found_whatever_stands_between_them() -> None:
    lines = ["", "a", "  b\t c  ", "d,e,,f", "\r", "g" * 300]
    cells = TextCells(("\r\n".join(lines) + "\n").encode(), comma=False)
    found = [
        [cells.word(cell).decode() for cell in range(*cells.first[line : line + 2])] for line in range(len(cells.lines))
    ]
    assert found == [line.replace(",", " ").split() for line in lines]
    assert cells.line(2) == b"  b\t c  " and cells.keys(np.array([0, 6])).tolist() == [key(b"a"), 0]


def test_texts_are_told_apart_in_the_order_in_which_they_come() -> None:
    rng = random.Random(1)
    words = [f"GPU-{rng.randrange(40):036x}" for _ in range(500)] + ["", "a", "a\0"[:1]]
    cells = TextCells("".join(f"{word}\n" for word in words).encode(), comma=True)
    which, each = cells.distinct(cells.first[:-1])
    distinct = list(dict.fromkeys(words))
    assert [cells.word(cell).decode() for cell in each.tolist()] == distinct
    assert [distinct[number] for number in which.tolist()] == words
