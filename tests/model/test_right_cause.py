"""The right cause is named: jobs whose symptoms look like another's, each simulated with or made by hand of its physics."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from evidences import evidence, scaled
from ticks import Record, ticks

from gssr.backends.synthetic.bulk import Request, generate
from gssr.model.analyze import analyze
from gssr.model.evidence.evidence import Evidence
from gssr.model.results import Verdict
from gssr.model.verdicts import judge
from gssr.render.verdicts import verdict_rows
from gssr.store.read.recording import open_recording
from tests.fakes.jobs import causes, healthy
from tests.fakes.jobs.hardware import A100, H100, Gpu
from tests.fakes.jobs.job import IDLE, Cause, Draft, Lap, Plan, Recipe
from tests.fakes.jobs.labels import Job
from tests.fakes.jobs.phases import Kind
from tests.fakes.jobs.samplers import DCGM, GPM, NVML, TEN, THIRTY_OF_ONE, Sampling
from tests.fakes.jobs.write import write

SLOWED = {"straggler", "slow_node", "slow_clock", "imbalance"}


class Told(NamedTuple):
    """What was said: verdicts by code, and those that are worse than information."""

    verdicts: dict[str, Verdict]

    @property
    def warned(self) -> set[str]:
        return {code for code, verdict in self.verdicts.items() if verdict.severity != "info"}


Tell = Callable[..., Told]


def training(seconds: float) -> Recipe:
    """Healthy steps of so many seconds, in which ranks wait for each other."""
    return healthy.recipe("llm", np.random.default_rng(1), seconds, healthy.RING)


@pytest.fixture
def tell(tmp_path: Path) -> Tell:
    """What is said of a job with these causes."""

    def told(
        *found: Cause,
        step: float = 1.6,
        sampling: Sampling = DCGM,
        n: int = 8,
        seconds: float = 240.0,
        gpus: tuple[Gpu, ...] = (),
        recipe: Recipe | None = None,
    ) -> Told:
        recipe = recipe or training(step)
        plan = Plan(gpus or (H100,) * n, 8, recipe, round(seconds / recipe.step), seconds, found, 7).lasting()
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}.sql"
        write(Job(7, "job", plan, sampling), str(path))
        return Told({verdict.code: verdict for verdict in analyze(open_recording(path).runs[0]).verdicts})

    return told


def of(made: Evidence) -> Told:
    return Told({verdict.code: verdict for verdict in judge(made).verdicts})


def unfinished(cause: Cause) -> Cause:
    """The same of a job that was killed."""

    def apply(draft: Draft) -> None:
        cause.apply(draft)
        draft.state, draft.exit_code = "timeout", 143

    return cause._replace(apply=apply)


def exchange(share: float, kind: Kind = healthy.RING) -> Cause:
    """Collectives in this share of each step."""
    return causes.communication(share, kind, 1.0, 1.6)


# 1, 2: communication


@pytest.mark.parametrize(("n", "kind", "share"), [(16, healthy.RING, 0.55), (8, healthy.NVLINK, 0.5)])
def test_collectives_that_nothing_hides_are_named_within_a_step(n: int, kind: Kind, share: float, tell: Tell) -> None:
    """Their kernels spin: the engine is busy, few SMs are."""
    assert tell(exchange(share, kind), step=1.6 * (1 - share), n=n).warned == {"communication_bound"}


def test_traffic_of_the_network_is_no_copy_from_the_host() -> None:
    """Over PCIe as much is sent as received, and a kernel runs all the time: it goes to the adapters."""
    both = {"pcie_tx_bytes": 24e9, "pcie_rx_bytes": 24e9, "nvlink_tx_bytes": 2e9, "nvlink_rx_bytes": 2e9}
    collective = {
        "gr_engine_active": 0.97,
        "sm_active": 0.25,
        "tensor_active": 0.08,
        "fp32_active": 0.02,
        "dram_active": 0.2,
    }
    fabric = {"fabric_rx_bytes": 96e9, "fabric_tx_bytes": 96e9}
    assert of(evidence(16, host=fabric, **both, **collective)).warned == {"communication_bound"}


@pytest.mark.parametrize(("share", "codes"), [(0.6, {"low_power"}), (0.35, set())])
def test_by_power_alone_collectives_show_where_they_take_most_of_the_time(
    share: float, codes: set[str], tell: Tell
) -> None:
    """The engine is always busy; less than half of the time might as well be kernels that draw less."""
    assert tell(exchange(share), step=3.2 * (1 - share), sampling=NVML).warned == codes


# 3: hangs


@pytest.mark.parametrize("cause", [causes.evaluation_alone(1.0, 200, 3), causes.tear_down(150, 0.5e9)])
def test_a_job_is_not_hung_while_a_rank_evaluates_or_writes(cause: Cause, tell: Tell) -> None:
    assert "hang" not in tell(unfinished(cause), n=16, seconds=600).verdicts


def test_kernels_that_spin_for_ever_are_a_hang_where_nvml_is_all_there_is(tell: Tell) -> None:
    """100 % utilization; but next to no power is drawn, and no memory copied."""
    assert tell(causes.hang(200, None, True, False), sampling=NVML, seconds=400).warned == {"hang"}


def test_a_barrier_that_is_never_left_is_a_hang(tell: Tell) -> None:
    assert tell(causes.hang(400, None, True, True), seconds=400).warned == {"hang"}


def test_the_rank_that_never_came_is_named(tell: Tell) -> None:
    hang = tell(causes.hang(200, 5, True, False), seconds=400).verdicts["hang"]
    assert hang.gpus == (5,) and "gpu001:5" in hang.title


# 4, 5: GPUs that differ


def test_ranks_that_are_slow_in_turn_are_found_though_their_means_are_alike(tell: Tell) -> None:
    """The one that works is above the median, of those that spin."""
    told = tell(causes.rotating(1.8, 6), seconds=480)
    assert "rotating_stragglers" in told.warned and not told.warned & {*SLOWED, "communication_bound"}


@pytest.mark.parametrize("n", [2, 8])
def test_gpus_that_work_in_turn_take_turns(n: int, tell: Tell) -> None:
    assert tell(causes.turns(np.arange(n) % 2, 30, False), n=n, seconds=480).warned == {"taking_turns"}


def test_models_are_compared_with_their_own_kind(tell: Tell) -> None:
    assert not tell(gpus=(A100,) * 8 + (H100,) * 8).warned


# 6, 9: what runs on the GPUs


def test_a_kernel_on_one_sm_is_work(tell: Tell) -> None:
    assert tell(causes.kernels("one_sm")).warned == {"small_kernels"}


@pytest.mark.parametrize(("kernels", "code"), [("thrashing", "unified_memory"), ("few_warps", "low_occupancy")])
def test_kernels_that_wait_for_memory_are_told_by_how(kernels: str, code: str, tell: Tell) -> None:
    assert tell(causes.kernels(kernels)).warned == {code}


def test_arithmetic_without_tensor_cores_is_no_warning() -> None:
    dynamics = healthy.DYNAMICS
    activities = {
        "sm_active": dynamics.sm,
        "tensor_active": 0.0,
        "fp32_active": dynamics.fp32,
        "dram_active": dynamics.dram,
    }
    told = of(evidence(**activities))
    assert told.verdicts["tensor_unused"].severity == "info" and not told.warned


def test_a_job_is_bound_by_one_thing() -> None:
    told = of(evidence(tensor_active=0.55, dram_active=0.66, sm_active=0.8))
    assert len(told.verdicts.keys() & {"memory_bound", "compute_bound", "memory_peak"}) == 1


# 7: rhythms


def test_waits_at_random_have_no_period() -> None:
    for seed in range(12):
        random, shape, at = np.random.default_rng(seed), np.ones(1800), 0.0
        while (at := at + random.uniform(33, 122)) < 1780:
            shape[int(at) : int(at) + 22] = 0.02
        assert "recurring_dips" not in of(evidence(n=1800, **scaled(shape))).verdicts, seed


def test_a_step_sampled_too_rarely_beats_without_a_rhythm(tell: Tell) -> None:
    """Steps of 1.6 s, of which 0.5 s wait, sampled each second: every fifth step looks alike."""
    told = tell(causes.starved(0.69, False, 128), step=0.69 * 1.6)
    assert "recurring_dips" not in told.verdicts and told.warned


@pytest.mark.parametrize(
    ("step", "sampling", "seconds"), [(3.0, GPM, 90), (8.0, DCGM, 240), (3.0, NVML, 240), (3.0, TEN, 600)]
)
def test_heat_that_slows_each_step_is_no_rhythm_of_its_own(
    step: float, sampling: Sampling, seconds: float, tell: Tell
) -> None:
    """However long steps are: in each dip the slow GPU works, and the others wait for it."""
    slow = causes.slow_clock((2,), 0.45, 0x20, 0.0, "throttled_thermal")
    assert tell(slow, step=step, sampling=sampling, seconds=seconds).warned == {"throttled_thermal"}


# 8, 9: sampling


def test_waits_shorter_than_a_sample_are_told_by_the_hosts_rows(tell: Tell) -> None:
    """Waits of 3 s take a third of the time, sampled every 10 s; the nodes' disks each second."""
    told = tell(causes.slow_input(1 / 3, 4, False, False), sampling=TEN, step=1.5, seconds=600)
    share = next(each.value for each in told.verdicts["io_wait"].evidence if each.metric == "share")
    assert share == pytest.approx(1 / 3, abs=0.08)


