"""Writes docs/metrics.md from the catalogue: run it after every change to gssr/metrics.py or gssr/score.py."""

from pathlib import Path
from textwrap import wrap

from marked_parts import table

from gssr.gpu_vendors import AMD, say
from gssr.metrics import BY_NAME, CLOCK_EVENT_REASONS, DERIVED, METRICS, Metric
from gssr.score import ALPHA, BETA, CAVEAT, DEFINITION, GAMMA, LAMBDA, saturation_score
from tests.fakes.jobs.healthy import WORK

PAGE = Path(__file__).with_name("metrics.md")

PROGRAMS = {
    "llm": "training of a language model", "vision": "training on images", "inference": "inference of a language model",
    "solver": "dense linear algebra in FP64", "dynamics": "molecular dynamics in FP32", "stencil": "stencil in FP64",
    "graph": "graph analysis",
}  # fmt: skip
"""Simulated healthy jobs whose scores are shown, and what they are called."""

INTRODUCTION = """\
# Metrics

<!-- Made from the catalogue by docs/make_metrics.py: change that, not this. -->

What GSSR measures of each GPU: what each metric means, what it does not mean, what is [ordinary for SM
active](#what-is-ordinary-for-sm-active), where the values come from, and how the [score](#score) is made of them.

The names are the columns of the table `samples` in a recording, the keys of `gssr analyze --json` and the values of
`gssr profile --metrics`. Ratios are stored as 0-1, and shown as percentages. A value that was not measured is NULL, never 0.
In Python:

    >>> import gssr
    >>> [metric.unit for metric in gssr.METRICS if metric.name == "power_usage"]
    ['W']
"""

MEANING = """
## What they mean

An *SM* (streaming multiprocessor) is one of the GPU's processors; an H100 has 132. It runs threads in groups of 32, the
*warps*. A *pipe* is the part of an SM for one kind of arithmetic: FP64, FP32 and FP16 are floating-point numbers of 64, 32
and 16 bits, and the *tensor cores* multiply matrices. A *kernel* is a function that runs on the GPU. *DRAM* is the GPU's own
memory. *PCIe* connects GPU and host, *NVLink* the GPUs with each other, and *C2C* a GPU with the Grace CPU beside it.
*MIG* divides one GPU into several smaller ones.

In the column *Kind*, a *gauge* is a state at the time of the sample, or averaged up to it; a *rate* is per second; of a
*counter* only differences mean something; *bits* are flags.
"""

ORDINARY = """
## What is ordinary for SM active
"""
GUIDE = "https://docs.nvidia.com/datacenter/dcgm/latest/user-guide/feature-overview.html"
ACME = "[Characterization of Large Language Model Development in the Datacenter](https://arxiv.org/abs/2403.07648)"
SM_ACTIVE = (
    (
        "80 % or more",
        'is "necessary, but not sufficient, for effective use of the GPU"',
        f"NVIDIA, [DCGM user guide]({GUIDE}), profiling metrics",
    ),
    ("below 50 %", '"likely indicates ineffective GPU usage"', "the same"),
    (
        "about 40 %",
        "is the median in two clusters on which language models were developed, in 2023; GPU utilization had a median of "
        "97 and 99 % there",
        f"Hu et al., {ACME}, NSDI 2024",
    ),
    ("about 20 %", "is the median in PAI, a cluster of Alibaba for deep learning of many kinds", "quoted there"),
)
"""Published values of SM active: which, what is said of them, and by whom."""
SIMULATED = "is what steps of healthy jobs of seven kinds have, without start-up and waits: **simulated**, not measured"
ORDINARY_MEANS = """
So in these clusters at least half of the values lay where NVIDIA calls the use likely ineffective: what is usual is less
than what is possible. A low value says that SMs have no work; it does not say why. The
[breakdown](verdicts.md#where-the-gpu-time-goes) tells waiting from kernels that are too small, and says how much of each is
ordinary. The mean of a whole job is lower than that of its steps, because it includes start-up and waits.
"""

