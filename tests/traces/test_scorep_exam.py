"""Readers of Score-P's files against archives and profiles whose meaning is known: tests/fakes/scorep."""

import json
import os
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from in_process import analysed, gssr

from tests.fakes.scorep import program, truth

otf2 = pytest.importorskip("otf2")
from tests.fakes.scorep import otf2_archive  # noqa: E402

FUNCTIONS = ("kernels", "api", "ranges", "operators", "os")
"""The tables that together have each function once."""


TEMPERATURE = next(number for number, metric in enumerate(program.METRICS) if metric.name == "temperature")


class Made:
    """A program, its archive, its truth, and what is said of it."""

    def __init__(self, folder: Path, ran: program.Program, style: otf2_archive.Style) -> None:
        self.program, self.path = ran, folder
        otf2_archive.write(folder, ran, style)
        self.truth = truth.of(ran, {n: otf2_archive.kept(records, style) for n, records in ran.events.items()})
        self.said = analysed(folder)


RANKS = int(os.environ.get("GSSR_EXAM_RANKS", "8"))
"""With 334 of them there are 1,002 locations; that takes a quarter of a minute."""
RAN = program.run(ranks=RANKS, threads=2, gpu=True, steps=3)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return Made(tmp_path_factory.mktemp("scorep") / "archive", RAN, otf2_archive.Style(skew=True))


def by_function(found: truth.Truth) -> dict[str, tuple[int, int]]:
    """Calls and their lengths added up, by name: of a function that calls itself each call counts."""
    total: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for path, spent in found.by_path().items():
        total[path[-1]][0] += spent.count
        total[path[-1]][1] += spent.inclusive
    return {name: (count, length) for name, (count, length) in total.items()}


def functions(found: dict[str, Any]) -> dict[str, tuple[int, int]]:
    """The same as it is said."""
    rows = [row for table in FUNCTIONS for row in found[table]]
    assert len({row["name"] for row in rows}) == len(rows), "a function is in two tables"
    return {row["name"]: (row["count"], row["total_ns"]) for row in rows}


def test_the_archive_says_what_was_meant(made: Made) -> None:
    """The examination itself: read by the package's own reader."""
    matrix: dict[tuple[int, int], tuple[int, int]] = {}
    spent: dict[str, int] = defaultdict(int)
    stacks: dict[str, list[int]] = defaultdict(list)
    n = 0
    with otf2.reader.open(str(made.path / "traces.otf2")) as trace:
        assert trace.definitions.clock_properties.realtime_timestamp <= RAN.unix_ns - 20_000_000
        for at, event in trace.events:
            n += 1
            if isinstance(event, otf2.events.MpiSend | otf2.events.MpiIsend):
                target = event.communicator.group.members[event.receiver].group.name
                pair = (int(at.group.name.split()[-1]), int(target.split()[-1]))
                count, size = matrix.get(pair, (0, 0))
                matrix[pair] = (count + 1, size + event.msg_length)
            elif isinstance(event, otf2.events.Enter):
                stacks[str(at)].append(event.time)
            elif isinstance(event, otf2.events.Leave):
                spent[event.region.name] += event.time - stacks[str(at)].pop()
    assert (n, matrix) == (made.truth.n_events, made.truth.matrix())
    assert {name: ticks // 2 for name, ticks in spent.items()} == {
        name: length for name, (_, length) in by_function(made.truth).items()
    }


def test_every_function_is_there_with_its_calls_and_times(made: Made) -> None:
    (source,) = made.said["sources"]
    assert (source["format"], source["tool"], source["left_out"]) == ("otf2", "Score-P", 0)
    assert source["n_events"] == made.truth.n_events
    assert functions(made.said) == by_function(made.truth)


