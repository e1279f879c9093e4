"""Metrics of one's own, filters of intervals, bands that spend their time alike, and comparing traces, on the screens."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from test_trace_moves import Seat
from textual.pilot import Pilot

from gssr.cli import main
from gssr.model import custom_metrics as customs
from gssr.model.custom_metrics import custom
from gssr.model.live.alignment import aligned, origins
from gssr.model.live.watch import Watch
from gssr.model.live.watched_trace import WatchedTrace
from gssr.model.traces.levels import LevelName
from gssr.model.verdicts.rules import TABLE
from gssr.traces.open import open_traces
from gssr.traces.timeline import Category, Kind, Timeline, Track
from gssr.tui.app import LiveScreen
from gssr.tui.moves import measured
from gssr.tui.view import View
from tests import looking
from tests.fakes.traces import kineto, loop, nsys
from tests.fakes.traces.cube import Call, Location, Metric, archive, files, write_solver
from tests.fakes.training import Made, training
from tests.looking import live_screen, looked_at, open_tab, seen, until

TRACE = training(3)
WAIT = custom("wait=share(/^nccl/)")


@pytest.fixture(scope="module")
def watch() -> Iterator[Watch]:
    found = WatchedTrace("trace.json", lambda: TRACE, (WAIT, custom("n=count(/gemm/)"), custom("ops=count(/^aten::/)")))
    yield found
    found.close()


def seat_of(watch: Watch, **view: object) -> Seat:
    seat = Seat(watch)
    seat.view = replace(seat.view, **view)
    return seat


def test_find_goes_along_all_names_of_a_metric(watch: Watch) -> None:
    seat, found = seat_of(watch, metric=WAIT.metric, cursor=0.0), []
    for _ in range(3):
        seat.press("next_found")
        found.append(seat.view.cursor)
    names = [TRACE.names[at].startswith("nccl") for at in TRACE.intervals.name]
    starts = sorted(TRACE.intervals.start[np.array(names)].tolist())
    assert found == [pytest.approx(at / 1e9) for at in dict.fromkeys(starts) if at][:3] or found[0] >= starts[0] / 1e9


# Filters


def test_lines_are_those_of_the_filter_whatever_was_shown_before() -> None:
    watch = WatchedTrace("trace.json", lambda: TRACE)
    every, some = (seat_of(watch, filter=text).scene.frame for text in ("", "name=nccl"))
    alone = seat_of(WatchedTrace("trace.json", lambda: TRACE), filter="name=nccl").scene.frame
    assert some.timeline is not None and alone.timeline is not None and every.timeline is not None
    assert np.array_equal(some.timeline.mean, alone.timeline.mean, equal_nan=True)
    assert not np.array_equal(some.timeline.mean, every.timeline.mean, equal_nan=True)


def test_words_of_a_filter_must_all_hold(watch: Watch) -> None:
    def left(text: str) -> set[str]:
        trace = seat_of(watch, filter=text).scene.frame.part.trace  # type: ignore[union-attr]
        return {trace.names[at] for at in trace.intervals.name}

    named = {name for name in left("") if "gemm" in name.lower() or "nccl" in name}
    assert left("name=gemm,nccl") == {*named, "cudaLaunchKernel"}, "what launched them stays"
    assert left("name=*gemm*") <= left("name=gemm") and left("name=gemm takes>100s") == set()
    assert left("takes>1ms takes<2ms") <= left("takes>1ms") < left("")
    assert left("rank:0") == left(""), "who is shown is no matter of intervals"


# Rows that spend their time alike


def clusters() -> Timeline:
    """40 threads of which 30 compute, 8 wait half of the time, at odd times, and 2 do next to nothing."""
    made = Made()
    for k in range(40):
        thread = made.track(Track("cpu_thread", f"worker {k}", k // 10, "n", tid=k))
        share, kind = (9, Category.COMPUTE) if k < 30 else (5, Category.SYNC) if k < 38 else (1, Category.IO)
        made.add(thread, "all", Kind.CPU_OP, Category.OTHER, 0, 100_000)
        for at in range(10):
            made.add(thread, f"work {kind.name}", Kind.CPU_OP, kind, at * 10_000 + (k * 700) % 3_000, share * 700)
    return made.timeline()


def test_no_panel_tells_of_gpu_time_where_no_gpu_did_anything() -> None:
    watch = WatchedTrace("trace.json", exchanging)
    job, time, why = looked_at(watch, views=[View(screen=screen) for screen in ("job", "time", "why")], size=(80, 24))
    watch.close()
    assert "where the thread time went" in job and "of the thread time is communication" in job
    assert re.search(r"communication +9\d", time)
    assert "no GPU did anything that was traced" in why
    assert not any("where the GPU time" in text for text in (job, time, why))


def exchanging() -> Timeline:
    """Two threads that wait for messages."""
    made = Made()
    for rank in range(2):
        thread = made.track(Track("cpu_thread", "main", rank, "n", tid=rank))
        made.add(thread, "MPI_Recv", Kind.CPU_OP, Category.COMMUNICATION, 0, 95_000)
        made.add(thread, "solve", Kind.CPU_OP, Category.OTHER, 95_000, 5_000)
    return made.timeline()


# What an interval's file says of it


# Two and more traces


def traced(folder: Path, name: str, factor: int = 1, first: int = 3) -> str:
    """A trace of 3 steps from ``first`` on, whose second kernel takes ``factor`` times as long."""
    folder.mkdir(exist_ok=True)
    events = [{"ph": "X", "cat": "cpu_op", "name": "setup", "pid": 1, "tid": 1, "ts": 0, "dur": 400 * first}]
    for at in range(3):
        t = 1000 * (at + first)
        step = {"cat": "user_annotation", "name": f"ProfilerStep#{at + first}", "pid": 1, "tid": 1, "ts": t, "dur": 900}
        on_gpu = {"cat": "kernel", "pid": 0, "tid": 7, "args": {"device": 0, "stream": 7}}
        events += [{"ph": "X", **step}, {"ph": "X", **on_gpu, "name": "gemm", "ts": t + 10, "dur": 200}]
        events.append({"ph": "X", **on_gpu, "name": name, "ts": t + 300, "dur": 100 * factor})
    head = {"schemaVersion": 1, "distributedInfo": {"rank": 0}, "baseTimeNanoseconds": 1767225600000000000}
    (folder / "rank0.json").write_text(json.dumps(head | {"traceEvents": events}))
    return str(folder)


def test_compare_says_which_names_take_more_and_which_are_new(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = [traced(tmp_path / "a", "add"), traced(tmp_path / "b", "add", 5), traced(tmp_path / "c", "mul", first=4)]
    assert main(["compare", "--json", *names]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["schema"] == "gssr.trace-compare/1" and [each["b"] for each in found["comparisons"]] == ["B", "C"]
    slower, other = ({each["name"]: each for each in one["names"]} for one in found["comparisons"])
    assert slower["add"]["difference_ns"] == 3 * 400_000
    assert slower["add"]["a"] == {"count": 3, "total_ns": 300_000, "mean_ns": 100_000.0}
    assert slower["gemm"]["difference_ns"] == 0
    assert other["add"]["b"] is None and other["mul"]["a"] is None
    numbers = {each["name"]: each for each in found["comparisons"][0]["numbers"]}
    assert numbers["imbalance of compute"]["a"] is None, "there is one GPU"
    assert numbers["busy"]["b"] > numbers["busy"]["a"]
    for width in (40, 80, 120):
        assert main(["compare", "--ascii", "--width", str(width), *names]) == 0
        page = capsys.readouterr().out
        assert all(len(line) <= width for line in page.splitlines() if not line.startswith("GSSR compare"))
        assert re.search(r"add .*\+400\.0 %", page) and "only A" in page and "only C" in page
    assert main(["compare", "--json", "--steps", "4-5", *names]) == 0
    steps = json.loads(capsys.readouterr().out)["comparisons"][1]
    assert {each["name"]: each["a"] and each["a"]["count"] for each in steps["names"]}["gemm"] == 2


def test_names_that_count_on_are_one_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = [tmp_path / f"{name}.json" for name in "ab"]
    for at, path in enumerate(paths):
        events = [
            {"ph": "X", "cat": "user_annotation", "name": f"aten::to, seq = {k}, op_id = {1000 * at + k}", "pid": 1,
             "tid": 1, "ts": 100 * k, "dur": 10 + at} for k in range(5)
        ]  # fmt: skip
        path.write_text(json.dumps({"schemaVersion": 1, "distributedInfo": {"rank": 0}, "traceEvents": events}))
    assert main(["compare", "--json", *map(str, paths)]) == 0
    found = {each["name"]: each for each in json.loads(capsys.readouterr().out)["comparisons"][0]["names"]}
    assert list(found) == ["aten::to"] and found["aten::to"]["difference_ns"] == 5000
    assert found["aten::to"]["b"]["count"] == 5


def test_profiles_are_compared_function_by_function(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = [str(write_solver(tmp_path / f"{name}.cubex")) for name in "ab"]
    assert main(["compare", "--json", *names]) == 0
    (found,) = json.loads(capsys.readouterr().out)["comparisons"]
    numbers = {each["name"]: each["a"] for each in found["numbers"]}
    assert numbers["user"] + numbers["mpi"] + numbers["openmp"] + numbers["cuda"] == pytest.approx(1.0)
    assert numbers["imbalance of user"] > numbers["imbalance of openmp"] == pytest.approx(0.0)
    assert {each["difference_ns"] for each in found["names"]} == {0}
    assert {each["name"]: each["a"]["count"] for each in found["names"]}["MPI_Allreduce"] == 40


def test_compare_says_how_even_each_function_was_before_and_after(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The work of the rank that has most is divided, and a second function has the name of the first."""
    places = [Location("n", rank) for rank in range(4)]
    calls = (Call("main", calls=(Call("work"), Call("work", "openmp", "barrier"))),)
    names = []
    for name, work in (("a", [1.0, 1, 1, 5]), ("b", [2.0, 2, 2, 2])):
        metrics = [
            Metric("visits", "UINT64", "EXCLUSIVE", "occ", np.ones((3, 4))),
            Metric("time", "DOUBLE", "EXCLUSIVE", "sec", np.array([[0.5] * 4, work, [1.0] * 4])),
        ]
        names.append(str(tmp_path / f"{name}.cubex"))
        Path(names[-1]).write_bytes(archive(files(calls, places, metrics)))
    assert main(["compare", "--json", *names]) == 0
    (found,) = json.loads(capsys.readouterr().out)["comparisons"]
    work = next(each for each in found["names"] if each["name"] == "work")
    assert (work["a"]["count"], work["a"]["total_ns"], work["difference_ns"]) == (8, 12e9, 0)
    assert (work["a"]["imbalance"], work["b"]["imbalance"]) == (0.5, 0.0)
    for width, has in ((40, False), (80, True), (120, True)):
        assert main(["compare", "--ascii", "--width", str(width), *names]) == 0
        page = capsys.readouterr().out
        assert all(len(line) <= width for line in page.splitlines() if not line.startswith("GSSR compare"))
        assert bool(re.search(r"work .* 50\.0 +0\.0", page)) is has, page


