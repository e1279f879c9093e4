"""Which traces are of one run: what files tell of it before they are read, and what sets them apart."""

import os
import re
from collections.abc import Sequence
from typing import NamedTuple

from gssr.recognise import rank_in
from gssr.traces.json_events import PIECE, FileChunks
from gssr.traces.timeline import is_unix_time

_OVERLAP = 4096
_DAY_NS = 86_400 * 10**9
"""Traces of different ranks that begin farther apart are not of one run: jobs are traced for minutes."""
_STARTS_APART_NS = 600 * 10**9
"""Traces without ranks that begin farther apart are not of one run: its processes begin, and are traced, together."""
_BETWEEN_NS = 10 * 10**9
"""Traces without ranks of which one begins so long after the other's last event are not of one run. It may be shorter: the
length of the last event is not looked at, and processes of a run need not begin and end at once."""
_LOOKED_AT = 1 << 16
"""Bytes at the beginning and the end of a JSON trace in which times of events are looked for."""
_HOST = re.compile(rb'"host_?name"\s*:\s*"([^"\\]{1,255})"', re.IGNORECASE)
_BASE = re.compile(rb'"baseTimeNanoseconds"\s*:\s*"?(\d{1,19})')
_DEVICES = re.compile(rb'"deviceProperties"\s*:\s*\[([^\]]{0,1000000})')
_NAME = re.compile(rb'"name"\s*:\s*"([^"\\]{1,255})"')
_TIME = re.compile(rb'"ts"\s*:\s*"?(\d{1,19})')


class RunTraits(NamedTuple):
    """What a file says about its run; None if it does not say it. ``gpus``: names of GPU models, empty if unknown;
    ``begin``, ``end``: about when its events begin and end, unix ns."""

    rank: int | None = None
    host: str | None = None
    gpus: frozenset[str] = frozenset()
    begin: int | None = None
    end: int | None = None


def told_by_json(path: str, has_others: bool, most_bytes: int | None) -> RunTraits:
    """Read what torch.profiler writes before and behind the events of a trace, without reading them all.

    If the rank is not before the events, a packed file must be unpacked to its end; that is done only with
    ``has_others``, when there are files to be told from. ``most_bytes`` as in ``open_runs``. Raises TraceError.
    """
    pieces = FileChunks(path, most_bytes)
    head = text = b""
    rank = None
    for number, piece in enumerate(pieces):
        head = head or piece
        text = text[-_OVERLAP:] + piece
        rank = rank_in(text)
        if not pieces.is_packed and number == 0:
            text = _end_of(path)
            rank = rank_in(text) if rank is None else rank
            break
        if rank is not None or not has_others:
            break
    host, base = (
        next((found for part in (head, text) if (found := each.search(part))), None) for each in (_HOST, _BASE)
    )
    devices = _DEVICES.search(head)
    names = _NAME.findall(devices[1]) if devices else ()
    zero = int(base[1]) if base else 0
    begins, ends = (sorted(_unix_ns(part, zero)) for part in (head[:_LOOKED_AT], text[-_LOOKED_AT:]))
    return RunTraits(
        rank, host[1].decode("utf-8", "replace") if host else None,
        frozenset(name.decode("utf-8", "replace") for name in names),
        begins[len(begins) // 2] if begins else None,  # metadata may have times of their own
        ends[-1] if ends and (rank is None or not pieces.is_packed) else None,
    )  # fmt: skip


def _unix_ns(text: bytes, zero: int) -> list[int]:
    """Find times of events in a piece of JSON that are unix times, in ns, as they are or after adding ``zero``. May be
    empty."""
    times = [1000 * int(us) for us in _TIME.findall(text)]
    found = ((ns, ns + zero) for ns in times)
    return [next(ns for ns in each if is_unix_time(ns)) for each in found if any(map(is_unix_time, each))]


def _end_of(path: str) -> bytes:
    with open(path, "rb") as stream:
        stream.seek(max(0, os.fstat(stream.fileno()).st_size - PIECE))
        return stream.read()


def why_not_one_run(one: RunTraits, other: RunTraits) -> str:
    """Say in a clause about ``one`` why two files cannot be of one run, such as "ran on A100, not on H100"; "" if
    nothing sets them apart."""
    if one.rank is not None and one.rank == other.rank:
        return f"is of rank {one.rank}, too"
    if one.gpus and other.gpus and one.gpus.isdisjoint(other.gpus):
        return f"ran on {_listed(one.gpus)}, not on {_listed(other.gpus)}"
    ranked = one.rank is not None and other.rank is not None
    if not ranked and one.host and other.host and _short(one.host) != _short(other.host):
        return f"ran on {one.host}, not on {other.host}"
    if one.begin is None or other.begin is None:
        return ""
    between = abs(one.begin - other.begin)
    if between > (_DAY_NS if ranked else _STARTS_APART_NS):
        return f"begins {_long(between)} {'after' if one.begin > other.begin else 'before'} it"
    first, last = sorted((one, other), key=lambda each: each.begin or 0)
    if not ranked and first.end is not None and last.begin is not None and last.begin - first.end > _BETWEEN_NS:
        return "was recorded at another time"
    return ""


def _listed(names: frozenset[str]) -> str:
    return ", ".join(sorted(names))


def _short(host: str) -> str:
    return host.partition(".")[0].lower()


def _long(ns: int) -> str:
    """Write a length of time in whole minutes, from 2 h on in hours, from 2 days on in days."""
    minutes = ns // (60 * 10**9)
    return (
        f"{minutes} min" if minutes < 120 else f"{minutes // 60} h" if minutes < 48 * 60 else f"{minutes // 1440} days"
    )


def by_run(paths: Sequence[str], told: Sequence[RunTraits]) -> list[list[int]]:
    """Divide files into runs. Each goes to a run none of whose files ``why_not_one_run`` sets it apart from; if there
    are several, to one with a file in the same folder, then to the one that begins nearest, then to the first. Returns
    the indices of each run's files; ``told`` is parallel to ``paths``."""
    runs: list[list[int]] = []
    for at, own in enumerate(told):

        def distance(run: Sequence[int], at: int = at, begin: int | None = own.begin) -> tuple[bool, int]:
            is_beside = any(os.path.dirname(paths[each]) == os.path.dirname(paths[at]) for each in run)
            begins = [told[each].begin for each in run]
            return not is_beside, min((abs(begin - each) for each in begins if begin and each), default=0)

        fitting = [run for run in runs if not any(why_not_one_run(own, told[each]) for each in run)]
        if fitting:
            min(fitting, key=distance).append(at)
        else:
            runs.append([at])
    return runs
