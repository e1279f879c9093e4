"""``gpu_metrics``: the binary table of one AMD GPU, as the amdgpu driver shows it in sysfs.

It begins with its size (u16), format and content revision (u8 each). Fields have moved from revision to revision, and once
within one, so that only a table whose revision and size are known exactly is read. From 1.9 on it describes itself: a count,
then for each attribute a u64 that holds unit, type, id and number of values, and the values. Source of offsets, ids and
units: Linux, drivers/gpu/drm/amd/include/kgd_pp_interface.h, ``struct gpu_metrics_v1_3`` to ``v1_9``. A field that a GPU
doesn't have is all ones.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from operator import eq, itemgetter
from typing import Any, NamedTuple

MOST_BYTES = 4096
"""sysfs shows no more of a file."""


class MetricsReading(NamedTuple):
    """One reading of the gpu_metrics table; None where it does not hold the value.

    ``power`` W, ``energy`` 2^-16 J since the driver was loaded, temperatures °C, ``sm_clock`` MHz, activities %,
    ``gfx_acc`` and ``memory_acc`` their sums, one for each of ``ticks``, ``stamp`` the firmware's time in 10 ns, xGMI KB,
    residencies ticks, ``throttle`` SMU_THROTTLER bits.
    """

    power: int | None = None
    energy: int | None = None
    temperature: int | None = None
    gfx: float | None = None
    memory: int | None = None
    gfx_acc: float | None = None
    memory_acc: int | None = None
    ticks: int | None = None
    stamp: int | None = None
    prochot: int | None = None
    ppt: int | None = None
    socket_thm: int | None = None
    vr_thm: int | None = None
    hbm_thm: int | None = None
    throttle: int | None = None
    memory_temperature: float | None = None
    sm_clock: float | None = None
    xgmi_read: float | None = None
    xgmi_written: float | None = None

    @property
    def residencies(self) -> tuple[int | None, ...]:
        """The fields from ``prochot`` to ``hbm_thm``: five counts of ticks, each None where it is unknown."""
        return self[9:14]


FIELDS = MetricsReading._fields


_MEAN, _SUM, _MOST = range(3)
_OF_SEVERAL = {"sm_clock": _MEAN, "xgmi_read": _SUM, "xgmi_written": _SUM, "memory_temperature": _MOST}
"""What becomes of several values of a field: of each compute die, link and stack of memory."""

Place = tuple[int, str, int]
"""Offset of a field, struct's letter for its type, number of values."""


class Partitions(NamedTuple):
    """Where the table tells each partition's compute dies: offset of the first, bytes of each, and in it the offset of
    ``gfx_busy_acc``; ``gfx_busy_inst`` comes first."""

    offset: int
    stride: int
    accumulated: int


_N_PARTITIONS = _N_DIES = 8


