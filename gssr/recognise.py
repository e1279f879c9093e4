"""What a file or a folder holds, told by its content alone, whatever it is called; and which file may have been meant by a
name that is not there."""

from __future__ import annotations

import itertools
import os
import re
import shlex
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, TypeVar

from gssr.spelling import did_you_mean, similar

if TYPE_CHECKING:
    from gssr.guarded_sqlite import Guarded

_Kind = TypeVar("_Kind", bound=str)
TRACES = ("kineto", "chrome", "nsys", "rocpd", "rocprof", "proton", "cube", "otf2", "xspace", "perfetto")
MEMORY, FLIGHT = "torch-memory", "nccl-flight-recorder"
DUMPS = (MEMORY, FLIGHT)
"""What PyTorch writes when something is wrong, of which ``gssr analyze`` makes pages of their own: memory snapshots and
timelines, and NCCL's flight recorder."""
NCU_CSV, NCU_REPORT = "ncu-csv", "ncu-report"
PROFILES = (NCU_CSV, NCU_REPORT)
"""Launches of kernels that Nsight Compute has measured, of which ``gssr analyze`` makes a page, too."""
FOREIGN = (
    "dcgmi-dmon", "nvidia-smi-dmon", "nvidia-smi-query", "prometheus", "prometheus-range", "gssr-0.x", "gssr-record",
    "kempnerpulse", "jobstats", "jobreport",
)  # fmt: skip
"""Metric files of other tools: gssr.foreign."""
DAMAGED = "damaged"
"""The kind of a database that can't be read: of a folder it is said, and not passed over as what is no trace."""
READABLE = ("recording", *TRACES, *FOREIGN, *DUMPS, *PROFILES)
"""Kinds that gssr reads as they are."""

RANK_IN_NAME = re.compile(r"rank[-_]?(\d{1,9})(?!\d)", re.IGNORECASE)
"""In the name of a trace's file."""
# Patterns of bytes are compiled when text is first compared with them (``re`` keeps them): most files are recordings, which
# are known by their first bytes.
_RANK = rb'"distributedInfo"\s*:\s*\{[^{}]{0,2000}?"rank"\s*:\s*(\d{1,9})\b'
_RANKS = rb'"distributedInfo"\s*:\s*\{[^{}]{0,2000}?"world_size"\s*:\s*(\d{1,9})\b'

_HEAD = 1 << 20
"""Bytes that are looked at first."""
_OVERLAP = 64 << 10
_FURTHEST = 64 << 20
"""How far in the events of a trace are looked for."""
_OURS = b"GSSR"  # where SQLite keeps what application made a file
_SQLITE, _GZIP = b"SQLite format 3\0", b"\x1f\x8b"
_EVENTS = rb'"traceEvents"\s*:\s*\['
_START = rb"(?:\xef\xbb\xbf)?\s*"
_EVENT = rb'\[\s*(?:\{\s*\}\s*,\s*)?\{[^{}]*"ph"\s*:\s*"\w"'
_OF_KINETO = (
    rb'"(?:schemaVersion|deviceProperties|distributedInfo)"\s*:'
    rb'|"cat"\s*:\s*"(?:cpu_op|python_function|user_annotation|kernel|gpu_memcpy|cuda_runtime|Operator|Kernel|Runtime)"'
)
_OF_CUBE = rb"anchor\.xml|remapping\.spec|\d+\.(?:index|data)"
_MOST_SIBLINGS = 50
_MOST_FILES = 10_000
"""Of a folder that are looked at."""
LEAST_LIKENESS_OF_FILES = 0.85
"""Of the names of two files, one of which may be meant by the other: a letter or two in ten. Runs are named alike."""
_BELOW = ("rocpd", "rocprof", "xspace")
"""Traces whose tools put them into folders of their own, below the one that the user has named."""
_MOST_SESSIONS = 100
"""Of a database of rocprofv3 whose environments are looked at: it writes one for each process, tools that merge more."""
_LONGEST_ENVIRONMENT = 1 << 20
"""Bytes of the environment of a process: Linux starts none with more than a quarter of the stack, mostly 2 MB."""


