"""The live screen beside a job that was started with it: Ctrl-C asks what to do with the job."""

import asyncio
import os
from collections.abc import Callable, Sequence
from signal import Signals
from typing import ClassVar, NamedTuple

from textual import events
from textual.binding import BindingType

from gssr.model.live.watch import Watch
from gssr.model.verdicts.rules import TABLE
from gssr.model.verdicts.table import RuleTable
from gssr.render.cells import clean
from gssr.render.glyphs import Glyphs
from gssr.store.read.log_file import LogFile
from gssr.tui.app import LiveScreen
from gssr.tui.dialogs.ask import AskWhat
from gssr.tui.keys import SHOWS_OUTPUT, key
from gssr.tui.shared.panel import Words


class WatchedJob(NamedTuple):
    """What the job prints is in ``log``, from the byte ``log_start`` on. At the descriptor ``notices`` lines for the user
    arrive; its end means that nobody watches over the job any more: ``leave`` is called then, and does not come back.
    ``drawn`` is called once something is drawn, ``over`` once the end of the run is, and ``used`` at each key since.
    ``send`` has one of ``signals`` sent to the job; they are tried in turn."""

    log: str
    log_start: int
    notices: int
    drawn: Callable[[], None]
    over: Callable[[], None]
    used: Callable[[], None]
    signals: Sequence[int]
    send: Callable[[int], None]
    leave: Callable[[], None]


class JobScreen(LiveScreen):
    """The live screen on the recording of ``job``."""

    BINDINGS: ClassVar[list[BindingType]] = [key("o", "output", "Output", SHOWS_OUTPUT)]

    def __init__(
        self, job: WatchedJob, watch: Watch, glyphs: Glyphs, hz: float, colors: int, theme: str = "",
        table: RuleTable = TABLE,
    ) -> None:  # fmt: skip
        super().__init__([watch], glyphs, hz, colors, theme, table)
        self._log_file = LogFile(job.log, job.log_start)
        self._job = job
        self._ended = False
        self._sent = 0  # signals
        self._unheard = b""

    def on_mount(self) -> None:
        """Listen for notices, show the output, and tell the job that something is drawn. Textual calls the base
        class's method of this name as well."""
        self.mount(Words(id="said"), before="#output")
        self._job.drawn()
        self.shows_output = True
        self.fit_output()
        asyncio.get_running_loop().add_reader(self._job.notices, self._hear)

    def _hear(self) -> None:
        """Show the newest complete line of what was written to ``notices``; at its end leave, as nobody watches over
        the job any more."""
        data = os.read(self._job.notices, 1 << 12)
        if not data:
            self._job.leave()
        *lines, self._unheard = (self._unheard + data).split(b"\n")
        if lines:
            self.show_notice(clean(lines[-1].decode("utf-8", "replace")))

    def show_notice(self, text: str) -> None:
        """Show a line above the output until a key is pressed. It replaces the one before, as notices come every
        second while time is counted down. Before the app runs, keep it as its first; an empty text changes nothing."""
        if not self.is_running:
            super().show_notice(text)
        elif text:
            line = self.query_one("#said", Words)
            line.display = True
            line.say(text)

    async def on_event(self, event: events.Event) -> None:
        """Handle an event. After the end of the job each key or mouse event tells the job's watcher that somebody is
        there; a key hides the notice."""
        if self._ended and isinstance(event, events.InputEvent):
            self._job.used()
        if isinstance(event, events.Key):
            self.query("#said").set(display=False)
        await super().on_event(event)

    def _job_runs(self) -> bool:
        return not self.results or self.results[0].state not in ("ended", "lost")

    def _next_signal(self) -> int:
        """Return the signal that stops the job next: each is sent once, the last one again and again."""
        return self._job.signals[min(self._sent, len(self._job.signals) - 1)]

    def after_new_results(self) -> None:
        """Say once that the job has ended, and tell its watcher, when a result first shows its end."""
        if not self._ended and not self._job_runs():
            self._ended = True
            self.show_notice("The job has ended; q leaves.")
            self._job.over()

    def action_interrupt(self) -> None:
        """Ask whether to stop the job, leave it running or go back; leave without asking once it has ended. Each stop
        sends the next of the job's signals, in the end the last one again."""
        if not self._job_runs():
            self.action_leave()
            return
        signal = self._next_signal()
        answers = [
            ("s", f"stop it: sends {Signals(signal).name}"), ("d", "leave it running (q, too): its output comes here"),
        ]  # fmt: skip

        def answered(answer: str | None) -> None:
            if answer in ("d", "q"):
                self.action_leave()
            elif answer == "s":
                self._job.send(signal)
                self._sent += 1
                self.show_notice(f"{Signals(signal).name} sent to the job")

        if not isinstance(self.screen, AskWhat):
            self.push_screen(AskWhat("the job is running", answers), answered)

    def action_suspend(self) -> None:
        """Refuse to suspend, with a notice: what watches over the job would stop too, and then the job, as nobody
        would take its output."""
        self.show_notice("The job can't wait: q leaves the screen, and the job goes on.")
