"""Recordings from pandas: samples that something else took, so that everything here can read them."""

import math
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gssr.api.recording import Recording, open_recording
from gssr.arrays import Floats, Ints
from gssr.foreign.write import begin_run, spacing
from gssr.metrics import BY_NAME, DERIVED, NAMES, RATIO
from gssr.store.format.host_rollups import HOST, WORKLOAD, UseTable
from gssr.store.format.limits import GREATEST, LATEST
from gssr.store.format.schema import LEVELS, STATES, TABLES
from gssr.store.read.open import RecordingError
from gssr.store.write.bulk import BulkWriter
from gssr.store.write.create import remove

if TYPE_CHECKING:
    import pandas as pd


_CHUNK_SECONDS = 60
"""Written at once: doesn't cut a bucket of 10 s, nor one of 600 s."""
_MOST_OF_A_RATIO = 2.0
"""No ratio is above this: it would be a percentage."""
_AROUND = LEVELS[0]
"""Rows of nodes and processes belong to a run from this long before its first sample to as long after its last, s."""
_GPU_COLUMNS = {column.name for column in TABLES["gpus"]} - {"gpu", "run_id"}
_Use = tuple[UseTable, str | int, Floats, Floats]
"""Rows of one node or rank: their table, whose they are, their times [n] and values [n, 1, columns]."""


def from_pandas(
    samples: "pd.DataFrame",
    path: str | os.PathLike[str],
    gpus: "pd.DataFrame | None" = None,
    label: str | None = None,
    sampling_seconds: float | None = None,
    host: "pd.DataFrame | None" = None,
    workload: "pd.DataFrame | None" = None,
    state: str | None = None,
    exit_code: int | None = None,
) -> Recording:
    """Write samples as a recording of one run, and open it. What ``Run.samples()`` and ``Run.gpus`` return can be
    written and reads back equal.

    Args:
        samples: a row for each GPU and moment: ``gpu`` (any label), ``time`` (unix s, or datetimes; naive ones are
            UTC), and columns named and measured as in the catalogue (``gssr.METRICS``: ratios 0-1, W, bytes/s ...), NaN
            where nothing was measured. Derived metrics are left out, as they follow from others, which must be there.
        path: the file to make; it must not exist.
        gpus: indexed by the labels, with columns of the table ``gpus``: ``node``, ``device_index``, ``uuid``, ``name``
            ...
        label: the run's label.
        sampling_seconds: seconds between samples; None for the median spacing.
        host: a row for each node and moment: ``node``, ``time``, and columns of the table ``host_samples``. Rows of
            other times than the samples' are left out.
        workload: a row for each rank and moment: ``rank``, ``time``, and columns of the table ``workload_samples``;
            likewise.
        state: completed, failed, timeout or killed. None: failed if ``exit_code`` is not 0, else completed.
        exit_code: 0 to 255, or None for unknown.

    Raises ValueError, with a sentence, for tables that cannot be samples, and gssr.store.read.open.RecordingError if
    the file exists or cannot be written; nothing is left then.
    """
    path = os.fspath(path)
    names = _metrics(samples)
    if not len(samples):
        raise ValueError("there are no samples in the table")
    if sampling_seconds is not None and not 0 < sampling_seconds < math.inf:
        raise ValueError(f"sampling_seconds is a length of time above 0, not {sampling_seconds!r}")
    state, exit_code = _ended_as(state, exit_code)
    time = _times(samples["time"])
    ends = float(time.min()) - _AROUND, float(time.max()) + _AROUND
    beside = ((HOST, host), (WORKLOAD, workload))
    use = [rows for table, frame in beside if frame is not None for rows in _use(table, frame, ends)]
    if gpus is not None:
        gpus = gpus.drop(columns="place", errors="ignore")  # which follows from the others
    labels, position = _labels(samples, gpus)
    order = np.argsort(time, kind="stable")
    time, position = time[order], position[order]
    values = {name: _values(samples[name], name)[order] for name in names}
    interval = sampling_seconds or spacing(time, position) or 1.0
    writer = BulkWriter(path)
    try:
        known = [_gpu(labels[at], at, gpus) for at in range(len(labels))]
        _write(writer, time, position, values, known, label, interval, use, state, exit_code)
    except BaseException:
        remove(path)
        raise
    return open_recording(path)


