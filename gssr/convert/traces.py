"""The tables of a trace as an export has them: ``trace_kernels`` and so on, one trace or all ranks' together as a run."""

import os
from collections.abc import Sequence

from gssr.convert.tables import Columns, ExportTable, Sink
from gssr.model.traces.each_run import each_readable
from gssr.model.traces.tables import TABLES
from gssr.model.traces.trace_results import TraceAnalysis
from gssr.model.traces.trace_rules import TABLE
from gssr.model.traces.trace_selection import TraceSelection
from gssr.model.verdicts.rules import from_environment
from gssr.store.format.schema import Column
from gssr.traces.open import open_runs
from gssr.workers import HERE, Workers

RUN = Column("run_id", "TEXT NOT NULL", "the run: the name of its file or folder")
TRACE_TABLES: dict[str, ExportTable] = {
    f"trace_{name}": ExportTable(f"trace_{name}", table.about, (RUN, *table.columns), None)
    for name, table in TABLES.items()
}
"""All tables of traces. Times are ns from the trace's zero."""


def export_traces(
    paths: Sequence[str], sink: Sink, tables: Sequence[ExportTable], metrics: Sequence[str] = (), workers: Workers = HERE
) -> tuple[int, Sequence[str]]:  # fmt: skip
    """Write tables of traces, each run's under the name of its file or folder, judged by the site's rules.

    Args:
        paths: trace files, or folders with traces.
        tables: of TRACE_TABLES.
        metrics: definitions of metrics of one's own, as ``--metric`` takes them.
        workers: who reads the files.

    Returns the number of runs written, and sentences about traces that cannot be read. Raises TraceError if none can be
    read, ExportError, OSError, and ValueError for a mistake in the rules or a metric; the run that was begun is undone
    then.
    """
    runs, rules, n = open_runs(paths), from_environment(table=TABLE), 0
    names = [os.path.basename(os.path.abspath(run.name)) for run in runs]
    for run, trace in each_readable(runs, TraceSelection(metrics=metrics), rules, None, workers):
        name = os.path.basename(os.path.abspath(run.name))
        called = name if names.count(name) == 1 else run.name
        _export(trace, called.encode("utf-8", "backslashreplace").decode(), sink, tables)
        n += 1
    return n, runs[0].problems


def _export(trace: TraceAnalysis, run_id: str, sink: Sink, tables: Sequence[ExportTable]) -> None:
    """Write the tables of one run; undo what was begun if anything is raised."""
    wanted = sink.begin(run_id, tables, None)
    try:
        for table in wanted:
            sink.write(table, None, _columns(trace, run_id, table))
        sink.end()
    except BaseException:
        sink.undo()
        raise


def _columns(trace: TraceAnalysis, run_id: str, table: ExportTable) -> Columns:
    """Return the columns of a table, with the run's name in the first."""
    values = TABLES[table.name.removeprefix("trace_")].values(trace)
    n = len(next(iter(values.values())))
    return {"run_id": [run_id] * n, **values}
