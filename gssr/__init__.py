"""GSSR, the GPU saturation scorer: how well a job saturates its GPUs, when and where it does not, and why.

From Python: ``gssr.open(path)`` opens a recording, ``gssr.analyze(run)`` computes what ``gssr analyze --json`` prints,
``gssr.METRICS`` is the catalogue and ``gssr.score`` the formula. Everything is imported when first used, so that
``import gssr`` costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.5.0"

if TYPE_CHECKING:
    from gssr.marks import mark as mark
    from gssr.metrics import METRICS as METRICS
    from gssr.model.analysis import Analysis as Analysis
    from gssr.model.analyze import analyze as analyze
    from gssr.store.reader import Recording as Recording
    from gssr.store.reader import open_recording as open

_LAZY = {
    "METRICS": ("gssr.metrics", "METRICS"),
    "Analysis": ("gssr.model.analysis", "Analysis"),
    "Recording": ("gssr.store.reader", "Recording"),
    "analyze": ("gssr.model.analyze", "analyze"),
    "mark": ("gssr.marks", "mark"),
    "open": ("gssr.store.reader", "open_recording"),
}

__all__ = ["METRICS", "Analysis", "Recording", "__version__", "analyze", "mark", "open"]


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        module, attribute = _LAZY[name]
        found = globals()[name] = getattr(import_module(module), attribute)  # from now on as quick as any other name
        return found
    raise AttributeError(f"module 'gssr' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_LAZY])
