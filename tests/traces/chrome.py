"""Small Chrome traces, and what a reader makes of one, to be compared."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gssr.traces.kineto import read_kineto
from gssr.traces.timeline import Timeline

UNIX_US = 1_712_195_495_519_689


def span(
    name: str, ts: float, dur: float, cat: str = "cpu_op", pid: Any = 4, tid: Any = 5, **args: Any
) -> dict[str, Any]:
    return {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args}


def kernel(name: str, ts: float, dur: float, device: int = 0, stream: int = 7, **args: Any) -> dict[str, Any]:
    return span(name, ts, dur, "kernel", device, stream, device=device, stream=stream, **args)


def text(events: Sequence[Any], behind: bool = False, **keys: Any) -> str:
    """As torch.profiler writes it: an event's braces stand on lines of their own."""
    inner = ",\n".join("  " + json.dumps(event, indent=2).replace("\n", "\n  ") for event in events)
    others = "".join(f'  "{key}": {json.dumps(value)},\n' for key, value in keys.items())
    if behind:
        return '{\n  "traceEvents": [\n' + inner + "\n  ]" + f",\n{others}".rstrip().rstrip(",") + "\n}\n"
    return "{\n" + others + '  "traceEvents": [\n' + inner + "\n  ]\n}\n"


def read(folder: Path, content: str | bytes | Sequence[Any], name: str = "trace.json", **keys: Any) -> Timeline:
    """What is read of a text, or of events."""
    if not isinstance(content, str | bytes):
        content = text(content, **keys)
    path = folder / name
    path.write_bytes(content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content)
    return read_kineto(str(path))


def rows(timeline: Timeline) -> list[tuple[Any, ...]]:
    """(name, start, length, kind, track's name, link, size) of each interval, in ns."""
    one = timeline.intervals
    return [
        (timeline.names[name], start, length, kind, timeline.tracks[track].name, link, size)
        for start, length, name, kind, track, link, size in zip(
            *(getattr(one, c).tolist() for c in ("start", "length", "name", "kind", "track", "link", "size")),
            strict=True,
        )
    ]


def spans(timeline: Timeline) -> list[tuple[str, int, int]]:
    """(name, start, length) of each interval, in ns."""
    return [row[:3] for row in rows(timeline)]
