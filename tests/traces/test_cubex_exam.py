"""Profiles of Score-P against what is known to be in them: tests/fakes/scorep."""

import json
import warnings
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.scorep import cubex, program, truth
from tests.fakes.scorep.said import Rows, analysed, paths, said
from tests.golden.scorep import figures

RAN = program.run(ranks=8, threads=2, gpu=True, steps=3)
TRUTH = truth.of(RAN)


def test_a_profile_has_the_calls_and_times_of_its_program(tmp_path: Path) -> None:
    """There are kernels beside main: a profile can have several roots."""
    profile = analysed(cubex.write(tmp_path / "profile.cubex", cubex.of_program(RAN)))
    meant, tree = TRUTH.by_path(), paths(profile["calltree"])
    assert set(tree) == set(meant)
    for path, spent in meant.items():
        row = tree[path]
        assert row["count"] == spent.count
        assert (
            abs(row["inclusive_ns"] - spent.inclusive) <= 3 * RAN.ranks
            and abs(row["exclusive_ns"] - spent.exclusive) <= 3 * RAN.ranks
        )
    whole = dict.fromkeys(range(RAN.ranks), 0)
    for (path, location), spent in TRUTH.paths.items():
        if path == ("main", "step", "assemble"):
            whole[RAN.locations[location].rank] += spent.inclusive
    row = tree["main", "step", "assemble"]
    assert (row["min_ns"], row["max_ns"]) == pytest.approx((min(whole.values()), max(whole.values())), abs=12)


GROWN = cubex.grown(cnodes=32, ranks=4, threads=2)


@pytest.mark.parametrize(
    "style",
    [
        cubex.Style(), cubex.Style(order=">"), cubex.Style(packed=True, anchor_first=True),
        cubex.Style(order=">", packed=True, checksum="bug", histogram=True),
    ],
    ids=["plain", "big-endian", "packed", "all at once"],
)  # fmt: skip
def test_every_value_of_a_profile_comes_out(style: cubex.Style, tmp_path: Path) -> None:
    found = analysed(cubex.write(tmp_path / "profile.cubex", GROWN, style))
    (source,) = found["sources"]
    assert source["format"] == "cube" and ("H" in " ".join(source["notes"]).split()) is style.histogram, source["notes"]
    # Of nodes that are called alike below one parent nothing says which is which but their order.
    tree, meant = rows_by_node(found["calltree"], GROWN), {}
    inclusive, exclusive = GROWN.inclusive("time"), GROWN.exclusive("time")
    for number in tree:
        of_ranks = [sum(inclusive[number][at : at + 2]) for at in range(0, 8, 2)]
        meant[number] = (
            sum(GROWN.exclusive("visits")[number]),
            sum(inclusive[number]),
            sum(exclusive[number]),
            *_ends(of_ranks),
        )
    for number, row in tree.items():
        times = [row[key] / 1e9 for key in ("inclusive_ns", "exclusive_ns", "min_ns", "max_ns")]
        assert row["count"] == meant[number][0] and times == pytest.approx(meant[number][1:], abs=2e-8), (number, row)
    for name in ("visits", "bytes_sent", "PAPI_TOT_CYC", "min_time", "max_time", "PAPI_L2_DCM"):
        values = {row["id"]: row for row in found["calltree_metrics"] if row["metric"] == name}
        join: Callable[[list[Any]], Any] = {"min_time": min, "max_time": max}.get(name, sum)
        for number, row in tree.items():
            one = values.get(row["id"], {"inclusive": 0.0, "exclusive": 0.0, "unit": ""})
            factor = 1e9 if one["unit"] == "ns" else 1
            assert one["inclusive"] == pytest.approx(factor * join(GROWN.inclusive(name)[number])), (name, number)
            own = GROWN.exclusive(name)[number]
            if min(own) < 0:  # counters took turns: nobody knows
                assert one["exclusive"] is None, (name, number)
            else:
                assert one["exclusive"] == pytest.approx(factor * join(own)), (name, number)
    assert {row["metric"] for row in found["calltree_metrics"]}.isdisjoint({"bytes_received", "hits", "H"})


