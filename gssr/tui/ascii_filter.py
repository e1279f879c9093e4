"""The last step before anything is drawn on a terminal that shows ASCII only: Textual's own widgets draw their scroll bars,
notices and borders with other characters as well."""

from collections.abc import Iterable

from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter

from gssr.render.glyphs import in_ascii

_STAND_INS = str.maketrans(
    dict.fromkeys("▁▂▃▄▅▆▇", " ")  # the ends of a scroll bar, which its colours or their reverse still tell
    | dict.fromkeys("▏▎▍▌▋▊▉▐▕┃║", "|")
    | dict.fromkeys("▔▀━═", "-")
    | dict.fromkeys("┌┐┘├┴╭╮╰╯╸╺", "+")
    | {"█": "#", "▼": "v", "▲": "^", "▶": ">", "◀": "<", "●": "*", "•": "*"}
)


class AsciiFilter(LineFilter):
    """Replaces each character beyond ASCII by one of ASCII, or by ``?`` for each of its cells."""

    def apply(self, segments: Iterable[Segment], background: Color) -> list[Segment]:  # noqa: ARG002 - as Textual asks
        """Return the segments of a line in ASCII, as wide as before."""
        return [
            segment if segment.text.isascii() else segment._replace(text=in_ascii(segment.text.translate(_STAND_INS)))
            for segment in segments
        ]
