"""Time as its user works it: zoom and scrub by keys and by the mouse, events, states, and a trace's tracks with what belongs
together."""

import re
import sqlite3
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from textual.pilot import Pilot

from gssr.backends.synthetic.bulk import generate
from gssr.commands.tui import watches_of
from gssr.model.breakdown.categories import CATEGORIES
from gssr.model.live.watched_trace import WatchedTrace
from gssr.model.traces.flows import flow_between, launch_flows, partner
from gssr.render.breakdown import LOOKS
from gssr.render.glyphs import ASCII, UTF8, Glyphs
from gssr.render.scale import percent, prefixed
from gssr.traces.timeline import Kind, Timeline
from gssr.tui.app import LiveScreen
from gssr.tui.time.box import Box
from gssr.tui.time.details import Details, names_in
from gssr.tui.time.event_axis import EventAxis
from gssr.tui.time.stacked import states_at
from gssr.tui.time.states import States
from gssr.tui.time.trace_lanes import TraceLanes
from gssr.tui.time.trace_lines import TraceLines
from gssr.tui.time.tracks import Tracks, counter_text
from gssr.tui.time.wall import TimeWall
from gssr.tui.view import View
from tests.fakes.growing import Growing
from tests.fakes.training import training
from tests.looking import live_screen, looked_at, open_tab, seen, until, work


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("time") / "imbalanced.sql")
    generate(path, "imbalanced", 8, 0.05, 0.5)
    return path


def of_trace(timeline: Timeline, glyphs: Glyphs = UTF8, colors: int = 256) -> LiveScreen:
    return LiveScreen([WatchedTrace("trace.json", lambda: timeline)], glyphs, 10.0, colors)


async def to_time(app: LiveScreen, pilot: Pilot[int]) -> None:
    await pilot.press("3")
    await until(pilot, lambda: app.results[0].part is None or app.results[0].timeline is not None)
    await until(pilot, lambda: app.focused is not None and app.focused.region.height > 0)


def test_keys_work_from_the_start_and_all_that_zoom_do_the_same(recording: str) -> None:
    spans: list[float | None] = []
    for closer, wider in (("w", "s"), ("plus", "minus")):
        app = live_screen(recording, view=View(screen="time"))

        async def steps(pilot: Pilot[int], app: LiveScreen = app, closer: str = closer, wider: str = wider) -> None:
            await until(pilot, lambda: app.focused is not None)
            assert isinstance(app.focused, TimeWall)
            for key in (closer, closer, closer, wider):
                await pilot.press(key)
                spans.append(app.view.span)

        work(app, steps)
    lasted = app.results[0].last - app.results[0].first
    assert spans[:4] == spans[4:] == [lasted / 2, lasted / 4, lasted / 8, lasted / 4]


def test_keys_zoom_pan_and_scrub_and_esc_lets_go(recording: str) -> None:
    app = live_screen(recording)

    async def steps(pilot: Pilot[int]) -> None:
        await until(pilot, lambda: app.results[0].judgement is not None)
        await to_time(app, pilot)
        wall, result = app.query_one(TimeWall), app.results[0]
        assert wall.has_focus
        lasted = result.last - result.first
        await pilot.press("w", "w")
        assert app.view.span == pytest.approx(lasted / 4, rel=0.05)
        begin = app.view.end
        await until(pilot, lambda: app.results[0].query.span == app.view.span)
        cells = wall.cells_in_sight(app.results[0])
        assert cells.end - cells.start == pytest.approx(app.view.span)
        await pilot.press("d")
        assert app.view.end is not None and begin is not None and app.view.end > begin
        await pilot.press("a", "a")
        assert app.view.end < begin
        await pilot.press("right", "right", "left")
        await until(pilot, lambda: app.results[0].query.cursor is not None)
        assert "cursor at" in str(app.query_one(EventAxis).border_title)
        assert "all metrics at" in seen(app)
        await pilot.press("s", "s", "s", "s")
        assert app.view.span is None
        await pilot.press("escape")
        assert app.view.cursor is None

    work(app, steps, (160, 48))


