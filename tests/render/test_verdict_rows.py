"""What to do is drawn so that its commands can be copied."""

import shlex
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gssr.model.results import Verdict
from gssr.render.cells import cell_width
from gssr.render.roles import text_of
from gssr.render.verdicts import advice_parts, advice_rows, command_rows, saving_of

TRACE = (
    "The host launches too slowly. See one step in a trace, by torch.profiler or: nsys profile --trace=cuda,nvtx,osrt -o "
    "step PROGRAM; then: gssr analyze TRACE"
)


def rows(advice: str, width: int) -> list[str]:
    verdict = Verdict("a", "info", "t", (), advice, "ours", 0.0, 1.0)
    return [text_of(row) for row in advice_rows(verdict, width)]


@pytest.mark.parametrize("width", [60, 80, 200])
def test_each_command_has_a_line_of_its_own(width: int) -> None:
    drawn = rows(TRACE, width)
    assert drawn[-2:] == ["   $ nsys profile --trace=cuda,nvtx,osrt -o step PROGRAM", "   $ gssr analyze TRACE"]
    assert all(len(row) <= width for row in drawn)


def test_a_command_within_a_sentence_is_not_broken() -> None:
    for width in range(40, 120):
        assert any(
            "nvidia-smi -q -d POWER" in row for row in rows(f"{'x ' * 17}(nvidia-smi -q -d POWER), and ask.", width)
        )


def test_a_command_longer_than_the_line_is_still_all_there() -> None:
    drawn = rows("Which do most: gssr analyze -plb 'a long name of a recording.sql'. https://example.org/a", 40)
    assert "".join(row.strip() for row in drawn).replace(" ", "").endswith("https://example.org/a")
    assert max(map(len, drawn)) <= 40


@given(st.lists(st.text("ab '\"$-/", min_size=1, max_size=12), min_size=1, max_size=6), st.integers(20, 60))
def test_a_command_on_several_lines_runs_as_it_stands(words: list[str], width: int) -> None:
    command = shlex.join(words)
    lines = [text_of(row) for row in command_rows(command, width, "   $ ", "   ")]
    assert all(cell_width(line) <= width for line in lines)
    assert shlex.split("\n".join(lines).removeprefix("   $ ").replace("\\\n", "")) == words


@pytest.mark.parametrize(
    ("advice", "commands"),
    [
        ("Record less.", []),
        ("The rules: Look here.", []),
        ("See: nsys profile -o step PROGRAM on one rank; then gssr analyze it.", []),
        ("Try: nvidia-smi -L; and: python -c 'import torch; print(1)'. Work that", ["nvidia-smi -L",
                                                                                    "python -c 'import torch; print(1)'"]),
        ("Which: gssr analyze -plb 'a run.sql'. https://example.org", ["gssr analyze -plb 'a run.sql'"]),
        ("Which: gssr analyze --csv functions in/it.db", ["gssr analyze --csv functions in/it.db"]),
    ],
)  # fmt: skip
def test_commands_end_where_the_sentence_goes_on(advice: str, commands: list[str]) -> None:
    assert [text for is_command, text in advice_parts(advice) if is_command] == commands


def test_little_that_would_be_saved_is_told_in_seconds() -> None:
    verdict = Verdict("a", "info", "t", (), "", "ours", 0.0, 1.0, gpu_hours=0.00097)
    assert saving_of(verdict) == "would save about 3.5 GPU-seconds"
    assert saving_of(replace(verdict, gpu_hours=2.11)) == "would save about 2.1 GPU-hours"
    assert saving_of(replace(verdict, gpu_hours=None)) == ""
