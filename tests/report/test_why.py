"""Phases, what imbalance cost, and the roofline: on the page, in the JSON object and as pictures."""

import io
import json
from collections.abc import Callable
from dataclasses import replace
from typing import BinaryIO

import pytest
from analyses import analysis, one_sample, rejudged, without_gpus, without_samples
from phased import phased, uneven

from gssr.model.results import Analysis
from gssr.model.statistics.roofline import place_under_roofline
from gssr.render.cells import cell_width
from gssr.report.json_document import to_json
from gssr.report.page import PageOptions, Parts
from gssr.report.png.figure import NothingToDrawError
from gssr.report.png.png import roofline_png
from gssr.report.png.png_over_time import heat_map_png, phases_png
from gssr.report.terminal import page, to_text

Golden = Callable[[str, str], None]

WHY = Parts(summary=False, load_balancing=True, phases=True, roofline=True)
RUNS: dict[str, Callable[[], Analysis]] = {
    "phased": phased,
    "unknown_peaks": lambda: phased(None),
    "200_gpus": lambda: uneven(analysis(200, 50)),
    "no_gpus": without_gpus,
    "no_samples": lambda: rejudged(without_samples(), place=place_under_roofline({}, None)),
    "one_sample": one_sample,
    "no_series": lambda: analysis(series={}, gpu_series={}),
}


def test_what_the_score_would_be_is_told_where_it_is_another_one() -> None:
    found = phased()
    uneven = found.judgement.unevenness
    assert uneven is not None and found.score is not None
    assert "if all ran like the median GPU" in _text(found)
    for score in (found.score, found.score + 0.009, None):
        alike = rejudged(found, unevenness=replace(uneven, score_as_median=score))
        assert "median GPU score" not in _text(alike)


def _text(found: Analysis, **options: object) -> str:
    chosen = PageOptions(**options)  # type: ignore[arg-type]
    return to_text(page(found, WHY, chosen), color=False, ascii_only=chosen.ascii)


def test_the_page_looks_as_somebody_last_saw_it(golden: Golden) -> None:
    golden("why_phased.txt", _text(phased()))


def test_the_ascii_page_looks_as_somebody_last_saw_it(golden: Golden) -> None:
    golden("why_phased_ascii_60.txt", _text(phased(), width=60, ascii=True))


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("width", [20, 60, 200])
@pytest.mark.parametrize("verbosity", ["low", "medium", "high"])
def test_every_page_keeps_to_its_width(name: str, width: int, verbosity: str) -> None:
    for plain in (False, True):
        lines = _text(RUNS[name](), width=width, verbosity=verbosity, ascii=plain).splitlines()[:-1]
        assert max(map(cell_width, lines)) <= width
        assert not plain or "".join(lines).isascii()


def test_unknown_peaks_are_said() -> None:
    assert "roofline   unknown peaks: the GPUs are of an unknown model, of several, or parts" in _text(phased(None))
    assert "unknown peaks" in json.loads(to_json([phased(None)]))["runs"][0]["roofline"]["unknown"]


def test_the_object_holds_what_the_page_shows() -> None:
    found = phased()
    (run,) = json.loads(to_json([found]))["runs"]
    assert [phase["kind"] for phase in run["phases"]] == ["start-up", "recurring", "idle", "steady", "tail"]
    assert run["phases"][1]["cycle"] == {
        "count": 6, "period_s": 20.0, "dip_s": 2.5, "share": 0.11, "low": 0.05, "high": 0.82,
    }  # fmt: skip
    assert run["phases"][2]["verdicts"] == [
        {
            "code": "transfer_bound",
            "severity": "warning",
            "title": "The GPUs wait while PCIe carries 21 GB/s to the GPUs",
        }
    ]
    assert run["roofline"]["bound"] == "memory"
    balance = run["load_balancing"]
    assert balance["gpu_hours_lost"] >= balance["gpu_hours_lost_static"] > 0
    assert len(balance["nodes"]) == 4 and len(balance["positions"]) == 4
    assert sorted(gpu for group in balance["groups"] for gpu in group["gpus"]) == sorted(gpu.gpu for gpu in found.gpus)


def test_what_was_not_looked_at_is_null() -> None:
    (run,) = json.loads(to_json([one_sample()]))["runs"]
    assert run["phases"] == [] and run["load_balancing"] is None and run["roofline"] is None


NOTHING = {
    phases_png: {"no_gpus": "no GPU", "no_samples": "no samples", "no_series": "none of these metrics was measured",
                 "one_sample": "no phases were found", "200_gpus": "no phases were found"},
    heat_map_png: {"no_gpus": "no GPU", "no_samples": "no samples", "no_series": "none of these metrics was measured"},
    roofline_png: {"unknown_peaks": "unknown peaks: the GPUs are of an unknown model", "no_samples": "unknown peaks",
                   **dict.fromkeys(("200_gpus", "no_gpus", "one_sample", "no_series"), "it was not looked at")},
}  # fmt: skip
"""Of which runs there is nothing to draw, and what is said."""


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("draw", NOTHING)
@pytest.mark.parametrize("name", RUNS)
def test_every_run_is_drawn_or_there_is_nothing_to_draw_and_nothing_is_written(
    name: str, draw: Callable[[Analysis, BinaryIO], None]
) -> None:
    file = io.BytesIO()
    if name in NOTHING[draw]:
        with pytest.raises(NothingToDrawError, match=NOTHING[draw][name]):
            draw(RUNS[name](), file)
        assert not file.getvalue()
        return
    draw(RUNS[name](), file)
    width, height = (int.from_bytes(file.getvalue()[at : at + 4], "big") for at in (16, 20))
    assert width == 1300 and 200 < height < 2000
    if name == "phased":
        again = io.BytesIO()
        draw(RUNS[name](), again)
        assert again.getvalue() == file.getvalue()
