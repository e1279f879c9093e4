"""``gssr.torch_trace``: a trace of some steps by torch.profiler, one file a rank, into the folder of the run's traces.

The profiler runs for the traced steps and the one before, which warms it up, and at no other time.
"""

import math
import os
import time
import warnings
from types import TracebackType
from typing import Any

from gssr.trace_requests import TraceRequest, read_request, write_request

LEAD_STEPS, LEAD_SECONDS = 10, 2.0
"""A step is named so far ahead, at least: until then every rank has looked."""
LOOK_SECONDS = 0.2
"""How often a rank looks whether a trace is asked for, at most."""


def torch_trace(
    wait: int = 10, active: int = 3, on_demand: bool = False, *, with_stack: bool = False, record_shapes: bool = False
) -> "TorchTrace":
    """Trace ``active`` steps of a loop with torch.profiler, after ``wait`` steps, or, with ``on_demand``, whenever
    ``gssr profile --trace-when`` asks for it. ``with_stack`` and ``record_shapes`` are torch.profiler's: it records lines
    of Python, and the shapes of which FLOPs are counted; both cost time.

    Each rank writes ``torch.rankR.stepN.json`` into the folder that ``gssr profile`` names (GSSR_TRACES). Outside of
    ``gssr profile`` nothing is traced, and torch is not imported. Whatever goes wrong while tracing becomes a warning,
    and the loop goes on. Use it as::

        with gssr.torch_trace() as trace:
            for batch in loader:
                train(batch)
                trace.step()

    Raises ValueError for numbers of steps below 1. Entering the ``with`` block raises ImportError if there is a trace
    to make and torch is missing.
    """
    if wait < 1 or active < 1:
        raise ValueError(
            "gssr.torch_trace: wait and active are numbers of steps from 1 on; the last of wait is warm-up"
        )
    return TorchTrace(wait, active, on_demand, {"with_stack": with_stack, "record_shapes": record_shapes})


class TorchTrace:
    """A context manager that traces steps, see ``torch_trace``. Call ``step`` at the end of each step."""

    def __init__(self, wait: int, active: int, on_demand: bool, recorded: dict[str, bool]) -> None:
        self._active, self._on_demand, self._recorded = active, on_demand, recorded
        self._folder = os.environ.get("GSSR_TRACES") or None
        self._first = 0 if on_demand else wait + 1
        self._done = 0
        self._profiler: Any = None
        self._is_empty = False  # the loop ended before a step that was to be traced
        self._seen = 0  # the request that was looked at last
        self._looked = 0.0, 0  # when it was, monotonic s, and how many steps were done then

    def __enter__(self) -> "TorchTrace":
        if self._folder is not None:
            try:
                import torch.profiler  # noqa: F401
            except ImportError:
                raise ImportError(
                    "gssr.torch_trace needs torch, which is not installed here: pip install torch"
                ) from None
            if self._on_demand and read_request(self._folder) is None:
                self._folder = None  # nobody will ask
            self._looked = time.monotonic(), 0
            self._safely(self._begin_if_due)
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _at: TracebackType | None
    ) -> None:
        if self._profiler is not None:
            self._is_empty = _kind is None and self._done < self._first
            self._safely(self._stop)

    def step(self) -> None:
        """Say that a step of the loop is over. Never raises."""
        if self._folder is not None:
            self._done += 1
            self._safely(self._go_on)

    def _safely(self, do: Any) -> None:
        """Call ``do``. If it raises, warn and trace nothing more."""
        try:
            do()
        except Exception as error:  # of torch's, or of the disk's: the loop goes on
            self._folder = self._profiler = None
            warnings.warn(f"gssr.torch_trace: there will be no (further) trace: {error}", RuntimeWarning, stacklevel=4)

    def _go_on(self) -> None:
        """End, request or begin a trace, as it is due after this step."""
        if self._profiler is not None:
            self._profiler.step()
            if self._done >= self._first + self._active - 1:
                self._stop()
        if self._on_demand and self._profiler is None:
            self._look()
        self._begin_if_due()

    def _begin_if_due(self) -> None:
        """Start the profiler if the next step is the last one before those to trace: it warms up then."""
        if self._profiler is None and self._done + 2 == self._first:
            from torch.profiler import profile, schedule

            steps = schedule(wait=0, warmup=1, active=self._active, repeat=1)
            self._profiler = profile(schedule=steps, on_trace_ready=self._write, **self._recorded)
            self._profiler.start()

    def _stop(self) -> None:
        profiler, self._profiler = self._profiler, None
        profiler.stop()  # of a loop that ended before its time this writes what there is

    def _look(self) -> None:
        """Look, at most every LOOK_SECONDS, whether a trace is requested. Rank 0 names the first step to trace, so far
        ahead that all ranks see it in time."""
        now = time.monotonic()
        (then, done_then), folder = self._looked, self._folder
        if now < then + LOOK_SECONDS or folder is None:
            return
        self._looked = now, self._done
        request = read_request(folder)
        if request is None:
            return
        if request.step == 0 and _rank() == 0:
            ahead = max(LEAD_STEPS, math.ceil(LEAD_SECONDS * (self._done - done_then) / (now - then)))
            request = TraceRequest(request.number, self._done + ahead if request.number else 1)
            write_request(folder, request)
        if request.number > self._seen and request.step:
            self._seen = request.number
            self._first = request.step  # which is passed over where this rank is through it already

    def _write(self, profiler: Any) -> None:
        """Write the profiler's trace into the folder under a name that is free. The file appears complete, as it is
        renamed into place."""
        if self._is_empty:
            return
        assert self._folder is not None
        os.makedirs(self._folder, 0o700, exist_ok=True)  # another command of the same name may have found it unused
        rank = _rank()
        aside = os.path.join(self._folder, f".torch.rank{rank}.{os.getpid()}.json")
        profiler.export_chrome_trace(aside)
        stem = path = os.path.join(self._folder, f"torch.rank{rank}.step{self._first}")
        number = 1
        while os.path.lexists(path + ".json"):  # of an earlier run, or of a process that was started again
            number += 1
            path = f"{stem}-{number}"
        os.rename(aside, path + ".json")


def _rank() -> int:
    """Return the rank as torch.distributed counts it if it is initialised, else as the launcher does."""
    import torch

    distributed = getattr(torch, "distributed", None)
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return int(distributed.get_rank())
    from gssr.launch import where_am_i

    return where_am_i().rank
