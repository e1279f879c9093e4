"""Faults of processes: signals, clocks, drivers, workloads and surroundings."""

from benchmarks.faults import Fault

FAULTS: tuple[Fault, ...] = ()
