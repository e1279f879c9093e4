"""A run in figures, as a fleet counts it: what it held, what it used, what was wasted; as a whole and GPU by GPU.

Everything comes from small tables, rollups and sketches: no raw row of a finished run is read.

What a command runs: the same word for every run of the same program, whatever its arguments.
"""

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from gssr.arrays import Floats
from gssr.launch import shown_job
from gssr.metrics import DETECTION_METRICS, HELD_DOWN, SCORE_INPUTS
from gssr.model.account.activity import IDLE_ACTIVITY, UNUSED_SHARE
from gssr.model.breakdown.categories import CATEGORIES
from gssr.model.breakdown.result import Breakdown
from gssr.model.statistics.aggregate import sum_known
from gssr.model.statistics.balance import imbalance
from gssr.model.statistics.energy import ENERGY_METRICS, total_joules
from gssr.model.statistics.sources import RollupSource
from gssr.model.statistics.unmeasured import unmeasured_seconds
from gssr.model.verdicts import judge_window
from gssr.model.verdicts.rules import TABLE
from gssr.model.verdicts.table import RuleTable
from gssr.model.window import extent
from gssr.store.format.schema import Column
from gssr.store.read.recording import RunReader
from gssr.store.read.time_window import ALL_TIME
from gssr.store.read.whole_run import count_below

_INTERPRETER = re.compile(
    r"(?:python|pypy|perl|ruby|lua)[\d.]*|(?:ba|da|z|k|c|tc|fi)?sh|julia|Rscript|node|java|matlab"
)
_BEFORE = {"env", "nice", "nohup", "time", "timeout", "numactl", "taskset", "srun", "mpirun", "mpiexec", "stdbuf"}
"""What only starts another program."""
_TAKE_TEXT = ("-c", "-e", "-lc")
_MODULE = "-m"


def program_of(command: Sequence[str]) -> str | None:
    """Name what a command runs, whatever its arguments; None for no command.

    That is ``train.py`` for ``/usr/bin/python3 -u /home/me/train.py --lr 1``, ``torch.distributed.run`` for ``python
    -m ...``, ``sh -c`` for a text for the shell, ``solver`` for ``./bin/solver input``.
    """
    words = list(command)
    while len(words) > 1 and os.path.basename(words[0]) in _BEFORE:
        words = _after_options(words)
    if not words:
        return None
    name = os.path.basename(words[0].rstrip("/")) or words[0]
    if not _INTERPRETER.fullmatch(name):
        return name
    for place, word in enumerate(words[1:], 1):
        if word in _TAKE_TEXT:
            return f"{name} {word}"
        if word == _MODULE and place + 1 < len(words):
            return words[place + 1]
        if not word.startswith("-"):
            return os.path.basename(word.rstrip("/")) or word
    return name


def _after_options(words: Sequence[str]) -> list[str]:
    """Return the words after a starter (the first word), its options, its settings (NAME=VALUE) and its numbers (a
    priority, a time limit); at least the last word stays."""
    rest = list(words[1:])
    while len(rest) > 1 and (rest[0].startswith("-") or "=" in rest[0] or re.fullmatch(r"[\d.,:]+[smhd]?", rest[0])):
        del rest[0]
    return rest


_FEWEST = 3
"""So many used GPUs can be compared with their median."""
_READ = (*SCORE_INPUTS, *DETECTION_METRICS, "sm_clock", *ENERGY_METRICS, "clock_event_reasons")

