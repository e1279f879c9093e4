"""Starts the jobs of a round, each rank told by its launcher's variables who it is, and says what became of each rank."""

import contextlib
import os
import shlex
import signal
import sqlite3
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from benchmarks.processes import GSSR, ROOT
from tests.faults.tried import NotHereError
from tests.races.rounds.drawn import IN_SLURM, RANKS, Race

PATIENCE = 60.0
"""A rank that has not ended so many seconds after the last workload has never ended."""
LINES = 300
"""So many lines a workload prints at once."""
_SEEN = 10.0
"""Seconds in which a rank that is to be killed should turn up in its recording."""
_KEPT = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "USER", "LOGNAME", "XDG_RUNTIME_DIR")
ENVIRONMENT = {name: os.environ[name] for name in _KEPT if name in os.environ} | {"PYTHONPATH": str(ROOT)}
"""Without the variables of the launcher that started this, if any."""
_SLURM = ROOT / "tests" / "slurm"

_RANK = """\
# JOB [RANK]: what a launcher starts in the place of the program. Says when it begins and ends.
job=$1 rank=${2:-$SLURM_PROCID} here=$PWD
. "./$job.$rank.plan"
seen=$here/seen/$job.$rank
: > "$seen.ready"
exec 3< go  # opens for all at once
exec 3<&-
cd records
sleep "$delay"
attempt=0
for work in "${works[@]}"; do
  at=$seen.$attempt
  echo "$EPOCHREALTIME" > "$at.start"
  "${command[@]}" -- bash "$here/work.sh" "$at" "$work" "$code" > "$at.out" 2> "$at.err"
  echo "$? $EPOCHREALTIME" > "$at.end"
  [ "$(cut -d ' ' -f 1 "$at.end")" = 137 ] || break
  attempt=$((attempt + 1))
done 2> /dev/null  # where bash tells of the one that was killed
: > "$seen.done"
"""
_WORK = """\
# FILE SECONDS CODE: the workload
echo "$PPID $EPOCHREALTIME" >> "$1.began"
for line in {1..%d}; do echo "$line of $1"; done
sleep "$2"
echo "the end of $1"
echo "$EPOCHREALTIME" >> "$1.ended"
exit "$3"
"""
_LAUNCHER = 'for rank in %s; do bash rank.sh "$1" "$rank" & done; wait'
"""The ranks of a job have a parent of their own, as those of mpirun, hydra and torchrun do."""


class Attempt(NamedTuple):
    """One start of a rank. ``began`` and ``ended``: of its workload, each time that it ran; ``stop`` and ``code`` are None
    when it never ended. Unix times, s. ``is_output_whole``: what it printed is what its workload did."""

    start: float
    stop: float | None
    code: int | None
    began: tuple[float, ...]
    ended: tuple[float, ...]
    said: str
    is_output_whole: bool = True


class Outcome(NamedTuple):
    """The attempts of each job and rank, and whether the one that was killed had been seen in its recording."""

    ranks: dict[tuple[int, int], list[Attempt]]
    killed_seen: bool


@contextlib.contextmanager
def slurm() -> Iterator[dict[str, str]]:
    """The environment of a cluster that runs meanwhile. Raises NotHereError."""
    done = subprocess.run([_SLURM / "start-slurm.sh", "-g", "0"], env=ENVIRONMENT, text=True, capture_output=True)
    if done.returncode:
        raise NotHereError(done.stderr.strip().rpartition("\n")[2])
    exported = (line.removeprefix("export ").partition("=") for line in done.stdout.splitlines() if "export" in line)
    own = {name: shlex.split(value)[0] for name, _, value in exported}
    try:
        yield ENVIRONMENT | own
    finally:
        subprocess.run([_SLURM / "stop-slurm.sh", own["GSSR_SLURM_DIR"]], capture_output=True, env=ENVIRONMENT)


def pods_are_possible() -> bool:
    """Whether a process can have a host name of its own, as a pod has."""
    return os.geteuid() == 0 and subprocess.run(["unshare", "--uts", "true"], capture_output=True).returncode == 0