class RecognisedFile(NamedTuple):
    """What a file holds. ``kind``: one of READABLE, or the name of something that gssr cannot read, "" if it is
    unknown. ``problem``: why it cannot be read, to follow the file's name in a sentence; "" if it can."""

    kind: str
    problem: str = ""

    @property
    def no_recording(self) -> str:
        """Why this is no recording, to follow the file's name in a sentence."""
        if self.kind in FOREIGN:
            return f"is a metric file of another tool ({self.kind}), not a recording: gssr import converts it"
        if self.kind in (*DUMPS, *PROFILES):
            return self.no_trace
        return self.problem or f"is a trace ({self.kind}), not a recording"

    @property
    def no_trace(self) -> str:
        """Why this is no trace, to follow the file's name in a sentence."""
        if self.kind in DUMPS:
            return f"is a dump of PyTorch ({self.kind}), neither a recording nor a trace: gssr analyze shows it"
        if self.kind in PROFILES:
            return "is of Nsight Compute, neither a recording nor a trace: gssr analyze shows it"
        return self.problem or "is a recording, not a trace"


def _unread(what: str) -> str:
    return f"is {what}, which this version can't read"


_OF_NSYS = re.compile(r"cupti_activity_kind_|target_info_|enum_nsys_")
"""How tables of Nsight Systems are called, in lower case."""
_COLUMNAR = (b"PAR1", b"ARROW1", b"\xff\xff\xff\xff")
"""How files of Parquet and of Arrow begin."""
_UNPACK = "is packed with {}: unpack it first"
_ALONE = "is one table in columns (Parquet or Arrow): of an export of Nsight Systems name the folder"
_MAGICS = (
    (b"version https://git-lfs", "", "is a pointer of Git LFS, not the file itself: fetch it with git lfs pull"),
    (b"\0\5\x16\7", "", "is what macOS keeps beside a file (its resource fork), not the file itself"),
    (b"PAR1", "", _ALONE),
    (b"ARROW1", "", _ALONE),
    (b"PK\3\4", "", _UNPACK.format("zip")),
    (b"\x28\xb5\x2f\xfd", "", _UNPACK.format("zstd")),
    (b"\xfd7zXZ\0", "", _UNPACK.format("xz")),
    (b"BZh", "", _UNPACK.format("bzip2")),
    (_GZIP, "", "is packed with gzip twice: unpack it first"),
    (b"NVR\0", NCU_REPORT, ""),
    (b"JS1:", "jobstats", ""),
    (b"\3BOTF2", "otf2", ""),
    (b"\3LOTF2", "otf2", ""),
)
_REPORT = b"NVIDIA Tegra Profiler Report"
_AS_SQLITE = (
    "is a report of Nsight Systems as nsys writes it: where nsys is installed, gssr import {path} converts it into what "
    "gssr reads, and so does nsys export --type sqlite {path}"
)
NOTHING_INSIDE = "is a folder without a recording or a trace"
"""The problem of a folder of which nothing more is known."""
_UNFINISHED = (
    "is a trace of Score-P (OTF2) without its anchor file, traces.otf2, which is written when the program ends: it still "
    "runs, or was killed"
)
_DAMAGED_OTF2 = "holds a trace of Score-P (OTF2) that can't be read: traces.otf2, its anchor file, is damaged"
_OF_OTF2 = "is one file of a trace of Score-P (OTF2): name its folder, or its anchor file, which ends in .otf2"
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_QUERIED = rb"utilization\.\w+|memory\.\w+|power\.\w+|temperature\.\w+|clocks\.[\w.]+|clocks_\w+\.active"
_NAMES = rb"(?:[a-z][\w.]*(?: \[[^\]\n]{1,9}\])?,\s?){0,60}(?:" + _QUERIED + rb")[\s,]"
_TEXTS = (
    (rb"(?:[^\n]{0,2000}\n){0,50}?(?:[^\n#]{1,40}\s)?#Entity\s+\w", "dcgmi-dmon"),
    (rb"(?:[^\n]{0,2000}\n){0,50}?(?:[^\n#]{1,40}\s)?#\s*(?:Date\s+)?(?:Time\s+)?gpu\s", "nvidia-smi-dmon"),
    (rb"timestamp,gpuId,DCGM_FI_", "gssr-record"),
    (rb"timestamp,gpu_id,[^\n]*_pct\b", "kempnerpulse"),
    (rb"jobId,stepId,username,[^\n]*\bgpuId,", "jobreport"),
    (rb"(?:[A-Za-z]{2,30}[|,;\t]){0,60}AdminComment(?:[|,;\t][A-Za-z]{2,30}){0,60}[|,]?\r?\n", "jobstats"),
    (_NAMES, "nvidia-smi-query"),
    (rb"(?:[^\n]{0,2000}\n){1,50}?timestamp,\s?" + _NAMES, "nvidia-smi-query"),
    (rb"\d{4}/\d\d/\d\d \d\d:\d\d:\d\d\.\d{3}, ", "nvidia-smi-query"),
    (rb"(?:#[^\n]*\n|\n){0,50}(?:# (?:HELP|TYPE) \w|[A-Za-z_:][\w:]*\{[^\n]*\} ?[-+.\dNI])", "prometheus"),
)
"""Of text that may have a header further down, its first lines are looked at."""
_NCU_COLUMN, _BEFORE_NCU_COLUMN = rb'Process ID"?,', (b"", b'"', b"ID,", b'"ID","')
"""A column of Nsight Compute's CSV, and what stands before it in the line of the header: nothing, or the first column."""
_LONGEST_NCU_HEAD = 5_000
"""Bytes behind it, within which the column with the kernel's name stands: ranges of NVTX may be before it."""
ROCPROF_TABLES = {
    "kernels": rb'"?Kind"?,[^\n]*\bKernel_Name"?,[^\n]*\bEnd_Timestamp\b',
    "copies": rb'"?Kind"?,[^\n]*\bDirection"?,[^\n]*\bEnd_Timestamp\b',
    "calls": rb'"?Domain"?,[^\n]*\bFunction"?,[^\n]*\bEnd_Timestamp\b',
    "counters": rb'"?Correlation_Id"?,[^\n]*\bCounter_Name"?,',
}
"""The headers of rocprofv3's CSV files with events that are read, by what stands in them."""
_ROCPROF_AGENTS = rb'"?Node_Id"?,[^\n]*\bAgent_Type\b'
_OTHER_ROCPROF = (
    rb'"?(?:Guid"?,"?)?(?:Kind|Domain|Correlation_Id|Name|Node_Id)"?,[^\n]*'
    rb"(?:End_Timestamp|TotalDurationNs|Logical_Node_Type_Id|Agent_Type)\b"
)
_NO_EVENTS = "is a table of rocprofv3 without kernels, copies or calls: name the _kernel_trace.csv beside it"
_ROCPROF_NAME = re.compile(
    r"(.+)_(?:agent_info|counter_collection|(?:kernel|memory_copy|(?:hip|hsa|marker|rccl)(?:_\w+)?)_trace)\.csv(?:\.gz)?"
)
"""How rocprofv3 calls its CSV files: all of a process begin alike."""
_PLANE = (
    rb"\x0a[\x80-\xff]{0,5}[\x01-\x7f](?:\x08[\x80-\xff]{0,9}[\0-\x7f])?\x12[\x01-\x7f]"
    rb"(?:/(?:host|(?:virtual)?device):|Task Env|#Chip|Host CPUs|Syscalls)"
)
"""How a profile of XLA begins: a plane of so many bytes, its number, and its name. In a trace of Perfetto a packet stands
there, whose second field holds no text."""
_PACKETS = 8
_RANGE = (
    rb'\{\s*"status"\s*:\s*(?:"error"\s*,|"success"\s*,\s*(?:"(?:isPartial|warnings|infos)"[^{}]{0,4000},\s*)?"data"\s*:\s*'
    rb'\{\s*"resultType")'
)
_PICKLES = (
    (rb"(?s)\x80[\x02-\x05].{0,64}(?:segments|device_traces)", MEMORY),
    (rb"(?s)\x80[\x02-\x05].{0,4096}?(?:pg_config|pg_status|entries|nccl_version|comm_lib_version)", FLIGHT),
)
_OTHER_PICKLE = rb"(?s)\x80[\x02-\x05](?:\x95.{8}|[\x28-\x7d])"
_OF_PICKLE = (
    "is a pickle of Python, and neither a memory snapshot of PyTorch nor a dump of NCCL's flight recorder: GSSR reads no "
    "other, since a pickle can run what it holds"
)
_RECORDED = rb"(?:entries|pg_config|pg_status|version|nccl_version|nccl_comm_state|comm_lib_version|rank)"
_JSONS = (
    (rb'\[\s*\{\s*"(?:children"\s*:\s*\[|frame"\s*:\s*\{|metrics"\s*:\s*\{)', "proton", ""),
    (rb"\[\s*\[\s*(?:\]\s*,\s*\[|-?\d)", MEMORY, ""),
    (
        rb'\{\s*"' + _RECORDED + rb'"\s*:(?s:.{0,100000}?)"(?:collective_seq_id|pg_config|pg_status)"\s*:',
        FLIGHT,
        "",
    ),
    (rb'\{\s*"pg_(?:config|status)"\s*:', FLIGHT, ""),
    (rb'\{\s*"rocprofiler-sdk-tool"\s*:', "rocprof", ""),
    (_RANGE, "prometheus-range", ""),
    (rb'\{\s*"metadata"\s*:\s*\{\s*"job_id"', "gssr-0.x", ""),
    (
        rb'\{[^{}\[\]]*"schema"\s*:\s*"[\d.]+-chakra',
        "execution-trace",
        _unread("an execution trace, without times"),
    ),
    (
        rb'\{\s*(?:"gpus"|"total_time"|"nodes"\s*:\s*\{\s*"[^"]*"\s*:\s*\{\s*"(?:cpus|total_time)")',
        "jobstats",
        "",
    ),
)


