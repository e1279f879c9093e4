"""Sleeping until there is something to hear, between real processes and with real signals."""

import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from gssr.profile.sampling import marks
from gssr.profile.sampling.marks import Hearing

LONG = 60.0


@pytest.fixture(autouse=True)
def _own_handler() -> Iterator[None]:
    before = signal.getsignal(signal.SIGIO)
    yield
    signal.signal(signal.SIGIO, before)


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    for fd in ends:
        try:
            os.close(fd)
        except OSError:
            pass


def refuse(*_: object) -> int:
    raise OSError


@pytest.fixture(params=["signals", "no signals"])
def listening(request, monkeypatch) -> Callable[[list[int]], Hearing]:
    """Where the kernel sends signals, and where it refuses to."""
    if request.param == "no signals":
        monkeypatch.setattr(marks, "fcntl", refuse)
    return Hearing


def heard(listener: Hearing, fds: list[int]) -> list[int]:
    """What a long wait hears, and that it does not last."""
    began = time.monotonic()
    readable: list[int] = []
    while not readable and time.monotonic() < began + LONG:
        readable = list(listener.wait(fds, LONG))
    assert time.monotonic() - began < LONG / 2
    return readable


def test_silence_lasts_as_long_as_asked_for(pipe, listening) -> None:
    listener = listening([pipe[0]])
    listener.wait([pipe[0]], 0.0)
    began = time.monotonic()
    assert not listener.wait([pipe[0]], 0.2)
    assert 0.2 <= time.monotonic() - began < LONG


def test_what_was_said_before_anybody_listened_is_heard(pipe, listening) -> None:
    os.write(pipe[1], b"early")
    assert heard(listening([pipe[0]]), [pipe[0]]) == [pipe[0]]


def test_a_word_ends_the_sleep(pipe, listening) -> None:
    listener = listening([pipe[0]])
    for word in (b"one", b"two", b"three"):
        timer = threading.Timer(0.1, os.write, (pipe[1], word))
        timer.start()
        assert heard(listener, [pipe[0]]) == [pipe[0]]
        assert os.read(pipe[0], 100) == word
        timer.join()


def test_what_is_left_unread_is_told_again(pipe, listening) -> None:
    listener = listening([pipe[0]])
    os.write(pipe[1], b"two words")
    for _ in range(3):
        assert heard(listener, [pipe[0]]) == [pipe[0]]
    os.read(pipe[0], 100)
    listener.wait([pipe[0]], 0.0)
    assert not listener.wait([pipe[0]], 0.05)


def test_the_end_of_whoever_speaks_is_heard(pipe, listening) -> None:
    listener = listening([pipe[0]])
    threading.Timer(0.1, os.close, (pipe[1],)).start()
    assert heard(listener, [pipe[0]]) == [pipe[0]]
    assert os.read(pipe[0], 1) == b""


def test_a_word_from_another_process_on_either_of_two(pipe, listening) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with ours, theirs:
        fds = [ours.fileno(), pipe[0]]
        listener = listening(fds)
        pid = os.fork()
        if pid == 0:
            time.sleep(0.1)
            theirs.send(b"mark")
            os._exit(0)
        assert heard(listener, fds) == [ours.fileno()]
        os.waitpid(pid, 0)


def test_signals_at_any_moment_neither_escape_nor_get_lost(pipe) -> None:
    listener = Hearing([pipe[0]])
    n = 2000

    def speak() -> None:
        for k in range(n):
            os.write(pipe[1], b".")
            if k % 7 == 0:
                time.sleep(0.0003)

    speaker = threading.Thread(target=speak)
    speaker.start()
    received, deadline = 0, time.monotonic() + 30
    while received < n and time.monotonic() < deadline:
        if listener.wait([pipe[0]], 0.01):
            received += len(os.read(pipe[0], 64))
    speaker.join()
    assert received == n
