"""What NVML tells about a GPU without its profiling counters: utilization, memory, power, clocks, links.

Each value is asked for in the ways of a table, best first. A way that the driver doesn't support is never tried again; any
other error makes the one value None. The functions are called through ``pynvml``'s library with buffers that are made once:
its own wrappers make new objects for every value, eighty times a second.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Container, Sequence
from ctypes import byref, create_string_buffer
from typing import Any, NamedTuple, Union

import pynvml

from gssr.backends.driver import GONE, NEVER, Gone, Handle
from gssr.metrics import NAMES, PLACES

Value = Union[int, float, None]


class Call(NamedTuple):
    """A function of NVML. ``arguments``: those between the handle and the pointer to the answer; ``answer``: the
    answer's struct format, ``first``: its first bytes; ``numbers``: for each number in it the metric and the factor to
    its unit. A number above ``most`` is no value."""

    function: str
    arguments: tuple[int, ...]
    answer: str
    numbers: tuple[tuple[str, float], ...]
    first: bytes = b""
    most: int = (1 << 63) - 1


_MEMORY_2 = int(pynvml.nvmlMemory_v2).to_bytes(4, "little")

CALLS: tuple[Call, ...] = (
    Call(
        "nvmlDeviceGetUtilizationRates",
        (),
        "II",
        (("gpu_utilization", 0.01), ("memory_copy_utilization", 0.01)),
        most=100,
    ),
    # version, total, reserved, free, used
    Call("nvmlDeviceGetMemoryInfo_v2", (), "32xQ", (("memory_used", 1),), first=_MEMORY_2),
    # total, free, used with what the driver reserves
    Call("nvmlDeviceGetMemoryInfo", (), "16xQ", (("memory_used", 1),)),
    Call("nvmlDeviceGetTemperature", (pynvml.NVML_TEMPERATURE_GPU,), "I4x", (("temperature", 1),)),
    Call("nvmlDeviceGetClockInfo", (pynvml.NVML_CLOCK_SM,), "I4x", (("sm_clock", 1),)),
    Call("nvmlDeviceGetCurrentClocksEventReasons", (), "Q", (("clock_event_reasons", 1),)),
    Call("nvmlDeviceGetCurrentClocksThrottleReasons", (), "Q", (("clock_event_reasons", 1),)),
    Call("nvmlDeviceGetPowerUsage", (), "I4x", (("power_usage", 0.001),)),
    Call("nvmlDeviceGetTotalEnergyConsumption", (), "Q", (("energy", 0.001),)),
)
"""The first one that a GPU supports gives a metric, unless one of FIELDS does."""


class Field(NamedTuple):
    """A value of nvmlDeviceGetFieldValues. ``id`` and ``scope``: NVML's; ``factor``: to the metric's unit; ``counter``:
    it counts up, and its rate is the metric."""

    metric: str
    id: int
    scope: int
    factor: float
    counter: bool = False


_ALL_LINKS = 0xFFFFFFFF

FIELDS: tuple[Field, ...] = (
    # The instantaneous power: its average over a second (185) takes milliseconds to answer on some boards.
    Field("power_usage", 186, 0, 0.001),
    Field("energy", 83, 0, 0.001),
    Field("memory_temperature", 82, 0, 1),
    Field("nvlink_tx_bytes", 138, _ALL_LINKS, 1024, counter=True),
    Field("nvlink_rx_bytes", 139, _ALL_LINKS, 1024, counter=True),
    Field("pcie_tx_bytes", 197, 0, 1, counter=True),
    Field("pcie_rx_bytes", 198, 0, 1, counter=True),
)

_FIELD = struct.Struct("=II8x8x4x4x8x")
_FIELD_ANSWER = "8xq8xiiQ"
"""Time stamp (µs), type, return code, number."""
_NARROW = 1 << 32
_OF_32_BITS = frozenset((pynvml.NVML_VALUE_TYPE_UNSIGNED_INT, pynvml.NVML_VALUE_TYPE_SIGNED_INT))

_PCIE = (("pcie_tx_bytes", pynvml.NVML_PCIE_UTIL_TX_BYTES), ("pcie_rx_bytes", pynvml.NVML_PCIE_UTIL_RX_BYTES))
_INSTANCE = frozenset(("memory_used",))
"""All that a MIG instance has of its own."""


class Counters:
    """Reads one GPU's values. ``instance``: it is a MIG instance, of which only the used memory can be read; ``skip``:
    metrics that something else measures; ``measures``: the metrics it has; ``watches_link``: some need ``watch_link``
    to be called between rows. Raises Gone if the GPU does not answer."""

    def __init__(self, handle: Handle, instance: bool, skip: Container[str]) -> None:
        self._handle = handle
        wanted = [name for name in NAMES if name not in skip and (not instance or name in _INSTANCE)]
        self._fields = self._supported_fields([field for field in FIELDS if field.metric in wanted])
        answered = {field.metric for field in self._fields}
        self._calls: list[Call] = []
        for call in CALLS:
            names = {name for name, _ in call.numbers}
            if names.intersection(wanted) - answered and self._supports(call):
                self._calls.append(call)
                answered |= names
        self._throughput: list[tuple[str, int]] = []
        for name, direction in _PCIE:
            if name in wanted and name not in answered and self._supports_throughput(direction):
                self._throughput.append((name, direction))
                answered.add(name)
        self.watches_link = bool(self._throughput)
        self.measures: Sequence[str] = [name for name in NAMES if name in answered]
        self._windows: dict[str, Value] = {}
        self._last: dict[str, tuple[int, int]] = {}
        self._prepare()

    def renew(self, handle: Handle) -> None:
        """Go on with another handle of the GPU, whose counters may have begun again."""
        self._handle = handle
        self._last.clear()
        self._windows.clear()
        self._prepare()

    def read(self, row: list[Any]) -> None:
        """Write the values into a row, each at its metric's place in ``gssr.metrics.PLACES``; places of what this GPU
        does not measure stay as they are. Rates are computed from counters since the last call, and missing in the
        first; those of PCIe may be what ``watch_link`` measured instead. Raises Gone."""
        failed = [(call, code) for call, function, arguments in self._asked if (code := function(*arguments))]
        numbers = self._struct.unpack_from(self._buffer)
        for k, at, factor, most in self._places:
            number = numbers[k]
            if number <= most:
                row[at] = number * factor
        if not failed or None not in (call for call, _ in failed):  # else the fields' answers are those of before
            self._read_fields(row, numbers)
        if failed:
            self._take_back(failed, row)
        if self._windows:
            for name, value in self._windows.items():
                row[PLACES[name]] = value
            self._windows.clear()

    def watch_link(self) -> bool:
        """Measure one direction of PCIe, which takes 20 ms, and keep it for the next ``read``. Returns True if it was
        asked for, also if the driver did not tell it; False, having done nothing, if both directions are measured
        already."""
        for name, direction in self._throughput:
            if name in self._windows:
                continue
            try:
                self._windows[name] = pynvml.nvmlDeviceGetPcieThroughput(self._handle, direction) * 1024
            except pynvml.NVMLError as error:
                self._windows[name] = None
                if error.value in NEVER:
                    self._throughput.remove((name, direction))
            return True
        return False

    def _prepare(self) -> None:
        """Lay out one buffer for all answers of a tick, and what is to be called with which places in it."""
        layout = "".join(call.answer for call in self._calls)
        begin = struct.calcsize("=" + layout)
        self._struct = struct.Struct("=" + layout + _FIELD_ANSWER * len(self._fields))
        self._buffer = buffer = create_string_buffer(self._struct.size)
        self._asked: list[tuple[Call | None, Callable[..., int], tuple[Any, ...]]] = []
        self._places: list[tuple[int, int, float, int]] = []
        at = 0
        for call in self._calls:
            struct.pack_into(f"={len(call.first)}s", buffer, at, call.first)
            self._asked.append((call, _function(call), (self._handle, *call.arguments, byref(buffer, at))))
            for name, factor in call.numbers:
                self._places.append((len(self._places), PLACES[name], factor, call.most))
            at += struct.calcsize("=" + call.answer)
        self._field_places = [
            (len(self._places) + 4 * number, PLACES[field.metric], field.factor, field)
            for number, field in enumerate(self._fields)
        ]
        if self._fields:
            for number, field in enumerate(self._fields):
                _FIELD.pack_into(buffer, begin + number * _FIELD.size, field.id, field.scope)
            arguments = (self._handle, len(self._fields), byref(buffer, begin))
            self._asked.append((None, pynvml.nvmlLib.nvmlDeviceGetFieldValues, arguments))

    def _take_back(self, failed: Sequence[tuple[Call | None, int]], row: list[Any]) -> None:
        """Remove what failed calls (None: that for the fields) left in their places of the row. Raises Gone."""
        for call, code in failed:
            _check(code)
            for name, _ in call.numbers if call else ():
                row[PLACES[name]] = None
            if call and code in NEVER:
                self._calls.remove(call)
        if None in (call for call, _ in failed):
            self._last.clear()
        self._prepare()

    def _read_fields(self, row: list[Any], numbers: Sequence[int]) -> None:
        """Write the values of the fields into the row. Fields that are refused for good are not asked for again. Raises
        Gone."""
        refused = []
        for first, at, factor, field in self._field_places:
            code = numbers[first + 2]
            if code == 0:
                value = _number(numbers[first + 1], numbers[first + 3])
                row[at] = self._rate(field, value, numbers[first]) if field.counter else value * factor
            elif code in NEVER:
                refused.append(field)
            else:
                _check(code)
        if refused:
            self._fields = [field for field in self._fields if field not in refused]
            self._prepare()

    def _rate(self, field: Field, value: int, stamp: int) -> Value:
        """Return the rate per second, in the metric's unit, since the field was last read; None the first time, if
        nothing is new, and if the counter began again. ``value`` is the counter, in the field's unit, and ``stamp`` its
        time in us; both are remembered for the next call."""
        before = self._last.get(field.metric)
        if before is not None and stamp <= before[0]:
            return None  # nothing new
        self._last[field.metric] = (stamp, value)
        if before is None or value < before[1]:
            return None
        return round((value - before[1]) * field.factor / (stamp - before[0]) * 1e6)

    def _supported_fields(self, fields: Sequence[Field]) -> list[Field]:
        """Return the fields that this GPU has. PCIe's counters have 32 bits on some GPUs, which a busy link passes in
        less than 0.1 s, so that differences would be too small: one is believed only if it has counted further. Raises
        Gone."""
        if not fields:
            return []
        buffer = create_string_buffer(_FIELD.size * len(fields))
        for number, field in enumerate(fields):
            _FIELD.pack_into(buffer, number * _FIELD.size, field.id, field.scope)
        code = pynvml.nvmlLib.nvmlDeviceGetFieldValues(self._handle, len(fields), byref(buffer))
        _check(code)
        supported = []
        for number, field in enumerate(fields if code == 0 else ()):
            _, kind, code, value = struct.unpack_from("=" + _FIELD_ANSWER, buffer, number * _FIELD.size)
            narrow = field.metric.startswith("pcie") and _number(kind, value) < _NARROW
            if code not in NEVER and not narrow:
                supported.append(field)
        return supported

    def _supports(self, call: Call) -> bool:
        """Tell whether this GPU and driver support a call. Raises Gone."""
        buffer = create_string_buffer(call.first, struct.calcsize("=" + call.answer))
        try:
            code = _function(call)(self._handle, *call.arguments, byref(buffer))
        except AttributeError:  # a driver older than the function
            return False
        _check(code)
        return code not in NEVER

    def _supports_throughput(self, direction: int) -> bool:
        """Tell whether the driver measures the GPU's PCIe throughput in this direction, an ``NVML_PCIE_UTIL_`` constant.
        False if it never will or the GPU is gone; any other error counts as support."""
        try:
            pynvml.nvmlDeviceGetPcieThroughput(self._handle, direction)
        except pynvml.NVMLError as error:
            return error.value not in NEVER and error.value not in GONE
        return True


def _function(call: Call) -> Callable[..., int]:
    return getattr(pynvml.nvmlLib, call.function)  # type: ignore[no-any-return]


def _check(code: int) -> None:
    """Raise Gone if this return code means that the GPU is gone."""
    if code in GONE:
        raise Gone(str(pynvml.NVMLError(code)))


def _number(kind: int, value: int) -> int:
    """Return the number in a field's union. ``kind`` is NVML's type of it."""
    if kind in _OF_32_BITS:
        return value & 0xFFFFFFFF
    if kind == pynvml.NVML_VALUE_TYPE_DOUBLE:
        (double,) = struct.unpack("=d", value.to_bytes(8, "little"))
        return int(double)
    return value
