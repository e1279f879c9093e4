"""The tabs, in the order of the questions that they answer. What a tab holds is imported and made when it is first shown:
that costs more than all the rest of the start."""

from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from gssr.tui.shared.pane import ScreenPane
from gssr.tui.view import ScreenName


class Tab(NamedTuple):
    """A tab: ``question`` is what it answers, ``pane`` the class in the folder of its name that draws it."""

    name: ScreenName
    title: str
    question: str
    pane: str

    def make(self) -> tuple[ScreenPane, Path]:
        """Import and make the tab's pane. Returns it and the path of its style sheet, which is not read yet."""
        module = import_module(f"gssr.tui.{self.name}.pane")
        found: ScreenPane = getattr(module, self.pane)(id=f"{self.name}-pane")
        return found, Path(str(module.__file__)).with_name(f"{self.name}.tcss")


TABS: tuple[Tab, ...] = (
    Tab("job", "Job", "How well is the job using its GPUs?", "JobPane"),
    Tab("gpus", "GPUs", "Which GPUs differ?", "GpusPane"),
    Tab("time", "Time", "When was it not used?", "TimePane"),
    Tab("balance", "Balance", "What does imbalance cost?", "BalancePane"),
    Tab("why", "Why", "What keeps it from being saturated?", "WhyPane"),
    Tab("compare", "Compare", "Was another run better?", "ComparePane"),
    Tab("calls", "Calls", "What took the time?", "CallsPane"),
)
