"""The live screen beside a command as a person sees it, in tmux."""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from live_terminal import PYTHON, session_of
from supervised import ROOT

from tests.waiting import until

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="needs tmux")

BARS = r"""for i in 1 2 3 4; do printf '\r%3d%%|%s' $((i * 25)) '####'; sleep 0.1; done
printf '\nepoch 1\n\033[1;31mred\033[0m\a\n'; until [ -e go ]; do sleep 0.05; done; echo last; exit 7"""


class Tmux:
    """A server of its own with one window, in which a shell runs."""

    def __init__(self, folder: Path, width: int, height: int) -> None:
        self.folder = folder
        self._socket = str(folder / "tmux")
        environ = {name: value for name, value in os.environ.items() if not name.startswith("TMUX")}
        environ |= {"PYTHONPATH": str(ROOT), "LC_ALL": "C.UTF-8"}
        shell = "PS1='ready> ' bash --norc --noprofile --noediting -i"
        size = ["-x", str(width), "-y", str(height)]
        self._run("-f", "/dev/null", "new-session", "-d", *size, "-c", str(folder), shell, env=environ)
        until(lambda: "ready>" in self.screen(), "the shell")

    def _run(self, *words: str, env: dict[str, str] | None = None) -> str:
        done = subprocess.run(["tmux", "-S", self._socket, *words], env=env, capture_output=True, text=True, timeout=20)
        return done.stdout

    def screen(self) -> str:
        return self._run("capture-pane", "-p")

    def type(self, *keys: str) -> None:
        self._run("send-keys", *keys)

    def shows(self, *wanted: str) -> str:
        """Wait until the screen shows all of this; the screen."""

        def found() -> str:
            shown = self.screen()
            return shown if all(text in shown for text in wanted) else ""

        try:
            return str(until(found, str(wanted)))
        except AssertionError as error:
            runs = self._run("display-message", "-p", "#{pane_current_command}").strip() or "nothing: tmux is gone"
            raise AssertionError(f"{error}; {runs} runs on\n{self.screen()}") from None

    def pid(self) -> int:
        return int(self._run("display-message", "-p", "#{pane_pid}"))

    def kill(self) -> None:
        self._run("kill-server")


@pytest.fixture
def tmux(tmp_path: Path) -> Iterator[Callable[[int, int], Tmux]]:
    """Opens a terminal of a size."""
    opened: list[Tmux] = []

    def start(width: int, height: int) -> Tmux:
        opened.append(Tmux(tmp_path, width, height))
        (tmp_path / "job.sh").write_text(BARS)
        command = (
            f"{PYTHON} -m gssr profile --live --linger 600 --backend synthetic:train:4 -t 100 -o x.sql -- sh job.sh"
        )
        opened[-1].type(f"clear; {command}; echo code $?", "Enter")
        return opened[-1]

    yield start
    for one in opened:
        (tmp_path / "go").touch()
        one.kill()


@pytest.mark.parametrize("size", [(80, 24), (160, 48)])
def test_the_output_stands_below_the_screen_and_comes_back(
    tmux: Callable[[int, int], Tmux], tmp_path: Path, size: tuple[int, int]
) -> None:
    terminal = tmux(*size)
    shown = terminal.shows("live", "GPU saturation", "output", "100%|####\nepoch 1\nred\n")
    assert "75%" not in shown
    assert shown.index("score") < shown.index("output")
    terminal.type("o")
    until(lambda: "output" not in terminal.screen(), "the pane to go")
    terminal.type("o")
    terminal.shows("output")
    terminal.type("C-z")
    terminal.shows("The job can't wait", "GPU saturation")
    terminal.type("C-c")
    terminal.shows("the job is running", "stop it: sends SIGINT", "GPU saturation")
    terminal.type("Escape")
    until(lambda: "the job is running" not in terminal.screen(), "the question to go")
    (tmp_path / "go").touch()
    terminal.shows("ended (exit 7)", "the job has ended; without a key this screen leaves in", "red\nlast\n")
    terminal.type("q")
    shown = terminal.shows("code 7", "ready>")
    assert "100%|####\nepoch 1\nred\nlast\ngssr: GSSR score=" in shown
    assert "GPU saturation" not in shown


def test_a_killed_terminal_server_ends_the_screen_and_not_the_command(
    tmux: Callable[[int, int], Tmux], tmp_path: Path
) -> None:
    terminal = tmux(80, 24)
    terminal.shows("live", "red\n")
    shell = terminal.pid()
    terminal.kill()
    (tmp_path / "go").touch()
    log = tmp_path / "x.log"
    until(lambda: log.read_bytes().endswith(b"red\x1b[0m\x07\nlast\n"), "the command to print on")
    until(lambda: not session_of(shell), "all that the terminal ran to end")


def test_a_small_terminal_has_no_room_for_the_output(tmux: Callable[[int, int], Tmux]) -> None:
    terminal = tmux(40, 10)
    assert "output" not in terminal.shows("live", "score")
    terminal.type("q")
    terminal.shows("100%|####\nepoch 1\nred\n")
