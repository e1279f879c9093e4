"""A whole file of JSON, which other tools write in one go."""

import json
import math
import os
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from gssr.arrays import Floats
from gssr.foreign.series import ForeignError

_MOST = 4 << 30
"""Bytes of a file, and of what it unpacks to: decoded they take some times as much memory."""
_PIECE = 1 << 20
_GZIP = b"\x1f\x8b"


def load(path: str) -> Any:
    """What a file says, packed with gzip or not. Raises ForeignError."""
    return decode(contents(path), path)


def decode(data: bytes, name: str) -> Any:
    """What a text says, of which ``name`` is the name. Raises ForeignError."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        where = f" ({error.msg} at character {error.pos:,})" if isinstance(error, json.JSONDecodeError) else ""
        raise ForeignError(f"{name}: is cut off, or no sound JSON{where}") from None


def contents(path: str) -> bytes:
    """The bytes of a file, unpacked. Raises ForeignError."""
    try:
        with open(path, "rb") as stream:
            is_packed = stream.read(2) == _GZIP
            stream.seek(0)
            if os.fstat(stream.fileno()).st_size > _MOST:
                raise ForeignError(f"{path}: is larger than {_MOST >> 30} GiB")
            if not is_packed:
                return stream.read()
            unpack, parts, size = zlib.decompressobj(wbits=31), [], 0
            while piece := stream.read(_PIECE):
                while piece:
                    parts.append(unpack.decompress(piece, _PIECE))
                    piece = unpack.unconsumed_tail
                    size += len(parts[-1])
                    if size > _MOST:
                        raise ForeignError(f"{path}: unpacks to more than {_MOST >> 30} GiB")
            return b"".join(parts)
    except OSError as error:
        raise ForeignError(f"{path}: can't be read: {error.strerror}") from None
    except zlib.error:
        raise ForeignError(f"{path}: is packed with gzip, and damaged") from None


def number(value: object) -> float | None:
    """A finite number, also one that is written as a text; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        found = float(value)
    except (ValueError, OverflowError):
        return None
    return found if math.isfinite(found) else None


def whole(value: object) -> int | None:
    """A whole number that is not negative, also one that is written as a text; None for anything else."""
    found = number(value)
    return int(found) if found is not None and 0 <= found < 1 << 53 and found == int(found) else None


def text(value: object) -> str | None:
    """A text that is not empty, or a whole number as one; None for anything else."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return value.encode("utf-8", "replace").decode() or None if isinstance(value, str) else None


def floats(values: Sequence[object]) -> Floats:
    """float64[n]; NaN for what is no number."""
    try:
        if set(map(type, values)) <= {int, float}:
            return np.array(values, np.float64)
    except OverflowError:
        pass
    return np.array([math.nan if (own := number(value)) is None else own for value in values], np.float64)
