"""Small files that are made to be dear: to unpack, to decode, to look at, or that run what they hold when they are read; and
what every command takes on each of them, in memory and time, against the limits of docs/security.md."""

import gzip
import io
import resource
import sqlite3
import struct
import subprocess
import sys
import tarfile
import tempfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from benchmarks.processes import CACHE, ENVIRONMENT, GSSR, MB
from benchmarks.table import Figure
from tests.fakes.traces import ncu
from tests.fakes.xspace import field

MEMORY, CPU = 500.0, 20.0
"""MB and s that a command may take on a file of up to 20 MB."""
_MOST_ADDRESSES, _PATIENCE = 8 << 30, 120.0
"""Bytes and s after which a command is ended."""
_NEVER = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT n AS id, 'x' AS environment FROM c"


def _database(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


def virtual_table(path: Path) -> None:
    """A table of rocprofv3 that is a search index over a view without an end."""
    _database(
        path,
        f"CREATE VIEW v AS {_NEVER} WHERE n < 0",
        "CREATE VIRTUAL TABLE rocpd_info_process USING fts5(environment, content='v', content_rowid='id')",
    )


def computed_column(path: Path) -> None:
    """A table of rocprofv3 with a column that is a gigabyte when it is read."""
    column = "environment TEXT GENERATED ALWAYS AS (printf('%.999999990c', 'x')) VIRTUAL"
    rows = "INSERT INTO rocpd_info_process VALUES (1), (2)"
    _database(path, "CREATE TABLE rocpd_info_process (a)", rows, f"ALTER TABLE rocpd_info_process ADD COLUMN {column}")


def schema_in_a_loop(path: Path) -> None:
    """A database whose pages of the schema each name the next one some hundred times: five of them make 10**14 rows."""
    _database(path, "PRAGMA page_size=4096", *(f"CREATE TABLE t{number} (b)" for number in range(6)))
    data = bytearray(path.read_bytes())
    n = len(data) // 4096
    head = bytes(data[:100])
    for page in range(1, n):
        data[(page - 1) * 4096 : page * 4096] = _interior(page + 1, 100 if page == 1 else 0)
    data[:100] = head
    record = bytes([6, 15, 15, 15, 1, 13]) + b"xyy" + bytes([2])
    cell = bytes([len(record), 1]) + record
    leaf = bytearray(4096)
    leaf[4096 - len(cell) :] = cell
    struct.pack_into(">BHHHB", leaf, 0, 13, 0, 1, 4096 - len(cell), 0)
    struct.pack_into(">H", leaf, 8, 4096 - len(cell))
    data[(n - 1) * 4096 :] = leaf
    path.write_bytes(data)


def _interior(child: int, before: int) -> bytes:
    """A page of a table's tree, all of whose places lead to one page."""
    cell, page = struct.pack(">I", child) + bytes([1]), bytearray(4096)
    n = (4096 - before - 12) // (len(cell) + 2)
    for number in range(n):
        at = 4096 - (number + 1) * len(cell)
        page[at : at + len(cell)] = cell
        struct.pack_into(">H", page, before + 12 + 2 * number, at)
    struct.pack_into(">BHHHBI", page, before, 5, 0, n, 4096 - n * len(cell), 0, child)
    return bytes(page)


def schema_that_is_no_text(path: Path) -> None:
    """A database with one byte in its schema that is not UTF-8, which SQLite quotes in its message."""
    _database(path, "CREATE TABLE rocpd_x (a INTEGER PRIMARY KEY )")
    path.write_bytes(path.read_bytes().replace(b"KEY )", b"KEY\xff)"))


def many_devices(path: Path, n: int = 250_000) -> None:
    """A report of Nsight Systems with a kernel on each of so many devices."""
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT)")
        connection.execute("INSERT INTO StringIds VALUES (1, 'a')")
        columns = "start INT, end INT, deviceId INT, contextId INT, streamId INT, correlationId INT, globalPid INT"
        connection.execute(f"CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL ({columns}, demangledName INT)")
        connection.executemany(
            "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?, ?, ?, 1, 7, ?, 16777216, 1)",
            ((10 * number + 1, 10 * number + 9, number, number) for number in range(n)),
        )


