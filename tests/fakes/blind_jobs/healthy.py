"""Healthy programs: recipes with their physics, and jobs of them that are untidy in ordinary ways.

An ordinary loss is at most 15 % of the time between kernels, 10 % in collectives, and 4 % of anything else; the clock that
the power limit leaves to a program that draws all there is (84 to 96 % of the highest) is none.
"""

from collections.abc import Callable

import numpy as np

from tests.fakes.blind_jobs.draft import Draft, Insert, Recipe
from tests.fakes.blind_jobs.phases import (
    ON_ONE_CORE,
    PAUSE,
    Phase,
    double_work,
    memory_work,
    other_work,
    reading,
    tensor_work,
    writing,
)

DGEMM = Phase("working.fp64", 0.99, sm=0.95, occupancy=0.16, tensor=0.78, dfma=0.78, fp64=0.03, dram=0.28, power=1.0,
              integer=0.05, cores=1.0)  # fmt: skip
"""DGEMM runs on the tensor cores' FP64."""

RECIPES: dict[str, Recipe] = {
    "dense_llm": Recipe(
        "Pre-training: matrix products of layers, then optimizer; gradients are reduced under the backward pass but for "
        "some per cent. H100s draw 90-100 % of their limit and run at 1.6-1.9 of 1.98 GHz.",
        ((tensor_work(0.55, 0.36, 1.0), 0.93), (memory_work(0.72, 0.72), 0.07)),
        (0.7, 12), 0.04, hot=True, memory=(0.6, 0.94),
    ),
    "moe_llm": Recipe(
        "Mixture of experts: all-to-alls stay visible between expert layers, 6-9 % of a step; smaller products.",
        ((tensor_work(0.41, 0.4, 0.86, occupancy=0.24), 0.95), (memory_work(0.7, 0.66), 0.05)),
        (0.5, 6), 0.075, memory=(0.6, 0.94), jitter=0.008,
    ),
    "fine_tuning": Recipe(
        "Supervised fine-tuning with fully sharded data parallelism and activation checkpointing.",
        ((tensor_work(0.47, 0.38, 0.92, pcie_rx=4e7), 1.0),), (1.0, 8), 0.05, memory=(0.5, 0.9), jitter=0.01, most_gpus=16,
    ),
    "vision": Recipe(
        "Image classification in mixed precision, steps of 0.1-0.4 s, decoded images ready in time; loaders keep many cores "
        "busy. Convolutions and batch norms are bound by memory half of the time.",
        ((tensor_work(0.34, 0.47, 0.8, occupancy=0.36, engine=0.965, pcie_rx=1.1e9, cores=7.0, net_rx=1.3e8), 1.0),),
        (0.1, 0.4), 0.03, memory=(0.25, 0.8),
    ),
    "diffusion": Recipe(
        "Image generation: attention and convolutions of a U-Net or transformer, an image decoder at the end.",
        ((tensor_work(0.5, 0.4, 0.94), 0.92), (memory_work(0.66, 0.7), 0.08)), (1.5, 9), 0.0, "",
        memory=(0.25, 0.7), most_gpus=8,
    ),
    "cfd": Recipe(
        "Finite volumes in FP64: kernels bound by bandwidth; halos are exchanged over MPI in some per cent of a step.",
        ((memory_work(0.76, 0.62, engine=0.91, fp64=0.14, fp32=0.0), 1.0),), (0.02, 0.4), 0.0, "block", jitter=0.008,
    ),
    "stencil": Recipe(
        "Seismic imaging: FP32 stencils of high order in a queue of kernels, halos over NVLink under the interior's work.",
        ((memory_work(0.8, 0.72, fp32=0.2, occupancy=0.34), 1.0),), (0.01, 0.1), 0.02,
    ),
    "molecular_dynamics": Recipe(
        "Molecular dynamics: kernels of 20-200 us for pairs, bonds and mesh, launch-bound by nature (8-14 % gaps), a core "
        "of the host drives each GPU.",
        ((other_work(0.3, 0.16, 0.66, engine=0.885, cores=1.0), 1.0),), (0.02, 0.08), 0.0, "", memory=(0.03, 0.2),
        most_gpus=8,
    ),
    "lattice_qcd": Recipe(
        "Conjugate gradients of a Dirac operator: bound by bandwidth, reductions and halos in some per cent.",
        ((memory_work(0.72, 0.66, fp32=0.13, engine=0.94), 1.0),), (0.3, 3), 0.05,
    ),
    "linpack": Recipe(
        "HPL: DGEMM on the FP64 tensor cores at the power limit, panels in between.",
        ((DGEMM, 0.96), (memory_work(0.6, 0.6, fp64=0.1), 0.04)), (2, 15), 0.02, hot=True, memory=(0.8, 0.95),
        views=("full", "gpm", "nvml", "amd"),
    ),
    "dgemm_batches": Recipe(
        "Electronic structure: batched DGEMMs and FFTs in FP64.",
        ((DGEMM, 0.72), (double_work(0.3, 0.62, 0.7, engine=0.95), 0.28)), (1, 10), 0.03, "spin", memory=(0.4, 0.9),
        most_gpus=16, views=("full", "gpm", "nvml"),
    ),
    "batched_inference": Recipe(
        "Offline generation with full batches: prefill bound by the tensor cores, decoding by bandwidth; a scheduler on the "
        "host leaves gaps of 4-6 % between decoding steps.",
        ((tensor_work(0.56, 0.3, 0.98), 0.18), (memory_work(0.66, 0.58, engine=0.945, tensor=0.07, occupancy=0.22), 0.82)),
        (2, 12), 0.0, "", memory=(0.82, 0.945), most_gpus=8,
    ),
    "embedding": Recipe(
        "Embedding of documents: forward passes of an encoder, full batches, tokens prepared ahead.",
        ((tensor_work(0.58, 0.33, 0.97, engine=0.96, pcie_rx=8e7, cores=3.0), 1.0),), (0.1, 0.6), 0.0, "", hot=True,
        memory=(0.1, 0.5), most_gpus=8,
    ),
    "graph_network": Recipe(
        "A graph network: sampled neighbourhoods gathered from device memory, sparse and irregular, gaps of 8-10 %.",
        ((memory_work(0.5, 0.5, engine=0.91, fp32=0.12, tensor=0.05, integer=0.25, occupancy=0.45, cores=5.0), 1.0),),
        (0.05, 0.5), 0.03, memory=(0.2, 0.8), most_gpus=16,
    ),
    "recommender": Recipe(
        "A recommender: embedding tables in device memory, all-to-alls of 7-9 %, small dense layers.",
        ((memory_work(0.6, 0.58, tensor=0.12, fp32=0.1, cores=4.0, net_rx=9e7), 1.0),), (0.05, 0.4), 0.08,
        memory=(0.7, 0.93), most_gpus=32,
    ),
    "genome_alignment": Recipe(
        "Alignment of reads: dynamic programming in integers, a few cores feed it, reads stream from disk in time.",
        ((other_work(0.02, 0.2, 0.7, engine=0.93, integer=0.52, occupancy=0.55, cores=6.0, read=1.2e8, pcie_rx=2e8), 1.0),),
        (0.5, 5), 0.0, "", memory=(0.3, 0.8), most_gpus=4,
    ),
    "climate": Recipe(
        "A climate model: dozens of kernels per time step bound by bandwidth in FP64, halos every step, little I/O.",
        ((memory_work(0.66, 0.56, engine=0.9, fp64=0.12, fp32=0.02), 0.8),
         (double_work(0.3, 0.4, 0.6, engine=0.9), 0.2)), (0.1, 0.8), 0.0, "block", memory=(0.2, 0.7), jitter=0.009,
    ),
    "particle_in_cell": Recipe(
        "Plasma: particles pushed in FP32, currents deposited with atomics; neighbours exchange particles.",
        ((other_work(0.34, 0.46, 0.7, engine=0.94), 0.75), (memory_work(0.7, 0.62), 0.25)), (0.1, 1), 0.03, "spin",
    ),
    "monte_carlo": Recipe(
        "Transport by Monte Carlo: divergent kernels in FP32, long, independent ranks.",
        ((other_work(0.27, 0.22, 0.6, engine=0.97, sm=0.9, occupancy=0.3), 1.0),), (0.5, 8), 0.0, "",
    ),
    "rendering": Recipe(
        "Ray tracing of frames, each GPU its own, geometry resident.",
        ((other_work(0.3, 0.35, 0.82, engine=0.955), 1.0),), (1, 20), 0.0, "", memory=(0.2, 0.8), most_gpus=8,
    ),
    "speech": Recipe(
        "Speech recognition training: batches of similar lengths from buckets, so little padding and little waiting.",
        ((tensor_work(0.4, 0.42, 0.84, engine=0.96, cores=4.0, net_rx=4e7), 1.0),), (0.2, 1.2), 0.04, memory=(0.5, 0.9),
        jitter=0.014, most_gpus=32,
    ),
    "protein_folding": Recipe(
        "Structure prediction: attention over pairs, bound by memory and tensor cores in turns.",
        ((tensor_work(0.36, 0.3, 0.8), 0.55), (memory_work(0.74, 0.66), 0.45)), (2, 20), 0.02, memory=(0.4, 0.95),
        most_gpus=16,
    ),
}  # fmt: skip


