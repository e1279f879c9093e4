"""jobstats' summaries of jobs: what GSSR writes is what a recording says, and what it reads is what was written. The
layout is that of jobstats 1.0."""

import base64
import gzip
import json
import sqlite3
from datetime import UTC
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from series import by_gpu, said

from gssr.backends.synthetic.bulk import generate
from gssr.cli import main
from gssr.foreign import jobstats
from gssr.foreign.series import ForeignError, ForeignSeries, ImportHints
from gssr.model.analyze import analyze
from gssr.store.read.recording import open_recording

SECONDS = 72
GIB = 1 << 30


def packed(found: Any) -> str:
    return "JS1:" + base64.b64encode(gzip.compress(json.dumps(found).encode())).decode()


def unpacked(text: str) -> dict[str, Any]:
    assert text.startswith("JS1:H4s") and text.count("\n") == 1
    found: dict[str, Any] = json.loads(gzip.decompress(base64.b64decode(text[4:])))
    return found


def recorded(path: Path, job: str | None = "77", gpus: int = 9) -> Path:
    """Nine GPUs on two nodes, and what the processes of a rank on each did: a row a second."""
    generate(str(path), "imbalanced", gpus, SECONDS / 3600, 0.5)
    with sqlite3.connect(path) as connection:
        run_id, start = connection.execute("SELECT run_id, started_at FROM runs").fetchone()
        connection.execute("UPDATE runs SET job_id = ?, cluster = 'alps'", (job,))
        connection.execute("DELETE FROM workload_samples")
        connection.execute("DELETE FROM workload_rollup")
        rows = [(run_id, rank, start + second, 1.5 + rank, GIB * (1 + second), 3)
                for rank in (0, 1) for second in range(1, 11)]  # fmt: skip
        connection.executemany("INSERT INTO workload_samples VALUES (?, ?, ?, ?, ?, ?)", rows)
        nodes = [node for (node,) in connection.execute("SELECT DISTINCT node FROM gpus ORDER BY node")]
        connection.execute("DELETE FROM processes")
        for rank, node in enumerate(nodes):
            connection.execute(
                "INSERT INTO processes (run_id, rank, node, started_at, state) VALUES (?, ?, ?, ?, 'completed')",
                (run_id, rank, node, start),
            )
    return path


@pytest.fixture
def in_job(monkeypatch: pytest.MonkeyPatch) -> None:
    """Within the job, where Slurm says what it gave it."""
    for name, value in (("JOB_ID", "77"), ("JOB_CPUS_PER_NODE", "72(x2)"), ("MEM_PER_CPU", "1000")):
        monkeypatch.setenv(f"SLURM_{name}", value)
    for name in ("MEM_PER_NODE", "MEM_PER_GPU"):
        monkeypatch.delenv(f"SLURM_{name}", raising=False)


def exported(path: Path, capfd: pytest.CaptureFixture[str], *more: Path) -> tuple[dict[str, Any], str]:
    capfd.readouterr()
    assert main(["export", str(path), *map(str, more), "--format", "jobstats", "-o", "-"]) == 0
    out, err = capfd.readouterr()
    return unpacked(out), err


def test_a_summary_is_what_the_recording_says(tmp_path: Path, in_job: None, capfd: pytest.CaptureFixture[str]) -> None:  # noqa: ARG001
    path = recorded(tmp_path / "a.sql")
    found, err = exported(path, capfd)
    assert found["gpus"] == 9 and found["total_time"] == SECONDS and not err
    reader = open_recording(path).runs[0]
    rows = reader.samples(["gpu_utilization", "memory_used"])
    seen = 0
    for position, gpu in enumerate(reader.gpus):
        own, node, key = rows.gpu == position, found["nodes"][gpu.node], str(gpu.device_index)
        assert node["gpu_utilization"][key] == round(100 * rows.values["gpu_utilization"][own].mean(), 1)
        assert node["gpu_used_memory"][key] == rows.values["memory_used"][own].max()
        assert node["gpu_total_memory"][key] == gpu.memory_total
        seen += 1
    assert seen == 9 == sum(len(node["gpu_utilization"]) for node in found["nodes"].values())
    for rank, node in enumerate(sorted(found["nodes"])):
        own = found["nodes"][node]
        assert own["total_time"] == 10 * (1.5 + rank) and own["used_memory"] == 11 * GIB
        assert own["cpus"] == 72 and own["total_memory"] == 72_000 << 20


