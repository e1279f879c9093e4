"""Which intervals of a trace a filter leaves. What applies it is in gssr.model.traces.part: the screens of a recording need
these names without all that reads traces."""

from typing import NamedTuple


class Limit(NamedTuple):
    """``takes<10us``, ``size>1M``, ``sm<30``: only what is ``below`` (else above) ``value``. ``what`` is "takes" (ns) or
    "size" (bytes) of intervals, or a metric; what has none is neither."""

    what: str
    below: bool
    value: float


class Only(NamedTuple):
    """All of it must hold: one of each list of patterns of ``names``, and the ``limits``. ``who``: lists of patterns of
    rows, of which each must have one."""

    names: tuple[tuple[str, ...], ...] = ()
    limits: tuple[Limit, ...] = ()
    who: tuple[tuple[str, ...], ...] = ()


NOTHING = Only()