COMMON = (
    Column("gpu_hours", "REAL", "GPUs times the duration, h"),
    Column("score", "REAL", "saturation score, 0-1; NULL if unknown"),
    Column("wasted_gpu_hours", "REAL", "gpu_hours * (1 - score), with all hours after a GPU's rank was lost, h"),
    Column("idle_gpu_hours", "REAL", "gpu_hours times the share of samples with SM active below 2 %, h"),
    Column("throttled_gpu_hours", "REAL", "gpu_hours times the share of samples slowed down by heat or hardware, h"),
    Column("energy_j", "REAL", "energy used, J"),
    Column("wasted_energy_j", "REAL", "energy_j * (1 - score), J"),
)  # fmt: skip
RUN_COLUMNS = (
    Column("run_id", "TEXT NOT NULL", "the run"),
    Column("file", "TEXT NOT NULL", "the recording it was read from"),
    Column("label", "TEXT", "the label given with --label"),
    Column("program", "TEXT", "name of the program that ran; if it is an interpreter, of its script"),
    Column("job_id", "TEXT", "the launcher's job id"),
    Column("user", "TEXT", "who ran it"),
    Column("cluster", "TEXT", "name of the cluster"),
    Column(
        "state", "TEXT NOT NULL",
        "running, completed, failed, timeout, killed or lost; without a command, gssr fleet --sacct gives the job's",
    ),
    Column("started_at", "REAL", "unix time of the command's start, s"),
    Column("duration_s", "REAL NOT NULL", "from start to end, or to the last sample, s"),
    Column("n_nodes", "INTEGER NOT NULL", "number of nodes"),
    Column("n_gpus", "INTEGER NOT NULL", "number of GPUs"),
    Column("n_samples", "INTEGER NOT NULL", "number of samples"),
    Column("n_gaps", "INTEGER NOT NULL", "number of gaps, over all GPUs"),
    *COMMON,
    Column("unused_gpus", "INTEGER", "GPUs that did something in less than 2 % of their samples"),
    Column("imbalance", "REAL", "1 - mean / max of the GPUs' mean SM active; NULL with fewer than two GPUs"),
    Column("imbalance_gpu_hours", "REAL", "gpu_hours * imbalance, h"),
    Column("array_job_id", "TEXT", "id of the array of jobs that the job is a task of; NULL outside of an array"),
    Column("array_task_id", "TEXT", "the task's number in its array"),
    Column("job_name", "TEXT", "the job's name, as its scheduler shows it"),
    Column("account", "TEXT", "what the scheduler books the job to: an account or a project"),
    Column("partition", "TEXT", "partition or queue that the job ran in"),
)  # fmt: skip
GPU_COLUMNS = (
    Column("run_id", "TEXT NOT NULL", "the run"),
    Column("gpu", "INTEGER NOT NULL", "number of the GPU within the run, from 0"),
    Column("node", "TEXT", "the node it is in"),
    Column("device_index", "INTEGER", "the driver's index on its node"),
    Column("uuid", "TEXT", "the driver's UUID"),
    Column("name", "TEXT", "product name"),
    Column("n_samples", "INTEGER NOT NULL", "number of samples"),
    Column("n_gaps", "INTEGER NOT NULL", "number of gaps"),
    *COMMON,
    Column("unused", "INTEGER", "1 if it did something in less than 2 % of its samples, else 0"),
    Column("sm_active", "REAL", "mean SM active (ratio, 0-1)"),
    Column("relative_activity", "REAL", "sm_active divided by that of the run's median used GPU; NULL with fewer than 3"),
    Column("relative_clock", "REAL", "mean SM clock divided by that of the run's median used GPU; NULL with fewer than 3"),
)  # fmt: skip
"""Columns of the figures, in the order of the fields below. SM active stands for the first measured of DETECTION_METRICS."""


class GpuFigures(NamedTuple):
    """One GPU of a run: GPU_COLUMNS; None is unknown."""

    run_id: str
    gpu: int
    node: str | None
    device_index: int | None
    uuid: str | None
    name: str | None
    n_samples: int
    n_gaps: int
    gpu_hours: float
    score: float | None
    wasted_gpu_hours: float | None
    idle_gpu_hours: float | None
    throttled_gpu_hours: float | None
    energy_j: float | None
    wasted_energy_j: float | None
    unused: int | None
    sm_active: float | None
    relative_activity: float | None
    relative_clock: float | None


