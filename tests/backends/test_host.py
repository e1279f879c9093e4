"""Host numbers against what really runs."""

import mmap
import os
import signal
import time
from pathlib import Path

import psutil
import pytest
from busy import BUSY, wait_for_cpu

from gssr.backends import host, kernel_files
from gssr.backends.host import HostSampler, HostValues
from gssr.backends.kernel_files import contents_again, lines_of
from gssr.backends.workload_processes import WorkloadValues
from gssr.store.format.host_rollups import HOST, WORKLOAD


def test_host_values_are_named_as_the_columns() -> None:
    assert set(HostValues._fields) == set(HOST.values) and set(WorkloadValues._fields) == set(WORKLOAD.values)
    given = dict.fromkeys(reversed(HOST.values[1:]), 2.0)
    assert HOST.in_order(given) == [None, *[2.0] * len(given)]


def test_rates_are_known_from_the_second_look_on() -> None:
    sampler = HostSampler()
    first = sampler.sample(100.0)._asdict()
    time.sleep(0.2)
    second = sampler.sample(100.2)._asdict()
    rates = {"cpu_utilization", *(name for name in first if name.endswith("_bytes"))}
    assert {name for name, value in first.items() if value is None} == rates
    assert 0 <= second["cpu_utilization"] <= 1
    assert 0 < second["memory_used"] < second["memory_total"] == psutil.virtual_memory().total
    assert second["load1"] >= 0


def test_host_cpu_shows_a_busy_core(spawn) -> None:
    sampler = HostSampler()
    sampler.sample(0.0)
    before, process = psutil.cpu_times(), spawn(BUSY)
    wait_for_cpu(process.pid, 0.4)
    busy = sampler.sample(1.0)[0]
    after = psutil.cpu_times()
    everything = sum(after) - sum(before)
    assert busy >= 0.4 / everything - 0.05


def test_host_is_what_a_library_for_it_says() -> None:
    """Counters that other processes move on lie between two looks of psutil's."""

    def look() -> tuple[float, float, int]:
        times, memory = psutil.cpu_times(), psutil.virtual_memory()
        total = sum(times) - times.guest - times.guest_nice
        return total - times.idle - times.iowait, total, memory.total

    def devices() -> tuple[dict[str, tuple[int, int]], dict[str, tuple[int, int]]]:
        disks = psutil.disk_io_counters(perdisk=True, nowrap=False) or {}
        nics = psutil.net_io_counters(pernic=True, nowrap=False)
        return (
            {name: (disk.read_bytes, disk.write_bytes) for name, disk in disks.items()},
            {name: (nic.bytes_recv, nic.bytes_sent) for name, nic in nics.items()},
        )

    ticks = os.sysconf("SC_CLK_TCK")
    before, devices_before = look(), devices()
    cpu, (used, total) = host._cpu_ticks(), host._memory_bytes()
    disks, network = host._disk_bytes(), host._network_bytes()
    after, devices_after = look(), devices()
    for own, early, late in zip(cpu, before[:2], after[:2], strict=True):
        assert early - 0.1 <= own / ticks <= late + 0.1
    assert before[2] == total > used > 0
    for own, early, late in zip((disks, network), devices_before, devices_after, strict=True):
        assert set(own) <= set(early) and (own or not set(early) - {"lo"})
        for name, counters in own.items():
            assert all(a <= b <= c for a, b, c in zip(early[name], counters, late[name], strict=True)), name


@pytest.mark.parametrize("text", [None, b"", b"nonsense\n", b"cpu  1 x\nMemTotal: a kB\neth0: 1 2\n 8 0 sda 1\n"])
def test_host_never_raises_and_unreadable_is_missing(monkeypatch, text: bytes | None) -> None:
    def lines(_: str) -> list[bytes]:
        if text is None:
            raise PermissionError
        return text.splitlines()

    def refuse() -> None:
        raise OSError

    monkeypatch.setattr(host, "contents_again", lambda *_: text)
    monkeypatch.setattr(host, "lines_of", lines)
    monkeypatch.setattr(os, "getloadavg", refuse)
    sampler = HostSampler()
    assert sampler.sample(1.0) == (None,) * len(HOST.values)
    assert sampler.sample(2.0) == (None,) * len(HOST.values)


def given(monkeypatch, **files: bytes) -> None:
    """Have these files in /proc."""
    contents = {"/proc/" + name.replace("_", "/"): data for name, data in files.items()}
    monkeypatch.setattr(host, "contents_again", lambda path, most=2048: contents[path][:most])
    monkeypatch.setattr(host, "lines_of", lambda path: contents[path].splitlines())


