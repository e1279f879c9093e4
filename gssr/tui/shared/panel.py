"""What every widget that shows a part of a result is: a panel with a title in its border, told a result by ``show``."""

import re
from collections.abc import Callable
from typing import Any, TypeVar

from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual.content import Content
from textual.strip import Strip
from textual.visual import VisualType
from textual.widget import Widget
from textual.widgets import Label

from gssr.model.live.live_result import Result
from gssr.render.cells import clean
from gssr.render.glyphs import Glyphs, drawable
from gssr.render.roles import Row
from gssr.tui.shared.live_app import LiveApp
from gssr.tui.themes import Palette
from gssr.tui.view import View

_Drawing = TypeVar("_Drawing")


class PlainText:
    """A widget whose titles and tooltips are taken as they are: what a recording is called may look like markup."""

    def render_str(self, text_content: str | Content) -> Content:
        """Return the text as it stands, cleaned and without markup; content that is laid out already is returned as it
        is."""
        return text_content if isinstance(text_content, Content) else Content(clean(text_content))

    @property
    def tooltip(self) -> "VisualType | None":
        """The text that appears where the mouse rests."""
        return super().tooltip  # type: ignore[misc,no-any-return]

    @tooltip.setter
    def tooltip(self, tooltip: "VisualType | None") -> None:
        Widget.tooltip.fset(self, Content(tooltip) if isinstance(tooltip, str) else tooltip)  # type: ignore[attr-defined]


class Drawing(PlainText):
    """What widgets draw with: the colours of the app's theme, and the characters that its terminal can show."""

    app: LiveApp

    @property
    def palette(self) -> Palette:
        """The colours of the theme."""
        return self.app.palette

    @property
    def glyphs(self) -> Glyphs:
        """The characters that the terminal can show."""
        return self.app.glyphs

    def strip_of(self, row: Row, width: int, base: Style | None = None) -> Strip:
        """Turn a row of a pure drawing into a line of this widget, cut or filled to ``width`` cells, with the style
        ``base`` below everything if it is given."""
        style = self.palette.style
        segments = [Segment(span.text, style(span.role)) for span in drawable(row, self.glyphs)]
        strip = Strip(segments).adjust_cell_length(width)
        return strip if base is None else strip.apply_style(base)


class Words(PlainText, Label):
    """Words that are laid out anew only where they have changed: a layout costs more than all drawing."""

    _said: object = None

    def __init__(self, content: VisualType = "", **attributes: str) -> None:
        super().__init__(content, markup=False, **attributes)  # type: ignore[arg-type]

    def say(self, content: VisualType) -> None:
        """Show this text; laid out anew only if its shape has changed."""
        if content != self._said:
            before, self._said = self._said, content
            self.update(content, layout=_shape(content) != _shape(before))


def _shape(content: object) -> object:
    """Reduce a text to what its layout depends on: where words end, and not what they are."""
    text = content.plain if isinstance(content, Text) else content
    return re.sub(r"\S", "x", text) if isinstance(text, str) and text.isascii() else text


class LineDrawing(Drawing):
    """A widget that is drawn line by line (Textual's Line API) by ``draw_line``."""

    rich_style: Style
    _ground: Style | None = None

    def draw_line(self, y: int) -> Strip:
        """Draw one line of the content."""
        raise NotImplementedError

    def render_line(self, y: int) -> Strip:
        """Draw row ``y`` for Textual, on the widget's own background."""
        if y == 0 or self._ground is None:  # what CSS says costs more than a line
            self._ground = self.rich_style
        return self.draw_line(y).apply_style(self._ground)


class Panel(LineDrawing, Widget, can_focus=True):  # type: ignore[misc] # app is narrowed
    """A part of a screen that is drawn from a result and a view, and from nothing else.

    ``show`` keeps both and draws anew; a subclass says in ``draw_line`` or ``rows`` what is seen. Tab goes from panel to
    panel, and ``z`` gives one the whole screen.
    """

    ALLOW_MAXIMIZE = True
    result: Result | None = None
    view: View
    _kept: tuple[tuple[object, ...], Any] | None = None

    def show(self, result: Result, view: View) -> None:
        """Draw from this result and view from now on."""
        if result is not self.result:
            self._kept = None
        self.result, self.view = result, view
        self.refresh()

    def keep(self, make: Callable[[], _Drawing], *depends_on: object) -> _Drawing:
        """Return what ``make`` draws. It is called again only if the result, the size, the theme, or what it
        ``depends_on`` besides has changed. Only one drawing is kept."""
        key = (self.content_size, self.palette.theme, *depends_on)
        if self._kept is None or self._kept[0] != key:
            self._kept = key, make()
        made: _Drawing = self._kept[1]
        return made

    def draw_anew(self) -> None:
        """Forget what was kept, and draw."""
        self._kept = None
        self.refresh()


class RowsPanel(Panel):
    """A panel whose content is rows of a pure drawing, made for its size by ``rows``."""

    def rows(self, result: Result, width: int, height: int) -> list[Row]:
        """The drawing, at most ``height`` rows of at most ``width`` cells."""
        raise NotImplementedError

    def draw_line(self, y: int) -> Strip:
        """Draw row ``y`` of the panel's rows; blank before the first result and below the last row."""
        result, (width, height) = self.result, self.content_size
        if result is None:
            return Strip.blank(width)
        rows = self.keep(lambda: self.rows(result, width, height), self.view)
        return self.strip_of(rows[y] if y < len(rows) else (), width)
