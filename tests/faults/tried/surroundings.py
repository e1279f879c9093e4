"""Machines and sessions that lack what one takes for granted."""

import os
import random
import subprocess
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from benchmarks.processes import ENVIRONMENT
from tests.faults.tried import Fault, NotHereError, Seen
from tests.faults.tried.job import Job, Steps, passed_on, recorded, seen

LOCALES = ("C", "POSIX", "en_US.ISO-8859-1", "ja_JP.SJIS", "nonsense")
RANK = {
    "SLURM_JOB_ID": "7",
    "SLURM_STEP_ID": "0",
    "SLURM_PROCID": "0",
    "SLURM_LOCALID": "0",
    "SLURM_STEP_NUM_TASKS": "2",
    "SLURMD_NODENAME": "node0",
}
"""One of two ranks of a node: they would agree on who samples what."""


@cache
def unshare() -> tuple[str, ...]:
    """The words that run a command with mounts of its own. Raises NotHereError."""
    rights = () if os.geteuid() == 0 else ("--user", "--map-root-user")
    words = ("unshare", *rights, "--mount")
    try:
        subprocess.run([*words, "true"], check=True, capture_output=True)
    except (OSError, subprocess.SubprocessError):
        raise NotHereError("nothing can be mounted in a namespace of one's own") from None
    return words


def _read_only(kept: Path, *places: str) -> list[str]:
    """The words that run a command where these places can't be written to, but for the folder ``kept``."""
    binds = [f"mount --bind {place} {place}" for place in (*places, f"'{kept}'")]
    closes = [f"mount -o remount,bind,ro {place}" for place in places]
    steps = " && ".join([*binds, *closes])
    return [*unshare(), "sh", "-c", f'{steps} || exit 99; exec "$@"', "sh"]


def _as_ever(
    folder: Path,
    rng: random.Random,
    environment: Mapping[str, str] = ENVIRONMENT,
    around: Sequence[str] = (),
) -> Seen:
    """A short job, which must go as anywhere else, without a line of GSSR's."""
    steps = Steps(rng.randint(1, 8), rng.choice((0, 7)))
    with Job(folder, ["sh", "-c", steps.script], environment=environment, around=around) as job:
        ended = job.end()
        found = job.recorded()
        state = "failed" if steps.code else "completed"
        return seen(
            ended,
            folder,
            None,
            *passed_on(ended, steps),
            ((found.state, found.exit_code) == (state, steps.code), f"state {found.state}, {found.exit_code}"),
            (bool(found.times), "no sample"),
            (not ended.said, f"said {ended.said}"),
        )


def _without(*names: str) -> dict[str, str]:
    return {name: value for name, value in ENVIRONMENT.items() if name not in names}


def no_shared_memory(folder: Path, rng: random.Random) -> Seen:
    return _as_ever(folder, rng, ENVIRONMENT | RANK, _read_only(folder, "/dev/shm"))


def nowhere_to_write(folder: Path, rng: random.Random) -> Seen:
    places = ["/dev/shm", "/tmp", "/var/tmp", "/run"]
    return _as_ever(folder, rng, {**_without("TMPDIR", "XDG_RUNTIME_DIR"), **RANK}, _read_only(folder, *places))


def no_tmpdir(folder: Path, rng: random.Random) -> Seen:
    place = rng.choice(("/no/such/folder", "", "/proc", str(folder / "file")))
    (folder / "file").touch()
    return _as_ever(folder, rng, ENVIRONMENT | {"TMPDIR": place} | rng.choice(({}, RANK)))


def no_home(folder: Path, rng: random.Random) -> Seen:
    if rng.random() < 0.5:
        return _as_ever(folder, rng, _without("HOME", "USER", "LOGNAME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"))
    return _as_ever(folder, rng, ENVIRONMENT | {"HOME": "/no/such/home"})


def read_only_home(folder: Path, rng: random.Random) -> Seen:
    home, inside = folder / "home", folder / "job"
    home.mkdir()
    inside.mkdir()
    return _as_ever(inside, rng, ENVIRONMENT | {"HOME": str(home)}, _read_only(inside, str(home)))


