"""Profiles in CUBE4: read as pycubexr reads them, in whatever form they come; what is damaged is one sentence."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gssr.cli import main
from gssr.model.traces.call_tree import VISITS, CallTree, tree_of
from gssr.model.traces.part import part_of
from gssr.report.live.call_outline import columns_of
from gssr.traces.cube import read_cube
from gssr.traces.open import open_traces
from gssr.traces.timeline import TraceError
from tests.fakes.traces.cube import SOLVER, Call, Location, Metric, anchor, archive, files, solver, write_solver

ORACLE = json.loads((Path(__file__).parents[1] / "golden" / "traces" / "cube-solver.json").read_text())
PLACES, METRICS = solver()
PARTS = files(SOLVER, PLACES, METRICS)


def tree(path: Path) -> CallTree:
    found = tree_of(part_of(open_traces([str(path)]).timeline()))
    assert found is not None
    return found


def write(path: Path, **changes: bytes | None) -> Path:
    """The solver's profile with other files in it: names with _ for the dot."""
    named = {name.replace("_", "."): content for name, content in changes.items()}
    parts = {name: content for name, content in (PARTS | named).items() if content is not None}
    path.write_bytes(archive(parts))
    return path


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("packed", [False, True])
def test_all_values_are_those_of_pycubexr(tmp_path: Path, order: str, packed: bool) -> None:
    found = read_cube(str(write_solver(tmp_path / "a", order, packed)))
    assert found.profile is not None and not found.sources[0].notes
    assert {metric.name for metric in found.profile.metrics} == set(ORACLE)
    for metric in found.profile.metrics:
        nodes, rows = metric.rows()
        values = np.zeros((len(found.profile.parent), len(found.tracks)))
        values[nodes] = rows
        assert values.tolist() == ORACLE[metric.name]["stored"], metric.name


def test_with_and_without_callees_is_as_pycubexr_has_it(tmp_path: Path) -> None:
    found, three = tree(write_solver(tmp_path / "a")), (11, 4, 3)
    for metric in found.metrics:
        if metric.combine != "sum":
            continue
        factor = 1e9 if metric.unit == "ns" else 1.0
        for kind, values in zip(("inclusive", "exclusive"), found.values(metric.name), strict=True):
            expected = np.array(ORACLE[metric.name][kind]).reshape(three).sum(axis=2) * factor
            below_0 = (expected < 0) & (kind == "exclusive")
            assert metric.name == "PAPI_L2_DCM" or not below_0.any()
            assert np.isnan(values).tolist() == below_0.tolist(), (metric.name, kind)
            np.testing.assert_allclose(values[~below_0], expected[~below_0], rtol=1e-12, atol=1e-3)
    visited = np.array(ORACLE["visits"]["stored"]).reshape(three) > 0
    for name, fold, none in (("min_time", np.min, np.inf), ("max_time", np.max, -np.inf)):
        for kind, values in zip(("inclusive", "exclusive"), found.values(name), strict=True):
            stored = np.where(visited, np.array(ORACLE[name][kind]).reshape(three), none)
            folded = fold(stored, axis=2) * 1e9
            np.testing.assert_allclose(values, np.where(np.isfinite(folded), folded, np.nan), rtol=1e-12)


def test_places_are_ranks_and_know_their_nodes(tmp_path: Path) -> None:
    read = read_cube(str(write_solver(tmp_path / "a")))
    assert [(track.kind, track.rank, track.node, track.tid) for track in read.tracks[:4]] == [
        ("cpu_thread", 0, "node0", 0), ("cpu_thread", 0, "node0", 1), ("gpu_stream", 0, "node0", 2),
        ("cpu_thread", 1, "node0", 0),
    ]  # fmt: skip
    found = tree(tmp_path / "a")
    assert [found.called(place) for place in range(len(found.places))] == ["rank 0", "rank 1", "rank 2", "rank 3"]
    assert found.values(VISITS).exclusive.sum(axis=1)[0] == 4


