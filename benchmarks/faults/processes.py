"""Faults of processes: signals, clocks, drivers, workloads and surroundings."""

from benchmarks.faults import Fault, clocks, drivers, signals, surroundings, workloads

FAULTS: tuple[Fault, ...] = (*signals.FAULTS, *workloads.FAULTS, *clocks.FAULTS, *drivers.FAULTS, *surroundings.FAULTS)