def closed_umask(folder: Path, rng: random.Random) -> Seen:
    before = os.umask(0o077)
    try:
        seen = _as_ever(folder, rng)
    finally:
        os.umask(before)
    mode = (folder / "run.sql").stat().st_mode & 0o777
    return seen._replace(problem=seen.problem or (None if mode & 0o077 == 0 else f"the recording's mode is {mode:o}"))


def other_locale(folder: Path, rng: random.Random) -> Seen:
    locale = rng.choice(LOCALES)
    return _as_ever(folder, rng, {**_without("LANG", "LC_CTYPE", "PYTHONUTF8"), "LC_ALL": locale})


def odd_names(folder: Path, rng: random.Random) -> Seen:
    """Bytes that are no UTF-8, newlines and quotes in the folder's name, the recording's and an argument."""
    odd = rng.choice((b"\xff\xfe", b"caf\xe9", b"new\nline", b"'\"$(x)", b"%41?a#b", b"\x1b[31m"))
    inner = Path(os.fsdecode(os.path.join(os.fsencode(folder), odd)))
    inner.mkdir()
    locale = rng.choice(("C", "C.UTF-8"))
    with Job(inner, ["printf", "%s", os.fsdecode(odd)], environment={**ENVIRONMENT, "LC_ALL": locale}) as job:
        ended = job.end()
        found = recorded(job.path)
        return seen(
            ended,
            inner,
            None,
            (ended.code == 0 and ended.out == odd, f"exit code {ended.code}, output {ended.out!r}"),
            (not ended.said and not ended.err, f"said {ended.said} {ended.err}"),
            (found.state == "completed" and bool(found.times), f"state {found.state}"),
        )


def hidden_modules(folder: Path, rng: random.Random) -> Seen:
    """The job's PYTHONPATH, or its folder, has modules that are called like some of Python's own."""
    place = folder / rng.choice(("modules", "."))
    place.mkdir(exist_ok=True)
    for name in rng.sample(
        ("sqlite3", "json", "argparse", "shlex", "random", "socket", "tempfile", "numpy", "pynvml"), 4
    ):
        (place / f"{name}.py").write_text("raise RuntimeError('not this one')\n")
    path = f"{place}:{ENVIRONMENT['PYTHONPATH']}" if place != folder else ENVIRONMENT["PYTHONPATH"]
    return _as_ever(folder, rng, ENVIRONMENT | {"PYTHONPATH": path})


def few_descriptors(folder: Path, rng: random.Random) -> Seen:
    steps, most = Steps(rng.randint(1, 8), rng.choice((0, 7))), rng.randint(12, 24)  # dash itself needs 11 to redirect
    around = ["sh", "-c", f'ulimit -n {most}; exec "$@"', "sh"]
    with Job(folder, ["sh", "-c", steps.script], around=around) as job:
        ended = job.end()
        is_said = len(ended.said) == 1 and ended.said[0].startswith("nothing is recorded: ")
        return seen(ended, folder, None, *passed_on(ended, steps), (is_said, f"said {ended.said}"))


FAULTS = (
    Fault("no-shared-memory", "/dev/shm can't be written to", no_shared_memory),
    Fault("nowhere-to-write", "neither /dev/shm nor /tmp, /var/tmp and /run can be written to", nowhere_to_write),
    Fault("no-tmpdir", "TMPDIR is empty, missing or no folder", no_tmpdir),
    Fault("no-home", "HOME is not set, or does not exist", no_home),
    Fault("read-only-home", "HOME can't be written to", read_only_home),
    Fault("closed-umask", "umask 077", closed_umask),
    Fault("other-locale", "the locale is not UTF-8, or unknown", other_locale),
    Fault("hidden-modules", "PYTHONPATH, or the folder, has modules called like Python's own", hidden_modules),
    Fault("few-descriptors", "12 to 24 files may be open", few_descriptors),
    Fault("odd-names", "names are not UTF-8, or hold newlines, quotes and escapes", odd_names),
)
