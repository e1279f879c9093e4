"""Tables of text as arrays: whole lines of what comes, the cells in them, and the numbers and times that stand there.

Eight bytes at a time: every byte of a block begins a 64-bit word, so that a cell of digits is read with some multiplications
whatever its length. What is no plain number is looked at as a word, each word once.
"""

import re
from collections.abc import Callable, Iterator
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from gssr.arrays import Bytes, Flags, Floats, Ints
from gssr.foreign.names import MISSING

Words = NDArray[np.uint64]

_AT_ONCE = 1 << 20
_PAD = b"\n" * 64
"""Before and after a block, so that a word near its ends is one."""
_NUMBER = re.compile(rb"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,3})?")
_LONGEST = 128
"""Bytes of a cell that are looked at: a GPU's UUID has 40."""
_HEX = re.compile(rb"0[xX][0-9a-fA-F]{1,16}")


class Lines:
    """Split chunks of bytes into blocks of whole lines. Iterating yields blocks that end with a line feed, and b"" for
    each empty chunk, which stands for "nothing new yet". A block holds many lines (up to about 1 MiB).

    ``rest`` is the text behind the last line feed so far: a line that may be cut off.
    """

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self.rest = b""

    def __iter__(self) -> Iterator[bytes]:
        """Yield blocks of whole lines, and b"" for each empty chunk; what is left over is in ``rest``."""
        for chunk in self._chunks:
            if not chunk:
                yield b""
            for at in range(0, len(chunk), _AT_ONCE):
                data = self.rest + chunk[at : at + _AT_ONCE]
                end = data.rfind(b"\n") + 1
                self.rest = data[end:]
                if end:
                    yield data[:end]


def take_until(blocks: Iterator[bytes], holds: Callable[[bytes], object]) -> list[bytes]:
    """Take blocks until one satisfies ``holds``, or there are no more. Returns the blocks taken, that one last; [] if
    there are none. The rest stays in ``blocks``."""
    begun: list[bytes] = []
    for block in blocks:
        begun.append(block)
        if holds(block):
            break
    return begun


