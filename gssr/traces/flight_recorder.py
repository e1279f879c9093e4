"""Dumps of NCCL's flight recorder: what each rank's process groups were last asked to do, and how far that got.

PyTorch writes one for each rank when a collective operation times out (``TORCH_NCCL_DUMP_ON_TIMEOUT``), as a pickle, or as
JSON through its HTTP server. A buffer holds only the newest operations, as many as TORCH_NCCL_TRACE_BUFFER_SIZE says.
"""

import math
import os
import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

from gssr.traces.dump_file import load_dump, objects, text, whole_number
from gssr.traces.timeline import TraceError

State = Literal["scheduled", "started", "completed"]
_RANK = re.compile(r"(\d{1,9})(?:\.[A-Za-z]+)*$")
"""At the end of a file's name: ``nccl_trace_rank_3``, ``rank3.json.gz``."""
_PEER = re.compile(r"(\w+) (\d{1,9})(?:->|<-)(\d{1,9})")
_MOST_RANKS = 1 << 18
"""Of a process group: no job has had more GPUs."""


class Operation(NamedTuple):
    """An operation that a rank gave to NCCL.

    ``group``: name of its process group. ``number``: its sequence number in the group, counted apart for collective
    operations and (``is_p2p``) for sends and receives; operations that were given together (``coalesced``) share one.
    ``name``: ``all_reduce``, ``send`` ... ``peer``: the other rank of a send or receive, as its number in the group; None
    of others. ``types``: data types, in and out; ``elements``: how many, in
    and out, None where sizes are unknown. ``created_ns`` and ``completed_ns``: unix time, None where unknown.
    """

    group: str
    number: int
    name: str
    is_p2p: bool
    peer: int | None
    state: State
    types: tuple[str, ...]
    elements: tuple[int, int] | None
    created_ns: int | None
    completed_ns: int | None
    order: int

    @property
    def is_over(self) -> bool:
        """Tell whether it was seen to be completed."""
        return self.state == "completed"


class ProcessGroup(NamedTuple):
    """A process group. ``about``: its description, such as ``default_pg``; ``ranks``: global ranks of its members, empty
    where the dump does not tell."""

    name: str
    about: str
    ranks: tuple[int, ...]


@dataclass(frozen=True)
class RankDump:
    """The dump of one rank. ``operations`` are in the order in which they were given to NCCL."""

    path: str
    rank: int
    version: str
    groups: dict[str, ProcessGroup]
    operations: tuple[Operation, ...]

    @property
    def is_whole(self) -> bool:
        """Tell whether the buffer still holds the rank's first operation."""
        return bool(self.operations) and self.operations[0].order == 0

    @cached_property
    def collectives(self) -> dict[str, dict[int, Operation]]:
        """The collective operations, by group and number; of those that were given together the first."""
        found: dict[str, dict[int, Operation]] = {}
        for each in self.operations:
            if not each.is_p2p:
                found.setdefault(each.group, {}).setdefault(each.number, each)
        return found

    @cached_property
    def unfinished(self) -> tuple[Operation, ...]:
        """The operations that are not over, of all groups."""
        return tuple(each for each in self.operations if not each.is_over)

    @cached_property
    def transfers(self) -> dict[str, list[Operation]]:
        """The unfinished sends and receives whose other rank is known, by group."""
        found: dict[str, list[Operation]] = {}
        for each in self.unfinished:
            if each.is_p2p and each.peer is not None:
                found.setdefault(each.group, []).append(each)
        return found

    def elsewhere(self, group: str) -> Operation | None:
        """Return the oldest unfinished operation in a group other than this one; None if there is none."""
        return next((each for each in self.unfinished if each.group != group), None)


