"""How values are written and what fills an axis.

Decimals are fixed per unit and axes per metric, so that two pages can be compared by eye and by ``diff``. Nothing is ranged
to its own data: a GPU idling at 1 % must not look like one at 98 %.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

from gssr.gpu_vendors import AMD, NVIDIA, say, spoken
from gssr.metrics import Metric, metric_named

UNKNOWN = "unknown"
NONE = "-"
"""An absent value in a table, where every cell holds a number."""


class Unit(NamedTuple):
    """How a stored unit is shown: its ``name``, the ``factor`` from stored to shown, and the decimals."""

    name: str
    factor: float
    decimals: int


UNITS: dict[str, Unit] = {
    "1": Unit("%", 100.0, 1),
    "B/s": Unit("GB/s", 1e-9, 2),
    "B/s of a node": Unit("MB/s", 1e-6, 0),
    "B": Unit("GiB", 1.0 / (1 << 30), 1),
    "W": Unit("W", 1.0, 1),
    "J": Unit("J", 1.0, 1),
    "°C": Unit("°C", 1.0, 1),
    "MHz": Unit("MHz", 1.0, 0),
    "1/s": Unit("k/s", 1e-3, 2),
    "calls/s": Unit("/s", 1.0, 1),
    "bytes/s": Unit("MB/s", 1e-6, 3),
    "bytes": Unit("kB", 1e-3, 1),
    "s": Unit("ms", 1e3, 3),
}

_ENERGY = ((1e6, "MJ"), (1e3, "kJ"), (0.0, "J"))
_JOULES_PER_KWH = 3.6e6


def metric_of(name: str) -> Metric:
    """Return the catalogue's metric, in the words of the GPUs that are spoken of; for a column of a later version a
    stand-in that knows only its name."""
    metric = metric_named(name) or Metric(name, name, name, "", "gauge", 1.0, "", "", "")
    maker = spoken()
    return metric if maker == NVIDIA else _in_words(metric, maker)


@lru_cache(256)
def _in_words(metric: Metric, maker: int) -> Metric:
    """Return the metric in the words of ``maker``, with what differs on AMD's GPUs."""
    label, short, meaning = (say(maker, text) for text in (metric.label, metric.short, metric.meaning))
    pitfalls = metric.pitfalls
    if metric.amd is not None and metric.amd.differs:
        pitfalls = metric.amd.differs if maker == AMD else f"{pitfalls} On AMD's GPUs: {metric.amd.differs}"
    return metric._replace(label=label, short=short, meaning=meaning, pitfalls=pitfalls)


def unit_of(metric: Metric) -> Unit:
    """Return how the metric's values are shown: as stored and with three decimals if its unit is none of UNITS."""
    return UNITS.get(metric.unit, Unit(metric.unit, 1.0, 3))


def fixed(value: float | None, decimals: int, none: str = NONE) -> str:
    """Write ``value`` with fixed decimals, without "-0.0"; ``none`` for None, NaN and infinity."""
    if value is None or not math.isfinite(value):
        return none
    return f"{round(value, decimals) + 0.0:.{decimals}f}"


def signed(value: float | None, decimals: int) -> str:
    """Write a difference with its sign and fixed decimals; one that rounds to 0 is +0."""
    text = fixed(value, decimals)
    return text if text[0] == "-" else f"+{text}"


def number(value: float | None, metric: Metric) -> str:
    """Write a stored value for a table: in the unit shown, with its decimals and without the unit's name. NONE for
    None, NaN and infinity."""
    unit = unit_of(metric)
    return fixed(None if value is None else value * unit.factor, unit.decimals)


def quantity(value: float | None, metric: Metric, unknown: str = UNKNOWN) -> str:
    """Write a stored value for a sentence: in the unit shown, with its decimals, and with the unit's name behind it
    (``82.4 %``). For None, NaN and infinity ``unknown``, in a table NONE."""
    unit = unit_of(metric)
    text = fixed(None if value is None else value * unit.factor, unit.decimals, unknown)
    return text if text == unknown or not unit.name else f"{text} {unit.name}"


