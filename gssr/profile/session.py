"""``gssr profile``: checks what was asked for, starts the sampler, and lets the supervisor run the workload.

What only some runs need is imported where it is needed: until the workload starts, its user waits.

``gssr profile --attach-job``: recording beside a job, in a step of its own, without a command to run.

Slurm tells such a step by SIGTERM that the job is over, however that came about.
"""

from __future__ import annotations

import json
import math
import os
import signal
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from gssr import launch
from gssr.backends import check
from gssr.backends.base import BackendError
from gssr.metrics import NAMES, select
from gssr.profile.detach import open_descriptors
from gssr.profile.output import choose, whole_of
from gssr.profile.recorder import NoRecorder, SamplerProcess
from gssr.profile.request import ProfileRequest, UsageError
from gssr.profile.sampling import say_once
from gssr.profile.sampling.plan import Plan
from gssr.profile.sampling.say_once import say_for_all
from gssr.profile.stderr import say
from gssr.profile.supervise import FINISH_SECONDS, Attendant, supervise
from gssr.profile.traces import TraceFolder
from gssr.profile.workload import ENDING, become
from gssr.store.write.starts import UnagreedError
from gssr.version import __version__

if TYPE_CHECKING:
    from gssr.profile.live import Live
    from gssr.profile.sampling.low_score import Low
    from gssr.profile.screen import Show
    from gssr.store.write.pending import Value


DESCRIPTORS = 32
"""What recording may open beside what is open already: a dozen pipes and sockets of the supervisor, without which it could
not start the command; with --live those of the screen; and the sampler's files."""
FAILED = 1
"""Exit code when nothing is recorded, or not all: there is nothing else to this process."""


def attach(recorder: SamplerProcess | NoRecorder, job: str, max_runtime: float | None) -> int:
    """Record beside a job until a signal asks for the end, or ``max_runtime`` seconds are over (None: no limit).

    ``job``: its id, for an event. Signals stay caught afterwards. Returns the exit code to exit with: 0, or FAILED
    where nothing, or not all, is recorded.
    """
    return _Attached(recorder).run(job, max_runtime)


class _Attached(Attendant):
    def run(self, job: str, max_runtime: float | None) -> int:
        """Record beside the job with the id ``job`` until a signal asks for the end, ``max_runtime`` seconds are over
        (None: no limit), or the sampler has ended, and finish the recording. Returns the exit code to exit with: 0, or
        FAILED where nothing, or not all, is recorded."""
        self._open_wake()
        self._catch(sig for sig in ENDING if signal.getsignal(sig) != signal.SIG_IGN)
        self._recorder.event("start", f"recording beside job {job}")
        why = self._watch(None if max_runtime is None else time.monotonic() + max_runtime, max_runtime)
        if why:
            self._recorder.event(*why)
        self._recorder.ended(0, "completed", time.time())
        self._finish(FINISH_SECONDS)
        signal.set_wakeup_fd(-1)
        return FAILED if self._no_result else 0

    def _watch(self, deadline: float | None, max_runtime: float | None) -> Sequence[str]:
        """Wait for the end, and return why it came as (kind, message) of an event; nothing when the sampler has ended
        before.

        ``deadline``: monotonic s at which ``max_runtime`` is over; None: never.
        """
        while True:
            self._follow_sampler()
            if self._sampler is None:
                return ()
            if deadline is not None and time.monotonic() >= deadline:
                return "timeout", f"the {max_runtime:g} s of --max-runtime are over"
            for sig in self._wait(deadline):
                if sig in ENDING:
                    return "signal", f"{signal.Signals(sig).name}: the end of the recording was asked for"


STATUS_WITHOUT_SCREEN = "60s"
"""How often --live prints a status line where there is no terminal."""
POOR_BELOW, LOW_FOR = "0.25", "2m"
"""What --trace-when low means: a score that is called poor (gssr.score), for so long."""
SHORTEST_SAMPLING_MS, LONGEST_SAMPLING_MS = 1.0, 3_600_000.0


def profile(request: ProfileRequest) -> int:
    """Run the command and record it; return the exit code to exit with. Raises UsageError before anything is started."""
    try:
        return _profile(request)
    finally:
        say_once.end()