def test_keys_that_come_faster_than_pictures_all_count() -> None:
    app = of_trace(training(3))

    async def steps(pilot: Pilot[int]) -> None:
        await to_time(app, pilot)
        lines = app.query_one(TraceLines)
        lasted = app.results[0].last - app.results[0].first
        for _ in range(3):
            app.action_move("zoom_in")
        lines.action_pan(0.25)
        assert app.view.span == pytest.approx(lasted / 8, rel=0.1)

    work(app, steps, (120, 40))


def test_a_drag_becomes_the_window_a_click_the_cursor(recording: str) -> None:
    app = live_screen(recording)

    async def steps(pilot: Pilot[int]) -> None:
        await to_time(app, pilot)
        wall = app.query_one(TimeWall)
        y = wall.content_region.y - wall.region.y + 1
        x = wall.content_region.x - wall.region.x + wall.left
        cells = wall.cells_in_sight(app.results[0])
        await pilot.mouse_down(TimeWall, offset=(x + 10, y))
        await pilot.hover(TimeWall, offset=(x + 29, y))
        await pilot.pause()
        assert app.query_one(States).marked is not None
        await pilot.mouse_up(TimeWall, offset=(x + 29, y))
        await pilot.pause()
        assert app.view.span == pytest.approx(20 * cells.width)
        assert app.view.end == pytest.approx(cells.start + 30 * cells.width)
        assert app.query_one(States).marked is None
        await pilot.click(TimeWall, offset=(x + 5, y))
        await pilot.pause()
        now = wall.cells_in_sight(app.results[0])
        assert app.view.cursor is not None and app.view.screen == "time"
        assert now.at(app.view.cursor) == 5 or app.results[0].query.span != app.view.span

    work(app, steps, (160, 48))


def test_states_have_the_colours_of_the_breakdown_and_add_up(recording: str) -> None:
    app = live_screen(recording)

    async def steps(pilot: Pilot[int]) -> None:
        await until(pilot, lambda: app.results[0].judgement is not None)
        await to_time(app, pilot)
        states = app.query_one(States)
        judgement = app.results[0].judgement
        assert judgement is not None and judgement.breakdown is not None
        shares = judgement.breakdown.shares
        most = CATEGORIES[int(shares.argmax())]
        # The window's own, not the mean of its columns: those at its ends hold less time.
        told = {
            each.short: percent(float(share)) for each, share in zip(CATEGORIES, shares, strict=True) if share >= 0.005
        }
        legend = [states.render_line(y).text[: states.left] for y in range(states.content_size.height)]
        named = [line[3:].split() for line in legend if line.strip() and " more on Why" not in line]
        assert named and all(told[" ".join(words[:-2])] == " ".join(words[-2:]) for words in named)
        colours = {
            str(segment.style.color.name)
            for y in range(states.content_size.height)
            for segment in list(states.render_line(y))[2:]
            if segment.style and segment.style.color
        }
        assert LOOKS[most.name].colour in colours
        assert most.short in seen(app) and app.query_one(Tracks).display

    work(app, steps, (160, 48))


def test_states_without_a_line_are_added_up_in_the_last_one(recording: str) -> None:
    app = live_screen(recording)

    async def steps(pilot: Pilot[int]) -> None:
        await until(pilot, lambda: app.results[0].judgement is not None)
        await to_time(app, pilot)
        states = app.query_one(States)
        legend = [states.render_line(y).text[: states.left] for y in range(states.content_size.height)]
        shares = [float(line.split("%")[0].split()[-1]) for line in legend]
        assert " more on Why" in legend[-1] and sum(shares) == pytest.approx(100, abs=2.5), legend

    work(app, steps, (80, 24))


def test_shares_are_stacked_from_below_with_the_rest_blank() -> None:
    shares = np.array([[0.5, 0.0, np.nan], [0.25, 1.0, np.nan]])
    assert states_at(shares, 4).T.tolist() == [[-1, 1, 0, 0], [1, 1, 1, 1], [-1, -1, -1, -1]]


