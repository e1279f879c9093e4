"""A map over files, by workers: processes of this machine, or whatever ``concurrent.futures.Executor`` reaches further.

Reading many recordings, or the traces of many ranks, is the same work on one file after the other, and what comes of each
is small. ``Workers.map`` gives the files to workers, a few at a time, and yields one result for each, in the order of the
files: the answer does not depend on how many workers there are or how fast each is. Where a worker dies, its files are given
out again, one by one, which ``lost`` is told: only a file that kills two workers which have nothing else to do is left out,
which the caller says.

Dask's and MPI's workers are opened by gssr/commands/with_workers.py.
"""

from __future__ import annotations

import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, Optional, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import Executor, Future, ProcessPoolExecutor

Item = TypeVar("Item")
Result = TypeVar("Result")
Work = Callable[[Sequence[Item]], Iterable[Result]]
"""What a worker does with some of the files: it yields one result for each. It, the files and the results are pickled."""

MOST_PROCESSES = 16
"""Processes of one machine. More would hold up others who work on it."""
AT_ONCE = 8
"""Files that a worker is given at a time: what it costs to hand them over then no longer counts."""
_AHEAD = 3
"""As many times as there are workers, groups of files are given out before the first result is taken: a slow file then keeps
the other workers busy for a while, and results that wait for it take little memory."""

_here = threading.local()


class NoWorkersError(Exception):
    """Nobody is there to do the work, or no longer; the text is one sentence."""


Answer = tuple[list[Any], Optional[Exception]]
"""A worker's answer for some files: their results, and the exception that came in place of the next one (None: none)."""


class _Given(NamedTuple):
    """Files that were given to a worker. ``n_pools``: how many pools there had been by then, this one included."""

    files: Sequence[Any]
    future: Future[Answer]
    n_pools: int

    @property
    def is_answered(self) -> bool:
        """Whether an answer is there."""
        return self.future.done() and self.future.exception() is None


