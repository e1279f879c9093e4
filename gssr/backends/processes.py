"""Which processes are on a GPU, and what they use of it, as NVML tells: ids of the node's processes, whoever's they are.

Between two calls processes come and go, so nothing here takes the answers of two calls for those of one moment.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from ctypes import byref, c_uint, c_ulonglong, create_string_buffer
from typing import Any

import pynvml

from gssr.backends.base import Running
from gssr.backends.driver import NEVER, DriverGpu, Handle

_LISTS = (
    ("nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2"),
    ("nvmlDeviceGetGraphicsRunningProcesses_v3", "nvmlDeviceGetGraphicsRunningProcesses_v2"),
)
"""Each in the ways of newer drivers and older ones, whose answers are alike."""
_PROCESS = struct.Struct("=I4xQ8x")
"""Process id, and bytes of memory; then the MIG instances."""
_UTILIZATION = struct.Struct("=I4xQI12x")
"""Process id, time stamp (us) and SM utilization in percent; then those of memory, encoder and decoder."""
_UTILIZATION_CALL = "nvmlDeviceGetProcessUtilization"
_NOT_AVAILABLE = (1 << 64) - 1
_FIRST_ROOM, _MOST_ROOM = 16, 4096
_TRIES = 4
"""The list may grow while it is being asked for."""


class ProcessList:
    """Lists the processes on one GPU or MIG instance. It remembers which utilization it has read, so each is told once."""

    def __init__(self, gpu: DriverGpu) -> None:
        self._handle: Handle = gpu.handle
        self._lists = [found for names in _LISTS if (found := _first(names)) is not None]
        self._utilization = None if gpu.instance is not None else _first((_UTILIZATION_CALL,))
        self._room = _FIRST_ROOM
        self._tells = False
        """Whether utilization was ever told: from then on who is not named did nothing."""
        self._seen = 0
        """Time stamp of the newest utilization that was read."""

    def look(self) -> tuple[Running, ...] | None:
        """Read all processes that are on the GPU now, sorted by process id; process 0, which is none, is left out. Of
        each the memory (bytes) and the share of the SMs' time since the last call (0 to 1) are None where they are
        unknown. Empty when there are none. None where the driver tells of none of the two kinds (compute and graphics),
        and where it fails to tell of one that it has: the other alone would be too few."""
        memory: dict[int, int | None] = {}
        told = False
        for function in tuple(self._lists):
            code, answer = self._ask(function, _PROCESS, ())
            if code in NEVER:
                self._lists.remove(function)
            elif code:
                return None  # of one kind alone would be too few
            else:
                told = True
                for pid, used in answer:
                    memory[pid] = max(memory.get(pid) or 0, used) if used != _NOT_AVAILABLE else memory.get(pid)
        if not told:
            return None
        busy, otherwise = self._busy() if memory else ({}, None)
        return tuple(Running(pid, used, busy.get(pid, otherwise)) for pid, used in sorted(memory.items()) if pid)

    def _busy(self) -> tuple[dict[int, float], float | None]:
        """Read the mean share (0 to 1) of the SMs' time of each process that the driver has seen at work since the last
        call. Returns these by process id, and what holds for all others, because the driver names only those that did
        something: 0, or None where that is unknown."""
        function = self._utilization
        if function is None:
            return {}, None
        code, answer = self._ask(function, _UTILIZATION, (c_ulonglong(self._seen),))
        if code in NEVER:
            self._utilization = None
        shares: dict[int, list[float]] = {}
        for pid, stamp, percent in answer if code == 0 else ():
            if stamp > self._seen and percent <= 100:  # else it is none
                shares.setdefault(pid, []).append(percent / 100)
        if code == 0:
            self._seen = max((stamp for _, stamp, _ in answer), default=self._seen)
        self._tells = self._tells or bool(shares)
        idle = 0.0 if self._tells and code in (0, pynvml.NVML_ERROR_NOT_FOUND) else None
        return {pid: sum(found) / len(found) for pid, found in shares.items()}, idle

    def _ask(
        self, function: Callable[..., int], layout: struct.Struct, last: tuple[Any, ...]
    ) -> tuple[int, list[tuple[Any, ...]]]:
        """Call a function of the library for its list, again with more room as long as there is too little. Returns
        NVML's code (0: success), and the entries unpacked by ``layout``; empty unless the code is 0. ``last``: the
        function's arguments after the list."""
        code = 0
        for _ in range(_TRIES):
            count, buffer = c_uint(self._room), create_string_buffer(self._room * layout.size)
            if last:
                code = function(self._handle, buffer, byref(count), *last)
            else:
                code = function(self._handle, byref(count), buffer)
            if code != pynvml.NVML_ERROR_INSUFFICIENT_SIZE:
                n = min(count.value, self._room) if code == 0 else 0
                return code, list(layout.iter_unpack(buffer.raw[: n * layout.size]))
            self._room = min(max(2 * self._room, count.value + _FIRST_ROOM), _MOST_ROOM)
        return code, []


def _first(names: tuple[str, ...]) -> Callable[..., int] | None:
    """Find the first of these functions that the library has; None where it has none."""
    return next((function for name in names if (function := getattr(pynvml.nvmlLib, name, None)) is not None), None)
