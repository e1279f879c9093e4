"""Page and screens name the same causes of the same window at the same moment: while the job runs, and after it."""

import json
import math
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from textual.pilot import Pilot

from gssr.backends.synthetic.bulk import generate
from gssr.cli import main
from gssr.metrics import NAMES
from gssr.model.live import judge
from gssr.model.live.live_result import Result
from gssr.model.live.producer import Producer, Results
from gssr.model.live.watched_recording import WatchedRecording
from gssr.model.results import Judgement
from gssr.model.verdicts.rules import TABLE
from gssr.render.cells import clean
from gssr.report.live.judgement import not_judged
from gssr.store.format.rows import Gpu
from gssr.store.read.open import RecordingError
from gssr.store.read.recording import RunReader, open_recording
from gssr.store.write.writer import Writer
from gssr.tui.job.verdict_cards import MOST_CARDS
from gssr.tui.shared.verdict_card import VerdictCard
from gssr.tui.view import View
from tests.fakes import frames, planted
from tests.fakes.clock import Clock
from tests.fakes.growing import commit_all
from tests.looking import live_screen, until, work

COLUMNS = 500


def _synthetic(scenario: str) -> Callable[[str], object]:
    return lambda path: generate(path, scenario, 4, 0.02, 0.5)


def _planted(name: str, n_nodes: int, seconds: int) -> Callable[[str], object]:
    plant = next(plant for plant in planted.PLANTS if plant.name == name)
    return lambda path: planted.write(path, plant._replace(n_nodes=n_nodes, seconds=seconds))


JOBS: dict[str, tuple[str, Callable[[str], object]]] = {
    "idle": ("gpus_unused", _synthetic("idle")),
    "start-up": ("start_up", _synthetic("startup")),
    "imbalanced": ("imbalance", _synthetic("imbalanced")),
    "slow node": ("throttled_thermal", _planted("slow_node", 4, 100)),
    "data loading": ("transfer_bound", _planted("io_dip", 2, 320)),
}
"""What is to be found in each, and what writes it."""


class Grown:
    """A recording written anew from a finished one, through the real writer, which stays open until ``end``."""

    def __init__(self, path: Path, like: RunReader) -> None:
        self.path, self._run = str(path), like.run
        names = [name for name in like.metrics if name in NAMES]
        rows = like.samples(names)
        order = np.argsort(rows.time, kind="stable")
        table = np.full((len(order), len(NAMES)), np.nan)
        for name in names:
            table[:, NAMES.index(name)] = rows.values[name][order]
        self._rows = [
            (gpu, time, *(None if value != value else value for value in values))
            for gpu, time, values in zip(
                rows.gpu[order].tolist(), rows.time[order].tolist(), table.tolist(), strict=True
            )
        ]
        self.n_rows = len(self._rows)
        self.written = 0
        run = {**self._run._asdict(), "state": "running", "ended_at": None, "exit_code": None}
        run["command"] = json.dumps(run["command"])
        process = {"rank": 0, "node": "n1", "hostname": "elsewhere", "state": "running"}
        self._writer = Writer(self.path)
        self._writer.begin({name: run[name] for name in _RUN}, process)
        gpus = [{name: getattr(gpu, name) for name in Gpu._fields[4:] if name != "rank"} for gpu in like.gpus]
        gpus = [{**own, "node": gpu.node} for own, gpu in zip(gpus, like.gpus, strict=True)]
        self._writer.add_gpus(gpus, names, like.sampling_seconds)

    def grow_to(self, share: float) -> None:
        """Write on until so large a share of the rows is there."""
        until = round(share * self.n_rows)
        self._writer.add(self._rows[self.written : until])  # type: ignore[arg-type]
        self.written = until
        commit_all(self._writer, self._rows[until - 1][1])  # type: ignore[arg-type]

    def end(self) -> None:
        assert self._run.ended_at is not None
        assert self._writer.finish(self._run.ended_at, 0, "completed", self._run.ended_at)


_RUN = ("run_id", "label", "command", "launcher", "started_at", "sampling_ms", "world_size", "state")


class Screens:
    """The live screen's threads on a recording, without a terminal."""

    def __init__(self, path: str) -> None:
        self._came = threading.Condition()
        self._frame: Result | None = None
        self._producer = Producer([WatchedRecording(path)], 0.05, self._take)
        self._producer.start()

    def _take(self, frames: Results) -> None:
        with self._came:
            assert frames, self._producer.problem
            self._frame = frames[0]
            self._came.notify()

    def judged(self, view: View, n_rows: int, state: str) -> Result:
        """The result once all of the recording is judged as it is now."""
        query = replace(view.query(COLUMNS), causes=TABLE)
        self._producer.ask((query,))

        def arrived() -> bool:
            frame = self._frame
            if frame is None or frame.query != query or (frame.n_rows, frame.state) != (n_rows, state):
                return False
            asked = judge.asked_of(frame)
            known = self._producer.judge.answer_to(frame)
            return (
                asked is not None
                and known is not None
                and known.question == asked
                and frame.judgement == known.judgement
            )

        with self._came:
            assert self._came.wait_for(arrived, timeout=120), self._frame
            assert self._frame is not None
            return self._frame

    def close(self) -> None:
        self._producer.leave()


