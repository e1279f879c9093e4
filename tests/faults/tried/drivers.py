"""GPUs that are lost, drivers that hang or crash, and a DCGM hostengine that is killed, hangs or is restarted: on the tests'
stand-ins for NVIDIA's driver and DCGM."""

import random
import signal
import time
from functools import cache
from pathlib import Path

from benchmarks.driver import build
from benchmarks.processes import ENVIRONMENT
from tests.backends.dcgm_bench import EngineProcess
from tests.faults.tried import Fault, NotHereError, Seen
from tests.faults.tried.job import MOST_LOST, Job, Steps, passed_on, seen, workshop
from tests.waiting import until

UUIDS = ["GPU-a", "GPU-b"]


@cache
def driver() -> Path:
    """The folder of the driver's library. Raises NotHereError."""
    folder = workshop()
    try:
        build(folder)
    except RuntimeError as error:
        raise NotHereError(str(error)) from None
    return folder


def _environment(folder: Path, **settings: object) -> dict[str, str]:
    own = {f"FAKENVML_{name.upper()}": str(value) for name, value in settings.items()}
    return {**ENVIRONMENT, "LD_LIBRARY_PATH": str(driver()), "FAKENVML_COMMAND": str(folder / "command"), **own}


def gpu_lost(folder: Path, rng: random.Random) -> Seen:
    steps = Steps(rng.randint(30, 50), rng.choice((0, 7)))
    lost_at = time.time() + rng.uniform(0.8, 1.5)
    environment = _environment(folder, gpus=3, lost=f"2:{lost_at}:{lost_at + 3600}")
    with Job(folder, ["sh", "-c", steps.script], backend="gpm", ms=100, environment=environment) as job:
        ended = job.end()
        found = job.recorded()
        lost = _lost(job)
        told = found.said("gpu_lost")  # or, where the backend was just being opened, that it found it so
        told = told or [text for text in found.said("backend") if "does not answer" in text or "GPU is lost" in text]
        return seen(
            ended,
            folder,
            lost,
            *passed_on(ended, steps),
            (len(told) == 1, f"events {found.events}"),
            (lost <= MOST_LOST, f"{lost} s of samples of the others were lost"),
        )


def hangs_at_the_start(folder: Path, rng: random.Random) -> Seen:
    (folder / "command").write_text("hang")
    steps = Steps(rng.randint(1, 10), rng.choice((0, 7)))
    with Job(folder, ["sh", "-c", steps.script], backend="gpm", environment=_environment(folder, gpus=2)) as job:
        ended = job.end()
        found = job.recorded()
        return seen(
            ended,
            folder,
            None,
            *passed_on(ended, steps),
            (found.state in ("completed", "failed"), f"state {found.state}"),
            (any("has not answered" in text for text in found.said("backend")), f"events {found.events}"),
            (job.n("host_samples") > 0, "the host was not recorded"),
        )


def hangs(folder: Path, rng: random.Random) -> Seen:
    steps = Steps(rng.randint(30, 50), rng.choice((0, 7)))
    with Job(folder, ["sh", "-c", steps.script], backend="gpm", environment=_environment(folder, gpus=2)) as job:
        job.records()
        time.sleep(rng.uniform(0.0, 0.5))
        (folder / "command").write_text("hang")
        ended = job.end()
        found = job.recorded()
        return seen(
            ended,
            folder,
            None,
            *passed_on(ended, steps),
            (found.state in ("completed", "failed"), f"state {found.state}"),
        )


def crashes(folder: Path, rng: random.Random) -> Seen:
    steps = Steps(rng.randint(30, 50), rng.choice((0, 7)))
    with Job(folder, ["sh", "-c", steps.script], backend="gpm", environment=_environment(folder, gpus=2)) as job:
        job.records()
        time.sleep(rng.uniform(0.0, 0.5))
        (folder / "command").write_text("crash")
        crashed = time.time()
        ended = job.end()
        found = job.recorded()
        lost = max(0.0, found.hole(found.times[0], max(crashed, found.times[-1])) - job.interval - job.held_up)
        return seen(
            ended,
            folder,
            lost,
            *passed_on(ended, steps),
            (found.state == "lost", f"state {found.state}"),
            (lost <= MOST_LOST, f"{lost} s of samples were lost"),
        )


def engine_killed(folder: Path, rng: random.Random) -> Seen:
    return _with_engine(folder, rng, signal.SIGKILL, restarted=False)


def engine_restarted(folder: Path, rng: random.Random) -> Seen:
    return _with_engine(folder, rng, signal.SIGKILL, restarted=True)


def engine_hung(folder: Path, rng: random.Random) -> Seen:
    return _with_engine(folder, rng, signal.SIGSTOP, restarted=False)


def _with_engine(folder: Path, rng: random.Random, sig: signal.Signals, restarted: bool) -> Seen:
    """Something happens to the hostengine at a random moment; the job ends a while later, or once it is sampled again."""
    engine, code = EngineProcess(folder), rng.choice((0, 7))
    engine.start(gpus=UUIDS)
    script = f"echo begun; until [ -e stop ]; do sleep 0.05; done; echo over; exit {code}"
    try:
        with Job(folder, ["sh", "-c", script], backend="dcgm", ms=100, environment=ENVIRONMENT | engine.environ) as job:
            job.records()
            time.sleep(rng.uniform(0.0, 1.0))
            engine.signal(sig)
            if restarted:
                until(lambda: job.n("events", "kind = 'backend_lost'"), "the loss")
                engine.start(gpus=UUIDS)
                until(lambda: job.n("events", "kind = 'backend_back'"), "the return")
                before = job.n()
                until(lambda: job.n() > before + 10, "samples")
            else:
                time.sleep(rng.uniform(0.0, 2.0))
            (folder / "stop").touch()
            ended = job.end()
            found = job.recorded()
            return seen(
                ended,
                folder,
                None,
                (ended.code == code, f"exit code {ended.code}"),
                (ended.out == b"begun\nover\n", f"output {ended.out!r}"),
                (found.state == ("failed" if code else "completed"), f"state {found.state}"),
                (len(set(found.times)) == len(found.times), "samples are there twice"),
                (not any("still being" in line for line in ended.said), "the end was held up"),
            )
    finally:
        engine.stop()


def _lost(job: Job) -> float:
    """The longest time without samples of the first GPU, from its first one on, s."""
    found = job.recorded()
    return max(0.0, found.hole(found.times[0], found.ended_at or 0.0) - job.interval - job.held_up)


FAULTS = (
    Fault("gpu-lost", "one of three GPUs is lost; lost: of the others", gpu_lost),
    Fault("driver-hangs-at-start", "the driver hangs while it is opened, the command is short", hangs_at_the_start),
    Fault("driver-hangs", "the driver hangs", hangs),
    Fault("driver-crashes", "the driver crashes the process that uses it", crashes),
    Fault("engine-killed", "DCGM's hostengine is killed", engine_killed),
    Fault("engine-restarted", "DCGM's hostengine is killed and started again", engine_restarted),
    Fault("engine-hung", "DCGM's hostengine hangs", engine_hung),
)
