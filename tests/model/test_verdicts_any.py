"""Whatever a recording holds, judging it ends in verdicts that can be shown, never in an error."""

import json

import numpy as np
import pytest
from evidences import HEALTHY, evidence
from hypothesis import given, settings
from hypothesis import strategies as st
from ticks import Record, random_values, ticks

from gssr.model.analyze import Options, analyze
from gssr.model.evidence.gather import gather
from gssr.model.verdicts import judge
from gssr.model.verdicts.rules import TABLE
from gssr.report.json_document import to_json
from gssr.store.read.time_window import Window


def _checked(found) -> None:
    judged = judge(found)
    codes = [verdict.code for verdict in judged.verdicts]
    assert len(codes) == len(set(codes))
    assert not set(codes) & judged.abstentions.keys()
    for verdict in judged.verdicts:
        assert verdict.title and "nan" not in verdict.title and "{" not in verdict.title
        assert all(0 <= gpu < found.n_gpus for gpu in verdict.gpus)
        assert np.isfinite([verdict.start, verdict.end]).all() and verdict.start <= verdict.end
        assert verdict.gpu_hours is None or 0 <= verdict.gpu_hours <= found.n_gpus * found.seconds / 3600
        assert verdict.gpu_hours is None or verdict.severity != "info"
        for number in verdict.evidence:
            assert np.isfinite(number.value) and "nan" not in number.text, (verdict.code, number)


@settings(max_examples=50, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 9),
    st.integers(1, 60),
    st.sampled_from(["running", "completed", "timeout"]),
)
def test_any_values_with_any_holes_can_be_judged(seed: int, n_gpus: int, n: int, state: str) -> None:
    random = np.random.default_rng(seed)
    values = {}
    for name, usual in HEALTHY.items():
        own = 1.3 * usual * random.random((n_gpus, n)) * (random.random((n_gpus, 1)) < 0.8) * (random.random(n) < 0.8)
        own[random.random((n_gpus, n)) < random.choice([0.0, 0.3, 1.0], p=[0.6, 0.3, 0.1])] = np.nan
        values[name] = own
    missing = tuple(name for name in HEALTHY if random.random() < 0.15)
    host = {
        name: None if random.random() < 0.3 else random.choice([1e6, 2e9]) * random.random(n)
        for name in ("read_bytes", "net_rx_bytes")
    }
    flags = {name: random.random(n_gpus) for name in ("hw_thermal", "sw_power_cap")}
    _checked(evidence(n_gpus, n, state, missing, flags, host, {"cpu": random.random(n) * 2}, **values))


@pytest.mark.parametrize("n_gpus", [0, 1, 3])
@pytest.mark.parametrize("n", [0, 1, 2, 40])
def test_recordings_with_hardly_any_rows_can_be_judged(record: Record, n_gpus: int, n: int) -> None:
    gpu, time = ticks(n_gpus, n, 1.0)
    reader = record(gpu, time, random_values(len(time), 1, 0.2), n_gpus, sampling_ms=1000.0)
    for exact in (True, False):
        found = analyze(reader, Options(exact=exact))
        assert json.loads(to_json([found]))
        if not n_gpus or not n:
            assert not found.judgement.verdicts and len(found.judgement.abstentions) == len(TABLE.rules)
    _checked(gather(reader, np.arange(n_gpus)))


def test_rollups_of_few_rows_can_be_gathered(record: Record, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gssr.model.evidence.gather.MOST_ROWS", -1)
    for n_gpus, n in ((0, 0), (1, 1), (2, 300)):
        gpu, time = ticks(n_gpus, n, 1.0)
        _checked(
            gather(record(gpu, time, random_values(len(time), 1, 0.2), n_gpus, sampling_ms=1000.0), np.arange(n_gpus))
        )


def test_a_window_of_rollups_counts_the_rows_of_the_window(record: Record, monkeypatch: pytest.MonkeyPatch) -> None:
    gpu, time = ticks(3, 400, 1.0)
    values = random_values(len(time), 2, 0.1)
    reader = record(gpu, time, values, sampling_ms=1000.0)
    start, end = time[0] + 33.0, time[0] + 271.0
    exact = gather(reader, np.array([0, 2]), Window(start, end))
    monkeypatch.setattr("gssr.model.evidence.gather.MOST_ROWS", 0)
    rolled = gather(reader, np.array([0, 2]), Window(start, end))
    assert rolled.means.names == exact.means.names and rolled.width > exact.width
    np.testing.assert_array_equal(rolled.means.n, exact.means.n)
    np.testing.assert_allclose(rolled.means.total, exact.means.total, rtol=1e-9)
    np.testing.assert_array_equal(rolled.n_rows, exact.n_rows)
    np.testing.assert_allclose(rolled.greatest["power_usage"], exact.greatest["power_usage"])
    inside = (gpu == 2) & (time >= start) & (time < end)
    own = values["sm_active"][inside]
    assert exact.means.per_gpu("sm_active")[1] == pytest.approx(own[np.isfinite(own)].mean())
