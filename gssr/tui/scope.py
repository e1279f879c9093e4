"""What is looked at, in words: which GPUs, and which stretch of time."""

from gssr.model.live.frame import Frame
from gssr.render.cells import clean
from gssr.render.clock import duration
from gssr.render.scale import count
from gssr.tui.axis import at_text
from gssr.tui.view import Scene


def gpus_text(scene: Scene) -> str:
    """``16 GPUs``, or of a selection ``nid000003 (4 GPUs)``; a single GPU by its name alone."""
    looked_at = scene.looked_at()
    if not scene.view.selection:
        return count(len(looked_at), "GPU")
    if len(looked_at) == 1:
        return clean(scene.frame.place(int(looked_at[0])))
    name = clean(scene.view.selected)
    return f"{name} ({count(len(looked_at), 'GPU')})" if name else count(len(looked_at), "GPU")


def is_whole(frame: Frame) -> bool:
    """True where the window holds the whole run."""
    return frame.window.start <= frame.first and frame.window.end >= frame.last


def window_text(frame: Frame) -> str:
    """``whole run, 10 min 0 s``, or the times between which the window lies."""
    if is_whole(frame):
        return f"whole run, {duration(frame.last - frame.first)}"
    start, end = max(frame.window.start, frame.first), min(frame.window.end, frame.last)
    return f"{at_text(frame, start)} to {at_text(frame, end)}"
