"""The queries of docs/export.md run in DuckDB and agree with what gssr says; the keys and formulas of docs/fleet.md hold."""

import inspect
import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import fenced
import pytest

from gssr.cli import main
from gssr.commands import fleet as command
from gssr.commands import sacct
from gssr.convert.tables import EXPORTED
from gssr.model.analyze import analyze
from gssr.model.fleet.allocations import FIELDS
from gssr.model.fleet.fleet import BY, SORTS, Fleet, groups, read_fleet

DOCS = fenced.ROOT / "docs"
EXPORT = DOCS / "export.md"
QUERIES = {block.section: block.text for block in fenced.blocks(EXPORT, "sql")}


class Exported:
    """The recordings of docs/export.md in a folder, the page's views on what was exported of them, and their figures."""

    def __init__(self, folder: Path) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(folder)
            record, export, *_ = (command.text for command in fenced.commands(EXPORT))
            (recorded,) = fenced.run([record], folder)
            for user, path in zip(("ada", "bob", "cleo"), sorted(folder.glob("*.sql")), strict=True):
                with closing(sqlite3.connect(path)) as connection, connection:
                    connection.execute("UPDATE runs SET user = ?", (user,))
            to_data_set = "gssr export *.sql --dataset runs.dataset"
            for found in (recorded, *fenced.run([export, to_data_set], folder)):
                assert found.exit_code == 0, found.output
            names: dict[str, Any] = {}
            for block in fenced.blocks(EXPORT, "python"):
                exec(compile("\n" * (block.line - 1) + block.text, str(EXPORT), "exec"), names)
            views, *_ = fenced.blocks(EXPORT, "python")
            self.of_data_set: dict[str, Any] = {}
            exec(views.text.replace("gssr_export", "runs.dataset"), self.of_data_set)
        self.folder, self.names = folder, names
        self.connection: duckdb.DuckDBPyConnection = names["connection"]
        self.fleet: Fleet = read_fleet(sorted(map(str, folder.glob("*.sql"))))

    def rows(self, section: str) -> list[dict[str, Any]]:
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(self.folder)  # the views read the folder that the page names
            done = self.connection.execute(QUERIES[section])
            names = [column[0] for column in done.description or ()]
            return [dict(zip(names, row, strict=True)) for row in done.fetchall()]


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Exported:
    return Exported(tmp_path_factory.mktemp("exported"))


def test_the_views_of_the_page_read_a_data_set_as_well(exported: Exported) -> None:
    assert exported.of_data_set["by_label"] == exported.names["by_label"]


def test_the_page_asks_sacct_for_what_gssr_asks_it_for() -> None:
    (command,) = (block.text for block in fenced.blocks(DOCS / "fleet.md", "sh") if block.text.startswith("sacct "))
    source = inspect.getsource(sacct.from_slurm)
    assert set(re.findall(r"--[a-z]+[0-9]?", command.partition("gssr ")[0])) == set(
        re.findall(r"--[a-z]+[0-9]?", source)
    ) - {"--endtime"}
    assert f"--format={','.join(FIELDS)} " in command


@pytest.mark.parametrize("section", QUERIES)
def test_queries_run_in_duckdb(exported: Exported, section: str) -> None:
    assert exported.rows(section)


def test_queries_agree_with_fleet_and_analyze(exported: Exported) -> None:
    runs = exported.fleet.runs
    by_user = groups(runs, "user")
    assert len(by_user) == 3
    assert [row["user"] for row in exported.rows("Who wastes most")] == [group.key for group in by_user]
    for row, group in zip(exported.rows("Who wastes most"), by_user, strict=True):
        assert (row["runs"], row["wasted"], row["gpu_hours"]) == (
            group.n_runs, pytest.approx(group.wasted_gpu_hours), pytest.approx(group.gpu_hours),
        )  # fmt: skip
        assert row["kwh"] == pytest.approx(group.energy_j / 3.6e6)
    (week,) = exported.rows("Score week by week")
    assert week["gpu_hours"] == pytest.approx(sum(run.gpu_hours for run in runs))

    import gssr

    told = {row["code"] for row in exported.rows("GPU-hours by verdict")}
    analyses = [analyze(gssr.open(run.file)[0].reader) for run in runs]
    assert told == {verdict.code for analysis in analyses for verdict in analysis.judgement.verdicts}
    idle = exported.rows("GPU-hours at a low load")[0]
    assert idle["label"] == "synthetic idle" and idle["gpu_hours"] == pytest.approx(0.4)
    (model,) = exported.rows("Percentiles over all GPUs of a model")
    assert model["name"] == "Synthetic H100" and model["power_w"] == sorted(model["power_w"])
    assert exported.names["by_label"][0] == ("synthetic idle", pytest.approx(0.0))


def test_what_is_not_run_is_python_at_least() -> None:
    blocks = fenced.blocks(EXPORT, "py")
    for block in blocks:
        compile(block.text, str(EXPORT), "exec")
        assert set(re.findall(r"gssr_export/(\w+)", block.text)) <= set(EXPORTED)
    assert len(blocks) == 2 and "not run by the tests" in EXPORT.read_text(encoding="utf-8")


def test_every_key_of_a_fleet_is_explained(exported: Exported, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fleet", "--json", str(exported.folder)]) == 0
    found = json.loads(capsys.readouterr().out)
    section = (DOCS / "fleet.md").read_text(encoding="utf-8").partition("## For programs")[2]
    explained = set(re.findall(r"`(\w+)`", section))
    assert {*found, *found["groups"], *found["groups"]["label"][0], *found["totals"], *found["scores"][0]} <= explained
    assert {"node", "n_runs", "n_slow", "gpu_hours", "devices", "throttled", "lowest_clock"} <= explained
    assert set(found["runs"][0]) == {column.name for column in EXPORTED["summary"].columns} | {
        "verdicts", "hours_by_category",
    }  # fmt: skip
    assert found["schema"] == "gssr.fleet/1" and len(found["runs"]) == 3


def test_the_choices_of_the_command_are_those_of_the_model() -> None:
    assert tuple(name for name in BY if name not in command.OLD_BY) == command.BY
    assert tuple(name for name in SORTS if name != command.LOST) == command.SORTS
    row = next(line for line in (DOCS / "fleet.md").read_text().splitlines() if line.startswith("| `--sort"))
    assert [word for word in re.findall(r"`([\w-]+)`", row) if not word.startswith("--")] == list(SORTS)
