"""Following many ranks can be measured."""

from pathlib import Path

import pytest

from benchmarks import follow


def test_a_job_of_many_ranks_is_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (
        ("MEMORY", str(tmp_path)),
        ("CACHE", tmp_path),
        ("SCREENS", "1"),
        ("PRESSES", 1),
        ("OPENING_LOOKS", 2),
    ):
        monkeypatch.setattr(follow, name, value)
    figures = {
        figure.what.rpartition(": ")[2]: figure
        for figure in follow.measure([follow.Case(70, 2, 0.2, 3.0, with_screen=10.0)], looks=1)
    }
    assert set(figures) == {
        "opening them, CPU", "a look, CPU", "CPU", "gssr tui, screen 1, CPU", "a key waits at most"
    }  # fmt: skip
    assert all(figure.value > 0 for figure in figures.values())
