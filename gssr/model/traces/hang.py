"""Who waits for whom when a job hangs in NCCL: the first operation of each process group that is not over on all ranks, who
came to it, who did not, and who came with something else.

A buffer holds a rank's newest operations. So a rank that holds a later one of the same group has come, and one whose newest
in the group is an earlier one has not.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from gssr.traces.flight_recorder import Operation, ProcessGroup, RankDump
from gssr.traces.timeline import TraceError

_SAME_SIZES = (
    "all_reduce", "allreduce", "broadcast", "reduce", "all_gather_into_tensor", "_all_gather_base", "_allgather_base",
    "_reduce_scatter_base", "reduce_scatter_tensor", "all_reduce_barrier", "barrier", "allreduce_coalesced",
)  # fmt: skip
"""Operations to which all ranks bring as many elements: of others, such as all_to_all, sizes may differ."""
Role = Literal["waits", "finished", "missing", "differs", "went on", "unknown", "no dump"]


class Member(NamedTuple):
    """A rank of a group at the operation in question.

    ``role``: ``waits`` came and has not finished, ``finished``, ``missing`` did not come, ``differs`` came with another
    operation, type or size than most, ``went on`` holds only later ones, ``unknown`` holds none of the group in a buffer
    that has lost its first operations, ``no dump``.
    ``brought``: its own operation, None where it is not in its buffer. ``last_over``: its newest finished operation of
    the group, ``elsewhere``: its oldest unfinished operation in another group; None without one.
    """

    rank: int
    role: Role
    brought: Operation | None
    last_over: Operation | None
    elsewhere: Operation | None


@dataclass(frozen=True)
class Wait:
    """A process group that stands still at one operation.

    ``operation``: the one that most of the ranks which came have brought. ``members`` are in the order of their ranks.
    ``is_sure`` is False where the dumps do not tell who belongs to the group: then only those are known that have used
    it.
    """

    group: ProcessGroup
    operation: Operation
    members: tuple[Member, ...]
    is_sure: bool

    def ranks(self, *roles: Role) -> list[int]:
        """List the ranks with one of these roles."""
        return [member.rank for member in self.members if member.role in roles]

    @property
    def waits_elsewhere(self) -> bool:
        """Tell whether a missing rank has something unfinished in another group, which is to be looked at first."""
        return any(member.role == "missing" and member.elsewhere is not None for member in self.members)


class Transfer(NamedTuple):
    """A send or receive of ``rank`` that is not over. ``peer``: the other rank. ``has_come``: whether that holds an
    unfinished receive or send of its own to match; None where it has written no dump. ``elsewhere``: the oldest other
    operation that the peer has not finished."""

    rank: int
    peer: int
    operation: Operation
    group: ProcessGroup
    has_come: bool | None
    elsewhere: Operation | None


@dataclass(frozen=True)
class HangAnalysis:
    """``waits``: a group each, those first whose missing ranks wait nowhere else. ``missing_dumps``: ranks of groups of
    which there is no file."""

    dumps: tuple[RankDump, ...]
    waits: tuple[Wait, ...]
    transfers: tuple[Transfer, ...]
    missing_dumps: tuple[int, ...]


def analyze_hang(dumps: Sequence[RankDump]) -> HangAnalysis:
    """Say who waits for whom. Raises TraceError if two dumps are of one rank."""
    by_rank: dict[int, RankDump] = {}
    for dump in sorted(dumps, key=lambda each: each.rank):
        if dump.rank in by_rank:
            other = by_rank[dump.rank].path
            raise TraceError(f"{dump.path}: is of rank {dump.rank}, as {other} is: name the dumps of one hang alone")
        by_rank[dump.rank] = dump
    waits: list[Wait] = []
    transfers: list[Transfer] = []
    members: set[int] = set()
    for group, own, is_sure in _groups(by_rank):
        members.update(group.ranks)
        if (wait := _wait(group, own, by_rank, is_sure)) is not None:
            waits.append(wait)
        transfers += _transfers(group, own, by_rank)
    waits.sort(key=lambda wait: (wait.waits_elsewhere, not wait.ranks("missing", "differs")))
    return HangAnalysis(tuple(by_rank.values()), tuple(waits), tuple(transfers), tuple(sorted(members - set(by_rank))))


def _groups(by_rank: dict[int, RankDump]) -> list[tuple[ProcessGroup, dict[int, RankDump], bool]]:
    """List the groups with those of their members who have written a dump, and whether the members are told; if not, they
    are the ranks that have used the group.

    PyTorch notes a group when a rank first uses it: a member without a note of it has not used it yet. Groups of one name
    with other members are others, which were split off.
    """
    told: dict[tuple[str, tuple[int, ...]], tuple[ProcessGroup, list[int]]] = {}
    for rank, own in by_rank.items():
        for group in own.groups.values():
            told.setdefault((group.name, group.ranks), (group, []))[1].append(rank)
    found = []
    for group, users in told.values():
        noted = ((rank, by_rank[rank].groups.get(group.name)) for rank in group.ranks if rank in by_rank)
        ranks = [rank for rank, own_group in noted if own_group is None or own_group.ranks == group.ranks] or users
        held = {rank: by_rank[rank] for rank in ranks}
        found.append((group if group.ranks else group._replace(ranks=tuple(users)), held, bool(group.ranks)))
    return found


def _wait(group: ProcessGroup, held: dict[int, RankDump], by_rank: dict[int, RankDump], is_sure: bool) -> Wait | None:
    """Return where the group stands still; None if all its collective operations are over that any rank holds."""
    operations = {rank: own.collectives.get(group.name, {}) for rank, own in held.items()}
    stuck = [number for own in operations.values() for number, each in own.items() if not each.is_over]
    if not stuck:
        return None
    number = min(stuck)
    brought = [own[number] for own in operations.values() if number in own]
    kind = Counter(map(_kind, brought)).most_common(1)[0][0]
    members = []
    for rank in group.ranks:
        own, mine = operations.get(rank, {}), operations.get(rank, {}).get(number)
        over = max((each for each in own.values() if each.is_over), key=lambda each: each.number, default=None)
        members.append(
            Member(rank, _role(number, held.get(rank), own, kind) if rank in by_rank else "no dump", mine, over,
                   held[rank].elsewhere(group.name) if rank in held else None)
        )  # fmt: skip
    return Wait(group, next(each for each in brought if _kind(each) == kind), tuple(members), is_sure)


def _role(number: int, held: RankDump | None, own: dict[int, Operation], kind: tuple[object, ...]) -> Role:
    """Say what a rank does at the operation ``number`` of a group.

    A buffer holds the newest operations: a rank that holds only earlier ones has not come to this one ("missing"), and one
    that holds later ones and not this one has left it behind ("went on"). A rank that holds none of the group is missing if
    its buffer goes back to its first operation, and unknown otherwise.

    Args:
        number: The operation, counted within the group.
        held: All that the rank's buffer holds; None if its group of this name has other ranks.
        own: The rank's operations in this group, by number.
        kind: What most ranks run at ``number``, as ``_kind`` returns it.
    """
    if number in own:
        return "differs" if _kind(own[number]) != kind else "finished" if own[number].is_over else "waits"
    if own:
        return "went on" if max(own) > number else "missing"
    return "missing" if held is not None and held.is_whole else "unknown"


def _kind(operation: Operation) -> tuple[object, ...]:
    """Return what must be the same on all ranks."""
    elements = operation.elements if operation.name in _SAME_SIZES else None
    return operation.name, operation.types, elements


def _transfers(group: ProcessGroup, held: dict[int, RankDump], by_rank: dict[int, RankDump]) -> list[Transfer]:
    """List the sends and receives of the group that are not over, in the order of their ranks. The n-th unfinished send
    from one rank to another is matched with the n-th unfinished receive there."""
    places = {rank: place for place, rank in enumerate(group.ranks)}
    there = Counter(
        (rank, each.name, each.peer) for rank, own in held.items() for each in own.transfers.get(group.name, ())
    )
    others: dict[tuple[int, int], Operation | None] = {}
    found = []
    for rank, own in held.items():
        done: Counter[tuple[str, int | None]] = Counter()
        for each in own.transfers.get(group.name, ()):
            if each.peer is None or each.peer >= len(group.ranks):
                continue
            done[each.name, each.peer] += 1
            peer, me = group.ranks[each.peer], places.get(rank)
            other_end = "recv" if each.name == "send" else "send"
            has_come = there[peer, other_end, me] >= done[each.name, each.peer] if peer in by_rank else None
            if (peer, rank) not in others:
                waiting = by_rank[peer].unfinished if peer in by_rank else []
                others[peer, rank] = next(
                    (one for one in waiting if one.group != group.name or one.peer != me or not one.is_p2p), None
                )
            found.append(Transfer(rank, peer, each, group, has_come, others[peer, rank]))
    return found
