"""What a GPU makes of the work: all metrics of one sample, consistent with each other.

Modelled on an H100: pipes and occupancy can't exceed SM activity, nor SM activity that of the engine; the energy counter
is the integral of the power; the power reading is a mean over the last second, as on Hopper; temperatures follow the
mean power of half a minute; near the power limit clocks fall and the power-cap flag shows; without work the idle flag.
"""

from collections.abc import Sequence
from typing import NamedTuple, Union

from gssr.backends.synthetic.scenarios import (
    DEFAULT_SCENARIO,
    SCALARS,
    SCENARIOS,
    LoadLevel,
    Ops,
    Scenario,
    fractions,
    wave,
    white,
)

POWER_LIMIT = 700.0
_IDLE_POWER = LoadLevel().power
_IDLE_MIB = 529.0
_MIB = 1 << 20
_THERMAL_LAG = 30.0
_CLOCK_STEP = 15

Values = dict[str, Union[int, float]]


class Traits(NamedTuple):
    """What sets one GPU apart. ``share``: its part of the work; ``phase`` and ``drift`` (cycles per second) of its
    noise; ``draw``: power under load relative to the level's; ``idle``: its power when idle, W; ``spare``: MiB of
    memory in use besides the job's; ``counter``: J on the energy counter at the start; ``inlet``: °C above the coolest
    GPU."""

    share: float
    phase: float
    drift: float
    draw: float
    idle: float
    spare: float
    counter: float
    inlet: float


def traits(scenario: Scenario, position: int, n: int, uuid: str, seed: int) -> Traits:
    """Make the traits of GPU ``position`` of ``n``: the same for the same scenario, position, UUID and seed, in every
    process."""
    a, b, c, d = fractions(f"{seed}/{uuid}")
    share = scenario.share(position, n)
    return Traits(
        share * (1.0 - 0.02 * a),
        b,
        0.043 + 0.031 * c,
        (0.965 + 0.07 * d) * (0.3 + 0.7 * share),
        _IDLE_POWER - 4.0 + 8.0 * c,
        float(int(180.0 * a)),
        1e6 + float(int(4e8 * d)),
        9.0 * b,
    )


class Moment(NamedTuple):
    """What all GPUs share at one time: the ``level`` asked for (fields of Level), ``memory`` in MiB, and of the power above
    idle at full share: ``energy`` up to now (J), the mean over the last second and over the thermal lag (W)."""

    level: Sequence[float]
    memory: float
    energy: float
    power: float
    heat: float


_RIPPLING = frozenset({"sm", "occupancy", "tensor", "fp64", "fp32", "fp16", "integer", "dram"})


class SyntheticJob:
    """A scenario running: ``at`` says what it asks of its GPUs. ``stretch``: its own clock runs slower by this factor."""

    def __init__(self, scenario: Scenario, stretch: float = 1.0) -> None:
        base = scenario.base
        self._stretch = stretch
        self._period, self._amplitude = scenario.ripple
        self._memory = scenario.memory
        self._base = base
        self._rippling = [k for k, name in enumerate(base._fields) if name in _RIPPLING]
        self._changes = [
            (pulse, [(k, value - base[k]) for k, value in enumerate(level) if value != base[k]])
            for level, pulses in scenario.phases
            for pulse in pulses
        ]
        self._base_power = base.power - _IDLE_POWER
        self._powers = [(level.power - base.power, pulse) for level, pulses in scenario.phases for pulse in pulses]

    def at(self, ops: Ops, time: float) -> Moment:
        """Compute what the job asks of its GPUs ``time`` seconds after its start. With ``ops`` of arrays ``time`` is an
        array, and so are the values returned."""
        stretch = self._stretch
        own = time / stretch
        level = list(self._base)
        for pulse, deltas in self._changes:
            weight = pulse.weight(ops, own)
            if ops.some(weight):
                for k, delta in deltas:
                    level[k] = level[k] + weight * delta
        ripple = 1.0 + self._amplitude * wave(own / self._period)
        for k in self._rippling:
            level[k] = level[k] * ripple
        memory = _IDLE_MIB
        for start, gib in self._memory:
            memory = memory + (own >= start) * gib * 1024.0
        energy = self._energy(ops, own)
        return Moment(
            level,
            memory,
            energy * stretch,
            (energy - self._energy(ops, (time - 1.0) / stretch)) * stretch,
            (energy - self._energy(ops, (time - _THERMAL_LAG) / stretch)) * (stretch / _THERMAL_LAG),
        )

    def _energy(self, ops: Ops, own: float) -> float:
        """Compute the energy above idle at full share, J, up to ``own`` seconds on the job's own clock."""
        own = ops.maximum(own, 0.0)
        energy = self._base_power * own
        for power, pulse in self._powers:
            if ops.some(own > pulse.start):
                energy = energy + power * pulse.integral(ops, own)
        return energy


