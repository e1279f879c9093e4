"""What the command palette finds besides Textual's own: screens, metrics, GPUs, nodes and verdicts."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

from textual.actions import parse
from textual.command import DiscoveryHit, Hit, Hits, Provider

from gssr.render.cells import clean
from gssr.render.scale import metric_of, quantity
from gssr.tui.moves import measured
from gssr.tui.shared.keys_panel import is_of_all_screens, keys_that_count
from gssr.tui.shared.live_app import LiveApp
from gssr.tui.vampir import DISPLAYS, Display
from gssr.tui.view import Scene

_MOST = 50
"""The most GPUs, and the most nodes, that are found."""


def metric_choices(scene: Scene, choose: Callable[[str], None]) -> list[tuple[str, Callable[[], None]]]:
    """List the metrics that can be shown, the one that is shown first: a line with the mean of each, and the call that
    chooses it."""
    frame = scene.frame
    means = {**frame.window.overall(), **(frame.of_gpus or frame).window.overall()}
    names = sorted(measured(scene), key=lambda name: name != frame.grid.metric)
    size = max((len(metric_of(name).label) for name in names), default=0)
    choices: list[tuple[str, Callable[[], None]]] = []
    for name in names:
        metric, mean = metric_of(name), means.get(name)
        text = "" if mean is None else quantity(mean, metric)
        choices.append((f"{metric.label:<{size}}  {text:>10}", partial(choose, name)))
    return choices


class PaletteCommand(NamedTuple):
    """A command: its name, what it does, and the call that does it."""

    name: str
    help: str
    call: "partial[Any]"


class Everything(Provider):
    """All that can be gone to by its name."""

    app: LiveApp

    async def discover(self) -> Hits:
        """Yield everything that has a key, before anything is typed."""
        for found in self._actions():
            yield DiscoveryHit(found.name, found.call, help=found.help)

    async def search(self, query: str) -> Hits:
        """Yield the commands whose names match what is typed."""
        matcher = self.matcher(query)
        every = (self._actions(), self._metrics(), self._displays(), self._places(query), self._verdicts())
        for found in (each for some in every for each in some):
            score = matcher.match(found.name)
            if score > 0:
                yield Hit(score, matcher.highlight(found.name), found.call, help=found.help)

    def _actions(self) -> Iterator[PaletteCommand]:
        """Yield a command for every key that the app has now, without the palette's own, and for those that count only where
        the focus is, without what the app has under the same name."""
        of_app = set()
        for binding in type(self.app).BINDINGS:
            _, action, parameters = parse(binding.action)  # type: ignore[union-attr]
            of_app.add((binding.description, binding.tooltip))  # type: ignore[union-attr]
            if action != "command_palette" and self.app.check_action(action, parameters):
                yield PaletteCommand(binding.description, binding.tooltip, partial(self.app.run_action, binding.action))  # type: ignore[union-attr]

        for key in keys_that_count(self.screen):
            named = key.binding.description, key.binding.tooltip
            if not is_of_all_screens(key) and named not in of_app:
                yield PaletteCommand(*named, partial(self.app.run_action, key.binding.action, key.node))

    def _displays(self) -> Iterator[PaletteCommand]:
        """Yield Vampir's displays by their names, if a trace is shown; those of tables only if the table holds
        anything, or that is not known yet."""
        scene = self.app.scene()
        if scene is None or scene.frame.part is None:
            return
        pane = self.app.pane_of("calls")
        tables = pane.offered if pane.is_ready else {}
        for display in DISPLAYS:
            if not display.table or display.table in tables or not tables:
                yield PaletteCommand(display.name, display.about, partial(self._show_display, display))

    def _show_display(self, display: Display) -> None:
        """Go to what shows the same as this display of Vampir."""
        view = self.app.view
        grouped = view.grouped or display.alike
        self.app.go_to_screen(replace(view, screen=display.screen, alike=display.alike, grouped=grouped, row=0, top=0))
        if display.table:
            pane = self.app.pane_of(display.screen)
            self.app.call_when_ready(display.screen, partial(pane.want, display.table))

    def _metrics(self) -> Iterator[PaletteCommand]:
        """Yield a command for each measured metric, which makes charts show it; nothing before the first result."""
        scene = self.app.scene()
        for name in measured(scene) if scene else ():
            metric = metric_of(name)
            yield PaletteCommand(f"Metric {metric.label}", metric.meaning, partial(self.app.show_metric, name))

    def _places(self, query: str) -> Iterator[PaletteCommand]:
        """Yield a command for each node and each GPU whose name holds all words of ``query``, at most _MOST of either;
        nothing before the first result."""
        scene = self.app.scene()
        if scene is None:
            return
        frame, words = scene.frame, query.lower().split()
        fits = (at for at, node in enumerate(frame.nodes) if all(word in f"node {node}".lower() for word in words))
        for at in islice(fits, _MOST):
            gpus = tuple(frame.on_node(at).tolist())
            yield PaletteCommand(
                f"Node {clean(frame.nodes[at])}", "look at its GPUs alone", partial(self._select, gpus, frame.nodes[at])
            )
        named = ((gpu, frame.place(gpu)) for gpu in range(frame.n_gpus))
        for gpu, name in islice(((gpu, n) for gpu, n in named if all(w in f"gpu {n}".lower() for w in words)), _MOST):
            yield PaletteCommand(f"{frame.noun} {clean(name)}", "go to it", partial(self._point, gpu))

    def _select(self, gpus: tuple[int, ...], name: str) -> None:
        """Show these GPUs (positions) alone, under this name; Esc comes back."""
        view = self.app.view
        self.app.go_to_screen(view.down(selection=gpus, selected=name, screen="gpus"))

    def _point(self, gpu: int) -> None:
        """Put the cursor on this GPU (position) in the list."""
        self.app.go_to_screen(replace(self.app.view, screen="gpus"), gpu)

    def _verdicts(self) -> Iterator[PaletteCommand]:
        """Yield a command for each verdict, which shows it on Why; nothing before there is a judgement."""
        scene = self.app.scene()
        found = scene.frame.judgement if scene else None
        for number, verdict in enumerate(found.verdicts if found else ()):
            view = replace(self.app.view, screen="why", note=number)
            yield PaletteCommand(clean(verdict.title), verdict.severity, partial(self.app.go_to_screen, view))