def test_values_that_are_missing_make_no_stragglers(tell: Tell) -> None:
    """Steps of work and of waiting, of which 40 % of the values are there."""
    told = tell(causes.starved(0.6, False, 128), step=0.6 * 3.0, sampling=DCGM._replace(nulls=0.4))
    assert not told.verdicts.keys() & {"rotating_stragglers", *SLOWED}


@pytest.mark.parametrize(
    ("share", "step", "every", "sampling", "seconds"),
    [
        (0.33, 0.7, 1, GPM, 90),
        (0.33, 1.0, 2, DCGM, 150),
        (0.33, 0.8, 1, DCGM, 800),
        (0.6, 3.0, 4, THIRTY_OF_ONE, 1800),
        (0.7, 1.0, 8, TEN, 600),
    ],
)
def test_waits_that_end_before_the_next_sample_are_told(
    share: float, step: float, every: int, sampling: Sampling, seconds: float, tell: Tell
) -> None:
    """The nodes' or the GPUs'; data is read all along."""
    told = tell(causes.slow_input(share, every, True, False), sampling=sampling, step=step, seconds=seconds)
    assert "io_wait" in told.warned and "pauses" not in told.warned


def test_copies_shorter_than_a_sample_are_told_by_what_the_link_carries_between_kernels(tell: Tell) -> None:
    """Pageable memory at a tenth of the link's bandwidth, for a third of each step: on average next to nothing."""
    told = tell(causes.copies(0.35, True), sampling=TEN, step=1.5, seconds=600)
    assert told.warned == {"transfer_bound"}
    rate = next(each.value for each in told.verdicts["transfer_bound"].evidence if each.metric == "pcie_rx_bytes")
    assert rate == pytest.approx(0.75 * 0.09 * H100.pcie, rel=0.25)  # three quarters of it go there, one comes back


