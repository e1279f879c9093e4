"""Metrics of the nodes on the screens: a row a node, beside the GPUs' or alone."""

import re
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from textual.pilot import Pilot

from gssr.api.writing import from_pandas
from gssr.metrics import NAMES, OF_NODES, metric_named
from gssr.model.live.judge import asked_of
from gssr.model.live.live_result import Query, Result
from gssr.model.live.watched_recording import WatchedRecording
from gssr.model.verdicts.rules import TABLE
from gssr.report.live.metric_scales import full_scale
from gssr.store.format.schema import TABLES
from gssr.store.write.writer import Writer
from gssr.tui.moves import measured, of_metric
from gssr.tui.view import Scene, ScreenName, View
from tests.looking import live_screen, looked_at, seen, until, work

START, SECONDS = 1_700_000_000.0, 120
LOADING = slice(60, 70)
"""Seconds in which the GPUs of the second node wait for its one busy core, and its disk."""
SCREENS: tuple[ScreenName, ...] = ("job", "gpus", "time", "balance", "why")


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Two nodes of two GPUs, sampled each second."""
    path = tmp_path_factory.mktemp("nodes") / "a.sql"
    seconds = np.arange(SECONDS)
    waits = (seconds >= LOADING.start) & (seconds < LOADING.stop)
    samples = pd.concat(
        pd.DataFrame({"gpu": gpu, "time": START + seconds, "sm_active": np.where(waits & (gpu >= 2), 0.05, 0.9)})
        for gpu in range(4)
    )
    gpus = pd.DataFrame({"node": ["n1.site", "n1.site", "n2.site", "n2.site"], "device_index": [0, 1, 0, 1]})
    host = pd.concat(
        pd.DataFrame(
            {
                "node": node,
                "time": START + seconds + 0.5,
                "cpu_utilization": np.where(waits & second, 0.02, 0.6),
                "memory_used": (8 if second else 4) * 2**30,
                "memory_total": 16 * 2**30,
                "read_bytes": np.where(waits & second, 3.1e9, 1e7),
                "write_bytes": 0.0,
            }
        )
        for second, node in enumerate(("n1.site", "n2.site"))
    )
    from_pandas(samples, path, gpus=gpus, host=host)
    return str(path)


@pytest.fixture(scope="module")
def cpu_node(fake_driver, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A real recording where there is no GPU."""
    path = tmp_path_factory.mktemp("cpu") / "a.sql"
    words = ["profile", "-o", str(path), "--", "sleep", "2.5"]
    environ = fake_driver.environ(gpus=0) | {"DCGM_HOST": "127.0.0.1:1"}
    subprocess.run([sys.executable, "-m", "gssr", *words], env=environ, check=True, timeout=60)
    return str(path)


def looked(path: str, **asked: object) -> Result:
    with closing(WatchedRecording(path)) as watch:
        return watch.look(replace(Query(), **asked))  # type: ignore[arg-type]


def scene_of(path: str, view: View) -> Scene:
    with closing(WatchedRecording(path)) as watch:
        return Scene(watch.look(view.query(80)), None, view)


def test_a_metric_of_nodes_has_a_row_for_each(job: str) -> None:
    frame = looked(job, metric="host:cpu_utilization", columns=12, width=10.0)
    assert [frame.place(at) for at in range(frame.n_gpus)] == ["n1", "n2"] and frame.noun == "node"
    known = frame.grid.values[:, np.isfinite(frame.grid.values).all(axis=0)]
    assert np.allclose(known[0], 0.6) and known[1].min() < 0.1 and known[1].max() == pytest.approx(0.6)
    assert frame.whole.per_gpu("host:cpu_utilization").tolist() == pytest.approx([0.6, (110 * 0.6 + 10 * 0.02) / 120])
    assert frame.whole.per_gpu("host:memory_used").tolist() == pytest.approx([0.25, 0.5])
    assert "host:fabric_rx_bytes" not in frame.whole.measured()


