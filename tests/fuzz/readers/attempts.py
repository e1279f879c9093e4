"""All readers, and what becomes of them when they are given hostile inputs, one after the other."""

import faulthandler
import os
import random
import resource
import signal
import tempfile
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

from tests.fuzz.readers import (
    Parser,
    Reader,
    blobs,
    dumps,
    kernel_reports,
    metric_files,
    metric_texts,
    recordings,
    reports,
    texts,
    tool_traces,
    traces,
)

INPUTS = {
    recordings: 4, reports: 30, blobs: 6, texts: 100, traces: 500, tool_traces: 5, metric_texts: 175, metric_files: 60,
    dumps: 75, kernel_reports: 12,
}  # fmt: skip
"""The modules with readers, and how many inputs each of their readers is given in every run of the tests."""
READERS: tuple[Reader | Parser, ...] = tuple(reader for module in INPUTS for reader in module.READERS)
PATIENCE = 60
"""An input that takes longer, s, is one that never ends."""
MEMORY = 2 << 30
"""Bytes that one may take: reading a sound recording takes a hundred MB, and these are smaller."""
MEMORY_FOLDER = next((path for path in ("/dev/shm",) if os.access(path, os.W_OK)), None)
"""Where inputs are written to: each is a file, of which a disk would make the most of the time."""


class TooSlowError(Exception):
    """An input took longer than PATIENCE."""


def _too_slow(*_: object) -> NoReturn:
    raise TooSlowError


@contextmanager
def bounds() -> Iterator[None]:
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


def crashes(reader: Reader | Parser, seed: int, inputs: int | None = None, seconds: float = 0.0) -> list[str]:
    """Give a reader so many inputs, or, with None, as many as take so long; input n is drawn from ``seed`` + n.

    Returns what went wrong, each with the seed that brings it back."""
    found, number, begun = [], seed, time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="gssr-fuzz-", dir=MEMORY_FOLDER) as folder:
        while number < seed + inputs if inputs is not None else time.perf_counter() - begun < seconds:
            crash = _crash(reader, Path(folder), number)
            found += [crash] if crash is not None else []
            number += 1
    return found
