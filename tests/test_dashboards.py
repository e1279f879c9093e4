"""Grafana's dashboards in packaging/grafana: what Grafana imports, and queries that a real Prometheus answers, both of a
recording that was exported as OpenMetrics and of the file that a running job publishes."""

import json
import os
import re
import runpy
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from gssr.backends.synthetic.bulk import generate
from gssr.cli import main
from gssr.foreign.prometheus_server import read_server
from gssr.foreign.series import ImportHints
from tests.prometheus import ask, make_blocks, running
from tests.waiting import until

FOLDER = Path(__file__).parents[1] / "packaging" / "grafana"
DASHBOARDS = {path.stem: json.loads(path.read_text()) for path in sorted(FOLDER.glob("*.json"))}
BEGIN, SECONDS = 1_700_000_400, 1200
"""Of the exported recordings."""
LATER, MINUTE, PAUSE = BEGIN + 7200, 60, 10
"""When two short jobs begin to run on the same GPUs, how long each of them runs, and the time between them, s."""
LIVE_SECONDS = 30
"""Of what a job publishes."""
_IN_MATCHER = re.compile(r'=~"\$(\w+)"')


class Source(NamedTuple):
    """Where series come from: a server, and a time, unix s, with so many seconds before it in which it has some."""

    server: str
    end: float
    seconds: int


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What ``gssr profile --textfile`` publishes of a job."""
    folder = tmp_path_factory.mktemp("job")
    (folder / "tf").mkdir()
    environ = os.environ | {"PYTHONPATH": str(FOLDER.parents[1]), "SLURM_JOB_ID": "77"}
    words = ["profile", "--backend", "synthetic:idle:2", "-t", "100", "--no-summary", "-o", "a.sql", "--textfile", "tf"]
    command = [sys.executable, "-m", "gssr", *words, "--", "sleep", "60"]
    process = subprocess.Popen(command, cwd=folder, env=environ, stderr=subprocess.DEVNULL)
    try:
        path = until(lambda: next((folder / "tf").glob("*.prom"), None))
        return path.read_text()
    finally:
        process.terminate()
        process.wait()


@pytest.fixture(scope="module")
def server(published: str, requires: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Prometheus that holds two exported runs, and scrapes what a job publishes, and what the last runs came to."""
    requires("prometheus", "promtool", package="prometheus")
    folder = tmp_path_factory.mktemp("prometheus")
    names = []
    for number, scenario in enumerate(("imbalanced", "idle"), 1):
        names.append(str(folder / f"{scenario}.sql"))
        generate(names[-1], scenario, 9, SECONDS / 3600, 5.0)
        with sqlite3.connect(names[-1]) as connection:
            connection.execute("UPDATE runs SET job_id = ?, user = 'anna', cluster = 'alps'", (str(number),))
    for number, scenario in enumerate(("train", "idle")):
        names.append(str(folder / f"short-{scenario}.sql"))
        generate(names[-1], scenario, 2, MINUTE / 3600, 1.0)
        with sqlite3.connect(names[-1]) as connection:
            connection.execute(
                "UPDATE runs SET job_id = ?, user = 'bert', run_id = ?", (f"short{number}", f"short{number}")
            )
            for table in ("gpus", "processes", "events", "process_gpus"):
                connection.execute(f"UPDATE {table} SET run_id = ?", (f"short{number}",))
            connection.execute("UPDATE samples SET time = time + ?", (LATER - BEGIN + number * (MINUTE + PAUSE),))
    assert main(["export", *names, "--format", "openmetrics", "-o", str(folder / "runs.txt")]) == 0
    assert main(["export", *names, "--format", "prometheus", "-o", str(folder / "last.prom")]) == 0
    scraped = published + (folder / "last.prom").read_text()
    make_blocks(folder, "runs.txt")

    class Node(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write(scraped.encode())

        def log_message(self, *_: object) -> None:
            pass

    node = HTTPServer(("127.0.0.1", 0), Node)
    thread = threading.Thread(target=node.serve_forever, daemon=True)
    thread.start()
    target = f"127.0.0.1:{node.server_port}"
    scrape = {"job_name": "node", "scrape_interval": "1s", "scrape_timeout": "1s"}
    config = {"scrape_configs": [scrape | {"static_configs": [{"targets": [target]}]}]}
    try:
        with running(folder, json.dumps(config)) as address:
            until(lambda: ask(address, "query", query='gssr_run_info{job_id="77"}')["result"])
            yield address
    finally:
        node.shutdown()
        thread.join()
        node.server_close()


@pytest.fixture(params=["exported", "published"])
def source(request: pytest.FixtureRequest, server: str) -> Source:
    if request.param == "exported":
        return Source(server, BEGIN + SECONDS - 5, SECONDS)
    return Source(server, time.time(), LIVE_SECONDS)


def expressions(dashboard: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    return [(panel["title"], target) for panel in dashboard["panels"] for target in panel["targets"]]


def filled(expr: str, source: Source, **chosen: str) -> str:
    """The query as Grafana sends it: All where nothing is chosen."""
    query = _IN_MATCHER.sub(lambda found: f'=~"{chosen.get(found[1], ".*")}"', expr)
    return query.replace("$__range", f"{source.seconds}s").replace("$__interval", f"{max(source.seconds // 100, 1)}s")


def rows(target: dict[str, Any], source: Source, **chosen: str) -> list[dict[str, Any]]:
    """What Prometheus answers to a panel's query."""
    query = filled(target["expr"], source, **chosen)
    assert target["instant"] != target["range"]
    if target["instant"]:
        return ask(source.server, "query", query=query, time=source.end)["result"]
    span = {"start": source.end - source.seconds, "end": source.end, "step": max(source.seconds // 40, 1)}
    return ask(source.server, "query_range", query=query, **span)["result"]


@pytest.mark.parametrize("name", DASHBOARDS)
def test_every_query_returns_rows(name: str, source: Source) -> None:
    answers: dict[str, list[dict[str, Any]]] = {}

    def have_all_rows() -> bool:  # what a job publishes is scraped for a few seconds before a rate has two values
        now = source._replace(end=max(source.end, time.time() if source.seconds == LIVE_SECONDS else 0.0))
        answers.update((title, rows(target, now)) for title, target in expressions(DASHBOARDS[name]))
        return all(answers.values())

    until(have_all_rows, "rows for every query")
    for answer in answers.values():
        for row in answer:
            for _, value in row.get("values", [row.get("value")]):
                assert value not in ("NaN", "+Inf", "-Inf")


@pytest.mark.parametrize("name", DASHBOARDS)
def test_variables_list_values_and_stand_in_matchers_alone(name: str, source: Source) -> None:
    dashboard = DASHBOARDS[name]
    variables = {each["name"]: each for each in dashboard["templating"]["list"]}
    used = set()
    for _, target in expressions(dashboard):
        used |= {found[1] for found in _IN_MATCHER.finditer(target["expr"])}
        assert "$" not in filled(target["expr"], source)
    assert used | {"datasource"} == set(variables)
    for variable in variables.values():
        if variable["name"] == "datasource":
            continue
        assert variable["includeAll"] and variable["allValue"] == ".*" and variable["multi"]
        found = re.fullmatch(r"label_values\((.*),(\w+)\)", variable["definition"])
        assert found and variable["query"]["query"] == variable["definition"]
        asked = {"match[]": filled(found[1], source), "start": source.end - source.seconds, "end": source.end}
        values = {each.get(found[2]) for each in ask(source.server, "series", **asked)} - {None}
        assert values or variable["name"] in ("cluster", "run")  # which a job does not publish


def test_one_job_is_only_that_job(server: str) -> None:
    """Both have the same nine GPUs at the same time; a job that was not there has nothing."""
    source = Source(server, BEGIN + SECONDS - 5, SECONDS)
    targets = dict(expressions(DASHBOARDS["gssr-job"]))
    busy, idle = (rows(targets["SM active"], source, job_id=job)[0]["values"] for job in ("1", "2"))
    assert min(float(value) for _, value in busy[2:-2]) > 0.1 > max(float(value) for _, value in idle)
    lines = rows(targets["SM active, each GPU"], source, job_id="1|2")
    assert len(lines) == 18
    ranks = {(row["metric"]["job_id"], row["metric"]["node"], row["metric"]["gpu"])
             for row in rows(targets["The job's GPUs"], source)}  # fmt: skip
    assert len(ranks) == 18
    assert not any(rows(target, source, job_id="3") for target in targets.values())
    idle_ones = dict(expressions(DASHBOARDS["gssr-fleet"]))["GPUs idle for 15 min, or for all of a younger job"]
    assert {row["metric"]["job_id"] for row in rows(idle_ones, source)} == {"2"}
    least = rows(dict(expressions(DASHBOARDS["gssr-fleet"]))["The twenty least used jobs"], source)
    assert [row["metric"]["job_id"] for row in least] == ["2", "1"]


def test_a_job_has_no_values_of_the_job_before_it_nor_any_after_its_end(server: str) -> None:
    """Prometheus repeats values for five minutes: as long as both jobs and the time after them."""
    first_end, second = LATER + MINUTE, LATER + MINUTE + PAUSE
    source = Source(server, second + MINUTE + 240, 2 * MINUTE + PAUSE + 240)
    job, fleet = (dict(expressions(DASHBOARDS[name])) for name in ("gssr-job", "gssr-fleet"))

    def curve(target: dict[str, Any], **chosen: str) -> dict[float, float]:
        (line,) = rows(target, source, **chosen)
        return {time: float(value) for time, value in line["values"]}

    busy, idle = (curve(job["SM active"], job_id=name) for name in ("short0", "short1"))
    assert min(busy) >= LATER and max(busy) <= first_end and min(busy.values()) > 0.02
    assert second <= min(idle) and max(idle) <= second + MINUTE and max(idle.values()) < 0.02
    held = curve(fleet["GPUs with a job"])
    assert set(held.values()) == {2.0}
    assert all(LATER <= time <= first_end or second <= time <= second + MINUTE for time in held)
    assert curve(fleet["SM active"]) == busy | idle
    least = rows(fleet["The twenty least used jobs"], source)
    means = {row["metric"]["job_id"]: float(row["value"][1]) for row in least}
    assert list(means) == ["short1", "short0"] and means["short1"] < 0.02
    assert means["short0"] == pytest.approx(sum(busy.values()) / len(busy), rel=0.1)
    assert not rows(fleet["GPUs idle for 15 min, or for all of a younger job"], source)


def test_gssr_asks_the_server_for_what_the_dashboards_show(server: str) -> None:
    """The run's name, which no series has, comes from the info metric; of two runs at a time it is said."""
    now = time.time()
    live = read_server(server, now - 20, now, ImportHints(interval=1.0), None)
    assert sum(len(piece.time) for piece in live.pieces) > 0
    assert live.job_id == "77" and {gpu.name for gpu in live.gpus} == {"Synthetic H100"}
    both = read_server(server, BEGIN, BEGIN + 100, ImportHints(interval=5.0), None)
    assert sum(len(piece.time) for piece in both.pieces) > 0
    assert both.job_id is None and any("2 runs of GSSR are in it" in note.text for note in both.notes)


def test_the_documented_query_finds_the_hours_that_idle_gpus_cost_each_user(server: str) -> None:
    page = (FOLDER.parents[1] / "docs" / "export.md").read_text(encoding="utf-8")
    query = page.partition("**GPU-hours in which GPUs did nothing")[2].partition("```promql")[2].partition("```")[0]
    answer = ask(server, "query", query=query)["result"]
    hours = {row["metric"]["user"]: float(row["value"][1]) for row in answer}
    last = ask(server, "query", query="sum by (user) (gssr_last_run_info)")["result"]
    assert hours.keys() == {row["metric"]["user"] for row in last} and "bert" in hours
    assert all(0 < value < 9 * SECONDS / 3600 for value in hours.values())


def test_promtool_has_nothing_to_say_about_what_is_published(published: str, requires: Any) -> None:
    requires("promtool", package="prometheus")
    done = subprocess.run(["promtool", "check", "metrics"], input=published, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("name", DASHBOARDS)
def test_grafana_can_import_it(name: str) -> None:
    """What Grafana needs: a current schema, a variable for the data source, ids, places that do not overlap."""
    dashboard = DASHBOARDS[name]
    assert dashboard["uid"] == name and dashboard["schemaVersion"] >= 39 and "id" not in dashboard
    source = dashboard["templating"]["list"][0]
    assert (source["name"], source["type"], source["query"]) == ("datasource", "datasource", "prometheus")
    panels = dashboard["panels"]
    assert len({panel["id"] for panel in panels}) == len({panel["title"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert not cells & taken and max(x for x, _ in cells) < 24 and panel["description"]
        taken |= cells
        assert panel["type"] in ("timeseries", "stat", "table")
        for part in (panel, *panel["targets"]):
            assert part["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])


def test_they_are_what_the_script_makes() -> None:
    script = runpy.run_path(str(FOLDER / "make_dashboards.py"))
    made = {f"gssr-{name}": script["text_of"](name) for name in script["DASHBOARDS"]}
    assert made == {path.stem: path.read_text() for path in FOLDER.glob("*.json")}
