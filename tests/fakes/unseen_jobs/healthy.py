"""Programs that use their GPUs well, with the imperfections that such programs have: what is said against them is false.

None idles for more than about a tenth of its time, but a server, whose traffic has pauses; HPC codes have the gaps between
their many kernels, training a few percent of collectives that nothing hides, checkpoints of one or two percent.
"""

from collections.abc import Callable

import numpy as np

from tests.fakes.unseen_jobs.draft import Draft
from tests.fakes.unseen_jobs.machines import VIEWS
from tests.fakes.unseen_jobs.programs import (
    Loader,
    MpiCode,
    Training,
    at_steps,
    checkpoints,
    pipeline,
    run_mpi,
    serve,
    train,
)
from tests.fakes.unseen_jobs.timeline import Do
from tests.fakes.unseen_jobs.work import idle, mix


def llm_training(job: Draft) -> None:
    """Sharded training of a language model: most collectives lie under the compute; checkpoints of a percent."""
    step = job.log_uniform(0.8, 14)
    train(job, Training(
        job.catalogue.transformer(), step, exposed=job.uniform(0.01, 0.05), hidden=job.uniform(0.2, 0.6),
        between=job.uniform(0.005, 0.03), after=lambda n: checkpoints(job, n, job.uniform(0.003, 0.014), step),
    ))  # fmt: skip


def llm_at_power_limit(job: Draft) -> None:
    """The same, dense enough that the power limit lowers the clocks by some percent now and then, as it does on most of
    such GPUs: nothing that a user could or should change."""
    job.need(not job.machine.model.is_amd)
    step = job.log_uniform(1.0, 8)
    train(job, Training(
        job.catalogue.transformer().on_host(power=0.985), step, exposed=job.uniform(0.01, 0.04), reason=4,
        clock=lambda n: job.rng.uniform(0.93, 0.995, (n, 1)) * job.jitter(n, 0.004).clip(0.98, 1.004), sigma=0.004,
    ))  # fmt: skip