def test_events_are_flags_with_their_text(recording: str, tmp_path: Path) -> None:
    path = tmp_path / "events.sql"
    path.write_bytes(Path(recording).read_bytes())
    with sqlite3.connect(path) as database:
        first = database.execute("SELECT MIN(time) FROM events").fetchone()[0]
        columns = [row[1] for row in database.execute("PRAGMA table_info(events)")]
        row = dict.fromkeys(columns) | dict(
            zip(columns, database.execute("SELECT * FROM events LIMIT 1").fetchone(), strict=True)
        )
        for seconds, text in ((60.0, "epoch 1"), (60.2, "checkpoint"), (120.0, "epoch 2")):
            new = row | {"time": first + seconds, "kind": "mark", "message": text}
            new = {name: value for name, value in new.items() if name != "id"}
            names = ", ".join(new)
            database.execute(f"INSERT INTO events ({names}) VALUES ({', '.join('?' * len(new))})", list(new.values()))
    app = live_screen(str(path))

    async def steps(pilot: Pilot[int]) -> None:
        await to_time(app, pilot)
        axis = app.query_one(EventAxis)
        lines = [axis.render_line(y).text for y in range(axis.content_size.height)]
        flags = next(line for line in lines if "epoch 2" in line)
        cells = axis.cells_in_sight(app.results[0])
        event = next(each for each in app.results[0].events if each.message == "epoch 2")
        assert flags.index("▲ ", axis.left + 1 if flags[axis.left] == "▲" else 0) >= axis.left
        assert flags[axis.left + (cells.at(event.time) or 0)] == "▲"
        assert any("epoch 1" in line for line in lines)

    work(app, steps, (200, 60))


def test_notes_on_a_traces_file_are_no_events_on_its_timeline() -> None:
    timeline = training(1)
    noted = replace(timeline, sources=(timeline.sources[0]._replace(notes=("read without msgspec",)),))
    app = of_trace(noted)

    async def steps(pilot: Pilot[int]) -> None:
        await to_time(app, pilot)
        await until(pilot, lambda: "ProfilerStep#0" in seen(app))
        assert "msgspec" not in seen(app) and "2 events in sight" in seen(app), "the step of either rank"
        await pilot.press("e")
        await until(pilot, lambda: "read without msgspec" in seen(app))

    work(app, steps, (120, 40))


def test_what_grows_rolls_in_and_a_zoom_holds_it(tmp_path: Path) -> None:
    growing = Growing(tmp_path / "grow.sql", whole=True)
    growing.grow(80)
    app = live_screen(str(growing.path))

    async def steps(pilot: Pilot[int]) -> None:
        await to_time(app, pilot)
        await until(pilot, lambda: app.results[0].query.width == 1.0)
        wall = app.query_one(TimeWall)
        assert wall.cells_in_sight(app.results[0]).rolls and "now" in seen(app)
        last = app.results[0].last
        growing.grow(8)
        await until(pilot, lambda: app.results[0].last > last)
        await pilot.press("left", "left", "w")
        await until(pilot, lambda: app.results[0].query.span is not None and app.results[0].query.width is None)
        assert not wall.cells_in_sight(app.results[0]).rolls

    work(app, steps, (120, 40))


# Traces


def test_a_line_opens_its_tracks_and_esc_closes_them() -> None:
    app = of_trace(training(3))

    async def steps(pilot: Pilot[int]) -> None:
        await to_time(app, pilot)
        assert app.query_one(TraceLines).has_focus and not app.query_one(TimeWall).display
        await pilot.press("down", "enter")
        await until(pilot, lambda: app.results[0].part is not None and app.results[0].part.lanes is not None)
        await until(pilot, lambda: app.query_one(TraceLanes).has_focus)
        part = app.results[0].part
        assert part is not None and part.lanes is not None
        kinds = {part.trace.tracks[at].kind for at in part.lanes.track.tolist()}
        assert kinds >= {"gpu_stream", "cpu_thread"}  # a kernel and what launched it are seen together
        assert app.view.opened and "Esc closes" in seen(app)
        await pilot.press("escape")
        await until(pilot, lambda: app.query_one(TraceLines).display)
        assert not app.view.opened

    work(app, steps, (160, 48))