def test_columns_are_those_of_the_gpus(job: str) -> None:
    for asked in ({}, {"span": 30.0}, {"span": 30.0, "end": START + 80}):
        nodes, gpus = looked(job, metric="host:read_bytes", **asked), looked(job, **asked)
        assert (nodes.grid.start, nodes.grid.width, nodes.grid.n) == (gpus.grid.start, gpus.grid.width, gpus.grid.n)
        assert nodes.of_gpus is not None and np.array_equal(nodes.of_gpus.grid.values, gpus.grid.values, equal_nan=True)


def test_a_sample_stands_for_the_second_before_it_and_a_hole_stays_one(tmp_path: Path) -> None:
    seconds = np.array([0.0, 1.0, 2.0, 6.0, 7.0])
    samples = pd.DataFrame({"gpu": 0, "time": START + np.arange(80) / 10, "sm_active": 0.5})
    host = pd.DataFrame({"node": "n", "time": START + seconds, "cpu_utilization": seconds / 10})
    gpus = pd.DataFrame({"node": ["n"]})
    from_pandas(samples, tmp_path / "a.sql", gpus=gpus, host=host)
    grid = looked(str(tmp_path / "a.sql"), metric="host:cpu_utilization", columns=81, width=0.1).grid

    def at(second: float) -> float:
        return float(grid.values[0, grid.column(START + second)])

    assert at(0.55) == pytest.approx(0.1) and at(1.95) == pytest.approx(0.2)
    assert np.isnan([at(3.05), at(4.05)]).all() and at(5.55) == pytest.approx(0.6) and np.isnan(at(7.55))


def test_rates_are_drawn_against_a_round_number_above_the_greatest(job: str) -> None:
    frame = looked(job, metric="host:read_bytes")
    assert full_scale(frame, "host:read_bytes") == pytest.approx(5e9)
    assert full_scale(looked(job, metric="host:read_bytes", span=10.0), "host:read_bytes") == pytest.approx(5e9)
    assert full_scale(frame, "host:write_bytes") == pytest.approx(1e6)
    assert full_scale(frame, "host:cpu_utilization") == 1.0


def test_every_metric_of_nodes_can_be_looked_at(job: str) -> None:
    view, seen = View(), set()
    for name in measured(scene_of(job, view)):
        view = of_metric(scene_of(job, view), name)
        seen.add(view.metric)
        assert metric_named(view.metric) is not None
    assert {name for name in OF_NODES if not name.startswith(("host:net", "host:fabric"))} <= seen
    assert "sm_active" in seen and measured(scene_of(job, view)) == measured(scene_of(job, View()))


def test_a_selection_becomes_the_nodes_of_its_gpus_and_back(job: str) -> None:
    view = View(screen="gpus", selection=(3,), metric="sm_active")
    after = of_metric(scene_of(job, view), "host:cpu_utilization")
    assert after.metric == "host:cpu_utilization" and after.selection == (1,)
    scene = scene_of(job, after)
    assert scene.frame.of_gpus is not None and scene.frame.of_gpus.query.gpus == (2, 3)
    back = of_metric(scene, "sm_active")
    assert back.metric == "sm_active" and back.selection == (2, 3)


def test_the_rules_are_asked_the_same_whatever_metric_is_looked_at(job: str) -> None:
    view = View()
    own, of_nodes = (scene_of(job, replace(view, metric=metric)).frame for metric in ("", "host:cpu_utilization"))
    asked = [asked_of(replace(frame, query=replace(frame.query, causes=None))) for frame in (own, of_nodes)]
    assert asked[0] is None  # nobody asks
    with closing(WatchedRecording(job)) as watch:
        frames = [watch.look(replace(view.query(80), metric=name, causes=TABLE)) for name in ("", "host:read_bytes")]
    assert asked_of(frames[0]) == asked_of(frames[1]) is not None


def test_the_dip_of_the_gpus_stands_beside_what_the_nodes_did(job: str) -> None:
    then, whole = looked_at(
        job, views=[View(screen="time", cursor=START + LOADING.start + 5), View(screen="time")], size=(110, 40)
    )
    assert re.search(r"CPU +31\.0 %", then) and re.search(r"[Rr]ead\S* +1555 MB/s|1\.55 GB/s", then)
    assert re.search(r"CPU +57\.6 %", whole)


