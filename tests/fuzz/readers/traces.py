"""Hostile traces as JSON: sound ones of every form that are damaged, or whose text is changed where it hurts; and files of
every kind to be told apart. What is read must be in the file: of sound JSON exactly its events."""

import gzip
import json
import random
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path

from gssr.recognise import READABLE, recognise
from gssr.traces import json_events
from gssr.traces.kineto import read_kineto
from gssr.traces.open import open_traces
from gssr.traces.timeline import TraceError
from tests.fuzz.readers import TEXT, Parser, damage

_SPLICED = (
    b'"', b"\\", b"{", b"}", b"[", b"]", b",", b":", b"},{", b'},{"ph":"X"', b"\n  },\n  {", b"]}", b"null", b"NaN",
    b"-Infinity",     b"1e999", b"1e-999", b"-1", b"9" * 30, b"0.0009", b'"ts":"1"', b'"dur":-5', b'"ph":"B"',
    b'"ph":"E"', b'"ph":"C"', b"true",     b'"args":[]', b'"args":1', b'"cat":"kernel"', b'"stream":"0x0"',
    b'"correlation":1.5', b"\xff\xfe", b"\0", b"\\ud800",     b'"traceEvents":[', b'"baseTimeNanoseconds":1e300',
    b'"distributedInfo":{"rank":"x"}', b" " * 3000, b"[" * 3000, b"{" * 2000,
)  # fmt: skip


@cache
def _sound() -> tuple[bytes, ...]:
    def span(n: int, cat: str, **args: object) -> dict[str, object]:
        return {
            "ph": "X",
            "cat": cat,
            "name": f"n{n}",
            "pid": n % 2,
            "tid": n % 3,
            "ts": 100.5 + n,
            "dur": 2,
            "args": args,
        }

    events: list[object] = [
        {"ph": "M", "name": "process_name", "pid": 0, "tid": 0, "args": {"name": "/device:GPU:0"}},
        {"ph": "M", "name": "thread_name", "pid": 0, "tid": 1, "args": {"name": "Stream #1(Compute)"}},
        span(0, "cpu_op", shapes=[[1, 2], []], nested=[{"ph": "X"}, {"a": "},{"}]), span(1, "cuda_runtime", correlation=7),
        span(2, "kernel", device=0, stream=2, correlation=7), span(3, "gpu_memcpy", device=0, stream=0, bytes=64),
        span(4, "cuda_profiler_range", **{"inst.sum": 5, "cycles.avg": 2.5}),
        {"ph": "i", "name": "[memory]", "ts": 3, "args": {"Total Allocated": 4, "Device Type": 1, "Device Id": 0}},
        {"ph": "C", "name": "queue", "ts": 4, "args": {"length": 5}}, {}, {"ph": "s", "id": 7, "ts": 5, "cat": "ac2g"},
        {"ph": "B", "name": "b", "pid": 1, "tid": 1, "ts": 6}, {"ph": "E", "pid": 1, "tid": 1, "ts": 8.25},
    ]  # fmt: skip
    keys = {"schemaVersion": 1, "distributedInfo": {"rank": 1}, "deviceProperties": [{"id": 0, "name": "GPU"}]}
    base = {"baseTimeNanoseconds": 1_711_964_646 * 10**9, "host_name": "n"}
    behind, before = {**keys, "traceEvents": events, **base}, {"traceEvents": events, **keys}
    texts = [
        json.dumps(behind),
        json.dumps(before, indent=2),
        json.dumps(events),
        json.dumps(behind, separators=(",", ":")),
    ]
    return tuple(text.encode() for text in (*texts, json.dumps(behind, indent=2).replace("    {", "  {")))


def _drawn(rng: random.Random) -> bytes:
    data = rng.choice(_sound())
    for _ in range(rng.choice((0, 1, 1, 2, 4))):
        how, at = rng.randrange(4), rng.randrange(len(data) + 1)
        if how == 0:
            data = damage(data, rng)
        elif how == 1:
            data = data[:at] + rng.choice(_SPLICED) + data[at + rng.choice((0, 0, 1, 5)) :]
        elif how == 2:
            data = data[:at] + rng.choice(TEXT).encode("utf-8", "surrogatepass") + data[at:]
        elif rng.random() < 0.3:
            data = data[:at]
    if rng.random() < 0.1:
        data = gzip.compress(data, 1)
        data = damage(data, rng) if rng.random() < 0.5 else data
    return data


def _with_pieces_of(size: int, read: Callable[[], object]) -> object:
    before = json_events.PIECE
    json_events.PIECE = size
    try:
        return read()
    finally:
        json_events.PIECE = before


def _kineto(folder: Path, data: bytes) -> None:
    path = folder / "trace.json"
    path.write_bytes(data)
    size = 1 << 20 if len(data) % 3 else 1 + len(data) * 7 % 1500
    with suppress(TraceError):
        timeline = _with_pieces_of(size, lambda: read_kineto(str(path)))
        (source,), spans = timeline.sources, timeline.intervals
        if len(spans) and not (spans.length.min() >= 0 and spans.track.max() < len(timeline.tracks)):
            raise AssertionError("intervals that can't be")
        if data.startswith(b"\x1f\x8b"):
            if source.notes:  # damaged
                return
            data = gzip.decompress(data)
        if not len(spans) <= source.n_events <= data.count(b"{"):
            raise AssertionError(f"{source.n_events} events, {len(spans)} intervals, of {data.count(b'{')} at most")
        _compare(data, source.n_events, source.left_out)


def _compare(data: bytes, n_events: int, left_out: int) -> None:
    """With what a sound file holds."""
    try:
        whole = json.loads(data.removeprefix(b"\xef\xbb\xbf"), parse_constant=_refused)
    except (ValueError, RecursionError):
        return
    events = whole.get("traceEvents") if isinstance(whole, dict) else whole
    if not isinstance(events, list) or data.count(b'"traceEvents"') > 1:
        return
    n = [isinstance(event, dict) + (isinstance(event, dict) and event != {}) for event in events]
    if not n.count(2) - left_out <= n_events <= len(n) - n.count(0):
        raise AssertionError(f"{n_events} events of {len(n) - n.count(0)}, {left_out} left out")


def _refused(constant: str) -> None:
    raise ValueError(constant)


def _anything(folder: Path, data: bytes) -> None:
    path = folder / "a"
    path.write_bytes(data)
    for name in (str(path), str(folder)):
        found = recognise(name)
        if (found.problem == "") != (found.kind in READABLE) or "\n" in found.problem:
            raise AssertionError(f"{found}")
    with suppress(TraceError, ImportError, KeyError):
        if recognise(str(path)).kind in ("kineto", "chrome"):
            open_traces([str(folder)])  # what is inside is the other parser's


_HEADS = (
    b"", b"SQLite format 3\0", b"\x1f\x8b\x08\0", b"{", b"[", b"NVIDIA Tegra Profiler Report", b"\3BOTF2",
    b"PK\3\4", b"#Entity ",     b"# gpu ", b"# HELP a ", b"timestamp, a [%]", b"version https://git-lfs",
    b"\xef\xbb\xbf{", b" " * 200, b"a" * 257 + b"ustar",
)  # fmt: skip


def _drawn_head(rng: random.Random) -> bytes:
    if rng.random() < 0.5:
        return _drawn(rng)
    return rng.choice(_HEADS) + rng.choice((b"", rng.randbytes(rng.choice((1, 90, 600))), _drawn(rng)))


READERS = (Parser("kineto", _drawn, _kineto), Parser("recognised", _drawn_head, _anything))