def _write(
    writer: BulkWriter, time: Floats, position: Ints, values: dict[str, Floats], gpus: list[dict[str, Any]],
    label: str | None, interval: float, use: list[_Use], state: str, exit_code: int | None,
) -> None:  # fmt: skip
    """Write the run and finish the file.

    Args:
        writer: The new file.
        time: When each sample was taken [n], unix s, ascending.
        position: The index in ``gpus`` of each sample's GPU [n].
        values: The samples' values by metric [n]; NaN is none.
        gpus: The GPUs, as columns of the table ``gpus``.
        label: The run's label; None: it has none.
        interval: The sampling interval, s.
        use: The rows of nodes and ranks.
        state: The state in which the run ended.
        exit_code: The command's exit code; None: unknown.

    Raises RecordingError.
    """
    start, end = float(time[0]), float(time[-1])
    nodes = {str(gpu["node"]) for gpu in gpus if gpu.get("node") is not None}
    known: dict[str, str | int | None] = {"label": label, "world_size": 1, "n_nodes": max(len(nodes), 1)}
    begin_run(writer, start, interval, known, {"local_rank": 0, "node": min(nodes, default=None)})
    writer.add_gpus(gpus, list(values), interval)
    edges = np.flatnonzero(np.diff(np.floor(time / _CHUNK_SECONDS))) + 1
    for rows in np.split(np.arange(len(time)), edges):
        writer.add_columns(position[rows], time[rows], {name: column[rows] for name, column in values.items()})
    for table, owner, times, column in use:
        writer.add_use(table, [owner], times, column)
    if not writer.finish(end, exit_code, state, end):
        raise RecordingError(writer.problem or f"{writer.path}: can't be written")


def _ended_as(state: str | None, exit_code: int | None) -> tuple[str, int | None]:
    """Return the state and the exit code to record. Raises ValueError if either is impossible."""
    if exit_code is not None:
        if exit_code not in range(256):
            raise ValueError(f"exit_code is a whole number, 0-255, not {exit_code!r}")
        exit_code = int(exit_code)
    if state is None:
        return ("failed" if exit_code else "completed"), exit_code
    ended = [name for name in STATES if name != "running"]
    if state not in ended:
        raise ValueError(f"state is {', '.join(ended[:-1])} or {ended[-1]}, not {state!r}")
    return state, exit_code


def _use(table: UseTable, frame: "pd.DataFrame", ends: tuple[float, float]) -> list[_Use]:
    """Return the rows of a table of nodes or ranks between two unix times, grouped by node or rank. Raises ValueError
    if there is none."""
    frame = frame.drop(columns="run_id", errors="ignore")
    names = _columns(frame, table.samples, (table.owner, "time"), table.values)
    if frame[table.owner].isna().any():
        raise ValueError(f"{table.owner!r} has rows of {table.samples} without a {table.owner}")
    times = _times(frame["time"])
    within = (times >= ends[0]) & (times <= ends[1])
    if not within.any():
        raise ValueError(f"{table.samples} has no row from the time of the samples: are its times in UTC?")
    frame, time = frame[within], times[within]
    missing = np.full(len(time), np.nan)
    values = np.stack([_values(frame[name], name) if name in names else missing for name in table.values], axis=1)
    owners, place = np.unique(_nodes(frame["node"]) if table is HOST else _ranks(frame["rank"]), return_inverse=True)
    order = np.lexsort((time, place))
    groups = np.split(order, np.flatnonzero(np.diff(place[order])) + 1)
    return [(table, owner, time[rows], values[rows, None]) for owner, rows in zip(owners.tolist(), groups, strict=True)]


def _nodes(column: "pd.Series[Any]") -> NDArray[Any]:
    names = np.asarray(column.astype(str), np.str_)
    if (names == "").any():
        raise ValueError("'node' has rows of host_samples without a name")
    return names


def _ranks(column: "pd.Series[Any]") -> Ints:
    found = _to_floats(column, "rank")
    if (found < 0).any() or (found != np.floor(found)).any():
        raise ValueError("'rank' holds something else than whole numbers from 0 on")
    return found.astype(np.int64)


def _metrics(samples: "pd.DataFrame") -> list[str]:
    """Return the names of the metrics to write, in the catalogue's order. Raises ValueError if there is none, or a
    derived one lacks its parts."""
    known = _columns(samples, "samples", ("gpu", "time"), list(BY_NAME))
    names = [name for name in NAMES if name in known]
    for metric in DERIVED:
        missing = [part for part in metric.parts if part not in known]
        if missing and metric.name in known and samples[metric.name].notna().any():
            raise ValueError(f"{metric.name!r} is not stored, it follows from {', '.join(metric.parts)}: the table has no "
                             f"{', '.join(missing)}")  # fmt: skip
    if not names:
        raise ValueError("there is no metric in the table")
    return names


def _columns(frame: "pd.DataFrame", what: str, needed: Sequence[str], known: Sequence[str]) -> list[str]:
    """Return which of the ``known`` columns a table has. Raises ValueError if it lacks one of the ``needed`` ones, or
    has any other. ``what`` is the table's name."""
    columns = [str(name) for name in frame.columns]
    missing = [name for name in needed if name not in columns]
    if missing:
        raise ValueError(f"{what} need a column {missing[0]!r}: the table has {', '.join(columns) or 'none'}")
    twice = [name for name in dict.fromkeys(columns) if columns.count(name) > 1]
    if twice:
        raise ValueError(f"there are several columns {twice[0]!r} in the table")
    unknown = [name for name in columns if name not in known and name not in needed]
    if unknown:
        kind = "metric" if what == "samples" else f"column of {what}"
        raise ValueError(f"{unknown[0]!r} is no {kind}: {', '.join(known)}")
    return [name for name in columns if name in known]


