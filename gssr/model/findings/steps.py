"""How long a step of the program takes: from marks that count steps, or from a rhythm of what was sampled that can be
nothing else.

The rhythm is the lag after which samples come again: their autocorrelation is high after each whole number of steps and low
half a step later. Steps shorter than a sample beat with the sampling, and a beat looks the same; but each sample of a beat
is the mean of a whole step, so that samples differ little. Only where they differ by more than those of any beat could is
the step told; otherwise nothing is said.
"""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from gssr.arrays import Floats, Ints
from gssr.model.results import StepTime, nodes_of
from gssr.model.statistics.aggregate import numbers_within
from gssr.model.window import extent
from gssr.store.format.rows import Event
from gssr.store.format.sample_arrays import Samples
from gssr.store.read.recording import RunReader
from gssr.store.read.time_window import Window

METRICS = ("gr_engine_active", "sm_active", "tensor_active", "dram_active")
"""What tells of a step: shares of the whole interval. Readings of an instant, as NVML's, beat with steps at full height."""
_ACTIVITY = ("gr_engine_active", "sm_active")
AWAKE = 0.4
"""Where these are on average below this share of their usual level, the job does not work, and there are no steps."""
FEWEST = 5.0
"""Samples a step, at least. The thresholds that follow are our own, tried on simulated jobs (tests/fakes/jobs)."""
MOST_ROWS = 40_000
"""So many raw rows are read where all are too many: some hundredths of a second."""
SHORT, LONGEST, TIMES, MANY = 12.0, 40.0, 6.0, 25.0
"""Seconds: up to the first a rhythm is a step's when it is met ``TIMES`` times, up to the second when it is met ``MANY``
times: checkpoints come again more seldom. A longer one is never told from theirs."""
CLEAR, CHANCE = 0.2, 6.0
"""The contrast of the autocorrelation (-2 to 2) is at least so high, and so many times what chance would make of it."""
FIRST = 0.5
"""Of lags with at least this share of the highest contrast, also without every second or every third of their multiples, the
shortest is the step, others are its multiples: an exchange shorter than a sample shows best after whole samples."""
MARGIN = 1.5
"""Swings so many times those of any beat are a step's: noise adds to them."""
WINDOWS, WINDOW, WINDOW_STEPS = 60, 64, 7
"""The series has so many points at most, each of so many samples and steps at least."""
SEEN = 0.8
"""The step shows in this share of the windows at least."""
CHANGED, KEPT = 0.03, 3
"""A change is told from this share on, between medians of so many points at least."""
MOST_APART = 20
"""Rows with more gaps that are longer than a step may last tell of none."""
MOST_EMPTY = 16
"""Where fewer than one in so many intervals of a node hold a row, they were not sampled at that interval."""
_LAGS = 4
_NO_THIRD = [0, 1, 3]
"""Of one, two and so on times a lag, up to _LAGS."""
_FINER = 8
_COUNTED = re.compile(r"^(?:\w+[ :/._-])?(?:step|iter|iteration|batch)[ :_#=-]*(\d+)$", re.IGNORECASE)


class _Rhythm(NamedTuple):
    """Node means: ``values`` by metric [n_nodes, n] about their ``level`` [n_nodes], 0 where unknown; ``known`` alike.
    Samples of index k lie about ``times`` [n] (unix s)."""

    values: Mapping[str, Floats]
    known: Mapping[str, Floats]
    level: Mapping[str, Floats]
    times: Floats


def step_time(reader: RunReader, positions: Ints, window: Window, rows: Samples | None) -> StepTime | None:
    """Find how long a step takes in a window, or return None if nothing tells.

    ``positions``: the GPUs of the run by which it is seen; ``rows``: their samples there, numbered within
    ``positions``. If these are too many to be had (None), short stretches of them are read.
    """
    interval = reader.sampling_seconds or 1.0
    gpus = [reader.gpus[position] for position in positions.tolist()]
    nodes = nodes_of(gpus)[1]
    pieces = [rows] if rows is not None else []
    if rows is None and len(positions) and FEWEST * interval <= LONGEST:
        pieces = [_rows_in_the_middle(reader, positions, window.close_at(*extent(reader)))]
    events = [event for event in reader.events if window.start <= event.time < window.end]
    return steps(pieces, nodes, interval, events)