@pytest.mark.parametrize("level", ["gpus", "streams"])
def test_another_screen_and_back_leaves_time_as_it_was(level: str) -> None:
    app = of_trace(training(1))

    async def steps(pilot: Pilot[int]) -> None:
        await to_time(app, pilot)
        await pilot.press(*["v"] * (level == "streams"), "down", "enter")
        await until(pilot, lambda: isinstance(app.focused, TraceLanes) and app.results[0].part.lanes is not None)
        await pilot.press("down", "right", "right")
        before = app.view
        assert before.opened and before.selection == (1,) and before.row == 1
        for digit in ("5", "7", "1", "3"):
            await open_tab(pilot, app, digit)
        await until(pilot, lambda: isinstance(app.focused, TraceLanes) and "Esc closes" in seen(app))
        assert replace(app.view, place=before.place) == before
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.focused, TraceLines))
        assert not app.view.selection and not app.view.opened

    work(app, steps, (120, 40))


def test_search_counts_and_goes_along_and_b_goes_to_the_cause() -> None:
    app = of_trace(training(3))

    async def steps(pilot: Pilot[int]) -> None:
        await to_time(app, pilot)
        await pilot.press("enter")
        await until(pilot, lambda: app.query_one(TraceLanes).has_focus)
        lanes = app.query_one(TraceLanes)
        part = app.results[0].part
        assert part is not None
        own = part.trace.intervals
        linked = np.flatnonzero(
            (own.kind == Kind.KERNEL) & (own.link >= 0) & np.isin(np.arange(len(own)), part.lanes.places)
        )  # type: ignore[union-attr]
        name = part.trace.names[int(own.name[linked[0]])]
        await pilot.press("slash", *name[:6], "enter")
        await until(pilot, lambda: lanes.picked() >= 0)
        title = str(lanes.border_title)
        assert ": 1 of " in title
        assert name[:6].lower() in part.trace.names[int(own.name[lanes.picked()])].lower()
        await pilot.press("f")
        await until(pilot, lambda: ": 2 of " in str(lanes.border_title))
        kernel = lanes.picked()
        other = partner(part.trace, kernel)
        if other >= 0:
            await pilot.press("b")
            await until(pilot, lambda: lanes.picked() == other)
        await pilot.press("escape")
        assert app.view.name == "" and app.view.opened

    work(app, steps, (160, 48))


def test_full_stop_and_comma_go_along_the_cursors_line() -> None:
    app = of_trace(training(3))

    async def steps(pilot: Pilot[int]) -> None:
        await to_time(app, pilot)
        await pilot.press("enter")
        await until(pilot, lambda: app.query_one(TraceLanes).has_focus)
        lanes = app.query_one(TraceLanes)
        part = app.results[0].part
        assert part is not None and part.lanes is not None
        for row in (0, 2):
            places = part.lanes.places[part.lanes.lane == row].tolist()
            await pilot.press("home", *["down"] * (row - app.view.row))
            app.change_view(replace(app.view, cursor=None))
            for place in places[:3]:
                await pilot.press("full_stop")
                await until(pilot, lambda place=place: lanes.picked() == place)  # type: ignore[misc]
                assert app.view.row == row
            await pilot.press("w", "w", "w")  # the one before may be out of sight
            await pilot.press("comma")
            await until(pilot, lambda place=places[1]: lanes.picked() == place)  # type: ignore[misc]
        app.change_view(replace(app.view, cursor=None))
        await pilot.press("comma")
        await pilot.pause()
        assert app.view.cursor is None, "before the first there is none"

    work(app, steps, (160, 48))


def test_what_launched_an_interval_stays_beside_it_when_only_some_are_left() -> None:
    app = of_trace(training(2))

    async def steps(pilot: Pilot[int]) -> None:
        await to_time(app, pilot)
        await pilot.press("i", *"name=gemm", "enter")
        await until(pilot, lambda: "only name=gemm" in seen(app))
        await pilot.press("enter")
        await until(pilot, lambda: app.query_one(TraceLanes).has_focus)
        await pilot.press("full_stop")
        await until(pilot, lambda: app.query_one(TraceLanes).picked() >= 0)
        assert "b launched by cudaLaunchKernel on python" in seen(app) and "launched kernel" in seen(app)
        part = app.results[0].part
        assert part is not None
        names = {part.trace.names[at] for at in part.trace.intervals.name.tolist()}
        assert names == {"ampere_sgemm_128x64_tn", "cutlass::gemm_bwd", "cudaLaunchKernel"}
        n_launched = int((part.trace.intervals.kind == Kind.KERNEL).sum())
        assert int((part.trace.intervals.kind == Kind.RUNTIME).sum()) == n_launched

    work(app, steps, (160, 48))


