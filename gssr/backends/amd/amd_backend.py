"""The backend ``amd``: what AMD's driver tells of its GPUs, read from files of sysfs that stay open. See docs/amd.md."""

from __future__ import annotations

import os
from collections.abc import Sequence
from errno import ENODATA
from time import monotonic
from typing import Any

from gssr.backends.amd import cards
from gssr.backends.amd.cards import Card
from gssr.backends.amd.gpu_metrics import MOST_BYTES, MetricsReading, TableRevision, revision_of, table_of
from gssr.backends.base import BackendChange, Device, News, OpenedBackend, ProcessSnapshot, Row, Running
from gssr.metrics import CLOCK_EVENT_REASONS, FIRST_PLACE, NAMES, PLACES
from gssr.score import how_to_measure

LOOK_AGAIN = 1.0
"""Seconds between two looks for lost GPUs and replaced files."""
LOOK_FOR_PROCESSES = 5.0
MEMORY_SECONDS = 0.45
"""What is used of the memory is read this often at most."""
NO_TIME = 0.001
"""GPUs that are asked so soon after the first, s, are asked at its time."""
JOULE = 2.0**-16
"""``energy_accumulator``'s unit, J."""
MOST = 1e15
"""Bytes, and KB per second, beyond which nothing is told."""
KILOBYTE = 1024
"""xGMI's, bytes: the header says no more than KiloBytes."""

_NOTHING = [None] * len(NAMES)
_UTILIZATION, _DRAM, _SENT, _RECEIVED, _POWER, _ENERGY, _TEMPERATURE, _MEMORY_TEMPERATURE, _CLOCK, _MEMORY, _REASONS = (
    PLACES[name]
    for name in (
        "gpu_utilization", "dram_active", "nvlink_tx_bytes", "nvlink_rx_bytes", "power_usage", "energy", "temperature",
        "memory_temperature", "sm_clock", "memory_used", "clock_event_reasons",
    )
)  # fmt: skip
_BITS = {name: bit for bit, name, _ in CLOCK_EVENT_REASONS}
_CAP, _THERMAL, _HARDWARE = _BITS["sw_power_cap"], _BITS["sw_thermal"], _BITS["hw_thermal"]
_UNTOLD = (None,) * 5
_HELD = (_HARDWARE, _CAP, _THERMAL, _THERMAL, _THERMAL)
"""The bits of Reading.residencies, counters of ticks in which the clock was held down: one that has moved sets its bit."""
_THROTTLERS = ((0x00FF_00FF, _CAP), (0x3FFF_0000_0000, _THERMAL), (0xC000_0000_0000, _HARDWARE))
"""Power and current, temperatures, PROCHOT. Source: Linux, amdgpu_smu.h, SMU_THROTTLER_*_BIT."""
_TICKS_PER_SECOND = 100_000
"""The firmware counts about 1000: with more a counter has begun again."""
_STAMP = 1e-8
"""The unit of the firmware's time stamp, s."""
_BUSY = 10
"""From so many % on an average tells by which scale its sum goes."""
_WRAP = 1 << 32


class ActivityCounter:
    """Turns a sum over the firmware's ticks into a share of time, so that nothing between two rows is missed.

    Whether a tick adds 0 to 100 or 0 to 1 is nowhere written. A sum that grows by more than 1 a tick says 100;
    otherwise the scale is taken by which the sum fits the average that the firmware tells beside it. Until the scale is
    known the average is the share.
    """

    def __init__(self) -> None:
        self._scale: float | None = None
        self._average: float | None = None

    def share(self, average: float | None, per_tick: float | None) -> float | None:
        """Compute the share of time, 0 to 1; None where neither argument tells it. Remembers the average, and the scale
        once it is found, for later calls: use one object for each sum of each GPU.

        Args:
            average: The firmware's own average, %; None if it tells none. More than 100 counts as none.
            per_tick: By how much the sum has grown per tick since the last reading; None if not known.
        """
        if average is not None and average > 100:
            average = None  # no share
        before, self._average = self._average, average
        if per_tick is not None and self._scale is not None and per_tick > 1.05 * self._scale:
            self._scale = None  # it was another
        if per_tick is not None and self._scale is None and per_tick <= 105:
            self._scale = 100.0 if per_tick > 1.05 else _fitting(per_tick, before, average)
        if per_tick is not None and self._scale is not None:
            return min(per_tick / self._scale, 1.0)
        return None if average is None else average / 100


