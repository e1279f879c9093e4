"""What gssr makes is for its user alone, and nobody else can make it use what is his."""

import os
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from two_users import ATTACKER, VICTIM, as_user

from gssr.launch import where_am_i
from gssr.profile.copier import check_log, open_log
from gssr.profile.output import choose
from gssr.profile.request import ProfileRequest, UsageError
from gssr.profile.sampling.claims import Claims
from gssr.profile.sampling.marks import listen
from gssr.store.live_block.write import LiveBlock
from gssr.store.read.open import RecordingError
from gssr.store.write.create import create

pytestmark = pytest.mark.xdist_group("two users")  # who share /dev/shm


def test_everything_made_beside_a_job_is_its_users_alone(tmp_path: Path) -> None:
    """Under a umask that forbids nothing; seen from the workload of the last of two ranks, and at the end."""
    (tmp_path / "temporary").mkdir()
    look = "find . -mindepth 1 ! -name 'seen*' ! -path ./temporary -printf '%#m %p\\n' > seen.new; mv seen.new seen"
    both = "ls run.sql.d/*.sql-wal 2> /dev/null | wc -l | grep -q 2"
    wait = "for i in $(seq 600); do {} && break; sleep 0.05; done"
    job = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_NTASKS": "2", "SLURM_STEP_NUM_TASKS": "2"}
    ranks = []
    for rank in (0, 1):
        own = {"SLURM_PROCID": str(rank), "SLURM_LOCALID": str(rank), "TMPDIR": str(tmp_path / "temporary")}
        command = (
            f"umask 0; exec {sys.executable} -m gssr profile -o run.sql --backend synthetic:train:2 -t 50 -- sh -c"
        )
        words = ["sh", "-c", f'{command} "$0"', f"{wait.format(both)}; {look}" if rank else wait.format("test -e seen")]
        ranks.append(subprocess.Popen(words, cwd=tmp_path, env=os.environ | job | own, stderr=subprocess.DEVNULL))
    assert [rank.wait(timeout=60) for rank in ranks] == [0, 0]
    seen = [line.split(maxsplit=1) for line in (tmp_path / "seen").read_text().splitlines()]
    assert len([name for _, name in seen if name.startswith("./run.sql.d/")]) >= 4
    assert any(name.endswith("/marks") for _, name in seen)
    for mode, name in seen:
        if "/marks" not in name:  # a socket's own mode says nothing: its folder's does
            assert int(mode, 8) & 0o077 == 0, (mode, name)
    assert sorted(os.listdir(tmp_path)) == ["run.sql", "seen", "temporary"] and not os.listdir(tmp_path / "temporary")
    assert stat.S_IMODE((tmp_path / "run.sql").stat().st_mode) == 0o600


def test_a_tighter_umask_is_heeded(tmp_path: Path) -> None:
    before = os.umask(0o277)
    try:
        os.close(open_log(str(tmp_path / "x.sql"), anew=False).fd)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "x.log").stat().st_mode) == 0o400


@pytest.mark.parametrize("planted", ["folder", "open folder", "link", "file"])
def test_a_name_that_another_user_took_neither_blocks_claims_nor_reads_them(
    shared: Path, tmp_path: Path, planted: str
) -> None:
    tmp_path.chmod(0o777)
    environ = {"XDG_RUNTIME_DIR": "", "TMPDIR": str(shared)}

    def plant() -> None:
        for place in (shared, Path("/dev/shm")):
            path = place / f"gssr-{VICTIM}"
            if planted == "link":
                path.symlink_to(shared)
            elif planted == "file":
                path.touch()
            else:
                path.mkdir(0o777 if planted == "open folder" else 0o700)

    def claim() -> list[list[str]]:
        first, second = Claims("n", "r", environ), Claims("n", "r", environ)
        taken = [first.take(["a"]), second.take(["a", "b"])]
        own = os.readlink(f"/proc/self/fd/{first._root}")
        return [*taken, [own, oct(os.fstat(first._root).st_mode & 0o7777)]]

    assert as_user(ATTACKER, plant) is None
    first, second, (own, mode) = as_user(VICTIM, claim)
    assert (first, second, mode) == (["a"], ["b"], "0o700") and own.startswith(f"/dev/shm/gssr-{VICTIM}-")
    assert "PermissionError" in as_user(ATTACKER, lambda: os.listdir(own))
    assert as_user(ATTACKER, lambda: Claims("n", "r", environ).take(["a"])) == ["a"]  # his own, which are others


