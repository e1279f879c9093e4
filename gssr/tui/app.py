"""The program: keys and the mouse change the view, the producer brings frames, and every change is drawn anew."""

import time
from dataclasses import replace
from typing import ClassVar

from textual import events
from textual.app import App, ComposeResult
from textual.message import Message

from gssr.model.frame import Frame
from gssr.model.watch import Watch
from gssr.render.glyphs import Glyphs
from gssr.tui import shell
from gssr.tui.actions import ACTIONS
from gssr.tui.canvas import Canvas
from gssr.tui.moves import MOVES, played
from gssr.tui.producer import Frames, Producer
from gssr.tui.screens import BY_NAME
from gssr.tui.theme import looks
from gssr.tui.view import Scene, View


class Arrived(Message):
    """New frames: one for each recording that was asked about. None at all: the producer has failed."""

    def __init__(self, frames: Frames) -> None:
        super().__init__()
        self.frames = frames

    def can_replace(self, message: Message) -> bool:
        """Only the newest counts."""
        return isinstance(message, Arrived)


class LiveScreen(App[int]):
    """The live screen on one recording, or several of which the first is looked at."""

    CSS = "Canvas { width: 100%; height: 100%; }"
    ENABLE_COMMAND_PALETTE = True
    COMMAND_PALETTE_BINDING = "ctrl+p"
    BINDINGS: ClassVar = [(",".join(action.keys), f"act('{action.name}')", action.help) for action in ACTIONS]

    def __init__(self, watches: list[Watch], glyphs: Glyphs, hz: float, colors: int, dark: bool = True) -> None:
        super().__init__(ansi_color=True)
        self.theme = "ansi-dark" if dark else "ansi-light"
        self.animation_level = "none"
        self.view = View()
        self.frames: Frames = ()
        self._glyphs = glyphs
        self._hz = hz
        self._other = 1
        self._watches = watches
        self._message = ""
        self._played = time.monotonic()
        self._canvas = Canvas(looks(colors), self._click)
        self._producer = Producer(watches, 1.0 / hz, self._deliver)

    def _deliver(self, frames: Frames) -> None:
        self.post_message(Arrived(frames))

    def compose(self) -> ComposeResult:
        """One widget."""
        yield self._canvas

    def on_mount(self) -> None:
        """Begin to read."""
        self._canvas.focus()
        self._ask()
        self._producer.start()

    def on_unmount(self) -> None:
        """Let go of the files."""
        self._producer.leave()

    def on_resize(self, event: events.Resize) -> None:
        """Other columns, another drawing."""
        del event
        self._ask()
        self._draw()

    def on_arrived(self, event: Arrived) -> None:
        """Show the new frames."""
        if not event.frames:
            self.exit(1, message=repr(self._producer.problem))
            return
        self.frames = event.frames
        if self.view.speed:
            self._play()
        self._draw()

    def _play(self) -> None:
        now = time.monotonic()
        scene = self.scene()
        if scene is not None:
            self._look(played(scene, min(now - self._played, 1.0)))
        self._played = now

    def _ask(self) -> None:
        size = self.size
        if not size.width or not size.height:
            return
        query = self.view.query(shell.columns(self.view, size.width, size.height))
        queries = [query] + [None] * (len(self._watches) - 1)
        if self.view.screen == "compare" and len(self._watches) > 1:
            queries[self._other] = replace(query, end=None, cursor=None)
        self._producer.ask(tuple(queries))

    def scene(self) -> Scene | None:
        """What is drawn now; None before the first frame."""
        if not self.frames:
            return None
        other: Frame | None = self.frames[1] if len(self.frames) > 1 else None
        size = self.size
        return Scene(self.frames[0], other, self.view, size.width, size.height, self._glyphs)

    def _draw(self) -> None:
        scene = self.scene()
        if scene is not None and scene.width and scene.height:
            self._canvas.show(shell.draw(scene, self._message))

    def _look(self, view: View) -> None:
        if view != self.view:
            self.view = view
            self._ask()

    def action_act(self, name: str) -> None:
        """Do what the table of actions calls ``name``."""
        scene = self.scene()
        self._message = ""
        if name == "quit":
            self.exit(0)
        elif scene is not None and name in MOVES:
            inner = scene.sized(*shell.body_size(scene.width, scene.height))
            if name == "play":
                self._played = time.monotonic()
            self._look(MOVES[name](inner))
            self._draw()

    def _click(self, x: int, y: int) -> None:
        scene = self.scene()
        if scene is None or y < shell.HEADER:
            return
        inner = scene.sized(*shell.body_size(scene.width, scene.height))
        view = BY_NAME[scene.view.screen].click(inner, x, y - shell.HEADER)
        if view is not None:
            self._look(view)
            self._draw()
