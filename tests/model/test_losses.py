"""What is lost of the GPU time is named by its cause, and sentences that can't be true are never said."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from evidences import GIB, HEALTHY, during, evidence, scaled
from ticks import Record, ticks

from gssr.backends.synthetic import __main__ as synthetic
from gssr.model.account.activity import does_something
from gssr.model.analyze import analyze
from gssr.model.breakdown.categories import POSITIONS
from gssr.model.evidence.evidence import Evidence
from gssr.model.results import LeadingLoss, Verdict
from gssr.model.verdicts import judge, words
from gssr.store.format.rows import TOP_COMMAND
from gssr.store.read.recording import open_recording
from tests.fakes.jobs import causes, healthy
from tests.fakes.jobs.hardware import A100, H100, Gpu
from tests.fakes.jobs.job import IDLE, Cause, Draft, Lap, Plan, Recipe
from tests.fakes.jobs.labels import Job
from tests.fakes.jobs.phases import Kind
from tests.fakes.jobs.samplers import DCGM, GPM, NVML, TEN, TEN_OF_ONE, Sampling
from tests.fakes.jobs.write import write

N = 300
COUNTERS = tuple(
    name for name in HEALTHY if not name.startswith(("gpu_util", "memory_", "power", "temperature", "sm_clock"))
)
"""What NVML alone does not tell."""


class Told(NamedTuple):
    """What was said: verdicts by code, in their order, and those that are worse than information."""

    verdicts: dict[str, Verdict]
    shares: Callable[[str], float]
    leading: LeadingLoss | None

    @property
    def warned(self) -> list[str]:
        return [code for code, verdict in self.verdicts.items() if verdict.severity != "info"]

    def texts(self, code: str) -> str:
        return "; ".join(finding.text for finding in self.verdicts[code].evidence)


Tell = Callable[..., Told]


def of(made: Evidence) -> Told:
    judged = judge(made)
    assert judged.breakdown is not None
    return Told({verdict.code: verdict for verdict in judged.verdicts}, judged.breakdown.share, judged.leading_loss)


def training(seconds: float) -> Recipe:
    """Healthy steps of so many seconds, in which ranks wait for each other."""
    return healthy.recipe("llm", np.random.default_rng(1), seconds, healthy.RING)


@pytest.fixture
def tell(tmp_path: Path) -> Tell:
    """What is said of a simulated job with these causes."""

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
        plan = Plan(gpus or (H100,) * n, 8, recipe, max(round(seconds / recipe.step), 3), seconds, found, 7).lasting()
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}.sql"
        write(Job(7, "job", plan, sampling), str(path))
        made = analyze(open_recording(path).runs[0]).judgement
        assert made.breakdown is not None
        return Told({verdict.code: verdict for verdict in made.verdicts}, made.breakdown.share, made.leading_loss)

    return told


def unfinished(cause: Cause) -> Cause:
    """The same of a job that was killed."""

    def apply(draft: Draft) -> None:
        cause.apply(draft)
        draft.state, draft.exit_code = "timeout", 143

    return cause._replace(apply=apply)


def before_each_step(kind: Kind, seconds: float, node: int | None = None) -> Cause:
    """All ranks, or those of a node, do this first."""

    def apply(draft: Draft) -> None:
        column = draft.column(kind, seconds)
        column.seconds[:, [node is not None and own != node for own in draft.plan.nodes]] = 0.0
        draft.own.insert(0, column)

    return Cause("before", "", apply)


def uneven_batches(spread: float) -> Cause:
    """In each step some ranks are ahead while others are behind."""

    def apply(draft: Draft) -> None:
        factors = draft.rng.uniform(1 - spread, 1 + spread, (draft.variants, draft.n))
        for column in draft.own:
            column.seconds = column.seconds * factors

    return Cause("uneven", "rotating_stragglers", apply)


def stalls(draft: Draft) -> None:
    """At irregular times all wait for a file system over the network."""
    at = 0.0
    while (at := at + float(draft.rng.exponential(20.0)) + 4) < 230:
        kinds = draft.everybody(IDLE._replace(net_rx=4e7, cores=0.2))
        draft.between.append(Lap(int(at / 240 * len(draft.laps)), float(draft.rng.uniform(1.5, 6)), ((kinds, 1.0),)))


def in_turn(seconds: int) -> Evidence:
    """Four stages of a pipeline that holds one batch at a time."""
    stage = np.arange(N) // seconds % 4
    return evidence(4, workload={"cpu": 1.0}, **scaled(np.where(np.arange(4)[:, None] == stage, 1.0, 0.02)))


EXPORTED = ("sm_active", "sm_occupancy", "fp64_active", "fp32_active", "fp16_active", "tensor_dfma_active",
            "nvlink_tx_bytes", "nvlink_rx_bytes")  # fmt: skip
"""What dcgm-exporter's default fields do not tell."""


def exported(share_of_work: Any, power_waiting: float = 250.0, n: int = 8, **values: Any) -> Evidence:
    """A job recorded by an exporter: a kernel runs all the time, but works for this share of it only [n_gpus, n_bins]."""
    works = np.broadcast_to(np.asarray(share_of_work, float), (n, N))
    watts = works * 600.0 + (1 - works) * power_waiting
    load = {"gr_engine_active": 0.98, "tensor_active": 0.5 * works, "dram_active": 0.4 * works, "power_usage": watts}
    return evidence(n, without=EXPORTED, **{**load, **values})


# Kinds of loss that are found, each first of what is told


