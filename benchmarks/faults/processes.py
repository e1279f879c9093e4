"""Faults of processes: signals, clocks, drivers, workloads and surroundings."""

from benchmarks.faults import Fault, signals, workloads

FAULTS: tuple[Fault, ...] = (*signals.FAULTS, *workloads.FAULTS)
