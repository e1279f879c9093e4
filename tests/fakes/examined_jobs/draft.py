"""A job in the making: its hardware, its application, and what a planted cause changes of them."""

import math
from collections.abc import Mapping

import numpy as np

from gssr.arrays import Floats, Ints
from tests.fakes.examined_jobs import activities as act
from tests.fakes.examined_jobs.activities import Activity
from tests.fakes.examined_jobs.hardware import MODELS, VIEW_MODELS
from tests.fakes.examined_jobs.timeline import Script

LONGEST_SECONDS = 6 * 3600.0
MOST_GPU_SECONDS = 45_000.0
"""Rows of ranks are a second apart: more of them take too long to write for an examination of hundreds of jobs."""
LOW_CLOCK = 0.97
"""Clocks differ by 1 to 2 % from node to node: from this share of the normal clock on they are nobody's fault."""
MOST_ROWS = 45_000
MOST_STEPS = 60_000
"""GPUs times steps: what is simulated at most."""

APPLICATIONS: dict[str, tuple[tuple[Activity, float], ...]] = {
    "llm": ((act.MATMUL, 0.56), (act.ATTENTION, 0.16), (act.ELEMENTWISE, 0.2), (act.OPTIMIZER, 0.08)),
    "vision": ((act.CONVOLUTION, 0.62), (act.NORMALISATION, 0.33), (act.OPTIMIZER, 0.05)),
    "cfd": ((act.STENCIL, 0.82), (act.SPARSE, 0.18)),
    "md": ((act.FORCES, 0.7), (act.MESH, 0.3)),
    "fp64": ((act.DOUBLE_MATMUL, 0.5), (act.DOUBLE_VECTOR, 0.22), (act.SPARSE, 0.28)),
    "gnn": ((act.GATHER, 0.5), (act.SMALL_DENSE, 0.4), (act.OPTIMIZER, 0.1)),
    "moe": ((act.MATMUL, 0.5), (act.ATTENTION, 0.16), (act.ELEMENTWISE, 0.26), (act.OPTIMIZER, 0.08)),
    "diffusion": ((act.CONVOLUTION, 0.4), (act.ATTENTION, 0.34), (act.NORMALISATION, 0.26)),
    "serving": ((act.MATMUL, 0.24), (act.DECODE, 0.76)),
}
"""Kernels of a step, and their shares of it."""
STEPS = {
    "llm": (0.5, 20.0),
    "vision": (0.12, 1.2),
    "cfd": (0.05, 2.0),
    "md": (0.05, 0.4),
    "fp64": (0.4, 10.0),
    "gnn": (0.1, 1.0),
    "moe": (0.5, 12.0),
    "diffusion": (1.0, 12.0),
    "serving": (0.5, 6.0),
}
"""How long steps last, in seconds."""
MPI_APPLICATIONS = ("cfd", "md", "fp64")
"""Their ranks wait for each other on the CPU, so that no kernel runs meanwhile."""
ASYNCHRONOUS_APPLICATIONS = ("diffusion", "serving")
"""Their GPUs do not wait for each other."""


def spread(rng: np.random.Generator, low: float, high: float) -> float:
    """Draw a number between two, evenly by its logarithm."""
    return float(math.exp(rng.uniform(math.log(low), math.log(high))))


def _with_rates(activity: Activity, rates: Mapping[str, float]) -> Activity:
    """The activity with other rates, by their names."""
    return Activity(**{**activity._asdict(), **rates})


