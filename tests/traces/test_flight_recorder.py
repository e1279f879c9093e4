"""Dumps of NCCL's flight recorder: who waits for whom. ``torchfrtrace`` of PyTorch 2.10 names the same ranks and operations
for the first four."""

import csv
import io
import json
from pathlib import Path

import pytest

from gssr.cli import main
from gssr.model.traces.hang import HangAnalysis, analyze_hang
from gssr.recognise import FLIGHT, recognise
from gssr.traces.flight_recorder import read_flight_recorder
from gssr.traces.timeline import TraceError
from tests.fakes.traces.flight_recorder import WORLD, Recorder, absent, chained, different, piped, stepped


def _analysis(folder: Path, ranks: list[Recorder], as_json: bool = False) -> HangAnalysis:
    return analyze_hang([read_flight_recorder(str(rank.write(folder, as_json))) for rank in ranks])


@pytest.mark.parametrize("as_json", [False, True])
def test_a_rank_that_did_not_come_is_named_with_its_last_operation(tmp_path: Path, as_json: bool) -> None:
    (wait,) = _analysis(tmp_path, absent(), as_json).waits
    assert (wait.group.about, wait.operation.name, wait.operation.number) == ("default_pg", "all_reduce", 8)
    assert (wait.ranks("waits"), wait.ranks("missing")) == ([0, 1, 2], [3])
    last = wait.members[3].last_over
    assert last is not None and (last.name, last.number) == ("_all_gather_base", 7)
    assert wait.members[3].elsewhere is None


@pytest.mark.parametrize(
    "ranks", [different(), different(elements=(1024,), dtype="Half"), different("broadcast", (1024,))],
    ids=["size", "type", "operation"],
)  # fmt: skip
def test_a_rank_that_came_with_something_else_is_named(tmp_path: Path, ranks: list[Recorder]) -> None:
    (wait,) = _analysis(tmp_path, ranks).waits
    assert (wait.operation.number, wait.ranks("waits"), wait.ranks("differs")) == (5, [0, 2, 3], [1])


def test_sizes_that_may_differ_are_no_difference(tmp_path: Path) -> None:
    ranks = [stepped(rank, 1) for rank in range(4)]
    for own in ranks:
        own.gives("0", "all_to_all", "started", elements=(100 + own.rank,))
    (wait,) = _analysis(tmp_path, ranks).waits
    assert wait.ranks("waits") == [0, 1, 2, 3]


def test_what_others_wait_for_comes_first(tmp_path: Path) -> None:
    first, second = _analysis(tmp_path, chained()).waits
    assert (first.group.name, first.ranks("waits"), first.ranks("missing")) == ("2", [2], [3])
    assert (second.group.name, second.ranks("waits"), second.ranks("missing")) == ("0", [0, 1], [2, 3])
    elsewhere = second.members[2].elsewhere
    assert elsewhere is not None and elsewhere.group == "2" and second.members[3].elsewhere is None


def test_a_send_waits_for_who_has_not_come_to_receive(tmp_path: Path) -> None:
    ranks = piped()
    found = _analysis(tmp_path, ranks)
    assert found.waits == ()
    (transfer,) = found.transfers
    assert (transfer.rank, transfer.peer, transfer.operation.number, transfer.has_come) == (0, 1, 2, False)
    ranks[1].gives("0", "recv 1<-0", "started")
    assert [each.has_come for each in _analysis(tmp_path, ranks).transfers] == [True, True]


def test_operations_given_together_are_over_when_the_last_is(tmp_path: Path) -> None:
    for state in ("completed", "started"):
        own = Recorder(0, {"0": ("default_pg", (0, 1))})
        own.gives("0", "send 0->1", "scheduled", together=True)
        own.gives("0", "recv 0<-1", "scheduled", together=True)
        own.gives("0", "coalesced p2p", state)
        found = _analysis(tmp_path, [own])
        assert len(found.transfers) == (0 if state == "completed" else 2)
        assert [each.has_come for each in found.transfers] == [None] * len(found.transfers)


def test_a_rank_that_never_used_the_group_is_missing_and_one_whose_buffer_lost_it_is_unknown(tmp_path: Path) -> None:
    groups = {"0": ("default_pg", (0, 1)), "1": ("dp", (0, 1))}
    for lost, role in ((False, "missing"), (True, "unknown")):
        first, second = Recorder(0, groups), Recorder(1, groups, most=2 if lost else 2000)
        first.gives("1", "all_reduce", "started")
        for _ in range(4):
            second.gives("0", "all_reduce")
        waits = _analysis(tmp_path, [first, second]).waits
        assert [(member.rank, member.role) for member in waits[0].members] == [(0, "waits"), (1, role)]


def test_a_rank_without_a_dump_is_unknown_and_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for rank in absent()[:2]:
        rank.write(tmp_path)
    assert main(["analyze", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "There is no dump of ranks 2-3" in out and "did not come" not in out


def test_who_all_came_are_not_accused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for rank in absent(missing=()):
        rank.write(tmp_path)
    assert main(["analyze", str(tmp_path)]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "All its ranks came to it, with the same operation" in out
    for rank in range(4):
        stepped(rank, 2).write(tmp_path)
    assert main(["analyze", str(tmp_path)]) == 0
    assert "Nobody: every operation in these dumps is over." in capsys.readouterr().out


def test_json_and_the_table_name_the_same_ranks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = [str(rank.write(tmp_path)) for rank in absent()]
    assert main(["analyze", "--json", *paths]) == 0
    (wait,) = json.loads(capsys.readouterr().out)["waits"]
    assert [each["role"] for each in wait["ranks"]] == ["waits", "waits", "waits", "missing"]
    assert main(["analyze", "--csv", "hang", *paths]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [(row["rank"], row["role"]) for row in rows] == [
        ("0", "waits"),
        ("1", "waits"),
        ("2", "waits"),
        ("3", "missing"),
    ]
    assert rows[3]["last_finished"] == "_all_gather_base" and rows[3]["brought"] == ""


@pytest.mark.parametrize("width", [40, 80, 200])
def test_no_line_is_wider_than_the_page(tmp_path: Path, width: int, capsys: pytest.CaptureFixture[str]) -> None:
    for rank in chained():
        rank.write(tmp_path)
    assert main(["analyze", "--ascii", "--width", str(width), str(tmp_path)]) == 0
    assert max(map(len, capsys.readouterr().out.splitlines()[:-1])) <= width


def test_two_dumps_of_a_rank_and_a_name_without_one_are_refused(tmp_path: Path) -> None:
    own = stepped(0, 1, WORLD)
    paths = [str(own.write(tmp_path, as_json)) for as_json in (False, True)]
    assert all(recognise(path).kind == FLIGHT for path in paths)
    with pytest.raises(TraceError, match="is of rank 0, as"):
        analyze_hang([read_flight_recorder(path) for path in paths])
    other = tmp_path / "dump.pickle"
    other.write_bytes(Path(paths[0]).read_bytes())
    with pytest.raises(TraceError, match="does not tell its rank"):
        read_flight_recorder(str(other))


def test_a_damaged_dump_costs_the_others_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = [rank.write(tmp_path) for rank in absent()]
    paths[0].write_bytes(paths[0].read_bytes()[:500])
    assert main(["analyze", str(tmp_path)]) == 1
    told = capsys.readouterr()
    assert "cut off" in told.err and "rank 3, which did not come" in " ".join(told.out.split())