def _fitting(per_tick: float, before: float | None, now: float | None) -> float | None:
    """Find the scale, 100 or 1, by which the sum's growth ``per_tick`` lies between half of the lower and twice the
    higher of the averages (%) before and now; 100 if both would do. None if neither does, or an average is missing or
    below _BUSY."""
    if before is None or now is None or min(before, now) < _BUSY:
        return None
    least, most = min(before, now) / 200, max(before, now) / 50
    return next((scale for scale in (100.0, 1.0) if least <= per_tick / scale <= most), None)


class AmdGpu:
    """One GPU and its files. What reads them raises OSError where the GPU doesn't answer."""

    def __init__(self, card: Card, counters: Sequence[int]) -> None:
        """``counters``: descriptors of the files in which Cray's node controller tells the power (W) and energy (J) of its
        module, ten times a second; empty if there are none."""
        self.card = card
        self.counters = counters
        self._mi300 = card.is_mi300
        self.lost_at: float | None = None
        self.unknown = ""
        """What its table is that can't be read; "" where it can."""
        self._data = bytearray(MOST_BYTES)
        self._buffers = [self._data]
        self._metrics = -1
        self._memory: list[int] = []

    def open(self) -> None:
        """Open its files, after closing those that are open; earlier readings and scales are forgotten. Raises OSError
        if gpu_metrics is not there or a file can't be opened."""
        self.close()
        self._table: TableRevision | None = None
        self._used: int | None = None
        self._used_at = -MEMORY_SECONDS
        self._last: tuple[float, MetricsReading] | None = None
        self._gfx, self._dram = ActivityCounter(), ActivityCounter()
        self._metrics = os.open(f"{self.card.path}/gpu_metrics", os.O_RDONLY | os.O_CLOEXEC)
        for name in ("vram", "gtt") if self.card.shares_memory else ("vram",):
            try:
                self._memory.append(os.open(f"{self.card.path}/mem_info_{name}_used", os.O_RDONLY | os.O_CLOEXEC))
            except FileNotFoundError:
                pass

    def close(self) -> None:
        """Close its files; never raises."""
        for descriptor in (self._metrics, *self._memory):
            if descriptor >= 0:
                os.close(descriptor)
        self._metrics = -1
        self._memory.clear()

    def is_stale(self) -> bool:
        """Tell whether the open file is no longer the one at its path, as after the driver was loaded anew. Raises
        OSError."""
        return os.fstat(self._metrics).st_nlink == 0

    def measures(self) -> set[str]:
        """Return the names of the metrics that this GPU tells, from a reading that is then forgotten. Raises OSError
        if it does not answer."""
        row: list[Any] = [0, 0.0, *_NOTHING]
        self.read(0.0, row)
        told = {name for name, value in zip(NAMES, row[FIRST_PLACE:]) if value is not None}
        reading = None if self._last is None else self._last[1]
        self._last = None
        if reading is not None:
            if self._mi300 and reading.xgmi_read is not None:
                told |= {"nvlink_tx_bytes", "nvlink_rx_bytes"}
            if reading.energy is not None and reading.power:
                told.add("energy")
            if any(count is not None for count in reading.residencies):
                told.add("clock_event_reasons")
        return told

    def read(self, now: float, row: list[Any]) -> None:
        """Read the GPU at ``now`` (unix s) and enter its values into ``row`` (the columns of a Row), where None stays
        what is unknown.

        Rates and activity need the reading before; the first one has none. If its table can't be read (``unknown``
        says of which revision), only the used memory is entered. Raises OSError if the GPU does not answer.
        """
        reading = self._read()
        if not 0 <= now - self._used_at < MEMORY_SECONDS:
            self._used_at, self._used = now, self._memory_used()
        row[_MEMORY] = self._used
        before, self._last = self._last, None if reading is None else (now, reading)
        if reading is None:
            return
        # No GPU needs 0 W: it is a card's second die. A counter of energy that stays at 0 counts none.
        row[_POWER] = reading.power or None
        row[_ENERGY] = reading.energy * JOULE if reading.energy else None
        if self.counters:
            row[_POWER], row[_ENERGY] = (_first_number(descriptor) for descriptor in self.counters)
        row[_TEMPERATURE] = reading.temperature
        row[_MEMORY_TEMPERATURE] = reading.memory_temperature
        row[_CLOCK] = None if reading.sm_clock is None else round(reading.sm_clock)
        if not self._mi300 and reading.throttle is not None:
            row[_REASONS] = sum({bit for mask, bit in _THROTTLERS if reading.throttle & mask})
        gfx = dram = None
        if before is not None:
            seconds, old = now - before[0], before[1]
            if old.energy is None or reading.energy is None or reading.energy >= old.energy:
                gfx, dram = self._since(old, reading, seconds, row)
            # else the driver was loaded anew: its counters are those of another life
        row[_UTILIZATION] = self._gfx.share(reading.gfx, gfx)
        if self._mi300:
            row[_DRAM] = self._dram.share(reading.memory, dram)

    def _since(
        self, old: MetricsReading, new: MetricsReading, seconds: float, row: list[Any]
    ) -> tuple[float | None, float | None]:
        """Enter into ``row`` what only two readings tell: the links' rates and whether clocks were held down.

        Returns by how much the sums of the graphics and the memory activity grew per tick, None where that is unknown.
        Counters may have 32 bits and pass their end.
        """
        if self._mi300 and old.xgmi_read is not None and new.xgmi_read is not None:
            stamps = 0.0 if old.stamp is None or new.stamp is None else (new.stamp - old.stamp) * _STAMP
            # When the firmware filled the table in, and not when it was asked for.
            passed = stamps if 0.8 * seconds < stamps < 1.25 * seconds else seconds
            row[_RECEIVED] = _rate(old.xgmi_read, new.xgmi_read, passed)
            row[_SENT] = _rate(old.xgmi_written, new.xgmi_written, passed)
        before, now = old.residencies, new.residencies
        if now != before:
            pairs = zip(before, now, _HELD)
            row[_REASONS] = sum({bit for a, b, bit in pairs if a is not None and b is not None and a != b})
        elif now != _UNTOLD:
            row[_REASONS] = 0
        if old.ticks is None or new.ticks is None:
            return None, None
        ticks = (new.ticks - old.ticks) % _WRAP
        if not 0 < ticks <= _TICKS_PER_SECOND * max(seconds, 0.001):
            return None, None
        gfx = None if old.gfx_acc is None or new.gfx_acc is None else (new.gfx_acc - old.gfx_acc) % _WRAP / ticks
        if old.memory_acc is None or new.memory_acc is None:
            return gfx, None
        return gfx, (new.memory_acc - old.memory_acc) % _WRAP / ticks

    def _memory_used(self) -> int | None:
        """Return the used memory in bytes, or None if it can't be read."""
        total = 0
        try:
            for descriptor in self._memory:
                total += int(os.pread(descriptor, 24, 0))
        except (OSError, ValueError):
            return None
        return total if self._memory and total < MOST else None

    def _read(self) -> MetricsReading | None:
        """Read the table; None, with its revision in ``unknown``, if it is not one that we know. Raises OSError if the
        GPU does not answer."""
        n = os.preadv(self._metrics, self._buffers, 0)
        if n == 0:
            raise OSError(ENODATA, "its gpu_metrics is empty")
        table = self._table
        reading = None if table is None or n < table.size else table.read(self._data)
        if reading is None:
            self._table = table = table_of(self._data, n)
            reading = None if table is None else table.read(self._data)
        if reading is None or table is None:
            self.unknown = revision_of(self._data, n)
            return None
        self.unknown = ""
        if reading.gfx is None or self.card.device.mig is not None:
            busy, busy_acc = table.of_partitions(self._data)
            if busy is not None:
                reading = reading._replace(gfx=busy, gfx_acc=busy_acc)
        return reading


