"""The backend ``gpm``, through the real nvidia-ml-py, on a driver whose values are known."""

from itertools import pairwise

import pytest

from gssr.backends.base import BackendChange, BackendError
from gssr.backends.counters import CALLS, FIELDS
from gssr.backends.gpm import PROFILED
from gssr.backends.nvml import offer_gpm, open_gpm, open_gpm_or_nvml
from gssr.metrics import NAMES, PLACES


@pytest.fixture
def opened(fake_driver, monkeypatch):
    """``opened(gpus=2, ...)`` opens the backend on such GPUs; it is closed after the test."""
    backends = []

    def open_(opener=open_gpm, **settings):
        fake_driver.load(monkeypatch, **settings)
        result = opener(None)
        backends.append(result.backend)
        return result

    yield open_
    for backend in backends:
        backend.close()


def value(row, name):
    return row[PLACES[name]]


@pytest.fixture
def series(stopped_time):
    """``series(backend, n, interval)``: n ticks' rows by GPU."""

    def take(backend, n, interval):
        rows = [[] for _ in backend.gpus]
        begin = stopped_time.now
        for tick in range(n):
            stopped_time.sleep(max(0.0, begin + tick * interval - stopped_time.now))
            for row in backend.sample(stopped_time.now):
                rows[row[0]].append(row)
        return rows

    return take


def test_every_value_is_the_mean_since_the_sample_before(opened, fake_driver, series):
    backend = opened(gpus=3, period=1).backend
    for gpu, rows in enumerate(series(backend, 6, 0.12)):
        for before, row in pairwise(rows[1:]):
            for metric in PROFILED:
                exact = fake_driver.expected(gpu, metric.gpm, before[1], row[1]) * metric.gpm_factor
                assert value(row, metric.name) == pytest.approx(exact, rel=0.01), metric.name
            assert value(row, "power_usage") is not None and value(row, "temperature") is not None


def test_all_that_gpm_or_nvml_has_is_measured_and_each_metric_once(opened):
    backend = opened(gpus=1).backend
    by_nvml = {name for call in CALLS for name, _ in call.numbers} | {field.metric for field in FIELDS}
    theirs = by_nvml | {metric.name for metric in PROFILED}
    assert list(backend.measures) == [name for name in NAMES if name in theirs]


def test_samples_too_close_together_give_no_profiling_values(opened, series):
    (rows,) = series(opened(gpus=1).backend, 16, 0.05)
    have = [value(row, "sm_active") is not None for row in rows]
    assert len(rows) == 16 and all(value(row, "power_usage") is not None for row in rows)
    assert 6 <= sum(have) <= 8
    times = [row[1] for row, has in zip(rows, have, strict=True) if has]
    assert all(late - early > 0.0975 for early, late in pairwise(times))


def test_at_100_ms_hardly_a_value_is_missing(opened, series):
    (rows,) = series(opened(gpus=1).backend, 15, 0.1)
    assert sum(value(row, "sm_active") is not None for row in rows[1:]) >= 12


def test_nan_and_nonsense_are_none(opened, series):
    backend = opened(gpus=1, nan="2,20", set="3:1e18,10:-5,12:99").backend
    (rows,) = series(backend, 3, 0.12)
    row = rows[-1]
    assert [value(row, name) for name in ("sm_active", "pcie_tx_bytes", "sm_occupancy", "dram_active")] == [None] * 4
    assert value(row, "fp32_active") == pytest.approx(0.99)


def test_a_counter_that_is_missing_is_not_measured(opened, series):
    backend = opened(gpus=1, not_supported="10,100,101").backend
    assert not {"dram_active", "c2c_tx_bytes", "c2c_rx_bytes"}.intersection(backend.measures)
    (rows,) = series(backend, 3, 0.12)
    assert value(rows[-1], "dram_active") is None and value(rows[-1], "sm_active") is not None


def test_gpus_without_gpm_beside_others_give_the_rest(opened, series):
    result = opened(gpus=3, no_gpm="1")
    rows = series(result.backend, 3, 0.12)
    assert [value(gpu[-1], "sm_active") is None for gpu in rows] == [False, True, False]
    assert value(rows[1][-1], "power_usage") is not None and value(rows[1][-1], "pcie_tx_bytes") is not None
    assert result.remarks == ["no profiling metrics of GPU 1: they are older than Hopper"]


def test_mig_instances_have_their_own_profile(opened, fake_driver, series):
    backend = opened(gpus=2, mig="1:2").backend
    assert len(backend.gpus) == 3
    rows = series(backend, 4, 0.12)
    for position, (gpu, instance) in enumerate([(0, 0), (1, 1), (1, 2)]):
        before, row = rows[position][-2:]
        exact = fake_driver.expected(gpu, 2, before[1], row[1], instance) / 100
        assert value(row, "sm_active") == pytest.approx(exact, rel=0.01)
        assert (value(row, "nvlink_tx_bytes") is None) == (instance > 0)


def test_profiling_for_administrators_only_is_a_sentence_with_the_cure(opened):
    with pytest.raises(BackendError, match=r"only administrators.*NVreg_RestrictProfilingToAdminUsers=0"):
        opened(gpus=2, no_permission=1)


def test_older_gpus_are_a_sentence(opened):
    with pytest.raises(BackendError, match="takes Hopper or newer; use DCGM"):
        opened(gpus=2, gpm=0)


@pytest.mark.parametrize(("settings", "why"), [({"gpm": 0}, "Hopper"), ({"no_permission": 1}, "administrators")])
def test_nvml_stands_in_and_says_why(opened, settings, why):
    result = opened(open_gpm_or_nvml, gpus=2, **settings)
    assert result.backend.name == "nvml"
    (passed_over,) = result.passed_over
    assert passed_over.startswith("gpm not used: ") and why in passed_over and not result.remarks


def test_the_offer_is_cheap_and_right(fake_driver, monkeypatch):
    for settings, works, details in (
        ({"gpus": 8}, True, "profiling metrics of 8 GPUs, without a daemon"),
        ({"gpus": 4, "no_gpm": "0"}, True, "profiling metrics of 3 of 4 GPUs, without a daemon"),
        ({"gpm": 0}, False, "no GPU here has it: that takes Hopper or newer"),
        ({"gpm": 1, "no_permission": 1}, False, "the driver lets only administrators profile"),
    ):
        fake_driver.load(monkeypatch, **settings)
        offer = offer_gpm()
        assert (offer.works, offer.details) == (works, details)
        assert bool(offer.cure) != works


def test_a_lost_gpu_begins_anew(opened, series, tmp_path):
    command = tmp_path / "command"
    backend = opened(gpus=2, command=command, lost_sticky=1).backend
    assert len(series(backend, 3, 0.12)[0]) == 3
    command.write_text("lose 0")
    assert series(backend, 3, 0.12)[0] == []
    command.unlink()
    rows = series(backend, 400, 0.12)
    kinds = [change.kind for change in backend.changes() if isinstance(change, BackendChange)]
    assert [kind for kind in kinds if kind != "xid"] == ["gpu_lost", "gpu_back"]
    assert value(rows[0][-1], "sm_active") is not None and value(rows[1][-1], "sm_active") is not None
    back = rows[0][0]
    assert value(back, "sm_active") is None and value(back, "power_usage") is not None
