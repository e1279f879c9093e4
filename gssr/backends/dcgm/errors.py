"""The backend's error: what is wrong, and what to do about it."""

from gssr.backends.base import BackendError


class DcgmError(BackendError):
    """DCGM can't be used; ``what`` is wrong, and ``cure`` says what to do."""

    def __init__(self, what: str, cure: str) -> None:
        super().__init__(f"{what}; {cure}")
        self.what = what
        self.cure = cure


class MismatchError(DcgmError):
    """Hostengine and bindings are of different versions."""
