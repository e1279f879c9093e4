"""The program: keys and the mouse change the view, the producer brings frames, and every change is drawn anew."""

import os
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from rich.console import RenderableType
from rich.text import Text
from textual import events
from textual._compositor import ChopsUpdate, LayoutUpdate
from textual.app import App, ComposeResult
from textual.geometry import Size
from textual.message import Message
from textual.screen import Screen
from textual.widgets import Input

from gssr.model.compare.alignment import aligned
from gssr.model.live.frame import Frame
from gssr.model.live.watch import Watch
from gssr.model.live.watch_trace import Watched
from gssr.model.verdicts.rules import TABLE
from gssr.model.verdicts.table import Table
from gssr.render.cells import clean
from gssr.render.glyphs import Glyphs
from gssr.render.roles import Row
from gssr.store.output_file import access_of
from gssr.store.read.open import log_of
from gssr.tui import shell
from gssr.tui.actions import ACTIONS
from gssr.tui.actions import BY_NAME as ACTION
from gssr.tui.canvas import Canvas, ShortChange, ShortLayout, looks
from gssr.tui.export import export, to_text
from gssr.tui.moves import MOVES, go_to, move_by, played
from gssr.tui.output import LogFile, Output
from gssr.tui.palette import Actions, Prompt
from gssr.tui.producer import Frames, Producer
from gssr.tui.view import Scene, View

_WHEEL = 3
"""Lines that a turn of the mouse's wheel moves."""


class Arrived(Message):
    """New frames: one for each recording that was asked about. None at all: the producer has failed."""

    def __init__(self, frames: Frames) -> None:
        super().__init__()
        self.frames = frames

    def can_replace(self, message: Message) -> bool:
        """Only the newest counts."""
        return isinstance(message, Arrived)


