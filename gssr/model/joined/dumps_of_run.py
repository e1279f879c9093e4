"""Dumps of NCCL's flight recorder beside the recording of their run: which are of it, and which GPU each rank has."""

from collections.abc import Mapping, Sequence

from gssr.model.joined.match import NS, gpus_of_rank
from gssr.model.window import extent
from gssr.store.read.recording import RunReader
from gssr.traces.flight_recorder import RankDump


def dumps_of_run(reader: RunReader, dumps: Sequence[RankDump]) -> tuple[list[RankDump], list[RankDump]]:
    """Tell dumps of the run from others. A dump is of another run if its newest operation was begun before the run or after
    it; where no time is told it is taken for one of the run. Returns both lists."""
    run = extent(reader)
    own, others = list[RankDump](), list[RankDump]()
    for dump in dumps:
        newest = max((each.created_ns for each in dump.operations if each.created_ns is not None), default=None)
        is_own = newest is None or (run.start or 0.0) <= newest / NS <= (run.end or newest)
        (own if is_own else others).append(dump)
    return own, others


def gpus_by_rank(reader: RunReader, place: Mapping[int, int]) -> dict[int, tuple[int, ...]]:
    """Find the GPUs of each rank among those looked at: all that the rank may use; where it may use several, the one whose
    number is its local rank, as torchrun chooses it. ``place``: where each of the run's GPUs is among those looked at."""
    found: dict[int, tuple[int, ...]] = {}
    for process in reader.processes:
        own = gpus_of_rank(reader, process.rank)
        numbered = tuple(at for at in own if reader.gpus[at].device_index == process.local_rank)
        found[process.rank] = tuple(place[at] for at in numbered or own if at in place)
    return found
