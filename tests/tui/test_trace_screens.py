"""A trace on the screens: shares as metrics, the timeline by category, tracks level by level, and its calls by name."""

import asyncio
import json
import re
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import frames
import numpy as np
import pytest
from gssr.tui.actions import ACTIONS
from hypothesis import given, settings
from hypothesis import strategies as st
from test_terminal import Tmux, gone
from test_terminal import tmux as tmux  # the fixture
from training import STEP, training

from gssr.cli import main
from gssr.commands.tui import watches_of
from gssr.model.live import watch_trace
from gssr.model.live.frame import Frame, Query
from gssr.model.live.watch_trace import WatchTrace
from gssr.model.traces import as_metrics
from gssr.model.traces.analyze import analyze_timeline
from gssr.model.verdicts.rules import TABLE
from gssr.render.cells import cell_width
from gssr.render.glyphs import ASCII, UTF8
from gssr.render.roles import CATEGORIES, text_of
from gssr.traces.timeline import (
    NO_LINK,
    Category,
    Clock,
    Collectives,
    Counter,
    Intervals,
    Kind,
    Messages,
    Source,
    Timeline,
    Track,
)
from gssr.tui import shell
from gssr.tui.app import LiveScreen
from gssr.tui.moves import MOVES
from gssr.tui.screens import SCREENS, lanes
from gssr.tui.view import Scene, View
from tests.fakes.traces.samples import labelled

TRACE = training(3)
NAMES = [screen.name for screen in SCREENS]


@pytest.fixture(scope="module")
def watch() -> Iterator[WatchTrace]:
    found = WatchTrace("trace.json", lambda: TRACE)
    yield found
    found.close()


SAMPLES = Path(__file__).parents[1] / "traces" / "samples"


class Seat:
    """Somebody before the screen: presses keys, and looks."""

    def __init__(self, watch: WatchTrace, screen: str = "time", size: tuple[int, int] = (80, 24)) -> None:
        self.watch, self.size, self.glyphs = watch, size, UTF8
        self.view = View(screen=screen)  # type: ignore[arg-type]

    @property
    def scene(self) -> Scene:
        frame = self.watch.look(shell.query(self.view, *self.size, TABLE))
        return Scene(frame, None, self.view, *self.size, self.glyphs)

    @property
    def frame(self) -> Frame:
        return self.scene.frame

    @property
    def body(self) -> Scene:
        scene = self.scene
        return scene.sized(*shell.body_size(scene.view, *self.size))

    def press(self, *names: str) -> "Seat":
        for name in names:
            self.view = MOVES[name](self.body)
        return self

    def text(self) -> str:
        return "\n".join(text_of(row) for row in shell.draw(self.scene))

    def under(self) -> int:
        """The interval under the cursor of an opened track."""
        scene = self.body
        part = scene.frame.part
        assert part is not None and part.lanes is not None
        row = lanes._sight(scene, part.lanes).row
        return lanes._under(scene.frame, part.lanes, row, self.view.cursor)


# What is shown


@settings(max_examples=15, deadline=None)
@given(
    st.sampled_from((["screen_time", "enter"], ["screen_calls"], [])),
    st.lists(st.sampled_from(sorted(MOVES)), max_size=15),
    st.sampled_from(((20, 5), (40, 10), (80, 24), (120, 40), (200, 60))),
    st.booleans(),
)
def test_whatever_is_pressed_a_screen_of_the_right_size_is_drawn(
    watch: WatchTrace, before: list[str], moves: list[str], size: tuple[int, int], ascii_only: bool
) -> None:
    seat = Seat(watch, "job", size)
    seat.glyphs = ASCII if ascii_only else UTF8
    for move in ["", *before, *moves]:
        if move:
            seat.press(move)
        rows = shell.draw(seat.scene)
        assert len(rows) == size[1]
        assert {cell_width(text_of(row)) for row in rows} == {size[0]}
        assert not ascii_only or all(text_of(row).isascii() for row in rows)


