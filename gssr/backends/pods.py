"""Which pod of Kubernetes a process belongs to, by what the kernel and the kubelet leave on the node: no credentials are
needed, and the API server is not asked.

A process's control group names its container (/proc/PID/cgroup), and for each container the kubelet keeps a link to its log
named POD_NAMESPACE_CONTAINER-ID.log (/var/log/containers). A container that is to see both needs the host's process ids and
that folder.
"""

from __future__ import annotations

import os
import re
from typing import NamedTuple

from gssr.backends.kernel_files import contents

LOGS = "/var/log/containers"
_CONTAINER = re.compile(rb"[0-9a-f]{64}")
"""An id as containerd, CRI-O and Docker give them."""
_LOG = re.compile(r"([^_]+)_([^_]+)_(.+)-([0-9a-f]{64})\.log")
_LOOK_AGAIN_SECONDS = 10.0
"""An unknown container is looked for again after this long: its log is there as soon as it has started."""
_MOST_LOGS = 4096
"""Files that are looked at: a node has 110 pods by default, and a few hundred at most."""


class Pod(NamedTuple):
    """A container of a pod, by the names that its users know it by."""

    namespace: str
    pod: str
    container: str


class PodNames:
    """Knows the pods of this node. Nothing here raises."""

    def __init__(self, proc: str = "/proc", logs: str = LOGS) -> None:
        """Look at nothing yet. ``proc`` and ``logs``: where the kernel and the kubelet tell."""
        self._proc, self._logs = proc, logs
        self._names: dict[bytes, Pod] = {}
        self._looked: float | None = None

    def pod_of(self, pid: int, now: float) -> Pod | None:
        """Return the pod of a process; None if it is in none, or its names are not known.

        ``now``: monotonic time, s.
        """
        groups = contents(f"{self._proc}/{pid}/cgroup")
        found = _CONTAINER.findall(groups or b"")
        if not found:
            return None
        container = found[-1]  # of a container within a container the inner one
        if container not in self._names and (self._looked is None or now - self._looked >= _LOOK_AGAIN_SECONDS):
            self._looked = now
            self._names = self._read()
        return self._names.get(container)

    def _read(self) -> dict[bytes, Pod]:
        """Return the names of all containers that have a log, by their ids."""
        names = {}
        try:
            with os.scandir(self._logs) as entries:
                for _, entry in zip(range(_MOST_LOGS), entries):
                    match = _LOG.fullmatch(entry.name)
                    if match:
                        pod, namespace, container, identity = match.groups()
                        names[identity.encode()] = Pod(namespace, pod, container)
        except OSError:
            pass  # no node of Kubernetes, or the folder is not mounted
        return names
