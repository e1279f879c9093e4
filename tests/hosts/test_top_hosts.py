"""``gssr top --host``: hosts that answer, die, fall silent or say anything, by real processes that stand for ssh."""

import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gssr.cli import _parser
from gssr.commands.top import _start
from gssr.gpu_name import gpu_label
from gssr.model.live.live_result import Query
from gssr.model.live.watched_recording import WatchedRecording
from gssr.profile.hosts import collector
from gssr.profile.hosts.reach import by_ssh
from gssr.profile.monitor import monitor_hosts
from gssr.store.format.schema import RECORDING_STOPPED
from gssr.store.host_states import read_states
from gssr.store.merge.repair import keep
from gssr.store.read import small_tables
from gssr.store.read.newest import nodes_now
from gssr.store.read.open import RecordingError
from gssr.store.read.recording import open_recording
from tests.waiting import PATIENCE, until

ROOT = Path(__file__).parents[2]
SSH = """#!/bin/sh
# ssh OPTIONS -- HOST COMMAND: each host is a script beside this one, and all others run the command here.
while [ "$1" != -- ]; do shift; done
host=$2; shift 2
[ -x "$(dirname "$0")/../$host" ] && exec "$(dirname "$0")/../$host"
exec sh -c "exec $*"
"""
Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def room(tmp_path: Path) -> Path:
    """Where recordings of the moment are made: nothing may be left there."""
    folder = tmp_path / "room"
    folder.mkdir(mode=0o700)
    return folder


@pytest.fixture
def environ(tmp_path: Path, room: Path) -> dict[str, str]:
    script(tmp_path / "bin" / "ssh", SSH)
    script(tmp_path / "gssr", f'#!/bin/sh\nexec {sys.executable} -m gssr "$@"\n')
    path = f"{tmp_path / 'bin'}:{os.environ.get('PATH', os.defpath)}"
    return os.environ | {"PATH": path, "XDG_RUNTIME_DIR": str(room), "PYTHONPATH": str(ROOT)}


