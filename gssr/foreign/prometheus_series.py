"""Which metric of which GPU a series of Prometheus is, and what many of them come to as rows: of dcgm-exporter in all its
versions, and of GSSR's own export. Whose GPUs they are, GSSR says in a metric of its own (gssr.prometheus.RUN_INFO), and
versions before 0.5 in labels of each series.

A GPU is known by its UUID, else by its node and index. An instance of MIG has the UUID of the whole GPU, and an id of its
own: where there are instances, the whole GPU's row would count them twice, and is left out.
"""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from gssr.arrays import Flags, Floats, Ints
from gssr.foreign.json_file import text_or_none, whole
from gssr.foreign.names import (
    MEMORY_FREE,
    MEMORY_RESERVED,
    MEMORY_TOTAL,
    OF_GPUS,
    POWER_LIMIT,
    ROWS,
    Meant,
    blanks_to_nan,
    of_dcgm,
)  # fmt: skip
from gssr.foreign.series import ForeignGpu, ForeignSeries, ImportHints, Note, plain
from gssr.metrics import METRICS, NAMES
from gssr.prometheus import FAMILIES, LONGEST_LABEL, REPLACED, RUN_INFO
from gssr.store.format.limits import MOST_GPUS, MOST_RUNS
from gssr.store.format.sample_arrays import Samples

_OURS = {family.sample: Meant(name, 1.0 / family.factor) for name, family in FAMILIES.items()}
_DCGM = ("DCGM_FI_", "dcgm_")
_CATALOGUE = {row.name: of_dcgm(str(row.id)) for row in ROWS}
_COLUMNS = (*NAMES, *OF_GPUS)
_INDEX = {name: at for at, name in enumerate(_COLUMNS)}
_OF_DCGM_ALONE = tuple(metric.name for metric in METRICS if (metric.dcgm or 0) > 1000)
"""Fields that dcgm-exporter asks for at its own interval, and repeats in between."""
_PCIE, _DRAM = ("pcie_tx_bytes", "pcie_rx_bytes"), "dram_active"
_NODES = ("Hostname", "hostname", "node", "kubernetes_node", "instance")
_UUIDS, _INDICES, _NAMES = ("UUID", "uuid"), ("gpu", "minor_number", "device"), ("modelName", "model")
_DRIVERS, _JOBS = ("DCGM_FI_DRIVER_VERSION", "driver_version"), ("hpc_job", "jobid", "job_id", "slurm_job_id")
_OUR_JOBS = ("job_id", "exported_job", "job")
"""Labels in which GSSR names the job: "job" until 0.5, which Prometheus calls "exported_job"."""
_PODS = ("exported_pod", "pod", "pod_name", "hpc_job", "jobid")
_OF_RUNS = ("run", "job_id", "step_id", "cluster", "user", "label", "command")
_ROWS = 1 << 16
"""Of a piece, about."""
_MOST_SERIES = 1 << 20
_LONGEST = 200
"""Characters of a name."""
_LEAST_ZEROS, _LEAST_CHANGES = 20, 5
_REPEATED = 1.5
"""Values that change less often than each this many-th row are repeated ones."""

NOTHING = -1
"""In place of a series that is no metric of a GPU."""


class _MetricOfGpu(NamedTuple):
    """One series of Prometheus. ``gpu``: position of its GPU in ``SeriesTable._gpus``; ``column``: position of its
    metric in ``_COLUMNS``; ``factor``: to the catalogue's unit; ``is_dcgm``: DCGM's blanks may occur; ``has_pod``: its
    labels name a pod or a job."""

    gpu: int
    column: int
    factor: float
    is_dcgm: bool
    has_pod: bool


