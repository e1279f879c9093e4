"""Writes the tables of docs/style.md from the code's own tables of colours and units: run it after every change there."""

from pathlib import Path

from marked_parts import table, with_parts

from gssr.model.breakdown.categories import CATEGORIES
from gssr.render.breakdown import LOOKS
from gssr.render.scale import UNITS

PAGE = Path(__file__).with_name("style.md")


def sections() -> dict[str, str]:
    """The parts of the page that are made from the code, by the name of their marker."""
    looks = [(each, LOOKS[each.name]) for each in CATEGORIES]
    colours = (
        (look.mark, f"`{look.ascii_mark}`", f"`{look.colour}`", f"`{each.name}`", each.short, each.label)
        for each, look in looks
    )
    units = ((f"`{stored}`", unit.name, str(unit.decimals)) for stored, unit in UNITS.items())
    return {
        "colours": table(("Mark", "In ASCII", "Colour", "In JSON", "In a narrow column", "In a list"), colours),
        "units": table(("As stored", "As shown", "Decimals"), units),
    }


def page(text: str) -> str:
    """The page with its made parts as the code has them now."""
    return with_parts(text, "make_style.py", sections())


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