def recognise(path: str) -> RecognisedFile:
    """Recognise what a file holds by its content; of a folder, the first thing that gssr knows. Never raises, and
    starts no program."""
    try:
        if os.path.isdir(path):
            return _recognise_folder(path)
        if not os.path.isfile(path):
            return RecognisedFile("", "is not a file" if os.path.lexists(path) else no_such_file(path))
        with open(path, "rb") as stream:
            head = stream.read(100)
            if head.startswith(_SQLITE):
                return _recognise_database(path, head)
            if head[:2] in (b"\3B", b"\3L") and path.endswith((".def", ".evt")):
                return RecognisedFile("", _OF_OTF2)
            report = RecognisedFile("nsys-rep", _AS_SQLITE.format(path=shlex.quote(path)))
            if head.startswith(_REPORT):
                return report
            stream.seek(0)
            found = _recognise_pieces(
                _unpacked(stream) if head.startswith(_GZIP) else iter(lambda: stream.read(_HEAD), b"")
            )
            return report if not found.kind and path.endswith((".nsys-rep", ".qdrep")) else found
    except OSError as error:
        return RecognisedFile("", f"can't be read: {error.strerror}")
    except zlib.error:
        return RecognisedFile("", "is packed with gzip, and damaged")


def is_in_columns(path: str) -> bool:
    """Tell whether a folder is an export of Nsight Systems in columns, with a file of Parquet or Arrow for each table."""
    if not os.path.isdir(path):
        return False
    names = (os.path.splitext(name) for name in itertools.islice(os.listdir(path), _MOST_FILES))
    files = (stem + end for stem, end in names if end in (".parquet", ".arrow") and _OF_NSYS.match(stem.lower()))
    return any(_head_of(os.path.join(path, name)).startswith(_COLUMNAR) for name in files)


