"""What can go wrong beside a job, tried for real: each fault does one round and says what was lost and what the user saw."""

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple


class Seen(NamedTuple):
    """One round. ``lost_seconds``: of samples that should be in the recording, None where that is not asked. ``said``: what
    the user saw, in the words of the program but without paths and numbers, so that rounds can be counted; "" for
    nothing. ``problem``: what should not have happened, None when all guarantees held."""

    lost_seconds: float | None
    said: str
    problem: str | None = None


class NotHereError(Exception):
    """The fault can't be tried on this machine; the text says what is missing."""


class Fault(NamedTuple):
    """``name`` as the command line takes it, ``sentence`` as the table says it, and what does one round in an empty folder,
    with numbers drawn from the generator it is given; what it starts has ended when it returns. A round may raise
    NotHereError; anything else that it raises is a problem. ``cases``: where they can be counted, every round there is, to
    be done instead of some by chance."""

    name: str
    sentence: str
    round: Callable[[Path, random.Random], Seen]
    cases: Callable[[], Sequence[Callable[[Path], Seen]]] | None = None
