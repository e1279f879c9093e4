"""The program: keys and the mouse change the view, the producer brings results, and the screen in sight draws them.

A widget gets its data in one way: the app hands the newest results to the pane in sight (``ScreenPane.show``), and the pane
to its widgets. What a screen needs is asked by the app, in one query for the view and the pane in sight.
"""

import gc
import os
import select
import signal
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from rich.text import Text
from textual.app import App, ComposeResult, SystemCommand
from textual.binding import BindingType
from textual.css.query import NoMatches
from textual.driver import Driver
from textual.events import Key, ScreenResume
from textual.filter import LineFilter, NoColor
from textual.message import Message
from textual.screen import Screen
from textual.widgets import ContentSwitcher, Tab, Tabs

from gssr.gpu_name import listed, select_gpus
from gssr.gpu_vendors import BOTH, NVIDIA, maker_of, speak_of
from gssr.model.frame_cache import once
from gssr.model.live.judge import asked_of
from gssr.model.live.live_result import Result
from gssr.model.live.producer import Producer, Results
from gssr.model.live.steady_order import SteadyOrders
from gssr.model.live.watch import Watch
from gssr.model.live.watched_recording import WatchedRecording
from gssr.model.results import Judgement
from gssr.model.statistics.grid import MOST_ROWS
from gssr.model.verdicts.rules import TABLE
from gssr.model.verdicts.table import RuleTable
from gssr.render.cells import clean
from gssr.render.glyphs import Glyphs
from gssr.render.output_pane import low_pane_height, pane_height
from gssr.render.scale import metric_of, quantity
from gssr.render.verdicts import naming
from gssr.report.live.gpu_filter import only_of, parse_filter
from gssr.report.live.times_of_run import seconds_text
from gssr.store.output_file import access_of
from gssr.store.read.log_file import LogFile
from gssr.store.read.open import log_of
from gssr.tui.ascii_filter import AsciiFilter
from gssr.tui.keys import SHOWS_OUTPUT, ZOOM_IN, ZOOM_OUT, key
from gssr.tui.moves import MOVES, go_to, measured, of_metric, played
from gssr.tui.shared.footer import KeyFooter
from gssr.tui.shared.keys_in_order import KeysInOrder
from gssr.tui.shared.output_pane import OutputPane
from gssr.tui.shared.pane import ScreenPane
from gssr.tui.shared.panel import Words
from gssr.tui.shared.tabs import TABS
from gssr.tui.shared.top_bar import TopBar
from gssr.tui.themes import DEFAULT, FEW_COLOURS, MARKED_WITHOUT_COLOURS, NO_COLOURS, THEMES, Palette, text_variables
from gssr.tui.view import TITLES, Scene, ScreenName, View
from gssr.tui.wire import Wire, thrifty

if TYPE_CHECKING:
    from textual.command import Provider

    from gssr.model.traces.levels import LevelName

_STYLES = Path(__file__).with_name("app.tcss")

