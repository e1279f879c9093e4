"""The program: keys and the mouse change the view, the producer brings frames, and every change is drawn anew."""

import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
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
from gssr.model.traces.part import NOTHING
from gssr.model.verdicts.rules import TABLE
from gssr.model.verdicts.table import Table
from gssr.model.window import select_gpus
from gssr.render.cells import clean
from gssr.render.glyphs import Glyphs
from gssr.render.roles import Row
from gssr.render.scale import count
from gssr.render.verdicts import naming
from gssr.store.output_file import access_of
from gssr.store.read.open import log_of
from gssr.tui import shell
from gssr.tui.actions import ACTIONS
from gssr.tui.actions import BY_NAME as ACTION
from gssr.tui.canvas import SECONDS_TO_ANSWER, Canvas, Line, ShortChange, ShortLayout, looks
from gssr.tui.export import export, to_text
from gssr.tui.moves import MOVES, go_to, move_by, played
from gssr.tui.order import only_of, ordered
from gssr.tui.output import LogFile, Output
from gssr.tui.palette import LISTED, Choice, Prompt, choices, line_at, over
from gssr.tui.producer import Frames, Producer
from gssr.tui.steady_order import SteadyOrders
from gssr.tui.view import LATELY, Scene, View

_PAGE = 10
"""Lines that a page of a list has."""
_WHEEL = 3
"""Lines that a turn of the mouse's wheel moves."""
_LEAVING = 0.8
"""Seconds for which leaving waits at most."""


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
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar = [(",".join(action.keys), f"act('{action.name}')", action.help) for action in ACTIONS]

    def __init__(
        self, watches: Sequence[Watched], glyphs: Glyphs, hz: float, colors: int, theme: str = "ansi-dark",
        table: Table = TABLE,
    ) -> None:  # fmt: skip
        super().__init__(ansi_color=True)
        self.theme = theme
        self.animation_level = "none"
        self.view = View()
        self._window_is_chosen = False
        self.wanted_gpus: tuple[str, ...] | None = None
        """What names the GPUs to begin with (gssr.model.window.select_gpus), until they are known."""
        self.waiting = ""
        """What is said in place of the footer until there is a recording."""
        self.reading = ""
        """What is said until the first drawing."""
        self.file = ""
        """What the recording is called in commands that a screen advises; empty for one that is gone with the screen."""
        self.frames: Frames = ()
        self._box = Size(0, 0)
        self._glyphs = glyphs
        self._other = 1
        self._orders = SteadyOrders()
        self._table = table
        self._watches: list[Watched] = list(watches)
        self._message = ""
        self._picked = 0
        self._played = time.monotonic()
        self._log_file = LogFile(log_of(watches[0].path))
        self._printed: bytes | None = None
        self._line = Line()
        self._then: Callable[[], None] | None = None
        """What is done once everything on its way to the terminal has arrived."""
        self._canvas = Canvas(looks(colors, theme == "ansi-light"), self._line, self._click, self._typed)
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
        self._window_is_chosen = self.view.span is not None
        self._ask()
        self._producer.start()
        self.app_resume_signal.subscribe(self, lambda _: self.refresh(layout=True))
        if not self.is_headless and self._driver is not None:
            self._driver.write(self._line.probe(self._glyphs.track) + f"\x1b[H{self.reading}")
            self.set_timer(SECONDS_TO_ANSWER, self._unanswered)
            self.set_interval(1.0, self._leave_without_terminal)

    def _unanswered(self) -> None:
        self._line.silent()
        self._canvas.go_on()

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
            self.exit(1, message=Text(_explain(self._producer.problem)))
            return
        self.frames = (self._advising(event.frames[0]), *event.frames[1:])
        if self.wanted_gpus is not None and event.frames[0].n_gpus:
            self._select(self.wanted_gpus)
        self._show_lately(self.frames[0])
        if len(self._watches) == 1 and len(self._watches[0].run_ids) > 1:
            self._watch_other_runs(self._watches[0])
        if self.view.speed:
            self._play()
        if self.view.screen == "compare":
            self._ask()  # how the two are aligned depends on both
        self._draw()

    def _advising(self, frame: Frame) -> Frame:
        """The frame, in whose advice commands name the recording."""
        found = frame.judgement
        if found is None or not self.file:
            return frame
        return replace(frame, judgement=replace(found, verdicts=naming(found.verdicts, [self.file])))

    def _show_lately(self, frame: Frame) -> None:
        """Of a run that grows the last minutes, of one that is over all of it, as long as nobody chose a window."""
        if self._window_is_chosen or self.view.end is not None or self.view.speed or frame.part is not None:
            return
        span = LATELY if frame.state in ("live", "stalled") and frame.last - frame.first > LATELY else None
        if span != self.view.span:
            self.view = replace(self.view, span=span)
            self._ask()

    def _select(self, wanted: tuple[str, ...]) -> None:
        self.wanted_gpus = None
        try:
            self._look(
                replace(self.view, selection=select_gpus(self.frames[0].gpus, wanted), selected=", ".join(wanted))
            )
        except ValueError as error:
            self._message = f"--gpus: {error}"

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
            queries[0], queries[self._other] = aligned(query, self.view.align, *self._pair())
        self._producer.ask(tuple(queries), keep_looking=bool(self.view.speed))

    def scene(self) -> Scene | None:
        """What is drawn now; None before the first frame."""
        if not self.frames:
            return None
        other = self._pair()[1]
        width, height = self._box
        output = Output(self._log_file.path, self._printed)
        n_recordings = len(self._watches)
        return Scene(self.frames[0], other, self.view, width, height, self._glyphs, output, n_recordings, self._orders)

    def _pair(self) -> tuple[Frame | None, Frame | None]:
        """The newest frame, and that of the recording it is compared with."""
        pair = (*self.frames[:2], None, None)
        return pair[0], pair[1]

    def _draw(self) -> None:
        scene = self.scene()
        if scene is not None and scene.width and scene.height and self._then is None:
            self._canvas.show(self._rows(scene))

    def _rows(self, scene: Scene) -> list[Row]:
        message = self._message or ("" if scene.frame.run or scene.frame.part else self.waiting)
        rows, asked = shell.draw(scene, message), self._prompt.asked
        if asked not in LISTED:
            return rows
        return over(rows, asked, choices(asked, scene, self._prompt.value), self._picked, scene)

    def _look(self, view: View) -> None:
        if view != self.view:
            if view.span != self.view.span:
                self._window_is_chosen = view.span != LATELY  # that is what nobody needs to choose
            self.view = view
            self._ask()

    def _display(self, screen: Screen[object], renderable: RenderableType | None) -> None:
        """Send what changed, in few bytes."""
        if not self.frames:
            return  # the terminal is blank
        if isinstance(renderable, ChopsUpdate):
            renderable = ShortChange(renderable, self._box.width, self._line.repeats)
        elif isinstance(renderable, LayoutUpdate):
            renderable = ShortLayout(renderable, self._line.repeats)
        super()._display(screen, renderable)
        if isinstance(renderable, ShortChange | ShortLayout) and self._driver is not None:
            self._driver.write(self._line.ask(renderable.n_bytes))

    def on_cursor_position(self, event: events.CursorPosition) -> None:
        """The terminal has drawn what was sent: go on."""
        self._line.answered(event.x)
        if self._then is not None:
            self._arrived()
        else:
            self._canvas.go_on()

    def _once_arrived(self, then: Callable[[], None]) -> None:
        """Draw nothing more, and do this once what was sent is drawn: an answer would otherwise come to the shell."""
        self._canvas.stop()
        self._then = then
        if self._line.busy:
            self.set_timer(_LEAVING, self._arrived)
        else:
            self._arrived()

    def _arrived(self) -> None:
        then, self._then = self._then, None
        if then is not None:
            then()

    def leave(self) -> None:
        """End, without an error."""
        self._once_arrived(lambda: self.exit(0))

    # Keys and the mouse

    def _body(self, scene: Scene) -> Scene:
        return scene.sized(*shell.body_size(scene.view, scene.width, scene.height))

    def action_act(self, name: str) -> None:
        """Do what the table of actions calls ``name``."""
        scene = self.scene()
        if self._prompt.asked and name not in ("interrupt", "suspend"):
            self._pick(name)
            return
        self._message = ""
        if ACTION[name].traces and (scene is None or scene.frame.part is None):
            self._draw()
            return
        if name == "quit" and self.view.overlay:
            self._look(replace(self.view, overlay=""))
        elif name == "quit":
            self.leave()
        elif name == "interrupt":
            self._interrupt()
        elif name == "suspend":
            self._suspend()
        elif name == "next_other":
            self._other = self._other % max(len(self._watches) - 1, 1) + 1
            self._ask()
        elif name in _ASKED and scene is not None:
            label, hint = _ASKED[name]
            if name == "filter" and scene.frame.part is not None:
                hint = "rank0*   busy<30   name=nccl*   takes>1ms   size>1M   (several: and; nothing: all)"
            if name == "filter" and scene.view.screen == "calls":
                hint = "a part of a name   nccl*   (nothing: all)"
            self._prompt.ask(name, label, hint, self._suggested(name, scene))
            listed = choices(name, scene, "") if name == "metrics" else []
            metrics = [choice.then.metric for choice in listed if isinstance(choice.then, View)]
            shown = scene.frame.grid.metric
            self._picked = metrics.index(shown) if shown in metrics else 0
        elif name == "copy":
            self.copy_to_clipboard(to_text(self._canvas.rows()))
            self._message = "copied, if the terminal allows it (OSC 52)"
        elif name in MOVES and scene is not None:
            if name == "play":
                self._played = time.monotonic()
            view = MOVES[name](self._body(scene))
            if view == self.view:
                self._message = _NOT_FOUND.get(name, "")
            self._look(view)
        self._draw()

    def _interrupt(self) -> None:
        self.leave()

    def _suspend(self) -> None:
        """Back to the shell, which draws this anew when it continues us."""
        if self.is_headless or os.getpgrp() == os.getsid(0):
            self._message = "no shell here to go back to"
            return
        self._once_arrived(self._to_the_shell)

    def _to_the_shell(self) -> None:
        self._suspend_signal()
        os.kill(0, signal.SIGTSTP)

    def _pick(self, name: str) -> None:
        """The keys that move a cursor move it in the list above the line in which something is typed."""
        scene = self.scene()
        steps = {"up": -1, "down": 1, "page_up": -_PAGE, "page_down": _PAGE}
        if scene is not None and self._prompt.asked in LISTED and name in steps:
            last = len(choices(self._prompt.asked, scene, self._prompt.value)) - 1
            self._picked = min(max(self._picked + steps[name], 0), max(last, 0))
            self._draw()

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

    def on_input_changed(self, event: Input.Changed) -> None:
        """Another list; the first of it is the one that is most likely meant."""
        if self._prompt.asked in LISTED and event.value:
            self._picked = 0
        if self._prompt.asked in LISTED:
            self._draw()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """What was typed is taken."""
        asked, text = self._prompt.done(), event.value.strip()
        self._canvas.focus()
        scene = self.scene()
        if scene is None:
            return
        if asked in LISTED:
            found = choices(asked, scene, text)
            self._take(found[min(self._picked, len(found) - 1)] if found else None)
            return
        try:
            if asked == "filter" and self.view.screen == "calls":
                self._look(replace(self.view, sought=text, row=0, top=0))
            elif asked == "filter":
                self._look(replace(self.view, filter=text, top=0, place=-1))
                self._message = filtered(scene._replace(view=self.view))
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

    def _take(self, picked: Choice | None) -> None:
        """Do what was picked of a list; None where nothing is in it."""
        if picked is None:
            self._message = "nothing has this name"
        elif isinstance(picked.then, str):
            self.action_act(picked.then)
        else:
            self._look(picked.then)
        self._draw()

    def on_key(self, event: events.Key) -> None:
        """Esc leaves the line to type in."""
        if self._prompt.display and event.key == "escape":
            self._prompt.done()
            self._canvas.focus()
            self._draw()
            event.stop()

    def _click(self, x: int, y: int) -> None:
        scene = self.scene()
        if scene is None:
            return
        if self._prompt.asked in LISTED:
            found = choices(self._prompt.asked, scene, self._prompt.value)
            line = line_at(y, scene.height, len(found), self._picked)
            self._prompt.done()
            if line is None:
                self._draw()
            else:
                self._take(found[line])
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