def _ordinary(name: str) -> Callable[[Draft], None]:
    def make(job: Draft) -> None:
        job.start()
        job.run(RECIPES[name])
        job.finish()

    return make


def _rare_checkpoints(job: Draft) -> None:
    """Training that writes its state seldom: 1 to 2.5 % of the time, seconds to half a minute each."""
    recipe = RECIPES[str(job.rng.choice(["dense_llm", "speech", "protein_folding"]))]
    step = job.step_seconds(recipe)
    target, share = str(job.rng.choice(["disk", "network"])), job.uniform(0.01, 0.025)
    period = max(job.seconds / job.uniform(2, 5), 20 * step)
    saves = job.now_and_then(step, share * period, period)
    job.start()
    job.run(recipe, [Insert(writing(target, job.log_uniform(2e8, 1.5e9)), saves, "end")], step)
    job.finish()


def _validates(job: Draft) -> None:
    """Vision training with validation: forward passes alone draw less power, and between both lie short pauses on a core."""
    recipe = RECIPES["vision"]
    job.start()
    for _ in range(int(job.rng.integers(2, 5))):
        job.run(recipe, seconds=0.85 * job.seconds / 4)
        test = recipe._replace(
            parts=((recipe.parts[0][0]._replace(power=0.66, tensor=0.3, pcie_rx=2e9), 1.0),), comm=0.0
        )
        seconds, step = 0.12 * job.seconds / 4, max(0.3, 0.002 * job.seconds)
        pauses = np.zeros((1, max(1, round(seconds / step))))
        pauses[0, 0] = job.uniform(0.002, 0.006) * job.seconds / 4
        job.run(test, [Insert(ON_ONE_CORE, pauses)], step, seconds)
    job.finish()


