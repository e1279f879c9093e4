"""Who sends to whom, who waits in collectives, what is read and written: tables, page and JSON."""

import json
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from exchanging import exchanging
from timelines import CPU, Events

from gssr.model.traces.analyze_trace import analyze_timeline, combined
from gssr.model.traces.messages import call_at, exchange_of, matrix_of, other_end
from gssr.model.traces.part import part_of
from gssr.model.traces.tables import rows_of
from gssr.render.roles import text_of
from gssr.report.page import PageOptions
from gssr.report.terminal import to_text
from gssr.report.trace import json_pieces, trace_page
from gssr.traces.join import join
from gssr.traces.timeline import Category, Intervals, Kind, Timeline

FEW = [(0, 1, 10, 30, 1000), (0, 1, 50, 60, 500), (1, 2, 20, None, 70), (3, 0, 900, 890, 5)]


def test_messages_are_added_up_by_pair() -> None:
    _, rows = rows_of("messages", analyze_timeline(exchanging(4, FEW)))
    assert list(rows) == [
        (0, "node0", 1, "node0", 2, 1500, 30, 1500e9 / 30, None),
        (1, "node0", 2, "node1", 1, 70, None, None, None),
        (3, "node1", 0, "node0", 1, 5, 0, None, None),  # it came before it was sent
    ]


def _with_calls(timeline: Timeline, calls: Sequence[tuple[int, int, int]]) -> Timeline:
    """With calls of MPI: rank, begin, end, in order."""
    own = timeline.intervals
    rank, begin, end = (np.array(column) for column in zip(*calls, strict=True))
    values = {"start": begin, "length": end - begin, "track": rank.astype(np.int32)}
    columns = {
        name: np.append(getattr(own, name), values.get(name, np.full(len(calls), getattr(own, name)[0])))
        for name in own.__dataclass_fields__
    }
    columns["category"][len(own) :] = Category.COMMUNICATION
    return replace(timeline, intervals=Intervals(**columns))


CALLS = [(1, 2, 31), (0, 5, 12), (0, 48, 52), (1, 49, 70), (0, 880, 892), (3, 895, 901)]
"""Rank 1 first receives 3 ns before rank 0 sends, then later than it; rank 0 has what it receives 10 ns
after its call began, before rank 3's call began to send it."""


def test_receivers_wait_for_senders_that_are_late() -> None:
    messages = [*FEW[:3], (3, 0, 900, 890, 5), (0, 1, 200, 300, 1)]
    timeline = _with_calls(exchanging(4, messages), CALLS)
    _, rows = rows_of("messages", analyze_timeline(timeline))
    assert [row[-1] for row in rows] == [3, None, 10]
    found = exchange_of(part_of(timeline))
    assert found is not None and found.called.tolist() == [2, 0, 1]
    page = "".join(map(text_of, trace_page(analyze_timeline(timeline), PageOptions(120))))
    assert "late sender" in page


def test_one_end_of_a_message_leads_to_the_other() -> None:
    timeline = _with_calls(exchanging(4, FEW), CALLS)
    places = range(4, 10)
    assert [other_end(timeline, place) for place in places] == [5, 4, 7, 6, 9, 8]
    assert [other_end(timeline, place) for place in range(4)] == [-1] * 4  # what lies around them is none
    assert other_end(replace(timeline, messages=None), 4) == -1


def test_the_call_at_a_time_is_the_last_that_had_begun_and_not_ended() -> None:
    rng = np.random.default_rng(5)
    calls = sorted(
        {(int(rank), int(begin)) for rank, begin in rng.integers(0, (5, 900), (200, 2))}, key=lambda each: each[1]
    )
    timeline = _with_calls(
        exchanging(5, []), [(rank, begin, begin + int(rng.integers(0, 20))) for rank, begin in calls]
    )
    own = timeline.intervals
    track, time = rng.integers(0, 5, 500).astype(np.int32), rng.integers(0, 950, 500)
    for found, rank, at in zip(call_at(own, track, time).tolist(), track.tolist(), time.tolist(), strict=True):
        begun = [place for place in range(5, len(own)) if own.track[place] == rank and own.start[place] <= at]
        last = begun[-1] if begun else -1
        assert found == (last if last >= 0 and own.start[last] + own.length[last] >= at else -1)


