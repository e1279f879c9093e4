"""The tables that an export consists of: their columns with what they mean, and the rows that a run has in each.

What an export writes into: columns of a table, run by run. Nothing that is there is touched unless that was asked for.
"""

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from functools import cached_property
from itertools import islice
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from gssr.gpu_name import gpu_label
from gssr.model.analyze import Options, analyze
from gssr.model.breakdown.categories import CATEGORIES
from gssr.model.fleet.figures import GPU_COLUMNS, RUN_COLUMNS, RunFigures, read_figures
from gssr.model.results import Analysis
from gssr.model.verdicts.table import RuleTable as Rules
from gssr.render.scale import metric_of
from gssr.store.format.limits import sound_rows
from gssr.store.format.schema import TABLES, Column
from gssr.store.read.recording import RunReader
from gssr.store.read.whole_run import read_use_rows

Columns = Mapping[str, NDArray[Any] | Sequence[Any]]
"""Values by the names of a table's columns, all of one length; None, and NaN in arrays of floats, are NULL."""


_MOST_INT = 2.0**63
"""From here on whole numbers are no int64."""


class ExportError(Exception):
    """Something can't be exported; the text is one sentence."""


def is_numeric(values: NDArray[Any] | Sequence[Any]) -> bool:
    """Tell whether values are an array of whole numbers or floats."""
    return isinstance(values, np.ndarray) and values.dtype.kind in "iuf"


def plain(values: NDArray[Any] | Sequence[Any], column: Column) -> list[Any]:
    """Convert a column's values to str, int or float. None for NaN, infinity, and values that are not of the column's
    type (SQLite stores anything anywhere)."""
    is_text, kind = column.type.startswith("TEXT"), int if column.type.startswith("INTEGER") else float
    if is_numeric(values) and not is_text:
        return _plain_numbers(np.asarray(values), kind)
    listed: list[Any] = values.tolist() if isinstance(values, np.ndarray) else list(values)
    if is_text:
        return [None if value is None else str(value) for value in listed]
    return [kind(v) if isinstance(v, int | float) and math.isfinite(v) else None for v in listed]


def _plain_numbers(values: NDArray[Any], kind: type[int] | type[float]) -> list[Any]:
    """Do the same for an array of numbers."""
    known = np.isfinite(values)
    if not known.any():
        return [None] * len(values)
    easy = known & (np.abs(values) < _MOST_INT) if kind is int else known
    listed: list[Any] = np.where(easy, values, 0).astype(np.int64 if kind is int else np.float64).tolist()
    for row in np.flatnonzero(~easy).tolist():
        listed[row] = kind(values[row]) if known[row] else None
    return listed


Rows = Iterator[Sequence[tuple[Any, ...]]]
"""Batches of rows, values in the order of the table's columns; None where NULL."""

GPU = Column("gpu", "INTEGER NOT NULL", "number of the GPU within the run, from 0, by node, index and UUID")
PLACE = Column(
    "place", "TEXT NOT NULL", "what pages and screens call it: node:device_index, with .mig of a MIG instance"
)
STATE = Column("state", "TEXT", "running, completed, failed, timeout, killed or lost")
_AT_ONCE = 10_000
"""Rows of a small table."""
RUN, NODE = "run_id", "node"

RUN_OF = Column(RUN, "TEXT NOT NULL", "the run")
_STATISTICS = (
    RUN_OF,
    Column("metric", "TEXT NOT NULL", "the metric: a column of samples, or flop_active"),
    Column("unit", "TEXT NOT NULL", "its unit; 1 for ratios"),
    Column("mean", "REAL", "the mean over all samples of all GPUs, as are the other numbers"),
    Column("median", "REAL", "the median"),
    Column("min", "REAL", "the least"),
    Column("max", "REAL", "the greatest"),
    Column("std", "REAL", "the standard deviation, with ddof 0"),
    Column("p05", "REAL", "the 5th percentile"),
    Column("p95", "REAL", "the 95th percentile"),
    Column("n", "INTEGER NOT NULL", "number of samples"),
    Column("p_error", "REAL", "the most by which median, p05 and p95 may be wrong"),
)
_VERDICTS = (
    RUN_OF,
    Column("code", "TEXT NOT NULL", "the rule"),
    Column("severity", "TEXT NOT NULL", "critical, warning or info"),
    Column("title", "TEXT NOT NULL", "one sentence"),
    Column("evidence", "TEXT NOT NULL", "the numbers behind it, in words"),
    Column("advice", "TEXT NOT NULL", "what to do next"),
    Column("source", "TEXT NOT NULL", "where its thresholds come from"),
    Column("start", "REAL NOT NULL", "when it began to hold, unix s"),
    Column("end", "REAL NOT NULL", "when it ended, unix s"),
    Column("gpus", "TEXT", "numbers of the GPUs concerned: a JSON array; NULL for all of them"),
    Column("gpu_hours", "REAL", "GPU-hours that its cure would save; NULL if unknown"),
)

