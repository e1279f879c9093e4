"""What is said of a recording of whose samples not all were kept."""

import math
from datetime import datetime

from gssr.store.reader import RunReader
from gssr.store.schema import LEVELS
from gssr.store.thinning import YOUNG_SECONDS

FINEST = float(LEVELS[0])
"""Nothing finer than this, s, can be shown of thinned samples."""

SURELY_WHOLE = YOUNG_SECONDS - 60.0
"""Samples of a growing run that are no older than this, s, have not been thinned, and will not be for a while."""

_LEFT = {
    "10s": f"only means over {FINEST:g} s were kept of",
    "none": f"only statistics for every {FINEST:g} s were kept of",
}


def thinning(reader: RunReader) -> str | None:
    """One sentence; None where every sample is there."""
    until, last = reader.thinned_until, reader.last_time
    if until == -math.inf:
        return None
    which = "the samples"
    if last is not None and last >= until:
        which = f"samples from before {datetime.fromtimestamp(until):%Y-%m-%d %H:%M:%S}"
    return (
        f"{_LEFT.get(reader.keep, _LEFT['none'])} {which} (--keep {reader.keep}): "
        f"statistics count all of them, but nothing finer than {FINEST:g} s is known"
    )
