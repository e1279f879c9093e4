"""The program: keys and the mouse change the view, the producer brings results, and the screen in sight draws them.

A widget gets its data in one way: the app hands the newest results to the pane in sight (``ScreenPane.show``), and the pane
to its widgets. What a screen needs is asked by the app, in one query for the view and the pane in sight.
"""

import gc
import os
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual.app import App, ComposeResult, SystemCommand
from textual.binding import BindingType
from textual.css.query import NoMatches
from textual.message import Message
from textual.screen import Screen
from textual.widgets import ContentSwitcher, Tab, Tabs

from gssr.gpu_name import select_gpus
from gssr.gpu_vendors import BOTH, NVIDIA, maker_of, speak_of
from gssr.model.frame_cache import once
from gssr.model.live.judge import asked_of
from gssr.model.live.live_result import Result
from gssr.model.live.producer import Producer, Results, show_the_same
from gssr.model.live.steady_order import SteadyOrders
from gssr.model.live.watch import Watch
from gssr.model.live.watched_recording import WatchedRecording
from gssr.model.results import Judgement
from gssr.model.verdicts.rules import TABLE
from gssr.model.verdicts.table import RuleTable
from gssr.render.cells import clean
from gssr.render.glyphs import Glyphs
from gssr.render.output_pane import low_pane_height, pane_height
from gssr.render.verdicts import naming
from gssr.report.live.gpu_filter import parse_filter
from gssr.report.live.nothing_to_draw import error_text, problem_text, why_nothing_to_draw
from gssr.store.output_file import access_of
from gssr.store.read.log_file import LogFile
from gssr.store.read.open import log_of
from gssr.tui.keys import SHOWS_OUTPUT, ZOOM_IN, ZOOM_OUT, key
from gssr.tui.moves import MOVES, go_to, next_window, of_metric, played
from gssr.tui.questions import queries_of_all, query_of
from gssr.tui.shared.footer import KeyFooter
from gssr.tui.shared.output_pane import OutputPane
from gssr.tui.shared.panel import Words
from gssr.tui.shared.tabs import TABS
from gssr.tui.shared.top_bar import TopBar
from gssr.tui.tabbed_app import TabbedApp
from gssr.tui.terminal_app import LEAVES
from gssr.tui.view import Scene, ScreenName, View

if TYPE_CHECKING:
    from textual.command import Provider

WRITING = frozenset({"export", "keep"})
"""The actions that write files: not for who looks at the screen in a browser."""

PROGRESS_SECONDS = 0.25
"""Between two looks at how far the files are opened."""
FIRST_PICTURE_SECONDS = 0.5
"""Nothing is drawn for so long after the start, unless all that the first picture shows is known: of pictures that replace
each other at once a slow line would carry all, and each costs as much as the last."""
_OF_GPUS: tuple[ScreenName, ...] = ("job", "why")
"""Screens that speak of GPUs: a mean over streams or threads is not how busy those are."""
UNTIL_GARBAGE_SECONDS = 1.0
"""After the start; by then the first picture is drawn."""


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


