"""Random commands, with and without ``gssr profile`` around them; ``python -m benchmarks transparency`` takes 200."""

import random
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


def test_commands_print_binary_and_text_to_both_streams_and_end_in_all_ways() -> None:
    plans = [transparency.drawn(random.Random(number)) for number in range(200)]
    assert {plan["signal"] for plan in plans} == {0, *map(int, transparency.FATAL)}
    assert len({plan["code"] for plan in plans}) > 50
    assert {stream for plan in plans for stream, _, _ in plan["steps"]} == {1, 2}
