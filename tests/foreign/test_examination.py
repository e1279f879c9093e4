"""Readers of other tools' files against files that were made without knowing them, and whose meaning is known:
tests/fakes/foreign."""

import gzip
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gssr import cli
from tests.fakes.foreign import dcgmi, odd, prometheus, ranks, smi
from tests.fakes.foreign.case import Case, differences, invented

CASES = {case.name: case for made in (dcgmi, smi, prometheus, ranks, odd) for case in made.cases()}
CUT = ("dcgmi-awk", "dcgmi-links", "dmon-date-and-time", "dmon-midnight", "query-utf-16", "query-fold", "query-reasons",
       "prom-stamps", "prom-openmetrics", "kempnerpulse-default")  # fmt: skip
BY_PROCESS = ("dcgmi-awk", "query-which-gpu", "gssr0-2-gpus-each")


def laid_out(case: Case, folder: Path) -> list[str]:
    """The case's files below a folder; the paths that are to be given."""
    for name, data in case.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        if case.mtime is not None:
            os.utime(path, (case.mtime, case.mtime))
    return [str(folder / name) for name in case.given or case.files]


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A zone that no file is of: what is read in this machine's zone by mistake is hours off."""
    import time

    monkeypatch.setenv("TZ", "Asia/Kathmandu")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def answer(case: Case, words: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """Exit code and standard error of ``gssr import``."""
    if case.name not in BY_PROCESS:
        code = cli.main(["--debug", "import", *words])
        return code, capsys.readouterr().err
    command = [sys.executable, "-m", "gssr", "import", *words]
    done = subprocess.run(
        command, env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}, capture_output=True, text=True
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize("name", CASES)
def test_a_file_means_what_its_tool_meant(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    case, out = CASES[name], tmp_path / "out.sql"
    code, said = answer(case, [*laid_out(case, tmp_path / "in"), "-o", str(out), *case.options], capsys)
    if case.refused is not None and not (case.cards and code == 0):
        assert (code, said.count("\n")) == (1, 1), said
        assert re.search(case.refused, said, re.IGNORECASE) and "nsys" not in said, said
        assert os.listdir(tmp_path) == ["in"]
        return
    assert code == 0, said
    assert sorted(os.listdir(tmp_path)) == ["in", "out.sql"]
    assert differences(out, case) == []


@pytest.mark.parametrize("name", ["dcgmi", "query-units", "prom-stamps", "range-matrix", "kempnerpulse-all"])
def test_packed_by_gzip_it_means_the_same(name: str, tmp_path: Path) -> None:
    case, out = CASES[name], tmp_path / "out.sql"
    files = {f"{path}.gz": gzip.compress(data) for path, data in case.files.items()}
    words = laid_out(case._replace(files=files), tmp_path / "in")
    assert cli.main(["--debug", "import", *words, "-o", str(out), *case.options]) == 0
    assert differences(out, case) == []


@pytest.mark.parametrize("name", CUT)
def test_of_a_part_of_a_file_nothing_is_invented(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    case = CASES[name]
    ((path, data),) = case.files.items()
    kept = 0
    for number, share in enumerate((0.37, 0.74)):
        part, out = case._replace(files={path: data[: round(share * len(data))]}), tmp_path / f"{number}.sql"
        code, said = answer(part, [*laid_out(part, tmp_path / "in"), "-o", str(out), *case.options], capsys)
        assert code in (0, 1), said
        kept += code == 0
        assert code or invented(out, case) == []
    assert kept
