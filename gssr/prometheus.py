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

_ESCAPES = dict.fromkeys((*range(32), *range(127, 160)), "\N{REPLACEMENT CHARACTER}") | {
    ord("\\"): r"\\",
    ord('"'): r"\"",
    ord("\n"): r"\n",
}
"""Control characters end a line, or a text, for some readers."""
_LONGEST = 256
"""Characters of a label, which stands in every line: no name of a host is longer."""


class Family(NamedTuple):
    """A metric as these formats know it. ``factor``: what its values are multiplied by."""

    name: str
    unit: str
    type: Literal["gauge", "counter"]
    help: str
    factor: float

    @property
    def sample(self) -> str:
        """What a line of it begins with."""
        return f"{self.name}_total" if self.type == "counter" else self.name


def _family(metric: Metric) -> Family:
    unit, factor = _UNITS[metric.unit]
    stem = metric.name.removesuffix("_bytes") if unit.startswith("bytes") else metric.name
    name = f"gssr_{stem}_{unit}" if unit else f"gssr_{stem}"
    return Family(name, unit, "counter" if metric.kind == "counter" else "gauge", metric.meaning, factor)


FAMILIES: dict[str, Family] = {metric.name: _family(metric) for metric in METRICS}
"""Of every stored metric, by its name in the catalogue."""


def labels(values: Mapping[str, object]) -> str:
    """``{name="value",...}``; what is None is left out, and what is too long cut."""
    written = (
        f'{name}="{str(value)[:_LONGEST].translate(_ESCAPES)}"' for name, value in values.items() if value is not None
    )
    return "{" + ",".join(written) + "}"