def test_the_zero_is_a_unix_time(made: Made) -> None:
    """Each rank's clock is wrong by up to 50 ms, and its definitions say so."""
    begin, end = made.said["window_ns"]
    unix = made.said["zero_unix_ns"]
    first = min(records[0][0] for records in RAN.events.values())
    assert made.said["clock"] == "unix"
    assert (unix + begin, unix + end) == (RAN.unix_ns + first, RAN.unix_ns + RAN.length())


def test_messages_are_by_ranks_of_the_world_whatever_the_communicator(made: Made) -> None:
    meant: dict[tuple[int, int], list[int]] = defaultdict(lambda: [0, 0, 0])
    for message in made.truth.messages:
        cell = meant[message.source, message.target]
        cell[0], cell[1], cell[2] = cell[0] + 1, cell[1] + message.size, cell[2] + message.received - message.sent
    found = {
        (row["rank"], row["to_rank"]): [row["count"], row["bytes"], row["time_ns"]] for row in made.said["messages"]
    }
    assert found == dict(meant)


def test_collectives_have_their_bytes_and_who_waited(made: Made) -> None:
    names = {comm.number: comm.name for comm in RAN.comms}
    meant: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0, 0, 0, 0])
    for part in made.truth.collectives:
        row = meant[part.operation.lower(), names[part.comm]]
        row[0], row[1], row[2] = row[0] + 1, row[1] + part.sent, row[2] + part.received
        row[3], row[4] = row[3] + part.waited, max(row[4], part.waited)
    found: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0, 0, 0, 0])
    for each in made.said["collectives"]:  # several communicators have one name
        row = found[each["kind"], each["comm"]]
        values = [each["count"], each["sent"], each["received"], each["wait_ns"]]
        row[:] = [*map(sum, zip(row, values, strict=False)), max(row[4], each["max_wait_ns"])]
    assert found == meant


def test_files_have_their_bytes_and_times(made: Made) -> None:
    meant: dict[tuple[str, str, str], list[int]] = defaultdict(lambda: [0, 0, 0])
    for one in made.truth.operations:
        row = meant[one.file, one.mode.lower(), one.call]
        row[0], row[1], row[2] = row[0] + 1, row[1] + one.size, row[2] + one.end - one.begin
    found = {(r["file"], r["operation"], r["call"]): [r["count"], r["bytes"], r["total_ns"]] for r in made.said["io"]}
    assert found == dict(meant)


def test_counters_are_in_their_units(made: Made) -> None:
    rows = {(row["name"], row["rank"]): row for row in made.said["counters"]}
    for (name, location), series in made.truth.series.items():
        if name == "node power":
            continue  # of a node, not of a rank: below
        row = rows[name, RAN.locations[location].rank]
        values = [value for _, value in series]
        assert (row["n"], row["min"], row["max"], row["last"]) == (len(values), min(values), max(values), values[-1])
    for node in set(RAN.node_of):
        power = [
            value for (name, location), series in made.truth.series.items() for _, value in series
            if name == "node power" and RAN.node_of[RAN.locations[location].rank] == node
        ]  # fmt: skip
        (row,) = [
            row for row in made.said["counters"] if "node power" in row["name"] and f"(node{node})" in row["name"]
        ]
        assert (row["unit"], row["n"]) == ("W", len(power))
        assert (row["min"], row["max"]) == pytest.approx((min(power), max(power)))


def paths(rows: list[dict[str, Any]]) -> dict[tuple[str, ...], dict[str, Any]]:
    """Rows of a call tree by their path."""
    by_id = {row["id"]: row for row in rows}
    found = {}
    for row in rows:
        names, at = [row["name"]], row["parent"]
        while at is not None:
            names.append(by_id[at]["name"])
            at = by_id[at]["parent"]
        found[tuple(reversed(names))] = row
    assert len(found) == len(rows), "a path stands there twice"
    return found


