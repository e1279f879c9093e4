"""The PDF report: every kind of run has pages with its words on them, which are filled."""

import errno
import io
import re
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import pytest
from analyses import analysis, rejudged, run
from test_html_report import RUNS, judged, with_nodes

from gssr.model.results import Analysis
from gssr.report.pdf.pdf import pdf_report, written
from gssr.report.pdf.sheet import BOTTOM, HEADING, MARGIN, TALL, WIDE, Font
from gssr.report.png.figure import figure_style


def pages(path: Path) -> int:
    return len(re.findall(rb"/Type /Page\b", path.read_bytes()))


def write(analyses: Sequence[Analysis], path: Path) -> None:
    with path.open("wb") as file:
        pdf_report(analyses, file)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", ["no_gpus", "no_samples", "one_sample", "no_counters"])
def test_every_run_has_one_to_five_pages(name: str, tmp_path: Path) -> None:
    write([RUNS[name]()], tmp_path / "x.pdf")
    assert 1 <= pages(tmp_path / "x.pdf") <= 5
    assert (tmp_path / "x.pdf").stat().st_size < 600_000


class Full(io.BytesIO):
    """Has room for the beginning alone."""

    def write(self, data: Any, /) -> int:
        if self.tell() + memoryview(data).nbytes > 4096:
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().write(data)


def test_that_there_is_no_room_for_it_is_an_error_of_the_system() -> None:
    with pytest.raises(OSError, match="No space left on device"):
        pdf_report([RUNS["one_sample"]()], Full())


def many_verdicts() -> Analysis:
    found = judged()
    return rejudged(found, verdicts=found.judgement.verdicts * 9)


@pytest.mark.parametrize("make", [lambda: with_nodes(judged()), many_verdicts])
def test_pages_are_filled_and_nothing_is_cut(make: Callable[[], Analysis]) -> None:
    with figure_style():
        sheet = written(make())
    n = len(sheet.figures)
    for number, figure in enumerate(sheet.figures, 1):
        texts = [(text.get_position()[1], text) for text in figure.texts]
        lowest, last = min(texts, key=lambda pair: pair[0])
        axes = [panel.get_position().y0 for panel in figure.axes if panel.axison]
        foot = BOTTOM / TALL
        assert lowest >= foot - 0.01 and all(bottom >= foot for bottom in axes), "nothing lies in the foot"
        assert number == n or min(lowest, *axes, 1.0) < 0.42, f"page {number} of {n} is half empty"
        assert last.get_fontsize() < HEADING.size or min([*axes, 1.0]) < lowest, "a title at the foot of a page"
        for _, text in texts:
            left = text.get_position()[0] * WIDE
            font = Font(text.get_fontsize(), bold=text.get_fontweight() == "bold", family=text.get_fontfamily()[0])
            wide = sheet.width(text.get_text(), font)
            ends = left if text.get_ha() == "right" else left + wide
            assert ends <= WIDE - MARGIN + 0.06, text.get_text()


def test_the_same_analysis_gives_the_same_bytes_whatever_the_caller_has_set(tmp_path: Path) -> None:
    write([judged()], tmp_path / "a.pdf")
    with matplotlib.rc_context({"font.size": 30, "pdf.fonttype": 3}):
        before = dict(matplotlib.rcParams)
        write([judged()], tmp_path / "b.pdf")
        assert dict(matplotlib.rcParams) == before
    assert 3 <= pages(tmp_path / "a.pdf") <= 5
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
        "1 of 16 GPUs did 7 % of what the others did", "Run once without the node.", "start-up", "page 3 of",
        "second $x_1$", "does not replace time to solution", "What the words mean", "What bounds it?",
        "H100 SXM5: at most this many FLOP/s",
    ):  # fmt: skip
        assert words in text, words