def read_flight_recorder(path: str, most_bytes: int | None = None) -> RankDump:
    """Read a rank's dump. Raises TraceError. ``most_bytes``: as of load_dump."""
    held = load_dump(path, most_bytes)
    if type(held) is not dict or not ("entries" in held or "pg_config" in held):
        raise TraceError(f"{path}: holds no dump of NCCL's flight recorder")
    named = _RANK.search(os.path.basename(path))
    rank = whole_number(held.get("rank"))
    if rank is None:
        rank = int(named[1]) if named else None
    if rank is None:
        raise TraceError(f"{path}: does not tell its rank: name it as PyTorch does, as nccl_trace_rank_3")
    groups: dict[str, ProcessGroup] = {}
    config = held.get("pg_config")
    for name, each in (config if type(config) is dict else {}).items():
        if type(each) is dict:
            groups[name] = ProcessGroup(name, text(each.get("desc")), _members(each.get("ranks"), path))
    operations = [_operation(entry, groups) for entry in objects(held.get("entries"))]
    operations.sort(key=lambda each: each.order)
    return RankDump(path, rank, text(held.get("version")), groups, tuple(_with_common_state(operations)))


def _with_common_state(operations: list[Operation]) -> list[Operation]:
    """Return the operations, those that were given together with the state of the entry that stands for all of them: of
    the others PyTorch notes no end."""
    ends = {_together(each): each for each in operations if each.name == "coalesced"}
    return [
        each if (end := ends.get(_together(each))) is None else each._replace(
            state=end.state, completed_ns=end.completed_ns
        )
        for each in operations
    ]  # fmt: skip


def _together(operation: Operation) -> tuple[str, bool, int]:
    return operation.group, operation.is_p2p, operation.number


def _members(ranks: Any, path: str) -> tuple[int, ...]:
    """Return the ranks of a group, which are a list or a text such as ``[0, 1]``. Raises TraceError if they are too
    many."""
    found: list[Any]
    if isinstance(ranks, str):
        found = [] if (n := ranks.count(",")) > _MOST_RANKS else re.findall(r"\d{1,9}", ranks)
    else:
        found, n = _list(ranks), len(_list(ranks))
    if n > _MOST_RANKS:
        raise TraceError(f"{path}: names a process group of {n:,} ranks: no job has had as many")
    return tuple(sorted({number for each in found if (number := whole_number(each)) is not None}))


def _operation(entry: dict[str, Any], groups: dict[str, ProcessGroup]) -> Operation:
    """Read an entry of the buffer, and note its group in ``groups`` if that is not there yet."""
    named = entry.get("process_group")
    parts = [text(each) for each in named] if isinstance(named, list | tuple) else []
    group, about = (*parts, "", "")[:2] if parts else (str(whole_number(entry.get("pg_id"))), "")
    groups.setdefault(group, ProcessGroup(group, about, ()))
    name = text(entry.get("profiling_name")).partition(":")[2] or text(entry.get("profiling_name"))
    peers = _PEER.fullmatch(name)
    is_p2p = entry.get("is_p2p") is True or peers is not None
    number = whole_number(entry.get("p2p_seq_id" if is_p2p else "collective_seq_id", entry.get("seq_id")))
    state = text(entry.get("state"))
    completed = whole_number(entry.get("time_discovered_completed_ns")) or None
    sizes = [_elements(entry.get(key)) for key in ("input_sizes", "output_sizes")]
    known = (sizes[0], sizes[1]) if sizes[0] is not None and sizes[1] is not None else None
    return Operation(
        group, number or 0, peers[1] if peers else name, is_p2p, int(peers[3]) if peers else None,
        "completed" if state == "completed" or completed else "started" if state == "started" else "scheduled",
        tuple(text(each) for key in ("input_dtypes", "output_dtypes") for each in _list(entry.get(key))),
        known, whole_number(entry.get("time_created_ns")) or None, completed, whole_number(entry.get("record_id")) or 0,
    )  # fmt: skip


def _list(value: Any) -> list[Any]:
    return value if type(value) is list else []


def _elements(shapes: Any) -> int | None:
    """Return how many elements tensors of these shapes have together; None if they are no shapes. Before PyTorch 2.4 a
    single shape stands there."""
    found = _list(shapes)
    if type(shapes) is not list:
        return None
    if found and type(found[0]) is not list:
        found = [found]
    total = 0
    for shape in found:
        sides = [whole_number(side) for side in shape] if type(shape) is list and len(shape) < 65 else [None]
        if any(side is None or not 0 <= side < 1 << 40 for side in sides):
            return None
        total += math.prod(side for side in sides if side is not None)
    return total