class LiveScreen(TabbedApp):
    """The live screen on the first of ``watches``; Compare sets it beside one of the others. ``hz``: looks a second while
    something grows; ``colors`` of the terminal, 0 for none; ``table``: the rules that the job is judged by."""

    TITLE = "GSSR"
    AUTO_FOCUS = None  # a tab's first panel gets it once it can be seen
    ALLOW_IN_MAXIMIZED_VIEW = "KeyFooter"
    COMMANDS = App.COMMANDS | {_command_provider}
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
        super().__init__(glyphs, colors, theme)
        self.wanted_gpus: tuple[str, ...] | None = None
        """The names of the GPUs to begin with (gssr.gpu_name.select_gpus), until the GPUs are known; None for all."""
        self.waiting = ""
        """The text that stands on the screen until there is a recording."""
        self.reading = ""
        """The text that stands on the screen until the first result."""
        self.files: tuple[str, ...] = ()
        """What commands that a screen advises name; nothing for a recording that is gone with the screen."""
        self._newest: Results = ()
        self.orders = SteadyOrders()
        self._first_notice = ""
        self.shows_output = False
        """True where the workload's output is to be seen, if there is room for it."""
        self._has_begun = False
        """True once the first results were drawn."""
        self._other = 1
        """The recording that Compare sets beside the first."""
        self._table = table
        self._watches: list[Watch] = list(watches)
        self._played = time.monotonic()
        self._log_file = LogFile(log_of(watches[0].path))
        self._printed: bytes | None = None
        self._before_first_picture = ExitStack()
        self._producer = Producer(self._watches, 1.0 / hz, self._deliver)

    @property
    def n_recordings(self) -> int:
        """The number of recordings that can be compared."""
        return len(self._watches)

    def compose(self) -> ComposeResult:
        """Lay out the line about the run, the screens, the output and the keys, from the top."""
        yield TopBar(id="top-bar")
        yield Words(self.reading, id="nothing")
        tabs = (Tab(f"{number} {tab.title}", id=tab.name) for number, tab in enumerate(TABS, 1))
        yield Tabs(*tabs, active=self.view.screen, id="tabs")
        first = self.make_pane(self.view.screen)  # what is seen first is there from the first layout on
        yield ContentSwitcher(first, initial=first.id, id="screens")
        yield Words(id="problem")
        yield OutputPane(id="output", classes="panel")
        yield KeyFooter()

    def on_mount(self) -> None:
        """Start to read, show the first notice, and look every second whether the terminal is still there."""
        self.set_class(self.glyphs.levels.isascii(), "-ascii")
        self.offer_tabs()
        self.send_query()
        self._producer.start()
        if self._first_notice:
            self.show_notice(self._first_notice)
        if not gc.isenabled():  # gssr.commands.screen has put it off
            self.set_timer(UNTIL_GARBAGE_SECONDS, _collect_garbage)
        if not self.is_headless:
            self._before_first_picture.enter_context(self.batch_update())
            self.set_timer(FIRST_PICTURE_SECONDS, self._before_first_picture.close)
            self.set_interval(1.0, self.leave_without_terminal)
            self._progress = self.set_interval(PROGRESS_SECONDS, self._show_progress)

    def _show_progress(self) -> None:
        """Say before the first result how many of the files that a long look opens are opened by now."""
        done, n_files = self._watches[0].files_opened
        if self.results:
            self._progress.stop()
        elif self.reading and n_files > 1:
            self.query_one("#nothing", Words).say(f"{self.reading}\n{done:,} of {n_files:,} files")

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
            self.exit(return_code=1, message=Text(error_text(self._producer.problem)))
            return
        if show_the_same(event.results, self._newest) or not self._is_drawn():
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
            self.send_query()
        self.offer_tabs()
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
        nothing = why_nothing_to_draw(result, view.filter, self.waiting)
        said = self.query_one("#nothing", Words)
        if said.display and not nothing and self.screen.focused is None:  # what was hidden has lost the focus
            self.call_after_refresh(self.focus_first, view.screen)
        said.display = bool(nothing)
        self.query_one("#tabs").display = self.query_one("#screens").display = not nothing
        said.say(nothing)
        problem = self.query_one("#problem", Words)
        problem.display = bool(result.problem) and not nothing
        problem.say(problem_text(result))
        self.query_one(TopBar).show(result, view)
        output = self.query_one(OutputPane)
        if output.display:
            output.tell(self._log_file.path, self._printed)
        if not nothing and self.pane.is_ready:
            self.pane.show(self.results, view)
            if not self._has_begun:
                self._has_begun = True
                self.call_after_refresh(self.focus_first, view.screen)

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
        self.send_query()
        self.call_after_refresh(self.show)

    def fit_output(self) -> None:
        """Give the output on Job the rows that its program was told its terminal has, and on other screens no more than
        they can spare; hide it if it is not wanted or the terminal is small."""
        rows_of = pane_height if self.view.screen == "job" else low_pane_height
        output, rows = self.query_one(OutputPane), rows_of(self.size.height)
        output.display = self.shows_output and rows > 0
        output.styles.height = rows

    def send_query(self) -> None:
        """Ask the producer for what the view and the screen in sight need; not before the pane is ready."""
        view, pane = self.view, self.pane
        if not self.size.width or not pane.is_ready:
            return
        query = query_of(view, pane, self.size.width, self.results[0] if self.results else None, self._table)
        queries = queries_of_all(query, view, self.results, len(self._watches), self._other)
        self._producer.ask(queries, keep_looking=bool(view.speed))

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
            self.switch_tab(before.screen)
            self.fit_output()
        self.send_query()
        self.show()

    def filter_gpus(self, text: str) -> None:
        """Show only the GPUs that pass."""
        self.change_view(replace(self.view, filter=text))

    # Keys

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Refuse the actions that write files if the screen is in a browser, and what the tabs refuse."""
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
        """Show the next window, and say which it is."""
        view, name = next_window(self.view, self.results[0] if self.results else None)
        self.change_view(view)
        self.notify(f"Window: {name}", timeout=2)

    def action_next_other(self) -> None:
        """Compare with the next of the other recordings, after the last one the first; a notice if there is no third."""
        if len(self._watches) < 3:
            self.notify("No other run is open: gssr tui A B C opens three.")
            return
        self._other = self._other % max(len(self._watches) - 1, 1) + 1
        self.send_query()

    def action_metric(self) -> None:
        """Choose in the command palette the metric that charts show; do nothing before the first result."""
        from gssr.tui.commands import metric_choices

        scene = self.scene()
        if scene is not None:
            self.search_commands(metric_choices(scene, self.show_metric), "a metric: a part of its name")

    def show_metric(self, name: str) -> None:
        """Draw the metric of this name in charts; do nothing before the first result."""
        scene = self.scene()
        if scene is not None:
            self.change_view(of_metric(scene, name))

    def ask_for_line(self, title: str, hint: str, text: str, take: Callable[[str], None]) -> None:
        """Ask in a dialog for a line, which begins as ``text``, and call ``take`` with it unless the user goes back. If it
        raises ValueError or OSError, a notice says what is wrong."""
        from gssr.tui.dialogs.ask import AskLine

        def answered(line: str | None) -> None:
            if line is None:
                return
            try:
                take(line)
            except ValueError as error:
                self.notify(str(error), severity="error", markup=False)
            except OSError as error:
                self.notify(f"{line}: {error.strerror}", severity="error", markup=False)

        self.push_screen(AskLine(title, hint, text), answered)

    def action_go_to(self) -> None:
        """Ask for a time, and move the cursor and the window there."""

        def move_to(time_text: str) -> None:
            scene = self.scene()
            if time_text and scene is not None:
                self.change_view(go_to(scene, time_text))

        self.ask_for_line("go to a time", "90   5m   1:30 after the start   -60 before the end", "", move_to)

    def action_only(self) -> None:
        """Ask which intervals of a trace all screens are to show; an empty answer shows all."""

        def choose(text: str) -> None:
            parse_filter(text)
            self.filter_gpus(text)

        hint = "name=nccl,gemm   takes>1ms   size>1MB   rank:0   (several: and; empty: all)"
        self.ask_for_line("only these intervals", hint, self.view.filter, choose)

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
        """Ask for a file name, and write what is seen to it; do nothing before the first result."""
        from gssr.tui.export import ENDINGS, export, picture_of

        if not self.results:
            return
        seen, result = picture_of(self.export_screenshot()), self.results[0]
        stem = os.path.basename(result.path.rstrip("/")).removesuffix(".d").removesuffix(".sql")

        def write(path: str) -> None:
            if path:
                export(seen, result, path, access_of({watch.path for watch in self._watches}))
                self.notify(f"Written: {os.path.abspath(path)}", markup=False)

        hint = f"a name that ends in {', '.join(ENDINGS)}"
        self.ask_for_line("save what is seen", hint, f"{clean(stem)}-{self.view.screen}.svg", write)


@once
def _naming_files(judgement: Judgement, files: tuple[str, ...]) -> Judgement:
    """Return the judgement with these ``files`` (paths) named in the commands that its advice prints."""
    return replace(judgement, verdicts=naming(judgement.verdicts, files))


def _collect_garbage() -> None:
    """Collect garbage from now on, but never look through what the start has made: it stays."""
    gc.freeze()
    gc.enable()
