"""Horizontal bars."""

from gssr.render.glyphs import CLAMPED, TOLERANCE, Glyphs
from gssr.render.roles import Role, Row, Span


def bar(fraction: float | None, width: int, glyphs: Glyphs, role: Role = "series") -> Row:
    """A bar of exactly ``width`` cells on a fixed axis: ``fraction`` of it filled, the rest the track. Zero is all track, a
    missing value all blank, and above the full scale ends in ``^``."""
    if width < 1:
        return ()
    if fraction is None or fraction != fraction:
        return (Span(" " * width),)
    if fraction > 1 + TOLERANCE:
        return _spans((glyphs.full * (width - 1), role), (CLAMPED, "outlier"))
    filled = length(fraction, width, glyphs)
    return _spans((filled, role), (glyphs.track * (width - len(filled)), "dim"))


def length(fraction: float, width: int, glyphs: Glyphs) -> str:
    """The filled cells alone, at most ``width``: eighths where the set has them. More than zero always shows."""
    steps = len(glyphs.parts) + 1
    eighths = min(max(round(fraction * width * steps), 1 if fraction > 0 else 0), width * steps)
    full, part = divmod(eighths, steps)
    return glyphs.full * full + (glyphs.parts[part - 1] if part else "")


def _spans(*pieces: tuple[str, Role]) -> Row:
    return tuple(Span(text, role) for text, role in pieces if text)