def run(race: Race, folder: Path, environment: Mapping[str, str] = ENVIRONMENT, apart: bool = False) -> Outcome:
    """Do a round in an empty folder; the recordings are below ``records``. In a Slurm ``environment`` is the cluster's.
    ``apart``: each job has a name of its own. Raises TimeoutError when the jobs do not
    start, RuntimeError when Slurm does not take them."""
    (folder / "seen").mkdir()
    (folder / "records").mkdir()
    (folder / "runtime").mkdir(mode=0o700)
    (folder / "rank.sh").write_text(_RANK)
    (folder / "work.sh").write_text(_WORK % LINES)
    os.mkfifo(folder / "go")
    for job in range(len(race.jobs)):
        for rank in range(RANKS):
            (folder / f"{job}.{rank}.plan").write_text(_plan(race, job, rank, apart))
    if race.earlier and not apart:
        _record_earlier(race, folder)
    victim = _Victim(race, folder)
    with _started(race, folder, environment):
        _wait_for(folder, "ready", len(race.jobs) * RANKS, PATIENCE)
        gate = os.open(folder / "go", os.O_RDWR)
        try:
            longest = max(
                rank.delay + sum(rank.works[-1:]) for job in race.jobs for rank in job.ranks if rank.works[0] < PATIENCE
            )
            _wait_for(folder, "done", len(race.jobs) * RANKS, longest + PATIENCE, victim)
        except TimeoutError:
            pass  # those that have not ended are told by what they lack
        finally:
            os.close(gate)
    ranks = {(job, rank): _attempts(folder, job, rank) for job in range(len(race.jobs)) for rank in range(RANKS)}
    return Outcome(ranks, victim.seen)


def _plan(race: Race, job: int, rank: int, apart: bool) -> str:
    """What a rank is told, in the language of the shell that runs it."""
    own = race.jobs[job].ranks[rank]
    command: list[object] = [*GSSR, "profile", "-t", "100", "-l", race.label(job)]
    if race.own_gpus:
        command += ["--backend", f"synthetic:train:{len(race.jobs) * RANKS}", "--gpus", race.device(job, rank)]
    else:
        command += ["--backend", f"synthetic:train:{RANKS}"]
    if apart:
        command += ["-o", f"race{job}.sql"]
    else:
        command += ["-o", "race.sql"] * race.named + [race.jobs[job].option] * bool(race.jobs[job].option)
    command += ["--no-summary"] * (not race.pages)
    lines = [f"export {name}={shlex.quote(str(value))}" for name, value in _variables(race, job, rank).items()]
    if race.kind not in IN_SLURM:  # rounds that run beside this one have the same ids: let it be a node of its own
        lines.append('export XDG_RUNTIME_DIR="$here/runtime"')
    lines += [
        f"delay={own.delay:.3f} code={own.code} works=({' '.join(f'{work:.3f}' for work in own.works)})",
        f"command=({' '.join(shlex.quote(str(word)) for word in command)})",
    ]
    return "\n".join(lines) + "\n"


def _variables(race: Race, job: int, rank: int) -> dict[str, object]:
    """What the launcher tells a rank. A job's id is told only where the recording is to be called after it; jobs with the
    default name are then steps of one."""
    batch = {} if race.named else {"PBS_JOBID": f"{1000 + race.seed}.server"}
    match race.kind:
        case "step":
            each = RANKS // race.nodes
            node = rank // each
            number = {"SLURM_JOB_ID": 1000, "SLURM_STEP_ID": job}
            if race.in_array:
                number = {"SLURM_JOB_ID": 1000 + job, "SLURM_STEP_ID": 0}
                number |= {"SLURM_ARRAY_JOB_ID": 1000, "SLURM_ARRAY_TASK_ID": job}
            return number | {
                "SLURM_CLUSTER_NAME": "races",
                "SLURM_PROCID": rank, "SLURM_LOCALID": rank % each, "SLURM_STEP_NUM_TASKS": RANKS,
                "SLURM_STEP_NUM_NODES": race.nodes, "SLURM_NODEID": node, "SLURMD_NODENAME": f"node{node + 1}",
                "SLURM_GTIDS": ",".join(str(node * each + local) for local in range(each)),
            }  # fmt: skip
        case "openmpi":
            return batch | {
                "OMPI_COMM_WORLD_RANK": rank, "OMPI_COMM_WORLD_LOCAL_RANK": rank, "OMPI_COMM_WORLD_SIZE": RANKS,
                "OMPI_COMM_WORLD_LOCAL_SIZE": RANKS, "PMIX_RANK": rank, "PMIX_NAMESPACE": f"prterun-host-{2000 + job}@1",
            }  # fmt: skip
        case "mpich":
            return batch | {
                "PMI_RANK": rank, "PMI_SIZE": RANKS, "MPI_LOCALRANKID": rank, "MPI_LOCALNRANKS": RANKS,
                "PMI_FD": 9 + rank, "HYDI_CONTROL_FD": 8,
            }  # fmt: skip
        case "torchrun":
            return batch | {
                "RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": RANKS, "LOCAL_WORLD_SIZE": RANKS, "GROUP_RANK": 0,
                "GROUP_WORLD_SIZE": 1, "MASTER_ADDR": "localhost", "MASTER_PORT": 29500 + job,
                "TORCHELASTIC_RESTART_COUNT": 0, "TORCHELASTIC_RUN_ID": f"job{job}" if race.ids else "none",
            }  # fmt: skip
        case "kubernetes":
            return {"JOB_COMPLETION_INDEX": rank}
    return {}