def page(path: str, frame: Result, capsys: pytest.CaptureFixture[str]) -> list[dict[str, str]]:
    """The verdicts of ``gssr analyze --json`` on the window that the frame shows."""
    words = ["analyze", "--json", path]
    asked = judge.asked_of(frame)
    assert asked is not None
    for flag, time in zip(("--from", "--to"), asked.window, strict=True):
        words += [flag, datetime.fromtimestamp(time, UTC).isoformat()] if math.isfinite(time) else []
    if asked.gpus:
        words += ["--gpus", ",".join(frame.place(gpu) for gpu in asked.gpus)]
    assert main(words) == 0
    found: list[dict[str, str]] = json.loads(capsys.readouterr().out)["runs"][0]["verdicts"]
    return found


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("AGAIN_SECONDS", "AGAIN_COSTS", "SETTLED_SECONDS", "COSTS"):
        monkeypatch.setattr(judge, name, 0)
    yield


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("name", JOBS)
def test_page_and_screens_name_the_same_causes(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    expected, write = JOBS[name]
    write(str(tmp_path / "whole.sql"))
    with closing(open_recording(str(tmp_path / "whole.sql"))) as recording:
        job = Grown(tmp_path / "grown.sql", recording.runs[0])
        run = recording.runs[0].run
    assert run.started_at is not None and run.ended_at is not None
    third = (run.ended_at - run.started_at) / 3
    part = View(span=third, end=run.started_at + 2 * third)
    two = View(selection=(1, 2), selected="two of them")
    job.grow_to(0.5)
    found: list[list[str]] = []
    with closing(Screens(job.path)) as screens:
        for share, state in ((0.9, "live"), (1.0, "ended")):
            job.grow_to(share)
            if state == "ended":
                job.end()
            for view in (View(), part, two):
                frame = screens.judged(view, job.written, state)
                told = page(job.path, frame, capsys)
                assert frame.judgement is not None
                titles = [verdict.title for verdict in frame.judgement.verdicts]
                assert [verdict["title"] for verdict in told] == titles, (state, view.span)
                found.append([verdict["code"] for verdict in told])
    assert expected in found[0] and expected in found[3], found


@pytest.mark.parametrize("name", JOBS)
def test_job_and_why_show_them_in_their_order(name: str, tmp_path: Path) -> None:
    JOBS[name][1](str(tmp_path / "whole.sql"))
    app = live_screen(str(tmp_path / "whole.sql"))

    async def steps(pilot: Pilot[int]) -> None:
        await until(pilot, lambda: app.results[0].judgement is not None)
        judgement = app.results[0].judgement
        assert judgement is not None and judgement.verdicts
        expected = [(verdict.severity, clean(verdict.title)) for verdict in judgement.verdicts]
        shown = [str(each.render()) for each in app.query(VerdictCard) if each.display]
        assert len(shown) == min(len(expected), MOST_CARDS)
        await pilot.press("5")
        await until(pilot, lambda: len(app.query("#causes VerdictCard")) == len(expected))
        cards = [str(each.render()) for each in app.query("#causes VerdictCard")]
        assert len(cards) == len(expected)
        for text, (severity, title) in [*zip(shown, expected, strict=False), *zip(cards, expected, strict=True)]:
            assert severity in text and title in text

    work(app, steps, (200, 60))


@pytest.mark.usefixtures("impatient")
def test_what_was_said_stays_while_the_recording_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    said = Judgement((), {}, 0.0, 1.0)
    found: list[Judgement | None] = [None, said, None]
    came = threading.Semaphore(0)

    def answer(question: judge.Question) -> judge.Answer:
        judgement = found.pop(0)
        if judgement is None:
            raise RecordingError("gone")
        return judge.Answer(question, judgement)

    monkeypatch.setattr(judge, "answer", answer)
    frame = frames.frame_of(np.full((4, 60), 0.5), state="live")
    frame = replace(frame, query=replace(frame.query, causes=TABLE), last=frames.START + 60.0)
    own = judge.Judge(came.release)
    own.start()
    told = []
    for n_rows in (1, 2, 3):
        own.shown(replace(frame, n_rows=n_rows))
        assert came.acquire(timeout=10)
        known = own.answer_to(frame)
        assert known is not None
        told.append(known.judgement)
    own.leave()
    assert told == [None, said, said]


@pytest.mark.parametrize("seconds", [5.0, 29.0, 31.0])
def test_a_growing_run_is_judged_from_30_s_on_and_says_so_until_then(seconds: float) -> None:
    frame = replace(frames.frame_of(np.full((4, 60), 0.5), state="live"), last=frames.START + seconds)
    frame = replace(frame, query=replace(frame.query, causes=TABLE))
    assert (judge.asked_of(frame) is None) == (seconds < judge.LEAST_SECONDS)
    said = not_judged(frame)
    assert said.startswith(
        "The rules look" if seconds >= judge.LEAST_SECONDS else "Where the GPU time goes is shown after"
    )
    assert seconds >= judge.LEAST_SECONDS or f"{judge.LEAST_SECONDS - seconds:.0f} s to go" in said


@pytest.mark.parametrize("cost", [0.01, 0.4, 30.0])
@pytest.mark.parametrize("moving", [False, True])
def test_judging_takes_no_more_than_a_tenth_of_the_time(
    cost: float, moving: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a run that grows with every look, in one window and in one that is moved on all the time."""
    clock = Clock()
    monkeypatch.setattr(judge, "time", clock)
    frame = frames.frame_of(np.full((4, 60), 0.5), state="live")
    own, spent, judged_at = judge.Judge(lambda: None), 0.0, []
    for look in range(8000):
        clock.seconds += 0.5
        query = replace(frame.query, causes=TABLE, span=10.0, end=frame.first + (look // 4 if moving else 30))
        own.shown(replace(frame, query=query, n_rows=look + 1))
        if own._due() == 0.0:
            judged_at.append(clock.seconds)
            clock.seconds += cost
            spent += cost
            own._ended, own._cost = clock.seconds, cost
            assert own._asked is not None
            own._answers[own._asked.view] = judge.Answer(own._asked, None)
    assert judged_at and spent <= 0.1 * clock.seconds + cost
    assert moving or np.diff(judged_at).min() >= judge.AGAIN_SECONDS