def test_a_window_and_a_selection_choose_messages() -> None:
    timeline = exchanging(4, FEW)
    found = exchange_of(part_of(timeline, (15, 60)))
    assert found is not None and found.size.tolist() == [500, 70]
    found = exchange_of(part_of(timeline, tracks=[2, 3]))
    assert found is not None and found.size.tolist() == [70, 5]


def test_folding_a_matrix_loses_nothing() -> None:
    rng = np.random.default_rng(1)
    n = 1024
    sent = rng.integers(0, 900, 5000)
    rows = zip(
        rng.integers(0, n, 5000), rng.integers(0, n, 5000), sent, sent + 7, rng.integers(0, 9999, 5000), strict=True
    )
    found = exchange_of(part_of(exchanging(n, [tuple(map(int, row)) for row in rows])))  # type: ignore[misc]
    assert found is not None
    total = int(found.size.sum())
    for at_most in (1, 7, 60, 1024):
        matrix = matrix_of(found, at_most=at_most)
        assert len(matrix.labels) <= at_most and matrix.size.sum() == total and matrix.n.sum() == 5000
    by_node = matrix_of(found, by_node=True)
    assert len(by_node.labels) == n // 2 and by_node.size.sum() == total
    ends = matrix_of(found, at_most=60).labels
    assert (ends[0], ends[-1]) == ("0-17", "1008-1023")
    assert matrix_of(found).rate()[found.source[0], found.target[0]] == found.rate()[0]


def test_collectives_and_files_are_added_up() -> None:
    trace = analyze_timeline(exchanging(4, FEW))
    (use,) = trace.collectives
    assert (use.kind, use.comm, use.n, use.total_ns, use.wait_ns, use.max_wait_ns) == ("barrier", "world", 4, 394, 6, 3)
    assert trace.io is not None
    (each,) = trace.io
    assert (each.file, each.operation, each.call, each.n, each.bytes) == ("data", "read", "read", 4, 40)
    assert each.bytes_per_s == 40e9 / 20


def test_two_archives_are_added_up_and_joined() -> None:
    one, other = exchanging(4, FEW), exchanging(2, [(1, 0, 5, 6, 7)])
    trace = combined([analyze_timeline(one), analyze_timeline(other)])
    assert trace.exchange is not None and trace.io is not None
    assert trace.exchange.size.tolist() == [1500, 70, 5, 7] and len(trace.exchange.ends) == 6
    assert [(each.n, each.bytes) for each in trace.io] == [(6, 60)]
    together = analyze_timeline(join([one, other]))
    assert together.exchange is not None and together.exchange.size.sum() == 1582 and len(together.exchange.ends) == 6
    assert together.io == trace.io and sum(use.n for use in together.collectives) == 6


@pytest.mark.parametrize("ascii_only", [False, True])
@pytest.mark.parametrize("width", [40, 80, 132])
def test_the_page_says_it_within_its_width(width: int, ascii_only: bool) -> None:
    rows = trace_page(analyze_timeline(exchanging(40, FEW)), PageOptions(width, ascii_only))
    text = to_text(rows, False, ascii_only)
    assert all(len(text_of(row)) <= width for row in rows[:-1])
    for told in ("Where did the time go?", "Who talks to whom?", "Which files?", "barrier", "data"):
        assert told in text
    assert "0-2" in text  # forty ranks in at most sixteen lines
    assert not ascii_only or text.isascii()


def test_the_json_object_has_null_only_where_nothing_is_told() -> None:
    told = json.loads("".join(json_pieces(analyze_timeline(exchanging(4, FEW)))))
    assert [row["bytes"] for row in told["messages"]] == [1500, 70, 5] and told["io"][0]["file"] == "data"
    assert told["messages"][1]["time_ns"] is None
    untold = json.loads("".join(json_pieces(analyze_timeline(Events().add(Kind.CPU_OP, "op", 0, 5, CPU).timeline()))))
    assert untold["messages"] is None and untold["io"] is None and untold["collectives"] == []