class TextCells:
    """The cells of a block of whole lines, as positions in arrays.

    ``text`` is uint8[bytes], the block with padding around it; ``begin`` and ``end`` are int64[cells], the bytes of
    ``text`` between which a cell stands without blanks around it; ``first`` is int64[lines + 1], the index of each
    line's first cell (the last element is the number of cells); ``lines`` is int64[lines], the byte at which each line
    begins. ``unread`` counts cells that were read as numbers but hold neither a number nor a word for a missing value.

    Args:
        block: whole lines, each with its line feed.
        comma: True if commas separate cells (a cell may then be empty); False if blanks and commas do.
    """

    def __init__(self, block: bytes, comma: bool) -> None:
        self.raw = _PAD + block + _PAD
        self.text: Bytes = np.frombuffer(self.raw, np.uint8)
        self.words: Words = np.ndarray((len(self.raw) - 7,), "<u8", self.raw, strides=(1,))
        self.unread = 0
        if comma:
            inside = self.text[len(_PAD) : -len(_PAD)]
            self.end: Ints = np.flatnonzero((inside == 44) | (inside == 10)) + len(_PAD)
            self.begin: Ints = np.concatenate(([len(_PAD)], self.end[:-1] + 1))
            last = np.flatnonzero(self.text[self.end] == 10)
            stops = self.end[last]
            self.first: Ints = np.concatenate(([0], last + 1))
            self._trim()
        else:
            solid = (self.text > 32) & (self.text != 44)
            edges = np.flatnonzero(solid[1:] != solid[:-1]) + 1
            self.begin, self.end = edges[::2], edges[1::2]
            stops = np.flatnonzero(self.text[len(_PAD) : -len(_PAD)] == 10) + len(_PAD)
            self.first = np.concatenate(([0], np.searchsorted(self.begin, stops)))
        self.lines: Ints = np.concatenate(([len(_PAD)], stops[:-1] + 1))

    def _trim(self) -> None:
        """Move ``begin`` and ``end`` of each cell past the blanks and control characters at its ends."""
        while (more := (self.text[self.begin] <= 32) & (self.begin < self.end)).any():
            self.begin = self.begin + more
        while (more := (self.text[self.end - 1] <= 32) & (self.begin < self.end)).any():
            self.end = self.end - more

    @property
    def count(self) -> Ints:
        """The number of cells of each line, int64[lines]."""
        return np.diff(self.first)

    def line(self, number: int) -> bytes:
        """Return the line of this index, without its line end (also without a carriage return)."""
        end = self.raw.index(b"\n", self.lines[number])
        return self.raw[self.lines[number] : end].rstrip(b"\r")

    def word(self, cell: int) -> bytes:
        """Return the text of the cell of this index."""
        return self.raw[self.begin[cell] : self.end[cell]]

    def keys(self, cells: Ints) -> Words:
        """Return the text of each cell as one number, uint64[n], for quick comparison with ``key(word)``. 0 for texts
        longer than 8 bytes and for empty ones."""
        width = self.end[cells] - self.begin[cells]
        return np.where(width > 8, np.uint64(0), self.words[self.begin[cells]] & _low(width))

    def distinct(self, cells: Ints) -> tuple[Ints, Ints]:
        """Number the different texts of cells from 0 on, in the order in which they first come.

        Returns the number of each cell's text, int64[cells], and for each number the first cell that holds the text.
        Only the first 128 bytes of a text are compared.
        """
        found, which = self._distinct(self.begin[cells], self.end[cells])
        order = np.argsort(found, kind="stable")
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        return place[which], cells[found[order]]

    def _distinct(self, begin: Ints, end: Ints) -> tuple[Ints, Ints]:
        """Find the different texts between ``begin`` and ``end``, which are bytes of ``text``, int64[n].

        Returns for each different text the index (into ``begin``) of its first occurrence, and for each of the n
        positions which of these texts stands there.
        """
        width = end - begin
        mixed = width.astype(np.uint64)
        for at in range(0, min(int(width.max(initial=0)), _LONGEST), 8):
            word = self.words[np.minimum(begin + at, len(self.words) - 1)] & _low(width - at)
            mixed = (mixed ^ word) * np.uint64(0x9E3779B97F4A7C15)
            mixed ^= mixed >> np.uint64(29)
        _, found, which = np.unique(mixed, return_index=True, return_inverse=True)
        return found, which

    def numbers(self, cells: Ints, unit: bytes = b"") -> Floats:
        """Read cells as numbers, float64[cells]. The unit may stand behind a number, after one blank, or be left out.

        NaN for a cell that holds no number (counted in ``unread`` unless it is a word for a missing value), and for a
        cell index below 0, which means that the row has no such cell.
        """
        begin, end = self.begin[cells], self.end[cells]
        if len(cells) and cells.min() < 0:
            end = np.where(cells < 0, begin, end)
        return self.numbers_at(begin, end, unit)

    def numbers_at(self, begin: Ints, end: Ints, unit: bytes = b"") -> Floats:
        """Read the texts between ``begin`` and ``end`` (bytes of ``text``, int64[n]) as numbers, float64[n], as
        ``numbers`` reads cells: with the unit behind them or without, and NaN, counted in ``unread``, for what is no
        number."""
        if unit:
            behind = b" " + unit
            has = (self.words[end - 8] >> np.uint64(64 - 8 * len(behind))) == np.uint64(key(behind))
            end = end - len(behind) * (has & (end - begin > len(behind)))
        minus = (self.text[begin] == 45) & (end - begin > 1)
        any_minus = bool(minus.any())
        from_digit = begin + minus if any_minus else begin
        values, good = self._decimals(from_digit, end)
        if any_minus:
            values = np.where(minus, -values, values)
        if not good.all():
            self._read_others(values, np.flatnonzero(~good), begin, end)
        return values

    def _decimals(self, begin: Ints, end: Ints) -> tuple[Floats, Flags]:
        """Read numbers without a sign, of at most 15 digits, whose decimal point, if any, is among their last 8 bytes.

        Returns the values, float64[n], and bool[n], False where the text is anything else (the value is then
        meaningless). A value is one whole number divided by a power of ten, so it is rounded exactly as by reading the
        text.
        """
        n = end - begin
        word = _last(self.words[end - 8], np.minimum(n, 8))
        points = _where_is(word, 46)
        if not points.any():
            return self.digits(begin, end)
        _, bit = np.frexp(points.astype(np.float64))
        place = np.where(points > 0, (bit - 1) >> 3, -1).astype(np.int64)
        decimals = np.where(place < 0, 0, 7 - place)
        scale = _TENS[decimals]
        if n.max(initial=0) <= 8:
            below = _low(place)
            word = (word & ~_low(place + 1)) | ((word & below) << np.uint64(8))
            value, good = _eight(word, n - (place >= 0))
            return value.astype(np.float64) / scale, good & (n - (place >= 0) > 0) & ((place < 0) | (decimals > 0))
        part, good_part = self.digits(end - decimals, end)
        whole, good = self.digits(begin, end - decimals - (place >= 0))
        good &= (place < 0) | (good_part & (n <= 16))
        return np.where(place < 0, whole, (whole * scale + part) / scale), good

    def digits(self, begin: Ints, end: Ints) -> tuple[Floats, Flags]:
        """Read numbers of 1 to 15 digits between ``begin`` and ``end``, which are bytes of ``text``, int64[n].

        Returns the values, float64[n], and bool[n], False where the text is anything else (the value is then
        meaningless).
        """
        n = end - begin
        value, good = _eight(self.words[end - 8], np.minimum(n, 8))
        values = value.astype(np.float64)
        if n.max(initial=0) > 8:
            value, good_high = _eight(self.words[end - 16], np.clip(n - 8, 0, 8))
            values += value.astype(np.float64) * 1e8
            good &= good_high
        return values, good & (n > 0) & (n <= 15)

    def _read_others(self, values: Floats, which: Ints, begin: Ints, end: Ints) -> None:
        """Read the cells at the indices ``which`` that are no plain decimal numbers, and set their places in
        ``values``. Each different text is parsed once, as the same few words ("N/A") fill most such cells. Counts in
        ``unread`` what is neither a number nor a missing value."""
        found, place = self._distinct(begin[which], end[which])
        places = [(int(begin[at]), int(end[at])) for at in which[found].tolist()]
        read = [parse_number(self.raw[at:to]) if to - at <= _LONGEST else (float("nan"), False) for at, to in places]
        values[which] = np.array([value for value, _ in read])[place]
        self.unread += int(np.array([not is_read for _, is_read in read])[place].sum())