def _record_earlier(race: Race, folder: Path) -> None:
    words = (*GSSR, "profile", "--no-summary", "--backend", "synthetic:idle:1", "-l", race.label_of_earlier)
    command = (*words, "-o", "race.sql", "--", "true")
    subprocess.run(command, cwd=folder / "records", env=ENVIRONMENT, check=True, capture_output=True, timeout=PATIENCE)


@contextlib.contextmanager
def _started(race: Race, folder: Path, environment: Mapping[str, str]) -> Iterator[None]:
    """All jobs, up to where their ranks wait for the start; at the end what still runs of them is ended."""
    in_slurm = race.kind in IN_SLURM
    begin = _submitted(race, folder, environment) if in_slurm else [_launched(*one, folder) for one in _commands(race)]
    try:
        yield
    finally:
        if isinstance(begin, str):
            subprocess.run(["scancel", "--signal=KILL", begin], env=environment, capture_output=True)
            subprocess.run(["scancel", begin], env=environment, capture_output=True)
        else:
            for process in begin:
                for pid in reversed(_descendants(process.pid)):
                    _kill(pid)
                process.kill()
                process.wait()


def _submitted(race: Race, folder: Path, environment: Mapping[str, str]) -> str:
    """The number of the Slurm job."""
    size = ["-N", str(race.nodes), f"--ntasks-per-node={RANKS // race.nodes}"]
    srun = " ".join(["exec" if race.kind == "slurm-array" else "", "srun", "--quiet", "--overlap", *size])
    if race.kind == "slurm-array":
        array, script = [f"--array=0-{len(race.jobs) - 1}"], f"{srun} bash rank.sh $SLURM_ARRAY_TASK_ID\n"
    else:
        array = []
        script = "".join(f"{srun} bash rank.sh {job} &\n" for job in range(len(race.jobs))) + "wait\n"
    (folder / "job.sh").write_text(f"#!/bin/bash\n{script}")
    command = ["sbatch", "--parsable", "--output=slurm.%a.out", *size, *array, "job.sh"]
    done = subprocess.run(command, cwd=folder, env=environment, text=True, capture_output=True, timeout=PATIENCE)
    if done.returncode:
        raise RuntimeError(f"sbatch: {done.stderr.strip()}")
    return done.stdout.strip()


def _commands(race: Race) -> Iterator[tuple[str, ...]]:
    """What starts the ranks where there is no Slurm."""
    for job in range(len(race.jobs)):
        if race.kind == "kubernetes":
            for rank in range(RANKS):
                name = f"hostname training{job}-{rank} && exec bash rank.sh {job} {rank}"
                yield "unshare", "--uts", "bash", "-c", name
        else:
            yield "bash", "-c", _LAUNCHER % " ".join(map(str, range(RANKS))), "launcher", str(job)