def traces_in(folder: str) -> list[tuple[str, str]]:
    """List the traces in a folder, and damaged databases, as (path, kind). If it has no traces, also those in folders below
    of rocprofv3, which makes a folder for each node, and of JAX, which makes one for each run. May be empty. Raises
    OSError."""
    listed = sorted(os.listdir(folder))
    copies = copies_of_profiles(listed)
    names = (os.path.join(folder, name) for name in listed if not name.startswith(".") and name not in copies)
    inside = [
        (file, recognise(file).kind) for file in itertools.islice(names, 10 * _MOST_FILES) if os.path.isfile(file)
    ]
    below = ((file, recognise(file).kind) for file in _files_below(folder))
    folders = (os.path.join(folder, name) for name in sorted(os.listdir(folder)))
    inside += [(each, "nsys") for each in folders if is_in_columns(each)]
    found = one_for_each_process([(file, kind) for file, kind in inside if kind in (*TRACES, DAMAGED)])
    if any(kind in TRACES for _, kind in found):
        return found
    return found + one_for_each_process([(file, kind) for file, kind in below if kind in _BELOW])


def copies_of_profiles(names: Iterable[str]) -> set[str]:
    """Find, among the names in a folder, the JSON that JAX writes beside its profiles, of the same events."""
    profiles = {name.removesuffix(".xplane.pb") for name in names if name.endswith(".xplane.pb")}
    return {f"{name}.trace.json.gz" for name in profiles}


