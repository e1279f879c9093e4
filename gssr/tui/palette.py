"""The line at the bottom in which something is typed, and the list above it that what is typed narrows: metrics, or actions,
metrics, GPUs and nodes."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from typing import NamedTuple

from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.events import DescendantBlur
from textual.widgets import Input, Static

from gssr.model.cached import once
from gssr.model.custom_metrics import custom
from gssr.model.live.frame import Frame
from gssr.render.cells import clean, fit, pad
from gssr.render.glyphs import drawable
from gssr.render.roles import Row, Span
from gssr.render.scale import metric_of, quantity
from gssr.render.table import rule
from gssr.tui.actions import offered, shown_keys
from gssr.tui.moves import measured, of_metric
from gssr.tui.view import Scene, View

LISTED = {"metrics", "palette"}
"""Actions that ask for something in a list."""
_MOST = 50
"""So many GPUs, and so many nodes, are listed at most."""
_ABOUT = 60
"""In so many cells there is room for what is said of a name."""


class Choice(NamedTuple):
    """A line of the list: what it is called, what is said of it, and what it means: an action's name, or the next view."""

    name: str
    about: str
    then: str | View


def choices(asked: str, scene: Scene, text: str) -> list[Choice]:
    """What the list of the action ``asked`` offers for what was typed: all words of it stand in the name or what is said of
    it. Names that begin with it come first."""
    found = _metrics(scene)
    if asked == "palette":
        trace = scene.frame.part is not None
        actions = [each for each in offered(trace, scene.view.passing) if each.name != "palette"]
        found = [
            *(Choice(each.help[0].upper() + each.help[1:], shown_keys(each), each.name) for each in actions),
            *((each._replace(name=f"Metric {each.name}") for each in found) if text else ()),
        ]
    if asked == "metrics" and "=" in text and scene.frame.part is not None:
        return [_own(scene, text)]
    words = text.lower().split()
    found = [each for each in found if all(word in f"{each.name} {each.about}".lower() for word in words)]
    if asked == "palette" and words:
        found += _places(scene, words)
    wanted = text.lower().strip()
    return sorted(found, key=lambda each: _rank(each, wanted)) if wanted else found


def _own(scene: Scene, text: str) -> Choice:
    """A metric as it is typed, or what is wrong with it; shown of the rows that have such names."""
    try:
        metric = custom(text).metric
    except ValueError as error:
        return Choice(str(error), "", scene.view)
    return Choice(
        text, "", replace(scene.view, metric=metric, level=None, selection=(), selected="", gpu=-1, row=0, top=0)
    )


def _rank(choice: Choice, wanted: str) -> int:
    name = choice.name.lower()
    return 0 if name.startswith(wanted) else 1 if f" {wanted}" in name else 2


def _metrics(scene: Scene) -> list[Choice]:
    """Those that were measured, each with its mean of the window."""
    means = scene.frame.window.overall()
    return [
        Choice(
            metric_of(name).label, f"{quantity(means.get(name), metric_of(name)):>12}  {name}",
            of_metric(scene, name),
        )
        for name in measured(scene)
    ]  # fmt: skip


def _places(scene: Scene, words: Sequence[str]) -> list[Choice]:
    """Nodes, then GPUs, with all words in their names; no more than _MOST of each are looked for."""
    frame = scene.frame
    found: list[Choice] = []
    view = replace(scene.view, overlay="", opened=False)
    for kind, names in (("Node", frame.nodes), ("GPU", _gpu_names(frame))):
        noun = frame.noun if kind == "GPU" else kind
        fitting = (at for at, name in enumerate(names) if all(word in f"{kind} {name}".lower() for word in words))
        for at in islice(fitting, _MOST):
            gpus = tuple(frame.on_node(at).tolist()) if kind == "Node" else ()
            shown = {"selection": gpus, "selected": names[at] if gpus else "", "gpu": gpus[0] if gpus else at}
            there = view.down(screen="gpus", filter="", row=0, top=0, **shown)
            found.append(Choice(f"{noun[0].upper()}{noun[1:]} {clean(names[at])}", "", there))
    return found


