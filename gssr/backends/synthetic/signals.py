"""The arithmetic scenarios are written in: once, for one number and for arrays alike.

Everything here and in the modules that use it is built from +, -, *, /, % 1, floor, comparison and choice, which IEEE 754
rounds exactly: evaluated on numbers (live) and on arrays (in bulk), a scenario gives the same bits. That is why there
is no sine. Functions are typed for numbers; arrays of float64 pass through the same code.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

FOREVER = 1e9
"""Seconds: longer than any recording."""


class Ops(NamedTuple):
    """The operations that numbers and arrays spell differently."""

    floor: Callable[[float], float]
    minimum: Callable[[float, float], float]
    maximum: Callable[[float, float], float]
    where: Callable[[bool, float, float], float]
    some: Callable[[float], bool]
    """Whether any is not 0. What is left out where none is must not change a bit of an array in which some are."""


def _minimum(a: float, b: float) -> float:
    return a if a < b else b


def _maximum(a: float, b: float) -> float:
    return a if a > b else b


def _where(condition: bool, a: float, b: float) -> float:
    return a if condition else b


SCALARS = Ops(math.floor, _minimum, _maximum, _where, bool)


def wave(cycles: float) -> float:
    """A wave of period 1 between -1 and 1: two parabolas, which nobody can tell from a sine."""
    x = 2.0 * (cycles % 1.0) - 1.0
    return 4.0 * x * (1.0 - abs(x))


def white(time: float, phase: float) -> float:
    """A number in [0, 1) that says nothing about its neighbours in ``time`` (s) or ``phase`` (0-1, one per GPU and
    seed). More such numbers for the same sample: ``white * n % 1.0`` for different whole numbers n."""
    x = (time * 7919.7719 + phase) % 1.0
    x = (x + 0.71) * (x + 17.17) * 5113.37 % 1.0
    return (x + 0.29) * (x + 31.13) * 9173.59 % 1.0


class Pulse(NamedTuple):
    """A phase that comes and goes: from ``start``, for ``width`` seconds, again every ``period`` seconds, with edges
    ``edge`` seconds long inside the width. ``width`` is at least twice ``edge`` and less than ``period``."""

    start: float
    width: float
    period: float = FOREVER
    edge: float = 0.1

    def _place(self, ops: Ops, time: float) -> tuple[float, float]:
        """How often the pulse had begun again by ``time``, and seconds since it last began; 0 before the first."""
        start, _, period, _ = self
        since = ops.maximum(time - start, 0.0)
        periods = ops.floor(since / period)
        return periods, since - periods * period

    def on(self, ops: Ops, time: float) -> bool:
        """Whether the pulse is on at ``time``, edges included."""
        return (time >= self.start) & (self._place(ops, time)[1] < self.width)

    def weight(self, ops: Ops, time: float) -> float:
        """How far the phase is on at ``time``, 0-1."""
        _, width, _, edge = self
        _, within = self._place(ops, time)
        if not ops.some(within < width):
            return 0.0
        rise = ops.minimum(within, edge)
        fall = ops.minimum(ops.maximum(within - (width - edge), 0.0), edge)
        return ops.where(within < width, (rise - fall) / edge, 0.0)

    def integral(self, ops: Ops, time: float) -> float:
        """Seconds the phase was on up to ``time``: the integral of ``weight``."""
        _, width, _, edge = self
        periods, within = self._place(ops, time)
        whole = width - edge
        if not ops.some(within < width):
            return periods * whole + whole
        falling = ops.maximum(within - whole, 0.0)
        rise, fall = ops.minimum(within, edge), ops.minimum(falling, edge)
        # Either edge ramps up over ``edge`` seconds: rise^2 / 2 edge inside it, time - edge / 2 after it.
        edges = (rise - fall) * ((rise + fall) / (2.0 * edge) - 1.0)
        return periods * whole + ops.where(within < width, edges + within - falling, whole)


def digest(text: str) -> int:
    """128 bits that depend on every character of ``text`` and are the same in every process (FNV-1a, with a final mix
    so that texts that differ in their last character differ everywhere)."""
    mask = (1 << 128) - 1
    value = 0x6C62272E07BB014262B821756295C58D
    for byte in text.encode():
        value = (value ^ byte) * 0x0000000001000000000000000000013B & mask
    for _ in range(2):
        value = (value ^ value >> 67) * 0x9E3779B97F4A7C15F39CC0605CEDC835 & mask
    return value ^ value >> 61


def fractions(text: str) -> tuple[float, float, float, float]:
    """Four independent numbers in [0, 1) that depend on ``text`` alone."""
    bits = digest(text)
    a, b, c, d = ((bits >> shift & 0xFFFFFFFF) / 0x100000000 for shift in (0, 32, 64, 96))
    return a, b, c, d