def rocprof_siblings(path: str) -> list[tuple[str, str]]:
    """List the CSV files of the process of which a file of rocprofv3 is one, as (path, what it holds): "agents", or a key of
    ROCPROF_TABLES. A file that is not called as rocprofv3 calls it is alone."""
    folder, name = os.path.split(path)
    named = _ROCPROF_NAME.fullmatch(name)
    names = [name]
    if named is not None:
        alike = (each for each in sorted(os.listdir(folder or ".")) if (told := _ROCPROF_NAME.fullmatch(each)) is not None
                 and told[1] == named[1])  # fmt: skip
        names = list(itertools.islice(alike, _MOST_SIBLINGS))
    tables = {"agents": _ROCPROF_AGENTS, **ROCPROF_TABLES}
    found = []
    for each in names:
        file = os.path.join(folder, each)
        head = _head_of(file) if os.path.isfile(file) else b""
        found += [(file, kind) for kind, pattern in tables.items() if re.match(pattern, head)][:1]
    return found


def _head_of(path: str) -> bytes:
    """Return the first bytes of a file, unpacked; b"" if it can't be read."""
    try:
        with open(path, "rb") as stream:
            is_packed = stream.read(2) == _GZIP
            stream.seek(0)
            head = next(_unpacked(stream), b"") if is_packed else stream.read(_OVERLAP)
    except (OSError, zlib.error):
        return b""
    return head.removeprefix(b"\xef\xbb\xbf")


def one_for_each_process(files: Sequence[tuple[str, _Kind]]) -> list[tuple[str, _Kind]]:
    """Leave out of files, each with its kind, the CSV files of rocprofv3 that are read together with one before them."""
    found: dict[object, tuple[str, _Kind]] = {}
    for path, kind in files:
        folder, name = os.path.split(path)
        told = _ROCPROF_NAME.fullmatch(name) if kind == "rocprof" else None
        found.setdefault(path if told is None else (os.path.abspath(folder), told[1]), (path, kind))
    return list(found.values())


def rank_in(text: bytes) -> int | None:
    """Return the rank that a piece of a torch.profiler trace says; None if it is not in this piece (it is before or
    behind the events)."""
    found = re.search(_RANK, text)
    return int(found[1]) if found else None


def rank_and_size(path: str) -> tuple[int | None, int | None]:
    """Return the rank and the number of ranks that a torch.profiler trace says in its first or last megabyte; None for
    what is not there. Raises OSError, zlib.error."""
    with open(path, "rb") as stream:
        is_packed = stream.read(2) == _GZIP
        stream.seek(0)
        text = next(_unpacked(stream), b"") if is_packed else stream.read(_HEAD)
        if rank_in(text) is None and not is_packed:
            stream.seek(max(0, os.fstat(stream.fileno()).st_size - _HEAD))
            text = stream.read(_HEAD)
    size = re.search(_RANKS, text)
    return rank_in(text), int(size[1]) if size else None


