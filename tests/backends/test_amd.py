"""AMD's GPUs: where fields stand in each revision's table, counters that wrap, scales, and whose GPUs they are."""

import os
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from benchmarks.on_gpu import amd as on_amd
from gssr import doctor
from gssr.backends import amd, auto, open_backend
from gssr.backends.amd import cards
from gssr.backends.amd.amd_backend import ActivityCounter, AmdBackend, open_amd
from gssr.backends.amd.gpu_metrics import TABLES, revision_of, table_of
from gssr.backends.base import BackendError, Offer, ProcessSnapshot
from gssr.metrics import PLACES

_1_3 = (
    "HBB 6H[edge temperature mem vrgfx vrsoc vrmem] 3H[gfx memory mm] H[power] Q[energy] Q[boot] 7H"
    " 7H[sm_clock soc uclk] I H HH H 2I[gfx_acc memory_acc] 4H[memory_temperature] Q[stamp] 3H H Q[throttle]"
)
_BEGIN = "HBB 3H[temperature memory_temperature vrsoc] H[power] 2H[gfx memory] "
_LINKS = " HH HH 2I[gfx_acc memory_acc] Q Q 3Q "
_ACC = " 8Q[xgmi_read] 8Q[xgmi_written] "
_CLOCKS = " Q[stamp] 8H[sm_clock] 4H 4H 4H H H "
_THM = " 6I[ticks prochot ppt socket_thm vr_thm hbm_thm] "
LAYOUTS = {
    (1, 3): _1_3,
    (1, 4): _BEGIN + "4H Q[energy] Q[boot] I I" + _LINKS + _ACC + _CLOCKS,
    (1, 5): _BEGIN + "4H 32H Q[energy] Q[boot] I I" + _LINKS + "II" + _ACC + _CLOCKS,
    (1, 6, "6.11"): _BEGIN + "4H 32H Q[energy] Q[boot]" + _THM + "I I" + _LINKS + "II" + _ACC + _CLOCKS,
    (1, 6): _BEGIN + "Q[energy] Q[boot]" + _THM + "I" + _LINKS + "II" + _ACC + _CLOCKS + 8 * "8I 32H 4H 8Q " + "I",
    (1, 7): _BEGIN + "Q[max] Q[energy] Q[boot]" + _THM + "I" + _LINKS + "II" + _ACC + "8H H" + _CLOCKS
    + 8 * "8I 32H 4H 8Q 8Q " + "I",
    (1, 8): _BEGIN + "Q[max] Q[energy] Q[boot]" + _THM + "I" + _LINKS + "II" + _ACC + "8H H" + _CLOCKS
    + 8 * "8I 40H 4H 8Q 8Q 8Q 8Q 8Q " + "I",
}  # fmt: skip
"""The header's structs, as the compiler lays them out: members in order, with the names of those that are looked at."""