class AmdBackend:
    """A ``Backend`` on these GPUs. Making one opens and reads each once to find what it measures; those that don't
    answer are lost, which ``changes`` tells."""

    name = "amd"

    def __init__(self, gpus: Sequence[AmdGpu]) -> None:
        self._gpus = gpus
        self._changes: list[News] = []
        self._look_at = self._processes_at = 0.0
        self.gpus: Sequence[Device] = [gpu.card.device for gpu in gpus]
        measured: set[str] = set()
        for position, gpu in enumerate(gpus):
            try:
                gpu.open()
                measured |= gpu.measures()
            except OSError as error:
                self._mark_lost(position, error, 0.0)
        self.measures: Sequence[str] = [name for name in NAMES if name in measured]

    def sample(self, now: float) -> Sequence[Row]:
        """Read one row for each GPU that answers. ``now``: unix s. Looks now and then for GPUs that were lost and for
        processes. Never raises for a GPU that does not answer: it is lost, which ``changes`` tells."""
        began = monotonic()
        rows: list[Row] = []
        if now >= self._look_at:
            self._look_at = now + LOOK_AGAIN
            self._reopen_gpus(now)
        for position, gpu in enumerate(self._gpus):
            if gpu.lost_at is not None:
                continue
            taken = monotonic() - began
            row: list[Any] = [position, now + taken if taken > NO_TIME else now, *_NOTHING]
            known = not gpu.unknown
            try:
                gpu.read(row[1], row)
            except OSError as error:
                self._mark_lost(position, error, now)
                continue
            if known and gpu.unknown:
                self._changes.append(
                    BackendChange("backend", position, f"its gpu_metrics can't be read: {gpu.unknown}")
                )
            if row[_POWER] is not None or row[FIRST_PLACE:] != _NOTHING:
                rows.append(tuple(row))
        if now >= self._processes_at:
            self._processes_at = now + LOOK_FOR_PROCESSES
            self._changes += processes([gpu.card for gpu in self._gpus], now)
        return rows

    def changes(self) -> Sequence[News]:
        """Return what has changed since the last call: GPUs lost and back, tables that can't be read, and the
        processes on them."""
        changes, self._changes = self._changes, []
        return changes

    def close(self) -> Sequence[Row]:
        """Close all files. Returns no rows."""
        for gpu in self._gpus:
            gpu.close()
            for descriptor in gpu.counters:
                os.close(descriptor)
        return ()

    def _mark_lost(self, position: int, error: OSError, now: float) -> None:
        """Close the files of the GPU at ``position`` and note the change ``gpu_lost``, with the reason from ``error``.
        ``now``: since when it is lost, unix s; 0.0 for a GPU that has never answered."""
        gpu = self._gpus[position]
        gpu.close()
        gpu.lost_at = now
        why = "it is being reset" if isinstance(error, PermissionError) else error.strerror
        self._changes.append(BackendChange("gpu_lost", position, f"no longer answers: {why}"))

    def _reopen_gpus(self, now: float) -> None:
        """Open the files of GPUs that are lost, and of those whose files were replaced because the driver was loaded
        anew.

        A lost GPU that answers again is a change ``gpu_back``, one that no longer does is lost from ``now`` (unix s) on;
        a lost one is tried again at each call.
        """
        for position, gpu in enumerate(self._gpus):
            if gpu.lost_at is None and not gpu.is_stale():
                continue
            try:
                gpu.open()
                gpu.measures()
            except OSError as error:
                if gpu.lost_at is None:
                    self._mark_lost(position, error, now)
                gpu.close()
                continue
            if gpu.lost_at is not None:
                away = f" after {now - gpu.lost_at:.0f} s" if gpu.lost_at else ""
                gpu.lost_at = None
                self._changes.append(BackendChange("gpu_back", position, f"answers again{away}"))


