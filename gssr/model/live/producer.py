"""The thread that reads: it watches the recordings, and hands over one frame after another, each complete and unchanging."""

import threading
import time
from collections.abc import Callable, Sequence

from gssr.model.live.judge import Judge, call_thread
from gssr.model.live.live_result import Query, Result
from gssr.model.live.watch import Watch

Results = tuple[Result, ...]
IDLE_SECONDS = 2.0
"""Between two looks at recordings that no longer grow."""


def show_the_same(some: Results, others: Results) -> bool:
    """Tell whether two looks show the same, as those at recordings that no longer grow do; always False if one is live
    or waited for."""

    def said(result: Result) -> tuple[object, ...]:
        return (
            result.query, result.state, result.n_rows, result.refined, result.problem, id(result.judgement), result.events,
            result.last, id(result.part), id(result.grid.values),
        )  # fmt: skip

    alike = len(some) == len(others) and all(said(one) == said(other) for one, other in zip(some, others, strict=True))
    return alike and not any(result.is_live or result.state == "waiting" for result in some)


class Producer(threading.Thread):
    """Looks at ``watches`` every ``interval`` s, or at once when asked something new, and calls ``deliver`` (from this
    thread) with a frame of each that a query was given for, and the newest judgement on it: the first is judged first."""

    def __init__(self, watches: Sequence[Watch], interval: float, deliver: Callable[[Results], None]) -> None:
        super().__init__(name="gssr-producer", daemon=True)
        self._watches = watches
        self._interval = interval
        self._deliver = deliver
        self._changed = threading.Condition()
        self._queries: tuple[Query | None, ...] = ()
        self._leaving = False
        self._keep_looking = False
        self.judge = Judge(self._judged)
        self._new_judgement = False
        self.problem: BaseException | None = None

    def ask(self, queries: tuple[Query | None, ...], keep_looking: bool = False) -> None:
        """Deliver results for these queries from now on, one for each watch; None asks nothing of that watch. Equal
        queries change nothing.

        ``keep_looking``: look as often at a recording that no longer grows, because it is played.
        """
        with self._changed:
            self._keep_looking = keep_looking
            if queries != self._queries:
                self._queries = queries
                self._changed.notify()

    def _judged(self) -> None:
        with self._changed:
            self._new_judgement = True
            self._changed.notify()

    def leave(self) -> None:
        """Stop, and let go of the files; returns when that is done, at the latest after a second."""
        with self._changed:
            self._leaving = True
            self._changed.notify()
        self.judge.leave()
        if self.is_alive():
            self.join(timeout=1.0)

    def run(self) -> None:
        """Look and deliver until ``leave``; the thread's body. After an error, kept in ``problem``, () is delivered;
        the watches are closed in any case."""
        call_thread(self.name)
        self.judge.start()
        try:
            self._run()
        except Exception as error:
            self.problem = error
            self._deliver(())
        finally:
            for watch in self._watches:
                watch.close()

    def _run(self) -> None:
        """Look at the recordings, deliver the frames, and wait for the next time, a new query or a new judgement.
        Frames that are not refined are looked at once more."""
        asked: tuple[Query | None, ...] = ()
        while not self._leaving:
            begun = time.monotonic()
            with self._changed:
                queries, self._new_judgement = self._queries, False
            if self.judge.problem is not None:
                raise self.judge.problem
            fresh = queries != asked
            asked = queries
            frames = self._look(queries, quick=fresh)
            if frames:
                self._deliver(frames)
            if any(not frame.refined for frame in frames) and queries == self._queries:
                self._deliver(self._look(queries, quick=False))
            growing = self._keep_looking or any(watch.growing for watch in self._watches)
            pace = max([self._interval, *(watch.pace for watch in self._watches)])
            wait = begun + (pace if growing else IDLE_SECONDS) - time.monotonic()
            with self._changed:
                if not self._leaving and self._queries == asked and not self._new_judgement:
                    self._changed.wait(timeout=max(wait, 0.02) if queries else None)

    def _look(self, queries: tuple[Query | None, ...], quick: bool) -> Results:
        """Return a frame for each query that is not None, in their order; () if all are None. The first has the newest
        judgement, if there is one, and only then the others get theirs. ``quick``: leave out what takes long."""
        pairs = zip(self._watches, queries, strict=False)
        frames = [watch.look(query, quick) for watch, query in pairs if query is not None]
        if not frames:
            return ()
        shown = self.judge.shown(frames[0])
        others = frames[1:]
        return (shown, *(self._judged_too(frame, shown) if shown.judgement is not None else frame for frame in others))

    def _judged_too(self, frame: Result, first: Result) -> Result:
        """Return the frame of a run that is compared with another (``first``), with its newest judgement. While the other
        one grows, it is judged anew only if it was never judged or its state (live, ended, ...) has changed since."""
        known = self.judge.answer_to(frame)
        if known is None or known.question.state != frame.state or first.state not in ("live", "stalled"):
            return self.judge.shown(frame)
        return known.added_to(frame)
