"""What is told of samples that were not read, against those that were."""

import numpy as np

from gssr.store.read.recording import RunReader
from gssr.store.read.time_window import Window

METRICS = ("sm_active", "flop_active", "pcie_tx_bytes", "temperature")
_KEYS = np.arange(1 << 16)
_BY_VALUE = np.argsort(np.where(_KEYS >= 0x8000, 0x7FFF - _KEYS, _KEYS))


def bounds_hold(
    reader: RunReader, start: float | None = None, end: float | None = None, gpus: np.ndarray | None = None
) -> bool:
    """How many samples there are is known, and whatever was not read lies between its bounds. Returns whether that was
    anything."""
    exact = reader.histograms(METRICS, Window.between(start, end), gpus)
    found = reader.histograms(METRICS, Window.between(start, end), gpus, most_rows=0)
    assert exact.least is None and exact.greatest is None and not exact.readable
    if found.least is None or found.greatest is None:
        assert not found.readable
        for name in METRICS:
            np.testing.assert_array_equal(found.counts[name], exact.counts[name])
        return False
    for name in METRICS:
        bounds = found.least, found.counts, found.greatest
        least, share, greatest = (counts[name][_BY_VALUE].cumsum() for counts in bounds)
        true = exact.counts[name][_BY_VALUE].cumsum()
        assert least[-1] == share[-1] == greatest[-1] == true[-1]
        assert (least >= true).all() and (true >= greatest).all()
        assert (least >= share).all() and (share >= greatest).all()
    return found.readable
