"""The account of GPU time adds up whatever a recording holds, and says the same of a job however it is read."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from evidences import HEALTHY, START, during, evidence, scaled
from hypothesis import given, settings
from hypothesis import strategies as st
from ticks import T0, Record, ticks

from gssr.model.account.book import account_for
from gssr.model.breakdown.categories import CATEGORIES, POSITIONS
from gssr.model.breakdown.result import Breakdown
from gssr.model.evidence.evidence import Evidence
from gssr.model.evidence.gather import gather
from gssr.model.verdicts import judge, judge_window
from gssr.model.window import extent
from gssr.store.read.recording import open_recording
from gssr.store.read.time_window import ALL_TIME, Window
from tests.fakes.jobs.draw import draw
from tests.fakes.jobs.write import write

BRANCHES = ("idle", "communication", "working")
"""What lies between the job's first work and its last."""


def breakdown_of(found: Evidence) -> Breakdown:
    return account_for(found).breakdown


def _any_evidence(seed: int, n_gpus: int, n: int, width: float) -> Evidence:
    """Of anything: values beyond their scale, with holes in GPUs, times and metrics, cut at both ends."""
    random = np.random.default_rng(seed)
    holes = random.random((n_gpus, 1)) < 0.2, random.random((1, n)) < 0.2, random.random((n_gpus, n)) < random.random()
    values: dict[str, Any] = {}
    for name, usual in HEALTHY.items():
        values[name] = 1.4 * usual * random.random((n_gpus, n)) * (random.random((n_gpus, 1)) < 0.8)
        for where in holes if random.random() < 0.8 else ():
            values[name][np.broadcast_to(where, (n_gpus, n))] = np.nan
    without = tuple(name for name in HEALTHY if random.random() < 0.3)
    host = {name: None if random.random() < 0.3 else 2e9 * random.random(n) for name in ("read_bytes", "net_rx_bytes")}
    found = evidence(
        n_gpus, n, without=without, host=host, workload={"cpu": 3 * random.random(n)}, width=width, **values
    )
    cut = width * random.random(2)
    return replace(found, start=found.start + cut[0], end=max(found.end - cut[1], found.start + cut[0] + 1e-3))


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 9), st.integers(1, 70), st.sampled_from([0.1, 1.0, 10.0]))
def test_every_second_of_every_gpu_is_in_one_category(seed: int, n_gpus: int, n: int, width: float) -> None:
    found = _any_evidence(seed, n_gpus, n, width)
    account = account_for(found)
    breakdown = account.breakdown
    assert (breakdown.by_gpu >= -1e-9).all() and (breakdown.over_time >= -1e-9).all()
    rounding = 3e-7 * (n + 2)  # of unix times
    np.testing.assert_allclose(breakdown.by_gpu.sum(axis=1), found.seconds, rtol=1e-9, atol=rounding)
    np.testing.assert_allclose(breakdown.over_time.sum(axis=0), breakdown.by_gpu.sum(axis=0), atol=1e-6)
    assert breakdown.shares.sum() == pytest.approx(1.0, abs=1e-9)
    for cells in (account.working, account.idling, account.spinning):
        known = cells[np.isfinite(cells)]
        assert ((known >= -1e-9) & (known <= 1 + 1e-9)).all()
    efficiency = breakdown.efficiency
    if efficiency is not None:
        assert all(0 <= factor <= 1 + 1e-9 for factor in efficiency)


@pytest.mark.parametrize("width", [1.0, 10.0])
def test_efficiencies_multiply_up_to_the_share_that_computes(width: float) -> None:
    found = evidence(width=width, **scaled(np.linspace(1.0, 0.5, 8)[:, None]))
    breakdown = breakdown_of(found)
    efficiency = breakdown.efficiency
    assert efficiency is not None and efficiency.parallel == pytest.approx(breakdown.share("working"))
    assert efficiency.load_balance < 0.9


def test_unused_gpus_start_up_and_end_are_told_apart() -> None:
    load = np.tile(during(300, 60, 240, 1.0, 0.0), (8, 1))
    load[3] = 0.0
    shares = breakdown_of(evidence(**scaled(load))).shares_by_gpu
    own = {name: shares[:, POSITIONS[name]] for name in ("unused", "startup", "end")}
    assert own["unused"].tolist() == [float(gpu == 3) for gpu in range(8)]
    for name in ("startup", "end"):
        assert own[name] == pytest.approx(np.where(np.arange(8) == 3, 0.0, 0.2), abs=0.01)


