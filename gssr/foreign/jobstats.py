"""Summaries of jobs by Princeton's jobstats: the text ``JS1:...`` that it keeps as AdminComment of a job in Slurm's
database, alone or in a table of ``sacct``, and the JSON of ``jobstats --json``. What GSSR writes of that kind:
gssr/convert/jobstats.py.

A summary has, for each node and GPU, the mean of the GPU's utilization (percent) and the most memory in use (bytes); and for
each node the cores, the CPU time (s) and the most memory that the job used and was given (bytes).
"""

import base64
import binascii
import csv
import hashlib
import io
import os
import zlib
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from gssr.foreign.job_means import ForeignGpuMeans, series_of_means
from gssr.foreign.json_file import contents, decode, number, text_or_none, whole
from gssr.foreign.series import ForeignError, ForeignGpu, ForeignSeries, ImportHints, Note, plain
from gssr.store.format.limits import MOST_GPUS, MOST_RUNS

KIND = "jobstats"
PREFIX = "JS1:"
COLUMN = "AdminComment"
EMPTY = ("Short", "None")
"""Stand behind PREFIX for a job that was too short, or of which nothing was known."""
_MOST_UNPACKED = 16 << 20
"""Bytes of one summary: some 250 for each GPU."""
_MOST_NOTES = 20
"""On nodes: two for each."""
_SEPARATORS = ("|", ",", ";", "\t")
_UNFINISHED = ("", "Unknown", "None")


class _Job(NamedTuple):
    """One job: ``summary`` as jobstats has it, or JSON; the rest as sacct says it, None where it doesn't."""

    summary: str | bytes
    job_id: str | None = None
    cluster: str | None = None
    user: str | None = None
    name: str | None = None
    start: float | None = None
    end: float | None = None


def read(paths: Sequence[str], told: ImportHints) -> list[ForeignSeries]:
    """Read summaries as runs, one for each job that has GPUs. Jobs that have none, or no summary, are counted in a note
    of the first run, and summaries that can't be read are named there; raises ForeignError if no job is left."""
    found: list[ForeignSeries] = []
    problems: list[str] = []
    n_empty = n_without = 0
    for path in paths:
        try:
            jobs = list(_jobs_in(b"".join(contents(path)).removeprefix(b"\xef\xbb\xbf").strip(), path, told))
        except ForeignError as error:
            problems.append(str(error))
            continue
        for job in jobs:
            if job.summary in ("", *(PREFIX + word for word in EMPTY)):
                n_empty += 1
                continue
            try:
                series = _run(job, path, told)
            except ForeignError as error:
                problems.append(str(error))
                continue
            if series is None:
                n_without += 1
                continue
            found.append(series)
            if len(found) > MOST_RUNS:
                raise ForeignError(
                    f"{path}: has summaries of more than {MOST_RUNS:,} jobs: import some of them at a time"
                )
    left_out = [
        f"{n:,} jobs {what} are left out"
        for n, what in ((n_empty, "without a summary"), (n_without, "without GPUs"))
        if n
    ]
    if not found:
        why = "; ".join((*problems[:1], *left_out))
        raise ForeignError(problems[0] if problems else f"{paths[0]}: holds no job with GPUs{why and f' ({why})'}")
    found[0].notes += [Note(text) for text in (*left_out, *problems)]
    return found


def _jobs_in(text: bytes, path: str, told: ImportHints) -> Iterator[_Job]:
    """Yield the jobs of a file. Raises ForeignError if it is no table of sacct and holds no summary."""
    if text.startswith(b"{"):
        yield _Job(text)
        return
    lines = text.decode("utf-8", "replace").splitlines()
    if lines and lines[0].startswith(PREFIX):
        for line in lines:
            if line.strip():
                yield _Job(line.strip())
        return
    separator = next((each for each in _SEPARATORS if each in (lines[0] if lines else "")), "|")
    csv.field_size_limit(_MOST_UNPACKED)
    try:
        table = io.StringIO("\n".join(lines))
        if separator == ",":
            rows = csv.DictReader(table)
        else:  # sacct quotes nothing
            rows = csv.DictReader(table, delimiter=separator, quoting=csv.QUOTE_NONE)
        if COLUMN not in (rows.fieldnames or ()):
            raise ForeignError(f"{path}: has no column {COLUMN}")
        for row in rows:
            yield _job_of(row, told)
    except csv.Error as error:
        raise ForeignError(f"{path}: is no sound table: {plain(str(error))}") from None


def _job_of(row: Mapping[str, Any], told: ImportHints) -> _Job:
    """Make a job of a row of sacct; a column that sacct was not asked for is None."""

    def of(*names: str) -> str | None:
        texts = (row.get(name) for name in names)
        return next((text.strip() for text in texts if isinstance(text, str) and text.strip() not in _UNFINISHED), None)

    return _Job(
        of(COLUMN) or "", of("JobIDRaw", "JobID"), of("Cluster"), of("User"), of("JobName"),
        _time(of("Start"), told), _time(of("End"), told),
    )  # fmt: skip


def _time(text: str | None, told: ImportHints) -> float | None:
    """Read a time of sacct: unix s, or a date and time, in ``told.timezone`` (None: this machine's) if it names no
    zone. None for None and for what is no time."""
    if text is None:
        return None
    seconds = number(text)
    if seconds is not None:
        return seconds if 0 <= seconds < 1e11 else None
    try:
        date = datetime.fromisoformat(text)
        return (date.replace(tzinfo=told.timezone) if date.tzinfo is None and told.timezone else date).timestamp()
    except (ValueError, OverflowError, OSError):
        return None


