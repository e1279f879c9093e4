"""A trace as the screen asks for it: shares as metrics, lines by category, tracks level by level; where the cursor goes."""

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gssr.cli import main
from gssr.commands.tui import watches_of
from gssr.model.live import watched_trace
from gssr.model.live.live_result import Query, Result
from gssr.model.live.watch import Watch
from gssr.model.live.watched_trace import WatchedTrace
from gssr.model.traces import levels
from gssr.model.traces.analyze_trace import analyze_timeline
from gssr.model.traces.flows import partner, stream_wait
from gssr.model.verdicts.rules import TABLE
from gssr.render.glyphs import UTF8
from gssr.render.roles import text_of
from gssr.report.live.gpu_filter import only_of
from gssr.report.live.interval import interval_rows
from gssr.traces.timeline import (
    NO_LINK,
    Category,
    Clock,
    Collectives,
    Intervals,
    Kind,
    Messages,
    Timeline,
    TraceSource,
    Track,
)
from gssr.tui.moves import MOVES
from gssr.tui.time.window import cells_over, scrubbed
from gssr.tui.trace.cursor import cause, find, picked
from gssr.tui.view import Scene, View
from tests.fakes.traces.samples import labelled
from tests.fakes.training import STEP, Made, training

TRACE = training(3)
OF_TRACES = {"next_found": find(1), "previous_found": find(-1), "cause": cause}


class Seat:
    """Somebody before Time: moves the cursor, and looks at what there is."""

    def __init__(self, watch: Watch, columns: int = 56) -> None:
        self.watch, self.columns = watch, columns
        self.view = View(screen="time")

    @property
    def frame(self) -> Result:
        query = replace(self.view.query(self.columns, 40), only=only_of(self.view.filter), causes=TABLE)
        return self.watch.look(query)

    @property
    def scene(self) -> Scene:
        return Scene(self.frame, None, self.view)

    def press(self, *names: str) -> "Seat":
        for name in names:
            scene = self.scene
            if name in ("left", "right"):
                cells = cells_over(scene.frame, scene.frame.grid.n)
                self.view = scrubbed(scene.frame, self.view, -1 if name == "left" else 1, cells)
            elif name in ("up", "down"):
                lanes = scene.frame.part.lanes if scene.frame.part else None
                lines = scene.frame.timeline.members if scene.frame.timeline else ()
                n = len(lanes.track) if lanes is not None else len(lines)
                self.view = replace(
                    self.view, row=min(max(self.view.row + (1 if name == "down" else -1), 0), max(n - 1, 0))
                )
            elif name == "enter":
                assert scene.frame.timeline is not None
                members = tuple(scene.frame.timeline.members[self.view.row].tolist())
                name = scene.frame.place(members[0])
                self.view = self.view.down(opened=True, selection=members, selected=name, row=0, top=0)
            else:
                self.view = {**MOVES, **OF_TRACES}[name](scene)
        return self

    def text(self) -> str:
        """What is told of that interval."""
        scene = self.scene
        assert scene.frame.part is not None
        return "\n".join(map(text_of, interval_rows(scene.frame, scene.frame.part, self.under(), self.columns, UTF8)))

    def under(self) -> int:
        """The interval under the cursor."""
        return picked(self.scene)


@pytest.fixture(scope="module")
def watch() -> Iterator[Watch]:
    found = WatchedTrace("trace.json", lambda: TRACE)
    yield found
    found.close()


@pytest.mark.parametrize("window", [None, (0.5, 1.7), (2.1, 2.2)])
def test_shares_are_those_of_the_analysis(watch: Watch, window: tuple[float, float] | None) -> None:
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


def test_lines_are_gpus_streams_threads_and_processes_in_turn(watch: Watch) -> None:
    seat = Seat(watch)
    nouns = []
    for _ in range(4):
        nouns.append((seat.frame.noun, seat.frame.n_gpus))
        seat.press("level")
    assert nouns == [("GPU", 2), ("stream", 4), ("thread", 2), ("process", 2)]
    assert seat.frame.noun == "GPU"


def test_marks_of_the_program_are_events() -> None:
    own = TRACE.intervals
    kind = own.kind.copy()
    kind[at := np.flatnonzero(kind == Kind.CPU_OP)[0]] = Kind.MARK
    watch = WatchedTrace("trace.json", lambda: replace(TRACE, intervals=replace(own, kind=kind)))
    (mark,) = (event for event in watch.look(Query()).events if event.kind == "mark")
    assert (mark.time, mark.message) == (own.start[at] / 1e9, TRACE.names[own.name[at]])
    watch.close()


