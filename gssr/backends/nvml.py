"""A backend that asks NVIDIA's management library: ``nvml``, and with profilers ``gpm``.

A GPU that falls off the bus is looked for again every few seconds, and now and then with the library started anew, which a
GPU that was reset needs; the others go on meanwhile.

The backends on NVIDIA's management library, ``gpm`` and ``nvml``: what they offer here, and how they are opened.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import monotonic
from typing import Any

import pynvml

from gssr.backends import driver
from gssr.backends.base import (
    BackendChange,
    BackendError,
    Device,
    News,
    Offer,
    OpenedBackend,
    Row,
    UnusableError,
)
from gssr.backends.counters import Counters
from gssr.backends.driver import DriverGpu, Gone
from gssr.backends.driver_events import DriverWatch
from gssr.backends.gpm import Profiler, has_gpm, profilers, refused
from gssr.metrics import FIRST_PLACE, NAMES

LOOK_AGAIN = 5.0
"""Seconds between two looks for lost GPUs."""
START_ANEW = 30.0
"""Seconds until the library is started anew for them; doubled each time, up to LONGEST_WAIT."""
LONGEST_WAIT = 600.0

_NOTHING = [None] * len(NAMES)


class _Watched:
    """One GPU and all that is asked of it. ``profiler`` is None where it has no GPM; ``lost_at`` is the monotonic time
    (s) at which it was lost, None while it answers."""

    def __init__(self, gpu: DriverGpu, counters: Counters, profiler: Profiler | None) -> None:
        self.gpu = gpu
        self.counters = counters
        self.profiler = profiler
        self.lost_at: float | None = None

    def renew(self) -> None:
        """Look the GPU up again and go on with it. Raises pynvml.NVMLError while it is gone."""
        handle, gpu_handle = driver.handles_of(self.gpu)
        pynvml.nvmlDeviceGetMemoryInfo(handle)
        self.gpu = self.gpu._replace(handle=handle, gpu_handle=gpu_handle)
        self.counters.renew(handle)
        if self.profiler is not None:
            self.profiler.renew(self.gpu)


class NvmlBackend:
    """A ``Backend`` on NVIDIA's management library, which must have been started; ``close`` stops it.

    Making one raises BackendError when no GPU answers. GPUs that don't answer then are left out for good; those that
    are lost later keep their position. ``gpm``: for each GPU its profiler, or None.
    """

    def __init__(self, name: str, gpus: Sequence[DriverGpu], gpm: Sequence[Profiler | None]) -> None:
        self.name = name
        self._watched: list[_Watched] = []
        measured: set[str] = set()
        for gpu, profiler in zip(gpus, gpm):
            profiled = {metric.name for metric in profiler.metrics} if profiler else set()
            try:
                counters = Counters(gpu.handle, gpu.instance is not None, profiled)
            except Gone:
                continue
            self._watched.append(_Watched(gpu, counters, profiler))
            measured |= profiled.union(counters.measures)
        if not self._watched:
            raise BackendError(f"{name}: no GPU answers")
        self.gpus: Sequence[Device] = [watched.gpu.device for watched in self._watched]
        self.measures: Sequence[str] = [metric for metric in NAMES if metric in measured]
        self._changes: list[News] = []
        self._beside = DriverWatch([watched.gpu for watched in self._watched])
        self._shift = 0.0
        self._look_at = 0.0
        self._anew_after = START_ANEW
        self._anew_at = 0.0
        self._linked = [watched for watched in self._watched if watched.counters.watches_link]
        self._next_link = 0
        self._up = True

    def sample(self, now: float) -> Sequence[Row]:
        """Read one row per GPU that answers, each with the time at which it did. ``now``: unix s. A GPU that doesn't
        answer has no row and is lost, which ``changes`` tells. Looks now and then for lost GPUs and for news of the
        driver."""
        began = monotonic()
        self._shift = now - began
        rows: list[Row] = []
        lost = False
        for position, watched in enumerate(self._watched):
            if watched.lost_at is not None:
                lost = True
                continue
            row: list[Any] = [position, now, *_NOTHING]
            taken = None
            try:
                watched.counters.read(row)
                if watched.profiler is not None:
                    taken = watched.profiler.read(row)
            except Gone as gone:
                self._mark_lost(position, gone)
                continue
            row[1] = now + ((taken or monotonic()) - began)
            if row[FIRST_PLACE:] != _NOTHING:
                rows.append(tuple(row))
        if lost and began >= self._look_at:
            self._look_for_lost_gpus()
        if self._up and self._beside.waits(began):
            self._look_beside()
        return rows

    def spare(self) -> bool:
        """Use spare time, about 20 ms, for one thing: look for the processes on one GPU or other news of the driver, or
        measure a GPU's PCIe throughput for its next row. Returns False when there is nothing more to do."""
        if self._up and self._look_beside():
            return True
        linked = self._linked
        for _ in linked:
            watched = linked[self._next_link]
            if watched.lost_at is None and watched.counters.watch_link():
                return True
            self._next_link = (self._next_link + 1) % len(linked)
        return False

    def _look_beside(self) -> bool:
        """Ask the driver the next question that is due, and keep what it answers for ``changes``. Returns False if none
        is due."""
        ticks = monotonic()
        news = self._beside.step(ticks, ticks + self._shift)
        self._changes += news or ()
        return news is not None

    def changes(self) -> Sequence[News]:
        """Return what is new since the last call: GPUs lost and back, errors of GPUs, and the processes on them."""
        changes, self._changes = self._changes, []
        return changes

    def close(self) -> Sequence[Row]:
        """Give the buffers back and stop the library. Returns no rows."""
        self._stop_library()
        return ()

    def _stop_library(self) -> None:
        """Give back what the library has handed out, for news and for profiling, and stop the library if it runs."""
        self._beside.close()
        for watched in self._watched:
            if watched.profiler is not None:
                watched.profiler.free()
        if self._up:
            driver.stop()

    def _mark_lost(self, position: int, gone: Gone | pynvml.NVMLError) -> None:
        """Mark the GPU at ``position`` as lost from now on, and note the change ``gpu_lost`` with the reason ``gone``.
        It is looked for again after LOOK_AGAIN s. If no other GPU is lost, the library is due to be started anew
        START_ANEW s from now."""
        watched = self._watched[position]
        if all(other.lost_at is None for other in self._watched):
            self._anew_after = START_ANEW
            self._anew_at = monotonic() + START_ANEW
        watched.lost_at = monotonic()
        self._beside.lost(position)
        self._look_at = monotonic() + LOOK_AGAIN
        self._changes.append(BackendChange("gpu_lost", position, f"no longer answers: {gone}"))

    def _look_for_lost_gpus(self) -> None:
        """Look up all lost GPUs again, and plan the next look for LOOK_AGAIN s from now. If one is still lost and it is
        time, start the library anew as well: after waits that double each time, up to LONGEST_WAIT s."""
        now = monotonic()
        self._look_at = now + LOOK_AGAIN
        if self._up:
            self._take_back_gpus()
        if now >= self._anew_at and any(watched.lost_at is not None for watched in self._watched):
            self._anew_after = min(2 * self._anew_after, LONGEST_WAIT)
            self._anew_at = now + self._anew_after
            self._start_anew()

    def _take_back_gpus(self) -> None:
        """Look up each lost GPU, and go on with those that answer: each is a change ``gpu_back``. The others stay
        lost."""
        for position, watched in enumerate(self._watched):
            if watched.lost_at is None:
                continue
            try:
                watched.renew()
            except pynvml.NVMLError:
                continue
            away = monotonic() - watched.lost_at
            watched.lost_at = None
            self._beside.back(position, watched.gpu)
            self._changes.append(BackendChange("gpu_back", position, f"answers again after {away:.0f} s"))

    def _start_anew(self) -> None:
        """Start the library again, which makes all handles and buffers of before void, and look up every GPU. Where it
        does not start, all GPUs that answered are lost."""
        self._stop_library()
        try:
            driver.start()
            self._up = True
        except UnusableError:
            self._up = False
        for position, watched in enumerate(self._watched):
            if watched.lost_at is None:
                try:
                    watched.renew()
                    self._beside.back(position, watched.gpu)
                except pynvml.NVMLError as error:
                    self._mark_lost(position, error)
        if self._up:
            self._take_back_gpus()


