"""What is said of the nodes is what a plain query on the recording gives."""

import sqlite3

import pytest

from gssr.model.analyze import Options, analyze
from gssr.store.read.recording import open_recording
from gssr.store.write.writer import Writer

START = 1_700_000_000.0


def record(path, rank: int, node: str) -> None:
    writer = Writer(str(path))
    run = {"run_id": "r", "started_at": START, "sampling_ms": 500.0, "state": "running"}
    writer.begin(run, {"rank": rank, "node": node, "state": "running"})
    for second in range(20):
        first = None if second == 0 else 0.1 * rank + 0.01 * second
        writer.add_host(START + second, (first, 1.5, 1000 * (second + 1), 64_000, first, 2.0, 3.0, None, None, 4.0))
        writer.add_workload(START + second, (first, 500 + second, 1 + second % 3))
    writer.finish(START + 20, 0, "completed", START + 20)


def test_nodes_are_averaged_and_ranks_added_up(tmp_path):
    (tmp_path / "a.sql.d").mkdir()
    for rank in range(2):
        record(tmp_path / "a.sql.d" / f"n{rank}.{rank}.r.sql", rank, f"n{rank}")
    reader = open_recording(tmp_path / "a.sql").runs[0]
    host = analyze(reader).host
    assert host is not None
    connections = [sqlite3.connect(path) for path in sorted((tmp_path / "a.sql.d").iterdir())]
    means = [
        connection.execute("SELECT avg(cpu_utilization), count(cpu_utilization) FROM host_samples").fetchone()
        for connection in connections
    ]
    assert host.cpu_utilization == pytest.approx(sum(mean * n for mean, n in means) / sum(n for _, n in means))
    assert (host.memory_used, host.memory_total, host.net_tx_bytes, host.fabric_rx_bytes) == (
        20_000,
        64_000,
        None,
        None,
    )
    assert host.fabric_tx_bytes == 4.0
    busy = [connection.execute("SELECT avg(cpu) FROM workload_samples").fetchone()[0] for connection in connections]
    assert host.workload_cpu == pytest.approx(sum(busy))
    assert (host.workload_rss, host.workload_processes) == (2 * 519, 6)


def test_a_window_looks_at_its_own_seconds_only(tmp_path):
    record(tmp_path / "a.sql", 0, "n")
    reader = open_recording(tmp_path / "a.sql").runs[0]
    host = analyze(reader, Options(start=START + 5, end=START + 8)).host
    assert host is not None
    assert host.memory_used == 8000
    assert host.cpu_utilization == pytest.approx((0.05 + 0.06 + 0.07) / 3)


def test_a_recording_without_host_rows_says_nothing_of_the_host(tmp_path):
    writer = Writer(str(tmp_path / "a.sql"))
    writer.begin({"run_id": "r", "started_at": START, "sampling_ms": 500.0}, {"rank": 0, "node": "n"})
    writer.finish(START + 1, 0, "completed", START + 1)
    assert analyze(open_recording(tmp_path / "a.sql").runs[0]).host is None
