"""What every widget that shows a part of a result is: a panel with a title in its border, told a result by ``show``."""

import re
from collections.abc import Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Literal, Self

from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual.content import Content
from textual.filter import ANSIToTruecolor, LineFilter
from textual.geometry import Region
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

if TYPE_CHECKING:
    _AnyWidget = Widget
else:
    _AnyWidget = object  # a widget gets the styles and the keys of its first base that is one


class _Title:
    """A title in a widget's border. Textual draws all of a widget anew whenever its title is set; this only the row of the
    border, and only where the text has changed."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._title_of_widget, self._said, self._is_below = vars(Widget)[name], f"_said_{name}", "sub" in name

    def __get__(self, widget: Widget | None, owner: type | None = None) -> Any:
        return self if widget is None else self._title_of_widget.__get__(widget, owner)

    def __set__(self, widget: "PlainText", title: str | None) -> None:
        if getattr(widget, self._said, None) != title:
            setattr(widget, self._said, title)
            widget.draws_border = "bottom" if self._is_below else "top"
            self._title_of_widget.__set__(widget, title)
            widget.draws_border = None


class PlainText(_AnyWidget):
    """A widget whose titles and tooltips are taken as they are: what a recording is called may look like markup."""

    border_title = _Title()
    border_subtitle = _Title()
    draws_border: "Literal['top', 'bottom'] | None" = None
    """Which row of the border is drawn anew while a title is set; else None."""

    def refresh(self, *regions: Region, repaint: bool = True, layout: bool = False, recompose: bool = False) -> Self:
        """Draw anew as Textual does: without regions all of it. Of a title that is set, only the row of the border."""
        if self.draws_border is None:
            return super().refresh(*regions, repaint=repaint, layout=layout, recompose=recompose)
        self.call_next(self._draw_border, self.draws_border)  # it may be set while all is drawn
        return self

    def _draw_border(self, edge: "Literal['top', 'bottom']") -> None:
        size, gutter = self.outer_size, self.styles.gutter
        self.refresh(Region(-gutter.left, (0 if edge == "top" else size.height - 1) - gutter.top, size.width, 1))

    def render_str(self, text_content: str | Content) -> Content:
        """Return the text as it stands, cleaned and without markup; content that is laid out already is returned as it
        is."""
        return text_content if isinstance(text_content, Content) else Content(clean(text_content))

    @property
    def tooltip(self) -> "VisualType | None":
        """The text that appears where the mouse rests."""
        return super().tooltip

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

    def strip_of(self, row: Row, width: int) -> Strip:
        """Turn a row of a pure drawing into a line of this widget, cut or filled to ``width`` cells."""
        style = self.palette.style
        segments = [Segment(span.text, style(span.role)) for span in drawable(row, self.glyphs)]
        return Strip(segments).adjust_cell_length(width)


class Words(PlainText, Label):
    """Words that are laid out anew only where they have changed: a layout costs more than all drawing."""

    _said: object = None

    def __init__(self, content: VisualType = "", **attributes: str) -> None:
        super().__init__(content, markup=False, **attributes)  # type: ignore[arg-type]

    def say(self, content: VisualType) -> None:
        """Show this text; all is laid out anew only if its shape has changed, and its place depends on that."""
        if content != self._said:
            before, self._said = self._said, content
            self.update(content, layout=self.styles.auto_dimensions and _shape(content) != _shape(before))


def _shape(content: object) -> object:
    """Reduce a text to what its layout depends on: where words end, and not what they are."""
    text = content.plain if isinstance(content, Text) else content
    return re.sub(r"\S", "x", text) if isinstance(text, str) and text.isascii() else text


class LineDrawing(Drawing, _AnyWidget):
    """A widget that is drawn line by line (Textual's Line API), by ``draw_lines``. After ``draw_changes`` only lines that
    have changed are sent anew."""

    _drawn: list[Strip] | None = None
    """All lines as they were drawn last, without the background; None where everything is to be drawn."""
    _drawn_for: object = None
    """What they were drawn for: the size, how far they are scrolled, and the theme."""
    _changes_are_due = False

    _on_ground: dict[Style | None, Style]
    """Styles of drawings as they are sent: on the widget's own background, in the colours that the terminal has."""

    def draw_lines(self, width: int, height: int) -> list[Strip]:
        """Draw at most ``height`` lines of ``width`` cells; below fewer of them it is blank."""
        raise NotImplementedError

    def render_line(self, y: int) -> Strip:
        """Draw row ``y`` for Textual, on the widget's own background."""
        lines = self._drawn
        if lines is None or self._drawn_for != self._sight():
            lines = self._draw_all()
            self._on_ground = {}  # what CSS says is asked again
        line = lines[y] if y < len(lines) else Strip.blank(self.size.width)
        styles = self._on_ground
        try:
            segments = [Segment(text, styles[style]) for text, style, _ in line]
        except KeyError:
            ground, background = self.rich_style, self.background_colors[1]
            for style in {style for _, style, _ in line} - styles.keys():
                styles[style] = ground if style is None else ground + style
                for each in super().get_line_filters():
                    if isinstance(each, ANSIToTruecolor):
                        styles[style] = each.truecolor_style(styles[style], background)
            segments = [Segment(text, styles[style]) for text, style, _ in line]
        return Strip(segments, line.cell_length)

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Leave out the filter that ``render_line`` has applied, once for each style."""
        return [each for each in super().get_line_filters() if not isinstance(each, ANSIToTruecolor)]

    def _sight(self) -> tuple[object, ...]:
        """Return what the drawn lines depend on besides the content: if it changes, all lines are drawn anew."""
        return self.outer_size, self.scroll_offset, self.app.theme  # asked for each line: these cost least

    def _draw_all(self) -> list[Strip]:
        self._drawn_for = self._sight()
        self._drawn = lines = self.draw_lines(*self.size)
        return lines

    def refresh(self, *regions: Region, repaint: bool = True, layout: bool = False, recompose: bool = False) -> Self:
        """Draw anew as PlainText does."""
        if repaint and not regions and self.draws_border is None:
            self._drawn = None
        return super().refresh(*regions, repaint=repaint, layout=layout, recompose=recompose)

    def draw_changes(self) -> None:
        """Draw those lines anew that have changed, once everything about a look was told."""
        if not self._changes_are_due:
            self._changes_are_due = True
            self.call_next(self._draw_changes)

    def _draw_changes(self) -> None:
        self._changes_are_due = False
        before = self._drawn
        if before is None or self._drawn_for != self._sight() or not self.is_on_screen:
            self.refresh()
            return
        changed = [y for y, (old, new) in enumerate(zip_longest(before, self._draw_all())) if old != new]
        if changed:  # with the border: to cut it off costs more
            left, width = self.styles.gutter.left, self.outer_size.width
            self.refresh(*(Region(-left, y, width, 1) for y in changed))


class Panel(LineDrawing, Widget, can_focus=True):
    """A part of a screen that is drawn from a result and a view, and from nothing else.

    ``show`` keeps both and draws anew; a subclass says in ``draw_lines`` or ``rows`` what is seen, and names it in
    ``name_border``. Tab goes from panel to panel, and ``z`` gives one the whole screen.
    """

    ALLOW_MAXIMIZE = True
    result: Result | None = None
    view: View

    def show(self, result: Result, view: View) -> None:
        """Draw from this result and view from now on."""
        self.result, self.view = result, view
        self.name_border(result)
        self.draw_changes()

    def name_border(self, result: Result) -> None:
        """Name in the border what is shown of this result, in the size that the panel has; does nothing here."""

    def entitle(self, title: str, *more: str) -> None:
        """Set the border's title to ``title`` and what else is to be said, without empty texts."""
        between = "  -  " if self.glyphs.levels.isascii() else "  ·  "
        self.border_title = between.join(filter(None, (title, *more)))

    def on_resize(self) -> None:
        """Name anew what is shown: how long a cell is, and what there is room for, depends on the size."""
        if self.result is not None:
            self.name_border(self.result)


class RowsPanel(Panel):
    """A panel whose content is rows of a pure drawing, made for its size by ``rows``."""

    def rows(self, result: Result, width: int, height: int) -> list[Row]:
        """The drawing, at most ``height`` rows of at most ``width`` cells."""
        raise NotImplementedError

    def draw_lines(self, width: int, height: int) -> list[Strip]:
        """All of its rows."""
        rows = [] if self.result is None else self.rows(self.result, width, height)
        return [self.strip_of(row, width) for row in rows]
