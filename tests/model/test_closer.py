"""Of a job that is too large for short bins of all GPUs, some are looked at closer: what is soon over is found as in a small
one."""

from collections.abc import Sequence

import numpy as np
import pytest
from evidences import HEALTHY, evidence
from ticks import T0, Record, ticks

from gssr.model.evidence.evidence import Evidence, excerpt
from gssr.model.evidence.gather import CLOSE, gather
from gssr.model.verdicts import judge
from gssr.model.verdicts.engine import explains
from gssr.model.verdicts.job import Job
from gssr.model.verdicts.rules import TABLE
from gssr.model.verdicts.table import Found
from gssr.store.read.window_edges import Window

SECONDS, INTERVAL = 2400, 5.0
ACTIVITIES = [name for name in HEALTHY if name not in ("temperature", "sm_clock", "memory_used")]
MANY = ["sm_active"]
"""What is recorded of many GPUs: writing takes time."""


@pytest.fixture(name="large")
def _(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if every job had too many rows, and too many rollups of 10 s."""
    monkeypatch.setattr("gssr.model.evidence.gather.MOST_ROWS", 0)
    monkeypatch.setattr("gssr.model.statistics.gpu_time_counts.MOST_VECTORS", 0)


def _evidence(record: Record, factor, n_gpus: int = 8, metrics: Sequence[str] = ACTIVITIES) -> Evidence:
    """Of a healthy job whose activities are ``factor`` (of positions and seconds since the beginning) times the usual."""
    gpu, time = ticks(n_gpus, int(SECONDS / INTERVAL), INTERVAL)
    random, share = np.random.default_rng(1), factor(gpu, time - T0)
    values = {name: HEALTHY[name] * share * random.normal(1.0, 0.01, len(time)) for name in metrics}
    reader = record(gpu, time, values, sampling_ms=1000 * INTERVAL)
    return gather(reader, np.arange(n_gpus))


def _codes(evidence: Evidence) -> set[str]:
    return {verdict.code for verdict in judge(evidence).verdicts}


@pytest.mark.usefixtures("large")
def test_some_gpus_are_seen_in_short_bins(record: Record) -> None:
    found = _evidence(record, lambda gpu, _: 0.5 + 0.001 * gpu, n_gpus=40, metrics=MANY)
    assert found.width == 60 and found.closer is not None and found.closer.width == CLOSE
    assert found.closer.n_gpus == 24  # of so short a job not only 16
    pairs = found.closer.positions.reshape(-1, 2)
    assert (pairs[:, 1] == pairs[:, 0] + 1).all() and pairs[0, 0] == 0 and pairs[-1, 1] == 39
    means, own = found.over_space("sm_active"), found.closer.over_space("sm_active")
    inner = slice(1, -1)
    fine = own[: len(own) // 6 * 6].reshape(-1, 6).mean(axis=1)
    assert np.nanmean(means[inner]) == pytest.approx(np.nanmean(fine[inner]), rel=0.01)
    part = excerpt(found, Window(found.start + 600, found.start + 1200))
    assert part is not None and part.closer is not None
    assert (part.closer.start, part.closer.end) == (part.start, part.end)
    assert len(part.closer.times) == 60


def test_a_small_job_is_seen_in_short_bins_as_it_is(record: Record) -> None:
    assert _evidence(record, lambda gpu, _: np.ones(len(gpu))).closer is None


@pytest.mark.usefixtures("large")
def test_pauses_shorter_than_a_bin_are_found(record: Record) -> None:
    begins = (310, 390, 1005, 1075, 2130)  # at no rhythm

    def paused(_, time):
        return np.where(np.any([(time >= begin) & (time < begin + 20) for begin in begins], axis=0), 0.0, 1.0)

    assert _codes(_evidence(record, paused)) == {"pauses"}


@pytest.mark.usefixtures("large")
def test_gpus_that_lag_by_turns_for_less_than_a_bin_are_found(record: Record) -> None:
    def by_turns(gpu, time):
        return np.where((time // 20).astype(int) % 8 == gpu, 0.3, 1.0)

    assert "rotating_stragglers" in _codes(_evidence(record, by_turns))


@pytest.mark.usefixtures("large")
def test_how_often_one_of_all_lags_is_told_by_those_that_are_looked_at(record: Record) -> None:
    n_gpus = 120

    def by_turns(gpu, time):
        return np.where((time // 20).astype(int) % n_gpus == gpu, 1.0, 0.3)  # the others wait for it

    found = _evidence(record, by_turns, n_gpus, MANY)
    verdict = next(verdict for verdict in judge(found).verdicts if verdict.code == "rotating_stragglers")
    assert "24 of 120" in verdict.evidence[0].text
    assert 0.5 < verdict.evidence[0].value <= 1.0  # always one of them; a fifth of the time one of those


@pytest.mark.usefixtures("large")
def test_gpus_that_are_through_early_are_no_slow_down(record: Record) -> None:
    def early(gpu, time):
        slide = 1 - 0.00001 * time  # as little as noise may add
        return np.where((gpu < 2) & (time > 0.6 * SECONDS), 0.0, slide)

    codes = _codes(_evidence(record, early))
    assert "early_end" in codes and "slow_down" not in codes


def test_a_cause_explains_of_a_bin_what_is_lost_to_it() -> None:
    means = np.array([1.0, 0.75, 0.5, 0.0, 1.0, 1.0, 1.0, 1.0])
    job = Job(evidence(4, 8, noise=0.0, width=60.0, sm_active=0.8 * means), TABLE)
    times = job.evidence.times[[1, 2, 3, 3, 3, 3, 4]] + np.array([0.0, 45.0, 0.0, 15.0, 30.0, 45.0, 0.0])
    np.testing.assert_allclose(job.lost_in(times, 15.0), [0, 1, 0.5, 1, 1, 0, 0, 0])


def test_short_pauses_count_for_what_they_last_beside_a_hang() -> None:
    means = np.array([1.0, 1.0, 0.75, 0.75, 0.75, 0.75, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    job = Job(evidence(4, 13, noise=0.0, width=60.0, sm_active=0.8 * means), TABLE)
    hung = Found({}, (), "critical", job.span, bins=means == 0)
    paused = Found({}, (), "warning", job.span, bins=np.where(means < 1, 1.0, 0.0))  # 4 times 15 s, and the hang
    assert explains(TABLE.rule("hang"), hung, TABLE.rule("pauses"), paused, job)
    longer = paused._replace(bins=means < 1)  # whole minutes
    assert not explains(TABLE.rule("hang"), hung, TABLE.rule("pauses"), longer, job)


@pytest.mark.usefixtures("large")
def test_gpus_that_are_looked_at_closer_may_have_no_samples_of_what_tells_work(record: Record) -> None:
    looked_at = _evidence(record, lambda gpu, _: np.ones(len(gpu)), n_gpus=40, metrics=MANY).closer.positions
    gpu, time = ticks(40, int(SECONDS / 10), 10.0)
    values = {name: np.full(len(gpu), HEALTHY[name]) for name in ("sm_active", "gr_engine_active", "power_usage")}
    for name in ("sm_active", "gr_engine_active"):
        values[name][np.isin(gpu, looked_at)] = np.nan
    seconds = np.arange(0, SECONDS, 1.0)
    reader = record(gpu, time, values, sampling_ms=10_000.0, host=[(T0 + second, [0.1] * 10) for second in seconds])
    found = gather(reader, np.arange(40))
    assert found.host and found.closer is not None and not np.isfinite(found.closer.series["sm_active"]).any()
    assert judge(found).verdicts is not None
