"""What the traces of several runs say, run by run."""

from collections.abc import Collection, Iterator, Sequence

from gssr.model.traces.analyze_trace import analyze_files
from gssr.model.traces.trace_results import TraceAnalysis
from gssr.model.traces.trace_rules import TABLE
from gssr.model.traces.trace_selection import WHOLE, TraceSelection
from gssr.model.verdicts.table import RuleTable
from gssr.traces.open import TraceError, TraceSet
from gssr.workers import HERE, Workers


def each_readable(
    runs: Sequence[TraceSet],
    wanted: TraceSelection = WHOLE,
    rules: RuleTable = TABLE,
    tables: Collection[str] | None = None,
    workers: Workers = HERE,
) -> Iterator[tuple[TraceSet, TraceAnalysis]]:
    """Analyze the traces of several runs, each run when it is its turn. Yields the run and its analysis (see
    analyze_files, also for the arguments).

    A run of which no trace can be read is left out, and why is among its ``problems``. Raises TraceError if none can be
    read, and ValueError as analyze_files does.
    """
    wrong, n = None, 0
    for run in runs:
        try:
            trace = analyze_files(run, wanted, rules, tables, workers)
        except TraceError as error:
            wrong = error
            continue
        n += 1
        yield run, trace
    if wrong is not None and not n:
        raise wrong
