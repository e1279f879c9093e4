"""The queries of docs/recording.md and the Python of all pages run as they stand, and agree with what analyze computes."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import fenced
import pytest
from matplotlib import pyplot

import gssr

PAGE = fenced.ROOT / "docs" / "recording.md"
QUERIES = fenced.blocks(PAGE, "sql")
NOTHING_FOUND = {"Gaps"}
"""Sections whose query rightly finds nothing in an ordinary recording."""


def sqlite3_shell(query: str, file: Path) -> list[dict[str, Any]]:
    """The rows of a query, as the sqlite3 shell gives them."""
    done = subprocess.run(
        ["sqlite3", "-readonly", "-bail", "-json", file], input=query, text=True, capture_output=True, timeout=20
    )
    assert done.returncode == 0 and not done.stderr, done.stderr
    return json.loads(done.stdout or "[]")


def query_of(section: str) -> str:
    (block,) = [block for block in QUERIES if block.section == section]
    return block.text


def python_of(page: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The names that a page's Python blocks define, run one after another in this folder."""
    monkeypatch.chdir(folder)
    names: dict[str, Any] = {}
    for block in fenced.blocks(page, "python"):
        exec(compile("\n" * (block.line - 1) + block.text, str(page), "exec"), names)
    return names


@pytest.mark.parametrize("query", QUERIES, ids=lambda block: block.section)
def test_queries_run_in_the_sqlite3_shell(query: fenced.Block, recording: Path, requires) -> None:
    requires("sqlite3", package="sqlite3")
    assert bool(sqlite3_shell(query.text, recording)) != (query.section in NOTHING_FOUND)


def test_queries_pandas_and_analyze_agree(recording: Path, monkeypatch: pytest.MonkeyPatch, requires) -> None:
    requires("sqlite3", package="sqlite3")
    names = python_of(PAGE, recording.parent, monkeypatch)
    analysis = gssr.analyze(gssr.open(recording).runs[0])

    means = sqlite3_shell(query_of("Mean of each GPU"), recording)
    assert [row["samples"] for row in means] == [gpu.n_samples for gpu in analysis.gpus]
    assert [row["sm_active_percent"] / 100 for row in means] == pytest.approx(list(names["means"].sm_active), abs=1e-3)
    assert list(names["means"].sm_active) == pytest.approx([gpu.mean["sm_active"] for gpu in analysis.gpus])

    idle = sqlite3_shell(query_of("Seconds in which a GPU did next to nothing"), recording)
    assert {row["device_index"]: row["idle_s"] for row in idle} == pytest.approx(
        {index: seconds for (_, index), seconds in names["idle"].items()}
    )
    run = gssr.open(recording).runs[0].reader
    samples = run.samples(["sm_active"])
    for position, gpu in enumerate(run.gpus):  # however long the machine made the scenario's 3 s of loading last
        low = samples.values["sm_active"][samples.gpu == position] < 0.1
        assert low.any() and names["idle"][gpu.node, gpu.device_index] == pytest.approx(
            low.sum() * run.sampling_seconds
        )

    joules = sqlite3_shell(query_of("Energy of each GPU"), recording)
    assert {row["gpu"]: row["energy_j"] for row in joules} == pytest.approx(dict(names["joules"]))
    assert sum(names["joules"]) == pytest.approx(analysis.energy_j)

    beside = sqlite3_shell(query_of("Host CPU beside GPU activity"), recording)
    assert [row["sm_active_percent"] / 100 for row in beside] == pytest.approx(
        list(names["beside"].sm_active.dropna()), abs=1e-3
    )
    assert any(row["cpu_percent"] is not None for row in beside)

    told = sqlite3_shell(query_of("Events"), recording)
    assert [row["kind"] for row in told if row["kind"] == "signal"] == ["signal"]
    assert "SIGUSR1" in next(row["message"] for row in told if row["kind"] == "signal")
    assert len(names["gaps"]) == analysis.n_gaps == 0
    assert names["run"].state == "completed"


def test_the_query_for_gaps_finds_those_that_analyze_counts(tmp_path: Path, requires) -> None:
    requires("sqlite3", package="sqlite3")
    generate = "python -m gssr.backends.synthetic gaps --gpus 4 --hours 0.005 -t 100 -o gaps.sql"
    assert fenced.run([generate], tmp_path)[0].exit_code == 0
    found = sqlite3_shell(query_of("Gaps"), tmp_path / "gaps.sql")
    assert len(found) == gssr.analyze(gssr.open(tmp_path / "gaps.sql").runs[0]).n_gaps > 0


def test_the_readmes_python_runs(recording: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = python_of(fenced.ROOT / "README.md", recording.parent, monkeypatch)
    assert names["rows"].sm_active.mean() == pytest.approx(names["run"].analysis.metrics["sm_active"].mean)


def test_the_python_of_the_start_page_draws(recording: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = python_of(fenced.ROOT / "docs" / "start.md", recording.parent, monkeypatch)
    (lines,) = [figure.axes[0].lines for figure in map(pyplot.figure, pyplot.get_fignums())]
    assert [line.get_label() for line in lines] == ["low", "mean", "high"]
    assert names["run"].state == "completed"
    pyplot.close("all")


def test_the_python_of_its_own_page_runs(recording: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(recording, tmp_path)
    names = python_of(fenced.ROOT / "docs" / "python.md", tmp_path, monkeypatch)
    assert names["imported"][0].time_average("sm_active").sm_active.tolist() == pytest.approx([0.4, 0.7])
    assert names["first_gpu"].n_gpus.max() == 1 and len(names["slowest"]) == 3
    split = names["split"].iloc[0]
    assert split[["compute", "exposed_communication", "exposed_copy", "idle"]].sum() == pytest.approx(1)
    assert split.overlap == pytest.approx(0.25) and names["last"].busy.iloc[0] == pytest.approx(500 / 650)


def test_every_table_of_a_run_is_explained_with_its_columns(recording: Path) -> None:
    run = gssr.open(recording)[0]
    rows = dict(
        re.findall(
            r"^\| `run\.(\w+).*?` \|.*?\| (.*) \|$", (fenced.ROOT / "docs" / "python.md").read_text(), re.MULTILINE
        )
    )
    for name, columns in (("space_average", run.space_average("sm_active").columns), ("verdicts", run.verdicts().columns),
                          ("statistics", run.statistics().columns), ("events", run.events.columns),
                          ("time_average", run.time_average([]).columns)):  # fmt: skip
        assert re.findall(r"`(\w+)`", rows[name]) == list(columns), name


def test_analyzes_python_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = fenced.ROOT / "docs" / "analyze.md"
    generate = next(command.text for command in fenced.commands(page) if command.text.endswith("-o train.sql"))
    assert fenced.run([generate], tmp_path)[0].exit_code == 0
    assert 0 < python_of(page, tmp_path, monkeypatch)["analysis"].score < 1
