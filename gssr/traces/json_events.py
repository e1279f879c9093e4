"""The events of a Chrome trace as they stand in their file, some thousand at a time: plain or packed, pretty or compact,
with what writers get wrong in JSON, or cut off. Memory is that of a few pieces, however large the file is."""

import json
import os
import re
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from typing import Any, BinaryIO

from gssr.traces.timeline import TraceError

Scalar = str | int | float | bool | None
Time = str | int | float | None

PIECE = 2 << 20
"""Bytes that are decoded at once."""
MOST_BYTES = 16 << 30
_MOST_RATIO, _NEVER_TOO_MUCH = 60, 64 << 20
"""What is unpacked may be so many times as long as what is packed, beyond so many bytes: traces of torch.profiler are 10 to
25 times as long."""
_LEAST_PACKED, _NEVER_TOO_MANY = 6, 2_000_000
"""Bytes of a packed file that an event takes at least, beyond so many events: those of torch.profiler take 9 and more."""
_MOST_BESIDES = 64 << 20
"""Bytes of what stands before the events, and behind them."""
_GAP = re.compile(rb"[, \t\r\n]*")
_END = re.compile(rb'\s*(?:,\s*"|\}|\Z)')
_LONGEST_EVENT, _LONGEST_MENDED = 8 << 20, 64 << 10
_WINDOW = 64 << 10
_AT_ONCE = 64 << 10
"""Bytes that are packed or unpacked: as many are lost where something is damaged."""
_WORTH_TWO = 256 << 20
"""Bytes from which on a second process gains more than it takes to start."""

FIELDS = {name: name for name in ("ph", "cat", "name", "pid", "tid", "ts", "dur")}
ARGS = {name: name for name in ("correlation", "device", "stream", "bytes", "size", "direction", "name", "labels")} | {
    "allocated": "Total Allocated",
    "reserved": "Total Reserved",
    "device_id": "Device Id",
    "device_type": "Device Type",
    "source": "Src Rank",
    "target": "Dst Rank",
}
"""What is used of an event, and of what it has besides: attributes, and their keys."""
SHAPES = {"dims": "Input Dims", "types": "Input type", "values": "Concrete Inputs"}
"""What an operator may have besides: attributes of which the text is kept, and their keys."""

_EVENTS = re.compile(rb'"traceEvents"\s*:\s*\[')
_BOM = b"\xef\xbb\xbf"
_BARE = re.compile(rb"(?:%b)?\s*\[" % _BOM)
_TAIL = re.compile(rb'\}\s*(\])\s*(?:,\s*"[^"\\]{0,100}"\s*:|\}\s*\Z)')
_BETWEEN = re.compile(rb'\}(\s*,\s*)\{\s*"[^"\\]{0,100}"\s*:')
"""Between two objects of a list: nothing within a string can look like this, whose quotes would have a backslash."""
_BRACKET = re.compile(rb'[^"\[\]{}]*+(?:"(?:[^"\\]++|\\.)*+"[^"\[\]{}]*+)*+([\[\]{}])', re.DOTALL)
_NO_CONTROLS = b" " * 32 + bytes(range(32, 256))
_ESCAPE = re.compile(
    rb"""\\(?: ["\\/bfnrt]
           | u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2} | u(?![dD][89a-fA-F])[0-9a-fA-F]{4} )
      | (\\u[dD][89a-fA-F][0-9a-fA-F]{2})
      | \\""",
    re.VERBOSE,
)
_NOT_A_NUMBER = re.compile(rb'([\w)\]]"\s*:\s*)[-+]?(?:NaN|nan|[Ii]nf(?:inity)?)(?=\s*[,}])')
_NOT_A_NUMBER_IN_LIST = re.compile(rb"([\[,]\s*)[-+]?(?:NaN|nan|[Ii]nf(?:inity)?)(?=\s*[,\]])")


Batch = tuple[list[Any], bytes | memoryview]
"""Some events, each with the attributes FIELDS (None where it lacks them) and args (None, or an object with those of ARGS);
and the text that they stand in, a list's without its brackets."""


