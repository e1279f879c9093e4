"""What Prometheus and OpenMetrics call the metrics, and how their text formats write them: names with base units, labels."""

from collections.abc import Mapping
from typing import Literal, NamedTuple

from gssr.metrics import METRICS, Metric

_UNITS = {
    "1": ("ratio", 1.0),
    "B/s": ("bytes_per_second", 1.0),
    "W": ("watts", 1.0),
    "J": ("joules", 1.0),
    "°C": ("celsius", 1.0),
    "MHz": ("hertz", 1e6),
    "B": ("bytes", 1.0),
    "bits": ("", 1.0),
}
"""What the catalogue's units are there, and by what to multiply; source: OpenMetrics 1.0, units and base units."""

REPLACED = "\N{REPLACEMENT CHARACTER}"
"""Stands for each control character of a label."""
_ESCAPES = dict.fromkeys((*range(32), *range(127, 160)), REPLACED) | {
    ord("\\"): r"\\",
    ord('"'): r"\"",
    ord("\n"): r"\n",
}
"""Control characters end a line, or a text, for some readers."""
LONGEST_LABEL = 256
"""Characters of a label, which stands in every line: no name of a host is longer."""


class Family(NamedTuple):
    """A metric as Prometheus and OpenMetrics know it. ``name``: with the base unit; ``unit``: the base unit, "" for
    bits and for info; ``factor``: a value of the catalogue times this is in the base unit."""

    name: str
    unit: str
    type: Literal["gauge", "counter", "info"]
    help: str
    factor: float

    @property
    def sample(self) -> str:
        """The name with which a sample's line begins."""
        return self.name + {"gauge": "", "counter": "_total", "info": "_info"}[self.type]


def _family(metric: Metric) -> Family:
    unit, factor = _UNITS[metric.unit]
    stem = metric.name.removesuffix("_bytes") if unit.startswith("bytes") else metric.name
    name = f"gssr_{stem}_{unit}" if unit else f"gssr_{stem}"
    return Family(name, unit, "counter" if metric.kind == "counter" else "gauge", metric.meaning, factor)


FAMILIES: dict[str, Family] = {metric.name: _family(metric) for metric in METRICS}
"""Of every stored metric, by its name in the catalogue."""
RUN_INFO = Family("gssr_run", "", "info", "The run or job that has this GPU; always 1.", 1.0)
"""What is known of the run on a GPU, as labels beside those of the GPU (GPU_LABELS). Series of metrics carry no name of a
run, so that a server keeps as many series as there are GPUs and metrics, however many runs there were."""
RUN_END = Family(
    "gssr_run_end_timestamp_seconds", "seconds", "gauge", "When the last run on this GPU ended, unix time.", 1.0
)
"""One value for each run that was exported, at its end. Prometheus repeats a value for minutes after the last one: by this
metric a query leaves out what is not newer than the end."""
POD_INFO = Family("gssr_pod", "", "info", "A pod of Kubernetes that has a process on this GPU; always 1.", 1.0)
"""One series for each pod on a GPU, with its namespace, pod and container beside the labels of the GPU."""
GPU_LABELS = ("node", "gpu", "uuid", "mig", "overlap")
"""Labels by which a series of a metric and one of RUN_INFO are about the same GPU. ``overlap`` is there only where
recordings overlap in time on one GPU: 1 for the second of them, and so on."""


def labels(values: Mapping[str, object]) -> str:
    """Write labels as ``{name="value",...}``. Labels that are None are left out, long values are cut to 256 characters."""
    written = (
        f'{name}="{str(value)[:LONGEST_LABEL].translate(_ESCAPES)}"'
        for name, value in values.items()
        if value is not None
    )
    return "{" + ",".join(written) + "}"
