"""Hostile words, messages and blocks, given to everything that takes some."""

import math
import os
import random
import shutil
import struct
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from zlib import crc32

from benchmarks.fuzz import REAL, Reader, damage, text
from gssr import launch
from gssr.backends.base import BackendError
from gssr.backends.replay import parse
from gssr.commands.inputs import with_run
from gssr.marks import LONGEST, TIME_ENDS
from gssr.metrics import NAMES, select
from gssr.model.crowd import Crowd
from gssr.model.selection import select_gpus
from gssr.model.verdicts.rules import TABLE
from gssr.model.verdicts.site import load
from gssr.model.window import parse_time
from gssr.profile.clock import Clock
from gssr.profile.marks import Marks
from gssr.profile.output import choose
from gssr.profile.request import Request, UsageError
from gssr.store.live_block import CHECKED_FROM, LiveBlock
from gssr.store.live_reader import BlockReader
from gssr.store.records import Gpu
from gssr.store.schema import LIVE_SUFFIX

_Attempt = Callable[[Path, random.Random], None]


def _blocks(folder: Path, rng: random.Random) -> None:
    path = str(folder / "rank.sql")
    block = LiveBlock(path)
    for gpu in range(rng.choice((0, 1, 8))):
        block.add(gpu, (gpu, 1.7e9, *(rng.random() for _ in NAMES)))
    block.publish(1.7e9, 10)
    data = Path(path + LIVE_SUFFIX).read_bytes()
    reader = BlockReader([path])
    if rng.random() < 0.5:
        reader.look()
    changed = _known_to(data, rng) if rng.random() < 0.7 else damage(data, rng)
    Path(path + LIVE_SUFFIX).write_bytes(changed)
    found = reader.look()
    if len(found.gpus) != len(found.owner) or len(found.file) != len(found.rowid):
        raise AssertionError("a block's GPUs don't belong to it")
    crowd = Crowd([(path, 0, {0: 0, 1: 1})] * 2, 2, 1.0)
    crowd.others()
    os.unlink(path + LIVE_SUFFIX)


def _known_to(block: bytes, rng: random.Random) -> bytes:
    """With other numbers and a checksum that fits: what comes from somebody who knows how."""
    changed = bytearray(block)
    for _ in range(rng.choice((1, 3))):
        at = rng.randrange(CHECKED_FROM, len(changed) - 8)
        changed[at : at + 8] = rng.choice((struct.pack("<d", rng.choice(REAL)), rng.randbytes(8), b"\xff" * 8))
    if rng.random() < 0.3:
        del changed[rng.randrange(CHECKED_FROM, len(changed)) :]
        changed[8:12] = rng.choice((len(changed), 0, 1, 0xFFFFFFFF)).to_bytes(4, "little")
    return bytes(changed[:12] + crc32(changed[CHECKED_FROM:]).to_bytes(4, "little") + changed[CHECKED_FROM:])


_RULES = (
    "[{code}]\n{name} = {value}\n", "{code} = {value}\n", "[[{code}]]\n", "[{code}.{name}]\nx = {value}\n",
    '[{code}]\nseverity = "{value}"\nadvice = "{value}"\n', "[{code}]\nenabled = {value}\n", "{value}",
)  # fmt: skip
_VALUES = (
    "0.5", "nan", "-inf", "1e400", "9" * 5000, "true", '"x"', "[]", "[" * 500, "{}", "2020-01-01", "0x7fffffffffffffffffff",
    "'''", "\u202e", "\0", "1_0", "-0.0",
)  # fmt: skip


def _rules(folder: Path, rng: random.Random) -> None:
    rule = rng.choice(TABLE.rules)
    name = rng.choice([*(threshold.name for threshold in rule.thresholds), "severity", "enabled", text(rng)])
    parts = [
        rng.choice(_RULES).format(code=rng.choice((rule.code, "x", text(rng))), name=name, value=rng.choice(_VALUES))
        for _ in range(rng.choice((1, 2)))
    ]
    data = "".join(parts).encode("utf-8", "surrogatepass")
    (folder / "rules.toml").write_bytes(damage(data, rng) if rng.random() < 0.3 else data)
    with suppress(ValueError):
        load(str(folder / "rules.toml"))


def _words(pieces: tuple[str, ...], rng: random.Random) -> str:
    return "".join(rng.choice((*pieces, text(rng))) for _ in range(rng.choice((1, 2, 3, 5))))


_TIMES = (
    "-", "9", "1:30", "00:", "5m", "1h", "2d", "s", ".", "1e9", "2026-05-01T", "12:00:00", "+02:00", "Z", "9999-12-31", " ",
)  # fmt: skip


