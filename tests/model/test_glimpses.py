"""Waits of seconds are told from gaps between kernels however long the job lasts: stretches of it are looked at sample by
sample."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from evidences import HEALTHY
from hypothesis import given
from hypothesis import strategies as st
from ticks import T0, Record, ticks

from gssr.model.evidence import glimpses
from gssr.model.evidence.evidence import Evidence, excerpt
from gssr.model.evidence.gather import gather
from gssr.model.evidence.glimpses import Glimpses, stretches
from gssr.model.results import Verdict
from gssr.model.verdicts import judge
from gssr.store.read.window_edges import Window

SECONDS, N_GPUS = 2400, 8
PERIOD, WAIT = 6.0, 3.0
FAST, SLOW = 2.2e9, 0.9e9
"""What the disks read, B/s."""


@pytest.fixture(name="large")
def _(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if every job had too many rows, and too many rollups of 10 s."""
    monkeypatch.setattr("gssr.model.evidence.gather.MOST_ROWS", 0)
    monkeypatch.setattr("gssr.model.statistics.gpu_time_counts.MOST_VECTORS", 0)


def _waiting(record: Record, waits: float, between: float, hosts: bool = True, **how: Any) -> Evidence:
    """Of a job whose GPUs do nothing in the last WAIT of every PERIOD seconds; the disks read ``waits`` B/s then and
    ``between`` B/s otherwise."""
    gpu, time = ticks(N_GPUS, SECONDS, 1.0)
    random = np.random.default_rng(1)
    share = np.where((time - T0) % PERIOD >= PERIOD - WAIT, 0.0, 1.0)
    values = {
        name: usual * share * random.normal(1.0, 0.01, len(time))
        for name, usual in HEALTHY.items()
        if name not in ("temperature", "sm_clock", "memory_used", "flop_active")
    }
    moments = T0 + np.arange(SECONDS)
    read = np.where((moments - T0) % PERIOD >= PERIOD - WAIT, waits, between) * random.normal(1.0, 0.1, SECONDS)
    rows = [
        (at, (0.1, 6.0, 1e9, 5e11, rate, 0.0, 1e6, 1e6, None, None)) for at, rate in zip(moments, read, strict=True)
    ]
    host = rows if hosts else []
    return gather(record(gpu, time, values, sampling_ms=1000.0, host=host, **how), np.arange(N_GPUS))


def _verdicts(evidence: Evidence) -> dict[str, Verdict]:
    return {verdict.code: verdict for verdict in judge(evidence).verdicts}


def _texts(verdict: Verdict) -> str:
    return "; ".join(finding.text for finding in verdict.evidence)


def _share(verdict: Verdict) -> float:
    return next(finding.value for finding in verdict.evidence if finding.metric == "share")


def test_waits_shorter_than_a_bin_are_found_from_rows(record: Record) -> None:
    found = _waiting(record, FAST, SLOW)
    assert found.width == 5 and found.closer is None
    verdicts = _verdicts(found)
    assert "gaps" not in verdicts
    assert _share(verdicts["io_wait"]) == pytest.approx(WAIT / PERIOD, abs=0.02)
    assert "stretches" not in _texts(verdicts["io_wait"])


