"""Recordings as Python sees them: runs, and what they hold as pandas objects.

GPUs are numbered by their positions in ``Run.gpus`` everywhere; times in tables are seconds after the run's start, but for
the column ``time`` of raw rows, which is unix seconds as in the file. Values are in stored units: ratios are 0-1.
"""

import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from gssr.api import tables
from gssr.arrays import Ints
from gssr.gpu_name import select_gpus
from gssr.metrics import BY_NAME, DERIVED, best_measured
from gssr.model.analyze import EXACT_ROWS, Options
from gssr.model.analyze import analyze as analyze_reader
from gssr.model.findings.notes import thinning
from gssr.model.results import Analysis, Series, over_space
from gssr.model.statistics.balance import has_balance
from gssr.model.statistics.sources import RollupSource
from gssr.model.verdicts.rules import from_environment
from gssr.model.window import cut, extent
from gssr.store.read import recording as store
from gssr.store.read.recording import RunReader
from gssr.store.read.time_window import ALL_TIME, Window

if TYPE_CHECKING:
    import pandas as pd
    import sqlite_utils

    from gssr.api.traces import Trace

Gpus = str | int | Sequence[str | int] | None
"""GPUs: positions, or what ``--gpus`` takes: ``NODE``, ``NODE:INDEX``, a UUID, patterns; None for all."""
Time = str | float | None
"""A time: seconds after the start (negative: before the end), or what ``--from`` takes: ``5m``, ``1:30``, a date."""

_DRAWN_BINS = 160
"""Of what a notebook draws."""


