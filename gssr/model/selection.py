"""Which GPUs of a run are looked at: what --gpus means.

A run may list very many GPUs that were never sampled. They are rows of lists; rules, phases and load balancing, whose
arrays have a row for each GPU, look at the others alone.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from gssr.arrays import Ints
from gssr.gpu_name import is_named, listed
from gssr.model.results import Phase, Unevenness, Verdict
from gssr.store.format.rows import Gpu


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


MANY = 4096
"""GPUs: of fewer also those without samples are looked at."""


def looked_at(n_rows: Ints) -> Ints:
    """Which GPUs are looked at, ascending, by how many rows each has [n_gpus]: all, but of MANY of which less than half have
    any those that have."""
    sampled = np.flatnonzero(n_rows)
    return sampled if len(n_rows) > MANY and 0 < 2 * len(sampled) < len(n_rows) else np.arange(len(n_rows))


def verdicts_in_all(verdicts: Sequence[Verdict], places: Ints) -> tuple[Verdict, ...]:
    """Verdicts on the GPUs at these places, numbered among all; on all of them, they are on these."""
    return tuple(
        replace(verdict, gpus=tuple((places[list(verdict.gpus)] if verdict.gpus else places).tolist()))
        for verdict in verdicts
    )


def phases_in_all(phases: Sequence[Phase], places: Ints) -> tuple[Phase, ...]:
    """The same of phases, by the verdicts on them."""
    return tuple(replace(phase, verdicts=verdicts_in_all(phase.verdicts, places)) for phase in phases)


def unevenness_in_all(found: Unevenness | None, places: Ints) -> Unevenness | None:
    """The same of load balancing."""
    if found is None:
        return None
    alike = tuple(replace(group, gpus=tuple(places[list(group.gpus)].tolist())) for group in found.alike)
    return replace(found, alike=alike, imbalance=replace(found.imbalance, gpus=places[found.imbalance.gpus]))
