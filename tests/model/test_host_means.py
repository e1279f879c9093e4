"""What is said of the nodes is what a plain query on the recording gives."""

import sqlite3

import pytest

from gssr.model.analyze import Options, analyze
from gssr.report.content import process_table
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


def test_nodes_along_time_are_their_means(tmp_path):
    (tmp_path / "a.sql.d").mkdir()
    for rank in range(2):
        record(tmp_path / "a.sql.d" / f"n{rank}.{rank}.r.sql", rank, f"n{rank}")
    reader = open_recording(tmp_path / "a.sql").runs[0]
    assert analyze(reader).node_series == {}, "nobody asked"
    found = analyze(reader, Options(host=True)).node_series
    assert set(found) == {
        f"host:{name}"
        for name in ("cpu_utilization", "memory_used", "read_bytes", "write_bytes", "net_rx_bytes", "fabric_tx_bytes")
    }
    cpu = found["host:cpu_utilization"]
    assert cpu.width >= 2 and cpu.n_gpus.max() == 2
    own = [[0.1 * rank + 0.01 * second for second in range(1, 20)] for rank in range(2)]
    bins = [int((START + second - cpu.start) // cpu.width) for second in range(1, 20)]
    for at in set(bins):
        means = [sum(v for v, b in zip(row, bins, strict=True) if b == at) / bins.count(at) for row in own]
        assert cpu.low[at] == pytest.approx(min(means)) and cpu.high[at] == pytest.approx(max(means))
        assert cpu.mean[at] == pytest.approx(sum(means) / 2)
    assert found["host:memory_used"].high.max() == pytest.approx(19.5 / 64, abs=0.01), "a share of what there is"


def test_processes_are_counted_by_name_and_user(tmp_path):
    path = tmp_path / "a.sql"
    writer = Writer(str(path))
    writer.begin({"run_id": "r", "started_at": START, "sampling_ms": 500.0}, {"rank": 0, "node": "n"})
    writer.add_gpus(
        [{"node": "n", "device_index": index, "uuid": f"GPU-{index}"} for index in range(3)], ["sm_active"], 0.5
    )
    writer.finish(START + 60, 0, "completed", START + 60)
    with sqlite3.connect(path) as connection:
        keys = [key for (key,) in connection.execute("SELECT gpu FROM gpus ORDER BY device_index")]
        rows = [
            (keys[0], START + 1, 2, 11, "python3", "ada", 5 << 30, 0.5),
            (keys[0], START + 1, 2, 12, "python3", "ada", 7 << 30, None),
            (keys[0], START + 9, 1, 11, "python3", "ada", 6 << 30, 0.5),
            (keys[1], START + 2, 1, 11, "python3", "ada", 1 << 30, 0.5),
            (keys[1], START + 8, 1, 13, "\x1b[31mworm", "eve", None, None),
            (keys[2], START + 8, 0, None, None, None, None, None),
            (keys[2], START + 9, 1, None, None, None, 9 << 30, None),
            (keys[2], START + 10, 1, "no number", b"\xff", "ada", -5, None),
            (4711, START + 10, 1, 1, "of no GPU", "ada", 5, None),
        ]
        connection.executemany(f"INSERT INTO gpu_processes VALUES ({', '.join('?' * 8)})", rows)
    connection.close()
    reader = open_recording(path).runs[0]
    hidden, python, *others = analyze(reader, Options(host=True)).processes
    assert hidden == (None, None, 1, 1, 9 << 30, START + 9, START + 9), "redacted, or unknown"
    assert python == ("python3", "ada", 2, 2, 7 << 30, START + 1, START + 9)
    assert {(own.name, own.user) for own in others} == {("\x1b[31mworm", "eve"), (None, "ada")}
    only = analyze(reader, Options(host=True, gpus=("1",))).processes
    assert [(own.name, own.n, own.memory_used) for own in only] == [("python3", 1, 1 << 30), ("\x1b[31mworm", 1, None)]
    table = process_table(analyze(reader, Options(host=True)))
    assert table is not None and all("\x1b" not in cell for row in table.rows for cell in row)
    assert table.rows[1] == ("python3", "ada", "2", "2", "7.0", "1 s", "9 s")
