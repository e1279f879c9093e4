"""Which GPUs of a run are looked at: what --gpus means."""

from collections.abc import Sequence
from fnmatch import fnmatchcase

from gssr.store.reader import Gpu

_SHOWN = 8


def select_gpus(gpus: Sequence[Gpu], selectors: Sequence[str] | None) -> tuple[int, ...]:
    """Positions in ``gpus``, ascending, of those that any selector names; None names all.

    A selector is a position in the list (``0``), ``node:index`` with the driver's index, a UUID or its beginning, the name
    of a node, ``all``, or a pattern with ``*`` and ``?`` for a node or ``node:index`` (``nid0012*``, ``*:0``). Raises
    ValueError, with a sentence, for one that names no GPU.
    """
    if selectors is None:
        return tuple(range(len(gpus)))
    found: set[int] = set()
    for selector in selectors:
        named = _named(gpus, selector.strip())
        if not named:
            raise ValueError(f"no GPU {selector!r} in this run: it has {_listing(gpus)}")
        found.update(named)
    return tuple(sorted(found))


def _named(gpus: Sequence[Gpu], selector: str) -> list[int]:
    if selector == "all":
        return list(range(len(gpus)))
    if selector.isdecimal() and int(selector) < len(gpus):
        return [int(selector)]
    return [position for position, gpu in enumerate(gpus) if selector and _matches(gpu, selector)]


def _matches(gpu: Gpu, selector: str) -> bool:
    node = gpu.node or ""
    place = f"{node}:{gpu.device_index}"
    by_place = fnmatchcase(node, selector) or fnmatchcase(place, selector)
    return by_place or (gpu.uuid or "").lower().startswith(selector.lower())


def _listing(gpus: Sequence[Gpu]) -> str:
    places = [f"{gpu.node or '?'}:{'?' if gpu.device_index is None else gpu.device_index}" for gpu in gpus]
    if not places:
        return "none"
    more = f" and {len(places) - _SHOWN} more" if len(places) > _SHOWN else ""
    return ", ".join(places[:_SHOWN]) + more
