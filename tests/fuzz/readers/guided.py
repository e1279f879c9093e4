"""Inputs that lead to code which none has reached yet. atheris counts the branches of GSSR's own code that an input takes;
libFuzzer keeps those that take new ones, and changes them further.

Each reader has a process of its own, which ends at the first crash: this file is what it runs. ``python -m
tests.fuzz.readers.guided READER FILE`` gives a reader once more the input that was kept in a file.
"""

import contextlib
import io
import os
import pkgutil
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from benchmarks.processes import CACHE, ENVIRONMENT
from tests.fuzz.readers import Parser, Reader

_INSTRUMENTED = ["gssr", "tomllib"]
_SEEDS = 100
"""Inputs to begin with."""
_LONGEST = 1 << 17
_REASON = re.compile(r"(?:Uncaught Python exception: ===\n|ERROR: libFuzzer: )(.*)")
_INPUTS, _COVERED = re.compile(r"stat::number_of_executed_units: (\d+)"), re.compile(r"\bcov: (\d+)")


class Row(NamedTuple):
    """What came of ``inputs`` inputs of a reader: they took ``branches`` of the code. ``crash``: what went wrong, and with
    which file; None when nothing did."""

    inputs: int
    branches: int
    crash: str | None


def is_installed() -> bool:
    """Whether atheris can be imported."""
    return find_spec("atheris") is not None


def attempts(reader: Reader | Parser, seconds: float, seed: int, patience: int, memory: int) -> Row:
    """Give a reader inputs for so long, ``patience`` seconds and ``memory`` bytes for each."""
    with tempfile.TemporaryDirectory(prefix="gssr-fuzz-") as name:
        folder = Path(name)
        corpus = folder / "corpus"
        corpus.mkdir()
        for number in range(_SEEDS):
            (corpus / str(number)).write_bytes(reader.drawn(random.Random(number)))
        options = {
            "max_total_time": max(1, round(seconds)),
            "max_len": _LONGEST,
            "timeout": patience,
            "rss_limit_mb": memory >> 20,
            "seed": seed + 1,
            "print_final_stats": 1,
            "artifact_prefix": f"{folder}/",
        }
        words = [sys.executable, "-m", "tests.fuzz.readers.guided", reader.name]
        words += [f"-{option}={value}" for option, value in options.items()]
        done = subprocess.run(
            [*words, str(corpus)], capture_output=True, text=True, errors="replace", env=ENVIRONMENT | {"TMPDIR": name}
        )
        inputs, covered = _INPUTS.findall(done.stderr), _COVERED.findall(done.stderr)
        crash = _crash(reader.name, folder, done.stderr) if done.returncode else None
        return Row(int((inputs or ["0"])[-1]), int((covered or ["0"])[-1]), crash)


def _crash(name: str, folder: Path, said: str) -> str:
    """What went wrong, and where the input is kept."""
    lines = _REASON.findall(said) or said.splitlines()[-1:] or ["it ended"]
    found = sorted(path for path in folder.iterdir() if path.is_file())
    if not found:
        return lines[0]
    kept = CACHE / f"fuzz-{name}-{found[0].name[:16]}"
    CACHE.mkdir(exist_ok=True)
    shutil.copyfile(found[0], kept)
    return f"python -m tests.fuzz.readers.guided {name} {kept}: {lines[0]}"


def _import_all() -> None:
    """Everything of GSSR: what is imported later would not be counted."""
    import gssr

    for module in pkgutil.walk_packages(gssr.__path__, "gssr."):
        if not module.name.endswith("__main__"):
            with contextlib.suppress(ImportError):  # of an extra that is not installed
                import_module(module.name)


def _child(words: Sequence[str]) -> None:
    import atheris

    with contextlib.redirect_stderr(io.StringIO()), atheris.instrument_imports(include=_INSTRUMENTED):
        _import_all()
        attempts = import_module("tests.fuzz.readers.attempts")
    name, *options = words
    reader = next(reader for reader in attempts.READERS if reader.name == name)
    folder = Path(tempfile.mkdtemp())

    def once(data: bytes) -> None:
        reader.given(folder, data)

    atheris.Setup(["gssr", *options], once)
    os.dup2(2, 1)  # where atheris says what went wrong
    atheris.Fuzz()


if __name__ == "__main__":
    _child(sys.argv[1:])