def _rows_in_the_middle(reader: RunReader, positions: Ints, span: Window) -> Samples:
    """Read the raw rows of some GPUs in the middle of a window that holds too many of them: about MOST_ROWS rows of
    all GPUs, which interleave, are gone through. They are numbered from 0 within ``positions``."""
    rate = max(reader.n_rows / max(extent(reader).seconds, 1.0), 1.0)
    seconds = min(MOST_ROWS / rate, span.seconds)
    middle = (span.start + span.end) / 2
    names = [name for name in METRICS if name in reader.metrics]
    read = reader.samples(names, positions, Window(middle - seconds / 2, middle + seconds / 2))
    return Samples(numbers_within(read.gpu, positions, len(reader.gpus)), read.time, read.values)


def steps(pieces: Sequence[Samples], nodes: Ints, interval: float, events: Sequence[Event] = ()) -> StepTime | None:
    """Find how long a step takes from stretches of a window, one after another, or return None if nothing tells. Marks
    that count steps go before any rhythm.

    ``nodes`` [n_gpus] is the number of each GPU's node, and the rows of ``pieces`` number GPUs alike; ``interval`` is
    that of sampling, s.
    """
    marked = _of_marks(events)
    if marked is not None:
        return marked
    pieces = [part for piece in pieces for part in _apart(piece)]
    if not pieces or FEWEST * interval > LONGEST:
        return None
    lasted = [float(piece.time[-1] - piece.time[0]) for piece in pieces]
    spans = sum(float(np.ptp(piece.time)) for piece in pieces)
    if spans / interval * (int(nodes.max()) + 1) > MOST_EMPTY * sum(len(piece.time) for piece in pieces):
        return None
    for longest, times in ((SHORT, TIMES), (LONGEST, MANY)):
        rhythm = _rhythm(pieces, nodes, interval, longest)
        found = _find(rhythm, min(LONGEST, max(lasted) / TIMES) / interval)
        if found is None or found[0] * interval > longest:
            continue
        lag, shown = found
        seconds = lag * interval
        if lag < 0.99 * FEWEST or sum(lasted) < times * seconds or not _is_no_beat(rhythm, lag, shown):
            return None
        series, n = _series(rhythm, lag, interval)
        if not len(series) or len(series) < SEEN * n:
            return None
        return _told(seconds, series, interval)
    return None


def _apart(piece: Samples) -> list[Samples]:
    """Cut a piece where nothing is known for longer than a step may last. Empty if there are more than MOST_APART such
    gaps, or no rows."""
    times = np.sort(piece.time)
    at = np.flatnonzero(np.diff(times) > LONGEST)
    if len(at) > MOST_APART or not len(times):
        return []
    part = np.searchsorted(times[at], piece.time)
    chosen = [part == number for number in range(len(at) + 1)] if len(at) else [slice(None)]
    return [Samples(piece.gpu[own], piece.time[own], {k: v[own] for k, v in piece.values.items()}) for own in chosen]


def _of_marks(events: Sequence[Event]) -> StepTime | None:
    """Find the step from marks such as "step 120", of the rank that has most of them; None if there are too few.

    Several processes may mark the same step: the first one counts. Numbers may begin anew.
    """
    counted: dict[int | None, list[tuple[float, int]]] = {}
    for event in sorted(events, key=lambda event: event.time):
        if event.kind == "mark" and (match := _COUNTED.match(event.message or "")):
            own, number = counted.setdefault(event.rank, []), int(match[1])
            if not own or number > own[-1][1] or number < own[-1][1] / 2:
                own.append((event.time, number))
    most = max(counted.values(), key=len, default=[])
    time, numbers = np.array(most, np.float64).reshape(-1, 2).T
    on = np.diff(numbers) > 0
    if on.sum() < TIMES:
        return None
    begins, every = time[:-1][on], np.diff(time)[on] / np.diff(numbers)[on]
    parts = np.array_split(np.arange(len(every)), min(WINDOWS, len(every)))
    series = np.array([(begins[part[0]], float(np.median(every[part]))) for part in parts])
    return _told(float(np.median(every)), series, 0.0)