def test_flows_lead_from_launches_to_kernels() -> None:
    app = of_trace(training(2))

    async def steps(pilot: Pilot[int]) -> None:
        await to_time(app, pilot)
        await pilot.press("enter")
        await until(pilot, lambda: app.query_one(TraceLanes).has_focus)
        part = app.results[0].part
        assert part is not None and part.lanes is not None
        own = part.trace.intervals
        flows, n = launch_flows(part.trace, part.lanes, 0, int((own.start + own.length).max()) + 1)
        assert n == len(flows) > 0
        for flow in flows:
            assert flow.to_time >= flow.time and flow.line != flow.to_line
        linked = np.flatnonzero((own.kind == Kind.KERNEL) & (own.link >= 0))
        kernel = next(int(at) for at in linked if at in part.lanes.places)
        cause = partner(part.trace, kernel)
        assert flow_between(part.trace, part.lanes, cause, kernel) in flows

    work(app, steps, (160, 48))


def test_lines_of_a_trace_are_marked_as_elsewhere_and_told_apart_by_their_names() -> None:
    sample = Path(__file__).parents[1] / "traces" / "samples" / "straggler-2025.6.sqlite"
    (text,) = looked_at(*watches_of([str(sample)]), views=[View(screen="time")], size=(60, 24))
    lines = [line for line in text.splitlines() if re.search(r"[:.…]p?i?d?\d*400[01] ", line)]
    assert len({re.sub(r"[>▲]", "", line).split()[0] for line in lines}) == 2
    (blamed,) = (line for line in lines if "4001 " in line)
    assert "▲" in blamed and not any("▲" in line for line in lines if line != blamed)


def test_communication_alone_and_all_of_it_have_two_names() -> None:
    sample = Path(__file__).parents[1] / "traces" / "samples" / "straggler-2025.6.sqlite"
    views = [View(screen="job"), View(screen="time"), View(screen="time", level="threads")]
    job, of_gpus, of_threads = looked_at(*watches_of([str(sample)]), views=views, size=(100, 30))
    assert re.search(r"All comm\. [━╸─ ]+28\.0 %", job) and re.search(r"Exposed comm\. [━╸─ ]+13\.6 %", job)
    assert re.search(r"exposed co\S* +13\.6 %", of_gpus) and not re.search(r"communication +28\.0 %", of_gpus)
    assert "exposed" not in of_threads


def test_a_line_has_a_head_and_goes_nowhere_else() -> None:
    from rich.style import Style

    box = Box(8, 3, False)
    box.line(2, 0, 4, 2, Style(), left=3)
    assert [strip.text for strip in box.strips()] == ["        ", "   ╲    ", "    ▾   "]
    ascii_box = Box(3, 3, True)
    ascii_box.line(1, 2, 1, 0, Style())
    assert [strip.text for strip in ascii_box.strips()] == [" ^ ", " | ", "   "]


def test_a_selected_range_has_its_own_table() -> None:
    app = of_trace(training(3))

    async def steps(pilot: Pilot[int]) -> None:
        await to_time(app, pilot)
        result = app.results[0]
        part = result.part
        assert part is not None
        every = names_in(result, part, app.view, result.first, result.last)
        middle = (result.first + result.last) / 2
        halves = [names_in(result, part, app.view, *edges) for edges in ((result.first, middle), (middle, result.last))]
        for use in every:
            split = sum(each.total for half in halves for each in half if each.name == use.name)
            assert split == pytest.approx(use.total, abs=2)
        await pilot.press("right", "r", *["right"] * 12, "r")
        await until(pilot, lambda: app.query_one(Details).marked is not None)
        assert "selected range" in seen(app)
        await pilot.press("escape")
        await until(pilot, lambda: app.query_one(Details).marked is None)

    work(app, steps, (160, 48))


