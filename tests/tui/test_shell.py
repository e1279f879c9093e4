"""What surrounds the screens: header, footer, side by side, one line."""

import re
from dataclasses import replace

import frames
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gssr.model.live.frame import Frame
from gssr.model.live.watch import Watch
from gssr.render.cells import cell_width
from gssr.render.glyphs import ASCII, UTF8, Glyphs
from gssr.render.roles import text_of
from gssr.render.scale import metric_of
from gssr.store.format.rows import Event
from gssr.tui import shell
from gssr.tui.actions import offered
from gssr.tui.axis import shown_metrics
from gssr.tui.moves import MOVES
from gssr.tui.output import Output
from gssr.tui.panels import COMPANIONS, main_width, panels
from gssr.tui.screens import BY_NAME, SCREENS, screens
from gssr.tui.view import Scene, View

FRAME = frames.frame_of(np.random.default_rng(5).random((12, 60)))
NAMES = [screen.name for screen in screens(False)]


def lines(
    view: View, width: int, height: int, frame: Frame = FRAME, glyphs: Glyphs = UTF8, **more: object
) -> list[str]:
    scene = Scene(frame, None, view, width, height, glyphs)._replace(**more)
    return [text_of(row) for row in shell.draw(scene)]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("glyphs", [UTF8, ASCII], ids=["utf8", "ascii"])
@settings(max_examples=12)
@given(width=st.integers(20, 300), height=st.integers(5, 100), output=st.booleans(), problem=st.booleans())
def test_every_row_fills_the_terminal_and_no_more(
    name: str, glyphs: Glyphs, width: int, height: int, output: bool, problem: bool
) -> None:
    frame = replace(FRAME, problem="job.sql: was removed" if problem else None)
    shown = lines(View(screen=name, output=output), width, height, frame, glyphs)  # type: ignore[arg-type]
    assert len(shown) == height
    assert {cell_width(line) for line in shown} == {width}
    assert glyphs is UTF8 or all(line.isascii() for line in shown)


@pytest.mark.parametrize("size", [(39, 24), (80, 9), (20, 5)])
def test_a_tiny_terminal_shows_one_line(size: tuple[int, int]) -> None:
    shown = lines(View(), *size)
    assert size[0] < 30 or "ended (exit 0)" in shown[0]
    assert "score 0." in shown[0] and not any(line.strip() for line in shown[1:])


def test_a_large_terminal_shows_screens_side_by_side() -> None:
    for name in NAMES:
        view = View(screen=name)  # type: ignore[arg-type]
        shown = "\n".join(lines(view, 200, 60))
        for companion in COMPANIONS[view.screen][:2]:
            number = NAMES.index(companion) + 1
            assert f"{number} {SCREENS[number - 1].title}  {SCREENS[number - 1].question}" in shown
    assert main_width(View(), 159, 60) == 159
    assert main_width(View(), 200, 39) == 200


@given(st.sampled_from(NAMES), st.integers(160, 400), st.integers(40, 120))
def test_panels_lie_beside_the_screen_and_never_overlap(name: str, width: int, height: int) -> None:
    view = View(screen=name)  # type: ignore[arg-type]
    main = main_width(view, width, height)
    taken = np.zeros((height - 2, width), int)
    taken[:, :main] = 1
    for panel in panels(view, width, height - 2, main):
        assert panel.width >= 40 and panel.height >= 18
        taken[panel.y : panel.y + panel.height, panel.x : panel.x + panel.width] += 1
    assert taken.max() == 1


@pytest.mark.parametrize(
    ("name", "last"), [("balance", "10:00"), ("gpus", "15:00"), ("job", "15:00"), ("why", "15:00")]
)
def test_a_companion_shows_the_window_to_its_end(name: str, last: str) -> None:
    """However many columns of time the screen beside it asked for: 115 columns of 10 s end after 19 minutes."""
    frame = frames.frame_of(np.random.default_rng(5).random((12, 115)))
    scene = Scene(frame, None, View(screen=name), 79, 27, UTF8)  # type: ignore[arg-type]
    axes = [row for row in map(text_of, BY_NAME[scene.view.screen].draw(scene)) if " 0:00 " in row]
    assert axes and last in axes[-1], axes


