"""The questions of docs/export.md, put to DuckDB, have the answers of ``gssr fleet``; wrong answers are noticed."""

from pathlib import Path

import pytest

from benchmarks import engines


def test_duckdb_ranks_as_fleet_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "CACHE", tmp_path)
    for engine in ("DASK", "SPARK"):
        monkeypatch.delenv(f"GSSR_BENCHMARK_{engine}", raising=False)
    wall, wrong = engines.measure(7, 0.005)
    assert wall.value > 0 and wrong.value == 0 and not wrong.missed and not list(tmp_path.iterdir())


def test_another_order_or_value_is_a_difference() -> None:
    ours = {("a",): 3.0, ("b",): 2.0, ("c",): 2.0, ("d",): 0.0}
    rows = [("a", 3.0), ("c", 2.0), ("b", 2.0), ("d", 0.0)]
    assert engines.differences(rows, ours, True) == []
    assert engines.differences(rows[::-1], ours, False) == []
    assert engines.differences([rows[1], rows[0], *rows[2:]], ours, True) == ["('a',) with 3.0 stands after 2.0"]
    assert engines.differences([("a", 3.1), *rows[1:]], ours, True) == ["('a',) is 3.1 for 3.0"]
    assert engines.differences([("a", None), *rows[1:]], ours, True) == ["('a',) is None for 3.0"]
    assert len(engines.differences(rows[1:], ours, True)) == 1