def test_lanes_need_no_colours() -> None:
    app = of_trace(training(3), ASCII, 0)

    async def steps(pilot: Pilot[int]) -> None:
        await to_time(app, pilot)
        lines = app.query_one(TraceLines)
        drawn = "".join(lines.render_line(y).text for y in range(lines.content_size.height))
        assert "c" in drawn and drawn.isascii()
        await pilot.press("enter")
        await until(pilot, lambda: app.query_one(TraceLanes).has_focus)
        assert all(panel.render_line(0).text.isascii() for panel in app.query(States))

    work(app, steps, (100, 32))


def test_every_size_is_drawn(recording: str) -> None:
    app, trace = live_screen(recording), of_trace(training(2))
    sizes = ((30, 8), (60, 16), (200, 60))

    async def steps(pilot: Pilot[int]) -> None:
        await pilot.press("3")
        for size in sizes:
            await pilot.resize_terminal(*size)
            await until(pilot, lambda size=size: app.screen.size == size and "every GPU over time" in seen(app))

    async def of_a_trace(pilot: Pilot[int]) -> None:
        await to_time(trace, pilot)
        await pilot.press("l", "right", "w")
        for size in sizes:
            await pilot.resize_terminal(*size)
            await until(pilot, lambda size=size: trace.screen.size == size and "tracks" in seen(trace))
            assert trace.view.opened

    work(app, steps, (80, 24))
    work(trace, of_a_trace, (80, 24))


@pytest.mark.parametrize(
    ("value", "text"),
    [(445_447_628.073, "445.4 M"), (0.0, "0"), (999_999.9, "1.00 M"), (1500.0, "1.50 k"),
     (12.0, "12"), (0.7432, "0.743"), (0.00031, "310.0 µ"), (float("nan"), "-")],
)  # fmt: skip
def test_numbers_keep_their_leading_digits(value: float, text: str) -> None:
    assert prefixed(value) == text


def test_the_title_of_counters_says_what_their_numbers_are() -> None:
    app = of_trace(training(1))

    async def steps(pilot: Pilot[int]) -> None:
        await to_time(app, pilot)
        await until(pilot, lambda: "counters: each cell's mean, left ≤ the greatest value" in seen(app))
        await pilot.press("right")
        await until(pilot, lambda: "counters: each cell's mean, left that at the cursor" in seen(app))

    work(app, steps, (80, 24))


@pytest.mark.parametrize("width", [80, 200])
def test_the_greatest_value_of_a_counter_is_a_value_and_no_mean_of_a_cell(width: int) -> None:
    """One value of 500 is 7, for a moment, the others are 1."""
    trace = training(1)
    at = np.linspace(trace.intervals.start.min(), trace.intervals.start.max(), 500).astype(np.int64)
    value = np.ones(500)
    value[50] = 7.0
    counter = trace.counters[0]._replace(name="waiting", unit="", mode="gauge", time=at, value=value, track=-1)
    app = of_trace(replace(trace, counters=(counter,)))

    async def steps(pilot: Pilot[int]) -> None:
        await to_time(app, pilot)
        await until(pilot, lambda: "waiting" in seen(app))
        assert "≤ 7 " in seen(app)
        await pilot.press("w", "w")
        await until(pilot, lambda: "≤ 1 " in seen(app))

    work(app, steps, (width, 24))


def test_a_counter_says_its_greatest_value_in_full() -> None:
    trace = training(2)
    known = trace.counters[0]
    large = known._replace(name="instructions", unit="", value=np.full(len(known.time), 445_447_628.073))
    app = of_trace(replace(trace, counters=(large,)))

    async def steps(pilot: Pilot[int]) -> None:
        await to_time(app, pilot)
        await until(pilot, lambda: app.results[0].part is not None and bool(app.results[0].part.counters))
        assert "445.4 M" in seen(app)

    work(app, steps, (120, 40))
    assert counter_text("counter:B/s:rx", 12e9).startswith("12.0")
