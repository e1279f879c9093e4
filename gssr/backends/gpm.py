"""GPM: the profiling counters of Hopper and newer GPUs, read through NVML alone.

No daemon, and nobody else's profiler is disturbed. A metric is a mean between two samples, so each GPU keeps two buffers and
swaps them; samples closer together than 100 ms give no values.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from ctypes import byref
from functools import partial
from time import monotonic, sleep
from typing import Any

import pynvml

from gssr.backends.base import UnusableError
from gssr.backends.driver import GONE, NEVER, DriverGpu, Gone, ask
from gssr.metrics import METRICS, PLACES, RATIO, Metric

SHORTEST = 0.1
"""Seconds between two samples of a GPU, at least."""
_JITTER = 0.002
"""Seconds by which they may be closer, since ticks are not exact; waiting at every tick would cost more than sampling."""
_WAIT = 0.02
"""A sample that is due in less than this, s, is waited for: a tick that came a little early shall not lose its values."""

_SLOW = 0.05
"""A call that takes longer, s, took its sample at its end."""

PROFILED: tuple[Metric, ...] = tuple(metric for metric in METRICS if metric.gpm is not None)
_ON_INSTANCES: tuple[Metric, ...] = tuple(metric for metric in PROFILED if metric.kind == "gauge")
"""Links belong to the whole GPU."""

_MOST_RATIO, _MOST_RATIO_OF_INSTANCE, _MOST_RATE = 1.5, 10.0, 1e13
"""What is more, in the metric's unit, is no measurement; ratios of MIG instances may exceed 1."""

_ANSWER = "4xId24x"
"""Return code and value of one metric of nvmlGpmMetricsGet; before them its id, after them three names."""


class Profiler:
    """Profiles one GPU or MIG instance with two samples. ``metrics``: what it measures. Raises pynvml.NVMLError if
    samples cannot be taken at all."""

    def __init__(self, gpu: DriverGpu) -> None:
        self.metrics: Sequence[Metric] = _ON_INSTANCES if gpu.instance is not None else PROFILED
        self._most = _MOST_RATIO_OF_INSTANCE if gpu.instance is not None else _MOST_RATIO
        self._samples: list[Any] = []
        self._sides: list[tuple[Callable[[], int], Any]] = []
        """For each of the two samples the function that takes it, and the query for what lies between the other and it."""
        self._next = 0
        self._taken: float | None = None
        self.renew(gpu)
        code = self._take()
        if code:
            self.free()
            raise pynvml.NVMLError(code)

    def settle(self) -> None:
        """Find out which metrics the GPU has; call it SHORTEST s or more after the start. The first ``read`` begins
        anew, so that the first mean is one since a time that is recorded. Raises Gone."""
        answers = self._measure()
        self._taken = None
        if answers is not None:
            self.metrics = [metric for metric, code in zip(self.metrics, answers[::2]) if code not in NEVER]
            self._prepare()

    def read(self, row: list[Any]) -> float | None:
        """Write the means since the previous sample into a row, if that is old enough. Returns when a sample was taken,
        by ``monotonic``; None if none was. Raises Gone."""
        if self._taken is not None:
            wait = self._taken + SHORTEST - _JITTER - monotonic()
            if wait > _WAIT:
                return None
            if wait > 0:
                sleep(wait)
        answers = self._measure()
        if answers is None:
            return self._taken
        for code_at, value_at, place, factor, most, integral in self._places:
            value = answers[value_at]
            if 0.0 <= value <= most and not answers[code_at]:  # NaN isn't
                row[place] = int(value * factor) if integral else value * factor
        return self._taken

    def renew(self, gpu: DriverGpu) -> None:
        """Begin to profile again, with the new handles in ``gpu``. Raises pynvml.NVMLError."""
        self._gpu = gpu
        self._taken = None
        while len(self._samples) < 2:
            self._samples.append(pynvml.nvmlGpmSampleAlloc())
        self._prepare()

    def free(self) -> None:
        """Give the buffers back, while the library is still up; never raises. ``renew`` gets new ones."""
        for sample in self._samples:
            ask(pynvml.nvmlGpmSampleFree, sample)
        self._samples.clear()

    def _prepare(self) -> None:
        """Make the two queries and what reads their answers."""
        gpu = self._gpu
        library = pynvml.nvmlLib
        self._sides = []
        for sample, other in (self._samples, self._samples[::-1]):
            query = pynvml.c_nvmlGpmMetricsGet_t()
            query.version = pynvml.NVML_GPM_METRICS_GET_VERSION
            query.numMetrics = len(self.metrics)
            query.sample1, query.sample2 = other, sample
            for at, metric in enumerate(self.metrics):
                query.metrics[at].metricId = metric.gpm
            if gpu.instance is None:
                take = partial(library.nvmlGpmSampleGet, gpu.handle, sample)
            else:
                take = partial(library.nvmlGpmMigSampleGet, gpu.gpu_handle, gpu.instance, sample)
            self._sides.append((take, query))
        self._unpack = struct.Struct("=" + _ANSWER * len(self.metrics)).unpack_from
        self._offset = pynvml.c_nvmlGpmMetricsGet_t.metrics.offset
        self._query = library.nvmlGpmMetricsGet
        self._places = [
            (
                2 * at,
                2 * at + 1,
                PLACES[metric.name],
                metric.gpm_factor,
                (self._most if metric.unit == RATIO else _MOST_RATE) / metric.gpm_factor,
                metric.integral,
            )
            for at, metric in enumerate(self.metrics)
        ]

    def _take(self) -> int:
        """Take a sample into the buffer whose turn it is, and remember when that was (None after an error). Returns the
        driver's return code, 0 for success."""
        take, _ = self._sides[self._next]
        before = monotonic()
        code = take()
        after = monotonic()
        # A call is short, but coming back from it may mean waiting for the other thread.
        self._taken = None if code else before if after - before < _SLOW else after
        self._next ^= 1
        return code

    def _measure(self) -> Sequence[Any] | None:
        """Take a sample. Returns return code and value of each metric in turn, between the previous sample and it; None
        if there is no such pair: at the beginning, and after an error. Raises Gone."""
        _, query = self._sides[self._next]
        before = self._taken
        code = self._take()
        if not code:
            if before is None:
                return None
            code = self._query(byref(query))
            if not code:
                return self._unpack(query, self._offset)
        if code in GONE:
            self._taken = None
            raise Gone(str(pynvml.NVMLError(code)))
        return None


