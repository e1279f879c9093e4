"""Claims: each thing is one process's, for as long as it lives, and nobody else can get in between."""

import os
import shutil
import signal
import subprocess
import sys
import time

import pytest

from gssr.profile.sampling.claims import STALE_SECONDS, Claims


@pytest.fixture
def environ(tmp_path):
    tmp_path.chmod(0o700)
    return {"XDG_RUNTIME_DIR": str(tmp_path)}


def test_what_is_claimed_is_claimed_once_and_free_again_when_given_up(environ):
    first, second = Claims("n", "r", environ), Claims("n", "r", environ)
    assert first.take(["a", "b"]) == ["a", "b"]
    assert second.take(["a", "b", "c"]) == ["c"]
    assert first.take(["a", "c"]) == ["a"]
    first.release("a")
    assert second.take(["a", "b"]) == ["a"]
    first.close()
    assert second.take(["a", "b"]) == ["a", "b"]
    second.close()


def test_nodes_and_runs_that_share_a_folder_never_meet(environ):
    all_claims = [Claims(node, run, environ) for node in ("n1", "n2") for run in ("r", "s")]
    assert [claims.take(["MIG-GPU-1/7/0"]) for claims in all_claims] == [["MIG-GPU-1/7/0"]] * 4
    for claims in all_claims:
        claims.close()


def test_the_last_to_leave_removes_everything_and_late_comers_begin_anew(environ, tmp_path):
    first, second = Claims("n", "r", environ), Claims("n", "r", environ)
    first.take(["a"])
    assert first.note("seen") == ""
    first.write("seen", "text")
    assert second.note("seen") == "text"
    first.close()
    assert sorted(os.listdir(tmp_path / "gssr" / "n" / "r")) == ["seen"]
    second.close()
    assert os.listdir(tmp_path / "gssr") == []
    third = Claims("n", "r", environ)
    fourth = Claims("n", "r", environ)
    third.close()
    assert fourth.take(["a"]) == ["a"]  # though its folder was just removed
    assert fourth.note("seen") == ""
    fourth.close()


def test_a_note_is_written_once_and_waited_for(environ):
    first, second = Claims("n", "r", environ), Claims("n", "r", environ)
    assert first.note("seen") == "" and second.note("seen") is None
    first.close()  # without having written it
    assert second.note("seen") == ""
    second.write("seen", "ä" * 10_000)
    third = Claims("n", "r", environ)
    assert third.note("seen") == second.note("seen") == "ä" * 10_000
    second.close()
    third.close()


HOLD = """
import sys, time
from gssr.profile.sampling.claims import Claims
claims = Claims("n", "r", {"XDG_RUNTIME_DIR": sys.argv[1]})
print(*claims.take(["a"]), flush=True)
time.sleep(60)
"""


def test_a_claim_dies_with_its_holder(environ, tmp_path):
    claims = Claims("n", "r", environ)
    with subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == "a\n"
        assert claims.take(["a"]) == []
        holder.send_signal(signal.SIGKILL)
    assert claims.take(["a"]) == ["a"]
    claims.close()
    assert os.listdir(tmp_path / "gssr") == []


RACE = """
import os, random, sys, time
from gssr.profile.sampling.claims import Claims
random.seed(sys.argv[2])
won = 0
while won < 40:
    claims = Claims("n", "r", {"XDG_RUNTIME_DIR": sys.argv[1]})
    if claims.take(["a"]):
        with open(f"{sys.argv[1]}/held", "x"):  # fails when somebody else holds it as well
            time.sleep(random.random() * 0.002)
        os.unlink(f"{sys.argv[1]}/held")
        won += 1
    claims.close()
    time.sleep(random.random() * 0.002)
"""


def test_processes_that_come_and_go_never_hold_the_same(tmp_path, environ):
    """Each goes on until it has held it forty times: it is never taken for held when nobody is left who does."""
    command = [sys.executable, "-c", RACE, environ["XDG_RUNTIME_DIR"]]
    racers = [subprocess.Popen([*command, str(n)]) for n in range(4)]
    assert [racer.wait(timeout=60) for racer in racers] == [0] * 4
    assert os.listdir(tmp_path / "gssr") == []


@pytest.mark.parametrize("trap", ["link", "open to others", "file", "of another"])
def test_a_folder_that_others_could_have_prepared_is_not_used(tmp_path, trap):
    uid, folder = os.geteuid(), tmp_path / f"gssr-{os.geteuid()}"
    environ = {"XDG_RUNTIME_DIR": str(tmp_path / "none"), "TMPDIR": str(tmp_path)}
    if trap == "link":
        (tmp_path / "elsewhere").mkdir(mode=0o700)
        folder.symlink_to(tmp_path / "elsewhere")
    elif trap == "file":
        folder.touch(mode=0o600)
    else:
        folder.mkdir(mode=0o777)
        folder.chmod(0o777 if trap == "open to others" else 0o700)
        if trap == "of another":
            if uid:
                pytest.skip("on this machine we are not root: only root can give a folder away")
            os.chown(folder, 12345, -1)
    from gssr.profile.sampling.claims import _open_private

    with pytest.raises(OSError):
        _open_private(str(folder))
    claims = Claims("n", "r", environ)  # elsewhere
    claims.close()


def test_what_killed_runs_left_is_removed_when_it_is_old(environ, tmp_path):
    claims = Claims("n", "alive", environ)
    claims.take(["a"])
    for run in ("dead", "new"):
        (tmp_path / "gssr" / "n" / run).mkdir()
        (tmp_path / "gssr" / "n" / run / "a").touch()
    for run in ("dead", "alive"):
        os.utime(tmp_path / "gssr" / "n" / run, (time.time() - 2 * STALE_SECONDS,) * 2)
    other = Claims("n", "other", environ)
    assert sorted(os.listdir(tmp_path / "gssr" / "n")) == ["alive", "new", "other"]
    other.close()
    claims.close()


def test_without_the_folder_of_it_all_there_are_no_claims_and_that_is_said(environ, tmp_path):
    claims = Claims("n", "r", environ)
    shutil.rmtree(tmp_path / "gssr")
    with pytest.raises(OSError):
        claims.take(["a"])
    claims.close()


def test_texts_are_read_as_long_as_those_who_wrote_them_live(environ):
    first, second = Claims("n", "r", environ), Claims("n", "r", environ)
    for claims, name in ((first, "uses-0-1"), (second, "uses-1-2")):
        claims.take([name])
        claims.tell(name, f"of {name}")
    first.tell("uses-0-1", "anew")
    assert (first.texts("uses-"), second.texts("uses-")) == (["of uses-1-2"], ["anew"])
    assert second.text_of("uses-0-1") == "anew" and second.text_of("nothing") == ""
    first.release("uses-0-1")
    assert second.texts("uses-") == [] and second.text_of("uses-0-1") == "anew"
    first.close()
    second.close()
