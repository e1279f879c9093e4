"""Page and screen state the same numbers of the same window of a recording."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from planted import PLANTS, START

from gssr.cli import main
from gssr.metrics import THROTTLES
from gssr.model.live.live_result import Query
from gssr.model.results import Place
from tests.looking import judged

WINDOWS = {"the whole run": None, "its second minute": (60.0, 120.0)}


def _page(path: str, window: tuple[float, float] | None, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    between = [] if window is None else ["--from", f"{window[0]:g}", "--to", f"{window[1]:g}"]
    assert main(["analyze", path, "--json", *between]) == 0
    return json.loads(capsys.readouterr().out)["runs"][0]


@pytest.mark.parametrize("window", WINDOWS.values(), ids=WINDOWS)
@pytest.mark.parametrize("name", [plant.name for plant in PLANTS])
def test_page_and_screen_state_the_same_numbers(plants, capsys, name, window) -> None:
    page = _page(plants[name], window, capsys)
    query = Query("sm_active", energy=True, columns=40)
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
    assert frame.energy_j == pytest.approx(page["energy_j"])
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
