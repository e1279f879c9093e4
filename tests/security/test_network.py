"""Nothing here listens to a network, nor speaks to one unasked."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import hostile
import pytest

ROOT = Path(__file__).parents[2]
WATCH = """
import os, sys
def watch(event, arguments):
    if event.startswith("socket."):
        told = [event, *(str(getattr(each, "family", each)) for each in arguments[:1]), *map(repr, arguments[1:])]
        descriptor = os.open(os.environ["WATCHED"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.write(descriptor, ("\\t".join(told) + "\\n").encode())
        os.close(descriptor)
sys.addaudithook(watch)
"""
"""Tells of every call of Python's sockets."""


@pytest.fixture
def watched(tmp_path: Path) -> dict[str, str]:
    """An environment in which what is done with sockets is written into ``tmp_path/calls``."""
    (tmp_path / "watch").mkdir()
    (tmp_path / "watch" / "sitecustomize.py").write_text(WATCH)
    return {"PYTHONPATH": f"{tmp_path / 'watch'}:{ROOT}", "WATCHED": str(tmp_path / "calls")}


def calls(folder: Path) -> list[list[str]]:
    path = folder / "calls"
    return [line.split("\t") for line in path.read_text().splitlines()] if path.exists() else []


SEE = """
import json, os, sys
sockets = set()
for name in os.listdir("/proc"):
    try:
        if name.isdigit() and int(open(f"/proc/{name}/stat").read().rpartition(")")[2].split()[3]) == os.getsid(0):
            links = [os.readlink(f"/proc/{name}/fd/{fd}") for fd in os.listdir(f"/proc/{name}/fd")]
            sockets |= {link[8:-1] for link in links if link.startswith("socket:[")}
    except OSError:
        pass
found = []
for kind in ("tcp", "tcp6", "udp", "udp6", "raw", "raw6", "packet", "netlink", "unix"):
    try:
        lines = open(f"/proc/self/net/{kind}").read().splitlines()[1:]
    except OSError:
        continue
    for line in lines:
        if sockets & set(line.split()):
            found.append((kind, line.split()[-1]))
json.dump(found, open("sockets", "w"))
"""
"""Every socket that a process of this session has, by the kernel's own tables."""


@pytest.mark.parametrize("options", [[], ["--status-every", "1s"]])
def test_nothing_listens_beside_a_job(tmp_path: Path, watched: dict[str, str], options: list[str]) -> None:
    command = ["-m", "gssr", "profile", "-o", "x.sql", "--backend", "synthetic:train:2", *options, "--"]
    words = [sys.executable, *command, sys.executable, "-S", "-c", SEE]
    done = subprocess.run(
        words, cwd=tmp_path, env=os.environ | watched, timeout=60, start_new_session=True, capture_output=True
    )
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "sockets").read_text())
    assert [kind for kind, _ in found] == ["unix"], found  # where marks arrive
    (path,) = (path for _, path in found)
    assert path.startswith("/") and path.endswith("/marks"), "an abstract name would be open to everybody"
    assert all(call[0] in ("socket.__new__", "socket.bind") for call in calls(tmp_path) if "connect" not in call[0])
    assert [call[-1] for call in calls(tmp_path) if call[0] == "socket.bind"] == [repr(path)]


def test_no_command_that_reads_opens_a_socket(tmp_path: Path, watched: dict[str, str]) -> None:
    hostile.write(tmp_path / "x.sql")
    (tmp_path / "x.log").write_text("#Entity  GRACT  SMACT\nID\nGPU 0    0.100  0.200\n")
    for words in (
        ["analyze", "--terminal", "x.sql"], ["analyze", "--report", "x.html", "x.sql"], ["analyze", "--json", "x.sql"],
        ["compare", "x.sql", "x.sql"], ["merge", "x.sql"], ["--version"], ["import", "x.log", "-o", "y.sql"],
    ):  # fmt: skip
        done = subprocess.run(
            [sys.executable, "-m", "gssr", *words],
            cwd=tmp_path,
            env=os.environ | watched,
            timeout=60,
            capture_output=True,
        )
        assert done.returncode == 0, done.stderr
    assert calls(tmp_path) == []


def test_one_file_alone_can_ask_a_server() -> None:
    asks = re.compile(r"^\s*(?:import|from) (?:urllib\.(?:request|error)|http|ftplib|smtplib|ssl)\b", re.MULTILINE)
    files = [
        path.relative_to(ROOT).as_posix() for path in (ROOT / "gssr").rglob("*.py") if asks.search(path.read_text())
    ]
    assert files == ["gssr/foreign/prometheus_server.py"]


def test_one_file_alone_can_listen_on_a_network() -> None:
    listens = re.compile(r"\bcreate_server\(|\bsocketserver\b|\bstart_server\(|(?:import|from) aiohttp\b|AF_INET")
    files = [
        path.relative_to(ROOT).as_posix() for path in (ROOT / "gssr").rglob("*.py") if listens.search(path.read_text())
    ]
    assert files == ["gssr/tui/serve.py"]


def test_the_live_screen_has_no_socket_but_a_pair_of_its_own(tmp_path: Path, watched: dict[str, str]) -> None:
    script = (
        "import asyncio; from gssr.model.live.watched_recording import WatchedRecording;"
        "from gssr.model.live.watch import Watch; from gssr.render.glyphs import UTF8;"
        "from gssr.tui.app import LiveScreen\n"
        "async def run():\n"
        "    app = LiveScreen([WatchedRecording('none.sql')], UTF8, 10.0, 256)\n"
        "    async with app.run_test() as pilot: await pilot.pause(0.2)\n"
        "asyncio.run(run())\n"
    )
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path, env=os.environ | watched, timeout=60, check=True)
    assert {call[0] for call in calls(tmp_path)} <= {"socket.__new__"}
    assert all("AF_UNIX" in call[2] or call[2] == "1" for call in calls(tmp_path)), calls(tmp_path)