class Draft:
    """A job in the making. The functions of kinds change its attributes before ``script`` is called:

    ``vanishes`` is a GPU that no longer answers, and for how many seconds before the end, ``missing`` other times without
    samples; ``neighbours`` are other jobs on the node: their share of its cores, and the bytes per second that they read;
    ``before`` activities at the beginning of each step, ``after`` at its end, behind the collective, both as (activity,
    seconds, whether the planted cause has them on its account); ``factor`` float64[GPU, step] how much longer a GPU's
    kernels take; ``clock``, ``reasons`` as Timeline has them; ``exposed`` the share of the step in exposed collectives."""

    def __init__(self, rng: np.random.Generator, view: str) -> None:
        """Draw the hardware; the application follows by ``choose``."""
        self.rng = rng
        self.view = view
        self.planted: list[frozenset[str]] = []
        self.allowed: set[str] = set()
        self.knows_cost = True
        self.has_cost = True

    def choose(
        self,
        applications: tuple[str, ...],
        gpus: tuple[int, ...] = (1, 2, 4, 8, 8, 16, 32),
        step: tuple[float, float] | None = None,
        models: tuple[str, ...] | None = None,
        longest: float = LONGEST_SECONDS,
        shortest: float = 60.0,
    ) -> None:
        """Draw application, GPUs, step and duration."""
        rng = self.rng
        self.application = str(rng.choice(applications))
        fitting = [name for name in VIEW_MODELS[self.view] if models is None or name in models]
        if self.application == "fp64":
            fitting = [name for name in fitting if name != "L40S"] or fitting
        self.model_name = str(rng.choice(fitting or VIEW_MODELS[self.view]))
        self.model = MODELS[self.model_name]
        n = int(rng.choice(gpus))
        self.n_gpus = n
        self.n_nodes = max(1, math.ceil(n / self.model.gpus_per_node))
        self.node_of: Ints = np.arange(n, dtype=np.int64) // self.model.gpus_per_node
        self.step = spread(rng, *(step or STEPS[self.application]))
        most = min(longest, MOST_GPU_SECONDS / n, MOST_STEPS * self.step / n)
        self.duration = spread(rng, min(max(shortest, 12 * self.step), most), most)
        self.n_steps = max(8, int(self.duration / (1.15 * self.step)))
        shape = (n, self.n_steps)
        self.factor: Floats = rng.normal(0, rng.uniform(0.003, 0.012), shape).clip(-0.03, 0.05) + 1
        self.factor *= 1 + rng.normal(0, 0.004, (n, 1))
        self.jitters = False
        self.normal_clock = 1.0
        if self.application in ("llm", "moe", "diffusion", "vision", "fp64") and rng.random() < 0.75:
            self.normal_clock = float(rng.uniform(0.88, 0.95))
        node_clock = rng.uniform(0.985, 1.0, self.n_nodes)[self.node_of][:, None]
        self.clock: Floats = np.broadcast_to(self.normal_clock * node_clock, shape).copy()
        self.clock *= 1 + rng.normal(0, 0.004, shape)
        self.reasons: Ints = np.full(shape, 4 if self.normal_clock < 1 else 0, np.int64)
        if self.normal_clock < 1:
            self.allowed.add("power_capped")
        self.exposed = float(rng.uniform(0.0, 0.07)) if n > 1 else 0.0
        self.gaps = (
            float(rng.uniform(0.02, 0.07)) if self.application not in ("llm", "moe") else rng.uniform(0.01, 0.04)
        )
        self.gaps_lost = False
        self.excess_lost = False
        self.before: list[tuple[Activity, Floats, bool]] = []
        self.after: list[tuple[Activity, Floats, bool]] = []
        self.waits_lost = False
        self.collective_lost = False
        self.synchronous = self.application not in ASYNCHRONOUS_APPLICATIONS
        self.work: list[tuple[Activity, float]] = [
            (self.vary(kernel), share) for kernel, share in APPLICATIONS[self.application]
        ]
        self.peer_wait = self.vary(act.SPIN)
        if self.application in MPI_APPLICATIONS:  # most MPI libraries poll while they wait, some sleep
            self.peer_wait = act.PEER_WAIT._replace(cpu=1.0 if rng.random() < 0.8 else 0.15)
        self.through_pcie = self.model.nvlink_speed == 0
        self.start_seconds = np.full(n, spread(rng, 2, max(2.1, min(50, 0.03 * self.duration))))
        self.late_seconds: Floats = np.zeros(n)
        self.last_step: Ints = np.full(n, self.n_steps, np.int64)
        self.end_seconds = spread(rng, 0.5, max(0.6, min(12, 0.01 * self.duration)))
        self.idle_gpus: Ints = np.zeros(0, np.int64)
        self.memory_share: Floats = np.full(n, rng.uniform(0.35, 0.94)) + rng.normal(0, 0.004, n)
        self.overlap = float(rng.uniform(0.02, 0.25))
        self.neighbours: tuple[float, float] = (0.0, 0.0)
        if n < self.model.gpus_per_node and rng.random() < 0.3:
            self.neighbours = (float(rng.uniform(0.05, 0.3)), spread(rng, 1e7, 3e8))
        self.exit_code, self.state = 0, "completed"
        self.cooling: Floats = np.ones(n)
        self.lost_extra = 0.0
        self.lost_leaf: str | None = None
        self.vanishes: tuple[int, float] | None = None
        self.missing: list[tuple[int, float, float]] = []
        self.python_cores = float(rng.uniform(0.95, 1.1)) if rng.random() < 0.8 else float(rng.uniform(1.1, 2.5))

    def vary(self, activity: Activity, **changes: float) -> Activity:
        """The activity as this job has it: pipes, memory and power a little other than the average job's."""
        rng = self.rng
        drawn: dict[str, float] = {}
        for name in ("sm", "occupancy", "tensor", "fp64", "fp32", "integer", "dram", "memory_busy", "power"):
            value = getattr(activity, name)
            most = 0.995 if name != "dram" else 0.88
            drawn[name] = min(most, value * rng.uniform(0.88, 1.1)) if value > 0 else 0.0
        if activity.leaf == "working.tensor":
            drawn["tensor"] = max(drawn["tensor"], activity.double_tensor)
        varied = _with_rates(activity, drawn)
        if self.model.architecture == "volta" and activity.double_tensor:
            varied = varied._replace(double_tensor=0.0, tensor=0.0, fp64=0.8)
        elif activity.double_tensor:
            varied = varied._replace(double_tensor=varied.tensor)
        return _with_rates(varied, changes)

    def series(self, low: float, high: float, of_each_gpu: float = 0.0) -> Floats:
        """Seconds of each step: a share of the step that is drawn between two for the whole job, and differs a little from
        step to step, and by ``of_each_gpu`` from GPU to GPU: float64[1 or GPU, step]."""
        rng = self.rng
        steps = rng.lognormal(0, rng.uniform(0.02, 0.3), (1, self.n_steps)) * spread(rng, low, high) * self.step
        if of_each_gpu and self.n_gpus > 1:
            steps = steps * rng.lognormal(0, of_each_gpu, (self.n_gpus, self.n_steps))
        return np.asarray(steps)

    def transfer_activity(self, bound_by: str) -> Activity:
        """A collective's kernels: over NVLink, InfiniBand (GPUDirect, through PCIe) or PCIe alone."""
        model, rng = self.model, self.rng
        if bound_by == "fabric":
            speed = model.fabric_speed * rng.uniform(0.55, 0.85)
            return self.vary(
                act.TRANSFER,
                dram=0.07,
                power=0.24,
                pcie_tx=speed,
                pcie_rx=speed,
                nvlink=speed * rng.uniform(1, 2.5),
                fabric=speed,
            )
        if bound_by == "pcie":
            speed = model.pcie_speed * rng.uniform(0.45, 0.75)
            return self.vary(act.TRANSFER, dram=0.06, power=0.22, pcie_tx=speed, pcie_rx=speed)
        return self.vary(act.TRANSFER, nvlink=model.nvlink_speed * rng.uniform(0.4, 0.75))

    def default_link(self) -> str:
        """What this job's collectives are bound by."""
        if self.through_pcie:
            return "pcie"
        return "fabric" if self.n_nodes > 1 and self.model.fabric_speed else "nvlink"

    def add_ordinary_checkpoints(self) -> None:
        """Let ranks write now and then, for 1.5 % of the time at most."""
        if self.n_steps * self.step < 200 or self.rng.random() < 0.4:
            return
        length = self.rng.uniform(1.0, 6.0)
        count = int(self.rng.uniform(0.002, 0.013) * self.n_steps * self.step / length)
        if count:
            at = np.linspace(0, self.n_steps - 1, count + 2)[1:-1].astype(int)
            seconds = np.zeros((1, self.n_steps))
            seconds[0, at] = length
            self.before.append((act.SAVING._replace(write=1.5e9 / self.model.gpus_per_node), seconds, False))

    def _with_overlapped_collectives(self, kernel: Activity) -> Activity:
        """The kernel with the traffic of collectives that run beside it."""
        link = self.default_link()
        if link == "nvlink":
            return kernel._replace(nvlink=self.overlap * self.model.nvlink_speed)
        if link == "pcie":
            speed = self.overlap * self.model.pcie_speed
            return kernel._replace(pcie_tx=kernel.pcie_tx + speed, pcie_rx=kernel.pcie_rx + speed)
        speed = self.overlap * self.model.fabric_speed
        return kernel._replace(
            nvlink=2 * speed, fabric=speed, pcie_tx=kernel.pcie_tx + speed, pcie_rx=kernel.pcie_rx + speed
        )

    def script(self) -> Script:
        """Write the script of the whole job."""
        script = Script(self.n_gpus, self.n_steps)
        working = script.working
        working[self.idle_gpus] = 0.0
        working *= np.arange(self.n_steps) < self.last_step[:, None]
        for activity, seconds, lost in self.before:
            script.do(activity, seconds * working, lost)
        duty = 1 - self.gaps
        kernels = 1 - self.exposed
        for activity, share in self.work:
            slower = (self.normal_clock / self.clock) ** activity.clock_bound
            seconds = share * self.step * kernels * self.factor * slower * working
            used = activity._replace(
                duty=activity.duty * duty,
                cpu=self.python_cores,
                power=activity.power * (0.25 + 0.75 * duty),
            )
            if self.n_gpus > 1 and self.application in ("llm", "vision", "moe") and activity.heavy:
                used = self._with_overlapped_collectives(used)
            script.do(used, seconds, False)
            if self.gaps_lost:
                self.lost_extra += float((seconds * self.gaps).sum())
            if self.excess_lost:
                below = np.where(self.clock < LOW_CLOCK * self.normal_clock, 1 - self.clock / self.normal_clock, 0)
                self.lost_extra += float((seconds * used.duty * below).sum())
        if self.n_gpus > 1 and self.synchronous:
            script.wait(self.peer_wait, self.waits_lost)
            if self.exposed:
                link = self.default_link()
                script.do(self.transfer_activity(link), self.exposed * self.step * working, self.collective_lost)
        for activity, seconds, lost in self.after:
            script.do(activity, seconds * working, lost)
        if self.n_gpus > 1 and self.synchronous and self.after:
            script.wait(self.peer_wait, self.waits_lost)
        idle = working[:, 0] == 0
        ends_early = self.last_step < self.n_steps
        loading = np.where(idle, 0, 0.55 * self.start_seconds)
        script.before = [
            (act.NO_CONTEXT, 0.3 * self.start_seconds),
            (act.LOADING, loading * np.where(self.late_seconds > 0, 0, 1)),
            (act.NO_CONTEXT._replace(name="late", leaf="idle.imbalance", cpu=0.03), self.late_seconds),
            (act.LOADING._replace(name="late_loading"), loading * np.where(self.late_seconds > 0, 1, 0)),
            (act.SETTING_UP, np.where(idle, 0, 0.15 * self.start_seconds)),
        ]
        script.after = [
            (act.SAVING._replace(name="last_saving"), np.where(idle | ends_early, 0, self.end_seconds)),
        ]
        return script