SOURCES = """
## Where they come from

DCGM (Data Center GPU Manager) is a service of NVIDIA's that runs on the node. NVML is the library of NVIDIA's driver, and
GPM (GPU performance monitoring) its part that reads the same hardware counters as DCGM, on Hopper and newer. The table has
the ids of DCGM's fields and of GPM's metrics, with the factor that gives the stored unit. [Which of the two is
taken](profile.md#dcgm-or-gpm).
"""

ON_AMD = """
## On AMD's GPUs

The table has the fields of the file `gpu_metrics` in which AMD's driver says how each GPU does (backend `amd`), or files
beside it, with their factors. Columns and keys have the names above. Pages and screens use AMD's words: *{nvlink}* for
`nvlink_tx_bytes`, *{clock}* for `sm_clock`, and CUs (compute units) for SMs. All this follows the driver's source and has
not been checked on hardware.
"""

NOT_ON_AMD = """
Never measured: {never}. So there is no score. The rules judge by utilization and by power against its limit, as
with NVML alone.
"""

DERIVATION = """
## Derived

These metrics are computed from others. They are never stored, but shown like metrics.
"""

REASONS = """
## Clock event reasons

These are the flags of `clock_event_reasons`: they say why the clocks are where they are. Summaries give the share of
samples in which each flag is set.
"""

SCORE = """
## Score

The score is one number from 0 to 1 for how full the GPU's compute units are. It is
**{caveat}**.
Three means go into it: *A* of `sm_active`, *F* of `flop_active` and *O* of `sm_occupancy`, over all samples of all GPUs in
the window that have a value. Start-up and waits are included (`-d leading` leaves start-up out). The score of a single GPU
is made of its own samples.

![The score by F: from F 0.3 on four curves for four values of O are one line](../screenshots/score.png)

**How it behaves.** *F* is a sum over four kinds of pipes: FP64, FP32, FP16 and tensor. With one of them full all the time it
is 1, and the score at most 0.913. Only programs that keep several kinds busy at once come nearer to 1.

*A* matters only below 0.3: with F 0.48 and O 0.21 an SM activity of 0.1, 0.2, 0.3 and 1 gives a score of 0.53, 0.62, 0.63
and 0.63. With *A* at 0.8 the score is:

| F | O = 0.1 | O = 0.3 | O = 0.6 | O = 1 |
| --- | --- | --- | --- | --- |
| 0 | 0.10 | 0.30 | 0.55 | 0.77 |
| 0.05 | 0.13 | 0.25 | 0.40 | 0.58 |
| 0.1 | 0.19 | 0.25 | 0.34 | 0.45 |
| 0.15 | 0.25 | 0.28 | 0.33 | 0.39 |
| 0.2 | 0.31 | 0.33 | 0.36 | 0.39 |
| 0.3 | 0.44 | 0.44 | 0.45 | 0.46 |
| 0.5 | 0.65 | 0.65 | 0.65 | 0.65 |
| 1 | 0.91 | 0.91 | 0.91 | 0.91 |

From F 0.3 on the score says how busy the arithmetic pipes are, and nothing else. Below that, occupancy matters, too. If
occupancy is high, the score even *falls* when a program begins to do more arithmetic (from F 0 to about 0.15). So do not
tune for the score: remove what the [breakdown](verdicts.md#where-the-gpu-time-goes) calls lost. Less idle time raises all
three means, and the score with them wherever F is above 0.15.

**What raises it**: less time in which GPUs wait, and pipes that are active for more of the time. **What can't**: a higher
SM activity above 0.3, and higher occupancy from F 0.3 on. A program that is limited by memory stays low, however well it is
written. `gssr analyze -v high` says of a run what a tenth more of each input alone would do.

**What programs reach**: the table shows steps of healthy jobs in a simulator (`tests/fakes/jobs/healthy.py`); these are
also the points in the picture. The simulator's author took these values as usual for such programs. They are not
measured: no public recording of these counters for such a program was found. Start-up and waits make the score of a whole
run lower.
{typical}
A large matrix product (GEMM) that keeps the tensor cores active for 80 or 95 % of the time has a score of {gemm}. One
published figure of real GPUs says something about F: training with NVIDIA's
[Megatron-Core](https://github.com/NVIDIA/Megatron-LM) does up to 47 % of the arithmetic that H100s could do (this share
is called MFU, model FLOP utilization). So F is at least 0.47 there, and the score at least {megatron}. A score of 0.35
can be all that a stencil reaches, and is about half of what such training reaches. So no score is a grade, and scores of
different programs can't be compared.

If an input is missing (neither DCGM nor GPM, or an AMD GPU), there is no score.

**The formula** and its parameters were published by the GSSR authors, who fitted them on synthetic data:

    {definition}

with a = {alpha}, b = {beta}, c = {gamma}, l = {lambda_}. *F* is the sum of four means.

    >>> from gssr.score import saturation_score
    >>> round(saturation_score(sm_active=0.5, flop_active=0.1, sm_occupancy=0.3), 6)
    0.247374
"""

