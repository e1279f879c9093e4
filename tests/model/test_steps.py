"""How long a step took, from the rhythm of the samples and from marks; and that nothing is said of beats."""

import tracemalloc

import numpy as np
import pytest

from gssr.model.findings.steps import steps
from gssr.store.format.rows import Event
from gssr.store.format.sample_arrays import Samples
from tests.fakes.jobs.draw import draw
from tests.fakes.jobs.samplers import sample

NODES = np.repeat(np.arange(2), 2)


def rows(edges: np.ndarray, interval: float, noise: float = 0.005, offset: float = 0.4) -> Samples:
    """Of two nodes of two GPUs, the second sampled ``offset`` intervals later: 0.9 over the first 70 % of each step between
    ``edges`` (s), 0.3 over the rest, as means over the interval."""
    rng = np.random.default_rng(1)
    own = np.sort(np.concatenate([edges[:-1], edges[:-1] + 0.7 * np.diff(edges), edges[-1:]]))
    spent = np.concatenate([[0.0], np.cumsum(np.diff(own) * np.tile([0.9, 0.3], len(own) // 2))])
    times = [np.arange(1, int(edges[-1] / interval)) * interval + start for start in (0.0, offset * interval)]
    gpus = [(gpu, times[node]) for gpu, node in enumerate(NODES.tolist())]
    time = np.concatenate([each for _, each in gpus])
    mean = (np.interp(time, own, spent) - np.interp(time - interval, own, spent)) / interval
    values = mean + rng.normal(0.0, noise, len(time))
    order = np.argsort(time, kind="stable")
    gpu = np.concatenate([np.full(len(each), gpu) for gpu, each in gpus])
    return Samples(gpu[order], 1e9 + time[order], {"sm_active": values[order]})


def every(lengths: np.ndarray) -> np.ndarray:
    """Edges of steps of these lengths, each a little off."""
    return np.concatenate([[0.0], np.cumsum(lengths * np.random.default_rng(2).normal(1.0, 0.01, len(lengths)))])


@pytest.mark.parametrize("samples", (5.3, 8.0, 31.7))
def test_steps_are_told_within_two_percent(samples: float) -> None:
    found = steps([rows(every(np.full(60, samples)), 1.0)], NODES, 1.0)
    assert found is not None
    assert found.seconds == pytest.approx(samples, rel=0.02)
    assert found.accuracy < 0.02
    assert found.changed_at is None


@pytest.mark.parametrize("samples", (0.31, 0.9, 1.07, 1.6, 2.4, 3.7))
@pytest.mark.parametrize("offset", (0.0, 0.4))
def test_nothing_is_said_of_steps_shorter_than_five_samples(samples: float, offset: float) -> None:
    """A step of 1.6 s seen each second comes again after 8 s, one of 0.9 s after 9 s."""
    assert steps([rows(every(np.full(400, samples)), 1.0, offset=offset)], NODES, 1.0) is None


def test_nothing_is_said_of_noise_nor_of_few_rows() -> None:
    rng = np.random.default_rng(3)
    time = np.repeat(np.arange(300.0), 4)
    gpu = np.tile(np.arange(4), 300)
    assert steps([Samples(gpu, time, {"sm_active": rng.random(1200)})], NODES, 1.0) is None
    assert steps([Samples(gpu[:8], time[:8], {"sm_active": rng.random(8)})], NODES, 1.0) is None
    assert steps([Samples(gpu, time, {"sm_active": np.full(1200, np.nan)})], NODES, 1.0) is None
    assert steps([], NODES, 1.0) is None


def test_rows_that_are_few_for_their_interval_take_no_memory() -> None:
    """A file may say that it was sampled every 0.1 ms, and hold a row each 7 s."""
    time = np.repeat(7.0 * np.arange(100), 4)
    values = np.random.default_rng(4).random(400)
    tracemalloc.start()
    try:
        assert steps([Samples(np.tile(np.arange(4), 100), time, {"sm_active": values})], NODES, 1e-4) is None
        assert tracemalloc.get_traced_memory()[1] < 10e6
    finally:
        tracemalloc.stop()


def test_a_change_is_told_with_its_time() -> None:
    lengths = np.concatenate([np.full(80, 6.0), np.full(80, 7.5)])
    found = steps([rows(every(lengths), 1.0)], NODES, 1.0)
    assert found is not None
    assert found.changed_at is not None and found.change is not None
    assert found.changed_at - 1e9 == pytest.approx(480, abs=70)
    assert found.change == pytest.approx(0.25, abs=0.03)
    assert found.seconds == pytest.approx(6.75, rel=0.02)
    times, seconds = np.array(found.series).T
    assert (np.diff(times) > 0).all()
    assert np.median(seconds[:4]) == pytest.approx(6.0, rel=0.02)


def test_stretches_apart_from_each_other_tell_as_one() -> None:
    whole = rows(every(np.full(200, 6.5)), 1.0)
    pieces = []
    for begin in (100.0, 600.0, 1100.0):
        own = (whole.time >= 1e9 + begin) & (whole.time < 1e9 + begin + 80)
        pieces.append(Samples(whole.gpu[own], whole.time[own], {"sm_active": whole.values["sm_active"][own]}))
    found = steps(pieces, NODES, 1.0)
    assert found is not None
    assert found.seconds == pytest.approx(6.5, rel=0.02)


def test_marks_that_count_steps_go_before() -> None:
    def marked(name: str) -> list[Event]:
        return [
            Event(1e9 + 2.5 * at + late, None, None, 0, "mark", name.format(10 * at))
            for at in range(40)
            for late in (0.0, 0.1)  # two processes of the rank
        ]

    for name in ("step {}", "train step={}", "Iteration #{}", "batch_{}"):
        found = steps([], NODES, 1.0, events=marked(name))
        assert found is not None, name
        assert found.seconds == pytest.approx(0.25)
        assert len(found.series) == 39
    assert steps([], NODES, 1.0, events=marked("epoch {}")) is None
    assert steps([], NODES, 1.0, events=marked("step {}")[:6]) is None


def bursts(step: float) -> Samples:
    """Of one GPU, each second: work for 2 % of each step only; beside it NVML's reading, of a GPU that is always busy."""
    edges = every(np.full(int(300 / step), step))
    own = np.sort(np.concatenate([edges[:-1], edges[:-1] + 0.02 * np.diff(edges), edges[-1:]]))
    spent = np.concatenate([[0.0], np.cumsum(np.diff(own) * np.tile([0.9, 0.0], len(own) // 2))])
    time = np.arange(1.0, edges[-1])
    values = np.interp(time, own, spent) - np.interp(time - 1, own, spent)
    values *= np.random.default_rng(5).normal(1.0, 0.005, len(time))
    columns = {"sm_active": values, "gpu_utilization": np.ones(len(time))}
    return Samples(np.zeros(len(time), np.int64), 1e9 + time, columns)


@pytest.mark.parametrize("step", (5.2, 7.3))
def test_one_node_tells_of_short_work_that_comes_again(step: float) -> None:
    """With steps shorter than a sample, each sample would hold some of it. Every 5.2 samples is most alike after 26."""
    found = steps([bursts(step)], np.zeros(1, np.int64), 1.0)
    assert found is not None
    assert found.seconds == pytest.approx(step, rel=0.02)


@pytest.mark.parametrize("step", (0.31, 0.87, 0.93, 1.1, 1.15))
def test_nothing_is_said_of_bursts_that_beat_with_the_samples_of_one_node(step: float) -> None:
    assert steps([bursts(step)], np.zeros(1, np.int64), 1.0) is None


def test_readings_of_an_instant_tell_of_no_steps() -> None:
    """They beat with shorter steps at full height."""
    own = rows(every(np.full(60, 8.0)), 1.0)
    assert steps([Samples(own.gpu, own.time, {"gpu_utilization": own.values["sm_active"]})], NODES, 1.0) is None


def test_steps_that_become_longer_early_are_told_by_their_mean() -> None:
    lengths = np.concatenate([np.full(10, 6.6), np.full(45, 9.36)])
    found = steps([rows(every(lengths), 1.0)], NODES, 1.0)
    assert found is not None
    assert found.seconds == pytest.approx(lengths.mean(), rel=0.02)


def test_a_few_steps_of_another_length_are_not_in_the_mean_of_those_seen() -> None:
    """A clock that is throttled after the first few of them."""
    found = steps([rows(every(np.concatenate([np.full(5, 5.4), np.full(26, 7.2)])), 1.0)], NODES, 1.0)
    assert found is not None
    assert found.seconds == pytest.approx(7.2, rel=0.02)


@pytest.mark.parametrize(
    ("seed", "told"),
    (
        (35, True),
        (108, True),
        (154, False),
        (887, False),
        (37, False),
        (131, False),
        (138, False),
        (280, False),
    ),
)
def test_simulated_jobs(seed: int, told: bool) -> None:
    """Jobs of many nodes with waits in each step: of more than five samples, and of fewer, which beat with the sampling;
    one (154) seen by NVML alone, and one (887) that moves hardly more than a beat would."""
    job = draw(seed)
    samples = sample(job.draft, job.timeline, job.sampling, job.seed)
    tick, gpu = np.nonzero(samples.rows)
    values = {name: column[tick, gpu] for name, column in samples.columns.items()}
    own = Samples(gpu.astype(np.int64), samples.times[tick, gpu], values)
    found = steps([own], np.array(job.plan.nodes), job.sampling.interval)
    assert (found is not None) == told
    if found is not None:
        assert found.seconds == pytest.approx(job.step_seconds, rel=0.02)
