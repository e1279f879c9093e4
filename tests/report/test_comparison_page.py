"""The page and the object of ``gssr compare``."""

import json
import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from analyses import activity, analysis, one_sample, rejudged, run, without_counters, without_gpus, without_samples
from hypothesis import given, settings
from hypothesis import strategies as st

from gssr.model.compare.comparison import Comparison, compare
from gssr.model.results import Analysis, Verdict
from gssr.render.cells import cell_width
from gssr.render.roles import text_of
from gssr.report.comparison import AT_ONCE, comparison_page
from gssr.report.comparison_json import to_json
from gssr.report.page import PageOptions
from gssr.report.terminal import to_text

Golden = Callable[[str, str], None]


def verdict(code: str, title: str) -> Verdict:
    return Verdict(code, "warning", title, (), "do something", "ours", 0.0, 1.0)


def before() -> Analysis:
    found = verdict("cpu_starved", "The GPUs wait for one busy core"), verdict("straggler", "1 of 16 GPUs is slow")
    return analysis(base=0.8 * activity(16, 240), verdicts=found)


def after() -> Analysis:
    own = analysis(
        base=np.clip(0.2 + activity(16, 240), 0, 1), run=run(label="more loaders", command=("python", "train2"))
    )
    return rejudged(
        own, verdicts=(verdict("straggler", "1 of 16 GPUs is slow"), verdict("memory_full", "Memory is full"))
    )


OTHERS = [after(), before(), one_sample(), without_gpus(), without_samples(), without_counters()]


def comparisons(n: int) -> tuple[list[str], list[Comparison]]:
    runs = [after(), *(OTHERS[at % len(OTHERS)] for at in range(1, n))]
    names = [f"some/folder/run{at}.sql" for at in range(n + 1)]
    return names, [compare(before(), own, chr(ord("A") + at)) for at, own in enumerate(runs, 1)]


def text(n: int, **options: object) -> str:
    chosen = PageOptions(**options)  # type: ignore[arg-type]
    return to_text(comparison_page(*comparisons(n), chosen), color=False, ascii_only=chosen.ascii)


@pytest.mark.parametrize("n", [1, 3])
def test_the_page_looks_as_somebody_last_saw_it(n: int, golden: Golden) -> None:
    golden(f"compare_{n + 1}_runs.txt", text(n))


def test_the_ascii_page_looks_as_somebody_last_saw_it(golden: Golden) -> None:
    golden("compare_2_runs_ascii_60.txt", text(1, width=60, ascii=True))


@settings(max_examples=15)
@given(st.integers(20, 200), st.integers(1, 7), st.booleans())
def test_nothing_but_the_closing_lines_leaves_its_width(width: int, n: int, ascii_only: bool) -> None:
    rows = comparison_page(*comparisons(n), PageOptions(width, ascii_only))
    assert all(cell_width(text_of(row)) <= width for row in rows[:-n])


def test_an_ascii_page_holds_ascii_only() -> None:
    found = text(6, ascii=True)
    assert found.isascii() and "\x1b" not in found


def test_a_page_ends_with_a_line_for_programs_for_each_comparison() -> None:
    number = r"(?:\d\.\d{3}|unknown)"
    for letter, line in zip("BCDEFG", text(6).splitlines()[-6:], strict=True):
        assert re.fullmatch(
            rf"GSSR compare {letter}: score={number} baseline={number} difference=(?:[+-]\d\.\d{{3}}|unknown) "
            rf"noise={number} outcome=(?:better|worse|higher|lower|within-noise|unknown)", line,
        ), line  # fmt: skip