def has_gpm(gpu: DriverGpu) -> bool:
    """Tell whether the driver says that this GPU has GPM."""
    support = ask(pynvml.nvmlGpmQueryDeviceSupport, gpu.gpu_handle)
    return bool(support and support.isSupportedDevice)


def profilers(gpus: Sequence[DriverGpu]) -> tuple[list[Profiler | None], UnusableError | None]:
    """Begin to profile GPUs. Returns for each GPU its profiler, begun 0.1 s ago, or None if it has no GPM or cannot be
    sampled; and why the last of these cannot be, None if the driver refused none."""
    begun: list[Profiler | None] = []
    refusal: UnusableError | None = None
    for gpu in gpus:
        profiler = None
        if has_gpm(gpu):
            try:
                profiler = Profiler(gpu)
            except pynvml.NVMLError as error:
                refusal = refused(error)
        begun.append(profiler)
    if any(begun):
        sleep(SHORTEST)
    for at, profiler in enumerate(begun):
        try:
            if profiler is not None:
                profiler.settle()
        except Gone as gone:
            begun[at], refusal = None, UnusableError(str(gone), "see dmesg")
    return begun, refusal


def refused(error: pynvml.NVMLError) -> UnusableError:
    """Explain the driver's error at a first sample as an error with a cure; it is not raised here."""
    if error.value == pynvml.NVML_ERROR_NO_PERMISSION:
        return UnusableError(
            "the driver lets only administrators profile",
            "the administrator can set the driver's option NVreg_RestrictProfilingToAdminUsers=0 or run DCGM's hostengine",
        )
    return UnusableError(
        f"the driver refuses to profile: {error}", "--backend nvml records all but the profiling metrics"
    )
