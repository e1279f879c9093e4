"""The tabs, in the order of the questions that they answer, and which of them have something to show. What a tab holds is
imported and made when it is first shown: that costs more than all the rest of the start."""

from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from gssr.model.live.live_result import Result, TracePart
from gssr.tui.shared.pane import ScreenPane
from gssr.tui.view import TITLES, ScreenName


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


def has_something_to_show(name: ScreenName, part: TracePart | None, n_recordings: int) -> bool:
    """Tell whether a tab has something to show: Compare with a second run, Calls with a trace (``part``); of a profile only
    Calls has, of PyTorch's memory only Time and Calls."""
    if part is not None and part.trace.profile is not None:
        return name == "calls"
    if part is not None and part.trace.sources[0].format == "memory":
        return name in ("time", "calls")
    if name == "calls":
        return part is not None
    return name != "compare" or n_recordings > 1


def why_nothing_to_show(name: ScreenName, result: Result) -> str:
    """Say why a tab has nothing to show of this result."""
    title = TITLES[name]
    if result.part is not None and result.part.trace.profile is not None:
        return f"There is no {title}: a profile holds sums of calls, which {TITLES['calls']} shows."
    if result.part is not None and result.part.trace.holders:
        return f"There is no {title} of memory: {TITLES['time']} and {TITLES['calls']} show it."
    if name == "compare":
        return f"There is no {title}: only one run is open. gssr tui A B opens two."
    if result.traced:
        return f"There is no {title} of samples: v on {TITLES['time']} shows the traces."
    return f"There is no {title}: it shows traces, and none is open."
