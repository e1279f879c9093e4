"""How many files this process may have open."""

import os
import resource

_SPARE = 50
"""Left for whatever else is opened meanwhile."""
_USUALLY_OPEN = 100


def allow_descriptors(n: int) -> None:
    """Raise this process's own limit of open files where ``n`` more than are open now may not fit: a job can have thousands
    of shards."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _open_now() + n + _SPARE
    if soft != resource.RLIM_INFINITY and soft < wanted:
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, most), hard))


def _open_now() -> int:
    try:
        return len(os.listdir("/proc/self/fd"))
    except OSError:
        return _USUALLY_OPEN
