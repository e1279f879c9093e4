"""Pages of HTML as a browser reads them."""

import json
from html.parser import HTMLParser
from typing import Any

VOID = {"meta", "br", "img", "link"}


class Page(HTMLParser):
    """What a browser makes of it: elements that close in order, their attributes, and the text without them. ``hidden`` and
    ``empty``: numbers of elements that nobody is read, and that hold nothing."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.numbers: list[int] = []
        self.hidden: set[int] = set()
        self.empty: set[int] = set()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.inside: dict[str, list[str]] = {"script": [], "style": []}
        self.feed(text)
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        assert len(dict(attrs)) == len(attrs)
        number = len(self.elements) - 1
        self.empty -= set(self.numbers[-1:])
        self.empty.add(number)
        if dict(attrs).get("aria-hidden") == "true" or self.hidden.intersection(self.numbers[-1:]):
            self.hidden.add(number)
        if tag not in VOID:
            self.open.append(tag)
            self.numbers.append(number)
        if tag in self.inside:
            self.inside[tag].append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open[-1] == tag, (tag, self.open)
        self.open.pop()
        self.numbers.pop()

    def handle_comment(self, data: str) -> None:
        raise AssertionError(data)

    def handle_data(self, data: str) -> None:
        self.empty -= set(self.numbers[-1:])
        if self.open and self.open[-1] in self.inside:
            self.inside[self.open[-1]][-1] += data
        elif data.strip():
            self.words.append(data.strip())

    @property
    def text(self) -> str:
        """All words, a line each."""
        return "\n".join(self.words).replace("\u00a0", " ")

    def data(self) -> dict[str, Any]:
        """What its first script holds."""
        return json.loads(self.inside["script"][0])
