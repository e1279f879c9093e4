"""``gssr profile``: checks what was asked for, starts the sampler, and lets the supervisor run the workload."""

import json
import math
import os
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from gssr import __version__, launch
from gssr.backends import check
from gssr.backends.base import BackendError
from gssr.metrics import NAMES, select
from gssr.profile.recorder import NoRecorder, Recorder
from gssr.profile.sampler import Plan
from gssr.profile.stderr import say
from gssr.profile.supervise import supervise
from gssr.store.open import RecordingError, connect, looks_like_recording

SHORTEST_SAMPLING_MS, LONGEST_SAMPLING_MS = 1.0, 3_600_000.0


class UsageError(Exception):
    """What was asked for makes no sense; nothing was started. The text is one sentence."""


class Request(NamedTuple):
    """What the user asked for. ``sampling_ms`` and ``max_runtime`` (s) as in the options of the same names."""

    command: Sequence[str]
    output: str | None = None
    label: str | None = None
    sampling_ms: float = 500.0
    max_runtime: float | None = None
    overwrite: bool = False
    append: bool = False
    backend: str = "auto"
    gpus: str = "all"
    metrics: str | None = None
    summary: bool = True


def profile(request: Request) -> int:
    """Run the command, recording; the exit code to exit with. Raises UsageError before anything is started."""
    place = launch.where_am_i()
    plan = _plan(request, place)
    recorder: Recorder | NoRecorder
    try:
        recorder = Recorder(plan)
    except OSError as error:
        say(f"nothing is recorded: the sampler can't be started: {error.strerror}")
        recorder = NoRecorder()
    return supervise(request.command, recorder, request.max_runtime)


def _plan(request: Request, place: launch.Place) -> Plan:
    if not SHORTEST_SAMPLING_MS <= request.sampling_ms <= LONGEST_SAMPLING_MS:
        limits = f"{SHORTEST_SAMPLING_MS:.0f} and {LONGEST_SAMPLING_MS:.0f} ms"
        raise UsageError(f"--sampling-time: {request.sampling_ms:g} ms is not between {limits}")
    if request.max_runtime is not None and not 0 < request.max_runtime < math.inf:
        raise UsageError(f"--max-runtime: {request.max_runtime:g} s is no length of time")
    if request.append and request.overwrite:
        raise UsageError("-f overwrites a recording, -a adds to it: give one of them")
    try:
        check(request.backend)
    except BackendError as error:
        raise UsageError(f"--backend: {error}") from None
    try:
        metrics = [metric.name for metric in select(request.metrics)] if request.metrics else list(NAMES)
    except ValueError as error:
        raise UsageError(f"--metrics: {error}") from None
    output, many = request.output, (place.world_size or 1) > 1
    if output is None:
        if many and place.job_id is None:
            raise UsageError("several ranks need one name for their recording: give it with -o FILE.sql")
        output = launch.default_output(place)
        if not (many or request.append or request.overwrite or place.restart_count):
            output = _reserved(output)
    output = os.path.abspath(output)
    append, overwrite = _look_at_existing(output, request, place)
    run_id = place.run_id or _agreed_run_id(output, place)
    if append and not many:
        run_id = _unused(run_id, output)
    path = output
    if many:
        folder = output + ".d"
        path = os.path.join(folder, f"{place.node}.{place.rank}.{run_id}.sql")
        append = overwrite = False
        try:
            os.makedirs(folder, exist_ok=True)
        except OSError:
            pass  # the sampler will say why the file can't be made
    return Plan(
        path=path,
        append=append,
        overwrite=overwrite,
        run=_run_columns(request, place, run_id),
        process=_process_columns(place),
        sampling_seconds=request.sampling_ms / 1000,
        backend=request.backend,
        gpus=request.gpus,
        metrics=metrics,
        visible_gpus=launch.gpu_ids(),
        host=not place.local_rank,
        summary=request.summary and not many,
    )