@pytest.mark.parametrize("window", [None, (0.5, 1.7), (2.1, 2.2)])
def test_shares_are_those_of_the_analysis(watch: WatchTrace, window: tuple[float, float] | None) -> None:
    query = Query(columns=100) if window is None else Query(columns=10, span=0.03, end=window[1] * STEP / 1e9)
    frame = watch.look(query)
    assert frame.part is not None
    low, high = (round(time * 1e9) for time in (frame.window.start, frame.window.end))
    found = analyze_timeline(TRACE, None if window is None else (low, high))
    time = frame.part.level.values("busy", None, 2, low, high - low, 1)[1][:, 0]
    for metric in ("busy", "compute", "communication", "exposed_communication", "copy", "exposed_copy"):
        expected = [getattr(gpu, f"{metric}_ns") for gpu in found.gpus]
        assert (frame.window.per_gpu(metric) * time).round().tolist() == expected, metric
    assert frame.window.per_gpu("overlap") == pytest.approx([gpu.overlap for gpu in found.gpus])


def test_job_says_how_the_time_divides_and_what_took_most(watch: WatchTrace) -> None:
    text = Seat(watch, "job").text()
    shares = [float(share) for share in re.findall(r"(?:compute|network|memory copy|idle) ([\d.]+) %", text)]
    assert len(shares) == 4
    assert sum(shares) == pytest.approx(100, abs=0.2)
    assert "score" not in text
    assert re.search(r"most .*cutlass::gemm_bwd", text)
    assert re.search(r"longest gap [\d.]+ ms at 0\.\d{6} s", text)


def test_the_colour_of_a_cell_is_its_letter_too(watch: WatchTrace) -> None:
    seat = Seat(watch)
    letters = dict(zip("cnmslrio", CATEGORIES, strict=True))
    rows = shell.draw(seat.scene)
    line = next(row for row in rows if re.search(r"mc+n", text_of(row)[24:]))
    seen = {span.role for span in line if span.role in CATEGORIES}
    assert {letters[char] for char in set(text_of(line)[24:]) & set(letters)} == seen
    assert "c compute" in text_of(rows[2])


def test_lines_are_gpus_streams_threads_and_processes_in_turn(watch: WatchTrace) -> None:
    seat = Seat(watch)
    nouns = []
    for _ in range(4):
        nouns.append((seat.frame.noun, seat.frame.n_gpus))
        seat.press("density")
    assert nouns == [("GPU", 2), ("stream", 4), ("thread", 2), ("process", 2)]
    assert seat.frame.noun == "GPU"


def test_counters_lie_under_the_timeline_and_are_metrics(watch: WatchTrace) -> None:
    seat = Seat(watch)
    assert re.search(r"memory.* max 29\.\d GiB", seat.text())
    while not seat.view.metric.startswith("counter:"):
        seat.press("next_metric")
    assert "memory allocated, GiB" in seat.text()
    assert np.nanmax(seat.frame.grid.values) == pytest.approx(30 * 2**30, rel=0.01)


def test_counters_that_differ_at_the_end_of_their_names_are_told_apart() -> None:
    times = np.array([0, 10_000_000])
    counters = tuple(Counter(f"Total Allocated (GPU {gpu})", "B", "gauge", times, times + 1.0) for gpu in (0, 1))
    watch = WatchTrace("trace.json", lambda: replace(TRACE, counters=counters))
    text = Seat(watch).text()
    assert all(f"(GPU {gpu}) max" in text for gpu in (0, 1))
    watch.close()


@pytest.mark.parametrize("presses", [[], ["enter"]])
def test_a_timeline_fills_a_large_screen(watch: WatchTrace, presses: list[str]) -> None:
    seat = Seat(watch, size=(100, 60)).press(*presses)
    text = seat.text().split("\n")
    assert sum(not line.strip() for line in text) <= 10, text


def test_a_short_trace_says_its_length_in_three_digits(watch: WatchTrace) -> None:
    for screen in ("job", "time"):
        assert "120 ms  2 GPUs" in Seat(watch, screen).text()
    assert "whole run, 120 ms" in Seat(watch).text()


def test_marks_of_the_program_are_events() -> None:
    own = TRACE.intervals
    kind = own.kind.copy()
    kind[at := np.flatnonzero(kind == Kind.CPU_OP)[0]] = Kind.MARK
    watch = WatchTrace("trace.json", lambda: replace(TRACE, intervals=replace(own, kind=kind)))
    (mark,) = (event for event in watch.look(Query()).events if event.kind == "mark")
    assert (mark.time, mark.message) == (own.start[at] / 1e9, TRACE.names[own.name[at]])
    assert mark.message in Seat(watch).press("events").text()
    watch.close()