def test_time_without_samples_is_unmeasured_and_a_single_lost_sample_is_not() -> None:
    found = evidence()
    series = {name: values.copy() for name, values in found.series.items()}
    for values in series.values():
        values[2, 100:160] = np.nan
        values[5, 200] = np.nan
    unmeasured = breakdown_of(replace(found, series=series)).shares_by_gpu[:, POSITIONS["unmeasured"]]
    assert unmeasured[2] == pytest.approx(0.2, abs=1e-3) and not unmeasured[[0, 1, 3, 4, 5, 6, 7]].any()


def test_a_gpu_that_was_never_sampled_is_unmeasured_in_all() -> None:
    whole = breakdown_of(evidence(4)).with_unmeasured_gpus(np.array([0, 1, 3, 4]), 5, 300.0)
    assert whole.shares_by_gpu[2, POSITIONS["unmeasured"]] == 1.0 and whole.gpu_seconds == pytest.approx(1500)


def test_a_cause_that_comes_and_goes_from_bin_to_bin_is_not_told() -> None:
    """Traffic that is there in every second bin by chance of the sampling makes no cause of idle time in these."""
    every_second = np.arange(300) % 2 * 4e9
    breakdown = breakdown_of(evidence(host={"read_bytes": every_second}, **scaled(0.7)))
    assert breakdown.share("idle.input_output") == 0.0 and breakdown.share("idle") == pytest.approx(0.35, abs=0.02)


@pytest.mark.parametrize(
    ("tensor", "fp64", "dram", "name"),
    [(0.4, 0.0, 0.4, "tensor"), (0.1, 0.0, 0.6, "memory"), (0.0, 0.3, 0.6, "fp64"), (0.1, 0.1, 0.3, "other")],
)
def test_work_is_about_the_pipe_that_is_busiest_for_its_kind(
    tensor: float, fp64: float, dram: float, name: str
) -> None:
    shares = breakdown_of(evidence(tensor_active=tensor, fp64_active=fp64, dram_active=dram))
    assert shares.share(f"working.{name}") == pytest.approx(shares.share("working"), rel=0.02)


def _inner(by_category: Any) -> Any:
    """Shares of BRANCHES in their sum."""
    own = np.array(
        [sum(by_category[POSITIONS[each.name]] for each in CATEGORIES if each.branch == name) for name in BRANCHES]
    )
    return own / own.sum()