class Decoder:
    """Decodes lists of events with msgspec, or, several times slower, with the standard library. With ``exact`` the
    attribute ``ts`` is the text of the number (bytes-like or str), so that all its digits count. ``is_fast``: msgspec
    is used."""

    def __init__(self, exact: bool = False) -> None:
        self.is_fast = True
        try:
            import msgspec  # noqa: F401

            self._decode = _by_msgspec(exact)
        except ImportError:
            self.is_fast, self._decode = False, _by_json

    def __call__(self, text: bytes | memoryview) -> list[Any] | None:
        """Decode events from the text of a list without its brackets. Returns None if it is no sound JSON, or values
        have other types than events' have."""
        try:
            return self._decode(b"".join((b"[", text, b"]")))
        except (ValueError, RecursionError):
            return None


@cache
def _by_msgspec(exact: bool) -> Callable[[bytes], list[Any]]:
    """Make the function that decodes with msgspec. It raises ValueError for unsound text. Raises ImportError without
    msgspec."""
    import msgspec

    scalar: Any = Scalar
    time: Any = msgspec.Raw if exact else Time
    raw: Any = msgspec.Raw
    fields = [*((name, scalar, None) for name in ARGS), *((name, raw, None) for name in SHAPES)]
    args = msgspec.defstruct("Args", fields, rename=ARGS | SHAPES, gc=False)
    names = ("ph", "cat", "name", "pid", "tid")
    event = msgspec.defstruct(
        "Event",
        [
            *((name, scalar, None) for name in names),
            ("ts", time, None),
            ("dur", Time, None),
            ("args", args | None, None),
        ],
        gc=False,
    )
    decoder = msgspec.json.Decoder(list[event])  # type: ignore[valid-type]

    def decode(text: bytes) -> list[Any]:
        try:
            return decoder.decode(text)
        except msgspec.DecodeError as error:
            raise ValueError from error

    return decode


class _Object:
    args: "_Object | None"
    ts: Time
    dur: Time

    def __init__(self, fields: Mapping[str, Any], names: Mapping[str, str]) -> None:
        for name, key in names.items():
            value = fields.get(key)
            if isinstance(value, list | dict):
                raise ValueError
            setattr(self, name, value)


def _by_json(text: bytes) -> list[Any]:
    """Decode a list of events with the standard library. Raises ValueError or RecursionError for unsound text."""
    events = []
    for fields in json.loads(text, parse_float=_Digits, parse_constant=_refuse):
        if not isinstance(fields, dict):
            raise ValueError
        event = _Object(fields, FIELDS)
        args = fields.get("args")
        if isinstance(event.ts, bool) or isinstance(event.dur, bool) or not (args is None or isinstance(args, dict)):
            raise ValueError
        event.args = None
        if isinstance(args, dict):
            event.args = _Object(args, ARGS)
            for name, key in SHAPES.items():
                value = args.get(key)
                setattr(event.args, name, None if value is None else json.dumps(value).encode())
        events.append(event)
    return events


class _Digits(str):
    """A number as it was written."""

    __slots__ = ()


def _refuse(constant: str) -> None:
    raise ValueError(constant)