_NO_GPM = "no GPU here has it: that takes Hopper or newer"
_NO_GPM_CURE = "use DCGM, or --backend nvml, which records all but the profiling metrics"
_NO_GPU_CURE = "ask for GPUs when the job is submitted"


def open_nvml(visible: Sequence[str] | None) -> OpenedBackend:
    """Open ``nvml`` on this process's GPUs. ``visible``: gssr.launch.gpu_ids. Raises BackendError when it has none or
    the driver can't be used."""
    return _open_backend(visible, lambda gpus: (NvmlBackend("nvml", gpus, [None] * len(gpus)), []))


def open_gpm(visible: Sequence[str] | None) -> OpenedBackend:
    """Open ``gpm`` on this process's GPUs; those without GPM give what ``nvml`` gives. ``visible``:
    gssr.launch.gpu_ids. Raises BackendError when none has GPM or may be read."""
    return _open_backend(visible, _make_gpm_backend)


def open_gpm_of_all(visible: Sequence[str] | None) -> OpenedBackend:
    """Open ``gpm`` on this process's GPUs if all of them have it. ``visible``: gssr.launch.gpu_ids. Raises
    BackendError, also when one of them has no GPM."""
    return _open_backend(visible, _make_gpm_backend_of_all)


def open_gpm_or_nvml(visible: Sequence[str] | None) -> OpenedBackend:
    """Open ``gpm`` where it works, else ``nvml`` with the reason in ``passed_over``. ``visible``: gssr.launch.gpu_ids.
    Raises BackendError when neither works."""
    driver.start()  # once for all that follows: without a persistence daemon it takes seconds
    try:
        offer = offer_gpm()
        why = offer.details
        if offer.works:
            try:
                return open_gpm(visible)
            except BackendError as error:
                why = str(error)
        opened = open_nvml(visible)
        return opened._replace(passed_over=[f"gpm not used: {why}"])
    finally:
        driver.stop()