def test_a_legend_has_no_marks_that_a_trace_never_has(watch: WatchTrace) -> None:
    text = Seat(watch, "gpus", (160, 48)).text()
    assert "! outlier" in text
    assert "throttled" not in text


def test_what_short_imbalance_costs_is_told_in_seconds(watch: WatchTrace) -> None:
    assert re.search(r"GPU-seconds lost 0\.0\d\d of 0\.2\d\d:", Seat(watch, "balance").text())


def test_zooming_ends_at_columns_of_a_microsecond_and_comes_back(watch: WatchTrace) -> None:
    seat = Seat(watch).press("left", *["left"] * 20)
    widths = []
    for _ in range(30):
        part = seat.press("zoom_in").frame.part
        assert part is not None and part.columns is not None
        widths.append(round(part.columns.width * 1e9))
    assert widths[-1] == 1000
    assert "1 column = 1 µs" in seat.text()
    assert seat.press(*["zoom_out"] * 30).view.span is None


def test_lines_have_all_columns_where_there_are_too_many_gpus_for_the_grid(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Seat(WatchTrace("a", lambda: TRACE)).frame
    monkeypatch.setattr(watch_trace, "MOST_CELLS", 20)
    frame = Seat(WatchTrace("a", lambda: TRACE)).frame
    assert frame.grid.n <= 11
    assert (
        frame.part is not None and whole.part is not None and frame.timeline is not None and whole.timeline is not None
    )
    assert np.array_equal(frame.part.split, whole.part.split, equal_nan=True)
    assert np.array_equal(frame.timeline.mean, whole.timeline.mean, equal_nan=True)


def test_tables_of_a_large_trace_come_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch_trace, "LARGE", 10)
    watch = WatchTrace("a", lambda: TRACE)
    query = shell.query(View(screen="calls"), 80, 24)
    assert watch.look(query, quick=True).state == "waiting"
    frame = watch.look(query)
    while not frame.refined:
        assert watch.growing
        frame = watch.look(query)
    assert not watch.growing
    assert frame.part is not None and frame.part.analysis is not None
    watch.close()


def test_a_large_trace_is_put_in_order_layer_by_layer_and_looks_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Seat(WatchTrace("a", lambda: TRACE)).press("zoom_in").frame
    monkeypatch.setattr(watch_trace, "LARGE", 10)
    monkeypatch.setattr(as_metrics, "_AT_ONCE", 10)
    seat = Seat(WatchTrace("a", lambda: TRACE)).press("zoom_in")
    frames = [seat.frame]
    while not frames[-1].refined:
        assert seat.watch.growing
        frames.append(seat.frame)
    assert len(frames) > 2
    for frame in frames:
        assert frame.part is not None and whole.part is not None
        assert np.array_equal(frame.part.split, whole.part.split, equal_nan=True)
        assert np.array_equal(frame.grid.values, whole.grid.values, equal_nan=True)


# Tracks, level by level


def test_a_gpu_is_opened_track_by_track_and_closed(watch: WatchTrace) -> None:
    seat = Seat(watch).press("down", "enter")
    text = seat.text()
    assert seat.view.opened
    assert "rank:1" in text and "stream 7" in text and "stream 20" in text
    assert not seat.press("back").view.opened


def test_a_process_is_opened_with_its_threads_and_streams(watch: WatchTrace) -> None:
    seat = Seat(watch, size=(120, 40)).press(*["density"] * 3, "enter", "left", *["left"] * 90, *["right"] * 18)
    text = seat.text()
    assert "python" in text and "stream 7" in text and "stream 20" in text
    part = seat.frame.part
    assert part is not None and part.lanes is not None
    seat.press(*["down"] * (len(part.lanes.track) - 1), "next_found")
    kernel = seat.under()
    assert TRACE.intervals.kind[kernel] == Kind.KERNEL
    call = seat.press("cause").under()
    assert TRACE.intervals.link[call] == TRACE.intervals.link[kernel]
    assert TRACE.intervals.kind[call] == Kind.RUNTIME and seat.frame.noun == "process"