def _profile(request: ProfileRequest) -> int:
    """See ``profile``. Where nothing can be recorded, the command runs all the same."""
    most, n_open = os.sysconf("SC_OPEN_MAX"), len(open_descriptors())
    if 0 <= most < n_open + DESCRIPTORS and not request.attach:  # -1: as many as one likes
        say(f"nothing is recorded: only {most} files may be open (ulimit -n), {n_open + DESCRIPTORS} are needed")
        code, why = become(request.command)
        say(why)
        return code
    place = launch.where_am_i()
    if request.attach and place.job_id is None:
        raise UsageError(
            "--attach-job: this is no job: start it inside of one, as a step beside its own (srun --overlap)"
        )
    if request.live is not None:
        request = _without_screen(request, place)
    hidden: tuple[str, ...] | None = None
    if request.redact:
        from gssr.profile.sampling.redact import names_to_hide, redacted

        hidden, place = names_to_hide(place), redacted(place, request)
    every = None if request.status_every is None else _seconds(request.status_every, "--status-every")
    try:
        plan = plan_of(request, place)._replace(hidden=hidden)
    except UnagreedError as error:
        say_once.begin(place, None, None)
        return _unrecorded(request, place, str(error))
    except UsageError:
        raise
    except Exception as error:  # of a Python without SQLite, for one
        if os.environ.get("GSSR_DEBUG"):
            raise
        say_once.begin(place, None, None)
        return _unrecorded(request, place, f"an error in gssr: {error!r}; gssr --debug shows where")
    shards = None if whole_of(plan.path) == plan.path else os.path.dirname(plan.path)
    say_once.begin(place, str(plan.run["run_id"]), shards)
    traces = TraceFolder(plan)
    stop_status: Callable[[], None] | None = None
    live: Live | None = None
    recorder: SamplerProcess | NoRecorder
    try:
        if every is not None and place.rank == 0 and request.live is None:  # a screen says it all
            stop_status = _print_status_lines(plan, every)
        recorder = SamplerProcess(plan)
    except OSError as error:
        say_for_all(f"nothing is recorded: the sampler can't be started: {error.strerror}")
        recorder = NoRecorder()
    if request.attach:
        code = attach(recorder, str(place.job_id), request.max_runtime)
    else:
        if request.live is not None:
            live = _live(request.live, plan, request)
        code = _supervised(request, recorder, live, traces.folder, place.rank)
    if stop_status is not None:
        stop_status()
    told_to_end = (
        traces.note(recorder.workload, None if recorder.told_to_end else request.digest) or recorder.told_to_end
    )
    if request.overwrite and not (recorder.workload or request.attach):
        return code  # nothing is replaced for a command that was mistyped
    if whole_of(plan.path) != plan.path:
        from gssr.profile.finish import finish

        page = request.summary and not plan.summary  # of several ranks; of one the sampler tells the result
        finish(plan, recorder.pid, request.overwrite, page, told_to_end, place.local_size)
    if live is not None and live.left_by_itself and request.summary:
        from gssr.profile.finish import stand_in_for_screen

        stand_in_for_screen(plan)
    return code


def _supervised(
    request: ProfileRequest, recorder: SamplerProcess | NoRecorder, live: Live | None, traces: str | None, rank: int
) -> int:  # fmt: skip
    """Run the command, under nsys where a trace is asked for, and return its exit code.

    ``live``: the screen, if there is one; ``traces``: the folder for the trace, None if there is none.
    """
    if request.trace is None:
        return supervise(request.command, recorder, request.max_runtime, live=live)
    from gssr.profile.nsys import supervise_traced

    return supervise_traced(request.command, recorder, request.max_runtime, request.trace, traces, rank)


def _unrecorded(request: ProfileRequest, place: launch.LaunchPlace, why: str) -> int:
    """Say why nothing is recorded, and run the command, or wait beside the job, all the same; return the exit code."""
    say_for_all(f"nothing is recorded: {why}")
    if not request.attach:
        return supervise(request.command, NoRecorder(), request.max_runtime)

    return attach(NoRecorder(), str(place.job_id), request.max_runtime)


def _seconds(text: str, option: str) -> float:
    from gssr.profile.status import seconds_of

    return seconds_of(text, option)


def _print_status_lines(plan: Plan, every: float) -> Callable[[], None]:
    from gssr.profile.status import print_status_lines  # only here, because few ask for it

    return print_status_lines(plan, every)


def _without_screen(request: ProfileRequest, place: launch.LaunchPlace) -> ProfileRequest:
    """Return the request as it can be carried out here: where there can be no live screen, it asks for status lines
    instead.

    Of several ranks only the first shows a screen, and says why there is none.
    """
    from gssr.profile.screen import why_no_screen

    why = why_no_screen(place) if place.rank == 0 else ""
    if why is None:
        return request
    if why:
        say(f"{why}: recording without a screen")
    return request._replace(live=None, status_every=request.status_every or STATUS_WITHOUT_SCREEN)


def _live(show: Show, plan: Plan, request: ProfileRequest) -> Live | None:
    """Make the live screen; where that fails, say why and return None."""
    from gssr.profile.copier import open_log
    from gssr.profile.live import Live

    path = whole_of(plan.path)
    try:
        log = open_log(path, request.overwrite)
        return Live(show, path, str(plan.run["run_id"]), log, request.summary, request.linger)
    except OSError as error:
        what = "no pseudo-terminal is to be had" if error.filename is None else f"{error.filename}: can't be written"
        say(f"{what}: {error.strerror}: recording without a screen")
        return None


