"""What is exported and imported again is what was recorded."""

import sqlite3
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from gssr.cli import main
from gssr.metrics import NAMES
from gssr.store.read.recording import open_recording


@pytest.mark.parametrize("name", ["all.txt", "all.txt.gz"])
def test_openmetrics_comes_back_as_it_was(recording: Path, tmp_path: Path, name: str) -> None:
    path, again = tmp_path / "a.sql", tmp_path / "again.sql"
    path.write_bytes(recording.read_bytes())
    with sqlite3.connect(path) as connection:
        connection.execute("""UPDATE gpus SET node = 'a"\\b' || char(10) || '{c="d"} ☃' WHERE node = 'node0001'""")
    assert main(["export", str(path), "--format", "openmetrics", "-o", str(tmp_path / name)]) == 0
    assert main(["import", str(tmp_path / name), "-o", str(again)]) == 0
    before, after = (open_recording(each).runs[0] for each in (path, again))
    what = [[(gpu.node, gpu.device_index, gpu.uuid, gpu.rank) for gpu in reader.gpus] for reader in (before, after)]
    one_line = [((gpu[0] or "").replace("\n", " "), *gpu[1:]) for gpu in what[0]]
    assert one_line == what[1]  # no name has lines
    assert after.sampling_seconds == before.sampling_seconds
    one, other = before.samples(NAMES), after.samples(NAMES)
    orders = [np.lexsort((rows.time, rows.gpu)) for rows in (one, other)]
    np.testing.assert_array_equal(one.gpu[orders[0]], other.gpu[orders[1]])
    np.testing.assert_array_equal(one.time[orders[0]], other.time[orders[1]])
    for metric in NAMES:
        pair = (rows.values[metric][order] for rows, order in zip((one, other), orders, strict=True))
        np.testing.assert_allclose(*pair, rtol=2.0**-24, atol=0, err_msg=metric)


def test_what_is_published_while_it_runs_is_read_as_one_moment(tmp_path: Path) -> None:
    (tmp_path / "tf").mkdir()
    command = [sys.executable, "-m", "gssr", "profile", "--backend", "synthetic:train:2", "-t", "50", "-o", "run.sql"]
    workload = "until cp tf/*.prom seen.prom 2>/dev/null; do sleep 0.05; done"
    subprocess.run([*command, "--textfile", "tf", "--", "sh", "-c", workload], cwd=tmp_path, check=True)
    assert main(["import", str(tmp_path / "seen.prom"), "-o", str(tmp_path / "seen.sql")]) == 0
    recorded, seen = (open_recording(tmp_path / name).runs[0] for name in ("run.sql", "seen.sql"))
    assert [gpu.uuid for gpu in seen.gpus] == [gpu.uuid for gpu in recorded.gpus]
    rows, moment = recorded.samples(["power_usage", "sm_clock"]), seen.samples(["power_usage", "sm_clock"])
    assert moment.gpu.tolist() == [0, 1]
    for gpu in (0, 1):
        own = zip(rows.values["power_usage"][rows.gpu == gpu], rows.values["sm_clock"][rows.gpu == gpu], strict=True)
        assert (moment.values["power_usage"][gpu], moment.values["sm_clock"][gpu]) in set(own)
