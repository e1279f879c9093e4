"""What the workload's own processes use of the host. Nothing here raises: what can't be read is None."""

from __future__ import annotations

import os
import time
from typing import NamedTuple

from gssr.backends.kernel_files import contents, contents_again


class WorkloadValues(NamedTuple):
    """What a workload's processes use, named as the columns of ``workload_samples``; ``cpu`` None is unknown."""

    cpu: float | None
    rss: int
    n_processes: int


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
    """Read what the kernel says of a process; None where there is no such process, or none that can be seen."""
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
        self._tick = 0  # of the last sample, since boot
        self._ticks_per_second = os.sysconf("SC_CLK_TCK")
        self._page = os.sysconf("SC_PAGE_SIZE")
        stat = stat_of(pid)
        if stat is not None:
            self._members[pid] = (stat.start, stat.cpu)

    def sample(self, now: float) -> WorkloadValues | None:
        """Read what the processes use now; None when none is left. ``now``: unix s. ``cpu`` is the cores that they kept
        busy since the call before, None in the first call."""
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
        self._time, self._tick = now, int(time.clock_gettime(time.CLOCK_BOOTTIME) * self._ticks_per_second)
        if not n:
            return None
        cores = used / self._ticks_per_second / seconds if seconds > 0 else None
        return WorkloadValues(cpu=cores, rss=pages * self._page, n_processes=n)

    def holds(self, pid: int, start: int) -> bool:
        """Tell whether the process with this id and start (clock ticks since boot) is one of the workload's, as far as
        was seen."""
        member = self._members.get(pid)
        return member is not None and member[0] == start

    def _search(self) -> bool:
        """Look for processes of the node that belong to the workload and were not known, and add them to the members. At
        most _MOST_AT_ONCE are looked at; returns False if there are more of them, for the next search."""
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
                    # All a process used since it started counts if that was after the last sample, or in the tick of
                    # it: the kernel rounds a start down, and before the sample it can't have used more than that tick.
                    self._members[pid] = (stat.start, 0 if stat.start >= self._tick else stat.cpu)
                    del new[pid]
                    searching = True
        self._strangers.update(new)
        return len(unseen) <= self._MOST_AT_ONCE