def sample_values(ops: Ops, now: Moment, gpu: Traits, time: float) -> Values:
    """Compute one sample of one GPU, by metric name, at ``time`` s after the start. What scenarios leave out later
    (holes) is still in."""
    floor, minimum, maximum, where, _ = ops
    level, memory, energy, mean_power, heating = now
    (
        gr_asked, sm_asked, occupancy, tensor_asked, fp64, fp32, fp16, integer, dram_asked, pcie_tx, pcie_rx, nvlink_asked,
        _, clock,
    ) = level  # fmt: skip
    share, phase, drift, draw, idle, spare, counter, inlet = gpu
    noise = white(time, phase)
    work = share * (1.0 + 0.02 * wave(time * drift + phase))

    sm = minimum(sm_asked * work * (0.97 + 0.06 * noise), 0.998)
    gr = minimum(maximum(gr_asked * (0.3 + 0.7 * work) * (0.99 + 0.02 * (noise * 97.0 % 1.0)), sm), 1.0)
    tensor = tensor_asked * work * (0.97 + 0.06 * (noise * 193.0 % 1.0))
    dram = dram_asked * work * (0.98 + 0.04 * (noise * 389.0 % 1.0))
    traffic = 0.3 + 0.7 * work
    nvlink = nvlink_asked * traffic
    power = (idle + draw * mean_power) * (0.997 + 0.006 * (noise * 769.0 % 1.0))
    fast = maximum(power - 0.8 * POWER_LIMIT, 0.0) * 0.12
    heat = inlet + draw * heating * 0.05

    return {
        "gpu_utilization": floor(100.0 * gr + 0.5) * 0.01,
        "memory_copy_utilization": floor(90.0 * dram + 0.5) * 0.01,
        "gr_engine_active": gr,
        "sm_active": sm,
        "sm_occupancy": occupancy * work * (0.97 + 0.06 * (noise * 1543.0 % 1.0)),
        "tensor_active": tensor,
        "tensor_hmma_active": tensor,
        "tensor_imma_active": 0.0,
        "tensor_dfma_active": 0.0,
        "fp64_active": fp64 * work * (0.97 + 0.06 * (noise * 3079.0 % 1.0)),
        "fp32_active": fp32 * work * (0.97 + 0.06 * (noise * 6151.0 % 1.0)),
        "fp16_active": fp16 * work * (0.97 + 0.06 * (noise * 12289.0 % 1.0)),
        "integer_active": integer * work * (0.97 + 0.06 * (noise * 24593.0 % 1.0)),
        "dram_active": dram,
        "pcie_tx_bytes": floor(pcie_tx * traffic * (0.8 + 0.4 * (noise * 49157.0 % 1.0))),
        "pcie_rx_bytes": floor(pcie_rx * traffic * (0.8 + 0.4 * (noise * 98317.0 % 1.0))),
        "nvlink_tx_bytes": floor(nvlink * (0.9 + 0.2 * (noise * 196613.0 % 1.0))),
        "nvlink_rx_bytes": floor(nvlink * (0.9 + 0.2 * (noise * 393241.0 % 1.0))),
        "power_usage": floor(power * 1000.0) * 0.001,
        "energy": floor((counter + idle * time + draw * energy) * 1000.0) * 0.001,
        "temperature": floor(27.5 + heat),
        "memory_temperature": floor(36.5 + heat * 1.1),
        "sm_clock": floor(clock / _CLOCK_STEP - fast * (clock / 1980.0)) * _CLOCK_STEP,
        "memory_used": floor(memory + spare) * _MIB,
        "clock_event_reasons": where(gr < 0.005, 1, 0) + where(power > 0.97 * POWER_LIMIT, 4, 0),
    }


def _measured() -> frozenset[str]:
    any_job = SCENARIOS[DEFAULT_SCENARIO]
    return frozenset(sample_values(SCALARS, SyntheticJob(any_job).at(SCALARS, 0.0), traits(any_job, 0, 1, "", 0), 0.0))


MEASURED = _measured()
"""The metrics that these GPUs have: those that ``sample_values`` gives."""
