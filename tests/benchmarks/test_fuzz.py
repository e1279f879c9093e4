"""Some hostile inputs for every reader: ``python -m benchmarks fuzz`` gives thousands."""

import subprocess
import sys

import pytest

from benchmarks.fuzz import Reader, recordings, texts
from benchmarks.fuzz.table import attempts
from benchmarks.processes import ENVIRONMENT


@pytest.mark.parametrize(
    ("reader", "inputs"),
    [*((reader, 6) for reader in recordings.READERS), *((reader, 150) for reader in texts.READERS)],
    ids=lambda value: value.name if isinstance(value, Reader) else "",
)
def test_hostile_input_is_read_or_refused_in_a_sentence(reader: Reader, inputs: int) -> None:
    row = attempts(reader, 0.0, 1, inputs)
    assert row.inputs == inputs and row.crashes == []


def test_the_command_prints_totals_and_knows_its_readers() -> None:
    words = [sys.executable, "-m", "benchmarks", "fuzz"]
    done = subprocess.run(
        [*words, "--inputs", "20", "--only", "times"], capture_output=True, text=True, env=ENVIRONMENT
    )
    assert done.returncode == 0 and done.stderr == ""
    assert "| times | 20 |" in done.stdout and "| all | 20 |" in done.stdout
    unknown = subprocess.run([*words, "--only", "what"], capture_output=True, text=True, env=ENVIRONMENT)
    assert unknown.returncode == 2 and "unknown reader 'what'" in unknown.stderr
