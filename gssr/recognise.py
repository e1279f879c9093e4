"""What a file or a folder holds, told by its content alone, whatever it is called."""

import os
import re
import shlex
import zlib
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

READABLE = ("recording", "kineto", "chrome", "nsys")
"""Kinds that gssr reads as they are."""
TRACES = READABLE[1:]

_HEAD = 1 << 20
"""Bytes that are looked at first."""
_OVERLAP = 64 << 10
_FURTHEST = 64 << 20
"""How far in the events of a trace are looked for."""
_OURS = b"GSSR"  # where SQLite keeps what application made a file
_SQLITE, _GZIP = b"SQLite format 3\0", b"\x1f\x8b"
_EVENTS = re.compile(rb'"traceEvents"\s*:\s*\[')
_START = re.compile(rb"(?:\xef\xbb\xbf)?\s*")
_EVENT = re.compile(rb'\[\s*(?:\{\s*\}\s*,\s*)?\{[^{}]*"ph"\s*:\s*"\w"')
_OF_KINETO = re.compile(
    rb'"(?:schemaVersion|deviceProperties|distributedInfo)"\s*:'
    rb'|"cat"\s*:\s*"(?:cpu_op|python_function|user_annotation|kernel|gpu_memcpy|cuda_runtime|Operator|Kernel|Runtime)"'
)
_MOST_FILES = 10_000
"""Of a folder that are looked at."""


class Found(NamedTuple):
    """``kind``: one of READABLE, or a name of what gssr can't read, "" for nothing it knows. ``problem``: why it can't,
    to be said behind the file's name; "" for what it reads."""

    kind: str
    problem: str = ""

    @property
    def no_recording(self) -> str:
        """The same of what is to be a recording."""
        return self.problem or f"is a trace ({self.kind}), not a recording"


def _unread(what: str) -> str:
    return f"is {what}, which this version can't read"


_UNPACK = "is packed with {}: unpack it first"
_MAGICS = (
    (b"version https://git-lfs", "", "is a pointer of Git LFS, not the file itself: fetch it with git lfs pull"),
    (b"\0\5\x16\7", "", "is what macOS keeps beside a file (its resource fork), not the file itself"),
    (b"PK\3\4", "", _UNPACK.format("zip")),
    (b"\x28\xb5\x2f\xfd", "", _UNPACK.format("zstd")),
    (b"\xfd7zXZ\0", "", _UNPACK.format("xz")),
    (b"BZh", "", _UNPACK.format("bzip2")),
    (_GZIP, "", "is packed with gzip twice: unpack it first"),
    (b"\xff\xfe", "", "is text in UTF-16: write it as UTF-8"),
    (b"\xfe\xff", "", "is text in UTF-16: write it as UTF-8"),
    (b"\3BOTF2", "otf2", _unread("a trace of Score-P (OTF2)")),
    (b"\3LOTF2", "otf2", _unread("a trace of Score-P (OTF2)")),
)
_REPORT = b"NVIDIA Tegra Profiler Report"
_AS_SQLITE = (
    "is a report of Nsight Systems as nsys writes it: gssr import {path} makes of it what gssr reads, where nsys is "
    "installed, and so does nsys export --type sqlite {path}"
)
_TEXTS = (
    (re.compile(rb"#Entity\s+\w+"), "dcgmi-dmon", "output of dcgmi dmon"),
    (re.compile(rb"#\s*(?:(?:Date\s+)?(?:Time\s+)?gpu)\s"), "nvidia-smi-dmon", "output of nvidia-smi dmon"),
    (re.compile(rb"timestamp, .*\[(?:%|MiB|W|MHz)\]"), "nvidia-smi-query", "output of nvidia-smi --query-gpu"),
    (re.compile(rb"# (?:HELP|TYPE) \w+ "), "prometheus", "metrics of Prometheus as text"),
)
_RANGE = rb'\{\s*"status"\s*:\s*"success"\s*,\s*"data"\s*:\s*\{\s*"resultType"'
_JSONS = (
    (re.compile(rb'\{\s*"rocprofiler-sdk-tool"\s*:'), "rocprof", "JSON of rocprofv3"),
    (re.compile(_RANGE), "prometheus-range", "an answer of Prometheus"),
    (re.compile(rb'\{\s*"metadata"\s*:\s*\{\s*"job_id"'), "gssr-0.x", "a recording of the older GSSR 0.x"),
    (re.compile(rb'\{[^{}\[\]]*"schema"\s*:\s*"[\d.]+-chakra'), "execution-trace", "an execution trace, without times"),
)


