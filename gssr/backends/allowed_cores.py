"""How many cores this process may use: by its CPU affinity, and by the quota of its cgroup. Nothing here raises: what can't
be read is None."""

from __future__ import annotations

import os

from gssr.backends.cgroup_folders import CGROUPS, OWN_CGROUPS, cgroup_folders, read_text


def allowed_cores(listed: str = OWN_CGROUPS, root: str = CGROUPS) -> float | None:
    """Return the cores that this process and its children may keep busy together; None if that is unknown.

    Args:
        listed: The file that names the process's cgroups.
        root: Where cgroups are mounted.

    A batch system binds a task to cores (affinity); a container's quota is CPU time per second, and may be a part of a
    core: the kernel's cgroup-v2.rst (``cpu.max``) and sched-bwc.rst (``cpu.cfs_quota_us``).
    """
    try:
        n = float(len(os.sched_getaffinity(0)))
    except OSError:
        return None
    folders, is_v2 = cgroup_folders("cpu", listed, root)
    for folder in folders:
        if is_v2:
            quota, _, period = read_text(f"{folder}/cpu.max").strip().partition(" ")
        else:
            quota, period = (read_text(f"{folder}/cpu.cfs_{name}_us").strip() for name in ("quota", "period"))
        if quota.isdecimal() and period.isdecimal() and int(period) > 0:  # "max" and "-1" are no quota
            n = min(n, int(quota) / int(period))
    return n