def open_amd(visible: Sequence[str] | None) -> OpenedBackend:
    """Open ``amd`` on this process's GPUs. ``visible``: gssr.launch.gpu_ids. Raises BackendError when it has none."""
    own, shown, remarks = cards.usable_cards(visible)
    counters = _pm_counters(own, shown)
    backend = AmdBackend([AmdGpu(card, counters.get(card.device.uuid, ())) for card in own])
    why = how_to_measure("amd")
    return OpenedBackend(backend, [*remarks, *_remarks(own, shown, bool(counters))], passed_over=[why] if why else ())


def _remarks(own: Sequence[Card], shown: Sequence[Card], counted: bool) -> list[str]:
    """List, in sentences for the user, what is not recorded of the GPUs ``own`` as usual; [] if there is nothing.
    ``shown``: all of the node's GPUs that can be seen; ``counted``: Cray's counters tell power and energy."""
    said = []
    for unknown in sorted({card.unknown for card in own if card.unknown}):
        names = _named(card for card in own if card.unknown == unknown)
        said.append(f"{names}: gpu_metrics is of a form that isn't known here ({unknown}): nothing in it is recorded")
    first = cards.first_dies(shown)
    seconds = [card for card in own if card.device.uuid in first]
    if seconds:
        tell = {other.device.uuid: other for card in seconds if (other := first[card.device.uuid]) is not None}
        of = f"told by the first, {_named(tell.values())}" if tell else "told by the first, which isn't shown here"
        what = "second dies of their cards" if len(seconds) > 1 else "the second die of its card"
        said.append(f"{_named(seconds)}: {what}: power and energy are {of}")
    split = {card.device.mig for card in own if card.device.mig}
    for partition in sorted(split):
        names = _named(card for card in own if card.device.mig == partition)
        said.append(f"{names}: split into partitions ({partition}), sampled as a whole")
    if counted:
        order = "its modules are taken in the order of PCI addresses"
        said.append(f"power and energy are from Cray's pm_counters: {order}")
    return said


