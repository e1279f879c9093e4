"""Which GPUs are marked, and why."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from textual.pilot import Pilot

from gssr.backends.synthetic.bulk import generate
from gssr.metrics import BY_NAME
from gssr.model.analyze import analyze
from gssr.model.live.live_result import Query
from gssr.model.results import Judgement, LeadingLoss
from gssr.report.live.marked_gpus import legend_of_marks, mark_of
from gssr.report.load_balancing import outliers_of
from gssr.store.read.recording import open_recording
from gssr.tui.gpus.table import GpuTable
from gssr.tui.why.causes import Causes
from tests.fakes import frames
from tests.fakes.planted import PLANTS
from tests.looking import judged, live_screen, seen, until, work

NAN = np.nan


@pytest.mark.parametrize("metric", ["sm_active", "power_usage"])
@pytest.mark.parametrize("name", [plant.name for plant in PLANTS])
def test_page_and_screens_mark_the_same_gpus(plants, name: str, metric: str) -> None:
    found = analyze(open_recording(plants[name]).runs[0])
    frame = judged(plants[name], Query(metric))
    marked = np.flatnonzero(frame.unlike).tolist()
    assert sorted(outliers_of(found, BY_NAME[metric])) == marked
    if name in ("straggler", "slow_node"):
        assert marked


def test_the_gpu_that_the_others_wait_for_is_marked_on_its_row_and_in_words(tmp_path: Path) -> None:
    generate(str(tmp_path / "a.sql"), "imbalanced", 8, 0.05, 0.5)
    app = live_screen(str(tmp_path / "a.sql"))

    async def steps(pilot: Pilot[int]) -> None:
        await until(pilot, lambda: app.results[0].judgement is not None)
        result = app.results[0]
        assert result.awaited == result.singled_out == (0,)
        for keys, row in (("1", "▲node0000:0"), ("2", "▲ node0000:0 "), ("4", "▲ node0000:0 ")):
            await pilot.press(*keys)
            await until(pilot, lambda row=row: any(row in line for line in seen(app).splitlines()))  # type: ignore[misc]
            words = "▲ the others wait for node0000:0"
            assert words in seen(app) and seen(app).count(row) - seen(app).count(words) * (row in words) >= 1
        await pilot.press("2", "end", "n")
        await until(pilot, lambda: app.query_one(GpuTable).item == 0)
        await pilot.press("5")
        await until(pilot, lambda: len(app.query("#causes VerdictCard")) > 0 and app.query_one(Causes).has_focus)
        await pilot.press("enter")  # the verdict names no GPU for itself: those are gone to that wait least
        await until(pilot, lambda: app.view.screen == "gpus" and app.query_one(GpuTable).item == 0)
        await pilot.press("m", *"dram", "enter")
        await until(pilot, lambda: app.results[0].grid.metric != result.grid.metric)
        assert "▲ the others wait for node0000:0" in seen(app), "whatever the metric"

    work(app, steps, (120, 40))


def test_what_is_only_unlike_the_rest_has_another_mark_beside_a_culprit() -> None:
    values = np.full((4, 6), 0.8)
    values[3] = 0.1
    frame = frames.frame_of(values)
    assert [mark_of(frame, gpu, False) for gpu in range(4)] == [("", "plain")] * 3 + [("▲", "outlier")]
    late = Judgement((), {}, 0.0, 6.0, leading_loss=LeadingLoss(0.2, "spent waiting", (1,)))
    judged_so = frame.with_judgement(late)
    marks = [mark_of(judged_so, gpu, False) for gpu in range(4)]
    assert marks == [("", "plain"), ("▲", "bad"), ("", "plain"), ("△", "outlier")]
    assert mark_of(judged_so, 3, True) == ("~", "outlier") and "△ unlike the rest" in legend_of_marks(judged_so, False)


def test_the_meaning_of_a_mark_says_if_it_is_of_a_window() -> None:
    """It named one GPU, and a node in another window, as if both were of the run."""
    whole = frames.frame_of(np.full((4, 6), 0.8))
    judgement = Judgement((), {}, 0.0, 6.0, leading_loss=LeadingLoss(0.2, "spent waiting", (1,)))
    part = replace(whole, first=whole.first - 60).with_judgement(judgement)
    assert legend_of_marks(whole.with_judgement(judgement), False) == "▲ the others wait for nid000001:1"
    assert legend_of_marks(part, False) == "▲ the others wait for nid000001:1 in this window"


def test_of_metrics_of_nodes_the_culprits_node_is_marked() -> None:
    gpus = frames.frame_of(np.full((8, 6), 0.8))
    nodes = replace(gpus, by_node=True, of_gpus=gpus)
    found = nodes.with_judgement(Judgement((), {}, 0.0, 6.0, leading_loss=LeadingLoss(0.2, "spent waiting", (7,))))
    assert found.singled_out == (int(gpus.node_of[7]),)
    assert found.of_gpus is not None and found.of_gpus.singled_out == (7,)


def test_a_gpu_that_fell_silent_is_marked_with_its_age() -> None:
    frame = frames.frame_of(np.full((4, 6), 0.8))
    last = frame.last_time.copy()
    last[2] -= 11
    found = replace(frame, last_time=last)
    assert found.age.tolist() == [0, 0, 11, 0]
    assert found.letters(2) == "g"


def test_while_a_run_lives_its_last_samples_grow_old() -> None:
    frame = frames.frame_of(np.full((2, 6), 0.8), state="live")
    assert replace(frame, now=frame.last + 2).age.tolist() == [0, 0]
    assert replace(frame, now=frame.last + 2.6).age.tolist() == pytest.approx([2.6, 2.6])


def test_paused_in_the_past_only_what_was_known_then_counts() -> None:
    values = np.full((3, 6), 0.8)
    values[1, 3:] = NAN  # silent for 30 s of this window; it came back later
    frame = frames.frame_of(values, following=False)
    frame = replace(frame, last_time=np.full(3, frame.last + 500), last=frame.last + 500, now=frame.grid.end)
    assert frame.age.tolist() == [0, 30, 0]


def test_a_gap_inside_the_window_is_marked_and_measured() -> None:
    values = np.full((4, 8), 0.8)
    values[3, 2:5] = NAN
    values[:, 6] = NAN  # nobody has samples here: no GPU's gap
    found = frames.frame_of(values)
    assert found.missing.tolist() == [0, 0, 0, 30]
    assert found.letters(3) == "g"


def test_a_gpu_without_any_sample_is_infinitely_old() -> None:
    values = np.full((4, 3), 0.8)
    values[0] = NAN
    found = frames.frame_of(values)
    assert np.isinf(found.age[0]) and found.letters(0) == "g"


def test_gpus_that_begin_one_after_the_other_have_no_gap() -> None:
    """Ranks don't begin at once; who begins much later lacks what was before."""
    values = np.full((3, 40), 0.8)
    values[1, :6], values[2, :20] = NAN, NAN
    found = frames.frame_of(values, width=1.5)
    assert found.missing.tolist() == [0, 0, 30] and found.letters(1) == ""