_BREAKDOWN = (
    RUN_OF,
    GPU,
    Column("category", "TEXT NOT NULL", "a category of the GPU's time, as in `gssr analyze`"),
    Column("gpu_seconds", "REAL NOT NULL", "the GPU's time in it, s; the categories add up to all of its time"),
    Column("share", "REAL", "the same as a share of the GPU's time, 0-1; NULL if the GPU has no time"),
)


class Exported:
    """A run and what is computed of it, each only when a table needs it. ``file``: the recording it is read from;
    ``rules``: the rules that judge it."""

    def __init__(self, reader: RunReader, file: str, rules: Rules) -> None:
        self.reader, self._file, self._rules = reader, file, rules

    @cached_property
    def figures(self) -> RunFigures:
        """As ``gssr fleet`` counts them."""
        return read_figures(self.reader, self._file)

    @cached_property
    def analysis(self) -> Analysis:
        """As ``gssr analyze`` prints it, without phases and details, of which no table tells."""
        self.__dict__.pop("figures", None)  # they come before; of very many GPUs both take much memory
        return analyze(self.reader, Options(rules=self._rules, phases=False, details=False))


class ExportTable(NamedTuple):
    """One table of an export. ``about``: what a row is. ``rows``: returns batches of rows; None for ``samples`` and for
    tables of traces, which are never held as rows. ``per_node``: files are split by node as well as by run, if the sink
    splits files."""

    name: str
    about: str
    columns: tuple[Column, ...]
    rows: Callable[[Exported], Rows] | None
    per_node: bool = False


class WrittenFile(NamedTuple):
    """A finished file of one table and week that is not in place yet: its path, and the ids of the runs that it holds."""

    table: str
    week: str
    path: str
    runs: tuple[str, ...]


class Sink(Protocol):
    """The place that an export writes into: a folder of files, or a data set.

    For each run call ``begin``, ``write`` any number of times, and ``end``; after some runs ``hand_over``, whose files go to
    ``put``; after the last run ``finish``. If anything goes wrong call ``undo`` instead of ``end``: then nothing of that run
    is left (of CSV and JSON files nothing at all). All methods may raise OSError.
    """

    splits_runs: bool
    """Several workers may each write some of the runs into a copy of it, by ``begin`` to ``hand_over``; ``put`` and
    ``finish`` are the first one's."""
    only_ended: bool
    """It takes no runs that may still go on."""
    most_nodes: int
    """Of a table that is split by node, rows of so many nodes are to come in turns at most."""
    rows_together: int
    """So many rows of a node's samples are worth waiting for, to be written together."""

    def begin(self, run_id: str, tables: Sequence[ExportTable], started_at: float | None) -> Sequence[ExportTable]:
        """Begin a run, which began at ``started_at`` (unix s), with these tables. Returns those that are to be written; none
        where the run needs not be, and is not begun. Raises ExportError if it is there already and may not be replaced."""

    def write(self, table: ExportTable, node: str | None, columns: Columns) -> None:
        """Add rows to a table. ``node`` is the node of all of them; None for a table that is not split by node."""

    def end(self) -> None:
        """Complete the run: from now on it is in the export, or in what ``hand_over`` returns."""

    def hand_over(self) -> Sequence[WrittenFile]:
        """Complete the files that hold several runs, and return them; none where each run has files of its own."""
        return ()

    def put(self, pieces: Sequence[WrittenFile]) -> Sequence[str]:  # noqa: ARG002, nobody hands over any here
        """Take files that were handed over. Returns the ids of runs that others held before, and that are left out."""
        return ()

    def stay(self) -> None:
        """Show other processes that this one is at work, every few seconds while it waits for its workers."""
        return

    def finish(self) -> None:
        """Complete the export, after the last run."""
        return

    def undo(self) -> None:
        """Remove what was written of the run that was begun."""


def _like_the_recording(name: str) -> tuple[Column, ...]:
    """Return the columns of the recording's table of this name. The number of a GPU, which counts within one file
    there, and the state, of which readers know more, are described anew."""
    own = {GPU.name: GPU, STATE.name: STATE} if name != "processes" else {}
    return tuple(
        own[column.name]._replace(type=column.type) if column.name in own else column for column in TABLES[name]
    )


def _yield_runs(own: Exported) -> Rows:
    run = own.reader.run
    values = run._asdict() | {"command": json.dumps(run.command), "state": own.reader.state}
    yield [tuple(values[column.name] for column in TABLES["runs"])]


def _yield_processes(own: Exported) -> Rows:
    yield list(own.reader.processes)


def _yield_gpus(own: Exported) -> Rows:
    gpus = enumerate(own.reader.gpus)
    while batch := [(*gpu._replace(gpu=position), gpu_label(gpu)) for position, gpu in islice(gpus, _AT_ONCE)]:
        yield batch


