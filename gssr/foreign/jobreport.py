"""What CSCS's jobreport leaves of a step: ``jobreport_JOB/step_S/proc_R.csv``, a file for each node with a row for each GPU.
It has what DCGM's job statistics say: means, and the most memory in use.

Its columns smUtilization... are DCGM's field 203, GPU utilization, and memoryUtilization... field 204 (DCGM's JobGetStats);
startTime and endTime are in microseconds.
"""

import csv
import io
from collections.abc import Mapping, Sequence

import numpy as np

from gssr.foreign.job_means import ForeignGpuMeans, series_of_means
from gssr.foreign.json_file import contents, number, whole
from gssr.foreign.names import blanks_to_nan
from gssr.foreign.series import ForeignError, ForeignGpu, ForeignSeries, ImportHints, Note, plain
from gssr.store.format.limits import MOST_GPUS

KIND = "jobreport"
_MEANS = {
    "smUtilizationAvg": ("gpu_utilization", 0.01),
    "memoryUtilizationAvg": ("memory_copy_utilization", 0.01),
    "powerUsageAvg": ("power_usage", 1.0),
}
"""By column: the metric, and the factor to the catalogue's unit."""
_NEEDED = ("jobId", "stepId", "host", "gpuId", "startTime", "endTime")
_Row = Mapping[str, str | None]


def read(paths: Sequence[str], told: ImportHints) -> list[ForeignSeries]:
    """Read the files of jobreport as runs, one for each step of each job. Files and rows that can't be read are named or
    counted in notes of the first run; raises ForeignError if no row can be."""
    steps: dict[tuple[str | None, str | None], list[tuple[_Row, ForeignGpuMeans]]] = {}
    problems: list[str] = []
    n_bad = n_gpus = 0
    for path in paths:
        try:
            rows = _rows(path)
        except ForeignError as error:
            problems.append(str(error))
            continue
        for row in rows:
            means = _means(row, told)
            n_bad += means is None
            if means is not None:
                n_gpus += 1
                steps.setdefault((row["jobId"], row["stepId"]), []).append((row, means))
        if n_gpus > MOST_GPUS:
            raise ForeignError(f"{path}: has rows of more than {MOST_GPUS:,} GPUs")
    if not steps:
        raise ForeignError(problems[0] if problems else f"{paths[0]}: holds no row of a GPU")
    found = []
    for (job, step), rows_of_step in steps.items():
        series = series_of_means(KIND, [means for _, means in rows_of_step], (), "jobreport")
        series.job_id, series.step_id = job, step
        series.user = next((row.get("username") for row, _ in rows_of_step if row.get("username")), None)
        found.append(series)
    bad = [f"{n_bad:,} rows that are cut off, or without times, are left out"] if n_bad else []
    found[0].notes += [Note(text) for text in (*bad, *problems)]
    return found


def _rows(path: str) -> list[_Row]:
    """Read the rows of one file. Raises ForeignError if it is none of jobreport."""
    text = b"".join(contents(path)).removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace")
    try:
        table = csv.DictReader(io.StringIO(text))
        missing = [name for name in _NEEDED if name not in (table.fieldnames or ())]
        if missing:
            raise ForeignError(f"{path}: is no file of jobreport: it has no column {missing[0]}")
        return list(table)
    except csv.Error as error:
        raise ForeignError(f"{path}: is no sound table: {plain(str(error))}") from None


def _means(row: _Row, told: ImportHints) -> ForeignGpuMeans | None:
    """Read one row; None if it is cut off, or says no time that can be."""
    start, end = (number(row[name]) for name in ("startTime", "endTime"))
    if start is None or end is None or not 0 <= start < end < 1e17 or None in row.values():
        return None
    values = {}
    for column, (name, factor) in _MEANS.items():
        value = number(row.get(column))
        known = float("nan") if value is None else float(blanks_to_nan(np.array([value]))[0]) * factor
        if known >= 0:
            values[name] = known
    most = number(row.get("maxAllocatedMemory"))
    is_known = most is not None and float(blanks_to_nan(np.array([most]))[0]) >= 0
    gpu = ForeignGpu(node=row["host"] or told.host, device_index=whole(row["gpuId"]))
    return ForeignGpuMeans(gpu, start / 1e6, end / 1e6, values, most if is_known else None)
