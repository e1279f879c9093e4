"""What the XML of a CUBE4 profile says: its metrics, its call tree, and the threads and streams that were measured."""

from dataclasses import dataclass, field
from typing import NamedTuple
from xml.parsers import expat

import numpy as np

from gssr.traces.timeline import Clock, Profile, Timeline, TraceError, TraceSource, Track, TrackKind, no_intervals

_DEEPEST = 10_000
"""Calls within calls: each level costs a pass over the tree."""
_DEEPEST_ELEMENT = 100
"""Metrics, nodes and groups within each other: systems have some ten levels, and each place is told by all around it."""
_MOST_PLACES = 1 << 18
"""Threads and streams of one file: as many as a recording may have ranks."""
_HAVE_TEXTS = ("metric", "region", "systemtreenode", "locationgroup", "location")
_GPU = ("gpu", "accelerator stream")


class CubeMetric(NamedTuple):
    """A metric as the profile declares it. ``kind``: INCLUSIVE, EXCLUSIVE, or one whose values are computed; ``type``:
    of its values, such as DOUBLE."""

    number: int
    name: str
    title: str
    unit: str
    kind: str
    type: str


def read_anchor(path: str, text: bytes) -> tuple[Timeline, Profile, list[CubeMetric]]:
    """Parse the XML of a profile. Returns the timeline, whose tracks are in the order of the values' columns; its call tree,
    whose nodes are in the file's order, without metrics; and the metrics that the file declares. ``path`` is what errors
    call the file. Raises TraceError if it is damaged, or names no calls or no threads."""
    reader = _Reader()
    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.StartElementHandler, parser.EndElementHandler = reader.start, reader.end
    parser.CharacterDataHandler = reader.text
    parser.StartDoctypeDeclHandler = _refuse  # no entities, whatever they would grow to
    try:
        parser.Parse(text, True)
    except expat.ExpatError as error:
        raise TraceError(f"{path}: its anchor.xml is damaged: {expat.errors.messages[error.code]}") from None
    except ValueError as error:
        raise TraceError(f"{path}: its anchor.xml {error}") from None
    if not reader.parent or not reader.tracks:
        raise TraceError(f"{path}: its anchor.xml names no {'threads' if reader.parent else 'calls'}")
    return *reader.content(path), reader.metrics


def _refuse(*_: object) -> None:
    raise ValueError("declares a document type, which no profile does")