class SeriesTable:
    """Collects series of Prometheus and makes rows of their samples. ``add`` gives a series a number by its name and
    labels; ``pieces`` makes rows of samples with these numbers. GPUs, notes and the job are added to the ForeignSeries
    ``series``."""

    def __init__(self, series: ForeignSeries, told: ImportHints) -> None:
        self._series, self._told = series, told
        self._ids: dict[tuple[str, frozenset[tuple[str, str]]], int] = {}
        self._own: list[_MetricOfGpu] = []
        self._gpus: list[ForeignGpu] = []
        self._places: dict[tuple[str | None, str | int | None, str | None], int] = {}
        self._parent: dict[int, tuple[str | None, str | int | None]] = {}
        self._positions: dict[int, int] = {}
        self._unknown: set[str] = set()
        self._said: set[str] = set()
        self._jobs: set[str] = set()
        self._runs: set[str] = set()
        self._infos: dict[str, Mapping[str, str]] = {}
        """Labels of RUN_INFO, by run, or by job where they name no run."""
        self._moved: dict[str, Flags] = {}
        self._table = np.empty((0, len(_MetricOfGpu._fields)))

    def add(self, name: str, labels: Mapping[str, str], is_told: bool = False) -> int:
        """Add a series of this metric name and these labels, or find it again. Returns its number, or NOTHING (-1) if
        it is no known metric or its labels name no GPU. With ``is_told`` the user gave the name, which may then be any
        of DCGM's or the catalogue's (its values are in DCGM's unit all the same). What RUN_INFO says is kept for the
        series' run and GPUs; it has no number."""
        if name == RUN_INFO.sample:
            self._note_run(labels)
            return NOTHING
        meant = _meaning(name) or (of_dcgm(name) or _CATALOGUE.get(name) if is_told else None)
        if meant is None:
            if name.startswith(_DCGM) and len(self._unknown) < _MOST_SERIES:
                self._unknown.add(name)
            return NOTHING
        key = name, frozenset(labels.items())
        found = self._ids.get(key)
        if found is None:
            found = NOTHING
            if len(self._ids) >= _MOST_SERIES:
                self._say(f"more than {_MOST_SERIES:,} series: later ones are left out")
                return NOTHING
            gpu = self._gpu(labels)
            if gpu is not None:
                found = len(self._own)
                pod = any(labels.get(label) for label in _PODS)
                self._own.append(_MetricOfGpu(gpu, _INDEX[meant.name], meant.factor, name not in _OURS, pod))
                self._runs |= {run for label in ("run",) if name in _OURS and (run := labels.get(label))}
                if name not in _OURS:
                    self._jobs |= {value for label in _JOBS if (value := text_or_none(labels.get(label)))}
                elif job := next(filter(None, map(labels.get, _OUR_JOBS)), None):
                    self._jobs.add(job)
            self._ids[key] = found
        return found

    def _note_run(self, labels: Mapping[str, str]) -> None:
        """Keep what RUN_INFO says of a run in its labels, and of the GPU that it has."""
        run = labels.get("run") or labels.get("job_id") or ""
        if len(self._infos) < MOST_RUNS:
            self._infos.setdefault(run, labels)
        self._gpu(labels)

    def _gpu(self, labels: Mapping[str, str]) -> int | None:
        """Return the position of the GPU that labels name, adding it if it is new. None if they name neither a UUID nor
        an index, or there are too many GPUs."""

        def first(names: Sequence[str]) -> str | None:
            return next((own for name in names if (own := plain(labels.get(name, ""), _LONGEST))), None)

        node = first(_NODES)
        if node is not None and not any(labels.get(name) for name in _NODES[:-1]):
            node = node.rpartition(":")[0] or node  # the address that was asked
        node = node or self._told.host
        index = whole((first(_INDICES) or "").removeprefix("nvidia"))
        uuid, instance = first(_UUIDS), first(("GPU_I_ID",))
        mig = first(("mig",))
        if instance is not None:
            mig = " ".join(filter(None, (first(("GPU_I_PROFILE",)), f"GI {instance}")))
        if uuid is None and index is None:
            return None
        own = (None, uuid) if uuid is not None else (node, index)
        key = *own, mig
        found = ForeignGpu(
            node=node, device_index=index, uuid=uuid, name=first(_NAMES), driver_version=first(_DRIVERS), mig=mig,
            rank=whole(labels.get("rank")),
        )  # fmt: skip
        if key not in self._places:
            if len(self._gpus) >= MOST_GPUS:
                self._say(f"more than {MOST_GPUS:,} GPUs: later ones are left out")
                return None
            self._places[key] = len(self._gpus)
            if instance:
                self._parent[len(self._gpus)] = own
            self._gpus.append(found)
        at = self._places[key]
        pairs = zip(ForeignGpu._fields, self._gpus[at], found, strict=True)
        more: dict[str, Any] = {field: new for field, old, new in pairs if old is None and new is not None}
        self._gpus[at] = self._gpus[at]._replace(**more)
        return at

    def cells(self) -> Ints:
        """Return for each series a number that is the same for series of one metric of one GPU, int64[series]."""
        self._refresh()
        gpu, column = self._table[:, 0], self._table[:, 1]
        return (gpu * len(_COLUMNS) + column).astype(np.int64)

    def _refresh(self) -> None:
        if len(self._table) < len(self._own):
            self._table = np.array(self._own, np.float64)

    def _say(self, note: str) -> None:
        if note not in self._said:
            self._said.add(note)
            self._series.notes.append(Note(note))

    def pieces(self, of: Ints, time: Floats, values: Floats) -> Iterator[Samples]:
        """Make rows of samples, and yield them in pieces that ascend in time. Samples of one GPU at equal times make
        one row.

        Args:
            of: number of each sample's series, as ``add`` returned it, int64[n].
            time: unix s, float64[n], in any order.
            values: as Prometheus has them, float64[n].
        """
        order = np.argsort(time, kind="stable")
        begin = 0
        while begin < len(order):
            end = min(begin + _ROWS * 4, len(order))
            while end < len(order) and time[order[end]] == time[order[end - 1]]:
                end += 1
            rows = order[begin:end]
            piece = self._piece(of[rows], time[rows], values[rows])
            begin = end
            if len(piece.time):
                yield piece

    def _piece(self, of: Ints, time: Floats, raw: Floats) -> Samples:
        """Make one piece of samples whose times ascend. Rows of GPUs that are split into MIG instances are left out.
        The piece may have no rows."""
        self._refresh()
        own = self._table
        gpu, column = own[of, 0].astype(np.int64), own[of, 1].astype(np.int64)
        values = np.where(own[of, 3] > 0, blanks_to_nan(raw), np.where(np.isfinite(raw), raw, np.nan)) * own[of, 2]
        parents = {self._places[key] for at in self._parent if (key := (*self._parent[at], None)) in self._places}
        if parents:
            self._say("of GPUs that are split by MIG their instances are taken, the whole GPUs' own rows are left out")
            kept = ~np.isin(gpu, list(parents))
            gpu, column, values, time, of = gpu[kept], column[kept], values[kept], time[kept], of[kept]
        n_gpus = max(len(self._gpus), 1)
        moments, moment = np.unique(time, return_inverse=True)
        rows, row = _places_of(moment * n_gpus + gpu, len(moments) * n_gpus)
        table = np.full((len(rows), len(_COLUMNS)), np.nan)
        order = np.argsort(own[of, 4], kind="stable")  # of two, one with a pod counts
        table[row[order], column[order]] = values[order]
        twice = table[row, column]
        if ((twice != values) & ~(np.isnan(twice) & np.isnan(values))).any():
            self._say(
                "of some GPUs there are several values at one time, of several exporters or pods: one of them is taken"
            )
        at, when = rows % n_gpus, moments[rows // n_gpus]
        self._describe(at, table)
        found = {name: table[:, place] for name, place in _INDEX.items() if name not in OF_GPUS}
        found = {name: own_ for name, own_ in found.items() if not np.isnan(own_).all()}
        self._tell_zeros(at, found)
        self._tell_steps(at, when, found)
        has_any = ~np.isnan(np.stack(list(found.values()))).all(axis=0) if found else np.zeros(len(at), np.bool_)
        for each in np.unique(at[has_any]).tolist():
            if each not in self._positions:
                self._positions[each] = len(self._series.gpus)
                self._series.gpus.append(self._gpus[each])
        position = np.array([self._positions.get(each, 0) for each in range(len(self._gpus))], np.int64)
        if len(self._jobs) == 1 and self._series.job_id is None:
            self._series.job_id = next(iter(self._jobs))
        if len(self._infos) == 1:
            describe_run(self._series, next(iter(self._infos.values())))
        return Samples(position[at[has_any]], when[has_any], {name: own_[has_any] for name, own_ in found.items()})

    def _describe(self, at: Ints, table: Floats) -> None:
        """Store the memory size and power limit of GPUs, from rows ``table`` of the GPUs ``at``, where they are not
        known yet."""
        total, used, free, reserved, limit = (
            table[:, _INDEX[name]] for name in (MEMORY_TOTAL, "memory_used", MEMORY_FREE, MEMORY_RESERVED, POWER_LIMIT)
        )
        total = np.where(np.isnan(total), used + free + np.nan_to_num(reserved), total)
        most, highest = np.zeros((2, len(self._gpus)))
        np.fmax.at(most, at, total)
        np.fmax.at(highest, at, limit)
        for each in np.flatnonzero((most > 0) | (highest > 0)).tolist():
            gpu = self._gpus[each]
            self._gpus[each] = gpu._replace(
                memory_total=gpu.memory_total or int(most[each]) or None,
                power_limit=gpu.power_limit or float(highest[each]) or None,
            )

    def _tell_zeros(self, at: Ints, found: dict[str, Floats]) -> None:
        """Set PCIe rates in ``found`` to NaN for GPUs whose rates have always been 0 although they use their memory:
        some GPUs do not measure them. ``at`` is the GPU of each row."""
        busy = found.get(_DRAM, np.zeros(len(at))) > 0
        for name in _PCIE:
            column = found.get(name)
            if column is None:
                continue
            moved = np.zeros(len(self._gpus), np.bool_)
            before = self._moved.get(name, moved)
            moved[: len(before)] = before
            moved[at[column > 0]] = True
            self._moved[name] = moved
            still = ~moved & (np.bincount(at[busy], minlength=len(moved)) >= _LEAST_ZEROS)
            if (unknown := still[at] & (column == 0)).any():
                found[name] = np.where(unknown, np.nan, column)
                self._say("PCIe rates are 0 throughout on GPUs that use their memory: they are taken to be unknown")

    def _tell_steps(self, at: Ints, when: Floats, found: dict[str, Floats]) -> None:
        """Set the series' sampling interval, with a note, if values of a profiling metric change clearly less often
        than there are rows. ``at`` [n] and ``when`` [n]: the GPU and time (unix s) of each row; ``found``: the rows'
        values by metric. Does nothing if the interval is known already."""
        if self._series.sampling_seconds is not None or self._told.interval is not None:
            return
        name = next((name for name in _OF_DCGM_ALONE if name in found), None)
        if name is None:
            return
        apart, spacing = [], []
        order = np.lexsort((when, at))
        for rows in np.split(order, np.flatnonzero(np.diff(at[order])) + 1):
            rows = rows[~np.isnan(found[name][rows])]
            changes: Flags = np.diff(found[name][rows]) != 0
            apart.append(np.diff(when[rows][1:][changes]))
            spacing.append(np.diff(when[rows]))
        between = np.concatenate(apart)
        if len(between) >= _LEAST_CHANGES and np.median(between) > _REPEATED * np.median(np.concatenate(spacing)):
            self._series.sampling_seconds = seconds = round(float(np.median(between)), 3)
            self._say(
                f"values change each {seconds:g} s only, and are repeated in between: they are steps, not samples"
            )

    def finish(self) -> None:
        """Add notes about runs that were put together and metrics that were left out. Call it after the last sample."""
        n_runs = max(len(self._runs), len(self._infos))
        if n_runs > 1:
            self._say(f"{n_runs:,} runs of GSSR are in it: their samples are one run here")
        unknown = sorted(self._unknown)
        if unknown:
            more = f" and {len(unknown) - 10} more" if len(unknown) > 10 else ""
            self._say(f"metrics that GSSR does not know are left out: {', '.join(map(plain, unknown[:10]))}{more}")


def describe_run(series: ForeignSeries, labels: Mapping[str, str]) -> None:
    """Set what the labels of RUN_INFO say of a run, where the series does not know it yet. A command that was cut, or
    whose characters were replaced, is left unknown, with a note."""
    told = {name: text for name in _OF_RUNS if (text := labels.get(name))}
    series.run_id = series.run_id or told.get("run")
    series.job_id = series.job_id or told.get("job_id")
    series.step_id = series.step_id or told.get("step_id")
    series.cluster = series.cluster or told.get("cluster")
    series.user = series.user or told.get("user")
    series.label = series.label or told.get("label")
    command = told.get("command", "")
    if not command or series.command:
        return
    words = None
    if len(command) < LONGEST_LABEL and REPLACED not in command:
        with suppress(ValueError):
            words = tuple(shlex.split(command))
    series.command = words or ()
    note = Note("the command is not whole in the file, and is left out")
    if words is None and note not in series.notes:
        series.notes.append(note)


def _places_of(keys: Ints, n: int) -> tuple[Ints, Ints]:
    """Compress keys from 0 to ``n`` - 1. Returns the different keys, ascending, and for each key its position among
    them."""
    if n > 64 * len(keys):
        found, place = np.unique(keys, return_inverse=True)
        return found, place
    there = np.zeros(n, np.bool_)
    there[keys] = True
    return np.flatnonzero(there), (np.cumsum(there) - 1)[keys]


def _meaning(name: str) -> Meant | None:
    """Return the metric that a series of this name holds, of GSSR's export or of dcgm-exporter; None if it is none of
    theirs."""
    ours = _OURS.get(name)
    if ours is not None:
        return ours
    return of_dcgm(name) or of_dcgm(name.removesuffix("_total")) if name.startswith(_DCGM) else None
