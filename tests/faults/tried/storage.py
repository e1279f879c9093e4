"""Faults of storage: full disks, truncated, replaced and stale files."""

from tests.faults.tried import Fault, disks, files, outage, power

FAULTS: tuple[Fault, ...] = (*power.FAULTS, *outage.FAULTS, *disks.FAULTS, *files.FAULTS)
