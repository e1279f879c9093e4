"""The digest of a trace: what it says of its run, as one text that stays in the recording wherever the trace itself is.

Each rank's trace is digested where it was written, so that nobody has to read all of them: what is said of the run is
put together from the digests. GPUs are in it by node, index and UUID, which merging ranks' files does not change.

A recording may come from anybody, and what its digests say with it: each value is checked for type and bounds.
"""

import json
import typing
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, fields, is_dataclass, replace
from functools import cache
from types import UnionType
from typing import Any, Literal

from gssr.model.breakdown.categories import POSITIONS
from gssr.model.joined.explain import Scores, in_run, renamed
from gssr.model.traced import LATE, SPLIT, IdleTime, Traced, TracedGap, TracedGpu, TracedKernel
from gssr.store.format.limits import LATEST, MOST_DIGEST, number_within
from gssr.store.format.rows import AttachedTrace, Gpu
from gssr.store.read.recording import RunReader

_VERSION = 1
_LONGEST_TEXT, _LONGEST_LIST = 400, 200
_MOST = 1 << 53
"""Whole numbers are below this."""

Identity = tuple[str | None, int | None, str | None]


def digest_of(found: Traced, gpus: Sequence[Gpu]) -> str | None:
    """Write what a trace shows of its run (``found``, by gssr.model.joined.explain.explain_window) as a text, the digest, in
    which the GPUs of the run (``gpus``) are known by node, index and UUID. Returns None if it could not be read again: GPUs
    that nothing tells apart, or too long a text."""
    own = [_identity(gpus[position]) for position in found.gpus]
    place = {position: at for at, position in enumerate(found.gpus)}
    content = asdict(replace(found, path="", **renamed(found, place)))
    text = json.dumps({"version": _VERSION, "gpus_of": own} | _cut(content), separators=(",", ":"), allow_nan=False)
    return text if len(text) <= MOST_DIGEST // 10 and traced_of(text, by_identity(gpus), "") else None


def _identity(gpu: Gpu) -> Identity:
    """Return what tells the GPU from others in every recording of the run: node, index and UUID, None where unknown."""
    return gpu.node, gpu.device_index, gpu.uuid


def by_identity(gpus: Sequence[Gpu]) -> dict[Identity, int]:
    """Find the GPUs that can be told apart from all others. Returns their positions by identity."""
    count = Counter(map(_identity, gpus))
    return {identity: at for at, gpu in enumerate(gpus) if count[identity := _identity(gpu)] == 1}


def traced_of(text: str | None, positions: Mapping[Identity, int], path: str) -> Traced | None:
    """Read a digest, the text of ``digest_of``, of the trace at ``path``. ``positions``: the position of each GPU of the run
    by its identity. Returns None for None and for a digest of another version, of other GPUs, or with values that can't
    be."""
    try:
        content = json.loads(text or "null")
        if not isinstance(content, dict) or content.get("version") != _VERSION:
            return None
        own = _reader(tuple[Identity, ...])(content["gpus_of"])
        found: Traced = _reader(Traced)({"breakdown": {}} | content | {"digest": True, "path": path, "estimate": {}})
        at = [positions[identity] for identity in own]
        return replace(found, **renamed(found, dict(enumerate(at)))) if _is_sound(found) else None
    except (ValueError, KeyError, RecursionError):
        return None


def digested(
    reader: RunReader, rows: Sequence[AttachedTrace], folder: str, place: Mapping[int, int], scores: Scores, whole: bool
) -> tuple[list[Traced], list[AttachedTrace], str]:
    """Read the digests of traces below ``folder`` and pick what they show of the GPUs and the window that are looked at
    (``scores.window``, unix s).

    Returns what the traces show, as gssr.model.joined.explain.traced would; the rows of traces that have to be read
    themselves, as their digest tells nothing of the part; and a sentence on those that show nothing of it, "" for none.
    ``place``: the numbers of the GPUs looked at, by position; ``whole``: all of the run is looked at.
    """
    positions, window, apart = by_identity(reader.gpus), scores.window, 0
    found, others = [], []
    for row in rows:
        own = traced_of(row.digest, positions, f"{folder}/{row.path}")
        if own is None:
            others.append(row)
        elif own.end <= window.start or own.start >= window.end or (own.gpus and place.keys().isdisjoint(own.gpus)):
            apart += 1
        elif place.keys() >= set(own.gpus) and (whole or window.start <= own.start < own.end <= window.end):
            found.append(own)
        else:
            others.append(row)
    text = f"{apart:,} trace{'s show' if apart > 1 else ' shows'} nothing of what is looked at"
    return in_run(found, place, scores), others, text if apart else ""


