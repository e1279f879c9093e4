"""What the host does beside its GPUs. Nothing here raises: what can't be read is None.

Reading what the kernel says of itself in /proc.

By hand, although there is psutil: loading that would take longer beside a job than the whole first look at the host does
now, and each further look, once a second, would take twice as long.

What the workload's own processes use of the host. Nothing here raises: what can't be read is None.
"""

import os
import time
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple, TypeVar

_open: dict[str, int] = {}
"""Files that are read again and again stay open: looking them up takes longer than reading them."""
_ONE_MORE = 2048
"""Bytes that any line is shorter than: the kernel gives as many lines as there is room for, a page at least."""
_PAGE = 4096


def contents(path: str, most: int = 2048) -> bytes | None:
    """The first ``most`` bytes at most of a file in /proc, or the first page of it; None when it can't be read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return os.read(descriptor, most)
    except OSError:
        return None
    finally:
        os.close(descriptor)


def contents_again(path: str, most: int = 2048) -> bytes | None:
    """The same of a file that will be asked for again."""
    try:
        return _read(path, most, 0)
    except OSError:
        return None


def lines_of(path: str) -> list[bytes]:
    """All lines of a file in /proc that will be asked for again. Raises OSError."""
    more = data = _read(path, 1 << 16, 0)
    while len(more) > _PAGE - _ONE_MORE and (more := _read(path, 1 << 16, len(data))):
        data += more
    return data.splitlines()


def _read(path: str, most: int, start: int) -> bytes:
    """What a file says now, from this byte on. Raises OSError; then it is opened anew the next time."""
    descriptor = _open.get(path)
    if descriptor is None:
        descriptor = _open[path] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.pread(descriptor, most, start)
    except OSError:
        os.close(_open.pop(path))
        raise


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


class WorkloadValues(NamedTuple):
    """What a workload's processes use, named as the columns of ``workload_samples``; ``cpu`` None is unknown."""

    cpu: float | None
    rss: int
    n_processes: int


_SECTOR = 512  # bytes, whatever a disk's own are
_WORD = 4
"""Bytes that a port's data counters count by (Linux, Documentation/ABI/stable/sysfs-class-infiniband)."""
_FULL = 0xFFFFFFFF
"""Where a counter of 32 bits stops (InfiniBand Architecture, PortCounters): what came after is unknown."""

_T = TypeVar("_T")


def _reading(read: Callable[[], _T]) -> _T | None:
    try:
        return read()
    except Exception:  # containers hide parts of /proc and /sys in many ways
        return None


class HostSampler:
    """The node's CPU, load, memory, disks, network and fabric.

    All of it is the whole node's, other jobs on it included, also inside a container or a cgroup. Network counters don't
    see RDMA: what MPI or NCCL send that way the fabric's adapters count. ``sysfs``: where the kernel shows these."""

    def __init__(self, sysfs: str = "/sys") -> None:
        self._sysfs = sysfs
        self._time: float | None = None
        self._cpu: tuple[float, float] | None = None
        self._disks: Counters | None = None
        self._network: Counters | None = None
        self._fabric: Counters | None = None

    def sample(self, now: float) -> HostValues:
        """Look at the node. ``now`` in unix s; rates (CPU, disks, network,
        fabric) are over the time since the call before, None in the first."""
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


def _fabric_bytes(sysfs: str, minute: int) -> Counters:
    """Of the adapters' ports that can be read."""
    found: Counters = {}
    for received, sent, size in _ports(sysfs, minute):
        try:
            found[received] = (_count(received) * size, _count(sent) * size)
        except (OSError, ValueError):
            continue
    return found


def _count(path: str) -> int:
    count = int(_read(path, 64, 0).partition(b"@")[0])  # Slingshot's driver adds when it read it
    if count == _FULL:
        raise ValueError(path)
    return count


@lru_cache(maxsize=1)
def _ports(sysfs: str, _minute: int) -> list[tuple[str, str, int]]:
    """The ports that are up, each by its counters of what it received and sent, and the bytes that these count by:
    InfiniBand and RoCE (Linux, Documentation/ABI/stable/sysfs-class-infiniband; where ``counters`` has but 32 bits, old
    drivers have ``counters_ext``) and Slingshot (the telemetry of HPE's driver for Cassini, in octets). Looked for anew
    every minute: ports come up."""
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
    try:
        return os.listdir(folder)
    except OSError:
        return []


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


def _fabric_rates(
    before: Counters | None, after: Counters | None, seconds: float | None
) -> tuple[float | None, float | None]:
    """Bytes per second of all ports; None where one came or went, or where its counter fell: part of a sum is none."""
    if not before or not after or before.keys() != after.keys() or seconds is None or seconds <= 0:
        return None, None
    received, sent = ([counters[way] - before[port][way] for port, counters in after.items()] for way in (0, 1))
    return (
        None if min(received) < 0 else sum(received) / seconds,
        None if min(sent) < 0 else sum(sent) / seconds,
    )


