"""The thread that judges: beside the one that reads, it asks the rules about the window that is shown, at a bounded cost."""

import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from contextlib import closing
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from gssr.model.live.live_result import Result
from gssr.model.results import Analysis, Judgement
from gssr.model.statistics.aggregate import filtered
from gssr.model.verdicts import judge_window
from gssr.model.verdicts.table import RuleTable
from gssr.model.window import extent
from gssr.store.read.open import RecordingError
from gssr.store.read.recording import open_recording
from gssr.store.read.time_window import ALL_TIME, Window

AGAIN_SECONDS, AGAIN_COSTS = 10.0, 100
"""A window of a growing run is judged anew after max(10 s, 100 times what the last judgement took) ..."""
SETTLED_SECONDS, COSTS = 0.3, 10
"""... and another window than the first once it was looked at for so long, and while the run grows, 10 times what the last
one took has gone by: beside a job, judging never takes more than a tenth of the time."""
LEAST_SECONDS = 30.0
"""A growing run is judged once it has lasted so long."""
_KEPT = 16


class Question(NamedTuple):
    """What is to be judged: the ``window`` that a view of a run shows, as the recording stands. ``span`` and ``end`` are the
    view's, None of a window that holds all of the run; ``gpus`` positions (none: all); ``analysis``: the window is analysed
    to be compared; ``state``, ``n_rows`` and ``n_gpus`` are the run's by now."""

    path: str
    run_id: str
    span: float | None
    end: float | None
    gpus: tuple[int, ...]
    table: RuleTable
    window: Window
    state: str
    n_rows: int
    n_gpus: int
    analysis: bool = False

    @property
    def view(self) -> Hashable:
        """Return what tells one view from another: the same for all questions about it, however much the run grows."""
        return self.path, self.run_id, self.span, self.end, self.gpus, self.table, self.analysis


class Answer(NamedTuple):
    """The newest judgement of a view, with the question that it answers; None before the recording could be read.
    ``analysis``: of the same window, None where nobody asked for it or the run has nothing in the window."""

    question: Question
    judgement: Judgement | None
    analysis: Analysis | None = None

    def added_to(self, frame: Result) -> Result:
        """Return a frame of this view with what is answered."""
        return replace(frame.with_judgement(self.judgement), analysis=self.analysis)


def asked_of(frame: Result) -> Question | None:
    """Find what is to be judged in a frame.

    None if the frame asks for no judgement, there are no samples or no GPUs, a live run has not lasted LEAST_SECONDS, or
    it is followed by live blocks (their reader judges), unless it is compared.
    """
    frame = frame.of_gpus or frame
    query, window = frame.query, frame.window
    if frame.by_node or query.causes is None or frame.run is None or not frame.n_rows:
        return None
    if frame.reread is not None and not query.analysis:
        return None
    if frame.state in ("live", "stalled") and frame.last - frame.first < LEAST_SECONDS:
        return None
    rolls = query.width is not None and query.end is None  # what rolls in is a part of the run that is judged
    span = None if rolls else query.span
    start = -math.inf if span is None or window.start <= frame.first else window.start
    end = math.inf if query.end is None or window.end >= frame.last else window.end
    asked = Window(start, end)
    edges = (None, None) if query.analysis and asked == ALL_TIME else (span, query.end)  # however far a run has grown
    return Question(
        frame.path, frame.run.run_id, *edges, query.gpus, query.causes, asked, frame.state, frame.n_rows, frame.n_gpus,
        query.analysis,
    )  # fmt: skip


def answer(question: Question) -> Answer:
    """Judge the window of the run and GPUs that a question names, from the recording as it is now, which is opened for it,
    and analyse it if that is asked for. Raises RecordingError and OSError if it can't be read, or does not hold the run with
    as many GPUs any more."""
    with closing(open_recording(question.path)) as recording:
        reader = next((run for run in recording.runs if run.run.run_id == question.run_id), None)
        if reader is None or len(reader.gpus) != question.n_gpus:
            raise RecordingError(f"{question.path}: is not what it was")
        if question.analysis:
            from gssr.model.compare.comparison import analyze_to_compare  # whoever compares nothing needs none of it

            begun, ended = extent(reader)
            if question.window.start >= ended or question.window.end <= begun:
                return Answer(question, None)
            analysis = analyze_to_compare(reader, question.table, question.window)
            return Answer(question, analysis.judgement, analysis)
        positions = np.array(question.gpus or range(question.n_gpus), np.int64)
        window = reader.whole_buckets(question.window)
        reader.hold_ends(window, filtered(reader, positions))
        return Answer(question, judge_window(reader, positions, window, question.table, with_phase_verdicts=False))


