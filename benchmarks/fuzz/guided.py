"""``python -m benchmarks fuzz --guided``: inputs that lead to code which none has reached yet. atheris counts the branches
of GSSR's own code that an input takes; libFuzzer keeps those that take new ones, and changes them further.

Each reader has a process of its own, which ends at the first crash: this file is what it runs.
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
import time
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from benchmarks.fuzz import Parser, Reader
from benchmarks.processes import CACHE, ENVIRONMENT

MISSING = "--guided needs atheris: pip install 'gssr[fuzz]' (of this checkout: pip install '.[fuzz]')"
_INSTRUMENTED = ["gssr", "tomllib"]
_SEEDS = 100
"""Inputs to begin with."""
_LONGEST = 1 << 17
HEAD = "| Reader | Inputs | Time | Branches | Crashes |\n| --- | ---: | ---: | ---: | ---: |"
_REASON = re.compile(r"(?:Uncaught Python exception: ===\n|ERROR: libFuzzer: )(.*)")
_INPUTS, _COVERED = re.compile(r"stat::number_of_executed_units: (\d+)"), re.compile(r"\bcov: (\d+)")


class Row(NamedTuple):
    """What came of ``inputs`` inputs of a reader in ``seconds``: they took ``branches`` of the code. ``crash``: what went
    wrong, and with which file; None when nothing did."""

    name: str
    inputs: int
    seconds: float
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
        words = [sys.executable, "-m", "benchmarks.fuzz.guided", reader.name]
        words += [f"-{option}={value}" for option, value in options.items()]
        begun = time.perf_counter()
        done = subprocess.run(
            [*words, str(corpus)], capture_output=True, text=True, errors="replace", env=ENVIRONMENT | {"TMPDIR": name}
        )
        taken = time.perf_counter() - begun
        inputs, covered = _INPUTS.findall(done.stderr), _COVERED.findall(done.stderr)
        crash = _crash(reader.name, folder, done.stderr) if done.returncode else None
        return Row(reader.name, int((inputs or ["0"])[-1]), taken, int((covered or ["0"])[-1]), crash)


def _crash(name: str, folder: Path, said: str) -> str:
    """What went wrong, and where the input is kept."""
    lines = _REASON.findall(said) or said.splitlines()[-1:] or ["it ended"]
    found = sorted(path for path in folder.iterdir() if path.is_file())
    if not found:
        return lines[0]
    kept = CACHE / f"fuzz-{name}-{found[0].name[:16]}"
    CACHE.mkdir(exist_ok=True)
    shutil.copyfile(found[0], kept)
    return f"--only {name} --again {kept}: {lines[0]}"


def line(row: Row) -> str:
    """One row of the Markdown table."""
    return f"| {row.name} | {row.inputs:,} | {row.seconds:.0f} s | {row.branches:,} | {int(row.crash is not None)} |"


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
        table = import_module("benchmarks.fuzz.table")
    name, *options = words
    reader = next(reader for reader in table.READERS if reader.name == name)
    folder = Path(tempfile.mkdtemp())

    def once(data: bytes) -> None:
        reader.given(folder, data)

    atheris.Setup(["gssr", *options], once)
    os.dup2(2, 1)  # where atheris says what went wrong
    atheris.Fuzz()


if __name__ == "__main__":
    _child(sys.argv[1:])