def test_levels_of_a_thread_nest(watch: WatchTrace) -> None:
    seat = Seat(watch, size=(160, 40)).press("density", "density", "enter")
    text = seat.text()
    assert "ProfilerStep#0" in text
    assert [int(level) for level in re.findall(r"level (\d)", text)] == [1, 2, 3, 4]


def test_the_interval_under_the_cursor_is_told(watch: WatchTrace) -> None:
    seat = Seat(watch).press("enter", "left", *["left"] * 60, *["right"] * 8)
    name = TRACE.names[TRACE.intervals.name[seat.under()]]
    text = seat.text()
    assert f"─ {name} ─" in text
    assert re.search(r"takes [\d.]+ (?:µs|ms)", text)
    assert re.search(r"b launched by cudaLaunchKernel on python, 210 µs earlier", text)


def test_why_tells_in_what_the_chosen_interval_was_launched_and_what_is_open_beside_it(watch: WatchTrace) -> None:
    seat = Seat(watch, size=(150, 50)).press(
        "enter", "left", *["left"] * 60, *["right"] * 8, "next_found", "screen_why"
    )
    text = seat.text()
    name = TRACE.names[TRACE.intervals.name[np.flatnonzero(TRACE.intervals.start == round(seat.view.cursor * 1e9))[0]]]  # type: ignore[operator]
    assert re.search(
        rf"─ {name} ─+\n c compute \(kernel\) +at 0\.\d+ s +takes [^\n]*\n +b launched by cudaLaunchKernel on "
        r"[^\n]*, 210 µs earlier *\n +in aten::addmm < aten::linear < \w+ward < ProfilerStep#\d",
        text,
    )
    assert re.search(r"\n python +(?:.* < )?ProfilerStep#\d *\n", text)
    seat.view = replace(seat.view, cursor=None)
    assert "open at" not in seat.text()


@pytest.mark.parametrize("zooms", [0, 6])
def test_next_and_previous_go_along_all_intervals_of_a_name(watch: WatchTrace, zooms: int) -> None:
    seat = Seat(watch).press("enter", "left", *["left"] * 60, *["right"] * 8, *["zoom_in"] * zooms)
    seat.press("next_found")
    name, own = seat.view.name, TRACE.intervals
    assert name
    track = own.track[seat.under()]
    same = np.flatnonzero((own.name == TRACE.names.index(name)) & (own.track == track))
    found = [seat.under()]
    while True:
        before = seat.view
        if seat.press("next_found").view == before:
            break
        found.append(seat.under())
        assert seat.frame.grid.start <= seat.view.cursor < seat.frame.grid.end  # type: ignore[operator]
    assert found == same[-len(found) :].tolist()
    for place in found[-2::-1]:
        assert seat.press("previous_found").under() == place


def test_cause_and_effect_lead_to_each_other(watch: WatchTrace) -> None:
    seat = Seat(watch).press("enter", "left", *["left"] * 60, *["right"] * 8, "next_found")
    kernel = seat.under()
    call = seat.press("cause").under()
    assert TRACE.intervals.kind[call] == Kind.RUNTIME
    assert TRACE.intervals.link[call] == TRACE.intervals.link[kernel]
    assert seat.frame.noun == "thread"
    assert seat.press("cause").under() == kernel
    assert seat.frame.noun == "GPU"