def _is_sound(found: Traced) -> bool:
    """Tell whether the values of a digest are within their bounds and fit each other."""
    splits = [found.split, *(each.split for each in found.by_gpu)]
    timed: tuple[TracedGpu | IdleTime | TracedGap | TracedKernel, ...]
    timed = (*found.by_gpu, *found.idle, *found.gaps, *found.kernels)
    booked = found.breakdown
    causes = {*(each.cause for each in found.idle), *(gap.cause for gap in found.gaps)}
    return (
        0 <= found.start < found.end <= LATEST
        and all(not split or (split.keys() == set(SPLIT) and all(-1e-6 <= each <= 1 + 1e-6 for each in split.values()))
                for split in splits)
        and all(each.seconds >= 0 for each in timed)
        and sum(each.seconds for each in found.kernels) <= found.kernel_seconds * (1 + 1e-6)
        and causes <= LATE.keys()
        and booked.keys() <= POSITIONS.keys()
        and all(0 <= seconds <= found.seconds * (1 + 1e-6) * len(found.gpus) for seconds in booked.values())
        and (found.steps is None or found.steps.count > 0)
    )  # fmt: skip


def _cut(value: Any) -> Any:
    """Return the value with every text in it, however deep, cut to _LONGEST_TEXT characters and made encodable. Tuples
    become lists, as in JSON."""
    if isinstance(value, dict):
        return {name: _cut(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_cut(each) for each in value]
    if isinstance(value, str):
        safe = value.encode("utf-8", "backslashreplace").decode()
        return safe if len(safe) <= _LONGEST_TEXT else safe[: _LONGEST_TEXT - 1] + "…"
    return value


_Reader = Callable[[Any], Any]


@cache
def _reader(kind: Any) -> _Reader:
    """Return a function that turns what JSON gives into a value of the type ``kind``; it raises ValueError or KeyError
    for anything that is not of this type."""
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        own, make = [(field.name, _reader(hints[field.name])) for field in fields(kind)], typing.cast(Any, kind)
        return lambda value: make(**{name: read(_a(dict, value)[name]) for name, read in own})
    if origin is Literal:
        return lambda value: value if _a(str, value) in inner else _wrong()
    if origin is UnionType:
        first = _reader(inner[0])
        return lambda value: None if value is None else first(value)
    if origin is tuple and inner[-1] is ...:
        each = _reader(inner[0])
        return lambda value: tuple(map(each, value)) if len(_a(list, value)) <= _LONGEST_LIST else _wrong()
    if origin is tuple:
        readers = [_reader(one) for one in inner]
        return lambda value: tuple(read(one) for read, one in zip(readers, _a(list, value), strict=True))
    if origin is not None:  # by name
        read = _reader(inner[1])
        return lambda value: {name: read(one) for name, one in _a(dict, value).items()}
    return _SIMPLE[kind]


def _wrong() -> Any:
    raise ValueError


def _a(kind: type, value: Any) -> Any:
    return value if type(value) is kind else _wrong()


def _text(value: Any) -> str:
    """Return the value if it is a text that can be shown and is not too long; raises ValueError otherwise."""
    text: str = _a(str, value)
    text.encode()  # half a character can't be shown
    return text if len(text) <= 10 * _LONGEST_TEXT else _wrong()


def _whole(value: Any) -> int:
    found: int = _a(int, value)
    return found if 0 <= found < _MOST else _wrong()


def _number(value: Any) -> float:
    """Return the value as a float if it is a number within bounds; raises ValueError otherwise."""
    if type(value) is bool or number_within(value, LATEST) is None:
        raise ValueError
    return float(value)


_SIMPLE: dict[Any, _Reader] = {str: _text, int: _whole, float: _number, bool: lambda value: _a(bool, value)}
