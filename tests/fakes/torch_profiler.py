"""A stand-in for torch.profiler: called and calling as the real one, with a trace of its own making."""

import json
import os
import time
from collections.abc import Callable
from types import ModuleType
from typing import Any


def module(rank: Callable[[], int] | None = None) -> dict[str, ModuleType]:
    """``torch`` and ``torch.profiler`` for sys.modules. ``rank``: what torch.distributed says; None: it was not set up."""

    class Distributed:
        is_available = staticmethod(lambda: True)
        is_initialized = staticmethod(lambda: rank is not None)
        get_rank = staticmethod(lambda: 0 if rank is None else rank())

    torch, profiler = ModuleType("torch"), ModuleType("torch.profiler")
    torch.__dict__.update(profiler=profiler, distributed=Distributed, __path__=[])
    profiler.__dict__.update(profile=Profile, schedule=lambda **numbers: numbers)
    return {"torch": torch, "torch.profiler": profiler}


class Profile:
    """As torch.profiler.profile with a schedule that is not repeated."""

    def __init__(
        self,
        schedule: dict[str, int],
        on_trace_ready: Callable[[Any], object],
        record_shapes: bool = False,
        with_stack: bool = False,
    ) -> None:
        self._skip, self._active = schedule["wait"] + schedule["warmup"], schedule["active"]
        assert schedule["repeat"] == 1
        self._with_stack, self._record_shapes = with_stack, record_shapes
        self._ready, self._n, self._runs = on_trace_ready, 0, False
        self._ends: list[float] = []

    def start(self) -> None:
        self._runs = True

    def step(self) -> None:
        assert self._runs
        self._n += 1
        self._ends.append(time.time())
        if self._n == self._skip + self._active:
            self._end()

    def stop(self) -> None:
        if self._runs and self._n >= self._skip:
            self._end()
        self._runs = False

    def _end(self) -> None:
        self._runs = False
        self._ready(self)

    def export_chrome_trace(self, path: str) -> None:
        common = {"ph": "X", "cat": "user_annotation", "pid": os.getpid(), "tid": 1, "dur": 5}
        events = [
            common | {"name": f"ProfilerStep#{number}", "ts": end * 1e6}
            for number, end in enumerate(self._ends[self._skip :], 1)
        ]
        if self._with_stack:
            begin = min(event["ts"] for event in events)
            lines = ("train.py(10): main", "train.py(20): train")
            events += [
                common | {"cat": "python_function", "name": line, "ts": begin + 0.001 * n, "dur": 1 - 0.1 * n}
                for n, line in enumerate(lines)
            ]
        if self._record_shapes:
            shapes = {"Input Dims": [[64, 32], [32, 16]], "Input type": ["float", "float"]}
            events.append(common | {"cat": "cpu_op", "name": "aten::mm", "ts": events[0]["ts"] + 2, "args": shapes})
        with open(path, "w") as file:
            json.dump({"schemaVersion": 1, "traceEvents": events}, file)
