"""Names of functions in few cells: C++ without templates and namespaces, Python without folders, and still told apart."""

import re
from collections import Counter
from collections.abc import Sequence
from itertools import zip_longest

from gssr.render.cells import cell_width, clean, fit_apart

_PYTHON = re.compile(r"(?:.*/)?([^/]+\(\d+\): .+)")
"""A frame as torch.profiler writes it: file, line and function."""
_CALLED = re.compile(r"[\w>~][<(]")
_BEHIND = re.compile(r"(?: const| \[clone [^\]]*\])*")
_ANONYMOUS = re.compile(r"\(anonymous namespace\)::|\{anonymous\}::")
_TOKEN = re.compile(r"\b(?!(?:unnamed|lambda|operator|const|void)\b)[A-Za-z_]\w*\b(?!::)|\b\d+\b")
"""Words that may tell kernels apart: types, functions and numbers, but no namespaces."""
_MANGLED = re.compile(r"S[0-9A-Z]*_|T\d*_|DF\d+[_bx]|L[a-z](n?\d+)E|(\d{1,4})")
"""In a mangled name: what refers to something before, a type of numbers, a number in a template, or the length of the word
that follows."""
_ANONYMOUS_WORD = "_GLOBAL__N_1"


def readable_name(name: str) -> str:
    """Write a mangled name of C++ (``_Z...``) much as source code has it: namespaces and function, and in angle brackets
    the words and numbers of its templates and arguments without their namespaces. Any other name is only cleaned."""
    text = clean(name)
    if not text.startswith("_Z"):
        return text
    function: list[str] = []
    words: list[str] = []
    at, in_function = 2, True
    while at < len(text):
        found = _MANGLED.match(text, at)
        if found is None:
            in_function = in_function and (not function or text[at] not in "IE")
            at += 1
            continue
        at = found.end()
        if found[2] is None:
            words += [found[1].replace("n", "-")] if found[1] else []
            continue
        word = text[at : at + int(found[2])]
        at += int(found[2])
        if len(word) < int(found[2]):  # cut off
            function = [] if in_function else function
            break
        if in_function:
            function += [] if word == _ANONYMOUS_WORD else [word]
            in_function = at < len(text) and text[at].isdigit()
        elif word.isidentifier() and not text[at : at + 1].isdigit():  # before another word it is a namespace
            words.append(word)
    if not function:
        return text
    return "::".join(function) + (f"<{', '.join(words)}>" if words else "")


def short_name(name: str) -> str:
    """Return a name without what takes room: of a C++ function templates, namespaces, arguments and result type, of a
    frame of Python the folders. Any other name is only cleaned."""
    text = readable_name(name)
    frame = _PYTHON.fullmatch(text)
    if frame:
        return frame[1]
    bare = _ANONYMOUS.sub("", text)
    if not _CALLED.search(bare):
        return text
    outside: list[str] = []
    depth, arguments = 0, -1
    for at, char in enumerate(bare):
        if char in "<(":
            if char == "(" and depth == 0 and arguments < 0:
                arguments = len(outside)
            depth += 1
        elif char in ">)" and depth:
            depth -= 1
        elif depth == 0:
            outside.append(char)
            if arguments >= 0 and not _BEHIND.fullmatch(bare[at:]):
                return text  # it goes on: no function of C++
            if arguments >= 0:
                break
    words = "".join(outside[: len(outside) if arguments < 0 else arguments]).split()
    return words[-1].rpartition("::")[2] or text if words else text


def distinct_names(names: Sequence[str], width: int, ellipsis: str) -> list[str]:
    """Cut different names to ``width`` cells each so that they can still be told apart: as they are if they fit, else
    short, with the words in which they differ. Same order and number as ``names``."""
    found = [readable_name(name) for name in names]
    long = [at for at, name in enumerate(found) if cell_width(name) > width]
    by_short: dict[str, list[int]] = {}
    for at in long:
        by_short.setdefault(short_name(found[at]), []).append(at)
    for short, places in by_short.items():
        for at, label in zip(places, _with_arguments(short, [found[at] for at in places]), strict=True):
            found[at] = label
    return fit_apart(found, width, ellipsis)


def _with_arguments(short: str, names: Sequence[str]) -> list[str]:
    """Append to ``short`` the words in which the full names differ, in angle brackets, rare ones first and numbers
    last, and no more than that takes."""
    arguments: list[list[str]] = [[] for _ in names]
    _tell_apart(range(len(names)), [_TOKEN.findall(name) for name in names], arguments)
    return [f"{short}<{', '.join(own)}>" if own else short for own in arguments]


def _tell_apart(places: Sequence[int], tokens: Sequence[Sequence[str]], arguments: Sequence[list[str]]) -> None:
    """Append to ``arguments`` of the names at these places one more of their ``tokens`` each, until all are different."""
    n_with = Counter(token for at in places for token in set(tokens[at]))
    alike: dict[str, list[int]] = {}
    for at in places:
        own = [token for token in tokens[at] if n_with[token] < len(places)]
        told = min(own, key=lambda token: (token.isdigit(), n_with[token]), default="")
        arguments[at].extend([told] if told else [])
        alike.setdefault(told, []).append(at)
    if len(alike) == 1:  # the same words, in another order
        columns = zip_longest(*(tokens[at] for at in places))
        differ = next((column for column in columns if len(set(column)) > 1), None)
        for at, told in zip(places, differ or (), strict=False):
            arguments[at].append(told or "-")
    for same in alike.values():
        if 1 < len(same) < len(places):
            _tell_apart(same, tokens, arguments)
