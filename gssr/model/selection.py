"""Which GPUs of a run are looked at: what --gpus means."""

from collections.abc import Sequence

from gssr.gpu_name import is_named, listed
from gssr.store.reader import Gpu


def select_gpus(gpus: Sequence[Gpu], selectors: Sequence[str] | None) -> tuple[int, ...]:
    """Positions in ``gpus``, ascending, of those that any selector names; None names all.

    A selector is a position in the list (``0``), ``all``, or what gssr.gpu_name.is_named takes: a GPU as it is shown
    (``node:index``, of a MIG instance ``node:index.mig``), the name of a node, either with ``*`` and ``?`` (``nid0012*``,
    ``*:0``), a UUID or its beginning. Raises ValueError, with a sentence, for one that names no GPU.
    """
    if selectors is None:
        return tuple(range(len(gpus)))
    found: set[int] = set()
    for selector in selectors:
        named = _named(gpus, selector.strip())
        if not named:
            raise ValueError(f"no GPU {selector!r} in this run: it has {listed(gpus)}")
        found.update(named)
    return tuple(sorted(found))


def _named(gpus: Sequence[Gpu], selector: str) -> list[int]:
    if selector == "all":
        return list(range(len(gpus)))
    if selector.isdecimal() and int(selector) < len(gpus):
        return [int(selector)]
    return [position for position, gpu in enumerate(gpus) if selector and is_named(gpu, selector)]