def test_guests_are_not_counted_twice_and_waiting_is_idle(monkeypatch) -> None:
    given(monkeypatch, stat=b"cpu  100 20 30 400 50 6 7 8 90 9\ncpu0 1 2 3 4\n")
    assert host._cpu_ticks() == (100 + 20 + 30 + 6 + 7 + 8, 621)
    given(monkeypatch, stat=b"cpu  100 20 30 400 50\n")
    assert host._cpu_ticks() == (150, 600)


def test_memory_in_a_container_that_says_more_is_available_than_there_is(monkeypatch) -> None:
    given(monkeypatch, meminfo=b"MemTotal: 1000 kB\nMemFree: 300 kB\nMemAvailable: 600 kB\nBuffers: 1 kB\n")
    assert host._memory_bytes() == (400 << 10, 1000 << 10)
    given(monkeypatch, meminfo=b"MemTotal: 1000 kB\nMemFree: 300 kB\nMemAvailable: 6000 kB\nBuffers: 1 kB\n")
    assert host._memory_bytes() == (700 << 10, 1000 << 10)


def test_every_interface_and_disk_is_read_by_its_own_line(monkeypatch) -> None:
    monkeypatch.setattr(host, "_devices", lambda _, names: list(names))
    header = b"Inter-|   Receive     |  Transmit\n face |bytes    packets errs|bytes packets\n"
    lines = b"    lo:1 2 3 4 5 6 7 8 9 10\n  a:b0:  11 0 0 0 0 0 0 0 12 0 0 0 0 0 0 0\n"
    given(monkeypatch, net_dev=header + lines)
    assert host._network_bytes() == {"lo": (1, 9), "a:b0": (11, 12)}
    given(
        monkeypatch,
        diskstats=b"   8  0 sda 1 2 30 4 5 6 70 8 9 10 11\n 259 0 short 1 2 3\n 7 0 loop0 0 0 0 0 0 0 0 0 0 0 0\n",
    )
    assert host._disk_bytes() == {"sda": (30 * 512, 70 * 512), "loop0": (0, 0)}


def test_a_file_longer_than_the_kernel_gives_at_once_is_read_whole() -> None:
    mapped = [mmap.mmap(-1, mmap.PAGESIZE, prot=1 + n % 2) for n in range(300)]  # a line each
    pid = os.fork()
    if pid == 0:
        signal.pause()
        os._exit(0)
    try:
        while Path(f"/proc/{pid}/stat").read_text().split()[2] != "S":
            time.sleep(0.001)
        whole = Path(f"/proc/{pid}/maps").read_bytes()
        assert len(whole) > 3 * mmap.PAGESIZE
        assert lines_of(f"/proc/{pid}/maps") == whole.splitlines()
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        for each in mapped:
            each.close()


def test_a_file_read_again_says_what_is_in_it_now_and_keeps_one_descriptor(tmp_path) -> None:
    path = tmp_path / "stat"
    path.write_bytes(b"one\n")
    assert contents_again(str(path)) == b"one\n"
    n_open = len(os.listdir("/proc/self/fd"))
    path.write_bytes(b"a second, longer one\n")
    assert contents_again(str(path), 8) == b"a second"
    assert lines_of(str(path)) == [b"a second, longer one"]
    assert len(os.listdir("/proc/self/fd")) == n_open


def test_a_file_that_can_no_longer_be_read_is_opened_anew(tmp_path) -> None:
    own = Path(f"/proc/{os.getpid()}")
    (tmp_path / "stat").symlink_to(own / "mem")  # opens, but what is at its beginning is no memory of this process
    n_open = len(os.listdir("/proc/self/fd"))
    assert contents_again(str(tmp_path / "stat")) is None
    assert len(os.listdir("/proc/self/fd")) == n_open
    (tmp_path / "stat").unlink()
    (tmp_path / "stat").symlink_to(own / "comm")
    assert contents_again(str(tmp_path / "stat")) == (own / "comm").read_bytes()
    assert contents_again(str(tmp_path / "nothing")) is None


def test_rates_skip_devices_that_came_or_went_and_counters_that_fell() -> None:
    before = {"a": (100.0, 1000.0), "gone": (5.0, 5.0), "reset": (900.0, 900.0)}
    after = {"a": (300.0, 1000.0), "new": (7e9, 7e9), "reset": (0.0, 1000.0)}
    assert host._rates(before, after, 2.0) == (100.0, 50.0)
    assert host._rates(before, after, 0.0) == (None, None)


PORT = {"state": "4: ACTIVE", "link_layer": "InfiniBand"}
RECEIVED, SENT = "counters/port_rcv_data", "counters/port_xmit_data"


@pytest.fixture(name="port")
def _(tmp_path):
    """Write files of an adapter's port, as the kernel shows them."""

    def write(device: str, files: dict[str, object]) -> Path:
        folder = tmp_path / "class" / ("cxi" if device.startswith("cxi") else "infiniband")
        folder = folder / device / ("device/telemetry" if device.startswith("cxi") else "ports/1")
        for name, text in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(f"{text}\n")
        return folder

    return write