def test_a_send_and_its_receive_lead_to_each_other() -> None:
    tracks = tuple(Track("cpu_thread", f"rank {rank}", rank, tid=rank) for rank in range(3))
    start, length = np.array([0, 0, 0, 200_000, 300_000]), np.array([1_000_000] * 3 + [250_000, 100_000])
    column = lambda *values: np.array(values, np.int32)  # noqa: E731
    calls = Intervals(
        start, length, column(0, 1, 2, 2, 0), column(0, 0, 0, 1, 2), np.full(5, Kind.CPU_OP, np.int8),
        np.array([Category.RANGE] * 3 + [Category.COMMUNICATION] * 2, np.int8), np.full(5, NO_LINK), np.full(5, -1),
        np.full(5, -1, np.int8),
    )  # fmt: skip
    no_collectives = Collectives(*(column() for _ in range(8)))
    sent = Messages(
        column(0), column(2), np.array([310_000]), np.array([440_000]), np.array([8]), column(0), ("world",),
        no_collectives,
    )  # fmt: skip
    names = ("main", "MPI_Recv", "MPI_Send")
    trace = Timeline((Source("made", "otf2"),), Clock(), tracks, names, calls, messages=sent)
    seat = Seat(WatchTrace("made", lambda: trace)).press("enter", "left", *["left"] * 80, *["right"] * 18, "down")
    assert trace.names[calls.name[seat.under()]] == "MPI_Send" and "message with MPI_Recv on rank 2" in seat.text()
    assert seat.press("cause").under() == 3 and seat.view.selected and "rank2" in seat.view.selected
    assert "message with MPI_Send on rank 0" in seat.text()
    assert seat.press("cause").under() == 4


# Calls


def test_calls_shows_one_table_after_another(watch: WatchTrace) -> None:
    seat = Seat(watch, "calls")
    titles = []
    for _ in range(8):
        titles.append(re.sub(r"  .*", "", seat.text().split("\n")[1])[2:])
        seat.press("density")
    assert titles == [
        "kernels", "ranges of the program", "operators", "calls of CUDA or HIP", "copies", "call tree: time", "functions",
        "kernels",
    ]  # fmt: skip


def test_of_copies_whose_size_is_unknown_no_bytes_are_shown() -> None:
    for name, n_bytes in (("rocm", "-"), ("straggler", "4,194,304")):
        (found,) = watches_of([str(SAMPLES / f"{name}-rank0.json.gz")])
        assert isinstance(found, WatchTrace)
        seat = Seat(found, "calls", (120, 24))
        while "[copies]" not in seat.text():
            seat.press("density")
        row = next(row.split() for row in seat.text().splitlines() if "HtoD" in row)
        assert row[3:6] == ["100", "%", "4"] and row[-2:] == [n_bytes, "HtoD"]
        assert " 1 name " in seat.text()
        found.close()


def test_names_are_sorted_and_looked_for(watch: WatchTrace) -> None:
    seat = Seat(watch, "calls")
    names = re.findall(r"(?:ms|µs)  ([^\W\d]\S+)", seat.text())
    assert names[0] == "cutlass::gemm_bwd"
    while "  name" not in "".join(span.text for span in shell.draw(seat.scene)[2] if span.role == "value"):
        seat.press("next_sort")
    by_name = re.findall(r"(?:ms|µs)  ([^\W\d]\S+)", seat.text())
    assert by_name == sorted(names, key=str.lower)
    seat.view = View(screen="calls", sought="NCCL*gather")
    assert "1 of 5 names" not in seat.text()
    seat.view = View(screen="calls", sought="gather")
    assert "1 of 5 names" in seat.text()
    assert seat.press("back").view.sought == ""


def test_a_name_becomes_a_metric(watch: WatchTrace) -> None:
    seat = Seat(watch, "calls").press("enter")
    assert seat.view.screen == "time"
    assert seat.view.metric == "name:cutlass::gemm_bwd"
    own = TRACE.intervals
    spent = own.length[own.name == TRACE.names.index("cutlass::gemm_bwd")].sum()
    assert seat.frame.window.total[-1].sum() == spent
    assert seat.press("back", "density", "enter").frame.noun == "thread"
    assert "backward, %" in seat.text()


def test_tables_are_of_the_window_and_the_selection(watch: WatchTrace) -> None:
    seat = Seat(watch, "calls")
    seat.view = View(screen="calls", span=0.04, end=0.08, selection=(1,), selected="rank:1")
    analysis = seat.frame.part.analysis  # type: ignore[union-attr]
    assert analysis is not None
    assert [gpu.rank for gpu in analysis.gpus] == [1]
    assert analysis.window[1] <= 80_000_000


# Without a trace


def test_without_a_trace_nothing_of_it_is_offered() -> None:
    frame = frames.frame_of([[0.5, 0.7], [0.2, 0.3]])
    told = {action.help for action in ACTIONS if action.traces}
    assert told
    for screen in NAMES[:-1]:
        scene = Scene(frame, None, View(screen=screen), 200, 60, UTF8)  # type: ignore[arg-type]
        footer = text_of(shell.footer(scene))
        assert "Calls" not in footer and "b cause" not in footer
    helps = "\n".join(text_of(row) for row in shell.draw(scene._replace(view=View(overlay="help"))))
    assert not [text for text in told if text[:30] in helps]