def short_checkpoints(every: float, seconds: float, copied: float) -> Cause:
    """First memory is copied to the host, for this share of the time, then it is written."""

    def apply(draft: Draft) -> None:
        copying, writing = IDLE._replace(host_tx=0.3, cores=1.5), IDLE._replace(write=1e9, cores=1.5)
        phases = ((draft.everybody(copying), copied), (draft.everybody(writing), 1 - copied))
        for number in range(1, int(draft.plan.seconds / every)):
            before = int(number * every * len(draft.laps) / draft.plan.seconds)
            draft.between.append(Lap(before, seconds, phases))

    return Cause("checkpoints", "io_wait", apply, frozenset())


@pytest.mark.parametrize("sampling", [GPM, DCGM])
@pytest.mark.parametrize(("seconds", "every"), [(1.5, 20.0), (2.0, 40.0), (3.0, 30.0)])
def test_a_short_checkpoint_is_no_wait_for_copies_to_the_host(
    seconds: float, every: float, sampling: Sampling, tell: Tell
) -> None:
    """Its writes may end in the second that the nodes' next row, after the wait, tells of."""
    told = tell(short_checkpoints(every, seconds, 0.6), sampling=sampling, n=4).verdicts
    assert "io_wait" in told and "transfer_bound" not in told


