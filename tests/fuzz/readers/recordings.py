"""Hostile recordings, given to everything that opens one."""

import contextlib
import io
import json
import os
import random
import shutil
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from gssr import cli
from gssr.backends.base import BackendError
from gssr.backends.replay import open_replay
from gssr.metrics import BY_NAME, NAMES
from gssr.model.live.live_result import Query
from gssr.model.live.watched_recording import WatchedRecording
from gssr.store.merge import merge
from gssr.store.read.follow import Follower
from gssr.store.read.open import RecordingError
from gssr.store.read.recording import open_recording
from gssr.store.read.time_window import ALL_TIME, Window
from gssr.store.write.writer import Writer
from tests.fuzz.readers import Reader
from tests.fuzz.readers.hostile import corrupt
from tests.fuzz.readers.seeds import START, STEP, planted

_PAGES: tuple[list[str], ...] = (
    [], ["--json"], ["--terminal"], ["--json", "-d", "all"], ["-v", "high", "-mtd"], ["--from", "60", "--to", "-5m"],
    ["--gpus", "0", "--metrics", "sm_active,power_usage"], ["--run", "-1", "-ns", "-pts", "--terminal"],
)  # fmt: skip


def command(words: list[str]) -> str:
    """Run a command here; what it said on standard error. Raises what it could not say in a sentence."""
    return _outcome(words)[1]


def _outcome(words: list[str]) -> tuple[str, str]:
    """Standard output and standard error."""
    printed, said = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(said):
        try:
            code = cli.main(["--debug", *words])
        except SystemExit as end:  # of argparse
            code = int(end.code or 0)
    os.environ.pop("GSSR_DEBUG", None)
    if code not in (0, 1, 2) or (code and not said.getvalue()):
        raise AssertionError(f"exit code {code}, said {said.getvalue()!r}")
    return printed.getvalue(), said.getvalue()


def analyzed(path: Path) -> None:
    """What ``analyze --json`` says of it: a sentence, or numbers that can be, or null. Raises AssertionError."""
    printed, said = _outcome(["analyze", "--json", str(path)])
    if not printed:
        assert said, "neither numbers nor a sentence"
        return
    for run in json.loads(printed, parse_constant=_no_number)["runs"]:
        for name, found in run["metrics"].items():
            if found["n"] and not _fits(name, found):
                raise AssertionError(f"{name} of {found}")
            if not 0 <= found["n"] <= run["n_samples"]:
                raise AssertionError(f"{found['n']} values of {name} in {run['n_samples']} samples")


def _fits(metric: str, found: dict[str, Any]) -> bool:
    """Whether numbers of one metric, as far as they are known, can be those of any values. Of a counter that was set back
    rollups know how many samples there are, and nothing else."""
    if found["min"] is None or found["max"] is None:
        is_counter = metric in BY_NAME and BY_NAME[metric].kind == "counter"
        return is_counter and all(value is None for name, value in found.items() if name != "n")
    least, most = found["min"], found["max"]
    slack = 1e-9 * max(abs(least), abs(most))
    known = [found[name] for name in ("mean", "p05", "median", "p95")]
    inside = all(value is None or least - slack <= value <= most + slack for value in known)
    return inside and (found["std"] is None or 0 <= found["std"] <= (most - least) / 2 + slack)


def _no_number(word: str) -> None:
    raise AssertionError(f"{word} in JSON")


def _analyze(path: Path, rng: random.Random) -> None:
    command(["analyze", str(path), *rng.choice(_PAGES)])
    analyzed(path)


def _compare(path: Path, rng: random.Random) -> None:
    command(["compare", str(path), f"{path}@{rng.choice(('r1', 'r2', '1', '-1', 'x'))}"])


def _fleet(path: Path, rng: random.Random) -> None:
    command(["fleet", str(path.parent), *rng.choice(([], ["--json"], ["--by", "user"]))])


def _arrays(path: Path, rng: random.Random) -> None:
    """What the reader has beyond what commands ask for."""
    with suppress(RecordingError), contextlib.closing(open_recording(path)) as recording:
        for run in recording.runs[:3]:
            start, end = sorted(START + rng.uniform(-100, 900) for _ in range(2))
            window = rng.choice((ALL_TIME, Window(start), Window(end=end), Window(start, end)))
            run.samples(["sm_active", "energy", "flop_active"], None, window)
            run.buckets(window, rng.choice((None, 10, 60, 600)))
            run.histograms(["sm_active", "flop_active"], window)
            run.host_use(window)
            run.workload_use(window)
            _ = run.events, run.processes, run.tails, run.n_rows, run.first_time, run.last_time, run.damage


def _watch(path: Path, rng: random.Random) -> None:
    with closing(WatchedRecording(str(path), rng.choice((None, None, "r1")))) as watch:
        for _ in range(3):
            span, end = rng.choice((None, 60.0, 1e6)), rng.choice((None, START + 100, 0.0, 1e11))
            watch.look(Query(span=span, end=end, columns=rng.choice((1, 60, 200)), rows=5, activity=True), quick=True)


def _follow(path: Path, rng: random.Random) -> None:
    follower = Follower(str(path), ["sm_active", "power_usage"])
    with suppress(RecordingError), closing(follower):
        for _ in range(3):
            follower.poll(rng.choice((1, 100, 100_000)))


def _replay(path: Path, rng: random.Random) -> None:
    with suppress(BackendError):
        backend = open_replay(f"replay:{path}@{rng.choice(('1', '1e6', '1e300'))}")
        with closing(backend):
            for tick in range(4):
                for row in backend.sample(START + tick * 1e4):
                    _check_row(row, len(backend.gpus))
                backend.changes()


def _check_row(row: tuple[object, ...], n_gpus: int) -> None:
    gpu, *numbers = row
    if not (
        isinstance(gpu, int) and 0 <= gpu < n_gpus and all(n is None or isinstance(n, int | float) for n in numbers)
    ):
        raise AssertionError(f"a row that no sampler can take: {row}")


def _merge(path: Path, rng: random.Random) -> None:
    with suppress(RecordingError):
        merge(str(path), own=rng.choice((None, None, "r1")), overwrite=rng.random() < 0.5)
        with closing(open_recording(path)) as recording:
            assert all(run.n_rows >= 0 for run in recording.runs)


def _add_a_run(path: Path, rng: random.Random) -> None:
    """As ``gssr profile -a`` does."""
    with suppress(RecordingError):
        writer = Writer(str(path), append=True)
        writer.begin(
            {"run_id": "new", "started_at": START, "state": "running"}, {"rank": 0, "node": "n", "state": "running"}
        )
        writer.add_gpus([{"device_index": 0, "uuid": "u"}], NAMES, STEP)
        for tick in range(20):
            writer.add([(0, START + tick * STEP, *(rng.random() for _ in NAMES))])
            writer.tick(START + tick * STEP)
        writer.finish(START + 40, 0, "completed", START + 40)


def _hostile(read: Callable[[Path, random.Random], None]) -> Callable[[Path, random.Random], None]:
    def attempt(folder: Path, rng: random.Random) -> None:
        path = planted(folder, rng)
        corrupt(folder, rng)
        try:
            read(path if path.exists() or rng.random() < 0.5 else Path(f"{path}.d"), rng)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()

    return attempt


READERS = tuple(
    Reader(name, _hostile(read))
    for name, read in (
        ("analyze", _analyze),
        ("reader", _arrays),
        ("compare", _compare),
        ("fleet", _fleet),
        ("watch", _watch),
        ("follow", _follow),
        ("replay", _replay),
        ("merge", _merge),
        ("add", _add_a_run),
    )
)