def laid_out(layout: str) -> tuple[dict[str, tuple[str, int, int]], int]:
    """By name a member's letter, offset and number of values, and the size of the whole."""
    at, widest, places = 0, 1, {}
    for word in layout.split(" ") if "[" not in layout else _words(layout):
        shape, _, names = word.partition("[")
        for letter, many in _members(shape):
            size = struct.calcsize(letter)
            at, widest = -(-at // size) * size, max(widest, size)
            called = names.rstrip("]").split()
            for number, name in enumerate(called):
                places[name] = (letter, at + number * size, many if len(called) == 1 else 1)
            at += many * size
    return places, -(-at // widest) * widest


def _words(layout: str) -> Iterable[str]:
    word = ""
    for c in layout:
        if c == " " and word.count("[") == word.count("]"):
            if word:
                yield word
            word = ""
        else:
            word += c
    if word:
        yield word


def _members(shape: str) -> Iterable[tuple[str, int]]:
    many = ""
    for c in shape:
        if c.isdigit():
            many += c
        else:
            yield c, int(many or 1)
            many = ""


def blob(key: tuple[Any, ...], **values: int | list[int]) -> bytearray:
    """A table in which all that isn't named is all ones."""
    places, size = laid_out(LAYOUTS[key])
    data = bytearray(b"\xff" * size)
    struct.pack_into("<HBB", data, 0, size, key[0], key[1])
    for name, value in values.items():
        letter, at, _ = places[name]
        numbers = value if isinstance(value, list) else [value]
        struct.pack_into(f"<{len(numbers)}{letter}", data, at, *numbers)
    return data


NUMBERS = {
    "temperature": 61, "memory_temperature": 55, "power": 432, "gfx": 71, "memory": 33, "energy": 10 << 16, "gfx_acc": 7001,
    "memory_acc": 3301, "stamp": 77, "sm_clock": 1700,
}  # fmt: skip
SINCE_1_4 = {"xgmi_read": [5, 6], "xgmi_written": [7]}
SINCE_1_6 = {"ticks": 1000, "prochot": 1, "ppt": 2, "socket_thm": 3, "vr_thm": 4, "hbm_thm": 5}


@pytest.mark.parametrize("key", LAYOUTS)
def test_each_revisions_fields_are_where_the_kernels_struct_has_them(key):
    many = SINCE_1_4 if key != (1, 3) else {}
    counted = SINCE_1_6 if key[1] >= 6 else {}
    data = blob(key, **NUMBERS, **many, **counted, **({"throttle": 1 << 46} if key == (1, 3) else {}))
    table = table_of(data, len(data))
    reading = table.read(data)._asdict()
    expected = dict.fromkeys(reading) | NUMBERS | {name: sum(many[name]) for name in many} | counted
    assert reading == expected | ({"throttle": 1 << 46} if key == (1, 3) else {})
    assert table.size == len(data) and table_of(data, len(data) - 1) is None
    nothing = blob(key)
    assert set(table_of(nothing, len(nothing)).read(nothing)) == {None}


def test_no_other_table_is_read():
    assert len(TABLES) == len(LAYOUTS)
    data = blob((1, 8), **NUMBERS)
    for size, major, minor in ((3873, 1, 8), (3872, 1, 7), (3872, 2, 8), (3872, 1, 10)):
        struct.pack_into("<HBB", data, 0, size, major, minor)
        assert table_of(data, len(data)) is None
    assert "revision 1.10" in revision_of(data, len(data))
    for n in range(8):
        assert table_of(data, n) is None


def described(*attributes: tuple[int, str, int, list[int]]) -> bytearray:
    """A table of 1.9: (unit, letter, id, values)."""
    data = struct.pack("<i", len(attributes))
    for unit, letter, name, values in attributes:
        sign = unit << 24 | "BbHhIiQq".index(letter) << 20 | name << 10 | len(values)
        data += struct.pack(f"<Q{len(values)}{letter}", sign, *values)
    return bytearray(struct.pack("<HBB", len(data) + 4, 1, 9) + data)


def test_a_table_that_describes_itself_is_read_by_its_attributes():
    ones = (1 << 64) - 1
    data = described(
        (2, "H", 0, [61]), (0, "I", 999, [1, 2, 3]), (10, "Q", 20, [1 << 40]), (9, "Q", 29, [5, 6, ones]),
        (8, "Q", 30, [9]), (1, "H", 33, [1000, 2000, 0xFFFF]), (3, "H", 3, [0xFFFF]), (0, "I", 9, [17]),
    )  # fmt: skip
    reading = table_of(data, len(data)).read(data)
    assert (reading.temperature, reading.gfx_acc, reading.xgmi_read, reading.sm_clock) == (61, 1 << 40, 11, 1500)
    assert reading.xgmi_written is None, "its unit isn't KB"
    assert reading.power is None and reading.ticks == 17
    other = described((0, "I", 999, [1, 2, 3]), (2, "H", 0, [61]))
    other[0:2] = data[0:2]
    assert table_of(data, len(data)).read(other + bytearray(200)) is None, "they stand elsewhere"
    for n in range(len(data)):
        table_of(data, n)  # cut anywhere
    data[4:8] = b"\xff\xff\xff\x7f"
    assert table_of(data, len(data)) is None


@pytest.mark.parametrize("full", [100, 1])
def test_the_scale_of_a_sum_is_learnt_from_the_average_beside_it(full):
    """1000 ticks at 40 % and then 1000 at 80 %, whatever a tick adds."""
    activity = ActivityCounter()
    assert activity.share(40, None) == 0.4
    assert activity.share(40, 0.4 * full) == pytest.approx(0.4)
    assert activity.share(80, 0.62 * full) == pytest.approx(0.62)
    assert activity.share(0, 0.0) == 0.0


def test_a_sum_that_fits_no_scale_is_not_used():
    activity = ActivityCounter()
    told = [activity.share(50, per_tick) for per_tick in (None, 4000.0, 0.001, 106.0, 300.0)]
    assert told == [0.5] * 5
    idle = ActivityCounter()
    assert [idle.share(0, 0.001), idle.share(0, 0.5)] == [0.0, 0.0], "nothing says by which scale"
    assert idle.share(100, 90.0) == 0.9


class Tree:
    """A machine's files."""

    def __init__(self, root: Path, n: int, key: tuple[Any, ...] = (1, 8), device: str = "0x74a1", gfx: int = 90402):
        self.root, self.key, self.n = root, key, n
        for number in range(n):
            self.put(number, "vendor", "0x1002"), self.put(number, "device", device)
            self.put(number, "unique_id", f"{number + 0xABC:016x}")
            self.put(number, "mem_info_vram_total", 1 << 36), self.put(number, "mem_info_vram_used", 1 << 30)
            self.metrics(number, **NUMBERS)
            drm = root / "sys/class/drm"
            (drm / f"renderD{128 + number}").mkdir()
            (drm / f"renderD{128 + number}/device").symlink_to(f"../card{number}/device")
            (root / "dev/dri").mkdir(parents=True, exist_ok=True)
            (root / f"dev/dri/renderD{128 + number}").touch()
            node = root / f"sys/class/kfd/kfd/topology/nodes/{number + 1}"
            node.mkdir(parents=True)
            (node / "gpu_id").write_text(f"{4000 + number}\n")
            (node / "properties").write_text(
                f"simd_count 1216\nsimd_per_cu 4\ngfx_target_version {gfx}\ndrm_render_minor {128 + number}\n"
                f"unique_id {number + 0xABC}\nmax_engine_clk_fcompute 2100\n"
            )

    def put(self, number: int, name: str, value: object) -> None:
        path = self.root / f"sys/class/drm/card{number}/device/{name}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(value) if isinstance(value, (bytes, bytearray)) else path.write_text(f"{value}\n")

    def metrics(self, number: int, **values: Any) -> None:
        self.put(number, "gpu_metrics", blob(self.key, **values))

    def backend(self) -> AmdBackend:
        return open_amd(None).backend  # type: ignore[return-value]


@pytest.fixture
def tree(tmp_path, monkeypatch):
    for name in ("SLURM_STEP_ID", "SLURM_JOB_ID", "SLURM_STEP_GPUS", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("GSSR_AMD_ROOT", str(tmp_path))
    return lambda n=8, **kinds: Tree(tmp_path, n, **kinds)


def value(row, name):
    return row[PLACES[name]]


def test_what_happens_between_two_rows_is_in_the_second(tree):
    """Counters pass 2^32; xGMI and residencies are differences; a driver that is loaded anew costs what only two tell."""
    machine = tree(1)
    most = (1 << 32) - 1
    machine.metrics(0, **NUMBERS | SINCE_1_6 | SINCE_1_4 | {"gfx_acc": most - 999, "ticks": most - 9})
    backend = machine.backend()
    (first,) = backend.sample(100.0)
    assert value(first, "gpu_utilization") == 0.71 and value(first, "clock_event_reasons") is None
    assert value(first, "power_usage") == 432 and value(first, "energy") == 10.0
    assert value(first, "nvlink_tx_bytes") is None and value(first, "memory_used") == 1 << 30
    machine.metrics(0, **NUMBERS | SINCE_1_6 | {"gfx_acc": 4000, "ticks": 90, "ppt": 9, "hbm_thm": 6, "xgmi_read": [1005, 6],
                                                "xgmi_written": [2007], "energy": 11 << 16})  # fmt: skip
    (second,) = backend.sample(101.0)
    assert value(second, "gpu_utilization") == pytest.approx(0.5)
    assert value(second, "nvlink_rx_bytes") == pytest.approx(1000 * 1024, rel=0.01)
    assert value(second, "nvlink_tx_bytes") == pytest.approx(2000 * 1024, rel=0.01)
    assert value(second, "clock_event_reasons") == 0x4 | 0x20
    machine.metrics(0, **NUMBERS | SINCE_1_6 | SINCE_1_4 | {"energy": 1 << 16, "gfx_acc": 100, "ticks": 10})
    (third,) = backend.sample(102.0)
    assert value(third, "gpu_utilization") == 0.71 and value(third, "clock_event_reasons") is None
    assert value(third, "nvlink_rx_bytes") is None and value(third, "energy") == 1.0
    backend.close()


def test_a_gpu_that_is_reset_is_lost_and_back_and_the_others_go_on(tree, monkeypatch):
    machine = tree(2)
    backend = machine.backend()
    real, broken = os.preadv, backend._gpus[1]._metrics

    def refuse(descriptor, *rest):
        if descriptor == broken:
            raise PermissionError(1, "Operation not permitted")
        return real(descriptor, *rest)

    monkeypatch.setattr(os, "preadv", refuse)
    (
        machine.put(1, "kept", ""),
        os.rename(machine.root / "sys/class/drm/card1/device/gpu_metrics", machine.root / "away"),
    )
    assert [row[0] for row in backend.sample(100.0)] == [0]
    lost, *_ = [change for change in backend.changes() if not isinstance(change, ProcessSnapshot)]
    assert (lost.kind, lost.gpu) == ("gpu_lost", 1) and "reset" in lost.message
    assert len(backend.sample(101.5)) == 1
    os.rename(machine.root / "away", machine.root / "sys/class/drm/card1/device/gpu_metrics")
    monkeypatch.setattr(os, "preadv", real)
    backend.sample(103.0)
    back, *_ = [change for change in backend.changes() if not isinstance(change, ProcessSnapshot)]
    assert (back.kind, back.gpu, back.message) == ("gpu_back", 1, "answers again after 3 s")
    assert [row[0] for row in backend.sample(104.0)] == [0, 1]
    backend.close()


def test_power_of_a_card_with_two_dies_is_told_once(tree):
    machine = tree(4, key=(1, 3), device="0x7408", gfx=90010)
    for number in (1, 3):
        machine.metrics(number, **NUMBERS | {"power": 0, "energy": 0})
    opened = open_amd(None)
    rows = opened.backend.sample(100.0)
    assert [value(row, "power_usage") for row in rows] == [432, None, 432, None]
    assert [value(row, "energy") for row in rows] == [10.0, None, 10.0, None]
    assert "GPUs 1, 3: second dies of their cards" in opened.remarks[0] and "GPUs 0, 2" in opened.remarks[0]
    assert {value(row, "dram_active") for row in rows} == {None}
    assert opened.backend.gpus[0][:3] == (0, "GPU-0000000000000abc", "AMD Instinct MI250X")
    assert (opened.backend.gpus[0].compute_capability, opened.backend.gpus[0].sm_count) == ("gfx90a", 304)
    opened.backend.close()


def indices(visible):
    own, _, remarks = cards.usable_cards(visible)
    return [card.device.device_index for card in own], " ".join(remarks)


def test_gpus_that_open_are_ours_and_indices_count_them(tree, monkeypatch):
    machine = tree(8)
    assert indices(None) == (list(range(8)), "")
    assert indices(("GPU-0000000000000ABE",)) == ([2], "")
    assert indices(("0", "1"))[0] == [0, 1] and "no launcher says so" in indices(("0", "1"))[1]
    monkeypatch.setenv("SLURM_JOB_ID", "1"), monkeypatch.setenv("SLURM_STEP_ID", "0")
    monkeypatch.setenv("SLURM_STEP_GPUS", "0,1")
    assert indices(("0", "1")) == ([0, 1], "")
    monkeypatch.delenv("SLURM_STEP_ID")
    for number in range(4):
        os.remove(machine.root / f"dev/dri/renderD{128 + number}")
    assert indices(None) == ([4, 5, 6, 7], "")
    assert indices(("0", "1"))[0] == [4, 5], "HIP numbers those it may use"
    assert indices(("4", "5", "6", "7"))[0] == indices(("0", "1", "2", "3"))[0] == [4, 5, 6, 7]
    assert indices(("5", "6"))[0] == [5, 6]
    os.rename(machine.root / "dev/dri", machine.root / "dev/none")
    with pytest.raises(BackendError, match=r"none of the node's 8 AMD GPUs may be used .* video and render"):
        cards.usable_cards(None)


def test_processes_are_kfds(tree):
    machine = tree(2)
    for pid, number, used in ((71, 0, 1 << 20), (71, 1, 0), (99, 1, 1 << 21)):
        path = machine.root / f"sys/class/kfd/kfd/proc/{pid}/vram_{4000 + number}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{used}\n")
    backend = machine.backend()
    backend.sample(100.0)
    looks = backend.changes()
    assert [(look.gpu, look.running) for look in looks] == [(0, ((71, 1 << 20, None),)), (1, ((99, 1 << 21, None),))]
    backend.close()


def test_what_is_not_known_is_said_once_and_is_missing(tree):
    machine = tree(2)
    machine.put(1, "gpu_metrics", struct.pack("<HBB", 500, 1, 42) + bytes(496))
    opened = open_amd(None)
    (said,) = opened.remarks
    assert said.startswith("GPU 1: gpu_metrics is of a form that isn't known here (revision 1.42, 500 bytes)")
    rows = opened.backend.sample(100.0)
    assert value(rows[1], "gpu_utilization") is None and value(rows[1], "memory_used") == 1 << 30
    assert value(rows[0], "gpu_utilization") == 0.71
    opened.backend.close()


def test_auto_takes_amds_gpus_where_nvidias_driver_is_not_and_says_what_it_leaves(
    tree, tmp_path, monkeypatch, fake_driver
):
    tree(2)
    monkeypatch.setattr(auto, "_LIBRARY", "libnone.so.1")
    opened = open_backend("auto", "n", None, 0.1)
    assert (opened.backend.name, len(opened.backend.gpus)) == ("amd", 2)
    opened.backend.close()
    monkeypatch.undo()
    fake_driver.load(monkeypatch, gpus=3)
    monkeypatch.setenv("GSSR_AMD_ROOT", str(tmp_path))
    monkeypatch.setattr(auto, "is_amds", lambda: False)  # the stand-in has no name that is looked for
    monkeypatch.setattr(auto, "_offer_dcgm", lambda: Offer("dcgm", False, "none is here"))
    opened = open_backend("auto", "n", None, 0.1)
    assert opened.backend.name != "amd" and len(opened.backend.gpus) == 3
    assert opened.remarks[-1] == "this node has 2 AMD GPUs as well, which --backend amd records"
    opened.backend.close()
    monkeypatch.setattr(auto, "_open_nvidias", unusable)
    opened = open_backend("auto", "n", None, 0.1)
    assert opened.backend.name == "amd" and "NVIDIA's GPUs not used: no GPU answers" in opened.passed_over
    opened.backend.close()


def unusable(*_: object) -> None:
    raise BackendError("no GPU answers")


def test_doctor_shows_amds_gpus_and_says_why_not_intels(tree, tmp_path, monkeypatch):
    machine = tree(2)
    found = {advice.what: advice for advice in doctor._real_gpus()}
    assert found["backend amd"].verdict == "ok" and "untested on hardware" in found["backend amd"].details
    assert "Intel GPUs" not in found
    machine.put(7, "vendor", "0x8086")
    nvidias = [Offer(name, False, "no driver") for name in ("dcgm", "gpm", "nvml")]
    monkeypatch.setattr(doctor, "_offers", lambda: [*nvidias, amd.offer()])
    found = {advice.what: advice for advice in doctor._real_gpus()}
    assert found["GPUs"].details.startswith("2 GPUs (AMD Instinct MI300X), driver unknown, untested on hardware")
    assert found["Intel GPUs"].verdict == "note" and "root only" in found["Intel GPUs"].details
    os.rename(tmp_path / "dev", tmp_path / "away")
    found = {advice.what: advice for advice in doctor._real_gpus()}
    assert found["GPUs"].verdict == "no" and "video and render" in found["GPUs"].cure


def test_what_is_asked_of_a_node_is_a_table(tree, tmp_path, monkeypatch, capsys):
    machine = tree(2, key=(1, 3), device="0x7408", gfx=90010)
    machine.metrics(1, **NUMBERS | {"power": 0, "energy": 0})
    monkeypatch.setattr(on_amd, "find_spec", lambda _: None)
    assert on_amd.main(tmp_path / "out") == 0
    table = (tmp_path / "out" / "amd.md").read_text()
    assert "| GPU 1: gpu_metrics | revision 1.3, 120 bytes; begins 78 00 01 03" in table
    assert "gfx90a" in table and "a second die" in table and "gfx_acc 7001" in table and "amd.md" not in table
    assert "| render nodes that open | (128,), (129,) |" in capsys.readouterr().out
    reading = table_of(data := blob((1, 8), **NUMBERS | SINCE_1_6), len(data)).read(data)
    stretch = on_amd.Stretch(
        2.0, reading, reading._replace(ticks=3000, gfx_acc=7001 + 99 * 2000, energy=900 << 16), 440.0, 1.0
    )
    assert "1000 ticks a second; gfx_acc 99.000 a tick" in on_amd._grown(stretch)
    assert (
        "445 W by energy, 440 W by power" in on_amd._grown(stretch) and on_amd._rate(stretch, "xgmi_read") == "untold"
    )


def test_crays_counters_are_the_cards(tree):
    machine = tree(2, key=(1, 3), device="0x7408", gfx=90010)
    machine.metrics(1, **NUMBERS | {"power": 0, "energy": 0})
    folder = machine.root / "sys/cray/pm_counters"
    folder.mkdir(parents=True)
    (
        (folder / "accel0_power").write_text("501 W 1234567 us\n"),
        (folder / "accel0_energy").write_text("777 J 1234567 us\n"),
    )
    opened = open_amd(None)
    assert "pm_counters" in opened.remarks[-1]
    rows = opened.backend.sample(100.0)
    assert [value(row, "power_usage") for row in rows] == [501, None]
    assert [value(row, "energy") for row in rows] == [777, None]
    opened.backend.close()
    (folder / "accel1_power").write_text("1 W\n"), (folder / "accel1_energy").write_text("1 J\n")
    assert value(machine.backend().sample(100.0)[0], "power_usage") == 432, "two modules, one card"