def test_it_is_said_how_gpus_were_paired() -> None:
    own, fewer, one = (analysis(n, base=activity(n, 240)) for n in (16, 8, 1))
    elsewhere = replace(own, gpus=tuple(replace(gpu, node="other") for gpu in own.gpus))
    others = replace(own, gpus=tuple(replace(gpu, node="other", uuid=None) for gpu in own.gpus))
    cases = {
        "place": (own, own, "is noise (GPUs paired by place)."), None: (own, fewer, "is noise (GPUs not paired)."),
        "uuid": (own, elsewhere, "is noise (GPUs paired by UUID)."),
        "order": (own, others, "is noise (GPUs paired in their order)."),
    }  # fmt: skip
    for by, (a, b, said) in cases.items():
        found = [compare(a, b)]
        assert said in " ".join(to_text(comparison_page(["a", "b"], found, PageOptions()), False, False).split())
        assert json.loads(to_json(["a", "b"], found, []))["comparisons"][0]["pairs"] == by
    assert "paired" not in to_text(comparison_page(["a", "b"], [compare(one, one)], PageOptions()), False, False)


def test_what_makes_runs_hard_to_compare_stands_before_their_numbers() -> None:
    own = analysis(1, base=activity(1, 240))
    slower = replace(own, run=own.run._replace(sampling_ms=490.0))
    page = to_text(comparison_page(["a", "b"], [compare(own, slower)], PageOptions()), False, False)
    assert page.index("not the same sampling interval") < page.index("Better or worse?")
    assert "record both runs at one interval" in " ".join(page.split())


def test_every_run_is_in_a_table() -> None:
    found = text(AT_ONCE + 2)
    assert found.count("Better or worse?") == 2
    heads = [line for line in found.splitlines() if re.match(r" +unit +A ", line)]
    assert [word for line in heads for word in line.split()[2:]] == list("BCDEFG")


def test_verdicts_gained_and_lost_are_told_from_those_kept() -> None:
    lines = text(1).splitlines()
    assert "+ Memory is full (warning)" in lines
    assert "- The GPUs wait for one busy core (warning)" in lines
    assert "= 1 of 16 GPUs is slow (warning)" in lines


def test_a_verdict_of_both_is_shown_as_both_have_it_with_what_it_costs() -> None:
    much, little = (
        replace(verdict("gaps", f"{share:.0%} of the time nothing runs"), lost=share) for share in (0.6, 0.1)
    )
    found = compare(
        rejudged(before(), verdicts=(much,)), rejudged(after(), verdicts=(replace(little, severity="info"),))
    )
    lines = to_text(comparison_page(["a", "b"], [found], PageOptions()), color=False, ascii_only=False).splitlines()
    at = lines.index("< 10% of the time nothing runs (info)")
    assert lines[at + 1 : at + 3] == [
        "  in A: 60% of the time nothing runs (warning)",
        "  its cure would save 10.0 % of the GPUs' time, in A 60.0 %",
    ]
    (told,) = json.loads(to_json(["a", "b"], [found], []))["comparisons"][0]["verdicts"]["kept"]
    assert told == {
        "code": "gaps", "severity": "info", "title": "10% of the time nothing runs", "lost": 0.1, "outcome": "milder",
        "a": {"severity": "warning", "title": "60% of the time nothing runs", "lost": 0.6},
    }  # fmt: skip


def test_hostile_names_can_not_steer_the_terminal() -> None:
    evil = "\x1b]0;owned\x07\x1b[2J\nGSSR compare B: score=1.000"
    hostile = rejudged(replace(after(), run=run(label=evil, command=(evil,))), verdicts=(verdict("x", evil),))
    found = to_text(
        comparison_page([evil, evil], [compare(hostile, hostile)], PageOptions()), color=False, ascii_only=False
    )
    assert "\x1b" not in found and "\x07" not in found
    assert len(re.findall(r"^GSSR compare", found, re.MULTILINE)) == 1


@pytest.mark.parametrize("n", [1, 6])
def test_the_object_is_plain_json(n: int) -> None:
    names, found = comparisons(n)
    parsed = json.loads(to_json(names, found, ["why"]), parse_constant=lambda text: pytest.fail(text))
    assert parsed["schema"] == "gssr.compare/1" and set(parsed) == {"schema", "runs", "comparisons", "failed"}
    assert len(parsed["runs"]) == n + 1 and [each["b"] for each in parsed["comparisons"]] == list(range(1, n + 1))
    for each in parsed["comparisons"]:
        for change in (each["score"], each["duration_s"], *each["metrics"].values()):
            assert set(change) == {"a", "b", "difference", "relative", "noise", "outcome"}
