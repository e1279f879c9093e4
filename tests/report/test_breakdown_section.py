"""Where the GPU time goes, as the page begins: all of the time, each part of the bar with its row, and what it is due to."""

import re
from dataclasses import replace

import numpy as np
import pytest

from gssr.model.breakdown.categories import CATEGORIES, POSITIONS, UNKNOWN_WORK
from gssr.model.breakdown.result import Breakdown
from gssr.model.results import LeadingLoss
from gssr.render.breakdown import breakdown_bar, headline
from gssr.render.roles import text_of
from gssr.report.breakdown import breakdown_section
from gssr.report.page import PageOptions

SHARES = {
    "working.tensor": 0.6, "working.slowed": 0.004, "communication.waiting": 0.3, "communication.transferring": 0.003,
    "idle.between_kernels": 0.0049, "idle.copies": 0.0401, "startup": 0.028, "end": 0.02,
}  # fmt: skip


def booked(shares: dict[str, float], **more: object) -> Breakdown:
    """One GPU in ten bins of a minute, each with these shares."""
    over_time = np.zeros((10, len(CATEGORIES)))
    for name, share in shares.items():
        over_time[:, POSITIONS[name]] = 60 * share
    made = Breakdown(over_time.sum(axis=0)[None], over_time, ("n0",), np.zeros(1, np.int64), 60.0 * np.arange(10), 60.0, 1.0,
                     np.zeros(len(CATEGORIES)), ("inferred",) * len(CATEGORIES))  # fmt: skip
    return replace(made, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("width", [60, 80, 200])
def test_rows_add_up_to_all_of_the_time_and_each_part_of_the_bar_has_one(width: int) -> None:
    rows = [text_of(row) for row in breakdown_section(booked(SHARES), PageOptions(width=width))]
    bar = text_of(breakdown_bar(booked(SHARES), width))
    assert bar in rows and len(bar) == width
    table = [row for row in rows[rows.index(bar) + 1 :] if row[1:2] == " " and "%" in row]
    assert sum(float(found[1]) for row in table if (found := re.search(r"([\d.]+) %", row))) == pytest.approx(
        100, abs=0.25
    )
    assert set(bar) - {" "} == {row[0] for row in table} - {" "}
    assert any("in smaller parts" in row and "1.2 %" in row for row in table)


def test_the_sentence_names_what_the_largest_loss_is_due_to_where_a_verdict_tells() -> None:
    found = booked(SHARES)
    assert headline(found) == "60.0 % of the GPU time is spent computing; 30.0 % is spent waiting in communication."
    leading = LeadingLoss(0.3, "spent waiting for n0:3, whose SM clock is 1,252, the others' 1,980 MHz", (3,))
    assert headline(found, leading).endswith(
        "; 30.0 % is spent waiting for n0:3, whose SM clock is 1,252, the others' 1,980 MHz."
    )


def test_the_sentence_says_what_is_a_guess() -> None:
    guess = booked(SHARES, confidence=("guess",) * len(CATEGORIES))
    lost = "30.0 % is spent waiting in communication (a guess)."
    assert headline(guess) == f"60.0 % of the GPU time is spent computing; {lost}"
    hang = LeadingLoss(0.17, "lost: nothing has been computed for the last 2 min")
    spins = headline(booked({"working.other": 0.88, "end": 0.08, "idle.unexplained": 0.04}), hang)
    assert "17.0 % is lost, in part in kernels: nothing" in spins, "88 % and 17 % are more than there is"
    assert "guess" not in headline(booked({"working.tensor": 1.0}, confidence=guess.confidence))


def test_kernels_whose_work_was_not_measured_are_not_said_to_compute() -> None:
    text = headline(booked({"working.other": 1.0}, labels={"working.other": UNKNOWN_WORK}))
    assert text == "100.0 % of the GPU time is spent in kernels (what they do was not measured)."


def test_other_kernels_are_named_beside_small_ones_only_where_there_are_any() -> None:
    small = "of the GPU time is spent in kernels too small for a GPU"
    assert headline(booked({"working.few_sms": 0.99, "end": 0.01})) == f"99.0 % {small}."
    assert headline(booked({"working.few_sms": 0.9, "working.fp64": 0.1})) == f"90.0 % {small}, 10.0 % in others."


def below_the_table(found: Breakdown, leading: LeadingLoss | None = None) -> str:
    return " ".join(text_of(row) for row in breakdown_section(found, PageOptions(width=80), leading))


def test_an_efficiency_is_only_a_bound_where_nobody_knows_what_kernels_do() -> None:
    for work, is_bound in ((UNKNOWN_WORK, True), ("computes in FP32", False)):
        rows = [
            text_of(row)
            for row in breakdown_section(booked(SHARES, labels={"working.other": work}), PageOptions(width=200))
        ]
        assert any(row.startswith("parallel efficiency") for row in rows)
        assert any(row.startswith("the efficiency is at most that") for row in rows) == is_bound


def test_waiting_that_lies_in_two_rows_is_said_to() -> None:
    found = booked({"working.tensor": 0.8, "idle.imbalance": 0.12, "communication.waiting": 0.08})
    both = below_the_table(found, LeadingLoss(0.2, "lost because the load is uneven"))
    assert "the 20.0 % lost lie in two rows: idle while other GPUs work (12.0 %) and waits in communication" in both
    assert "two rows" not in below_the_table(found, LeadingLoss(0.12, "lost because the load is uneven"))
    assert "two rows" not in below_the_table(found)


def test_time_before_the_first_sample_is_told_from_gaps() -> None:
    found = booked({"working.tensor": 1.0})
    at, works = POSITIONS["unmeasured"], POSITIONS["working.tensor"]
    over_time = found.over_time.copy()
    over_time[[0, 5], at], over_time[[0, 5], works] = 60.0, 0.0
    found = replace(found, over_time=over_time, by_gpu=over_time.sum(axis=0)[None])
    assert "not measured: 1 min 0 s of GPU time before the first sample" in below_the_table(found)
    assert "after the last one" not in below_the_table(found)
