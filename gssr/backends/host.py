"""What the host does beside its GPUs. Nothing here raises: what can't be read is None."""

import os
from collections.abc import Callable
from functools import lru_cache
from typing import TypeVar

from gssr.backends.proc import contents_again, lines_of

Counters = dict[str, tuple[float, float]]
"""Per disk or network interface, two byte counters."""
HostValues = tuple[float | None, ...]

_SECTOR = 512  # bytes, whatever a disk's own are

_T = TypeVar("_T")


def _reading(read: Callable[[], _T]) -> _T | None:
    try:
        return read()
    except Exception:  # containers hide parts of /proc and /sys in many ways
        return None


class HostSampler:
    """The node's CPU, load, memory, disks and network.

    All of it is the whole node's, other jobs on it included, also inside a container or a cgroup. Network counters don't
    see RDMA: InfiniBand traffic of MPI or NCCL is not in them."""

    def __init__(self) -> None:
        self._time: float | None = None
        self._cpu: tuple[float, float] | None = None
        self._disks: Counters | None = None
        self._network: Counters | None = None

    def sample(self, now: float) -> HostValues:
        """The columns of ``host_samples`` from ``cpu_utilization`` on. ``now`` in unix s; rates (CPU, disks, network) are
        over the time since the call before, None in the first."""
        seconds = None if self._time is None else now - self._time
        cpu, disks, network = _reading(_cpu_ticks), _reading(_disk_bytes), _reading(_network_bytes)
        memory = _reading(_memory_bytes) or (None, None)
        values = (
            _busy_share(self._cpu, cpu),
            _reading(_load),
            *memory,
            *_rates(self._disks, disks, seconds),
            *_rates(self._network, network, seconds),
        )
        self._time, self._cpu, self._disks, self._network = now, cpu, disks, network
        return values


def _load() -> float:
    return os.getloadavg()[0]


def _cpu_ticks() -> tuple[int, int]:
    """(busy, total) clock ticks of all cores since boot. Waiting for input and output is not busy."""
    name, *fields = (contents_again("/proc/stat", 512) or b"").partition(b"\n")[0].split()
    ticks = [int(field) for field in fields[:8]]  # those of guests, which come after, are in user and nice as well
    if name != b"cpu" or len(ticks) < 5:
        raise ValueError("/proc/stat")
    total = sum(ticks)
    return total - ticks[3] - ticks[4], total


def _memory_bytes() -> tuple[int, int]:
    """(used, total): what new work could not have without swapping."""
    fields = (contents_again("/proc/meminfo", 512) or b"").split()
    kib = dict(zip(fields[::3], fields[1::3], strict=False))
    total, free, available = (int(kib[name]) << 10 for name in (b"MemTotal:", b"MemFree:", b"MemAvailable:"))
    return total - (available if available <= total else free), total  # in some containers that is the whole host's


def _disk_bytes() -> Counters:
    known = {
        fields[2].decode(): fields for fields in map(bytes.split, lines_of("/proc/diskstats")) if len(fields) >= 10
    }
    names = _devices("/sys/block", tuple(known))
    return {name: (int(known[name][5]) * _SECTOR, int(known[name][9]) * _SECTOR) for name in names}


def _network_bytes() -> Counters:
    known = {}
    for line in lines_of("/proc/net/dev"):
        name, colon, numbers = line.rpartition(b":")
        if colon:
            known[name.strip().decode()] = numbers
    names = _devices("/sys/class/net", tuple(known))
    return {name: (int(fields[0]), int(fields[8])) for name in names if (fields := known[name].split())}


@lru_cache(maxsize=2)  # the same names every second, until a device comes or goes
def _devices(folder: str, names: tuple[str, ...]) -> list[str]:
    """Those names that are hardware: partitions, RAID and LVM volumes, bonds, bridges and VLANs pass on the bytes of what
    they are made of and would count them again. Where no hardware is seen (in a container), whatever the kernel lists
    as a whole device, loopback apart."""
    hardware = [name for name in names if os.path.exists(f"{folder}/{name}/device")]
    return hardware or [name for name in names if name != "lo" and os.path.exists(f"{folder}/{name}")]


def _busy_share(before: tuple[float, float] | None, after: tuple[float, float] | None) -> float | None:
    if before is None or after is None or after[1] <= before[1]:
        return None
    return min(max((after[0] - before[0]) / (after[1] - before[1]), 0.0), 1.0)


def _rates(before: Counters | None, after: Counters | None, seconds: float | None) -> tuple[float | None, float | None]:
    """Bytes per second of the devices that were there both times; a counter that fell was reset, and adds nothing."""
    if not before or not after or seconds is None or seconds <= 0:
        return None, None
    sums = [0.0, 0.0]
    for name, counters in after.items():
        if name in before:
            for i in (0, 1):
                sums[i] += max(counters[i] - before[name][i], 0)
    return sums[0] / seconds, sums[1] / seconds
