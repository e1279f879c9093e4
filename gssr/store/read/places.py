"""Which GPUs a run has, in which order, and in which of its files the rows of each count."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gssr.store.format.rows import Gpu, gpu_order, shared_gpu
from gssr.store.read.gpu_spans import choose_disjoint
from gssr.store.read.recording_file import RecordingFile

Identity = tuple[str | None, str]
_Entry = tuple[RecordingFile, Gpu]


class Places(NamedTuple):
    """A run's GPUs. ``gpus``: sorted by node, device index and UUID. ``positions``: for each file, by key, the
    positions in ``gpus`` of the GPUs whose rows in it count; ``whole``: the files in which that is every row of the
    run. ``keys``: by file and key, the key that ``gpus`` has, for GPUs that several files list. ``in_turns``: the rows
    of a GPU are in several files."""

    gpus: tuple[Gpu, ...]
    positions: dict[RecordingFile, dict[int, int]]
    whole: frozenset[RecordingFile]
    keys: dict[tuple[RecordingFile, int], int]
    in_turns: bool

    def key(self, shard: RecordingFile, key: int) -> int | None:
        """Return the key that ``gpus`` has for a key of a file; None if it is none of the run's."""
        return self.keys.get((shard, key), key if key in self.positions[shard] else None)


def places_of(run_id: str, shards: Sequence[RecordingFile], sampling_seconds: float) -> Places:
    """Find out from the files that hold the run ``run_id`` which GPUs it has, and in which files each one's rows count.

    A GPU that several files list is one GPU. Where the times of its rows in two files overlap, only those of the file with
    the longer span count, and all that the other file has of this GPU is left out. ``sampling_seconds``: the interval,
    which says how long an overlap is none yet (``gpu_spans.apart``)."""
    # A file may list a hundred thousand GPUs: of those that are listed once as little as can be is kept.
    listed: dict[Identity, _Entry] = {}
    several: dict[Identity, list[_Entry]] = {}
    for shard in shards:
        for gpu in shard.file.gpus(run_id):
            first = listed.setdefault(_identity(gpu), (shard, gpu))
            if first[1] is not gpu:
                several.setdefault(_identity(gpu), [first]).append((shard, gpu))
    counting, not_counting = _choose_counting_files(run_id, several, sampling_seconds)
    for identity, found in several.items():
        listed[identity] = (found[0][0], shared_gpu([gpu for _, gpu in found]))
    order = sorted(listed, key=lambda identity: gpu_order(listed[identity][1]))
    keys: dict[tuple[RecordingFile, int], int] = {}
    positions: dict[RecordingFile, dict[int, int]] = {shard: {} for shard in shards}
    for position, identity in enumerate(order):
        own = listed[identity]
        for shard, gpu in several.get(identity, ()):
            keys[shard, gpu.gpu] = own[1].gpu
        for shard, gpu in counting.get(identity, (own,)):
            positions[shard][gpu.gpu] = position
    whole = frozenset(shard for shard in shards if len(shard.file.runs) == 1 and shard not in not_counting)
    gpus = tuple(listed[identity][1] for identity in order)
    return Places(gpus, positions, whole, keys, any(len(found) > 1 for found in counting.values()))


def _choose_counting_files(
    run_id: str, several: Mapping[Identity, Sequence[_Entry]], sampling_seconds: float
) -> tuple[dict[Identity, list[_Entry]], set[RecordingFile]]:
    """Choose for each GPU that several files list the files whose rows of it count, so that no time counts twice.
    ``several`` holds, by the GPU's identity, each file with the GPU as it lists it. Returns the chosen ones in the same
    form, by time, and the files with rows that do not count."""
    listing: dict[RecordingFile, list[int]] = {}
    for found in several.values():
        for shard, gpu in found:
            listing.setdefault(shard, []).append(gpu.gpu)
    spans = {shard: shard.spans(run_id, keys) for shard, keys in listing.items()}
    counting, not_counting = dict[Identity, list[_Entry]](), set[RecordingFile]()
    for identity, found in several.items():
        sampled = [(shard, gpu) for shard, gpu in found if gpu.gpu in spans[shard]]
        chosen = choose_disjoint([spans[shard][gpu.gpu] for shard, gpu in sampled], sampling_seconds)
        counting[identity] = [sampled[index] for index in chosen]
        not_counting |= {sampled[index][0] for index in set(range(len(sampled))) - set(chosen)}
    return counting, not_counting


def _identity(gpu: Gpu) -> Identity:
    """Return what identifies a GPU within a run, whatever file it is in."""
    return (gpu.node, gpu.uuid or f"key {gpu.gpu}")