def script(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def command(tmp_path: Path, *words: str) -> list[str]:
    gssr = ("--remote-gssr", str(tmp_path / "gssr"), "--backend", "synthetic:train:2")
    return [sys.executable, "-m", "gssr", "top", *gssr, *words]


@pytest.fixture
def top(tmp_path: Path, environ: dict[str, str]) -> Run:
    """``top(*words)``: what gssr top does with these words."""

    def called(*words: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(command(tmp_path, *words), env=environ, capture_output=True, text=True, timeout=PATIENCE)

    return called


def test_all_that_answer_are_shown_and_the_others_with_their_reason(tmp_path: Path, top: Run, room: Path) -> None:
    script(tmp_path / "n3", "#!/bin/sh\necho 'ssh: connect to host n3 port 22: Connection refused' >&2; exit 255\n")
    script(tmp_path / "n4", "#!/bin/sh\nexit 127\n")
    (tmp_path / "list").write_text("n3\nn4\n")
    done = top("--json", "--host", "n1,me@n2", "--hostfile", str(tmp_path / "list"))
    found: dict[str, Any] = json.loads(done.stdout)
    assert (
        done.returncode == 0
        and found["schema"] == "gssr.top/1"
        and found["node"] is found["host"] is found["job"] is None
    )
    assert [gpu["gpu"] for gpu in found["gpus"]] == ["n1:0", "n1:1", "n2:0", "n2:1"]
    assert all(0 <= gpu["sm_active"] <= 1 for gpu in found["gpus"])
    assert [(each["node"], each["state"], each["reason"]) for each in found["hosts"]] == [
        ("n1", "live", None), ("n2", "live", None), ("n3", "gone", "ssh: connect to host n3 port 22: Connection refused"),
        ("n4", "gone", "gssr is not found there: name it by --remote-gssr"),
    ]  # fmt: skip
    assert found["hosts"][0]["host"]["memory_total"] > 0 and found["hosts"][3]["host"]["memory_total"] is None
    assert not os.listdir(room)


def test_the_table_names_them_and_where_nobody_answers_that_is_an_error(tmp_path: Path, top: Run) -> None:
    script(tmp_path / "n3", "#!/bin/sh\necho nothing here\nexit 3\n")
    done = top("--once", "--host", "n1,n3")
    lines = done.stdout.splitlines()
    assert done.returncode == 0 and [line.split()[0] for line in lines[1:3]] == ["n1:0", "n1:1"]
    assert lines[-2:] == [
        "2 hosts:  ● 1 live  ✗ 1 gone",
        "✗ n3 gone: ssh ended with exit code 3; 1 line of it could not be read",
    ]
    alone = top("--json", "--host", "n3")
    assert alone.returncode == 1 and json.loads(alone.stdout)["gpus"] == []
    script(tmp_path / "n3", "#!/bin/sh\nexit 3\n")
    assert top("--once", "--host", "n3").returncode == 1
    csv = top("--csv", "--host", "n1,n3")
    assert len(csv.stdout.splitlines()) == 3 and "n3 gone" in csv.stderr


def test_a_host_without_a_gpu_says_so_and_one_that_greets_is_read_all_the_same(tmp_path: Path, top: Run) -> None:
    script(
        tmp_path / "n2", f"#!/bin/sh\necho Welcome\nexec {tmp_path / 'gssr'} top --lines --backend synthetic:train:1\n"
    )
    script(tmp_path / "n3", f"#!/bin/sh\nexec {tmp_path / 'gssr'} top --lines --backend gpm\n")
    script(tmp_path / "n4", "#!/bin/sh\nexec >&- 2>&-; sleep 60\n")
    found = json.loads(top("--json", "--host", "n2,n3,n4").stdout)
    n2, n3, n4 = found["hosts"]
    assert [gpu["gpu"] for gpu in found["gpus"]] == ["n2:0"] and (n2["state"], n2["broken_lines"]) == ("live", 1)
    assert n3["state"] == "live" and n3["reason"].startswith("no GPU is sampled: ")
    assert (n4["state"], n4["reason"], n4["silent_seconds"]) == ("gone", "ssh was killed by signal 9", None)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--host", "-oProxyCommand=x"), "expected one argument"),
        (("--host=-oProxyCommand=x",), "no name of a host"),
        (("--host", "n1,a b"), "no name of a host"),
        (("--host", ","), "no host is named"),
        (("--hostfile", "/nowhere"), "No such file"),
        (("--job", "7;x"), "no job's id"),
        (("--job=-7",), "no job's id"),
        (("--job", "7", "--host", "a"), "give one of them"),
        (("--host", "a", "--backend", "dgcm"), "unknown backend"),
        (("--host", "a", "-t", "0"), "--sampling-time"),
    ],
)
def test_what_makes_no_sense_is_wrong_usage(top: Run, words: tuple[str, ...], why: str) -> None:
    done = top("--once", *words)
    assert (done.returncode, done.stdout) == (2, "") and why in done.stderr