def _serving(job: Draft) -> None:
    """A service under good load: requests overlap, and for 10 to 13 % of the time none is there, a tenth of a second each;
    load comes in waves."""
    decode = memory_work(0.55, 0.52, engine=0.955, tensor=0.09, occupancy=0.22)
    recipe = Recipe(
        "", ((tensor_work(0.5, 0.3, 0.95), 0.15), (decode, 0.85)), (0.4, 1.2), 0.0, "", (0.85, 0.945), jitter=0.2
    )
    step = job.step_seconds(recipe)
    lull = step * job.uniform(0.06, 0.085) * job.rng.exponential(1.0, (job.n_gpus, job.n_steps(step))).clip(0, 4)
    job.start()
    job.run(recipe, [Insert(PAUSE._replace(leaf="idle.between_kernels", cores=0.6), lull)], step)
    job.finish()


def _overlapped_rl(job: Draft) -> None:
    """Reinforcement learning whose generation and training run side by side, asynchronously: half of the GPUs decode, half
    train, and weights are sent over in a per cent or two of the time."""
    trains = RECIPES["fine_tuning"].parts[0][0]
    decodes = memory_work(0.6, 0.56, engine=0.95, tensor=0.08, occupancy=0.22)
    half = job.n_gpus // 2
    recipe = Recipe("", ((trains, 0.5), (decodes, 0.5)), (6, 20), 0.015, "spin", (0.6, 0.93), 0.004)
    load = job.column(range(half), 1.0)
    step = job.step_seconds(recipe)
    job.start()
    rounds = job.run(recipe, step=step)
    for number, mine in ((0, load), (1, 1 - load)):
        phase, seconds, lost = rounds.rows[number]
        rounds.rows[number] = (phase, 2 * seconds * mine, lost)
    del rounds.rows[2:]
    rounds.meet(job.spin())
    rounds.do(job.transfer(), 0.015 * step)
    job.finish()


def _streams_files(job: Draft) -> None:
    """Training on a stream from a parallel filesystem with good prefetching: much is read all the time, and 1 to 2 % of the
    time it is late."""
    recipe = RECIPES["vision"]
    fast = recipe.parts[0][0]._replace(net_rx=4e8 / max(1, job.n_gpus // job.n_nodes) + 1e8)
    step = job.step_seconds(recipe)
    late = job.now_and_then(step, job.uniform(0.01, 0.02) * 10 * step, 10 * step, 1.0)
    job.start()
    job.run(recipe._replace(parts=((fast, 1.0),)), [Insert(reading("network", 5e8), late)], step)
    job.finish()


HEALTHY: dict[str, tuple[Callable[[Draft], None], tuple[int, int], tuple[str, ...]]] = {
    **{
        f"healthy_{name}": (_ordinary(name), (1, recipe.most_gpus), recipe.views)
        for name, recipe in RECIPES.items()
    },
    **{
        f"healthy_{make.__name__.strip('_')}": (make, gpus, ("full", "exporter", "imported", "gpm", "nvml", "amd"))
        for make, gpus in (
            (_rare_checkpoints, (1, 32)),
            (_validates, (1, 16)),
            (_serving, (1, 8)),
            (_overlapped_rl, (4, 16)),
            (_streams_files, (1, 16)),
        )
    },
}  # fmt: skip
"""Healthy kinds: how each is made, with how many GPUs, and in which views."""
