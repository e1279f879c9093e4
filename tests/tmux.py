"""Terminals of tmux, in which ``gssr`` runs as a person sees and types it."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.waiting import until

GSSR = (sys.executable, "-m", "gssr")
TUI = (*GSSR, "tui")


class Tmux:
    """A server of its own with one terminal."""

    def __init__(self, folder: Path) -> None:
        self._server = ["tmux", "-u", "-S", str(folder / "tmux"), "-f", os.devnull]
        self._settings = {"XDG_CONFIG_HOME": str(folder)}  # none

    def start(
        self, *words: str, size: tuple[int, int] = (80, 24), command: tuple[str, ...] = TUI, **variables: str
    ) -> None:
        """Run a command, by default ``gssr tui``, with these words and environment variables."""
        own = [f"{name}={value}" for name, value in (self._settings | variables).items()]
        self._open(" ".join(["exec env", "-u COLORTERM", *own, *command, *map(shlex.quote, words)]), size)

    def shell(self, size: tuple[int, int] = (80, 24), folder: Path | None = None) -> None:
        """Run a shell with job control, in a folder."""
        self._open("PS1='$ ' exec bash --norc --noprofile -i", size, *(["-c", str(folder)] if folder else []))
        self.shows(r"\$ ?\n|\$ ?\Z")

    def _open(self, command: str, size: tuple[int, int], *options: str) -> None:
        self._call("new-session", "-d", "-x", str(size[0]), "-y", str(size[1]), *options, command)
        self._call("set-option", "-g", "remain-on-exit", "on")

    def paste(self, text: str) -> None:
        self._call("set-buffer", text)
        self._call("paste-buffer", "-p", "-r")

    def _call(self, *words: str) -> str:
        done = subprocess.run([*self._server, *words], capture_output=True, text=True, timeout=20, check=True)
        return done.stdout

    def text(self, styles: bool = False) -> str:
        # One line more than the screen: tmux scrolls by one where a process ended, to say so.
        return self._call("capture-pane", "-p", "-S", "-1", *(["-e"] if styles else []))

    def shows(self, *patterns: str) -> str:
        """Wait until all of these (regular expressions) are on the screen; the screen."""
        text = ""

        def found() -> bool:
            nonlocal text
            text = self.text()
            return all(re.search(pattern, text) for pattern in patterns)

        try:
            until(found, str(patterns))
        except AssertionError as error:
            raise AssertionError(f"{error}:\n{text}") from None
        return text

    def press(self, *keys: str) -> None:
        self._call("send-keys", *keys)

    def resize(self, width: int, height: int) -> None:
        self._call("resize-window", "-x", str(width), "-y", str(height))

    @property
    def pid(self) -> int:
        """The process id of the command."""
        return int(self._call("display-message", "-p", "#{pane_pid}"))

    def close(self) -> None:
        subprocess.run([*self._server, "kill-server"], capture_output=True, timeout=20)


@pytest.fixture
def tmux(requires: Callable[..., None], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tmux]:
    requires("tmux", package="tmux")
    terminal = Tmux(tmp_path_factory.mktemp("tmux"))
    yield terminal
    terminal.close()