EFFICIENCIES = """
## Efficiencies

    parallel efficiency = load balance × communication × orchestration

The efficiencies are three ratios from 0 to 1. Their product is the share of the measured GPU time in which the GPUs work,
and they tell which of three things to mend first. Work at lower clocks and on few SMs counts as work here, so where there
is any the product is larger than what the page says "computes". The page shows the efficiencies below the
[breakdown](verdicts.md#where-the-gpu-time-goes), the JSON object as `efficiency` of `breakdown`. Let *C* be the time in
which a GPU computes (all of `working` in the breakdown), and *B* the time in which it computes or communicates (`working`
and `communication`), both as shares of the time in which that GPU was measured.

| Name | What it is | What it says when it is low |
| --- | --- | --- |
| `load_balance` | mean of *C* over the GPUs / largest *C* | some GPUs compute much longer than others |
| `communication` | largest *C* / largest *B* | the GPUs communicate while nothing computes |
| `orchestration` | largest *B* | the host leaves even the busiest GPU without work |
| `parallel` | their product: the mean of *C* | |

They follow the efficiencies of POP (the Performance Optimisation and Productivity centre of excellence), as the tool TALP
computes them for GPUs (arXiv 2603.26576). GSSR's differ from TALP's:

- TALP watches the calls of a program from within. GSSR computes them from samples of counters, so they are as uncertain
  as the breakdown, and need nothing of the program.
- Computing is all of `working`, kernels too small for a GPU and what lower clocks cost included. Communication is collective
  kernels. A GPU that waits for a copy is idle, so copies lower orchestration.
- They are computed by GPU, not by process: several ranks on one GPU count as one.
- Only time that was measured counts. GPUs that did nothing, start-up and end count as time without work.

The efficiencies are unknown (`null`) if nothing was measured or no GPU computed.

    >>> from gssr.model.breakdown.result import Efficiency
    >>> round(Efficiency(load_balance=0.8, communication=0.9, orchestration=0.95).parallel, 2)
    0.68
"""

CHECKS = ((1.0, 1.0, 1.0), (0.5, 0.1, 0.3), (0.8, 0.4, 0.5), (0.9, 0.02, 0.6), (0.0, 0.4, 0.5))