def plan_of(request: ProfileRequest, place: launch.LaunchPlace, make: bool = True) -> Plan:
    """Check the request and say what is to be recorded, where.

    ``make``: False: nothing is written, and names that ranks agree on by a file, or that others may take meanwhile,
    are guessed. Raises UsageError, and UnrecordedError when the ranks can't agree on an output.
    """
    if not SHORTEST_SAMPLING_MS <= request.sampling_ms <= LONGEST_SAMPLING_MS:
        limits = f"{SHORTEST_SAMPLING_MS:.0f} and {LONGEST_SAMPLING_MS:.0f} ms"
        raise UsageError(f"--sampling-time: {request.sampling_ms:g} ms is not between {limits}")
    if request.max_runtime is not None and not 0 < request.max_runtime < math.inf:
        raise UsageError(f"--max-runtime: {request.max_runtime:g} s is no length of time")
    if not request.linger >= 0:
        raise UsageError(f"--linger: {request.linger:g} s is no length of time")
    if request.append and request.overwrite:
        raise UsageError("-f overwrites a recording, -a adds to it: give one of them")
    if request.textfile is not None and request.redact:
        raise UsageError("--textfile names node, job and GPUs, --redact leaves them out: give one of them")
    if request.trace is not None:
        from gssr.profile.nsys import seconds_of

        seconds_of(request.trace)
    without = "--redact" if request.redact else "--attach-job" if request.attach else "--live" if request.live else None
    for option, value in (
        ("--trace", request.trace),
        ("--trace-when", request.trace_when),
        ("--digest", request.digest),
    ):
        if value is not None and without is not None:
            raise UsageError(f"{option}: there are no traces with {without}: give one of them")
    try:
        check(request.backend)
    except BackendError as error:
        raise UsageError(f"--backend: {error}") from None
    try:
        metrics = [metric.name for metric in select(request.metrics)] if request.metrics else list(NAMES)
    except ValueError as error:
        raise UsageError(f"--metrics: {error}") from None
    output = choose(request, place, make)
    if request.live is not None:
        from gssr.profile.copier import check_log

        adds = output.append or (output.shard and (request.append or output.beside_others))
        check_log(whole_of(output.path), ours=adds or request.overwrite)
    return Plan(
        path=output.path,
        append=output.append,
        overwrite=output.overwrite,
        run=_run_columns(request, place, output.run_id),
        process=_process_columns(place),
        sampling_seconds=request.sampling_ms / 1000,
        backend=request.backend,
        gpus=request.gpus,
        metrics=metrics,
        visible_gpus=launch.gpu_ids(),
        same_for_all=launch.gpu_ids_are_the_nodes(),
        siblings=place.parallel,
        host=not place.local_rank,
        summary=request.summary and not (output.shard and place.parallel),
        attached=request.attach,
        keep=request.keep,
        processes=request.processes,
        textfile=request.textfile and os.path.abspath(request.textfile),
        trace_when=None if request.trace_when is None else _low(request.trace_when, request.max_runtime),
    )


def _low(text: str, max_runtime: float | None) -> Low:
    """Parse --trace-when: low, low:LIMIT or low:LIMIT:TIME. The job's end, by Slurm or ``max_runtime`` (s), goes into
    it. Raises UsageError."""
    from gssr.profile.sampling.low_score import Low

    word, limit, seconds = (*text.split(":", 2), "", "")[:3]
    if word != "low":
        raise UsageError(f"--trace-when: {text!r} is not low, low:LIMIT or low:LIMIT:TIME, such as low:0.25:2m")
    try:
        below = float(limit or POOR_BELOW)
    except ValueError:
        below = 0.0
    if not 0 < below <= 1:
        raise UsageError(f"--trace-when: {limit!r} is no score above 0 and up to 1")
    ends = [float(end) for end in (os.environ.get("SLURM_JOB_END_TIME", ""),) if end.isdecimal()]
    ends += [] if max_runtime is None else [time.time() + max_runtime]
    return Low(below, _seconds(seconds or LOW_FOR, "--trace-when"), min(ends, default=math.inf))


def _run_columns(request: ProfileRequest, place: launch.LaunchPlace, run_id: str) -> dict[str, Value]:
    """Return the row of the table ``runs`` for this run."""
    label = place.job_name if request.label is None else request.label
    return {
        "run_id": run_id,
        "label": None if label is None else _text(label),
        "command": None if request.redact else json.dumps([_text(word) for word in request.command]),
        "job_id": place.job_id,
        "step_id": place.step_id,
        "array_job_id": place.array_job_id,
        "array_task_id": place.array_task_id,
        "launcher": None if request.attach else place.launcher,  # of the job, and not of who records beside it
        "cluster": place.cluster,
        "user": place.user or None,
        "job_name": None if place.called is None or request.redact else _text(place.called),
        "account": place.account,
        "partition": place.partition,
        "started_at": time.time(),
        "sampling_ms": request.sampling_ms,
        "world_size": place.world_size,
        "n_nodes": place.n_nodes,
        "gssr_version": __version__,
    }


def _text(argument: str) -> str:
    """Return an argument as text that SQLite takes: bytes that are no UTF-8 become escapes."""
    return argument.encode("utf-8", "backslashreplace").decode()


def _process_columns(place: launch.LaunchPlace) -> dict[str, Value]:
    """Return the row of the table ``processes`` for this rank."""
    return {
        "rank": place.rank,
        "local_rank": place.local_rank,
        "node": place.node,
        "hostname": place.hostname,
        "started_at": time.time(),
    }
