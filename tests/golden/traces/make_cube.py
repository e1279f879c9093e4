"""What pycubexr 2.1 says of a CUBE4 profile: ``python make_cube.py OUT.json PROFILE``, in an environment that has it.

By metric "stored", "inclusive" and "exclusive": [n_nodes, n_locations], nodes by their numbers in the file, which here count
them in its order. Metrics without values, and of types that hold no plain number, are left out.
"""

import json
import sys
from typing import Any

import numpy as np
from pycubexr import CubexParser
from pycubexr.utils.exceptions import MissingMetricError, UnsupportedMetricFormatError


def plain(values: Any) -> list[float]:
    """As numbers."""
    return np.asarray(getattr(values, "_values", values)).astype(float).tolist()  # type: ignore[no-any-return]


def figures_of(path: str) -> dict[str, dict[str, list[list[float]]]]:
    """Of all metrics."""
    found = {}
    with CubexParser(path) as profile:
        nodes = sorted(profile.all_cnodes(), key=lambda node: node.id)
        for metric in profile.all_metrics():
            try:
                values = profile.get_metric_values(metric)
            except (MissingMetricError, UnsupportedMetricFormatError):
                continue
            found[metric.name] = {
                "stored": [plain(values.cnode_values(node)) for node in nodes],
                "inclusive": [plain(values.cnode_values(node, convert_to_inclusive=True)) for node in nodes],
                "exclusive": [plain(values.cnode_values(node, convert_to_exclusive=True)) for node in nodes],
            }
    return found


if __name__ == "__main__":
    with open(sys.argv[1], "w") as file:
        json.dump(figures_of(sys.argv[2]), file, separators=(",", ":"))