def page() -> str:
    """The text of docs/metrics.md."""
    parts = [INTRODUCTION, MEANING]
    parts.append(
        "\n"
        + table(
            ("Metric", "Unit", "Kind", "What it means", "What it does not mean"),
            ((f"`{m.name}`", unit(m), m.kind, m.meaning, m.pitfalls) for m in METRICS),
        )
    )
    activities = [inputs_of(name)[0] for name in PROGRAMS]
    simulated = f"{100 * min(activities):.0f} to {100 * max(activities):.0f} %"
    rows = (*SM_ACTIVE, (simulated, SIMULATED, "[what programs reach](#score)"))
    parts += [ORDINARY, "\n", table(("SM active", "What is said of it", "Source"), rows), ORDINARY_MEANS]
    parts.append(SOURCES)
    parts.append(
        "\n"
        + table(
            ("Metric", "On screen", "DCGM", "GPM", "Source"),
            (
                (f"`{m.name}`", m.label, scaled(m.dcgm, m.dcgm_factor), scaled(m.gpm, m.gpm_factor), m.source)
                for m in METRICS
            ),
        )
    )
    nvlink, clock = (say(AMD, BY_NAME[name].label) for name in ("nvlink_tx_bytes", "sm_clock"))
    parts.append(ON_AMD.format(nvlink=nvlink, clock=clock))
    parts.append(
        "\n"
        + table(
            ("Metric", "Source", "What differs there"),
            ((f"`{m.name}`", m.amd.source, m.amd.differs or "–") for m in METRICS if m.amd),
        )
    )
    never = ", ".join(f"`{m.name}`" for m in METRICS if not m.amd)
    parts += ["\n", *(f"{line}\n" for line in wrap(NOT_ON_AMD.format(never=never).strip(), 128))]
    parts.append(DERIVATION)
    parts.append(
        "\n"
        + table(
            ("Metric", "Unit", "Sum of", "What it means", "What it does not mean", "Source"),
            (
                (f"`{m.name}`", unit(m), ", ".join(f"`{part}`" for part in m.parts), m.meaning, m.pitfalls, m.source)
                for m in DERIVED
            ),
        )
    )
    parts.append(REASONS)
    parts.append(
        "\n"
        + table(
            ("Bit", "Name", "Meaning"), ((f"{bit:#05x}", f"`{name}`", text) for bit, name, text in CLOCK_EVENT_REASONS)
        )
    )
    typical = "\n" + table(("Program", "A", "F", "O", "Score"), map(_typical, PROGRAMS.items()))
    gemm = " and ".join(f"{saturation_score(1.0, tensor, 0.1):.2f}" for tensor in (0.8, 0.95))
    megatron = f"{saturation_score(1.0, 0.47, 0.1):.2f}"
    constants = {"alpha": ALPHA, "beta": BETA, "gamma": GAMMA, "lambda_": LAMBDA}
    parts.append(
        SCORE.format(definition=DEFINITION, caveat=CAVEAT, typical=typical, gemm=gemm, megatron=megatron, **constants)
    )
    parts.append(
        "\n" + table(("A", "F", "O", "Score"), ((*map(str, c), f"{saturation_score(*c):.6f}") for c in CHECKS))
    )
    parts.append(EFFICIENCIES)
    return "".join(parts)


def inputs_of(name: str) -> tuple[float, float, float]:
    """The inputs A, F and O of the score in a steady step of a simulated healthy job of this kind."""
    kind = WORK[name]
    return kind.sm, kind.fp64 + kind.fp32 + kind.fp16 + kind.tensor, kind.occupancy


def _typical(program: tuple[str, str]) -> tuple[str, ...]:
    name, called = program
    inputs = inputs_of(name)
    return (called, *(f"{value:.2f}" for value in inputs), f"{saturation_score(*inputs):.2f}")


def unit(metric: Metric) -> str:
    """The unit as a reader writes it."""
    return "ratio" if metric.unit == "1" else metric.unit


def scaled(number: int | None, factor: float) -> str:
    """An id of the driver with the factor of its values; a dash where there is none."""
    if number is None:
        return "–"
    return str(number) if factor == 1 else f"{number} × {'2^20' if factor == 1 << 20 else f'{factor:g}'}"


if __name__ == "__main__":
    PAGE.write_text(page())
