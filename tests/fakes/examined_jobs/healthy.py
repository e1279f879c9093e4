"""Healthy jobs with ordinary imperfections."""

from collections.abc import Callable

import numpy as np

from tests.fakes.examined_jobs import activities as act
from tests.fakes.examined_jobs.draft import Draft

ALL_GPUS = (1, 2, 4, 8, 8, 16, 32, 64, 128)


def healthy_llm(draft: Draft) -> None:
    """Train a language model in step, with checkpoints now and then."""
    draft.choose(("llm",), ALL_GPUS)
    rng = draft.rng
    if rng.random() < 0.15:  # activations go to the host and come back behind the kernels
        speed = rng.uniform(0.05, 0.3) * draft.model.pcie_speed
        draft.work = [(kernel._replace(pcie_tx=speed, pcie_rx=speed), share) for kernel, share in draft.work]
    compiling = np.zeros((1, draft.n_steps))
    compiling[0, 1] = rng.uniform(0, 0.012) * draft.n_steps * draft.step
    draft.before.append((act.HOST_COMPUTES._replace(cpu=1.5), compiling, False))
    draft.add_ordinary_checkpoints()


def healthy_vision(draft: Draft) -> None:
    """Train on images: loaders keep cores busy and read, and a validation comes now and then."""
    draft.choose(("vision",), (1, 2, 4, 8, 8, 16))
    rate = draft.rng.uniform(2e7, 1.5e8)
    cores = draft.rng.uniform(3, 0.5 * draft.model.cores_per_node / draft.model.gpus_per_node)
    draft.work = [(kernel._replace(read=rate), share) for kernel, share in draft.work]
    draft.python_cores = cores
    validation = np.zeros((1, draft.n_steps))
    validation[0, :: max(40, draft.n_steps // 6)] = draft.step * draft.rng.uniform(4, 12)
    forward = draft.vary(act.CONVOLUTION, power=0.6)
    draft.after.append((forward._replace(duty=0.93), validation[:, :] * (np.arange(draft.n_steps) > 20), False))
    draft.add_ordinary_checkpoints()


def healthy_cfd(draft: Draft) -> None:
    """Solve flow on a grid with halos that are exchanged by short pauses between kernels."""
    draft.choose(("cfd",), ALL_GPUS)
    draft.exposed = 0.0
    draft.gaps = draft.rng.uniform(0.03, 0.08)


def healthy_md(draft: Draft) -> None:
    """Move molecules, with short gaps between kernels."""
    draft.choose(("md",), (1, 1, 2, 4, 8))
    draft.exposed = 0.0
    draft.gaps = draft.rng.uniform(0.03, 0.08)


def healthy_fp64(draft: Draft) -> None:
    """Solve linear systems in double precision."""
    draft.choose(("fp64",), (1, 4, 8, 16))
    draft.exposed = 0.0


def healthy_serving(draft: Draft) -> None:
    """Serve a language model: requests come in bursts, and 10 to 15 % of the time nobody asks."""
    draft.choose(("serving",), (1, 2, 4, 8))
    rng = draft.rng
    share = rng.uniform(0.05, 0.09)
    wait = (rng.exponential(1, (draft.n_gpus, draft.n_steps)) * share * draft.step).clip(0, 4.0)
    wait *= share * draft.step / wait.mean(axis=1, keepdims=True)  # all GPUs serve until the same moment
    draft.before.append((act.NOTHING._replace(cpu=1.0), wait, False))
    draft.gaps = rng.uniform(0.03, 0.05)
    draft.factor = rng.lognormal(0, 0.4, draft.factor.shape)
    draft.factor /= draft.factor.mean(axis=1, keepdims=True)


def healthy_diffusion(draft: Draft) -> None:
    """Make images, one batch after the other."""
    draft.choose(("diffusion",), (1, 1, 2, 4, 8))
    draft.factor /= draft.factor.mean(axis=1, keepdims=True)
    draft.add_ordinary_checkpoints()


def healthy_gnn(draft: Draft) -> None:
    """Train on graphs: kernels of all sizes, short gaps."""
    draft.choose(("gnn",), (1, 2, 4, 8))
    draft.python_cores = draft.rng.uniform(1, 6)


def healthy_moe(draft: Draft) -> None:
    """Train a mixture of experts: tokens are spread a little unevenly."""
    draft.choose(("moe",), (8, 16, 32))
    draft.factor *= 1 + draft.rng.uniform(0, 0.025, draft.factor.shape)
    draft.exposed = draft.rng.uniform(0.03, 0.08)


def healthy_pipeline(draft: Draft) -> None:
    """Train with a pipeline of so many micro-batches that its bubbles are short."""
    draft.choose(("llm",), (4, 8), step=(2, 15))
    draft.exposed = 0.0
    bubbles = draft.rng.uniform(0.02, 0.05) * draft.step
    position = np.arange(draft.n_gpus)[:, None] / (draft.n_gpus - 1)
    draft.before.append((draft.peer_wait, bubbles * position * np.ones((1, draft.n_steps)), False))
    draft.add_ordinary_checkpoints()


HEALTHY: dict[str, Callable[[Draft], None]] = {
    function.__name__: function
    for function in (
        healthy_llm,
        healthy_vision,
        healthy_cfd,
        healthy_md,
        healthy_fp64,
        healthy_serving,
        healthy_diffusion,
        healthy_gnn,
        healthy_moe,
        healthy_pipeline,
    )
}