class Judge(threading.Thread):
    """Judges what the newest of the frames ``shown`` to it holds; calls ``judged`` (from this thread) after each time."""

    def __init__(self, judged: Callable[[], None]) -> None:
        super().__init__(name="gssr-judge", daemon=True)
        self._judged = judged
        self._changed = threading.Condition()
        self._asked: Question | None = None
        self._answers: OrderedDict[Hashable, Answer] = OrderedDict()
        """By view, of the newest views."""
        self._since = -math.inf
        """When the question was asked first."""
        self._leaving = False
        self._ended, self._cost = time.monotonic(), 0.0
        """When the last one was done, and how long it took."""
        self.problem: BaseException | None = None

    def shown(self, frame: Result) -> Result:
        """Return the frame with the newest judgement on its window, if there is one, and have it judged anew if that
        is due. Does not wait for it."""
        asked = asked_of(frame)
        with self._changed:
            if asked is None or self._asked is None or asked.view != self._asked.view:
                self._since = time.monotonic()
            self._asked = asked
            self._changed.notify()
        known = self.answer_to(frame)
        if known is None or known.judgement is None or not frame.traced:
            return frame if known is None else known.added_to(frame)
        from gssr.model.joined.explain import explained_by_traces

        explained = explained_by_traces(known.judgement, frame.traced)
        return known._replace(judgement=explained).added_to(frame)

    def answer_to(self, frame: Result) -> Answer | None:
        """Return the newest answer to what a frame asks. None if the frame asks for nothing or there is none yet. Nothing
        is judged by this."""
        asked = asked_of(frame)
        with self._changed:
            return None if asked is None else self._answers.get(asked.view)

    def leave(self) -> None:
        """Stop after what is being judged; returns when that is done, at the latest after a second."""
        with self._changed:
            self._leaving = True
            self._changed.notify()
        if self.is_alive():
            self.join(timeout=1.0)

    def run(self) -> None:
        """Judge until ``leave``; the thread's body. An error ends it, is kept in ``problem``, and is told by a call of
        ``judged``."""
        call_thread(self.name)
        try:
            self._run()
        except Exception as error:
            self.problem = error
            self._judged()

    def _run(self) -> None:
        """Judge what is asked whenever it is due, keep the answer and call ``judged``, until the thread is to leave.

        A recording that can't be read just now gets no new answer.
        """
        while True:
            with self._changed:
                while not self._leaving and (wait := self._due()) != 0.0:
                    self._changed.wait(wait)
                asked = self._asked
            if self._leaving or asked is None:
                return
            begun = time.monotonic()
            try:
                found = answer(asked)
            except (RecordingError, OSError):
                found = None  # the frame says what is wrong
            self._ended = time.monotonic()
            self._cost = self._ended - begun
            with self._changed:
                before = self._answers.pop(asked.view, None)
                kept = before or Answer(asked, None)
                self._answers[asked.view] = kept._replace(question=asked) if found is None else found
                while len(self._answers) > _KEPT:
                    self._answers.popitem(last=False)
            self._judged()

    def _due(self) -> float | None:
        """Return in how many seconds what is asked is to be judged, 0.0 for at once; None if there is nothing asked or
        it is judged already."""
        if self._asked is None:
            return None
        known = self._answers.get(self._asked.view)
        if known is not None and known.question == self._asked:
            return None
        at = self._since + SETTLED_SECONDS * bool(self._answers)
        if self._asked.state in ("live", "stalled"):
            at = max(at, self._ended + COSTS * self._cost)
        if known is not None and known.question.state == self._asked.state:
            at = max(at, self._ended + max(AGAIN_SECONDS, AGAIN_COSTS * self._cost))
        return max(at - time.monotonic(), 0.0)


def call_thread(name: str) -> None:
    """Name the calling thread for ``top -H``; do nothing where that is not possible."""
    try:
        with open("/proc/thread-self/comm", "w", encoding="ascii") as stream:
            stream.write(name)
    except OSError:
        pass