def _named(of: Any) -> str:
    indices = sorted(card.device.device_index for card in of)
    return f"GPU{'s' * (len(indices) != 1)} {', '.join(map(str, indices))}"


def _pm_counters(own: Sequence[Card], shown: Sequence[Card]) -> dict[str, list[int]]:
    """Open Cray's counters of power and energy for the GPUs ``own``. ``shown``: all of the node's GPUs that can be seen.
    Returns the descriptors of both by the GPU's UUID; {} if there are not as many as cards, or they can't be read."""
    folder = cards.path("sys/cray/pm_counters")
    modules = sorted((card for card in shown if not card.is_second_die), key=lambda card: card.address)
    there = [os.path.exists(f"{folder}/accel{n}_power") for n in range(len(modules) + 1)]
    if not all(there[:-1]) or there[-1]:
        return {}
    uuids = {card.device.uuid for card in own}
    try:
        return {
            card.device.uuid: [
                os.open(f"{folder}/accel{n}_{what}", os.O_RDONLY | os.O_CLOEXEC) for what in ("power", "energy")
            ]
            for n, card in enumerate(modules)
            if card.device.uuid in uuids
        }
    except OSError:
        return {}


def processes(own: Sequence[Card], now: float) -> list[News]:
    """List the processes that have memory on these GPUs, as the kernel driver KFD tells: one ProcessSnapshot for each
    GPU, by its position in ``own``, also for a GPU without any. Empty where there is no KFD. ``now``: unix s."""
    folder = cards.path("sys/class/kfd/kfd/proc")
    try:
        pids = [name for name in os.listdir(folder) if name.isdigit()]
    except OSError:
        return []
    found: list[News] = []
    for position, card in enumerate(own):
        running = []
        for pid in pids:
            used = sum(cards.number(f"{folder}/{pid}/vram_{kfd}") or 0 for kfd in card.kfd_ids if kfd)
            if used:
                running.append(Running(int(pid), used, None))
        found.append(ProcessSnapshot(position, now, tuple(sorted(running))))
    return found


def _first_number(descriptor: int) -> float | None:
    """Return the number that a file of text begins with; None if it can't be read or is out of bounds."""
    try:
        found = float(os.pread(descriptor, 64, 0).split()[0])
    except (OSError, ValueError, IndexError):
        return None
    return found if 0 <= found < MOST else None


def _rate(old: float | None, new: float | None, seconds: float) -> int | None:
    """Compute the bytes per second between two counts in KB, ``seconds`` apart. None if a count is unknown, or the
    counter fell or grew by more than can be."""
    if old is None or new is None or not 0 <= new - old < MOST * seconds:
        return None
    return round((new - old) * KILOBYTE / seconds)
