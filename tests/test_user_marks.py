"""User marks from the workload's side: quick, silent, and harmless whatever is or isn't listening."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gssr import marks

ROOT = Path(__file__).parent.parent


class Listener:
    """A socket that marks are sent to."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(path))
        self.socket.setblocking(False)

    def heard(self) -> bytes:
        return self.socket.recv(4096)


@pytest.fixture
def listener(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Listener]:
    found = Listener(tmp_path / "marks")
    monkeypatch.setattr(marks, "_socket", str(found.path))
    yield found
    found.socket.close()


def cost_of(one: Callable[[], object], n: int, after: object = None) -> float:
    """Least CPU microseconds of several rounds: other work on the machine only adds."""
    rounds = []
    for _ in range(5):
        spent = 0
        for _ in range(n):
            begin = time.process_time_ns()
            one()
            spent += time.process_time_ns() - begin
            if callable(after):
                after()
        rounds.append(spent / n / 1000)
    return min(rounds)


def test_a_mark_says_when_and_what(listener: Listener) -> None:
    before = time.time()
    assert marks.mark("epoch 1") is True
    when, text = listener.heard().decode().split(marks.TIME_ENDS)
    assert before - 1e-3 <= float(when) <= time.time() + 1e-3
    assert text == "epoch 1"


def a_mark() -> None:
    marks.mark("epoch 1")


def test_a_mark_costs_hardly_more_than_to_send_it(listener: Listener) -> None:
    """20 µs on the machine that its page names; here as compared with what any datagram costs on this one."""

    def send() -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as sender:
            sender.sendto(b"epoch 1", str(listener.path))

    assert cost_of(a_mark, 300, listener.heard) <= 20 + 2 * cost_of(send, 300, listener.heard)


def test_without_a_listener_a_mark_costs_hardly_more_than_a_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(marks, "_socket", None)
    assert cost_of(a_mark, 3000) <= 2 + 4 * cost_of(lambda: None, 3000)


def test_once_the_listener_has_gone_marks_are_not_tried_again(listener: Listener) -> None:
    listener.socket.close()
    assert marks.mark("refused") is False
    assert marks._socket is None
    assert marks.mark("not tried") is False


def test_a_full_queue_drops_marks_and_never_waits(listener: Listener) -> None:
    begin = time.monotonic()
    sent = [marks.mark("burst") for _ in range(2000)]
    assert time.monotonic() - begin < 30
    assert sent[0] and not sent[-1]
    listener.heard()
    assert marks.mark("heard again")


class Unprintable:
    def __str__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize("text", ["", "x" * 100_000, "\udcff\x00\n", 17, None, Unprintable()])
@pytest.mark.usefixtures("listener")
def test_no_text_makes_a_mark_raise(text: object) -> None:
    assert marks.mark(text) in (True, False)  # type: ignore[arg-type]


@pytest.mark.usefixtures("listener")
def test_a_mark_keeps_no_descriptor_open() -> None:
    before = set(os.listdir("/proc/self/fd"))
    marks.mark("epoch 1")
    assert set(os.listdir("/proc/self/fd")) == before


def test_without_a_listener_a_mark_imports_nothing() -> None:
    code = "import sys, gssr; gssr.mark('x'); before = set(sys.modules); gssr.mark('y'); assert set(sys.modules) == before; "
    code += "assert not {'socket', 'gssr.profile', 'numpy'} & before"
    environ = {name: value for name, value in os.environ.items() if name != marks.ENVIRONMENT}
    subprocess.run([sys.executable, "-c", code], env=environ | {"PYTHONPATH": str(ROOT)}, check=True, timeout=30)
