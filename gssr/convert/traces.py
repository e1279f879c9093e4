"""The tables of a trace as an export has them: ``trace_kernels`` and so on, one trace or all ranks' together as a run."""

import os
from collections.abc import Sequence

from gssr.convert.tables import Columns, Sink, Table
from gssr.model.traces.analyze import analyze_timelines
from gssr.model.traces.results import TraceAnalysis
from gssr.model.traces.rules import TABLE
from gssr.model.traces.tables import TABLES
from gssr.model.traces.window import Wanted
from gssr.model.verdicts.rules import from_environment
from gssr.store.format.schema import Column
from gssr.traces.open import open_traces

RUN = Column("run_id", "TEXT NOT NULL", "the run: the name of its file or folder")
TRACE_TABLES: dict[str, Table] = {
    f"trace_{name}": Table(f"trace_{name}", table.about, (RUN, *table.columns), None) for name, table in TABLES.items()
}
"""All tables of traces. Times are ns from the trace's zero."""


def export_traces(
    paths: Sequence[str], sink: Sink, tables: Sequence[Table], metrics: Sequence[str] = ()
) -> list[str]:  # fmt: skip
    """Write these tables of the traces of one run's ranks, judged by the site's rules; ``metrics``: of one's own. Returns
    sentences about those that can't be read. Raises TraceError where none can be, ExportError, OSError and, for a mistake in
    the rules or a metric, ValueError; then the sink has undone what it began."""
    traces = open_traces(paths)
    trace = analyze_timelines(traces.timelines(), Wanted(metrics=metrics), rules=from_environment(table=TABLE))
    run_id = os.path.basename(os.path.abspath(paths[0])).encode("utf-8", "backslashreplace").decode()
    sink.begin(run_id, tables)
    try:
        for table in tables:
            sink.write(table, None, _columns(trace, run_id, table))
        sink.end()
    except BaseException:
        sink.undo()
        raise
    return traces.problems


def _columns(trace: TraceAnalysis, run_id: str, table: Table) -> Columns:
    values = TABLES[table.name.removeprefix("trace_")].values(trace)
    n = len(next(iter(values.values())))
    return {"run_id": [run_id] * n, **values}