def recognise(path: str) -> Found:
    """What a file holds, or the first of those in a folder that gssr knows. Never raises, whatever is there, and starts no
    program."""
    try:
        if os.path.isdir(path):
            return _of_folder(path)
        if not os.path.isfile(path):
            return Found("", "is not a file" if os.path.lexists(path) else "no such file")
        with open(path, "rb") as stream:
            head = stream.read(100)
            if head.startswith(_SQLITE):
                return _of_database(path, head)
            if head.startswith(_REPORT):
                return Found("nsys-rep", _AS_SQLITE.format(path=shlex.quote(path)))
            stream.seek(0)
            return _of_pieces(_unpacked(stream) if head.startswith(_GZIP) else iter(lambda: stream.read(_HEAD), b""))
    except OSError as error:
        return Found("", f"can't be read: {error.strerror}")
    except zlib.error:
        return Found("", "is packed with gzip, and damaged")


def _unpacked(stream: BinaryIO) -> Iterator[bytes]:
    unpack = zlib.decompressobj(wbits=31)
    data = b""
    while not unpack.eof and (data := data or stream.read(_HEAD)):
        yield unpack.decompress(data, _HEAD)
        data = unpack.unconsumed_tail


def _of_pieces(pieces: Iterator[bytes]) -> Found:
    text = next(pieces, b"")
    if not text:
        return Found("", "is empty")
    done = len(text)
    found = _of_text(text)
    while found is None and done < _FURTHEST and (piece := next(pieces, b"")):
        text = text[-_OVERLAP:] + piece
        done += len(piece)
        found = _of_events(text, 0)
    return found or Found("", "is JSON, but no trace: there are no traceEvents in it")


def _of_events(text: bytes, begin: int) -> Found | None:
    if _EVENT.match(text, begin) or _EVENTS.search(text):
        return Found("kineto" if _OF_KINETO.search(text) else "chrome")
    return None


def _of_text(text: bytes) -> Found | None:
    """By what the file begins with; None for JSON in which there may be events further on."""
    for magic, kind, problem in _MAGICS:
        if text.startswith(magic):
            return Found(kind, problem)
    if text.startswith(_SQLITE):
        return Found("", "is a packed SQLite database: unpack it first")
    if text[257:262] == b"ustar":
        return _of_archive(text)
    start = _START.match(text)
    begin = start.end() if start else 0
    is_json = text[begin : begin + 1] in (b"{", b"[")
    if is_json and (found := _of_events(text, begin)):
        return found
    for pattern, kind, what in _JSONS if is_json else _TEXTS:
        if pattern.match(text, begin):
            return Found(kind, _unread(what))
    return None if is_json else Found("", "is not a recording (not an SQLite database), nor a trace that gssr knows")


def _of_archive(head: bytes) -> Found:
    names: list[bytes] = []
    at = 0
    while len(names) < 100 and (name := head[at : at + 100].partition(b"\0")[0]):
        names.append(name)
        size = head[at + 124 : at + 136].strip(b" \0")
        if not re.fullmatch(rb"[0-7]+", size):
            break
        at += 512 + -(-int(size, 8) // 512) * 512
    if any(name == b"anchor.xml" or name.endswith(b".index") for name in names):
        return Found("cube", _unread("a profile of Score-P (CUBE)"))
    return Found("", _UNPACK.format("tar"))


def _of_database(path: str, head: bytes) -> Found:
    if head[68:72] == _OURS:
        return Found("recording")
    return of_tables(_tables_of(path))


def of_tables(tables: set[str]) -> Found:
    """What an SQLite database is that GSSR did not make, by the names of its tables in small letters."""
    if any(name.startswith(("cupti_activity_kind_", "target_info_", "enum_nsys_")) for name in tables):
        return Found("nsys")
    if {"data", "process_metadata"} <= tables:
        return Found("gssr-0.x", _unread("a recording of the older GSSR 0.x"))
    if not tables:
        return Found("", "holds nothing: nothing was recorded into it")
    return Found("", "is an SQLite database of something else, not a recording")


def _tables_of(path: str) -> set[str]:
    """The names of the tables of a database, in small letters; none where it can't be read."""
    import sqlite3
    from contextlib import closing
    from urllib.parse import quote

    uri = f"file:{quote(os.fsencode(os.path.abspath(path)))}?mode=ro&immutable=1"
    try:
        with closing(sqlite3.connect(uri, uri=True)) as connection:
            connection.text_factory = lambda data: data.decode("utf-8", "replace")
            connection.execute("PRAGMA trusted_schema=OFF")
            rows = connection.execute("SELECT name FROM sqlite_master WHERE type='table' LIMIT 10000")
            return {str(name).lower() for (name,) in rows}
    except sqlite3.Error:
        return set()


def _of_folder(path: str) -> Found:
    names = sorted(os.listdir(path))[:_MOST_FILES]
    if "traces.otf2" in names:
        return Found("otf2", _unread("a trace of Score-P (OTF2)"))
    others = []
    for name in names:
        file = os.path.join(path, name)
        if os.path.isfile(file):
            found = recognise(file)
            if not found.problem:
                return found
            others.append(found)
    return next((found for found in others if found.kind), Found("", "is a folder without a recording or a trace"))