def _launched(*words: object) -> subprocess.Popen[bytes]:
    *command, folder = map(str, words)
    null = subprocess.DEVNULL
    return subprocess.Popen(
        command, cwd=folder, env=ENVIRONMENT, stdin=null, stdout=null, stderr=null, start_new_session=True
    )


class _Victim:
    """The rank that is to be killed: its supervisor, its sampler and its workload, once its samples are on the disk."""

    def __init__(self, race: Race, folder: Path) -> None:
        self.race, self.folder, self.seen = race, folder, False
        self._look_at = self._kill_at = self._give_up_at = 0.0
        self._waits = race.killed is not None

    def look(self) -> None:
        """Kill it, if it is time."""
        if not self._waits or self.race.killed is None or time.monotonic() < self._look_at:
            return
        job, rank = self.race.killed
        began = self.folder / "seen" / f"{job}.{rank}.0.began"
        words = began.read_text().split() if began.exists() else []
        if len(words) < 2:
            return
        now = time.monotonic()
        self._look_at = now + 0.1
        self._give_up_at = self._give_up_at or now + _SEEN
        if not self.seen and _is_recorded(self.folder / "records", self.race.label(job), rank):
            self.seen, self._kill_at = True, now + self.race.kill_after
        if now >= (self._kill_at if self.seen else self._give_up_at):
            self._waits = False
            supervisor = int(words[0])
            for pid in _descendants(supervisor):
                _kill(pid)


def _is_recorded(records: Path, label: str, rank: int) -> bool:
    """Whether a rank that records now has samples on the disk."""
    ranks = "SELECT 1 FROM runs JOIN processes USING (run_id) WHERE label = ? AND rank = ?"
    query = f"{ranks} AND EXISTS (SELECT * FROM samples)"
    for path in records.glob(f"*.sql.d/*.{rank}.*.sql"):
        try:
            with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=0.0)) as connection:
                if connection.execute(query, (label, rank)).fetchone():
                    return True
        except sqlite3.Error:
            continue
    return False


def _descendants(pid: int) -> list[int]:
    """The process and all below it."""
    found = [pid]
    for parent in found:
        with contextlib.suppress(OSError):
            for task in os.listdir(f"/proc/{parent}/task"):
                found += map(int, Path(f"/proc/{parent}/task/{task}/children").read_text().split())
    return found


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _wait_for(folder: Path, what: str, number: int, seconds: float, victim: _Victim | None = None) -> None:
    """Returns when so many ranks have left a file of this kind. Raises TimeoutError."""
    deadline = time.monotonic() + seconds
    while sum(name.endswith(f".{what}") for name in os.listdir(folder / "seen")) < number:
        if time.monotonic() > deadline:
            raise TimeoutError(f"not all ranks were {what} within {seconds:.0f} s")
        if victim is not None:
            victim.look()
        time.sleep(0.05)


def _attempts(folder: Path, job: int, rank: int) -> list[Attempt]:
    found = []
    for number in range(len(list((folder / "seen").glob(f"{job}.{rank}.*.start")))):
        texts = {}
        for what in ("start", "err", "end", "began", "ended", "out"):
            path = folder / "seen" / f"{job}.{rank}.{number}.{what}"
            texts[what] = path.read_text(errors="replace") if path.exists() else ""
        code, stop = texts["end"].split() if texts["end"] else (None, None)
        found.append(
            Attempt(
                float(texts["start"]),
                None if stop is None else float(stop),
                None if code is None else int(code),
                tuple(float(line.split()[1]) for line in texts["began"].splitlines()),
                tuple(map(float, texts["ended"].splitlines())),
                texts["err"],
                texts["out"] == _printed(folder / "seen" / f"{job}.{rank}.{number}", texts["began"], texts["ended"]),
            )
        )
    return found


def _printed(path: Path, began: str, ended: str) -> str:
    """What a workload prints that began and ended so often."""
    lines = [f"{number} of {path}\n" for number in range(1, LINES + 1)] * len(began.splitlines())
    return "".join([*lines, *[f"the end of {path}\n"] * len(ended.splitlines())])


def gssr(words: Sequence[str | Path], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run one of GSSR's commands in a folder."""
    return subprocess.run(
        (*GSSR, *words), cwd=folder, env=ENVIRONMENT, text=True, capture_output=True, timeout=PATIENCE
    )
