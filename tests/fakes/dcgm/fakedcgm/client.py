"""The engine in this process: what the library calls instead of sending a message."""

import ctypes
import os
from collections.abc import Callable

from fakedcgm.engine import HostEngine
from fakedcgm.messages import answer

GENERIC_ERROR, UNINITIALIZED, NVML_NOT_LOADED = -3, -10, -56
START, STOP = 0, 1

EMBEDDED: Callable[[], HostEngine] | None = None
"""Makes the engine of dcgmStartEmbedded; without it there is no driver."""

_running: HostEngine | None = None


def _answer(message: int | None, capacity: int) -> int:
    """The message at this address is replaced by its answer. Without one, the engine starts or stops."""
    global _running
    if message is None:
        if capacity == STOP and _running is not None:
            _running.forget(0)
            _running = None
        elif capacity == START:
            if EMBEDDED is None:
                return NVML_NOT_LOADED
            _running = EMBEDDED()
        return 0
    if _running is None:
        return UNINITIALIZED
    length = ctypes.c_uint32.from_address(message).value
    status, data = answer(_running, 0, ctypes.string_at(message, length), room=False)
    if len(data) > capacity:
        return GENERIC_ERROR
    ctypes.memmove(message, data, len(data))
    return status


ANSWER = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_uint32)(_answer)


def library_is_missing() -> bool:
    """FAKEDCGM_NO_LIBRARY is set: DCGM's library is not installed."""
    return bool(os.environ.get("FAKEDCGM_NO_LIBRARY"))