def fine_tuning(job: Draft) -> None:
    """LoRA or full fine-tuning on one node, evaluation on all GPUs every some hundred steps."""
    step = job.log_uniform(0.4, 3)
    evaluation = job.catalogue.decode()
    train(job, Training(
        job.catalogue.transformer(), step, exposed=job.uniform(0.01, 0.05), between=job.uniform(0.02, 0.06),
        after=lambda n: [Do(evaluation, at_steps(n, max(5, n // 6), 8 * step, job.rng))],
    ))  # fmt: skip


def vision_training(job: Draft) -> None:
    """Images, decoded by workers that keep up but for a batch now and then."""
    step = job.log_uniform(0.12, 0.6)
    wait = idle("idle.host", cores=3.0)
    train(job, Training(
        job.catalogue.convolutions(), step, exposed=job.uniform(0.01, 0.04), between=job.uniform(0.02, 0.05),
        loader=Loader(wait, 0.6 * 6, workers=6, queue=12, sigma=0.2), loading={"cores": 5.0, "net_rx": 1.2e8},
    ))  # fmt: skip


def diffusion(job: Draft) -> None:
    """Diffusion model, attention and convolutions; samples are drawn now and then."""
    step = job.log_uniform(0.5, 3)
    train(job, Training(
        mix((job.catalogue.transformer(), 0.75), (job.catalogue.convolutions(), 0.25)), step,
        exposed=job.uniform(0.01, 0.04), between=job.uniform(0.01, 0.04),
    ))  # fmt: skip


def graph_training(job: Draft) -> None:
    """Graph networks with sampling on the GPU: many kernels of middling size."""
    train(job, Training(job.catalogue.gather(), job.log_uniform(0.15, 0.8), exposed=job.uniform(0.02, 0.05),
                        between=job.uniform(0.05, 0.09), sigma=0.025))  # fmt: skip


def simulated_robots(job: Draft) -> None:
    """Reinforcement learning with the world on the GPU: rollout and update in turn."""
    world, update = job.catalogue.particles(), job.catalogue.convolutions()
    rollout = job.log_uniform(0.5, 4)
    train(job, Training(
        world, rollout, exposed=0.02, between=job.uniform(0.04, 0.08), sigma=0.01,
        before=lambda n: [Do(job.gappy(update, 0.04), job.uniform(0.3, 0.8) * rollout * job.jitter(n, 0.01))],
    ))  # fmt: skip


def language_server(job: Draft) -> None:
    """Inference that is busy: decode of many requests, prefills between, short pauses when the queue is empty."""
    prefill = job.catalogue.transformer()
    busy = job.gappy(mix((job.catalogue.decode(), 0.8), (prefill, 0.2)), job.uniform(0.02, 0.06))
    serve(job, job.uniform(0.92, 0.98), job.log_uniform(2, 20), busy, idle("idle.unexplained", cores=1.0, net_rx=1e5))


def batch_inference(job: Draft) -> None:
    """Embeddings of a large corpus by a model that is split over the GPUs."""
    busy = job.gappy(job.catalogue.transformer(), job.uniform(0.01, 0.05)).beside(cores=2.0, net_rx=2e7, to_gpu=2e8)
    serve(job, 0.99, job.log_uniform(1, 10), busy, idle("idle.host", cores=2.0))


def _hpc(job: Draft, work: str, step: tuple[float, float], between: tuple[float, float]) -> None:
    share = job.uniform(0.0, 0.012)
    length = job.log_uniform(*step)
    run_mpi(job, MpiCode(
        getattr(job.catalogue, work)(), length, between=job.uniform(*between), exchange=job.uniform(0.005, 0.03),
        after=lambda n: checkpoints(job, n, share, length),
    ))  # fmt: skip


def flow_solver(job: Draft) -> None:
    """CFD: a tenth of the time lies between its many kernels and reductions."""
    _hpc(job, "stencil", (0.3, 2.0), (0.045, 0.075))


def weather(job: Draft) -> None:
    """Stencils over fields, output every simulated hour."""
    _hpc(job, "stencil", (0.5, 4.0), (0.03, 0.07))


def molecular_dynamics(job: Draft) -> None:
    """Molecular dynamics: thousands of short steps a second, a few percent of gaps."""
    _hpc(job, "particles", (0.3, 1.0), (0.03, 0.05))


def lattice(job: Draft) -> None:
    """Lattice QCD: solvers at the speed of the memory."""
    _hpc(job, "stencil", (1.0, 6.0), (0.01, 0.04))


def chemistry(job: Draft) -> None:
    """Quantum chemistry in FP64, on GPUs that are made for it."""
    job.need(job.machine.model.has_strong_fp64)
    _hpc(job, "double", (1.0, 8.0), (0.02, 0.06))


def linpack(job: Draft) -> None:
    """HPL: FP64 on tensor cores, clocks a little below the maximum by the power limit."""
    job.need(
        job.machine.model.has_strong_fp64 and not job.machine.model.is_amd and job.machine.model.capability >= "8.0"
    )
    run_mpi(job, MpiCode(
        job.catalogue.linpack().on_host(power=0.98), job.log_uniform(1, 6), between=0.01, reason=4,
        exchange=job.uniform(0.005, 0.02),
        clock=lambda n: job.rng.uniform(0.9, 0.995, (n, 1)) * job.jitter(n, 0.004).clip(0.98, 1.004), sigma=0.003,
    ))  # fmt: skip


def matrix_products(job: Draft) -> None:
    """GEMM after GEMM on single GPUs: a benchmark or a burn-in."""
    job.need(job.view != "amd")
    clock = job.uniform(0.86, 0.97)
    n = job.n_steps(2.0, 1)
    job.start(min(10.0, 0.05 * job.length))
    job.steps([Do(job.catalogue.matrices().on_host(power=0.985), 2.0)], n, clock * job.jitter(n, 0.006), 4)
    job.finish(1.0)


def full_pipeline(job: Draft) -> None:
    """A pipeline with so many micro-batches that its bubble is 3 %."""
    stages = 2
    pipeline(job, stages, 40, job.log_uniform(0.05, 0.3), np.ones(stages), False, job.catalogue.transformer())


Maker = Callable[[Draft], None]
HEALTHY: dict[str, tuple[Maker, tuple[int, int], tuple[str, ...]]] = {
    "llm_training": (llm_training, (4, 64), VIEWS),
    "llm_at_power_limit": (llm_at_power_limit, (4, 64), VIEWS),
    "fine_tuning": (fine_tuning, (1, 8), VIEWS),
    "vision_training": (vision_training, (1, 32), VIEWS),
    "diffusion": (diffusion, (1, 32), VIEWS),
    "graph_training": (graph_training, (1, 8), VIEWS),
    "simulated_robots": (simulated_robots, (1, 8), VIEWS),
    "language_server": (language_server, (1, 8), VIEWS),
    "batch_inference": (batch_inference, (1, 16), VIEWS),
    "flow_solver": (flow_solver, (1, 64), VIEWS),
    "weather": (weather, (2, 64), VIEWS),
    "molecular_dynamics": (molecular_dynamics, (1, 8), VIEWS),
    "lattice": (lattice, (4, 64), VIEWS),
    "chemistry": (chemistry, (1, 32), VIEWS),
    "linpack": (linpack, (1, 32), VIEWS),
    "matrix_products": (matrix_products, (1, 8), VIEWS),
    "full_pipeline": (full_pipeline, (4, 32), VIEWS),
}
"""By name: the function, fewest and most GPUs, and the views in which it is drawn."""
