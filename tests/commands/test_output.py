"""What is printed arrives whole, or a line says why not."""

import io
import shlex
import subprocess
import sys

import pytest

from gssr.commands.page_options import shows_utf8


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("output")
    gssr("demo -m 0.5 -o a.sql", place)
    return place


def gssr(words: str, folder) -> subprocess.CompletedProcess:
    command = f"{shlex.quote(sys.executable)} -m gssr {words}"
    return subprocess.run(["sh", "-c", command], cwd=folder, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("words", ["analyze a.sql", "analyze --json a.sql", "doctor"])
def test_an_output_that_is_full_is_one_line_and_one_that_is_closed_none(folder, words):
    full = gssr(f"{words} >/dev/full", folder)
    assert (full.returncode, full.stderr) == (1, "gssr: the output can't be written: No space left on device\n")
    closed = gssr(f"{words} >&-", folder)
    assert (closed.returncode, closed.stderr) == (0, "")
    cut = gssr(f"{words} | head -c 1", folder)
    assert (cut.returncode, cut.stderr) == (0, "") and len(cut.stdout) == 1


@pytest.mark.parametrize(
    ("variables", "encoding", "tty", "shown"),
    [
        ({}, "utf-8", True, True), ({"LC_ALL": "C"}, "utf-8", True, False), ({"LC_ALL": "C"}, "utf-8", False, False),
        ({"LC_ALL": "C.UTF-8"}, "UTF8", True, True), ({"LC_CTYPE": "POSIX"}, "utf-8", False, False),
        ({"LANG": "C", "LC_CTYPE": "C.UTF-8"}, "utf-8", False, True), ({}, "ascii", False, False),
        ({"TERM": "linux"}, "utf-8", True, False), ({"TERM": "linux"}, "utf-8", False, True),
        ({"LC_ALL": "C", "PYTHONIOENCODING": "utf-8"}, "utf-8", False, True),
    ],
)  # fmt: skip
def test_what_shows_no_more_than_ascii_gets_no_more(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], encoding: str, tty: bool, shown: bool
) -> None:
    for name in ("LC_ALL", "LC_CTYPE", "LANG", "TERM", "PYTHONIOENCODING"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    monkeypatch.setattr(stream, "isatty", lambda: tty, raising=False)
    assert shows_utf8(stream) == shown
    assert not shows_utf8(None)
