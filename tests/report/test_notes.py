"""The notes: the worst first, no more than can be read, all of them when asked, and never wider than the page."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from analyses import analysis, judged, rejudged

from gssr.render.verdicts import COSTLY
from gssr.report.about import MOST, notes
from gssr.report.page import PageOptions, Verbosity
from gssr.report.terminal import to_text


def text(verbosity: Verbosity = "medium", width: int = 80, ascii_only: bool = False) -> str:
    return to_text(notes(judged(), PageOptions(width, ascii_only, verbosity)), color=False, ascii_only=ascii_only)


@pytest.mark.parametrize("verbosity", ["low", "medium", "high"])
def test_notes_look_as_somebody_last_saw_them(verbosity: Verbosity, golden: Callable[[str, str], None]) -> None:
    golden(f"notes_{verbosity}.txt", text(verbosity))


def test_only_the_worst_are_shown_and_the_others_counted() -> None:
    shown = text()
    assert shown.count("GPU number") == MOST and "1 more note with -v high" in shown and "io_wait" not in shown


def test_all_verdicts_and_abstentions_are_shown_when_asked_for() -> None:
    shown = text("high")
    assert shown.count("GPU number") == 7 and "more note" not in shown
    assert "not judged: io_wait, cpu_starved (disk reads were not measured)" in shown


def test_advice_stands_with_what_calls_for_action_and_whose_limits_only_on_the_longest_page() -> None:
    shown = text()
    assert shown.count(" > Do something") == 3 and "Its limits are" not in shown
    assert text("high").count("Its limits are GSSR's own.") == 7


def test_an_info_that_costs_much_is_told_with_what_to_do() -> None:
    found = judged()
    for lost, n in ((COSTLY, 1), (0.9 * COSTLY, 0), (None, 0)):
        info = replace(found.judgement.verdicts[0], severity="info", lost=lost)
        shown = to_text(notes(rejudged(found, verdicts=(info,)), PageOptions()), color=False, ascii_only=False)
        assert shown.count(" > Do something") == n, lost


@pytest.mark.parametrize("width", [20, 40, 60, 200])
@pytest.mark.parametrize("ascii_only", [False, True])
def test_notes_fit_every_page(width: int, ascii_only: bool) -> None:
    shown = text("high", width, ascii_only)
    assert all(len(line) <= width for line in shown.splitlines())
    assert not ascii_only or shown.isascii()


def test_a_job_without_verdicts_has_only_notes_on_its_data() -> None:
    rows = to_text(notes(analysis(), PageOptions()), color=False, ascii_only=False).splitlines()
    assert rows[2:] == ["•  nid000004:3 has no samples after 4:00."]
    assert notes(analysis(notes=()), PageOptions()) == []