class TableRevision:
    """How the table of one revision is read.

    Args:
        size: Length of the table, bytes.
        header: Its first four bytes, as a number.
        places: Where each field of MetricsReading stands; those left out are None in every reading.
        partitions: Where the partitions' dies stand; None where the table has none.
        signs: Offsets and 8-byte numbers that have to stand there for the layout to hold.
    """

    def __init__(
        self,
        size: int,
        header: int,
        places: Mapping[str, Place],
        partitions: Partitions | None = None,
        signs: Iterable[tuple[int, int]] = (),
    ) -> None:
        self.size = size
        self.partitions = partitions
        wanted = [(*place, name) for name, place in places.items()]
        wanted += [(0, "I", 1, ""), *((offset, "Q", 1, "") for offset, _ in signs)]
        layout, at, number = "<", 0, 0
        found: dict[str, tuple[int, int, int]] = {}
        of_signs = []
        for offset, letter, count, name in sorted(wanted):
            layout += f"{offset - at}x{count}{letter}"
            at = offset + count * struct.calcsize(letter)
            ones = -1 if letter.islower() else (1 << 8 * struct.calcsize(letter)) - 1
            if name:
                found[name] = (number, number + count, ones)
            else:
                of_signs.append(number)
            number += count
        self._struct = struct.Struct(layout)
        self._signs = itemgetter(*of_signs, 0)  # twice the header, so that there are always several
        self._meant = (header, *(sign for _, sign in sorted(signs)), header)
        # What isn't there is the None that read appends.
        self._values = itemgetter(*(found[name][0] if name in found else number for name in FIELDS))
        self._ones = [found[name][2] if name in found else 0 for name in FIELDS]
        self._several = [
            (FIELDS.index(name), slice(begin, end), ones, how)
            for name, how in _OF_SEVERAL.items()
            for begin, end, ones in (found.get(name, (0, 0, 0)),)
            if end - begin > 1
        ]

    def read(self, data: bytearray) -> MetricsReading | None:
        """Decode ``data``. Returns None if it does not have this layout."""
        values = (*self._struct.unpack_from(data), None)
        if self._signs(values) != self._meant:
            return None
        told: list[Any] = list(self._values(values))
        if any(map(eq, told, self._ones)):
            told = [None if value == ones else value for value, ones in zip(told, self._ones)]
        for place, part, ones, how in self._several:
            valid = values[part]
            n = len(valid) - valid.count(ones)
            if not n:
                told[place] = None
            elif how == _MOST:
                told[place] = max(value for value in valid if value != ones) or None
            else:
                total = sum(valid) - ones * (len(valid) - n)
                told[place] = total if how == _SUM else total / n
        return MetricsReading._make(told)

    def of_partitions(self, data: bytearray) -> tuple[float | None, float | None]:
        """Read the activity of all partitions' compute dies. Returns the mean activity (%) and the mean of their sums,
        as ``gfx`` and ``gfx_acc``; None for each that is not told."""
        if self.partitions is None:
            return None, None
        offset, stride, accumulated = self.partitions
        busy: list[int] = []
        sums: list[int] = []
        for begin in range(offset, offset + _N_PARTITIONS * stride, stride):
            busy += struct.unpack_from(f"<{_N_DIES}I", data, begin)
            sums += struct.unpack_from(f"<{_N_DIES}Q", data, begin + accumulated)
        told = [value for value in busy if value <= 100]
        counted = [value for value in sums if value != (1 << 64) - 1]
        return (sum(told) / len(told) if told else None), (sum(counted) / len(counted) if counted else None)


def _since_1_4(energy: int, activity: int, links: int, clocks: int, residencies: int | None = None) -> dict[str, Place]:
    """List the fields that revisions since 1.4 share, by the offsets that differ between them: those of
    ``energy_accumulator``, ``gfx_activity_acc``, ``xgmi_read_data_acc``, ``current_gfxclk`` and
    ``accumulation_counter`` (None where the table has no residencies)."""
    places = {
        "temperature": (4, "H", 1), "memory_temperature": (6, "H", 1), "power": (10, "H", 1), "gfx": (12, "H", 1),
        "memory": (14, "H", 1), "energy": (energy, "Q", 1), "gfx_acc": (activity, "I", 1),
        "memory_acc": (activity + 4, "I", 1), "xgmi_read": (links, "Q", 8), "xgmi_written": (links + 64, "Q", 8),
        "stamp": (clocks - 8, "Q", 1), "sm_clock": (clocks, "H", 8),
    }  # fmt: skip
    if residencies is not None:
        for number, name in enumerate(("ticks", "prochot", "ppt", "socket_thm", "vr_thm", "hbm_thm")):
            places[name] = (residencies + 4 * number, "I", 1)
    return places


_1_3: dict[str, Place] = {
    "temperature": (6, "H", 1), "gfx": (16, "H", 1), "memory": (18, "H", 1), "power": (22, "H", 1),
    "energy": (24, "Q", 1), "sm_clock": (54, "H", 1), "gfx_acc": (80, "I", 1), "memory_acc": (84, "I", 1),
    "memory_temperature": (88, "H", 4), "stamp": (96, "Q", 1), "throttle": (112, "Q", 1),
}  # fmt: skip

