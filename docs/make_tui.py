"""Writes the tables of docs/tui.md from the bindings, the tabs and the categories: run it after every change to them."""

from pathlib import Path

from marked_parts import with_parts
from textual.binding import Binding
from textual.widget import Widget

from gssr.model.breakdown.categories import CATEGORIES
from gssr.tui.app import LiveScreen
from gssr.tui.balance.gpu_bars import GpuBars
from gssr.tui.calls.pane import CallsPane
from gssr.tui.calls.table import CallTable
from gssr.tui.calls.tree import CallTreeTable
from gssr.tui.compare.pane import ComparePane
from gssr.tui.gpus.nodes import NodeTable
from gssr.tui.gpus.pane import GpusPane
from gssr.tui.gpus.table import GpuTable
from gssr.tui.job.most import MostTime
from gssr.tui.shared.line_table import LineTable
from gssr.tui.shared.tabs import TABS
from gssr.tui.shared.verdict_card import VerdictCard
from gssr.tui.time.pane import TimePane
from gssr.tui.time.timeline import TimePanel
from gssr.tui.time.trace_lanes import TraceLanes
from gssr.tui.time.trace_lines import TraceLines
from gssr.tui.time.trace_rows import TraceRows
from gssr.tui.vampir import DISPLAYS
from gssr.tui.why.account import AccountTree
from gssr.tui.why.causes import Causes

PAGE = Path(__file__).with_name("tui.md")
NAMES = {
    "left_square_bracket": "[", "right_square_bracket": "]", "left_curly_bracket": "{", "right_curly_bracket": "}",
    "question_mark": "?", "slash": "/", "plus": "+", "minus": "-", "colon": ":", "space": "Space", "enter": "Enter",
    "escape": "Esc", "up": "↑", "down": "↓", "left": "←", "right": "→", "pageup": "PgUp", "pagedown": "PgDn",
    "home": "Home", "end": "End", "less_than_sign": "<", "greater_than_sign": ">", "comma": ",", "full_stop": ".",
}  # fmt: skip
"""How keys are called on the page."""
WHERE: tuple[tuple[str, tuple[type[LiveScreen] | type[Widget], ...]], ...] = (
    ("Everywhere", (LiveScreen,)),
    ("A card on Job", (VerdictCard,)),
    ("What took the most time, on Job of a trace", (MostTime,)),
    ("Every table", (LineTable,)),
    ("GPUs", (GpusPane,)),
    ("GPUs, in the list", (GpuTable,)),
    ("GPUs, in the list of nodes", (NodeTable,)),
    ("Time", (TimePane, TimePanel)),
    ("Time with a trace", (TraceRows,)),
    ("Time with a trace, on a line", (TraceLines,)),
    ("Time with a trace, on an interval", (TraceLanes,)),
    ("Balance: the bars", (GpuBars,)),
    ("Why: the cards", (Causes,)),
    ("Why: the tree", (AccountTree,)),
    ("Compare", (ComparePane,)),
    ("Calls", (CallsPane,)),
    ("Calls, in a table", (CallTable,)),
    ("Calls, in the call tree", (CallTreeTable,)),
)


def sections() -> dict[str, str]:
    """The parts of the page that are made from the code, by the name of their marker."""
    needs = {"compare": " (with a second run)", "calls": " (traces)"}
    screens = "".join(
        f"| {number} | {tab.title}{needs.get(tab.name, '')} | {tab.question} |\n" for number, tab in enumerate(TABS, 1)
    )
    keys = ""
    for where, classes in WHERE:
        lines = ""
        for own in classes:
            for binding in own.__dict__.get("BINDINGS", ()):
                assert isinstance(binding, Binding)
                shown = " ".join(f"<kbd>{_called(key)}</kbd>" for key in binding.key.split(","))
                lines += f"| {shown} | {binding.tooltip} |\n"
        keys += f"\n**{where}**\n\n| Keys | What they do |\n| --- | --- |\n{lines}" if lines else ""
    classes_of_time = "".join(f"| {each.short} | {each.label} |\n" for each in CATEGORIES)
    displays = "".join(f"| {each.name} | {each.about} |\n" for each in DISPLAYS)
    return {
        "classes": "| Word | What most of the GPU's time went to |\n| --- | --- |\n" + classes_of_time,
        "screens": "| Key | Screen | What it answers |\n| --- | --- | --- |\n" + screens,
        "keys": keys.lstrip("\n"),
        "displays": "| Vampir's name | Here |\n| --- | --- |\n" + displays,
    }


def _called(key: str) -> str:
    """A key as one speaks of it."""
    *held, own = key.strip().split("+") if key.strip() != "+" else ["+"]
    shown = NAMES.get(own, own.upper() if own.startswith("f") and own[1:].isdigit() else own)
    return "+".join([*(each.capitalize() for each in held), shown])


def page(text: str) -> str:
    """The page with its made parts as the code has them now."""
    return with_parts(text, "make_tui.py", sections())


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
