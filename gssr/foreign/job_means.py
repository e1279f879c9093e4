"""Runs of which a tool has kept means alone, one for each GPU: the mean becomes the one sample of the GPU, at the end of the
time that it is of. What is known as a maximum only is no sample, and is told in notes."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from gssr.foreign.series import ForeignGpu, ForeignSeries, Note, in_order
from gssr.store.format.sample_arrays import Samples


class ForeignGpuMeans(NamedTuple):
    """The means that a tool has kept of one GPU, over the time from ``start`` to ``end`` (unix s).

    ``values``: the mean of each metric by its name, in the catalogue's units; unknown ones are left out. ``most_memory``:
    the largest amount of device memory in use, in bytes; None if unknown.
    """

    gpu: ForeignGpu
    start: float
    end: float
    values: dict[str, float]
    most_memory: float | None = None


def series_of_means(kind: str, gpus: Sequence[ForeignGpuMeans], notes: Sequence[str], tool: str) -> ForeignSeries:
    """Make a run in which each GPU has one sample, its mean, at the end of the time that the mean is of.

    Args:
        kind: The kind of file, one of gssr.recognise.FOREIGN.
        gpus: The means of each GPU; at least one.
        notes: Further sentences about the data, which follow those that say that there are no samples.
        tool: The tool's name, for these.
    """
    start, end = min(each.start for each in gpus), max(each.end for each in gpus)
    lengths = [each.end - each.start for each in gpus]
    seconds = max(lengths)
    up_to = "" if min(lengths) == seconds else "up to "
    said = [
        f"{tool} keeps no samples: the one sample of each GPU is the mean over {up_to}{seconds:,.0f} s, so nothing is known "
        "of when a GPU was busy"
    ]
    used = [(each.most_memory, each.gpu) for each in gpus if each.most_memory is not None]
    if used:
        most, gpu = max(used, key=lambda pair: pair[0])
        size = f" of {gpu.memory_total / 1e9:.1f} GB" if gpu.memory_total else ""
        place = f"{gpu.node or '?'}:{'?' if gpu.device_index is None else gpu.device_index}"
        said.append(
            f"of device memory {tool} keeps the maximum alone: at most {most / 1e9:.1f} GB{size} were in use, on {place}"
        )
    pieces = []
    for position, each in enumerate(gpus):
        values = {name: np.array([value]) for name, value in each.values.items()}
        pieces.append(Samples(np.array([position]), np.array([each.end]), values))
    return ForeignSeries(
        kind, in_order(pieces), [each.gpu for each in gpus], [Note(text) for text in (*said, *notes)],
        sampling_seconds=max(seconds, 0.001), started_at=start, ended_at=end,
    )  # fmt: skip
