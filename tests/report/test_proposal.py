"""The page for a proposal: one page, whose scaling is that of the runs."""

import re
import subprocess
from pathlib import Path

import pytest
from analyses import START, analysis, judged, without_gpus

from gssr.model.compare.scaling import efficiency_of, scaling_runs, speedup_of
from gssr.model.results import AnalysisWindow
from gssr.report.pdf.proposal import proposal_pdf


def lasting(n_gpus: int, seconds: float, state: str = "completed"):
    return analysis(
        n_gpus, max(n_gpus // 4, 1), window=AnalysisWindow(START, START + seconds, 0.0, 0.0, True), state=state
    )


def pages(runs, tmp_path: Path, kind=None) -> list[str]:
    with (tmp_path / "a.pdf").open("wb") as file:
        proposal_pdf(runs, file, kind)
    done = subprocess.run(["pdftotext", "-layout", tmp_path / "a.pdf", "-"], capture_output=True, text=True, check=True)
    return done.stdout.split("\f")[:-1]


def test_runs_are_compared_with_the_one_on_the_fewest_gpus() -> None:
    runs = [lasting(8, 50.0), lasting(4, 100.0), lasting(16, 50.0), lasting(32, 10.0, "failed"), lasting(4, 200.0)]
    found = scaling_runs(runs)
    smallest = found[0]
    assert [(len(run.gpus), speedup_of(run, smallest)) for run in found] == [(4, 1.0), (4, 0.5), (8, 2.0), (16, 2.0)]
    assert [efficiency_of(run, smallest, "strong") for run in found] == pytest.approx([1.0, 0.5, 1.0, 0.5])
    assert [efficiency_of(run, smallest, "weak") for run in found] == pytest.approx([1.0, 0.5, 2.0, 2.0])


def test_runs_on_one_number_of_gpus_say_nothing_of_scaling() -> None:
    assert scaling_runs([lasting(4, 100.0), lasting(4, 50.0), lasting(8, 5.0, "killed"), without_gpus()]) == []


@pytest.mark.parametrize("runs", [[judged()], [lasting(2**k, 100.0) for k in range(1, 7)] * 3, [without_gpus()]])
def test_it_is_one_page_with_what_a_reviewer_asks_for(runs, tmp_path: Path, requires) -> None:
    requires("pdftotext", package="poppler-utils")
    (page,) = pages(runs, tmp_path)
    assert "indicative only" in page and "Score" in page
    assert ("Scaling" in page) == (len(runs) > 1)


def test_the_run_that_it_is_about_stays_in_a_long_table(tmp_path: Path, requires) -> None:
    requires("pdftotext", package="poppler-utils")
    runs = [lasting(16, 10.0), *(lasting(2, 20.0 + k) for k in range(12)), *(lasting(16, 11.0 + k) for k in range(9))]
    shown = lasting(16, 5.0)
    (page,) = pages([*runs, shown], tmp_path)
    table = page.partition("Scaling")[2]
    durations = re.findall(r"^ +(\d+) +\d+ +([\d.]+) s", table, re.MULTILINE)
    assert durations[:2] == [("2", "20.0"), ("16", "5.0")] and len(durations) == 8
    assert f"Left out: {len(runs) + 1 - 8} more runs." in table


def test_a_run_that_failed_stands_for_nothing_that_completed(tmp_path: Path, requires) -> None:
    requires("pdftotext", package="poppler-utils")
    (page,) = pages([lasting(4, 100.0), lasting(8, 50.0), lasting(32, 10.0, "failed")], tmp_path)
    assert re.search(r"^ *GPUs +8 GPUs", page, re.MULTILINE) and re.search(r"^ *State +completed", page, re.MULTILINE)
    (page,) = pages([lasting(32, 10.0, "failed")], tmp_path)
    assert re.search(r"^ *State +failed", page, re.MULTILINE)


@pytest.mark.parametrize(
    ("kind", "last"), [("strong", r"2\.00 +50\.0 %"), ("weak", r"[\d.]+ +200\.0 %"), (None, r"\d\.\d{3}")]
)
def test_an_efficiency_is_given_only_by_who_knows_what_work_the_runs_did(kind, last, tmp_path: Path, requires) -> None:
    requires("pdftotext", package="poppler-utils")
    (page,) = pages([lasting(4, 100.0), lasting(16, 50.0)], tmp_path, kind)
    assert re.search(rf"^ +16 +4 .*{last}$", page, re.MULTILINE), page
    assert ("efficiency is the" in page) == (kind is not None)
    assert "Of 2 runs that completed, this is the one on the most GPUs." in page
