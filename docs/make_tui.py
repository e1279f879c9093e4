"""Writes the tables of docs/tui.md from the actions and the screens: run it after every change to gssr/tui/actions.py or
gssr/tui/screens/__init__.py."""

from pathlib import Path

from gssr.tui.actions import ACTIONS, KEY_NAMES
from gssr.tui.screens import SCREENS

from gssr.model.breakdown.categories import CATEGORIES

PAGE = Path(__file__).with_name("tui.md")


def sections() -> dict[str, str]:
    """The parts of the page that are made from the code, by the name of their marker."""
    screens = "".join(
        f"| {number} | {screen.title}{' (traces)' if screen.traces else ''} | {screen.question} |\n"
        for number, screen in enumerate(SCREENS, 1)
    )
    keys = ""
    category = ""
    for action in ACTIONS:
        if action.category != category:
            category = action.category
            keys += f"\n**{category}**\n\n| Keys | What they do |\n| --- | --- |\n"
        shown = " ".join(f"<kbd>{KEY_NAMES.get(key, key)}</kbd>" for key in action.keys)
        keys += f"| {shown} | {action.help} |\n"
    classes = "".join(f"| {each.short} | {each.label} |\n" for each in CATEGORIES)
    return {
        "classes": "| Word | What most of the GPU's time went to |\n| --- | --- |\n" + classes,
        "screens": "| Key | Screen | What it answers |\n| --- | --- | --- |\n" + screens,
        "keys": keys.lstrip("\n"),
    }


def page(text: str) -> str:
    """The page with its made parts as the code has them now."""
    for name, made in sections().items():
        begin, end = f"<!-- {name}: made by docs/make_tui.py -->\n", f"<!-- end of {name} -->"
        before, found, rest = text.partition(begin)
        _, closed, after = rest.partition(end)
        if not (found and closed):
            raise ValueError(f"{PAGE.name} has no part marked {name!r}")
        text = f"{before}{begin}\n{made}\n{end}{after}"
    return text


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
