"""A recording to be watched together with the traces of its run, by one clock: a query that asks for a level of these (GPUs,
streams, threads) is answered by them, with the samples as counters; any other by the recording."""

from collections.abc import Callable
from dataclasses import replace

from gssr.model.joined.together import Laid
from gssr.model.live.live_result import Query, Result
from gssr.model.live.watch import Watch
from gssr.model.live.watched_recording import WatchedRecording
from gssr.model.live.watched_trace import WatchedTrace
from gssr.store.format.rows import Event
from gssr.store.read.open import RecordingError


class WatchedJoined(Watch):
    """Watches a recording and the traces of its run. ``lay`` returns the traces, laid over the run; it
    is called when the run has ended, or with ``at_once`` at the first look."""

    def __init__(self, recording: WatchedRecording, lay: Callable[[], Laid], at_once: bool) -> None:
        self._recording, self._lay, self._at_once = recording, lay, at_once
        self._laid: Laid | None = None
        self._trace: WatchedTrace | None = None
        self._events: tuple[Event, ...] = ()
        self._first = 0.0
        self.path = recording.path

    @property
    def run_ids(self) -> tuple[str, ...]:
        """The runs of the recording."""
        return self._recording.run_ids

    @property
    def files_opened(self) -> tuple[int, int]:
        """As the recording's."""
        return self._recording.files_opened

    @property
    def growing(self) -> bool:
        """True while more samples may come, the traces are not laid over the run yet, or more of them may become known."""
        return self._recording.growing or self._laid is None or (self._trace is not None and self._trace.growing)

    @property
    def pace(self) -> float:
        """As the recording's."""
        return self._recording.pace

    def close(self) -> None:
        """Let go of every file."""
        self._recording.close()
        if self._trace is not None:
            self._trace.close()

    @property
    def arrived(self) -> float:
        """As the recording's."""
        return self._recording.arrived

    def read_result(self, query: Query, quick: bool) -> Result:
        """Return what the query asks for of the recording as it is now, with the traces laid over it: once the recording
        no longer grows, or at once if that was asked for, at a look that is not ``quick``. A query for a level of the
        traces gets the traces' frame once they are laid over. Raises UnreadableError."""
        if self._laid is not None and query.level is not None and self._trace is not None:
            return replace(self._trace.read_result(query, quick), traced=self._laid.traced, since=self._first)
        frame = self._recording.read_result(replace(query, level=None, opened=False, tables=False), quick)
        wanted = self._laid is None and frame.run is not None and (self._at_once or not self._recording.growing)
        if wanted and not quick:
            self._laid = self._lay_over(frame)
        if self._laid is None:
            return replace(frame, refined=frame.refined and not wanted)
        events = tuple(sorted((*frame.events, *self._events), key=lambda event: event.time))
        return replace(frame, traced=self._laid.traced, events=events)

    def _lay_over(self, frame: Result) -> Laid:
        """Lay the traces over the run. If that fails there are none, and the reason becomes an event."""
        self._first = frame.first
        try:
            laid = self._lay()
        except (RecordingError, ValueError, OSError) as error:
            laid = Laid(None, (), (str(error),))
        timeline = laid.timeline
        if timeline is not None:
            self._trace = WatchedTrace(self.path, lambda: timeline)
        begin = min((trace.start for trace in laid.traced), default=frame.first)
        said = [*laid.refused, *dict.fromkeys(f"{each.path}: {text}" for each in laid.traced for text in each.notes)]
        marks = {f"traced from here for {each.seconds:.3g} s": each.start for each in laid.traced}
        self._events = (
            *(Event(time, None, None, None, "mark", text) for text, time in marks.items()),
            *(Event(begin, None, None, None, "note", text) for text in said),
        )
        return laid
