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
    """One trace, or those of all ranks of a run. Times are whole ns from the trace's zero; shares are 0-1; what the
    files do not say is missing. The files are read once, when a result is first asked for."""

    def __init__(self, traces: TraceSet, wanted: TraceSelection = WHOLE) -> None:
        self._traces, self._wanted = traces, wanted

    def part(
        self, start: str | None = None, end: str | None = None, steps: str | None = None,
        gpus: str | Sequence[str] | None = None, like_hta: bool = False,
        metrics: Sequence[str] = (),
    ) -> "Trace":  # fmt: skip
        """Return the trace of a part: a window or steps, as ``--from``, ``--to`` and ``--steps`` take them, and GPUs,
        as ``--gpus`` does; None for all. ``like_hta``: count as HolisticTraceAnalysis does; ``metrics``: definitions as
        ``--metric`` takes them. Nothing is read or checked yet; the files are read again for it."""
        some = [gpus] if isinstance(gpus, str) else gpus
        return Trace(self._traces, TraceSelection(start, end, steps, some, like_hta, metrics))

    @cached_property
    def analysis(self) -> TraceAnalysis:
        """The analysis that ``gssr analyze`` shows, as dataclasses (gssr.model.traces.trace_results). Raises
        ValueError, with a sentence, for a part that does not exist, and gssr.traces.open.TraceError."""
        return analyze_timelines(self._traces.timelines(), self._wanted, from_environment(table=TABLE))

    def table(self, name: str, by_rank: bool = False) -> "pd.DataFrame":
        """Return a table by its name in docs/traces.md. With ``by_rank`` it is computed of each rank alone, with
        ``rank`` as the first column (a table that has this column anyway stays as it is); the files are read again.
        Raises ValueError if there is no such table."""
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
        """Return how each GPU's time splits, one row for each, indexed by ``rank`` and ``gpu``: as shares of its span
        ``compute``, ``exposed_communication``, ``exposed_copy`` and ``idle``, which add up to 1, ``busy`` and
        ``non_compute``; and ``overlap``, the share of its communication under computation."""
        found = self.table("ranks").set_index(["rank", "gpu"])
        names = ("compute", "exposed_communication", "exposed_copy", "idle", "busy")
        shares = {name: found[f"{name}_ns"] / found["span_ns"] for name in names}
        shares["non_compute"] = shares["busy"] - shares["compute"]
        return found[["overlap"]].assign(**shares)[[*shares, "overlap"]]

    def __repr__(self) -> str:
        return f"<Trace of {len(self._traces.sources)} files>"


def open_trace(paths: Sequence[str]) -> Trace:
    """Open trace files, or folders of them, as the ranks of one run. Raises gssr.traces.open.TraceError, with a
    sentence that names the file."""
    return Trace(open_traces(paths))
