"""The tabs of the app: which of them are there, how one is gone to, and what has the focus then.

A tab's pane is made when the tab is first shown, and is ready some moments later: what needs it waits until then.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from textual.events import Key
from textual.widgets import ContentSwitcher, Tabs

from gssr.render.glyphs import Glyphs
from gssr.tui.shared.pane import ScreenPane
from gssr.tui.shared.tabs import TABS, has_something_to_show, why_nothing_to_show
from gssr.tui.terminal_app import TerminalApp
from gssr.tui.view import ScreenName, View

if TYPE_CHECKING:
    from gssr.model.traces.levels import LevelName


class TabbedApp(TerminalApp):
    """An app with a tab for each screen in TABS; ``view.screen`` names the one in sight."""

    def __init__(self, glyphs: Glyphs, colors: int, theme: str) -> None:
        super().__init__(glyphs, colors, theme)
        self.view = View()
        self._panes: dict[ScreenName, ScreenPane] = {}
        self._offered: tuple[bool, ...] = ()
        """Which of the tabs were offered last."""
        self._waiting: list[tuple[ScreenName, Callable[[], object]]] = []
        """Calls that wait for a tab to be ready, with the tab's name."""
        self._awaited_tab: ScreenName | None = None
        """The tab that was chosen and does not have the focus yet."""
        self._time_left: tuple[View | None, tuple[LevelName | None, tuple[int, ...]]] = (None, (None, ()))
        """The view of Time when it was left, and level and selection of the screen after it: with these it comes back."""

    @property
    def n_recordings(self) -> int:
        """The number of recordings that can be compared."""
        raise NotImplementedError

    def send_query(self) -> None:
        """Ask for what the view and the screen in sight need."""
        raise NotImplementedError

    # Their panes

    @property
    def pane(self) -> ScreenPane:
        """The screen in sight, which may not be ready yet."""
        return self.pane_of(self.view.screen)

    def pane_of(self, name: ScreenName) -> ScreenPane:
        """Return the pane that a tab holds; it is made when it is asked for the first time."""
        if name not in self._panes:
            pane = self.make_pane(name)
            pane.display = name == self.view.screen
            self.query_one("#screens").mount(pane)
        return self._panes[name]

    def make_pane(self, name: ScreenName) -> ScreenPane:
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
            self.send_query()
            self.show()
        due = [call for name, call in self._waiting if name == event.name]
        self._waiting = [each for each in self._waiting if each[0] != event.name]
        for call in due:
            call()

    # Which are there

    def offer_tabs(self) -> None:
        """Show the tabs that have something to show, and hide the others."""
        tabs, offered = self.query_one("#tabs", Tabs), tuple(self._offers(tab.name) for tab in TABS)
        if offered == self._offered:
            return
        self._offered = offered
        for tab, is_offered in zip(TABS, offered, strict=True):
            (tabs.show if is_offered else tabs.hide)(tab.name)

    def _offers(self, name: ScreenName) -> bool:
        """Tell whether a tab is there: it has something to show, or is Calls before a trace is read."""
        part = self.results[0].part if self.results else None
        awaits_trace = part is None and name == self.view.screen == "calls"
        return awaits_trace or has_something_to_show(name, part, self.n_recordings)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Refuse tabs that have nothing to show."""
        if action == "tab" and not self._offers(parameters[0]):  # type: ignore[arg-type]
            return False
        return super().check_action(action, parameters)

    def on_key(self, event: Key) -> None:
        """Say why there is no tab, if the key would be that of one."""
        name = next((tab.name for number, tab in enumerate(TABS, 1) if event.key == str(number)), None)
        if name is not None and self.results and len(self.screen_stack) == 1 and not self._offers(name):
            self.show_notice(why_nothing_to_show(name, self.results[0]))

    def show_notice(self, text: str) -> None:
        """Show a notice."""
        raise NotImplementedError

    # To go to one

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

    def switch_tab(self, left: ScreenName) -> None:
        """Bring the tab that the view says into sight in place of the one that is left, with the focus if that had it."""
        name = self.view.screen
        if self.screen_stack[0].maximized is not None:
            self.screen_stack[0].minimize()
        focused, hidden = self.screen.focused, self.pane_of(left)
        if focused is not None and hidden in focused.ancestors:  # keys would go on to what is out of sight
            self.screen.set_focus(None)
            self.call_when_ready(name, partial(self.call_after_refresh, self.focus_first, name))
        self.query_one("#tabs", Tabs).active = name
        self.query_one("#screens", ContentSwitcher).current = self.pane.id

    def action_tab(self, name: ScreenName) -> None:
        """Go to the screen ``name``; keys wait until it has the focus."""
        self._awaited_tab = name
        self.hold_keys()  # what is typed next is for the tab
        self._look_at(name)
        self.call_when_ready(name, partial(self.call_after_refresh, self.focus_first, name))

    def focus_first(self, name: ScreenName) -> None:
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
            self.focus_first(view.screen)

        self.call_after_refresh(arrive)