@pytest.mark.parametrize(
    "name",
    ["slow_input", "copies", "straggler", "communication", "healthy"],
)
def test_rows_rollups_and_halves_say_the_same(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = draw(11, is_healthy=True) if name == "healthy" else draw(11, name=name)
    write(job, str(tmp_path / "job.sql"))
    reader = open_recording(tmp_path / "job.sql").runs[0]
    span, positions = extent(reader), np.arange(len(reader.gpus))

    def seconds(window: Window = ALL_TIME) -> Any:
        return breakdown_of(gather(reader, positions, window)).by_gpu.sum(axis=0)

    whole = seconds()
    middle = (span.start + span.end) / 2
    halves = seconds(Window(span.start, middle)) + seconds(Window(middle, span.end))
    assert np.abs(_inner(whole) - _inner(halves)).max() <= 0.03
    monkeypatch.setattr("gssr.model.evidence.gather.MOST_ROWS", 0)
    assert np.abs(_inner(whole) - _inner(seconds())).max() <= 0.03


def _by_rows_and_rollups(reader: Any, monkeypatch: pytest.MonkeyPatch) -> tuple[Breakdown, Breakdown]:
    """The account of all GPUs, of raw rows and of rollups."""
    positions = np.arange(len(reader.gpus))
    rows = breakdown_of(gather(reader, positions))
    monkeypatch.setattr("gssr.model.evidence.gather.MOST_ROWS", 0)
    return rows, breakdown_of(gather(reader, positions))


@pytest.mark.parametrize("sees_sms", [True, False])
def test_rollups_show_how_high_kernels_are_at_work(
    sees_sms: bool, record: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Steps of 1 s, sampled 5 times each, that wait for 0.2 s in some minutes and for 0.6 s in others: no bucket of 10 s is
    without both work and waiting."""
    gpu, time = ticks(4, 600, 0.2)
    second = time - T0
    waits = second % 1.0 >= np.where(second // 20 % 2, 0.8, 0.4) - 1e-3
    moved = {name: np.where(waits, 150e9, 1e8) for name in ("nvlink_tx_bytes", "nvlink_rx_bytes")}
    values = {
        "gr_engine_active": np.full(len(time), 0.99), "tensor_active": np.where(waits, 0.0, 0.6),
        "dram_active": np.where(waits, 0.05, 0.3), "power_usage": np.where(waits, 200.0, 600.0), **moved,
    }  # fmt: skip
    if sees_sms:
        values["sm_active"] = np.where(waits, 0.16, 0.92)
    by_rows, by_rollups = _by_rows_and_rollups(record(gpu, time, values, 4, sampling_ms=200.0), monkeypatch)
    for found in (by_rows, by_rollups):
        assert found.share("communication") == pytest.approx(0.4, abs=0.03 if sees_sms else 0.06)


def test_samples_further_apart_than_buckets_are_long_are_not_averaged(
    record: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpu, time = ticks(2, 400, 30.0)
    waits = np.random.default_rng(3).random(len(time)) < 0.3
    values = {"gr_engine_active": np.full(len(time), 0.98), "power_usage": np.where(waits, 200.0, 600.0),
              "tensor_active": np.full(len(time), 0.4), "dram_active": np.full(len(time), 0.2)}  # fmt: skip
    by_rows, by_rollups = _by_rows_and_rollups(record(gpu, time, values, 2, sampling_ms=30_000.0), monkeypatch)
    assert by_rows.share("communication") > 0.2
    assert by_rollups.share("communication") == pytest.approx(by_rows.share("communication"), abs=0.01)


def test_buckets_of_two_samples_tell_both(record: Record, monkeypatch: pytest.MonkeyPatch) -> None:
    """Samples of 5 s hold whole steps, so that only power, which is that of a moment, tells work from waiting."""
    gpu, time = ticks(4, 400, 5.0)
    waits = np.random.default_rng(3).random(len(time)) < 0.3
    values = {"gr_engine_active": np.full(len(time), 0.98), "power_usage": np.where(waits, 200.0, 600.0),
              "tensor_active": np.full(len(time), 0.4), "dram_active": np.full(len(time), 0.2)}  # fmt: skip
    by_rows, by_rollups = _by_rows_and_rollups(record(gpu, time, values, 4, sampling_ms=5_000.0), monkeypatch)
    assert by_rows.share("communication") == pytest.approx(waits.mean(), abs=0.03)
    assert by_rollups.share("communication") == pytest.approx(by_rows.share("communication"), abs=0.01)


WITHOUT_SMS = ("sm_active", "sm_occupancy", "fp64_active", "fp32_active", "fp16_active", "flop_active",
               "nvlink_tx_bytes", "nvlink_rx_bytes")  # fmt: skip
"""What dcgm-exporter's default fields lack, and links that are not there."""


@pytest.mark.parametrize("least", [20.0, 470.0])
def test_power_tells_quiet_kernels_at_whatever_moment_it_is_read(least: float) -> None:
    """Tensor cores rest in three of five bins, and power is as often low, but at other moments."""
    random = np.random.default_rng(5)
    rests = random.permutation(300) < 180
    draws = np.where(random.permutation(rests), random.uniform(least, 500.0, 300), random.uniform(480.0, 600.0, 300))
    values = {
        "gr_engine_active": 0.98,
        "tensor_active": np.where(rests, 0.0, 0.5),
        "dram_active": np.where(rests, 0.0, 0.4),
    }
    share = breakdown_of(evidence(without=WITHOUT_SMS, **values, power_usage=draws)).share("communication")
    assert share == pytest.approx(0.6 * 0.98 if least == 20.0 else 0.0, abs=0.03)


@pytest.mark.parametrize("are_carried", [True, False])
def test_links_show_that_quiet_kernels_transfer(are_carried: bool) -> None:
    """Collectives over PCIe keep a GPU's power up. Kernels on other pipes do as well, and no link carries more then."""
    rests = np.arange(300) % 3 < 1
    values = {
        "gr_engine_active": 0.98,
        "tensor_active": np.where(rests, 0.0, 0.5),
        "dram_active": np.where(rests, 0.0, 0.4),
    }
    rate = np.where(rests & are_carried, 11e9, 1e9)
    links = dict.fromkeys(("pcie_tx_bytes", "pcie_rx_bytes"), rate)
    found = evidence(4, without=WITHOUT_SMS, **values, **links, power_usage=np.where(rests, 520.0, 600.0))
    assert breakdown_of(found).share("communication") == pytest.approx(1 / 3 if are_carried else 0.0, abs=0.03)


def test_kernels_on_few_sms_that_do_arithmetic_are_no_collectives() -> None:
    """Two GPUs run nothing but tiny kernels: little arithmetic in all, but much where a SM is active."""
    without = ("tensor_active", "fp64_active", "fp16_active", "flop_active")
    values = {
        "gr_engine_active": 0.63,
        "sm_active": 0.07,
        "sm_occupancy": 0.01,
        "fp32_active": 0.013,
        "dram_active": 0.02,
    }
    found = evidence(2, without=without, **values)
    found = replace(found, series={**found.series, "flop_active": found.series["fp32_active"]})
    shares = breakdown_of(found)
    assert shares.share("working.few_sms") == pytest.approx(0.63, abs=0.02)
    assert shares.share("communication") == 0


def test_a_core_that_spins_is_no_cause() -> None:
    """Each rank's two processes keep one core busy, as waiting for the GPU does, while it idles a little all the time."""
    found = evidence(width=30.0, gr_engine_active=0.92, workload={"cpu": 1.0, "n_processes": 2.0})
    shares = breakdown_of(found)
    assert shares.share("idle") == pytest.approx(0.08, abs=0.02)
    assert shares.share("idle.host") == 0


def test_what_gpus_do_outside_a_window_says_what_is_startup_and_unused(record: Record) -> None:
    """Of a GPU that works later, one that works earlier, and a pause at the edges, a window says what the whole run says."""
    gpu, time = ticks(3, 600, 1.0)
    second = time - T0
    works = (second >= 60) & (second < 560) & ~((second >= 280) & (second < 330))
    works &= np.where(gpu == 1, second >= 330, gpu == 0)  # GPU 1 works in the second half only, GPU 2 never
    reader = record(gpu, time, {"gr_engine_active": np.where(works, 0.95, 0.0)}, 3, sampling_ms=1000.0)

    def seconds(window: Window = ALL_TIME) -> Any:
        return breakdown_of(gather(reader, np.arange(3), window)).by_gpu.sum(axis=0)

    whole = seconds()
    assert whole[POSITIONS["unused"]] == pytest.approx(600, abs=1.5)
    assert whole[POSITIONS["startup"]] == pytest.approx(120, abs=2.5)
    parts = [(0, 30), (30, 300), (300, 315), (315, 450), (450, 600)]
    cut = sum(seconds(Window(T0 + first, T0 + last)) for first, last in parts)
    by_branch = [[values[POSITIONS[each.name]] for each in CATEGORIES if each.branch == name]
                 for values in (whole, cut) for name in ("unused", "startup", "end", *BRANCHES)]  # fmt: skip
    sums = np.array([sum(each) for each in by_branch]).reshape(2, -1)
    assert np.abs(sums[0] - sums[1]).max() <= 3.0


def test_the_densest_bins_are_mixtures_where_their_links_carry_what_collectives_do() -> None:
    """Samples of whole steps: one GPU computes 80 % of each and others less, in the rest collectives fill NVLink."""
    work = np.where(np.arange(8) == 3, 0.8, np.linspace(0.5, 0.65, 8))[:, None]
    values = {"gr_engine_active": 1.0, "sm_active": work * 0.85 + (1 - work) * 0.16, "tensor_active": work * 0.5}
    links = dict.fromkeys(("nvlink_tx_bytes", "nvlink_rx_bytes"), (1 - work) * 200000000000.0)
    assert breakdown_of(evidence(**values, **links)).share("communication") == pytest.approx(1 - work.mean(), abs=0.03)
    quiet = dict.fromkeys(links, 50000000.0)
    pcie = dict.fromkeys(("pcie_tx_bytes", "pcie_rx_bytes"), 0.0)
    assert breakdown_of(evidence(**values, **quiet, **pcie)).share("communication") < 1 - work.mean() - 0.1


def test_a_window_of_the_rows_is_judged_by_itself() -> None:
    """Nothing outside a window is in its account."""
    found = evidence(**scaled(during(300, 150, 300, 0.4)))
    first = replace(found, end=START + 150)
    assert breakdown_of(first).gpu_seconds == pytest.approx(8 * 150)
    assert breakdown_of(first).share("idle") == pytest.approx(0.07, abs=0.02)
    assert judge(first).breakdown is not None


def test_some_gpus_are_booked_as_in_the_whole_job(record: Record) -> None:
    """A GPU that waits for others does so when it is looked at by itself, and its waits are not laid on something else."""
    gpu, time = ticks(4, 300, 1.0)
    works = (time - T0) % 10 < np.array([9.5, 6.0, 5.0, 4.0])[gpu]
    values = {"gr_engine_active": np.where(works, 0.98, 0.01), "sm_active": np.where(works, 0.9, 0.0)}
    reader = record(gpu, time, values, 4, sampling_ms=1000.0)
    whole = judge_window(reader, np.arange(4))
    assert {verdict.code for verdict in whole.verdicts} & {"imbalance", "straggler"}
    for some in ([3], [0, 3], [1, 2, 3]):
        found = judge_window(reader, np.array(some))
        assert found.breakdown.by_gpu == pytest.approx(whole.breakdown.by_gpu[some])
        assert found.breakdown.over_time.sum(axis=0) == pytest.approx(found.breakdown.by_gpu.sum(axis=0))
        assert not {verdict.code for verdict in found.verdicts} & {
            "imbalance",
            "straggler",
            "transfer_bound",
            "io_wait",
        }
    assert whole.breakdown.by_gpu[3, POSITIONS["idle.imbalance"]] > 100


def test_a_gpu_whose_sm_activity_was_not_read_computes_as_the_others_do() -> None:
    """Long samples leave some counters out; what was not read is no wait in communication kernels."""
    sm = np.full((8, 300), 0.82)
    sm[2] = np.nan
    assert breakdown_of(evidence(sm_active=sm)).share("communication") < 0.01


def test_kernels_of_a_single_gpu_are_as_dense_as_its_own_densest() -> None:
    """Kernels that memory limits keep 79 % of the SMs busy and copy all the while: none of them is small."""
    values = {"gr_engine_active": 0.94, "sm_active": 0.74, "pcie_tx_bytes": 4e9, "pcie_rx_bytes": 4e9}
    assert breakdown_of(evidence(1, **values)).share("working.few_sms") < 0.01


def test_few_bins_of_matrix_products_show_how_busy_memory_is_in_them() -> None:
    """The tensor cores of one GPU of four work in one bin of five, and those of the others not at all."""
    products = np.where((np.arange(4)[:, None] == 2) & (np.arange(300) % 5 == 0), 0.5, 0.0)
    values = {"tensor_active": products, "dram_active": np.where(products > 0, 0.3, 0.6)}
    with np.errstate(divide="raise", invalid="raise"):
        assert breakdown_of(evidence(4, without=WITHOUT_SMS, **values)).share("communication") < 0.01


@pytest.mark.parametrize("is_mixed", [True, False])
def test_a_cause_in_samples_that_are_all_alike_is_a_guess(is_mixed: bool) -> None:
    """GPUs idle for 7 % in every sample, and copy a little more the more they idle; or they idle in pauses of their own."""
    wobble = np.random.default_rng(3).standard_normal(300)
    idle = 0.07 + 0.01 * wobble if is_mixed else np.where(np.arange(300) % 13, 0.0, 1.0)
    copied = dict.fromkeys(("pcie_tx_bytes", "pcie_rx_bytes"), 4e9 + 5e8 * wobble if is_mixed else 2e10 * idle)
    found = judge(evidence(4, noise=0.0, **scaled(1 - idle) | copied | {"gr_engine_active": 1 - idle}))
    assert found.breakdown is not None
    assert found.breakdown.share("idle.copies") == pytest.approx(0.07, abs=0.02)
    assert found.breakdown.confidence[POSITIONS["idle.copies"]] == ("guess" if is_mixed else "inferred")
    severity = next(each.severity for each in found.verdicts if each.code == "transfer_bound")
    assert severity == ("info" if is_mixed else "warning")


def test_one_busy_core_is_a_guess() -> None:
    """GPUs idle in pauses of seconds, and each rank keeps one core busy as it does all the time."""
    active = np.where(np.arange(300) % 30 < 5, 0.0, 0.95)
    found = breakdown_of(evidence(**scaled(active), workload={"cpu": 1.0, "n_processes": 2.0}))
    assert found.share("idle.host") == pytest.approx(45 / 300, abs=0.01)
    assert found.confidence[POSITIONS["idle.host"]] == "guess"