@once
def _gpu_names(frame: Frame) -> list[str]:
    return [frame.place(gpu) for gpu in range(frame.n_gpus)]


def _in_sight(n_rows: int, n: int, picked: int) -> tuple[int, int]:
    """The first line of a list of ``n`` that is in sight on a screen of so many rows, and how many there is room for."""
    room = min(n or 1, max(n_rows - 3, 0))
    return min(max(picked - room // 2, 0), max(n - room, 0)), room


def line_at(y: int, n_rows: int, n: int, picked: int) -> int | None:
    """Which line of the list stands in this row of the screen; None for none."""
    first, room = _in_sight(n_rows, n, picked)
    line = first + y - (n_rows - 1 - room)
    return line if first <= line < min(first + room, n) else None


def over(rows: Sequence[Row], asked: str, found: Sequence[Choice], picked: int, scene: Scene) -> list[Row]:
    """The screen's rows with the list over the last ones, above the line to type in; what was ``picked`` is in sight."""
    first, room = _in_sight(len(rows), len(found), picked)
    width, glyphs = scene.width, scene.glyphs
    shown = found[first : first + room]
    size = max((len(each.about) for each in shown), default=0) if width >= _ABOUT else 0
    lines: list[Row] = []
    for at, each in enumerate(shown, first):
        name = max(width - size - 3, 0)
        text = f" {fit(each.name, name, glyphs.ellipsis):<{name}} {each.about if size else '':<{size}} "
        lines.append(pad((Span(text, "cursor" if at == picked else "plain"),), width))
    if not found and room:
        lines = [pad((Span(" nothing has this name", "outlier"),), width)]
    what = "Metrics" if asked == "metrics" else "Actions, metrics, GPUs and nodes"
    head = rule(f"{what}: {len(found)}", width, glyphs, (Span("Enter takes, Esc leaves", "dim"),))
    box = [drawable(pad(row, width), glyphs) for row in (head, *lines)][: max(len(rows) - 1, 0)]
    kept = len(rows) - 1 - len(box)
    return [*rows[:kept], *box, *rows[len(rows) - 1 :]]


class Prompt(Horizontal):
    """Shown only while something is asked for; ``asked`` says what (an action's name)."""

    DEFAULT_CSS = """
    Prompt { layer: top; dock: bottom; height: 1; display: none; }
    Prompt Static { width: auto; text-style: bold; padding: 0 1 0 0; }
    Prompt Input { width: 1fr; border: none; padding: 0; }
    Prompt Input:focus { border: none; }
    """

    def __init__(self) -> None:
        super().__init__()
        self.asked = ""
        self._label = Static("", markup=False)
        self._input = Input(compact=True)
        self._input.can_focus = False

    def compose(self) -> ComposeResult:
        """What is asked, and the answer."""
        yield self._label
        yield self._input

    @property
    def value(self) -> str:
        """What is typed."""
        return self._input.value

    @value.setter
    def value(self, text: str) -> None:
        self._input.value = text

    def ask(self, asked: str, label: str, hint: str, value: str) -> None:
        """Begin to ask; ``hint`` is shown while nothing is typed."""
        self.asked = asked
        self._label.update(label)
        self._input.placeholder, self._input.value = hint, value
        self._input.can_focus = self.display = True
        self._input.focus()
        self._input.action_end()

    def done(self) -> str:
        """Stop asking; what was asked."""
        asked, self.asked = self.asked, ""
        self._input.can_focus = self.display = False
        return asked

    def on_descendant_blur(self, event: DescendantBlur) -> None:
        """Whoever looks elsewhere asks no more; a list stays, because a click chooses in it."""
        del event
        if self.asked in LISTED:
            self._input.focus()
        else:
            self.done()