def test_keys_of_traces_do_nothing_without_one(plants: dict[str, str]) -> None:
    app = LiveScreen(watches_of([plants["before"]]), UTF8, 10.0, 256)

    async def run() -> None:
        async with app.run_test(size=(80, 24)) as pilot:
            while not app.frames:
                await pilot.pause(0.02)
            for key in ("8", "f", "F", "b"):
                view = app.view
                await pilot.press(key)
                assert app.view == view

    asyncio.run(run())


# What is opened


def kineto(path: Path, rank: int, begin: float = 0.0) -> Path:
    """A small trace as torch.profiler writes it."""
    events = [
        {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 9, "tid": 9, "ts": begin, "dur": 900.0, "args": {}}
    ]
    for number in range(20):
        at, link = begin + 40.0 * number, {"correlation": number + 1}
        events.append(
            {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 9, "tid": 9, "ts": at + 1, "dur": 5.0,
             "args": link}
        )  # fmt: skip
        events.append(
            {"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce" if number % 4 == 3 else "gemm\x1b[31m", "pid": 0,
             "tid": 7, "ts": at + 10, "dur": 25.0, "args": link | {"stream": 7, "device": 0}}
        )  # fmt: skip
    found = {"schemaVersion": 1, "distributedInfo": {"rank": rank, "world_size": 2}, "traceEvents": events}
    path.write_text(json.dumps(found))
    return path


def test_files_of_several_ranks_are_one_trace_and_those_of_one_are_compared(tmp_path: Path) -> None:
    one, two = (str(kineto(tmp_path / f"{rank}.json", rank)) for rank in (0, 1))
    again = str(kineto(tmp_path / "again.json", 0))
    assert [len(watch.look(Query()).gpus) for watch in watches_of([one, two])] == [2]
    assert [len(watch.look(Query()).gpus) for watch in watches_of([one, again])] == [1, 1]


def test_traces_of_runs_at_different_times_are_compared_and_not_drawn_as_one(tmp_path: Path, tmux: Tmux) -> None:
    """Without ranks, 80 minutes apart: once drawn as one run of twice the GPUs and 80 minutes."""
    paths = []
    for name, minutes in (("before", 0), ("after", 80)):
        path = kineto(tmp_path / f"{name}.json", 0)
        found = json.loads(path.read_text())
        del found["distributedInfo"]
        path.write_text(json.dumps(found | {"baseTimeNanoseconds": 1_767_225_600 * 10**9 + minutes * 60 * 10**9}))
        paths.append(str(path))
    before, after = watches_of(paths)
    assert (before.path, after.path) == (paths[0], paths[1])
    assert [len(watch.look(Query()).gpus) for watch in (before, after)] == [1, 1]
    tmux.start(*paths, TERM="xterm-256color")
    tmux.shows(r"before\.json .* 1 GPU .*Job 1/8")
    tmux.press("7")
    tmux.shows(r"Compare 7/8\n(.*\n)*.*B-A")
    tmux.press("q")
    assert gone(tmux.pid)