def test_the_call_tree_is_that_of_the_nested_calls(made: Made) -> None:
    """Kernels are called by nobody: they may be roots of their own, as in profiles, or stand among the kernels alone."""
    threads = {n for n, at in enumerate(RAN.locations) if at.kind == "CPU_THREAD"}
    meant = truth.of(RAN, {n: RAN.events[n] for n in threads}).by_path()
    found = {
        path: (row["count"], row["inclusive_ns"], row["exclusive_ns"])
        for path, row in paths(made.said["calltree"]).items() if path in meant or len(path) > 1
    }  # fmt: skip
    assert found == {path: tuple(spent) for path, spent in meant.items()}


@pytest.mark.parametrize(
    "style",
    [
        otf2_archive.Style(resolution=1_000_000_000),
        otf2_archive.Style(contexts=True), otf2_archive.Style(real_time=False), otf2_archive.Style(unclosed=2),
    ],
    ids=["nanoseconds", "contexts", "no unix time", "killed"],
)  # fmt: skip
def test_an_archive_means_the_same_however_it_is_written(style: otf2_archive.Style, tmp_path: Path) -> None:
    one = Made(tmp_path / "archive", program.run(ranks=2, threads=2, gpu=False, steps=2), style)
    assert functions(one.said) == by_function(one.truth)
    assert sum(row["bytes"] for row in one.said["messages"]) == sum(m.size for m in one.truth.messages)
    assert (one.said["zero_unix_ns"] is None) is (one.said["clock"] == "unknown") is not style.real_time
    notes = one.said["sources"][0]["notes"]
    assert bool(notes) is bool(style.unclosed) or not style.real_time, notes
    assert one.said["ranks"] == []


def test_clocks_that_drift_are_corrected(tmp_path: Path) -> None:
    one = Made(
        tmp_path / "archive", program.run(ranks=3, threads=1, gpu=False, steps=2), otf2_archive.Style(drift=True)
    )
    meant = by_function(one.truth)
    for name, (count, length) in functions(one.said).items():
        assert count == meant[name][0] and abs(length - meant[name][1]) <= 2 * count, name


def test_a_clock_that_runs_backwards_is_said_and_what_has_no_time_stays_exact(tmp_path: Path) -> None:
    ran = program.run(ranks=4, threads=1, gpu=False, steps=2)
    one = Made(tmp_path / "archive", ran, otf2_archive.Style(backwards=True))
    matrix: dict[tuple[int, int], tuple[int, int]] = {}
    for row in one.said["messages"]:
        matrix[row["rank"], row["to_rank"]] = (row["count"], row["bytes"])
    assert matrix == one.truth.matrix() and one.said["sources"][0]["notes"]
    others = by_function(truth.of(ran, ran.only({0, 1, 2})))
    for name, (_, length) in functions(one.said).items():
        assert length >= others.get(name, (0, 0))[1], name
    sizes = {each.file: each.size for each in one.truth.operations if each.rank < 3 and each.mode == "WRITE"}
    assert set(sizes) <= {row["file"] for row in one.said["io"]} and one.said["sources"][0]["left_out"] > 0


def test_what_began_before_the_trace_is_said(tmp_path: Path) -> None:
    """Tracing that was switched on later: regions are left that nobody entered."""
    ran = program.run(ranks=2, threads=1, gpu=False, steps=1)
    events = {location: records[6:] for location, records in ran.events.items()}
    folder = tmp_path / "archive"
    otf2_archive.write(folder, ran, otf2_archive.PLAIN, events)
    found = analysed(folder)
    assert found["sources"][0]["notes"]
    whole, got = by_function(truth.of(ran)), functions(found)
    for name in ("MPI_Waitall", "step", "flux(double const*, int)", "MPI_Finalize"):
        assert got[name] == whole[name]


