"""The process that reads an OTF2 archive, as who has started it sees it."""

import json
import os
import select
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from gssr.arrays import Ints
from gssr.traces.confined import command_of
from gssr.traces.otf2.events import WIDTH, send_archive
from gssr.traces.timeline import TraceError

SILENCE = 60.0
"""s without a word from it, after which it is taken to hang."""
_MOST_HEAD = 1 << 30
_PIECE = 1 << 20
_INSTALL = (
    "reading it needs the package otf2: pip install 'otf2>=3,<4' (with GSSR in a checkout: pip install '.[scorep]')"
)


class Location(NamedTuple):
    """What one location has recorded. ``number``: its number in the archive; ``time`` (ticks) and ``code`` [n]: of
    enters (region + 1) and leaves (-1 - region); ``rows`` uint64[m, WIDTH]: all other events
    (gssr.traces.otf2.events.Otf2Event). ``n_events``: all that were read. ``problem``: a clause on why that is not all, or
    ""."""

    number: int
    time: NDArray[np.uint64]
    code: Ints
    rows: NDArray[np.uint64]
    n_events: int
    problem: str


class Otf2Process:
    """An archive that a process of its own reads; a context manager, which ends the process. The definitions are read
    at once.

    ``path`` is the archive's folder or anchor file. ``definitions``: by record, rows of fields; ``tool``, ``version``:
    who wrote it ("" if unknown); ``notes``: sentences on what could not be kept. Raises TraceError if it cannot be
    read, or the package otf2 is missing.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self.notes: list[str] = []
        self._received = bytearray()
        anchor = anchor_of(path)
        _look_at_files(path, anchor)
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115
        command, environment = command_of(send_archive, anchor)
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, bufsize=0, env=environment
        )
        try:
            head, _ = self._frame()
        except BaseException:
            self._end()
            raise
        self.definitions: Mapping[str, Sequence[Sequence[Any]]] = head["definitions"]
        creator = str(head["creator"])
        name, _, version = creator.rpartition(" ")
        is_version = version[:1].isdigit()
        self.tool, self.version = (name, version) if name and is_version else (creator, "")
        self.facts = {"OTF2": str(head["format"])} | ({"machine": str(head["machine"])} if head["machine"] else {})

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def _end(self) -> None:
        """Kill the process, and close its streams."""
        self._process.kill()
        for stream in (self._process.stdin, self._process.stdout, self._errors):
            if stream is not None:
                stream.close()
        self._process.wait()

    def locations(self, numbers: Sequence[int], most: int) -> Iterator[Location]:
        """Read the events of these locations (numbers), at most about ``most`` in all, and yield one location after the
        other. Call it once. Raises TraceError if the process fails or hangs."""
        stdin = self._process.stdin
        assert stdin is not None
        try:
            data = json.dumps({"locations": list(numbers), "most": most}).encode() + b"\n"
            while data:
                data = data[stdin.write(data) or 0 :]
        except BrokenPipeError:
            pass  # it has ended: the next frame tells
        while True:
            head, columns = self._frame()
            if "end" in head:
                if head["problem"]:
                    self.notes.append(f"not all of it could be kept: {head['problem']}")
                return
            if "location" in head:
                time, code, rows = columns
                yield Location(
                    head["location"], time, code.view(np.int64), rows.reshape(-1, WIDTH), head["n_events"],
                    head["problem"],
                )  # fmt: skip

    def _frame(self) -> tuple[dict[str, Any], list[NDArray[np.uint64]]]:
        """Read the next frame: its header and its columns. Raises TraceError if it says that reading failed."""
        size = int.from_bytes(self._bytes(8), "little")
        if size > _MOST_HEAD:
            raise TraceError(f"{self._path}: can't be read: its definitions are longer than any")
        head = json.loads(self._bytes(size))
        if head.get("missing"):
            raise TraceError(f"{self._path}: is a trace of Score-P (OTF2); {_INSTALL}")
        if "failed" in head:
            raise TraceError(f"{self._path}: can't be read: {head['failed']}{self._said()}")
        return head, [np.frombuffer(self._bytes(8 * n), np.uint64) for n in head["columns"]]

    def _bytes(self, n: int) -> bytearray:
        """Read exactly ``n`` bytes from the process. Raises TraceError if it ends or hangs."""
        stdout = self._process.stdout
        assert stdout is not None
        while len(self._received) < n:
            if not select.select([stdout], [], [], SILENCE)[0]:
                raise TraceError(f"{self._path}: can't be read: libotf2 got no further in {SILENCE:.0f} s")
            got = os.read(stdout.fileno(), _PIECE)
            if not got:
                raise TraceError(f"{self._path}: can't be read: {self._how_it_ended()}{self._said()}")
            self._received += got
        found = self._received[:n]
        del self._received[:n]
        return found

    def _how_it_ended(self) -> str:
        """Wait for the process, and say in a clause how it has ended."""
        code = self._process.wait()
        if code < 0:
            return f"libotf2 crashed on it ({signal.Signals(-code).name})"
        return "the process that reads it has failed"

    def _said(self) -> str:
        """Return the last line that libotf2 has written to its error stream, as " (LINE)", or ""."""
        self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(self._errors.tell() - 4096, 0))
        lines = self._errors.read().decode("utf-8", "replace").strip().splitlines()
        return f" ({lines[-1].strip()[:300]})" if lines else ""


def anchor_of(path: str) -> str:
    """Return the anchor file of the archive at a path: the path itself unless it is a folder. Raises TraceError if the
    folder holds none or several."""
    if not os.path.isdir(path):
        return path
    found = sorted(name for name in os.listdir(path) if name.endswith(".otf2"))
    if len(found) != 1:
        what = f"holds several archives: name one of {', '.join(found[:3])}" if found else "holds no archive of OTF2"
        raise TraceError(f"{path}: {what}")
    return os.path.join(path, found[0])


def _look_at_files(path: str, anchor: str) -> None:
    """Raise TraceError if a file of the archive is a pipe or a device, as opening it could wait forever."""
    stem, others = os.path.splitext(anchor)[0], list[str]()
    with suppress(OSError), os.scandir(stem) as entries:
        others = [entry.path for entry in entries if not entry.is_file()]
    for name in (anchor, f"{stem}.def", *others):
        if os.path.exists(name) and not (os.path.isfile(name) or os.path.isdir(name)):
            what = os.path.relpath(name, os.path.dirname(anchor))
            raise TraceError(f"{path}: can't be read: {what} in it is no file but a pipe or a device")
