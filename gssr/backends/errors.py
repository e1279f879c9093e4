"""Errors that the driver reports of GPUs: XIDs, as they come, and memory errors (ECC), as they are counted."""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import c_void_p, cast

import pynvml

from gssr.backends.base import BackendChange
from gssr.backends.driver import NEVER, DriverGpu, Handle, ask
from gssr.gpu_errors import MEMORY, message

AGAIN_SECONDS = 60.0
"""An XID that comes again and again on a GPU is told this often, with how often it came."""
_AT_ONCE = 64
_NO_INSTANCE = 0xFFFFFFFF


class Xids:
    """Reads XIDs of GPUs (None for one that is lost) from an event set of NVML, without waiting."""

    def __init__(self, gpus: Sequence[DriverGpu | None]) -> None:
        self._set = ask(pynvml.nvmlEventSetCreate)
        self._gpus: list[tuple[int | None, int, int | None]] = []
        for position, gpu in enumerate(gpus if self._set is not None else ()):
            if gpu is not None:
                self._gpus.append((_address(gpu.gpu_handle), position, gpu.instance))
                ask(pynvml.nvmlDeviceRegisterEvents, gpu.gpu_handle, pynvml.nvmlEventTypeXidCriticalError, self._set)
        self._told: dict[tuple[int, int], float] = {}
        self._again: dict[tuple[int, int], int] = {}

    def look(self, now: float) -> list[BackendChange]:
        """Return the XIDs that have come since the last call; one that repeats is reported at most every AGAIN_SECONDS.
        ``now``: s of any origin."""
        if self._set is None:
            return []
        changes = []
        for _ in range(_AT_ONCE):
            try:
                event = pynvml.nvmlEventSetWait_v2(self._set, 0)
            except pynvml.NVMLError:  # a timeout: there is none
                break
            if event.eventType == pynvml.nvmlEventTypeXidCriticalError:
                changes += self._of(_address(event.device), int(event.gpuInstanceId), int(event.eventData), now)
        for key, n in list(self._again.items()):
            if now - self._told[key] >= AGAIN_SECONDS:
                self._told[key] = now
                del self._again[key]
                changes.append(BackendChange("xid", key[0], f"{message(key[1])}, {n} more time{'s' * (n != 1)}"))
        return changes

    def close(self) -> None:
        """Give the event set back; never raises."""
        if self._set is not None:
            ask(pynvml.nvmlEventSetFree, self._set)
            self._set = None

    def _of(self, address: int | None, instance: int, code: int, now: float) -> list[BackendChange]:
        """Return the changes for an XID: one for each instance sampled of the whole GPU whose handle has this
        ``address``, or only for the ``instance`` it names (_NO_INSTANCE: none). ``code``: the XID's number; ``now``: s
        of any origin. One that was reported of an instance before is counted instead, for ``look`` to report."""
        changes = []
        for own, position, of in self._gpus:
            if own == address and (instance == _NO_INSTANCE or of in (None, instance)):
                key = (position, code)
                if key in self._told:
                    self._again[key] = self._again.get(key, 0) + 1
                else:
                    self._told[key] = now
                    changes.append(BackendChange("xid", position, message(code)))
        return changes


class MemoryErrors:
    """Reads one GPU's counters of memory errors. What had happened before the first look is not reported."""

    def __init__(self, gpu: DriverGpu) -> None:
        self._handle = gpu.gpu_handle
        self._supported = [True, True]
        self._last: list[int | None] = [None] * len(MEMORY)

    def look(self) -> list[str]:
        """Return sentences about the counters that have risen since the last call; [] if none has."""
        told = []
        for place, count in enumerate(self._read()):
            before = self._last[place]
            if count is not None:
                self._last[place] = count
                if before is not None and count > before:
                    n = count - before
                    told.append(MEMORY[place].format(n=n, s="s" * (n != 1)))
        return told

    def _read(self) -> list[int | None]:
        """Read all counters, in the order of MEMORY; None for one that the GPU does not tell."""
        counts: list[int | None] = [None] * len(MEMORY)
        try:
            if self._supported[0]:
                kind = (pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, pynvml.NVML_VOLATILE_ECC)
                counts[0] = pynvml.nvmlDeviceGetTotalEccErrors(self._handle, *kind)
        except pynvml.NVMLError as error:
            self._supported[0] = error.value not in NEVER
        try:
            if self._supported[1]:
                counts[1:] = pynvml.nvmlDeviceGetRemappedRows(self._handle)
        except pynvml.NVMLError as error:
            self._supported[1] = error.value not in NEVER
        return counts


def _address(handle: Handle) -> int | None:
    return cast(handle, c_void_p).value
