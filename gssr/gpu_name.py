"""How the name of a GPU is written on every page and screen, and which GPUs a pattern names."""

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Protocol

_BETWEEN = re.compile(r"[^\w.]+")
_LEAST_OF_UUID = 5
"""Fewer characters are more likely meant for a node."""


class Identity(Protocol):
    """What tells the GPUs of a run apart; None is unknown. ``mig`` names a MIG instance, None for a whole GPU."""

    @property
    def node(self) -> str | None: ...
    @property
    def device_index(self) -> int | None: ...
    @property
    def uuid(self) -> str | None: ...
    @property
    def mig(self) -> str | None: ...


def gpu_label(gpu: Identity, node: str | None = None) -> str:
    """``node:device_index``, and ``node:device_index.mig`` of a MIG instance: one word, whatever the driver calls it. A part
    that is not known is ``?``. ``node``: another name for its node, such as one without the domain."""
    index = "?" if gpu.device_index is None else str(gpu.device_index)
    instance = "." + _BETWEEN.sub("-", gpu.mig).strip("-") if gpu.mig else ""
    return f"{node or gpu.node or '?'}:{index}{instance}"


def is_named(gpu: Identity, pattern: str) -> bool:
    """Whether a pattern names the GPU: its node, its place, the place of the GPU that it is an instance of, or the beginning
    of its UUID. ``*`` and ``?`` stand for anything in the first three; nodes may be without their domains."""
    nodes = {node := gpu.node or "?", node.partition(".")[0] or node}
    whole = "?" if gpu.device_index is None else str(gpu.device_index)
    names = [name for each in nodes for name in (each, f"{each}:{whole}", gpu_label(gpu, each))]
    if any(name == pattern or fnmatchcase(name, pattern) for name in names):
        return True
    return len(pattern) >= _LEAST_OF_UUID and (gpu.uuid or "").lower().startswith(pattern.lower())


def without_domains(names: tuple[str, ...]) -> tuple[str, ...]:
    """Names of hosts without their domains, where that still tells them apart; addresses as they are."""
    hosts = tuple(name.partition(".")[0] for name in names)
    fine = len(set(hosts)) == len(names) and all(host and not host.isdigit() for host in hosts)
    return hosts if fine else names


def listed(gpus: Sequence[Identity], most: int = 8) -> str:
    """The places of the first few, for a sentence."""
    if not gpus:
        return "none"
    more = f" and {len(gpus) - most} more" if len(gpus) > most else ""
    return ", ".join(gpu_label(gpu) for gpu in gpus[:most]) + more