def offer_nvml() -> Offer:
    """Find out whether ``nvml`` works here, and which GPUs the driver shows. Where it does not, the offer says why and
    what to do."""
    return _make_offer("nvml", _offer_gpus)


def offer_gpm() -> Offer:
    """Find out whether the GPUs here have GPM, and whether this user may read it. Where not, the offer says why and
    what to do."""
    return _make_offer("gpm", _try_gpm)


def _open_backend(
    visible: Sequence[str] | None, make: Callable[[Sequence[DriverGpu]], tuple[NvmlBackend, list[str]]]
) -> OpenedBackend:
    """Start the library, and make a backend on the GPUs of this process.

    Args:
        visible: As gssr.launch.gpu_ids returns it; None: the launcher does not say.
        make: Makes the backend on at least one GPU, and returns it and its remarks, which follow the driver's.

    Raises BackendError if the library can't be started, the driver shows this process no GPU, or ``make`` raises it.
    After any exception the library is stopped again.
    """
    driver.start()
    try:
        gpus, remarks = driver.visible_gpus(visible)
        if not gpus:
            raise BackendError("; ".join(["NVIDIA's driver shows this process no GPU", *remarks, _NO_GPU_CURE]))
        backend, more = make(gpus)
    except BaseException:
        driver.stop()
        raise
    return OpenedBackend(backend, [*remarks, *more])


