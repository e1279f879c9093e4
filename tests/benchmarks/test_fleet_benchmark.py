"""The benchmark of fleets runs, in the smallest settings: no verdict on figures here."""

from pathlib import Path

import pytest

from benchmarks import fleet


def test_many_recordings_are_made_read_exported_and_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet, "CACHE", tmp_path)
    value = {figure.what.partition(":")[0]: figure.value for figure in fleet.measure(10, 0.005, repeats=1)}
    assert set(value) == {
        "fleet, 10 recordings of 8 GPUs, 0.005 h at 1 Hz", "fleet", "fleet --by verdict", "export without samples",
        "DuckDB, waste by user from that export", "DuckDB",
    }  # fmt: skip
    assert all(number > 0 for number in value.values()) and not list(tmp_path.iterdir())


def test_second_looks_and_simulations_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet, "CACHE", tmp_path)
    looks = {figure.what: figure.value for figure in fleet.second_look(3)}
    assert len(looks) == 4 and all(looks.values()) and not list(tmp_path.iterdir())
    assert len([*fleet.simulated_nodes(2), *fleet.simulated_histories(4)]) == 11
