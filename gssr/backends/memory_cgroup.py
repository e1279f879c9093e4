"""The cgroup whose memory this process may use: its limit, and how often the kernel has killed in it for want of memory.
Version 1 and 2 of cgroups. Nothing here raises: what can't be read is None."""

from __future__ import annotations

from gssr.backends.cgroup_folders import CGROUPS, OWN_CGROUPS, cgroup_folders, read_text

_NEAR_LIMIT = 0.9
"""A command that had more than this share of the limit in memory a second before it was killed had none left: memory is
looked at once a second, and the limit counts what the kernel keeps for the command as well."""
_NO_LIMIT = 1 << 60
"""Version 1 writes no limit as the largest number of whole pages, some 2^63."""


class MemoryCgroup:
    """The memory cgroup of a process: see ``/proc/PID/cgroup``, and the kernel's cgroup-v2.rst and
    cgroup-v1/memory.rst. ``listed``: the file that names it; ``root``: where cgroups are mounted."""

    def __init__(self, listed: str = OWN_CGROUPS, root: str = CGROUPS) -> None:
        self._folders, self._v2 = cgroup_folders("memory", listed, root)
        self._kills_before = self._count_kills()

    @property
    def _limit_name(self) -> str:
        return "memory.max" if self._v2 else "memory.limit_in_bytes"

    def explain_kill(self, resident: int | None) -> str | None:
        """Say how the memory's limit explains that a command was just killed by SIGKILL; None if it does not.
        ``resident``: the bytes that its processes had in memory when they were last looked at, None if unknown."""
        kills, limit = self._count_kills(), self._read_limit()
        by_kernel = kills is not None and self._kills_before is not None and kills > self._kills_before
        at_limit = limit is not None and resident is not None and resident > _NEAR_LIMIT * limit
        if not (by_kernel or at_limit):
            return None
        seen = "" if resident is None else f", last seen with {resident / 2**30:.3g} GiB in memory"
        bound = "" if limit is None else f"; its cgroup may use {limit / 2**30:.3g} GiB"
        return f"out of memory: {'the kernel killed it' if by_kernel else 'it was killed'}{seen}{bound}"

    def read_use(self) -> tuple[int, int] | None:
        """Return the bytes in use and the limit of the cgroup, or of that around it which is nearest to its own limit;
        None if none has a limit. Files that the kernel keeps in memory and can drop at once do not count as used."""
        found: list[tuple[int, int]] = []
        for folder in self._folders:
            limit = _whole_number(read_text(f"{folder}/{self._limit_name}").strip())
            used = _whole_number(
                read_text(f"{folder}/{'memory.current' if self._v2 else 'memory.usage_in_bytes'}").strip()
            )
            if limit and limit < _NO_LIMIT and used is not None:
                words = read_text(f"{folder}/memory.stat").split()
                name = "inactive_file" if self._v2 else "total_inactive_file"
                cached = _whole_number(words[2 * words[::2].index(name) + 1]) if name in words[::2] else None
                found.append((max(used - (cached or 0), 0), limit))
        return max(found, key=lambda own: own[0] / own[1], default=None)

    def _count_kills(self) -> int | None:
        """Return how often the kernel has killed in the cgroup, or the nearest around it that counts; None if none
        does."""
        name = "memory.events" if self._v2 else "memory.oom_control"
        for folder in self._folders:
            words = read_text(f"{folder}/{name}").split()
            if "oom_kill" in words[::2]:
                return _whole_number(words[2 * words[::2].index("oom_kill") + 1])
        return None

    def _read_limit(self) -> int | None:
        """Return the lowest limit of the cgroup and those around it, in bytes; None without any."""
        limits = [_whole_number(read_text(f"{folder}/{self._limit_name}").strip()) for folder in self._folders]
        return min((limit for limit in limits if limit is not None and limit < _NO_LIMIT), default=None)


def _whole_number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() else None
