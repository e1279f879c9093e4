"""Files of JSON that other tools write in one go: as a whole, or one element of a long list after the other."""

import codecs
import json
import math
import re
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from gssr.arrays import Floats
from gssr.foreign.series import ForeignError

MOST_UNPACKED, MOST_TIMES = 64 << 20, 4
"""Bytes that a packed file may unpack to, and sizes of the file: of more than both, reading it would take longer, and more
memory, than a file of its size may. Who trusts it unpacks it."""
_MOST_DECODED, _MOST_DECODED_TIMES = 400 << 20, 20
"""Bytes of memory that the objects of a text may take decoded, and sizes of the text: files of metrics take 7 times theirs,
but of "{},{}," each character can become 24 bytes."""
_LONGEST_ELEMENT = 32 << 20
"""Bytes of one element of a list: a series of Prometheus has 11,000 points at most, in some 300 KB."""
_MOST_ELEMENTS = 1 << 20
"""Of a list: as many series as are told apart (gssr.foreign.prometheus_series)."""
_WORTH_COUNTING = 4 << 20
"""Bytes of text from which on it is looked at how much memory it takes decoded."""
_PIECE = 1 << 20
_GZIP = b"\x1f\x8b"
_GAP = re.compile(r"[\s,]*")
_NEAR_END = 16
"""Characters: what is cut off makes the decoder complain so near to the end of the text, or of a string that goes on."""


def load(path: str) -> Any:
    """Decode a JSON file, packed with gzip or not. Raises ForeignError if it cannot be read, is damaged, no JSON, or
    too large."""
    return decode(b"".join(contents(path)), path)


def decode(data: bytes | str, name: str) -> Any:
    """Decode a JSON text. ``name`` is what error messages call it. Raises ForeignError if it is no sound JSON, or would
    take far more memory than its size."""
    _check_decoded_size(data, name)
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise _unsound(name, error) from None


def _unsound(name: str, error: Exception, before: int = 0) -> ForeignError:
    """Return (not raise) the error for text that is no JSON. ``before`` is the number of characters before the part
    that was being decoded."""
    where = f" ({error.msg} at character {before + error.pos:,})" if isinstance(error, json.JSONDecodeError) else ""
    return ForeignError(f"{name}: is cut off, or no sound JSON{where}")


def _check_decoded_size(text: bytes | str, name: str) -> None:
    """Raise ForeignError if the decoded objects of a text could take far too much memory, estimated by counting the
    characters with which objects begin."""
    if len(text) < _WORTH_COUNTING:
        return

    def count(character: str) -> int:
        return text.count(character) if isinstance(text, str) else text.count(character.encode())

    most = 232 * count("{") + 88 * count("[") + 25 * count('"') + 40 * count(",")
    if most > max(_MOST_DECODED, _MOST_DECODED_TIMES * len(text)):
        raise ForeignError(
            f"{name}: would take {most / 1e9:.1f} GB of memory, {most // len(text)} times its size: no tool writes that"
        )


