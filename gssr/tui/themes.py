"""The themes that GSSR adds to Textual's, and the colours that each theme gives to roles and to load.

A drawing in lines of text says roles (gssr.render.roles); here a theme turns them into styles, so that all of Textual's
themes work. The categories of GPU time have the same colours in every theme. Hue never carries meaning alone: load is also
told by the height of its mark, and a theme without colour loses nothing else.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

from rich.style import Style
from rich.text import Text
from textual.app import App
from textual.color import Color, Gradient
from textual.theme import BUILTIN_THEMES, Theme

from gssr.render.breakdown import LOOKS
from gssr.render.glyphs import Glyphs, drawable
from gssr.render.roles import ROLES, Role, Row

READABLE = 4.5
"""The least contrast of text to its background. Source: WCAG 2.2, success criterion 1.4.3."""
TEXT_COLOURS = ("primary", "secondary", "accent", "warning", "error", "success")
"""The theme's colours that text has as well."""
DEFAULT, FEW_COLOURS, NO_COLOURS = "gssr", "ansi-dark", "colourless"
_TRAFFIC = ("#c63d4f", "#dd7f3b", "#d9b94c", "#7cbf6b", "#4fc3a8")
_TRAFFIC_ON_LIGHT = ("#b3263a", "#c4631c", "#a88a10", "#3f8f45", "#118a78")
_VIRIDIS = ("#482878", "#3e4a89", "#26828e", "#35b779", "#fde725")
_GREYS = ("#6b6b6b", "#8c8c8c", "#adadad", "#cfcfcf", "#f0f0f0")
_FEW = ("red", "yellow", "green", "cyan")
LOAD_STEPS = 10
"""Colours that load can have: fewer changes of colour are fewer bytes."""
_CURSOR = 0.3
"""How much of the theme's first colour the cursor's background has: text in the colours of load stays readable on it."""
_MISSING = "#c061cb"

_GSSR = Theme(
    name=DEFAULT,
    primary="#6ea8fe",
    secondary="#93a1b8",
    accent="#f2b866",
    warning="#f2b866",
    error="#ff6b7a",
    success="#7bd88f",
    foreground="#d6dce6",
    background="#0e1217",
    surface="#12171e",
    panel="#1b222c",
    dark=True,
    variables={
        "border": "#2d3846",
        "border-blurred": "#2d3846",
        "footer-key-foreground": "#f2b866",
        "block-cursor-background": "#23466f",
        "block-cursor-foreground": "#ffffff",
        "block-cursor-text-style": "bold",
    },
)


def _ansi(name: str, dark: bool) -> Theme:
    """Return a theme of the terminal's own 16 colours: Textual's if it has one of this name (since 8.2), else one of
    ours."""
    built_in = BUILTIN_THEMES.get(name)
    if built_in is not None:
        return replace(built_in, variables={**built_in.variables, **_FEW_VARIABLES})
    return Theme(
        name=name, primary="ansi_blue", secondary="ansi_cyan", accent="ansi_yellow", warning="ansi_yellow",
        error="ansi_red", success="ansi_green", foreground="ansi_default", background="ansi_default",
        surface="ansi_default", panel="ansi_default", dark=dark, variables=_FEW_VARIABLES,
    )  # fmt: skip


_FEW_VARIABLES = {
    "block-cursor-background": "ansi_blue", "block-cursor-foreground": "ansi_bright_white",
    "block-cursor-text-style": "bold", "footer-key-foreground": "ansi_yellow", "border": "ansi_bright_black",
    "border-blurred": "ansi_bright_black", "text-muted": "ansi_bright_black",
    "footer-background": "ansi_default", "footer-foreground": "ansi_default",
}  # fmt: skip
_GREY = {
    "primary": "#b0b0b0", "secondary": "#909090", "accent": "#e0e0e0", "warning": "#d0d0d0", "error": "#ffffff",
    "success": "#c0c0c0", "foreground": "#d8d8d8", "background": "#101010", "surface": "#141414", "panel": "#202020",
}  # fmt: skip
THEMES: tuple[Theme, ...] = (
    _GSSR,
    replace(_GSSR, name="gssr-viridis"),
    _ansi(FEW_COLOURS, True),
    _ansi("ansi-light", False),
    Theme(name=NO_COLOURS, dark=True, **_GREY),  # type: ignore[arg-type]
)
"""The project's own themes, offered beside all of Textual's."""
MARKED_WITHOUT_COLOURS = {
    "block-cursor-text-style": "bold reverse", "block-cursor-blurred-text-style": "underline",
}  # fmt: skip
"""The style of text that is selected, where no background can tell."""
_RAMPS = {"gssr-viridis": _VIRIDIS, NO_COLOURS: _GREYS}


def readable(colour: Color, ground: Color, ink: Color) -> Color:
    """Mix a colour with as much of the theme's text colour ``ink`` as it takes to be read on its background ``ground``."""
    mixed = (colour.blend(ink, tenths / 10) for tenths in range(11))
    return next((each for each in mixed if _contrast(each, ground) >= READABLE), ink)


def _contrast(one: Color, other: Color) -> float:
    """The ratio of two colours' relative luminances, from 1 to 21. Source: WCAG 2.2."""

    def luminance(colour: Color) -> float:
        parts = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in colour.normalized]
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def text_variables(theme: str, variables: Mapping[str, str]) -> dict[str, str]:
    """Return the CSS variables of the colours that text has, such as ``text-accent``, so that it can be read. Of the
    terminal's own colours nobody knows how they look: they stay as they are."""
    if is_ansi(theme):
        return {f"text-{name}": variables[name] for name in TEXT_COLOURS}
    ground, ink = (Color.parse(variables[name]) for name in ("background", "foreground"))
    return {f"text-{name}": readable(Color.parse(variables[name]), ground, ink).hex for name in TEXT_COLOURS}


