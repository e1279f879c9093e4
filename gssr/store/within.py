"""Which rows of ``rollup`` and ``sketch`` are asked for, in SQL."""

import math
from collections.abc import Sequence

_NAMED = 1_000
"""So many buckets or fewer are asked for by name: then the index finds each GPU's in each, and no others are looked at."""


def within(start: float, end: float, seconds: int, keys: Sequence[int] | None) -> str:
    """The condition that a bucket of ``seconds`` lies within [start, end), unix s or infinite, and is of one of these GPU
    keys (None: of any)."""
    conditions = ["1"]
    if keys is not None and math.isfinite(end - start) and end - start <= _NAMED * seconds:
        named = range(-(-math.ceil(start) // seconds) * seconds, math.floor(end) - seconds + 1, seconds)
        conditions.append(f"bucket IN ({','.join(map(str, named))})")
    else:
        if math.isfinite(start):
            conditions.append(f"bucket >= {math.ceil(start)}")
        if math.isfinite(end):
            conditions.append(f"bucket <= {math.floor(end) - seconds}")
    if keys is not None:
        conditions.append(f"gpu IN ({','.join(map(str, keys))})")
    return " AND ".join(conditions)
