"""Samples as arrays: the form in which raw rows are read from a file, cut to a window, counted and exported."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from gssr.arrays import Flags, Floats, Ints


class Samples(NamedTuple):
    """Samples column by column, [n] each; those of one GPU in the order of their file.

    ``gpu``: whose each is. Within a file that is the key of the GPU there, within a run its position in ``RunReader.gpus``,
    within an analysis its number among the GPUs that were selected, within a ``ForeignSeries`` its position in ``gpus``
    there. ``time``: unix s, within a file by the clock of the GPU's node, within a run by that of the run. ``values``: by
    metric, in the units of the catalogue; NaN where the sample has no value, or the file no such column."""

    gpu: Ints
    time: Floats
    values: dict[str, Floats]

    def of(self, chosen: Flags) -> "Samples":
        """Keep the samples that are ``chosen`` [n]; if these are all, the arrays themselves."""
        if chosen.all():
            return self
        return Samples(
            self.gpu[chosen], self.time[chosen], {name: values[chosen] for name, values in self.values.items()}
        )


def derive(values: Mapping[str, Floats], parts: tuple[str, ...]) -> Floats:
    """Add up the metrics ``parts`` that a derived metric is the sum of, left to right: from ``values``, by metric,
    float64[n]. NaN where one of them is missing."""
    total: Any = 0.0
    for part in parts:
        total = total + values[part]
    return np.asarray(total, np.float64)
