"""Which GPUs a trace has, and what each is called: one name on pages, screens and in tables, and --gpus takes it.

A name depends on all GPUs of a run, so that of each is known only when all have been seen.
"""

import collections
from collections.abc import Iterable, Sequence
from itertools import product
from operator import attrgetter, itemgetter
from typing import NamedTuple

from gssr.gpu_name import gpu_label
from gssr.traces.timeline import Track

MOST_INDEX = 1 << 20
"""What is no index of a GPU: arrays are as long as the greatest."""


class Name(NamedTuple):
    """What ``gpu_label`` makes the name of (gssr.gpu_name.Identity). ``mig``: what else tells it from others."""

    node: str
    device_index: int
    mig: str
    uuid: str | None


def gpus_of(tracks: Sequence[Track]) -> list[Track | None]:
    """Return for each track the GPU that it is a stream of, as the first of that GPU's streams; None for a thread. A
    GPU is known by its UUID, else by its number in its process."""
    first: dict[object, Track] = {}
    return [
        first.setdefault((_BY_UUID if own.uuid else _BY_NUMBER)(own), own) if own.kind == "gpu_stream" else None
        for own in tracks
    ]


_BY_UUID, _BY_NUMBER = (
    attrgetter("source", "rank", "node", "uuid"),
    attrgetter("source", "rank", "node", "pid", "device"),
)


def names_of(gpus: Iterable[Track | None]) -> dict[Track, Name]:
    """Name the GPUs of a run (None is ignored): ``node:device`` if that tells them apart, else by rank; those that
    processes call the same also by process."""
    every = dict.fromkeys(filter(None, gpus))
    on_node = len(set(map(attrgetter("node", "device"), every))) == len(every)
    of_rank = len(set(map(attrgetter("rank"), every))) == len(every)
    found = {gpu: _name(gpu, on_node, of_rank) for gpu in every}
    called = collections.Counter(map(_CALLED, found.values()))
    if len(called) == len(found):
        return found
    return {gpu: _of_process(gpu, name) if called[_CALLED(name)] > 1 else name for gpu, name in found.items()}


_CALLED = itemgetter(0, 1, 2)


def spellings(gpu: Track) -> set[str]:
    """Return all that a GPU may be called, whichever others there are; also its node and its UUID."""
    names = [_name(gpu, on_node, of_rank) for on_node, of_rank in product((False, True), repeat=2)]
    found = {gpu_label(each) for name in names for each in (name, _of_process(gpu, name))}
    return found.union(each for each in (gpu.node, gpu.uuid, f"rank {gpu.rank} GPU {gpu.device}") if each)


def _name(gpu: Track, on_node: bool, of_rank: bool) -> Name:
    """Name a GPU of a trace.

    ``on_node``: by node and number, where the node is known; ``of_rank``: the rank alone stands for its one GPU.
    """
    odd = gpu.device is not None and not 0 <= gpu.device < MOST_INDEX
    number, part = (0, f"device {gpu.device}") if odd else (gpu.device or 0, "")
    if gpu.node and on_node:
        return Name(gpu.node, number, part, gpu.uuid)
    if gpu.rank is None:
        return Name("gpu", number, part, gpu.uuid)
    if of_rank and 0 <= gpu.rank < MOST_INDEX:
        return Name("rank", gpu.rank, part, gpu.uuid)
    return Name(f"rank{gpu.rank}", number, part, gpu.uuid)


def _of_process(gpu: Track, name: Name) -> Name:
    return name if gpu.pid is None else name._replace(mig=f"{name.mig}.pid{gpu.pid}".lstrip("."))
