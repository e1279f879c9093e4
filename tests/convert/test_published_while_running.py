"""What a job publishes while it runs is read as it was recorded."""

import subprocess
import sys
from pathlib import Path

from gssr.cli import main
from gssr.store.read.recording import open_recording


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