def key(word: bytes) -> int:
    """Return the number that ``TextCells.keys`` gives for a cell with this text."""
    return int.from_bytes(word, "little")


@lru_cache(maxsize=4096)
def parse_number(word: bytes) -> tuple[float, bool]:
    """Parse a word as a decimal or hexadecimal number.

    Returns the number, NaN if the word is none, and True if the word is a number or one of the words for a missing
    value ("N/A", "-", the empty word).
    """
    if _NUMBER.fullmatch(word):
        return float(word), True
    if _HEX.fullmatch(word):
        return float(int(word, 16)), True
    return float("nan"), word.decode("utf-8", "replace").strip().lower() in MISSING


def _low(width: Ints) -> Words:
    """Make words whose ``width`` first bytes are all ones."""
    return ~np.uint64(0) >> (64 - 8 * np.clip(width, 0, 8)).astype(np.uint64)


_TENS = 10.0 ** np.arange(8)
_ZEROS, _SIXES = np.uint64(0x3030303030303030), np.uint64(0x0606060606060606)
_HIGH, _SEVEN = np.uint64(0xF0F0F0F0F0F0F0F0), np.uint64(0x7F7F7F7F7F7F7F7F)


def _last(word: Words, n: Ints) -> Words:
    """Keep the last ``n`` bytes of each word, with 0 before them."""
    before = (64 - 8 * n).astype(np.uint64)
    return (word >> before) << before


def _where_is(word: Words, byte: int) -> Words:
    """Mark where a byte occurs in words: the highest bit of each byte that equals ``byte`` is set, all other bits are
    0."""
    other = word ^ np.uint64(byte * 0x0101010101010101)
    return ~(((other & _SEVEN) + _SEVEN) | other | _SEVEN)


def _eight(word: Words, n: Ints) -> tuple[Words, Flags]:
    """Read the last ``n`` (0 to 8) bytes of each word as a whole number.

    Returns the numbers, uint64, and flags that are False where one of these bytes is no digit (the number is then
    meaningless).
    """
    word = _last(word, n) | (_ZEROS >> (8 * n).astype(np.uint64))
    good = ((word & _HIGH) == _ZEROS) & (((word + _SIXES) & _HIGH) == _ZEROS)
    word = ((word & np.uint64(0x0F0F0F0F0F0F0F0F)) * np.uint64(2561)) >> np.uint64(8)
    word = ((word & np.uint64(0x00FF00FF00FF00FF)) * np.uint64(6553601)) >> np.uint64(16)
    word = ((word & np.uint64(0x0000FFFF0000FFFF)) * np.uint64(42949672960001)) >> np.uint64(32)
    return word, good