def test_values_stay_with_their_rank_in_whatever_order_tracks_come(tmp_path: Path) -> None:
    whole = open_traces([str(write_solver(tmp_path / "a"))]).timeline()

    def first_threads(order: list[int]) -> CallTree:
        assert whole.profile is not None
        metrics = []
        for metric in whole.profile.metrics:
            nodes, rows = metric.rows()
            metrics.append(metric._replace(rows=lambda nodes=nodes, rows=rows[:, order]: (nodes, rows)))
        tracks = tuple(whole.tracks[at] for at in order)
        profile = replace(whole.profile, metrics=tuple(metrics))
        found = tree_of(part_of(replace(whole, tracks=tracks, profile=profile)))
        assert found is not None and [track.rank for track in found.places] == [0, 1, 2, 3]
        return found

    ascending, other = first_threads([0, 3, 6, 9]), first_threads([6, 0, 9, 3])
    for metric in ascending.metrics:
        for expected, values in zip(ascending.values(metric.name), other.values(metric.name), strict=True):
            np.testing.assert_array_equal(values, expected)
    times = ascending.values("time").exclusive
    assert len({tuple(column) for column in times.T.tolist()}) > 1, "ranks differ, or nothing was tested"


def test_checksums_do_not_matter_and_counters_below_0_are_unknown(tmp_path: Path) -> None:
    content = bytearray(archive(PARTS))
    at = 0
    while content[at : at + 1] != b"\0":
        size = int(content[at + 124 : at + 135], 8)
        content[at + 148 : at + 156] = b"0000001\0"
        at += 512 + -(-size // 512) * 512
    (tmp_path / "a").write_bytes(content)
    assert tree(tmp_path / "a").values(VISITS).exclusive.sum() > 0
    below_0 = np.full((1, 1), 2**64 - 5, np.uint64)
    parts = files((Call("a"),), [Location("n", 0)], [Metric("visits", "UINT64", "EXCLUSIVE", "occ", below_0)])
    (tmp_path / "b").write_bytes(archive(parts))
    assert np.isnan(tree(tmp_path / "b").values(VISITS).exclusive).all()


def test_of_the_least_of_nothing_nothing_is_known(tmp_path: Path) -> None:
    """Whatever stands for it: a thread on which a call was not made has no shortest call."""
    for mark in (np.finfo(np.float64).max, np.inf, np.nan):
        least = Metric("min_time", "MINDOUBLE", "EXCLUSIVE", "sec", np.array([[2.0, mark], [3.0, 1.0]]))
        calls, places = (Call("a", calls=(Call("b"),)),), [Location("n", 0), Location("n", 1)]
        (tmp_path / "a").write_bytes(archive(files(calls, places, [least])))
        found = tree(tmp_path / "a").values("min_time")
        np.testing.assert_equal(found.exclusive, np.array([[2e9, np.nan], [3e9, 1e9]]))
        np.testing.assert_equal(found.inclusive, np.array([[2e9, 1e9], [3e9, 1e9]]))


def test_times_longer_than_any_are_shown_as_they_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Below what is refused nothing overflows."""
    time = METRICS[1]._replace(values=np.array([[9e18, 1.0]]))
    (tmp_path / "a").write_bytes(archive(files((Call("a"),), [Location("n", 0), Location("n", 1)], [time])))
    for options in ([], ["--csv", "functions"], ["--json"]):
        assert main(["analyze", *options, str(tmp_path / "a")]) == 0, options
        assert "inf" not in capsys.readouterr().out.replace("info", ""), options


def with_anchor(change: Callable[[str], str]) -> bytes:
    return change(anchor(SOLVER, PLACES, METRICS)).encode()


BOMB = '<!DOCTYPE a [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>\n'
REFUSED = {
    "cut": ({"anchor_xml": None}, "no anchor.xml: it is cut, or still being written"),
    "entities": ({"anchor_xml": anchor(SOLVER, PLACES, METRICS, BOMB).encode()}, "declares a document type"),
    "damaged": ({"anchor_xml": PARTS["anchor.xml"][:-30]}, "anchor.xml is damaged: unclosed token"),
    "binary": ({"anchor_xml": b"\0\1\2"}, "anchor.xml is damaged"),
    "no calls": ({"anchor_xml": with_anchor(lambda text: text.replace("cnode", "node"))}, "names no calls"),
    "no threads": ({"anchor_xml": with_anchor(lambda text: text.replace("<location ", "<place ")
                                              .replace("</location>", "</place>"))}, "names no threads"),
    "deep": ({"anchor_xml": b"<cube>" + b'<cnode id="0" calleeId="0">' * 20_000}, "calls deeper than 10,000"),
    "deep nodes": ({"anchor_xml": b"<cube>" + b"<systemtreenode>" * 20_000}, "elements deeper than 100"),
    "no values": ({f"{number}_index": None for number in (0, 1, 2, 3, 4, 6)}, "no values of any metric"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_damaged_is_one_sentence(case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    changes, said = REFUSED[case]
    path = write(tmp_path / "profile.cubex", **changes)  # type: ignore[arg-type]
    assert main(["analyze", str(path)]) == 1
    error = capsys.readouterr().err
    assert said in error and str(path) in error and error.count("\n") == 1


LEFT_OUT = {
    "an index that is none": ({"4_index": b"CUBEX"}, "bytes_sent left out: its index is damaged"),
    "a place that is none": (
        {"4_index": PARTS["4.index"][:-4] + b"\xff\0\0\0"},
        "bytes_sent left out: its index is damaged",
    ),
    "more places than calls": ({"4_index": PARTS["4.index"][:18] + b"\xff\xff\xff\x7f"}, "bytes_sent left out"),
    "cut values": ({"4_data": PARTS["4.data"][:-1]}, "bytes_sent left out: its values are damaged, or fewer"),
    "a metric without values": ({"4_data": None}, "bytes_sent left out: its values are cut"),
}


@pytest.mark.parametrize("case", LEFT_OUT)
def test_what_is_wrong_with_one_metric_costs_that_one(case: str, tmp_path: Path) -> None:
    changes, said = LEFT_OUT[case]
    found = read_cube(str(write(tmp_path / "a", **changes)))  # type: ignore[arg-type]
    assert any(said in note for note in found.sources[0].notes), found.sources[0].notes
    assert found.profile is not None and len(found.profile.metrics) == len(ORACLE) - 1


def test_values_that_unpack_to_more_than_there_may_be_are_refused(tmp_path: Path) -> None:
    metrics = [Metric("visits", "UINT64", "EXCLUSIVE", "occ", np.ones((1, 1)))]
    small = files((Call("a"),), [Location("n", 0)], metrics, packed=True)
    large = files(
        (Call("a"),), [Location("n", 0)] * 1, [metrics[0]._replace(values=np.ones((1, 1 << 20)))], packed=True
    )
    (tmp_path / "a").write_bytes(archive(small | {"0.data": large["0.data"]}))
    with pytest.raises(TraceError, match="no values of any metric"):
        read_cube(str(tmp_path / "a"))


def test_a_profile_that_changes_while_it_is_looked_at_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_solver(tmp_path / "a")
    found = tree(path)
    path.write_bytes(path.read_bytes()[:1600])
    with pytest.raises(TraceError, match="values of visits are damaged, or have changed since"):
        found.values(VISITS)
    monkeypatch.setattr("gssr.report.trace.trace_page", lambda *_: found.values(VISITS))
    assert main(["analyze", str(write_solver(tmp_path / "b"))]) == 1
    error = capsys.readouterr().err
    assert "have changed since" in error and error.count("\n") == 1


@settings(max_examples=50, deadline=None)
@given(st.data())
def test_whatever_is_in_it_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    content = bytearray(archive(PARTS))
    for _ in range(data.draw(st.integers(1, 8))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.getbasetemp() / "any.cubex"
    path.write_bytes(content[: data.draw(st.sampled_from([len(content)] * 3 + [len(content) // 2]))])
    try:
        found = tree_of(part_of(read_cube(str(path))))
        assert found is not None
        for metric in found.metrics:
            found.values(metric.name)
    except TraceError as error:
        assert str(error).startswith(str(path)) and "\n" not in str(error)


def test_a_profile_stands_alone_and_has_no_times(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = (str(write_solver(tmp_path / name)) for name in ("a.cubex", "b.cubex"))
    assert main(["analyze", first, second]) == 1
    assert "profile of all ranks: look at it alone" in capsys.readouterr().err
    assert main(["analyze", "--from", "1", first]) == 2
    assert "is a profile, without times and GPUs" in capsys.readouterr().err


def test_page_tables_and_object_say_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(write_solver(tmp_path / "profile.cubex"))
    assert main(["analyze", "--width", "100", path]) == 0
    page = capsys.readouterr().out
    assert "4 ranks on 2 nodes, 11 call paths, by Score-P 8.4" in page
    assert "rank 2 computes for 8.63 s" in page and "GSSR user=0.679 mpi=0.281 openmp=0.032 cuda=0.008" in page
    assert main(["analyze", "--json", path]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [source["format"] for source in found["sources"]] == ["cube"]
    by_name = {row["name"]: row for row in found["calltree"]}
    assert by_name["MPI_Allreduce"]["exclusive_ns"] == round(1e9 * (3 * 2.1 + 0.1))
    assert by_name["MPI_Allreduce"]["min_ns"] == 100_000_000 and by_name["!$omp do @solve.f90:12"]["most"] == "rank 2"
    assert by_name["!$omp do @solve.f90:12"]["imbalance"] == pytest.approx(1 - 5 / 8)
    refine = [row for row in found["functions"] if row["name"] == "refine"]
    inner = next(row for row in found["calltree"] if row["name"] == "refine" and row["depth"] == 2)
    assert len(refine) == 1 and refine[0]["inclusive_ns"] == inner["inclusive_ns"] and refine[0]["count"] == 120
    assert sum(row["share"] for row in found["functions"]) == pytest.approx(1)
    of_rank_2 = {row["paradigm"]: row["time_ns"] for row in found["paradigms_by_rank"] if row["place"] == "rank 2"}
    assert of_rank_2["mpi"] == round(1e9 * (0.1 + 0.5 + 0.1))
    misses = [row for row in found["calltree_metrics"] if row["metric"] == "PAPI_L2_DCM"]
    assert len(misses) == 11 and misses[2]["exclusive"] is None and misses[2]["inclusive"] is not None
    assert [verdict["code"] for verdict in found["verdicts"]] == ["uneven_ranks"]
    assert main(["analyze", "--csv", "calltree", path]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 12


def test_a_profile_without_times_has_its_tree_and_its_metrics(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    visits = METRICS[0]._replace(type="UINT32")
    (tmp_path / "a").write_bytes(archive(files(SOLVER, PLACES, [visits])))
    assert main(["analyze", str(tmp_path / "a")]) == 0
    assert "no times were measured: visits" in capsys.readouterr().out
    assert main(["analyze", "--json", str(tmp_path / "a")]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [row["count"] for row in found["calltree"]] == [row["exclusive"] for row in found["calltree_metrics"]]
    assert {row["inclusive_ns"] for row in found["calltree"] + found["functions"]} == {None}
    assert found["paradigms_by_rank"] == [] and found["verdicts"] == []


def test_names_are_escaped_when_they_are_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = anchor((Call("a&#27;[31m\u202e"),), [Location("n", 0)], [METRICS[1]]).replace("&amp;#27;", "&#x85;")
    parts = files((Call("a"),), [Location("n", 0)], [METRICS[1]._replace(values=np.ones((1, 1)))])
    (tmp_path / "a").write_bytes(archive(parts | {"anchor.xml": text.encode()}))
    unread = Metric("a\x9b31m\u202e", "RATE", "EXCLUSIVE", "\x9b", np.ones((1, 1)))
    text = anchor((Call("a"),), [Location("n\x9b", 0)], [METRICS[1], unread, METRICS[0]._replace(name="b\x9b")])
    parts |= {"1.index": parts["0.index"], "1.data": parts["0.data"], "2.index": b"\0", "2.data": b"\0"}
    (tmp_path / "b").write_bytes(archive(parts | {"anchor.xml": text.encode()}))
    assert main(["analyze", str(tmp_path / "b")]) == 0
    page = capsys.readouterr().out
    assert "no single numbers" in page and "left out: its index" in page and not set(page) & {"\x9b", "\u202e"}
    for options in ([], ["--csv", "functions"], ["--json"]):
        assert main(["analyze", *options, str(tmp_path / "a")]) == 0
        assert not set(capsys.readouterr().out) & {"\x85", "\u202e", "\x1b"}


def test_what_a_profile_by_sampling_counts_is_called_samples(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With sampling Score-P counts a visit for each sample in which a function, or what it called, ran."""
    calls = (Call("main", "sampling", calls=(Call("solve", "sampling"),)),)
    of_all = [
        Metric("visits", "UINT64", "EXCLUSIVE", "occ", np.array([[100], [90]])),
        Metric("time", "DOUBLE", "INCLUSIVE", "sec", np.array([[1.0], [0.9]])),
    ]
    hits = Metric("hits", "UINT64", "EXCLUSIVE", "occ", np.array([[10], [90]]))
    for name, metrics in (("calls", of_all), ("samples", [*of_all, hits])):
        path = tmp_path / f"{name}.cubex"
        path.write_bytes(archive(files(calls, [Location("n", 0)], metrics)))
        assert main(["analyze", str(path)]) == 0
        page = capsys.readouterr().out
        heads = [line.split() for line in page.splitlines() if "excl %" in line]
        assert [name in head for head in heads] == [True, True]
        tree = tree_of(part_of(read_cube(str(path))))
        assert (
            tree is not None and {"visits": name}.items() <= {each.key: each.title for each in columns_of(tree)}.items()
        )