def test_without_slurm_a_job_cannot_be_looked_at(tmp_path: Path, environ: dict[str, str]) -> None:
    line = [sys.executable, "-m", "gssr", "top", "--once", "--job", "7"]
    done = subprocess.run(line, env=environ | {"PATH": str(tmp_path)}, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 1 and "squeue is not on the PATH" in done.stderr


WATCH = """
import sys, time, json
from gssr.profile.hosts.reach import by_ssh
from gssr.profile.monitor import monitor_hosts
from gssr.store.host_states import read_states
words = ["top", "--lines", "--sampling-time=100", "--backend=synthetic:train:2"]
with monitor_hosts(by_ssh(sys.argv[2:], sys.argv[1], words), None, 100.0) as own:
    while True:
        states = read_states(own.path)
        print(json.dumps([own.path, states and [host._asdict() for host in states.hosts]]), flush=True)
        time.sleep(0.1)
"""


class Watching:
    """Another process that gathers hosts, and tells how they stand."""

    def __init__(self, tmp_path: Path, environ: dict[str, str], *hosts: str) -> None:
        line = [sys.executable, "-c", WATCH, str(tmp_path / "gssr"), *hosts]
        self.process = subprocess.Popen(line, env=environ, stdout=subprocess.PIPE, text=True)

    def hosts(self) -> dict[str, dict[str, Any]]:
        assert self.process.stdout is not None
        _, states = json.loads(self.process.stdout.readline())
        return {each["host"]: each for each in states or ()}

    def all_told(self, *names: str) -> bool:
        hosts = self.hosts()
        return bool(hosts) and all(hosts[name]["has_told"] for name in names)


@pytest.fixture
def watch(tmp_path: Path, environ: dict[str, str]) -> Any:
    own: list[Watching] = []

    def begin(*hosts: str) -> Watching:
        own.append(Watching(tmp_path, environ, *hosts))
        return own[-1]

    yield begin
    for each in own:
        each.process.kill()
        each.process.communicate()


def test_noise_costs_the_host_that_makes_it_and_nobody_else(tmp_path: Path, watch: Callable[..., Watching]) -> None:
    script(tmp_path / "loud", "#!/bin/sh\nexec yes '[\"row\",0,1,2'\n")
    script(tmp_path / "long", "#!/bin/sh\nexec tr '\\0' x </dev/zero\n")
    own = watch("n1", "loud", "long")
    until(lambda: own.all_told("n1"), "the host that is well")
    hosts = until(lambda: (hosts := own.hosts())["loud"]["n_broken"] > 1000 and hosts, "broken lines")
    assert "sends more than is read" in until(lambda: own.hosts()["loud"]["reason"], "the reason")
    assert hosts["n1"]["word"] == "live" and hosts["n1"]["n_broken"] == 0
    (gatherer,) = (pid for pid in children(own.process.pid) if "collector" in name_of(pid))
    begin, cpu = time.monotonic(), cpu_seconds(gatherer)
    time.sleep(2)
    assert cpu_seconds(gatherer) - cpu < 0.5 * (time.monotonic() - begin)


def test_one_that_falls_silent_is_slow_and_one_that_dies_is_gone(watch: Callable[..., Watching]) -> None:
    own = watch("n1", "n2", "n3")
    until(lambda: own.all_told("n1", "n2", "n3"), "all hosts")
    (gatherer,) = (pid for pid in children(own.process.pid) if "collector" in name_of(pid))
    samplers = children(gatherer)
    assert len(samplers) == 3
    os.kill(samplers[1], 19)
    os.kill(samplers[2], 9)
    gone = until(lambda: (host := own.hosts()["n3"])["word"] == "gone" and host, "the host that has died")
    assert gone["reason"] == "ssh was killed by signal 9"
    slow = until(lambda: (host := own.hosts()["n2"])["word"] == "slow" and host, "the host that is silent")
    assert "nothing has come for" in slow["reason"] and own.hosts()["n1"]["word"] == "live"
    os.kill(samplers[1], 18)
    until(lambda: own.hosts()["n2"]["word"] == "live", "the host that is back")


def test_a_recording_that_is_full_is_begun_anew_with_all_gpus(
    tmp_path: Path, environ: dict[str, str], room: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PATH", "XDG_RUNTIME_DIR", "PYTHONPATH"):
        monkeypatch.setenv(name, environ[name])
    for name in ("_LEAST_BYTES", "_BYTES_OF_HOST"):
        monkeypatch.setattr(collector, name, 150_000)
    words = ["top", "--lines", "--sampling-time=20", "--backend=synthetic:train:4"]
    said: list[str] = []
    with monitor_hosts(by_ssh(["n1", "n2"], str(tmp_path / "gssr"), words), None, 20.0) as own:
        until(lambda: said.extend(own.lines() or []) or "no more room" in "".join(said), "the end of the room")
        until(lambda: len(newest(own.path)) == 8, "all GPUs again")
        assert os.path.getsize(own.path) < 1_500_000
    assert not os.listdir(room)


def test_gpus_that_are_held_idle_are_counted_with_their_time(
    tmp_path: Path, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PATH", "XDG_RUNTIME_DIR", "PYTHONPATH"):
        monkeypatch.setenv(name, environ[name])
    monkeypatch.setattr(collector, "IDLE_SECONDS", 0.5)
    script(tmp_path / "n2", f"#!/bin/sh\nexec {tmp_path / 'gssr'} top --lines -t 50 --backend synthetic:idle:2\n")
    script(tmp_path / "n1", f"#!/bin/sh\nexec {tmp_path / 'gssr'} top --lines -t 50 --backend synthetic:train:3\n")
    with monitor_hosts(by_ssh(["n1", "n2"], "gssr", ["top"]), None, 50.0) as own:
        states = until(lambda: (found := read_states(own.path)) and found.n_idle == 2 and found, "idle GPUs")
    assert sum(host.n_gpus for host in states.hosts) == 5 and 0.5 <= states.idle_seconds < PATIENCE


def test_the_run_ends_with_the_last_host_and_is_never_live_again(
    tmp_path: Path, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PATH", "XDG_RUNTIME_DIR", "PYTHONPATH"):
        monkeypatch.setenv(name, environ[name])
    monkeypatch.setattr(small_tables, "LOST_SECONDS", 0.0)  # a file that is not written just now is silent for too long
    monkeypatch.setattr(small_tables, "LOST_INTERVALS", 0)
    lines: list[list[Any]] = [
        ["gssr.lines/1", 0.05, []],
        ["gpu", 0, {"uuid": "GPU-0", "device_index": 0}],
        ["event", time.time(), "backend_lost", f"{RECORDING_STOPPED}was killed", 0],
    ]
    said = "\n".join(map(json.dumps, lines))
    script(tmp_path / "n2", f"#!/bin/sh\necho '{said}'\nexec sleep 1000\n")
    words = ["top", "--lines", "--sampling-time=50", "--backend=synthetic:train:2"]
    with monitor_hosts(by_ssh(["n1", "n2"], str(tmp_path / "gssr"), words), None, 50.0) as own:
        watch = WatchedRecording(own.path)

        def state() -> str:
            return watch.look(Query()).state

        until(lambda: state() == "live", "samples")
        until(lambda: any(event.kind == "backend_lost" for event in watch.look(Query()).events), "what n2 says")
        (gatherer,) = (pid for pid in children(os.getpid()) if "collector" in name_of(pid))
        samplers = children(gatherer)
        for sampler in samplers:
            os.kill(sampler, 19)
        assert {state() for _ in for_seconds(7.0)} == {"live", "stalled"}
        for sampler in samplers:
            os.kill(sampler, 9)
        until(lambda: state() == "ended", "the end")
        assert {state() for _ in for_seconds(3.0)} == {"ended"}
        assert watch.look(Query()).thinned == -math.inf, "what came last stays as it was sampled"
        kept = str(tmp_path / "kept.sql")
        (run,) = open_recording(own.path).runs
        keep(own.path, kept, time.time() + 1000)
        assert open_recording(kept).runs[0].run.ended_at == run.run.ended_at
        watch.close()


def for_seconds(seconds: float) -> Iterator[None]:
    """Ten times a second, for so long."""
    begin = time.monotonic()
    while time.monotonic() < begin + seconds:
        yield
        time.sleep(0.1)


def newest(path: str) -> list[str]:
    """The GPUs of which samples are there."""
    try:
        return [gpu_label(each.gpu) for each in nodes_now(path).gpus if each.time is not None]
    except RecordingError:
        return []


@pytest.mark.parametrize("who", ["top", "collector"])
def test_whoever_is_killed_the_samplers_end(room: Path, watch: Callable[..., Watching], who: str) -> None:
    own = watch("n1", "n2")
    until(lambda: own.all_told("n1", "n2"), "all hosts")
    (gatherer,) = (pid for pid in children(own.process.pid) if "collector" in name_of(pid))
    samplers = children(gatherer)
    os.kill(own.process.pid if who == "top" else gatherer, 9)
    until(lambda: not any(runs(pid) for pid in samplers), "the samplers' end")
    if who == "top":
        until(lambda: not runs(gatherer) and not os.listdir(room), "the collector's end")


def children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def name_of(pid: int) -> str:
    return Path(f"/proc/{pid}/comm").read_text()


def runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def cpu_seconds(pid: int) -> float:
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def test_a_host_tells_its_own_numbers_as_often_as_those_of_its_gpus(environ: dict[str, str]) -> None:
    words = [sys.executable, "-m", "gssr", "top", "--lines", "--sampling-time=1600", "--backend=synthetic:train:1"]
    kinds: list[str] = []
    with subprocess.Popen(words, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as sampler:
        assert sampler.stdin is not None and sampler.stdout is not None
        while kinds.count("row") < 3:
            kinds.append(json.loads(sampler.stdout.readline())[0])
        sampler.stdin.close()
    assert 2 <= kinds.count("host") <= 3


@pytest.mark.parametrize(
    ("words", "over_ssh", "hz"),
    [
        ((), "", 2.0),
        ((), "a b", 1.0),
        (("--host", "n1"), "", 1.0),
        (("--job", "7"), "", 1.0),
        (("--hostfile", "list", "--hz", "4"), "a b", 4.0),
    ],
)
def test_hosts_are_looked_at_as_often_as_they_are_sampled(
    words: tuple[str, ...], over_ssh: str, hz: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSH_CONNECTION", over_ssh)
    assert _start(_parser(["top", *words]).parse_args(["top", *words])).hz == hz
