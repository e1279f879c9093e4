"""Recordings with one planted cause each, for every screen to lead to; ``python -m tests.fakes.planted DIR`` writes them."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from gssr.arrays import Floats
from gssr.backends.synthetic import device
from gssr.backends.synthetic.bulk import START, spread_over_ranks
from gssr.store.write.bulk import BulkWriter

PER_NODE = 4
CHUNK_SECONDS = 60
"""Written at once: doesn't cut a bucket of 10 s."""
_NOISE = 0.012
_GIB = float(1 << 30)

Event = tuple[float, str, int | None, str]
"""Seconds after the start, kind, position of the GPU, message."""


class Job:
    """What the GPUs of a job do, to be spoilt: arrays [seconds, GPUs]. ``load`` is the work of each GPU, 1 for all it can;
    ``absent`` where it has no row; ``values`` (once ``measure`` was called) every metric that is measured."""

    def __init__(self, n_nodes: int, seconds: int, seed: int) -> None:
        self.n_nodes = n_nodes
        self.seconds = seconds
        self.load = np.ones((seconds, n_nodes * PER_NODE))
        self.absent = np.zeros(self.load.shape, bool)
        self.events: list[Event] = []
        self.values: dict[str, Floats] = {}
        self._random = np.random.default_rng(seed)

    def gpus_of(self, node: int) -> slice:
        """Positions of the GPUs of node number ``node``, counted from 1."""
        return slice((node - 1) * PER_NODE, node * PER_NODE)

    def measure(self) -> None:
        """What the load looks like on every metric."""
        load = self.load * (1 + _NOISE * self._random.standard_normal(self.load.shape))
        wobble = 1 + _NOISE * self._random.standard_normal(self.load.shape)
        load = np.clip(load, 0.0, 1.05)
        power = np.minimum(88.0 + 520.0 * load * wobble, 700.0)
        ratios = {
            "gr_engine_active": 0.93, "sm_active": 0.82, "sm_occupancy": 0.34, "tensor_active": 0.48,
            "tensor_hmma_active": 0.48, "tensor_imma_active": 0.0, "tensor_dfma_active": 0.0, "fp64_active": 0.0,
            "fp32_active": 0.11, "fp16_active": 0.03, "integer_active": 0.15, "dram_active": 0.41,
        }  # fmt: skip
        rates = {"pcie_tx_bytes": 0.4e9, "pcie_rx_bytes": 1.6e9, "nvlink_tx_bytes": 82e9, "nvlink_rx_bytes": 82e9}
        values = {name: share * load * wobble for name, share in ratios.items()}
        values |= {name: np.floor(rate * load * wobble) for name, rate in rates.items()}
        values |= {
            "gpu_utilization": np.round(100 * np.minimum(1.2 * load, 1.0)) / 100,
            "memory_copy_utilization": np.round(35 * load) / 100,
            "power_usage": np.round(power, 1),
            "energy": 1e6 + np.round(np.cumsum(power, axis=0), 3),
            "temperature": np.floor(30 + 35 * load),
            "memory_temperature": np.floor(38 + 34 * load),
            "sm_clock": np.full(load.shape, 1980.0),
            "memory_used": np.full(load.shape, 61 * _GIB),
            "clock_event_reasons": np.where(self.load < 0.01, 1.0, 0.0),
        }
        self.values = values


def _healthy(job: Job) -> None:
    job.measure()


def _straggler(job: Job) -> None:
    """nid000007:2 is slow all the time."""
    job.load[:, job.gpus_of(7)][:, 2] = 0.14
    job.measure()


def _late_start(job: Job) -> None:
    """The GPUs of nid000005 start two minutes late."""
    job.load[:120, job.gpus_of(5)] = 0.0
    job.measure()


def _slow_node(job: Job) -> None:
    """nid000003 runs hot: the hardware lowers its clocks."""
    own = job.gpus_of(3)
    job.load[:, own] = 0.62
    job.measure()
    job.values["sm_clock"][:, own] = 1140.0
    job.values["temperature"][:, own] = 95.0
    job.values["clock_event_reasons"][:, own] = 0x40
    job.events += [(4.0, "throttle_begin", gpu, "hardware lowers clocks: too hot") for gpu in range(8, 12)]


