"""``gssr fleet --watch``: what is held idle now, as a site's cron job and a support person meet it."""

import json
import os
import shutil
import time
from pathlib import Path

import pytest

from gssr.backends.synthetic.bulk import generate
from gssr.cli import main
from gssr.commands.fleet import IDLE_HELD
from gssr.model.fleet.held_idle import HELD_IDLE_SECONDS, read_growing
from gssr.render.cells import cell_width
from tests.fakes.held import STEP, write_growing


@pytest.mark.parametrize("idle", [None, 0.0, 3.0, 9.5, 10.5, 27.0, 61.0, 89.0])
def test_a_gpu_is_held_idle_from_ten_minutes_on_and_since_its_last_active_sample(tmp_path: Path, idle: float) -> None:
    write_growing(tmp_path / "a.sql", [idle, None])
    (run,) = read_growing([str(tmp_path / "a.sql")]).runs
    held = {gpu.gpu: seconds for gpu, seconds in run.idle}
    if idle is None or idle * 60 < HELD_IDLE_SECONDS:
        assert held == {}
    else:
        # What is read is a bucket of 10 s in which it was active: its last sample.
        assert set(held) == {0} and idle * 60 - 10 - STEP <= held[0] <= idle * 60
        assert run.idle_gpu_hours == pytest.approx(held[0] / 3600)


def test_one_that_was_never_active_is_idle_since_the_first_sample(tmp_path: Path) -> None:
    write_growing(tmp_path / "a.sql", [1000.0], minutes=30)
    (run,) = read_growing([str(tmp_path / "a.sql")]).runs
    assert [seconds for _, seconds in run.idle] == [1800]


def test_held_gpus_are_told_on_a_page_of_any_width_and_by_the_exit_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = {"job_id": "99", "array_job_id": "28136001", "array_task_id": "17", "cluster": "c", "user": "x" * 40}
    write_growing(tmp_path / "a.sql", [30, None, 45], job_name="y" * 60, **own)
    write_growing(tmp_path / "b.sql", [None, None])
    generate(str(tmp_path / "over.sql"), "idle", 2, 1 / 60, 1.0)
    for width in (40, 80, 200):
        assert main(["fleet", "--watch", str(tmp_path), "--width", str(width), "--no-index"]) == IDLE_HELD == 3
        *page, last = capsys.readouterr().out.splitlines()
        assert max(map(cell_width, page)) <= width
        assert "28136001_17" in "".join(page) and "over" not in "".join(page)
        assert last.startswith("GSSR fleet running=2 gpus=5 idle_gpus=2 idle_gpu_hours=1.2")
    assert main(["fleet", "--watch", str(tmp_path), "--json", "--no-index"]) == IDLE_HELD
    found = json.loads(capsys.readouterr().out)
    assert found["schema"] == "gssr.fleet-watch/1" and found["n_recordings"] == 3
    assert [[gpu["device_index"] for gpu in run["held_idle_gpus"]] for run in found["runs"]] == [[2, 0], []]
    (tmp_path / "a.sql").unlink()
    assert main(["fleet", "--watch", str(tmp_path), "--no-index"]) == 0
    assert "idle_gpus=0" in capsys.readouterr().out


def test_slurms_accounting_names_what_a_prolog_records(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A prolog is told neither an array's numbers nor a name."""
    write_growing(tmp_path / "a.sql", [30], job_id="4712", user="ada")
    head = "JobID|JobIDRaw|State|Start|End|AllocTRES|JobName\n"
    (tmp_path / "sacct.txt").write_text(
        f"{head}4700_3|4712|RUNNING|{time.time() - 7200:.0f}|Unknown|gres/gpu=1|sweep\n"
    )
    for more, shown in (([], "4712"), (["--sacct", str(tmp_path / "sacct.txt")], "4700_3")):
        assert main(["fleet", "--watch", str(tmp_path), "--no-index", *more]) == IDLE_HELD
        page = capsys.readouterr().out
        assert f"\n{shown} " in page and ("sweep" in page) == bool(more)


def test_what_can_not_be_read_is_a_sentence_and_the_rest_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_growing(tmp_path / "a.sql", [30])
    shutil.copy(tmp_path / "a.sql", tmp_path / "copy.sql")
    (tmp_path / "cut.sql").write_bytes((tmp_path / "a.sql").read_bytes()[:5000])
    assert main(["fleet", "--watch", str(tmp_path), "--no-index"]) == IDLE_HELD
    page = capsys.readouterr().out
    assert "cut.sql" in page.replace("\n    ", "") and "running=1 gpus=1 idle_gpus=1" in page  # a copy counts once
    assert main(["fleet", "--watch", str(tmp_path / "cut.sql"), "--no-index"]) == 1
    assert main(["fleet", "--watch", str(tmp_path / "none"), "--no-index"]) == 1
    for other in (["--by", "user"], ["--since", "1d"], ["--csv"], ["--foreign"]):
        assert main(["fleet", "--watch", *other, str(tmp_path)]) == 2
        assert f"--watch and {other[0]}: choose one" in capsys.readouterr().err


def test_what_the_index_knows_has_ended_is_not_opened(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    generate(str(tmp_path / "over.sql"), "idle", 2, 1 / 60, 1.0)
    os.utime(tmp_path / "over.sql", (1e9, 1e9))
    index = str(tmp_path / "index")
    time.sleep(2.1)  # what was written more lately is never kept
    assert main(["fleet", str(tmp_path), "--index", index]) == 0
    opened: list[str] = []
    monkeypatch.setattr("gssr.model.fleet.held_idle.open_recording", opened.append)
    assert main(["fleet", "--watch", str(tmp_path), "--index", index]) == 0
    assert opened == [] and "1 recording, 0 runs going on" in capsys.readouterr().out.replace("\n", " ")
