"""GPUs that growing recordings hold and don't use: which of them did nothing for the last minutes, and since when."""

from collections.abc import Callable, Sequence
from contextlib import closing
from typing import NamedTuple

import numpy as np

from gssr.arrays import Floats, Ints
from gssr.metrics import DETECTION_METRICS
from gssr.model.account.activity import IDLE_ACTIVITY
from gssr.model.fleet.figures import GpuFigures, RunFigures, read_figures
from gssr.store.format.schema import LEVELS
from gssr.store.read.open import RecordingError
from gssr.store.read.recording import RunReader, open_recording
from gssr.store.read.time_window import Window

HELD_IDLE_SECONDS = 600.0
"""A GPU is held idle from so long on: loading a model, or a checkpoint, takes less."""
_SILENT_SECONDS = 60.0
"""A GPU without a sample for so long before the run's newest one is not known to be idle."""
_FINE, _COARSE = LEVELS[0], LEVELS[-1]


class GrowingRun(NamedTuple):
    """A run that goes on: its figures so far, and those of its GPUs that are held idle now, the longest first, each with
    the seconds, up to its newest sample, in which no sample reached the idle limit."""

    run: RunFigures
    idle: tuple[tuple[GpuFigures, float], ...]

    @property
    def idle_gpu_hours(self) -> float:
        """GPU-hours since the idle GPUs began to be idle."""
        return sum(seconds for _, seconds in self.idle) / 3600


class Growing(NamedTuple):
    """``runs`` that go on, those that hold most GPU-hours idle first; how many recordings were looked into; sentences
    about what could not be read."""

    runs: tuple[GrowingRun, ...]
    n_recordings: int
    unreadable: tuple[str, ...]


def read_growing(names: Sequence[str], progress: Callable[[float], None] = lambda _: None) -> Growing:
    """Find the runs of these recordings that go on, and what they hold idle. What can't be read is told and stops
    nothing. A run found twice counts once. ``progress`` is called with the share done, 0-1."""
    found: dict[tuple[str, float | None], GrowingRun] = {}
    unreadable = []
    for done, name in enumerate(names):
        try:
            with closing(open_recording(name)) as recording:
                for reader in recording.runs:
                    if reader.state == "running":
                        found.setdefault((reader.run_id, reader.run.started_at), _growing(reader, name))
                if recording.damage:
                    unreadable.append(recording.damage)
        except RecordingError as error:
            unreadable.append(str(error))
        except OSError as error:
            unreadable.append(f"{name}: can't be read: {error.strerror}")
        except Exception as error:  # one strange file among thousands
            unreadable.append(f"{name}: can't be read: {error!r}")
        progress((done + 1) / len(names))
    runs = sorted(found.values(), key=lambda own: (-own.idle_gpu_hours, own.run.run_id))
    return Growing(tuple(runs), len(names), tuple(unreadable))


def _growing(reader: RunReader, name: str) -> GrowingRun:
    """Describe a run that goes on: its figures, and the GPUs that it holds idle, those that are so longest first."""
    run = read_figures(reader, name)
    idle = [(run.gpus[at], seconds) for at, seconds in _idle_seconds(reader).items()]
    idle.sort(key=lambda each: (-each[1], each[0].gpu))
    return GrowingRun(run, tuple(idle))


def _idle_seconds(reader: RunReader) -> dict[int, float]:
    """Return for how long each GPU that is held idle has been so, s, by position. A GPU that was not sampled lately, or
    of which nothing tells work from waiting, is left out."""
    newest = reader.last_time
    if newest is None or not len(reader.gpus):
        return {}
    metric = next((name for name in DETECTION_METRICS if name in reader.metrics), None)
    if metric is None:
        return {}
    lately = Window(newest - HELD_IDLE_SECONDS - _FINE, np.inf)
    last_sample, last_active = _last(reader, metric, lately, _FINE, None)
    known = last_sample >= newest - max(
        _SILENT_SECONDS, 2 * reader.gap_seconds if np.isfinite(reader.gap_seconds) else 0
    )
    candidates = np.flatnonzero(known & np.isnan(last_active))
    if not len(candidates):
        return {}
    first_sample = reader.first_time or newest
    _, coarse = _last(reader, metric, Window(-np.inf, lately.start), _COARSE, candidates)
    found = {}
    for gpu in candidates.tolist():
        since = first_sample
        if np.isfinite(coarse[gpu]):
            step = np.floor(coarse[gpu] / _COARSE) * _COARSE
            _, fine = _last(reader, metric, Window(step, step + _COARSE), _FINE, np.array([gpu]))
            since = float(fine[gpu] if np.isfinite(fine[gpu]) else coarse[gpu])
        seconds = float(last_sample[gpu]) - since
        if seconds >= HELD_IDLE_SECONDS:
            found[gpu] = seconds
    return found


def _last(reader: RunReader, metric: str, window: Window, level: int, gpus: Ints | None) -> tuple[Floats, Floats]:
    """Return by position when each GPU was last sampled in the window, and when it was last active at the latest: the
    last sample of the last bucket of ``level`` s in which one reached the idle limit. Unix s; NaN for never."""
    buckets = reader.buckets(window, level, gpus, [metric])
    sampled, active = np.full(len(reader.gpus), np.nan), np.full(len(reader.gpus), np.nan)
    times = buckets.vectors[:, 3]
    known = buckets.column(metric, "n") > 0
    busy = known & (buckets.column(metric, "max") >= IDLE_ACTIVITY)
    np.fmax.at(sampled, buckets.gpu[known], times[known])
    np.fmax.at(active, buckets.gpu[busy], times[busy])
    return sampled, active
