"""What the host does beside its GPUs. Nothing here raises: what can't be read is None."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple, TypeVar

from gssr.backends.kernel_files import contents, contents_again, lines_of, read_open_file

Counters = dict[str, tuple[float, float]]
"""Per disk or network interface, two byte counters."""


class HostValues(NamedTuple):
    """What a node does, named as the columns of ``host_samples``; None where it is unknown."""

    cpu_utilization: float | None
    load1: float | None
    memory_used: float | None
    memory_total: float | None
    read_bytes: float | None
    write_bytes: float | None
    net_rx_bytes: float | None
    net_tx_bytes: float | None
    fabric_rx_bytes: float | None
    fabric_tx_bytes: float | None


_SECTOR = 512  # bytes, whatever a disk's own are
_WORD = 4
"""Bytes that a port's data counters count by (Linux, Documentation/ABI/stable/sysfs-class-infiniband)."""
_FULL = 0xFFFFFFFF
"""Where a counter of 32 bits stops (InfiniBand Architecture, PortCounters): what came after is unknown."""

_T = TypeVar("_T")


def _reading(read: Callable[[], _T]) -> _T | None:
    """Return what ``read`` returns; None if it raises anything."""
    try:
        return read()
    except Exception:  # containers hide parts of /proc and /sys in many ways
        return None