def test_what_is_read_after_a_wait_is_not_what_was_waited_for() -> None:
    """Waits of two seconds; in the third one read-ahead goes on, and what waits have written is told."""
    second = np.arange(300) % 20
    work, after = scaled(np.where(second < 2, 0.05, 1.0)), np.where(second == 2, 2e9, 1e6)
    assert "io_wait" not in of(evidence(host={"read_bytes": after}, **work)).verdicts
    assert "io_wait" in of(evidence(host={"write_bytes": after}, **work)).verdicts


def _waves(n: int = 300) -> np.ndarray:
    """[n]: between -1 and 1, every ten seconds."""
    return np.sin(2 * np.pi * np.arange(n) / 10)


@pytest.mark.parametrize("link", ["c2c_rx_bytes", "pcie_rx_bytes"])
def test_traffic_that_rises_with_the_work_holds_nothing_up(link: str) -> None:
    """The engine is idle for a tenth of the time, in waits shorter than a sample, whatever the link carries."""
    waves, rate = _waves(), 5.24e9 if link == "c2c_rx_bytes" else 20e9
    work = {"gr_engine_active": 0.88 + 0.08 * waves, "sm_active": 0.8 + 0.15 * waves, link: rate * (1 + 0.2 * waves)}
    assert "transfer_bound" not in of(evidence(gpus={"name": "NVIDIA H100 FAKE"}, noise=0.0, **work)).verdicts


def test_little_traffic_over_c2c_holds_nothing_up() -> None:
    """Steady at 1.2 % of its bandwidth, of a GPU whose peaks are unknown."""
    work = {"gr_engine_active": 0.88, "c2c_rx_bytes": 5.24e9, "c2c_tx_bytes": 5.24e9}
    assert "transfer_bound" not in of(evidence(gpus={"name": "NVIDIA H100 FAKE"}, **work)).verdicts


def test_what_a_link_carries_at_work_as_well_explains_no_wait() -> None:
    waits = scaled(np.where(np.arange(300) % 60 < 12, 0.05, 1.0), "pcie_rx_bytes")
    assert "transfer_bound" not in of(evidence(pcie_rx_bytes=20e9, **waits)).verdicts


def test_the_activity_beside_transfers_is_that_of_the_waits() -> None:
    """SM activity at work says nothing of waits that are shorter than a sample."""
    short = of(evidence(gr_engine_active=0.7, pcie_rx_bytes=20e9)).verdicts["transfer_bound"].evidence
    assert [each.text for each in short if each.metric == "gr_engine_active"] == [
        "Graphics engine active 70 %: each wait is shorter than a sample"
    ]
    assert not [each for each in short if each.metric == "sm_active"]
    load = np.where(np.arange(300) % 60 < 12, 0.05, 1.0)
    waits = evidence(pcie_rx_bytes=np.where(load < 1, 20e9, 1e9), **scaled(load, "pcie_rx_bytes"))
    long = of(waits).verdicts["transfer_bound"].evidence
    assert next(each.value for each in long if each.metric == "sm_active") == pytest.approx(0.05 * 0.82, rel=0.1)