class LiveScreen(App[int]):
    """The live screen on the first of ``watches``; Compare sets it beside one of the others. ``hz``: looks a second while
    something grows; ``colors`` of the terminal, 0 for none; ``table``: the rules that the job is judged by."""

    CSS = "Screen { layers: base top; } Canvas { width: 100%; height: 100%; layer: base; }"
    COMMANDS: ClassVar = {Actions}
    BINDINGS: ClassVar = [(",".join(action.keys), f"act('{action.name}')", action.help) for action in ACTIONS]

    def __init__(
        self, watches: Sequence[Watched], glyphs: Glyphs, hz: float, colors: int, theme: str = "ansi-dark",
        table: Table = TABLE,
    ) -> None:  # fmt: skip
        super().__init__(ansi_color=True)
        self.theme = theme
        self.animation_level = "none"
        self.view = View()
        self.frames: Frames = ()
        self._box = Size(0, 0)
        self._glyphs = glyphs
        self._other = 1
        self._table = table
        self._watches: list[Watched] = list(watches)
        self._message = ""
        self._played = time.monotonic()
        self._log_file = LogFile(log_of(watches[0].path))
        self._printed: bytes | None = None
        self._canvas = Canvas(looks(colors), self._click, self._typed)
        self._prompt = Prompt()
        self._producer = Producer(self._watches, 1.0 / hz, self._deliver)

    def say(self, text: str) -> None:
        """Show a line in place of the footer, until the next key."""
        self._message = text

    def _deliver(self, frames: Frames) -> None:
        self._printed = self._log_file.tail()
        self.post_message(Arrived(frames))

    def compose(self) -> ComposeResult:
        """The drawing, and the line to type in."""
        yield self._canvas
        yield self._prompt

    def on_mount(self) -> None:
        """Begin to read; notice when the terminal is gone."""
        self._canvas.focus()
        self._ask()
        self._producer.start()
        if not self.is_headless:
            self.set_interval(1.0, self._leave_without_terminal)

    def _leave_without_terminal(self) -> None:
        if not os.isatty(sys.__stderr__.fileno() if sys.__stderr__ else 2):
            os._exit(1)  # nothing can be drawn or put back any more

    def on_unmount(self) -> None:
        """Let go of the files."""
        self._producer.leave()

    # Frames in, drawings out

    def on_arrived(self, event: Arrived) -> None:
        """Show the new frames."""
        if not event.frames:
            self.exit(1, message=Text(clean(f"gssr: an error while reading: {self._producer.problem!r}")))
            return
        self.frames = event.frames
        if len(self._watches) == 1 and len(self._watches[0].run_ids) > 1:
            self._watch_other_runs(self._watches[0])
        if self.view.speed:
            self._play()
        if self.view.screen == "compare":
            self._ask()  # how the two are aligned depends on both
        self._draw()

    def _watch_other_runs(self, watch: Watched) -> None:
        """The recording holds several runs: those that are not looked at can be compared with, the newest first."""
        shown = self.frames[0].run
        for run_id in reversed(watch.run_ids):
            if shown is None or run_id != shown.run_id:
                self._watches.append(Watch(watch.path, run_id))

    def _play(self) -> None:
        now = time.monotonic()
        scene = self.scene()
        if scene is not None:
            self._look(played(scene, min(now - self._played, 1.0)))
        self._played = now

    def on_resize(self, event: events.Resize) -> None:
        """Other columns, another drawing. Textual's own ``size`` is still the one before."""
        self._box = event.size
        self._ask()
        self._draw()

    def _ask(self) -> None:
        width, height = self._box
        if not width or not height:
            return
        query = shell.query(self.view, width, height, self._table)
        queries = [query] + [None] * (len(self._watches) - 1)
        if self.view.screen == "compare" and len(self._watches) > 1:
            queries[0], queries[self._other] = aligned(query, self.view.align == "activity", *self._pair())
        self._producer.ask(tuple(queries), keep_looking=bool(self.view.speed))

    def scene(self) -> Scene | None:
        """What is drawn now; None before the first frame."""
        if not self.frames:
            return None
        other = self._pair()[1]
        width, height = self._box
        output = Output(self._log_file.path, self._printed)
        n_recordings = len(self._watches)
        return Scene(self.frames[0], other, self.view, width, height, self._glyphs, output, n_recordings)

    def _pair(self) -> tuple[Frame | None, Frame | None]:
        """The newest frame, and that of the recording it is compared with."""
        pair = (*self.frames[:2], None, None)
        return pair[0], pair[1]

    def _draw(self) -> None:
        scene = self.scene()
        if scene is not None and scene.width and scene.height:
            self._canvas.show(self._rows(scene))

    def _rows(self, scene: Scene) -> list[Row]:
        return shell.draw(scene, self._message)

    def _look(self, view: View) -> None:
        if view != self.view:
            self.view = view
            self._ask()

    def _display(self, screen: Screen[object], renderable: RenderableType | None) -> None:
        """Send what changed, in few bytes."""
        if isinstance(renderable, ChopsUpdate):
            renderable = ShortChange(renderable, self._box.width)
        elif isinstance(renderable, LayoutUpdate):
            renderable = ShortLayout(renderable)
        super()._display(screen, renderable)

    # Keys and the mouse

    def _body(self, scene: Scene) -> Scene:
        return scene.sized(*shell.body_size(scene.view, scene.width, scene.height))

    def action_act(self, name: str) -> None:
        """Do what the table of actions calls ``name``."""
        scene = self.scene()
        self._message = ""
        if ACTION[name].traces and (scene is None or scene.frame.part is None):
            return
        if name == "quit":
            self.exit(0)
        elif name == "interrupt":
            self._interrupt()
        elif name == "palette":
            self.action_command_palette()
        elif name == "next_other":
            self._other = self._other % max(len(self._watches) - 1, 1) + 1
            self._ask()
        elif name in _ASKED and scene is not None:
            calls = name == "filter" and scene.view.screen == "calls"
            self._prompt.ask(
                name,
                "a part of a name   nccl*   (nothing: all)" if calls else _ASKED[name],
                self._suggested(name, scene),
            )
        elif name == "copy":
            self.copy_to_clipboard(to_text(self._canvas.rows()))
            self._message = "copied, if the terminal allows it (OSC 52)"
        elif name in MOVES and scene is not None:
            if name == "play":
                self._played = time.monotonic()
            self._look(MOVES[name](self._body(scene)))
        self._draw()

    def _interrupt(self) -> None:
        self.exit(0)

    def _typed(self, _key: str) -> bool:
        """Whether a key means something else than in the table of actions."""
        return False

    def _suggested(self, name: str, scene: Scene) -> str:
        if name == "filter":
            return scene.view.sought if scene.view.screen == "calls" else scene.view.filter
        if name == "export":
            stem = os.path.basename(scene.frame.path.rstrip("/")).removesuffix(".d").removesuffix(".sql")
            return f"{clean(stem)}-{scene.view.screen}.txt"
        return ""

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """What was typed is taken."""
        asked, text = self._prompt.done(), event.value.strip()
        self._canvas.focus()
        scene = self.scene()
        if scene is None:
            return
        try:
            if asked == "filter" and self.view.screen == "calls":
                self._look(replace(self.view, sought=text, row=0, top=0))
            elif asked == "filter":
                self._look(replace(self.view, filter=text, top=0))
            elif asked == "go_to" and text:
                self._look(go_to(self._body(scene), text))
            elif asked == "export" and text:
                shown = {watch.path for watch in self._watches}
                export(self._canvas.rows(), scene.width, scene.frame, text, access_of(shown))
                self._message = f"written: {os.path.abspath(text)}"
        except ValueError as error:
            self._message = str(error)
        except OSError as error:
            self._message = f"{text}: {error.strerror}"
        self._draw()

    def on_key(self, event: events.Key) -> None:
        """Esc leaves the line to type in."""
        if self._prompt.display and event.key == "escape":
            self._prompt.done()
            self._canvas.focus()
            event.stop()

    def _click(self, x: int, y: int) -> None:
        scene = self.scene()
        if scene is None:
            return
        if y == scene.height - 1:
            name = shell.footer_action(scene, x)
            if name:
                self.action_act(name)
            return
        view = shell.click(scene, x, y)
        if view is not None:
            self._look(view)
            self._draw()

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """The wheel moves the cursor; with Ctrl it zooms."""
        self._wheel(1, event.ctrl)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """The wheel moves the cursor; with Ctrl it zooms."""
        self._wheel(-1, event.ctrl)

    def _wheel(self, step: int, zoom: bool) -> None:
        if zoom:
            self.action_act("zoom_out" if step > 0 else "zoom_in")
            return
        scene = self.scene()
        if scene is not None:
            self._look(move_by(self._body(scene), 0, step * _WHEEL))
            self._draw()


_ASKED = {
    "filter": "nid0012*   *:0   sm<30   (several: and; nothing: all GPUs)",
    "go_to": "90   5m   1:30 after the start   -60 before the end   2026-05-01T12:00",
    "export": "a name that ends in .txt, .png, .svg or .csv",
}
"""What is asked for in words, and the hint shown until something is typed."""
