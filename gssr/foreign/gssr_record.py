"""What gssr-record 2.0 leaves of a step: ``step_N/proc_R.csv`` of each node, and ``proc_0.meta.txt``.

A row sums up the second that ends with it: its mean is taken as the sample. Numbers above 2e9, which are blanks, and rates
that were so high, were written as 0.
"""

import json
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime

import numpy as np

from gssr.arrays import Floats, Ints
from gssr.foreign.cells import TextCells
from gssr.foreign.json_file import contents, text_or_none, whole
from gssr.foreign.names import OF_GPUS, blanks_to_nan, of_dcgm
from gssr.foreign.series import ForeignError, ForeignGpu, ForeignSeries, ImportHints, Note, in_order, plain
from gssr.metrics import BY_NAME
from gssr.store.format.sample_arrays import Samples

_HEAD = ("timestamp", "gpuId")
_SUMS = ("_min", "_avg", "_max")
_MEMORY = tuple(f"DCGM_FI_DEV_FB_{which}_avg" for which in ("USED", "FREE", "RESERVED"))
_FILE, _META = re.compile(r"proc_(\d+)\.csv(?:\.gz)?"), "proc_0.meta.txt"
_STEP, _JOB = re.compile(r"step_(\w+)"), re.compile(r"(.*)_(\d+)")
_KEY = re.compile(r'^\s*"([\w-]+)":\s*"(.*)",?\s*$', re.MULTILINE)
_WORD = re.compile(r"'(.*?)'(?= '|\s*$)", re.DOTALL)
_HUGE = 1e15
"""s: nothing lasts longer."""
_ROUNDED = 10
"""A mean is written as 0 while the highest value is not where it is below half of the last digit, or cut: windows have some
ten values at most."""


def read(paths: Sequence[str], told: ImportHints) -> list[ForeignSeries]:
    """Read the files ``proc_R.csv`` of gssr-record. Returns one series for each folder, which is a job step. Folders
    that cannot be read are named in the first series' notes; raises ForeignError if none can be."""
    steps: dict[str, list[str]] = {}
    for path in sorted(paths, key=lambda path: (len(path), path)):
        steps.setdefault(os.path.dirname(os.path.abspath(path)), []).append(path)
    found, problems = [], []
    for files in steps.values():
        try:
            found.append(_step(files, told))
        except ForeignError as error:
            problems.append(str(error))
    if not found:
        raise ForeignError(problems[0])
    found[0].notes += [Note(problem) for problem in problems]
    return found


def _step(files: Sequence[str], told: ImportHints) -> ForeignSeries:
    """Read the files of one folder as one run. Files that cannot be read are named in its notes; raises ForeignError if
    none can be."""
    notes = [Note("each sample is the mean of the second before it; of shares two digits are kept")]
    tables: list[tuple[str, _Table]] = []
    for file in files:
        try:
            tables.append((file, _Table(file)))
        except ForeignError as error:
            notes.append(Note(str(error)))
    if not tables:
        raise ForeignError(notes[-1].text)
    folder = os.path.dirname(os.path.abspath(files[0]))
    meta = _meta(os.path.join(folder, _META))
    job = _JOB.fullmatch(os.path.basename(os.path.dirname(folder)))
    start = told.start if told.start is not None else _date(meta.get("date"))
    if start is None:
        start = max(os.path.getmtime(file) - float(table.seconds.max()) for file, table in tables)
        notes.append(Note(f"{_META} is missing, or has no date: the file's last row is taken to be as old as the file"))
    world, n_nodes = whole(meta.get("step_ntasks")), whole(meta.get("step_nnodes"))
    if n_nodes is not None and n_nodes > len(tables):
        left = f"{len(tables):,} left a file here"
        notes.append(Note(f"the step had {n_nodes:,} nodes, of which {left}: a task that is killed leaves none"))
    if len(tables) > 1:
        notes.append(Note("the files do not say which nodes they are of: each is called after its file"))
    gpus: list[ForeignGpu] = []
    pieces: list[Samples] = []
    n_unknown, n_bad = 0, 0
    for file, table in tables:
        stem = os.path.basename(file).partition(".")[0]
        number = _FILE.fullmatch(os.path.basename(file))
        ids, position = np.unique(table.gpu, return_inverse=True)
        total = table.memory_total()
        gpus += [
            ForeignGpu(node=stem if len(tables) > 1 else told.host, device_index=int(device),
                rank=int(number[1]) if number and world == len(tables) else None,
                memory_total=total.get(int(device)))
            for device in ids
        ]  # fmt: skip
        pieces.append(Samples(position + len(gpus) - len(ids), start + table.seconds, table.values(position)))
        n_unknown, n_bad = n_unknown + table.n_unknown, n_bad + table.n_bad
    if n_unknown:
        notes.append(Note(f"numbers above 2e9 were written as 0: {n_unknown:,} means that are 0 beside a minimum or maximum "
                          "that is not are unknown; where all three are 0, a rate may be as high"))  # fmt: skip
    if n_bad:
        notes.append(Note(f"{n_bad:,} lines that are cut off, or no rows, are left out"))
    unknown = sorted({name for _, table in tables for name in table.unknown})
    if unknown:
        notes.append(Note(f"columns that GSSR does not know are left out: {', '.join(map(plain, unknown[:10]))}"))
    command = [text_or_none(meta.get("executable")) or "", *_WORD.findall(meta.get("arguments", ""))]
    return ForeignSeries(
        "gssr-record", in_order(pieces), gpus, notes, sampling_seconds=told.interval,
        label=_named(meta.get("jobname"), "nojobname"), command=tuple(command) if command[0] else (),
        job_id=_named(meta.get("jobid"), "0") or (job[2] if job else None),
        step_id=own[1] if (own := _STEP.fullmatch(os.path.basename(folder))) else None,
        cluster=_named(meta.get("cluster"), "nocluster") or (job[1] if job else None),
        started_at=start, world_size=world,
    )  # fmt: skip