class RunFigures(NamedTuple):
    """One run: RUN_COLUMNS; None is unknown. Beside these its GPUs, when it began (unix s, by its samples where its start is
    unknown) and, where they were asked for, its verdicts, how long a step took (s), and its GPU-hours by category, in the
    order of CATEGORIES, which add up to ``gpu_hours``."""

    run_id: str
    file: str
    label: str | None
    program: str | None
    job_id: str | None
    user: str | None
    cluster: str | None
    state: str
    started_at: float | None
    duration_s: float
    n_nodes: int
    n_gpus: int
    n_samples: int
    n_gaps: int
    gpu_hours: float
    score: float | None
    wasted_gpu_hours: float | None
    idle_gpu_hours: float | None
    throttled_gpu_hours: float | None
    energy_j: float | None
    wasted_energy_j: float | None
    unused_gpus: int | None
    imbalance: float | None
    imbalance_gpu_hours: float | None
    array_job_id: str | None = None
    array_task_id: str | None = None
    job_name: str | None = None
    account: str | None = None
    partition: str | None = None
    gpus: tuple[GpuFigures, ...] = ()
    began: float = 0.0
    verdicts: Mapping[str, tuple[int, ...]] | None = None
    step_s: float | None = None
    hours_by_category: tuple[float, ...] | None = None

    @property
    def ended(self) -> float:
        """When it ended, or was sampled last, unix s."""
        return self.began + self.duration_s

    @property
    def shown_job(self) -> str | None:
        """The job's id as its scheduler shows it: see gssr.launch."""
        return shown_job(self.job_id, self.array_job_id, self.array_task_id)


def read_figures(reader: RunReader, file: str, verdicts: bool = False, rules: RuleTable = TABLE) -> RunFigures:
    """Read the figures of a run of the recording ``file``. With ``verdicts`` it is judged as well, by ``rules``, which
    takes several times as long."""
    run, (start, end) = reader.run, extent(reader)
    hours = (end - start) / 3600
    counted = _GpuColumns(reader)
    unmeasured = unmeasured_seconds(reader, np.arange(len(reader.gpus)), counted.last_time, start, end) / 3600
    gpus = tuple(
        _gpu(counted, reader, position, hours, float(unmeasured[position])) for position in range(len(reader.gpus))
    )
    gpu_hours = len(gpus) * hours
    score = counted.score
    own = imbalance(counted.lead) if len(gpus) > 1 else None
    unused = [gpu.unused for gpu in gpus if gpu.unused is not None]
    energy = total_joules(counted.energy, counted.n_rows, reader.gpus)
    return RunFigures(
        run_id=run.run_id,
        file=file,
        label=run.label,
        program=program_of(run.command),
        job_id=run.job_id,
        user=run.user,
        cluster=run.cluster,
        state=reader.state,
        started_at=run.started_at,
        duration_s=end - start,
        n_nodes=run.n_nodes or len({gpu.node for gpu in gpus} | {process.node for process in reader.processes}),
        n_gpus=len(gpus),
        n_samples=sum(gpu.n_samples for gpu in gpus),
        n_gaps=sum(gpu.n_gaps for gpu in gpus),
        gpu_hours=gpu_hours,
        score=score,
        wasted_gpu_hours=_wasted(gpu_hours, score, float(unmeasured.sum())),
        idle_gpu_hours=sum_known(gpu.idle_gpu_hours for gpu in gpus),
        throttled_gpu_hours=sum_known(gpu.throttled_gpu_hours for gpu in gpus),
        energy_j=energy,
        wasted_energy_j=_wasted(energy, score),
        unused_gpus=sum(unused) if unused else None,
        imbalance=own,
        imbalance_gpu_hours=None if own is None else own * gpu_hours,
        array_job_id=run.array_job_id,
        array_task_id=run.array_task_id,
        job_name=run.job_name,
        account=run.account,
        partition=run.partition,
        gpus=gpus,
        began=start,
        **(_judged(reader, rules, gpu_hours) if verdicts else {}),
    )


def _judged(reader: RunReader, rules: RuleTable, gpu_hours: float) -> dict[str, Any]:
    """Return verdicts, the step's length (None: unknown) and the ``gpu_hours`` by category, as fields of RunFigures."""
    judgement = judge_window(reader, np.arange(len(reader.gpus)), ALL_TIME, rules, with_phases=False)
    return {
        "verdicts": {verdict.code: verdict.gpus for verdict in judgement.verdicts},
        "step_s": None if judgement.step is None else judgement.step.seconds,
        "hours_by_category": _hours_by_category(judgement.breakdown, gpu_hours),
    }


