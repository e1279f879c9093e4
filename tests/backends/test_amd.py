"""The backend ``amd`` on made machines whose truth is known: tests/fakes/amd. Written from its documentation alone."""

import errno
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, redirect_stdout
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from benchmarks.on_gpu import amd as on_amd
from gssr import launch
from gssr.backends import auto, open_backend
from gssr.backends.base import BackendError, ProcessSnapshot
from gssr.cli import main
from tests.fakes.amd import gpus, layouts
from tests.fakes.amd.gpus import (
    DESKTOP,
    INTEL,
    MI250X,
    MI300A,
    MI300X,
    MI325X,
    MI355X,
    NVIDIA,
    Gpu,
    Node,
    steady,
    unique,
)
from tests.fakes.amd.machine import START, Machine, joules, kib, known, near, of, uuids, value
from tests.fakes.amd.refused import Refused
from tests.fakes.amd.tree import Live, Tree
from tests.fakes.amd.truth import Steps, Truth, always

ROOT = Path(__file__).parent.parent.parent
EIGHT = gpus.full_node(MI300X, 8)
SHUFFLED = replace(EIGHT, kfd=(3, 1, 0, 2, 7, 6, 5, 4))
THREE = gpus.full_node(MI300X, 3, truth=[steady(place) for place in range(3)])
SHARED = (EIGHT, SHUFFLED, THREE)
"""Nodes of which one tree each will do."""
TOLD = {
    "gpu_utilization", "power_usage", "energy", "temperature", "memory_temperature", "sm_clock", "memory_used",
    "clock_event_reasons",
}  # fmt: skip
ON_MI300 = TOLD | {"dram_active", "nvlink_tx_bytes", "nvlink_rx_bytes"}
CAP, THERMAL, HOT = 0x004, 0x020, 0x040


Open = Callable[..., Machine]


@pytest.fixture(scope="module")
def memory() -> Iterator[Path]:
    """A folder that costs little, as that of a kernel."""
    with tempfile.TemporaryDirectory(
        prefix="gssr-amd-", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    ) as name:
        yield Path(name)


@pytest.fixture(scope="module")
def at_rest(memory: Path) -> Iterator[Callable[[Node], Tree]]:
    """``at_rest(EIGHT)`` is a tree that other tests look at as well."""
    trees: dict[int, Tree] = {}

    def of(node: Node) -> Tree:
        if id(node) not in trees:
            trees[id(node)] = Tree(memory / f"at_rest{len(trees)}", node)
        return trees[id(node)]

    yield of
    for tree in trees.values():
        tree.close()


@pytest.fixture
def open_on(
    memory: Path, monkeypatch: pytest.MonkeyPatch, at_rest: Callable[[Node], Tree]
) -> Iterator[Open]:  # fmt: skip
    """``open_on(node, visible=…)`` opens the backend on a node; it is closed after the test. ``raw``: with these bytes for
    the table of its GPU 1."""
    machines: list[Machine] = []
    own: list[Tree] = []
    for name in ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL"):
        monkeypatch.delenv(name, raising=False)

    def open_(node: Node, visible: Sequence[str] | None = None, raw: bytes | None = None) -> Machine:
        shared = any(node is each for each in SHARED)
        tree = at_rest(node) if shared else Tree(Path(tempfile.mkdtemp(dir=memory)) / "machine", node)
        if not shared:
            own.append(tree)
        tree.node = node if raw is None else node.but(1, raw=raw)
        tree.write(0.0)
        monkeypatch.setenv("GSSR_AMD_ROOT", str(tree.root))
        machines.append(Machine(tree, open_backend("amd", "n1", visible, 0.1)))
        return machines[-1]

    yield open_
    for machine in machines:
        machine.backend.close()
    for tree in own:
        tree.close()


ON = {
    "1.3": MI250X, "1.4": MI300X, "1.5": MI300X, "1.6": MI300X, "1.7": MI300A, "1.8": MI300X, "1.9": MI355X,
}  # fmt: skip


@pytest.mark.parametrize("revision", ON)
def test_every_revision_tells_all_that_it_holds_and_nothing_else(open_on: Open, revision: str) -> None:
    truths = [steady(place) for place in (1, 6)]
    machine = open_on(gpus.full_node(ON[revision], 2, revision, truths))
    before = machine.look(10.0)
    rows = machine.look(10.5)
    told = TOLD if revision == "1.3" else ON_MI300
    # Of 1.4 and 1.5: "Throttle status is not reported through metrics now" (smu_v13_0_6_ppt.c), and 0 in its place.
    if revision in ("1.4", "1.5"):
        told = told - {"clock_event_reasons"}
    assert sorted(rows) == [0, 1]
    for gpu, truth in enumerate(truths):
        row = rows[gpu]
        assert START + 10.5 <= (row[1] or 0) < START + 20  # of when it was read
        assert known(row) == told
        assert near(value(row, "gpu_utilization"), truth.utilization.at(0))
        assert value(row, "power_usage") == truth.power.at(0)
        assert near(joules(before[gpu], row), 0.5 * truth.power.at(0))
        assert value(row, "temperature") == truth.hotspot.at(0)
        assert value(row, "memory_temperature") == truth.memory_temperature.at(0)
        assert near(value(row, "sm_clock"), truth.clock.at(0))
        assert value(row, "memory_used") in (truth.memory.at(0), truth.memory.at(0) + truth.gtt.at(0))
        assert value(row, "clock_event_reasons") == (0 if "clock_event_reasons" in told else None)
        if revision != "1.3":
            assert near(value(row, "dram_active"), truth.bandwidth.at(0))
            assert kib(value(row, "nvlink_tx_bytes"), truth.sent.at(0))
            assert kib(value(row, "nvlink_rx_bytes"), truth.received.at(0))
    assert set(machine.backend.measures) == told
    assert not [each for each in machine.changes if each.kind != "backend"]