def environments_in(path: str) -> list[dict[str, str]]:
    """Return the environments of the processes that a database of rocprofv3 has noted, some of them if there are many.
    Empty if there are none. Never raises, whatever the file holds."""
    import json
    import sqlite3

    from gssr.guarded_sqlite import LIMIT_LENGTH, check_table, limit, only_reads

    texts: list[object] = []
    try:
        with closing(_guarded(path)) as connection:
            schema = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'").fetchall()
            statements = {str(name).lower(): str(statement) for name, statement in schema}
            names = (name for name in statements if re.fullmatch(r"rocpd_info_process\w*", name, re.ASCII))
            tables = list(itertools.islice(names, _MOST_SESSIONS))
            for table in tables:
                check_table(connection, table, "table", statements[table])
            connection.bound()
            limit(connection, LIMIT_LENGTH, _LONGEST_ENVIRONMENT)
            connection.set_authorizer(only_reads(tables))
            for table in tables:
                texts += [text for (text,) in connection.execute(f"SELECT environment FROM {table} LIMIT 2")]
    except sqlite3.Error:
        pass  # its reader says what is wrong with it
    found = []
    for text in texts:
        try:
            told = json.loads(text).items()  # type: ignore[arg-type]
        except (ValueError, TypeError, AttributeError, RecursionError):
            continue
        found.append({name: value for name, value in told if isinstance(value, str)})
    return found


def is_recording(path: str) -> bool:
    """Tell whether a path is a recording, or a folder of shards (``NAME.sql.d``) that holds one. Reads almost nothing
    of it, and never raises."""
    try:
        if os.path.isdir(path):
            shards = (os.path.join(path, name) for name in os.listdir(path)) if path.endswith(".sql.d") else ()
            return any(not os.path.isdir(shard) and is_recording(shard) for shard in shards)
        if not os.path.isfile(path):  # a pipe may never answer
            return False
        with open(path, "rb") as stream:
            head = stream.read(100)
        return head.startswith(_SQLITE) and head[68:72] == _OURS
    except OSError:
        return False


def recordings_beside(path: str) -> list[str]:
    """List the recordings in the folder of a file, which need not exist, the newest first; those in shards without
    their ``.d``. Empty if there are none or the folder cannot be read."""
    folder = os.path.dirname(path)
    found: dict[str, float] = {}
    try:
        with os.scandir(folder or ".") as entries:
            for entry in itertools.islice(entries, _MOST_FILES):
                name = os.path.join(folder, entry.name)
                if is_recording(name):
                    name = name.removesuffix(".d") if entry.name.endswith(".sql.d") else name
                    found[name] = max(entry.stat().st_mtime, found.get(name, 0.0))
    except OSError:
        pass  # what can't be looked at holds nothing that could be meant
    return sorted(found, key=lambda name: -found[name])


def meant(path: str) -> list[str]:
    """Find the recordings beside a file that is not there whose names are spelt nearly as its own, the most alike first, and
    of those that are equally alike the newest."""
    names_by_stem: dict[str, str] = {}
    for name in recordings_beside(path):
        names_by_stem.setdefault(_stem(name), name)
    return [names_by_stem[stem] for stem in similar(_stem(path), names_by_stem, LEAST_LIKENESS_OF_FILES)]


def _stem(path: str) -> str:
    return os.path.splitext(os.path.basename(path))[0]


def no_such_file(path: str) -> str:
    """Return what to say after the name of a file that does not exist: "no such file", and names that may have been
    meant."""
    return f"no such file{did_you_mean(meant(path))}"


def _unpacked(stream: BinaryIO) -> Iterator[bytes]:
    """Yield the first member of a gzip file, unpacked, in pieces. Raises zlib.error."""
    unpack = zlib.decompressobj(wbits=31)
    data = b""
    while not unpack.eof and (data := data or stream.read(_HEAD)):
        yield unpack.decompress(data, _HEAD)
        data = unpack.unconsumed_tail


def _recognise_pieces(pieces: Iterator[bytes]) -> RecognisedFile:
    """Recognise a file by its text, reading on where it may be a trace whose events come later."""
    text = next(pieces, b"")
    if not text:
        return RecognisedFile("", "is empty")
    done = len(text)
    found = _recognise_text(text)
    while found is None and done < _FURTHEST and (piece := next(pieces, b"")):
        text = text[-_OVERLAP:] + piece
        done += len(piece)
        found = _recognise_events(text, 0)
    return found or RecognisedFile("", "is JSON, but no trace: there are no traceEvents in it")


def _recognise_events(text: bytes, begin: int) -> RecognisedFile | None:
    if _matches(_EVENT, text, begin) or re.search(_EVENTS, text):
        return RecognisedFile("kineto" if re.search(_OF_KINETO, text) else "chrome")
    return None


