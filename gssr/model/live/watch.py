"""Watching what grows or is finished: one look after another at a source, whatever becomes of its files."""

import time
from abc import ABC, abstractmethod
from dataclasses import replace

from gssr.model.live.live_result import Query, Result, UnreadableError, nothing_yet

STALLED_SECONDS, STALLED_INTERVALS = 5.0, 5
"""A living run is stalled after max(5 s, 5 sampling intervals) without anything new."""


class Watch(ABC):
    """Looks at what grows or is finished whenever it is asked to. A subclass reads a recording (watched_recording.py), a
    trace (watched_trace.py), or a recording with its traces on one clock (watched_joined.py)."""

    path: str
    _shown: Result | None = None

    @property
    def run_ids(self) -> tuple[str, ...]:
        """The ids of the recording's runs, once it was opened, in the order in which they began; () of a trace."""
        return ()

    @property
    def files_opened(self) -> tuple[int, int]:
        """How many of the recording's files are opened by now, and of how many; (0, 0) of a trace."""
        return 0, 0

    @property
    def pace(self) -> float:
        """The seconds that a look must come after the one before it to show anything new."""
        return 0.0

    @property
    @abstractmethod
    def growing(self) -> bool:
        """True while more may come, or become known."""

    @property
    @abstractmethod
    def arrived(self) -> float:
        """The time at which something new came last, monotonic s."""

    @abstractmethod
    def read_result(self, query: Query, quick: bool) -> Result:
        """Return what the query asks for, as of the newest that was read. ``quick``: leave out what takes long. Raises
        UnreadableError."""

    @abstractmethod
    def close(self) -> None:
        """Let go of every file."""

    def look(self, query: Query, quick: bool = False) -> Result:
        """Return what the query asks for as it is now. Never raises for what is wrong with the files: the frame says it, and
        shows what was read before. With ``quick`` what takes long may be left out or be coarser than asked for
        (``refined`` is False then)."""
        try:
            frame = self._shown = self.read_result(query, quick)
        except UnreadableError as error:
            before = self._shown
            if before is None or not before.n_rows:
                return nothing_yet(self.path, query, "waiting" if self.growing else "ended", str(error))
            ended = before.state == "live" and not self.growing
            frame = replace(before, problem=str(error), state="ended" if ended else before.state)
        return self._now(frame)

    def _now(self, frame: Result) -> Result:
        """Let time go on in a frame of a run that lives, although nothing new came."""
        if frame.state not in ("waiting", "live"):
            return frame
        silent = time.monotonic() - self.arrived
        if frame.state == "waiting":
            return replace(frame, silent=silent)
        stalled = silent > max(STALLED_SECONDS, STALLED_INTERVALS * frame.sampling_seconds)
        return replace(
            frame,
            state="stalled" if stalled else "live",
            silent=silent,
            now=frame.last + silent if frame.following and frame.n_rows else frame.now,
            of_gpus=None if frame.of_gpus is None else self._now(frame.of_gpus),
        )