@pytest.mark.parametrize(
    ("options", "said"),
    [((), "one trace: name from 2"), (("--fail-below", "0.5"), "are not for traces"), (("--steps", "99"), "no step from 99"),
     (("RECORDING",), "is none: they can't be compared"), (("BROKEN",), "BROKEN")],
)  # fmt: skip
def test_compare_refuses_what_it_cannot_do_in_a_sentence(
    options: tuple[str, ...],
    said: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    names = [traced(tmp_path / "a", "add"), traced(tmp_path / "b", "add", 5)]
    Path("RECORDING").write_bytes(b"nothing")
    Path("BROKEN").mkdir()
    assert main(["compare", *(names if options else names[:1]), *options]) in (1, 2)
    told = capsys.readouterr().err
    assert said in told and told.count("\n") == 1


def test_the_screen_takes_metrics_of_ones_own_from_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    apps: list[LiveScreen] = []
    for place, then in (("on_terminal", True), ("take_terminal", None)):
        monkeypatch.setattr(f"gssr.commands.screen.{place}", lambda *_, then=then: then)
    monkeypatch.setattr(LiveScreen, "run", lambda app, **_: apps.append(app))
    name = traced(tmp_path / "a", "add")
    for last, shown in ((["--metric", "busy"], "busy"), ([], custom("adds=count(/add/)").metric)):
        assert main(["tui", "--metric", "none=share(/zzz/)", "--metric", "adds=count(/add/)", *last, name]) == 0
        assert apps[-1].view.metric == shown
        (watch,) = apps[-1]._watches
        found = watch.look(apps[-1].view.query(20)).whole.names
        assert [each for each in found if each.startswith("own:")] == [custom("adds=count(/add/)").metric]


@pytest.mark.parametrize("command", ["tui", "analyze", "export"])
def test_metrics_of_ones_own_are_of_traces(
    command: str,
    plants: dict[str, str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("gssr.commands.screen.on_terminal", lambda: True)
    name = traced(tmp_path / "a", "add")
    output = ["-o", str(tmp_path / "out")] if command == "export" else []
    assert main([command, *output, "--metric", "x=sum(/y/)", name]) == 2 or command == "export"
    assert "write NAME=share(/PATTERN/)" in capsys.readouterr().err
    assert main([command, *output, "--metric", "x=share(/y/)", plants["healthy"]]) == 2
    assert "trace" in capsys.readouterr().err


def test_metrics_of_ones_own_are_on_the_page_in_json_and_in_tables(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = traced(tmp_path / "a", "add")
    asked = ["--metric", "adds=share(/^add$/)", "--metric", "none=count(/zzz/)"]
    assert main(["analyze", "--ascii", *asked, name]) == 0
    assert re.search(r"adds +1 GPU +12\.6 %[^\n]*\nnone +no name fits", capsys.readouterr().out)
    assert main(["analyze", "--json", *asked, name]) == 0
    first, second = json.loads(capsys.readouterr().out)["metrics"]
    assert first["value"] == pytest.approx(300 / 2390) and (first["place"], first["unit"]) == ("rank:0", "1")
    assert (second["value"], second["level"], second["place"]) == (None, None, None)
    assert main(["analyze", "--csv", "metrics", *asked, name]) == 0
    assert capsys.readouterr().out.startswith(
        "name,expression,unit,level,rank,place,value\nadds,share(/^add$/),1,GPU,0,rank:0,"
    )
    folder = tmp_path / "out"
    assert main(["export", "--format", "csv", "--tables", "trace_metrics", *asked, "-o", str(folder), name]) == 0
    assert "share(/^add$/)" in (folder / "trace_metrics.csv").read_text()


def test_a_metric_of_ones_own_is_like_any_other(watch: Watch) -> None:
    scene = seat_of(watch, metric=WAIT.metric).scene
    expected = scene.frame.window.per_gpu("communication")
    assert scene.frame.window.per_gpu(WAIT.metric) == pytest.approx(expected), "all of it is NCCL's"
    assert WAIT.metric in measured(scene)


def test_a_pattern_that_takes_too_long_is_said_and_stops_nobody(watch: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(customs, "PATIENCE", 0.2)
    monkeypatch.setattr(customs, "_SEARCH", "import time; time.sleep(60)")
    seat = seat_of(watch, metric=custom("slow=share(/(b)/)").metric)
    assert "simpler pattern" in (seat.scene.frame.problem or "")
    other = WatchedTrace("trace.json", lambda: TRACE, (custom("slow=share(/(c)/)"),))
    assert "simpler pattern" in (other.look(View().query(10)).problem or "")


def test_a_filter_leaves_only_some_intervals_on_every_screen(watch: Watch) -> None:
    seat = seat_of(watch, filter="name=nccl")
    frame, every = seat.scene.frame, seat_of(watch).scene.frame
    assert frame.window.per_gpu("compute") == pytest.approx(0.0)
    assert frame.window.per_gpu("communication") == pytest.approx(every.window.per_gpu("communication"))
    found = seat_of(watch, screen="job", filter="name=nccl").scene.frame.judgement
    plain = seat_of(watch, screen="job").scene.frame.judgement
    assert found is not None and plain is not None
    assert [each.title for each in found.verdicts] == [each.title for each in plain.verdicts], (
        "what is hidden is no cause"
    )


@pytest.mark.parametrize("level", ["gpus", "streams", "threads", "processes"])
@pytest.mark.parametrize("words", ["rank:1*", "rank1*"])
def test_a_filter_names_rows_by_their_names_on_any_level(watch: Watch, level: LevelName, words: str) -> None:
    seat = seat_of(watch, filter=words, level=level)
    frame, every = seat.scene.frame, seat_of(watch, level=level).scene.frame
    part = frame.part
    assert part is not None and part.matched and frame.timeline is not None and every.timeline is not None
    ranks = {TRACE.tracks[at].rank for at in np.flatnonzero(np.isin(part.level.owner_of, frame.query.gpus)).tolist()}
    assert ranks == {1} and 2 * len(frame.timeline.members) == len(every.timeline.members)


def test_a_filter_leaves_other_rows_out_and_says_that_nothing_fits() -> None:
    app = live_screen(WatchedTrace("trace.json", lambda: TRACE))

    async def steps(pilot: Pilot[int]) -> None:
        for digit in ("1", "2", "3", "7"):
            await open_tab(pilot, app, digit)
            app.filter_gpus("rank:1*")
            await until(pilot, lambda: app.results[0].query.gpus == (1,) and app.results[0].refined, 10)
            assert "rank:0" not in seen(app) and "no match" not in seen(app)
            for words in ("zzz", "name=zzz"):
                app.filter_gpus(words)
                await until(pilot, lambda words=words: f"no match: {words}" in seen(app), 10)  # type: ignore[misc]
                assert "rank:0, rank:1. Esc shows all" in seen(app) and "gemm" not in seen(app)
            await pilot.press("escape")
            await until(pilot, lambda: "no match" not in seen(app) and app.focused is not None, 10)

    looking.work(app, steps)


def test_bands_hold_rows_that_spend_their_time_alike_whenever() -> None:
    watch = WatchedTrace("many.json", clusters)
    seat = seat_of(watch).press("group")
    part, timeline = seat.scene.frame.part, seat.scene.frame.timeline
    assert part is not None and part.line_split is not None and timeline is not None
    assert sorted(len(members) for members in timeline.members) == [2, 8, 30]
    for members, split in zip(timeline.members, part.line_split, strict=True):
        alone = [seat_of(watch, selection=(int(at),)).scene.frame.part.total for at in members[:3]]  # type: ignore[union-attr]
        assert split == pytest.approx(np.nan_to_num(np.mean(alone, axis=0)), abs=0.01)
    assert seat.press("group").view.grouped is False and seat.press("group").view.alike is False


@pytest.mark.parametrize("name", ["kineto", "nsys"])
def test_it_is_told_what_the_file_says_of_the_interval(tmp_path: Path, name: str) -> None:
    contents = loop.ail("loader", ranks=2)
    if name == "nsys":
        paths = [tmp_path / "report.sqlite"]
        nsys.write(paths[0], contents)
    else:
        paths = [tmp_path / f"rank{content.rank}.json" for content in contents]
        for path, content in zip(paths, contents, strict=True):
            kineto.write(path, content)
    watch = WatchedTrace("t", lambda: open_traces([str(path) for path in paths]).timeline())
    seat = seat_of(watch).press("down", "enter", *["left"] * 60)
    while seat.under() < 0:
        seat.press("right")
    seat.view = replace(seat.view, screen="why")
    frame = seat.scene.frame
    assert frame.part is not None and frame.part.around is not None
    own, around = frame.part.trace.intervals, frame.part.around
    assert own.kind[around.place] == Kind.KERNEL and around.details
    if name == "nsys":
        assert around.details["block"] == "[256, 1, 1]" and around.details["registersPerThread"] == "32"
    else:
        raw = json.loads(paths[1].read_text())["traceEvents"]
        title = frame.part.trace.names[own.name[around.place]]
        there = [each["args"] for each in raw if each.get("name") == title and "ts" in each]
        assert {key: json.loads(value) for key, value in around.details.items()} in [
            {key: value for key, value in args.items() if key not in ("device", "stream", "bytes")} for args in there
        ]  # fmt: skip
    for path in paths:
        path.unlink()
    gone = WatchedTrace("t", lambda: frame.part.trace)  # type: ignore[union-attr]
    assert seat_of(gone, screen="why", cursor=seat.view.cursor).scene.frame.part.around.details == {}  # type: ignore[union-attr]


def test_two_traces_are_aligned_at_a_step_that_both_have(tmp_path: Path) -> None:
    names = [traced(tmp_path / "a", "add"), traced(tmp_path / "b", "add", 5, first=4)]
    watches = [WatchedTrace(name, lambda name=name: open_traces([name]).timeline()) for name in names]  # type: ignore[misc]
    view = View(screen="compare", align="activity")
    asked = replace(view.query(120), causes=TABLE)
    frames, queries = [None, None], []
    for _ in range(4):
        queries.append(aligned(asked, view.align, *frames))
        frames = [watch.look(query) for watch, query in zip(watches, queries[-1], strict=True)]  # type: ignore[misc]
    assert queries[-1] == queries[-2], "asking again with the frames that came changes nothing"
    one, other = frames
    assert one is not None and other is not None
    zeros = origins(one, other, view.align)
    assert [name for _, name in zeros] == ["ProfilerStep#4"] * 2
    assert [round(time * 1e6) for time, _ in zeros] == [4000, 4000]
    width = one.grid.width
    assert one.grid.start - zeros[0][0] == pytest.approx(other.grid.start - zeros[1][0], abs=width)
