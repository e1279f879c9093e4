"""Suggests the names that may have been meant by a word that names nothing."""

from collections.abc import Iterable

MAX_SUGGESTIONS = 3
LEAST_LIKENESS = 0.65
"""Of a suggestion: a word of three letters of which two are swapped, or one is wrong, is alike by 2/3."""
MAX_LIKENESS_BELOW_BEST = 0.1
"""What is much less alike than the best suggestion was not meant: ``dram_active`` not by ``sm_activ``."""


def similar(word: str, known: Iterable[str], least: float = LEAST_LIKENESS) -> list[str]:
    """Find the names that are spelt like ``word``, the most alike first; names that are equally alike stay in their order.

    Args:
        word: what was typed; upper and lower case count as the same, and the dashes of an option do not count.
        known: the names that there are.
        least: how alike a name must be, from 0 to 1: the share of the letters of both that stand in the same order."""
    from difflib import SequenceMatcher  # here, because the sampler imports this file and never asks

    matcher = SequenceMatcher(None, "", word.lower().lstrip("-"), autojunk=False)
    likeness: dict[str, float] = {}
    for name in known:
        matcher.set_seq1(name.lower().lstrip("-"))
        likeness[name] = matcher.ratio()
    likeness.pop(word, None)
    least = max(least, max(likeness.values(), default=0.0) - MAX_LIKENESS_BELOW_BEST)
    best_first = sorted(likeness, key=lambda name: -likeness[name])
    return [name for name in best_first if likeness[name] >= least][:MAX_SUGGESTIONS]


def did_you_mean(names: Iterable[str]) -> str:
    """Write the question that ends a sentence; "" without names."""
    words = " or ".join(names)
    return f"; did you mean {words}?" if words else ""


def did_you_mean_or_list(names: Iterable[str], heading: str, known: Iterable[str]) -> str:
    """Write the end of a sentence about a name that is not known: the question, and the list of all names under its
    heading. Without ``names`` the list alone."""
    question, listed = did_you_mean(names), ", ".join(known)
    return f"{question} {heading[0].upper()}{heading[1:]} {listed}" if question else f"; {heading} {listed}"


def meant(word: str, known: Iterable[str]) -> list[str]:
    """Find the names that may have been meant: those spelt alike, else those that hold the word."""
    names = list(known)
    return similar(word, names) or [name for name in names if word and word.lower() in name.lower()][:MAX_SUGGESTIONS]
