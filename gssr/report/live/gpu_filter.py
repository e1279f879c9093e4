"""Which GPUs lists show: the filter that the user typed; and what runs on them."""

import re
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from gssr.arrays import Flags, Ints
from gssr.gpu_name import is_named
from gssr.gpu_vendors import AMD, BOTH, NVIDIA, say
from gssr.metrics import BY_NAME, OF_NODES, OF_TRACES, Metric
from gssr.model.frame_cache import once
from gssr.model.live.live_result import Result
from gssr.model.traces.only import NOTHING, Limit, Only
from gssr.render.scale import unit_of
from gssr.spelling import did_you_mean, meant
from gssr.store.format.rows import Gpu, GpuProcess

_FIELDS: dict[str, Callable[[GpuProcess], object]] = {
    "user": lambda process: process.user,
    "process": lambda process: process.name,
    "pid": lambda process: process.pid,
}
_LIMIT = re.compile("(takes|size)([<>])=?(.*)")
_KNOWN = BY_NAME | OF_TRACES | OF_NODES


class Filter(NamedTuple):
    """What a filter means: a GPU is shown that has one of each list of ``patterns``, is within all ``bounds`` (on means of
    metrics, in the stored unit) and has a process of which each field of ``processes`` is like the pattern beside it.
    ``only``: of traces, which intervals."""

    patterns: tuple[tuple[str, ...], ...] = ()
    bounds: tuple[Limit, ...] = ()
    processes: tuple[tuple[str, str], ...] = ()
    only: Only = NOTHING


@lru_cache(maxsize=32)
def parse_filter(text: str) -> Filter:
    """Read a filter: words separated by blanks, which must all hold.

    A word is one of: comma-separated patterns of a node, ``node:index`` or a UUID's beginning (``nid0012*,*:0``); a
    metric's mean of the window against a number in the unit shown (``sm<30``, ``power>400``); what runs there
    (``user=ada``, ``process=python*``, ``pid=4242``); of traces which intervals count (``name=nccl*,*AllReduce*``,
    ``takes>1ms``, ``size>1M``). An empty text lets everything through. Raises ValueError, with a sentence.
    """
    patterns, bounds, processes, names, limits = [], [], [], [], []
    for word in text.split():
        field, equals, like = word.partition("=")
        if equals and field == "name":
            names.append(tuple(part for part in like.split(",") if part))
            continue
        if found := _LIMIT.fullmatch(word):
            from gssr.model.traces.trace_selection import limit

            limits.append(limit(found[1], found[2] == "<", found[3]))  # type: ignore[arg-type]
            continue
        if equals and field in _FIELDS:
            processes.append((field, like))
            continue
        at = next((i for i, char in enumerate(word) if char in "<>"), None)
        if at is None:
            patterns.append(tuple(part for part in word.split(",") if part))
            continue
        metric = metric_called(word[:at])
        shown = word[at + 1 :].removeprefix("=").removesuffix("%")
        try:
            value = float(shown) / unit_of(_KNOWN[metric]).factor
        except ValueError:
            raise ValueError(f"{word}: {shown or 'nothing'} is not a number; write {word[: at + 1]}30") from None
        bounds.append(Limit(metric, word[at] == "<", value))
    only = Only(tuple(names), tuple(limits), tuple(patterns))
    return Filter(tuple(patterns), tuple(bounds), tuple(processes), only)


def only_of(text: str) -> Only:
    """Return which intervals of a trace a filter lets through; all of them if the text is no filter."""
    try:
        return parse_filter(text).only
    except ValueError:
        return NOTHING


def metric_called(word: str, known: Mapping[str, Metric] = _KNOWN) -> str:
    """Return the name of the metric with this name, short name or unique beginning of a name. Raises ValueError, with
    a sentence, if there is none."""
    wanted = word.lower()
    for metric in known.values():
        for short in (say(maker, metric.short) for maker in (NVIDIA, AMD, BOTH)):
            if wanted in (metric.name, short, short.replace(" ", "_"), short.replace(" ", "")):
                return metric.name
    begins = [metric.name for metric in known.values() if wanted and metric.name.startswith(wanted)]
    if len(begins) == 1:
        return begins[0]
    near = did_you_mean(meant(wanted, known)) or "; write sm, dram, power or a full name"
    raise ValueError(f"no metric {word or 'before the sign'!r}{near}")


def processes_on(frame: Result, gpu: int) -> list[GpuProcess]:
    """The processes on the GPU at this position, the one with most memory first."""
    found = [process for process in frame.processes if process.gpu == gpu]
    return sorted(found, key=lambda each: (-1 if each.memory_used is None else -each.memory_used, each.pid or 0))


def _passes(process: GpuProcess, text: str) -> bool:
    wanted = parse_filter(text).processes
    return all(fnmatchcase(str(_FIELDS[field](process) or ""), like) for field, like in wanted)


def passing(frame: Result, text: str) -> Flags:
    """Tell for each GPU [n_gpus] whether it passes the filter; one with an unknown mean passes no bound. Raises
    ValueError, with a sentence, if the text is no filter or asks a recording for intervals."""
    wanted = parse_filter(text)
    if frame.part is None and (wanted.only.names or wanted.only.limits):
        raise ValueError("name=, takes and size are of the intervals of a trace: a recording has none")
    flags = np.ones(frame.n_gpus, bool)
    if frame.part is not None and wanted.patterns:  # the frame has been made for them
        flags = np.isin(np.arange(frame.n_gpus), frame.query.gpus or np.arange(frame.n_gpus))
    for patterns in wanted.patterns if frame.part is None else ():
        flags &= _named(frame.gpus, patterns)
    for metric, below, value in wanted.bounds:
        means = frame.window.per_gpu(metric)
        flags &= means < value if below else means > value  # unknown is neither
    if wanted.processes:
        flags &= np.isin(np.arange(frame.n_gpus), [each.gpu for each in frame.processes if _passes(each, text)])
    return flags


def select_passing(frame: Result, gpus: Ints, text: str) -> tuple[Ints, str]:
    """Return those of these GPUs (positions) that pass the filter, and "". If it can't be understood, all of them and the
    reason in a sentence."""
    try:
        return gpus[passing(frame, text)[gpus]], ""
    except ValueError as error:
        return gpus, str(error)


@once
def _named(gpus: tuple[Gpu, ...], patterns: tuple[str, ...]) -> Flags:
    """[n_gpus]: True where one of the patterns names the GPU, its node, or begins its UUID."""
    return np.array([any(is_named(gpu, pattern) for pattern in patterns) for gpu in gpus], bool)