def _ends(values: list[Any]) -> tuple[Any, Any]:
    return min(values), max(values)


def rows_by_node(rows: Rows, cube: cubex.Cube) -> dict[int, dict[str, Any]]:
    """Rows of a call tree by the profile's nodes: both in the order of the tree, children by name and by time."""
    children, time = cube.children(), cube.inclusive("time")
    names = {node.number: cube.regions[node.region].name for node in cube.nodes}
    below: dict[int | None, Rows] = defaultdict(list)
    for row in rows:
        below[row["parent"]].append(row)
    found: dict[int, dict[str, Any]] = {}

    def match(node_of: int | None, row_of: int | None) -> None:
        nodes = sorted(children.get(node_of, []), key=lambda n: (names[n], sum(time[n])))
        theirs = sorted(below[row_of], key=lambda row: (row["name"], row["inclusive_ns"]))
        assert [names[n] for n in nodes] == [row["name"] for row in theirs]
        for number, row in zip(nodes, theirs, strict=True):
            found[number] = row
            match(number, row["id"])

    match(None, None)
    return found


def test_the_profile_says_what_was_meant(tmp_path: Path) -> None:
    """The examination itself: read by pycubexr, which knows profiles of one root."""
    pycubexr = pytest.importorskip("pycubexr")
    path = cubex.write(tmp_path / "profile.cubex", GROWN, cubex.Style(order=">", packed=True, checksum="bug"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pycubexr.CubexParser(str(path)) as parser:
            for name in ("visits", "time", "bytes_sent", "PAPI_TOT_CYC"):
                values = parser.get_metric_values(parser.get_metric_by_name(name))
                for node in GROWN.nodes:
                    cnode = parser.get_cnode(node.number)
                    both = [
                        values.cnode_values(cnode, convert_to_inclusive=kind, convert_to_exclusive=not kind).tolist()
                        for kind in (True, False)
                    ]
                    assert both == [GROWN.inclusive(name)[node.number], GROWN.exclusive(name)[node.number]]


def test_the_comparison_with_public_profiles_finds_what_differs(tmp_path: Path) -> None:
    pytest.importorskip("pycubexr")
    path = cubex.write(tmp_path / "profile.cubex", GROWN)
    meant, found = figures.figures_of(path, tmp_path, "none/profile.cubex"), analysed(path)
    assert figures.differences(found, meant) == []
    for key in ("count", "inclusive_ns", "exclusive_ns"):
        found["calltree"][5][key] += 100
        assert figures.differences(found, meant)
        found["calltree"][5][key] -= 100
    found["calltree"].pop()
    assert figures.differences(found, meant)


ODD = ("infinite", "minus infinite", "not a number", "beyond all time")
HOSTILE = ("cut", "empty", "pointer", "resource fork", "huge member", "no anchor", "no xml", "laughs", "outside", "deep",
           "huge index", "short data", "unknown node", "bomb", *ODD)  # fmt: skip


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return cubex.hostile(tmp_path_factory.mktemp("hostile"), cubex.grown(8, 2))


@pytest.mark.parametrize("why", HOSTILE)
def test_a_profile_that_nobody_may_believe_is_refused_in_a_line(hostile: dict[str, Path], why: str) -> None:
    code, out, err = said("--json", hostile[why])
    if code == 0:  # only the metric is lost, and that is said
        assert why in ("huge index", "short data", "unknown node", "bomb", *ODD)
        assert "NaN" not in out and "Infinity" not in out
        found = json.loads(out)
        assert found["sources"][0]["notes"] and "time" not in {row["metric"] for row in found["calltree_metrics"]}
        return
    assert (code, out, err.count("\n")) == (1, "", 1), (code, err[:400])
    assert f"{why}.cubex" in err and "Traceback" not in err and "root:" not in err