class JsonEvents:
    """The events of a Chrome trace file, or of the part from byte ``begin``, where an event begins, to byte ``end``.
    Iterated once.

    While it is iterated ``keys`` fills with the other keys of the file's outermost object, ``left_out`` counts events
    that could not be decoded, and ``notes`` says what was mended or is missing. ``is_cut`` is True at the
    end if the file ends within its events, or can't be unpacked to their end. ``is_through`` is True at the end if
    the part ended exactly with an event. ``most_bytes``: how much the file may unpack to, None for the default.
    """

    def __init__(self, path: str, most_bytes: int | None = None, begin: int = 0, end: int | None = None) -> None:
        self.path = path
        self.keys: dict[str, Any] = {}
        self.left_out = 0
        self.notes: list[str] = []
        self.decode = Decoder()
        if not self.decode.is_fast:
            self.notes.append("read without msgspec, which is several times faster: pip install msgspec isal")
        self.is_through = self.is_cut = False
        self._is_part, self._has_end = begin > 0, end is None
        self._pieces = FileChunks(path, most_bytes, begin, end)
        self._is_mended = False
        self._between = b""

    def check_number(self, n_events: int) -> None:
        """Raise TraceError if a packed file of this size cannot honestly hold ``n_events`` events."""
        most = self._pieces.most_events
        if most is not None and n_events > most:
            raise TraceError(f"{self.path}: unpacks to more than {most:,} events: --max-size SIZE allows more")

    def want_digits(self) -> None:
        """Decode the times of all further events as texts."""
        self.decode = Decoder(exact=True)

    def __iter__(self) -> Iterator[Batch]:
        """Yield batches of events. Raises TraceError if the file is no trace, cannot be read, or is too large."""
        pieces = iter(self._pieces)
        rest, is_list = (next(pieces, b""), False) if self._is_part else self._begin(pieces)
        piece, end = rest or b" ", None
        while True:
            between = _last_between(rest) if piece else None
            cut = between.start() + 1 if between else 0
            events = self.decode(memoryview(rest)[:cut]) if cut else None
            if between and events is not None:
                self._between = between[1]
                yield events, memoryview(rest)[:cut]
            else:  # the end of the file or the list, or something broken: look exactly
                cut, end = _ends(rest)
                if cut:
                    yield self._carefully(rest[:cut])
                elif between and len(rest) > _LONGEST_EVENT:  # a string that does not end
                    cut = between.start() + 1
                    yield self._one_by_one(rest[:cut])
                if end is not None or not piece or len(rest) - cut > _MOST_BESIDES:
                    break
            rest = rest[_behind_gap(rest, cut) :]
            piece = _next_of(pieces, 1 if cut else len(rest) or 1)  # an event may be very long
            rest += piece
        rest, end = rest[cut:].lstrip(b", \t\r\n"), None if end is None else 0
        self.is_through = end is None and not rest
        if end is None and (tail := _last(_TAIL, rest, 0)):
            end = tail.start(1)
            yield self._one_by_one(rest[:end])
        if end is not None:
            self._finish(rest[end + 1 :], pieces, is_list)
        elif self._has_end and (rest or not is_list):
            self.is_cut = True
            self.notes.append("the file is cut off: all whole events were read")
        if self._pieces.problem:
            self.is_cut = True
            self.notes.append(self._pieces.problem)
        if self._is_mended:
            self.notes.append("not everything is sound JSON: characters that may not be in it were replaced")

    def _begin(self, pieces: Iterator[bytes]) -> tuple[bytes, bool]:
        """Skip to the events. Returns the text behind their opening bracket, and True if the file is nothing but a list
        of events. Raises TraceError if there are none."""
        text = b""
        for piece in pieces:
            looked = max(0, len(text) - 100)
            text += piece
            if found := _BARE.match(text):
                return text[found.end() :], True
            if found := _EVENTS.search(text, looked):
                self._note_keys(text[: found.start()].rstrip().rstrip(b",") + b"}")
                return text[found.end() :], False
            if len(text) > _MOST_BESIDES:
                break
        raise TraceError(f"{self.path}: holds no trace: there are no traceEvents in it")

    def _finish(self, text: bytes, pieces: Iterator[bytes], is_list: bool) -> None:
        """Read the keys behind the events; ``text`` is what follows their closing bracket."""
        for piece in pieces:
            text += piece
            if len(text) > _MOST_BESIDES:
                self.notes.append("what stands behind the events is too long, and was not read")
                return
        if not is_list:
            self._note_keys(b"{" + text.strip().lstrip(b","))

    def _note_keys(self, text: bytes) -> None:
        """Store the keys of the object in ``text``. If it is no sound JSON only the most important ones are found, and
        a note says so."""
        try:
            found, _ = json.JSONDecoder().raw_decode(mended(text.removeprefix(_BOM)).decode().lstrip())
            if not isinstance(found, dict):
                raise ValueError
        except (ValueError, RecursionError):
            self.notes.append("what stands around the events is not sound JSON, or cut off")
            found = {}
            for key, value in re.findall(rb'"(baseTimeNanoseconds|distributedInfo)"\s*:\s*(\d+|\{[^{}]*\})', text):
                with suppress(ValueError, RecursionError):
                    found[key.decode()] = json.loads(value)
        self.keys.update(found)

    def _carefully(self, text: bytes) -> Batch:
        return self._decoded(text) or self._one_by_one(text)

    def _decoded(self, text: bytes) -> Batch | None:
        """Decode the events of a text as they are, or after mending it. None if neither works."""
        events = self.decode(text)
        if events is None:
            text = mended(text)
            events = self.decode(text)
            self._is_mended |= events is not None
        return None if events is None else (events, text)

    def _one_by_one(self, text: bytes) -> Batch:
        """Decode the events of a text one after the other, counting in ``left_out`` those that cannot be decoded. The
        batch may be empty."""
        found: list[Batch] = []
        at = 0
        while (begin := text.find(b"{", at)) >= 0:
            at = self._next(text, begin)
            some = self._decoded(text[begin:at])
            if some is None and (end := _ends(text[begin : begin + _LONGEST_MENDED], 1)[0]):
                some = self._decoded(text[begin : begin + end])
                at = begin + end if some else at
            some = some or self._decoded(_NOT_A_NUMBER_IN_LIST.sub(rb"\1null", text[begin:at]))
            if some:
                found.append(some)
            else:
                self.left_out += 1
        return [event for events, _ in found for event in events], b",".join([text for _, text in found])

    def _next(self, text: bytes, begin: int) -> int:
        """Return the position behind the event that begins at ``begin``, guessed from what stands between events in
        this file; the end of the text if there is no such place."""
        if self._between:
            found = text.find(b"}" + self._between + b"{", begin + 1)
            return found + 1 if found >= 0 else len(text)
        between = _BETWEEN.search(text, begin + 1)
        return between.start() + 1 if between else len(text)


