"""Very many GPUs: in few bins, those without samples left out, the rollups in pieces; and nothing else changes."""

import math

import numpy as np
import pytest
from ticks import Record, random_values, ticks

from gssr.model import window
from gssr.model.analyze import Options, analyze
from gssr.model.live.live_result import Query
from gssr.model.live.run_totals import RunTotals
from gssr.model.live.watched_recording import WatchedRecording
from gssr.model.statistics.gpu_time_counts import CELLS_OF_A_ROW, FEW_CELLS, MOST_CELLS, GpuTimeCounts, most_bins


@pytest.mark.parametrize("n_gpus", [0, 8, 10_000, 10_000_000])
@pytest.mark.parametrize("n_rows", [0, 200_000, 40_000_000])
def test_cells_are_bounded_by_what_was_sampled(n_gpus: int, n_rows: int) -> None:
    bins = most_bins(n_gpus, n_rows, 720)
    assert 1 <= bins <= 720
    assert bins == 1 or n_gpus * bins <= min(MOST_CELLS, max(FEW_CELLS, CELLS_OF_A_ROW * n_rows))
    if n_gpus <= 64:
        assert bins == 720


def test_a_metric_without_samples_takes_no_cells() -> None:
    cells = GpuTimeCounts(("a", "b"), 1000, 10)
    cells.add_rows(np.array([3]), np.array([2]), {"a": np.array([0.5]), "b": np.array([math.nan])})
    assert list(cells.n) == ["a"] and np.isnan(cells.means("b")).all()
    assert cells.means("a")[3, 2] == 0.5 and np.isfinite(cells.means("a")).sum() == 1


def test_gpus_that_were_never_sampled_are_left_out_of_what_is_judged(
    record: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpu, time = ticks(3, 1200, 1.0)
    gpu = gpu + 7
    values = {"sm_active": np.where(gpu == 8, 0.0, 0.9), "gr_engine_active": np.where(gpu == 8, 0.0, 0.9)}
    reader = record(gpu, time, values, 20, sampling_ms=1000.0)
    own = analyze(reader, Options(gpus=("7", "8", "9")))
    monkeypatch.setattr(window, "MANY", 10)
    found = analyze(reader)
    said, alone = found.judgement, own.judgement
    assert [(each.code, each.title) for each in said.verdicts] == [(each.code, each.title) for each in alone.verdicts]
    unused = next(each for each in said.verdicts if each.code == "gpus_unused")
    assert unused.gpus == (8,)
    assert said.unevenness is not None and alone.unevenness is not None
    places = [[gpu - 7 for gpu in group.gpus] for group in said.unevenness.alike]
    assert places == [list(group.gpus) for group in alone.unevenness.alike]
    assert {gpu for each in said.verdicts for gpu in each.gpus} <= {7, 8, 9}
    assert len(found.gpus) == 20 and "17 of 20 GPUs have no samples" in " ".join(found.notes)
    assert found.gpus[0].mean == dict.fromkeys(found.gpus[7].mean)
    assert [gpu.mean for gpu in found.gpus[7:10]] == [gpu.mean for gpu in own.gpus]


def test_a_tally_made_in_pieces_is_that_of_the_whole(record: Record, monkeypatch: pytest.MonkeyPatch) -> None:
    gpu, time = ticks(5, 2500, 1.0)
    kept = (gpu != 2) | (np.abs(time - time[0] - 1200) > 30)  # a gap over the end of a stretch of ten minutes
    reader = record(gpu[kept], time[kept], random_values(kept.sum(), 1, 0.1), 9, sampling_ms=1000.0)
    whole = RunTotals(reader, False)
    monkeypatch.setattr("gssr.store.read.whole_run.VECTORS_AT_ONCE", 2)
    apart = RunTotals(reader, False)
    assert whole.n_gaps.tolist() == apart.n_gaps.tolist() == [0, 0, 1, 0, 0, 0, 0, 0, 0]
    for name in ("rows", "last_time", "latest"):
        np.testing.assert_array_equal(getattr(whole, name), getattr(apart, name))
    np.testing.assert_array_equal(whole.whole().n, apart.whole().n)
    np.testing.assert_allclose(whole.whole().total, apart.whole().total, rtol=1e-12)
    assert (whole.first, whole.last) == (apart.first, apart.last)


def test_a_screen_of_very_many_gpus_has_fewer_columns(record: Record, monkeypatch: pytest.MonkeyPatch) -> None:
    gpu, time = ticks(4, 300, 1.0)
    path = record(gpu, time, random_values(len(gpu), 1, 0.0), sampling_ms=1000.0).tails[0][0]
    monkeypatch.setattr("gssr.model.live.answers.MOST_CELLS", 40)
    watch = WatchedRecording(path)
    try:
        grid = watch.look(Query(columns=60, activity=True)).grid
        assert grid.n == 10 and np.isfinite(grid.values).any(axis=0).sum() >= 5
    finally:
        watch.close()