def _matches(pattern: bytes, text: bytes, begin: int) -> bool:
    """Tell whether a pattern matches what stands at ``begin``."""
    return re.compile(pattern).match(text, begin) is not None


def _recognise_text(text: bytes) -> RecognisedFile | None:
    """Recognise a file by its first bytes. None for JSON in which events may follow later."""
    for magic, kind, problem in _MAGICS:
        if text.startswith(magic):
            return RecognisedFile(kind, problem)
    if text.startswith(_SQLITE):
        return RecognisedFile("", "is a packed SQLite database: unpack it first")
    if text[257:262] == b"ustar":
        return _recognise_archive(text)
    for pattern, kind in _PICKLES:
        if re.match(pattern, text):
            return RecognisedFile(kind)
    if re.match(_OTHER_PICKLE, text):
        return RecognisedFile("", _OF_PICKLE)
    start = re.match(_START, text)
    begin = start.end() if start else 0
    if _is_of_ncu(text):
        return RecognisedFile(NCU_CSV)
    is_json = text[begin : begin + 1] in (b"{", b"[")
    if is_json and (found := _recognise_events(text, begin)):
        return found
    if is_json:
        return next(
            (RecognisedFile(kind, why) for pattern, kind, why in _JSONS if _matches(pattern, text, begin)), None
        )
    is_wide = text.startswith(_UTF16)
    if is_wide:
        text, begin = text[: len(text) // 2 * 2].decode("utf-16", "replace").encode().lstrip(), 0
    if any(_matches(pattern, text, begin) for pattern in ROCPROF_TABLES.values()):
        return RecognisedFile("rocprof")
    if _matches(_OTHER_ROCPROF, text, begin):
        return RecognisedFile("rocprof-table", _NO_EVENTS)
    if re.match(_PLANE, text):
        return RecognisedFile("xspace")
    if _is_protobuf(text):
        return RecognisedFile("perfetto")
    for pattern, kind in _TEXTS:
        if _matches(pattern, text, begin):
            return RecognisedFile(kind)
    if is_wide:
        return RecognisedFile("", "is text in UTF-16: write it as UTF-8")
    return RecognisedFile(
        "",
        "is not a recording (not an SQLite database), and no known trace (of torch.profiler, Nsight, rocprofv3, Score-P, "
        "XLA) or log (of nvidia-smi, DCGM, Prometheus)",
    )


def _is_of_ncu(text: bytes) -> bool:
    """Tell whether a text is CSV of Nsight Compute: its header comes first, or behind lines of the profiler and of the
    program."""
    if text.startswith(_UTF16):
        text = text[: len(text) // 2 * 2].decode("utf-16", "replace").encode()
    text = text.removeprefix(b"\xef\xbb\xbf")
    if text.startswith((b"==PROF==", b"==WARNING==")):
        return True
    return any(
        text[text.rfind(b"\n", 0, found.start()) + 1 : found.start()] in _BEFORE_NCU_COLUMN
        and b"Kernel Name" in text[found.end() : found.end() + _LONGEST_NCU_HEAD]
        for found in itertools.islice(re.finditer(_NCU_COLUMN, text), 100)
    )


def _is_protobuf(text: bytes) -> bool:
    """Tell whether a text begins with packets of a Perfetto trace: field 1 and a length, several times."""
    at = n = 0
    while n < _PACKETS and at < len(text):
        if text[at] != 0x0A:
            return False
        length = shift = 0
        for digit in text[at + 1 : at + 6]:
            at, length, shift = at + 1, length | (digit & 0x7F) << shift, shift + 7
            if digit < 0x80:
                break
        at, n = at + 1 + length, n + 1
    return n > 1


def _recognise_archive(head: bytes) -> RecognisedFile:
    """Recognise a tar archive by its first bytes: a CUBE profile by the names of the files that begin in them, up to
    100. Any other archive is to be unpacked first."""
    names: list[bytes] = []
    at = 0
    while len(names) < 100 and (name := head[at : at + 100].partition(b"\0")[0]):
        names.append(name)
        size = head[at + 124 : at + 136].strip(b" \0")
        if not re.fullmatch(rb"[0-7]+", size):
            break
        at += 512 + -(-int(size, 8) // 512) * 512
    if any(re.fullmatch(_OF_CUBE, name) for name in names):
        return RecognisedFile("cube")
    return RecognisedFile("", _UNPACK.format("tar"))


def _recognise_database(path: str, head: bytes) -> RecognisedFile:
    """Recognise an SQLite database: a recording by its first 100 bytes, ``head``, any other by the names of its
    tables."""
    import sqlite3

    from gssr.guarded_sqlite import in_one_line

    if head[68:72] == _OURS:
        return RecognisedFile("recording")
    try:
        with closing(_guarded(path)) as connection:
            names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    except sqlite3.Error as error:
        return RecognisedFile(DAMAGED, f"is a damaged SQLite database: {in_one_line(error)}")
    return recognise_tables({str(name).lower() for (name,) in names})


def _guarded(path: str) -> Guarded:
    """Open a database, distrusting it, as it lies on the disk. Raises sqlite3.Error."""
    from gssr.guarded_sqlite import open_guarded, uri_of

    return open_guarded(f"{uri_of(path, 'ro')}&immutable=1", [path], uri=True)


def recognise_tables(tables: set[str]) -> RecognisedFile:
    """Recognise an SQLite database that GSSR did not make by the names of its tables, in lower case."""
    if any(name.startswith("rocpd_") for name in tables):
        return RecognisedFile("rocpd")
    if any(map(_OF_NSYS.match, tables)):
        return RecognisedFile("nsys")
    if {"data", "process_metadata"} <= tables:
        return RecognisedFile("gssr-0.x")
    if not tables:
        return RecognisedFile("", "holds nothing: nothing was recorded into it")
    return RecognisedFile("", "is an SQLite database of something else, not a recording")


def _recognise_folder(path: str) -> RecognisedFile:
    """Recognise a folder by what is in it. The first of these that is there counts: a recording, a whole Score-P
    archive, a folder in columns of Nsight Systems, a trace; then a metric file, then a dump or a file that is known but
    can't be read, then an archive that was not finished. Files in folders below it are looked at last. At most
    _MOST_FILES names are looked at, and as many below. Raises OSError."""
    names = sorted(os.listdir(path))[:_MOST_FILES]
    if any(is_recording(os.path.join(path, name)) for name in names if not name.endswith(".sql.d")):
        return RecognisedFile("recording")  # whatever else is beside it
    archive = _recognise_score_p(path, names)
    if archive is not None and not archive.problem:
        return archive
    if is_in_columns(path):
        return RecognisedFile("nsys")
    others = [] if archive is None else [archive]
    for name in names:
        file = os.path.join(path, name)
        if os.path.isfile(file):
            found = recognise(file)
            if not found.problem and found.kind not in (*FOREIGN, *DUMPS):
                return found
            others.append(found._replace(problem=found.problem and f"holds {name}, which {found.problem}"))
    others.sort(key=lambda found: found.kind not in FOREIGN)
    named = next((found for found in others if found.kind), archive)
    deeper = (found for found in map(recognise, _files_below(path)) if found.kind in (*FOREIGN, *_BELOW))
    return named or next(deeper, RecognisedFile("", NOTHING_INSIDE))


def _recognise_score_p(path: str, names: list[str]) -> RecognisedFile | None:
    """Recognise a Score-P archive by the names in a folder: its anchor file, which is written at the end, or events
    without it; with a problem if the anchor file is damaged or missing. None if it is no archive."""
    anchors = [name for name in names if name.endswith(".otf2")]
    if any(recognise(os.path.join(path, name)).kind == "otf2" for name in anchors):
        return RecognisedFile("otf2")
    if "traces.otf2" in anchors:
        return RecognisedFile("", _DAMAGED_OTF2)
    if os.path.isdir(os.path.join(path, "traces")) and not anchors:
        events = os.listdir(os.path.join(path, "traces"))
        if any(name.endswith(".evt") for name in events):
            return RecognisedFile("", _UNFINISHED)
    return None


def _files_below(path: str) -> Iterator[str]:
    """Yield files in the folders below a folder, at any depth, a limited number."""
    inside = (os.path.join(place, name) for place, _, names in os.walk(path) if place != path for name in sorted(names))
    return itertools.islice(inside, _MOST_FILES)