WINDOWS = (None, 60.0, 300.0, 900.0, 3600.0)
"""What ``w`` goes through after the newest columns: the whole run (None), and its last seconds."""
ROLLING_WIDTHS = (1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
"""Seconds of a cell while a run grows: the least that its sampling fills."""


WRITING = frozenset({"export", "keep"})
"""The actions that write files: not for who looks at the screen in a browser."""

LEAVING_SECONDS = 0.8
"""For so long leaving waits at most until the terminal has said that it has drawn everything: within a second it is left."""


PROGRESS_SECONDS = 0.25
"""Between two looks at how far the files are opened."""
FIRST_PICTURE_SECONDS = 0.5
"""Nothing is drawn for so long after the start, unless all that the first picture shows is known: of pictures that replace
each other at once a slow line would carry all, and each costs as much as the last."""
_OF_GPUS: tuple[ScreenName, ...] = ("job", "why")
"""Screens that speak of GPUs: a mean over streams or threads is not how busy those are."""
UNTIL_GARBAGE_SECONDS = 1.0
"""After the start; by then the first picture is drawn."""


LEAVES = "beside a job: stop it, leave it running, or go back; else leave"
COPIES_OR_LEAVES = f"copy the text that the mouse has selected; without any, {LEAVES}"
"""What Ctrl-C does."""


class NewResults(Message):
    """New results: one for each recording that was asked about. None at all: the producer has failed."""

    def __init__(self, results: Results) -> None:
        super().__init__()
        self.results = results

    def can_replace(self, message: Message) -> bool:
        """Only the newest counts."""
        return isinstance(message, NewResults)


def _command_provider() -> "type[Provider]":
    """Import what the command palette finds besides Textual's own commands, once the palette is opened."""
    from gssr.tui.commands import Everything

    return Everything


class _FirstScreen(Screen[None], inherit_bindings=False):
    """The screen below all others. Its keys are Textual's, in our words."""

    BINDINGS: ClassVar[list[BindingType]] = [
        key("tab", "app.focus_next", "Next", "the next panel", show=False),
        key("shift+tab", "app.focus_previous", "Previous", "the previous panel", show=False),
        key("ctrl+c,super+c", "screen.copy_text", "Copy", COPIES_OR_LEAVES, show=False),
    ]
    _was_resumed = False

    def on_screen_resume(self, event: ScreenResume) -> None:
        """Style all widgets anew as Textual does, but not when the app starts: they were styled as they were mounted."""
        event.refresh_styles = self._was_resumed
        self._was_resumed = True


class LiveScreen(KeysInOrder):
    """The live screen on the first of ``watches``; Compare sets it beside one of the others. ``hz``: looks a second while
    something grows; ``colors`` of the terminal, 0 for none; ``table``: the rules that the job is judged by."""

    TITLE = "GSSR"
    AUTO_FOCUS = None  # a tab's first panel gets it once it can be seen
    ALLOW_IN_MAXIMIZED_VIEW = "KeyFooter"
    COMMANDS = App.COMMANDS | {_command_provider}
    HORIZONTAL_BREAKPOINTS = [  # noqa: RUF012 - as Textual declares it
        (0, "-tiny"), (60, "-narrow"), (100, "-normal"), (150, "-wide")
    ]  # fmt: skip
    VERTICAL_BREAKPOINTS = [  # noqa: RUF012
        (0, "-flat"),
        (16, "-short"),
        (32, "-medium"),
        (48, "-tall"),
    ]
    BINDINGS: ClassVar[list[BindingType]] = [
        *(
            key(str(at), f"tab('{tab.name}')", tab.title, f"{tab.title}: {tab.question}", show=False)
            for at, tab in enumerate(TABS, 1)
        ),
        key("m", "metric", "Metric", "choose the metric that charts show, by its name"),
        key("w", "window", "Window", "the newest seconds, the whole run, or its last minutes"),
        key("space", "move('pause')", "Pause", "hold the view still, or go on with the newest sample"),
        key("p", "move('play')", "Play", "play the recording; again: faster, then stop", show=False),
        key("plus", "move('zoom_in')", "Zoom in", ZOOM_IN, show=False),
        key("minus", "move('zoom_out')", "Zoom out", ZOOM_OUT, show=False),
        key("left_square_bracket", "move('step_back')", "Back", "move the view one column back in time", show=False),
        key("right_square_bracket", "move('step_forward')", "On", "move the view one column on in time", show=False),
        key("t", "go_to", "Go to", "go to a time: 90, 5m, 1:30 after the start, -60 before the end", show=False),
        key("z", "zoom_panel", "Maximise", "give the focused panel the whole screen, or take it back"),
        key("e", "events", "Events", "what happened: the list of events", show=False),
        key("o", "output", "Output", SHOWS_OUTPUT, show=False),
        key("x", "export", "Export", "write what is seen to a file: SVG, PNG, text or CSV", show=False),
        key("y", "copy", "Copy", "copy what is seen to the clipboard", show=False),
        key("T", "change_theme", "Theme", "choose a theme", show=False),
        key("escape", "up_a_level", "Back", "close the filter, else the selection, the time cursor, the output",
            show=False),
        key("ctrl+p,colon", "command_palette", "Commands", "find anything by its name", show=False),
        key("question_mark,f1", "help", "Keys", "the keys of the focused panel; again or Esc: closed"),
        key("ctrl+d", "scroll_help(1)", "Keys down", "scroll the list of keys", show=False),
        key("ctrl+u", "scroll_help(-1)", "Keys up", "scroll the list of keys back", show=False),
        key("ctrl+c", "interrupt", "Leave", LEAVES, show=False),
        key("ctrl+z", "suspend", "Suspend", "to the shell for a while; fg there comes back here", show=False),
        key("q", "leave", "Quit", "leave; a job goes on"),
    ]  # fmt: skip

    def __init__(
        self, watches: Sequence[Watch], glyphs: Glyphs, hz: float, colors: int, theme: str = "",
        table: RuleTable = TABLE,
    ) -> None:  # fmt: skip
        self._colourless = not colors
        super().__init__()
        self.animation_level = "none"
        for each in THEMES:
            self.register_theme(each)
        usual = DEFAULT if colors > 16 else FEW_COLOURS if colors else NO_COLOURS
        self.theme = theme if theme in self.available_themes else usual
        self._palette: Palette | None = None
        self.glyphs = glyphs
        self.view = View()
        self.wanted_gpus: tuple[str, ...] | None = None
        """The names of the GPUs to begin with (gssr.gpu_name.select_gpus), until the GPUs are known; None for all."""
        self.waiting = ""
        """The text that stands on the screen until there is a recording."""
        self.reading = ""
        """The text that stands on the screen until the first result."""
        self.files: tuple[str, ...] = ()
        """What commands that a screen advises name; nothing for a recording that is gone with the screen."""
        self._newest: Results = ()
        self._panes: dict[ScreenName, ScreenPane] = {}
        self._offered: tuple[bool, ...] = ()
        """Which of the tabs were offered last."""
        self._waiting: list[tuple[ScreenName, Callable[[], object]]] = []
        """Calls that wait for a tab to be ready, with the tab's name."""
        self.orders = SteadyOrders()
        self._first_notice = ""
        self.wire: Wire | None = None
        """The driver's writer to the terminal; None without one."""
        self.shows_output = False
        """True where the workload's output is to be seen, if there is room for it."""
        self._has_begun = False
        """True once the first results were drawn."""
        self._awaited_tab: ScreenName | None = None
        """The tab that was chosen and does not have the focus yet."""
        self._time_left: tuple[View | None, tuple[LevelName | None, tuple[int, ...]]] = (None, (None, ()))
        """The view of Time when it was left, and level and selection of the screen after it: with these it comes back."""
        self._other = 1
        """The recording that Compare sets beside the first."""
        self._table = table
        self._watches: list[Watch] = list(watches)
        self._played = time.monotonic()
        self._log_file = LogFile(log_of(watches[0].path))
        self._printed: bytes | None = None
        self._before_first_picture = ExitStack()
        self._producer = Producer(self._watches, 1.0 / hz, self._deliver)

    def get_driver_class(self) -> type[Driver]:
        """Return Textual's driver, made to send as few bytes as it takes."""
        return thrifty(super().get_driver_class())

    def get_default_screen(self) -> Screen[Any]:
        """Make the screen with the classes of its size: told later, all on it would be styled twice."""
        self.stylesheet.read(_STYLES)  # as CSS_PATH it would be parsed three times until here
        found, sizes = _FirstScreen(id="_default"), (self.HORIZONTAL_BREAKPOINTS, self.VERTICAL_BREAKPOINTS)
        for size, steps in zip(self.size, sizes, strict=True):
            found.add_class([name for least, name in steps if size >= least][-1], update=False)
        return found

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Return the filters that each drawn line goes through: Textual's, without colours one that removes them all, as
        Textual would send shades of grey, and one for terminals that show ASCII only."""
        filters = [NoColor()] if self._colourless else super().get_line_filters()
        return [*filters, AsciiFilter()] if self.glyphs.levels.isascii() else filters

    def get_css_variables(self) -> dict[str, str]:
        """Return the theme's CSS variables, with colours of text that can be read; without colours the selected text is
        marked by another style."""
        variables = super().get_css_variables()
        variables |= text_variables(self.theme, variables) | (MARKED_WITHOUT_COLOURS if self._colourless else {})
        self.theme_variables = variables
        return variables

    # What there is

    @property
    def palette(self) -> Palette:
        """The colours of the theme that is shown."""
        if self._palette is None or self._palette.theme != self.theme:
            self._palette = Palette.of(self, self._colourless)
        return self._palette

    @property
    def n_recordings(self) -> int:
        """The number of recordings that can be compared."""
        return len(self._watches)

    @property
    def pane(self) -> ScreenPane:
        """The screen in sight, which may not be ready yet."""
        return self.pane_of(self.view.screen)

    def pane_of(self, name: ScreenName) -> ScreenPane:
        """Return the pane that a tab holds; it is made when it is asked for the first time."""
        if name not in self._panes:
            pane = self._new_pane(name)
            pane.display = name == self.view.screen
            self.query_one("#screens").mount(pane)
        return self._panes[name]

    def _new_pane(self, name: ScreenName) -> ScreenPane:
        """Make the pane of a tab and read its styles; the caller must mount it."""
        pane, styles = next(tab for tab in TABS if tab.name == name).make()
        self._panes[name] = pane
        self.stylesheet.read(styles)
        self.stylesheet.parse()  # else only what is mounted after the pane would be styled by it
        return pane

    def call_when_ready(self, name: ScreenName, call: Callable[[], object]) -> None:
        """Call this once a tab holds all its widgets, which may be at once. Makes the tab's pane if need be."""
        if self.pane_of(name).is_ready:
            call()
        else:
            self._waiting.append((name, call))

    def on_screen_pane_ready(self, event: ScreenPane.Ready) -> None:
        """Ask for what the tab needs and draw it if it is in sight, then make the calls that waited for it."""
        if event.name == self.view.screen:
            self._send_query()
            self.show()
        due = [call for name, call in self._waiting if name == event.name]
        self._waiting = [each for each in self._waiting if each[0] != event.name]
        for call in due:
            call()

    def compose(self) -> ComposeResult:
        """Lay out the line about the run, the screens, the output and the keys, from the top."""
        yield TopBar(id="top-bar")
        yield Words(self.reading, id="nothing")
        tabs = (Tab(f"{number} {tab.title}", id=tab.name) for number, tab in enumerate(TABS, 1))
        yield Tabs(*tabs, active=self.view.screen, id="tabs")
        first = self._new_pane(self.view.screen)  # what is seen first is there from the first layout on
        yield ContentSwitcher(first, initial=first.id, id="screens")
        yield Words(id="problem")
        yield OutputPane(id="output", classes="panel")
        yield KeyFooter()

    def on_mount(self) -> None:
        """Start to read, show the first notice, and look every second whether the terminal is still there."""
        self.set_class(self.glyphs.levels.isascii(), "-ascii")
        self._offer_screens()
        self._send_query()
        self._producer.start()
        if self._first_notice:
            self.show_notice(self._first_notice)
        if not gc.isenabled():  # gssr.commands.screen has put it off
            self.set_timer(UNTIL_GARBAGE_SECONDS, _collect_garbage)
        if not self.is_headless:
            self._before_first_picture.enter_context(self.batch_update())
            self.set_timer(FIRST_PICTURE_SECONDS, self._before_first_picture.close)
            self.set_interval(1.0, self._leave_without_terminal)
            self._progress = self.set_interval(PROGRESS_SECONDS, self._show_progress)

    def _show_progress(self) -> None:
        """Say before the first result how many of the files that a long look opens are opened by now."""
        done, n_files = self._watches[0].files_opened
        if self.results:
            self._progress.stop()
        elif self.reading and n_files > 1:
            self.query_one("#nothing", Words).say(f"{self.reading}\n{done:,} of {n_files:,} files")

    def _leave_without_terminal(self) -> None:
        if not (_is_held(0) if self.is_web else os.isatty(2)):
            os._exit(1)  # nothing can be drawn or put back any more

    def on_unmount(self) -> None:
        """Stop the thread that reads, which closes the files."""
        self._producer.leave()
        speak_of(NVIDIA)

    def show_notice(self, text: str) -> None:
        """Show a notice; before the app runs, keep it as its first (the newest replaces one before it). An empty text
        is ignored once it runs."""
        if self.is_running and text:
            self.notify(text, markup=False)
        else:
            self._first_notice = text

    # Results in

    def _deliver(self, results: Results) -> None:
        """Read the end of the output and post the results to the app; called from the producer's thread."""
        self._printed = self._log_file.tail()
        self.post_message(NewResults(results))

    def on_new_results(self, event: NewResults) -> None:
        """Show the new results and ask for what they make possible. No results at all mean that reading has failed:
        leave with its error. Results that show nothing new are dropped."""
        if not event.results:
            self.exit(return_code=1, message=Text(_explain(self._producer.problem)))
            return
        if _say_the_same(event.results, self._newest) or not self._is_drawn():
            return
        before, self._newest = self.results, event.results
        self.results = (self._name_file_in_advice(event.results[0]), *event.results[1:])
        result = self.results[0]
        self._choose_makers_words(before)
        if self.wanted_gpus is not None and result.n_gpus:
            self._select(self.wanted_gpus)
        if len(self._watches) == 1 and len(self._watches[0].run_ids) > 1:
            self._watch_other_runs(self._watches[0])
        if self.view.speed:
            self._play()
        if not before or before[0].is_live != result.is_live or self.view.screen == "compare":
            self._send_query()
        self._offer_screens()
        self.after_new_results()
        self.show()
        if result.judgement is not None or asked_of(result) is None:
            self._before_first_picture.close()

    def _is_drawn(self) -> bool:
        """Tell whether the widgets are there that results are drawn on: they are gone while the app leaves."""
        try:
            self.screen_stack[0].query_one("#top-bar")
            return bool(self.screen_stack[0].query_one("#tabs", Tabs).tab_count)
        except (IndexError, NoMatches):
            return False

    def _choose_makers_words(self, before: Results) -> None:
        """Use the words of the maker of the GPUs (SM or CU, NVLink or xGMI), if other GPUs are shown than in the
        results ``before``."""
        known = [(result.of_gpus or result).gpus for result in self.results]
        if [id(gpus) for gpus in known] != [id((result.of_gpus or result).gpus) for result in before]:
            makers = {maker_of(gpus) for gpus in known if gpus}
            speak_of(makers.pop() if len(makers) == 1 else BOTH if makers else NVIDIA)

    def after_new_results(self) -> None:
        """Do nothing; subclasses beside a job do here what follows from new results."""

    def show(self) -> None:
        """Draw the newest results on the screen in sight, or say why there is nothing to draw; do nothing before the
        first result."""
        if not self.results or not self._is_drawn():
            return
        result, view = self.results[0], self.view
        nothing, said = self._why_nothing_is_drawn(result), self.query_one("#nothing", Words)
        if said.display and not nothing and self.screen.focused is None:  # what was hidden has lost the focus
            self.call_after_refresh(self._focus_first, view.screen)
        said.display = bool(nothing)
        self.query_one("#tabs").display = self.query_one("#screens").display = not nothing
        said.say(nothing)
        problem = self.query_one("#problem", Words)
        problem.display = bool(result.problem) and not nothing
        problem.say(clean((result.problem or "").replace(result.path, os.path.basename(result.path.rstrip("/")))))
        self.query_one(TopBar).show(result, view)
        output = self.query_one(OutputPane)
        if output.display:
            output.tell(self._log_file.path, self._printed)
        if not nothing and self.pane.is_ready:
            self.pane.show(self.results, view)
            if not self._has_begun:
                self._has_begun = True
                self.call_after_refresh(self._focus_first, view.screen)

    def _why_nothing_is_drawn(self, result: Result) -> str:
        """Say why there is nothing to draw; "" if there is something."""
        if result.part is not None and not result.part.matched:
            return f"no match: {clean(self.view.filter)}\nThe rows are {listed(result.gpus)}. Esc shows all."
        if result.n_rows and result.n_gpus:
            return ""
        if result.problem:
            return result.problem
        if result.run is None and result.part is None:
            said = f"{'waiting for' if result.refined else 'reading'} {clean(result.path)}"
            return f"{said}\n{self.waiting}" if self.waiting and result.refined else said
        return "no sample yet" if result.n_gpus else "no GPU was recorded"

    def _name_file_in_advice(self, result: Result) -> Result:
        """Return the result with the names of what is looked at in the commands of its advice; as it is without names or a
        judgement."""
        found = result.judgement
        if found is None or not self.files:
            return result
        return result.with_judgement(_naming_files(found, self.files))

    def _select(self, wanted: tuple[str, ...]) -> None:
        """Look at the GPUs that these names mean; a notice if they mean none. They are asked for only once."""
        self.wanted_gpus = None
        try:
            gpus = select_gpus(self.results[0].gpus, wanted)
            self.change_view(replace(self.view, selection=gpus, selected=", ".join(wanted)))
        except ValueError as error:
            self.show_notice(f"--gpus: {error}")

    def _watch_other_runs(self, watch: Watch) -> None:
        """Watch the runs of the recording that are not looked at, the newest first, so that they can be compared with."""
        shown = self.results[0].run
        for run_id in reversed(watch.run_ids):
            if shown is None or run_id != shown.run_id:
                self._watches.append(WatchedRecording(watch.path, run_id))

    def _play(self) -> None:
        """Move the window on by the time since the last call (at most a second), while the recording is played."""
        now = time.monotonic()
        scene = self.scene()
        if scene is not None:
            self.change_view(played(scene, min(now - self._played, 1.0)))
        self._played = now

    # Questions out

    def on_resize(self) -> None:
        """Ask for as many columns as fit the new size."""
        self.fit_output()
        self._send_query()
        self.call_after_refresh(self.show)

    def fit_output(self) -> None:
        """Give the output on Job the rows that its program was told its terminal has, and on other screens no more than
        they can spare; hide it if it is not wanted or the terminal is small."""
        rows_of = pane_height if self.view.screen == "job" else low_pane_height
        output, rows = self.query_one(OutputPane), rows_of(self.size.height)
        output.display = self.shows_output and rows > 0
        output.styles.height = rows

    def _send_query(self) -> None:
        """Ask the producer for what the view and the screen in sight need; not before the pane is ready. On Compare
        both runs are asked for, with aligned columns."""
        view, pane = self.view, self.pane
        if not self.size.width or not pane.is_ready:
            return
        columns = max(pane.columns(self.size.width), 1)
        query = replace(view.query(columns), causes=None if view.speed else self._table, only=only_of(view.filter))
        query = pane.asks(query)
        result = self.results[0] if self.results else None
        if result is not None and result.is_live and view.lately and view.end is None and not view.speed:
            cell = rolling_width(result, columns)
            query = replace(query, span=columns * cell, width=cell)
        queries = [query] + [None] * (len(self._watches) - 1)
        if view.screen == "compare" and len(self._watches) > 1:
            from gssr.model.live.alignment import aligned

            pair = (*self.results[:2], None, None)
            queries[0], queries[self._other] = aligned(query, view.align, pair[0], pair[1])
        self._producer.ask(tuple(queries), keep_looking=bool(view.speed))

    def scene(self) -> Scene | None:
        """Put the newest results and the view together for a move, or return None before the first result."""
        if not self.results:
            return None
        other = self.results[1] if len(self.results) > 1 else None
        return Scene(self.results[0], other, self.view)

    def change_view(self, view: View) -> None:
        """Look at something else: ask for it, and draw at once what is known of it. Changes the tab and the focus with
        ``view.screen``; an equal view changes nothing."""
        if view == self.view:
            return
        if view.span != self.view.span or view.end != self.view.end:
            view = replace(view, lately=view.lately and view.end is None and view.span is None)
        if view.screen in _OF_GPUS and view.level is not None:
            view = replace(view, level=None, selection=(), selected="")
        before, self.view = self.view, view
        if before.screen != view.screen:
            if self.screen_stack[0].maximized is not None:
                self.screen_stack[0].minimize()
            focused, left = self.screen.focused, self.pane_of(before.screen)
            if focused is not None and left in focused.ancestors:  # keys would go on to what is out of sight
                self.screen.set_focus(None)
                self.call_when_ready(view.screen, partial(self.call_after_refresh, self._focus_first, view.screen))
            self.query_one("#tabs", Tabs).active = view.screen
            self.query_one("#screens", ContentSwitcher).current = self.pane.id
            self.fit_output()
        self._send_query()
        self.show()

    # Screens

    def _offer_screens(self) -> None:
        """Show the tabs that have something to show: Compare with a second run, Calls with a trace; of a profile
        nothing but Calls, of PyTorch's memory nothing but Time and Calls."""
        tabs, offered = self.query_one("#tabs", Tabs), tuple(self._offers(tab.name) for tab in TABS)
        if offered == self._offered:
            return
        self._offered = offered
        for tab, is_offered in zip(TABS, offered, strict=True):
            (tabs.show if is_offered else tabs.hide)(tab.name)

    def _offers(self, name: str) -> bool:
        """Tell whether a screen has something to show."""
        part = self.results[0].part if self.results else None
        if part is not None and part.trace.profile is not None:
            return name == "calls"
        if part is not None and part.trace.sources[0].format == "memory":
            return name in ("time", "calls")
        if name == "calls":
            return part is not None or self.view.screen == "calls"
        return name != "compare" or len(self._watches) > 1

    def on_key(self, event: Key) -> None:
        """Say why there is no tab, if the key would be that of one."""
        name = next((tab.name for number, tab in enumerate(TABS, 1) if event.key == str(number)), None)
        if name is not None and self.results and len(self.screen_stack) == 1 and not self._offers(name):
            self.show_notice(self._why_not_offered(name, self.results[0]))

    def _why_not_offered(self, name: ScreenName, result: Result) -> str:
        """Say why a screen has nothing to show of this result."""
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

    def on_tabs_tab_activated(self, event: Tabs.TabActivated) -> None:
        """Look at the screen whose tab was chosen, unless another one has been chosen since, or the app has closed its
        screens."""
        if self.screen_stack and event.tab.id == event.tabs.active:
            self._look_at(event.tab.id)  # type: ignore[arg-type]

    def _look_at(self, name: ScreenName) -> None:
        """Look at another screen from its top, at Time where it was left; do nothing if it is in sight."""
        if name == self.view.screen:
            return
        left, place, scene = self.view, self.view.place, self.scene()
        if scene is not None and scene.frame.part is not None:
            from gssr.tui.trace.cursor import picked  # with all that reads traces

            pointed = picked(scene)
            place = place if pointed < 0 else pointed  # Why tells of it
        view = replace(left, screen=name, row=0, top=0, opened=False, trail=(), place=place)
        was, whose = self._time_left
        if name == "time" and was is not None and (left.level, left.selection) == whose:
            view = replace(
                view, level=was.level, selection=was.selection, selected=was.selected, row=was.row, top=was.top,
                opened=was.opened, trail=was.trail,
            )  # fmt: skip
        self.change_view(view)
        if left.screen == "time":
            self._time_left = left, (self.view.level, self.view.selection)

    def action_tab(self, name: ScreenName) -> None:
        """Go to the screen ``name``; keys wait until it has the focus."""
        self._awaited_tab = name
        self.hold_keys()  # what is typed next is for the tab
        self._look_at(name)
        self.call_when_ready(name, partial(self.call_after_refresh, self._focus_first, name))

    def _focus_first(self, name: ScreenName) -> None:
        """Focus the first panel of a screen if it is still in sight, and let waiting keys go on."""
        if self.view.screen == name:
            pane = self.pane_of(name)
            first = next((each for each in pane.query("*") if each.focusable and each.display), None)
            if first is not None:
                self.screen.set_focus(first)
        if self._awaited_tab == name:
            self._awaited_tab = None
            self.release_keys()

    def may_overtake(self, pressed: Key) -> bool:
        """Let another tab be chosen while one is made."""
        return self._awaited_tab is not None and pressed.key.isdigit()

    def go_to_screen(self, view: View, gpu: int = -1) -> None:
        """Change the view to one of another screen, and put the cursor there on a GPU (position; -1: leave it where it
        is). This happens after the next refresh, once a panel that was clicked has taken the focus."""

        def arrive() -> None:
            self.screen.set_focus(None)
            self.change_view(view)
            self.call_when_ready(view.screen, partial(settle, self.pane_of(view.screen)))

        def settle(pane: ScreenPane) -> None:
            if gpu >= 0:
                pane.point_at(gpu)
            self._focus_first(view.screen)

        self.call_after_refresh(arrive)

    def filter_gpus(self, text: str) -> None:
        """Show only the GPUs that pass."""
        self.change_view(replace(self.view, filter=text))

    def action_only(self) -> None:
        """Ask in a dialog which intervals of a trace all screens are to show; an empty answer shows all, and a wrong
        one gives a notice."""
        from gssr.tui.dialogs.ask import AskLine

        def given(text: str | None) -> None:
            if text is None:
                return
            try:
                parse_filter(text)
                self.filter_gpus(text)
            except ValueError as error:
                self.notify(str(error), severity="error", markup=False)

        hint = "name=nccl,gemm   takes>1ms   size>1MB   rank:0   (several: and; empty: all)"
        self.push_screen(AskLine("only these intervals", hint, self.view.filter), given)

    # Keys

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Refuse the actions that write files if the screen is in a browser, and tabs that have nothing to show."""
        if action == "tab" and not self._offers(str(parameters[0])):
            return False
        return False if self.is_web and action in WRITING else super().check_action(action, parameters)

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """Yield Textual's commands, without its own export if the screen is in a browser."""
        for command in super().get_system_commands(screen):
            if not (self.is_web and command.title == "Screenshot"):
                yield command

    def action_move(self, name: str) -> None:
        """Change the view by the move of this name in MOVES; do nothing before the first result."""
        scene = self.scene()
        if scene is None:
            return
        if name == "play":
            self._played = time.monotonic()
        self.change_view(MOVES[name](scene))

    def action_up_a_level(self) -> None:
        """Go one level up: out of the list of keys, a maximised panel, a search, a filter, a selection, the time cursor; if
        there is none of them, hide the output."""
        if self.screen.query("KeysPanel"):
            self.action_hide_help_panel()
        elif self.screen.maximized is not None:
            self.screen.minimize()
        elif not self.pane.let_go():
            before = self.view
            self.action_move("back")
            if self.shows_output and self.view == before:
                self.action_output()

    def action_window(self) -> None:
        """Show the next window: the newest seconds (of a live run only), the whole run, then its last WINDOWS that are
        shorter than the run."""
        view, live = self.view, bool(self.results) and self.results[0].is_live
        windows: list[float | None] = list(WINDOWS)
        lasted = self.results[0].last - self.results[0].first if self.results else 0.0
        windows = [span for span in windows if span is None or span < lasted]
        if view.lately and live:
            after = replace(view, span=None, lately=False, end=None)
        else:
            at = windows.index(view.span) if view.span in windows else -1
            last = at == len(windows) - 1
            after = replace(view, span=None if last else windows[at + 1], lately=last, end=None, speed=0.0)
        self.view = replace(self.view, lately=after.lately)
        words = "the newest seconds" if after.lately and live else "the whole run" if after.span is None else (
            f"the last {seconds_text(after.span)}"
        )  # fmt: skip
        if len(windows) == 1 and not live:
            words += ", which is shorter than every other window"
        before, self.view = self.view, after
        if before != after:
            self._send_query()
        self.notify(f"Window: {words}", timeout=2)

    def action_next_other(self) -> None:
        """Compare with the next of the other recordings, after the last one the first."""
        self._other = self._other % max(len(self._watches) - 1, 1) + 1
        self._send_query()

    def action_metric(self) -> None:
        """Choose in the command palette the metric that charts show; do nothing before the first result."""
        scene = self.scene()
        if scene is None:
            return
        result = scene.frame.of_gpus or scene.frame
        means = {**scene.frame.window.overall(), **result.window.overall()}
        names = sorted(measured(scene), key=lambda name: name != scene.frame.grid.metric)  # the one that is shown first
        labels = {name: metric_of(name).label for name in names}
        size = max(map(len, labels.values()), default=0)
        choices = [
            (f"{label:<{size}}  {_mean_text(means.get(name), name):>10}", partial(self.show_metric, name))
            for name, label in labels.items()
        ]
        self.search_commands(choices, "a metric: a part of its name")

    def show_metric(self, name: str) -> None:
        """Draw the metric of this name in charts; do nothing before the first result."""
        scene = self.scene()
        if scene is not None:
            self.change_view(of_metric(scene, name))

    def action_go_to(self) -> None:
        """Ask in a dialog for a time, and move the cursor and the window there; a notice if it is no time."""
        from gssr.tui.dialogs.ask import AskLine

        def there(text: str | None) -> None:
            scene = self.scene()
            if text and scene is not None:
                try:
                    self.change_view(go_to(scene, text))
                except ValueError as error:
                    self.notify(str(error), severity="error", markup=False)

        self.push_screen(AskLine("go to a time", "90   5m   1:30 after the start   -60 before the end"), there)

    def action_events(self) -> None:
        """Show the list of events in a dialog, once there is a result."""
        from gssr.tui.dialogs.events import Events

        if self.results:
            self.push_screen(Events(self.results[0]))

    def action_output(self) -> None:
        """Show what the workload prints, or hide it; a notice if there is no room for it."""
        self.shows_output = not self.shows_output
        self.fit_output()
        if self.shows_output and not self.query_one(OutputPane).display:
            self.notify("The terminal has no room for the output.")
        self.show()

    def action_zoom_panel(self) -> None:
        """Give the focused panel the whole screen, or take it back."""
        if self.screen.maximized is not None:
            self.screen.minimize()
        elif self.screen.focused is not None:
            panels = [each for each in self.screen.focused.ancestors_with_self if each.has_class("panel")]
            for panel in panels[:1]:
                for rule in ("height", "max_height"):  # panes share the rows out again when it is given back
                    panel.styles.clear_rule(rule)
                self.screen.maximized = panel  # type: ignore[assignment] # a widget: it has the class
        self.call_after_refresh(self.show)

    def action_help(self) -> None:
        """Show the keys of the focused panel, or hide them."""
        if self.screen.query("KeysPanel"):
            self.action_hide_help_panel()
        else:
            self.action_show_help_panel()

    def action_show_help_panel(self) -> None:
        """Show our own list of keys in place of Textual's; do nothing if it is there."""
        from gssr.tui.shared.keys_panel import KeysPanel

        if not self.screen.query(KeysPanel):
            self.screen.mount(KeysPanel())

    def action_hide_help_panel(self) -> None:
        """Hide the list of keys, if it is there."""
        self.screen.query("KeysPanel").remove()

    def action_scroll_help(self, pages: int) -> None:
        """Scroll the list of keys by so many pages, if it is shown: the panel that it is about keeps the focus."""
        from gssr.tui.shared.keys_panel import KeysPanel

        for keys in self.screen.query(KeysPanel):
            keys.scroll_relative(y=pages * max(keys.size.height - 1, 1), animate=False)

    def action_copy(self) -> None:
        """Copy what is seen to the clipboard as text, if the terminal allows it."""
        from gssr.tui.export import picture_of

        self.copy_to_clipboard(picture_of(self.export_screenshot()).text())
        self.notify("Copied, if the terminal allows programs to write to the clipboard.")

    def action_export(self) -> None:
        """Ask in a dialog for a file name, and write what is seen to it; errors are shown as notices. Do nothing
        before the first result."""
        from gssr.tui.dialogs.ask import AskLine
        from gssr.tui.export import ENDINGS, export, picture_of

        if not self.results:
            return
        seen, result = picture_of(self.export_screenshot()), self.results[0]
        stem = os.path.basename(result.path.rstrip("/")).removesuffix(".d").removesuffix(".sql")

        def write(path: str | None) -> None:
            if not path:
                return
            try:
                export(seen, result, path, access_of({watch.path for watch in self._watches}))
                self.notify(f"Written: {os.path.abspath(path)}", markup=False)
            except ValueError as error:
                self.notify(str(error), severity="error", markup=False)
            except OSError as error:
                self.notify(f"{path}: {error.strerror}", severity="error", markup=False)

        hint = f"a name that ends in {', '.join(ENDINGS)}"
        self.push_screen(AskLine("save what is seen", hint, f"{clean(stem)}-{self.view.screen}.svg"), write)

    def action_suspend(self) -> None:
        """Stop the process group, so that the shell has the terminal again; a notice if there is no shell to go back
        to."""
        if self.is_headless or os.getpgrp() == os.getsid(0):
            self.notify("no shell here to go back to")
            return
        self._once_arrived(partial(os.kill, 0, signal.SIGTSTP))

    def _once_arrived(self, then: Callable[[], object]) -> None:
        """Draw nothing more, and call ``then`` once the terminal has drawn what was sent, at the latest after
        LEAVING_SECONDS. Otherwise the terminal's answer would come to the shell."""
        wire = self.wire
        if wire is None:
            then()
            return
        wire.hold()
        latest = time.monotonic() + LEAVING_SECONDS

        def look() -> None:
            if not wire.is_busy or time.monotonic() >= latest:
                timer.stop()
                then()

        timer = self.set_interval(0.02, look)

    def action_interrupt(self) -> None:
        """Ctrl-C leaves, too."""
        self.action_leave()

    def action_leave(self) -> None:
        """End, without an error."""
        self._once_arrived(self.exit)

    async def action_quit(self) -> None:
        """Textual's own way to leave is no other."""
        self.action_leave()


@once
def _naming_files(judgement: Judgement, files: tuple[str, ...]) -> Judgement:
    """Return the judgement with these ``files`` (paths) named in the commands that its advice prints."""
    return replace(judgement, verdicts=naming(judgement.verdicts, files))


def _is_held(descriptor: int) -> bool:
    """Tell whether somebody still has the other end of the pipe at this descriptor open."""
    poll = select.poll()
    poll.register(descriptor, 0)
    return not poll.poll(0)


def _say_the_same(some: Results, others: Results) -> bool:
    """Tell whether two looks show the same, as those at recordings that no longer grow do; always False if one is live
    or waited for."""

    def said(result: Result) -> tuple[object, ...]:
        return (
            result.query, result.state, result.n_rows, result.refined, result.problem, id(result.judgement), result.events,
            result.last, id(result.part), id(result.grid.values),
        )  # fmt: skip

    alike = len(some) == len(others) and all(said(one) == said(other) for one, other in zip(some, others, strict=True))
    return alike and not any(result.is_live or result.state == "waiting" for result in some)


def rolling_width(result: Result, columns: int) -> float:
    """Return the seconds of a column while the newest ones roll in: the least of ROLLING_WIDTHS that the sampling
    fills. At least 10 s, a rollup's length, if so many columns can't be read row by row in time."""
    least = next(
        (width for width in ROLLING_WIDTHS if width >= result.sampling_seconds * (1 - 1e-9)), ROLLING_WIDTHS[-1]
    )
    rows = result.n_gpus * columns * least / max(result.sampling_seconds, 1e-3)
    return least if rows <= MOST_ROWS and result.reread is None else max(least, 10.0)


def _mean_text(mean: float | None, name: str) -> str:
    return quantity(mean, metric_of(name)) if mean is not None else ""


def _explain(problem: BaseException | None) -> str:
    """Return a line that names the error that ended the reading; under ``gssr --debug`` with its traceback above. None
    stands for an unknown error."""
    text = clean(f"gssr: an error while reading: {problem!r}")
    if problem is None or not os.environ.get("GSSR_DEBUG"):
        return text if problem is None else f"{text}; gssr --debug shows where"
    return "\n".join([*map(clean, "".join(traceback.format_exception(problem)).splitlines()), text])


def _collect_garbage() -> None:
    """Collect garbage from now on, but never look through what the start has made: it stays."""
    gc.freeze()
    gc.enable()