class _Table:
    """One file ``proc_R.csv``. ``seconds`` float64[n]: the rows' times since the begin of the step; ``gpu`` int64[n]:
    their device indices; ``n_bad``: lines that are no rows; ``n_unknown``: means that were read as unknown;
    ``unknown``: columns that GSSR does not know. Raises ForeignError if the file is of another tool or holds no rows."""

    def __init__(self, path: str) -> None:
        head, _, body = b"".join(contents(path)).removeprefix(b"\xef\xbb\xbf").partition(b"\n")
        names = head.decode("utf-8", "replace").strip().split(",")
        if tuple(names[:2]) != _HEAD or len(set(names)) < len(names):
            raise ForeignError(f"{path}: is no file of gssr-record: its first line is not timestamp,gpuId,...")
        self._fields = {
            name[:-4]: meant
            for name in names
            if name.endswith("_avg") and (meant := of_dcgm(name[:-4])) and meant.name not in OF_GPUS
        }
        self.unknown = [
            name for name in names[2:]
            if name.endswith("_avg") and name[:-4] not in self._fields and name not in _MEMORY
        ]  # fmt: skip
        cells = TextCells(body[: body.rfind(b"\n") + 1], comma=True)  # what is behind the last one may be cut off
        first = cells.first[:-1][cells.count == len(names)]
        time, gpu = cells.numbers(first), cells.numbers(first + 1)
        rows = (time >= 0) & (time < _HUGE) & (gpu >= 0) & (gpu < 1 << 31) & (gpu == np.floor(gpu))
        self.n_bad = sum(1 for line in body.split(b"\n") if line.strip()) - int(rows.sum())
        if not rows.any():
            raise ForeignError(f"{path}: holds no rows")
        self.seconds, self.gpu = time[rows], gpu[rows].astype(np.int64)
        self._columns = {
            name: cells.numbers(first[rows] + at)
            for at, name in enumerate(names)
            if name in _MEMORY or name[:-4] in self._fields
        }
        self.n_unknown = 0

    def values(self, position: Ints) -> dict[str, Floats]:
        """Return the rows' values by GSSR's metric names, float64[n] each, in the catalogue's units. ``position`` tells
        the GPU of each row. NaN where the mean is 0 although the minimum or maximum is not, unless rounding explains
        it; these are counted in ``n_unknown``."""
        found = {}
        for field, (name, factor) in self._fields.items():
            low, mean, high = (self._columns.get(field + end, np.zeros(len(position))) for end in _SUMS)
            if BY_NAME[name].kind == "counter":
                found[name] = _added_up(mean, position) * factor
                continue
            digit = 1.0 if (high == np.floor(high)).all() else 0.01
            least = 0.0 if BY_NAME[name].kind == "rate" else _ROUNDED * digit
            unknown = (mean == 0) & ((low > 0) | (high > least))
            self.n_unknown += int(unknown.sum())
            found[name] = blanks_to_nan(np.where(unknown, np.nan, mean)) * factor
        return found

    def memory_total(self) -> dict[int, int]:
        """Return the memory size of each GPU, in bytes by device index: the largest sum of used, free and reserved
        memory. {} if the file lacks one of these columns; a GPU without a sum between 0 and 10^9 MiB is left out."""
        if not all(name in self._columns for name in _MEMORY):
            return {}
        total = sum((self._columns[name] for name in _MEMORY), np.zeros(len(self.gpu)))
        most = {int(device): np.nanmax(total[self.gpu == device], initial=0.0) for device in np.unique(self.gpu)}
        return {device: int(own * (1 << 20)) for device, own in most.items() if 0 < own < 1e9}


def _added_up(rises: Floats, position: Ints) -> Floats:
    """Make a counter of its rises in each row's second: for each GPU the sum of its rises up to the row, in the order
    of rows, float64[n]. ``position`` tells the GPU of each row. NaN where the rise is 0: a GPU that is on consumes
    energy every second, so 0 means unknown."""
    found = np.full(len(rises), np.nan)
    for gpu in np.unique(position):
        rows = np.flatnonzero((position == gpu) & (rises > 0))
        found[rows] = np.cumsum(rises[rows])
    return found


def _meta(path: str) -> Mapping[str, str]:
    """Read the keys and values of ``proc_0.meta.txt``; empty if it cannot be read. Its arguments are not escaped, so a
    file that is no sound JSON is read line by line."""
    try:
        said = b"".join(contents(path)).decode("utf-8", "replace")
    except ForeignError:
        return {}
    with suppress(ValueError, RecursionError):
        found = json.loads(said, strict=False)
        if isinstance(found, dict):
            return {key: own for key, value in found.items() if (own := text_or_none(value)) is not None}
    return dict(_KEY.findall(said))


def _date(value: str | None) -> float | None:
    """Parse a date and time with a zone as unix s; None for anything else."""
    try:
        return datetime.strptime(value or "", "%Y-%m-%dT%H:%M:%S%z").timestamp()
    except (ValueError, OverflowError):
        return None


def _named(value: str | None, nothing: str) -> str | None:
    return value if value and value not in (nothing, "(null)") else None