def test_values_of_counters_that_are_no_numbers_are_unknown(tmp_path: Path) -> None:
    ran = program.run(ranks=1, threads=1, gpu=False, steps=3)
    values = iter((float("nan"), float("inf"), 41.5))
    events = {
        location: [
            (*record[:3], next(values)) if record[1:3] == ("metric", TEMPERATURE) else record for record in records
        ]
        for location, records in ran.events.items()
    }  # fmt: skip
    otf2_archive.write(tmp_path / "archive", ran, otf2_archive.PLAIN, events)
    code, out, err = gssr("analyze", "--json", tmp_path / "archive")
    assert (code, err) == (0, "") and "NaN" not in out and "Infinity" not in out
    (row,) = [row for row in json.loads(out)["counters"] if row["name"] == "temperature"]
    assert (row["min"], row["last"]) == (41.5, 41.5) and row["max"] in (41.5, None)


def test_metrics_of_ones_own_are_shares_and_counts_of_each_thread(made: Made) -> None:
    words = ["--metric", "wait=share(/^MPI_(Wait|Recv)/)", "--metric", "sends=count(/^MPI_I?[Ss]end/)"]
    rows = {(row["name"], row["rank"], row["place"]): row["value"] for row in analysed(*words, made.path)["metrics"]}
    for rank in range(RANKS):
        (number,) = [n for n, at in enumerate(RAN.locations) if at.rank == rank and at.thread == 0]
        span = RAN.events[number][-1][0] - RAN.events[number][0][0]
        waits, sends = (
            sum((made.truth.regions[name, number] for name in names), truth.Spent())
            for names in (("MPI_Waitall", "MPI_Recv"), ("MPI_Isend", "MPI_Send"))
        )
        for name, meant in (("wait", waits.inclusive / span), ("sends", sends.count / span * 1e9)):
            found = [value for (metric, of, _), value in rows.items() if (metric, of) == (name, rank)]
            assert max(found) == pytest.approx(meant), (name, rank)


def test_only_some_ranks(made: Made) -> None:
    found = analysed("--ranks", "1-2", made.path)
    some = truth.of(RAN, RAN.only({1, 2}))
    assert functions(found) == by_function(some)
    assert sum(row["count"] for row in found["io"]) == len(some.operations)


def test_a_program_without_gpus_has_a_page(tmp_path: Path) -> None:
    otf2_archive.write(tmp_path / "archive", program.run(ranks=2, threads=2, gpu=False, steps=2))
    code, out, err = gssr("analyze", tmp_path / "archive")
    assert (code, err) == (0, "")
    for word in ("MPI", "MPI_Waitall", "input.dat", "assemble"):
        assert word in out
    for word in ("nan", "inf %", "0 GPUs", "Traceback"):
        assert word not in out.replace("info", "")


SPOILT = ("a rank missing", "cut event file", "an empty event file", "no events", "no definitions", "no anchor",
          "no local definitions", "another version", "being written", "garbage", "garbage definitions")  # fmt: skip


@pytest.fixture(scope="module")
def spoilt(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return otf2_archive.spoilt(tmp_path_factory.mktemp("spoilt"), program.run(ranks=2, threads=1, gpu=False, steps=1))


@pytest.mark.parametrize("lack", SPOILT)
def test_of_a_spoilt_archive_what_can_be_told_is_told(spoilt: dict[str, Path], lack: str) -> None:
    """What is lost is said: in a line that names the archive, or in a note."""
    code, out, err = gssr("analyze", "--json", spoilt[lack])
    if code:
        assert (code, out, err.count("\n")) == (1, "", 1), (code, err)
        assert lack in err and "Traceback" not in err
        assert lack not in ("a rank missing", "cut event file", "an empty event file", "no local definitions"), err
        return
    found = json.loads(out)
    notes = found["sources"][0]["notes"]
    assert notes or lack == "no local definitions", "nothing is said"
    if lack == "a rank missing":
        one = program.run(ranks=2, threads=1, gpu=False, steps=1)
        assert functions(found) == by_function(truth.of(one, one.only({0})))
    assert all(row["total_ns"] >= 0 for table in FUNCTIONS for row in found[table])
