"""As much YAML as the pages' manifests use: mappings, lists, JSON in one line, plain scalars, and texts below ``|``."""

import json
import re
from itertools import takewhile
from typing import Any

_PAIR = re.compile(r"([\w./-]+):(?: (.+))?")


def parse(text: str) -> Any:
    """The document. Raises ValueError with the line that is no such YAML."""
    lines = [(len(line) - len(line.lstrip(" ")), line.strip()) for line in text.splitlines() if line.strip()]
    value, rest = _block(lines, 0)
    if rest:
        raise ValueError(rest[0][1])
    return value


def _block(lines: list[tuple[int, str]], indent: int) -> tuple[Any, list[tuple[int, str]]]:
    """The mapping or list whose lines begin at ``indent``, and the lines behind it."""
    items: list[Any] = []
    pairs: dict[str, Any] = {}
    while lines and lines[0][0] == indent:
        text = lines[0][1]
        if text.startswith("- "):
            if _PAIR.fullmatch(text[2:]):
                item, lines = _block([(indent + 2, text[2:]), *lines[1:]], indent + 2)
            else:
                item, lines = _scalar(text[2:]), lines[1:]
            items.append(item)
            continue
        pair = _PAIR.fullmatch(text)
        if pair is None or pair[1] in pairs:
            raise ValueError(text)
        if pair[2] == "|":
            below = list(takewhile(lambda line: line[0] > indent, lines[1:]))
            pairs[pair[1]], lines = "".join(f"{line}\n" for _, line in below), lines[1 + len(below) :]
        elif pair[2] is not None:
            pairs[pair[1]], lines = _scalar(pair[2]), lines[1:]
        elif len(lines) > 1 and lines[1][0] > indent:
            pairs[pair[1]], lines = _block(lines[1:], lines[1][0])
        else:
            raise ValueError(text)
    if bool(items) == bool(pairs) or (lines and lines[0][0] > indent):
        raise ValueError(lines[0][1] if lines else "")
    return items or pairs, lines


def _scalar(text: str) -> Any:
    if text[0] in '[{"':
        return json.loads(text)
    if re.search(r": |\s#|^[&*!|>%@`'-]", text):
        raise ValueError(text)
    return int(text) if text.isdigit() else text
