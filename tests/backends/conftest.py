"""Workloads for tests of what is read of them."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from dcgm_bench import EngineProcess

import gssr.backends.dcgm.availability  # noqa: F401  # loaded while a test replaces engine.probe, it would keep that one


@pytest.fixture(autouse=True)
def compiler_of_the_standin(request: pytest.FixtureRequest) -> None:
    """The library below the stand-in for DCGM's bindings is built by those who load it first."""
    if request.module.__name__.rpartition(".")[2].startswith("test_dcgm"):
        request.getfixturevalue("requires")("gcc", package="gcc libc6-dev")


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[EngineProcess]:
    """DCGM's hostengine as a process of its own, not started yet."""
    found = EngineProcess(tmp_path)
    yield found
    found.stop()


@pytest.fixture
def spawn() -> Iterator:
    """Starts Python code as a workload: in a process group of its own, gone after the test."""
    started = []

    def start(code: str, **options: object) -> subprocess.Popen:
        process = subprocess.Popen(
            [sys.executable, "-S", "-E", "-c", code], process_group=0, stdout=subprocess.PIPE, text=True, **options
        )
        started.append(process)
        return process

    yield start
    for process in started:
        try:
            os.killpg(process.pid, 9)
        except ProcessLookupError:
            pass
        process.wait()
        process.stdout.close()
