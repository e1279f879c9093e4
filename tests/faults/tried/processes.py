"""Faults of processes: signals, workloads, clocks, drivers, surroundings and screens."""

from tests.faults.tried import Fault, clocks, drivers, screens, signals, surroundings, workloads

FAULTS: tuple[Fault, ...] = (
    *signals.FAULTS,
    *workloads.FAULTS,
    *clocks.FAULTS,
    *drivers.FAULTS,
    *surroundings.FAULTS,
    *screens.FAULTS,
)