def _times(_: Path, rng: random.Random) -> None:
    with suppress(ValueError):
        found = parse_time(_words(_TIMES, rng), 1.7e9, 1.7e9 + 60)
        if not math.isfinite(found):
            raise AssertionError(f"no time: {found}")


_GPUS = [
    Gpu(key, "r", node, 0, index, uuid, *[None] * 9)
    for key, (node, index, uuid) in enumerate([("n1", 0, "GPU-a"), ("n1", 1, None), (None, None, "GPU-b"), ("", 3, "")])
]
_SELECTORS = ("all", "0", "7", "n1", ":", "*", "?", "[", "]", "!", "GPU-", ",", "\\", "n1:0", "**" * 40)


def _selections(_: Path, rng: random.Random) -> None:
    words = _words(_SELECTORS, rng)
    with suppress(ValueError):
        select_gpus(_GPUS, words.split(","))
    with suppress(ValueError):
        select(_words(("sm_active", "flop_active", ",", " ", "all"), rng))
    with suppress(BackendError):
        parse("replay:" + _words(("a.sql", "@", "1", "1e999", "nan", ":"), rng).replace("\0", ""))
    with_run(_words(("a.sql", "@", "-1", "r"), rng).replace("\0", ""))


_VARIABLES = tuple(
    sorted(
        {*launch.JOB_IDS, "CUDA_VISIBLE_DEVICES", "LOGNAME", "USER", "SLURM_STEP_GPUS", "SLURM_JOB_GPUS", "SLURM_STEP_ID",
         "SLURM_JOB_NAME", "SLURMD_NODENAME", "SLURM_CLUSTER_NAME", "SLURM_RESTART_COUNT", "LSB_JOBINDEX",
         "SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID"}
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
)


_HYDRA = {"PMI_RANK": "0", "PMI_SIZE": "2", "MPI_LOCALRANKID": "0", "HYDI_CONTROL_FD": "5"}
"""Of a launcher that gives its ranks no name in common."""


def _environments(_: Path, rng: random.Random) -> None:
    environ = {
        name: rng.choice((rng.choice(_NUMBERS), text(rng))) for name in rng.sample(_VARIABLES, rng.randrange(1, 14))
    }
    place = launch.where_am_i(environ)
    launch.gpu_ids(environ)
    launch.gpu_ids_are_the_nodes(environ)
    for name in (launch.default_output(place), place.run_id or ""):
        if "/" in name or "\0" in name:
            raise AssertionError(f"a name that leads elsewhere: {name!r}")


_STAMPS = (b"nan", b"inf", b"-1", b"1e400", b"1.7e9", b"\xff", b"9" * 400)


def _marks(_: Path, rng: random.Random) -> None:
    readable, writable = os.pipe()
    os.set_blocking(readable, False)
    try:
        clock = Clock()
        marks = Marks(readable, clock)
        for stamp in rng.choices(_STAMPS, k=rng.choice((1, 5))):
            sent = stamp + rng.choice((TIME_ENDS.encode(), b"")) + text(rng).encode("utf-8", "replace")
            os.write(writable, (damage(sent, rng) if rng.random() < 0.5 else sent)[:4000] or b"x")
            for when, said in marks.read():
                if not math.isfinite(when) or when > clock.now() or not said.isprintable() or len(said) > LONGEST:
                    raise AssertionError(f"a mark that can't be: {(when, said)}")
    finally:
        os.close(readable)
        os.close(writable)


def _names_of_runs(folder: Path, rng: random.Random) -> None:
    """What other ranks have written into ``run``: our file is called after it."""
    ranks = folder / "o.sql.d"
    ranks.mkdir()
    (ranks / "run").write_bytes(damage(text(rng).encode("utf-8", "replace"), rng) or b"x")
    with suppress(UsageError):
        output = choose(Request(["true"], output=str(folder / "o.sql")), launch.where_am_i(_HYDRA))
        if Path(output.path).parent != ranks or "\0" in output.path:
            raise AssertionError(f"a file elsewhere: {output.path!r}")


def _cleared(attempt: _Attempt) -> _Attempt:
    def run(folder: Path, rng: random.Random) -> None:
        try:
            attempt(folder, rng)
        finally:
            for path in folder.iterdir():
                shutil.rmtree(path) if path.is_dir() else path.unlink()

    return run


READERS = tuple(
    Reader(name, _cleared(attempt))
    for name, attempt in (
        ("live-blocks", _blocks),
        ("rules", _rules),
        ("times", _times),
        ("filters", _selections),
        ("environment", _environments),
        ("marks", _marks),
        ("run-names", _names_of_runs),
    )
)