class Workers:
    """Those who read files: processes of this machine, which live as long as one map, or an executor's workers."""

    def __init__(
        self,
        executor: Executor | None = None,
        n_workers: int = 0,
        check: Callable[[], None] = lambda: None,
        lost: Callable[[int], None] = lambda _: None,
    ) -> None:
        """``executor``: None for processes of this machine. ``n_workers``: how many workers the executor has. ``check``:
        called now and then while a result is waited for; raises NoWorkersError if it will never come. ``lost``: called
        when a process of this machine died, with the number of files that are given out again; of an executor's workers
        who made it knows."""
        self._executor, self._n_workers, self._check, self._lost = executor, n_workers, check, lost

    @property
    def is_elsewhere(self) -> bool:
        """Whether workers are other programs, perhaps on other machines, which know nothing of this one's variables."""
        return self._executor is not None

    def n_for(self, n_files: int, per_worker: int = 1) -> int:
        """Return how many workers would read so many files, of which another process of this machine pays for each
        ``per_worker``; 0 or 1 if they are read by the caller itself."""
        if self._executor is not None:
            return self._n_workers
        return min(len(os.sched_getaffinity(0)), MOST_PROCESSES, n_files // per_worker)

    def map(
        self,
        work: Work[Item, Result],
        files: Sequence[Item],
        died: Callable[[Item], Result],
        *,
        per_worker: int = 1,
        at_once: int = AT_ONCE,
        most: int = MOST_PROCESSES,
        meanwhile: Callable[[], None] = lambda: None,
    ) -> Generator[Result]:
        """Yield what ``work`` returns for each file, in their order.

        Args:
            work: must not change anything that a second call for the same file would trip over.
            files: the files, or what names each of them.
            died: returns the result for a file that has killed two workers which had nothing else to do.
            per_worker: so many files pay for one more process of this machine; with less than two processes the caller
                itself does the work, when it asks for each result.
            at_once: files that a worker is given at a time.
            most: processes of this machine at most.
            meanwhile: called every _LOOK_SECONDS while a result is waited for.

        Raises what ``work`` raises, and NoWorkersError if all workers are gone.
        """
        n = self.n_for(len(files), per_worker)
        n = min(n, most) if self._executor is None else n
        if self._executor is None and n <= 1:
            yield from work(files)
            return
        parts = iter([files[at : at + at_once] for at in range(0, len(files), at_once)])
        given: deque[_Given] = deque()
        pool = _Processes(n) if self._executor is None else _Others(self._executor)
        n_told = 0
        try:
            while True:
                while len(given) < _AHEAD * n and (part := next(parts, None)) is not None:
                    given.append(_Given(part, pool.submit(work, part), pool.n_pools))
                if not given:
                    return
                own = given.popleft()
                answer = self._answer(own.future, meanwhile)
                if answer is not None:
                    yield from _results(answer)
                    continue
                if pool.is_of_here and own.n_pools > n_told:  # all that was given to this pool is lost with it
                    n_told = own.n_pools
                    broken = (each for each in (own, *given) if each.n_pools == n_told and not each.is_answered)
                    self._lost(sum(len(each.files) for each in broken))
                # Which of them it was, or whether another process took the pool with it, is not known.
                for file in own.files:
                    alone = self._answer(pool.submit_alone(work, file), meanwhile)
                    if alone is None:
                        if pool.is_of_here:
                            self._lost(1)
                        alone = self._answer(pool.submit_alone(work, file), meanwhile)
                    yield from _results(alone or ([died(file)], None))
        finally:
            for each in given:
                each.future.cancel()
            pool.close()

    def _answer(self, future: Future[Answer], meanwhile: Callable[[], None]) -> Answer | None:
        """Wait for a worker's answer; None if the worker died, which is whatever the executor itself raises."""
        from concurrent.futures import CancelledError

        while True:
            try:
                return future.result(timeout=_LOOK_SECONDS)
            except TimeoutError:
                if not future.done():
                    self._check()
                    meanwhile()
                    continue
                return None
            except (Exception, CancelledError):
                return None


def available_memory() -> int:
    """Return how many bytes of memory this machine could still give; 0 if it does not say that."""
    with suppress(OSError, ValueError, IndexError), open("/proc/meminfo") as lines:
        return next(1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable:"))
    return 0


_LOOK_SECONDS = 2.0
"""Between two looks whether there are workers at all."""
HERE = Workers()
"""The processes of this machine."""


def is_worker() -> bool:
    """Tell whether this is work that was given out, beside which other workers use the other cores."""
    return getattr(_here, "is_worker", False)


def _do_work(work: Work[Item, Result], files: Sequence[Item]) -> Answer:
    """Do the work on these files; this runs in the worker. Returns the results, in the order of the files, and the exception
    that came in place of the next one (None: none)."""
    results: list[Any] = []
    _here.is_worker = True
    try:
        results.extend(work(files))
    except Exception as error:
        return results, error
    finally:
        _here.is_worker = False
    return results, None


def _results(answer: Answer) -> Iterator[Any]:
    results, raised = answer
    yield from results
    if raised is not None:
        raise raised


class _Processes:
    """Forked processes of this machine. One that dies takes its pool with it, and the next one is made. ``n_pools``: how
    many were made."""

    is_of_here = True

    def __init__(self, n: int) -> None:
        self._n, self.n_pools = n, 0
        self._pool: ProcessPoolExecutor | None = None

    def submit(self, work: Work[Item, Result], files: Sequence[Item]) -> Future[Answer]:
        """Give files to a process of the pool."""
        from concurrent.futures.process import BrokenProcessPool

        try:
            return self._open_pool().submit(_do_work, work, files)
        except BrokenProcessPool:
            self.close()
            return self._open_pool().submit(_do_work, work, files)

    def _open_pool(self) -> ProcessPoolExecutor:
        """Return the pool; make one where there is none."""
        if self._pool is None:
            self._pool, self.n_pools = _process_pool(self._n), self.n_pools + 1
        return self._pool

    def submit_alone(self, work: Work[Item, Result], file: Item) -> Future[Answer]:
        """Give one file to a process of its own, which is gone when this returns."""
        with _process_pool(1) as pool:
            return pool.submit(_do_work, work, [file])

    def close(self) -> None:
        """End the processes."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            self._pool = None


class _Others:
    """The workers of somebody else's executor, which finds another one by itself where one dies."""

    is_of_here, n_pools = False, 1

    def __init__(self, executor: Executor) -> None:
        self._executor = executor

    def submit(self, work: Work[Item, Result], files: Sequence[Item]) -> Future[Answer]:
        """Give files to a worker."""
        return self._executor.submit(_do_work, work, files)

    def submit_alone(self, work: Work[Item, Result], file: Item) -> Future[Answer]:
        """Give one file to a worker."""
        return self._executor.submit(_do_work, work, [file])

    def close(self) -> None:
        """Leave the workers as they are: who made the executor ends it."""


def _process_pool(n: int) -> ProcessPoolExecutor:
    """Return a pool of ``n`` forked processes. They ignore Ctrl-C, which ends their parent."""
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    return ProcessPoolExecutor(n, get_context("fork"), initializer=_leave_interrupts_to_the_parent)


def _leave_interrupts_to_the_parent() -> None:
    with suppress(ValueError):  # a thread's
        signal.signal(signal.SIGINT, signal.SIG_IGN)
