"""--trace-when low: when a trace is asked for, and when not."""

import math
from pathlib import Path

import pytest

from gssr.backends.base import make_row
from gssr.metrics import SCORE_INPUTS
from gssr.profile.sampling import low_score
from gssr.profile.sampling.low_score import MOST, Low, LowScore
from gssr.trace_requests import REQUEST, TraceRequest, read_request, write_request

BEGIN = 1e9


class Run:
    """A job with samples of two GPUs every second, and a workload that names steps at once."""

    def __init__(self, folder: Path, low: Low, steps: bool = True) -> None:
        self.folder, self.now, self.said, self.asked = str(folder), BEGIN, [], []
        write_request(self.folder, TraceRequest(0, int(steps)), make="any")
        self._low = LowScore(low, self.folder, lambda now, text: self.said.append((now - BEGIN, text)))

    def go_on(self, seconds: int, value: float | None) -> None:
        for _ in range(seconds):
            values = dict.fromkeys(SCORE_INPUTS, value)
            self._low.add([make_row(gpu, self.now, values) for gpu in range(2)])
            self._low.tick(self.now)
            self.now += 1
            request = read_request(self.folder)
            if request is not None and request.number and not request.step:
                self.asked.append(self.now - BEGIN)
                write_request(self.folder, TraceRequest(request.number, 1000))


def test_only_a_score_that_stays_low_is_asked_about_and_not_at_once_again(tmp_path: Path) -> None:
    run = Run(tmp_path, Low(0.25, 60.0))
    for _ in range(20):
        run.go_on(45, 0.0)
        run.go_on(15, 0.9)
    run.go_on(100, None)
    assert run.asked == []
    begin = run.now - BEGIN
    run.go_on(3000, 0.01)
    assert len(run.asked) == MOST and begin + 50 <= run.asked[0] <= begin + 75
    assert all(600 <= later - before <= 620 for before, later in zip(run.asked, run.asked[1:], strict=False))
    assert [text.split(":")[0] for _, text in run.said] == [f"trace {n} was asked for" for n in (1, 2, 3)]


def test_nothing_is_asked_before_there_are_steps_or_near_the_end(tmp_path: Path) -> None:
    run = Run(tmp_path, Low(0.25, 60.0, ends_at=BEGIN + 1500), steps=False)
    run.go_on(700, 0.0)
    assert run.asked == []
    write_request(run.folder, TraceRequest(0, 1))
    run.go_on(100, 0.0)
    assert len(run.asked) == 1
    run.go_on(700, 0.0)
    assert len(run.asked) == 1  # the next was due 600 s later, in the last ten minutes


def test_what_another_has_asked_for_is_not_asked_for_again(tmp_path: Path) -> None:
    run = Run(tmp_path, Low(1.0, 6.0))
    write_request(run.folder, TraceRequest(1, 0))
    run.go_on(1, 0.0)
    assert run.asked == [1]  # the other one's
    run.go_on(59, 0.0)
    assert read_request(run.folder) == TraceRequest(1, 1000)
    run.go_on(500, 0.0)
    assert read_request(run.folder) == TraceRequest(MOST, 1000) and len(run.said) == MOST - 1


def test_a_full_folder_ends_it_and_a_lost_one_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(low_score, "MOST_BYTES", 100)
    run = Run(tmp_path, Low(1.0, 6.0))
    (tmp_path / "trace.json").write_bytes(b"x" * 100)
    run.go_on(500, 0.0)
    assert run.asked == [] and len(run.said) == 1 and "no more traces are asked for" in run.said[0][1]
    run = Run(tmp_path, Low(1.0, 6.0))
    (tmp_path / REQUEST).unlink()
    run.go_on(500, 0.0)
    assert run.asked == [] and run.said == []


def test_no_end_is_known_without_a_time_limit() -> None:
    assert Low(0.5, 1.0).ends_at == math.inf
