"""What the small traces of docs/traces.md lose has one number, on the page, in its notes and on the screen."""

import json
import re
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from gssr.commands.tui import watches_of
from gssr.model.live.live_result import Query, Result
from gssr.model.traces.analyze_trace import analyze_files
from gssr.model.traces.trace_results import TraceAnalysis
from gssr.model.verdicts.rules import TABLE
from gssr.model.verdicts.words import duration
from gssr.traces.open import open_traces
from gssr.tui.time.details import names_in
from gssr.tui.view import View
from tests.looking import looked_at

DOCS = Path(__file__).parents[2] / "docs" / "traces.md"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The traces of two ranks, of which the second computes half as long again."""
    found = re.search(r"^\$ cat > make_traces.py <<'END'\n(.*?)^> END$", DOCS.read_text(), re.DOTALL | re.MULTILINE)
    assert found is not None
    script = re.sub(r"^> ", "", found[1], flags=re.MULTILINE)
    path = tmp_path_factory.mktemp("docs")
    subprocess.run([sys.executable, "-c", script], cwd=path, check=True)
    return str(path / "traces")


@pytest.fixture(scope="module")
def analysis(folder: str) -> TraceAnalysis:
    return analyze_files(open_traces([folder]))


def _frame(folder: str, query: Query) -> Result:
    with closing(watches_of([folder])[0]) as watch:
        frame = watch.look(query)
        while not frame.refined:
            frame = watch.look(query)
        return frame


def _won(analysis: TraceAnalysis) -> dict[str, float]:
    """What each note offers to save, GPU-seconds."""
    return {
        verdict.code: sum(finding.value for finding in verdict.evidence if finding.metric == "won")
        for verdict in analysis.verdicts
    }


def test_a_note_offers_what_the_table_has_and_no_time_twice(analysis: TraceAnalysis) -> None:
    won, breakdown = _won(analysis), analysis.breakdown
    assert breakdown is not None
    seconds = breakdown.gpu_seconds
    assert analysis.job_ns == pytest.approx(seconds * 1e9)
    same = {
        "loader_waits": "idle.input_output",
        "straggling_rank": "communication.waiting",
        "exposed_communication": "communication.transferring",
    }
    for code, category in same.items():
        assert won[code] == pytest.approx(breakdown.share(category) * seconds), code
    assert "late_launches" not in won  # what is left of it is below what is reported
    told = next(verdict for verdict in analysis.verdicts if verdict.code == "loader_waits")
    share = next(finding.value for finding in told.evidence if finding.metric == "share")
    assert share == pytest.approx(breakdown.share("idle.input_output"))
    outside = breakdown.share("startup") + breakdown.share("end")
    assert sum(won.values()) <= (1 - breakdown.share("working") + outside) * seconds


def test_the_host_is_late_for_as_long_as_the_gpus_wait_for_the_cpu(analysis: TraceAnalysis) -> None:
    breakdown = analysis.breakdown
    assert breakdown is not None
    late = sum(sum(gpu.late_host) + (gpu.waits.between_steps or 0) for gpu in analysis.gpus)
    assert late / 1e9 == pytest.approx(breakdown.share("idle.host") * breakdown.gpu_seconds)


def test_a_late_rank_is_held_against_a_rank_that_there_is(analysis: TraceAnalysis) -> None:
    title = next(verdict.title for verdict in analysis.verdicts if verdict.code == "straggling_rank")
    assert title == "rank:1 is late: it spends 1 ms in communication, the other rank 1.6 ms"


def test_balance_compares_what_gpus_compute_as_the_load_balance_of_the_page(
    folder: str, analysis: TraceAnalysis
) -> None:
    frame = _frame(folder, Query(columns=200, compared=True, causes=TABLE))
    assert frame.grid.metric == "compute"
    assert analysis.breakdown is not None and analysis.breakdown.efficiency is not None
    balance = analysis.breakdown.efficiency.load_balance
    assert frame.unevenness.imbalance.of_means == pytest.approx(1 - balance)
    compute = [gpu.compute_ns / gpu.span_ns for gpu in analysis.gpus]
    np.testing.assert_allclose(frame.window.per_gpu("compute"), compute)
    (text,) = looked_at(*watches_of([folder]), views=[View(screen="balance")])
    assert "32.5" in text and "48.8" in text and "no GPU stands out" not in text


def test_busy_is_still_compared_where_it_was_chosen(folder: str) -> None:
    assert _frame(folder, Query("busy", compared=True)).grid.metric == "busy"
    assert _frame(folder, Query()).grid.metric == "busy"


def test_threads_that_communicate_are_compared_by_what_they_do_otherwise(tmp_path: Path) -> None:
    """A rank works for 30 µs and waits for 70 µs in MPI, the other the other way round; both are busy all the time."""
    for rank, works in enumerate((30, 70)):
        calls = [("user_annotation", "solve", 0, works), ("cpu_op", "MPI_Allreduce", works, 100 - works)]
        events = [
            {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": 1, "ts": ts, "dur": dur}
            for cat, name, ts, dur in calls
        ]
        head = {"schemaVersion": 1, "distributedInfo": {"rank": rank}, "baseTimeNanoseconds": 1767225600000000000}
        (tmp_path / f"rank{rank}.json").write_text(json.dumps(head | {"traceEvents": events}))
    frame = _frame(str(tmp_path), Query(level="threads", compared=True))
    np.testing.assert_allclose(frame.window.per_gpu("busy"), 1)
    np.testing.assert_allclose(frame.window.per_gpu(frame.grid.metric), (0.3, 0.7))
    assert frame.unevenness.imbalance.of_means == pytest.approx(1 - 0.5 / 0.7)


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (400e-6, 2400e-6)])
def test_a_mean_is_of_whole_intervals_wherever_the_window_ends(folder: str, low: float, high: float) -> None:
    frame = _frame(folder, Query(columns=100, rows=10))
    assert frame.part is not None
    own, names = frame.part.trace.intervals, frame.part.trace.names
    used = {each.name: each for each in names_in(frame, frame.part, View(screen="time"), low, high)}
    stop = own.start + own.length
    in_sight = (own.start < high * 1e9) & (stop > low * 1e9) & (own.name == names.index("gemm"))
    assert used["gemm"].n == in_sight.sum() and used["gemm"].mean == pytest.approx(own.length[in_sight].mean())


def test_an_annotation_on_a_gpu_takes_none_of_its_time(tmp_path: Path) -> None:
    """Two kernels, of 30 and 10 µs, lie within a range of 100 µs that the tool has projected onto their stream."""
    events = [
        {"ph": "X", "cat": cat, "name": name, "pid": 0, "tid": 7, "ts": ts, "dur": dur, "args": {"device": 0, "stream": 7}}
        for cat, name, ts, dur in (
            ("gpu_user_annotation", "step", 0, 100), ("kernel", "gemm", 10, 30), ("kernel", "norm", 50, 10),
        )
    ]  # fmt: skip
    head = {"schemaVersion": 1, "baseTimeNanoseconds": 1767225600000000000}
    (tmp_path / "rank0.json").write_text(json.dumps(head | {"traceEvents": events}))
    frame = _frame(str(tmp_path), Query(columns=100, rows=10))
    assert frame.part is not None
    used = names_in(frame, frame.part, View(screen="time"), frame.first, frame.last)
    assert [(each.name, each.total) for each in used] == [("gemm", 30_000), ("norm", 10_000)]


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(36e3, "10 h"), (2 * 86400.0, "2 days"), (7990 * 3600.0, "333 days"), (4e8, "4,630 days")],
)
def test_long_times_are_said_in_days(seconds: float, said: str) -> None:
    assert duration(seconds) == said
