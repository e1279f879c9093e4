"""Faults of storage: full disks, truncated, replaced and stale files."""

from benchmarks.faults import Fault, disks, files, power

FAULTS: tuple[Fault, ...] = (*power.FAULTS, *disks.FAULTS, *files.FAULTS)
