"""One run, both views: traces laid over a recording on the page, in JSON, on the screens and for Perfetto."""

import json
import os
import re
import shutil
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from textual.pilot import Pilot
from textual.widgets import Tabs

from gssr.cli import main
from gssr.commands.tui import watches_of
from gssr.model.live.live_result import Query, Result
from gssr.model.traced import TracedSteps
from gssr.model.verdicts.rules import TABLE
from gssr.render.cells import cell_width
from gssr.render.clock import exact
from gssr.render.roles import text_of
from gssr.score import score_of_means
from gssr.store.read.recording import open_recording
from gssr.store.read.time_window import Window
from gssr.traces.kineto import read_kineto
from gssr.traces.timeline import BUSY, Kind
from gssr.tui.app import LiveScreen
from gssr.tui.time.trace_lanes import TraceLanes
from gssr.tui.time.wall import TimeWall
from gssr.tui.view import View
from gssr.tui.why.around import OpenAround
from tests.fakes.traces.beside import ITEM, NS, SCORED, START, Truth
from tests.looking import live_screen, seen, until, work

TRUTH = Truth(ranks=4, seconds=120, nodes=2)
OFF = (0.0, 3.2, 0.0, -4.0)
"""How far ahead the clock of each rank's trace is, s."""
BEGIN, END = 40.0, 60.0


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``run.sql``, ``rank0.json`` ..., and ``late.json`` of another run; never to be changed."""
    found = tmp_path_factory.mktemp("joined")
    TRUTH.record(found / "run.sql")
    for rank, off in enumerate(OFF):
        TRUTH.trace(found / f"rank{rank}.json", rank, BEGIN, END, off)
    Truth(seed=7).trace(found / "late.json", off=1e6)
    return found


def ranks(folder: Path) -> list[str]:
    return [str(folder / f"rank{rank}.json") for rank in range(4)]


def document(capsys: pytest.CaptureFixture[str], *words: object) -> dict[str, Any]:
    assert main(["analyze", "--json", *map(str, words)]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)["runs"][0]
    return found


def test_the_object_says_how_typical_each_trace_is(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (folder / "run.sql").read_bytes()
    run = document(capsys, folder / "run.sql", "--attach", *ranks(folder), folder / "late.json")
    assert (folder / "run.sql").read_bytes() == before and len(os.listdir(folder)) == 6  # for this look only
    assert [trace["rank"] for trace in run["traces"]] == [0, 1, 2, 3]
    for rank, (trace, off) in enumerate(zip(run["traces"], OFF, strict=True)):
        assert abs(trace["offset_s"] + off) <= TRUTH.interval and trace["gpus"] == [rank]
        assert (trace["clock"], trace["clock_check"]) == (("by comparison", "elsewhere") if off else ("unix", "agrees"))
        assert trace["window_s"] == pytest.approx(END - BEGIN, abs=0.2)
        assert trace["share_of_run"] == pytest.approx(trace["window_s"] / run["duration_s"])
        assert trace["start"] == pytest.approx(START + BEGIN, abs=TRUTH.interval + 0.1)
        spans = TRUTH.busy(rank).clip(round(BEGIN * NS), round(END * NS))
        assert trace["split"]["idle"] == pytest.approx(1 - (spans[:, 1] - spans[:, 0]).sum() / 20e9, abs=0.03)
        assert sum(trace["split"].values()) == pytest.approx(1)
        assert max(trace["gaps"], key=lambda gap: gap["seconds"])["doing"] == ITEM
    assert ["late.json: not joined to the run: lies outside" in note for note in run["notes"]].count(True) == 1
    section = (
        (Path(__file__).parents[2] / "docs" / "traces.md")
        .read_text()
        .partition("## Joined to a recording")[2]
        .partition("\n## ")[0]
    )
    explained = set(re.findall("`(\\w+)`", section.partition("In the JSON object")[2]))
    lists = ("idle", "gaps", "by_gpu", "kernels", "verdicts", "breakdown")
    inner = {key for trace in run["traces"] for name in lists for each in trace[name] for key in each}
    steps = {field.name for field in fields(TracedSteps)}
    assert {*run["traces"][0], *run["traces"][0]["split"], *inner, *steps} == explained - {"null", "traces"}
    for trace in run["traces"]:
        assert sum(each["trace"] for each in trace["breakdown"]) == pytest.approx(1)
        assert sum(each["estimate"] for each in trace["breakdown"]) == pytest.approx(1)
        assert sum(each["difference"] for each in trace["breakdown"] if each["name"][:4] == "work") == pytest.approx(
            0, abs=0.03
        )
    idle = [verdict for verdict in run["verdicts"] if verdict["code"] in ("cpu_starved", "launch_gaps", "low_use")]
    assert idle and all(f"waiting for the CPU: {ITEM}" in verdict["evidence"][-1]["text"] for verdict in idle)
    with_none = document(capsys, folder / "run.sql")
    assert with_none["traces"] == [] and all(
        e["metric"] != "traced_idle" for v in with_none["verdicts"] for e in v["evidence"]
    )


def test_each_long_wait_has_its_cause(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for rank, trace in enumerate(document(capsys, folder / "run.sql", "--attach", *ranks(folder))["traces"]):
        spans = TRUTH.busy(rank) / NS
        spans = spans[(spans[:, 1] > BEGIN) & (spans[:, 0] < END)]
        waits = [(before, after - before) for before, after in zip(spans[:-1, 1], spans[1:, 0], strict=True)]
        longest = sorted(waits, key=lambda wait: wait[1])[-5:]
        for begin, seconds in longest:
            (gap,) = [gap for gap in trace["gaps"] if abs(gap["seconds"] - seconds) < 1e-3]
            assert (gap["cause"], gap["doing"]) == ("host", ITEM)
            assert gap["start"] == pytest.approx(START + begin, abs=TRUTH.interval)


def test_an_offset_can_be_told(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (trace,) = document(capsys, folder / "run.sql", "--attach", ranks(folder)[0], "--offset", "-5")["traces"]
    assert (trace["clock"], trace["offset_s"]) == ("--offset", -5.0)
    assert trace["start"] == pytest.approx(START + BEGIN - 5, abs=0.2)


def test_a_trace_of_another_run_changes_nothing_but_a_note(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    alone = document(capsys, folder / "run.sql")
    run = document(capsys, folder / "run.sql", "--attach", folder / "late.json")
    notes = [note for note in run["notes"] if note not in alone["notes"]]
    assert run == alone | {"notes": run["notes"]} and len(notes) == 1 and "late.json: not joined" in notes[0]
    assert main(["analyze", str(folder / "run.sql"), "--attach", str(folder / "late.json")]) == 0
    assert "late.json" in capsys.readouterr().out


def test_the_scores_are_those_of_the_samples(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = document(capsys, folder / "run.sql", "--attach", ranks(folder)[2])
    trace = run["traces"][0]
    recording = open_recording(folder / "run.sql")
    rows = recording.runs[0].samples(tuple(SCORED), np.array([2]), Window(-np.inf, np.inf))
    inside = (rows.time >= trace["start"]) & (rows.time < trace["end"])
    for key, part in (("score_inside", inside), ("score_outside", ~inside)):
        means = {name: float(rows.values[name][part].mean()) for name in SCORED}
        assert trace[key] == pytest.approx(score_of_means(means), abs=2e-4)
    recording.close()


def test_of_a_window_the_part_inside_counts(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = document(capsys, folder / "run.sql", "--from", "50", "--to", "80", "--attach", ranks(folder)[0])
    assert run["traces"][0]["window_s"] == pytest.approx(10, abs=0.2)
    assert run["traces"][0]["share_of_run"] == pytest.approx(1 / 3, abs=0.01)
    run = document(capsys, folder / "run.sql", "--gpus", "nid000002", "--attach", *ranks(folder))
    assert [(trace["rank"], trace["gpus"]) for trace in run["traces"]] == [(2, [0]), (3, [1])]


@pytest.mark.parametrize("width", [40, 80, 160])
def test_the_page_says_what_was_traced(folder: Path, capsys: pytest.CaptureFixture[str], width: int) -> None:
    assert main(["analyze", str(folder / "run.sql"), "--width", str(width), "--attach", *ranks(folder)]) == 0
    page = capsys.readouterr().out
    assert all(cell_width(line) <= width for line in page.splitlines()[:-1])
    assert "What was traced?" in page and f"waiting for the CPU: {ITEM}" in page.replace("\n", " ").replace("  ", " ")
    command = " ".join(page.partition("\nncu ")[2].partition("PROGRAM")[0].replace("\\\n", " ").split())
    assert re.fullmatch(r"--set full -k \w+ -c 1 -o kernel", command)  # the kernel that computes most


def test_the_report_has_a_table_of_traces(folder: Path) -> None:
    path = folder / "report.html"
    assert main(["analyze", str(folder / "run.sql"), "--report", str(path), "--attach", ranks(folder)[1]]) == 0
    text = path.read_text()
    path.unlink()
    assert "What was traced?" in text and "its clock is off: moved by -3.2 s" in text


def test_wrong_words_are_said(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = str(folder / "run.sql")
    for words, said in (
        (("--attach", ranks(folder)[0], run), "a recording stands before --attach"),
        ((run, "--offset", "3"), "--offset 3: goes with --attach"),
        ((ranks(folder)[0], "--attach", ranks(folder)[1]), "is for recordings"),
        ((run, "--attach", str(folder / "none.json")), "no such file"),
    ):  # fmt: skip
        assert main(["analyze", *words]) == 2
        out, err = capsys.readouterr()
        assert said in err and len(err.splitlines()) == 1 and not out


def test_a_digest_says_all_that_its_trace_does(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = str(shutil.copy(folder / "run.sql", tmp_path / "run.sql"))
    assert main(["merge", run, "--attach", *ranks(folder)]) == 0 and capsys.readouterr().out
    read = document(capsys, run)["traces"]
    part = document(capsys, run, "--from", "50", "--to", "80")["traces"]
    assert main(["merge", run, "--digest"]) == 0 and "4 traces digested" in capsys.readouterr().out
    assert document(capsys, run)["traces"] == [trace | {"digest": True} for trace in read]
    assert document(capsys, run, "--from", "50", "--to", "80")["traces"] == part  # of a part the traces tell
    again = document(capsys, run, "--attach", tmp_path / "run.traces" / "rank0.json")
    assert [trace["digest"] for trace in again["traces"]] == [True] * 4  # each once
    shutil.rmtree(tmp_path / "run.traces")
    alone = document(capsys, run)
    assert alone["traces"] == [trace | {"digest": True} for trace in read]
    assert not any("not there" in note for note in alone["notes"])
    assert any(e["metric"] == "traced_idle" for v in alone["verdicts"] for e in v["evidence"])
    apart = document(capsys, run, "--to", "10")
    assert apart["traces"] == [] and "4 traces show nothing of what is looked at" in apart["notes"]
    (one,) = document(capsys, run, "--gpus", TRUTH.uuid(2))["traces"]
    assert one["gpus"] == [0] and one["by_gpu"][0]["gpu"] == 0 and {gap["gpu"] for gap in one["gaps"]} == {0}
    assert main(["analyze", run]) == 0
    page = capsys.readouterr().out
    assert "kernels: " in page and "by themselves they show: " in page and "(4 of 4)" in page


def test_what_is_attached_is_there_everywhere(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = str(shutil.copy(folder / "run.sql", tmp_path / "run.sql"))
    assert main(["merge", run, "--attach", *ranks(folder)[:2]]) == 0
    capsys.readouterr()
    assert [trace["rank"] for trace in document(capsys, run)["traces"]] == [0, 1]
    again = document(capsys, run, "--attach", tmp_path / "run.traces" / "rank0.json", ranks(folder)[2])
    assert [trace["rank"] for trace in again["traces"]] == [0, 1, 2]  # each once
    out = tmp_path / "perfetto.json"
    assert main(["export", run, "--format", "perfetto", "--with-traces", "-o", str(out)]) == 0
    found, own = read_kineto(str(out)), [read_kineto(name) for name in ranks(folder)[:2]]
    assert len(found.intervals) == sum(len(each.intervals) for each in own)
    assert found.clock.unix_ns is not None
    for rank, each in enumerate(own):  # to the ns, moved by what was found
        gpu = [at for at, track in enumerate(found.tracks) if track.device == rank and track.kind == "gpu_stream"]
        rows, mine = np.isin(found.intervals.track, gpu), np.isin(each.intervals.kind, BUSY)
        moved = (
            found.intervals.start[rows] + found.clock.unix_ns - each.intervals.start[mine] - (each.clock.unix_ns or 0)
        )
        assert len(np.unique(moved)) == 1 and abs(moved[0] / NS + OFF[rank]) <= TRUTH.interval
        assert (found.intervals.length[rows] == each.intervals.length[mine]).all()
    calls = found.intervals.link[found.intervals.kind == Kind.RUNTIME]
    assert len(np.unique(calls)) == len(calls)
    os.unlink(tmp_path / "run.traces" / "rank0.json")
    capsys.readouterr()
    after = document(capsys, run)
    assert [trace["rank"] for trace in after["traces"]] == [1] and any("not there" in note for note in after["notes"])


# On the screens


def seat(folder: Path, view: View | None = None) -> LiveScreen:
    return live_screen(watches_of([str(folder / "run.sql")], None, ranks(folder))[0], view=view)


async def all_there(app: LiveScreen, pilot: Pilot[int]) -> Result:
    """Once the traces are read and judged."""

    def there() -> bool:
        frame, view = app.results[0], app.view
        asked = (frame.query.level, frame.query.cursor, frame.query.gpus) == (view.level, view.cursor, view.selection)
        return frame.refined and frame.judgement is not None and bool(frame.traced) and asked

    await until(pilot, there, 60.0)
    return app.results[0]


def test_the_recording_is_there_at_once(folder: Path) -> None:
    watch = watches_of([str(folder / "run.sql")], None, ranks(folder))[0]
    first = watch.look(Query(causes=TABLE), quick=True)
    assert not first.refined and first.n_gpus == 4 and watch.growing
    watch.close()


def test_kernels_and_samples_lie_on_one_axis(folder: Path) -> None:
    app = seat(folder, View(screen="time"))

    async def steps(pilot: Pilot[int]) -> None:
        frame = await all_there(app, pilot)
        assert frame.part is None and "traced" in seen(app)
        assert app.query_one("#tabs", Tabs).active == "time"
        app.query_one(TimeWall).focus()
        await pilot.press("v")
        frame = await all_there(app, pilot)
        text, part = seen(app), frame.part
        assert part is not None and "clocks differ" in text and "SM active" in text
        assert (frame.first, frame.last) == pytest.approx((START + BEGIN, START + END), abs=0.2)
        assert [frame.place(at) for at in range(4)] == [f"{TRUTH.node(rank)}:{rank}" for rank in range(4)]
        assert part.columns is not None and part.split is not None
        assert frame.judgement is not None
        told = [each.text for verdict in frame.judgement.verdicts for each in verdict.evidence]
        times = [float(found) for text in told for found in re.findall(r" at ([0-9.e+]+) s", text)]
        assert times and all(0 <= at <= END - BEGIN for at in times)  # as the axis counts
        samples = next(each for each in part.counters if each.metric.endswith(":SM active"))
        assert samples.full == 1.0
        busy = part.whole_split.sum(axis=1)  # type: ignore[union-attr]
        assert np.corrcoef(samples.values, busy)[0, 1] > 0.95  # in the same columns
        for _ in range(len(part.levels)):
            await pilot.press("v")
            frame = await all_there(app, pilot)
        assert frame.part is None and app.query_one(TimeWall).display

    work(app, steps, (100, 30))


def test_a_zoom_is_kept_and_the_cursor_steps_from_kernel_to_kernel(folder: Path) -> None:
    app = seat(folder, View(screen="time", span=10.0, end=START + 55))

    async def steps(pilot: Pilot[int]) -> None:
        await all_there(app, pilot)
        app.action_move("level")
        frame = await all_there(app, pilot)
        assert (app.view.span, app.view.end) == (10.0, START + 55) and frame.part is not None
        app.change_view(View(screen="time", level="gpus", selection=(0,), name="gemm", metric="name:gemm"))
        times = []
        for _ in range(6):
            await all_there(app, pilot)
            app.query_one(TraceLanes).action_find(1)
            times.append(app.view.cursor)
        spans = TRUTH.busy(0) / NS + START
        expected = spans[spans[:, 1] > START + BEGIN][:6, 0].clip(START + BEGIN)
        assert times == pytest.approx(expected.tolist(), abs=1e-5)

    work(app, steps, (80, 24))


def test_a_dip_has_its_cause(folder: Path) -> None:
    app = seat(folder, View(screen="why"))

    async def steps(pilot: Pilot[int]) -> None:
        frame = await all_there(app, pilot)
        around = app.query_one(OpenAround)

        def said() -> str:
            return "\n".join(map(text_of, around.rows(app.results[0], 120, 20)))

        await until(pilot, lambda: around.display)
        assert f"waiting for the CPU: {ITEM}" in said() and "what the GPUs waited for" in str(around.border_title)
        app.change_view(replace(app.view, cursor=START + 10))
        await all_there(app, pilot)
        assert "Not traced then" in said()
        gap = max((gap for trace in frame.traced for gap in trace.gaps), key=lambda gap: gap.seconds)
        app.change_view(replace(app.view, cursor=gap.start + gap.seconds / 2))
        await all_there(app, pilot)
        assert f"{exact(gap.seconds)}  waiting for the CPU: {ITEM}, {TRUTH.node(gap.gpu)}:{gap.gpu}" in said()

    work(app, steps, (120, 48))
