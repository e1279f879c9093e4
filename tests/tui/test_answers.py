"""Each screen answers its question: from a recording with a planted cause to that cause in at most six keys, at 80 × 24 in
a real terminal. What stands there then is kept as text."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

Golden = Callable[[str, str], None]


class Answer(NamedTuple):
    """Recordings, the keys from the first screen on (tmux's names), and words that the answer must hold."""

    name: str
    plants: tuple[str, ...]
    keys: tuple[str, ...]
    words: tuple[str, ...]


ANSWERS = (
    Answer(
        "job-checkpoints",
        ("checkpoint",),
        (),
        ("score", "0.705", "lowest GPUs", "8.7 % of the GPU time is spent waiting for copies"),
    ),
    Answer("gpus-straggler", ("straggler",), ("2",), ("!", "007:2", "11")),
    Answer("gpus-gap", ("gap",), ("2", "n"), ("g", "nid000002:2", "without samples")),
    Answer("map-slow-node", ("slow_node",), ("3", "n"), ("nid000003", "!51", "t 4 throttled")),
    Answer("map-unused", ("idle_gpus",), ("3", "n"), ("nid000004", "! 3 outliers")),
    Answer("time-late-start", ("late_start",), ("4",), ("band", "!", "nid000005")),
    Answer("time-dip", ("io_dip",), ("4", "t", "4:20", "Enter"), ("0 % busy", "100 % idle", "pcie rx")),
    Answer("balance-rotating", ("rotating",), ("5",), ("rotates", "time means hide it")),
    Answer("balance-static", ("straggler",), ("5", "Enter"), ("nid000007:2",)),
    Answer(
        "why-throttled",
        ("slow_node",),
        ("3", "n", "Enter", "6"),
        ("nid000003", "slowed down by heat", "1140"),
    ),
    Answer("why-late", ("late_start",), ("6",), ("all of nid000005) began to work 2 min after",)),
    Answer("compare-better", ("before", "after"), ("7",), ("0.600", "0.691", "+0.091")),
)


class Terminal:
    """``gssr tui`` in tmux."""

    def __init__(self, paths: list[str]) -> None:
        self._server = f"gssr-{os.getpid()}-{time.monotonic_ns()}"
        self._tmux("new-session", "-d", "-x", "80", "-y", "24", f"exec {sys.executable} -m gssr tui {' '.join(paths)}")

    def _tmux(self, *words: str) -> str:
        command = ["tmux", "-u", "-L", self._server, "-f", os.devnull, *words]
        environment = {**os.environ, "LC_ALL": "C.UTF-8"}
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=20, env=environment)
        return done.stdout

    def press(self, key: str) -> None:
        self._tmux("send-keys", key)

    def text(self) -> str:
        return self._tmux("capture-pane", "-p")

    def shows(self, wanted: str) -> str:
        """What is on screen once it is this, else what is there after a minute."""
        end = time.monotonic() + 60
        while (shown := self.text()) != wanted and time.monotonic() < end:
            time.sleep(0.05)
        return shown

    def settled(self, words: tuple[str, ...] = ()) -> str:
        """What is on screen once it holds these words, is judged and has stood still for half a second, else what is there
        after a minute."""
        end, since, before = time.monotonic() + 60, time.monotonic(), ""
        while time.monotonic() < end:
            now = self.text()
            if now != before:
                before, since = now, time.monotonic()
            elif (
                time.monotonic() - since > 0.5
                and now.startswith("GSSR")
                and "judging" not in now
                and all(word in now for word in words)
            ):
                break
            time.sleep(0.05)
        return before

    def close(self) -> None:
        subprocess.run(["tmux", "-L", self._server, "kill-server"], capture_output=True, timeout=20)


@pytest.fixture
def terminal(requires: Callable[..., None]) -> Iterator[Callable[[list[str]], Terminal]]:
    requires("tmux", package="tmux")
    opened: list[Terminal] = []

    def start(paths: list[str]) -> Terminal:
        opened.append(Terminal(paths))
        return opened[-1]

    yield start
    for found in opened:
        found.close()


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: answer.name)
def test_a_planted_cause_is_reached_in_six_keys(
    answer: Answer,
    plants: dict[str, str],
    terminal: Callable[[list[str]], Terminal],
    golden: Golden,
    request: pytest.FixtureRequest,
) -> None:
    assert len(answer.keys) <= 6
    screen = terminal([plants[name] for name in answer.plants])
    screen.settled()
    for key in answer.keys:
        screen.press(key)
        screen.settled()
    shown = screen.settled(answer.words)
    assert all(word in shown for word in answer.words), shown
    kept = request.path.parent / "golden" / f"answer-{answer.name}.txt"
    if kept.exists() and not request.config.getoption("--update-golden"):
        shown = screen.shows(kept.read_text(encoding="utf-8"))  # the last word may be drawn later
    golden(kept.name, shown)