def prometheus(path: Path, n: int = 100_000_000) -> None:
    """An answer of Prometheus with so many series that say nothing, packed."""
    head = b'{"status":"success","data":{"resultType":"matrix","result":['
    _packed(path, chain([head], (b"{}," * 100_000 for _ in range(n // 100_000)), [b"{}]}}"]))


def _packed(path: Path, pieces: Iterator[bytes]) -> None:
    with gzip.open(path, "wb", 9) as stream:
        for piece in pieces:
            stream.write(piece)


_CHROME = '{"schemaVersion":1,"traceEvents":['


def _chrome(path: Path, events: Iterator[str]) -> None:
    path.write_text(f"{_CHROME}{','.join(events)}]}}", encoding="ascii")


def _kernel(number: int, device: int) -> str:
    args = f'"args":{{"device":{device},"stream":7}}'
    return f'{{"ph":"X","cat":"kernel","name":"a","pid":{device},"tid":7,"ts":{number},"dur":1,{args}}}'


def many_gpus(path: Path, n: int = 10_000) -> None:
    """A Chrome trace with a kernel on each of so many GPUs."""
    _chrome(path, (_kernel(number, number) for number in range(n)))


def very_many_gpus(path: Path) -> None:
    """The same with as many as fit into 19 MB."""
    many_gpus(path, 170_000)


def gpus_and_steps(path: Path, gpus: int = 10_000, steps: int = 100_000) -> None:
    """A Chrome trace of very many GPUs, and of very many steps."""
    step = '{{"ph":"X","cat":"user_annotation","name":"ProfilerStep#{0}","pid":1,"tid":1,"ts":{0},"dur":1}}'
    _chrome(path, chain((_kernel(number, number) for number in range(gpus)), map(step.format, range(steps))))


def gpus_and_threads(path: Path, gpus: int = 10_000, threads: int = 60_000) -> None:
    """A Chrome trace of very many GPUs, and of calls that wait on very many threads."""
    call = '{{"ph":"X","cat":"cuda_runtime","name":"cudaDeviceSynchronize","pid":{0},"tid":{0},"ts":{0},"dur":9}}'
    _chrome(path, chain((_kernel(number, number) for number in range(gpus)), map(call.format, range(threads))))


def many_counters(path: Path, n: int = 250_000) -> None:
    """A Chrome trace with so many counters of one value each."""
    counter = '{{"ph":"C","name":"c{0}","pid":1,"ts":{0},"args":{{"v":1}}}}'
    _chrome(path, chain([_kernel(1, 0)], map(counter.format, range(n))))


def counted_kernels(path: Path, kernels: int = 1_250, counters: int = 1_000) -> None:
    """A Chrome trace of kernels in which CUPTI counted very much, each with names of its own."""
    counts = ",".join(f'"c{{0}}.{at}":{at}' for at in range(counters))
    event = (
        '{{"ph":"X","cat":"cuda_profiler_range","name":"k{0}","pid":0,"tid":0,"ts":{0},"dur":1,"args":{{'
        + counts
        + "}}}}"
    )
    _chrome(path, map(event.format, range(kernels)))


def many_names(path: Path, n: int = 200_000) -> None:
    """A Chrome trace in which every event has a name, a process and a thread of its own."""
    event = '{{"ph":"X","cat":"cpu_op","name":"n{0}","pid":{0},"tid":"t{0}","ts":{0},"dur":1}}'
    _chrome(path, map(event.format, range(n)))


def packed_events(path: Path, n: int = 20_000_000) -> None:
    """A Chrome trace with so many events that are alike, packed to a five-hundredth."""
    events = b'{"ph":"X","cat":"kernel","ts":1,"dur":1},' * 10_000
    _packed(path, chain([_CHROME.encode()], (events for _ in range(n // 10_000)), [b"{}]}"]))


def packed_space(path: Path, megabytes: int = 4000) -> None:
    """The same of blanks alone."""
    _packed(path, chain([_CHROME.encode()], (b" " * (1 << 20) for _ in range(megabytes)), [b"{}]}"]))


def packed_log(path: Path, megabytes: int = 1000) -> None:
    """A log of dcgmi dmon, packed to a hundredth."""
    rows = "".join(f"GPU {gpu}     0.100 0.200\n" for gpu in range(8)).encode() * 5000
    _packed(path, chain([b"#Entity       GRACT   SMACT\nID\n"], (rows for _ in range(megabytes))))


def profile(path: Path, calls: int = 10_000, places: int = 10_000) -> None:
    """A profile of Score-P whose values, packed, are so many calls times places."""
    _profile(path, calls, places, 1)


def many_metrics(path: Path) -> None:
    """A profile of a hundred metrics, each of whose values are as many as may be."""
    _profile(path, 8000, 1000, 100)


def many_places(path: Path) -> None:
    """A profile of as many threads as may be, deep within places."""
    _profile(path, 30, 250_000, 1, depth=90)


def _profile(path: Path, calls: int, places: int, metrics: int, depth: int = 1) -> None:
    metric = (
        '<metric id="{0}" type="EXCLUSIVE"><disp_name>T{0}</disp_name><uniq_name>{1}</uniq_name><dtype>DOUBLE</dtype>'
        "<uom>sec</uom></metric>"
    )
    node, location = (
        '<systemtreenode Id="0"><name>m</name><class>node</class>',
        '<location Id="{0}"><name>t</name><type>thread</type></location>',
    )
    xml = "".join((
        '<?xml version="1.0"?><cube version="4.4"><metrics>',
        *(metric.format(number, f"t{number}" if number else "time") for number in range(metrics)),
        '</metrics><program><region id="0"><name>a</name></region>', '<cnode calleeId="0"/>' * calls,
        "</program><system>", node * depth, '<locationgroup Id="0"><name>r</name><rank>0</rank><type>process</type>',
        *map(location.format, range(places)), "</locationgroup>", "</systemtreenode>" * depth, "</system></cube>",
    ))  # fmt: skip
    row = zlib.compress(bytes(8 * places), 9)
    values = b"ZCUBEX.DATA" + struct.pack("<q", calls)
    values += b"".join(struct.pack("<qqq", 0, at, len(row)) for at in range(calls)) + row * calls
    index = b"CUBEX.INDEX\1\0\0\0\0\0\0" + struct.pack(f"<I{calls}i", calls, *range(calls))
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as archive:

        def add(name: str, data: bytes) -> None:
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))

        add("anchor.xml", gzip.compress(xml.encode()))
        for number in range(metrics):
            add(f"{number}.index", index)
            add(f"{number}.data", values)


_SNAPSHOT = b"\x80\x04}(\x8c\x08segments"


def packed_pickle(path: Path, megabytes: int = 1000) -> None:
    """A memory snapshot of PyTorch of empty lists, packed to a thousandth."""
    _packed(path, chain([_SNAPSHOT + b"]("], (b"]" * (1 << 20) for _ in range(megabytes)), [b"eu."]))


def marks_of_pickle(path: Path) -> None:
    """A memory snapshot of 19 MB that begins lists in lists without an end."""
    path.write_bytes(_SNAPSHOT + b"](" * 9_500_000)


def dear_pickle(path: Path, n: int = 600_000) -> None:
    """A memory snapshot of blocks that take as much memory as may be for their bytes."""
    values = (b"J\xff\xff\xff\x7f", b"\x8a\x05\xff\xff\xff\xff\x7f", b"\x8c\x10active_allocated\x94")
    names = (b"\x8c\x04size\x94", b"\x8c\x07address\x94", b"\x8c\x05state\x94")
    first = b"}(" + b"".join(name + value for name, value in zip(names, values, strict=True)) + b"u"
    block = b"}(h\0" + values[0] + b"h\1" + values[1] + b"h\2h\3u"
    head = _SNAPSHOT + b"](}(\x8c\x0atotal_sizeK\1\x8c\6blocks]("
    path.write_bytes(head + first + block * n + b"eueu.")


def memory_events(path: Path, n: int = 400_000) -> None:
    """A memory snapshot whose history is very long, of allocations that are never freed, each with a line of its own."""
    steps = (
        b"}(\x8c\x06action\x8c\x05alloc\x8c\x04addrJ%b\x8c\x04sizeK\x01u" % struct.pack("<i", at) for at in range(n)
    )
    path.write_bytes(b"".join([_SNAPSHOT + b"]\x8c\x0ddevice_traces](](", *steps, b"eeu."]))


def memory_numbers(path: Path, n: int = 6_000_000) -> None:
    """A memory timeline of so many times and no sizes."""
    path.write_bytes(b"[[0" + b", 9" * n + b"], [[0, 0, 0, 0, 0, 0, 0, 0, 0]]]")


def memory_steps(path: Path, n: int = 900_000) -> None:
    """A memory timeline of so many steps."""
    path.write_bytes(b"[" + b", ".join(b"[%d, 2, 999, 4]" % (1000 + at) for at in range(n)) + b"]")


def many_process_groups(path: Path, n: int = 150_000) -> None:
    """A dump of NCCL's flight recorder of a process group for each operation, all unfinished."""
    groups = ",".join(f'"{at}":{{"desc":"a","ranks":"[0,1]"}}' for at in range(n))
    entry = '{{"process_group":["{0}","a"],"collective_seq_id":1,"profiling_name":"nccl:b","record_id":{0}}}'
    entries = ",".join(map(entry.format, range(n // 2)))
    path.write_text(f'{{"pg_config":{{{groups}}},"entries":[{entries}]}}', encoding="ascii")


def many_transfers(path: Path, n: int = 150_000) -> None:
    """A dump of NCCL's flight recorder of so many sends, none of which is over."""
    entry = '{{"process_group":["0","a"],"p2p_seq_id":{0},"profiling_name":"nccl:send 0->1","record_id":{0}}}'
    entries = ",".join(map(entry.format, range(n)))
    path.write_text(f'{{"pg_config":{{"0":{{"ranks":"[0,1]"}}}},"entries":[{entries}]}}', encoding="ascii")


def many_ranks(path: Path, n: int = 2_500_000) -> None:
    """A dump of NCCL's flight recorder of a process group of very many ranks."""
    ranks = ",".join(map(str, range(n)))
    path.write_text(f'{{"pg_config":{{"0":{{"ranks":"[{ranks}]"}}}},"entries":[]}}', encoding="ascii")


def _xspace(path: Path, lines: bytes, *others: bytes) -> None:
    """A profile of XLA with one line, or with what else is given in its plane."""
    line = field(3, field(2, "Stream #1") + lines)
    path.write_bytes(field(1, field(1, 2) + field(2, "/device:GPU:0") + line + b"".join(others)))


def xspace_events(path: Path) -> None:
    """As many events as a profile of its size may have."""
    _xspace(path, field(4, field(1, 1) + field(2, 1) + field(3, 5)) * 2_500_000)


def xspace_empty_events(path: Path) -> None:
    """Ten million events without anything."""
    _xspace(path, field(4, b"") * 10_000_000)


def xspace_stats(path: Path) -> None:
    """Events of four megabytes, each of two million empty stats."""
    _xspace(path, field(4, field(4, b"") * 2_000_000) * 4)


def xspace_names(path: Path) -> None:
    """Different names for as many events, and as many operations, as there may be."""
    names = (
        field(4, field(1, n) + field(2, field(1, n) + field(2, f"event number {n} of so many"))) for n in range(260_000)
    )
    events = (field(4, field(1, n) + field(3, 5) + field(4, field(1, 1) + field(5, f"op{n}"))) for n in range(260_000))
    _xspace(path, b"".join(events), *names, field(5, field(1, 1) + field(2, field(2, "hlo_op"))))


def xspace_lines(path: Path) -> None:
    """Very many lines of one event, each in a plane of its own."""
    line = field(3, field(4, field(3, 1)))
    path.write_bytes(field(1, field(2, "/device:GPU:0") + line) + field(1, field(2, "a") + line) * 900_000)


def packed_xspace(path: Path) -> None:
    """Events that all pack into nothing."""
    _xspace(path, field(4, b"") * 60_000_000)
    path.write_bytes(gzip.compress(path.read_bytes(), 1))


def _packets(path: Path, packet: bytes, n: int) -> None:
    path.write_bytes(field(1, packet) * n)


def perfetto_packets(path: Path) -> None:
    """Packets without anything."""
    _packets(path, b"", 10_000_000)


def perfetto_slices(path: Path) -> None:
    """About as many slices as a trace of its size may have, none of which ends."""
    _packets(path, field(8, 5) + field(10, 1) + field(11, field(9, 1) + field(11, 3)), 1_500_000)


def perfetto_names(path: Path) -> None:
    """As many names as a trace may tell."""
    told = (field(1, field(10, 1) + field(12, field(2, field(1, n) + field(2, f"name {n}")))) for n in range(900_000))
    path.write_bytes(b"".join(told))


def perfetto_arguments(path: Path) -> None:
    """Events of four megabytes of arguments, and one of names."""
    event = field(1, field(11, field(9, 1) + field(22, "hip_api") + field(4, b"") * 2_000_000))
    path.write_bytes(field(1, field(10, 1)) * 2 + event * 4 + field(1, field(12, field(2, b"") * 1_000_000)))


def perfetto_tracks(path: Path) -> None:
    """As many tracks and writers as there may be."""
    made = (field(1, field(10, n % 60_000) + field(11, field(9, 1) + field(11, n + 1))) for n in range(260_000))
    path.write_bytes(b"".join(made) + b"".join(field(1, field(60, field(1, n + 1))) for n in range(260_000)))


def packed_perfetto(path: Path) -> None:
    """A trace that packs into nothing."""
    _packets(path, field(10, 1) + field(11, field(9, 1)), 20_000_000)
    path.write_bytes(gzip.compress(path.read_bytes(), 1))


def packed_packets(path: Path) -> None:
    """Packets within a packet, that pack into nothing."""
    _packets(path, field(50, zlib.compress(field(1, b"") * 30_000_000)), 100)


def report_launches(path: Path) -> None:
    """A report of Nsight Compute that unpacks to more launches than anybody profiles."""
    path.write_bytes(ncu.report(do="told['launches'] *= 1_000_000"))


def report_remarks(path: Path) -> None:
    """A report of a launch on which NVIDIA's rules have as much to say as may be written."""
    path.write_bytes(
        ncu.report(do="told['launches'][0]['rules'] = [{'rule_message': {'message': 'x ' * 10_000}}] * 50_000")
    )


def report_of_many(path: Path) -> None:
    """A report of 19 MB, of as many launches as fit."""
    path.write_bytes(ncu.report(ncu.LAUNCHES * 3_000))


FILES: dict[str, tuple[str, Callable[[Path], None]]] = {
    "virtual table": ("a.db", virtual_table),
    "computed column": ("a.db", computed_column),
    "schema in a loop": ("a.sqlite", schema_in_a_loop),
    "schema that is no text": ("a.sqlite", schema_that_is_no_text),
    "devices in nsys": ("a.sqlite", many_devices),
    "prometheus": ("a.json.gz", prometheus),
    "GPUs": ("a.json", many_gpus),
    "more GPUs": ("a.json", very_many_gpus),
    "GPUs and steps": ("a.json", gpus_and_steps),
    "GPUs and threads": ("a.json", gpus_and_threads),
    "counters": ("a.json", many_counters),
    "counted kernels": ("a.json", counted_kernels),
    "names": ("a.json", many_names),
    "packed events": ("a.json.gz", packed_events),
    "packed space": ("a.json.gz", packed_space),
    "packed log": ("a.txt.gz", packed_log),
    "profile": ("a.cubex", profile),
    "metrics of a profile": ("a.cubex", many_metrics),
    "places of a profile": ("a.cubex", many_places),
    "packed pickle": ("a.pickle", packed_pickle),
    "marks of a pickle": ("a.pickle", marks_of_pickle),
    "dear pickle": ("a.pickle", dear_pickle),
    "steps of memory": ("a.pickle", memory_events),
    "times of memory": ("a.json", memory_numbers),
    "timeline of memory": ("a.json", memory_steps),
    "process groups": ("nccl_trace_rank_0", many_process_groups),
    "sends": ("nccl_trace_rank_0", many_transfers),
    "ranks of a group": ("nccl_trace_rank_0", many_ranks),
    "XSpace: events": ("a.xplane.pb", xspace_events),
    "XSpace: empty events": ("a.xplane.pb", xspace_empty_events),
    "XSpace: stats": ("a.xplane.pb", xspace_stats),
    "XSpace: names": ("a.xplane.pb", xspace_names),
    "XSpace: lines": ("a.xplane.pb", xspace_lines),
    "XSpace: packed": ("a.xplane.pb.gz", packed_xspace),
    "Perfetto: packets": ("a.pftrace", perfetto_packets),
    "Perfetto: slices": ("a.pftrace", perfetto_slices),
    "Perfetto: names": ("a.pftrace", perfetto_names),
    "Perfetto: arguments": ("a.pftrace", perfetto_arguments),
    "Perfetto: tracks": ("a.pftrace", perfetto_tracks),
    "Perfetto: packed": ("a.pftrace.gz", packed_perfetto),
    "Perfetto: packed packets": ("a.pftrace", packed_packets),
    "Nsight Compute: launches": ("a.ncu-rep", report_launches),
    "Nsight Compute: remarks": ("a.ncu-rep", report_remarks),
    "Nsight Compute: many": ("a.ncu-rep", report_of_many),
}
"""What each file is called, and who makes it."""
COMMANDS = {
    "analyze": ("analyze", "{file}"),
    "analyze --json": ("analyze", "--json", "{file}"),
    "import": ("import", "-o", "{out}/a.sql", "{file}"),
    "export": ("export", "--format", "csv", "-o", "{out}/csv", "{file}"),
}


class Taken(NamedTuple):
    """What a command took: peak memory in MB, CPU in s, the exit code, negative for a signal, and its last words."""

    memory: float
    cpu: float
    code: int
    said: str


_BETWEEN = """
import os, subprocess, sys
process = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL)
_, status, use = os.wait4(process.pid, 0)
print(use.ru_maxrss, use.ru_utime + use.ru_stime, os.waitstatus_to_exitcode(status))
"""
"""A small process that starts the command and says what it took: Linux counts the peak memory of whoever starts a program as
that program's own (``ru_maxrss`` outlives exec), and tests that have run for long are large."""


def take(words: Sequence[str], folder: str, environment: Mapping[str, str] = ENVIRONMENT) -> Taken:
    """Run ``gssr`` with these words, within bounds at which the machine stays usable."""

    def bound() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (_MOST_ADDRESSES, _MOST_ADDRESSES))
        resource.setrlimit(resource.RLIMIT_CPU, (int(_PATIENCE), int(_PATIENCE)))

    done = subprocess.run(
        [sys.executable, "-S", "-c", _BETWEEN, *GSSR, *words],
        stdin=subprocess.DEVNULL, capture_output=True, cwd=folder, preexec_fn=bound, env=environment, check=True,
    )  # fmt: skip
    kilobytes, cpu, code = done.stdout.split()
    lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
    return Taken(int(kilobytes) * 1024 / MB, float(cpu), int(code), lines[-1] if lines else "")


def measure(names: Sequence[str] = tuple(FILES)) -> Iterator[Figure]:
    """Peak memory and CPU of every command on each of these files."""
    CACHE.mkdir(exist_ok=True)
    for name in names:
        with tempfile.TemporaryDirectory(dir=CACHE) as folder:
            called, make = FILES[name]
            path = Path(folder) / called
            make(path)
            package = ncu.installed(Path(folder) / "package")  # what decodes reports of Nsight Compute
            environment = ENVIRONMENT | {"PYTHONPATH": f"{package}:{ENVIRONMENT['PYTHONPATH']}"}
            yield Figure(f"{name}: file", path.stat().st_size / MB, "MB")
            for command, words in COMMANDS.items():
                taken = take([word.format(file=path, out=folder) for word in words], folder, environment)
                yield Figure(f"{name}: {command}: peak memory", taken.memory, "MB", MEMORY)
                yield Figure(f"{name}: {command}: CPU", taken.cpu, "s", CPU)
                yield Figure(f"{name}: {command}: crashed", float(taken.code not in (0, 1)), "", 0.0)
