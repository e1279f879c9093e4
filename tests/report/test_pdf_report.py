"""The PDF report: every kind of run has two to four pages with its words on them."""

import re
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import matplotlib
import pytest
from analyses import analysis, run
from test_html_report import RUNS, judged

from gssr.model.results import Analysis
from gssr.report.pdf.pdf import pdf_report


def pages(path: Path) -> int:
    return len(re.findall(rb"/Type /Page\b", path.read_bytes()))


def write(analyses: Sequence[Analysis], path: Path) -> None:
    with path.open("wb") as file:
        pdf_report(analyses, file)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", ["no_gpus", "no_samples", "one_sample", "no_counters"])
def test_every_run_has_two_to_four_pages(name: str, tmp_path: Path) -> None:
    write([RUNS[name]()], tmp_path / "x.pdf")
    assert 2 <= pages(tmp_path / "x.pdf") <= 4
    assert (tmp_path / "x.pdf").stat().st_size < 1_000_000


def test_the_same_analysis_gives_the_same_bytes_whatever_the_caller_has_set(tmp_path: Path) -> None:
    write([judged()], tmp_path / "a.pdf")
    with matplotlib.rc_context({"font.size": 30, "pdf.fonttype": 3}):
        before = dict(matplotlib.rcParams)
        write([judged()], tmp_path / "b.pdf")
        assert dict(matplotlib.rcParams) == before
    assert pages(tmp_path / "a.pdf") == 4
    assert (tmp_path / "a.pdf").read_bytes() == (tmp_path / "b.pdf").read_bytes()


def test_the_words_are_in_it(tmp_path: Path, requires: Callable[..., None]) -> None:
    requires("pdftotext", package="poppler-utils")
    write([judged(), analysis(4, 1, run=run(label="second $x_1$"))], tmp_path / "x.pdf")
    found = subprocess.run(
        ["pdftotext", "-layout", str(tmp_path / "x.pdf"), "-"], capture_output=True, check=True
    ).stdout
    text = " ".join(found.decode().split())
    for words in (
        "llm-train", "completed, exit code 0", "16 GPUs on 4 nodes", "5 min 0 s", "Why?", "CRITICAL",
        "1 of 16 GPUs did 7 % of what the others did", "Run once without the node.", "start-up", "page 4 of 4",
        "second $x_1$", "does not replace time to solution", "What the words mean", "What bounds it?",
        "H100 SXM5: at most so many FLOP/s",
    ):  # fmt: skip
        assert words in text, words
