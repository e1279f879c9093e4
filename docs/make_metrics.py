"""Writes docs/metrics.md from the catalogue: run it after every change to gssr/metrics.py or gssr/score.py."""

from collections.abc import Iterable
from pathlib import Path

from gssr.metrics import CLOCK_EVENT_REASONS, DERIVED, METRICS, Metric
from gssr.score import ALPHA, BETA, CAVEAT, DEFINITION, GAMMA, LAMBDA, score

PAGE = Path(__file__).with_name("metrics.md")

INTRODUCTION = """\
# Metrics

<!-- Made from the catalogue by docs/make_metrics.py: change that, not this. -->

The names below are the columns of `samples`, the keys of `analyze --json` and the values `--metrics` takes. Ratios are
stored as 0-1; percent exists only on screen. A value that was not measured is NULL, never 0. From Python they are
`gssr.METRICS`:

    >>> import gssr
    >>> [metric.unit for metric in gssr.METRICS if metric.name == "power_usage"]
    ['W']
"""

MEANING = """
## What they mean

A *gauge* is a state at the sample's time or averaged up to it, a *rate* is per second, of a *counter* only the differences
mean something, *bits* are a set of flags.
"""

SOURCES = """
## Where they come from

Field ids of NVIDIA DCGM and metric ids of NVML's GPM (Hopper and newer), each with the factor that turns its value into the
unit stored here.
"""

DERIVATION = """
## Derived

Computed from others and never stored, but shown like metrics everywhere.
"""

REASONS = """
## Clock event reasons

The flags of `clock_event_reasons`. Summaries give the share of samples in which each was set.
"""

SCORE = """
## Score

    {definition}

One number between 0 and 1 for how well the GPU's compute is used. *A* is the mean of `sm_active`, *F* that of
`flop_active`, *O* that of `sm_occupancy`; a = {alpha}, b = {beta}, c = {gamma},
l = {lambda_}. Formula and parameters are the GSSR authors', fitted on synthetic data and published with
their code.

It is **{caveat}**.

The score of a window comes from the means over all its samples of all GPUs that are not NULL, *F* being the sum of its four
means; that of a GPU from its own means over time. It is unknown when one of its inputs has no samples: without profiling
metrics (DCGM or GPM) there is no score.

    >>> from gssr.score import score
    >>> round(score(sm_active=0.5, flop_active=0.1, sm_occupancy=0.3), 6)
    0.247374
"""

CHECKS = ((1.0, 1.0, 1.0), (0.5, 0.1, 0.3), (0.8, 0.4, 0.5), (0.9, 0.02, 0.6), (0.0, 0.4, 0.5))


def page() -> str:
    """The text of docs/metrics.md."""
    parts = [INTRODUCTION, MEANING]
    parts.append(
        table(
            ("Metric", "Unit", "Kind", "What it means", "What it does not mean"),
            ((f"`{m.name}`", unit(m), m.kind, m.meaning, m.pitfalls) for m in METRICS),
        )
    )
    parts.append(SOURCES)
    parts.append(
        table(
            ("Metric", "On screen", "DCGM", "GPM", "Source"),
            (
                (f"`{m.name}`", m.label, scaled(m.dcgm, m.dcgm_factor), scaled(m.gpm, m.gpm_factor), m.source)
                for m in METRICS
            ),
        )
    )
    parts.append(DERIVATION)
    parts.append(
        table(
            ("Metric", "Unit", "Sum of", "What it means", "What it does not mean", "Source"),
            (
                (f"`{m.name}`", unit(m), ", ".join(f"`{part}`" for part in m.parts), m.meaning, m.pitfalls, m.source)
                for m in DERIVED
            ),
        )
    )
    parts.append(REASONS)
    parts.append(
        table(
            ("Bit", "Name", "Meaning"), ((f"{bit:#05x}", f"`{name}`", text) for bit, name, text in CLOCK_EVENT_REASONS)
        )
    )
    parts.append(
        SCORE.format(definition=DEFINITION, alpha=ALPHA, beta=BETA, gamma=GAMMA, lambda_=LAMBDA, caveat=CAVEAT)
    )
    parts.append(table(("A", "F", "O", "Score"), ((*map(str, c), f"{score(*c):.6f}") for c in CHECKS)))
    return "".join(parts)


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """A Markdown table."""
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n" + "".join("| " + " | ".join(line) + " |\n" for line in lines)


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