def _explain(problem: BaseException | None) -> str:
    """Name the error that ended the reading; under ``gssr --debug`` with its traceback."""
    text = clean(f"gssr: an error while reading: {problem!r}")
    if problem is None or not os.environ.get("GSSR_DEBUG"):
        return text if problem is None else f"{text}; gssr --debug shows where"
    return "\n".join([*map(clean, "".join(traceback.format_exception(problem)).splitlines()), text])


def filtered(scene: Scene) -> str:
    """What a filter that was just typed has done, where the screen does not show it: none passes, all do, or it is about the
    lists of other screens. "" for nothing to say."""
    order, text, noun = ordered(scene), scene.view.filter, scene.frame.noun
    if order.problem:
        return order.problem
    n = len(order.gpus)
    only = scene.frame.part is not None and only_of(text) != NOTHING
    if text and not n:
        return f"no {noun} passes the filter {clean(text)}"
    if text and n == order.candidates and not only:
        return f"the filter {clean(text)} hides nothing: {n:,} of {count(n, noun)} pass"
    if text and scene.view.screen not in ("gpus", "map") and not only:
        return f"{n:,} of {count(order.candidates, noun)} pass the filter: GPUs (2) and Map (3) show them"
    return ""


_NOT_FOUND = {
    **dict.fromkeys(
        ("next_found", "previous_found"),
        "no more of that name that way, or no name is chosen: Enter a line, or a name on Calls (8)",
    ),
    **dict.fromkeys(("next_outlier", "previous_outlier"), "no other GPU is unlike the rest"),
}
"""What is said where an action finds nothing."""
_ASKED = {
    "filter": ("Filter:", "nid0012*   *:0   sm<30   user=ada   (several: and; nothing: all GPUs)"),
    "go_to": ("Go to:", "90   5m   1:30 after the start   -60 before the end   2026-05-01T12:00"),
    "export": ("Save as:", "a name that ends in .txt, .png, .svg or .csv"),
    "metrics": ("Metric:", "a part of its name; up and down choose"),
    "palette": ("Find:", "a part of a name; up and down choose"),
}
"""What is asked for in words: the label, and the hint shown until something is typed."""
