"""Marks as the recording gets them: from Python, from a shell, from anything that can send a datagram."""

import os
import shutil
import socket
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gssr.marks import LONGEST
from gssr.profile.sampling.clock import RecordingClock
from gssr.profile.sampling.marks import MOST, Ear, MarkReceiver, cleaned, listen
from gssr.store.read.recording import open_recording
from tests.waiting import until

GSSR = f"{sys.executable} -m gssr"


@pytest.fixture
def ear():
    found = listen()
    assert found is not None
    yield found
    found.remove()


def send(ear: Ear, data: bytes) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.sendto(data, ear.path)


def profiled(folder: Path, script: str, *words: str, **environ: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gssr", "profile", "--backend", "synthetic:train:2", "-t", "50", "-o", "a.sql"]
    return subprocess.run(
        [*command, "--no-summary", *words, "--wrap", script], cwd=folder, capture_output=True, text=True, timeout=60,
        env=os.environ | environ,
    )  # fmt: skip


def marks_of(path: Path) -> list[tuple[float, str]]:
    (reader,) = open_recording(path).runs
    return [(event.time, event.message) for event in reader.events if event.kind == "mark"]


def test_marks_of_python_and_of_the_shell_are_recorded_when_they_were_made(tmp_path):
    (tmp_path / "work.py").write_text(
        "import gssr, time\nfor n in range(3):\n    gssr.mark(f'epoch {n}')\n    print(time.time(), flush=True)\n"
        "    time.sleep(0.2)\n"
    )
    done = profiled(tmp_path, f"{sys.executable} work.py && {GSSR} mark from the shell")
    assert done.returncode == 0 and done.stderr == ""
    found = marks_of(tmp_path / "a.sql")
    assert [text for _, text in found] == ["epoch 0", "epoch 1", "epoch 2", "from the shell"]
    printed = [float(word) for word in done.stdout.split()]
    assert all(when <= after + 0.01 for (when, _), after in zip(found, printed, strict=False))
    assert all(when >= before - 0.01 for (when, _), before in zip(found[1:], printed, strict=True))


def test_the_socket_is_the_users_alone_and_gone_afterwards(tmp_path):
    done = profiled(tmp_path, "echo $GSSR_MARKS; stat -c %a $(dirname $GSSR_MARKS); test -S $GSSR_MARKS")
    path, mode = done.stdout.split()
    assert done.returncode == 0 and mode == "700"
    assert not os.path.exists(os.path.dirname(path))


def test_a_long_tmpdir_and_an_unwritable_one_are_passed_over(tmp_path):
    for folder in (tmp_path / ("x" * 100), tmp_path / "none"):
        if len(folder.name) > 50:
            folder.mkdir()
        (tmp_path / "a.sql").unlink(missing_ok=True)
        done = profiled(tmp_path, f"{GSSR} mark here", TMPDIR=str(folder))
        assert done.stderr == "" and [text for _, text in marks_of(tmp_path / "a.sql")] == ["here"]


def test_the_last_words_before_the_end_are_kept(tmp_path):
    profiled(tmp_path, f"exec {GSSR} mark the end")
    assert [text for _, text in marks_of(tmp_path / "a.sql")] == ["the end"]


def test_marks_outlive_the_supervisor_and_end_with_the_sampler(tmp_path):
    script = f"sleep 0.3; kill -KILL $PPID; sleep 0.3; {GSSR} mark orphaned; sleep 0.2; echo $GSSR_MARKS"
    done = profiled(tmp_path, script)
    until(lambda: open_recording(tmp_path / "a.sql").runs[0].state not in ("running", "lost"), "the sampler's end")
    assert [text for _, text in marks_of(tmp_path / "a.sql")] == ["orphaned"]
    until(lambda: not os.path.exists(os.path.dirname(done.stdout.strip())), "the socket's folder to go")


def test_a_mark_without_a_recording_is_no_error():
    environ = {name: value for name, value in os.environ.items() if name != "GSSR_MARKS"}
    done = subprocess.run(
        [sys.executable, "-m", "gssr", "mark", "epoch", "1"], env=environ, capture_output=True, text=True, timeout=30
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    empty = subprocess.run([sys.executable, "-m", "gssr", "mark", " "], capture_output=True, text=True, timeout=30)
    assert empty.returncode == 2 and "no text" in empty.stderr


def test_what_killed_recorders_left_is_removed_and_what_lives_is_not(ear, tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", f"/tmp/{tmp_path.name}"[:40])
    os.makedirs(os.environ["TMPDIR"], exist_ok=True)
    dead, alive, own = listen(), listen(), listen()
    assert dead is not None and alive is not None and own is not None
    (Path(os.environ["TMPDIR"]) / "gssr-mine").mkdir()
    dead.close()
    own.remove()
    own.tidy()
    left = sorted(os.listdir(os.environ["TMPDIR"]))
    shutil.rmtree(os.environ["TMPDIR"])
    assert left == sorted([os.path.basename(os.path.dirname(alive.path)), "gssr-mine"])
    assert os.path.exists(ear.path)


def test_any_datagram_is_a_mark_and_none_can_do_harm(ear):
    before = time.time()
    heard = MarkReceiver(ear.fd, RecordingClock(), before)
    for data in (
        b"plain",
        b"\x1fempty time",
        b"nan\x1fno number",
        b"inf\x1flate",
        b"-1e300\x1fearly",
        b"\xff\xfe",
        b"",
        b"\n\t",
    ):
        send(ear, data)
    found = heard.read()
    assert [text for _, text in found] == ["plain", "empty time", "no number", "late", "early", "\ufffd\ufffd"]
    assert all(before - 1 < when <= time.time() + 0.1 for when, _ in found)


def test_what_was_marked_before_the_sampler_listened_keeps_its_time(ear):
    made = time.time() - 30
    send(ear, f"{made}\x1fat once".encode())
    ((when, _),) = MarkReceiver(ear.fd, RecordingClock(), made - 1).read()
    assert abs(when - made) < 10


def test_a_mark_is_one_short_line_of_printable_characters():
    assert cleaned("epoch 1\r\n\x1b[31mred\u202e\x00") == "epoch 1 [31mred"
    assert len(cleaned("x" * 1000)) == LONGEST
    assert cleaned(" 学習 1 ") == "学習 1"


def test_more_marks_than_are_kept_are_refused(ear):
    heard, n = MarkReceiver(ear.fd, RecordingClock(), time.time()), 0
    for number in range(MOST + 100):
        try:
            send(ear, b"%d" % number)
        except ConnectionRefusedError:
            break
        n += len(heard.read())
    assert n == MOST + 1 and heard.fds == [] and heard.read() == []


def test_nothing_is_waited_for(ear):
    heard = MarkReceiver(ear.fd, RecordingClock(), time.time())
    assert heard.read() == []
    assert stat.S_IMODE(os.stat(os.path.dirname(ear.path)).st_mode) == 0o700
    assert MarkReceiver(None, RecordingClock(), 0.0).fds == []
