"""A run against earlier ones: too few, as usual, or since when not."""

import json
import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from gssr.backends.synthetic.bulk import generate
from gssr.cli import main
from gssr.model.fleet.history import FEWEST, change
from gssr.store.format.schema import TABLES

DAY = 86400.0


def logs(seed: int, n: int, scatter: float = 0.01) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, scatter, n)


def test_a_change_is_found_and_since_when() -> None:
    values = logs(1, 30)
    assert change(values) is None
    for n_since in (1, 3, 10):
        changed = values.copy()
        changed[-n_since:] += np.log(0.9)
        found = change(changed)
        assert found is not None and found[0] == n_since and found[1] == pytest.approx(np.log(0.9), abs=0.02)
        assert change(-changed) == (n_since, pytest.approx(-found[1]))


def test_what_is_small_over_or_single_is_no_change() -> None:
    values = logs(2, 40, 0.001)
    assert change(values + np.linspace(0, 0.02, 40)) is None
    values[-1] += 0.02
    assert change(values) is None  # far outside of the scatter, and does not matter
    values[-2] -= 0.3
    assert change(values) is None  # another run than this one
    assert change(np.zeros(FEWEST + 1)) is None


def weaken(connection: sqlite3.Connection, share: float) -> None:
    for pipe in ("tensor_active", "fp64_active", "fp32_active", "fp16_active"):
        connection.execute(f"UPDATE samples SET {pipe} = {pipe} * ?", (share,))
    for table in ("rollup", "sketch", "sketch_minute"):  # what is not rolled up is read from the samples
        connection.execute(f"DELETE FROM {table}")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve earlier runs of a label, day after day, of which the last three did less; and the run itself."""
    folder = tmp_path_factory.mktemp("runs")
    generate(str(folder / "now.sql"), "train", 2, 1 / 60, 1.0)
    for number in range(12):
        path = folder / f"{number}.sql"
        shutil.copyfile(folder / "now.sql", path)
        worse = 0.8 if number >= 9 else 1.0
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("PRAGMA synchronous=OFF")
            for table, columns in TABLES.items():
                if "run_id" in (column.name for column in columns):
                    connection.execute(f"UPDATE {table} SET run_id = 'r{number}'")
            connection.execute("UPDATE runs SET started_at = started_at - ?", ((12 - number) * DAY,))
            share = worse * (1 + 0.005 * (-1) ** number)
            weaken(connection, share)
        os.utime(path, (1e9, 1e9))
    with closing(sqlite3.connect(folder / "now.sql")) as connection, connection:
        weaken(connection, 0.8)
    return folder


def analyzed(capsys: pytest.CaptureFixture[str], *words: object) -> dict[str, object] | None:
    assert main(["analyze", "--json", *map(str, words)]) == 0
    (run,) = json.loads(capsys.readouterr().out)["runs"]
    found: dict[str, object] | None = run["history"]
    return found


def test_the_page_and_the_object_say_how_a_run_stands(
    runs: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = runs / "now.sql"
    found = analyzed(capsys, run, "--history", runs)
    assert found is not None and found["n_runs"] == 12
    score = found["score"]
    assert isinstance(score, dict) and (score["kind"], score["n"], score["n_since"]) == ("lower", 9, 4)
    assert score["change"] < -0.03 and score["since"] is not None
    monkeypatch.setenv("GSSR_HISTORY", str(runs))
    assert analyzed(capsys, run) == found  # and from the index
    assert analyzed(capsys, run, "--from", "10") is None
    assert analyzed(capsys, run, "--gpus", "0") is None
    assert main(["analyze", str(run)]) == 0
    page = " ".join(capsys.readouterr().out.split())
    assert " lower than the 9 runs before, since " in page and "(4 runs)" in page
    oldest = analyzed(capsys, runs / "3.sql")
    assert oldest is not None and oldest["n_runs"] == 3 and oldest["score"]["kind"] == "too few"  # type: ignore[index]


def test_a_history_that_is_not_there_is_said(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["analyze", str(runs / "now.sql"), "--history", str(runs / "nowhere")]) == 2
    assert capsys.readouterr().err == f"gssr: --history: {runs}/nowhere: no such folder\n"