def test_zooming_ends_at_columns_of_a_microsecond_and_comes_back(watch: Watch) -> None:
    seat = Seat(watch).press("left", *["left"] * 20)
    widths = []
    for _ in range(30):
        part = seat.press("zoom_in").frame.part
        assert part is not None and part.columns is not None
        widths.append(round(part.columns.width * 1e9))
    assert widths[-1] == 1000
    assert seat.press(*["zoom_out"] * 30).view.span is None


def test_lines_have_all_columns_where_there_are_too_many_gpus_for_the_grid(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Seat(WatchedTrace("a", lambda: TRACE)).frame
    monkeypatch.setattr(watched_trace, "MOST_CELLS", 20)
    frame = Seat(WatchedTrace("a", lambda: TRACE)).frame
    assert frame.grid.n <= 11
    assert (
        frame.part is not None and whole.part is not None and frame.timeline is not None and whole.timeline is not None
    )
    assert np.array_equal(frame.part.split, whole.part.split, equal_nan=True)
    assert np.array_equal(frame.timeline.mean, whole.timeline.mean, equal_nan=True)


def test_tables_of_a_large_trace_come_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watched_trace, "LARGE", 10)
    watch = WatchedTrace("a", lambda: TRACE)
    query = View(screen="calls").query(80)
    assert watch.look(query, quick=True).state == "waiting"
    frame = watch.look(query)
    while not frame.refined:
        assert watch.growing
        frame = watch.look(query)
    assert not watch.growing
    assert frame.part is not None and frame.part.analysis is not None
    watch.close()


def test_a_large_trace_is_put_in_order_layer_by_layer_and_looks_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Seat(WatchedTrace("a", lambda: TRACE)).press("zoom_in").frame
    monkeypatch.setattr(watched_trace, "LARGE", 10)
    monkeypatch.setattr(levels, "_AT_ONCE", 10)
    seat = Seat(WatchedTrace("a", lambda: TRACE)).press("zoom_in")
    frames = [seat.frame]
    while not frames[-1].refined:
        assert seat.watch.growing
        frames.append(seat.frame)
    assert len(frames) > 2
    for frame in frames:
        assert frame.part is not None and whole.part is not None
        assert np.array_equal(frame.part.split, whole.part.split, equal_nan=True)
        assert np.array_equal(frame.grid.values, whole.grid.values, equal_nan=True)


def test_a_process_is_opened_with_its_threads_and_streams(watch: Watch) -> None:
    seat = Seat(watch, 90).press(*["level"] * 3, "enter", "left", *["left"] * 90, *["right"] * 18)
    part = seat.frame.part
    assert part is not None and part.lanes is not None
    assert {TRACE.tracks[at].name for at in part.lanes.track.tolist()} >= {"python", "stream 7", "stream 20"}
    seat.press("next_found")
    kernel = seat.under()
    assert TRACE.intervals.kind[kernel] == Kind.KERNEL
    call = seat.press("cause").under()
    assert TRACE.intervals.link[call] == TRACE.intervals.link[kernel]
    assert TRACE.intervals.kind[call] == Kind.RUNTIME and seat.frame.noun == "process"


@pytest.mark.parametrize("zooms", [0, 6])
def test_next_and_previous_go_along_all_intervals_of_a_name(watch: Watch, zooms: int) -> None:
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


def test_streams_stand_above_the_threads_that_launch(watch: Watch) -> None:
    part = Seat(watch).press("enter").frame.part
    assert part is not None and part.lanes is not None
    kinds = [TRACE.tracks[at].kind for at in part.lanes.track.tolist()]
    assert kinds == sorted(kinds, key="gpu_stream".__ne__) and set(kinds) == {"gpu_stream", "cpu_thread"}
    own = TRACE.intervals
    assert (own.track[part.lanes.places] == part.lanes.track[part.lanes.lane]).all()


def test_cause_and_effect_lead_to_each_other(watch: Watch) -> None:
    seat = Seat(watch).press("enter", "left", *["left"] * 60, *["right"] * 8, "next_found")
    kernel = seat.under()
    call = seat.press("cause").under()
    assert TRACE.intervals.kind[call] == Kind.RUNTIME
    assert TRACE.intervals.link[call] == TRACE.intervals.link[kernel]
    assert seat.press("cause").under() == kernel
    assert seat.frame.noun == "GPU"


