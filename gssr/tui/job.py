"""The live screen beside a job that was started with it: Ctrl-C asks what to do with the job."""

import asyncio
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from signal import Signals
from typing import NamedTuple

from textual import events

from gssr.model.live.watch import Watch
from gssr.model.verdicts.rules import TABLE
from gssr.model.verdicts.table import Table
from gssr.render.cells import clean, pad
from gssr.render.glyphs import Glyphs
from gssr.render.roles import Row, Span
from gssr.render.table import laid_over
from gssr.tui.app import LiveScreen
from gssr.tui.output import LogFile
from gssr.tui.view import Scene

_WIDTH = 46


class Job(NamedTuple):
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

    def __init__(
        self, job: Job, watch: Watch, glyphs: Glyphs, hz: float, colors: int, theme: str = "ansi-dark",
        table: Table = TABLE,
    ) -> None:  # fmt: skip
        super().__init__([watch], glyphs, hz, colors, theme, table)
        self.view = replace(self.view, output=True)
        self._log_file = LogFile(job.log, job.log_start)
        self._job = job
        self._asking = False
        self._ended = False
        self._sent = 0  # signals
        self._unheard = b""

    def on_mount(self) -> None:
        """Begin to listen; Textual calls the other class's method of this name as well."""
        self._job.drawn()
        asyncio.get_running_loop().add_reader(self._job.notices, self._hear)

    def _hear(self) -> None:
        data = os.read(self._job.notices, 1 << 12)
        if not data:
            self._job.leave()
        *lines, self._unheard = (self._unheard + data).split(b"\n")
        if lines:
            self._message = clean(lines[-1].decode("utf-8", "replace"))
            self._draw()

    async def on_event(self, event: events.Event) -> None:
        """Tell that somebody is there, who may want to stay."""
        if self._ended and isinstance(event, events.InputEvent):
            self._job.used()
        await super().on_event(event)

    def _job_runs(self) -> bool:
        return not self.frames or self.frames[0].state not in ("ended", "lost")

    def _next_signal(self) -> int:
        return self._job.signals[min(self._sent, len(self._job.signals) - 1)]

    def _rows(self, scene: Scene) -> list[Row]:
        if not self._ended and not self._job_runs():
            self._ended, self._asking = True, False
            self._message = "the job has ended; q leaves"
            self._job.over()
        rows = super()._rows(scene)
        if not self._asking:
            return rows
        return laid_over(rows, question(self._next_signal(), self._glyphs), scene.width)

    def _interrupt(self) -> None:
        """Ask, while there is something to ask about."""
        if self._job_runs():
            self._asking = True
        else:
            super()._interrupt()

    def _suspend(self) -> None:
        """Who watches over the job would stop with us, and the job as soon as nobody takes what it prints."""
        self._message = "the job can't wait: q leaves the screen, and the job goes on"

    def _typed(self, key: str) -> bool:
        """While it is asked, keys are answers."""
        if not self._asking:
            return False
        if key in ("d", "q"):
            self.leave()
        elif key == "s":
            signal = self._next_signal()
            self._job.send(signal)
            self._sent += 1
            self._message = f"{Signals(signal).name} sent to the job"
        if key in ("s", "escape"):
            self._asking = False
        self._draw()
        return True


def question(signal: int, glyphs: Glyphs) -> list[Row]:
    """The box that asks what to do; ``signal`` is the one that stopping sends next."""
    edge: Row = (Span(glyphs.heavy * _WIDTH, "heading"),)
    lines: list[Row] = [
        edge,
        (Span("  The job is running.", "title"),),
        (),
        (Span("  s    ", "value"), Span(f"stop it: sends {Signals(signal).name}")),
        (Span("  d    ", "value"), Span("leave it running, its output comes here")),
        (Span("  Esc  ", "value"), Span("go back to the screen")),
        edge,
    ]
    return [pad(line, _WIDTH) for line in lines]