def test_of_gpus_that_take_turns_no_screen_says_that_all_is_well(tmp_path: Path) -> None:
    events = [
        {"ph": "X", "cat": "kernel", "name": "gemm", "pid": at // 5, "tid": 7, "ts": 1000 * at, "dur": 990,
         "args": {"device": at // 5, "stream": 7}}
        for at in range(10)
    ]  # fmt: skip
    path = tmp_path / "stages.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    (watch,) = watches_of([str(path)])
    with closing(watch):
        frame = watch.look(Query(columns=60, rows=20, causes=TABLE, tables=True))
    assert frame.whole.overall()["busy"] == pytest.approx(0.4952, abs=1e-3)
    assert frame.judgement is not None
    assert [each.code for each in frame.judgement.verdicts][:1] == ["gpus_in_turn"]
    for screen in ("job", "balance", "why", "time"):
        text = "\n".join(text_of(row) for row in shell.draw(Scene(frame, None, View(screen=screen), 120, 40, UTF8)))
        assert "nothing stands out" not in text and "balanced:" not in text
        if screen == "balance":
            assert "in turn: alike over time" in text


def test_a_recording_and_a_trace_are_not_looked_at_together(tmp_path: Path, plants: dict[str, str]) -> None:
    path = str(kineto(tmp_path / "a.json", 0))
    with pytest.raises(ValueError, match=r"is no trace, and .*a\.json is one"):
        watches_of([plants["before"], path])
    with pytest.raises(ValueError, match="--run"):
        watches_of([path], "1")


def test_a_trace_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"schemaVersion": 1, "traceEvents": [{"ph": "M", "name": "process_name", "args": {}}]}')
    (watch,) = watches_of([str(path)])
    scene = Scene(watch.look(Query()), None, View(), 80, 24, UTF8)
    assert "a.json" in "\n".join(text_of(row) for row in shell.draw(scene))


def test_a_trace_in_a_real_terminal(tmp_path: Path, tmux: Tmux) -> None:
    tmux.start(*(str(kineto(tmp_path / f"rank{rank}.json", rank)) for rank in (0, 1)), TERM="xterm-256color")
    tmux.shows(r"Job 1/8\n(.*\n)*? busy +\d")
    tmux.press("4")
    tmux.shows(r"Time 4/8\n(.*\n)*.*rank:0 (.*\n)*.*rank:1 ")
    tmux.press("Enter")
    tmux.shows(r"stream 7 ")
    tmux.press(*["Left"] * 12, "b")
    tmux.shows(r"aten::mm")
    tmux.press("Escape")
    tmux.shows(r"rank:1 ")
    tmux.press("8")
    assert "\x1b" not in tmux.shows(r"Calls 8/8\n(.*\n)*.*gemm")
    tmux.press("q")
    assert gone(tmux.pid)


def test_two_traces_are_compared(tmp_path: Path) -> None:
    watches = watches_of([str(kineto(tmp_path / f"{name}.json", 0)) for name in ("a", "b")])
    app = LiveScreen(watches, UTF8, 10.0, 256)

    def drawn() -> str:
        return "\n".join(text_of(row) for row in app._canvas.rows())

    async def run() -> None:
        async with app.run_test(size=(80, 24)) as pilot:
            while "busy" not in drawn():  # before the first look there is no screen to leave
                await pilot.pause(0.02)
            await pilot.press("7")
            while "B-A" not in drawn():
                await pilot.pause(0.02)
            assert re.search(r"busy % +\d", drawn())

    asyncio.run(run())


@pytest.mark.parametrize("told", [True, False], ids=["ranks", "processes of one report"])
def test_gpus_takes_each_name_that_a_screen_or_a_page_shows(
    told: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, files, report = labelled(tmp_path, "straggler", 0, 2)
    names = [str(file) for file in files] if told else [str(report)]
    (watch,) = watches_of(names)
    with closing(watch):
        frame = watch.look(Query(columns=20))
    shown = [frame.place(gpu) for gpu in range(2)]
    assert len(set(shown)) == 2
    assert main(["analyze", "--ascii", *names]) == 0
    page = capsys.readouterr().out
    assert main(["analyze", "--json", *names]) == 0
    found = json.loads(capsys.readouterr().out)
    for rows in (found["ranks"], found["kernels_by_rank"], found["gaps"], found["kernel_types"]):
        assert {row["place"] for row in rows} <= set(shown)
    assert {row["place"] for row in found["ranks"]} == set(shown) == {row["place"] for row in found["kernels_by_rank"]}
    assert main(["analyze", "--csv", "ranks", *names]) == 0
    table = capsys.readouterr().out
    every = [*shown, "rank 0 GPU 0", "rank 1 GPU 1"] if told else shown
    for at, name in enumerate(every):
        if name in shown:
            assert f"{name} " in page and f",{name}\n" in table
        assert main(["analyze", "--json", "--gpus", name, *names]) == 0
        (own,) = json.loads(capsys.readouterr().out)["ranks"]
        assert own["place"] == shown[at % 2]  # as if all were looked at
        assert not told or own["rank"] == at % 2
