"""A rank's live block: what its GPUs have done since the run began, in a small file beside the rank's own, for whoever
watches more ranks than can be asked by SQL.

It is rewritten in place once a second: at most 4 KiB for 8 GPUs. It holds counts and sums since the beginning, not those of
the last seconds: what came between two blocks is their difference, however many were missed in between. It counts exactly
the rows up to ``last_rowid``, which are committed, so that reading can go on with the rows themselves at any time. Nothing
protects it but its checksum: a block that does not fit to it is read again. Little endian, one after the other:

    head         magic, kind (of the layout), length in bytes, checksum of all that follows (crc32), sequence number,
                 last_rowid, unix time
    each GPU     key, rows, gaps, rows with flags, first and last time; of each of COUNTED its n, of each its sum, of each
                 its newest value (NaN without any); of each of THROTTLES the number of rows in which it was set
"""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Sequence
from operator import itemgetter
from struct import Struct
from zlib import crc32

from gssr.metrics import CLOCK_EVENT_REASONS, DERIVED, FLOP_ACTIVE, METRICS, PLACES, THROTTLES
from gssr.store.disk import make_file
from gssr.store.format.rollup import NAN, Row, known_values_and_sum, row_sums
from gssr.store.format.schema import LIVE_SUFFIX

MANY_FILES = 64
"""A run of more ranks than these is watched by their blocks; others need none."""
PUBLISH_SECONDS = 1.0
COUNTED = tuple(metric.name for metric in (*DERIVED, *METRICS) if metric.kind in ("gauge", "rate"))
"""Metrics that have a mean."""

MAGIC = b"GSSR"
KIND = crc32(" ".join((*COUNTED, *THROTTLES)).encode())
"""Blocks of a version with another catalogue are not understood."""
HEAD = Struct("<4sIIIQqd")
CHECKED_FROM = 16
"""The checksum is of all bytes from here on."""
_M, _T = len(COUNTED), len(THROTTLES)
GPU = Struct(f"<IIIIdd{_M}I{_M}d{_M}f{_T}I")

_EARLY = 0.01  # s: a tick may come this much early
_STORED = [(place, PLACES[name]) for place, name in enumerate(COUNTED) if name in PLACES]
_FLOP = COUNTED.index(FLOP_ACTIVE.name)
_PARTS = [PLACES[part] for part in FLOP_ACTIVE.parts]
_FLAGS = PLACES["clock_event_reasons"]
_BITS = [next(bit for bit, name, _ in CLOCK_EVENT_REASONS if name == throttle) for throttle in THROTTLES]


class _Counts:
    """One GPU's."""

    __slots__ = ("first", "held", "last", "latest", "n", "n_flags", "n_gaps", "n_rows", "new", "total")

    def __init__(self) -> None:
        self.new: list[Row] = []
        self.n_rows = self.n_gaps = self.n_flags = 0
        self.first = self.last = NAN
        self.n = [0] * _M
        self.total = [0.0] * _M
        self.latest = [NAN] * _M
        self.held = [0] * _T

    def count_new(self, gap_seconds: float) -> None:
        """Add the new rows to the counts. There must be at least one."""
        rows, self.new = self.new, []
        rows.sort(key=itemgetter(1))
        columns = list(zip(*rows))
        times = columns[1]
        before = times[0] if math.isnan(self.last) else self.last
        self.n_gaps += sum(later - earlier > gap_seconds for earlier, later in zip((before, *times), times))
        self.n_rows += len(rows)
        self.first = min(self.first, times[0]) if self.first == self.first else times[0]
        self.last = max(before, times[-1])
        for place, column in _STORED:
            self._add(place, columns[column])
        self._add(_FLOP, row_sums([columns[column] for column in _PARTS]))
        for value, times_seen in Counter(columns[_FLAGS]).items():
            if value is not None and math.isfinite(value):
                self.n_flags += times_seen
                for which, bit in enumerate(_BITS):
                    self.held[which] += times_seen * bool(int(value) & bit)

    def _add(self, place: int, column: Sequence[float | None]) -> None:
        """Add values to the metric at ``place`` in COUNTED."""
        if column[0] is None and column.count(None) == len(column):
            return  # not measured
        values, total = known_values_and_sum(column)
        if values:
            self.n[place] += len(values)
            self.total[place] += total
            self.latest[place] = values[-1]

    def packed(self, key: int) -> bytes:
        counts = (key, self.n_rows, self.n_gaps, self.n_flags)
        return GPU.pack(*counts, self.first, self.last, *self.n, *self.total, *self.latest, *self.held)


class LiveBlock:
    """The live block beside the recording at ``recording``. Nothing here raises: if no block can be written there is
    none. Set ``gap_seconds``: more than this between two rows of a GPU is a gap."""

    def __init__(self, recording: str) -> None:
        self.gap_seconds = math.inf
        self._path = recording + LIVE_SUFFIX
        self._counts: dict[int, _Counts] = {}
        self._sequence = 0
        self._published = -math.inf

    def add(self, gpu: int, row: Row) -> None:
        """Count a row of the GPU with this key."""
        counts = self._counts.get(gpu)
        if counts is None:
            counts = self._counts[gpu] = _Counts()
        counts.new.append(row)

    def publish(self, now: float, last_rowid: int) -> None:
        """Write the block, at most once a second. All rows that were added must be committed, the last one as
        ``last_rowid``. ``now`` is unix s."""
        if self._sequence < 0 or 0 <= now - self._published < PUBLISH_SECONDS - _EARLY:
            return
        self._published = now
        for counts in self._counts.values():
            if counts.new:
                counts.count_new(self.gap_seconds)
        self._sequence += 1
        payload = b"".join([counts.packed(key) for key, counts in self._counts.items()])
        head = (MAGIC, KIND, HEAD.size + len(payload))
        checked = HEAD.pack(*head, 0, self._sequence, last_rowid, now)[CHECKED_FROM:] + payload
        try:
            if self._sequence == 1:
                if os.path.lexists(self._path):
                    os.unlink(self._path)  # of a run that was killed
                os.close(make_file(self._path, os.O_EXCL | os.O_NOFOLLOW))
            # Opened anew each time: on network filesystems closing it is what makes it visible elsewhere.
            descriptor = os.open(self._path, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                os.pwrite(descriptor, HEAD.pack(*head, crc32(checked), self._sequence, last_rowid, now) + payload, 0)
            finally:
                os.close(descriptor)
        except (FileNotFoundError, PermissionError):
            self._sequence = -1  # deleted, or merged: it is not wanted any more
        except OSError:
            pass  # no space, say

    def remove(self) -> None:
        """Delete the block, as the end is written to the recording itself. Nothing is published afterwards."""
        self._sequence = -1
        try:
            os.unlink(self._path)
        except OSError:
            pass
