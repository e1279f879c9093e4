"""What only a kernel does to who reads: no such rights (a device cgroup), a GPU in reset, a device that is gone.

Tests run as root, to whom modes of files say nothing, so reads and opens of a path are refused inside the process: through
``os`` and ``open``, also of descriptors from before. What reads in another way finds the file empty.
"""

import builtins
import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


class Refused:
    """Paths that are refused, with the errors that are given; ``asked``: how often one was."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked = 0
        self._errors: dict[str, int] = {}
        for module, name in ((os, "pread"), (os, "preadv"), (os, "read"), (os, "readv")):
            monkeypatch.setattr(module, name, self._reading(getattr(module, name)))
        monkeypatch.setattr(os, "open", self._opening(os.open))
        opened = self._opening(builtins.open)
        monkeypatch.setattr(builtins, "open", opened)
        monkeypatch.setattr(io, "open", opened)

    def refuse(self, path: Path, error: int) -> None:
        """From now on, with ``error`` (of errno), the file, or all that lies below the folder."""
        self._errors[os.path.realpath(path)] = error

    def allow(self, path: Path) -> None:
        """As before."""
        del self._errors[os.path.realpath(path)]

    def _check(self, path: str) -> None:
        if not self._errors:
            return
        real = os.path.realpath(path)
        for refused, error in self._errors.items():
            if real == refused or real.startswith(f"{refused}/"):
                self.asked += 1
                raise OSError(error, os.strerror(error), path)

    def _reading(self, read: Callable[..., Any]) -> Callable[..., Any]:
        def answer(descriptor: int, *arguments: Any) -> Any:
            if self._errors:
                self._check(os.readlink(f"/proc/self/fd/{descriptor}"))
            return read(descriptor, *arguments)

        return answer

    def _opening(self, opener: Callable[..., Any]) -> Callable[..., Any]:
        def answer(path: Any, *arguments: Any, **options: Any) -> Any:
            if self._errors and isinstance(path, str | bytes | os.PathLike):
                self._check(os.fsdecode(path))
            return opener(path, *arguments, **options)

        return answer
