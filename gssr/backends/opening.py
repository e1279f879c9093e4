"""A backend that is being opened: drivers may take long, or hang, and nobody is to wait for them meanwhile."""

from collections.abc import Callable

from gssr.backends.base import Opened

_AT_ONCE = ("synthetic", "replay")
"""Backends that ask no driver: a thread for them would only cost time."""


class Opening:
    """Opens the backend ``spec`` by calling ``opener``, in a thread of its own where that may take long."""

    def __init__(self, spec: str, opener: Callable[[], Opened]) -> None:
        self._opener = opener
        self._opened: Opened | None = None
        self._error: Exception | None = None
        if spec.partition(":")[0] in _AT_ONCE:
            self._done = None
            self._open()
            return
        import threading

        self._done = threading.Event()
        threading.Thread(target=self._open, name="opening", daemon=True).start()

    def opened(self) -> Opened | None:
        """What was opened; None while that isn't known. Raises BackendError, or whatever else a library has raised."""
        if self._error is not None:
            raise self._error
        return self._opened

    def wait(self, seconds: float) -> None:
        """Wait until it is known, but no longer than this."""
        if self._done is not None:
            self._done.wait(max(0.0, seconds))

    def _open(self) -> None:
        try:
            self._opened = self._opener()
        except Exception as error:
            self._error = error
        if self._done is not None:
            self._done.set()
