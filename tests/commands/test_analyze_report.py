"""``gssr analyze --report``: a file where it was asked for, beside the page, and a line for everything that is wrong."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from forked import gssr


def analyze(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return gssr("analyze", *words, cwd=cwd)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("reports")
    for scenario in ("train", "gaps"):
        make = ["-m", "gssr.backends.synthetic", scenario, "--gpus", "8", "--hours", "0.005", "-t", "100"]
        subprocess.run([sys.executable, *make, "-o", f"{scenario}.sql"], cwd=found, check=True, timeout=60)
    return found


@pytest.mark.parametrize("name", ["job.html", "job.pdf", "JOB.HTML"])
def test_a_report_is_written_beside_the_page_and_its_bytes_are_the_recordings(folder: Path, name: str) -> None:
    done = analyze("--report", name, "-ns", "train.sql", cwd=folder)
    assert done.returncode == 0 and done.stderr == f"gssr: {name}\n"
    assert done.stdout == analyze("-ns", "train.sql", cwd=folder).stdout
    written = (folder / name).read_bytes()
    assert written[:5] in (b"<!DOC", b"%PDF-")
    if name == "job.html":  # that a PDF is the same again, tests/report/test_pdf_report.py says
        assert analyze("--report", f"again-{name}", "train.sql", cwd=folder).returncode == 0
        assert written == (folder / f"again-{name}").read_bytes()


def test_the_json_is_the_same_with_a_report(folder: Path) -> None:
    plain = analyze("--json", "train.sql", cwd=folder).stdout
    beside = analyze("--json", "--report", "beside.html", "train.sql", cwd=folder).stdout
    assert json.loads(beside) == json.loads(plain) and (folder / "beside.html").exists()


def test_several_recordings_make_one_report(folder: Path) -> None:
    assert analyze("--report", "both.html", "train.sql", "gaps.sql", cwd=folder).returncode == 0
    assert (folder / "both.html").read_text(encoding="utf-8").count('<article class="run"') == 2


def test_only_the_metrics_asked_for_are_drawn(folder: Path) -> None:
    analyze("--report", "some.html", "--metrics", "sm_active,dram_active", "train.sql", cwd=folder)
    text = (folder / "some.html").read_text(encoding="utf-8")
    assert 'data-metric="dram_active"' in text and 'data-metric="power_usage"' not in text


@pytest.mark.parametrize("name", ["job.txt", "train.sql", "html"])
def test_another_ending_is_wrong_usage_and_writes_nothing(folder: Path, name: str) -> None:
    before = (folder / "train.sql").read_bytes()
    done = analyze("--report", name, "train.sql", cwd=folder)
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr == f"gssr: --report: {name}: name a file that ends in .html or .pdf\n"
    assert (folder / "train.sql").read_bytes() == before


@pytest.mark.parametrize("end", ["html", "pdf"])
def test_a_file_that_cannot_be_written_is_one_line(folder: Path, end: str) -> None:
    done = analyze("--report", f"missing/job.{end}", "train.sql", cwd=folder)
    assert done.returncode == 1
    assert done.stderr == f"gssr: missing/job.{end}: can't be written: No such file or directory\n"