def _reserved(name: str) -> str:
    """The default name, numbered where it is taken: by another command of the job, maybe beside this one, or of the same
    second. An empty file keeps it."""
    stem = name.removesuffix(".sql")
    for number in range(1, 1000):
        name = f"{stem}-{number}.sql" if number > 1 else name
        try:
            os.close(os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        except FileExistsError:
            continue
        except OSError:
            pass  # the sampler will say why it can't be made
        break
    return name


def _run_columns(request: Request, place: launch.Place, run_id: str) -> dict[str, Any]:
    return {
        "run_id": run_id,
        "label": None if request.label is None else _text(request.label),
        "command": json.dumps([_text(word) for word in request.command]),
        "job_id": place.job_id,
        "step_id": place.step_id,
        "launcher": place.launcher,
        "cluster": place.cluster,
        "user": place.user,
        "started_at": time.time(),
        "sampling_ms": request.sampling_ms,
        "world_size": place.world_size,
        "n_nodes": place.n_nodes,
        "gssr_version": __version__,
    }


def _text(argument: str) -> str:
    """An argument as text that SQLite takes; bytes that are no UTF-8 become escapes."""
    return argument.encode("utf-8", "backslashreplace").decode()


def _process_columns(place: launch.Place) -> dict[str, Any]:
    return {
        "rank": place.rank,
        "local_rank": place.local_rank,
        "node": place.node,
        "hostname": place.hostname,
        "started_at": time.time(),
    }


def _look_at_existing(output: str, request: Request, place: launch.Place) -> tuple[bool, bool]:
    """(append, overwrite): what to do with what stands at ``output``. Raises UsageError when it must not be touched."""
    shown = request.output or os.path.basename(output)
    if os.path.isdir(output):
        raise UsageError(f"-o {shown}: is a directory; name a file in it, such as {os.path.join(shown, 'run.sql')}")
    if not os.path.lexists(output):
        return False, False
    try:
        if os.path.isfile(output) and os.path.getsize(output) == 0:
            return False, False  # it is used as it is
        ours = looks_like_recording(output)
    except OSError as error:
        raise UsageError(f"-o {shown}: exists and can't be read: {error.strerror}") from None
    if not ours:
        raise UsageError(f"-o {shown}: exists and is not a recording: choose another name")
    runs = _runs_in(output)
    if request.output is None and (place.world_size or 1) > 1 and _same_job(place, runs):
        return False, False  # a step whose ranks write beside it
    if any(state == "running" for _, _, state in runs):
        raise UsageError(f"-o {shown}: is being recorded into right now: choose another name")
    if place.restart_count and not request.overwrite and _same_job(place, runs):
        return True, False  # a requeued job goes on in its own file
    if request.append:
        return True, False
    if not request.overwrite:
        raise UsageError(f"-o {shown}: exists; use -f to overwrite it or -a to add a run to it")
    return False, True


def _runs_in(path: str) -> list[tuple[str, str, str]]:
    """(run id, job id or empty, state) of every run of a recording; nothing of one that can't be read."""
    from gssr.store.records import read_processes, read_runs, state_of

    try:
        connection = connect(path)
    except RecordingError:
        return []
    try:
        runs = read_runs(connection)
        return [
            (run.run_id, run.job_id or "", state_of(run, read_processes(connection, run.run_id), path)) for run in runs
        ]
    finally:
        connection.close()


def _unused(run_id: str, path: str) -> str:
    """The run id, numbered where the file holds a run of this name already: two commands of one job step."""
    taken = {run for run, _, _ in _runs_in(path)}
    names = (f"{run_id}-{number}" for number in range(2, len(taken) + 3))
    return run_id if run_id not in taken else next(name for name in names if name not in taken)


def _same_job(place: launch.Place, runs: Sequence[tuple[str, str, str]]) -> bool:
    return bool(runs) and all(job_id == place.job_id for _, job_id, _ in runs)


def _agreed_run_id(output: str, place: launch.Place) -> str:
    """A name for the run where the launcher gives its ranks none in common: the first to make ``NAME.sql.d/run`` decides."""
    own = f"{place.hostname}-{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}-{os.getpid()}"
    marker = os.path.join(output + ".d", "run")
    try:
        os.makedirs(output + ".d", exist_ok=True)
        with open(marker, "x") as stream:
            stream.write(own)
        return own
    except FileExistsError:
        pass
    except OSError:
        return own  # nothing can be written there: the sampler will say so
    for _ in range(50):
        with open(marker) as stream:
            agreed = stream.read()
        if agreed:
            return agreed
        time.sleep(0.02)  # made, not yet written
    return own
