"""Following many ranks can be measured."""

from pathlib import Path

import pytest

from benchmarks import follow


def test_a_job_of_many_ranks_is_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("SHARDS", 70), ("MINUTES", 0.2), ("MEMORY", str(tmp_path)), ("CACHE", tmp_path)):
        monkeypatch.setattr(follow, name, value)
    figures = {figure.what.rpartition(": ")[2]: figure for figure in follow.measure((2,), looks=1)}
    assert set(figures) == {"opening them, CPU", "a look, CPU", "CPU"}
    assert all(figure.value > 0 for figure in figures.values())
