"""Profiles of Proton as call trees: every sum is what a walk through the JSON gives."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from gssr.cli import main
from gssr.recognise import recognise
from gssr.traces.proton import read_proton
from gssr.traces.timeline import TraceError
from tests.fakes.traces.proton import node, profile


def _written(folder: Path, told: Any, indent: int | None = 2) -> str:
    path = folder / "a profile"
    path.write_text(json.dumps(told, indent=indent))
    return str(path)


def _walked(told: dict[str, Any], depth: int = 0) -> list[tuple[str, int, float, float]]:
    """Name, depth, and time with and without what is below, of each call path in order."""
    below = [row for child in told["children"] for row in _walked(child, depth + 1)]
    own = float(told["metrics"].get("time (ns)", 0))
    return [(told["frame"]["name"], depth, own + sum(row[3] for row in below), own), *below]


def _metrics(told: dict[str, Any]) -> list[dict[str, Any]]:
    """The metrics of each call path in order."""
    return [told["metrics"], *(one for child in told["children"] for one in _metrics(child))]


@pytest.mark.parametrize("indent", [None, 2])
def test_times_are_those_of_a_walk(indent: int | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = _written(tmp_path, profile(), indent)
    assert recognise(path) == ("proton", "")
    assert main(["analyze", "--csv", "calltree", path]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    found = [(row["name"], int(row["depth"]), float(row["inclusive_ns"]), float(row["exclusive_ns"])) for row in rows]
    assert found == [(name, depth - 1, whole, own) for name, depth, whole, own in _walked(profile()[0])[1:]]
    assert [row["count"] for row in rows] == [str(told.get("count", "")) for told in _metrics(profile()[0])[1:]]


def test_the_page_and_other_metrics_say_it_by_gpu(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = _written(tmp_path, profile())
    assert main(["analyze", path]) == 0
    page = capsys.readouterr().out
    assert "2 GPUs, 7 call paths, by Proton" in page and "50 µs on 2 GPUs" in page
    assert page.splitlines()[-1] == "GSSR cuda=1.000 gpus=2 functions=6"
    assert main(["analyze", "--csv", "calltree_metrics", path]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    flops = {row["id"]: float(row["inclusive"]) for row in rows if row["metric"] == "flops"}
    assert flops == {str(at): 1e12 * (at == 5) for at in range(7)}


def test_the_page_says_how_fast_scopes_and_kernels_are_that_tell_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gemm = node("gemm", ns=2_000, flops16=3e6, flops8=1e6, bytes=8_000)
    root = node("ROOT", node("layer", gemm, node("norm", ns=2_000), flops=4e6), node("silent", node("x", ns=5_000)))
    assert main(["analyze", _written(tmp_path, [root, {}])]) == 0
    page = capsys.readouterr().out
    rows = [line.split() for line in page[page.index("How fast?") :].split("\n\n")[0].splitlines()[2:]]
    # layer: 4e6 of its own and 4e6 of gemm in 4 µs; gemm: 4e6 in 2 µs
    assert rows == [["layer", "4", "µs", "2.00", "2.00"], ["gemm", "2", "µs", "2.00", "4.00"]]
    assert main(["analyze", _written(tmp_path, [node("ROOT", node("x", ns=5_000)), {}])]) == 0
    assert "How fast?" not in capsys.readouterr().out


def test_no_gpu_differs_where_all_take_equally_long(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for of_second, differs in ((205_000, False), (210_000, True)):
        kernels = node("a", ns=205_000), node("b", ns=of_second, gpu=1)
        assert main(["analyze", "-v", "high", _written(tmp_path, [node("ROOT", *kernels)])]) == 0
        page = capsys.readouterr().out
        assert ("Which GPU differs?" in page) == differs
        assert "no time of a GPU's work is in the trace" in " ".join(page.split())
        assert "no work of a GPU" not in page


def test_what_belongs_to_no_gpu_is_said(tmp_path: Path) -> None:
    two = node("both", node("a", ns=1), node("b", ns=2, gpu=1), flops=5.0)
    (source,) = read_proton(_written(tmp_path, [node("ROOT", two)])).sources
    assert source.notes == ("values of scopes with kernels on several GPUs, which are left out: 1",)


@pytest.mark.parametrize(
    ("told", "why"),
    [
        ([node("ROOT", node("a"))], "holds no kernel"),
        ([{"children": [], "frame": {}}], "holds no kernel"),
        ([node("ROOT", *(node("k", ns=1, gpu=n) for n in range(1100)))], "are more than fit into memory"),
    ],
)
def test_what_holds_no_kernel_is_refused_in_a_sentence(told: Any, why: str, tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=why):
        read_proton(_written(tmp_path, told))


def test_a_cut_profile_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = Path(_written(tmp_path, profile()))
    path.write_text(path.read_text()[:500])
    assert main(["analyze", str(path)]) == 1
    assert "is cut off, or no sound JSON" in capsys.readouterr().err
