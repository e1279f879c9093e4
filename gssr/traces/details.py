"""What a file says of one interval besides what all have: grid, block, registers, shapes. Read when it is asked for."""

import json
from collections.abc import Mapping
from typing import Any

from gssr.traces.event_columns import ns_of
from gssr.traces.json_events import JsonEvents
from gssr.traces.nsys import details_at
from gssr.traces.timeline import Kind, Timeline, TraceError

_MOST, _LONGEST = 40, 200
"""Details, and characters of one."""
_FIRST = ("grid", "block", "registers", "shared", "Input")
"""How the names begin of what is told first."""
_KNOWN = {"device", "stream", "bytes"}
"""Said already."""


def details_of(timeline: Timeline, place: int) -> Mapping[str, str]:
    """Read from the file further details of the interval with index ``place`` (grid, block, registers, shapes), by the
    file's names for them, at most 40. Empty if the format has none, or the interval or the file is not found."""
    own = timeline.intervals
    source = timeline.sources[timeline.tracks[own.track[place]].source]
    start, length = int(own.start[place]) + source.zero_ns, int(own.length[place])
    name = timeline.names[own.name[place]]
    found: Mapping[str, Any] = {}
    try:
        if source.format in ("kineto", "chrome"):
            found = _of_json(source.path, name, start, length)
        elif source.format == "nsys":
            found = _triples(details_at(source.path, Kind(int(own.kind[place])), start, start + length))
    except (TraceError, OSError, ValueError, RecursionError):
        found = {}
    told = {str(key): _text(value) for key, value in found.items() if key not in _KNOWN and value not in (None, "")}
    rank = {name: next((at for at, begin in enumerate(_FIRST) if name.startswith(begin)), len(_FIRST)) for name in told}
    return dict(sorted(told.items(), key=lambda each: rank[each[0]])[:_MOST])


def _text(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text[:_LONGEST]


def _of_json(path: str, name: str, start: int, length: int) -> dict[str, Any]:
    """Read the arguments of the event with this name, start and length (ns on the file's own clock). Empty if there is
    none. Times are compared only as exactly as the file writes them."""
    digits = {str(near // 1000).encode() for near in (start - 500, start, start + 500)}
    for events, part in JsonEvents(path):
        text = bytes(part)
        if not any(each in text for each in digits):
            continue
        for at, event in enumerate(events):
            if event.name == name and event.ph == "X" and _is(event.ts, start) and _is(event.dur, length):
                args = json.loads(b"[" + text + b"]")[at].get("args")
                return args if isinstance(args, dict) else {}
    return {}


def _is(us: Any, ns: int) -> bool:
    found = ns_of(us)
    return found is not None and abs(found - ns) <= 500  # a double of a time since 1970 tells no more


def _triples(row: Mapping[str, Any]) -> dict[str, Any]:
    """Join gridX, gridY and gridZ into one value ``grid``, a list, and the same for ``block``."""
    found: dict[str, Any] = {}
    for key, value in row.items():
        if key[:-1] in ("grid", "block") and key[-1] in "XYZ":
            found.setdefault(key[:-1], []).append(value)
        else:
            found[key] = value
    return found