def difference(value: float, metric: Metric) -> str:
    """Write a difference of two values of a metric (``value``, in its stored unit) for a sentence: ``8.9 percentage
    points``, ``3.20 GB/s``."""
    unit = unit_of(metric)
    return (
        f"{fixed(value * unit.factor, unit.decimals)} percentage points"
        if unit.name == "%"
        else quantity(value, metric)
    )


def percent(ratio: float | None) -> str:
    """Write a ratio as percent with one decimal, UNKNOWN for None, NaN and infinity."""
    text = fixed(None if ratio is None else 100.0 * ratio, 1, UNKNOWN)
    return text if text == UNKNOWN else f"{text} %"


def energy(joules: float | None) -> str:
    """Write an energy in J, kJ or MJ, from 0.01 kWh on in kWh as well; UNKNOWN for None, NaN and infinity."""
    if joules is None or not math.isfinite(joules):
        return UNKNOWN
    size, name = next((size, name) for size, name in _ENERGY if joules >= size or size == 0.0)
    text = f"{fixed(joules / (size or 1.0), 2 if size else 1)} {name}"
    kwh = joules / _JOULES_PER_KWH
    return f"{text} ({fixed(kwh, 2)} kWh)" if kwh >= 0.01 else text


def count(n: int, noun: str) -> str:
    """Write a number of things: ``1 GPU``, ``16 GPUs``, ``4,800 samples``, ``2 processes``. ``noun``: one of them."""
    return f"{n:,} {noun if n == 1 else plural(noun)}"


def plural(noun: str) -> str:
    """Write the plural of a noun: ``GPUs``, ``processes``, ``launches``."""
    return f"{noun}{'es' if noun.endswith(('ss', 'ch')) else 's'}"


def nice_above(value: float | None, metric: Metric) -> float:
    """Return the least of 1, 2, 5 times a power of ten (in the unit shown) that is not below ``value``.

    Both are in the stored unit. 1.0 if ``value`` is None, not finite, or not above 0.
    """
    if value is None or not math.isfinite(value) or value <= 0:
        return 1.0
    factor = unit_of(metric).factor
    shown = value * factor
    power = 10.0 ** math.floor(math.log10(shown))
    return next((step * power for step in (1, 2, 5) if shown <= step * power * (1 + 1e-9)), 10 * power) / factor


def scale_text(metric: Metric, full: float) -> str:
    """Write the full scale (in the stored unit) in words: ``100 %``, ``700 W``, ``80.0 GiB``."""
    unit = unit_of(metric)
    shown = full * unit.factor
    text = fixed(shown, 0 if abs(shown - round(shown)) < 1e-9 * max(shown, 1.0) else 1)
    return f"{text} {unit.name}".rstrip()


_PREFIXES = (
    (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""), (1e-3, "m"), (1e-6, "µ"), (1e-9, "n"),
)  # fmt: skip


def prefixed(value: float | None, unit: str = "") -> str:
    """Write a number with an SI prefix and ``unit``: ``445.4 M``, ``12.00 GB/s``, ``7``. Two decimals below 100, one
    above, none for a whole number without a prefix; from 0.001 to 1 three decimals and no prefix where there is no unit, as
    of things that are counted. Returns NONE for None, NaN and infinity."""
    if value is None or not math.isfinite(value):
        return NONE
    if not unit and 0.001 <= abs(value) < 0.9995:
        return fixed(value, 3)
    size, prefix = next((each for each in _PREFIXES if abs(value) >= each[0] * 0.99995), (1.0, ""))
    shown = value / size
    decimals = 0 if shown == round(shown) and size == 1.0 else 1 if abs(shown) >= 99.95 else 2
    return f"{fixed(shown, decimals)} {prefix}{unit}".rstrip()
