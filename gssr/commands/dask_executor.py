"""The workers of a Dask scheduler as an executor that says where one is lost."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, Future
from typing import Any


class DaskExecutor(Executor):
    """An executor by a Dask client. Where a worker is lost, Dask gives what it had to others and tells nobody; ``lost`` is
    called with the number of its files then, in a thread of Dask's."""

    def __init__(self, client: Any, lost: Callable[[int], None]) -> None:
        self._lost = lost
        self._executor = client.get_executor(pure=False)
        self._token = f"gssr-{os.urandom(8).hex()}"
        self._n_given = 0
        client.subscribe_topic("all", self.hear)

    def submit(self, work: Callable[..., Any], /, *args: Any, **named: Any) -> Future[Any]:
        """Give files, the last argument, to a worker. Their number is part of the name by which the scheduler tells of them;
        Dask's executor hands what else it is given on to ``Client.submit``."""
        self._n_given += 1
        found: Future[Any] = self._executor.submit(
            work, *args, **named, key=f"{self._token}-{self._n_given}-{len(args[-1])}"
        )
        return found

    def hear(self, event: tuple[float, Mapping[str, Any]]) -> None:
        """Take an event of the scheduler's topic "all": its time, and what it tells of a worker."""
        told = event[1]
        if told.get("action") != "remove-worker" or told.get("expected"):
            return
        keys = {str(key) for name in ("processing-tasks", "lost-computed-tasks") for key in told.get(name) or ()}
        n_files = sum(int(key.rpartition("-")[2]) for key in keys if key.startswith(self._token))
        if n_files:
            self._lost(n_files)