@pytest.mark.parametrize("overlay", ["help", "events"])
@pytest.mark.parametrize("way", ["down", "page_down"])
def test_what_lies_over_a_screen_can_be_read_to_its_end_and_back(overlay: str, way: str) -> None:
    happened = tuple(Event(frames.START + n, "nid000001", None, 0, "signal", f"signal {n}") for n in range(100))
    frame = replace(FRAME, events=happened)
    wanted = {action.help for action in offered(False)} if overlay == "help" else {f"signal {n}" for n in range(100)}
    scene = Scene(frame, None, View(screen="gpus", top=5), 80, 24, UTF8)
    scene = scene._replace(view=MOVES[overlay](scene))
    seen: list[str] = []
    for _ in range(200):
        drawn = [text_of(row) for row in shell.draw(scene)]
        seen += drawn
        body = scene.sized(*shell.body_size(scene.view, 80, 24))
        after = MOVES[way](body)
        if after == scene.view:
            break
        scene = scene._replace(view=after)
    assert all(any(text[:20] in line for line in seen) for text in wanted)
    assert MOVES["up"](body).scroll == scene.view.scroll - 1
    first = MOVES["first"](body)
    assert first.scroll == 0 and MOVES["last"](body._replace(view=first)) == scene.view
    closed = MOVES["back"](body)
    assert (closed.overlay, closed.top) == ("", 5)


def test_the_help_tells_the_short_names_of_metrics() -> None:
    scene = Scene(frames.frame_of(np.full((4, 60), 0.8)), None, View(overlay="help"), 200, 80, UTF8)
    said = "\n".join(text_of(row) for row in shell.draw(scene))
    for name in shown_metrics(scene.frame):
        assert re.search(rf" {re.escape(metric_of(name).short)} +{re.escape(metric_of(name).label)}", said), name


def test_a_click_beside_the_screen_stays_on_the_screen() -> None:
    view = View(screen="job", row=1)
    scene = Scene(FRAME, None, view, 200, 60, UTF8)
    found = [shell.click(scene, x, y) for y in range(1, 59) for x in range(125, 200, 5)]
    chosen = [after for after in found if after is not None]
    assert chosen
    for after in chosen:
        assert after.screen == "job" or after.trail == (view,)


def test_the_footer_always_says_how_to_leave_and_where_help_is() -> None:
    for width in (40, 60, 80, 100, 200):
        for name in NAMES:
            scene = Scene(FRAME, None, View(screen=name), width, 24, UTF8)  # type: ignore[arg-type]
            text = text_of(shell.draw(scene)[-1])
            assert text.rstrip().endswith("? help  q quit")
            assert shell.footer_action(scene, len(text.rstrip()) - 1) == "quit"
            assert shell.footer_action(scene, 0) == "screen_job"
            assert shell.footer_action(scene, text.index("[")) == f"screen_{name}"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"state": "live"}, "* live"),
        ({"state": "stalled", "silent": 12.3}, "o stalled 12 s"),
        ({"run": frames.run(exit_code=7)}, "ended (exit 7)"),
        ({"state": "lost"}, "x lost"),
        ({"run": frames.run(world_size=4), "ranks_missing": (1, 3)}, "lacks 2 of 4 ranks"),
        ({"run": frames.run(job_id="125", array_job_id="124", array_task_id="0")}, "124_0 job"),
    ],
)
def test_the_header_says_how_the_run_stands(changes: dict[str, object], said: str) -> None:
    assert said in lines(View(), 80, 24, replace(FRAME, **changes))[0]  # type: ignore[arg-type]