class Stat(NamedTuple):
    """Of /proc/PID/stat: CPU time and start in clock ticks (since boot), resident memory in pages, the name."""

    alive: bool
    parent: int
    group: int
    cpu: int
    start: int
    pages: int
    name: bytes


def _newest_process() -> bytes:
    """The pid of the last process or thread that was started, as /proc/loadavg tells it; empty when it does not."""
    return (contents_again("/proc/loadavg") or b"").rpartition(b" ")[2]


def stat_of(pid: int) -> Stat | None:
    """What the kernel says of a process; None where there is none that can be seen."""
    text = contents(f"/proc/{pid}/stat")
    if text is None:
        return None
    end = text.rfind(b")")  # the name before it may hold anything
    fields = text[end + 2 :].split()
    if len(fields) < 22:
        return None
    state, parent, group = fields[:3]
    return Stat(
        state not in (b"Z", b"X"),
        int(parent),
        int(group),
        int(fields[11]) + int(fields[12]),
        int(fields[19]),
        max(int(fields[21]), 0),
        text[text.find(b"(") + 1 : end],
    )


class WorkloadSampler:
    """The processes of one workload: descendants of ``pid`` and members of its process group.

    A process once seen stays a member until it ends, whoever adopts it; one that left the group and lost its parents
    before it was ever seen can't be told from a stranger. Processes that come and go between two samples are missed, and
    so is what a process used after the last sample before its end.

    All processes of the node are listed to find new ones, and only those never seen before are looked at: how long that
    takes grows with the node, not with the workload's threads, and it is done when any was started, as often as a
    five-hundredth of a core allows (and now and then anyway: some containers have a /proc/loadavg that never changes)."""

    _SHARE_OF_CORE = 1 / 500
    _LONGEST_PAUSE = 10.0  # s
    _MOST_AT_ONCE = 256

    def __init__(self, pid: int) -> None:
        self._group = pid
        self._members: dict[int, tuple[int, int]] = {}  # pid: start, CPU ticks at the last sample
        self._strangers: set[int] = set()
        self._newest: bytes | None = None  # the node's newest process when all were looked at
        self._next_search = self._last_chance = 0.0
        self._time: float | None = None
        self._ticks = 0.0
        self._ticks_per_second = os.sysconf("SC_CLK_TCK")
        self._page = os.sysconf("SC_PAGE_SIZE")
        stat = stat_of(pid)
        if stat is not None:
            self._members[pid] = (stat.start, stat.cpu)

    def sample(self, now: float) -> WorkloadValues | None:
        """Look at the processes; None when none is left. ``now`` in unix s. ``cpu`` is the cores that they kept busy since
        the call before, None in the first."""
        newest = _newest_process()
        if time.monotonic() >= (self._next_search if newest != self._newest else self._last_chance):
            began = time.thread_time()
            self._newest = newest if self._search() and newest else None
            self._next_search = time.monotonic() + (time.thread_time() - began) / self._SHARE_OF_CORE
            self._last_chance = self._next_search + self._LONGEST_PAUSE
        used = pages = n = 0
        members: dict[int, tuple[int, int]] = {}
        for pid, (start, before) in self._members.items():
            stat = stat_of(pid)
            if stat is None or stat.start != start:
                continue
            members[pid] = (start, stat.cpu)
            used += max(stat.cpu - before, 0)
            if stat.alive:
                pages += stat.pages
                n += 1
        self._members = members
        seconds = 0.0 if self._time is None else now - self._time
        self._time, self._ticks = now, time.clock_gettime(time.CLOCK_BOOTTIME) * self._ticks_per_second
        if not n:
            return None
        cores = used / self._ticks_per_second / seconds if seconds > 0 else None
        return WorkloadValues(cpu=cores, rss=pages * self._page, n_processes=n)

    def holds(self, pid: int, start: int) -> bool:
        """Whether the process that was started then is one of the workload's, as far as was seen."""
        member = self._members.get(pid)
        return member is not None and member[0] == start

    def _search(self) -> bool:
        """Look for new members; whether every process was looked at."""
        try:
            pids = {int(name) for name in os.listdir("/proc") if name.isdigit()}
        except OSError:
            return False
        self._strangers &= pids
        # A node may have thousands of processes when the first sample is taken: those that can be descendants first
        # (their pids are higher, unless the kernel began again at the lowest), the others later.
        unseen = sorted(pids - self._strangers - self._members.keys(), key=lambda pid: (pid < self._group, pid))
        new = {pid: stat for pid in unseen[: self._MOST_AT_ONCE] if (stat := stat_of(pid)) is not None}
        searching = True
        while searching:
            searching = False
            for pid, stat in list(new.items()):
                if stat.group == self._group or stat.parent in self._members:
                    # All a process used since it started counts if that was after the last sample.
                    self._members[pid] = (stat.start, 0 if stat.start >= self._ticks else stat.cpu)
                    del new[pid]
                    searching = True
        self._strangers.update(new)
        return len(unseen) <= self._MOST_AT_ONCE