@dataclass
class _Reader:
    """Takes the XML element by element, so that its depth costs no stack."""

    attributes: dict[str, str] = field(default_factory=dict)
    metrics: list[CubeMetric] = field(default_factory=list)
    regions: dict[int, tuple[str, str, str]] = field(default_factory=dict)
    parent: list[int] = field(default_factory=list)
    callee: list[int] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    """Of the threads and streams (Cube's locations) in ``tracks``."""
    tracks: list[Track] = field(default_factory=list)
    _open: list[dict[str, str]] = field(default_factory=list)
    """Of what is open and has texts, what is known of it so far."""
    _calls: list[int] = field(default_factory=list)
    _text: list[str] = field(default_factory=list)
    _depth: int = 0

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        """Handle the begin of an element. Raises ValueError, a clause, if elements or calls are nested too deep."""
        self._depth += 1
        self._text.clear()
        if tag == "cnode":
            if len(self._calls) >= _DEEPEST:
                raise ValueError(f"has calls deeper than {_DEEPEST:,} in each other")
            self.parent.append(self._calls[-1] if self._calls else -1)
            self._calls.append(len(self.callee))
            self.callee.append(_number(attributes.get("calleeId")))
        elif tag in _HAVE_TEXTS:
            if len(self._open) >= _DEEPEST_ELEMENT:
                raise ValueError(f"has elements deeper than {_DEEPEST_ELEMENT:,} in each other")
            if tag == "metric" and self._open:
                self._metric(self._open[-1])  # of those below it the texts come behind its own
            self._open.append({"": tag, **{f"@{name.lower()}": value for name, value in attributes.items()}})
        elif tag == "attr" and self._depth == 2:
            self.attributes[attributes.get("key", "")] = attributes.get("value", "")

    def text(self, text: str) -> None:
        self._text.append(text)

    def end(self, tag: str) -> None:
        """Handle the end of an element."""
        self._depth -= 1
        if tag == "cnode":
            self._calls.pop()
        elif tag in _HAVE_TEXTS:
            own = self._open.pop()
            if tag == "metric":
                self._metric(own)
            elif tag == "region":
                paradigm, role = own.get("paradigm", "").lower(), own.get("role", "").lower()
                self.regions[_number(own.get("@id"))] = (own.get("name", ""), paradigm, role)
            elif tag == "location":
                self._location(own)
        elif self._open:
            self._open[-1].setdefault(tag, "".join(self._text).strip())
        self._text.clear()

    def _metric(self, own: dict[str, str]) -> None:
        """Add a metric once its texts are known; does nothing if it was added already."""
        if "uniq_name" in own and "done" not in own:
            own["done"] = ""
            name = own["uniq_name"]
            kind, type_ = own.get("@type", "").upper(), " ".join(own.get("dtype", "").upper().split())
            title = own.get("disp_name") or name
            self.metrics.append(CubeMetric(_number(own.get("@id")), name, title, own.get("uom", ""), kind, type_))

    def _location(self, own: dict[str, str]) -> None:
        """Add a thread or stream as a track. Raises ValueError, a clause, if there are too many."""
        if len(self.tracks) >= _MOST_PLACES:
            raise ValueError(f"names more than {_MOST_PLACES:,} threads and streams")
        groups = [each for each in self._open if each[""] == "locationgroup"]
        group: dict[str, str] = groups[-1] if groups else {}
        nodes = [each for each in self._open if each[""] == "systemtreenode"]
        named = [each for each in nodes if each.get("class") == "node"] or nodes
        kind: TrackKind = "gpu_stream" if own.get("type", "").lower() in _GPU else "cpu_thread"
        if own.get("type", "").lower() == "metric":
            kind = "other"
        rank, node = _rank(group.get("rank")), named[-1].get("name") if named else None
        self.numbers.append(_number(own.get("@id")))
        self.tracks.append(Track(kind, own.get("name", ""), rank, node, tid=_rank(own.get("rank"))))

    def content(self, path: str) -> tuple[Timeline, Profile]:
        """Put together what was read of the file ``path``. Tracks are sorted by their numbers, as the values are, unless
        numbers occur twice."""
        notes, tracks = [], self.tracks
        if len(set(self.numbers)) < len(self.numbers):
            notes.append("several threads have one number: taken in their order")
        else:
            tracks = [tracks[at] for at in np.argsort(self.numbers).tolist()]
        unknown = ("unknown", "user", "")
        names: dict[str, int] = {}
        regions = [self.regions.get(callee, unknown) for callee in self.callee]
        name = [names.setdefault(region[0], len(names)) for region in regions]
        creator, _, version = self.attributes.get("Creator", "").strip().rpartition(" ")
        source = TraceSource(
            path, "cube", creator or version or "Cube", version if creator else "", n_events=len(self.parent),
            notes=tuple(notes),
        )  # fmt: skip
        paradigm, role = (tuple(region[part] for region in regions) for part in (1, 2))
        profile = Profile(np.array(self.parent, np.int64), np.array(name, np.int64), paradigm, role, ())
        return Timeline((source,), Clock(), tuple(tracks), tuple(names), no_intervals()), profile


def _number(text: str | None) -> int:
    """-1 for what is none."""
    return int(text) if text is not None and text.isdecimal() and len(text) < 16 else -1


def _rank(text: str | None) -> int | None:
    number = _number(text)
    return None if number < 0 else number
