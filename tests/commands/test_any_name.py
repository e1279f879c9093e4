"""A recording may be called whatever the filesystem takes, also what is no UTF-8: every command reads it, and prints its
name harmlessly."""

import csv
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from textual.pilot import Pilot

from gssr.cli import main
from gssr.store.output_file import PRIVATE
from gssr.tui.export import export, picture_of
from gssr.tui.view import View
from tests.looking import live_screen, until, work

NAME = os.fsdecode(b"r\xff \xe4%#?'.sql")
PRINTED = "r? ?%#?'.sql"
PROFILE = [sys.executable, "-m", "gssr", "profile", "-o", NAME, "--backend", "synthetic:train:2", "-t", "50"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of such a name, and in it a recording of two ranks, as the last of them has merged it."""
    folder = tmp_path_factory.mktemp("recorded") / os.fsdecode(b"f\xff")
    folder.mkdir()
    for seconds in ("0.5", "2", "8", "32"):  # on a busy machine half a second may hold no sample
        said = _record(folder, seconds)
        assert PRINTED in said and os.listdir(folder) == [NAME], said
        with closing(sqlite3.connect(os.fsencode(folder / NAME))) as connection:
            if connection.execute("SELECT count(DISTINCT gpu) FROM samples").fetchone()[0] == 2:
                return folder
        (folder / NAME).unlink()
    raise AssertionError("no samples in half a minute")


def _record(folder: Path, seconds: str) -> str:
    """What the two ranks said."""
    job = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_NTASKS": "2", "SLURM_STEP_NUM_TASKS": "2"}
    ranks = []
    for rank in "01":
        own = os.environ | job | {"SLURM_PROCID": rank, "SLURM_LOCALID": rank}
        command = [*PROFILE, "--", "sleep", seconds]
        ranks.append(subprocess.Popen(command, cwd=folder, env=own, stderr=subprocess.PIPE, text=True))
    said = "".join(rank.communicate(timeout=60)[1] for rank in ranks)
    assert [rank.returncode for rank in ranks] == [0, 0] and "not merged" not in said
    return said


@pytest.fixture(autouse=True)
def _there(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)


@pytest.mark.parametrize(
    "words", [["analyze", NAME], ["analyze", "--json", NAME], ["compare", NAME, NAME], ["fleet", NAME], ["fleet", "."],
              ["fleet", "--json", "."], ["fleet", "--csv", "."], ["merge", NAME]],
)  # fmt: skip
def test_every_command_reads_it(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 0
    printed = capsys.readouterr()
    assert "\udcff" not in printed.out + printed.err and not printed.err


def test_what_is_made_of_it_has_its_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    odd = str(tmp_path / os.fsdecode(b"o\xfe"))
    os.mkdir(odd)
    for ending in ("html", "pdf"):
        assert main(["analyze", "-ns", "--report", f"{odd}/{NAME}.{ending}", NAME]) == 0
    assert main(["analyze", "-ns", "--png", odd, NAME]) == 0
    names = [
        f"{NAME}.html",
        f"{NAME}.pdf",
        *(f"{NAME[:-4]}.{kind}.png" for kind in ("phases", "time-series", "heat-map")),
    ]
    assert set(names) <= set(os.listdir(odd))
    said = capsys.readouterr().err
    assert "o?/r? ?%#?'.phases.png" in said and "\udcff" not in said


def test_it_can_be_exported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    odd = str(tmp_path / os.fsdecode(b"o\xfe"))
    written = NAME.encode("utf-8", "backslashreplace").decode()
    assert main(["export", "-o", odd, NAME]) == 0
    (summary,) = (path for path in Path(odd, "summary").rglob("*.parquet"))
    with open(summary, "rb") as file:
        assert pq.read_table(file).column("file").to_pylist() == [written]
    assert main(["export", "--format", "csv", "-o", odd, NAME]) == 0
    with open(os.path.join(odd, "summary.csv"), encoding="utf-8", newline="") as lines:
        assert [row["file"] for row in csv.DictReader(lines)] == [written]
    assert capsys.readouterr().out == f"{tmp_path}/o?: 1 run exported\n" * 2


def test_a_screen_shows_it_and_takes_it_away(tmp_path: Path) -> None:
    app = live_screen(NAME, NAME)

    async def steps(pilot: Pilot[int]) -> None:
        for screen in ("job", "gpus", "compare"):
            app.go_to_screen(View(screen=screen))
            await until(pilot, lambda: len(app.results) == 1 + (app.view.screen == "compare"))
            assert app.results[0].n_gpus == 2
        await until(pilot, lambda: "?" in picture_of(app.export_screenshot()).text())
        picture = picture_of(app.export_screenshot())
        for ending in ("txt", "svg", "png", "csv"):
            export(picture, app.results[0], f"{tmp_path}/{NAME}.{ending}", PRIVATE)
            assert os.path.exists(f"{tmp_path}/{NAME}.{ending}")

    work(app, steps, (100, 30))


def test_errors_name_it_harmlessly(capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("analyze", "compare", "fleet", "export", "merge"):
        assert main([command, *[f"missing{NAME}"] * (2 if command == "compare" else 1)]) == 1
        said = capsys.readouterr().err
        assert f"missing{PRINTED}" in said and said.count("\n") <= 2 and "\udcff" not in said