SIMULATED: dict[str, tuple[list[str], Any]] = {
    "collectives in half of each step": (
        ["communication_bound"], lambda tell: tell(causes.communication(0.55, healthy.RING, 1.0, 1.6), step=0.72, n=16)),
    "collectives over NVLink": (
        ["communication_bound"], lambda tell: tell(causes.communication(0.5, healthy.NVLINK, 1.0, 1.6), step=0.8)),
    "one rank has more to do": (
        ["straggler"], lambda tell: tell(causes.uneven(np.array([1.0] * 7 + [1.6]), "straggler", True))),
    "uneven load": (["imbalance"], lambda tell: tell(causes.uneven(np.repeat([1.0, 1.6], 8), "imbalance", True), n=16)),
    "uneven batches, steps of 1 s": (["rotating_stragglers"], lambda tell: tell(uneven_batches(0.5), step=1.0, n=16)),
    "uneven batches, steps of 10 s": (
        ["rotating_stragglers"], lambda tell: tell(uneven_batches(0.5), step=10.0, n=16, seconds=400)),
    "ranks slow in turn": (["rotating_stragglers"], lambda tell: tell(causes.rotating(1.8, 6), seconds=480)),
    "groups in turn": (["taking_turns"], lambda tell: tell(causes.turns(np.arange(8) % 2, 30, False), seconds=480)),
    "pipeline that spins": (["taking_turns"], lambda tell: tell(causes.turns(np.arange(4), 3.0, True), n=4, step=1.0)),
    "a node that its host holds up": (
        ["slow_node"], lambda tell: tell(before_each_step(IDLE._replace(cores=1.0), 1.0, 3), n=64, seconds=120)),
    "heat": (["throttled_thermal"], lambda tell: tell(causes.slow_clock((2,), 0.45, 0x20, 0.0, "throttled_thermal"))),
    "files, all wait": (["io_wait"], lambda tell: tell(causes.slow_input(0.33, 4, False, False), step=1.5, seconds=400)),
    "files at irregular times": (["io_wait"], lambda tell: tell(Cause("nfs", "io_wait", stalls))),
    "copies": (["transfer_bound"], lambda tell: tell(causes.copies(0.35, True), sampling=TEN, step=1.5, seconds=600)),
    "mostly on many cores": (
        ["cpu_starved"], lambda tell: tell(before_each_step(IDLE._replace(cores=24.0), 2.5), step=1.0)),
    "a kernel on one SM": (["small_kernels"], lambda tell: tell(causes.kernels("one_sm"))),
    "pages to and fro": (["unified_memory"], lambda tell: tell(causes.kernels("thrashing"))),
    "spinning for ever": (["hang"], lambda tell: tell(causes.hang(200, None, True, False), sampling=NVML, seconds=400)),
    "a barrier that is never left": (["hang"], lambda tell: tell(causes.hang(400, None, True, True), seconds=400)),
    "one evaluates alone to the end": (
        ["straggler"], lambda tell: tell(unfinished(causes.evaluation_alone(1.0, 200, 3)), n=16, seconds=600)),
    "two models": ([], lambda tell: tell(gpus=(A100,) * 8 + (H100,) * 8)),
}  # fmt: skip


@pytest.mark.parametrize("name", SIMULATED)
def test_a_simulated_job_is_told_its_cause_and_no_other(name: str, tell: Tell) -> None:
    codes, job = SIMULATED[name]
    assert job(tell).warned == codes


def _slower(position: int, value: float, n_gpus: int) -> Any:
    """[n_gpus, 1]: this for one GPU, 1 for the others."""
    return np.where(np.arange(n_gpus) == position, value, 1.0)[:, None]