def _rotating(job: Job) -> None:
    """Each GPU in turn works at a fifth for 20 s: over time all do the same."""
    n = job.load.shape[1]
    for second in range(job.seconds):
        job.load[second, (second // 20) % n] = 0.2
    job.measure()


def _io_dip(job: Job) -> None:
    """From 250 s on all GPUs wait 22 s for data: PCIe is busy, the SMs are not."""
    during = slice(250, 272)
    job.load[during] = 0.03
    job.measure()
    job.values["pcie_rx_bytes"][during] = 21e9


def _idle_gpus(job: Job) -> None:
    """nid000004:1, :2 and :3 are never used."""
    own = slice(13, 16)
    job.load[:, own] = 0.0
    job.measure()
    job.values["memory_used"][:, own] = 0.5 * _GIB


def _gap(job: Job) -> None:
    """nid000002:2 has no rows from 200 s to 260 s."""
    job.measure()
    job.absent[200:260, 6] = True
    job.events += [(200.0, "gpu_lost", 6, "the GPU no longer answers"), (260.0, "gpu_back", 6, "the GPU answers again")]


def _checkpoint(job: Job) -> None:
    """Every 90 s all GPUs write a checkpoint for 9 s."""
    seconds = np.arange(job.seconds)
    during = (seconds % 90 >= 80) & (seconds % 90 < 89)
    job.load[during] = 0.04
    job.measure()
    job.values["pcie_tx_bytes"][during] = 14e9


def _before(job: Job) -> None:
    """Waits for data 3 s of every 12 s, one straggler, and starts to work after 40 s."""
    seconds = np.arange(job.seconds)
    job.load[seconds % 12 >= 9] = 0.25
    job.load[:, 5] *= 0.5
    job.load[:40] = 0.02
    job.measure()


def _after(job: Job) -> None:
    """The same job without the straggler and with half the waits; starts to work after 10 s."""
    seconds = np.arange(job.seconds)
    job.load[seconds % 24 >= 21] = 0.25
    job.load[:10] = 0.02
    job.measure()


class Plant(NamedTuple):
    """One recording: the answer that a screen must lead to, its size, and what spoils it."""

    name: str
    cause: str
    n_nodes: int
    seconds: int
    spoil: Callable[[Job], None]


PLANTS: tuple[Plant, ...] = (
    Plant("healthy", "nothing", 4, 300, _healthy),
    Plant("straggler", "nid000007:2 works at 14 % of the others all the time", 16, 600, _straggler),
    Plant("late_start", "the 4 GPUs of nid000005 idle for the first 120 s", 8, 600, _late_start),
    Plant("slow_node", "nid000003 at 62 %: 1,140 MHz instead of 1,980, hw_thermal", 8, 600, _slow_node),
    Plant("rotating", "each of 16 GPUs in turn at 20 % for 20 s", 4, 640, _rotating),
    Plant("io_dip", "all GPUs at 3 % from 250 s to 272 s, PCIe received 21 GB/s", 8, 600, _io_dip),
    Plant("idle_gpus", "nid000004:1, :2 and :3 never used", 4, 300, _idle_gpus),
    Plant("gap", "nid000002:2 without rows from 200 s to 260 s", 4, 400, _gap),
    Plant("checkpoint", "all GPUs at 4 % for 9 s every 90 s, first at 80 s, PCIe sent 14 GB/s", 8, 600, _checkpoint),
    Plant("before", "waits 3 s of every 12 s, nid000002:1 at half, works after 40 s", 4, 480, _before),
    Plant("after", "waits 3 s of every 24 s, no straggler, works after 10 s", 4, 400, _after),
)


def write(path: str, plant: Plant, seed: int = 1) -> None:
    """Write one recording, a row per GPU and second, as a job that ended well. ``path`` must not exist."""
    job = Job(plant.n_nodes, plant.seconds, seed)
    plant.spoil(job)
    nodes = [f"nid{number:06d}" for number in range(1, plant.n_nodes + 1)]
    end = START + plant.seconds
    writer = BulkWriter(path)
    run: dict[str, str | int | float | None] = {
        "run_id": f"alps-4711.{plant.name}", "label": plant.name, "command": json.dumps(["srun", "python", "train.py"]),
        "job_id": "4711", "launcher": "slurm", "cluster": "alps", "user": "ada", "started_at": START,
        "sampling_ms": 1000.0, "world_size": plant.n_nodes, "n_nodes": plant.n_nodes, "state": "running",
    }  # fmt: skip
    for rank in reversed(range(plant.n_nodes)):  # the last one begun is the one that finishes
        writer.begin(
            run,
            {
                "rank": rank, "local_rank": 0, "node": nodes[rank], "hostname": nodes[rank], "started_at": START,
                "ended_at": end, "exit_code": 0, "state": "completed",
            },
        )  # fmt: skip
    writer.add_gpus(
        [
            {"node": node, "rank": rank, "backend": "synthetic", **device(node, index)._asdict()}
            for rank, node in enumerate(nodes)
            for index in range(PER_NODE)
        ],
        list(job.values),
        1.0,
    )
    writer.event(START, "start", "the command was started as process 4242")
    for time, kind, gpu, message in job.events:
        writer.event(START + time, kind, message, gpu)
    writer.event(end, "end", "the command ended: completed, exit code 0")
    for first in range(0, plant.seconds, CHUNK_SECONDS):
        there = ~job.absent[first : first + CHUNK_SECONDS]
        second, gpu = np.nonzero(there)
        values = {name: column[first : first + CHUNK_SECONDS][there] for name, column in job.values.items()}
        writer.add_columns(gpu, START + first + second, values)
    assert writer.finish(end, 0, "completed", end), writer.problem
    spread_over_ranks(path)


class Planted(dict[str, str]):
    """Paths by name: each recording is written to ``folder/NAME.sql`` when it is first asked for, anew where it is there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __missing__(self, name: str) -> str:
        (plant,) = (each for each in PLANTS if each.name == name)
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"{name}.sql"
        path.unlink(missing_ok=True)
        write(str(path), plant)
        self[name] = str(path)
        return self[name]


def write_all(folder: Path) -> list[str]:
    """Write all of them; their paths."""
    recordings = Planted(folder)
    return [recordings[plant.name] for plant in PLANTS]


if __name__ == "__main__":
    for _path in write_all(Path(sys.argv[1] if len(sys.argv) > 1 else ".")):
        print(_path)