def test_what_is_not_known_is_left_out_and_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    path = recorded(tmp_path / "a.sql")

    def forget(*columns: str) -> None:
        with sqlite3.connect(path) as connection:
            connection.execute(f"UPDATE samples SET {', '.join(f'{column} = NULL' for column in columns)}")
            for table in ("rollup", "sketch", "workload_samples"):
                connection.execute(f"DELETE FROM {table}")

    forget("gpu_utilization")
    found, err = exported(path, capfd)
    assert "not known of every node, and left out: cpus, total_time, total_memory, used_memory" in err
    assert {name for node in found["nodes"].values() for name in node} == {
        "gpu_utilization", "gpu_used_memory", "gpu_total_memory",
    }  # fmt: skip
    reader = open_recording(path).runs[0]
    rows = reader.samples(["gr_engine_active"])
    (first,) = (at for at, gpu in enumerate(reader.gpus) if gpu.device_index == 0 and gpu.node == "node0000")
    mean = rows.values["gr_engine_active"][rows.gpu == first].mean()  # as GPM has it
    assert found["nodes"]["node0000"]["gpu_utilization"]["0"] == round(100 * mean, 1)
    forget("gr_engine_active", "memory_used")
    assert main(["export", str(path), "--format", "jobstats", "-o", "-"]) == 0
    assert capfd.readouterr().out == "JS1:None\n"


def test_several_steps_of_a_job_are_added_up_and_several_jobs_are_refused(
    tmp_path: Path,
    in_job: None,  # noqa: ARG001
    capfd: pytest.CaptureFixture[str],
) -> None:
    first, second, other = (
        recorded(tmp_path / f"{name}.sql", job) for name, job in (("1", "77"), ("2", "77"), ("3", "78"))
    )
    with sqlite3.connect(second) as connection:
        for table in ("runs", "gpus", "processes", "events", "process_gpus", "workload_samples"):
            connection.execute(f"UPDATE {table} SET run_id = 'second'")
        connection.execute("UPDATE samples SET gpu_utilization = 1.0")
        for table in ("rollup", "sketch"):
            connection.execute(f"DELETE FROM {table}")
    alone, both = exported(first, capfd)[0], exported(first, capfd, second)[0]
    for node, about in both["nodes"].items():
        assert about["total_time"] == 2 * alone["nodes"][node]["total_time"]
        assert about["used_memory"] == 2 * alone["nodes"][node]["used_memory"]  # at the same time
        for key, percent in about["gpu_utilization"].items():
            assert percent == pytest.approx((alone["nodes"][node]["gpu_utilization"][key] + 100) / 2, abs=0.11)
    assert main(["export", str(first), str(other), "--format", "jobstats", "-o", "-"]) == 1
    assert "these are runs of 2 jobs: a summary of jobstats is of one" in capfd.readouterr().err


def test_what_was_exported_is_imported_with_its_means(tmp_path: Path, in_job: None) -> None:  # noqa: ARG001
    path, text, back = recorded(tmp_path / "a.sql"), tmp_path / "a.js1", tmp_path / "back.sql"
    assert main(["export", str(path), "--format", "jobstats", "-o", str(text)]) == 0
    assert main(["import", str(text), "--start", "1700000000", "-o", str(back)]) == 0
    before, after = open_recording(path).runs[0], open_recording(back).runs[0]
    rows, means = before.samples(["gpu_utilization"]), after.samples(["gpu_utilization"])
    place = {(gpu.node, gpu.device_index): position for position, gpu in enumerate(before.gpus)}
    assert len(means.gpu) == 9 and set(means.time.tolist()) == {1_700_000_000.0 + SECONDS}
    for position, mean in zip(means.gpu.tolist(), means.values["gpu_utilization"].tolist(), strict=True):
        gpu = after.gpus[position]
        own = rows.gpu == place[gpu.node, gpu.device_index]
        assert mean == pytest.approx(rows.values["gpu_utilization"][own].mean(), abs=0.0006)
        assert gpu.memory_total == before.gpus[place[gpu.node, gpu.device_index]].memory_total
    assert after.run.sampling_ms == 1000 * SECONDS and main(["analyze", str(back)]) == 0
    judged = analyze(after).judgement
    assert judged.breakdown is None and judged.not_judged == "no GPU has more than 1 sample" and not judged.verdicts


JOB = {
    "nodes": {
        "n1": {"cpus": 8, "total_time": 1200.5, "total_memory": 64 * GIB, "used_memory": 8 * GIB,
               "gpu_utilization": {"0": 97.5, "3": 0}, "gpu_used_memory": {"0": 30e9, "3": 1e9},
               "gpu_total_memory": {"0": 80e9, "3": 80e9}},
        "n2": {"cpus": 8, "gpu_utilization": {"0": 40.1}},
    },
    "gpus": 3, "total_time": 600,
}  # fmt: skip
WITHOUT_GPUS = {"nodes": {"n1": {"cpus": 8, "total_time": 3.0}}, "gpus": 0, "total_time": 60}


