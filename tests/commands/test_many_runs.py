"""Many runs in one file are a table, of which one is shown; JSON stays whole."""

import json
from pathlib import Path

import pytest

from gssr.cli import main
from gssr.report.terminal import MOST_PAGES
from tests.fuzz.readers import large


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("many") / "a.sql"
    large.runs(path, MOST_PAGES + 1, gpus=2, ticks=4)
    return path


def printed(capsys: pytest.CaptureFixture[str], *words: object) -> list[str]:
    assert main(["analyze", *map(str, words)]) == 0
    return capsys.readouterr().out.splitlines()


def test_many_runs_are_a_table(many: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(capsys, many)
    assert all(len(line) <= 80 for line in lines[:-1])
    rows = [line.split() for line in lines[3:-2]]
    assert lines[2].split() == ["run", "id", "label", "state", "started", "lasted", "GPUs", "score", "imbalance"]
    assert [row[0] for row in rows] == [str(number) for number in range(1, MOST_PAGES + 2)]
    assert {row[1] for row in rows} == {f"run{number}" for number in range(MOST_PAGES + 1)}
    assert lines[-1] == f"{MOST_PAGES + 1} runs; one of them: gssr analyze --run NUMBER {many}"


def test_the_numbers_of_the_table_are_those_of_run(many: Path, capsys: pytest.CaptureFixture[str]) -> None:
    number = next(line.split()[0] for line in printed(capsys, many) if " run7 " in line)
    assert printed(capsys, "--run", number, many)[0].startswith("GSSR  run7  completed")


def test_json_stays_whole(many: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = json.loads("\n".join(printed(capsys, "--json", many)))["runs"]
    assert len(runs) == MOST_PAGES + 1 and all(run["n_gpus"] == len(run["gpus"]) == 2 for run in runs)
    (alone,) = json.loads("\n".join(printed(capsys, "--json", "--run", "3", many)))["runs"]
    assert alone == runs[2]


@pytest.mark.parametrize("words", [["--png"], ["--report", "a.html"], ["--report", "a.pdf"]])
def test_reports_and_pictures_of_many_runs_are_refused(
    many: Path, words: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["analyze", str(many), *words]) == 2
    said = capsys.readouterr()
    assert said.out == "" and said.err == (
        f"gssr: {many}: {MOST_PAGES + 1} runs: reports and pictures are made of {MOST_PAGES} at most: name one with --run\n"
    )
    assert not any(tmp_path.iterdir())


def test_up_to_so_many_have_pages(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    large.runs(tmp_path / "a.sql", MOST_PAGES, ticks=2)
    lines = printed(capsys, tmp_path / "a.sql")
    assert sum(line.startswith("GSSR score=") for line in lines) == MOST_PAGES