def _next_of(pieces: Iterator[bytes], least: int) -> bytes:
    """Take pieces until they have ``least`` bytes together, and join them; fewer, or b"", at the end."""
    found, size = [], 0
    while size < least and (piece := next(pieces, b"")):
        found.append(piece)
        size += len(piece)
    return b"".join(found)


def _behind_gap(text: bytes, at: int) -> int:
    found = _GAP.match(text, at)
    return found.end() if found else at


def middle_of(path: str) -> int | None:
    """Find a byte near the middle of a large unpacked trace at which an event begins, so that two processes can read
    one half each. None if the file is small, packed, or no such place is found. It is a guess by indentation: it may be
    an object within an event, and then ``is_through`` of the first half is False. Raises OSError."""
    with open(path, "rb") as stream:
        size = os.fstat(stream.fileno()).st_size
        if size < _WORTH_TWO or not stream.read(PIECE).lstrip(_BOM).lstrip().startswith(b"{"):
            return None
        begin = stream.seek(size // 2)
        found = min(_BETWEEN.finditer(stream.read(PIECE)), key=lambda one: len(one[1]), default=None)
        return begin + found.end(1) if found else None


def _last(pattern: re.Pattern[bytes], text: bytes, begin: int) -> re.Match[bytes] | None:
    return max(pattern.finditer(text, begin), key=re.Match.start, default=None)


def _last_between(text: bytes) -> re.Match[bytes] | None:
    """Find the last gap between two objects in a text, None if there is none."""
    window = _WINDOW
    while True:
        begin = max(0, len(text) - window)
        if (found := _last(_BETWEEN, text, begin)) or begin == 0:
            return found
        window *= 8


def _ends(text: bytes, most: int = 1 << 60) -> tuple[int, int | None]:
    """Find the ends of whole objects in the text of a list, at most ``most`` of them. Returns the position behind the
    last whole one, 0 if there is none, and the position of the bracket that closes the list, None if it is not reached."""
    depth = at = whole = count = 0
    while count < most and (found := _BRACKET.match(text, at)):
        at = found.end()
        if found[1] in b"[{":
            depth += 1
        elif depth:
            depth -= 1
            if depth == 0:
                whole, count = at, count + 1
        else:
            return whole, at - 1 if found[1] == b"]" and _END.match(text, at) else None
    return whole, None


def mended(text: bytes) -> bytes:
    """Correct what writers get wrong in JSON: bytes that are not UTF-8, control characters and single backslashes in
    strings, halves of surrogates, and NaN or Infinity, which become null."""
    try:
        text.decode()
    except UnicodeDecodeError:
        text = text.decode("utf-8", "replace").encode()
    text = _ESCAPE.sub(_escape, text.translate(_NO_CONTROLS))
    return _NOT_A_NUMBER.sub(rb"\1null", text)


def _escape(found: re.Match[bytes]) -> bytes:
    if found[1]:
        return rb"\ufffd"
    return found[0] if len(found[0]) > 1 else rb"\\"


class FileChunks:
    """A file's bytes, unpacked if it is packed with gzip, in pieces of about 2 MiB. Iterated once.

    Args:
        most: how many bytes it may have unpacked. None: 16 GiB, and of a packed file at most 60 times its size.
        begin, end: the part to read, only of a file that is not packed.

    ``problem`` is a sentence once a packed file turned out to be damaged or cut off, else "". ``is_packed`` is known
    with the first piece. Iterating raises TraceError if the file cannot be read or is too large.
    """

    def __init__(self, path: str, most: int | None = None, begin: int = 0, end: int | None = None) -> None:
        self._path = path
        self._begin, self._end = begin, end
        self._asked = most
        self.problem = ""
        self.is_packed = False
        self.most_events: int | None = None
        """How many events it may hold, None for any number; known with the first piece."""

    def __iter__(self) -> Iterator[bytes]:
        """Yield the pieces. Raises TraceError if the file cannot be read, or is longer than it may be."""
        try:
            with open(self._path, "rb") as stream:
                is_packed = self.is_packed = stream.read(2) == b"\x1f\x8b"
                stream.seek(0)
                size = os.fstat(stream.fileno()).st_size
                sound = max(_NEVER_TOO_MUCH, _MOST_RATIO * size) if is_packed else MOST_BYTES
                most = self._asked or min(MOST_BYTES, sound)
                if is_packed and self._asked is None:
                    self.most_events = max(_NEVER_TOO_MANY, size // _LEAST_PACKED)
                done = 0
                for piece in self._unpacked(stream) if is_packed else self._plain(stream):
                    done += len(piece)
                    if done > most:
                        what = "unpacks to" if is_packed else "holds"
                        raise TraceError(
                            f"{self._path}: {what} more than {most / 1e9:.3g} GB: --max-size SIZE allows more"
                        )
                    yield piece
        except OSError as error:
            raise TraceError(f"{self._path}: can't be read: {error.strerror}") from None

    def _plain(self, stream: BinaryIO) -> Iterator[bytes]:
        """Yield pieces of the part from ``begin`` to ``end`` as they stand in the file."""
        at = stream.seek(self._begin)
        while piece := stream.read(PIECE if self._end is None else min(PIECE, self._end - at)):
            at += len(piece)
            yield piece

    def _unpacked(self, stream: BinaryIO) -> Iterator[bytes]:
        """Yield unpacked pieces, of all members; the last may be empty. Stops and sets ``problem`` where the file is
        damaged or cut off."""
        zip_ = _import_unpacker()
        unpack: Any = None
        data, held = b"", b""
        while True:
            data = data or stream.read(_AT_ONCE)
            if not data:
                if unpack is not None:
                    self.problem = "the file is cut off within what is packed: what could be unpacked was read"
                break
            if unpack is None:
                data = data.lstrip(b"\0")  # between members
                unpack = zip_.decompressobj(wbits=31) if data else None
                continue
            try:
                held += unpack.decompress(data, _AT_ONCE)
            except zip_.error:
                self.problem = "what is packed is damaged: what could be unpacked was read"
                break
            data = unpack.unconsumed_tail
            if unpack.eof:
                data, unpack = unpack.unused_data, None
            if len(held) >= PIECE:
                yield held
                held = b""
        yield held


def _import_unpacker() -> Any:
    """Return the module that unpacks: isal's if it is installed, else zlib, which has the same functions."""
    try:
        from isal import isal_zlib
    except ImportError:
        return zlib
    return isal_zlib