def fabric(sampler: HostSampler, now: float) -> tuple[float | None, float | None]:
    received, sent = sampler.sample(now)[-2:]
    return received, sent


def test_words_of_the_ports_that_are_up_are_added_as_bytes(port, tmp_path) -> None:
    port("mlx5_0", PORT | {RECEIVED: 100, SENT: 2**40})
    port("mlx5_1", PORT | {"link_layer": "Ethernet", RECEIVED: 7, SENT: 7})
    port("mlx5_2", PORT | {"state": "1: DOWN", RECEIVED: 9, SENT: 9})
    port("mlx5_3", PORT | {"link_layer": "Unspecified", RECEIVED: 9, SENT: 9})
    port("mlx5_4", {"state": "4: ACTIVE", RECEIVED: 9, SENT: 9})
    port("old_0", PORT | {"counters_ext/port_rcv_data_64": 5, "counters_ext/port_xmit_data_64": 5, RECEIVED: 2**32 - 1})
    port("cxi0", {"hni_sts_rx_ok_octets": "1000@1700000000.000000001", "hni_sts_tx_ok_octets": "1@1700000000.1"})
    sampler = HostSampler(str(tmp_path))
    assert fabric(sampler, 100.0) == (None, None)
    assert fabric(sampler, 101.0) == (0.0, 0.0)
    port("mlx5_0", {RECEIVED: 200, SENT: 2**40 + 50})
    port("mlx5_1", {RECEIVED: 57})
    port("mlx5_2", {RECEIVED: 10**9})
    port("mlx5_3", {RECEIVED: 10**9})
    port("mlx5_4", {RECEIVED: 10**9})
    port("old_0", {"counters_ext/port_rcv_data_64": 15})
    port("cxi0", {"hni_sts_rx_ok_octets": "4000@1700000002.0"})
    assert fabric(sampler, 103.0) == ((4 * (100 + 50 + 10) + 3000) / 2, 4 * 50 / 2)


def test_a_counter_that_fell_or_is_full_is_unknown_that_second_and_never_negative(port, tmp_path) -> None:
    port("mlx5_0", PORT | {RECEIVED: 2**32 - 10, SENT: 1000})
    sampler = HostSampler(str(tmp_path))
    fabric(sampler, 100.0)
    port("mlx5_0", {RECEIVED: 5, SENT: 1100})
    assert fabric(sampler, 101.0) == (None, 400.0)
    port("mlx5_0", {RECEIVED: 10, SENT: 0})
    assert fabric(sampler, 102.0) == (20.0, None)
    port("mlx5_0", {RECEIVED: 20})
    assert fabric(sampler, 103.0) == (40.0, 0.0)
    port("mlx5_0", {RECEIVED: 2**32 - 1})
    assert fabric(sampler, 104.0) == fabric(sampler, 105.0) == (None, None)


def test_a_port_that_comes_goes_or_can_not_be_read_is_not_taken_for_silent(port, tmp_path, monkeypatch) -> None:
    def refuse(path: str, *rest: int) -> bytes:
        if "secret" in path:
            raise PermissionError
        return read(path, *rest)

    read = kernel_files.read_open_file
    monkeypatch.setattr(host, "read_open_file", refuse)
    port("secret_0", PORT | {RECEIVED: 1, SENT: 1})
    sampler = HostSampler(str(tmp_path))
    assert fabric(sampler, 0.0) == fabric(sampler, 1.0) == (None, None)
    port("mlx5_0", PORT | {RECEIVED: 1, SENT: 1})
    gone = port("mlx5_1", PORT | {RECEIVED: 1, SENT: 1})
    assert fabric(sampler, 59.0) == (None, None)
    assert fabric(sampler, 60.0) == (None, None), "the first look at them"
    assert fabric(sampler, 61.0) == (0.0, 0.0)
    (gone / RECEIVED).unlink()
    kernel_files._open.clear()  # as of a device that is gone
    port("mlx5_0", {RECEIVED: 11})
    assert fabric(sampler, 62.0) == (None, None)
    port("mlx5_0", {RECEIVED: 21})
    assert fabric(sampler, 63.0) == (40.0, 0.0)


def test_partitions_and_volumes_are_not_counted_beside_their_disks(tmp_path) -> None:
    for name in ("sda/device", "nvme0n1/device", "dm-0", "md127", "loop0"):
        (tmp_path / name).mkdir(parents=True)
    names = ("sda", "sda1", "nvme0n1", "nvme0n1p1", "dm-0", "md127", "loop0")
    assert host._devices(str(tmp_path), names) == ["sda", "nvme0n1"]
    assert host._devices(str(tmp_path), ("dm-0", "sda1")) == ["dm-0"]
