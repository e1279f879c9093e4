"""What the displays of Vampir are called, and where they are here: so that its users find them by these names."""

from typing import NamedTuple

from gssr.tui.view import ScreenName


class Display(NamedTuple):
    """A display of Vampir: its ``name``, what shows the same here, on which ``screen``, and in which ``table`` of Calls."""

    name: str
    about: str
    screen: ScreenName
    table: str = ""
    alike: bool = False


DISPLAYS: tuple[Display, ...] = (
    Display("Master timeline", "Time: every process over time, messages as lines; Enter: its tracks", "time"),
    Display("Process timeline", "Time, Enter on a line: all its intervals, level by level", "time"),
    Display("Summary timeline", "Time: what all processes do together, column by column", "time"),
    Display("Counter data timeline", "Time: the counters below the lines", "time"),
    Display("Performance radar", "Time: m chooses the metric that lines show in colours", "time"),
    Display("Process summary", "Time, u: processes that spend their time alike as one bar", "time", alike=True),
    Display(
        "Function summary",
        "Calls: functions by their time, of the window and of what is selected",
        "calls",
        "functions",
    ),
    Display("Communication matrix view", "Calls: who sends how much to whom", "calls", "messages"),
    Display("Call tree", "Calls: which call calls which, and the time each takes", "calls", "calltree"),
    Display("I/O summary", "Calls: files, and what was read and written", "calls", "io"),
    Display("Context view", "Time: the interval under the cursor, in words", "time"),
)
