"""Everything that reads a file, a word or a message from elsewhere is given hostile ones: any of them may be refused in a
sentence, none may bring an error of another kind, take long, or take memory that its input does not."""

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple


class Reader(NamedTuple):
    """``name`` as the command line takes it. ``attempt`` makes one input of numbers drawn from the generator, in an empty
    folder, and reads it; it raises where the reader did not answer as it should."""

    name: str
    attempt: Callable[[Path, random.Random], None]


class Parser(NamedTuple):
    """A reader of one text or one file: ``drawn`` makes a hostile one, ``parse`` reads one in an empty folder and raises
    where that was not answered as it should be."""

    name: str
    drawn: Callable[[random.Random], bytes]
    parse: Callable[[Path, bytes], None]

    def attempt(self, folder: Path, rng: random.Random) -> None:
        """As a Reader's."""
        try:
            self.parse(folder, self.drawn(rng))
        finally:
            for path in folder.iterdir():
                shutil.rmtree(path) if path.is_dir() else path.unlink()


SMALL = (0, 1, -1, 2, 7, 255, 256, 65535, 1 << 31, (1 << 31) - 1, 1 << 53, (1 << 63) - 1, -(1 << 63))
REAL = (0.5, -0.0, 1e-300, 1e300, -1e308, float("inf"), float("-inf"), 5e-324, 1.7e9, 1e11, 1e18, 2.5)
TEXT = (
    "", " ", "\0", "nan", "1e999", "'", '"', ";--", "running", "\x1b]0;x\x07", "\u202e", "a\nb", "../../x", "é" * 300,
    "[red]", "{", '["a"', "[1, {}]", "9" * 400, "²", "٣", "-", "--5", "0x10", "1_000", "\ud800",
)  # fmt: skip


def value(rng: random.Random) -> object:
    """Something that SQLite can hold."""
    kind = rng.randrange(6)
    if kind == 0:
        return None
    if kind == 1:
        return rng.choice(SMALL)
    if kind == 2:
        return rng.choice(REAL)
    if kind == 3:
        return text(rng).encode("utf-8", "replace").decode()
    if kind == 4:
        return rng.randbytes(rng.choice((0, 1, 7, 8, 32, 500, 5000)))
    return rng.uniform(-10, 1e10)


def text(rng: random.Random) -> str:
    """Words made of bad ones."""
    return "".join(rng.choice(TEXT) for _ in range(rng.choice((1, 1, 1, 2, 3))))


def damage(data: bytes, rng: random.Random) -> bytes:
    """The bytes with some of them changed, moved, left out or put in."""
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 4, 16))):
        if not changed:
            return rng.randbytes(rng.choice((1, 16, 4096)))
        at, n = rng.randrange(len(changed)), rng.choice((1, 1, 2, 4, 8, 64, 512, 4096))
        how = rng.randrange(7)
        if how == 0:
            changed[at] ^= 1 << rng.randrange(8)
        elif how == 1:
            changed[at : at + n] = rng.randbytes(len(changed[at : at + n]))
        elif how == 2:
            changed[at : at + n] = rng.choice((b"\0", b"\xff", b"\x7f")) * len(changed[at : at + n])
        elif how == 3:
            other = rng.randrange(len(changed))
            changed[at : at + n] = changed[other : other + n].ljust(len(changed[at : at + n]), b"\0")
        elif how == 4:
            del changed[at : at + n]
        elif how == 5:
            changed[at:at] = rng.randbytes(n)
        elif rng.random() < 0.3:
            del changed[at:]
    return bytes(changed)