def unpack(summary: str | bytes, name: str) -> Any:
    """Decode the JSON of a summary, ``JS1:`` and base64 of gzip, or JSON itself. ``name`` is what errors call it. Raises
    ForeignError."""
    if isinstance(summary, bytes):
        return decode(summary, name)
    if summary.startswith(PREFIX.lower()):  # base64 knows small letters from capitals
        raise ForeignError(f"{name}: can't be read: sacctmgr of Slurm before 23.02 made all its letters small")
    try:
        packed = base64.b64decode(summary.removeprefix(PREFIX), validate=True)
        unpacking = zlib.decompressobj(wbits=31)
        data = unpacking.decompress(packed, _MOST_UNPACKED)
    except (binascii.Error, zlib.error, ValueError):
        raise ForeignError(f"{name}: is no sound summary of jobstats (base64 of gzip)") from None
    if unpacking.unconsumed_tail:
        raise ForeignError(f"{name}: a summary unpacks to more than {_MOST_UNPACKED >> 20} MB: jobstats writes no such")
    if not unpacking.eof:
        raise ForeignError(f"{name}: a summary is cut off")
    return decode(data, name)


def _run(job: _Job, path: str, told: ImportHints) -> ForeignSeries | None:
    """Make a run of one summary; None if it names no GPU. Raises ForeignError if it is none."""
    name = f"{path}: job {plain(job.job_id)}" if job.job_id else path
    found = unpack(job.summary, name)
    nodes = found.get("nodes") if isinstance(found, dict) else None
    if not isinstance(nodes, dict):
        raise ForeignError(f"{name}: is no summary of jobstats")
    seconds = number(found.get("total_time"))
    seconds = seconds if seconds is not None and 0 < seconds < 1e10 else None
    if seconds is None and job.start is not None and job.end is not None and job.end > job.start:
        seconds = job.end - job.start
    if seconds is None:
        raise ForeignError(f"{name}: does not say how long the job was")
    start, end, notes = told.start if job.start is None else job.start, job.end, list[str]()
    if start is None and end is None:
        end = os.path.getmtime(path)
        notes.append(
            "it does not say when the job was: its end is taken to be as old as the file (--start tells better)"
        )
    if start is None:
        start = (end or 0.0) - seconds
    end = start + seconds if end is None or end <= start else end
    gpus = [
        ForeignGpuMeans(gpu, start, end, values, most)
        for node, about in nodes.items()
        if isinstance(about, dict)
        for gpu, values, most in _gpus_of(str(text_or_none(node) or "?"), about)
    ]
    if not gpus:
        return None
    if len(gpus) > MOST_GPUS:
        raise ForeignError(f"{name}: names more than {MOST_GPUS:,} GPUs")
    if not any(each.values for each in gpus):
        raise ForeignError(f"{name}: knows the utilization of no GPU")
    for node, about in nodes.items():
        notes += list(_host(node, about, seconds)) if isinstance(about, dict) and len(notes) < _MOST_NOTES else []
    series = series_of_means(KIND, gpus, notes, "jobstats")
    series.job_id, series.cluster, series.user, series.label = job.job_id, job.cluster, job.user, job.name
    if job.job_id is None:  # nothing else keeps summaries of several jobs apart
        data = job.summary if isinstance(job.summary, bytes) else job.summary.encode()
        series.run_id = f"jobstats-{hashlib.sha256(data).hexdigest()[:12]}"
    return series


def _gpus_of(node: str, about: Mapping[str, Any]) -> Iterator[tuple[ForeignGpu, dict[str, float], float | None]]:
    """Yield the GPUs of a node, each with its means and the most memory in use (None if unknown)."""
    tables = [about.get(name) for name in ("gpu_utilization", "gpu_used_memory", "gpu_total_memory")]
    busy, used, total = (table if isinstance(table, dict) else {} for table in tables)
    for key in dict.fromkeys((*busy, *used, *total)):
        percent, most = number(busy.get(key)), number(used.get(key))
        values = {} if percent is None or not 0 <= percent <= 1000 else {"gpu_utilization": percent / 100}
        gpu = ForeignGpu(node=node, device_index=whole(key), memory_total=whole(total.get(key)) or None)
        yield gpu, values, most if most is not None and most >= 0 else None


def _host(node: str, about: Mapping[str, Any], seconds: float) -> Iterator[str]:
    """Yield a sentence on the CPUs and one on the memory of a node, as far as they are known. ``about``: what the
    summary says of the node; ``seconds``: the job's length."""
    cpus, cpu_seconds = number(about.get("cpus")), number(about.get("total_time"))
    used, total = number(about.get("used_memory")), number(about.get("total_memory"))
    if cpus and cpu_seconds is not None and cpu_seconds >= 0:
        yield f"{plain(node)}: the job kept {cpu_seconds / seconds:.1f} of its {cpus:g} cores busy, on average"
    if used is not None and used >= 0 and total:
        yield f"{plain(node)}: the job used at most {used / 1e9:.1f} GB of its {total / 1e9:.1f} GB of memory"