def test_cores_that_rest_while_the_gpus_wait_hold_up_nothing() -> None:
    """One is busy meanwhile, four are while the GPUs work: they wait together for something else."""
    load = np.where(np.arange(300) % 60 < 12, 0.05, 1.0)
    assert "cpu_starved" in of(evidence(workload={"cpu": 1.0}, **scaled(load))).warned
    assert "cpu_starved" not in of(evidence(workload={"cpu": np.where(load < 1, 1.0, 4.0)}, **scaled(load))).verdicts


@pytest.mark.parametrize("n", [1, 2, 4, 5])
def test_of_fewer_than_five_samples_a_gpu_nothing_is_told_but_that(record: Record, n: int) -> None:
    """A run that is over at once."""
    gpu, time = ticks(4, n)
    made = analyze(record(gpu, time, {"sm_active": np.where(gpu == 0, 0.9, 0.6), "gr_engine_active": 0.97 + 0.0 * gpu}))
    told = {verdict.code for verdict in made.verdicts}
    reason = f"no GPU has more than {n} sample{'s' if n > 1 else ''}"
    reasons = {each.reason for each in made.abstentions if each.code == "imbalance"}
    if n < 5:
        assert (told, reasons) == (set(), {reason}) and f"not judged: {reason}" in made.notes
    else:
        assert told and not reasons and not any("not judged" in note for note in made.notes)


def test_few_samples_differ_by_chance() -> None:
    """Each shows another part of a step that is too short to see: of 20 the means differ by a tenth and more."""
    for seed in range(8):
        load = np.where(np.random.default_rng(seed).random((16, 20)) < 0.6, 1.0, 0.05)
        assert not of(evidence(16, 20, width=30.0, **scaled(load))).warned & SLOWED, seed


def test_nodes_that_are_sampled_in_other_parts_of_a_step_take_no_turns() -> None:
    """Each GPU works for 65 % of every step; one node's samples are 40 % of a step later than the other's."""
    part = (0.13 * np.arange(100) + np.repeat([0.0, 0.4], 4)[:, None]) % 1
    assert "taking_turns" not in of(evidence(8, 100, width=30.0, **scaled(np.where(part < 0.65, 1.0, 0.05)))).verdicts


def test_short_waits_cost_the_same_however_long_the_job_is(tmp_path: Path) -> None:
    """Half a second in four: in bins of half a second they are seen whole, in longer ones they are shares."""
    shares = []
    for number, hours in enumerate((0.1, 0.2, 0.35)):
        path = tmp_path / f"{number}.sql"
        generate(Request(str(path), "train", 2, hours, 0.1))
        told = {verdict.code: verdict for verdict in analyze(open_recording(path).runs[0]).verdicts}
        shares += [each.value for each in told["transfer_bound"].evidence if each.metric == "share"]
    assert len(shares) == 3 and max(shares) - min(shares) < 0.05


# 10: texts


def page(told: Told) -> str:
    rows = [row for verdict in told.verdicts.values() for row in verdict_rows(verdict, 2000, True)]
    return "\n".join("".join(span.text for span in row) for row in rows)


def test_one_core_is_one() -> None:
    load = np.where(np.arange(300) % 10 < 5, 0.05, 1.0)
    text = page(of(evidence(workload={"cpu": 1.0}, **scaled(load))))
    assert "1 core " in text and "1 cores" not in text


def test_a_rank_that_does_more_is_not_said_to_do_less() -> None:
    load = np.full((8, 1), 0.6)
    load[3] = 1.0
    told = of(evidence(**scaled(load * 1.1 * np.ones(300))))
    assert "has more work" in told.verdicts["straggler"].advice


def test_limits_have_their_sources_in_words() -> None:
    load = np.ones((8, 1))
    load[3] = 0.4
    text = page(of(evidence(**scaled(load))))
    assert "limits: " in text and "[" not in text
