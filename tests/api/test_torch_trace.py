"""gssr.torch_trace: which steps are traced, by which rank, and that it harms no loop."""

import json
import os
import sys
from pathlib import Path

import pytest

import gssr
from gssr.api import torch_trace as subject
from gssr.cli import main
from gssr.trace_requests import TraceRequest, read_request, write_request
from tests.fakes.torch_profiler import Profile, module

HERE = "on this machine"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GSSR_TRACES", str(tmp_path))
    for name, found in module().items():
        monkeypatch.setitem(sys.modules, name, found)
    return tmp_path


def names(folder: Path) -> list[str]:
    return sorted(name for name in os.listdir(folder) if not name.startswith("."))


def n_steps(path: Path) -> int:
    return len(json.loads(path.read_text())["traceEvents"])


def test_the_steps_after_those_waited_for_are_traced_once(folder: Path) -> None:
    with gssr.torch_trace(wait=4, active=2) as trace:
        for step in range(1, 20):
            assert names(folder) == ([] if step <= 6 else ["torch.rank0.step5.json"])
            trace.step()
    assert names(folder) == ["torch.rank0.step5.json"] and n_steps(folder / "torch.rank0.step5.json") == 2


def test_lines_of_python_and_shapes_are_recorded_if_asked_for(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for asked in (False, True):
        with gssr.torch_trace(wait=1, active=1, with_stack=asked, record_shapes=asked) as trace:
            for _ in range(3):
                trace.step()
    plain, full = (folder / f"torch.rank0.step2{number}.json" for number in ("", "-2"))
    functions = {}
    for path in (plain, full):
        assert main(["analyze", "--csv", "functions", str(path)]) == 0
        functions[path] = capsys.readouterr().out
    for name in ("train.py(10): main", "train.py(20): train"):
        assert name in functions[full] and name not in functions[plain]
    assert "Input Dims" in full.read_text() and "Input Dims" not in plain.read_text()


def test_a_loop_that_ends_while_it_is_traced_leaves_what_there_is_and_names_are_not_taken_twice(folder: Path) -> None:
    for n in (3, 2, 1, 0):  # of which the first is not traced
        with gssr.torch_trace(wait=1, active=5) as trace:
            for _ in range(n):
                trace.step()
    assert names(folder) == ["torch.rank0.step2-2.json", "torch.rank0.step2.json"]
    assert [n_steps(folder / name) for name in names(folder)] == [1, 2]


def test_outside_of_gssr_profile_nothing_happens_and_torch_is_not_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GSSR_TRACES", raising=False)
    monkeypatch.setitem(sys.modules, "torch", None)
    with gssr.torch_trace(wait=1) as trace:
        for _ in range(5):
            trace.step()


@pytest.mark.usefixtures("folder")
def test_what_makes_no_sense_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="numbers of steps from 1 on"):
        gssr.torch_trace(wait=0)
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.setitem(sys.modules, "torch.profiler", None)
    with pytest.raises(ImportError, match="needs torch, which is not installed"), gssr.torch_trace():
        pass


@pytest.mark.parametrize("breaks", ["start", "step", "export_chrome_trace"])
def test_what_goes_wrong_is_a_warning_and_the_loop_goes_on(
    folder: Path, monkeypatch: pytest.MonkeyPatch, breaks: str
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("no such thing")

    monkeypatch.setattr(Profile, breaks, fail)
    with pytest.warns(RuntimeWarning, match="no such thing") as said, gssr.torch_trace(wait=2, active=2) as trace:
        for _ in range(9):
            trace.step()
    assert len(said) == 1 and names(folder) == []


def test_on_demand_all_ranks_trace_the_step_that_rank_0_names(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They look at different moments, and are a step or two apart."""
    now = {"rank": 0}
    for name, found in module(lambda: now["rank"]).items():
        monkeypatch.setitem(sys.modules, name, found)
    monkeypatch.setattr(subject, "LOOK_SECONDS", 0.0)
    monkeypatch.setattr(subject, "LEAD_SECONDS", 0.0)
    write_request(str(folder), TraceRequest(0, 0), make="any")
    ranks = [gssr.torch_trace(active=2, on_demand=True).__enter__() for _ in range(4)]
    for step in range(1, 80):
        for rank, trace in enumerate(ranks):
            if step > rank // 2:  # the last ones lag a step behind
                now["rank"] = rank
                trace.step()
        if step == 1:
            assert read_request(str(folder)) == TraceRequest(0, 1)  # there is a loop
        if step in (20, 50):
            write_request(str(folder), TraceRequest(step // 20, 0))  # 1, then 2
    for trace in ranks:
        trace.__exit__(None, None, None)
    assert names(folder) == [f"torch.rank{rank}.step{first}.json" for rank in range(4) for first in (31, 61)]
    assert {n_steps(folder / name) for name in names(folder)} == {2}


@pytest.mark.parametrize("content", [b"", b"1", b"x y\n", b"9" * 60, b"         1\n"])
def test_whatever_stands_in_the_file_of_requests_is_no_request(folder: Path, content: bytes) -> None:
    (folder / ".on-demand").write_bytes(content)
    assert read_request(str(folder)) is None
    with gssr.torch_trace(on_demand=True) as trace:
        trace.step()
    assert names(folder) == []


def test_a_request_is_not_looked_for_through_a_link_or_in_a_pipe(folder: Path) -> None:
    (folder / "elsewhere").write_text(f"{1:>10d} {5:>16d}\n")
    (folder / ".on-demand").symlink_to(folder / "elsewhere")
    assert read_request(str(folder)) is None
    (folder / ".on-demand").unlink()
    os.mkfifo(folder / ".on-demand")
    assert read_request(str(folder)) is None


def test_torch_itself_is_called_as_it_wants_to_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch", reason=f"{HERE} torch is not installed, which is large")
    monkeypatch.setenv("GSSR_TRACES", str(tmp_path))
    with gssr.torch_trace(wait=2, active=2) as trace:
        for _ in range(6):
            torch.ones(8) @ torch.ones(8)
            trace.step()
    (path,) = tmp_path.glob("torch.rank0.step3.json")
    assert path.read_text().count("ProfilerStep#") == 2
