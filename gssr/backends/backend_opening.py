"""Opening a backend without waiting for it: a driver may take long to come up, or hang."""

from __future__ import annotations

import threading
from collections.abc import Callable

from gssr.backends.base import OpenedBackend

_AT_ONCE = ("synthetic", "replay")
"""Backends that ask no driver: a thread for them would only cost time."""


class BackendOpening:
    """Opens a backend by calling ``opener``, in a thread unless ``spec`` is of a kind that opens at once."""

    def __init__(self, spec: str, opener: Callable[[], OpenedBackend]) -> None:
        self._opener = opener
        self._opened: OpenedBackend | None = None
        self._error: Exception | None = None
        if spec.partition(":")[0] in _AT_ONCE:
            self._done = None
            self._call_opener()
            return
        self._done = threading.Event()
        threading.Thread(target=self._call_opener, name="opening", daemon=True).start()

    def opened(self) -> OpenedBackend | None:
        """Return the opened backend, or None while it is still opening. Raises BackendError, or whatever else a library
        raised."""
        if self._error is not None:
            raise self._error
        return self._opened

    def wait(self, seconds: float) -> None:
        """Wait until the backend is opened or has failed, but no longer than ``seconds``."""
        if self._done is not None:
            self._done.wait(max(0.0, seconds))

    def _call_opener(self) -> None:
        """Call the opener and keep the backend that it returns, or the exception that it raises, for ``opened``. Then
        end every ``wait``. Raises no Exception."""
        try:
            self._opened = self._opener()
        except Exception as error:
            self._error = error
        if self._done is not None:
            self._done.set()