_NODE = (np.arange(64) // 4 == 9)[:, None]
BY_HAND: dict[str, tuple[str, Evidence, float]] = {
    "an unused GPU": ("gpus_unused", evidence(**scaled(_slower(3, 0.0, 8))), 1 / 8),
    "a late beginning": ("start_up", evidence(**scaled(during(N, 0, 80, 0.01))), 80 / 300),
    "an idle end": ("tear_down", evidence(**scaled(during(N, 220, N, 0.0))), 80 / 300),
    "one that ends early": ("early_end", evidence(**scaled(np.where(_slower(2, 0, 8), 1, during(N, 240, N, 0)))), 0.025),
    "all but one end early": (
        "early_end", evidence(**scaled(np.where(_slower(2, 0, 8) == 0, 1, during(N, 240, N, 0)))), 0.175),
    "half begin late": ("late_start", evidence(**scaled(np.where(np.arange(8)[:, None] < 4, during(N, 0, 60, 0), 1))), 0.1),
    "a hang": ("hang", evidence(n=600, state="running", **scaled(during(600, 300, 600, 0.0))), 0.5),
    "one node's engine at 61 %": ("slow_node", evidence(64, gr_engine_active=np.where(_NODE, 0.61, 0.97),
                                                        sm_active=np.where(_NODE, 0.56, 0.6)), 0.36),
    "one works, seven idle": ("straggler", evidence(**scaled(0.5 * _slower(3, 2.0, 8))), 0.5 * 0.93 * 7 / 8),
    "a slope": ("imbalance", evidence(**scaled(np.linspace(1.0, 0.5, 8)[:, None])), 0.25 * 0.93),
    "a pipeline, stages of 1 s": ("taking_turns", in_turn(1), 0.68),
    "a pipeline, stages of 5 s": ("taking_turns", in_turn(5), 0.68),
    "one GPU idles, in turn": ("rotating_stragglers", evidence(**scaled(
        np.where(np.arange(N) // 10 % 8 == np.arange(8)[:, None], 0.2, 1.0))), 0.09),
    "one clock without reason": ("slow_clock", evidence(16, sm_clock=np.where(_slower(5, 0, 16) == 0, 1252, 1975)), 0.02),
    "all clocks without reason": ("slow_clock", evidence(sm_clock=1252.0), 0.34),
    "reading": ("io_wait", evidence(
        host={"read_bytes": during(N, 100, 160, 2e9, 5e6)}, **scaled(during(N, 100, 160, 0.1))), 0.18),
    "copying": ("transfer_bound", evidence(**scaled(during(N, 100, 160, 0.1)) | {
        "pcie_rx_bytes": during(N, 100, 160, 20e9, 0.5e9)}), 0.18),
    "all cores busy": ("cpu_starved", evidence(host={"cpu_utilization": 0.98}, **scaled(0.3)), 0.72),
    "gaps between kernels": ("launch_gaps", evidence(**scaled(0.7)), 0.35),
    "little use": ("low_use", evidence(**scaled(0.4)), 0.63),
    "few warps": ("low_occupancy", evidence(
        gr_engine_active=0.97, sm_active=0.9, sm_occupancy=0.045, tensor_active=0.0), 0.97),
    "small kernels": ("small_kernels", evidence(**scaled(0.2) | {"gr_engine_active": 0.8}), 0.8),
    "pauses": ("pauses", evidence(workload={"cpu": 0.1}, **scaled(during(N, 100, 160, 0.01))), 0.2),
    "a rhythm of pauses": ("recurring_dips", evidence(workload={"cpu": 0.1}, **scaled(
        np.where(np.arange(N) % 30 >= 25, 0.02, 1.0))), 0.16),
    "steps that grow": ("slow_down", evidence(**scaled(np.linspace(1.0, 0.6, N))), 0.14),
}  # fmt: skip


@pytest.mark.parametrize("name", BY_HAND)
def test_a_loss_is_told_with_the_share_that_it_costs(name: str) -> None:
    code, made, share = BY_HAND[name]
    told = of(made).verdicts
    assert code in told, list(told)
    assert told[code].lost == pytest.approx(share, rel=0.12, abs=0.012)
    assert told[code].severity == "info" or told[code].gpu_hours == pytest.approx(
        (told[code].lost or 0) * made.n_gpus * made.seconds / 3600
    )


@pytest.mark.parametrize("name", BY_HAND)
def test_no_second_is_told_twice(name: str) -> None:
    """Slower steps are seen in whatever they lose; the others add up to no more than all."""
    told = of(BY_HAND[name][1]).verdicts.values()
    losses = [verdict.lost or 0.0 for verdict in told if verdict.code != "slow_down"]
    assert sum(losses) <= 1.0 + 1e-6 and len(losses) <= 2


@pytest.mark.parametrize("n_gpus", [1, 2, 8, 64])
@pytest.mark.parametrize("n", [20, 300])
def test_a_healthy_job_gives_no_warning(n_gpus: int, n: int) -> None:
    assert not of(evidence(n_gpus, n)).warned


def test_all_that_end_early_are_named_and_nobody_waits_for_them(tell: Tell) -> None:
    told = tell(causes.partial((1, 4, 6), 0.4, False))
    assert told.warned == ["early_end"] and told.verdicts["early_end"].gpus == (1, 4, 6)
    assert told.verdicts["early_end"].lost == pytest.approx(0.4 * 3 / 8, rel=0.05)


def test_the_rank_that_never_came_is_named(tell: Tell) -> None:
    hang = tell(causes.hang(200, 5, True, False), seconds=400).verdicts["hang"]
    assert hang.gpus == (5,) and "gpu001:5" in hang.title


@pytest.mark.parametrize("cause", [causes.evaluation_alone(1.0, 200, 3), causes.tear_down(150, 0.5e9)])
def test_a_job_is_not_hung_while_a_rank_evaluates_or_writes(cause: Cause, tell: Tell) -> None:
    assert "hang" not in tell(unfinished(cause), n=16, seconds=600).verdicts


def test_collectives_that_do_not_use_nvlink_are_told_so(tell: Tell) -> None:
    ring = healthy.NVLINK._replace(nvlink=0.0, host_tx=0.6, host_rx=0.6)
    plain = Recipe("plain", ((healthy.LLM._replace(nvlink=0.0), 1.0),))
    told = tell(causes.communication(0.4, ring, 1.0, 1.6), recipe=plain)
    assert "NVLink carries nothing" in told.texts("communication_bound")
    assert told.verdicts["communication_bound"].advice.startswith("NCCL leaves NVLink unused")


def test_models_of_which_the_slower_is_waited_for_are_named(tell: Tell) -> None:
    slower = causes.uneven(np.repeat([1.6, 1.0], 8), "imbalance", True)
    texts = tell(slower, gpus=(A100,) * 8 + (H100,) * 8).texts("imbalance")
    assert A100.name in texts and H100.name in texts


def test_of_a_node_that_does_the_most_all_gpus_are_awaited_and_else_one(tell: Tell) -> None:
    for load, who, awaited in (
        (np.repeat([1.6, 1.0], 8), "node", tuple(range(8))),
        (np.append(1.8, np.tile(np.linspace(1.6, 1.0, 8), 2)[1:]), None, (0,)),
    ):
        told = tell(causes.uneven(load, "imbalance", True), n=16)
        title = told.verdicts["imbalance"].title
        assert told.leading is not None and told.leading.awaited == awaited, title
        assert ("; node " in title) == (who == "node")


def test_a_node_whose_name_says_that_it_is_one_is_not_called_a_node_again(tmp_path: Path) -> None:
    synthetic.main(["imbalanced", "--gpus", "16", "--hours", "0.1", "-t", "1000", "-o", str(tmp_path / "a.sql")])
    made = analyze(open_recording(tmp_path / "a.sql").runs[0]).judgement
    title = next(verdict.title for verdict in made.verdicts if verdict.code == "imbalance")
    assert title.endswith("; node0000 does the most")
    assert words.node_label("nid000012") == "node nid000012"


def test_values_that_are_missing_make_no_stragglers(tell: Tell) -> None:
    """Steps of work and of waiting for one busy core, of which 40 % of the values are there."""
    told = tell(causes.starved(0.6, False, 128), step=0.6 * 3.0, sampling=DCGM._replace(nulls=0.4))
    assert told.warned == ["cpu_starved"]


def test_nodes_that_are_sampled_in_other_parts_of_a_step_take_no_turns() -> None:
    """Each GPU works for 65 % of every step; one node's samples are 40 % of a step later than the other's."""
    part = (0.13 * np.arange(100) + np.repeat([0.0, 0.4], 4)[:, None]) % 1
    assert "taking_turns" not in of(evidence(8, 100, width=30.0, **scaled(np.where(part < 0.65, 1.0, 0.05)))).verdicts


def test_traffic_of_the_network_is_no_copy_from_the_host() -> None:
    """Over PCIe as much is sent as received, and a kernel runs all the time: it goes to the adapters."""
    links = {"pcie_tx_bytes": 24e9, "pcie_rx_bytes": 24e9, "nvlink_tx_bytes": 2e9, "nvlink_rx_bytes": 2e9}
    kernels = {
        "gr_engine_active": 0.97,
        "sm_active": 0.25,
        "tensor_active": 0.08,
        "fp32_active": 0.02,
        "dram_active": 0.2,
    }
    told = of(evidence(16, host={"fabric_rx_bytes": 96e9, "fabric_tx_bytes": 96e9}, **links, **kernels))
    assert told.warned == ["communication_bound"]


@pytest.mark.parametrize("n", [1, 4, 5])
def test_of_fewer_than_five_samples_a_gpu_nothing_is_told_but_that(record: Record, n: int) -> None:
    gpu, time = ticks(4, n)
    made = analyze(record(gpu, time, {"sm_active": np.where(gpu == 0, 0.9, 0.6), "gr_engine_active": 0.97 + 0.0 * gpu}))
    reason = f"no GPU has more than {n} sample{'s' if n > 1 else ''}"
    assert (f"not judged: {reason}" in made.notes) == (not made.judgement.verdicts) == (n < 5)


def test_who_is_late_is_told_without_sm_activity_by_the_pipes_that_rest_and_the_power_that_falls() -> None:
    told = of(exported(_slower(3, 1.0, 8) * np.where(np.arange(8)[:, None] == 3, 1.0, 0.6)))
    assert told.warned == ["straggler"] and told.verdicts["straggler"].gpus == (3,)
    assert told.shares("communication.waiting") == pytest.approx(0.98 * 0.4 * 7 / 8, abs=0.03)


def test_pauses_in_which_kernels_only_spin_are_communication_without_sm_activity() -> None:
    told = of(exported(np.where(np.arange(N) % 20 < 5, 0.0, 1.0)))
    assert told.shares("communication") == pytest.approx(0.98 * 0.25, abs=0.03) and told.warned == [
        "communication_bound"
    ]


def test_kernels_of_another_kind_are_no_waiting() -> None:
    """Other pipes may do the work, as power shows; memory may; and all GPUs may do less all the time."""
    other = exported(np.where(np.arange(N) % 20 < 5, 0.0, 1.0), power_waiting=560.0)
    turns = np.linspace(0, 1, 11)[np.arange(N) % 11]  # from matrix products to what memory limits
    mixed = exported(1.0, tensor_active=0.6 * turns, dram_active=0.3 * turns + 0.75 * (1 - turns),
                     power_usage=600 * turns + 400 * (1 - turns))  # fmt: skip
    for found in (other, mixed, exported(0.6), exported(1.0)):
        told = of(found)
        assert told.shares("communication") < 0.03 and not told.warned


def test_lower_clocks_are_no_waiting() -> None:
    """A GPU at half its clock moves half as much and draws less, as its kernels take twice as long."""
    half = {"sm_clock": np.where(_slower(2, 0, 8) == 0, 990.0, 1980.0), "tensor_active": 0.0,
            "dram_active": np.where(_slower(2, 0, 8) == 0, 0.3, 0.6)}  # fmt: skip
    assert (
        of(exported(1.0, power_usage=np.where(_slower(2, 0, 8) == 0, 300.0, 600.0), **half)).shares("communication")
        == 0
    )


@pytest.mark.parametrize(("idle", "severity"), [(0.03, None), (0.1, "info"), (0.2, "warning"), (0.4, "critical")])
def test_a_loss_that_healthy_jobs_have_too_is_told_and_not_warned_about(idle: float, severity: str | None) -> None:
    found = of(evidence(**scaled(1.0) | {"gr_engine_active": 1 - idle, "sm_active": 0.9 * (1 - idle)})).verdicts
    assert (found["launch_gaps"].severity if severity else found.get("launch_gaps")) == severity
    if severity == "info":
        assert "up to 16 % is usual in healthy jobs" in found["launch_gaps"].evidence[0].text


def test_kernels_at_little_power_are_told_by_an_exporter_too() -> None:
    told = of(exported(1.0, power_usage=200.0, tensor_active=0.02, dram_active=0.03, memory_copy_utilization=0.03))
    assert told.warned == ["low_power"] and "98 %" in told.verdicts["low_power"].title


def test_kernels_at_half_the_power_are_told_and_not_warned_about() -> None:
    """Collectives in part of each step, or small kernels: by NVML alone nothing tells which."""
    known = {"gpu_utilization": 1.0, "power_usage": 320.0, "memory_copy_utilization": 0.15}
    told = of(evidence(without=tuple(set(HEALTHY) - known.keys()), **known))
    assert not told.warned and "what they do was not measured" in told.verdicts["low_power"].title


def test_cores_that_are_all_busy_do_not_wait_for_files() -> None:
    waits = scaled(during(N, 100, 160, 0.0))
    moved = during(N, 100, 160, 2e9, 5e6)
    busy = {"read_bytes": moved, "cpu_utilization": during(N, 100, 160, 0.98, 0.3)}
    assert of(evidence(host={"read_bytes": moved}, **waits)).warned == ["io_wait"]
    assert of(evidence(host=busy, **waits)).warned == ["cpu_starved"]


def test_files_over_the_fabric_are_what_the_nodes_do_not_send_each_other() -> None:
    """Of two nodes: while GPUs idle these receive from file servers, or as much as they send."""
    waits = during(N, 100, 160, 0.0)
    for sent, codes in ((1e6, ["io_wait"]), (3e9, ["pauses"])):
        fabric = {"fabric_rx_bytes": during(N, 100, 160, 3e9, 5e9), "fabric_tx_bytes": during(N, 100, 160, sent, 5e9)}
        told = of(evidence(host=fabric, workload={"cpu": 0.1}, **scaled(waits)))
        assert told.warned == codes
    assert told.shares("idle.input_output") == 0.0


def test_a_late_gpu_is_told_beside_files_that_all_wait_for() -> None:
    load = np.where(np.arange(N) % 20 < 5, 0.0, 1.0)
    late = {name: np.where(_slower(3, 0, 8) == 0, value, 0.6 * value) for name, value in scaled(load).items()}
    told = of(evidence(host={"read_bytes": np.where(load > 0, 5e6, 2e9)}, **late))
    assert sorted(told.warned) == ["io_wait", "straggler"] and told.verdicts["straggler"].gpus == (3,)


def test_transfers_between_nodes_are_as_fast_as_an_adapter() -> None:
    """A quarter of each sample is a collective at 20 GB/s, over NVLink within the nodes and over the fabric between them."""
    links = dict.fromkeys(("nvlink_tx_bytes", "nvlink_rx_bytes", "pcie_tx_bytes", "pcie_rx_bytes"), 0.25 * 20e9)
    work = 0.75 * 0.9 + 0.25 * 0.16
    told = of(evidence(16, gr_engine_active=0.98, sm_active=0.98 * work, tensor_active=0.4, dram_active=0.2, **links))
    assert told.shares("communication.waiting") < 0.05 and told.warned[:1] == ["communication_bound"]


def test_the_others_hang_if_a_gpu_is_lost() -> None:
    spins = during(N, 120, N, 0.0)
    made = evidence(state="failed", sm_active=0.16 + 0.66 * spins, tensor_active=0.5 * spins, dram_active=0.02 + 0.4 * spins,
                    fp32_active=0.1 * spins, fp16_active=0.0, gr_engine_active=0.98, nvlink_tx_bytes=0.0,
                    nvlink_rx_bytes=0.0)  # fmt: skip
    for values in made.series.values():
        values[5, 122:] = np.nan
    hang = of(made).verdicts["hang"]
    assert hang.title.endswith("n1:1 was hardly measured meanwhile"), "nobody knows that it idles"


# Sentences that can't be true


def test_what_is_claimed_at_a_rate_is_no_more_than_was_moved() -> None:
    """Share times rate is at most the mean rate: of copies in the first seconds, of constant ones, and of checkpoints."""
    second = np.arange(N)
    early = np.where(second < 8, 2.14e9, 0.0)
    loads: list[dict[str, Any]] = [
        {"gr_engine_active": 0.9, "pcie_rx_bytes": early},
        {"gr_engine_active": 0.31, "sm_active": 0.3, "pcie_rx_bytes": 3.3e9},
        {
            "gr_engine_active": np.where(second % 80 == 0, 0.0, 0.82),
            "pcie_tx_bytes": np.where(second % 80 == 0, 4.8e9, 0),
        },
        scaled(np.where(second % 60 < 12, 0.05, 1.0), "pcie_rx_bytes") | {"pcie_rx_bytes": 20e9},
    ]
    for number, load in enumerate(loads):
        assert "transfer_bound" not in of(evidence(noise=0.0, **load)).verdicts, number
    waits = np.where(second % 20 < 5, 0.1, 1.0)
    for metric, extra in (("pcie_rx_bytes", {}), ("read_bytes", {"read_bytes": np.where(waits < 1, 9e9, 1e9)})):
        made = evidence(host=extra, **scaled(waits) | {"pcie_rx_bytes": np.where(waits < 1, 9e9, 1e9)})
        code = "io_wait" if extra else "transfer_bound"
        told = of(made).verdicts[code]
        rate = next(each.value for each in told.evidence if each.metric == metric)
        assert (told.lost or 0) * rate <= 3e9 * 1.02


def test_gpus_that_were_busy_are_not_said_to_have_done_nothing() -> None:
    """The last two samples: utilization of 94 %, at little power."""
    power = during(30, 28, 30, 70.0, 600.0)
    told = of(evidence(8, 30, width=10.0, without=COUNTERS, gpu_utilization=0.94, power_usage=power))
    assert "tear_down" not in told.verdicts and told.shares("end") == 0.0


def test_beats_of_steps_with_samples_are_no_rhythm_of_pauses(tell: Tell) -> None:
    """Steps of 9.63 s, a third of which all wait, sampled for a second every 10 s."""
    told = tell(before_each_step(IDLE._replace(cores=0.1), 3.2), step=6.43, sampling=TEN_OF_ONE, seconds=3000)
    assert "recurring_dips" not in told.verdicts and "unexplained" in told.warned
    shape = np.where(np.arange(N) % 30 >= 25, 0.02, 1.0)
    assert "recurring_dips" not in of(evidence(width=10.0, workload={"cpu": 0.1}, **scaled(shape))).verdicts


def test_pauses_at_random_have_no_rhythm() -> None:
    for seed in range(6):
        random, shape, at = np.random.default_rng(seed), np.ones(1800), 0.0
        while (at := at + random.uniform(33, 122)) < 1780:
            shape[int(at) : int(at) + 22] = 0.02
        told = of(evidence(n=1800, workload={"cpu": 0.1}, **scaled(shape))).verdicts
        assert "recurring_dips" not in told and "pauses" in told, seed


def test_cores_that_other_processes_keep_busy_are_not_said_to_be_the_jobs() -> None:
    made = evidence(host={"cpu_utilization": 0.98}, **scaled(0.3))
    for cores, is_others in ((0.0, True), (3.0, False)):
        told = of(replace(made, workload={"cpu": np.full(N, cores)})).verdicts["cpu_starved"]
        assert told.title.endswith("waiting for the CPU, which other processes of the node keep busy") == is_others


def test_more_workers_are_not_advised_where_all_cores_are_busy_or_the_program_starts_anew() -> None:
    busy = of(evidence(host={"cpu_utilization": 0.98}, **scaled(0.3))).verdicts["cpu_starved"]
    assert "more workers would not help" in busy.advice
    load = np.where(np.arange(N) % 60 < 25, 0.0, 1.0)  # killed, read again, killed again
    read = {"read_bytes": np.where(load > 0, 1e6, 2e9)}
    anew = of(evidence(host=read, **scaled(load) | {"memory_used": np.where(load > 0, 70 * GIB, 2 * GIB)})).verdicts
    assert "workers" not in anew["io_wait"].advice and "starts anew" in anew["io_wait"].advice
    assert "workers" in of(evidence(host=read, **scaled(load))).verdicts["io_wait"].advice


def test_arithmetic_beside_unused_tensor_cores_is_not_what_the_gpu_is_for() -> None:
    told = of(evidence(tensor_active=0.0, fp32_active=0.7))
    assert "tensor_unused" in told.verdicts and "compute_bound" not in told.verdicts and not told.warned


def test_a_job_is_bound_by_one_thing() -> None:
    for dram, tensor in ((0.66, 0.55), (0.78, 0.55), (0.3, 0.6)):
        told = of(evidence(tensor_active=tensor, dram_active=dram, sm_active=0.8)).verdicts
        assert len(told.keys() & {"memory_bound", "compute_bound", "memory_peak"}) == 1


def test_what_has_ended_does_not_pause() -> None:
    load = np.where(np.arange(8)[:, None] < 3, during(N, 200, N, 0.0), 1.0)
    assert not {"pauses", "slow_down"} & of(evidence(workload={"cpu": 0.1}, **scaled(load))).verdicts.keys()
    quiet = evidence(workload={"cpu": 0.1}, **scaled(during(N, N - 60, N, 0.0)))
    for state, said in (("running", "may wait"), ("lost", "may wait"), ("completed", "Let the job end")):
        told = of(replace(quiet, state=state)).verdicts
        assert said in told["tear_down"].advice and "pauses" not in told, state
    assert "hang" not in of(evidence(n=600, state="completed", **scaled(during(600, 300, 600, 0.0)))).verdicts


def test_heat_that_slows_each_step_is_no_rhythm_of_its_own(tell: Tell) -> None:
    slow = causes.slow_clock((2,), 0.45, 0x20, 0.0, "throttled_thermal")
    assert tell(slow, step=3.0, sampling=GPM, seconds=90).warned == ["throttled_thermal"]


def test_a_hot_gpu_that_others_wait_for_is_named_with_its_clock_where_their_waiting_is_told(tell: Tell) -> None:
    told = tell(causes.slow_clock((2,), 0.45, 0x20, 0.0, "throttled_thermal"))
    heat = told.verdicts["throttled_thermal"]
    assert heat.gpus == (2,) and heat.title.endswith("of the GPU time is lost waiting for it")
    assert "straggler" not in told.verdicts and "the others' 1,9" in told.texts("throttled_thermal")
    assert "leave it out" in heat.advice
    everywhere = of(evidence(hw_thermal=0.9, sm_clock=1500.0)).verdicts["throttled_thermal"]
    assert "All GPUs" in everywhere.advice, "nothing would be left"
    leading = told.leading
    assert leading is not None and leading.awaited == (2,)
    assert "waiting for" in leading.text and "whose SM clock is" in leading.text and "1,9" in leading.text
    assert abs(leading.share - told.shares("communication.waiting") - told.shares("idle.imbalance")) < 0.02


def test_nobody_is_said_to_wait_for_a_gpu_at_a_lower_clock_unless_the_others_wait_longer_than_it() -> None:
    slower = {"sm_clock": np.where(_slower(2, 0, 8) == 0, 1980.0, 1000.0), "tensor_active": 0.4}
    for idle in (0.0, 0.3):
        told = of(evidence(gr_engine_active=0.97 - idle, sm_active=0.85 * (1 - idle), **slower))
        assert "waiting" not in told.verdicts["slow_clock"].title
        assert told.leading is None or "waiting" not in told.leading.text


def test_the_power_limit_of_all_is_not_said_to_cost_what_one_of_them_takes_longer() -> None:
    load = np.where(np.arange(N) % 20 < 12, 1.0, np.where(np.arange(8)[:, None] == 3, 1.0, 0.0))
    told = of(evidence(flags={"sw_power_cap": 0.6}, sm_clock=1780.0, **scaled(load)))
    assert told.verdicts["straggler"].gpus == (3,) and "which works" in told.verdicts["straggler"].title
    capped = told.verdicts["power_capped"]
    assert "waiting" not in capped.title and abs((capped.lost or 0.0) - told.shares("working.slowed")) < 1e-6


def test_the_power_limit_is_told_only_where_it_costs_and_warned_about_where_it_was_set_low() -> None:
    def capped(clock: float, **about: Any) -> Verdict | None:
        return of(evidence(flags={"sw_power_cap": 0.6}, sm_clock=clock, **about)).verdicts.get("power_capped")

    assert capped(1940.0) is None
    usual, low = capped(1700.0), capped(1700.0, gpus={"power_limit": 450.0})
    assert usual is not None and usual.severity == "info" and "is lost to it" in usual.title
    assert low is not None and low.severity == "warning" and "450 W, the model's own is 700 W" in low.evidence[1].text


def test_gaps_between_kernels_are_told_with_what_the_host_does_meanwhile() -> None:
    gaps = scaled(1.0) | {"gr_engine_active": 0.7, "sm_active": 0.6}
    quiet = of(evidence(workload={"cpu": 1.0}, **gaps)).verdicts["launch_gaps"]
    assert quiet.title.endswith("in the gaps between kernels")
    reads = of(evidence(host={"read_bytes": 4e8}, workload={"cpu": 1.0}, **gaps)).verdicts["launch_gaps"]
    assert reads.title.endswith("while each node reads 0.4 GB/s from its disks") and "read ahead" in reads.advice
    cores = of(evidence(workload={"cpu": 5.0}, **gaps)).verdicts["launch_gaps"]
    assert cores.title.endswith("while 5 cores per rank are busy") and "--cpus-per-task" in cores.advice


def test_other_work_is_named_by_what_was_measured() -> None:
    for changed, label in (
        ({"tensor_active": 0.0, "dram_active": 0.1, "fp32_active": 0.5}, "computes in FP32"),
        ({"tensor_active": 0.0, "dram_active": 0.1, "fp32_active": 0.1}, "other work"),
        ({"without": ("tensor_active", "fp64_active", "dram_active")}, "works, kind of work not measured"),
    ):
        breakdown = judge(evidence(**changed)).breakdown
        assert breakdown is not None and breakdown.label(POSITIONS["working.other"]) == label


def test_what_a_gpu_did_for_a_moment_is_not_said_to_be_nothing() -> None:
    glance = evidence(workload={"cpu": 0.1}, **scaled(during(N, 100, 103, 0.5, 0.0)))
    assert of(glance).verdicts["gpus_unused"].title == "All 8 GPUs were hardly ever used"
    assert of(evidence(**scaled(0.0))).verdicts["gpus_unused"].title == "None of the 8 GPUs was ever used"


def test_of_what_top_has_recorded_only_that_time_is_told() -> None:
    none, one = evidence(**scaled(0.0)), evidence(**scaled(np.where(np.arange(8) == 2, 0.0, 1.0)[:, None]))
    glance = evidence(workload={"cpu": 0.1}, **scaled(during(N, 100, 103, 0.5, 0.0)))
    for found, said in (
        (none, "None of the 8 GPUs was used in the 5 min that gssr top recorded"),
        (
            replace(none, start=100.0, end=160.0, whole_run=none),
            "None of the 8 GPUs was used in the 5 min that gssr top recorded",
        ),
        (glance, "All 8 GPUs were hardly used in the 5 min that gssr top recorded"),
        (one, "1 of 8 GPUs (n0:2) was not used in the 5 min that gssr top recorded"),
    ):
        own = replace(found, run=found.run._replace(command=TOP_COMMAND))
        assert of(own).verdicts["gpus_unused"].title == said
    late = evidence(**scaled(during(N, 0, 60, 0.0)))
    own = replace(late, run=late.run._replace(command=TOP_COMMAND))
    said = "The first 60 s that gssr top recorded (20 % of the time) went by before the GPUs worked"
    assert of(own).verdicts["start_up"].title == said

    for left, said in ((0.15, "did little in the last"), (0.01, "did nothing in the last")):
        assert (
            said in of(evidence(workload={"cpu": 0.1}, **scaled(during(N, 200, N, left)))).verdicts["tear_down"].title
        )


def test_when_gpus_began_or_stopped_is_told_as_what_was_seen() -> None:
    few = np.arange(8)[:, None] < 2
    late = evidence(**scaled(np.where(few, during(N, 0, 60, 0.0), 1.0)))
    early = evidence(**scaled(np.where(few, during(N, 240, N, 0.0), 1.0)))
    for found, code, said in (
        (late, "late_start", "were first seen at work 60 s after the others"),
        (early, "early_end", "were last seen at work 60 s before the others"),
    ):
        by_top = replace(found, run=found.run._replace(command=TOP_COMMAND))  # it may have begun after the job
        for each in (found, by_top, replace(found, whole_run=found), replace(found, state="running")):
            assert of(each).verdicts[code].title == f"2 of 8 GPUs (n0:0, n0:1) {said}"


def test_whole_per_cents_of_32_bits_are_what_they_are_in_64() -> None:
    for per_cent in range(1, 100):
        short, long = (np.array([per_cent], kind) / kind(100) for kind in (np.float32, np.float64))
        assert bool(does_something(short.astype(float))[0]) == bool(does_something(long)[0]) == (per_cent > 2)


def test_a_job_that_never_does_much_does_not_pause_while_it_works() -> None:
    load = np.where(np.arange(N) % 7 == 0, 0.1, 0.04)
    told = of(evidence(workload={"cpu": 0.1}, **scaled(load))).verdicts
    assert "unexplained" in told and "pauses" not in told
    load[50:54] = load[150:154] = load[230:234] = (
        0.0  # these it does make, and they are the smaller part of what is lost
    )
    assert "pauses" not in of(evidence(workload={"cpu": 0.1}, **scaled(load))).verdicts


def test_categories_are_shown_inside_the_window() -> None:
    made = evidence()
    cut = replace(made, start=made.start + 0.3, end=made.end - 0.6)
    breakdown = judge(cut).breakdown
    assert breakdown is not None
    ((first, last),) = breakdown.spans("working", 9)
    assert (first, last) == pytest.approx((cut.start, cut.end), abs=1e-6)


def test_gpus_of_one_model_that_draw_unequal_power_at_the_same_work_do_not_wait() -> None:
    watts = np.array([387, 424, 389, 371, 386, 373, 378, 376])[:, None]
    told = of(evidence(without=COUNTERS, noise=0.0, gpu_utilization=1.0, power_usage=watts, gpus={"power_limit": None}))
    assert told.shares("communication") == 0.0 and not told.warned


def _works(share_of_gpu: np.ndarray[Any, Any]) -> dict[str, Any]:
    """Values of GPUs that work for these shares [n_gpus, n] of each bin."""
    return {name: HEALTHY[name] * share_of_gpu for name in COUNTERS} | {"power_usage": 150 + 450 * share_of_gpu}


def test_gpus_of_which_one_works_at_a_time_take_turns_also_within_a_sample() -> None:
    """Turns of 5 s of four GPUs, 93 % of each at work, in samples of 7 s; and GPUs that work as long, but not by turns."""
    at = np.arange(0, 2100, 0.01)
    turn = (at // 5).astype(int) % 4
    in_turn = np.array([(turn == gpu).reshape(300, 700).mean(axis=1) for gpu in range(4)])
    told = of(evidence(4, width=7.0, noise=0.002, **_works(in_turn)))
    assert told.warned[0] == "taking_turns" and told.shares("idle.imbalance") == pytest.approx(0.93 * 0.75, abs=0.01)
    alone = np.array([np.roll(in_turn[0], int(by)) for by in np.random.default_rng(4).integers(300, size=4)])
    told = of(evidence(4, width=7.0, noise=0.002, **_works(alone)))
    assert "taking_turns" not in told.verdicts and told.shares("idle.imbalance") < 0.5


def test_processes_that_keep_their_cores_busy_do_not_wait_for_files() -> None:
    """What nine processes that compute all the time read is what they work on; nine of which most rest may wait for it."""
    load = during(N, 100, 160, 0.3)
    read = {"read_bytes": during(N, 100, 160, 4e8, 5e6)}
    for cores, code in ((8.2, "cpu_starved"), (1.5, "io_wait")):
        at_work = {"cpu": during(N, 100, 160, cores, 1.4), "n_processes": 9.0}
        assert of(evidence(host=read, workload=at_work, **scaled(load))).warned == [code]


def test_a_few_checkpoints_do_not_make_a_steady_wait_one_for_files() -> None:
    """Steady gaps of a fifth of each bin, while the network carries a little: the few bins in which a checkpoint is written
    say nothing of the others."""
    is_written = np.arange(N) % 60 == 30
    load = np.where(is_written, 0.4, 0.77) + 0.02 * np.sin(np.arange(N))
    moved = {"net_rx_bytes": 2.8e7, "write_bytes": np.where(is_written, 8e8, 3e4)}
    told = of(evidence(host=moved, workload={"cpu": 0.4}, **scaled(load)))
    assert told.shares("idle.input_output") < 0.03


def test_ranks_that_keep_all_cores_that_they_may_use_busy_wait_for_the_cpu() -> None:
    """What a rank with two of a node's many cores reads while it idles is what it works on."""
    load = during(N, 100, 160, 0.3)
    made = evidence(
        host={"read_bytes": during(N, 100, 160, 4e8, 5e6)},
        workload={"cpu": during(N, 100, 160, 1.9, 1.4)},
        **scaled(load),
    )
    assert of(made).warned == ["io_wait"] and of(replace(made, n_cores=8.0)).warned == ["io_wait"]
    told = of(replace(made, n_cores=2.0))
    assert told.warned == ["cpu_starved"] and "1.9 cores busy per rank then, of 2 that it may use" in told.texts(
        "cpu_starved"
    )
    assert "--cpus-per-task" in told.verdicts["cpu_starved"].advice
    spins = replace(made, n_cores=1.0, workload={"cpu": np.full(N, 1.0)})
    assert of(spins).warned == ["io_wait"], "one core is busy with any synchronisation"


def test_a_draw_near_the_limit_tells_of_it_where_no_reasons_were_recorded() -> None:
    def capped(draw: float, clock: float, *without: str) -> Verdict | None:
        made = evidence(power_usage=draw, sm_clock=clock, without=("clock_event_reasons", *without))
        return of(made).verdicts.get("power_capped")

    low = capped(690.0, 1000.0)
    assert low is not None and low.severity == "warning" and "reasons were not recorded" in low.evidence[0].text
    assert capped(690.0, 1940.0) is None and capped(400.0, 1000.0) is None and capped(690.0, 1000.0, "sm_clock") is None


def test_copies_that_take_longer_than_gpus_idle_are_not_what_they_wait_for() -> None:
    """Bytes that take a fifth of the time at the link's full speed: waited for by GPUs that idle as long, not by others."""
    for load, is_waited_for in ((0.7, True), (0.9, False)):
        copied = scaled(load, "pcie_rx_bytes") | {"pcie_rx_bytes": 0.2 * 64e9}
        told = of(evidence(host={}, workload={}, **copied))
        assert ("transfer_bound" in told.verdicts) is is_waited_for


def test_who_waits_for_writing_is_not_told_to_read_ahead() -> None:
    waits = scaled(during(N, 100, 160, 0.0))
    for moved, word in (("read_bytes", "Read ahead"), ("net_rx_bytes", "Read ahead"), ("write_bytes", "checkpoints")):
        told = of(evidence(host={moved: during(N, 100, 160, 2e9, 5e6)}, **waits))
        assert told.warned == ["io_wait"]
        advice = told.verdicts["io_wait"].advice
        assert word in advice and ("Read" in advice) != ("checkpoints" in advice)


def test_who_idles_while_the_others_spin_is_waited_for() -> None:
    """In every bin another GPU waits for a file for half of the time, and the others for it in a collective."""
    is_late = np.arange(N) % 8 == np.arange(8)[:, None]
    values = {
        "gr_engine_active": np.where(is_late, 0.48, 0.96),
        "sm_active": np.where(is_late, 0.44, 0.44 + 0.48 * 0.14),
    }
    values |= {name: HEALTHY[name] / 2 for name in ("tensor_active", "dram_active", "fp32_active", "fp16_active")}
    told = of(evidence(host={}, workload={}, nvlink_tx_bytes=1e9, nvlink_rx_bytes=1e9, **values))
    assert told.shares("idle.imbalance") < 0.01
    assert told.shares("communication.waiting") == pytest.approx(0.48 * 7 / 8, abs=0.05)


@pytest.mark.parametrize(
    "read", [{"backend": "prometheus"}, {"compute_capability": "8.0", "name": "NVIDIA A100-SXM4-80GB"}]
)
def test_gpus_that_are_read_at_moments_of_their_own_wait_for_each_other_only_beyond_chance(
    read: dict[str, str],
) -> None:
    """Samples of other parts of the same steps differ; those of a GPU that works less in each step do so on average."""
    load = np.random.default_rng(3).uniform(0.3, 0.97, (4, 600))
    apart, together = (
        of(evidence(4, 600, host={}, workload={}, gpus=about, **scaled(load))).shares("idle.imbalance")
        for about in (read, {})
    )
    assert apart < 0.005 and together > 0.1
    uneven = load * np.array([[1.0], [1.0], [1.0], [0.5]])
    told = of(evidence(4, 600, host={}, workload={}, gpus=read, **scaled(uneven)))
    assert told.shares("idle.imbalance") == pytest.approx(0.25 * 0.93 * 0.635 / 2, abs=0.04)


def test_kernels_at_the_lower_one_of_two_levels_of_power_wait() -> None:
    """Samples of whole steps, in which pipes never change, while power is that of a moment: 30 % of them of a collective."""
    moments = np.random.default_rng(5).random((8, N))
    shared = {"host": {}, "workload": {}, "without": ("sm_active", "sm_occupancy"), "gr_engine_active": 0.97}
    for watts, waits in ((150.0, 0.27), (450.0, 0.0)):
        power = np.where(moments < 0.3, watts, 600.0)
        told = of(evidence(power_usage=power, width=30.0, **shared))
        assert told.shares("communication") == pytest.approx(waits, abs=0.03)
    slow = {"power_usage": np.where(moments < 0.3, 150.0, 600.0), "sm_clock": np.where(moments < 0.3, 700.0, 1980.0)}
    assert of(evidence(width=30.0, **shared, **slow)).shares("communication") == 0


def test_moments_in_which_power_changes_are_at_neither_level() -> None:
    """Two fifths of the moments are those of a change, evenly from one level to the other."""
    generator = np.random.default_rng(7)
    moments, between = generator.random((2, 8, N))
    power = np.where(moments < 0.3, 150.0, np.where(moments < 0.6, 600.0, 150.0 + 450.0 * between))
    shared = {"host": {}, "workload": {}, "without": ("sm_active", "sm_occupancy"), "gr_engine_active": 0.97}
    told = of(evidence(power_usage=power, width=30.0, **shared))
    assert told.shares("communication") == pytest.approx(0.3 + 0.2 - 0.03, abs=0.03)
    even = of(evidence(power_usage=150.0 + 450.0 * between, width=30.0, **shared))
    assert even.shares("communication") == 0


def test_a_gpu_that_always_draws_less_than_the_others_does_not_wait_for_them() -> None:
    """One GPU is held at two thirds of its clock, or its node feeds it half of the work: it has one level of power."""
    moments = np.random.default_rng(11).random((8, N))
    own = np.arange(8)[:, None] == 6
    shared = {
        "host": {},
        "workload": {},
        "without": ("sm_active", "sm_occupancy"),
        "gr_engine_active": 0.97,
        "width": 30.0,
    }
    clock = np.where(own, 1350.0, 1980.0)
    told = of(evidence(power_usage=np.where(own, 240.0, 600.0), sm_clock=clock, **shared))
    assert told.shares("communication") == 0
    waits = np.where(own, 240.0, np.where(moments < 0.3, 150.0, 600.0))
    told = of(evidence(power_usage=waits, sm_clock=clock, **shared))
    assert told.shares("communication") == pytest.approx(0.27 * 7 / 8, abs=0.03)


def test_power_is_low_while_gpus_idle_although_their_activity_is_that_of_another_moment() -> None:
    """GPUs idle in three tenths of the time. Counters that take turns tell of a part of each interval, power of its end."""
    moments, active = np.random.default_rng(9).random((2, 8, N))
    shared = {"host": {}, "workload": {}, "without": ("sm_active", "sm_occupancy"), "width": 30.0}
    power = np.where(moments < 0.3, 150.0, 600.0)
    told = of(evidence(power_usage=power, **scaled(np.where(active < 0.3, 0.05, 1.0)), **shared))
    assert told.shares("communication") < 0.03


@pytest.mark.parametrize(("name", "is_slow"), [("AMD Instinct MI300X", False), ("NVIDIA H100 80GB HBM3", True)])
def test_an_amd_gpu_that_rests_between_kernels_is_not_slow(name: str, is_slow: bool) -> None:
    """A bin in which a GPU works for half of the time holds the clock of the other half as well."""
    about = {"name": name, "max_sm_clock": 2000}
    told = of(evidence(gpus=about, **scaled(0.5), sm_clock=1100.0))
    assert ("slow_clock" in told.verdicts) is is_slow
    assert (told.shares("working.slowed") > 0) is is_slow
    slow = of(evidence(gpus=about, **scaled(0.95), sm_clock=1100.0))
    assert "slow_clock" in slow.verdicts


def test_what_nodes_send_each_other_is_no_copy_from_the_host_where_the_network_is_not_known() -> None:
    links = {"pcie_tx_bytes": 10e9, "pcie_rx_bytes": 10e9}
    for n_gpus, is_told in ((8, False), (4, True)):
        told = of(evidence(n_gpus, host={}, workload={}, **(scaled(0.6, *links) | links)))
        assert ("transfer_bound" in told.verdicts) is is_told


@pytest.mark.parametrize(("active", "severity"), [(0.93, "info"), (0.88, "warning")])
def test_a_small_share_whose_cause_is_a_guess_is_no_warning(active: float, severity: str) -> None:
    """Samples of 30 s in which the CPU is busy all the time: what idles 7 % of it may as well be gaps between kernels."""
    told = of(evidence(width=30.0, gr_engine_active=active, workload={"cpu": 6.0, "n_processes": 9.0}))
    assert told.verdicts["cpu_starved"].severity == severity
    assert ("a guess: up to 10 % is usual in healthy jobs" in told.texts("cpu_starved")) == (severity == "info")


@pytest.mark.parametrize(
    ("metric", "first_words"), [("pcie_rx_bytes", "Copy from pinned memory"), ("pcie_tx_bytes", "The GPUs send")]
)
def test_advice_on_copies_is_about_the_way_that_they_go(metric: str, first_words: str) -> None:
    made = evidence(**scaled(during(N, 100, 160, 0.1)) | {metric: during(N, 100, 160, 20e9, 0.5e9)})
    assert of(made).verdicts["transfer_bound"].advice.startswith(first_words)


@pytest.mark.parametrize("interval_ms", [500, 100])
def test_shorter_samples_are_advised_where_a_share_scatters_and_they_could_be_shorter(
    tmp_path: Path, interval_ms: int
) -> None:
    path = str(tmp_path / "a.sql")
    synthetic.main(["imbalanced", "--gpus", "4", "--hours", "0.02", "-t", str(interval_ms), "--host", "-o", path])
    (run,) = open_recording(path).runs
    found = {verdict.code: verdict.advice for verdict in analyze(run).judgement.verdicts}
    if interval_ms == 500:
        assert "gssr profile -t 100" in found["unexplained"]
    else:  # what was not told apart are copies
        assert "transfer_bound" in found and "-t 100" not in found.get("unexplained", "")


def test_copies_of_both_directions_have_the_advice_of_both(tmp_path: Path) -> None:
    """A job that waits for its batches at each step, and writes checkpoints in between."""
    path = str(tmp_path / "a.sql")
    synthetic.main(["train", "--gpus", "4", "--hours", "0.02", "-t", "200", "-o", path])
    (run,) = open_recording(path).runs
    (copies,) = (each for each in analyze(run).judgement.verdicts if each.code == "transfer_bound")
    assert "pin_memory" in copies.advice and "The GPUs also send" in copies.advice
    assert any("of that time the GPUs send more than they receive" in each.text for each in copies.evidence)


@pytest.mark.parametrize("backend", ["prometheus", "dcgm"])
def test_who_is_late_is_not_said_to_change_where_each_gpu_is_read_at_a_moment_of_its_own(backend: str) -> None:
    """All GPUs wait for 30 % of their time in collectives; a sample shows each at another part of the same steps."""
    waits = np.random.default_rng(3).uniform(0.0, 0.6, (4, 600))
    values = scaled(1 - waits) | {"gr_engine_active": 0.93, "sm_active": 0.93 * (0.9 - 0.74 * waits)}
    told = of(evidence(4, 600, host={}, workload={}, gpus={"backend": backend}, **values))
    assert told.warned == ["communication_bound" if backend == "prometheus" else "rotating_stragglers"]


def test_what_moved_is_told_of_the_traffic_that_counts() -> None:
    """The network reads all the while, as while GPUs pause; a fabric carries some hundred bytes, then some more."""
    moved = {"net_rx_bytes": 2e8, "fabric_rx_bytes": during(N, 100, 160, 460.0, 440.0)}
    told = of(evidence(host=moved, workload={"cpu": 0.4}, **scaled(during(N, 100, 160, 0.0))))
    assert "network received 0.2 GB/s per node then, as on average" in told.texts("io_wait")
