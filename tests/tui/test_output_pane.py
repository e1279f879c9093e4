"""The pane with what the workload prints: what a terminal would show, and nothing that could reach the terminal."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gssr.render.cells import cell_width
from gssr.render.log_tail import log_tail
from gssr.render.output_pane import pane_height
from gssr.render.roles import text_of
from gssr.store.read.log_file import TAIL_BYTES, LogFile


def shown(data: bytes, width: int = 20, height: int = 5, ascii_only: bool = False) -> list[str]:
    return [text_of(row) for row in log_tail(data, width, height, ascii_only)]


@pytest.mark.parametrize(
    ("data", "rows"),
    [
        (b"", []),
        (b"one\ntwo\n", ["one", "two"]),
        (b"one\r\ntwo\r\n\r\n", ["one", "two"]),
        (b"one\n\nthree", ["one", "", "three"]),
        (b"1\n2\n3\n4\n5\n6\n7\n", ["3", "4", "5", "6", "7"]),
        (b" 10%|#   |\r 50%|##  |\r100%|####|\nafter\n", ["100%|####|", "after"]),
        (b"a long text\rshort", ["shortg text"]),
        (b"a long text\r\x1b[Kshort", ["short"]),
        (b"abc\b\bX", ["aXc"]),
        (b"a\tb", ["a       b"]),
        (b"one 1\ntwo 1\n\x1b[2Aone 2\x1b[K\ntwo 2\n", ["one 2", "two 2"]),
        (b"old\nold\n\x1b[2J\x1b[Hnew", ["new"]),
        (b"old\x1b[?1049hfull screen\x1b[?1049lshell", ["shell"]),
        (b"\x1b[1;31mred\x1b[0m \x1b]0;a title\x07text", ["red text"]),
        (b"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", ["link"]),
        (b"bell\x07 null\x00 del\x7f c1\xc2\x9b", ["bell null del c1"]),
        (b"cut off \x1b[3", ["cut off"]),
        (b"cut off \x1b]0;tit", ["cut off"]),
        (b"0123456789012345678901234", ["01234567890123456789", "01234"]),
        ("ab\u3042\u3042".encode() * 4, ["ab\u3042\u3042ab\u3042\u3042ab\u3042\u3042ab", "\u3042\u3042"]),
        (b"broken \xff\xe3\x81", ["broken \ufffd\ufffd"]),
    ],
)  # fmt: skip
def test_it_shows_what_a_terminal_would(data: bytes, rows: list[str]) -> None:
    assert shown(data) == rows


PROGRESS = """
from rich.console import Console
from rich.progress import Progress
with Progress(console=Console(force_terminal=True, width=60)) as bars:
    first, second = bars.add_task("load", total=5), bars.add_task("train", total=50)
    for step in range(50):
        bars.advance(second)
        bars.advance(first, 0.1)
        bars.refresh()
        if step % 20 == 0:
            bars.console.print(f"step {step}")
"""


def test_real_progress_bars_show_their_last_state() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRESS], capture_output=True, timeout=60)
    assert done.stdout.count(b"train") > 40
    assert [row.split()[0] for row in shown(done.stdout, 60, 10)] == ["step"] * 3 + ["load", "train"]
    assert all("100%" in row for row in shown(done.stdout, 60, 2))


@given(st.binary(max_size=300), st.integers(1, 60), st.integers(1, 20), st.booleans())
def test_nothing_but_drawable_characters_within_the_box(data: bytes, width: int, height: int, ascii_only: bool) -> None:
    rows = shown(data, width, height, ascii_only)
    assert len(rows) <= height
    for row in rows:
        assert cell_width(row) <= width
        assert row.isprintable()
        assert not ascii_only or row.isascii()


_PIECES = [
    b"\x1b[", b"\x1b]", b"\x1b", b"A", b"2J", b"K", b"H", b"999", b";", b"\r", b"\n", b"\b", b"text", b"\x9b",
    b"?1049h", b"9" * 5000,
]  # fmt: skip


@given(st.lists(st.sampled_from(_PIECES), max_size=60).map(b"".join))
def test_no_sequence_leads_it_astray(data: bytes) -> None:
    for row in shown(data, 30, 8):
        assert row.isprintable()
        assert len(row) <= 30


def test_a_flood_is_drawn_quickly() -> None:
    n = TAIL_BYTES
    for data in (b"y\n" * (n // 2), b"\r" * n, b"x" * n, b"50%|##   |\r" * (n // 11)):
        begun = time.process_time()
        log_tail(data, 80, 12)
        assert time.process_time() - begun < 0.5


def test_only_the_end_of_the_log_is_read_and_only_when_it_grew(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    log = LogFile(str(path))
    assert log.tail() is None
    path.write_bytes(b"".join(b"line %d\n" % n for n in range(10_000)))
    first = log.tail()
    assert first is not None
    assert len(first) <= TAIL_BYTES
    assert first.startswith(b"line ")
    assert first.endswith(b"line 9999\n")
    assert log.tail() is first
    with path.open("ab") as stream:
        stream.write(b"more\n")
    assert (log.tail() or b"").endswith(b"more\n")
    os.unlink(path)
    assert log.tail() is None


def test_what_earlier_runs_printed_is_not_shown(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    path.write_bytes(b"of before\n")
    log = LogFile(str(path), start=10)
    assert log.tail() == b""
    path.write_bytes(b"of before\nmine\n")
    assert log.tail() == b"mine\n"


def test_the_pane_leaves_most_of_the_screen_to_the_drawing() -> None:
    assert (pane_height(10), pane_height(24)) == (0, 8)
    assert all(pane_height(height) <= height // 2 for height in range(200))
