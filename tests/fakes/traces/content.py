"""What a made trace means, whatever format it is written in: events in whole ns, and their split by a plain sweep."""

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from gssr.traces.timeline import BUSY, NO_LINK, Category, Kind

COPY_NAMES = {
    "HtoD": "Memcpy HtoD (Pinned -> Device)",
    "DtoH": "Memcpy DtoH (Device -> Pinned)",
    "DtoD": "Memcpy DtoD (Device -> Device)",
    "PtoP": "Memcpy PtoP (Device -> Device)",
}
PAGEABLE_NAMES = {"HtoD": "Memcpy HtoD (Pageable -> Device)", "DtoH": "Memcpy DtoH (Device -> Pageable)"}
MEMSET_NAME = "Memset (Device)"


class Event(NamedTuple):
    """One interval. ``start``: ns after the content's zero. GPU rows have ``device`` and ``stream``, others ``pid`` and
    ``tid``. ``link``: the correlation that a GPU row shares with its call, of its rank. ``operation``: of OPERATIONS."""

    kind: Kind
    name: str
    start: int
    length: int
    pid: int = 0
    tid: int = 0
    device: int | None = None
    stream: int | None = None
    link: int = NO_LINK
    size: int = -1
    operation: str = ""
    pageable: bool = False
    category: Category = Category.OTHER

    @property
    def end(self) -> int:
        """The first ns after it."""
        return self.start + self.length


class Sample(NamedTuple):
    """A value of a counter at a time: ``device`` None for the whole process."""

    name: str
    device: int | None
    time: int
    value: float


class Content(NamedTuple):
    """What one rank's trace holds: ``unix_ns`` is the unix time of its zero."""

    rank: int
    events: tuple[Event, ...]
    samples: tuple[Sample, ...] = ()
    unix_ns: int = 1_760_000_000_123_456_789

    def in_order(self) -> list[Event]:
        """Its events as a timeline has them: by start, of the same start the longer first."""
        return sorted(self.events, key=lambda e: (e.start, -e.length))


class Split(NamedTuple):
    """Of one GPU. ``types``: the time in which exactly these categories ran, by their set."""

    span: int
    busy: int
    compute: int
    communication: int
    copy: int
    exposed_communication: int
    exposed_copy: int
    types: dict[frozenset[Category], int]

    @property
    def idle(self) -> int:
        """The part of the span in which nothing ran."""
        return self.span - self.busy


def split(events: Iterable[Event], device: int | None = None) -> Split:
    """The split of a GPU's time by walking over all starts and ends: slow, plain, and independent of any other code."""
    rows = [e for e in events if e.kind in BUSY and (device is None or e.device == device)]
    changes = sorted([(e.start, 1, e.category) for e in rows] + [(e.end, -1, e.category) for e in rows])
    running: Counter[Category] = Counter()
    types: Counter[frozenset[Category]] = Counter()
    before = changes[0][0] if changes else 0
    for time, change, category in changes:
        now = frozenset(c for c, n in running.items() if n > 0)
        if now and time > before:
            types[now] += time - before
        running[category] += change
        before = time
    span = max(e.end for e in rows) - min(e.start for e in rows) if rows else 0

    def of(category: Category) -> int:
        return sum(t for kinds, t in types.items() if category in kinds)

    return Split(
        span,
        sum(types.values()),
        of(Category.COMPUTE),
        of(Category.COMMUNICATION),
        of(Category.COPY),
        sum(t for k, t in types.items() if Category.COMMUNICATION in k and Category.COMPUTE not in k),
        types[frozenset({Category.COPY})],
        dict(types),
    )