@pytest.mark.usefixtures("large")
def test_waits_shorter_than_a_bin_are_found_in_some_stretches(record: Record, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(glimpses, "MOST_ROWS", 130 * N_GPUS)
    found = _waiting(record, FAST, SLOW)
    assert found.width == 60 and found.glimpses is not None and found.glimpses.width == 1
    verdicts = _verdicts(found)
    assert "gaps" not in verdicts and "low_use" not in verdicts
    assert _share(verdicts["io_wait"]) == pytest.approx(WAIT / PERIOD, abs=0.1)
    assert "seen in 3 stretches of 43 s that stand for all the time" in _texts(verdicts["io_wait"])


@pytest.mark.usefixtures("large")
def test_disks_that_are_as_busy_while_the_gpus_work_are_not_waited_for(record: Record) -> None:
    verdicts = _verdicts(_waiting(record, FAST, FAST))
    assert "io_wait" not in verdicts
    assert "the gaps last for seconds" in _texts(verdicts["gaps"])


@pytest.mark.usefixtures("large")
def test_where_rows_are_too_many_gaps_admit_what_they_may_be(record: Record, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(glimpses, "MOST_ROWS", 20 * N_GPUS)
    found = _waiting(record, FAST, SLOW)
    assert found.glimpses is None
    said = _texts(_verdicts(found)["gaps"])
    assert "disk reads 1.5" in said and "whether the GPUs wait for it can't be told in bins of 10 s" in said


@pytest.mark.usefixtures("large")
def test_without_samples_of_the_nodes_nothing_is_looked_for(record: Record) -> None:
    assert _waiting(record, FAST, SLOW, hosts=False).glimpses is None


@pytest.mark.usefixtures("large")
def test_a_part_of_the_window_has_its_part_of_the_stretches(record: Record, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(glimpses, "MOST_ROWS", 130 * N_GPUS)
    found = _waiting(record, FAST, SLOW)
    part = excerpt(found, Window(found.start, found.start + SECONDS / 2))
    assert part is not None and part.glimpses is not None
    assert part.glimpses.times[-1] < found.start + SECONDS / 2
    assert "io_wait" in _verdicts(part)


def _reader(n_gpus: int, interval: float, seconds: float, **how: Any) -> Any:
    gpus = tuple(SimpleNamespace(node=f"n{number // 4}") for number in range(n_gpus))
    run = SimpleNamespace(started_at=T0, ended_at=T0 + seconds)
    usual = {"thinned_until": -np.inf, "state": "completed", "keep": "raw", "first_time": T0, "last_time": T0 + seconds}
    return SimpleNamespace(run=run, gpus=gpus, n_rows=int(n_gpus * seconds / interval), **{**usual, **how})


@given(
    n_gpus=st.integers(1, 4096),
    interval=st.sampled_from((0.1, 0.5, 1.0, 2.0, 10.0)),
    seconds=st.floats(10.0, 1e6),
    inside=st.tuples(st.floats(0.0, 0.9), st.floats(0.0, 1.0)),
)
def test_stretches_lie_apart_in_the_window_and_hold_few_rows(
    n_gpus: int, interval: float, seconds: float, inside: tuple[float, float]
) -> None:
    start = T0 + inside[0] * seconds
    end = start + 1 + inside[1] * (T0 + seconds - start)
    reader = _reader(n_gpus, interval, seconds)
    begins, each = stretches(reader, Window(start, end))
    assert len(begins) <= glimpses.MOST
    assert len(begins) * each * n_gpus / interval <= 1.01 * glimpses.MOST_ROWS + 1
    assert len(begins) * len({gpu.node for gpu in reader.gpus}) * seconds <= glimpses.MOST_USE
    if len(begins):
        assert begins[0] >= start - 1e-3 and begins[-1] + each <= end + 1e-3
        assert len(begins) == 1 or each >= glimpses.LEAST_SECONDS
    assert (np.diff(begins) >= 2 * each - 1e-3).all()


def test_thinned_samples_are_not_read() -> None:
    span = Window(T0, T0 + 7200.0)
    begins, _ = stretches(_reader(64, 1.0, 7200.0, thinned_until=T0 + 3600, keep="10s"), span)
    assert len(begins) > 1 and begins[0] >= T0 + 3600
    growing = _reader(64, 1.0, 7200.0, thinned_until=T0 + 3600, keep="10s", state="running")
    assert not len(stretches(growing, span)[0])


@given(n=st.integers(1, 8), each=st.integers(2, 50), width=st.sampled_from((1.0, 2.0, 2.5)), apart=st.floats(0.0, 1e4))
def test_each_moment_of_a_stretch_lies_in_the_bin_that_holds_it(n: int, each: int, width: float, apart: float) -> None:
    seconds = each * width
    begins = T0 + np.arange(n) * (2 * seconds + apart)
    looks = Glimpses(begins, seconds, width)
    time = (begins[:, None] + width * (np.arange(each) + 0.5)).ravel()
    at = looks.bins.holding(looks.moved(time))
    np.testing.assert_allclose(looks.times[at], time - width / 2, atol=1e-5)
    empty = np.setdiff1d(np.arange(looks.bins.n), at)
    np.testing.assert_array_equal(empty, (each + 1) * np.arange(1, n) - 1)  # one between two of them