def is_ansi(theme: str) -> bool:
    """Tell whether a theme uses the terminal's own 16 colours."""
    return theme.startswith("ansi-") or theme == "textual-ansi"


class Palette:
    """The styles of one theme. ``colourless``: colours say nothing here, so that marks and words must."""

    def __init__(self, theme: str, variables: Mapping[str, str], dark: bool, colourless: bool) -> None:
        self.theme, self._variables, self._dark = theme, variables, dark
        self.colourless = colourless or theme == NO_COLOURS
        self._few = is_ansi(theme)
        self.needs_marks = self.colourless or self._few
        """True where colours alone can't tell all categories apart."""
        self._styles: dict[Role, Style] = {}

    @classmethod
    def of(cls, app: App[Any], colourless: bool) -> "Palette":
        """The palette of the theme that the app shows now."""
        return cls(app.theme, app.theme_variables, app.current_theme.dark, colourless)

    def _named(self, name: str, blend: float = 1.0) -> str | None:
        """Return a colour of the theme by its name (the foreground if the theme lacks it), with the share ``blend`` of
        it over the background; None if the theme uses the terminal's own 16 colours."""
        colour = Color.parse(self._variables.get(name, "") or self._variables["foreground"])
        if self._few or blend == 1.0:
            return colour.rich_color.name if not self._few else None
        return Color.parse(self._variables["background"]).blend(colour, blend).hex

    def style(self, role: Role) -> Style:
        """Return the style of a role in this theme."""
        found = self._styles.get(role)
        if found is None:
            found = self._styles[role] = self._made(role)
        return found

    def text_of(self, rows: Iterable[Row], glyphs: Glyphs) -> Text:
        """Turn rows of a pure drawing into a text that a widget wraps."""
        spans = ([(span.text, self.style(span.role)) for span in drawable(row, glyphs)] for row in rows)
        return Text("\n").join(Text.assemble(*line) for line in spans)

    def _made(self, role: Role) -> Style:
        """Make the style of a role: of load, of a category of GPU time, or of the theme's colours."""
        if role.startswith(("ramp", "low")):
            return self.load(int(role[-1]) / 4) + Style(underline=role.startswith("low"))
        if self._few:
            return Style.parse(_FEW_ROLES.get(role) or ROLES[role].rich)
        if role in _CATEGORY:
            return Style(color=_CATEGORY[role]) if not self.colourless else Style()
        if role == "dim":
            return Style(color=self._named("foreground", 0.62))
        if role in ("band", "track", "fill"):
            return Style(color=self._named("foreground", {"band": 0.3, "track": 0.18, "fill": 0.15}[role]))
        named = _THEMED.get(role)
        if named is not None:
            return Style(color=self._named(named), bold=role in ("bad", "heading", "outlier"))
        return Style.parse(ROLES[role].rich)

    @cached_property
    def _loads(self) -> list[Style]:
        """Make the LOAD_STEPS styles of load, from the least to the greatest."""
        if self._few:
            return [Style(color=_FEW[min(step * len(_FEW) // LOAD_STEPS, len(_FEW) - 1)]) for step in range(LOAD_STEPS)]
        stops = _RAMPS.get(self.theme, _TRAFFIC if self._dark else _TRAFFIC_ON_LIGHT)
        gradient = Gradient.from_colors(*stops)
        return [Style(color=gradient.get_color(step / (LOAD_STEPS - 1)).hex) for step in range(LOAD_STEPS)]

    def load(self, fraction: float) -> Style:
        """The colour of a load, a fraction of the full scale."""
        return self._loads[min(max(round(fraction * (LOAD_STEPS - 1)), 0), LOAD_STEPS - 1)]

    @cached_property
    def missing(self) -> Style:
        """The colour of the hatch where nothing is known."""
        return Style(color="magenta" if self._few else _MISSING)

    @cached_property
    def cursor(self) -> Style:
        """Return the style of the selected line, which has no colour of data: the background, or reversed if colours
        are few."""
        if self._few or self.colourless:
            return Style(reverse=True)
        ground, selects = (Color.parse(self._variables[name]) for name in ("background", "primary"))
        return Style(bgcolor=ground.blend(selects, _CURSOR).hex)


_CATEGORY: dict[Role, str] = {look.role: look.colour for look in LOOKS.values()}
_THEMED: dict[Role, str] = {
    "title": "foreground", "heading": "text-accent", "good": "text-success", "bad": "text-error",
    "outlier": "text-warning", "series": "success", "gap": "text-accent", "neutral": "text-secondary",
}  # fmt: skip
_FEW_ROLES: dict[Role, str] = {
    "series": "green", "neutral": "white", "band": "bright_black", "fill": "bright_black", "track": "bright_black",
    "working1": "green", "working2": "cyan", "working3": "bright_green", "working4": "bright_cyan",
    "working5": "bright_yellow", "working6": "bright_yellow", "communication1": "blue", "communication2": "bright_blue",
    "idle1": "bright_magenta", "idle2": "magenta", "idle3": "bright_red", "idle4": "yellow", "idle5": "red",
    "idle6": "white", "outside1": "bright_black", "outside2": "bright_black", "outside3": "bright_black",
    "outside4": "white",
}  # fmt: skip
