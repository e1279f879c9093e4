"""Hostile words and messages, given to everything that takes some."""

import math
import random
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import cast
from unittest.mock import patch

from gssr import launch
from gssr.backends import workload_processes
from gssr.backends.base import BackendError
from gssr.backends.dcgm.engine import address_of
from gssr.backends.replay import parse
from gssr.commands.inputs import chosen_runs, with_run
from gssr.gpu_name import select_gpus
from gssr.marks import LONGEST, TIME_ENDS
from gssr.metrics import select
from gssr.model.verdicts.rules import TABLE, load
from gssr.model.window import parse_time
from gssr.profile.output import choose
from gssr.profile.request import ProfileRequest, UsageError
from gssr.profile.sampling.clock import RecordingClock
from gssr.profile.sampling.marks import MarkReceiver
from gssr.render.cells import cell_width, clean
from gssr.render.log_tail import log_tail
from gssr.render.roles import text_of
from gssr.store.disk import filesystem_of
from gssr.store.format.rows import Gpu
from gssr.store.read.recording import RecordingReader
from gssr.store.write.starts import UnagreedError
from tests.fuzz.readers import Parser, damage, text

_RULES = (
    "[{code}]\n{name} = {value}\n", "{code} = {value}\n", "[[{code}]]\n", "[{code}.{name}]\nx = {value}\n",
    '[{code}]\nseverity = "{value}"\nadvice = "{value}"\n', "[{code}]\nenabled = {value}\n", "{value}",
)  # fmt: skip
_VALUES = (
    "0.5", "nan", "-inf", "1e400", "9" * 5000, "true", '"x"', "[]", "[" * 500, "{}", "2020-01-01", "0x7fffffffffffffffffff",
    "'''", "\u202e", "\0", "1_0", "-0.0",
)  # fmt: skip


def _drawn_rules(rng: random.Random) -> bytes:
    rule = rng.choice(TABLE.rules)
    name = rng.choice([*(threshold.name for threshold in rule.thresholds), "severity", "enabled", text(rng)])
    parts = [
        rng.choice(_RULES).format(code=rng.choice((rule.code, "x", text(rng))), name=name, value=rng.choice(_VALUES))
        for _ in range(rng.choice((1, 2)))
    ]
    data = "".join(parts).encode("utf-8", "surrogatepass")
    return damage(data, rng) if rng.random() < 0.3 else data


def _rules(folder: Path, data: bytes) -> None:
    (folder / "rules.toml").write_bytes(data)
    with suppress(ValueError):
        load(str(folder / "rules.toml"))


def _words(*pieces: str) -> Callable[[random.Random], bytes]:
    """Texts made of these and of bad ones."""

    def drawn(rng: random.Random) -> bytes:
        words = "".join(rng.choice((*pieces, text(rng))) for _ in range(rng.choice((1, 2, 3, 5))))
        return words.encode("utf-8", "surrogatepass")

    return drawn


def _text(data: bytes) -> str:
    """As Python gives what stands on a command line or in a variable."""
    return data.replace(b"\0", b"").decode("utf-8", "surrogateescape")


_TIMES = (
    "-", "9", "1:30", "00:", "5m", "1h", "2d", "s", ".", "1e9", "2026-05-01T", "12:00:00", "+02:00", "Z", "9999-12-31", " ",
)  # fmt: skip


def _times(_: Path, data: bytes) -> None:
    with suppress(ValueError):
        found = parse_time(_text(data), 1.7e9, 1.7e9 + 60)
        if not math.isfinite(found):
            raise AssertionError(f"no time: {found}")


_GPUS = [
    Gpu(key, "r", node, 0, index, uuid, *[None] * 9)
    for key, (node, index, uuid) in enumerate([("n1", 0, "GPU-a"), ("n1", 1, None), (None, None, "GPU-b"), ("", 3, "")])
]
_SELECTORS = (
    "all", "0", "7", "n1", ":", "*", "?", "[", "]", "!", "GPU-", ",", "\\", "n1:0", "**" * 40, "sm_active", "a.sql",
    "@", "1e999", "--2", "²",
)  # fmt: skip


class _Runs:
    """As much of a recording as choosing one of its runs needs."""

    runs = tuple(SimpleNamespace(run=SimpleNamespace(run_id=f"r{number}", label=None)) for number in range(3))


def _selections(_: Path, data: bytes) -> None:
    words = _text(data)
    with suppress(ValueError):
        select_gpus(_GPUS, words.split(","))
    with suppress(ValueError):
        select(words)
    with suppress(BackendError):
        parse("replay:" + words)
    _, run = with_run(words)
    try:
        chosen_runs(cast(RecordingReader, _Runs), run)
    except ValueError as error:
        if not str(error).startswith("no run"):
            raise AssertionError(f"no sentence of ours: {error}") from None


_VARIABLES = tuple(
    sorted(
        {*launch.JOB_IDS, "CUDA_VISIBLE_DEVICES", "LOGNAME", "USER", "SLURM_STEP_GPUS", "SLURM_JOB_GPUS", "SLURM_STEP_ID",
         "SLURM_JOB_NAME", "SLURMD_NODENAME", "SLURM_CLUSTER_NAME", "SLURM_RESTART_COUNT", "LSB_JOBINDEX",
         "SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID", "DCGM_HOST"}
        | {word for row in launch.LAUNCHERS for word in row if isinstance(word, str) and word.isupper()}
    )
)  # fmt: skip
_NUMBERS = (
    "0",
    "1",
    "7",
    "-1",
    "4294967294",
    "9" * 30,
    "0-3",
    "0-1023",
    "0-99999999",
    "0,1,",
    "GPU-a",
    "[1-4]",
    "NoDevFiles",
    "node:5555",
    "[::1]:",
    "unix://",
)


