"""What the last run on each GPU came to, as text for Prometheus: the score, the time by category, the means. No line has a
time, so that a Pushgateway or node_exporter's textfile collector takes it.

As in an OpenMetrics export, a series is known by its GPU, and an info metric says which run that was: a server keeps as many
series as there are GPUs, however many runs follow each other. The names differ from those there, because these values stay
when the next job has the GPU.
"""

from collections.abc import Iterator, Sequence
from typing import BinaryIO

from gssr.convert.openmetrics import run_labels
from gssr.metrics import BY_NAME
from gssr.model.analyze import Options, analyze
from gssr.model.breakdown.categories import CATEGORIES
from gssr.model.verdicts.table import RuleTable
from gssr.prometheus import FAMILIES, GPU_LABELS, RUN_END, RUN_INFO, Family, labels
from gssr.store.read.recording import RunReader

_PREFIX = "gssr_last_run"
_INFO = RUN_INFO._replace(name=_PREFIX, help="The last run or job on this GPU that was exported; always 1.")
_END = RUN_END._replace(name=f"{_PREFIX}_end_timestamp_seconds")
_SCORE = Family(f"{_PREFIX}_score", "", "gauge", "Score of the last run on this GPU: 0 is idle, 1 saturated.", 1.0)
_TIME = Family(
    f"{_PREFIX}_gpu_time_seconds", "seconds", "gauge", "What this GPU's time went to in its last run, by category.", 1.0
)
_MEANS = {
    name: family._replace(
        name=f"{_PREFIX}_mean_{family.name.removeprefix('gssr_')}", help=f"Mean of this GPU's last run. {family.help}"
    )
    for name, family in FAMILIES.items()
    if BY_NAME[name].kind in ("gauge", "rate")
}
"""Of every metric that has a mean, by its name in the catalogue."""
_Line = tuple[Family, dict[str, object], float]
"""A metric of the text, the labels of a value, and the value."""


def write(runs: Sequence[RunReader], rules: RuleTable, stream: BinaryIO) -> int:
    """Write the last run on each GPU; what is unknown has no line. ``rules`` judge the runs. Returns how many runs are left
    out because they have no samples, or because later ones had all of their GPUs. Raises OSError and RecordingError."""
    lines: dict[Family, list[str]] = {}
    last = _last_on_each_gpu(runs)
    for reader, positions in last.items():
        for family, about, value in _lines(reader, rules, positions):
            lines.setdefault(family, []).append(f"{family.sample}{labels(about)} {value!r}\n")
    for family, own in lines.items():
        stream.write(f"# HELP {family.sample} {family.help}\n# TYPE {family.sample} gauge\n".encode())
        stream.write("".join(own).encode("utf-8", "backslashreplace"))
    return len(runs) - len(last)


def _last_on_each_gpu(runs: Sequence[RunReader]) -> dict[RunReader, list[int]]:
    """Find the run of each GPU whose last sample is the newest; return the positions of those GPUs in each run."""
    owner: dict[tuple[object, ...], tuple[RunReader, int]] = {}
    for reader in sorted((run for run in runs if run.last_time is not None), key=lambda run: run.last_time or 0.0):
        for position, gpu in enumerate(reader.gpus):
            owner[gpu.node, gpu.device_index, gpu.uuid, gpu.mig] = (reader, position)
    found: dict[RunReader, list[int]] = {}
    for reader, position in owner.values():
        found.setdefault(reader, []).append(position)
    return found


def _lines(reader: RunReader, rules: RuleTable, positions: Sequence[int]) -> Iterator[_Line]:
    """Yield all that is written of a run's GPUs at these positions."""
    result = analyze(reader, Options(rules=rules, phases=False))
    breakdown = result.judgement.breakdown
    for position in positions:
        gpu, summary = reader.gpus[position], result.gpus[position]
        own: dict[str, object] = dict(zip(GPU_LABELS, (gpu.node, gpu.device_index, gpu.uuid, gpu.mig), strict=False))
        yield _INFO, own | run_labels(reader, gpu), 1.0
        yield _END, own, result.window.end
        if summary.score is not None:
            yield _SCORE, own, summary.score
        if breakdown is not None:
            for category, seconds in zip(CATEGORIES, breakdown.by_gpu[position].tolist(), strict=True):
                yield _TIME, own | {"category": category.name}, seconds
        for name, family in _MEANS.items():
            value = summary.mean.get(name)
            if value is not None:
                yield family, own, value * family.factor