def _make_gpm_backend(gpus: Sequence[DriverGpu]) -> tuple[NvmlBackend, list[str]]:
    """Make the backend ``gpm`` on these GPUs. Returns it, and a remark that lists the device indices of those without
    profiling metrics; no remark if all have them. Raises BackendError if none has, or none answers."""
    begun, refusal = profilers(gpus)
    if not any(begun):
        raise BackendError(f"gpm: {refusal}" if refusal else f"gpm: {_NO_GPM}; {_NO_GPM_CURE}")
    without = [str(gpu.device.device_index) for gpu, profiler in zip(gpus, begun) if profiler is None]
    why = refusal.what if refusal else "they are older than Hopper"
    remarks = [f"no profiling metrics of GPU {', '.join(dict.fromkeys(without))}: {why}"] if without else []
    return NvmlBackend("gpm", gpus, begun), remarks


def _make_gpm_backend_of_all(gpus: Sequence[DriverGpu]) -> tuple[NvmlBackend, list[str]]:
    """Make the backend ``gpm`` on these GPUs, as ``_make_gpm_backend`` does. Raises BackendError if one of them has no
    GPM, too."""
    if not all(has_gpm(gpu) for gpu in gpus):
        raise BackendError(f"gpm: {_NO_GPM if not any(has_gpm(gpu) for gpu in gpus) else 'not every GPU here has it'}")
    return _make_gpm_backend(gpus)


def _make_offer(name: str, look: Callable[[Sequence[DriverGpu], Sequence[str]], Offer]) -> Offer:
    """Start the library, list all GPUs, and return the offer that ``look`` makes of them; ``look`` also gets sentences
    about GPUs that do not answer. Where the driver can't be used, the offer ``name`` says why and what to do. The
    library is stopped again."""
    try:
        driver.start()
    except UnusableError as error:
        return Offer(name, False, error.what, error.cure)
    try:
        return look(*driver.gpus())
    except UnusableError as error:
        return Offer(name, False, error.what, error.cure)
    finally:
        driver.stop()


def _offer_gpus(gpus: Sequence[DriverGpu], silent: Sequence[str]) -> Offer:
    """Offer ``nvml`` on these GPUs, with their models and the driver's version in the details; without a GPU it does not
    work. ``silent``: sentences about GPUs that do not answer, which follow in the details."""
    if not gpus:
        return Offer("nvml", False, "; ".join(["NVIDIA's driver shows no GPU", *silent]), _NO_GPU_CURE)
    names = ", ".join(sorted({gpu.device.name or "unknown" for gpu in gpus}))
    details = f"{_count(len(gpus))} ({names}), driver {gpus[0].device.driver_version or 'unknown'}"
    return Offer("nvml", True, "; ".join([details, *silent]), profiles=False)


def _try_gpm(gpus: Sequence[DriverGpu], _silent: Sequence[str]) -> Offer:
    """Offer ``gpm`` on those of the GPUs that have it. It does not work if none has, or if the driver refuses to profile
    the first that has. ``profiles`` is True if all have it."""
    able = [gpu for gpu in gpus if has_gpm(gpu)]
    if not able:
        return Offer("gpm", False, _NO_GPM if gpus else "NVIDIA's driver shows no GPU", _NO_GPM_CURE)
    try:
        Profiler(able[0]).free()
    except pynvml.NVMLError as error:
        refusal = refused(error)
        return Offer("gpm", False, refusal.what, refusal.cure)
    some = f"{len(able)} of {_count(len(gpus))}" if len(able) < len(gpus) else _count(len(gpus))
    return Offer("gpm", True, f"profiling metrics of {some}, without a daemon", profiles=len(able) == len(gpus))


def _count(n: int) -> str:
    return "1 GPU" if n == 1 else f"{n} GPUs"
