"""Which values are not like the rest."""

import numpy as np

from gssr.arrays import Flags, Floats

Z = 3.5
"""The modified z-score above which a value is an outlier. Source: Iglewicz and Hoaglin, How to Detect and Handle Outliers
(1993), as in the NIST/SEMATECH e-Handbook of Statistical Methods, 1.3.5.17."""
_NORMAL = 0.6745
"""The median absolute deviation of a normal distribution of standard deviation 1."""
LEAST_SHARE = 0.05
"""Nothing that is nearer to the median than this share of the full scale is an outlier, however alike the others are (a
threshold of our own)."""
FEWEST = 3
"""Of fewer values none can be told from the rest."""


def outliers(values: Floats, full: float) -> Flags:
    """[n]: True where 0.6745 × |value - median| / MAD exceeds 3.5, MAD being the median of |value - median|, and the value
    is at least a twentieth of ``full`` (the axis' full scale, in the values' unit) from the median. NaN is never one."""
    known = np.isfinite(values)
    if known.sum() < FEWEST:
        return np.zeros(len(values), bool)
    distance = np.abs(values - np.median(values[known]))
    spread = float(np.median(distance[known]))
    found: Flags = known & (distance >= max(LEAST_SHARE * full, 1e-12)) & (_NORMAL * distance > Z * spread)
    return found
