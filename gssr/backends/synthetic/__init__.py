"""GPUs that don't exist: scenarios that look like real jobs, for demonstrations, tests and benchmarks.

Everything is a pure function of the time since the start, the GPU and the seed: any moment can be asked for without the
ones before, so the same scenario is sampled live here and written in bulk by ``python -m gssr.backends.synthetic``.
"""

from __future__ import annotations

from collections.abc import Sequence

from gssr.backends.base import BackendChange, BackendError, Device, Row, make_row
from gssr.backends.synthetic.gpu import MEASURED, POWER_LIMIT, SyntheticJob, Traits, sample_values, traits
from gssr.backends.synthetic.scenarios import DEFAULT_SCENARIO, LENGTH, SCALARS, SCENARIOS, Scenario, digest
from gssr.metrics import NAMES, PLACES

DEFAULT_GPUS = 4
MOST_GPUS = 10_000
MEASURES: tuple[str, ...] = tuple(name for name in NAMES if name in MEASURED)

LOST = "the GPU no longer answers (scenario)"
BACK = "the GPU answers again (scenario)"


def known_scenario(name: str) -> Scenario:
    """Look up the scenario of this name. Raises BackendError, naming those that exist."""
    if name not in SCENARIOS:
        raise BackendError(f"unknown synthetic scenario {name!r}: choose one of {', '.join(SCENARIOS)}")
    return SCENARIOS[name]


def parse(spec: str) -> tuple[str, int | None]:
    """Read scenario and number of GPUs from ``synthetic[:SCENARIO[:GPUS]]``. The scenario is DEFAULT_SCENARIO where
    none is named; the number is None where it is left to the caller.

    Raises BackendError when the scenario is unknown or the number is not 1 to MOST_GPUS.
    """
    _, _, rest = spec.partition(":")
    scenario, colon, count = rest.partition(":")
    scenario = scenario or DEFAULT_SCENARIO
    known_scenario(scenario)
    if not colon:
        return scenario, None
    if not (count.isascii() and count.isdigit() and len(count) < 10 and 1 <= int(count) <= MOST_GPUS):
        raise BackendError(f"{spec!r}: the number of GPUs must be 1 to {MOST_GPUS}, as in synthetic:{scenario}:8")
    return scenario, int(count)


def device(node: str, index: int) -> Device:
    """Make the synthetic GPU with this index on this node: the same in every process, and on every other node another
    one."""
    bits = f"{digest(f'{node}/{index}'):032x}"
    return Device(
        device_index=index,
        uuid="GPU-" + "-".join((bits[:8], bits[8:12], bits[12:16], bits[16:20], bits[20:])),
        name="Synthetic H100",
        memory_total=80 << 30,
        power_limit=POWER_LIMIT,
        sm_count=132,
        max_sm_clock=1980,
        compute_capability="9.0",
        driver_version="synthetic",
    )


class SyntheticBackend:
    """A ``Backend`` whose GPUs run a scenario. Raises BackendError when the scenario is unknown.

    Args:
        gpus: How many GPUs, or the indices on their node that a launcher gave this process.
        start: When the scenario starts, unix s; None: with the first sample.
    """

    name = "synthetic"
    measures = MEASURES

    def __init__(
        self, scenario: str, gpus: int | Sequence[int], node: str, seed: int = 0, start: float | None = None
    ) -> None:
        self._scenario = known_scenario(scenario)
        indices = range(gpus) if isinstance(gpus, int) else gpus
        n = gpus if isinstance(gpus, int) else max(DEFAULT_GPUS, *(index + 1 for index in indices), 0)
        self.gpus: Sequence[Device] = tuple(device(node, index) for index in indices)
        self._traits: list[Traits] = [traits(self._scenario, gpu.device_index, n, gpu.uuid, seed) for gpu in self.gpus]
        self._job = SyntheticJob(self._scenario)
        self._start = start
        self._lost: set[int] = set()
        self._changes: list[BackendChange] = []

    def sample(self, now: float) -> Sequence[Row]:
        """Make one row per GPU at ``now`` (unix s), but none for GPUs that the scenario has lost or skips at this time."""
        if self._start is None:
            self._start = now
        time = now - self._start
        shared = self._job.at(SCALARS, time)
        rows: list[Row] = [
            make_row(position, now, sample_values(SCALARS, shared, gpu, time))
            for position, gpu in enumerate(self._traits)
        ]
        return self._cut_holes(rows, time) if self._scenario.holes else rows

    def _cut_holes(self, rows: list[Row], time: float) -> list[Row]:
        """Take away from the rows of one tick what the scenario's holes cover at ``time``, in s since the scenario's
        start. A hole either sets some metrics of its GPUs to None, also in ``rows`` itself, or removes their rows. GPUs
        that are newly lost or back are noted as changes. ``rows``: one for each GPU, in order of position. Returns the
        rows that are left."""
        absent: set[int] = set()
        lost: set[int] = set()
        for hole in self._scenario.holes:
            if not hole.pulse.on(SCALARS, time):
                continue
            hit = range(hole.remainder, len(rows), hole.modulus)
            if hole.metrics:
                for position in hit:
                    row: list[int | float | None] = list(rows[position])
                    for metric in hole.metrics:
                        row[PLACES[metric]] = None
                    rows[position] = tuple(row)
            else:
                absent.update(hit)
                if hole.lost:
                    lost.update(hit)
        self._changes += [BackendChange("gpu_lost", position, LOST) for position in sorted(lost - self._lost)]
        self._changes += [BackendChange("gpu_back", position, BACK) for position in sorted(self._lost - lost)]
        self._lost = lost
        return [row for position, row in enumerate(rows) if position not in absent]

    def changes(self) -> Sequence[BackendChange]:
        """Return the GPUs lost and back since the last call."""
        changes, self._changes = self._changes, []
        return changes

    def close(self) -> Sequence[Row]:
        """Return no rows: there is nothing to close."""
        return ()


__all__ = [
    "BACK",
    "DEFAULT_GPUS",
    "DEFAULT_SCENARIO",
    "LENGTH",
    "LOST",
    "MEASURES",
    "SCENARIOS",
    "SyntheticBackend",
    "device",
    "known_scenario",
    "parse",
]