def test_the_header_says_how_far_behind_a_paused_view_is() -> None:
    assert "paused" in lines(View(end=FRAME.last - 100), 80, 24)[0]
    assert "paused" not in lines(View(end=FRAME.last), 80, 24)[0]  # of what is over
    assert "paused" in lines(View(end=FRAME.last), 80, 24, replace(FRAME, state="live"))[0]


def test_a_problem_is_said_below_the_screen_not_over_it() -> None:
    calm, told = lines(View(), 80, 24), lines(View(), 80, 24, replace(FRAME, problem="job.sql: was removed"))
    assert "was removed" in told[-2] and any("score" in line for line in told[1:4])
    assert calm[-1] == told[-1]


def test_what_the_workload_prints_takes_the_lower_third() -> None:
    shown = lines(View(output=True), 80, 24, output=Output("job.log", b"step 1\nstep 2\n"))
    at = next(y for y, line in enumerate(shown) if "job.log" in line)
    assert 14 <= at <= 16 and "step 1" in shown[at + 1]
    assert any("score" in line for line in shown[1:4]) and "q quit" in shown[-1]


def test_what_was_before_the_first_sample_has_no_negative_time() -> None:
    events = tuple(Event(FRAME.first + at, "n", None, 0, "start", f"at {at}") for at in (-70, -1, -0.4, 0, 8))
    shown = [line.split() for line in lines(View(overlay="events"), 80, 24, replace(FRAME, events=events))]
    assert [line[0] for line in shown if line[1:3] == ["n:", "at"]] == [
        "0:00:08",
        "0:00:00",
        "0:00:00",
        "before",
        "before",
    ]
    for view in (View(overlay="events"), View()):
        text = "\n".join(lines(view, 80, 24, replace(FRAME, events=events)))
        assert "-0:0" not in text, text


def test_an_event_of_a_gpu_names_the_gpu() -> None:
    own = FRAME.gpus[5]
    happened = (Event(FRAME.first + 3, own.node, own.gpu, 0, "gpu_lost", "no longer answers"),)
    frame = replace(FRAME, events=happened)
    for view in (View(overlay="events"), View()):
        assert f"{FRAME.place(5)}: no longer answers" in "\n".join(lines(view, 80, 24, frame))


@settings(max_examples=40)
@given(width=st.integers(60, 200), late=st.floats(0.0, 9.9), screen=st.sampled_from(NAMES), live=st.booleans())
def test_no_axis_begins_before_the_run_or_goes_on_beyond_its_end(
    width: int, late: float, screen: str, live: bool
) -> None:
    frame = frames.frame_of(np.random.default_rng(5).random((12, 30)))
    frame = replace(frame, first=frame.first + late, state="live" if live else "ended")
    for cursor in (None, frame.grid.start):
        shown = lines(View(screen=screen, cursor=cursor), width, 24, frame)  # type: ignore[arg-type]
        assert not any("-0:0" in line for line in shown), shown
        labels = [label for line in shown for label in re.findall(r"\b\d+:\d\d\b(?!:)", line)]
        assert live or not [label for label in labels if int(label.split(":")[0]) >= 6], shown


@pytest.mark.parametrize("size", [(20, 5), (40, 10), (1, 1), (80, 24)])
def test_without_samples_the_reason_is_one_line(size: tuple[int, int]) -> None:
    nothing = frames.frame_of(np.empty((0, 1)))
    for frame, why in ((nothing, "no GPU was recorded"), (replace(FRAME, n_rows=0), "no sample yet")):
        shown = lines(View(), *size, frame)
        assert any(why[: size[0]].strip() in line for line in shown), shown
        assert sum(bool(line.strip()) for line in shown) <= 4


def test_nothing_yet_is_said_in_words() -> None:
    watch = Watch("/nowhere/at/all.sql")
    shown = lines(View(), 80, 24, watch.look(View().query(60)))
    assert any("waiting for /nowhere/at/all.sql" in line for line in shown)
    assert "waiting" in shown[0] and "0 GPUs" not in shown[0] and "gaps" not in shown[0]