def test_a_rate_that_has_no_value_in_the_first_sample_has_no_gap() -> None:
    values = np.full((2, 8), 0.8)
    values[1, 0] = NAN
    frame = frames.frame_of(values, width=1.0)
    found = replace(frame, first_time=np.full(2, frame.first))
    assert found.missing.tolist() == [0, 0]


def test_a_gpu_may_have_its_first_sample_a_moment_after_the_others() -> None:
    values = np.full((2, 8), 0.8)
    values[1] = NAN
    frame = frames.frame_of(values, width=1.0, state="live")
    assert frame.letters(1) == ""
    assert np.isinf(replace(frame, now=frame.first + 11).age[1])


def test_heat_is_throttling_and_the_power_limit_is_not() -> None:
    frame = frames.frame_of(np.full((4, 3), 0.8))
    total = frame.window.total.copy()
    total[frame.window.names.index("hw_thermal"), 1] = 0.2 * frame.window.n[0, 1]
    found = replace(frame, window=replace(frame.window, total=total))
    assert [found.letters(gpu) for gpu in range(4)] == ["", "t", "", ""]


def test_what_most_gpus_have_makes_none_unlike_the_rest() -> None:
    values = np.full((5, 6), 0.8)
    values[:3, 2] = NAN
    found = frames.frame_of(values)
    assert (found.missing > 0).sum() == 3
    assert not found.marked.any()
