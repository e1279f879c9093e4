"""What the driver tells of GPUs beside their samples: which processes are on them, and their errors.

It is asked for once a second, one question at a time, in what time there is between two samples. DCGM's hostengine tells
none of it without watches of its own, so the driver is asked beside it too, in a thread that may hang.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from time import monotonic

from gssr.backends import driver
from gssr.backends.backend_opening import BackendOpening
from gssr.backends.backend_thread import ThreadedBackend
from gssr.backends.base import Backend, BackendChange, BackendError, Device, News, OpenedBackend, ProcessSnapshot, Row
from gssr.backends.driver import DriverGpu
from gssr.backends.errors import MemoryErrors, Xids
from gssr.backends.processes import ProcessList

LOOK_SECONDS = 1.0
"""Processes and XIDs are looked for this often."""
OPENING_SECONDS = 0.5
"""So long the driver is waited for at the beginning, where another backend samples."""
MEMORY_ERRORS_EVERY = 10
"""Counters of memory errors at every so many looks."""

_Step = Callable[[], Sequence[News]]
"""Asks the driver one thing."""


class DriverWatch:
    """Asks the driver for processes on these GPUs, XIDs and memory errors, one question at a time. NVML must be
    started; call ``close`` before it is stopped. Times in ticks are s of any one origin."""

    def __init__(self, gpus: Sequence[DriverGpu]) -> None:
        self._gpus: list[DriverGpu | None] = list(gpus)
        self._lists = [ProcessList(gpu) for gpu in gpus]
        first = {gpu.gpu_uuid: position for position, gpu in reversed(list(enumerate(gpus)))}
        self._memory = {position: MemoryErrors(gpus[position]) for position in sorted(first.values())}
        """By whole GPUs, each known by its first instance."""
        self._xids: Xids | None = None
        self._steps: list[_Step] = []
        self._looks = 0
        self._due: float | None = None
        self._ticks = self._now = 0.0

    def waits(self, ticks: float) -> bool:
        """Tell whether there has been no time to ask for so long that ``step`` must be called now, spare time or not."""
        if self._due is None:
            self._due = ticks
        return ticks > self._due + LOOK_SECONDS

    def step(self, ticks: float, now: float) -> Sequence[News] | None:
        """Ask one question that is due. Returns what came of it, which may be empty; None if nothing is due. ``now``:
        unix s."""
        if not self._steps:
            if self._due is not None and ticks < self._due:
                return None
            memory = self._memory if self._looks % MEMORY_ERRORS_EVERY == 0 else ()
            self._steps = [partial(self._look_for_errors, position) for position in memory]
            self._steps += [partial(self._look_for_processes, position) for position in range(len(self._gpus))]
            self._steps.append(self._look_for_xids)
            self._looks += 1
        self._ticks, self._now = ticks, now
        news = self._steps.pop()()
        if not self._steps:
            on_time = (ticks if self._due is None else self._due) + LOOK_SECONDS
            self._due = on_time if on_time > ticks else ticks + LOOK_SECONDS
        return news

    def lost(self, position: int) -> None:
        """Stop asking about the GPU at this position, as it does not answer."""
        self._gpus[position] = None

    def back(self, position: int, gpu: DriverGpu) -> None:
        """Ask about the GPU at this position again, which has new handles."""
        self._gpus[position] = gpu
        self._lists[position] = ProcessList(gpu)
        if position in self._memory:
            self._memory[position] = MemoryErrors(gpu)
        self.close()

    def close(self) -> None:
        """Give back what the library has handed out; never raises. The next ``step`` gets it anew."""
        if self._xids is not None:
            self._xids.close()
            self._xids = None

    def _look_for_xids(self) -> Sequence[News]:
        if self._xids is None:
            self._xids = Xids(self._gpus)
        return self._xids.look(self._ticks)

    def _look_for_processes(self, position: int) -> Sequence[News]:
        running = None if self._gpus[position] is None else self._lists[position].look()
        return () if running is None else (ProcessSnapshot(position, self._now, running),)

    def _look_for_errors(self, position: int) -> Sequence[News]:
        told = () if self._gpus[position] is None else self._memory[position].look()
        return [BackendChange("ecc", position, text) for text in told]


class _DriverAlone:
    """A ``Backend`` that samples nothing."""

    name = "nvml"
    measures: Sequence[str] = ()

    def __init__(self, gpus: Sequence[DriverGpu]) -> None:
        self.gpus: Sequence[Device] = [gpu.device for gpu in gpus]
        self._beside = DriverWatch(gpus)
        self._news: list[News] = []

    def sample(self, now: float) -> Sequence[Row]:
        """Ask the driver everything that is due, and keep what is new for ``changes``. ``now``: unix s. Returns no
        rows."""
        began = ticks = monotonic()
        while (news := self._beside.step(ticks, now + (ticks - began))) is not None:
            self._news += news
            ticks = monotonic()
        return ()

    def changes(self) -> Sequence[News]:
        news, self._news = self._news, []
        return news

    def close(self) -> Sequence[Row]:
        self._beside.close()
        driver.stop()
        return ()


class WithDriver:
    """A backend, and beside it the driver, which is asked for processes and errors that the backend does not tell; a
    Backend itself. Raises BackendError if it turns out soon that the driver cannot be used."""

    def __init__(self, backend: Backend) -> None:
        self.name, self.gpus, self.measures = backend.name, backend.gpus, backend.measures
        self._backend = backend
        self._own = {device.uuid: position for position, device in enumerate(backend.gpus)}
        self._driver: Backend | None = None
        self._positions: list[int] = []
        aside = partial(ThreadedBackend, "NVIDIA's driver", lambda: _open_driver_for(self._own), LOOK_SECONDS)
        self._opening: BackendOpening | None = BackendOpening("nvml", lambda: OpenedBackend(aside()))
        self._opening.wait(OPENING_SECONDS)
        self._look_whether_open()

    def _look_whether_open(self) -> None:
        """Take the driver once it is open. Raises BackendError if it cannot be opened."""
        opened = self._opening.opened() if self._opening is not None else None
        if opened is not None:
            self._driver, self._opening = opened.backend, None
            self._positions = [self._own[device.uuid] for device in opened.backend.gpus]

    def sample(self, now: float) -> Sequence[Row]:
        """Return the backend's rows."""
        try:
            self._look_whether_open()
            if self._driver is not None:
                self._driver.sample(now)
        except Exception:  # a fault in the driver's library, say: nothing more comes of it
            self._driver = self._opening = None
        return self._backend.sample(now)

    def changes(self) -> Sequence[News]:
        """Return the backend's changes, and the processes and errors that the driver tells. Whether the driver itself
        hangs is not reported."""
        found = self._driver.changes() if self._driver is not None else ()
        told = (news for news in found if isinstance(news, ProcessSnapshot) or news.kind in ("xid", "ecc"))
        return [*self._backend.changes(), *(news._replace(gpu=self._positions[news.gpu or 0]) for news in told)]

    def close(self) -> Sequence[Row]:
        """Close both. Returns the backend's last rows."""
        rows = self._backend.close()
        if self._driver is not None:
            self._driver.close()
        return rows


def _open_driver_for(uuids: dict[str, int]) -> OpenedBackend:
    """Open the driver for those of its GPUs that have these UUIDs (keys of ``uuids``). Raises BackendError if the driver
    can't be used or shows none of them."""
    driver.start()
    try:
        gpus = [gpu for gpu in driver.gpus()[0] if gpu.device.uuid in uuids]
        if not gpus:
            raise BackendError("NVIDIA's driver shows this process none of these GPUs")
        return OpenedBackend(_DriverAlone(gpus))
    except BaseException:
        driver.stop()
        raise
