"""GSSR, the GPU saturation scorer: how well a job saturates its GPUs, when and where it does not, and why.

From Python (docs/python.md): ``gssr.open(path)`` opens a recording, whose runs give pandas objects, or a trace;
``gssr.from_pandas`` makes a recording; ``gssr.analyze(run)`` computes what ``gssr analyze --json`` prints;
``gssr.mark(text)`` marks a moment of the run that this process is part of, ``gssr.torch_trace()`` traces some of its steps;
``gssr.METRICS`` is the catalogue. Everything is
imported when first used, so that ``import gssr`` costs nothing.
"""

from gssr.version import __version__

TYPE_CHECKING = False  # without typing: nothing is imported before gssr.module_path says where from
if TYPE_CHECKING:
    from gssr.api.recording import Recording as Recording
    from gssr.api.recording import Run as Run
    from gssr.api.recording import analyze as analyze
    from gssr.api.recording import open_any as open
    from gssr.api.torch_trace import torch_trace as torch_trace
    from gssr.api.writing import from_pandas as from_pandas
    from gssr.marks import mark as mark
    from gssr.metrics import METRICS as METRICS
    from gssr.model.results import Analysis as Analysis

_LAZY = {
    "METRICS": ("gssr.metrics", "METRICS"),
    "Analysis": ("gssr.model.results", "Analysis"),
    "Recording": ("gssr.api.recording", "Recording"),
    "Run": ("gssr.api.recording", "Run"),
    "analyze": ("gssr.api.recording", "analyze"),
    "from_pandas": ("gssr.api.writing", "from_pandas"),
    "mark": ("gssr.marks", "mark"),
    "open": ("gssr.api.recording", "open_any"),
    "torch_trace": ("gssr.api.torch_trace", "torch_trace"),
}

__all__ = [
    "METRICS",
    "Analysis",
    "Recording",
    "Run",
    "__version__",
    "analyze",
    "from_pandas",
    "mark",
    "open",
    "torch_trace",
]


def __getattr__(name: str) -> object:
    if name in _LAZY:
        from importlib import import_module

        module, attribute = _LAZY[name]
        found = globals()[name] = getattr(import_module(module), attribute)  # from now on as quick as any other name
        return found
    raise AttributeError(f"module 'gssr' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_LAZY])
