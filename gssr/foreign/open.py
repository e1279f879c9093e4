"""Opening metric files of other tools: which files of a folder are some, which reader is for which, and their bytes as that
one takes them: unpacked, in UTF-8, and of a file that grows also what comes later."""

import codecs
import os
import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from importlib import import_module
from typing import Any

from gssr.foreign.json_file import check_unpacked
from gssr.foreign.prometheus_runs import HEAD
from gssr.foreign.series import ByteSource, ForeignError, ForeignSeries, ImportHints, Note
from gssr.foreign.write import write
from gssr.recognise import FOREIGN, recognise
from gssr.store.format.sample_arrays import Samples
from gssr.store.read.private_copy import PRIVATE, private_folder

NOTHING = ImportHints()
STREAMED = {
    "dcgmi-dmon": "dmon",
    "nvidia-smi-dmon": "dmon",
    "nvidia-smi-query": "csv_rows",
    "kempnerpulse": "csv_rows",
    "prometheus": "prometheus_text",
}
"""Kinds of which each file is a series, and the modules here whose ``read(source, told)`` reads one, piece by piece."""
OF_RUNS = {"prometheus": "prometheus_runs"}
"""Kinds of which a file that does not grow may be several runs; ``read(source, told)`` returns a series for each."""
WHOLE = {
    "gssr-0.x": "published_json",
    "gssr-0.x database": "published_sqlite",
    "gssr-record": "gssr_record",
    "prometheus-range": "prometheus_range",
    "jobstats": "jobstats",
    "jobreport": "jobreport",
}
"""Kinds of which several files make a series; ``read(paths, told)`` reads them all."""
LONGEST_LINE = 16 << 20
_AT_ONCE = 1 << 20
_DIGITS = re.compile("[0-9]+")
_GZIP = b"\x1f\x8b"
_MARKS = ((b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"), (b"\xef\xbb\xbf", ""))


class Bytes:
    """The bytes of a file as an iterator of chunks, unpacked and in UTF-8. Iterated once.

    Args:
        wait: is called at the end of the file; True means that more may come (b"" is yielded and the file looked at
            again), False that the file has ended. None: the end of the file is the end.
        took: is called with the number of bytes of each read from the disk.

    ``problem`` is "" until a packed file turns out to be damaged or cut; then it is a sentence.
    """

    def __init__(
        self, path: str, wait: Callable[[], bool] | None = None, took: Callable[[int], None] | None = None
    ) -> None:
        self._path, self._wait, self._took = path, wait, took
        self.problem = ""

    def __iter__(self) -> Iterator[bytes]:
        """Yield chunks. Raises ForeignError if the file cannot be read, has a line too long for any tool, or unpacks to
        far more than its size."""
        line = 0
        for chunk in self._decoded():
            end = chunk.rfind(b"\n")
            line = line + len(chunk) if end < 0 else len(chunk) - end
            if line > LONGEST_LINE:
                raise ForeignError(
                    f"{self._path}: has a line of more than {LONGEST_LINE >> 20} MB: no tool writes such lines"
                )
            yield chunk

    def _decoded(self) -> Iterator[bytes]:
        """Yield unpacked chunks without a byte order mark, UTF-16 converted to UTF-8."""
        chunks = self._unpacked()
        head = b""
        for chunk in chunks:
            head += chunk
            if len(head) >= 3 or not (chunk or self._wait):
                break
        mark, encoding = next(((mark, name) for mark, name in _MARKS if head.startswith(mark)), (b"", ""))
        decode = codecs.getincrementaldecoder(encoding)("replace").decode if encoding else None
        head = head[len(mark) :]
        yield decode(head).encode() if decode else head
        for chunk in chunks:
            yield decode(chunk).encode() if decode else chunk

    def _unpacked(self) -> Iterator[bytes]:
        """Yield chunks, unpacked if the file begins as gzip does. Stops early and sets ``problem`` if it is damaged."""
        packed, unpack, begun, n_in, n_out = None, zlib.decompressobj(wbits=31), False, 0, 0
        for data in self._raw():
            n_in += len(data)
            if packed is None and data:
                packed = data.startswith(_GZIP)
            if not packed:
                yield data
                continue
            while data:
                try:
                    piece = unpack.decompress(data, _AT_ONCE)
                except zlib.error:
                    self.problem = f"{self._path}: is packed with gzip, and damaged after {n_out:,} bytes of text"
                    return
                n_out += len(piece)
                check_unpacked(self._path, n_out, n_in)
                data, begun = unpack.unconsumed_tail, True
                if unpack.eof:  # another one may follow
                    data, unpack, begun = unpack.unused_data, zlib.decompressobj(wbits=31), False
                yield piece
        if begun:
            self.problem = f"{self._path}: is packed with gzip, and cut: it ends after {n_out:,} bytes of text"
            yield unpack.flush()

    def _raw(self) -> Iterator[bytes]:
        """Yield chunks as they are on the disk, and b"" where more may come. Ends if the file shrinks below what was
        read."""
        try:
            with open(self._path, "rb") as stream:
                while True:
                    data = stream.read(_AT_ONCE)
                    if data:
                        if self._took is not None:
                            self._took(len(data))
                        yield data
                    elif self._wait is None or stream.tell() > os.fstat(stream.fileno()).st_size or not self._wait():
                        return
                    else:
                        yield b""
        except OSError as error:
            raise ForeignError(f"{self._path}: can't be read: {error.strerror}") from None


def files_in(paths: Sequence[str], told: ImportHints = NOTHING) -> dict[str, list[str]]:
    """Find the metric files of other tools among these files, and in these folders at any depth.

    Returns paths by kind, the keys of STREAMED and WHOLE. A file whose columns the user gives (``told.columns``) counts
    as CSV if its kind cannot be recognised. Raises ForeignError for a file that is no metric file, and for a folder
    without any.
    """
    found: dict[str, list[str]] = {}
    for path in paths:
        ours = _kinds_below(path) if os.path.isdir(path) else [(path, _kind(path))]
        if told.columns and os.path.isfile(path) and not ours[0][1]:
            ours = [(path, "nvidia-smi-query")]
        if not any(kind for _, kind in ours):
            why = recognise(path)
            raise ForeignError(f"{path}: {why.problem or f'is no metric file of another tool, but a {why.kind}'}")
        for file, kind in ours:
            if kind:
                found.setdefault(kind, []).append(file)
    return {kind: list(dict.fromkeys(files)) for kind, files in found.items()}


def _kinds_below(folder: str) -> list[tuple[str, str]]:
    """List all files below a folder with their kinds, "" for those that are no metric files. Hidden files are left out.
    An empty or damaged file gets the kind of files whose path differs only in digits, so that the reader reports what
    is wrong with it."""
    found: list[tuple[str, str]] = []
    alike: dict[str, str] = {}
    for place, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            path = os.path.join(place, name)
            if not name.startswith(".") and os.path.isfile(path):
                found.append((path, _kind(path)))
                alike[_DIGITS.sub("0", path)] = found[-1][1] or alike.get(_DIGITS.sub("0", path), "")
    return [(path, kind or (alike[_DIGITS.sub("0", path)] if _is_of_nothing(path) else "")) for path, kind in found]


def _is_of_nothing(path: str) -> bool:
    return not recognise(path).kind


def _kind(path: str) -> str:
    """Return the kind of a file, a key of STREAMED or WHOLE; "" if it is no metric file."""
    kind = recognise(path).kind
    if kind not in FOREIGN:
        return ""
    with open(path, "rb") as stream:
        return f"{kind} database" if stream.read(6) == b"SQLite" else kind


def open_files(
    files: Mapping[str, Sequence[str]], told: ImportHints, took: Callable[[int], None] | None = None
) -> list[ForeignSeries]:  # fmt: skip
    """Open metric files, as ``files_in`` returns them. Returns their series; the rows of streamed kinds are not read
    yet. ``took`` is called with the number of bytes of each read (of streamed kinds only). Raises ForeignError."""
    found: list[ForeignSeries] = []
    for kind, paths in files.items():
        if kind in STREAMED:
            for path in paths:
                found += _whole_file(kind, path, Bytes(path, took=took), told)
        else:
            name = paths[0] if len(paths) == 1 else os.path.commonpath([os.path.abspath(path) for path in paths])
            for series in _reader(WHOLE[kind])(paths, told):
                series.file, series.stem = name, _stem(name)
                found.append(series)
    return found


def _reader(name: str) -> Callable[..., Any]:
    read: Callable[..., Any] = import_module(f"gssr.foreign.{name}").read
    return read


def streamed(kind: str, path: str, data: Bytes, told: ImportHints) -> ForeignSeries:
    """Open one file of a kind in STREAMED as a series. If the bytes turn out damaged, a note is added after the last
    piece. Raises ForeignError, also while the pieces are taken."""
    return _named(_reader(STREAMED[kind])(_source(path, data), told), path, data)


def _whole_file(kind: str, path: str, data: Bytes, told: ImportHints) -> list[ForeignSeries]:
    """Open one file of a kind in STREAMED that does not grow, as ``streamed`` does: a series for each of its runs."""
    if kind not in OF_RUNS:
        return [streamed(kind, path, data, told)]
    found = _reader(OF_RUNS[kind])(_source(path, data), told)
    return [_named(series, path, data) for series in found]


def is_export_of_runs(path: str) -> bool:
    """Tell whether a text of Prometheus begins as an export of GSSR does, which is whole when it is there. Raises
    ForeignError if it can't be read."""
    return next(iter(Bytes(path)), b"").startswith(HEAD)


def _source(path: str, data: Bytes) -> ByteSource:
    """Return the file's bytes and its time. Raises ForeignError."""
    try:
        modified = os.stat(path).st_mtime
    except OSError as error:
        raise ForeignError(f"{path}: can't be read: {error.strerror}") from None
    return ByteSource(path, iter(data), modified)


def _named(series: ForeignSeries, path: str, data: Bytes) -> ForeignSeries:
    """Name a series after its file, and have damage of the file's bytes noted after the last piece. Returns the series."""
    pieces = series.pieces

    def until_problem() -> Iterator[Samples]:
        yield from pieces
        if data.problem:
            series.notes.append(Note(data.problem))

    series.pieces, series.file, series.stem = until_problem(), path, _stem(path)
    return series


def _stem(path: str) -> str:
    """Call a node by the name of its file."""
    name = os.path.basename(path.rstrip("/"))
    return name.removesuffix(".gz").partition(".")[0] or name


@contextmanager
def temporary_recording(paths: Sequence[str], apart: bool = False) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Import metric files and folders into a recording of this process's own, which is removed when the block ends.
    Yields the recording's path, and sentences about what could not be read. ``apart``: each file is a run, even where
    runs overlap in time. Raises RecordingError if there is no metric file or nothing in them can be read."""
    with ExitStack() as until_end:
        try:
            path = os.path.join(until_end.enter_context(private_folder("import")), PRIVATE)
            written = write(path, open_files(files_in(paths), NOTHING), NOTHING, apart)
        except OSError as error:
            raise ForeignError(f"{paths[0]}: no temporary recording of it can be made: {error.strerror}") from None
        yield path, written.problems
