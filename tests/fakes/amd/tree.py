"""A folder that stands for ``/`` where AMD's files are looked for, as ``GSSR_AMD_ROOT`` names it.

Files lie as the kernel has them: a card is a link into ``sys/devices``, its ``device`` a link back, ``renderD`` beside it.
``Tree.write(time)`` makes them what is true at a time; ``Live`` does so all the time. A kernel answers each read anew, also
of a file that was opened before, so files are written in place, each with one call and without changing their length: who
reads meanwhile gets each number from before or from after. ``renamed=True`` puts new files in the places of the old ones
instead, which a kernel does when the driver is loaded anew: what was kept open is empty then.

What only a kernel can do is in refused.py.
"""

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from tests.fakes.amd.gpus import AMD, Gpu, Node
from tests.fakes.amd.layouts import XCC, blob, with_xcp
from tests.fakes.amd.truth import THROTTLERS

FIRST_RENDER = 128
PPT0, HOTSPOT, PROCHOT_GFX = 0, 36, 47
"""Bits of ``indep_throttle_status``, as amdgpu_smu.h numbers them."""


def metrics(gpu: Gpu, at: float) -> bytes:
    """The table of a GPU at a time."""
    if gpu.raw is not None:
        return gpu.raw
    truth, revision = gpu.truth, gpu.layout
    counts = truth.counts(at)
    values: dict[str, int | list[int]] = dict(counts)
    power, clock = int(truth.power.at(at)), int(truth.clock.at(at))
    utilization, bandwidth = round(100 * truth.utilization.at(at)), round(100 * truth.bandwidth.at(at))
    hotspot, memory = int(truth.hotspot.at(at)), int(truth.memory_temperature.at(at))
    now = {name: name in truth.throttled and truth.throttled[name].at(at) > 0 for name in THROTTLERS}
    values |= {
        "average_gfx_activity": utilization, "average_umc_activity": bandwidth, "temperature_hotspot": hotspot,
        "temperature_mem": memory, "temperature_vrsoc": hotspot - 9,
    }  # fmt: skip
    if revision == "2.3":
        return blob(revision, {"temperature_gfx": 100 * hotspot, "average_gfx_activity": utilization * 100})
    if revision == "1.3":
        bits = now["ppt"] << PPT0 | now["socket_thm"] << HOTSPOT | now["prochot"] << PROCHOT_GFX
        values |= {
            "average_socket_power": power, "current_gfxclk": clock, "temperature_edge": hotspot - 7,
            "temperature_hbm": [memory - 1, memory, memory - 2, memory - 3], "indep_throttle_status": bits,
            "throttle_status": 0, "average_gfxclk_frequency": clock - 3, "current_socclk": 1090, "current_uclk": 1600,
            "voltage_gfx": 812,
        }  # fmt: skip
        if gpu.secondary:
            values |= {"average_socket_power": 0, "energy_accumulator": 0}
        return blob(revision, values)
    xcc = gpu.product.xcc
    clocks = [clock + (10 if place % 2 else -10) for place in range(xcc - xcc % 2)] + [clock] * (xcc % 2)
    sent, received = truth.traffic(truth.sent, at), truth.traffic(truth.received, at)
    values |= {
        "curr_socket_power": power, "current_gfxclk": clocks, "xgmi_write_data_acc": sent, "xgmi_read_data_acc": received,
        "mem_max_bandwidth": 5300, "throttle_status": 0, "num_partition": gpu.partitions, "pcie_bandwidth_inst": 3,
        "current_uclk": 1300, "xgmi_link_status": [1] * truth.links,
    }  # fmt: skip
    busy_acc = counts["gfx_activity_acc"]
    if revision == "1.9":
        return blob(revision, values | {"gfx_busy_inst": [utilization] * xcc, "gfx_busy_acc": [busy_acc] * xcc})
    data = blob(revision, values)
    if revision in ("1.6", "1.7", "1.8"):
        each = max(1, XCC // gpu.partitions)
        if gpu.partitions > 1:  # "retired on platforms which support partitioning": it is all ones then
            values |= {"average_gfx_activity": 0xFFFF, "gfx_activity_acc": 0xFFFFFFFF}
            data = blob(revision, values)
        data = with_xcp(data, revision, [[utilization] * each] * gpu.partitions, [[busy_acc] * each] * gpu.partitions)
    return data


class Tree:
    """The files of a node below ``root``. ``writes``: how often they were made true."""

    def __init__(self, root: Path, node: Node) -> None:
        self.root, self.node, self.writes = root, node, 0
        self._open: dict[Path, int] = {}
        self._held: dict[Path, bytes] = {}
        self._first = len(node.others)
        root.mkdir(parents=True, exist_ok=True)
        self._class = root / "sys/class/drm"
        self._class.mkdir(parents=True)
        (self._class / "version").write_text("drm 1.1.0 20060810\n")
        for card, (vendor, driver) in enumerate(node.others):
            self._other(card, vendor, driver)
        minor = FIRST_RENDER
        for place, gpu in enumerate(node.gpus):
            self._device(place, gpu, minor)
            minor += gpu.partitions
        if node.driver is not None and node.gpus:
            self._text("sys/module/amdgpu/version", node.driver)
        self._kfd()
        self.write(0.0)

    def device(self, place: int) -> Path:
        """The folder of a GPU's files."""
        return self.root / f"sys/devices/pci0000:00/{self._address(self.node.gpus[place])}"

    def metrics(self, place: int) -> Path:
        """The file of its table."""
        return self.device(place) / "gpu_metrics"

    def render(self, place: int) -> Path:
        """What it is opened through."""
        before = sum(gpu.partitions for gpu in self.node.gpus[:place])
        return self.root / f"dev/dri/renderD{FIRST_RENDER + before}"

    def write(self, at: float, renamed: bool = False) -> None:
        """Make all files what is true at a time, s after 0."""
        for place, gpu in enumerate(self.node.gpus):
            device = self.device(place)
            if not device.is_dir():
                continue
            if gpu.has_metrics:
                self._put(device / "gpu_metrics", metrics(gpu, at), renamed)
            truth = gpu.truth
            self._number(device / "mem_info_vram_used", truth.memory.at(at), renamed)
            self._number(device / "mem_info_gtt_used", truth.gtt.at(at), renamed)
        if self.node.cray:
            self._cray(at, renamed)
        self.writes += 1

    def put(self, place: int, data: bytes) -> None:
        """Other bytes in the place of a GPU's table, until it is written again."""
        path = self.metrics(place)
        path.write_bytes(data)
        self._held.pop(path, None)

    def remove(self, place: int) -> None:
        """The GPU is gone: of its files nothing is left, and what was kept open is empty."""
        device = self.device(place)
        for path in [path for path in device.rglob("*") if path.is_file() and not path.is_symlink()]:
            os.truncate(path, 0)
        self._forget(device)
        gone = device.with_name(f"gone-{place}-{self.writes}")
        device.rename(self.root / gone.name)
        for link in [link for link in self._class.iterdir() if link.is_symlink() and not link.exists()]:
            link.unlink()
        self.render(place).unlink(missing_ok=True)

    def close(self) -> None:
        """Let go of what is open here."""
        for descriptor in self._open.values():
            os.close(descriptor)
        self._open.clear()

    def _forget(self, below: Path) -> None:
        """Write what lies below anew, next time."""
        for path in [path for path in self._open if path.is_relative_to(below)]:
            os.close(self._open.pop(path))
        for path in [path for path in self._held if path.is_relative_to(below)]:
            del self._held[path]

    def _put(self, path: Path, data: bytes, renamed: bool) -> None:
        if self._held.get(path) == data and not renamed:
            return
        if renamed or (path not in self._held and not path.exists()):
            self._forget(path)
            new = path.with_name(f".{path.name}.new")
            new.write_bytes(data)
            os.chmod(new, 0o444)
            if path.exists():
                os.truncate(path, 0)
            new.rename(path)
            self._held[path] = data
            return
        if path not in self._open:
            os.chmod(path, 0o644)
            self._open[path] = os.open(path, os.O_RDWR)
        os.pwrite(self._open[path], data, 0)
        self._held[path] = data
        if os.fstat(self._open[path]).st_size != len(data):
            os.ftruncate(self._open[path], len(data))

    def _number(self, path: Path, value: float, renamed: bool) -> None:
        width = len(self._held.get(path, b"")) - 1 if not renamed else 0
        self._put(path, f"{int(value):0{max(width, 1)}d}\n".encode(), renamed)

    def _text(self, path: str | Path, text: str) -> None:
        path = self.root / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")

    @staticmethod
    def _address(gpu: Gpu) -> str:
        return f"0000:{gpu.bus:02x}:00.0"

    def _drm(self, device: Path, card: int, minor: int | None) -> None:
        """The nodes of a device: its card, with a connector, and what it is rendered through."""
        for name in (f"card{card}", *([] if minor is None else [f"renderD{minor}"])):
            node = device / "drm" / name
            node.mkdir(parents=True)
            (node / "device").symlink_to("../..")
            (node / "dev").write_text(f"226:{minor if name.startswith('render') else card}\n")
            (self._class / name).symlink_to(os.path.relpath(node, self._class))
        connector = device / "drm" / f"card{card}" / f"card{card}-DP-1"
        connector.mkdir()
        (connector / "device").symlink_to("..")
        (self._class / connector.name).symlink_to(os.path.relpath(connector, self._class))

    def _other(self, card: int, vendor: int, driver: str) -> None:
        device = self.root / f"sys/devices/pci0000:00/0000:00:{card + 2:02x}.0"
        self._text(device / "vendor", f"{vendor:#06x}")
        self._text(device / "device", "0x2000")
        self._text(device / "uevent", f"DRIVER={driver}")
        self._drm(device, card, None)

    def _device(self, place: int, gpu: Gpu, minor: int) -> None:
        device, product = self.device(place), gpu.product
        self._text(device / "vendor", f"{AMD:#06x}")
        self._text(device / "device", f"{product.device_id:#06x}")
        self._text(device / "uevent", f"DRIVER=amdgpu\nPCI_SLOT_NAME={self._address(gpu)}")
        if gpu.unique_id is not None:
            self._text(device / "unique_id", f"{gpu.unique_id:016x}")
        self._text(device / "product_name", product.name if gpu.product_name is None else gpu.product_name)
        self._text(device / "mem_info_vram_total", str(product.vram))
        self._text(device / "mem_info_gtt_total", str(product.vram if product.apu else 256 << 30))
        if gpu.compute is not None:
            self._text(device / "current_compute_partition", gpu.compute)
        if gpu.memory is not None:
            self._text(device / "current_memory_partition", gpu.memory)
        if gpu.has_metrics:
            hwmon = device / f"hwmon/hwmon{5 + place}"
            self._text(hwmon / "name", "amdgpu")
            self._text(hwmon / "power1_cap", str(0 if gpu.secondary else int(product.cap * 1e6)))
            self._text(hwmon / "power1_cap_max", str(0 if gpu.secondary else int(product.cap * 1e6)))
        self._drm(device, self._first + place, minor)
        for partition in range(1, gpu.partitions):
            logical = self.root / f"sys/devices/platform/amdgpu_xcp_{place * 8 + partition}"
            logical.mkdir(parents=True)
            self._drm(logical, 64 + 8 * place + partition, minor + partition)
        for partition in range(gpu.partitions):
            if gpu.permitted:
                path = self.root / f"dev/dri/renderD{minor + partition}"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(b"")

    def _kfd(self) -> None:
        nodes = self.root / "sys/class/kfd/kfd/topology/nodes"
        (self.root / "sys/class/kfd/kfd/proc").mkdir(parents=True)
        self._text("sys/class/kfd/kfd/topology/system_properties", "platform_oem 0\nnum_devices 10")
        for number in range(2):
            self._text(nodes / str(number) / "gpu_id", "0")
            self._text(nodes / str(number) / "name", "")
            self._text(nodes / str(number) / "properties", "cpu_cores_count 96\nsimd_count 0\ndrm_render_minor 0")
        number = 2
        places = self.node.kfd or range(len(self.node.gpus))
        for place in places:
            gpu = self.node.gpus[place]
            minor = int(self.render(place).name.removeprefix("renderD"))
            for partition in range(gpu.partitions):
                self._text(nodes / str(number) / "gpu_id", str(50_001 + 131 * place + partition))
                self._text(nodes / str(number) / "name", "ip discovery" if gpu.product.target > 90010 else "aldebaran")
                properties = self._properties(gpu, minor + partition)
                self._text(nodes / str(number) / "properties", "\n".join(f"{key} {value}" for key, value in properties))
                number += 1

    def _properties(self, gpu: Gpu, minor: int) -> Iterator[tuple[str, int]]:
        simds = 4 * gpu.product.cus // gpu.partitions
        yield from (("cpu_cores_count", 0), ("simd_count", simds), ("mem_banks_count", 1), ("caches_count", 401))
        yield from (("max_waves_per_simd", 8), ("lds_size_in_kb", 64), ("wave_front_size", 64), ("simd_per_cu", 4))
        yield from (
            ("gfx_target_version", gpu.product.target),
            ("vendor_id", AMD),
            ("device_id", gpu.product.device_id),
        )
        yield from (("location_id", gpu.bus << 8), ("domain", 0), ("drm_render_minor", minor), ("hive_id", 1 << 60))
        yield from (("max_engine_clk_fcompute", 2100), ("num_xcc", max(1, gpu.product.xcc // gpu.partitions)))
        yield ("unique_id", gpu.unique_id or 0)

    def _cray(self, at: float, renamed: bool) -> None:
        """Each card's own meters, by card; the energy in whole J, the time in us."""
        folder = self.root / "sys/cray/pm_counters"
        folder.mkdir(parents=True, exist_ok=True)
        stamp = f"{7_000_000_000_000 + int(at * 1e6)} us"
        if not (folder / "raw_scan_hz").exists():
            for name, text in (
                ("raw_scan_hz", "10"),
                ("version", "2"),
                ("generation", "12"),
                ("startup", "1700000000"),
            ):
                self._text(folder / name, text)
        powers = [gpu.truth.power for gpu in self.node.gpus if not gpu.secondary]
        for card, power in enumerate(powers):
            watts, joules = int(power.at(at)), 2_000_000_000 + int(power.total(at))
            self._put(folder / f"accel{card}_power", f"{watts:4d} W {stamp}\n".encode(), renamed)
            self._put(folder / f"accel{card}_energy", f"{joules} J {stamp}\n".encode(), renamed)
            self._put(folder / f"accel{card}_power_cap", b"560 W\n", renamed)
        self._put(folder / "power", f"{1234:5d} W {stamp}\n".encode(), renamed)
        self._put(folder / "energy", f"{9_000_000_000 + int(1234 * at)} J {stamp}\n".encode(), renamed)
        self._put(folder / "freshness", f"{int(at * 10):012d}\n".encode(), renamed)


class Live:
    """A tree that goes on by itself, as long as it is entered: ``began`` is the unix time of its 0."""

    def __init__(self, tree: Tree, every: float = 0.01) -> None:
        self.tree, self.began = tree, 0.0
        self._every, self._stop = every, threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> "Live":
        self.began = time.time()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self.tree.close()

    def _run(self) -> None:
        while not self._stop.wait(self._every):
            self.tree.write(int((time.time() - self.began) * 1000) / 1000)
