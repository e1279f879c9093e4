"""pandas objects of what the model and the store hold. pandas is imported when one is made."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gssr.gpu_name import gpu_label
from gssr.metrics import BY_NAME
from gssr.model.breakdown.categories import CATEGORIES
from gssr.model.breakdown.result import Breakdown
from gssr.model.results import Analysis, GpuSummary, Phase, Series, Verdict
from gssr.store.format.rows import Event, Gpu
from gssr.store.format.sample_arrays import Samples
from gssr.store.read.small_tables import LOOK_COLUMNS

if TYPE_CHECKING:
    import pandas as pd


_STATISTICS = ("mean", "median", "min", "max", "std", "p05", "p95", "n", "p_error")
_OF_THE_FILE = ("gpu", "run_id")
"""Columns of the table ``gpus`` that mean nothing outside of their file."""


def gpus(found: Sequence[Gpu]) -> "pd.DataFrame":
    """Make the table of a run's GPUs, one row each in the order given, indexed by ``gpu``, the position. Columns are the
    fields of Gpu except its key in the file and the run's id, and ``place``, how the GPU is called (``gpu_label``)."""
    columns = [name for name in Gpu._fields if name not in _OF_THE_FILE]
    rows = [{name: getattr(gpu, name) for name in columns} | {"place": gpu_label(gpu)} for gpu in found]
    return _table(rows, [*columns, "place"], "gpu")


def events(found: Sequence[Event], of: Sequence[Gpu], start: float) -> "pd.DataFrame":
    """Make the table of a run's events, one row each in the order given: ``seconds`` after ``start`` (unix s), ``kind``,
    ``node``, ``rank``, ``gpu`` and ``message``, missing where unknown. ``gpu`` is the position in ``of``, the GPUs of
    the run; it is missing for an event of no GPU, or of one that is not among them."""
    import pandas as pd

    position = {gpu.gpu: number for number, gpu in enumerate(of)}
    rows = [
        {
            "seconds": event.time - start,
            "kind": event.kind,
            "node": event.node,
            "rank": event.rank,
            "gpu": None if event.gpu is None else position.get(event.gpu),
            "message": event.message,
        }
        for event in found
    ]
    table = _table(rows, ["seconds", "kind", "node", "rank", "gpu", "message"])
    return table.astype({"seconds": float, "rank": pd.Int64Dtype(), "gpu": pd.Int64Dtype()})


def gpu_processes(found: Sequence[tuple[Any, ...]], start: float) -> "pd.DataFrame":
    """Make the table of the processes on GPUs, sorted by ``seconds`` after ``start`` (unix s) and then by ``gpu``.
    ``found`` holds rows with the columns LOOK_COLUMNS, the GPU as its position and the time in unix s; the columns after
    these two keep their names."""
    import pandas as pd

    columns = ["gpu", "seconds", *LOOK_COLUMNS[2:]]
    rows = [dict(zip(columns, (gpu, when - start, *rest), strict=True)) for gpu, when, *rest in found]
    whole = dict.fromkeys(("gpu", "n_processes", "pid", "memory_used"), pd.Int64Dtype())
    table = _table(rows, ["seconds", "gpu", *columns[2:]]).astype({**whole, "seconds": float, "sm_utilization": float})
    return table.sort_values(["seconds", "gpu"], kind="stable", ignore_index=True)


def samples(found: Samples) -> "pd.DataFrame":
    """Make the table of samples, sorted by time and then by GPU: ``gpu`` (position), ``time`` (unix s), and a column for
    each metric, NaN where nothing was measured."""
    import pandas as pd

    order = np.lexsort((found.gpu, found.time))
    columns = {"gpu": found.gpu, "time": found.time, **found.values}
    return pd.DataFrame({name: column[order] for name, column in columns.items()})


def series(found: Series, start: float) -> "pd.DataFrame":
    """Make the table of a series, one row for each bin, indexed by ``seconds`` from ``start`` (unix s) to the bin's
    beginning: ``mean``, ``low`` and ``high`` of the GPUs' means, NaN in bins without samples, and ``n_gpus``, the number
    of GPUs with a value."""
    import pandas as pd

    seconds = found.start - start + found.width * np.arange(len(found.mean))
    columns = {"mean": found.mean, "low": found.low, "high": found.high, "n_gpus": found.n_gpus}
    return pd.DataFrame(columns, index=pd.Index(seconds, name="seconds"))


