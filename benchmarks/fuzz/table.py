"""``python -m benchmarks fuzz``: gives every reader hostile input for some seconds, and prints how it took it."""

import argparse
import faulthandler
import os
import random
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, NoReturn

from benchmarks.fuzz import (
    Parser,
    Reader,
    amplify,
    blobs,
    guided,
    large,
    metric_files,
    metric_texts,
    recordings,
    reports,
    texts,
    tool_traces,
    traces,
)
from benchmarks.table import Figure, head, machine
from benchmarks.table import line as row_of

READERS: tuple[Reader | Parser, ...] = (
    *recordings.READERS,
    *reports.READERS,
    *blobs.READERS,
    *texts.READERS,
    *traces.READERS,
    *tool_traces.READERS,
    *metric_files.READERS,
    *metric_texts.READERS,
)
SECONDS = 60.0
PATIENCE = 60
"""An input that takes longer, s, is one that never ends."""
MEMORY = 2 << 30
"""Bytes that one may take: reading a sound recording takes a hundred MB, and these are smaller."""
MEMORY_FOLDER = next((path for path in ("/dev/shm",) if os.access(path, os.W_OK)), None)
"""Where inputs are written to: each is a file, of which a disk would make the most of the time."""
HEAD = "| Reader | Inputs | Time | Slowest, CPU | Crashes |\n| --- | ---: | ---: | ---: | ---: |"


class Row(NamedTuple):
    """What came of ``inputs`` inputs of a reader, which took ``seconds``; the slowest one took ``slowest`` s of the CPU.
    ``crashes``: each with the seed that brings it back."""

    name: str
    inputs: int
    seconds: float
    slowest: float
    slowest_seed: int
    crashes: list[str]


class TooSlowError(Exception):
    """An input took longer than PATIENCE."""


def _too_slow(*_: object) -> NoReturn:
    raise TooSlowError


@contextmanager
def _bounds() -> Iterator[None]:
    """Inside, what takes too long or too much raises; what can't even be interrupted ends the process, and says where."""
    before = signal.signal(signal.SIGALRM, _too_slow)
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
        signal.signal(signal.SIGALRM, before)


def _crash(reader: Reader | Parser, folder: Path, seed: int) -> str | None:
    """What went wrong with one input; None when nothing did."""
    signal.alarm(PATIENCE)
    faulthandler.dump_traceback_later(2 * PATIENCE, exit=True)
    try:
        reader.attempt(folder, random.Random(seed))
    except Exception as error:
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "/gssr/" in frame.filename]
        where = f" in {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
        return f"--seed {seed}: {type(error).__name__}: {error}{where}"
    finally:
        signal.alarm(0)
        faulthandler.cancel_dump_traceback_later()
    return None


def attempts(reader: Reader | Parser, seconds: float, seed: int, most: int | None = None) -> Row:
    """Give a reader inputs, from ``seed`` on, for so long, or ``most`` of them."""
    crashes, slowest, slowest_seed, n = [], 0.0, seed, 0
    with tempfile.TemporaryDirectory(prefix="gssr-fuzz-", dir=MEMORY_FOLDER) as folder:
        begun = time.perf_counter()
        while n < most if most is not None else time.perf_counter() - begun < seconds:
            before = time.process_time()
            crash = _crash(reader, Path(folder), seed + n)
            taken = time.process_time() - before
            if taken > slowest:
                slowest, slowest_seed = taken, seed + n
            n += 1
            if crash is not None:
                crashes.append(crash)
    return Row(reader.name, n, time.perf_counter() - begun, slowest, slowest_seed, crashes)


def line(row: Row) -> str:
    """One row of the Markdown table."""
    slowest = f"{row.slowest:.2f} s (--seed {row.slowest_seed})"
    return f"| {row.name} | {row.inputs:,} | {row.seconds:.0f} s | {slowest} | {len(row.crashes)} |"


def _again(chosen: Sequence[Reader | Parser], path: Path) -> int:
    data = path.read_bytes()
    with tempfile.TemporaryDirectory(prefix="gssr-fuzz-") as folder, _bounds():
        for reader in chosen:
            reader.given(Path(folder), data)
    return 0


def _guided(chosen: Sequence[Reader | Parser], seconds: float, seed: int) -> int:
    if not guided.is_installed():
        print(guided.MISSING, file=sys.stderr)
        return 2
    print(machine(), guided.HEAD, sep="\n\n", flush=True)
    rows = []
    for reader in chosen:
        rows.append(guided.attempts(reader, seconds, seed, PATIENCE, MEMORY))
        print(guided.line(rows[-1]), flush=True)
        if rows[-1].crash is not None:
            print(f"{reader.name}: {rows[-1].crash}", file=sys.stderr, flush=True)
    return 1 if any(row.crash is not None for row in rows) else 0


def _measured(figures: Iterator[Figure]) -> int:
    print(machine(), head(), sep="\n\n", flush=True)
    missed = 0
    for figure in figures:
        print(row_of(figure), flush=True)
        missed += figure.missed
    return 1 if missed else 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code: 0, 1 when something crashed, 2 for wrong usage."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks fuzz", description="Give everything that reads something hostile input."
    )
    parser.add_argument("--seconds", type=float, default=SECONDS, metavar="N", help=f"in all (default: {SECONDS:g})")
    parser.add_argument("--only", action="append", metavar="NAME", help="only this reader; may be given again")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the first input (default: 0)")
    parser.add_argument("--inputs", type=int, metavar="N", help="so many inputs of each reader, however long it takes")
    parser.add_argument("--guided", action="store_true", help="choose inputs by the code they reach (needs atheris)")
    parser.add_argument(
        "--large",
        action="store_true",
        help=f"recordings that list very much: memory and CPU of every command; --only: {'; '.join(large.FILES)}",
    )
    parser.add_argument(
        "--amplify",
        action="store_true",
        help=f"small files made to be dear: memory and CPU of every command; --only: {'; '.join(amplify.FILES)}",
    )
    parser.add_argument("--again", type=Path, metavar="FILE", help="only the input that --guided has kept in this file")
    options = parser.parse_args(arguments)
    names = [reader.name for reader in READERS]
    if options.large or options.amplify:
        names = list(large.FILES if options.large else amplify.FILES)
    for name in options.only or ():
        if name not in names:
            parser.error(f"unknown reader {name!r}; known: {', '.join(names)}")
    if options.large or options.amplify:
        return _measured((large if options.large else amplify).measure(options.only or names))
    chosen = [reader for reader in READERS if not options.only or reader.name in options.only]
    if options.again:
        return _again(chosen, options.again)
    if options.guided:
        return _guided(chosen, options.seconds / len(chosen), options.seed)
    print(machine(), HEAD, sep="\n\n", flush=True)
    rows = []
    with _bounds():
        for reader in chosen:
            rows.append(attempts(reader, options.seconds / len(chosen), options.seed, options.inputs))
            print(line(rows[-1]), flush=True)
            for crash in rows[-1].crashes:
                print(f"{reader.name}: {crash}", file=sys.stderr, flush=True)
    total = Row(
        "all",
        sum(row.inputs for row in rows),
        sum(row.seconds for row in rows),
        *max((row.slowest, row.slowest_seed) for row in rows),
        [crash for row in rows for crash in row.crashes],
    )
    print(line(total), flush=True)
    return 1 if total.crashes else 0
