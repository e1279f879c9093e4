"""Which GPUs a run has, and which of its files hold the rows of each: ranks that share a GPU all list it, and sample it one
after the other."""

from collections.abc import Sequence
from typing import NamedTuple

from gssr.store.records import Gpu, gpu_order, shared_gpu
from gssr.store.shard import Shard
from gssr.store.spans import apart

Identity = tuple[str | None, str]
_Listed = dict[Identity, list[tuple[Shard, Gpu]]]


class Places(NamedTuple):
    """``gpus`` are sorted by node, device index and UUID. ``positions``: for each file, the GPUs whose rows in it count, by
    key, and their place in ``gpus``; ``whole`` holds the files in which that is every row of the run. ``keys``: what a key
    of a file is in ``gpus``. ``in_turns``: the rows of a GPU are in several files."""

    gpus: tuple[Gpu, ...]
    positions: dict[Shard, dict[int, int]]
    whole: frozenset[Shard]
    keys: dict[tuple[Shard, int], int]
    in_turns: bool


def places_of(run_id: str, shards: Sequence[Shard], sampling_seconds: float) -> Places:
    """Look through the files that hold the run."""
    listed: _Listed = {}
    for shard in shards:
        for gpu in shard.gpus(run_id):
            listed.setdefault(_identity(gpu), []).append((shard, gpu))
    gpus = tuple(sorted((shared_gpu([gpu for _, gpu in found]) for found in listed.values()), key=gpu_order))
    keys = {(shard, gpu.gpu): found[0][1].gpu for found in listed.values() for shard, gpu in found}
    counting, not_counting = _counting(run_id, listed, sampling_seconds)
    position = {_identity(gpu): index for index, gpu in enumerate(gpus)}
    positions: dict[Shard, dict[int, int]] = {shard: {} for shard in shards}
    for identity, found in counting.items():
        for shard, gpu in found:
            positions[shard][gpu.gpu] = position[identity]
    whole = frozenset(shard for shard in shards if len(shard.runs) == 1 and shard not in not_counting)
    return Places(gpus, positions, whole, keys, any(len(found) > 1 for found in counting.values()))


def _counting(run_id: str, listed: _Listed, sampling_seconds: float) -> tuple[_Listed, set[Shard]]:
    """Where rows that count are, and the files that hold others."""
    several: dict[Shard, list[int]] = {}
    for found in listed.values():
        for shard, gpu in found if len(found) > 1 else ():
            several.setdefault(shard, []).append(gpu.gpu)
    spans = {shard: shard.spans(run_id, keys) for shard, keys in several.items()}
    counting, not_counting = dict(listed), set[Shard]()
    for identity, found in listed.items():
        if len(found) > 1:
            sampled = [(shard, gpu) for shard, gpu in found if gpu.gpu in spans[shard]]
            chosen = apart([spans[shard][gpu.gpu] for shard, gpu in sampled], sampling_seconds)
            counting[identity] = [sampled[index] for index in chosen]
            not_counting |= {sampled[index][0] for index in set(range(len(sampled))) - set(chosen)}
    return counting, not_counting


def _identity(gpu: Gpu) -> Identity:
    """What makes it this GPU within a run, whatever file it is in."""
    return (gpu.node, gpu.uuid or f"key {gpu.gpu}")
