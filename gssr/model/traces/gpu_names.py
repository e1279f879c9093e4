"""Which GPUs a trace has, and what each is called: one name on pages, screens and in tables, and --gpus takes it.

A name depends on all GPUs of a run, so that of each is known only when all have been seen.
"""

import collections
from collections.abc import Iterable, Sequence
from itertools import product
from operator import attrgetter

from gssr.gpu_name import gpu_label
from gssr.store.format.rows import Gpu
from gssr.traces.timeline import Track

MOST_INDEX = 1 << 20
"""What is no index of a GPU: arrays are as long as the greatest."""


def as_recorded(node: str, number: int, part: str = "", rank: int | None = None, uuid: str | None = None) -> Gpu:
    """Make the row that a GPU, or what counts as one, would have in a recording: ``gpu_label`` calls it
    ``node:number.part``. ``part`` is "" where nothing else tells the GPU from others. The row's number ``gpu`` is 0."""
    return Gpu(0, "", node, rank, number, uuid, None, None, None, None, None, None, None, None, part or None)


def gpus_of(tracks: Sequence[Track]) -> list[Track | None]:
    """Find the GPU that each track is a stream of; a GPU is known by its UUID, else by its number in its process. Returns
    for each track the first track of its GPU, None for a thread."""
    first: dict[object, Track] = {}
    return [
        first.setdefault((_BY_UUID if own.uuid else _BY_NUMBER)(own), own) if own.kind == "gpu_stream" else None
        for own in tracks
    ]


_BY_UUID, _BY_NUMBER = (
    attrgetter("source", "rank", "node", "uuid"),
    attrgetter("source", "rank", "node", "pid", "device"),
)


def names_of(gpus: Iterable[Track | None]) -> dict[Track, Gpu]:
    """Name the GPUs of a run, each given by the first of its tracks (None is left out): by node and device where these tell
    them apart, else by rank; those that processes call the same by their process, too. Returns for each GPU the row by which
    ``gpu_label`` names it."""
    every = dict.fromkeys(filter(None, gpus))
    on_node = len(set(map(attrgetter("node", "device"), every))) == len(every)
    of_rank = len(set(map(attrgetter("rank"), every))) == len(every)
    found = {gpu: _name(gpu, on_node, of_rank) for gpu in every}
    called = collections.Counter(map(_CALLED, found.values()))
    if len(called) == len(found):
        return found
    return {gpu: _of_process(gpu, name) if called[_CALLED(name)] > 1 else name for gpu, name in found.items()}


_CALLED = attrgetter("node", "device_index", "mig")


def spellings(gpu: Track) -> set[str]:
    """List every name that a GPU may have, whichever other GPUs there are, with its node and its UUID."""
    names = [_name(gpu, on_node, of_rank) for on_node, of_rank in product((False, True), repeat=2)]
    found = {gpu_label(each) for name in names for each in (name, _of_process(gpu, name))}
    return found.union(each for each in (gpu.node, gpu.uuid, f"rank {gpu.rank} GPU {gpu.device}") if each)


def _name(gpu: Track, on_node: bool, of_rank: bool) -> Gpu:
    """Name a GPU ``node:number`` where ``on_node`` says that this tells GPUs apart, else ``rank:number`` where ``of_rank``
    says so of ranks; else by rank and number, or by its number alone."""
    odd = gpu.device is not None and not 0 <= gpu.device < MOST_INDEX
    number, part = (0, f"device {gpu.device}") if odd else (gpu.device or 0, "")
    if gpu.node and on_node:
        return as_recorded(gpu.node, number, part, gpu.rank, gpu.uuid)
    if gpu.rank is None:
        return as_recorded("gpu", number, part, None, gpu.uuid)
    if of_rank and 0 <= gpu.rank < MOST_INDEX:
        return as_recorded("rank", gpu.rank, part, gpu.rank, gpu.uuid)
    return as_recorded(f"rank{gpu.rank}", number, part, gpu.rank, gpu.uuid)


def _of_process(gpu: Track, name: Gpu) -> Gpu:
    """Add the process to a GPU's name, where it is known."""
    return name if gpu.pid is None else name._replace(mig=f"{name.mig or ''}.pid{gpu.pid}".lstrip("."))
