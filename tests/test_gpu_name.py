"""A GPU has one name: on pages and screens, in JSON, CSV and reports, and in what --gpus and filters take."""

import csv
import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

import gssr
from gssr.cli import main
from gssr.gpu_name import gpu_label, is_named, without_domains
from gssr.model.live.live_result import Query
from gssr.model.live.watched_recording import WatchedRecording
from gssr.store.format.rows import Gpu
from gssr.tui.export import to_csv


def _gpu(node: str | None, index: int | None, mig: str | None = None, uuid: str | None = "GPU-5a7e") -> Gpu:
    return Gpu(0, "r", node, 0, index, uuid, *[None] * 8, mig)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("gpu", "name"),
    [
        (_gpu("n1", 0), "n1:0"),
        (_gpu(None, None), "?:?"),
        (_gpu("n1", 0, "1g.10gb (instance 7)"), "n1:0.1g.10gb-instance-7"),
        (_gpu("n1", 0, "GI 1 CI 0"), "n1:0.GI-1-CI-0"),
        (_gpu("n1.cluster.org", 3), "n1.cluster.org:3"),
    ],
)
def test_a_place_is_one_word_and_names_its_gpu(gpu: Gpu, name: str) -> None:
    assert gpu_label(gpu) == name
    assert is_named(gpu, name) and not any(char.isspace() for char in name)


def test_patterns_name_nodes_gpus_instances_and_uuids() -> None:
    gpu = _gpu("n1.cluster.org", 0, "1g.10gb (instance 7)", "MIG-5a7e")
    named = ("n1", "n1.cluster.org", "n1:0", "n1.cluster.org:0", "*:0", "n1:0.1g*", "n1:0.1g.10gb-instance-7", "mig-5")
    assert all(is_named(gpu, pattern) for pattern in named)
    assert not any(is_named(gpu, pattern) for pattern in ("n", "n1:1", "n1:0.2g*", "MIG-6", "mig", "cluster.org"))


def test_domains_are_left_out_where_hosts_are_told_apart_without() -> None:
    assert without_domains(("a.x", "b.x")) == ("a", "b")
    assert without_domains(("a.x", "a.y")) == ("a.x", "a.y")
    assert without_domains(("10.0.0.1", "10.0.0.2")) == ("10.0.0.1", "10.0.0.2")


@pytest.fixture(scope="module")
def instances(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A recording of four MIG instances of one GPU."""
    from gssr.backends.synthetic.__main__ import main as make

    path = tmp_path_factory.mktemp("mig") / "mig.sql"
    make(["train", "--gpus", "4", "--hours", "0.02", "-t", "1000", "-o", str(path)])
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE gpus SET device_index = 0, mig = '1g.10gb (instance ' || (gpu + 7) || ')'")
    yield path


def test_four_instances_of_one_gpu_have_four_names_the_same_everywhere(
    instances: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["analyze", "--json", str(instances)]) == 0
    run = json.loads(capsys.readouterr().out)["runs"][0]
    names = [gpu["place"] for gpu in run["gpus"]]
    assert len(set(names)) == 4 and all(gpu["mig"] for gpu in run["gpus"])
    assert main(["analyze", "--terminal", "--width", "200", str(instances)]) == 0
    page = capsys.readouterr().out
    report = tmp_path / "report.html"
    assert main(["analyze", "--report", str(report), str(instances)]) == 0
    with closing(WatchedRecording(str(instances))) as watch:
        frame = watch.look(Query(columns=60))
    assert [frame.place(gpu) for gpu in range(4)] == names
    assert main(["export", "--format", "csv", "--tables", "gpus", "-o", str(tmp_path / "csv"), str(instances)]) == 0
    with (tmp_path / "csv" / "gpus.csv").open(newline="") as file:
        assert [row["place"] for row in csv.DictReader(file)] == names
    assert to_csv(frame).splitlines()[0].split(",")[2:] == [f"sm_active {name}" for name in names]
    assert all(name in page and name in report.read_text() for name in names)
    assert list(gssr.open(instances).runs[0].gpus["place"]) == names


def test_gpus_takes_each_name_that_is_shown(instances: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["analyze", "--json", str(instances)]) == 0
    gpus = json.loads(capsys.readouterr().out)["runs"][0]["gpus"]
    for gpu in gpus:
        assert main(["analyze", "--json", "--gpus", gpu["place"], str(instances)]) == 0
        assert [each["uuid"] for each in json.loads(capsys.readouterr().out)["runs"][0]["gpus"]] == [gpu["uuid"]]