class Run:
    """One run of a recording. ``reader`` gives the same data as arrays, for more than fits into a table. ``start`` and
    ``end`` are unix s."""

    def __init__(self, reader: RunReader) -> None:
        self.reader = reader
        self.start, self.end = extent(reader)
        """Start and end, unix s."""

    @property
    def run_id(self) -> str:
        """Its name, the same for all its ranks."""
        return self.reader.run.run_id

    @property
    def label(self) -> str | None:
        """The run's label, as ``--label`` gave it; None without."""
        return self.reader.run.label

    @property
    def state(self) -> str:
        """running, completed, failed, timeout, killed or lost."""
        return self.reader.state

    @property
    def duration(self) -> float:
        """Seconds."""
        return self.end - self.start

    @property
    def score(self) -> float | None:
        """The saturation score of the whole run, 0-1; None where it can't be known."""
        return self.analysis.score

    @property
    def metadata(self) -> dict[str, Any]:
        """Everything recorded about the run itself: the columns of the table ``runs``, ``state`` as it is now, and
        ``n_gpus``, ``nodes``, ``backends``, ``duration_s``, ``keep`` (what is kept of old samples: raw, 10s or none),
        ``damage`` (a sentence, or None)."""
        reader = self.reader
        return reader.run._asdict() | {
            "command": list(reader.run.command),
            "state": reader.state,
            "n_gpus": len(reader.gpus),
            "nodes": sorted({gpu.node for gpu in reader.gpus if gpu.node is not None}),
            "backends": sorted({gpu.backend for gpu in reader.gpus if gpu.backend is not None}),
            "duration_s": self.duration,
            "keep": reader.keep,
            "damage": reader.damage,
        }

    @property
    def metrics(self) -> tuple[str, ...]:
        """The names of the metrics that are stored, and of the derived ones that can be computed from them."""
        stored = self.reader.metrics
        return (*stored, *(metric.name for metric in DERIVED if metric.parts and set(metric.parts) <= set(stored)))

    @cached_property
    def gpus(self) -> "pd.DataFrame":
        """One row for each GPU, indexed by ``gpu``, sorted by node, device index and UUID: the columns of the table
        ``gpus`` and ``place``, what pages and screens call the GPU."""
        return tables.gpus(self.reader.gpus)

    @cached_property
    def events(self) -> "pd.DataFrame":
        """The events of the run, sorted by time: ``seconds`` after the start, ``kind``, ``node``, ``rank``, ``gpu``
        (position) and ``message``; missing where unknown. Empty if nothing happened."""
        return tables.events(self.reader.events, self.reader.gpus, self.start)

    @property
    def marks(self) -> "pd.DataFrame":
        """The user's marks among the events."""
        return self.events[self.events.kind == "mark"].reset_index(drop=True)

    @cached_property
    def gpu_processes(self) -> "pd.DataFrame":
        """The processes that were seen on the GPUs, sorted by time: ``seconds`` after the start, ``gpu`` (position),
        ``n_processes`` seen at that moment (a row with 0 says that there was none), ``pid``, ``name``, ``user``,
        ``memory_used`` (bytes) and ``sm_utilization`` (0-1)."""
        return tables.gpu_processes([row for rows in self.reader.gpu_processes() for row in rows], self.start)

    @cached_property
    def analysis(self) -> Analysis:
        """The analysis of the whole run, as ``gssr analyze`` shows it, in plain dataclasses (gssr.model.results)."""
        return self.analyze()

    def analyze(self, gpus: Gpus = None, start: Time = None, end: Time = None, exact: bool = False) -> Analysis:
        """Analyse some GPUs (None: all) from ``start`` to ``end`` (None: the run's). With ``exact`` all statistics,
        percentiles too, are computed from the samples, however long it takes. Raises ValueError, with a sentence, for
        GPUs or times that the run does not have, and for a mistake in the file of rules (GSSR_RULES)."""
        first, last = self._between(start, end)
        chosen, rules = _selectors(gpus), from_environment()
        return analyze_reader(
            self.reader, Options(gpus=chosen, start=first, end=last, exact=exact or None, rules=rules)
        )

    def samples(
        self,
        metrics: str | Sequence[str] | None = None,
        gpus: Gpus = None,
        start: Time = None,
        end: Time = None,
    ) -> "pd.DataFrame":
        """Return raw rows sorted by time: ``gpu`` (position), ``time`` (unix s), and a column for each metric, NaN
        where nothing was measured.

        ``metrics``: names (None: all that are stored); ``gpus`` and the stretch of time as in ``analyze``. A long run
        of many GPUs has very many rows. Warns (UserWarning) if old samples were not kept: then there are means over 10
        s instead, or nothing. Raises ValueError.
        """
        window = self._between(start, end)
        names = self.reader.metrics if metrics is None else self._known(metrics)
        positions = self._positions(gpus) if gpus is not None else None
        if self.reader.thinned_until > max(self.start, window.start):
            warnings.warn(thinning(self.reader) or "", stacklevel=2)
        return tables.samples(self.reader.samples(names, positions, window))

    def space_average(
        self, metric: str, gpus: Gpus = None, start: Time = None, end: Time = None, bins: int = 600
    ) -> "pd.DataFrame":
        """Return a metric over time, averaged over the GPUs, indexed by ``seconds`` after the start at which each bin
        begins. ``mean``, ``low`` and ``high`` are the mean, lowest and highest of the GPUs' means in the bin (NaN
        without samples), ``n_gpus`` the number of GPUs with one. There are at most ``bins`` bins, none shorter than a
        sampling interval. Raises ValueError, also for counters, which have no average."""
        (name,) = self._known(metric)
        if not has_balance(BY_NAME[name]):
            raise ValueError(f"{name} is a {BY_NAME[name].kind}: it has no average over time")
        return tables.series(self._along_time(name, self._positions(gpus), self._between(start, end), bins), self.start)

    def time_average(
        self,
        metrics: str | Sequence[str] | None = None,
        gpus: Gpus = None,
        start: Time = None,
        end: Time = None,
    ) -> "pd.DataFrame":
        """Return each GPU's means over time, indexed by ``gpu``: ``node``, ``device_index``, ``rank``, ``score``, and
        the mean of each metric (None: of all), missing where unknown. Raises ValueError."""
        analysis = self.analysis if (gpus, start, end) == (None, None, None) else self.analyze(gpus, start, end)
        names = self._known(metrics) if metrics is not None else tuple(analysis.balance)
        return tables.means(analysis.gpus, names, self._positions(gpus))

    def statistics(self, exact: bool = False) -> "pd.DataFrame":
        """Return the statistics of each metric over all samples of all GPUs, indexed by ``metric``: ``unit``, ``mean``,
        ``median``, ``min``, ``max``, ``std``, ``p05``, ``p95``, ``n`` and ``p_error``, as in the JSON of ``gssr
        analyze``. ``exact`` as in ``analyze``."""
        return tables.statistics(self.analyze(exact=True) if exact else self.analysis)

    def verdicts(self) -> "pd.DataFrame":
        """Return the verdicts, the worst first: ``code``, ``severity``, ``title``, ``evidence`` (sentences),
        ``advice``, ``source``, ``start`` and ``end`` (seconds after the run's start), ``gpus`` (positions, empty for
        all), ``gpu_hours`` (that a cure would save; missing if unknown)."""
        return tables.verdicts(self.analysis.judgement.verdicts, self.start)

    def breakdown(self, gpus: Gpus = None, start: Time = None, end: Time = None) -> "pd.DataFrame":
        """Return where the GPU time went, indexed by ``category``: ``label`` in words, ``is_loss`` (the GPU could have
        worked then), ``gpu_seconds``, ``share`` of the GPU time (0-1; all add up to 1), its ``error``, and
        ``confidence``: measured, inferred or guess. Empty if nothing was sampled. Arguments as in ``analyze``. Raises
        ValueError."""
        analysis = self.analysis if (gpus, start, end) == (None, None, None) else self.analyze(gpus, start, end)
        return tables.breakdown(analysis.judgement.breakdown)

    def phases(self) -> "pd.DataFrame":
        """Return the phases sorted by time: ``kind``, ``start`` and ``end`` (seconds after the run's start),
        ``seconds``, ``share`` of the GPU-hours, ``score``, and the mean of each metric. Empty if there are none."""
        return tables.phases(self.analysis.judgement.phases, self.start)

    def _along_time(self, name: str, positions: Ints, window: Window, bins: int) -> Series:
        """Return a metric over time, averaged over these GPUs, in at most ``bins`` bins."""
        span = window.close_at(self.start, self.end)
        source = RollupSource(self.reader, positions, EXACT_ROWS)
        interval = self.reader.sampling_seconds or source.aggregate((), window, np.inf).interval or 1.0
        return over_space(source.gpu_series([name], span, window, interval, bins)[name])

    def _leading(self) -> Series | None:
        """Return the series that a notebook draws, of the metric that says best how busy the GPUs were; None without
        samples."""
        metrics = self.analysis.metrics.items()
        name = best_measured([name for name, own in metrics if own.n and has_balance(BY_NAME[name])])
        return None if name is None else self._along_time(name, self._positions(None), ALL_TIME, _DRAWN_BINS)

    def _between(self, start: Time, end: Time) -> Window:
        """Return the window from ``start`` to ``end``, of whole buckets where old samples are kept only as means. It is
        open at an end that cuts nothing off."""
        return self.reader.whole_buckets(cut(Window(self.start, self.end), self._unix(start), self._unix(end)))

    def _unix(self, time: Time) -> str | float | None:
        if time is None or isinstance(time, str):
            return time
        return (self.start if time >= 0 else self.end) + time

    def _positions(self, gpus: Gpus) -> Ints:
        return np.array(select_gpus(self.reader.gpus, _selectors(gpus)), np.int64)

    def _known(self, metrics: str | Sequence[str]) -> tuple[str, ...]:
        """Return these names. Raises ValueError if the recording lacks one of them."""
        names = (metrics,) if isinstance(metrics, str) else tuple(metrics)
        for name in names:
            if name not in self.metrics:
                raise ValueError(f"{name!r} is not in this recording: it has {', '.join(self.metrics)}")
        return names

    def __repr__(self) -> str:
        return f"<Run {self.label or self.run_id!r}: {self.state}, {len(self.reader.gpus)} GPUs, {self.duration:.1f} s>"

    def _repr_html_(self) -> str:
        from gssr.api.notebook import run_html

        return run_html(self.analysis, self._leading())


