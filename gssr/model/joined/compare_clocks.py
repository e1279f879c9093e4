"""Whether a trace's clock is a recording's: the share of time that its GPUs were busy is compared with their samples, at
other times, too. Times are whole ns of unix time.

Where they belong together the correlation over shifts has its peak. A program whose steps are all alike has one at every
step: then nothing is found out.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from gssr.arrays import Floats, Ints
from gssr.model.traces.segments import Segments

NEAR = 5_000_000_000
"""ns: so far a clock is found that is not what its unix time says."""
FEWEST = 8
"""Samples within a trace that tell anything."""
_MOST_SAMPLES, _MOST_SHIFTS, _MOST_PRODUCTS = 4_000, 600, 2e9
_LEAST, _SURE, _APART = 0.5, 4.0, 3.0
"""A correlation is one from so much on, if it is so many standard errors (of Fisher's z) above none; of two peaks the higher
counts where it is so many above the other (thresholds of our own)."""
_SAME = 0.8
"""What is found so near to the unix time, in sampling intervals, is that: the rest is for what it was found to."""
_VALLEY, _ALIKE = 0.1, 0.03
"""Two peaks are apart where the correlation falls by so much between them, and alike where the share of the samples that
neither explains differs by no more than this."""

_LEAST_VARIED = 0.02
"""Shares of a trace that vary by less (standard deviation) look like any others, as correlation is blind to scale."""
_CERTAIN, _VARIES = 0.15, 0.1
"""That nothing fits says something where a correlation is known to this standard error, of shares that vary by so much."""

Check = Literal["agrees", "elsewhere", "several", "nothing", "different", "too few"]
"""What the comparison shows: the clock is right, to a sampling interval; it is off; several times fit as well; none does, or
none would have to; or there is too little to compare."""


class Pair(NamedTuple):
    """A GPU as the trace and as the samples show it. ``busy``: the times in which the trace has work on it (several: their
    mean counts); ``value`` [n]: its samples, each the mean over the sampling interval that ends at its ``time``."""

    busy: tuple[Segments, ...]
    time: Ints
    value: Floats

    def shares(self, ends: Ints, interval: int) -> Floats:
        """Measure the share, 0-1, of the intervals that end at ``ends`` in which the trace has the GPU busy."""
        total = np.zeros(ends.shape)
        for segments in filter(lambda each: len(each.start), self.busy):
            total += segments.before(ends) - segments.before(ends - interval)
        return total / (interval * max(len(self.busy), 1))


class Compared(NamedTuple):
    """What comparing a trace with the samples has shown. ``check``: the outcome; ``shift``: what is to be added to the
    trace's times, 0 unless ``check`` is "elsewhere"; ``r``: the highest correlation; ``every``: how far the next peak is
    away, where there are several; ``is_flat``: there would be samples enough, but they or the trace don't vary. All times
    ns."""

    check: Check
    shift: int = 0
    r: float = 0.0
    every: int = 0
    is_flat: bool = False


class _Curve(NamedTuple):
    """How well a trace fits the samples at each shift [n_shifts]: the correlation ``r`` of ``n`` samples, -1 where there are
    too few; ``varies``: the lesser of the standard deviations of both."""

    shifts: Ints
    r: Floats
    n: Ints
    varies: Floats


def compare(pairs: Sequence[Pair], window: tuple[int, int], interval: int) -> Compared:
    """Check the clock of a trace that tells unix times: correlate how busy its GPUs are with the samples around its
    ``window`` (begin and end, ns), which are ``interval`` ns apart. Returns "agrees" if it fits where it is, "elsewhere"
    with the shift (ns) if it fits in another place alone, otherwise "several", "nothing", "different" or "too few"."""
    pairs = [pair for pair in pairs if len(pair.time) > 1]
    far = NEAR + max(2 * interval, NEAR // 5)
    step = max(interval // 5, 2 * far // _MOST_SHIFTS, 1)
    curve = _correlate(pairs, window, interval, step * np.arange(-(far // step), far // step + 1))
    found = _judged(pairs, interval, curve)
    if found.check != "elsewhere":
        return found
    found = _refined(pairs, window, interval, found, step)
    if abs(found.shift) <= _SAME * interval:
        return found._replace(check="agrees", shift=0)
    best, zero = int(curve.r.argmax()), int(np.searchsorted(curve.shifts, 0))
    if _is_alike(float(curve.r[best]), float(curve.r[zero]), _standard_error(pairs, int(curve.n[best]))):
        return found._replace(check="several", shift=0, every=abs(found.shift))
    return found


def find(pairs: Sequence[Pair], window: tuple[int, int], interval: int) -> Compared:
    """Look for the place in a run where a trace of unknown clock fits, by correlating how busy its GPUs are with all
    samples.

    ``window``: begin and end of the trace, ns by its own clock; ``interval``: the time between samples, ns. Returns what
    was found: "elsewhere" with the shift of the clock (ns) if it fits in a single place, otherwise "several", "nothing",
    "different" or "too few".
    """
    pairs = [pair for pair in pairs if len(pair.time) > 1]
    if not pairs:
        return Compared("too few")
    times = np.concatenate([pair.time for pair in pairs])
    first, last, (begin, stop) = int(times.min()) - interval, int(times.max()), window
    products = (last - first) / interval * (stop - begin) / interval
    width = interval * max(int(np.ceil(np.sqrt(products / _MOST_PRODUCTS))), 1)
    n, m = -(-(last - first) // width), (stop - begin) // width
    if m < FEWEST or m > n:
        return Compared("too few")
    total, count, busy = np.zeros(n), np.zeros(n), np.zeros(m)
    for pair in pairs:
        at = (pair.time - first - 1) // width
        total += np.bincount(at, pair.value, n)
        count += np.bincount(at, minlength=n)
        busy += pair.shares(begin + width * np.arange(1, m + 1), width)
    values = np.divide(total, count, out=np.full(n, total.sum() / count.sum()), where=count > 0)
    values -= values.mean()
    busy -= busy.mean()
    if busy.std() < len(pairs) * _LEAST_VARIED / max(len(pair.busy) for pair in pairs):
        return Compared("too few", is_flat=True)
    sums, squares = (np.append(0.0, np.cumsum(each)) for each in (values, values * values))
    spread = squares[m:] - squares[:-m] - (sums[m:] - sums[:-m]) ** 2 / m
    spread = np.sqrt(np.maximum(spread, 0.0) * float(busy @ busy))
    r = np.divide(np.correlate(values, busy, "valid"), spread, out=np.zeros_like(spread), where=spread > 1e-9)
    shifts = first - begin + width * np.arange(len(r))
    found = _judged(pairs, interval, _Curve(shifts, r, np.full(len(r), m), np.zeros(len(r))))
    return _refined(pairs, window, interval, found, width) if found.check == "elsewhere" else found


def which(pairs: Sequence[Pair], window: tuple[int, int], interval: int, shift: int) -> int | None:
    """Find the pair of GPU and samples that fits at this ``shift`` (ns), clearly better than each other one. Returns its
    index in ``pairs``, None where there is none."""
    curves = [_correlate([pair], window, interval, np.array([shift])) for pair in pairs]
    fits = [float(curve.r[0]) for curve in curves]
    best = max(range(len(fits)), key=fits.__getitem__, default=None)
    if best is None or fits[best] < _LEAST:
        return None
    error = _standard_error([pairs[best]], int(curves[best].n[0]))
    others = fits[:best] + fits[best + 1 :]
    is_clear = _z(fits[best]) >= _SURE * error and not any(_is_alike(fits[best], other, error) for other in others)
    return best if is_clear else None


def _correlate(pairs: Sequence[Pair], window: tuple[int, int], interval: int, shifts: Ints) -> _Curve:
    """Correlate the trace with the samples at each of ``shifts`` (ns): over all pairs, each about its own mean, by the
    samples whose intervals lie in the ``window``. Of many samples only every second, third ... counts. The correlation
    is -1 at a shift with too few samples, or where either of the two hardly varies."""
    begin, stop = window
    stride = max(-(-sum(len(pair.time) for pair in pairs) // _MOST_SAMPLES), 1)
    sums, least = np.zeros((4, len(shifts))), np.zeros(len(shifts))
    for pair in pairs:
        ends = pair.time[::stride, None] - shifts
        inside = (ends - interval >= begin) & (ends <= stop)
        n = inside.sum(axis=0)
        x, y = pair.shares(ends, interval), np.broadcast_to(pair.value[::stride, None], ends.shape)
        x, y = (np.where(inside, each - (each * inside).sum(axis=0) / np.maximum(n, 1), 0.0) for each in (x, y))
        sums += [(x * y).sum(axis=0), (x * x).sum(axis=0), (y * y).sum(axis=0), n]
        least += n * (_LEAST_VARIED / max(len(pair.busy), 1)) ** 2
    covariance, own, theirs, n = sums
    enough = (n >= FEWEST) & (2 * n >= n.max(initial=0.0)) & (own > least) & (theirs > 1e-6 * n)
    spread = np.sqrt(own * theirs)
    r = np.divide(covariance, spread, out=np.full(len(shifts), -1.0), where=enough)
    return _Curve(shifts, r, n.astype(np.int64), np.sqrt(np.minimum(own, theirs) / np.maximum(n, 1.0)))


def _judged(pairs: Sequence[Pair], interval: int, curve: _Curve) -> Compared:
    """Judge the peaks of the correlation ``curve`` of samples that are ``interval`` ns apart. Returns "elsewhere" for a
    single clear peak, wherever it is, with its shift; "several" for more of them, with how far apart they are;
    "different" or "nothing" for none, and "too few" if not enough samples can be compared."""
    shifts, r, n, varies = curve
    best = int(r.argmax())
    if r[best] <= -1 or n[best] < FEWEST:
        return Compared("too few", is_flat=bool(n.max() >= FEWEST))
    error = _standard_error(pairs, n[best])
    if r[best] < _LEAST or _z(r[best]) < _SURE * error:
        certain = error <= _CERTAIN and varies[best] >= _VARIES and r[best] < _LEAST
        return Compared("different" if certain else "nothing", r=float(r[best]))
    padded = np.concatenate([[-1.0], r, [-1.0]])
    peaks = np.flatnonzero((r >= padded[:-2]) & (r >= padded[2:]) & (abs(shifts - shifts[best]) > interval))
    others = [
        at
        for at in peaks.tolist()
        if _is_alike(r[best], r[at], error)
        and r[min(at, best) : max(at, best) + 1].min() < r[at] - _VALLEY
    ]  # fmt: skip
    if others:
        return Compared("several", 0, float(r[best]), min(abs(int(shifts[at] - shifts[best])) for at in others))
    return Compared("elsewhere", int(shifts[best]), float(r[best]))


def _is_alike(high: float, low: float, error: float) -> bool:
    """Tell whether a lower correlation is as good as a higher one, as far as can be known."""
    return (low > 0 and low**2 >= high**2 - _ALIKE) or _z(high) - _z(low) < _APART * 2**0.5 * error


def _z(r: float) -> float:
    """Return Fisher's z of a correlation, whose error does not depend on how high it is."""
    return float(np.arctanh(np.clip(r, -0.999, 0.999)))


def _standard_error(pairs: Sequence[Pair], n: int) -> float:
    """Estimate the standard error of Fisher's z of ``n`` samples. Samples near each other count less (Bartlett's formula,
    for a series with the samples' own correlation from one to the next)."""
    before, after = (
        np.concatenate([pair.value[part] - pair.value.mean() for pair in pairs])
        for part in (slice(None, -1), slice(1, None))
    )
    spread = float(np.sqrt((before @ before) * (after @ after)))
    own = float(before @ after) / spread if spread > 0 else 0.0
    share = (1 - own * own) / (1 + own * own)
    return float(1 / np.sqrt(max(n * share - 3, 1.0)))


def _refined(pairs: Sequence[Pair], window: tuple[int, int], interval: int, found: Compared, step: int) -> Compared:
    """Look for the peak of the correlation more finely, within ``step`` ns of the shift in ``found``. ``pairs``,
    ``window`` and ``interval`` are as in ``find``. Returns ``found`` with the shift and the correlation of the higher
    peak, or as it is if there is none."""
    fine = max(step // 20, 1)
    curve = _correlate(pairs, window, interval, found.shift + fine * np.arange(-(step // fine), step // fine + 1))
    best = int(curve.r.argmax())
    return found._replace(shift=int(curve.shifts[best]), r=float(curve.r[best])) if curve.r[best] > found.r else found