def _hours_by_category(breakdown: Breakdown | None, gpu_hours: float) -> tuple[float, ...]:
    """Divide a run's GPU-hours by the shares of its breakdown; without samples all of them are unmeasured."""
    if breakdown is None or not breakdown.gpu_seconds > 0:
        return tuple(gpu_hours if each.name == "unmeasured" else 0.0 for each in CATEGORIES)
    return tuple((breakdown.shares * gpu_hours).tolist())


def _wasted(amount: float | None, score: float | None, unmeasured: float = 0.0) -> float | None:
    """Return how much of ``amount`` was not used at this score, with all that is ``unmeasured`` of it; None if either
    is unknown."""
    return None if amount is None or score is None else unmeasured + (amount - unmeasured) * (1 - score)


class _GpuColumns:
    """The figures of each GPU of a run, added up from its rollups and sketches: arrays [n_gpus] by position, NaN if
    unknown."""

    def __init__(self, reader: RunReader) -> None:
        n_gpus = len(reader.gpus)
        total = RollupSource(reader, np.arange(n_gpus), 0).sums(_READ, ALL_TIME, reader.gap_seconds)
        self.n_rows, self.n_gaps, self.last_time = total.n_rows, total.n_gaps, total.last_time
        name = next((name for name in DETECTION_METRICS if name in total.sums.measured()), None)
        idle, known = count_below(reader, name, IDLE_ACTIVITY) if name else (np.zeros(n_gpus), np.zeros(n_gpus))
        self.idle = np.divide(idle, known, out=np.full(n_gpus, np.nan), where=np.asarray(known) > 0)
        self.unused = np.where(known > 0, 1 - self.idle < UNUSED_SHARE, np.nan)
        self.lead = total.sums.per_gpu(name) if name else np.full(n_gpus, np.nan)
        self.activity = self._relative(self.lead)
        self.clock = self._relative(total.sums.per_gpu("sm_clock"))
        self.throttled = np.fmax.reduce([total.sums.per_gpu(flag) for flag in HELD_DOWN])
        self.energy = total.joules
        self.score, self.scores = total.sums.score(), total.sums.scores()

    def _relative(self, means: Floats) -> Floats:
        """Divide by the median of the GPUs that were used; all NaN if fewer than _FEWEST were."""
        used = means[(self.unused == 0) & np.isfinite(means)]
        middle = float(np.median(used)) if len(used) >= _FEWEST else 0.0
        return means / middle if middle > 0 else np.full(len(means), np.nan)


def _gpu(counted: _GpuColumns, reader: RunReader, position: int, hours: float, unmeasured: float) -> GpuFigures:
    """Return the figures of the GPU at this position, with None for what is unknown. ``counted``: what was counted of
    all GPUs of the run. ``hours``: those of the run; ``unmeasured``: of these, those without samples after its rank was
    lost."""

    def of(values: Floats) -> float | None:
        value = float(values[position])
        return value if value == value else None

    gpu = reader.gpus[position]
    idle, throttled, unused, energy, score = (
        of(values) for values in (counted.idle, counted.throttled, counted.unused, counted.energy, counted.scores)
    )
    return GpuFigures(
        run_id=gpu.run_id,
        gpu=position,
        node=gpu.node,
        device_index=gpu.device_index,
        uuid=gpu.uuid,
        name=gpu.name,
        n_samples=int(counted.n_rows[position]),
        n_gaps=int(counted.n_gaps[position]),
        gpu_hours=hours,
        score=score,
        wasted_gpu_hours=_wasted(hours, score, unmeasured),
        idle_gpu_hours=None if idle is None else idle * hours,
        throttled_gpu_hours=None if throttled is None else throttled * hours,
        energy_j=energy,
        wasted_energy_j=_wasted(energy, score),
        unused=None if unused is None else int(unused),
        sm_active=of(counted.lead),
        relative_activity=of(counted.activity),
        relative_clock=of(counted.clock),
    )