def _choose(output: Path, append: bool = False, overwrite: bool = False) -> None:
    choose(ProfileRequest(["true"], output=str(output), append=append, overwrite=overwrite), where_am_i({}))


@pytest.mark.parametrize("name", ["run.sql", "run.sql.d", "run.sql-journal", "run.sql-wal", "run.sql.live", "run.log"])
@pytest.mark.parametrize("kind", ["open file", "link", "hard link"])
def test_nothing_that_another_user_has_planted_is_written_to(shared: Path, name: str, kind: str) -> None:
    """Whatever the kernel's own protection of links is set to."""
    precious = shared / "precious"

    def keep() -> None:
        precious.write_text("precious")
        precious.chmod(0o666)  # so that the kernel lets another user make a second name for it

    def plant() -> None:
        path = shared / name
        if kind == "link":
            path.symlink_to(precious)
        elif kind == "hard link":
            os.link(precious, path)
        elif name.endswith(".d"):
            path.mkdir(0o777)
        else:
            path.touch(0o666)

    def record() -> list[str]:
        refused = []
        for how in ({}, {"append": True}, {"overwrite": True}):
            try:
                _choose(shared / "run.sql", **how)
                check_log(str(shared / "run.sql"), ours=True)
                create(str(shared / "run.sql")).close()
            except (UsageError, RecordingError) as error:
                refused.append(str(error))
            try:
                log = open_log(str(shared / "run.sql"), anew=bool(how))
                os.write(log.fd, b"evil")
            except OSError:
                pass
        block = LiveBlock(str(shared / "run.sql"))
        block.publish(1.0, 0)
        return refused

    as_user(VICTIM, keep)
    as_user(ATTACKER, plant)
    refused = as_user(VICTIM, record)
    assert isinstance(refused, list) and len(refused) == 3, refused
    assert precious.read_text() == "precious"
    found = (shared / name).stat()
    if not (shared / name).is_dir() and found.st_size not in (0, len("precious")):  # made anew
        assert (found.st_uid, stat.S_IMODE(found.st_mode), found.st_nlink) == (VICTIM, 0o600, 1)


def test_another_user_can_read_nothing_of_a_recording_in_a_shared_folder(shared: Path) -> None:
    def record() -> list[str]:
        connection = create(str(shared / "run.sql"))
        os.close(open_log(str(shared / "run.sql"), anew=False).fd)
        connection.execute("INSERT INTO runs (run_id) VALUES ('r')")
        LiveBlock(str(shared / "run.sql")).publish(1.0, 0)
        return sorted(os.listdir(shared))

    names = as_user(VICTIM, record)
    assert {"run.sql", "run.sql.live", "run.log"} <= set(names)
    for name in os.listdir(shared):
        answer = as_user(ATTACKER, lambda name=name: (shared / name).read_bytes().decode("latin-1"))
        assert answer.startswith("PermissionError"), name
        assert as_user(ATTACKER, lambda name=name: os.unlink(shared / name)).startswith("PermissionError")


def test_marks_come_from_the_user_alone_and_sockets_of_others_are_left_alone(
    shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(shared))

    def plant() -> str:
        folder = shared / "gssr-12345678"
        folder.mkdir(0o777)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as dead:
            dead.bind(str(folder / "marks"))
        (folder / "marks").chmod(0o777)
        return str(folder / "marks")

    def hear() -> list[str]:
        ear = listen()
        assert ear is not None
        ear.tidy()
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.sendto(b"own", ear.path)
        return [ear.path, os.read(ear.fd, 100).decode(), oct(os.stat(os.path.dirname(ear.path)).st_mode & 0o7777)]

    def mark(path: str) -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.sendto(b"evil", path)

    theirs = as_user(ATTACKER, plant)
    path, heard, mode = as_user(VICTIM, hear)
    assert (heard, mode) == ("own", "0o700")
    assert as_user(ATTACKER, lambda: mark(path)).startswith("PermissionError")
    assert os.path.exists(theirs)
