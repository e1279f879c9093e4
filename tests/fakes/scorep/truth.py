"""What a program did, by a plain walk over its records: nothing but stacks and sums."""

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from .program import Program, Record

Path = tuple[str, ...]


class Spent(NamedTuple):
    """Of a region or path: calls, and time with and without what it called, in ns. Of a region that calls itself, time
    counts once in ``inclusive``."""

    count: int = 0
    inclusive: int = 0
    exclusive: int = 0

    def __add__(self, other: object) -> "Spent":
        assert isinstance(other, Spent)
        return Spent(*(a + b for a, b in zip(self, other, strict=True)))


class Message(NamedTuple):
    """One message between two ranks of the world; ``received`` is when it was there."""

    source: int
    target: int
    sent: int
    received: int
    size: int
    tag: int
    comm: int


class Collective(NamedTuple):
    """One location's part in one collective call. ``waited``: from its begin to the last one's begin."""

    operation: str
    comm: int
    rank: int
    begin: int
    end: int
    sent: int
    received: int
    waited: int


class Operation(NamedTuple):
    """One operation on a file."""

    file: str
    mode: str
    rank: int
    begin: int
    end: int
    asked: int
    size: int
    call: str


class Truth(NamedTuple):
    """``regions`` and ``paths`` by (name or path, location); ``open_regions``: what was not left, with its location and
    the time at which it was entered; ``n_events``: all records."""

    regions: dict[tuple[str, int], Spent]
    paths: dict[tuple[Path, int], Spent]
    messages: list[Message]
    collectives: list[Collective]
    operations: list[Operation]
    series: dict[tuple[str, int], list[tuple[int, float]]]
    open_regions: list[tuple[str, int, int]]
    n_events: int

    def by_path(self) -> dict[Path, Spent]:
        """Of all locations together."""
        found: dict[Path, Spent] = defaultdict(Spent)
        for (path, _), spent in self.paths.items():
            found[path] += spent
        return dict(found)

    def matrix(self) -> dict[tuple[int, int], tuple[int, int]]:
        """Messages and bytes by (source, target)."""
        found: dict[tuple[int, int], tuple[int, int]] = {}
        for message in self.messages:
            count, size = found.get((message.source, message.target), (0, 0))
            found[message.source, message.target] = (count + 1, size + message.size)
        return found


def _walk(records: Iterable[Record], names: list[str], end: int, regions: dict[str, Spent], paths: dict[Path, Spent]
          ) -> list[tuple[str, int]]:  # fmt: skip
    """One location; what is open at the end lasts until then. Returns that."""
    stack: list[tuple[str, int, int]] = []  # name, begin, time of what it called

    def leave(time: int) -> None:
        name, begin, inside = stack.pop()
        took = time - begin
        again = any(outer[0] == name for outer in stack)
        regions[name] = regions.get(name, Spent()) + Spent(1, 0 if again else took, took - inside)
        path = (*(outer[0] for outer in stack), name)
        paths[path] = paths.get(path, Spent()) + Spent(1, took, took - inside)
        if stack:
            stack[-1] = (stack[-1][0], stack[-1][1], stack[-1][2] + took)

    for record in records:
        if record[1] == "enter":
            stack.append((names[record[2]], record[0], 0))
        elif record[1] == "leave" and stack:
            leave(record[0])
    left = [(name, begin) for name, begin, _ in stack]
    while stack:
        leave(end)
    return left


def of(program: Program, events: dict[int, list[Record]] | None = None) -> Truth:
    """The truth of a program, or of some of its events."""
    events = program.events if events is None else events
    names = [region.name for region in program.regions]
    end = max((record[0] for records in events.values() for record in records), default=0)
    regions: dict[tuple[str, int], Spent] = {}
    paths: dict[tuple[Path, int], Spent] = {}
    left: list[tuple[str, int, int]] = []
    sends: dict[tuple[int, int, int, int], list[Record]] = defaultdict(list)
    receives: dict[tuple[int, int, int, int], list[Record]] = defaultdict(list)
    parts: dict[tuple[int, int], list[tuple[int, int, Record]]] = defaultdict(list)
    calls: dict[tuple[int, int], int] = defaultdict(int)
    operations: list[Operation] = []
    series: dict[tuple[str, int], list[tuple[int, float]]] = defaultdict(list)
    for at in program.locations:
        records = events.get(at.number, [])
        of_regions: dict[str, Spent] = {}
        of_paths: dict[Path, Spent] = {}
        left += [(name, at.number, begin) for name, begin in _walk(records, names, end, of_regions, of_paths)]
        regions |= {(name, at.number): spent for name, spent in of_regions.items()}
        paths |= {(path, at.number): spent for path, spent in of_paths.items()}
        begun = 0
        files: dict[int, Record] = {}
        inside: list[str] = []
        for record in records:
            time, what = record[:2]
            if what == "enter":
                inside.append(names[record[2]])
            elif what == "leave" and inside:
                inside.pop()
            elif what == "send":
                sends[at.rank, record[2], record[3], record[4]].append(record)
            elif what == "recv":
                receives[record[2], at.rank, record[3], record[4]].append(record)
            elif what == "coll_begin":
                begun = time
            elif what == "coll_end":
                parts[record[3], calls[at.number, record[3]]].append((at.rank, begun, record))
                calls[at.number, record[3]] += 1
            elif what == "io_begin":
                files[record[5]] = record
            elif what == "io_end":
                first = files.pop(record[4])
                operations.append(
                    Operation(record[2], first[3], at.rank, first[0], time, first[4], record[3], inside[-1])
                )  # fmt: skip
            elif what == "metric":
                metric = program.metrics[record[2]]
                series[metric.name, at.number].append((time, record[3] * metric.factor))
    messages = [
        Message(key[0], key[1], sent[0], got[0], sent[5], key[3], key[2])
        for key, found in sends.items()
        for sent, got in zip(found, receives[key], strict=False)
    ]
    collectives = [
        Collective(record[2], comm, rank, begin, record[0], record[5], record[6], max(b for _, b, _ in group) - begin)
        for (comm, _), group in parts.items()
        for rank, begin, record in group
    ]
    n_events = sum(len(records) for records in events.values())
    return Truth(regions, paths, messages, collectives, operations, dict(series), left, n_events)
