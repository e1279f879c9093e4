"""Shares of time by category: of a trace's GPUs, streams and threads. Every category has a letter and a colour."""

import numpy as np

from gssr.arrays import Floats, Ints

LETTERS = "cnmslrio"
"""In the order of CATEGORIES."""
WORDS = ("compute", "communication", "memory copy", "sync wait", "launch, API", "range", "I/O", "other")
EXPOSED_WORDS = (WORDS[0], "exposed communication", "exposed copies", *WORDS[3:])
"""Of GPUs and their streams, whose moments count once: as computation first, else as communication, else as copies."""
_SEEN = 0.005
"""A smaller share has no letter."""


def most_of(split: Floats) -> Ints:
    """Return the category, an index in CATEGORIES, that has most of each cell of ``split`` [..., categories], in its
    shape without the last axis; the first of equals. -1 where the shares add up to less than _SEEN; NaN counts as 0."""
    shares = np.nan_to_num(split)
    return np.asarray(np.where(shares.sum(axis=-1) >= _SEEN, shares.argmax(axis=-1), -1), np.int64)