def read(tmp_path: Path, text: str, told: ImportHints = ImportHints()) -> list[ForeignSeries]:  # noqa: B008
    path = tmp_path / "jobs.txt"
    path.write_text(text)
    return jobstats.read([str(path)], told)


@pytest.mark.parametrize("separator", ["|", ","])
def test_a_table_of_sacct_has_a_run_for_each_job_with_gpus(tmp_path: Path, separator: str) -> None:
    rows = [
        ("JobIDRaw", "Start", "End", "Cluster", "User", "AdminComment", "JobName"),
        ("11", "2026-05-01T12:00:00", "2026-05-01T12:10:00", "alps", "anna", packed(JOB), "train"),
        ("12", "1700000000", "Unknown", "alps", "bert", packed(JOB | {"total_time": 60}), "x"),
        ("13", "1700000000", "1700000100", "alps", "bert", "JS1:Short", "x"),
        ("14", "1700000000", "1700000100", "alps", "bert", "", "x"),
        ("15", "1700000000", "1700000100", "alps", "bert", packed(WITHOUT_GPUS), "x"),
        ("16", "1700000000", "1700000100", "alps", "bert", "JS1:H4sIAAAA", "x"),
    ]
    text = "\n".join(separator.join(row) for row in rows) + "\n"
    first, second = read(tmp_path, text, ImportHints(timezone=UTC))
    assert (first.job_id, first.cluster, first.user, first.label) == ("11", "alps", "anna", "train")
    assert (first.started_at, first.ended_at) == (1777636800.0, 1777637400.0)
    assert (second.started_at, second.ended_at) == (1_700_000_000.0, 1_700_000_060.0)
    own = by_gpu(first)
    assert [(each.gpu.node, each.gpu.device_index, each.gpu.memory_total) for each in own] == [
        ("n1", 0, 80_000_000_000), ("n1", 3, 80_000_000_000), ("n2", 0, None),
    ]  # fmt: skip
    np.testing.assert_allclose([each.values["gpu_utilization"][0] for each in own], [0.975, 0.0, 0.401])
    told = said(first)
    assert "the one sample of each GPU is the mean over 600 s" in told
    assert "at most 30.0 GB of 80.0 GB were in use, on n1:0" in told
    assert "n1: the job kept 2.0 of its 8 cores busy, on average" in told and "n2: the job" not in told
    assert (
        "2 jobs without a summary" in told and "1 jobs without GPUs" in told and "job 16: a summary is cut off" in told
    )


def test_summaries_alone_and_json_are_read_and_kept_apart(tmp_path: Path) -> None:
    path, back = tmp_path / "two.txt", tmp_path / "back.sql"
    path.write_text(f"{packed(JOB)}\n{packed(JOB | {'total_time': 60})}\n")
    assert main(["import", str(path), "-o", str(back)]) == 0
    runs = open_recording(back).runs
    assert len(runs) == 2 and all(run.run.run_id.startswith("jobstats-") and len(run.gpus) == 3 for run in runs)
    (series,) = read(tmp_path, json.dumps(JOB, indent=4))
    assert len(by_gpu(series)) == 3 and "as old as the file" in said(series)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("JS1:None\n", "holds no job with GPUs (1 jobs without a summary are left out)"),
        ("JS1:!!!!", "is no sound summary of jobstats"),
        (packed(JOB)[:-40], "is no sound summary of jobstats|a summary is cut off"),
        (packed([1]), "is no summary of jobstats"),
        (packed(JOB | {"total_time": -1}), "does not say how long the job was"),
        (packed({"nodes": {"n1": {"gpu_total_memory": {"0": 5}}}, "total_time": 9}), "knows the utilization of no GPU"),
        ("JS1:" + base64.b64encode(gzip.compress(b" " * (20 << 20))).decode(), "unpacks to more than 16 MB"),
        ("JobID|Comment\n1|x\n", "has no column AdminComment"),
        (f"AdminComment\n{packed(JOB).lower()}\n", "sacctmgr of Slurm before 23.02 made all its letters small"),
    ],
    ids=["none", "no base64", "cut off", "a list", "no length", "no utilization", "a bomb", "no column", "small"],
)
def test_what_holds_nothing_is_one_sentence(tmp_path: Path, text: str, sentence: str) -> None:
    with pytest.raises(ForeignError, match=r"^\S+jobs\.txt: [^\n]+$") as caught:
        read(tmp_path, text)
    assert any(each in str(caught.value) for each in sentence.split("|"))
