"""Names that may have been meant by one that there is none of."""

from collections.abc import Iterable

_MOST = 3
_PER_LETTERS = 3
"""One slip for every so many letters: of shorter names another letter makes another name."""


def distance(one: str, other: str, most: int) -> int:
    """Count the slips between two words: letters left out, added, changed, or swapped with their neighbour. ``most`` +
    1 if there are more than ``most``."""
    if abs(len(one) - len(other)) > most:
        return most + 1
    before, row = [0], list(range(len(other) + 1))
    for i, char in enumerate(one):
        older, before, row = before, row, [i + 1]
        for j, own in enumerate(other):
            steps = min(before[j + 1] + 1, row[j] + 1, before[j] + (char != own))
            if i and j and char == other[j - 1] and one[i - 1] == own:
                steps = min(steps, older[j - 1] + 1)
            row.append(steps)
        if min(row) > most:
            return most + 1
    return row[-1]


def similar(word: str, known: Iterable[str], most: int = 4) -> list[str]:
    """Return up to 3 of the names that differ from ``word`` by at most ``most`` slips and at most one for every 3
    letters, the nearest first; not the word itself."""
    most = min(most, len(word) // _PER_LETTERS)
    low = word.lower()
    found = [(distance(low, name.lower(), most), name) for name in known if name != word]
    return [name for steps, name in sorted(found) if steps <= most][:_MOST]


def did_you_mean(names: Iterable[str]) -> str:
    """Return a question to end a sentence with, "; did you mean A or B?"; "" without names."""
    words = " or ".join(names)
    return f"; did you mean {words}?" if words else ""


def meant(word: str, known: Iterable[str]) -> list[str]:
    """Return up to 3 names that may have been meant: those that differ by few slips, else those that contain the word."""
    names = list(known)
    return similar(word, names) or [name for name in names if word and word.lower() in name.lower()][:_MOST]
