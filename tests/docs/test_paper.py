"""The figures of the paper are those of the benchmarks."""

import re

import fenced

PAPER = fenced.ROOT / "paper" / "paper.md"
FIGURES = (fenced.ROOT / "benchmarks" / "README.md").read_text(encoding="utf-8")


def _rows(text: str) -> list[list[str]]:
    """The cells of a page's table rows, without heads and rules."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]
    return [row for row in rows if row[0] != "what" and not row[0].startswith("-")]


def test_each_figure_is_one_of_the_benchmarks() -> None:
    measured = {row[0]: row for row in _rows(FIGURES)}
    printed = _rows(PAPER.read_text(encoding="utf-8"))
    assert len(printed) > 10
    for what, *values in printed:
        if what.startswith("unseen"):
            first, *_, last, _limit = measured[what][1:]
            assert values == [first, last], what
        else:
            value, _limit, unit = measured[what][1:]
            assert values == [value, unit], what


def test_the_readme_rounds_the_same_figures() -> None:
    measured = {row[0]: row for row in _rows(FIGURES)}
    rows = [measured[f"unseen: {name}"] for name in ("recall", "precision", "healthy jobs warned about")]
    first, last = ([f"{100 * float(row[at]):.2g} %" for row in rows] for at in (1, -2))
    lines = (fenced.ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    told = {cells[1]: cells[2:-1] for line in lines if (cells := [cell.strip() for cell in line.split("|")])[1:]}
    assert told["the first 600"] == first and told["600 new ones of the same kinds"] == last


def test_every_source_is_listed_and_cited() -> None:
    listed = set(re.findall(r"^@\w+\{(\w+),", (PAPER.parent / "paper.bib").read_text(encoding="utf-8"), re.MULTILINE))
    assert listed == set(re.findall(r"@(\w+)\]", PAPER.read_text(encoding="utf-8")))