def test_job_keeps_the_gpus_score(job: str) -> None:
    own, of_nodes = looked_at(job, views=[View(), View(metric="host:cpu_utilization")], size=(120, 40))
    assert "of all nodes" in of_nodes and re.search(r"^.*\bn2 ", of_nodes, re.M)
    assert own.splitlines()[3:7][0][:40] == of_nodes.splitlines()[3:7][0][:40]


@pytest.mark.parametrize("has_gpus", [True, False])
def test_every_screen_draws_whatever_the_nodes_did(job: str, cpu_node: str, has_gpus: bool) -> None:
    metrics = "host:cpu_utilization", "host:fabric_rx_bytes"
    app = live_screen(job if has_gpus else cpu_node)

    def is_there(view: View) -> bool:
        is_shown = app.view.screen == view.screen and app.results[0].query.metric == view.metric
        return is_shown and len(seen(app).splitlines()) >= 8

    async def steps(pilot: Pilot[int]) -> None:
        for size in ((40, 10), (140, 50)):
            await pilot.resize_terminal(*size)
            for screen in SCREENS:
                for metric in metrics if size == (40, 10) else metrics[:1]:
                    app.go_to_screen(view := View(screen=screen, metric=metric))
                    await until(pilot, lambda view=view: is_there(view))  # type: ignore[misc]

    work(app, steps, (40, 10))


def test_where_there_is_no_gpu_the_node_is_shown(cpu_node: str) -> None:
    for screen in SCREENS:
        frame = scene_of(cpu_node, View(screen=screen)).frame
        assert frame.by_node and frame.n_gpus == 1 and frame.grid.metric == "host:cpu_utilization"
        assert np.isfinite(frame.grid.values).any() and asked_of(frame) is None
    for text in looked_at(cpu_node, views=[View(screen=screen) for screen in SCREENS], size=(120, 40)):
        assert "0 GPUs on 1 node" in text and "cpu" in text.lower()
        assert "The rules look at" not in text and "lowest GPU" not in text


def test_the_job_screen_says_why_no_gpu_was_recorded(cpu_node: str) -> None:
    (text,) = looked_at(cpu_node, views=[View()], size=(200, 60))
    words = " ".join(text.replace("│", " ").split())
    assert "No GPU was recorded" in words and "NVIDIA's driver shows this process no GPU" in words


@pytest.mark.parametrize("n_gpus", [0, 2])
def test_what_comes_is_shown_and_no_axis_sinks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, n_gpus: int) -> None:
    for name in ("nodes._LAG", "kept_answers.LAG_COSTS"):
        monkeypatch.setattr(f"gssr.model.live.{name}", 0.0)
    writer = Writer(str(tmp_path / "a.sql"))
    writer.begin(
        {"run_id": "r", "state": "running", "started_at": START, "sampling_ms": 1000.0},
        {"rank": 0, "node": "n", "hostname": "elsewhere", "state": "running"},
    )
    writer.add_gpus([{"device_index": index, "uuid": f"GPU-{index}"} for index in range(n_gpus)], ("sm_active",), 1.0)
    names = [column.name for column in TABLES["host_samples"]][3:]
    read_at = names.index("read_bytes")

    def grow(seconds: range, rate: float) -> None:
        for second in seconds:
            writer.add(
                [
                    (gpu, START + second, *(0.5 if name == "sm_active" else None for name in NAMES))
                    for gpu in range(n_gpus)
                ]
            )
            values = [None] * len(names)
            values[read_at] = rate
            writer.add_host(START + second, values)
        writer.commit(START + seconds.stop)

    query = replace(Query(), metric="host:read_bytes", span=10.0)
    with closing(WatchedRecording(str(tmp_path / "a.sql"))) as watch:
        fulls, newest = [], []
        for turn, rate in enumerate((1e6, 4e8, 2e6)):
            grow(range(20 * turn, 20 * turn + 20), rate)
            frame = watch.look(query)
            assert frame.state == "live" and frame.by_node and (frame.of_gpus is None) == (n_gpus == 0)
            assert frame.last == START + 20 * turn + 19
            fulls.append(full_scale(frame, "host:read_bytes"))
            newest.append(float(frame.latest[0]))
    assert fulls == pytest.approx([1e6, 5e8, 5e8]) and newest == pytest.approx([1e6, 4e8, 2e6])
    writer.finish(START + 60, 0, "completed", START + 60)