_LAYOUTS: tuple[tuple[int, int, dict[str, Place], Partitions | None], ...] = (
    (3, 120, _1_3, None),
    (4, 288, _since_1_4(24, 56, 104, 240), None),
    (5, 360, _since_1_4(88, 120, 176, 312), None),
    (6, 384, _since_1_4(88, 144, 200, 336, 104), None),  # of Linux 6.11
    (6, 1664, _since_1_4(16, 68, 128, 264, 32), Partitions(312, 168, 104)),
    (7, 2208, _since_1_4(24, 76, 136, 296, 40), Partitions(344, 232, 104)),
    (8, 3872, _since_1_4(24, 76, 136, 296, 40), Partitions(344, 440, 120)),
)
"""Content revision of format 1, size, and where what stands."""


def _header(minor: int, size: int) -> int:
    return minor << 24 | 1 << 16 | size


TABLES = {
    _header(minor, size): TableRevision(size, _header(minor, size), places, partitions)
    for minor, size, places, partitions in _LAYOUTS
}
"""By header."""

_ATTRIBUTES = {
    0: "temperature", 1: "memory_temperature", 3: "power", 4: "gfx", 5: "memory", 7: "energy", 9: "ticks", 10: "prochot",
    11: "ppt", 12: "socket_thm", 13: "vr_thm", 14: "hbm_thm", 20: "gfx_acc", 21: "memory_acc", 29: "xgmi_read",
    30: "xgmi_written", 32: "stamp", 33: "sm_clock",
}  # fmt: skip
"""``enum amdgpu_metrics_attr_id``."""
_TYPES = "BbHhIiQq"
"""``enum amdgpu_metrics_attr_type``."""
_KB = 9
"""``AMDGPU_METRICS_UNIT_DATA_1``."""
_COUNTED_IN_KB = ("xgmi_read", "xgmi_written")
_GAUGES = ("temperature", "memory_temperature", "power", "sm_clock")
"""These need no 64 bits, and a recording has no room for them."""
_FIRST_ATTRIBUTE = 8


def revision_of(data: bytes | bytearray, n: int) -> str:
    """Describe in words the revision of the table in the first ``n`` bytes of ``data``."""
    if n < 4:
        return f"cut off after {n} bytes"
    size, major, minor = struct.unpack_from("<HBB", data)
    return f"revision {major}.{minor}, {n} bytes" + (f" of {size}" if n != size else "")


def table_of(data: bytearray, n: int) -> TableRevision | None:
    """Find how the table in the first ``n`` bytes of ``data`` is read; None when it is cut short or of no known
    revision."""
    if n < 4:
        return None
    (header,) = struct.unpack_from("<I", data)
    if header >> 16 == 0x0901:
        return _described(header, data, n)
    table = TABLES.get(header)
    return table if table is not None and n >= table.size else None


def _described(header: int, data: bytearray, n: int) -> TableRevision | None:
    """Find how the table in the first ``n`` bytes of ``data``, which describes itself, is read; None when it is cut
    short or tells nothing that we know. ``header``: its first four bytes, as a number."""
    if n < _FIRST_ATTRIBUTE:
        return None
    (count,) = struct.unpack_from("<i", data, 4)
    at, places, signs = _FIRST_ATTRIBUTE, {}, []
    for _ in range(count):
        if at + 8 > n:
            return None
        (sign,) = struct.unpack_from("<Q", data, at)
        unit, kind, name, many = sign >> 24 & 0xFF, sign >> 20 & 0xF, sign >> 10 & 0x3FF, sign & 0x3FF
        if kind >= len(_TYPES):
            return None
        metric = _ATTRIBUTES.get(name)
        told = unit == _KB if metric in _COUNTED_IN_KB else metric not in _GAUGES or _TYPES[kind] not in "Qq"
        if metric is not None and many and told:
            places[metric] = (at + 8, _TYPES[kind], many if metric in _OF_SEVERAL else 1)
            signs.append((at, sign))
        at += 8 + many * struct.calcsize(_TYPES[kind])
        if at > n:
            return None
    return TableRevision(at, header, places, None, signs) if places else None