class JsonElements:
    """Decodes the elements of the list under ``key`` in a JSON file one after the other, as the list may be long.

    ``rest`` is None until all elements were taken; then it is the rest of the file, with that list empty. In a file
    without such a list there are no elements, and ``rest`` is all it holds.
    """

    def __init__(self, path: str, key: str) -> None:
        self._path = path
        self._list = re.compile(rf'"{key}"\s*:\s*\[')
        self.rest: Any = None

    def __iter__(self) -> Iterator[Any]:
        """Yield the elements. Raises ForeignError if the file cannot be read, is no sound JSON, or is absurdly large."""
        texts = self._decode_pieces()
        text, found = "", None
        for piece in texts:
            looked = max(0, len(text) - 100)
            text += piece
            found = self._list.search(text, looked)
            if found:
                break
        if found is None:
            self.rest = decode(text, self._path)
            return
        head, at, before, n = text[: found.end()], found.end(), 0, 0
        scan = json.JSONDecoder().raw_decode
        while True:
            gap = _GAP.match(text, at)
            at = gap.end() if gap else at
            if text[at : at + 1] == "]":
                break
            try:
                value, end = scan(text, at)
                is_whole = end < len(text)  # else it may be a number that goes on
            except (ValueError, RecursionError) as error:
                is_whole, problem = False, error
                if not self._may_go_on(error, len(text)):
                    raise _unsound(self._path, error, before) from None
            else:
                problem = ValueError()
            if is_whole:
                n += 1
                if n > _MOST_ELEMENTS:
                    raise ForeignError(f"{self._path}: has more than {_MOST_ELEMENTS:,} series: no tool writes that")
                yield value
                at = end
                continue
            before += at
            text, at = text[at:], 0
            more = self._as_long(texts, len(text))
            if not more:
                raise _unsound(self._path, problem, before) from None
            text += more
            _check_decoded_size(text, self._path)
        tail = text[at:] + "".join(texts)
        self.rest = decode(head + tail, self._path)

    @staticmethod
    def _may_go_on(error: Exception, length: int) -> bool:
        """Tell whether a decoding error may only mean that a text of this length is cut off."""
        if not isinstance(error, json.JSONDecodeError):
            return False
        return error.pos + _NEAR_END >= length or error.msg.startswith("Unterminated string")

    def _as_long(self, texts: Iterator[str], length: int) -> str:
        """Read at least ``length`` more characters, so that a long element is not decoded again and again. Returns ""
        at the end of the file. Raises ForeignError if the element is already too long."""
        if length > _LONGEST_ELEMENT:
            raise ForeignError(
                f"{self._path}: has a series of more than {_LONGEST_ELEMENT >> 20} MB: no tool writes that"
            )
        parts, size = [], 0
        while size < max(length, 1) and (piece := next(texts, "")):
            parts.append(piece)
            size += len(piece)
        return "".join(parts)

    def _decode_pieces(self) -> Iterator[str]:
        """Yield the text of the file piece by piece, without a byte order mark. Raises ForeignError if it can't be read
        or is not UTF-8."""
        decoder = codecs.getincrementaldecoder("utf-8-sig")("surrogatepass")
        try:
            for data in contents(self._path):
                yield decoder.decode(data)
            yield decoder.decode(b"", True)
        except UnicodeDecodeError as error:
            raise _unsound(self._path, error) from None


def contents(path: str) -> Iterator[bytes]:
    """Yield the bytes of a file in pieces, unpacked if it is packed with gzip. Raises ForeignError if it cannot be
    read, is damaged or cut off, or unpacks to far more than its size."""
    try:
        with open(path, "rb") as stream:
            is_packed = stream.read(2) == _GZIP
            stream.seek(0)
            unpack, size, n_read = zlib.decompressobj(wbits=31), 0, 0
            while piece := stream.read(_PIECE):
                if not is_packed:
                    yield piece
                    continue
                n_read += len(piece)
                has_more = False
                while piece or has_more:
                    if unpack.eof:  # gzip files may be put one behind the other, and filled up with zeros
                        if not piece.strip(b"\0"):
                            break
                        unpack = zlib.decompressobj(wbits=31)
                    data = unpack.decompress(piece, _PIECE)
                    has_more = len(data) == _PIECE and not unpack.eof
                    piece = unpack.unused_data if unpack.eof else unpack.unconsumed_tail
                    size += len(data)
                    check_unpacked(path, size, n_read)
                    yield data
            if is_packed and not unpack.eof:
                raise ForeignError(f"{path}: is packed with gzip, and cut off")
    except OSError as error:
        raise ForeignError(f"{path}: can't be read: {error.strerror}") from None
    except zlib.error:
        raise ForeignError(f"{path}: is packed with gzip, and damaged") from None


def check_unpacked(path: str, size: int, packed: int) -> None:
    """Raise ForeignError if a packed file grows too much: it has unpacked to ``size`` bytes so far from ``packed``
    bytes."""
    if size > MOST_UNPACKED and size > MOST_TIMES * packed:
        raise ForeignError(
            f"{path}: unpacks to more than {MOST_UNPACKED >> 20} MB and {MOST_TIMES} times its size: unpack it first"
        )


def number(value: object) -> float | None:
    """Convert a JSON value, or a text, to a finite number. None for anything else, booleans too."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        found = float(value)
    except (ValueError, OverflowError):
        return None
    return found if math.isfinite(found) else None


def whole(value: object) -> int | None:
    """Convert a JSON value, or a text, to a whole number from 0 to 2^53. None for anything else."""
    found = number(value)
    return int(found) if found is not None and 0 <= found < 1 << 53 and found == int(found) else None


def text_or_none(value: object) -> str | None:
    """Return a text, or a whole number as text. None for an empty text and for anything else."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return value.encode("utf-8", "replace").decode() or None if isinstance(value, str) else None


def floats(values: Sequence[object]) -> Floats:
    """Convert JSON values, or texts, to float64[n]; NaN for those that are no finite numbers."""
    try:
        if set(map(type, values)) <= {int, float}:
            return np.array(values, np.float64)
    except OverflowError:
        pass
    return np.array([math.nan if (own := number(value)) is None else own for value in values], np.float64)
