"""Faults of storage: full disks, truncated, replaced and stale files."""

from benchmarks.faults import Fault

FAULTS: tuple[Fault, ...] = ()