def _times(column: "pd.Series[Any]") -> Floats:
    """Convert a column of times to unix s. Raises ValueError if a row has no possible time."""
    import pandas as pd

    if pd.api.types.is_datetime64_any_dtype(column):
        utc = pd.to_datetime(column, utc=True)
        found: Floats = np.asarray((utc - pd.Timestamp(0, tz="UTC")).dt.total_seconds(), np.float64)
    else:
        found = _to_floats(column, "time")
    if not np.isfinite(found).all():
        raise ValueError("'time' has rows without a time")
    wrong = found[(found < 0) | (found > LATEST)]
    if len(wrong):
        raise ValueError(f"'time' is in unix seconds, or holds datetimes: {wrong[0]:.15g} is no time that a run has")
    return found


def _labels(samples: "pd.DataFrame", gpus: "pd.DataFrame | None") -> tuple[list[Any], Ints]:
    """Return the GPUs' labels, in the order of ``gpus`` or sorted, and the index of each row's GPU among them. Raises
    ValueError for rows without a known GPU, and for unknown columns of ``gpus``."""
    import pandas as pd

    if samples["gpu"].isna().any():
        raise ValueError("'gpu' has rows without a GPU")
    if gpus is not None and not gpus.index.is_unique:
        raise ValueError(f"GPU {gpus.index[gpus.index.duplicated()][0]!r} has several rows in the table of GPUs")
    labels = _sorted(samples["gpu"].unique().tolist()) if gpus is None else gpus.index.tolist()
    position = pd.Index(labels).get_indexer(samples["gpu"])  # type: ignore[no-untyped-call, unused-ignore]
    if (position < 0).any():
        raise ValueError(
            f"GPU {samples['gpu'].to_numpy()[position < 0][0]!r} has samples and no row in the table of GPUs"
        )
    if gpus is not None and not set(map(str, gpus.columns)) <= _GPU_COLUMNS:
        unknown = sorted(set(map(str, gpus.columns)) - _GPU_COLUMNS)
        raise ValueError(f"{unknown[0]!r} is not known of a GPU: {', '.join(sorted(_GPU_COLUMNS))}")
    return labels, np.asarray(position, np.int64)


def _sorted(labels: list[Any]) -> list[Any]:
    try:
        return sorted(labels)
    except TypeError:  # of several kinds
        return sorted(labels, key=str)


def _gpu(label: Any, at: int, gpus: "pd.DataFrame | None") -> dict[str, Any]:
    """Return the row of the table ``gpus`` for the GPU at index ``at``."""
    import pandas as pd

    known: dict[str, Any] = {"device_index": at, "uuid": str(label), "backend": "imported"}
    if gpus is None:
        return known | {"node": None}
    row = {str(name): value for name, value in gpus.iloc[at].items()}
    own = {name: None if pd.isna(value) else value for name, value in row.items()}
    plain = {name: value.item() if isinstance(value, np.generic) else value for name, value in own.items()}
    whole = {name: int(v) if isinstance(v, float) and _is_integer(name) else v for name, v in plain.items()}
    return {"node": None} | known | whole


def _is_integer(name: str) -> bool:
    return any(column.name == name and column.type.startswith("INTEGER") for column in TABLES["gpus"])


def _values(column: "pd.Series[Any]", name: str) -> Floats:
    """Convert a column to floats. Raises ValueError if its values cannot be of this metric or column: percentages,
    negative shares."""
    found = _to_floats(column, name)
    least, greatest = float(np.nanmin(found, initial=0.0)), float(np.nanmax(found, initial=0.0))
    ratio = name == "cpu_utilization" if name not in BY_NAME else BY_NAME[name].unit == RATIO
    if ratio and greatest > _MOST_OF_A_RATIO:
        raise ValueError(f"{name} is a ratio, 0-1, and not a percentage: the table has {greatest:g}")
    if least < 0 and name not in BY_NAME:
        raise ValueError(f"{name} is never below 0, and NaN where it was not measured: the table has {least:g}")
    if ratio and least < 0:
        raise ValueError(f"{name} is a ratio, 0-1, and NaN where it was not measured: the table has {least:g}")
    if max(greatest, -least) > GREATEST:
        raise ValueError(f"{name} has values that no sensor gives: {max(greatest, least, key=abs):g}")
    return found


def _to_floats(column: "pd.Series[Any]", name: str) -> Floats:
    """Convert a column to floats [rows], with NaN for missing values. Raises ValueError, which calls the column
    ``name``, if a value is no number."""
    try:
        found: Floats = np.asarray(column.astype("Float64").to_numpy(np.float64, na_value=np.nan), np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{name!r} holds something else than numbers") from None
    return found
