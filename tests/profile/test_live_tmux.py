"""The live screen beside a command as a person sees it, in tmux."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from live_terminal import session_of
from supervised import ROOT

from tests.tmux import GSSR, Tmux
from tests.tmux import tmux as tmux  # the fixture
from tests.waiting import until

BARS = r"""for i in 1 2 3 4; do printf '\r%3d%%|%s' $((i * 25)) '####'; sleep 0.1; done
printf '\nepoch 1\n\033[1;31mred\033[0m\a\n'; until [ -e go ]; do sleep 0.05; done; echo last; exit 7"""


@pytest.fixture
def job(tmux: Tmux, tmp_path: Path) -> Iterator[Callable[[int, int], Tmux]]:
    """Opens the terminal in a size, and runs the job in it, beside its screen."""

    def start(width: int, height: int) -> Tmux:
        tmux.shell((width, height), tmp_path)
        (tmp_path / "job.sh").write_text(BARS)
        command = "profile --live --linger 600 --backend synthetic:train:4 -t 100 -o x.sql -- sh job.sh; echo code $?"
        tmux.press(f"clear; PYTHONPATH={ROOT} {' '.join(GSSR)} {command}", "Enter")
        return tmux

    yield start
    (tmp_path / "go").touch()


@pytest.mark.parametrize("size", [(80, 24), (160, 48)])
def test_the_output_stands_below_the_screen_and_comes_back(
    job: Callable[[int, int], Tmux], tmp_path: Path, size: tuple[int, int]
) -> None:
    terminal = job(*size)
    shown = terminal.shows("live", "GPU saturation", "output", "100%\\|####\nepoch 1\nred\n")
    assert "75%" not in shown
    assert shown.index("score") < shown.index("output")
    terminal.press("o")
    until(lambda: "output" not in terminal.text(), "the pane to go")
    terminal.press("o")
    terminal.shows("output")
    terminal.press("C-z")
    terminal.shows("The job can't wait", "GPU saturation")
    terminal.press("C-c")
    terminal.shows("the job is running", "stop it: sends SIGINT", "GPU saturation")
    terminal.press("Escape")
    until(lambda: "the job is running" not in terminal.text(), "the question to go")
    (tmp_path / "go").touch()
    terminal.shows("ended \\(exit 7\\)", "the job has ended; without a key this screen leaves in", "red\nlast\n")
    terminal.press("q")
    shown = terminal.shows(r"code 7\n\$")
    assert "100%|####\nepoch 1\nred\nlast\ngssr: GSSR score=" in shown
    assert "GPU saturation" not in shown


def test_a_killed_terminal_server_ends_the_screen_and_not_the_command(
    job: Callable[[int, int], Tmux], tmp_path: Path
) -> None:
    terminal = job(80, 24)
    terminal.shows("live", "red\n")
    shell = terminal.pid
    terminal.close()
    (tmp_path / "go").touch()
    log = tmp_path / "x.log"
    until(lambda: log.read_bytes().endswith(b"red\x1b[0m\x07\nlast\n"), "the command to print on")
    until(lambda: not session_of(shell), "all that the terminal ran to end")


def test_a_small_terminal_has_no_room_for_the_output(job: Callable[[int, int], Tmux]) -> None:
    terminal = job(40, 10)
    assert "output" not in terminal.shows("live", "score")
    terminal.press("q")
    terminal.shows("100%\\|####\nepoch 1\nred\n")
