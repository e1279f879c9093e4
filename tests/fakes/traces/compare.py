"""Holds what a reader gives against what a made file means: ``differences(timeline, written)`` is [] where they agree."""

import re
from collections import defaultdict
from collections.abc import Iterable

from gssr.traces.timeline import BUSY, NO_LINK, OPERATIONS, Category, Kind, Timeline, Track

from . import kineto, nsys
from .content import Event, Sample, same_name

MOST = 20  # sentences
Place = tuple[object, ...]


def place_of(track: Track, *, by_pid: bool) -> Place:
    """Where a track lies, in the terms of its format: a report tells the process of a GPU's rows, Kineto the GPU."""
    if track.kind == "gpu_stream":
        return ("gpu", track.pid if by_pid else track.device, track.stream)
    return ("cpu", track.pid, track.tid)


def events_of(timeline: Timeline) -> list[tuple[Event, Track]]:
    """The timeline's intervals as events, in its order."""
    rows = timeline.intervals
    found = []
    for i in range(len(rows)):
        track = timeline.tracks[rows.track[i]]
        operation = int(rows.operation[i])
        kind = Kind(int(rows.kind[i]))
        event = Event(
            kind, timeline.names[rows.name[i]], int(rows.start[i]), int(rows.length[i]), link=int(rows.link[i]),
            size=int(rows.size[i]), operation=OPERATIONS[operation] if operation >= 0 else "",
            category=Category(int(rows.category[i])),
        )  # fmt: skip
        found.append((event, track))
    return found


def differences(timeline: Timeline, written: "kineto.Written | nsys.Written") -> list[str]:
    """At most MOST sentences on where a timeline of one made file differs from what the file means."""
    by_pid = isinstance(written, nsys.Written)
    tolerance = 0 if isinstance(written, nsys.Written) else written.tolerance_ns
    said: list[str] = []
    rows = timeline.intervals
    for i in range(1, len(rows)):
        if (rows.start[i], -rows.length[i]) < (rows.start[i - 1], -rows.length[i - 1]):
            said.append(f"interval {i} stands before one that begins earlier, or is longer")
            break
    if isinstance(written, nsys.Written):
        meant = [e for found in written.events.values() for e in found]
        optional = {(name, start) for name, start in written.open_ranges}
    else:
        meant = list(written.events)
        optional = set()
    shift = 0  # from the timeline's times to the content's
    if written.unix_ns is not None:
        if timeline.clock.unix_ns is None:
            return ["the timeline does not know its unix time"]
        shift = timeline.clock.unix_ns - written.unix_ns
    elif timeline.clock.unix_ns is not None:
        return [f"the timeline has made up a unix time, {timeline.clock.unix_ns}"]
    elif len(rows) and meant:
        shift = min(e.start for e in meant) - int(rows.start.min())
    ours: dict[Place, list[tuple[Event, Track]]] = defaultdict(list)
    for event, track in events_of(timeline):
        event = event._replace(start=event.start + shift)
        if event.name == kineto.SPAN or (event.name, event.start) in optional:
            continue
        kind = Kind.RUNTIME if event.kind is Kind.DRIVER and by_pid else event.kind
        ours[(kind, *place_of(track, by_pid=by_pid))].append((event, track))
    theirs: dict[Place, list[Event]] = defaultdict(list)
    for event in meant:
        kind = Kind.RUNTIME if event.kind is Kind.DRIVER and by_pid else event.kind
        at = ("cpu", event.pid, event.tid)
        if event.device is not None:
            at = ("gpu", event.pid if by_pid else event.device, event.stream)  # type: ignore[assignment]
        theirs[(kind, *at)].append(event)
    links: dict[tuple[object, int], int] = {}
    for key in sorted(ours.keys() | theirs.keys(), key=str):
        mine = sorted(ours[key], key=lambda pair: (pair[0].start, -pair[0].length, pair[0].name))
        its = sorted(theirs[key], key=lambda e: (e.start, -e.length, e.name))
        if len(mine) != len(its):
            said.append(f"{key}: {len(mine)} intervals for {len(its)}")
            continue
        for (event, track), other in zip(mine, its, strict=True):
            said += one(event, track, other, tolerance, by_pid)
            group = (other.pid, other.link) if other.link != NO_LINK else None
            if (group is None) != (event.link == NO_LINK):
                said.append(f"{other.name} at {other.start}: link {event.link} for {other.link}")
            elif group is not None and links.setdefault(group, event.link) != event.link:
                said.append(f"{other.name} at {other.start}: link {event.link}, its like had {links[group]}")
    if len(set(links.values())) != len(links):
        said.append("two calls have one link")
    left_out = sum(source.left_out for source in timeline.sources)
    junk = 0 if isinstance(written, nsys.Written) else written.junk
    if not written.left_out <= left_out <= written.left_out + junk:
        said.append(f"{left_out} events left out for {written.left_out} (and {junk} that are none)")
    said += of_counters(timeline, written.samples, shift, tolerance)
    return said[:MOST]


def one(event: Event, track: Track, other: Event, tolerance: int, by_pid: bool) -> list[str]:
    """What differs between an interval and the event that it should be."""
    where = f"{other.kind.name} {other.name[:40]!r} at {other.start}"
    said = []
    name = re.sub(r"_v\d{4,5}$", "", event.name) if by_pid else event.name
    if other.name and not same_name(name, other.name):
        said.append(f"{where}: name {name[:60]!r}")
    if abs(event.start - other.start) > tolerance or abs(event.length - other.length) > 0:
        said.append(f"{where}, {other.length} long: start {event.start}, length {event.length}")
    if other.kind in BUSY and event.category != other.category:
        said.append(f"{where}: category {event.category.name} for {other.category.name}")
    if other.size >= 0 and event.size != other.size:
        said.append(f"{where}: size {event.size} for {other.size}")
    if other.operation and event.operation != other.operation:
        said.append(f"{where}: operation {event.operation} for {other.operation}")
    if track.device is None and other.device is not None:
        said.append(f"{where}: its track has no device")
    return said


def of_counters(timeline: Timeline, samples: Iterable[Sample], shift: int, tolerance: int) -> list[str]:
    """What differs between the counters and the samples written: a counter is found by its name within the reader's."""
    said = []
    meant: dict[str, list[Sample]] = defaultdict(list)
    for sample in samples:
        meant[sample.name].append(sample)
    for name, expected in meant.items():
        found = [
            (int(time) + shift, float(value))
            for counter in timeline.counters
            if name.casefold() in counter.name.casefold()
            for time, value in zip(counter.time, counter.value, strict=True)
        ]
        wanted = sorted((s.time, s.value) for s in expected)
        if len(found) != len(wanted):
            said.append(f"counter {name}: {len(found)} values for {len(wanted)}")
        elif any(abs(a[0] - b[0]) > tolerance or a[1] != b[1] for a, b in zip(sorted(found), wanted, strict=True)):
            said.append(f"counter {name}: other times or values")
    return said
