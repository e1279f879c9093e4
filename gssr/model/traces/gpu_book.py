"""The time of one GPU of a trace as its own file tells it, in the categories of gssr.model.breakdown.

Where GPU time went depends on the job's other GPUs as well, whose traces may be other files: what those decide is kept as
stretches of time, all else is added up in bins. gssr.model.traces.booking makes it, gssr.model.traces.breakdown puts the
GPUs together.
"""

from collections.abc import Mapping
from typing import NamedTuple

from gssr.arrays import Floats, Ints
from gssr.model.traces.segments import Segments

_BINS, _FEWER_BINS, _MANY_GPUS = 600, 60, 1000
"""Bins of a GPU's own time, in which what its file decides alone is added up; fewer for many GPUs: 600 take 29 KB each."""
DECIDED = ("working.other", "idle.copies", "idle.between_kernels", "idle.input_output", "idle.host")
"""The categories that a GPU's own file decides, in the order of ``GpuBook.decided``. Names of kernels do not tell how they
use a GPU: all of their time is other work."""


def book_bins(n_gpus: int) -> int:
    """Return in how many bins the time of each of ``n_gpus`` GPUs is booked."""
    return _BINS if n_gpus <= _MANY_GPUS else _FEWER_BINS


class GpuBook(NamedTuple):
    """The time of one GPU as its own file tells it; all times are ns.

    ``window``: what the file tells of. ``works``: from the first kernel's start to the last one's end, None if the GPU did
    nothing; sets and copies within and between GPUs count as kernels, and those from and to the host only of a GPU that has
    none of these. ``edges`` [n_bins + 1] and ``decided`` [n, n_bins + 1]: the ns of each
    category of DECIDED before each edge. ``open``: idle time whose cause the other GPUs may be. ``kernels``: when kernels
    compute, with short gaps closed. ``communication``: when kernels communicate or copies run between GPUs, and none
    computes. ``collectives``: starts and ends of kernels that communicate, by their name. ``clock``: GPUs whose numbers are
    equal have times that can be compared.
    """

    window: tuple[int, int]
    works: tuple[int, int] | None
    edges: Ints
    decided: Floats
    open: Segments
    kernels: Segments
    communication: Segments
    collectives: Mapping[str, Segments]
    clock: int = 0

    def moved(self, by: int) -> "GpuBook":
        """Return the same book with all of its times ``by`` ns later."""

        def later(segments: Segments) -> Segments:
            return Segments(segments.start + by, segments.end + by)

        return self._replace(
            window=(self.window[0] + by, self.window[1] + by),
            works=self.works and (self.works[0] + by, self.works[1] + by),
            edges=self.edges + by,
            open=later(self.open), kernels=later(self.kernels), communication=later(self.communication),
            collectives={name: later(each) for name, each in self.collectives.items()},
        )  # fmt: skip
