"""How a key is bound: what it is called in the footer, and what the help says of it."""

from textual.binding import Binding

ZOOM_IN, ZOOM_OUT = "half as much time, around the time cursor or the middle", "twice as much time, around the same"
"""What the keys that zoom do, on every screen."""
SHOWS_OUTPUT = "what the command prints, below the screen"
"""What the key of the output does, which the footer shows beside a job."""


def key(keys: str, action: str, label: str, about: str, show: bool = True) -> Binding:
    """Bind ``keys`` (Textual's names, with commas between) to an action. ``label`` is for the footer, which shows it
    if ``show``; ``about`` is the tooltip and the line in the help panel."""
    shown = "Enter" if keys == "enter" else None  # its sign is in few fonts, and not in ASCII
    return Binding(keys, action, label, show=show, key_display=shown, tooltip=about)
