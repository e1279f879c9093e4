"""The screens, in the order of the questions they answer; the last of traces only. Pure drawing: a scene in, rows
out; no Textual.

Each screen has ``columns(view, width, height)``: how many columns of time it wants; ``draw(scene)``: at most
``scene.height`` rows of at most ``scene.width`` cells; ``move(scene, dx, dy)``: the view after the cursor moved so far;
``enter(scene)`` and ``click(scene, x, y)``: the view one level down, or under the mouse, None where there is nothing.
"""

from collections.abc import Callable
from typing import NamedTuple

from gssr.model.live.frame import Frame
from gssr.render.roles import Row
from gssr.tui.screens import calls, job, time
from gssr.tui.view import Scene, ScreenName, View


class Screen(NamedTuple):
    """One screen. ``question`` is what it answers; ``traces``: offered with a trace only."""

    name: ScreenName
    title: str
    question: str
    columns: Callable[[View, int, int], int]
    draw: Callable[[Scene], list[Row]]
    move: Callable[[Scene, int, int], View]
    enter: Callable[[Scene], View | None]
    click: Callable[[Scene, int, int], View | None]
    traces: bool = False


SCREENS: tuple[Screen, ...] = (
    Screen("job", "Job", "How well is the job using its GPUs?", job.columns, job.draw, job.move, job.enter, job.click),
    Screen("time", "Time", "When was it not used?", time.columns, time.draw, time.move, time.enter, time.click),
    Screen(
        "calls", "Calls", "What took the time?", calls.columns, calls.draw, calls.move, calls.enter, calls.click, True
    ),
)  # fmt: skip


def screens(trace: bool, timed: bool = True) -> tuple[Screen, ...]:
    """Those that there are, with a ``trace`` or without one; of what is not ``timed``, a profile, the calls alone."""
    return tuple(screen for screen in SCREENS if (trace or not screen.traces) and (timed or screen.traces))


def screens_of(frame: Frame) -> tuple[Screen, ...]:
    """Those that a frame is shown on."""
    return screens(frame.part is not None, frame.part is None or frame.part.trace.profile is None)


BY_NAME: dict[ScreenName, Screen] = {screen.name: screen for screen in SCREENS}