@pytest.mark.parametrize("revision", ["1.6", "1.7", "1.8", "1.9"])
def test_between_two_looks_nothing_is_missed(open_on: Open, revision: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # A look takes no time, however busy this machine is.
    monkeypatch.setattr("gssr.backends.amd.amd_backend.monotonic", lambda: 0.0)
    node = gpus.full_node(MI300X, 2, revision)
    machine = open_on(node)
    before, then = machine.look(2.0), 2.0
    for now in (2.1, 2.35, 3.0, 3.05, 7.3):
        rows = machine.look(now)
        for gpu, truth in enumerate(each.truth for each in node.gpus):
            assert near(value(rows[gpu], "gpu_utilization"), truth.utilization.mean(then, now))
            assert near(joules(before[gpu], rows[gpu]), truth.power.total(now) - truth.power.total(then))
            assert kib(value(rows[gpu], "nvlink_tx_bytes"), truth.sent.mean(then, now))
        before, then = rows, now


def test_a_first_row_is_what_the_firmware_says_of_the_moment(open_on: Open) -> None:
    machine = open_on(gpus.full_node(MI300X, 2, truth=[steady(0), steady(4)]))
    rows = machine.look(5.0)
    for gpu, place in enumerate((0, 4)):
        assert value(rows[gpu], "gpu_utilization") == pytest.approx((30 + 5 * place) / 100)
        assert value(rows[gpu], "nvlink_tx_bytes") is None and value(rows[gpu], "nvlink_rx_bytes") is None
        assert value(rows[gpu], "clock_event_reasons") in (0, None)


@pytest.mark.parametrize("revision", ["1.6", "1.8", "1.9"])
def test_counters_of_32_bits_may_wrap(open_on: Open, revision: str) -> None:
    truth = steady(3)._replace(
        since={
            "accumulation_counter": (1 << 32) - 1250, "gfx_activity_acc": (1 << 32) - 51_000,
            "mem_activity_acc": (1 << 32) - 14_000, "ppt_residency_acc": (1 << 32) - 100,
            "energy_accumulator": (1 << 32) - 70_000,
        },
        throttled={"ppt": Steps(((0.0, 0.0), (1.0, 0.4)))},
    )  # fmt: skip
    machine = open_on(gpus.full_node(MI300X, 1, revision, [truth]))
    before = machine.look(1.0)
    for now in (1.1, 1.2, 1.3, 1.4, 1.5):
        rows = machine.look(now)
        assert near(value(rows[0], "gpu_utilization"), truth.utilization.at(0))
        assert near(joules(before[0], rows[0]), 0.1 * truth.power.at(0))
        assert value(rows[0], "clock_event_reasons") == CAP
        before = rows


@pytest.mark.parametrize("scale", [100, 1])
def test_activity_may_be_counted_in_percents_or_in_shares(open_on: Open, scale: int) -> None:
    """What a tick of a busy GPU adds is stated nowhere."""
    truths = [steady(place)._replace(scale=scale) for place in (0, 7)]
    machine = open_on(gpus.full_node(MI300X, 2, truth=truths))
    machine.look(1.0)
    for now in (2.0, 3.0):
        rows = machine.look(now)
        for gpu, truth in enumerate(truths):
            assert value(rows[gpu], "gpu_utilization") == pytest.approx(truth.utilization.at(0), abs=0.006)


def test_a_driver_that_is_loaded_anew_counts_from_0(open_on: Open) -> None:
    machine = open_on(gpus.full_node(MI300X, 2))
    machine.look(500.0)
    machine.look(500.1)
    for renamed in (False, True):
        machine.tree.write(0.2, renamed=renamed)
        rows = machine.look(500.2 + renamed, write=False)
        for row in rows.values():
            for name in ("gpu_utilization", "dram_active"):
                assert value(row, name) is None or 0 <= float(value(row, name) or 0) <= 1.0
            for name in ("nvlink_tx_bytes", "nvlink_rx_bytes"):
                assert value(row, name) is None or 0 <= float(value(row, name) or 0) < 1e12
    for at in (3.2, 4.2):
        machine.tree.write(at)
        rows = machine.look(560 + at, write=False)
    for gpu, each in enumerate(machine.tree.node.gpus):
        assert near(value(rows[gpu], "gpu_utilization"), each.truth.utilization.mean(3.2, 4.2))
        assert value(rows[gpu], "energy") == pytest.approx(each.truth.power.total(4.2), rel=1e-3)


HELD = {"ppt": CAP, "socket_thm": THERMAL, "hbm_thm": THERMAL, "vr_thm": THERMAL, "prochot": HOT}


def test_a_throttle_that_is_over_before_the_next_look_is_seen(open_on: Open) -> None:
    brief = Steps(((0.0, 0.0), (4.02, 1.0), (4.05, 0.0)))
    names = [*HELD, ""]
    truths = [steady(place)._replace(throttled={name: brief} if name else {}) for place, name in enumerate(names)]
    machine = open_on(gpus.full_node(MI300X, len(names), "1.8", truths))
    machine.look(4.0)
    during, after = machine.look(4.1), machine.look(4.2)
    assert [value(during[gpu], "clock_event_reasons") for gpu in range(6)] == [*HELD.values(), 0]
    assert [value(after[gpu], "clock_event_reasons") for gpu in range(6)] == [0] * 6


def test_mi250x_tells_what_holds_its_clock_now(open_on: Open) -> None:
    names = ["ppt", "socket_thm", "prochot", ""]
    truths = [steady(place)._replace(throttled={name: always(1.0)} if name else {}) for place, name in enumerate(names)]
    rows = open_on(gpus.dies(2, truths)).look(1.0)
    assert [value(rows[gpu], "clock_event_reasons") for gpu in range(4)] == [CAP, THERMAL, HOT, 0]


def test_energy_is_in_counts_of_2_to_the_minus_16_joules(open_on: Open) -> None:
    """What ROCm's own tools called 1.004 J is 1.0014 (github.com/ROCm/amdsmi/issues/38: counter 65628)."""
    truth = steady(0)._replace(power=always(0.0), since={"energy_accumulator": 65_628})
    long = truth._replace(
        since={"energy_accumulator": 14_610_425_995_231}
    )  # an MI250X: github.com/wandb/wandb/pull/5449
    rows = open_on(gpus.full_node(MI250X, 2, truth=[truth, long])).look(1.0)
    assert value(rows[0], "energy") == pytest.approx(65_628 / 65_536, rel=1e-6)
    assert value(rows[1], "energy") == pytest.approx(14_610_425_995_231 / 65_536, rel=1e-9)


def test_a_counter_of_energy_that_stays_at_0_is_none(open_on: Open) -> None:
    """A Radeon RX 7900: github.com/Umio-Yasuno/libdrm-amdgpu-sys-rs/issues/7; it says 10 W, and an energy of 0."""
    navi31 = layouts.blob("1.3", {
        "temperature_edge": 38, "temperature_hotspot": 41, "temperature_mem": 57, "average_gfx_activity": 0,
        "average_umc_activity": 1, "average_mm_activity": 0, "average_socket_power": 10, "energy_accumulator": 0,
        "system_clock_counter": 2748118101619, "average_gfxclk_frequency": 5, "current_gfxclk": 5,
    })  # fmt: skip
    radeon = replace(MI250X, name="Radeon RX 7900 XTX", device_id=0x744C, gfx="gfx1100", target=110000, cus=96)
    machine = open_on(gpus.full_node(radeon, 1, "1.3", [steady(0)]).but(0, raw=navi31))
    machine.look(1.0)
    row = machine.look(2.0)[0]
    assert (value(row, "power_usage"), value(row, "temperature"), value(row, "gpu_utilization")) == (10, 41, 0)
    assert value(row, "energy") is None


def _ones(revision: str) -> bytes:
    return layouts.blob(revision, {})


WHOLE = layouts.blob("1.6", {"curr_socket_power": 300, "average_gfx_activity": 50, "temperature_hotspot": 60})
UNUSABLE = {
    "all ones 1.3": _ones("1.3"), "all ones 1.5": _ones("1.5"), "all ones 1.8": _ones("1.8"),
    "all ones 1.9": _ones("1.9"), "empty": b"", "3 bytes": b"\x80\x06\x01", "its header alone": WHOLE[:4],
    "cut": WHOLE[:40], "1.12": WHOLE[:3] + b"\x0c" + WHOLE[4:], "3.0": WHOLE[:2] + b"\x03\x00" + WHOLE[4:],
    "0.0": bytes(1664), "4.4": b"\xff" * 4 + WHOLE[4:], "2.3": layouts.blob("2.3", {"average_gfx_activity": 4200}),
    "another 1.6": layouts.blob("1.6 of 6.11", {"energy_accumulator": 77 << 16, "average_gfx_activity": 0xFFFF}),
    "1.9 without attributes": layouts.packed([]), "1.9 cut": _ones("1.9")[:21],
    "1.9 of odd types": layouts.packed([(3 << 24 | 15 << 20 | 3 << 10 | 1).to_bytes(8, "little") + bytes(8)]),
    "1.9 that promises more": layouts.packed([layouts.attribute("temperature_mem", "°C", "u16", [None])])[:4]
    + (9999).to_bytes(4, "little") + layouts.attribute("temperature_mem", "°C", "u16", [None]),
}  # fmt: skip


@pytest.mark.parametrize("name", UNUSABLE)
def test_of_a_table_that_says_nothing_sound_nothing_is_told(open_on: Open, name: str) -> None:
    machine = open_on(THREE, raw=UNUSABLE[name])
    machine.look(1.0)
    for now in (1.1, 1.2, 1.3):
        rows = machine.look(now)
        assert near(value(rows[0], "gpu_utilization"), 0.30) and near(value(rows[2], "gpu_utilization"), 0.40)
        told = (
            {each for each in known(rows[1]) if each not in ("memory_used", "clock_event_reasons")}
            if 1 in rows
            else set()
        )
        assert told <= ({"energy"} if name == "another 1.6" else set())
        assert 1 not in rows or value(rows[1], "clock_event_reasons") in (0, None)
        if "energy" in told:
            assert value(rows[1], "energy") == 77
    if not name.startswith(("all ones", "another")):  # the table of Linux 6.11 may be known
        about = [text for text in machine.said if "gpu_metrics" in text or THREE.gpus[1].uuid in text]
        assert 1 <= len(about) <= 2, machine.said
    assert not any("\n" in text or "Traceback" in text for text in machine.said)


@pytest.mark.parametrize("more", [b"\0" * 64, b"\xff" * 700])
def test_what_comes_after_a_table_changes_nothing_in_it(open_on: Open, more: bytes) -> None:
    """The structure's own size still says where it ends."""
    truth = steady(2)
    data = layouts.blob("1.7", {"curr_socket_power": 321, "average_gfx_activity": 40, "temperature_hotspot": 66})
    machine = open_on(gpus.full_node(MI300X, 1, "1.7", [truth]).but(0, raw=data + more))
    rows = machine.look(1.0)
    assert value(rows[0], "power_usage") in (321, None) and value(rows[0], "temperature") in (66, None)
    assert value(rows[0], "energy") is None


def test_attributes_may_be_wider_in_another_order_and_new(open_on: Open) -> None:
    """As on later GPUs: accumulators of 64 bits, temperatures by stack, ids that nobody knows."""
    put = layouts.attribute

    def table(tick: int) -> bytes:
        return layouts.packed([
            put(900, "none", "u8", [7]), put("gfx_activity_acc", "%", "u64", [(1 << 33) + 62 * tick]),
            put("temperature_hbm", "°C", "u16", [51, 52, 53, None] * 3), put(901, "none", "s64", [-5, -6, -7]),
            put("accumulation_counter", "none", "u64", [(1 << 34) + tick]), put("curr_socket_power", "W", "u32", [777]),
            put("temperature_hotspot", "°C", "s16", [64]), put("ppt_residency_acc", "none", "u64", [(1 << 32) + tick]),
            put("current_gfxclk", "MHz", "u16", [2000, 2200, None, None, 2100]),
            put("energy_accumulator", "none", "u64", [655_360 * tick]), put("average_gfx_activity", "%", "u16", [62]),
            put("xgmi_write_data_acc", "KB", "u64", [tick, None, 2 * tick]),
            put("xgmi_read_data_acc", "KB", "u64", [None, 5 * tick]),
        ])  # fmt: skip

    machine = open_on(gpus.full_node(MI355X, 1, truth=[steady(0)]).but(0, raw=table(1000)))
    machine.look(1.0)
    machine.tree.put(0, table(2000))
    row = machine.look(2.0, write=False)[0]
    assert near(value(row, "gpu_utilization"), 0.62) and value(row, "power_usage") == 777
    assert value(row, "temperature") == 64 and near(value(row, "sm_clock"), 2100)
    assert value(row, "energy") == 20_000 and value(row, "clock_event_reasons") == CAP
    assert kib(value(row, "nvlink_tx_bytes"), 3000 * 1024) and kib(value(row, "nvlink_rx_bytes"), 5000 * 1024)


def test_a_gpu_in_reset_is_lost_and_comes_back(open_on: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its table can't be read then: EPERM."""
    refused = Refused(monkeypatch)
    machine = open_on(gpus.full_node(MI300X, 3))
    assert sorted(machine.look(1.0)) == [0, 1, 2]
    refused.refuse(machine.tree.metrics(1), errno.EPERM)
    for now in (1.1, 1.2, 1.3):
        assert sorted(machine.look(now)) == [0, 2]
    assert refused.asked
    refused.allow(machine.tree.metrics(1))
    for now in (61.0, 62.0):  # it may be asked less often meanwhile
        rows = machine.look(now)
    assert sorted(rows) == [0, 1, 2]
    assert [(each.kind, each.gpu) for each in machine.changes] == [("gpu_lost", 1), ("gpu_back", 1)]
    assert near(value(rows[1], "gpu_utilization"), machine.tree.node.gpus[1].truth.utilization.mean(61.0, 62.0))


def test_gpus_that_vanish_leave_the_others_alone(open_on: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    refused = Refused(monkeypatch)
    machine = open_on(gpus.full_node(MI300X, 3))
    machine.look(1.0)
    device = machine.tree.device(0)
    machine.tree.remove(0)
    refused.refuse(device, errno.ENODEV)
    for now in (1.1, 1.2, 1.3, 1.4):
        assert sorted(machine.look(now)) == [1, 2]
    assert [(each.kind, each.gpu) for each in machine.changes] == [("gpu_lost", 0)]


def test_a_gpu_that_is_in_reset_at_first_comes_later(open_on: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    refused = Refused(monkeypatch)
    tree = open_on(THREE).tree
    refused.refuse(tree.metrics(1), errno.EPERM)
    machine = Machine(tree, open_backend("amd", "n1", None, 0.1))
    assert uuids(machine) == of(THREE, 0, 1, 2)
    machine.look(1.0)
    refused.allow(tree.metrics(1))
    for now in (61.0, 62.0):
        rows = machine.look(now)
    assert sorted(rows) == [0, 1, 2] and near(value(rows[1], "gpu_utilization"), 0.35)
    assert value(rows[1], "power_usage") == 310
    machine.backend.close()


def test_each_mi210_has_a_power_of_its_own(open_on: Open) -> None:
    """One die a card, the same chip as MI250X's."""
    rows = open_on(gpus.full_node(MI250X, 4, truth=[steady(place) for place in range(4)])).look(1.0)
    assert [value(rows[gpu], "power_usage") for gpu in range(4)] == [300, 310, 320, 330]


def test_the_die_that_tells_may_come_second(open_on: Open) -> None:
    node = gpus.dies(2)
    node = replace(node, gpus=tuple(replace(gpu, secondary=not gpu.secondary) for gpu in node.gpus))
    rows = open_on(node).look(1.0)
    assert [value(rows[gpu], "power_usage") is not None for gpu in range(4)] == [False, True, False, True]


@pytest.mark.parametrize("cards", [2, 4])
@pytest.mark.parametrize("cray", [False, True])
def test_power_and_energy_of_a_card_are_told_once(open_on: Open, cards: int, cray: bool) -> None:
    node = gpus.dies(cards, cray=cray)
    machine = open_on(node)
    before, after = machine.look(3.0), machine.look(4.0)
    devices = machine.backend.gpus
    assert [device.uuid for device in devices] == [gpu.uuid for gpu in node.gpus]
    for gpu, each in enumerate(node.gpus):
        assert near(value(after[gpu], "gpu_utilization"), each.truth.utilization.at(4.0), rel=0.02)
        assert devices[gpu].power_limit == (None if each.secondary else 560.0)
        if each.secondary:
            assert value(after[gpu], "power_usage") is None and value(after[gpu], "energy") is None
        else:
            assert value(after[gpu], "power_usage") == each.truth.power.at(4.0)
            meant = each.truth.power.total(4.0) - each.truth.power.total(3.0)
            assert joules(before[gpu], after[gpu]) == pytest.approx(meant, abs=1.01 if cray else 0.01)
    assert any("card" in text or "die" in text for text in machine.opened.remarks), machine.opened.remarks


def test_whoever_has_only_second_dies_is_told_whose_power_it_is(open_on: Open) -> None:
    node = gpus.dies(2)
    machine = open_on(replace(node, gpus=tuple(replace(gpu, permitted=gpu.secondary) for gpu in node.gpus)))
    rows = machine.look(1.0)
    assert [gpu.uuid for gpu in machine.backend.gpus] == [node.gpus[1].uuid, node.gpus[3].uuid]
    assert [value(rows[gpu], "power_usage") for gpu in range(2)] == [None, None]
    assert any("die" in text or "card" in text for text in machine.opened.remarks)


def test_a_render_node_that_opens_is_ours(open_on: Open) -> None:
    node = gpus.full_node(MI300X, 8)
    for place in (0, 1, 2, 3, 6, 7):
        node = node.but(place, permitted=False)
    tree = open_on(node).tree
    for visible, meant in (
        (None, [(4, 5)]), (("0", "1"), [(4, 5)]),  # counted from 0 in the cgroup
        (("4", "5"), [(4, 5)]), (("1",), [(5,), (4, 5)]),
    ):  # fmt: skip
        opened = open_backend("amd", "n1", visible, 0.1)
        assert uuids(Machine(tree, opened)) in [of(node, *places) for places in meant]
        opened.backend.close()


def test_a_device_cgroup_counts_and_modes_of_files_do_not(open_on: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is there with all rights, and does not open: a container shows it so."""
    refused = Refused(monkeypatch)
    tree = open_on(EIGHT).tree
    for place in range(8):
        tree.render(place).chmod(0o666)
        if place not in (2, 7):
            refused.refuse(tree.render(place), errno.EPERM)
            refused.refuse(tree.root / f"sys/class/kfd/kfd/topology/nodes/{2 + place}/properties", errno.EPERM)
            refused.refuse(tree.root / f"sys/class/kfd/kfd/topology/nodes/{2 + place}/gpu_id", errno.EPERM)
    for variable, meant in (("", (2, 7)), ("0,1", (2, 7)), ("1", (7,))):
        if variable:
            monkeypatch.setenv("ROCR_VISIBLE_DEVICES", variable)
        opened = open_backend("amd", "n1", launch.gpu_ids(), 0.1)
        assert uuids(Machine(tree, opened)) == of(EIGHT, *meant)
        opened.backend.close()


def test_cards_are_counted_and_not_sorted_as_words(open_on: Open) -> None:
    node = replace(gpus.full_node(MI300X, 4), others=((0x1A03, "ast"),) * 8)  # card8 to card11
    assert [gpu.uuid for gpu in open_on(node).backend.gpus] == [gpu.uuid for gpu in node.gpus]


def test_without_kfd_and_at_a_place_that_is_not_there(open_on: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = open_on(gpus.full_node(MI300X, 2, truth=[steady(0), steady(1)])).tree
    shutil.rmtree(tree.root / "sys/class/kfd")
    machine = Machine(tree, open_backend("amd", "n1", None, 0.1))
    assert len(machine.look(1.0)) == 2 and value(machine.look(2.0)[1], "power_usage") == 310
    machine.backend.close()
    monkeypatch.setenv("GSSR_AMD_ROOT", str(tree.root / "nowhere"))
    with pytest.raises(BackendError):
        open_backend("amd", "n1", None, 0.1)


CHOICES: list[tuple[dict[str, str], tuple[int, ...], bool]] = [
    ({"SLURM_STEP_ID": "0", "SLURM_STEP_GPUS": "4,5"}, (4, 5), False),
    ({"ROCR_VISIBLE_DEVICES": "2,3"}, (2, 3), True),
    ({"HIP_VISIBLE_DEVICES": "6"}, (6,), True),
    ({"ROCR_VISIBLE_DEVICES": "5,2,7", "HIP_VISIBLE_DEVICES": "1,2"}, (2, 7), True),
    ({"ROCR_VISIBLE_DEVICES": f"GPU-{unique(6):016x},GPU-{unique(2):016x}", "HIP_VISIBLE_DEVICES": "1"}, (2,), False),
    ({"ROCR_VISIBLE_DEVICES": f"GPU-{unique(1):016x}"}, (1,), False),
]
"""What is set, and which GPUs are meant: places in KFD's order where so it says, else of cards."""


@pytest.mark.parametrize(("environment", "places", "in_kfd"), CHOICES)
@pytest.mark.parametrize("node", [EIGHT, SHUFFLED], ids=["in order", "shuffled"])
def test_the_launchers_and_rocms_variables_choose(
    open_on: Open,
    monkeypatch: pytest.MonkeyPatch,
    node: Node,
    environment: dict[str, str],
    places: tuple[int, ...],
    in_kfd: bool,
) -> None:
    """Indices are places in KFD's order, Slurm's those of render nodes; names are the GPUs' own."""
    for name, text in environment.items():
        monkeypatch.setenv(name, text)
    meant = tuple((node.kfd or range(8))[place] for place in places) if in_kfd else places
    machine = open_on(node, launch.gpu_ids())
    assert uuids(machine) == of(node, *meant)


def test_slurms_numbers_stay_slurms_where_a_task_has_fewer(open_on: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are those of render nodes, whatever HIP's variable chooses among them."""
    for name, text in (("SLURM_STEP_ID", "0"), ("SLURM_STEP_GPUS", "4,5"), ("HIP_VISIBLE_DEVICES", "0")):
        monkeypatch.setenv(name, text)
    machine = open_on(SHUFFLED, launch.gpu_ids())
    assert uuids(machine) and set(uuids(machine)) <= set(of(SHUFFLED, 4, 5)), machine.opened.remarks


def test_what_a_gpu_is_called(open_on: Open) -> None:
    machine = open_on(EIGHT)
    for number, (device, gpu) in enumerate(zip(machine.backend.gpus, EIGHT.gpus, strict=True)):
        assert device.uuid == f"GPU-{gpu.unique_id:016x}" and device.device_index == number
        assert "MI300X" in (device.name or "") and device.memory_total == 192 << 30
        assert (device.power_limit, device.sm_count, device.compute_capability) == (750.0, 304, "gfx942")
        assert device.driver_version == "6.12.12" and device.mig is None
    other = open_on(replace(gpus.dies(1), driver=None))
    assert [(each.sm_count, each.compute_capability) for each in other.backend.gpus] == [(110, "gfx90a")] * 2
    assert [each.driver_version for each in other.backend.gpus] == [None, None]
    assert other.backend.name == "amd"


def test_gpus_without_a_name_of_their_own_are_told_apart(open_on: Open) -> None:
    node = gpus.full_node(MI300X, 4).but(1, unique_id=None).but(2, unique_id=None).but(3, unique_id=0)
    machine = open_on(node)
    names = [gpu.uuid for gpu in machine.backend.gpus]
    assert len(set(names)) == 4 and all(names)
    assert sorted(machine.look(1.0)) == [0, 1, 2, 3]


def test_processes_are_told_as_kfd_knows_them(open_on: Open) -> None:
    tree = open_on(gpus.full_node(MI300X, 2)).tree
    for pid, gpu, used in ((4242, 50_001, 3 << 30), (4242, 50_132, 0), (77, 50_132, 1 << 20)):
        path = tree.root / f"sys/class/kfd/kfd/proc/{pid}/vram_{gpu}"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"{used}\n")
    backend = open_backend("amd", "n1", None, 0.1).backend
    backend.sample(START)
    looks = {each.gpu: each.running for each in backend.changes() if isinstance(each, ProcessSnapshot)}
    found = {gpu: [(each.pid, each.memory_used) for each in running] for gpu, running in looks.items()}
    assert found in ({}, {0: [(4242, 3 << 30)], 1: [(77, 1 << 20)]})
    backend.close()


def test_of_two_vendors_nvidias_is_taken_and_the_others_are_said(
    open_on: Open, fake_driver: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = open_on(THREE)
    fake_driver.load(monkeypatch, gpus=1)
    opened = open_backend("auto", "n1", None, 0.1)
    assert opened.backend.name != "amd"
    assert any("AMD" in text for text in [*opened.remarks, *opened.passed_over])
    opened.backend.close()
    assert machine.backend.name == "amd"


def test_where_nvidias_driver_is_not_amds_gpus_are_taken(open_on: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    open_on(THREE)
    monkeypatch.setattr(auto, "_LIBRARY", "libnone.so.1")
    opened = open_backend("auto", "n1", None, 0.1)
    assert (opened.backend.name, len(opened.backend.gpus)) == ("amd", 3)
    opened.backend.close()


def test_mi300a_has_one_memory(open_on: Open) -> None:
    node = gpus.full_node(MI300A, 4, truth=[steady(p)._replace(gtt=always(float(5 << 30))) for p in range(4)])
    machine = open_on(node)
    rows = machine.look(1.0)
    for gpu, each in enumerate(node.gpus):
        assert machine.backend.gpus[gpu].memory_total == 128 << 30
        own = each.truth.memory.at(0)
        assert value(rows[gpu], "memory_used") in (own, own + (5 << 30))


def test_a_partitioned_socket_is_sampled_once_and_says_so(open_on: Open) -> None:
    node = gpus.partitioned(2)
    machine = open_on(node)
    assert uuids(machine) == of(node, 0, 1)
    assert all("CPX" in (gpu.mig or "") for gpu in machine.backend.gpus)
    machine.look(1.0)
    rows = machine.look(2.0)
    for gpu, each in enumerate(node.gpus):
        assert value(rows[gpu], "power_usage") == each.truth.power.at(0)
        assert value(rows[gpu], "gpu_utilization") == pytest.approx(each.truth.utilization.at(0), rel=1e-3)
    assert any("CPX" in text or "partition" in text for text in machine.opened.remarks)


def test_other_cards_are_none_of_ours(open_on: Open) -> None:
    truths = [steady(0), steady(1)]
    node = gpus.full_node(MI325X, 2, truth=truths)
    node = replace(node, others=((NVIDIA, "nvidia"), (INTEL, "i915"), (0x1A03, "ast"), (NVIDIA, "nvidia")))
    machine = open_on(node)
    assert uuids(machine) == of(node, 0, 1)
    mixed = replace(node, gpus=(Gpu(DESKTOP, steady(5), None, 0x0A, compute=None, memory=None), *node.gpus))
    machine = open_on(mixed)
    machine.look(1.0)
    rows = machine.look(2.0)
    own = [place for place, gpu in enumerate(machine.backend.gpus) if "MI325X" in (gpu.name or "")]
    assert len(own) == 2
    for truth, place in zip(truths, own, strict=True):
        assert near(value(rows[place], "gpu_utilization"), truth.utilization.at(0))
        assert value(rows[place], "power_usage") == truth.power.at(0)
    for place in set(rows) - set(own):
        assert known(rows[place]) <= {"memory_used", "clock_event_reasons"}


NONE = {
    "nothing": Node(()), "others only": Node((), others=((NVIDIA, "nvidia"), (INTEL, "xe"))),
    "none may be opened": replace(EIGHT, gpus=tuple(replace(gpu, permitted=False) for gpu in EIGHT.gpus)),
    "an old desktop": Node((Gpu(DESKTOP, Truth(), None, 3, compute=None, memory=None, has_metrics=False),)),
}  # fmt: skip


@pytest.mark.parametrize("name", NONE)
def test_without_a_gpu_there_is_one_sentence(open_on: Open, name: str) -> None:
    try:
        machine = open_on(NONE[name])
    except BackendError as error:
        text = str(error)
        assert text and "\n" not in text and len(text) < 400
        assert name != "none may be opened" or any(word in text for word in ("render", "video", "renderD"))
    else:
        assert name == "an old desktop" or not machine.backend.gpus
        machine.look(1.0)
        assert all(known(row) <= {"memory_used"} for row in machine.look(2.0).values())


@pytest.mark.parametrize("missing", ["mem_info_vram_used", "mem_info_vram_total", "product_name", "hwmon", "vendor"])
def test_files_that_are_not_there_cost_only_their_values(open_on: Open, memory: Path, missing: str) -> None:
    tree = open_on(gpus.full_node(MI300X, 2)).tree
    path = tree.device(1) / missing
    path.rename(Path(tempfile.mkdtemp(dir=memory)) / "elsewhere")
    opened = open_backend("amd", "n1", None, 0.1)
    opened.backend.sample(START)
    rows = opened.backend.sample(START + 1)
    assert len(rows) == (1 if missing == "vendor" else 2)
    opened.backend.close()


def test_doctor_says_what_there_is(open_on: Open, capsys: pytest.CaptureFixture[str]) -> None:
    open_on(replace(gpus.full_node(MI300X, 2), others=((INTEL, "xe"),)))
    main(["doctor"])
    out = capsys.readouterr().out
    assert "MI300X" in out and "untested" in out and "backend amd" in out
    assert "Intel" in out and "Traceback" not in out
    with pytest.raises(BackendError):
        open_on(NONE["none may be opened"])
    main(["doctor"])
    out = capsys.readouterr().out
    assert "render" in out and "no   backend amd" in out


def test_what_is_asked_of_a_node_is_a_table(
    open_on: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    open_on(gpus.dies(1))
    monkeypatch.setattr(on_amd, "find_spec", lambda _: None)
    assert on_amd.main(tmp_path / "out") == 0
    table = (tmp_path / "out" / "amd.md").read_text()
    assert "| GPU 1: gpu_metrics | revision 1.3, 120 bytes; begins 78 00 01 03" in table
    assert "gfx90a" in table and "a second die" in table and "amd.md" not in table
    assert "| render nodes that open | (128,), (129,) |" in capsys.readouterr().out


def test_a_cgroup_of_slurms_counts_from_0(open_on: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """With ConstrainDevices the step's GPUs are the node's, and ROCm's variable counts among those that open."""
    node = gpus.full_node(MI300X, 8)
    for place in range(6):
        node = node.but(place, permitted=False)
    for name, text in (("SLURM_STEP_ID", "0"), ("SLURM_STEP_GPUS", "6,7"), ("ROCR_VISIBLE_DEVICES", "0,1")):
        monkeypatch.setenv(name, text)
    assert uuids(open_on(node, launch.gpu_ids())) == of(node, 6, 7)


def rank_of(number: int, root: Path) -> dict[str, str]:
    return dict(os.environ) | {
        "PYTHONPATH": str(ROOT), "SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_PROCID": str(number),
        "SLURM_LOCALID": str(number), "SLURM_STEP_NUM_TASKS": "4", "SLURM_STEP_NUM_NODES": "1",
        "SLURMD_NODENAME": "nid001", "SLURM_STEP_GPUS": str(number), "ROCR_VISIBLE_DEVICES": str(number),
        "SLURM_CLUSTER_NAME": "c", "GSSR_AMD_ROOT": str(root),
    }  # fmt: skip


def test_four_ranks_on_two_cards_record_four_dies_and_each_cards_power_once(tmp_path: Path, memory: Path) -> None:
    """A real run: a die a rank, sampled ten times a second."""
    truths = [steady(place) for place in range(4)]
    tree = Tree(memory / "root", gpus.dies(2, truths))
    with Live(tree, 0.02):
        command = [sys.executable, "-m", "gssr", "profile", "--backend", "auto", "-t", "100", "-o", "x.sql", "--", "sleep",
                   "4"]  # fmt: skip
        ranks = [
            subprocess.Popen(command, env=rank_of(number, tree.root), cwd=tmp_path, stderr=subprocess.PIPE, text=True)
            for number in range(4)
        ]
        said = [rank.communicate(timeout=60)[1] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0] * 4, said
    assert not any("Traceback" in text for text in said)
    with closing(sqlite3.connect(tmp_path / "x.sql")) as db:
        found = db.execute("SELECT gpu, rank, uuid, backend, sm_count FROM gpus ORDER BY rank").fetchall()
        assert [row[1:] for row in found] == [
            (place, gpu.uuid, "amd", 110) for place, gpu in enumerate(tree.node.gpus)
        ]  # fmt: skip
        for (key, place, *_), truth in zip(found, truths, strict=True):
            n, use, power, told = db.execute(
                "SELECT count(*), avg(gpu_utilization), avg(power_usage), count(energy) FROM samples WHERE gpu = ?",
                (key,),
            ).fetchone()
            assert n > 3 and near(use, truth.utilization.at(0), 0.01)
            assert (power, told) == ((None, 0) if place % 2 else (pytest.approx(truth.power.at(0)), n))
        assert not db.execute("SELECT 1 FROM events WHERE kind IN ('gpu_lost', 'backend_lost')").fetchall()
        rows = db.execute(
            "SELECT max(energy) - min(energy), max(time) - min(time) FROM samples WHERE energy IS NOT NULL GROUP BY gpu"
        ).fetchall()
        counted, spans = [row[0] for row in rows], [row[1] for row in rows]
        assert len(rows) == 2
    out = StringIO()
    with redirect_stdout(out):
        assert main(["analyze", "--json", str(tmp_path / "x.sql")]) == 0
    (run,) = json.loads(out.getvalue())["runs"]
    assert run["n_gpus"] == 4 and run["score"] is None and run["backend"] == "amd"
    watts = truths[0].power.at(0) + truths[2].power.at(0)
    assert run["energy_j"] == pytest.approx(sum(counted), rel=1e-6)
    assert sum(counted) == pytest.approx(watts * sum(spans) / 2, rel=0.2)  # a busy machine writes and reads late
