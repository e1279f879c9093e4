"""Metrics of one's own: the share of time, the calls or the bytes of names that fit a pattern, and ratios of two of them:

    wait=share(/^MPI_(Wait|Recv)/)    size=bytes(/Memcpy HtoD/)/count(/Memcpy HtoD/)

A share is of a row's time that such intervals cover; calls and bytes are those of intervals that begin, a second of that
time. In a ratio the time is what is covered: ``bytes(/x/)/share(/x/)`` is how fast, ``share(/x/)/count(/x/)`` how long each.
"""

import json
import re
import subprocess
import sys
from functools import lru_cache
from typing import Literal, NamedTuple, cast

import numpy as np

from gssr.arrays import Flags
from gssr.metrics import OF_OWN, OF_TRACES
from gssr.model.frame_cache import once

Quantity = Literal["share", "count", "bytes"]
LONGEST = 500
"""Characters of a pattern."""
PATIENCE = 5.0
"""Seconds in which a pattern must have gone through all names."""
_NAME = re.compile(r"[A-Za-z_][\w.-]{0,39}")
_TERM = r"\s*(share|count|bytes)\(\s*/((?:[^/\\]|\\.)+)/\s*\)\s*"
_TERMS = re.compile(f"{_TERM}(?:/{_TERM})?")
_USUAL = "write NAME=share(/PATTERN/), count(/PATTERN/) or bytes(/PATTERN/), or one by another: a/b"
_UNITS = {
    ("share", None): "1", ("count", None): "calls/s", ("bytes", None): "bytes/s", ("bytes", "share"): "bytes/s",
    ("count", "share"): "calls/s", ("share", "count"): "s", ("bytes", "count"): "bytes", ("share", "bytes"): "s/byte",
    ("count", "bytes"): "calls/byte",
}  # fmt: skip
"""Of one thing, and of one by another; of a thing by itself it is a plain number."""
_NEVER_LONG = frozenset("*+?{|(")
"""A pattern without any of these takes no longer than a name has characters."""
_SEARCH = """
import json, re, sys
pattern, names = json.load(sys.stdin)
fits = re.compile(pattern).search
print("".join("1" if fits(name) else "0" for name in names))
"""


class Term(NamedTuple):
    """What is added up, of the intervals whose names fit."""

    what: Quantity
    pattern: str


class Custom(NamedTuple):
    """A metric of one's own: ``top`` divided by ``bottom``, or by the time where ``bottom`` is None. ``text``: how it
    was written, without the name."""

    name: str
    text: str
    top: Term
    bottom: Term | None

    @property
    def unit(self) -> str:
        """The unit of the metric's values; "" for a plain number."""
        return _UNITS.get((self.top.what, self.bottom and self.bottom.what), "")

    @property
    def metric(self) -> str:
        """The metric's name in frames, which holds its unit, its own name and its definition."""
        return f"{OF_OWN}{self.unit}:{self.name}={self.text}"


@lru_cache(maxsize=64)
def custom(text: str) -> Custom:
    """Read the definition of a user's metric of a trace: ``NAME=QUANTITY(/PATTERN/)``, or such a quantity divided by
    another, ``NAME=QUANTITY(/PATTERN/) / QUANTITY(/PATTERN/)``. The patterns are regular expressions that names of
    intervals match.

    The text may begin with OF_OWN, as the names of such metrics in results do. Raises ValueError, with a sentence, if
    the text is no definition, a pattern is no regular expression, or the name is one of OF_TRACES.
    """
    if text.startswith(OF_OWN):
        text = text.removeprefix(OF_OWN).partition(":")[2]
    name, equals, said = (part.strip() for part in text.partition("="))
    if not equals or not _NAME.fullmatch(name):
        raise ValueError(f"{text!r} is no metric: {_USUAL}")
    if name in OF_TRACES:
        raise ValueError(f"{name} is a metric of traces already: choose another name")
    found = _TERMS.fullmatch(said)
    if found is None:
        raise ValueError(f"{said or 'nothing'!r} does not say what {name} is: {_USUAL}")
    top, bottom = (
        Term(cast(Quantity, what), _sound(pattern)) if what else None
        for what, pattern in (found.group(1, 2), found.group(3, 4))
    )
    assert top is not None
    return Custom(name, said, top, bottom)


def _sound(pattern: str) -> str:
    """Return the pattern as it is. Raises ValueError, with a sentence, if it is too long or no regular expression."""
    if len(pattern) > LONGEST:
        raise ValueError(f"a pattern of {len(pattern):,} characters: {LONGEST} are allowed")
    try:
        re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        raise ValueError(f"/{pattern}/ is no regular expression: {error}") from None
    return pattern


@once
def flag_matching_names(names: tuple[str, ...], pattern: str) -> Flags:
    """Flag the names in which the pattern is found [n names].

    A pattern that can take longer than the universe lasts is looked for by another process, which ends after PATIENCE
    seconds. Raises ValueError, a sentence, where it was not done by then, or has failed.
    """
    if not _NEVER_LONG & set(pattern):
        fits = re.compile(pattern).search
        return np.array([fits(name) is not None for name in names], np.bool_)
    try:
        found = subprocess.run(
            [sys.executable, "-I", "-S", "-c", _SEARCH], input=json.dumps([pattern, names]).encode(),
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=PATIENCE, check=True,
        )  # fmt: skip
    except (subprocess.SubprocessError, OSError):
        raise ValueError(
            f"/{pattern}/ was not found or missed in {len(names):,} names within {PATIENCE:g} s: write a simpler pattern"
        ) from None
    return np.asarray(np.frombuffer(found.stdout.rstrip(), np.uint8) == ord("1"), np.bool_)
