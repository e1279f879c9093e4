"""The bar is drawn on a terminal, after a second, and nowhere else."""

import io
import os
import pty
import sys

import pytest

from gssr.commands import progress_bar
from gssr.commands.progress_bar import ProgressBar


def _on_terminal(monkeypatch: pytest.MonkeyPatch) -> int:
    """Make stderr a terminal; return the descriptor at which what is written there is read."""
    ours, theirs = pty.openpty()
    monkeypatch.setattr(sys, "stderr", os.fdopen(theirs, "w"))
    monkeypatch.setenv("TERM", "xterm")
    os.set_blocking(ours, False)
    return ours


def _written(terminal: int) -> str:
    """All that was written since the last call."""
    found = b""
    while True:
        try:
            found += os.read(terminal, 1 << 16)
        except BlockingIOError:
            return found.decode()


def test_a_bar_is_drawn_on_a_terminal_and_erased(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = _on_terminal(monkeypatch)
    monkeypatch.setattr(progress_bar, "_AFTER_SECONDS", 0.0)
    bar = ProgressBar("[exporting]")
    bar.show(0.25)
    drawn = _written(terminal)
    assert "[exporting]" in drawn and "25%" in drawn
    bar.clear()
    assert "\x1b[2K" in _written(terminal)
    bar.clear()
    assert not _written(terminal)


def test_nothing_is_drawn_within_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = _on_terminal(monkeypatch)
    bar = ProgressBar("exporting")
    bar.show(0.5)
    bar.clear()
    assert not _written(terminal)


def test_nothing_is_drawn_into_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress_bar, "_AFTER_SECONDS", 0.0)
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    bar = ProgressBar("exporting")
    bar.show(0.5)
    bar.clear()
    assert not sys.stderr.getvalue()


def test_without_rich_nothing_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = _on_terminal(monkeypatch)
    monkeypatch.setattr(progress_bar, "_AFTER_SECONDS", 0.0)
    monkeypatch.setitem(sys.modules, "rich.progress", None)
    bar = ProgressBar("exporting")
    bar.show(0.5)
    bar.clear()
    assert not _written(terminal)