def _rhythm(pieces: Sequence[Samples], nodes: Ints, interval: float, longest: float) -> _Rhythm:
    """Turn rows into values of nodes at every sample, the pieces one after another with as much that is unknown between
    them.

    ``nodes`` [n_gpus]: the number of each GPU's node; ``interval``: of sampling, s; ``longest``: the longest step looked
    for, s. Values are means over a node's GPUs, less their mean over some time around; they are unknown while a node
    does hardly anything. Metrics without such values, and those that are renewed too seldom, are left out.
    """
    first = np.full(int(nodes.max()) + 1, np.inf)
    np.minimum.at(first, nodes[pieces[0].gpu], pieces[0].time)
    first = np.where(np.isfinite(first), first, pieces[0].time.min())
    at, cells, time = 0, [], []
    for piece in pieces:
        own = np.rint((piece.time - first[nodes[piece.gpu]]) / interval).astype(np.int64)
        n = int(own.max() - own.min()) + 1
        cells.append(own - own.min() + at)
        time.append(float(first.min()) + interval * (own.min() + np.arange(2 * n)))
        at += 2 * n
    n, gpu, cell = at, np.concatenate([piece.gpu for piece in pieces]), np.concatenate(cells)
    cell = nodes[gpu] * n + cell
    shape = len(first), n
    width = min(2 * int(longest / interval) | 1, n)
    means, known = {}, {}
    for name in METRICS:
        if not all(name in piece.values for piece in pieces):
            continue
        column = np.concatenate([piece.values[name] for piece in pieces]).astype(np.float64)
        there = np.isfinite(column)
        count = np.bincount(cell[there], minlength=shape[0] * n).reshape(shape)
        total = np.bincount(cell[there], column[there], shape[0] * n).reshape(shape)
        means[name] = np.divide(total, count, out=np.zeros(shape), where=count > 0)
        known[name] = (count > 0).astype(np.float64)
    awake = np.ones(shape)
    for name in _ACTIVITY:
        if name in means:
            level = _smooth(means[name], known[name], width // 4)
            awake *= level >= AWAKE * np.percentile(level, 90, axis=1, keepdims=True)
    values, levels = {}, {}
    for name, mean in means.items():
        some = known[name] = known[name] * awake
        if not some.any():
            continue
        apart = np.where(some > 0, mean - _smooth(mean, some, width), 0.0)
        usual = float(np.median(np.abs(apart[some > 0]))) or float(apart.std())
        if usual > 0 and not _is_held(apart, some):
            values[name] = apart
            levels[name] = (mean * some).sum(axis=1) / np.maximum(some.sum(axis=1), 1)
    return _Rhythm(values, known, levels, np.concatenate(time))


def _smooth(values: Floats, known: Floats, width: int) -> Floats:
    """Return the means of values [m, n] over ``width`` samples about each, of those that are ``known`` [m, n] (0 or
    1)."""
    n = values.shape[1]
    low, high = np.maximum(np.arange(n) - width // 2, 0), np.minimum(np.arange(n) + width // 2 + 1, n)
    total, count = np.zeros((2, len(values), n + 1))
    np.cumsum(values * known, axis=1, out=total[:, 1:])
    np.cumsum(known, axis=1, out=count[:, 1:])
    return np.asarray((total[:, high] - total[:, low]) / np.maximum(count[:, high] - count[:, low], 1), np.float64)


def _is_held(values: Floats, known: Floats) -> bool:
    """Tell whether a reading is renewed only with every third sample or more seldom, so that it beats with the steps.

    ``values`` and ``known`` (1 for a value, 0 for none) are [rows, samples].
    """
    changes = (np.diff(values, axis=1) ** 2 * (known[:, 1:] * known[:, :-1])).sum(axis=0)
    whole = changes.sum()
    for every in range(3, 11):
        share = np.bincount(np.arange(len(changes)) % every, changes).max() / max(whole, 1e-300)
        if share > 0.6 and len(changes) > 5 * every:
            return True
    return False


def _find(rhythm: _Rhythm, longest: float) -> tuple[float, list[str]] | None:
    """Find the lag (in samples, at most ``longest``) of a rhythm, and the metrics that show it; None if there is none."""
    n = len(rhythm.times)
    lags = np.exp(np.arange(np.log(2.0), np.log(max(longest, 2.0)), 0.004))
    if len(lags) < 8:
        return None
    own = {name: _correlation(rhythm, name, int(_LAGS * longest) + 2) for name in rhythm.values}
    terms = {name: _contrast(each, lags) for name, each in own.items() if each is not None}
    if not terms:
        return None
    contrasts = {name: each.mean(axis=0) for name, each in terms.items()}
    contrast = np.max(list(contrasts.values()), axis=0)
    peaks = np.flatnonzero((contrast[1:-1] >= contrast[:-2]) & (contrast[1:-1] > contrast[2:])) + 1
    if not len(peaks) or contrast[peaks].max() <= 0:
        return None
    bare = np.max([np.minimum(each[::2].mean(axis=0), each[_NO_THIRD].mean(axis=0)) for each in terms.values()], axis=0)
    first = peaks[bare[peaks] >= FIRST * contrast[peaks].max()]
    if not len(first):
        return None
    at = int(first[0])
    known = max(float(each.sum()) for each in rhythm.known.values())
    highest = max(float(each[at]) for each in contrasts.values())
    enough = max(CLEAR, CHANCE / np.sqrt(known))
    if highest < enough:
        return None
    shown = [own[name] for name, each in contrasts.items() if each[at] >= highest / 2]
    together = np.mean([each for each in shown if each is not None], axis=0)
    return _refine_lag(together, float(lags[at]), n), [name for name, each in contrasts.items() if each[at] >= enough]


def _correlation(rhythm: _Rhythm, name: str, most: int) -> Floats | None:
    """Return the autocorrelation of a metric up to a lag of ``most`` samples, in steps of 1/_FINER sample, of what is
    known and without the noise of single samples at lag 0. None if there is nothing."""
    values, known = rhythm.values[name], rhythm.known[name]
    size = 2 * values.shape[1]
    most = min(most, values.shape[1] - 1)
    total, count = (
        np.fft.irfft((np.abs(np.fft.rfft(each, size)) ** 2).sum(axis=0), size)[:most] for each in (values, known)
    )
    own = total / np.maximum(count, 1.0)
    if own[0] <= 0:
        return None
    own = own / own[0]
    own[0] = max(own[1:3].max(initial=0.0), 0.0)
    spectrum = np.fft.rfft(np.concatenate((own, own[-2:0:-1])))
    return np.asarray(np.fft.irfft(spectrum, _FINER * 2 * (most - 1))[: _FINER * most] * _FINER, np.float64)


def _contrast(own: Floats, lags: Floats) -> Floats:
    """Measure how much more alike values are after a lag than half a lag earlier. ``own`` [n] is the autocorrelation in
    steps of 1/_FINER sample, ``lags`` [n_lags] are in samples. Returns [_LAGS, n_lags]: row k is for k + 1 times each
    lag."""
    at, times = np.arange(len(own)) / _FINER, np.arange(1, _LAGS + 1)[:, None]
    return np.asarray(np.interp(times * lags, at, own, right=0.0) - np.interp((times - 0.5) * lags, at, own, right=0.0))


def _refine_lag(own: Floats, lag: float, n: int) -> float:
    """Refine a lag (samples) by the peaks of the autocorrelation at its multiples, as long as these stand out. ``n``:
    samples there are."""
    first = 0.0
    for times in range(1, _LAGS + 1):
        low, high = int((times - 0.2) * lag * _FINER), int((times + 0.2) * lag * _FINER) + 1
        if high + 1 >= len(own) or high / _FINER > n / 2:
            break
        at = low + int(own[low:high].argmax())
        left, middle, right = own[at - 1 : at + 2].tolist()
        if times == 1:
            first = middle
        if middle < 0.4 * first or at in (low, high - 1):
            break
        bend = left - 2 * middle + right
        lag = (at + (0.5 * (left - right) / bend if bend else 0.0)) / _FINER / times
    return lag


def _is_no_beat(rhythm: _Rhythm, lag: float, metrics: Sequence[str]) -> bool:
    """Tell whether one of these metrics swings, with a rhythm of ``lag`` samples, by more than a beat of shorter steps
    with the sampling could make it."""
    n = len(rhythm.times)
    frequency = np.asarray(np.fft.rfftfreq(n), np.float64)
    band = np.abs(frequency - 1 / lag) <= max(0.04 / lag, 1.5 / n)
    for name in metrics:
        spectrum = np.fft.rfft(rhythm.values[name])[:, band]
        known = np.maximum(rhythm.known[name].sum(axis=1), 1)
        swing = 2 * np.sqrt((np.abs(spectrum) ** 2).sum(axis=1) / n / known)
        if (swing > MARGIN * _most_of_a_beat(lag, rhythm.level[name])).any():
            return True
    return False


def _most_of_a_beat(lag: float, level: Floats) -> Floats:
    """Return how much a share, averaged over an interval, swings at most about these ``level`` values with a beat of
    ``lag`` samples, made by steps shorter than 5/4 of an interval.

    In a step the share changes at most as a square wave between 0 and 1 does; this is what the mean lets through of
    its first harmonic.
    """
    square = 2 / np.pi * np.sin(np.pi * np.minimum(level, 1.0))
    return np.asarray(square * np.sinc(1 - 1 / lag), np.float64)


def _series(rhythm: _Rhythm, lag: float, interval: float) -> tuple[Floats, int]:
    """Find the step's length window by window, where the whole rhythm has the step ``lag`` (samples); ``interval`` is
    the time of a sample, s. Returns the times at which windows begin (unix s) and the step in each (s) [m, 2], without
    the windows in which no similar step is seen, and how many windows had enough values to be looked at."""
    n = len(rhythm.times)
    size = int(max(WINDOW, np.ceil(WINDOW_STEPS * lag), np.ceil(n / WINDOWS)))
    found, windows = [], 0
    for begin in range(0, n - size // 2, size):
        part = slice(begin, min(begin + size, n))
        known = {name: each[:, part] for name, each in rhythm.known.items()}
        if max(float(each.mean()) for each in known.values()) < 0.5:
            continue
        values = {name: each[:, part] for name, each in rhythm.values.items()}
        own = _find(rhythm._replace(values=values, known=known, times=rhythm.times[part]), 1.5 * lag)
        windows += 1
        if own is not None and 0.7 <= own[0] / lag <= 1.4:
            found.append((float(rhythm.times[begin]), own[0] * interval))
    return np.array(found, np.float64).reshape(-1, 2), windows


def _told(seconds: float, series: Floats, interval: float) -> StepTime:
    """Describe a step of this length, with its accuracy (which a steady trend doesn't worsen) and its last change,
    from a ``series`` [m, 2] of times and lengths. Found from samples (``interval`` > 0), its length is the mean of all
    steps that the series saw."""
    values = series[:, 1]
    noise = float(np.median(np.abs(np.diff(values, 2)))) / 0.6745 / np.sqrt(6) if len(values) > 2 else 0.02 * seconds
    accuracy = float(max(noise / np.sqrt(max(len(values), 1)), 0.05 * interval / _LAGS)) / seconds
    changed, change = None, None
    best = np.inf
    for at in range(KEPT, len(values) - KEPT + 1):
        parts = values[:at], values[at:]
        error = sum(float(((part - part.mean()) ** 2).sum()) for part in parts)
        before, after = (float(np.median(part)) for part in parts)
        if error < best and abs(after - before) >= max(CHANGED * before, 3 * noise):
            best, changed, change = error, float(series[at, 0]), after / before - 1
    if interval and len(values) > 1:
        seconds = float(len(values) / (1 / values).sum())
    return StepTime(seconds, accuracy, changed, change, tuple(map(tuple, series.tolist())))