_HYDRA = {"PMI_RANK": "0", "PMI_SIZE": "2", "MPI_LOCALRANKID": "0", "HYDI_CONTROL_FD": "5"}
"""Of a launcher that gives its ranks no name in common."""


def _drawn_environment(rng: random.Random) -> bytes:
    """As /proc tells one."""
    environ = {
        name: rng.choice((rng.choice(_NUMBERS), text(rng))) for name in rng.sample(_VARIABLES, rng.randrange(1, 14))
    }
    return "\0".join(f"{name}={value}" for name, value in environ.items()).encode("utf-8", "surrogatepass")


def _environments(_: Path, data: bytes) -> None:
    environ = dict(_text(entry).partition("=")[::2] for entry in data.split(b"\0"))
    place = launch.where_am_i(environ)
    launch.gpu_ids(environ)
    launch.gpu_ids_are_the_nodes(environ)
    with suppress(BackendError):
        if not 0 <= address_of(environ).port <= 65535:
            raise AssertionError(f"no port: {address_of(environ)}")
    for name in (launch.default_output(place), place.run_id or ""):
        if "/" in name or "\0" in name:
            raise AssertionError(f"a name that leads elsewhere: {name!r}")


_STAMPS = (b"nan", b"inf", b"-1", b"1e400", b"1.7e9", b"\xff", b"9" * 400)
_NEXT = b"\n\n"
"""Between datagrams."""


def _drawn_marks(rng: random.Random) -> bytes:
    sent = [
        stamp + rng.choice((TIME_ENDS.encode(), b"")) + text(rng).encode("utf-8", "replace")
        for stamp in rng.choices(_STAMPS, k=rng.choice((1, 5)))
    ]
    return _NEXT.join(damage(each, rng) if rng.random() < 0.5 else each for each in sent)


def _marks(_: Path, data: bytes) -> None:
    ear, mouth = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with ear, mouth:
        ear.setblocking(False)
        clock = RecordingClock()
        marks = MarkReceiver(ear.fileno(), clock, clock.now())
        for sent in data.split(_NEXT)[:5]:
            mouth.send(sent)
            for when, said in marks.read():
                if not math.isfinite(when) or when > clock.now() or not said.isprintable() or len(said) > LONGEST:
                    raise AssertionError(f"a mark that can't be: {(when, said)}")


def _names_of_runs(folder: Path, data: bytes) -> None:
    """What other ranks have written into ``run``: our file is called after it."""
    ranks = folder / "o.sql.d"
    ranks.mkdir()
    (ranks / "run").write_bytes(data + b"\n")  # a whole line: the rest of one would be waited for
    with suppress(UsageError, UnagreedError):
        output = choose(ProfileRequest(["true"], output=str(folder / "o.sql")), launch.where_am_i(_HYDRA))
        if Path(output.path).parent != ranks or "\0" in output.path:
            raise AssertionError(f"a file elsewhere: {output.path!r}")


_PRINTED = (
    "\x1b[", "\x1b]0;", "\x1b[2J", "\x1b[1;1H", "\x1b[K", "\x1b[999A", "\x1b[?1049h", ";", "m", "H", "\r", "\b", "\t", "\n",
    "9" * 5000, "50 %", "\x07", "\x1b\\", "\x9b", "\x84",
)  # fmt: skip


def _output(_: Path, data: bytes) -> None:
    """What a workload prints, in the pane and as a label."""
    rows = [text_of(row) for row in log_tail(data, 40, 10)]
    shown = [*rows, clean(data.decode("utf-8", "replace"))[:40]]
    if len(rows) > 10 or any(cell_width(row) > 80 or not row.replace(" ", "x").isprintable() for row in shown):
        raise AssertionError(f"not to be drawn: {shown}")


_FIELDS = (
    ") ",
    "(",
    " S 1 1",
    " 0" * 20,
    "\n",
    "36 35 98:0 / /mnt",
    " - ext4 /dev/root",
    "rw,upperdir=/x",
    "\\040",
    "- ",
    "-1",
)


def _of_the_kernel(folder: Path, data: bytes) -> None:
    """/proc/PID/stat, whose second field is a name of the workload's own choice, and mountinfo."""
    (folder / "mountinfo").write_bytes(data)
    filesystem_of(str(folder), str(folder / "mountinfo"))
    numbers = b" S 1 2 " + b"0 " * 40
    with patch.object(workload_processes, "contents", return_value=b"7 (" + data + b")" + numbers):
        found = workload_processes.stat_of(7)
        if found is None or (found.parent, found.group) != (1, 2):
            raise AssertionError(f"another process: {found}")


READERS = (
    Parser("rules", _drawn_rules, _rules),
    Parser("times", _words(*_TIMES), _times),
    Parser("filters", _words(*_SELECTORS), _selections),
    Parser("environment", _drawn_environment, _environments),
    Parser("marks", _drawn_marks, _marks),
    Parser("run-names", _words("CLUSTER-7.0", ".", " - ", "recorded", "refused", "\n"), _names_of_runs),
    Parser("output", _words(*_PRINTED), _output),
    Parser("proc", _words(*_FIELDS), _of_the_kernel),
)
