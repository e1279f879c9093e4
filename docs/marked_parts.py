"""Puts what is made from the code's tables into the marked parts of a page; the scripts docs/make_*.py say what that is."""

from collections.abc import Iterable, Mapping


def with_parts(text: str, script: str, parts: Mapping[str, str]) -> str:
    """Return the text of a page with these ``parts``, by the name of their marker, in the place of what stood there.

    A part stands between ``<!-- NAME: made by docs/SCRIPT -->`` and ``<!-- end of NAME -->``. Raises ValueError if the page
    has no such part.
    """
    for name, made in parts.items():
        begin, end = f"<!-- {name}: made by docs/{script} -->\n", f"<!-- end of {name} -->"
        before, found, rest = text.partition(begin)
        _, closed, after = rest.partition(end)
        if not (found and closed):
            raise ValueError(f"the page has no part marked {name!r} of {script}")
        text = f"{before}{begin}\n{made.strip()}\n\n{end}{after}"
    return text


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Write a Markdown table."""
    lines = [[*head], *map(list, rows)]
    lines.insert(1, ["---"] * len(lines[0]))
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
