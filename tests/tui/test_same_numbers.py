"""Page and screen state the same numbers of the same window of a recording or a trace."""

import json
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gssr.cli import main
from gssr.commands.tui import watches_of
from gssr.gpu_name import gpu_label
from gssr.metrics import THROTTLES
from gssr.model.live.live_result import Query
from gssr.model.results import Place
from gssr.model.traces.trace_results import TYPES
from gssr.model.verdicts.rules import TABLE
from gssr.render.clock import duration
from gssr.report.live.times_of_run import window_text
from gssr.traces.open import open_traces
from gssr.traces.timeline import BUSY, Category, Kind
from tests.fakes.planted import PLANTS, START
from tests.fakes.traces import samples
from tests.looking import judged

SAMPLES = Path(__file__).parents[1] / "traces" / "samples"
STEP_NS = 10_000
WINDOWS = {"the whole run": None, "its second minute": (60.0, 120.0)}


def _page(path: str, window: tuple[float, float] | None, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    between = [] if window is None else ["--from", f"{window[0]:g}", "--to", f"{window[1]:g}"]
    assert main(["analyze", path, "--json", *between]) == 0
    return json.loads(capsys.readouterr().out)["runs"][0]


@pytest.mark.parametrize(
    ("name", "window"),
    [(plant.name, window) for window in WINDOWS.values() for plant in PLANTS[:: 3 if window else 1]],
)
def test_page_and_screen_state_the_same_numbers(plants, capsys, name, window) -> None:
    page = _page(plants[name], window, capsys)
    query = Query("sm_active", columns=40)
    if window is not None:
        query = replace(query, span=window[1] - window[0], end=START + window[1], columns=6, width=10.0)
    frame = judged(plants[name], query)
    gpus = page["gpus"]
    assert [gpu["uuid"] for gpu in gpus] == [gpu.uuid for gpu in frame.gpus]
    assert frame.window.score() == pytest.approx(page["score"])
    np.testing.assert_allclose(
        frame.window.scores(), [np.nan if gpu["score"] is None else gpu["score"] for gpu in gpus]
    )
    overall, measured = frame.window.overall(), frame.window.measured()
    for metric, said in page["metrics"].items():
        if metric in measured:
            assert overall[metric] == pytest.approx(said["mean"])
            means = [gpu["mean"][metric] for gpu in gpus]
            np.testing.assert_allclose(frame.window.per_gpu(metric), np.array(means, np.float64))
    assert {flag: overall[flag] for flag in THROTTLES} == pytest.approx(
        {flag: page["clock_event_reasons"][flag] for flag in THROTTLES}
    )
    if window is None:
        assert window_text(frame) == f"whole run, {duration(page['duration_s'])}"
        assert (frame.n_rows, int(frame.n_gaps.sum())) == (page["n_samples"], page["n_gaps"])
    assert [event._asdict() for event in frame.events] == page["events"]
    assert frame.ranks_missing == tuple(page["ranks_missing"] or ())
    assert [end._asdict() for end in frame.ranks_stopped] == page["ranks_stopped"]
    uneven, shown = page["load_balancing"], frame.unevenness.imbalance
    assert (
        shown.of_means == pytest.approx(uneven["imbalance"]) == pytest.approx(page["balance"]["sm_active"]["imbalance"])
    )
    assert shown.resolved == pytest.approx(uneven["imbalance_resolved"])
    assert shown.lost == pytest.approx(uneven["gpu_hours_lost"])
    assert frame.unevenness.score_as_median == pytest.approx(uneven["score_as_median"])
    assert shown.gpu_hours == pytest.approx(page["gpu_hours"])
    compared = judged(plants[name], replace(query, analysis=True)).analysis
    assert compared is not None and compared.energy_j == pytest.approx(page["energy_j"])
    judgement = frame.judgement
    assert judgement is not None and judgement.breakdown is not None
    assert [(each.code, each.title) for each in judgement.verdicts] == [
        (each["code"], each["title"]) for each in page["verdicts"]
    ]
    assert judgement.breakdown.shares.tolist() == pytest.approx(
        [each["share"] for each in page["breakdown"]["categories"]], abs=1e-9
    )
    assert [(each.kind, each.start, each.score) for each in judgement.phases] == [
        (each["kind"], pytest.approx(each["start"]), pytest.approx(each["score"])) for each in page["phases"]
    ]
    assert (judgement.step is None) == (page["step"] is None)
    assert isinstance(judgement.place, Place) and page["roofline"]["flops"] == pytest.approx(judgement.place.flops)


TRACES = [*(sample.name for sample in samples.SAMPLES), *("-".join(report) for report in samples.REPORTS)]
OF_GPUS = ("busy", "compute", "communication", "copy", "exposed_communication", "exposed_copy")


@pytest.mark.parametrize("is_part", [False, True], ids=["all of it", "its middle third"])
@pytest.mark.parametrize("name", TRACES)
def test_page_and_screen_state_the_same_ns_of_a_trace(name: str, is_part: bool, capsys) -> None:
    """Each GPU's time by what it does, to the nanosecond, and where the time of all of them went."""
    paths = sorted(str(path) for path in SAMPLES.glob(f"{name}*") if ".hta." not in path.name)
    page, query = _trace_page(paths, [], capsys), Query("busy", causes=TABLE)
    if is_part:
        first, last = (round(at / STEP_NS) for at in page["window_ns"])
        begin, end = first + (last - first) // 3, first + (last - first) * 2 // 3
        page = _trace_page(paths, [f"--from={begin * STEP_NS}ns", f"--to={end * STEP_NS}ns"], capsys)
        width = STEP_NS / 1e9
        query = replace(query, span=(end - begin) * width, end=end * width, columns=end - begin, width=width)
    (watch,) = watches_of(paths)
    with closing(watch):
        frame = watch.look(query)
        while not frame.refined:
            frame = watch.look(query)
    assert (frame.window.start, frame.window.end) == tuple(at / 1e9 for at in page["window_ns"])
    ns = dict(zip(frame.window.names, frame.window.total, strict=True))
    rows = {row["place"]: row for row in page["ranks"]}
    assert rows.keys() == {gpu_label(gpu) for gpu in frame.gpus} and len(rows) == len(frame.gpus)
    for row, gpu in enumerate(frame.gpus):
        for metric in OF_GPUS:
            assert ns.get(metric, np.zeros(len(rows)))[row] == rows[gpu_label(gpu)][f"{metric}_ns"], metric
    assert ns["idle"].sum() == sum(row["total_ns"] for row in page["idle"])
    assert frame.judgement is not None and frame.judgement.breakdown is not None
    assert frame.judgement.breakdown.shares.tolist() == pytest.approx(
        [each["share"] for each in page["breakdown"]["categories"]], abs=1e-9
    )


@pytest.mark.parametrize("name", TRACES)
def test_all_work_of_a_gpu_computes_communicates_or_copies(name: str) -> None:
    paths = sorted(str(path) for path in SAMPLES.glob(f"{name}*") if ".hta." not in path.name)
    own = open_traces(paths).timeline().intervals
    assert set(own.category[np.isin(own.kind, BUSY)]) <= set(TYPES.values())
    assert set(own.category[own.kind == Kind.GPU_SYNC]) <= {Category.SYNC}


def _trace_page(paths: list[str], between: list[str], capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    assert main(["analyze", "--json", *between, *paths]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("columns", [20, 35, 80, 200])
@pytest.mark.parametrize("name", ["healthy", "io_dip"])
def test_a_window_is_as_long_as_the_one_asked_for_whatever_the_columns(plants, name, columns) -> None:
    """Columns have round widths: as many as fit onto the screen could be twice the time."""
    whole = judged(plants[name], Query("sm_active"))
    for span in (0.31, 0.5, 0.77):
        length = span * (whole.last - whole.first)
        query = Query("sm_active", span=length, end=whole.first + 0.9 * (whole.last - whole.first), columns=columns)
        frame = judged(plants[name], query)
        seconds = frame.window.end - frame.window.start
        assert length <= seconds + 1e-6 <= length + 2 * frame.grid.width
        assert frame.window.start <= query.end - length + 1e-6
