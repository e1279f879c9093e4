"""``gssr top --host`` over real SSH, on loopback addresses: seen in a real terminal, with one host killed meanwhile."""

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.fakes.sshd import ADDRESSES, Servers, servers
from tests.tmux import GSSR, Tmux
from tests.tmux import tmux as tmux  # the fixture
from tests.waiting import until, until_ended


@pytest.fixture
def hosts(requires: Callable[..., None], tmp_path: Path) -> Iterator[Servers]:
    requires("sshd", "ssh-keygen", package="openssh-server")
    folder = tmp_path / "ssh"
    folder.mkdir(mode=0o700)
    with servers(folder) as own:
        yield own


@pytest.fixture
def room(tmp_path: Path) -> Path:
    """Where recordings of the moment are made: nothing may be left there."""
    folder = tmp_path / "room"
    folder.mkdir(mode=0o700)
    return folder


def start(tmux: Tmux, hosts: Servers, room: Path, size: tuple[int, int], *names: str) -> None:
    words = ("--host", ",".join((*ADDRESSES, *names)), "--remote-gssr", str(hosts.gssr))
    path = f"{hosts.path}:{os.environ.get('PATH', os.defpath)}"
    command = (*GSSR, "top", "--backend", "synthetic:train:2", "-t", "200")
    tmux.start(*words, command=command, size=size, PATH=path, XDG_RUNTIME_DIR=str(room), PYTHONPATH=os.getcwd())


def test_the_hosts_are_on_one_screen_and_one_that_is_killed_is_said(hosts: Servers, room: Path, tmux: Tmux) -> None:
    start(tmux, hosts, room, (80, 24), "127.0.0.4")
    tmux.shows(
        r"(?s)4 GPUs.*on 2 nodes.*3 hosts:  \u25cf 2 live  \u2717 1 gone\n \u2717 127\.0\.0\.4 gone: ssh: connect .*refus"
    )
    tmux.press("2")
    tmux.shows(r"(?s)127\.0\.0\.2:0 .*127\.0\.0\.2:1 .*127\.0\.0\.3:0 .*127\.0\.0\.3:1 ")
    tmux.resize(200, 60)
    tmux.press("K")
    tmux.shows(r"gssr_\d+T\d+\.sql")
    hosts.kill("127.0.0.3")
    tmux.shows(r"(?s)2 gone.*gssr_\d+T\d+\.sql")  # also behind a dialog
    tmux.press("Escape")
    text = tmux.shows(r"(?s)1 live  \u2717 2 gone\n \u2717 127\.0\.0\.3 gone: \S.*g 127\.0\.0\.3:0 +\d+s ")
    assert "\u25cf live" in text, "the other goes on"
    tmux.press("q")
    until_ended(tmux.pid)
    assert not os.listdir(room)
    until(lambda: not hosts.samplers("127.0.0.2"), "the sampler's end")


@pytest.mark.parametrize("how", (signal.SIGTERM, signal.SIGKILL), ids=("term", "kill"))
def test_however_it_ends_the_hosts_samplers_end(hosts: Servers, room: Path, tmux: Tmux, how: signal.Signals) -> None:
    start(tmux, hosts, room, (80, 24))
    tmux.shows(r"2 hosts:  \u25cf 2 live")
    assert all(hosts.samplers(address) for address in ADDRESSES)
    os.kill(tmux.pid, how)
    until_ended(tmux.pid)
    until(lambda: not any(hosts.samplers(address) for address in ADDRESSES), "the samplers' end")
    until(lambda: not os.listdir(room), "the collector's end")


def test_a_host_without_gssr_is_said_to_lack_it(hosts: Servers, room: Path, tmux: Tmux) -> None:
    hosts.gssr.unlink()
    start(tmux, hosts, room, (120, 30))
    tmux.shows(r"127\.0\.0\.2 gone: gssr is not found there: name it by --remote-gssr")
    tmux.press("q")
    until_ended(tmux.pid)
    assert not os.listdir(room)
