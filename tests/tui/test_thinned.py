"""The live screen on recordings of whose samples not all were kept."""

from dataclasses import replace

import numpy as np
import pytest

from gssr.model.live.alignment import aligned
from gssr.model.live.live_result import Query
from gssr.tui.moves import MOVES
from gssr.tui.shared.top_bar import pieces_of
from gssr.tui.view import Scene, View
from tests.fakes.frames import START, frame_of

N = 40


def scene(width: float, thinned: float, **view) -> Scene:
    frame = frame_of(np.full((2, N), 0.5), width=width, thinned=thinned)
    return Scene(frame, None, View(screen="time", **view))


def shortest(thinned: float) -> float:
    """The window at which zooming in ends, s."""
    view = View(screen="time", span=60.0 * N)
    for _ in range(20):
        view = MOVES["zoom_in"](scene(60.0, thinned, span=view.span, end=view.end))
    assert view.span is not None
    return view.span


def test_zooming_in_ends_at_some_buckets_of_10_s_where_no_sample_was_kept() -> None:
    assert shortest(-np.inf) < 80
    assert shortest(START + 1e6) == 80


@pytest.mark.parametrize("kept", [0.0, 300.0])
def test_young_samples_of_a_growing_run_can_still_be_zoomed_into(kept) -> None:
    end = START + 10.0 * N
    view = MOVES["zoom_in"](scene(10.0, end - kept, span=80.0))
    assert (view.span < 80.0) == (kept > 0)


def test_the_top_bar_says_that_samples_were_not_kept_where_that_shows() -> None:
    for thinned, said in ((START + 100, True), (-np.inf, False), (START, False)):
        pieces = pieces_of(scene(10.0, thinned).frame, View())
        assert ("thinned to 10 s" in [piece.text for piece in pieces]) is said


def test_runs_are_compared_in_columns_that_both_can_fill() -> None:
    raw = scene(1.0, -np.inf).frame
    thinned = replace(raw, thinned=raw.last)
    query = Query(span=10.0, columns=N)
    assert aligned(query, "start", raw, raw)[0].width < 10
    widths = {asked.width for asked in aligned(query, "start", raw, thinned)}
    assert len(widths) == 1
    assert widths.pop() >= 10
