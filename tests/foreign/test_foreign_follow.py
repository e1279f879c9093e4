"""A log that another tool is writing is a recording that grows with it."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import gssr
from gssr.commands.inputs import looking_at
from gssr.foreign import follow
from gssr.foreign.series import ForeignError, ImportHints
from gssr.store.read.open import RecordingError
from tests.waiting import until, until_ended

HEADER = "#Entity       GRACT   SMACT\nID\n"
TICK = "GPU 0         0.500   0.250\nGPU 1         0.900   0.750\n"


def samples(path) -> int:
    try:
        with gssr.open(path) as recording:
            return len(recording[0].samples())
    except RecordingError:
        return 0


def test_what_is_added_is_there_soon_and_the_run_ends_when_nothing_comes(tmp_path, monkeypatch):
    monkeypatch.setattr(follow, "_LOOK_SECONDS", 0.02)
    log, recording = tmp_path / "dmon.log", tmp_path / "r.sql"
    log.write_text(HEADER + 5 * TICK)
    told, ends = ImportHints(start=1.7e9), threading.Event()
    thread = threading.Thread(target=follow.follow, args=(str(log), str(recording), told, lambda: not ends.is_set()))
    thread.start()
    until(lambda: samples(recording) >= 8)  # of the last tick it is not known whether it is whole
    assert gssr.open(recording)[0].state == "running"
    with log.open("a") as stream:
        stream.write(2 * TICK + TICK[:20])
        stream.flush()
        until(lambda: samples(recording) >= 12)
        stream.write(TICK[20:] + HEADER + TICK)
    until(lambda: samples(recording) >= 16)
    monkeypatch.setattr(follow, "SILENT_SECONDS", 0.1)
    thread.join(60)
    run = gssr.open(recording)[0]
    assert run.state == "completed" and len(run.samples()) == 18 and run.duration == 8.0
    assert run.samples().sm_active.tolist() == 9 * [0.25, 0.75]
    assert run.statistics().loc["sm_active", "n"] == 18


def test_what_came_while_writing_took_long_is_read_before_the_log_counts_as_silent(tmp_path, monkeypatch):
    monkeypatch.setattr(follow, "_LOOK_SECONDS", 0.02)
    monkeypatch.setattr(follow, "SILENT_SECONDS", 0.2)
    log, write, writes = tmp_path / "dmon.log", follow.RunFrom.write_what_came, []
    log.write_text(HEADER + 5 * TICK)

    def stalls(run, now):
        writes.append(now)
        if len(writes) == 3:  # at the end, and once more after a look that found nothing
            with log.open("a") as stream:
                stream.write(4 * TICK)
            time.sleep(0.4)
        return write(run, now)

    monkeypatch.setattr(follow.RunFrom, "write_what_came", stalls)
    follow.follow(str(log), str(tmp_path / "r.sql"), ImportHints(start=1.7e9), lambda: True)
    assert len(gssr.open(tmp_path / "r.sql")[0].samples()) == 18


def test_a_log_that_is_growing_is_followed_by_a_process_that_ends_with_the_one_that_looks(tmp_path):
    log = tmp_path / "dmon.log"
    log.write_text(HEADER + 5 * TICK)
    assert follow.is_growing(str(log))
    script = (
        "import sys, time\nfrom gssr.foreign.follow import followed\n"
        "with followed(sys.argv[1]) as (path, _):\n    print(path, flush=True)\n    time.sleep(600)"
    )
    environ = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-c", script, str(log)]
    with subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        place = Path(process.stdout.readline().strip())
        until(lambda: samples(place))
        (child,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        assert place.parent.stat().st_mode & 0o777 == 0o700
        process.send_signal(signal.SIGKILL)
    until_ended(child)
    with follow.private_folder("import", str(tmp_path)):
        assert not place.parent.exists()  # which was left, and is cleared with the next one


def test_the_live_screen_looks_at_what_grows_and_other_commands_at_what_is_there(tmp_path, capsys):
    log = tmp_path / "dmon.log"
    log.write_text(HEADER + 5 * TICK)
    with looking_at([str(log)], live=True) as places:
        assert gssr.open(places[str(log)])[0].state == "running"
    with looking_at([str(log)]) as places:
        assert gssr.open(places[str(log)])[0].state == "completed"
    assert not os.path.exists(places[str(log)]) and capsys.readouterr().err.count("gssr import") == 2


def test_what_can_not_be_followed_is_said_at_once(tmp_path):
    log = tmp_path / "q.csv"
    log.write_text("name, utilization.gpu [%]\nA, 3 %\n")
    with pytest.raises(ForeignError, match=r"q\.csv: no column says"), follow.followed(str(log)):
        pass
    os.utime(log, (1.7e9, 1.7e9))
    assert not follow.is_growing(str(log))