def _yield_events(own: Exported) -> Rows:
    """Yield all events in one piece. Their GPU is its position in the run, None for an event of no GPU or of one that is
    not among the run's."""
    positions = {gpu.gpu: position for position, gpu in enumerate(own.reader.gpus)}
    run_id = own.reader.run.run_id
    yield [
        (run_id, event.time, event.node, positions.get(event.gpu) if event.gpu is not None else None, event.rank,
         event.kind, event.message)
        for event in own.reader.events
    ]  # fmt: skip


def _yield_gpu_processes(own: Exported) -> Rows:
    run_id = own.reader.run.run_id
    return ([(run_id, *row) for row in rows] for rows in own.reader.gpu_processes())


def _yield_summary(own: Exported) -> Rows:
    yield [tuple(own.figures)[: len(RUN_COLUMNS)]]


def _yield_gpu_summary(own: Exported) -> Rows:
    gpus = iter(own.figures.gpus)
    while batch := list(islice(gpus, _AT_ONCE)):
        yield batch


def _yield_statistics(own: Exported) -> Rows:
    """Yield a row for each metric in one piece, with the unit in which it is stored."""
    run_id = own.reader.run.run_id
    yield [
        (run_id, name, metric_of(name).unit, *(getattr(found, field.name) for field in fields(found)))
        for name, found in own.analysis.metrics.items()
    ]


def _yield_verdicts(own: Exported) -> Rows:
    """Yield all verdicts in one piece, the evidence of each joined to one text. GPUs are a JSON list, None for a verdict
    on all."""
    run_id = own.reader.run.run_id
    yield [
        (run_id, each.code, each.severity, each.title, "; ".join(finding.text for finding in each.evidence), each.advice,
         each.source, each.start, each.end, json.dumps(each.gpus) if each.gpus else None, each.gpu_hours)
        for each in own.analysis.judgement.verdicts
    ]  # fmt: skip


def _yield_breakdown(own: Exported) -> Rows:
    """Yield a row for each GPU and category, also those without time: seconds and share of the GPU's time. Nothing if
    the run has no breakdown."""
    run_id, breakdown = own.reader.run.run_id, own.analysis.judgement.breakdown
    if breakdown is None:
        return
    names = [category.name for category in CATEGORIES]
    pairs = zip(breakdown.by_gpu, breakdown.shares_by_gpu, strict=True)
    rows = (
        (run_id, gpu, *row)
        for gpu, (seconds, shares) in enumerate(pairs)
        for row in zip(names, seconds.tolist(), shares.tolist(), strict=True)
    )
    while batch := list(islice(rows, _AT_ONCE)):
        yield batch


def _make_use_reader(name: str) -> Callable[[Exported], Rows]:
    """Make a function that yields the rows of ``host_samples`` or ``workload_samples`` (``name``) of an exported run in
    batches, without values that their columns can't hold."""
    names = [column.name for column in TABLES[name]]
    return lambda own: (sound_rows(name, names, batch) for batch in read_use_rows(own.reader, name))


EXPORTED: dict[str, ExportTable] = {
    table.name: table
    for table in (
        ExportTable("runs", "one run: the recording's table of that name", _like_the_recording("runs"), _yield_runs),
        ExportTable("processes", "one rank of a run", TABLES["processes"], _yield_processes),
        ExportTable("gpus", "one GPU of a run", (*_like_the_recording("gpus"), PLACE), _yield_gpus),
        ExportTable("events", "one event: something that happened", _like_the_recording("events"), _yield_events),
        ExportTable("summary", "one run with the figures that `gssr fleet` counts", RUN_COLUMNS, _yield_summary),
        ExportTable("gpu_summary", "one GPU of a run with its figures", GPU_COLUMNS, _yield_gpu_summary),
        ExportTable("statistics", "one metric of a run, as `gssr analyze` prints it", _STATISTICS, _yield_statistics),
        ExportTable("verdicts", "one verdict on a run, as `gssr analyze` prints it", _VERDICTS, _yield_verdicts),
        ExportTable("breakdown", "one category of one GPU's time", _BREAKDOWN, _yield_breakdown),
        ExportTable("host_samples", "one second of one node", TABLES["host_samples"], _make_use_reader("host_samples"),
              per_node=True),
        ExportTable("workload_samples", "one second of one rank", TABLES["workload_samples"],
              _make_use_reader("workload_samples")),
        ExportTable("gpu_processes", "one process that was on a GPU when GSSR looked at it",
              (RUN_OF, *_like_the_recording("gpu_processes")),
              _yield_gpu_processes),
        ExportTable("samples", "one sample of one GPU", (RUN_OF, Column(NODE, "TEXT", "the node"),
              *_like_the_recording("samples")), None, per_node=True),
    )
}  # fmt: skip
"""All tables, the small ones first. Not in them: process_gpus, merged, thinned, traces, rollups and sketches: they are of
files."""
