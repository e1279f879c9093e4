"""What is printed arrives whole, or a line says why not."""

import shlex
import subprocess
import sys

import pytest


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