def test_what_work_waited_for_adds_up_to_the_time_since_its_launch() -> None:
    made = Made()
    thread, stream, side = (made.track(Track(*of)) for of in (
        ("cpu_thread", "main", 0, "n", 1, 1), ("gpu_stream", "7", 0, "n", 1, None, 0, None, 7),
        ("gpu_stream", "8", 0, "n", 1, None, 0, None, 8),
    ))  # fmt: skip
    made.launched(thread, 0, stream, "ended before", Category.COMPUTE, 10_000, 20_000)
    made.launched(thread, 20_000, stream, "first", Category.COMPUTE, 40_000, 50_000)
    made.launched(thread, 26_000, side, "elsewhere", Category.COMPUTE, 40_000, 500_000)
    made.launched(thread, 60_000, stream, "second", Category.COMPUTE, 95_000, 10_000)
    made.launched(thread, 80_000, stream, "third", Category.COMPUTE, 105_000, 9_000)
    seat = Seat(WatchedTrace("trace.json", made.timeline)).press("enter")
    found = {}
    for name in ("ended before", "first", "elsewhere", "second", "third"):
        trace = seat.scene.frame.part.trace  # type: ignore[union-attr]
        place = int(np.flatnonzero(trace.intervals.name == trace.names.index(name))[0])
        rows = interval_rows(seat.scene.frame, seat.scene.frame.part, place, 120, UTF8)  # type: ignore[arg-type]
        (found[name],) = [text.removeprefix("  waited ") for text in map(text_of, rows) if "waited" in text]
        call = partner(trace, place)
        wait = stream_wait(trace, call, place)
        between = int(trace.intervals.start[place] - trace.intervals.start[call])
        assert sum(ns for _, ns in wait.behind) + wait.free == between
    assert found == {
        "ended before": "10.0 µs while its stream was free",
        "first": "10.0 µs while its stream was free, 10.0 µs on its stream behind ended before",
        "elsewhere": "14.0 µs while its stream was free",
        "second": "5.00 µs while its stream was free, 30.0 µs on its stream behind first",
        "third": "5.00 µs while its stream was free, 20.0 µs on its stream behind 2 pieces of work, the longest first",
    }
    for width in (60, 30):
        rows = [text_of(row) for row in interval_rows(seat.scene.frame, seat.scene.frame.part, place, width, UTF8)]  # type: ignore[arg-type]
        at = next(at for at, row in enumerate(rows) if "waited" in row)
        said = " ".join(row.strip() for row in rows[at : at + 2])
        assert said == f"waited {found['third']}" if width == 60 else said.endswith("…")


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
    trace = Timeline((TraceSource("made", "otf2"),), Clock(), tracks, names, calls, messages=sent)
    seat = Seat(WatchedTrace("made", lambda: trace)).press("enter", "left", *["left"] * 80, *["right"] * 18, "down")
    assert trace.names[calls.name[seat.under()]] == "MPI_Send" and "message with MPI_Recv on rank 2" in seat.text()
    assert seat.press("cause").under() == 3 and seat.view.selected and "rank2" in seat.view.selected
    assert "message with MPI_Send on rank 0" in seat.text()
    assert seat.press("cause").under() == 4


def test_tables_are_of_the_window_and_the_selection(watch: Watch) -> None:
    seat = Seat(watch)
    seat.view = View(screen="calls", span=0.04, end=0.08, selection=(1,), selected="rank:1")
    analysis = seat.frame.part.analysis  # type: ignore[union-attr]
    assert analysis is not None
    assert [gpu.rank for gpu in analysis.gpus] == [1]
    assert analysis.window[1] <= 80_000_000


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


def test_a_recording_and_a_trace_are_not_looked_at_together(tmp_path: Path, plants: dict[str, str]) -> None:
    path = str(kineto(tmp_path / "a.json", 0))
    with pytest.raises(ValueError, match=r"is no trace, and .*a\.json is one"):
        watches_of([plants["before"], path])
    with pytest.raises(ValueError, match="--run"):
        watches_of([path], "1")


@pytest.mark.parametrize("told", [True, False], ids=["ranks", "processes of one report"])
def test_gpus_takes_each_name_that_a_screen_or_a_page_shows(
    told: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files, report = labelled(tmp_path, "straggler")
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
