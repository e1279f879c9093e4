"""What the live screen sends to the terminal when labels and the workload's output are attacks."""

import re
import time
from pathlib import Path

from live_terminal import OFF_SCREEN, LiveTerminal, gssr

from tests.waiting import until

ATTACK = (
    "\x1b]0;owned\x07 \x1b]52;c;ZXZpbA==\x07 \x1b]8;;http://evil.example\x1b\\x\x1b]8;;\x1b\\ \x1bP$qm\x1b\\ "
    "\x9b31m \x9d0;x\x9c \x1b[5n \x1b[c \x1bc \x1b[5m"
)
SENT = re.compile(
    r"\x1b\[[0-9;]*[CGHKPbm@]|\x1b\[2J|\x1b\[6n|\r+\n|\x1b\[\?[0-9;]+\$?[hlp]"
    r"|\x1b\[[<>=]?[0-9;]*[uq]|\x1b\[[0-9;]* q|\x1b\]22;[a-z]*\x07"
    r"|[^\x00-\x08\x0b-\x1f\x7f-\x9f]"
)
"""What a screen is drawn with: the cursor, and where it is, repeating, erasing, moving by a cell what rolls, colours and
modes, the keyboard's, the pointer's shape; and characters."""


def test_no_sequence_of_a_label_or_of_the_output_reaches_the_terminal_under_the_screen(tmp_path: Path) -> None:
    (tmp_path / "attack").write_bytes(ATTACK.encode() + b"\n" + bytes(range(256)) + b"\nprinted\n")
    terminal = LiveTerminal(
        tmp_path, [*gssr("-l", ATTACK + "[bold]label"), "sh", "-c", "cat attack; echo; echo all; sleep 1"]
    )
    try:
        terminal.on_screen()
        terminal.expect("he job has ended")  # of "The" and "the" only the first letter is sent again
        until(lambda: "printed" in terminal.text(), "the output on the screen")
        for number in "2345":
            terminal.type(number)
        terminal.type("e")
        terminal.expect("newest first")
        terminal.type("q")  # closes the list
        time.sleep(0.3)
        terminal.type("q")
        terminal.expect(OFF_SCREEN)
        assert terminal.code() == 0
        text = terminal.text()
        screen = text[text.index("\x1b[?1049h") : text.index(OFF_SCREEN)]
        assert "printed" in screen
        assert "?]0;owned?" in screen  # the label's beginning, for which there is room
        rest = SENT.sub("", screen)
        assert not rest, repr(rest)
        assert "\x1b[5n" not in screen and "\x1b[5m" not in screen
    finally:
        terminal.close()
