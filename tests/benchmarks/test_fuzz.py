"""Some hostile inputs for every reader: ``python -m benchmarks fuzz`` gives thousands."""

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.fuzz import (
    Drawn,
    Parser,
    Reader,
    blobs,
    guided,
    metric_files,
    metric_texts,
    recordings,
    reports,
    table,
    texts,
    tool_traces,
    traces,
)
from benchmarks.fuzz.table import READERS, attempts
from benchmarks.processes import ENVIRONMENT

HERE = "on this machine"
INPUTS = {
    recordings: 6, reports: 60, blobs: 12, texts: 150, traces: 3_000, tool_traces: 10, metric_texts: 700, metric_files: 250,
}  # fmt: skip


@pytest.mark.parametrize(
    ("reader", "inputs"),
    [(reader, inputs) for module, inputs in INPUTS.items() for reader in module.READERS],
    ids=lambda value: "" if isinstance(value, int) else value.name,
)
def test_hostile_input_is_read_or_refused_in_a_sentence(reader: Reader | Parser, inputs: int) -> None:
    row = attempts(reader, 0.0, 1, inputs)
    assert row.inputs == inputs and row.crashes == []


def test_readers_have_names_of_their_own() -> None:
    assert len({reader.name for reader in READERS}) == len(READERS)


def test_bytes_choose_an_input_and_whatever_they_are_it_ends() -> None:
    numbers = [
        [rng.random(), rng.sample(range(1000), 30), rng.randbytes(9)] for rng in (Drawn(b"a" * 50), Drawn(b"a" * 50))
    ]
    assert numbers[0] == numbers[1]
    for data in (b"", b"\0" * 9, b"\xff" * 500):
        rng = Drawn(data)
        assert 0 <= rng.random() < 1 and len(set(rng.sample(range(1000), 30))) == 30
    assert Drawn(b"\1\2").getrandbits(12) == 0x201


def test_without_atheris_one_sentence_says_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(guided, "is_installed", lambda: False)
    assert table.main(["--guided", "--only", "times"]) == 2
    said = capsys.readouterr()
    assert said.out == "" and said.err == f"{guided.MISSING}\n" and "[fuzz]" in said.err


def test_an_input_that_was_kept_can_be_given_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "kept").write_bytes(b"1:30")
    given = []
    own = Parser("own", lambda rng: rng.randbytes(1), lambda _, data: given.append(data))
    monkeypatch.setattr(table, "READERS", (own,))
    assert table.main(["--only", "own", "--again", str(tmp_path / "kept")]) == 0
    assert given == [b"1:30"]


def test_guided_inputs_are_counted_with_the_branches_they_took() -> None:
    if not guided.is_installed():
        pytest.skip(f"{HERE} atheris is not installed")
    reader = next(reader for reader in READERS if reader.name == "times")
    row = guided.attempts(reader, 1.0, 0, 60, 2 << 30)
    assert row.inputs > 100 and row.branches > 10 and row.crash is None


def test_the_command_prints_totals_and_knows_its_readers() -> None:
    words = [sys.executable, "-m", "benchmarks", "fuzz"]
    done = subprocess.run(
        [*words, "--inputs", "20", "--only", "times"], capture_output=True, text=True, env=ENVIRONMENT
    )
    assert done.returncode == 0 and done.stderr == ""
    assert "| times | 20 |" in done.stdout and "| all | 20 |" in done.stdout
    unknown = subprocess.run([*words, "--only", "what"], capture_output=True, text=True, env=ENVIRONMENT)
    assert unknown.returncode == 2 and "unknown reader 'what'" in unknown.stderr