class HostSampler:
    """Samples the node's CPU, load, memory, disks, network and fabric.

    All of it is the whole node's, other jobs included, also inside a container or cgroup. Network counters do not see
    RDMA: what MPI or NCCL send that way is counted by the fabric's adapters. ``sysfs``: where the kernel shows these.
    """

    def __init__(self, sysfs: str = "/sys") -> None:
        self._sysfs = sysfs
        self._time: float | None = None
        self._cpu: tuple[float, float] | None = None
        self._disks: Counters | None = None
        self._network: Counters | None = None
        self._fabric: Counters | None = None

    def sample(self, now: float) -> HostValues:
        """Look at the node. Rates (CPU, disks, network, fabric) are over the time since the previous call, and None in
        the first. ``now``: unix s."""
        seconds = None if self._time is None else now - self._time
        cpu, disks, network = _reading(_cpu_ticks), _reading(_disk_bytes), _reading(_network_bytes)
        fabric = _reading(lambda: _fabric_bytes(self._sysfs, int(now) // 60))
        memory_used, memory_total = _reading(_memory_bytes) or (None, None)
        read, written = _rates(self._disks, disks, seconds)
        received, sent = _rates(self._network, network, seconds)
        fabric_received, fabric_sent = _fabric_rates(self._fabric, fabric, seconds)
        values = HostValues(
            cpu_utilization=_busy_share(self._cpu, cpu),
            load1=_reading(_load),
            memory_used=memory_used,
            memory_total=memory_total,
            read_bytes=read,
            write_bytes=written,
            net_rx_bytes=received,
            net_tx_bytes=sent,
            fabric_rx_bytes=fabric_received,
            fabric_tx_bytes=fabric_sent,
        )
        self._time, self._cpu, self._disks, self._network, self._fabric = now, cpu, disks, network, fabric
        return values


def _load() -> float:
    return os.getloadavg()[0]


def _cpu_ticks() -> tuple[int, int]:
    """Return the busy and the total clock ticks of all cores since boot; waiting for input and output is not busy.
    Raises ValueError."""
    name, *fields = (contents_again("/proc/stat", 512) or b"").partition(b"\n")[0].split()
    ticks = [int(field) for field in fields[:8]]  # those of guests, which come after, are in user and nice as well
    if name != b"cpu" or len(ticks) < 5:
        raise ValueError("/proc/stat")
    total = sum(ticks)
    return total - ticks[3] - ticks[4], total


def _memory_bytes() -> tuple[int, int]:
    """Return the memory in use, in the sense that new work could not have it without swapping, and the total, in bytes."""
    fields = (contents_again("/proc/meminfo", 512) or b"").split()
    kib = dict(zip(fields[::3], fields[1::3]))
    total, free, available = (int(kib[name]) << 10 for name in (b"MemTotal:", b"MemFree:", b"MemAvailable:"))
    return total - (available if available <= total else free), total  # in some containers that is the whole host's


def _disk_bytes() -> Counters:
    """Return the bytes read and written, by disk."""
    known = {
        fields[2].decode(): fields for fields in map(bytes.split, lines_of("/proc/diskstats")) if len(fields) >= 10
    }
    names = _devices("/sys/block", tuple(known))
    return {name: (int(known[name][5]) * _SECTOR, int(known[name][9]) * _SECTOR) for name in names}


def _network_bytes() -> Counters:
    """Return the bytes received and sent, by network interface."""
    known = {}
    for line in lines_of("/proc/net/dev"):
        name, colon, numbers = line.rpartition(b":")
        if colon:
            known[name.strip().decode()] = numbers
    names = _devices("/sys/class/net", tuple(known))
    return {name: (int(fields[0]), int(fields[8])) for name in names if (fields := known[name].split())}


@lru_cache(maxsize=2)  # the same names every second, until a device comes or goes
def _devices(folder: str, names: tuple[str, ...]) -> list[str]:
    """Return the names that are hardware. Partitions, RAID and LVM volumes, bonds, bridges and VLANs pass on the bytes
    of what they are made of and would count them again. If no hardware is seen (in a container), these are all whole
    devices that the kernel lists, without loopback."""
    hardware = [name for name in names if os.path.exists(f"{folder}/{name}/device")]
    return hardware or [name for name in names if name != "lo" and os.path.exists(f"{folder}/{name}")]


def _fabric_bytes(sysfs: str, minute: int) -> Counters:
    """Return the bytes received and sent by each of the fabric's ports that can be read. Ports are looked for anew when
    ``minute`` changes."""
    found: Counters = {}
    for received, sent, size in _ports(sysfs, minute):
        try:
            found[received] = (_count(received) * size, _count(sent) * size)
        except (OSError, ValueError):
            continue
    return found


def _count(path: str) -> int:
    """Read a port's counter. Raises OSError, and ValueError if it has stopped at its greatest value."""
    count = int(read_open_file(path, 64, 0).partition(b"@")[0])  # Slingshot's driver adds when it read it
    if count == _FULL:
        raise ValueError(path)
    return count


@lru_cache(maxsize=1)
def _ports(sysfs: str, _minute: int) -> list[tuple[str, str, int]]:
    """List the ports that are up, of Slingshot all: the files with their counters of what was received and sent, and how
    many bytes one count is.

    InfiniBand and RoCE (Linux, Documentation/ABI/stable/sysfs-class-infiniband; where ``counters`` has but 32 bits, old
    drivers have ``counters_ext``) and Slingshot (the telemetry of HPE's driver for Cassini, in octets). The result is
    kept for a minute, as ports come up.
    """
    ports = []
    for device in _names(f"{sysfs}/class/infiniband"):
        for port in _names(f"{sysfs}/class/infiniband/{device}/ports"):
            path = f"{sysfs}/class/infiniband/{device}/ports/{port}"
            kind = (contents(f"{path}/link_layer") or b"").strip()
            if kind in (b"InfiniBand", b"Ethernet") and b"ACTIVE" in (contents(f"{path}/state") or b""):
                wide = os.path.exists(f"{path}/counters_ext/port_rcv_data_64")
                folder, bits = ("counters_ext", "_64") if wide else ("counters", "")
                received, sent = (f"{path}/{folder}/port_{way}_data{bits}" for way in ("rcv", "xmit"))
                ports.append((received, sent, _WORD))
    for device in _names(f"{sysfs}/class/cxi"):
        path = f"{sysfs}/class/cxi/{device}/device/telemetry/hni_sts"
        ports.append((f"{path}_rx_ok_octets", f"{path}_tx_ok_octets", 1))
    return ports


def _names(folder: str) -> list[str]:
    """List the names in a folder; [] where it can't be read."""
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _busy_share(before: tuple[float, float] | None, after: tuple[float, float] | None) -> float | None:
    """Return the share of busy ticks, 0-1, between two readings of (busy, total) ticks; None if either is missing or no
    time has passed."""
    if before is None or after is None or after[1] <= before[1]:
        return None
    return min(max((after[0] - before[0]) / (after[1] - before[1]), 0.0), 1.0)


def _rates(before: Counters | None, after: Counters | None, seconds: float | None) -> tuple[float | None, float | None]:
    """Compute the bytes per second received (or read) and sent (or written) from two readings of the counters,
    ``seconds`` apart, summed over the devices that were there both times. A counter that fell was reset, and adds
    nothing. (None, None) if one of the readings is missing or empty, or no time has passed."""
    if not before or not after or seconds is None or seconds <= 0:
        return None, None
    sums = [0.0, 0.0]
    for name, counters in after.items():
        if name in before:
            for i in (0, 1):
                sums[i] += max(counters[i] - before[name][i], 0)
    return sums[0] / seconds, sums[1] / seconds


def _fabric_rates(
    before: Counters | None, after: Counters | None, seconds: float | None
) -> tuple[float | None, float | None]:
    """Compute the bytes per second that all ports received and sent between two counts, ``seconds`` apart. Both are None
    if a port came or went, a count is missing or no time has passed; one of them is None if a counter of its fell: a
    part of a sum is no sum."""
    if not before or not after or before.keys() != after.keys() or seconds is None or seconds <= 0:
        return None, None
    received, sent = ([counters[way] - before[port][way] for port, counters in after.items()] for way in (0, 1))
    return (
        None if min(received) < 0 else sum(received) / seconds,
        None if min(sent) < 0 else sum(sent) / seconds,
    )
