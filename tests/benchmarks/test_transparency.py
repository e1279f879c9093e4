"""Random commands, with and without ``gssr profile`` around them; ``python -m benchmarks transparency`` takes 200."""

from pathlib import Path

import pytest

from benchmarks import transparency


def test_output_and_exit_code_of_random_commands_are_the_same_with_and_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transparency, "CACHE", tmp_path)
    figures = {
        figure.what.partition(": ")[2]: figure.value for figure in transparency.measure(runs=4, seed=900, traced=1)
    }
    assert figures["commands run with and without"] == 4
    assert figures["output or exit code not the same"] == 0