class Recording:
    """A recording, opened for reading. ``runs`` are in the order in which they began; ``recording[-1]`` is the last
    one, ``recording["label"]`` the one of that label or run id. Use it in a ``with`` statement, or call ``close``."""

    def __init__(self, opened: store.RecordingReader, path: str | None = None) -> None:
        self._opened = opened
        self.path = opened.path if path is None else path
        self.runs = tuple(Run(reader) for reader in opened.runs)

    @property
    def damage(self) -> str | None:
        """A sentence about what could not be read so far; None if there was nothing."""
        return self._opened.damage

    @cached_property
    def database(self) -> "sqlite_utils.Database":
        """The recording's file as a sqlite_utils database for your own questions in SQL, read-only. Raises ValueError,
        with a sentence, for a recording of several files, and RecordingError."""
        import sqlite_utils

        from gssr.store.read.open import connect_for_questions, files_of

        files = files_of(self._opened.path)
        if len(files) > 1:
            raise ValueError(f"{self.path}: consists of {len(files)} files: join them first with gssr merge")
        return sqlite_utils.Database(connect_for_questions(files[0]), recursive_triggers=False, execute_plugins=False)

    def close(self) -> None:
        """Close the files. What was read already stays usable."""
        if "database" in self.__dict__:
            self.database.conn.close()
        self._opened.close()

    def __enter__(self) -> "Recording":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __len__(self) -> int:
        return len(self.runs)

    def __iter__(self) -> Iterator[Run]:
        return iter(self.runs)

    def __getitem__(self, run: int | str) -> Run:
        """Return a run by its index, or by its label or run id. Raises IndexError or KeyError if there is none."""
        if isinstance(run, int):
            return self.runs[run]
        found = next((own for own in self.runs if run in (own.run_id, own.label)), None)
        if found is None:
            raise KeyError(run)
        return found

    def __repr__(self) -> str:
        return f"<Recording {self.path!r}: {', '.join(map(repr, self.runs))}>"

    def _repr_html_(self) -> str:
        from gssr.api.notebook import recording_html

        return recording_html(self.path, [(run.analysis, run._leading()) for run in self.runs])


