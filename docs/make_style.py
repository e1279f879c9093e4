"""Writes the tables of docs/style.md from the code's own tables of colours and units: run it after every change there."""

from collections.abc import Iterable
from pathlib import Path

from gssr.model.breakdown.categories import CATEGORIES
from gssr.render.breakdown import LOOKS
from gssr.render.scale import UNITS

PAGE = Path(__file__).with_name("style.md")


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    lines = [head, *rows]
    lines.insert(1, ["---" for _ in lines[0]])
    return "".join(f"| {' | '.join(row)} |\n" for row in lines)


def sections() -> dict[str, str]:
    """The parts of the page that are made from the code, by the name of their marker."""
    looks = [(each, LOOKS[each.name]) for each in CATEGORIES]
    colours = (
        (look.mark, f"`{look.ascii_mark}`", f"`{look.colour}`", f"`{each.name}`", each.short, each.label)
        for each, look in looks
    )
    units = ((f"`{stored}`", unit.name, str(unit.decimals)) for stored, unit in UNITS.items())
    return {
        "colours": _table(("Mark", "In ASCII", "Colour", "In JSON", "In a narrow column", "In a list"), colours),
        "units": _table(("As stored", "As shown", "Decimals"), units),
    }


def page(text: str) -> str:
    """The page with its made parts as the code has them now."""
    for name, made in sections().items():
        begin, end = f"<!-- {name}: made by docs/make_style.py -->\n", f"<!-- end of {name} -->"
        before, found, rest = text.partition(begin)
        _, closed, after = rest.partition(end)
        if not (found and closed):
            raise ValueError(f"{PAGE.name} has no part marked {name!r}")
        text = f"{before}{begin}\n{made}\n{end}{after}"
    return text


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
