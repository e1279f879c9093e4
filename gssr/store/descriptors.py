"""How many files this process may have open."""

import resource

_OTHER_DESCRIPTORS = 100


def allow_descriptors(n: int) -> None:
    """Raise this process's own limit of open files where ``n`` more may not fit: a job can have thousands of shards."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = n + _OTHER_DESCRIPTORS
    if soft != resource.RLIM_INFINITY and soft < wanted:
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, most), hard))
