"""Traces as Python sees them: the tables of ``gssr analyze``, as pandas objects."""

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from gssr.model.traces.analyze_trace import analyze_ranks, analyze_timelines
from gssr.model.traces.tables import RANK, TABLES, rows_of
from gssr.model.traces.trace_results import TraceAnalysis
from gssr.model.traces.trace_rules import TABLE
from gssr.model.traces.trace_selection import WHOLE, TraceSelection
from gssr.model.verdicts.rules import from_environment
from gssr.traces.open import TraceSet, open_traces

if TYPE_CHECKING:
    import pandas as pd


class Trace:
    """One trace, or those of all ranks of a run: ``trace.table(name)`` and the methods after it. Times are whole ns, counted
    from the trace's zero; shares are 0-1; what the files do not tell is missing. Nothing is read twice."""

    def __init__(self, traces: TraceSet, wanted: TraceSelection = WHOLE) -> None:
        self._traces, self._wanted = traces, wanted

    def part(
        self, start: str | None = None, end: str | None = None, steps: str | None = None,
        gpus: str | Sequence[str] | None = None, like_hta: bool = False,
        metrics: Sequence[str] = (),
    ) -> "Trace":  # fmt: skip
        """The same in a window, as ``--from``, ``--to``, ``--steps`` and ``--gpus`` have it; ``like_hta``: as
        HolisticTraceAnalysis counts; with the ``metrics`` of ``--metric``. Reads the files again."""
        some = [gpus] if isinstance(gpus, str) else gpus
        return Trace(self._traces, TraceSelection(start, end, steps, some, like_hta, metrics))

    @cached_property
    def analysis(self) -> TraceAnalysis:
        """What ``gssr analyze`` shows, as dataclasses (gssr.model.traces.trace_results). Raises ValueError, a sentence,
        for a part that is not there, and gssr.traces.open.TraceError."""
        return analyze_timelines(self._traces.timelines(), self._wanted, from_environment(table=TABLE))

    def table(self, name: str, by_rank: bool = False) -> "pd.DataFrame":
        """A table by its name: those of docs/traces.md. ``by_rank``: of each rank alone, with a column ``rank`` in front,
        where the table has none; reads the files again. Raises ValueError for one that is none."""
        import pandas as pd

        if name not in TABLES:
            raise ValueError(f"no table {name!r}; there are: {', '.join(TABLES)}")
        columns = [column.name for column in TABLES[name].columns]
        if not by_rank or RANK.name in columns:
            found = TABLES[name].values(self.analysis)
            return pd.DataFrame({column: found[column] for column in columns})
        ranks = analyze_ranks(self._traces.timelines(), self._wanted, from_environment(table=TABLE), [name])
        rows = [(rank, *row) for rank, alone in ranks for row in rows_of(name, alone)[1]]
        return pd.DataFrame(rows, columns=[RANK.name, *columns])

    def split(self) -> "pd.DataFrame":
        """One row per GPU, indexed by ``rank`` and ``gpu``: shares of its span, ``compute``, ``exposed_communication``,
        ``exposed_copy`` and ``idle``, which add up to 1; ``busy``, ``non_compute`` and ``overlap``."""
        found = self.table("ranks").set_index(["rank", "gpu"])
        names = ("compute", "exposed_communication", "exposed_copy", "idle", "busy")
        shares = {name: found[f"{name}_ns"] / found["span_ns"] for name in names}
        shares["non_compute"] = shares["busy"] - shares["compute"]
        return found[["overlap"]].assign(**shares)[[*shares, "overlap"]]

    def __repr__(self) -> str:
        return f"<Trace of {len(self._traces.sources)} files>"


def open_trace(paths: Sequence[str]) -> Trace:
    """Traces of the ranks of one run. Raises gssr.traces.open.TraceError, one sentence that names the file."""
    return Trace(open_traces(paths))
