"""What happened: the list of events, newest first."""

from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from gssr.model.live.live_result import Result
from gssr.render.scale import count
from gssr.report.live.times_of_run import event_in_words, event_text
from gssr.tui.keys import key

_MOST = 500


class Events(ModalScreen[None]):
    """The events of a run."""

    AUTO_FOCUS = ".dialog"
    BINDINGS: ClassVar[list[BindingType]] = [key("escape,q,e", "dismiss(None)", "Back", "back to the screen")]

    def __init__(self, result: Result) -> None:
        super().__init__()
        self._result = result

    def compose(self) -> ComposeResult:
        """List the newest _MOST events, one a line, newest first; "nothing happened" if there are none."""
        found = self._result.events[::-1][:_MOST]
        text = Text()
        for event in found:
            text.append(f"{event_text(self._result, event.time):>9}  ", "dim")
            text.append(event_in_words(self._result, event) + "\n")
        with VerticalScroll(classes="dialog") as box:
            box.border_title = f"{count(len(self._result.events), 'event')}, newest first"
            yield Static(text if found else "nothing happened")