def open_recording(path: str | os.PathLike[str]) -> Recording:
    """Open a recording: ``NAME.sql``, ``NAME.sql.d``, or both. Raises gssr.store.read.open.RecordingError, with a
    sentence that names the file, if it cannot be read."""
    return Recording(store.open_recording(path))


@overload
def open_any(path: Sequence[str | os.PathLike[str]]) -> "Trace": ...
@overload
def open_any(path: str | os.PathLike[str]) -> Any: ...
def open_any(path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> Any:
    """Open a file by its content: returns a Recording, or a Trace for a trace or a folder of traces. A list is opened
    as the traces of one run's ranks. Metric files of another tool are read into a temporary recording, which is deleted
    with the Recording that is returned. Raises what ``open_recording`` and gssr.api.traces.open_trace raise."""
    from gssr.recognise import FOREIGN, TRACES, recognise

    if isinstance(path, str | os.PathLike):
        kind = recognise(os.fspath(path)).kind
        if kind in FOREIGN:
            return _open_foreign(os.fspath(path))
        if kind not in TRACES:
            return open_recording(path)
        path = [path]
    from gssr.api.traces import open_trace

    return open_trace([os.fspath(each) for each in path])


def _open_foreign(path: str) -> Recording:
    """Make a temporary recording of another tool's metric files and open it. Warns of what could not be read."""
    from weakref import finalize

    from gssr.foreign.open import temporary_recording

    with ExitStack() as until_end:
        recording, problems = until_end.enter_context(temporary_recording([path]))
        for problem in problems:
            warnings.warn(problem, stacklevel=3)
        opened = store.open_recording(recording)
        (file,) = opened._shards  # which all that reads of it holds
        finalize(file, until_end.pop_all().close)
    return Recording(opened, path)


def analyze(run: Run | Recording | RunReader, options: Options | None = None) -> Analysis:
    """Analyse a run, or the only run of a recording, as ``gssr analyze`` does. ``options`` None: the whole run, judged
    by the site's rules. Raises ValueError, with a sentence, if the recording does not hold exactly one run, or if
    ``options`` names a GPU, metric or time that the run does not have."""
    if isinstance(run, Recording):
        if len(run) != 1:
            raise ValueError(f"{run.path} holds {len(run)} runs: choose one, such as recording[-1]")
        run = run[0]
    return analyze_reader(run.reader if isinstance(run, Run) else run, options or Options(rules=from_environment()))


def _selectors(gpus: Gpus) -> tuple[str, ...] | None:
    if gpus is None:
        return None
    return (str(gpus),) if isinstance(gpus, str | int) else tuple(str(gpu) for gpu in gpus)