def means(found: Sequence[GpuSummary], names: Sequence[str], positions: NDArray[np.int64]) -> "pd.DataFrame":
    """Make the table of GPUs' means over time, one row each, indexed by ``gpu``: ``node``, ``device_index``, ``rank``,
    ``score``, and a column for the mean of each metric in ``names``; NaN where unknown. ``positions`` [n] are the GPUs'
    positions in the run, which become the index."""
    import pandas as pd

    rows = [
        {"node": gpu.node, "device_index": gpu.device_index, "rank": gpu.rank, "score": gpu.score}
        | {name: gpu.mean.get(name) for name in names}
        for gpu in found
    ]
    table = _table(rows, ["node", "device_index", "rank", "score", *names])
    table.index = pd.Index(positions, name="gpu")
    return table.astype(dict.fromkeys(("score", *names), float))


def statistics(analysis: Analysis) -> "pd.DataFrame":
    """Make the table of an analysis's statistics, one row for each metric that it has, indexed by ``metric``: ``unit``,
    ``mean``, ``median``, ``min``, ``max``, ``std``, ``p05``, ``p95``, ``n`` and ``p_error``; NaN where unknown."""
    import pandas as pd

    rows = [
        {"unit": BY_NAME[name].unit} | {key: getattr(own, key) for key in _STATISTICS}
        for name, own in analysis.metrics.items()
    ]
    table = _table(rows, ["unit", *_STATISTICS])
    table.index = pd.Index(list(analysis.metrics), name="metric")
    return table.astype({key: float for key in _STATISTICS if key != "n"})


def verdicts(found: Sequence[Verdict], start: float) -> "pd.DataFrame":
    """Make the table of verdicts, one row each in the order given: ``code``, ``severity``, ``title``, ``evidence`` (its
    sentences joined by "; "), ``advice``, ``source``, ``start`` and ``end`` (s after ``start``, which is in unix s),
    ``gpus`` (positions) and ``gpu_hours``."""
    rows = [
        {
            "code": own.code,
            "severity": own.severity,
            "title": own.title,
            "evidence": "; ".join(finding.text for finding in own.evidence),
            "advice": own.advice,
            "source": own.source,
            "start": own.start - start,
            "end": own.end - start,
            "gpus": own.gpus,
            "gpu_hours": own.gpu_hours,
        }
        for own in found
    ]
    names = ["code", "severity", "title", "evidence", "advice", "source", "start", "end", "gpus", "gpu_hours"]
    return _table(rows, names)


def breakdown(found: Breakdown | None) -> "pd.DataFrame":
    """Make the table of a breakdown of the GPU time, one row for each of CATEGORIES in their order, indexed by
    ``category``, the name: ``label`` in words, ``is_loss``, ``gpu_seconds`` of all GPUs together, ``share`` of the whole
    (0-1), the share's ``error``, and ``confidence``. For None the table has the same columns and no row."""
    names = ["label", "is_loss", "gpu_seconds", "share", "error", "confidence"]
    if found is None:
        return _table([], names, "category")
    seconds, shares = found.by_gpu.sum(axis=0).tolist(), found.shares.tolist()
    columns = (CATEGORIES, seconds, shares, found.error.tolist(), found.confidence)
    rows = [
        dict(zip(["category", *names], (each.name, each.label, each.is_loss, *rest), strict=True))
        for each, *rest in zip(*columns, strict=True)
    ]
    return _table(rows, ["category", *names]).set_index("category")


def phases(found: Sequence[Phase], start: float) -> "pd.DataFrame":
    """Make the table of phases, one row each in the order given: ``kind``, ``start`` and ``end`` (s after ``start``,
    which is in unix s), ``seconds``, ``share`` of the GPU-hours, ``score``, and a column for each metric of which any
    phase has a mean; NaN where unknown."""
    names = list(dict.fromkeys(name for phase in found for name in phase.means if name in BY_NAME))
    rows = [
        {
            "kind": phase.kind,
            "start": phase.start - start,
            "end": phase.end - start,
            "seconds": phase.seconds,
            "share": phase.share,
            "score": phase.score,
        }
        | {name: phase.means.get(name) for name in names}
        for phase in found
    ]
    numbers = ["start", "end", "seconds", "share", "score", *names]
    return _table(rows, ["kind", *numbers]).astype(dict.fromkeys(numbers, float))


def _table(rows: Sequence[dict[str, Any]], columns: Sequence[str], index: str | None = None) -> "pd.DataFrame":
    """Make a table that has these columns even without a row. ``index`` is the name of its index."""
    import pandas as pd

    table = pd.DataFrame(list(rows), columns=list(columns))
    table.index.name = index
    return table
