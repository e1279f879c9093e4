"""How the name of a GPU is written on every page and screen, and which GPUs a pattern names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Protocol

_BETWEEN = re.compile(r"[^\w.]+")
_LEAST_OF_UUID = 5
"""Fewer characters are more likely meant for a node."""


class Identity(Protocol):
    """The identity of a GPU within a run; None is unknown. ``mig`` names a MIG instance, None for a whole GPU."""

    @property
    def node(self) -> str | None: ...
    @property
    def device_index(self) -> int | None: ...
    @property
    def uuid(self) -> str | None: ...
    @property
    def mig(self) -> str | None: ...


def gpu_label(gpu: Identity, node: str | None = None) -> str:
    """Return the GPU's name as one word, ``node:device_index``, or ``node:device_index.mig`` for a MIG instance; an
    unknown part is ``?``. ``node`` replaces the name of its node, such as by one without the domain."""
    index = "?" if gpu.device_index is None else str(gpu.device_index)
    instance = "." + _BETWEEN.sub("-", gpu.mig).strip("-") if gpu.mig else ""
    return f"{node or gpu.node or '?'}:{index}{instance}"


def is_named(gpu: Identity, pattern: str) -> bool:
    """Tell whether a pattern names the GPU: its node, its label, the label of the GPU it is an instance of, or (at
    least 5 characters) the begin of its UUID. ``*`` and ``?`` stand for anything except in UUIDs; nodes may be written
    without their domains."""
    nodes = {node := gpu.node or "?", node.partition(".")[0] or node}
    whole = "?" if gpu.device_index is None else str(gpu.device_index)
    names = [name for each in nodes for name in (each, f"{each}:{whole}", gpu_label(gpu, each))]
    if any(name == pattern or fnmatchcase(name, pattern) for name in names):
        return True
    return len(pattern) >= _LEAST_OF_UUID and (gpu.uuid or "").lower().startswith(pattern.lower())


def without_domains(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return host names without their domains if they are still all different, else as they are; addresses stay as they
    are."""
    hosts = tuple(name.partition(".")[0] for name in names)
    fine = len(set(hosts)) == len(names) and all(host and not host.isdigit() for host in hosts)
    return hosts if fine else names


def listed(gpus: Sequence[Identity], most: int = 8) -> str:
    """List the labels of the first GPUs for a sentence, at most ``most``, with "and N more"; "none" if there are none."""
    if not gpus:
        return "none"
    more = f" and {len(gpus) - most} more" if len(gpus) > most else ""
    return ", ".join(gpu_label(gpu) for gpu in gpus[:most]) + more


def select_gpus(gpus: Sequence[Identity], selectors: Sequence[str] | None) -> tuple[int, ...]:
    """Return the positions in ``gpus``, ascending, of those that any selector names; None names all.

    A selector is a position in the list (``0``), ``all``, or what ``is_named`` takes: a GPU as it is shown
    (``node:index``, of a MIG instance ``node:index.mig``), the name of a node, either with ``*`` and ``?`` (``nid0012*``,
    ``*:0``), a UUID or its beginning. Raises ValueError, with a sentence, for one that names no GPU.
    """
    if selectors is None:
        return tuple(range(len(gpus)))
    found: set[int] = set()
    for selector in selectors:
        named = _find_named(gpus, selector.strip())
        if not named:
            raise ValueError(f"no GPU {selector!r} in this run: it has {listed(gpus)}")
        found.update(named)
    return tuple(sorted(found))


def _find_named(gpus: Sequence[Identity], selector: str) -> list[int]:
    """Find the positions of the GPUs that a selector names, ascending; empty if it names none. A number below their
    count is a position, whatever is called so."""
    if selector == "all":
        return list(range(len(gpus)))
    if selector.isdecimal() and int(selector) < len(gpus):
        return [int(selector)]
    return [position for position, gpu in enumerate(gpus) if selector and is_named(gpu, selector)]
