"""Files that are no trace, or hardly: each is to give one sentence and exit code 1, or an honest partial answer."""

import gzip
import json
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from gssr.traces.timeline import Kind

from . import kineto, nsys
from .content import Content

LFS = "version https://git-lfs.github.com/spec/v1\noid sha256:" + "4d7a" * 16 + "\nsize 12345678\n"


class Bad(NamedTuple):
    """A path and what is wrong with it."""

    path: Path
    why: str


def refused(folder: Path) -> list[Bad]:
    """Each of these is to be refused with one sentence that names the file."""
    texts: dict[str, tuple[str, bytes]] = {
        "pointer.json": ("a pointer of Git LFS", LFS.encode()),
        "pointer.sqlite": ("a pointer of Git LFS", LFS.encode()),
        "empty.json": ("0 bytes", b""),
        "spaces.json": ("white space only", b" \n" * 10),
        "other.json": ("JSON of something else", b'{"name": "package", "version": "1.0", "files": [1, 2, 3]}'),
        "list.json": ("a list of something else", b"[1, 2, 3]"),
        "number.json": ("a bare number", b"17"),
        "not_a_list.json": ("traceEvents is no list", b'{"schemaVersion": 1, "traceEvents": {"a": 1}}'),
        "null.json": ("traceEvents is null", b'{"traceEvents": null}'),
        "deep.json": ("nested beyond any use", b'{"traceEvents": ' + b"[" * 200_000),
        "text.json": ("text", b"torch.profiler said nothing\n" * 50),
        "zeros.json": ("zeros", bytes(4096)),
        "head.json.gz": ("gzip that ends in its head", gzip.compress(b'{"traceEvents": []}')[:9]),
        "not.json.gz": ("gzip of text", gzip.compress(b"hello\n" * 99)),
        "empty.json.gz": ("gzip of nothing", gzip.compress(b"")),
        "short.sqlite": ("the first bytes of a database", b"SQLite format 3\0" + bytes(60)),
        "report.nsys-rep": ("a report that only nsys reads", b"NVIDIA\0\0\0\0" + bytes(range(256)) * 8),
        "html.json": ("a web page", b"<!DOCTYPE html><html><body>404</body></html>"),
    }
    found = []
    for name, (why, raw) in texts.items():
        path = folder / name
        path.write_bytes(raw)
        found.append(Bad(path, why))
    empty = folder / "no_files"
    empty.mkdir()
    found.append(Bad(empty, "a folder without files"))
    path = folder / "other.sqlite"
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE people (name TEXT)")
        db.commit()
    found.append(Bad(path, "a database of something else"))
    found.append(Bad(folder / "not_there.json", "no file"))
    return found


def bomb(path: Path, megabytes: int = 300) -> Path:
    """A gzip file of a few hundred kB that unpacks to ``megabytes`` of nothing: refused beyond a cap, in bounded memory."""
    with gzip.open(path, "wb", compresslevel=9) as file:
        file.write(b'{"traceEvents": [')
        for _ in range(megabytes):
            file.write(b" " * (1 << 20))
        file.write(b"]}")
    return path


def hostile(folder: Path, content: Content) -> list[Bad]:
    """Reports whose schema would run something when read: to be refused, not run."""
    statements = {
        "view.sqlite": "CREATE VIEW CUPTI_ACTIVITY_KIND_KERNEL AS WITH RECURSIVE n(start) AS (SELECT 1 UNION ALL "
        "SELECT start + 1 FROM n) SELECT start, start AS end, 0 AS deviceId, 0 AS streamId, 1 AS demangledName, "
        "0 AS globalPid, 0 AS correlationId FROM n",
        "trigger.sqlite": "CREATE TRIGGER t AFTER INSERT ON StringIds BEGIN DELETE FROM StringIds; END",
    }
    found = []
    for name, statement in statements.items():
        path = nsys.write(folder / name, [content]).path
        with closing(sqlite3.connect(path)) as db:
            if name.startswith("view"):
                db.execute("DROP TABLE CUPTI_ACTIVITY_KIND_KERNEL")
            db.execute(statement)
            db.commit()
        found.append(Bad(path, statement.split(" ", 2)[1].lower()))
    return found


def many_names(path: Path, names: int = 1_000_000) -> Path:
    """A Kineto file in which each kernel has a name of its own; kernel i lasts 500 + i % 7 ns, and one starts every µs."""
    with gzip.open(path, "wb", compresslevel=1) if path.suffix == ".gz" else path.open("wb") as file:
        file.write(
            b'{"schemaVersion":1,"distributedInfo":{"rank":0},"baseTimeNanoseconds":1759300000000000000,\n"traceEvents":[\n'
        )
        for first in range(0, names, 10_000):
            rows = [
                f'{{"ph":"X","cat":"kernel","name":"kernel<{i}>(float*)","pid":0,"tid":7,"ts":{i}.000,"dur":0.{500 + i % 7},'
                f'"args":{{"device":0,"stream":7,"correlation":{i + 1}}}}}'
                for i in range(first, min(names, first + 10_000))
            ]
            file.write((("" if not first else ",\n") + ",\n".join(rows)).encode())
        file.write(b"\n]}\n")
    return path


def ranks(folder: Path, contents: Sequence[Content], named: str = "rank{}.pt.trace.json", *, told: bool = True,
          twice: int | None = None) -> list[kineto.Written]:  # fmt: skip
    """A file per rank. ``told``: each says its rank, else only its name does (where ``named`` has a number); ``twice``: the
    rank that a second file, under another name, says it is too: to be said, and not counted twice."""
    style = kineto.Style(with_rank=told)
    written = [kineto.write(folder / named.format(c.rank), c, style) for c in contents]
    if twice is not None:
        written.append(kineto.write(folder / f"again_{named.format(99)}", contents[twice], style))
    return written


def jax(path: Path, content: Content) -> kineto.Written:
    """A Chrome trace as JAX writes: no categories, GPUs told by the names of processes and streams by those of threads.
    Its kinds are not told; starts count from the file's own zero."""
    device, host = 2, 701
    records = [
        {"ph": "M", "pid": device, "name": "process_name", "args": {"name": f"/device:GPU:{content.rank}"}},
        {"ph": "M", "pid": device, "tid": 7, "name": "thread_name", "args": {"name": "Stream #7(Compute)"}},
        {"ph": "M", "pid": device, "tid": 20, "name": "thread_name", "args": {"name": "Stream #20(Compute)"}},
        {"ph": "M", "pid": device, "tid": 13, "name": "thread_name", "args": {"name": "Stream #13(MemcpyH2D)"}},
        {"ph": "M", "pid": host, "name": "process_name", "args": {"name": "/host:CPU"}},
    ]
    for event in content.events:
        place = {"pid": device, "tid": event.stream} if event.device is not None else {"pid": host, "tid": event.tid}
        times = {"ts": event.start / 1000, "dur": event.length / 1000}
        records.append({"ph": "X", "name": event.name, **place, **times, "args": {"correlation_id": str(event.link)}})
    records.append({})  # JAX ends with an empty object
    whole = {"displayTimeUnit": "ns", "metadata": {"highres-ticks": True}, "traceEvents": records}
    raw = json.dumps(whole).encode()
    path.write_bytes(kineto.packed(raw) if path.suffix == ".gz" else raw)
    events = tuple(e._replace(kind=Kind.OTHER, size=-1) for e in content.in_order())
    return kineto.Written(path, kineto.Style(), None, events, (), None)


def rocprof(path: Path, content: Content) -> kineto.Written:
    """A Chrome trace like rocprof's: times as texts, exact ones in the arguments, an event a line, processes with names."""
    processes = ((2, "0 CPU HIP API"), (6, f"1 GPU{content.rank}"))
    lines = ['{ "traceEvents":[{}']
    lines += [f',{{"args":{{"name":"{name}"}},"ph":"M","pid":{pid},"name":"process_name"}}' for pid, name in processes]
    for event in content.events:
        pid, tid = (6, event.stream) if event.device is not None else (2, event.tid)
        lines.append(
            f',{{"ph":"X","name":{json.dumps(event.name)},"pid":{pid},"tid":{tid},"ts":"{event.start // 1000}",'
            f'"dur":"{event.length // 1000}","args":{{"BeginNs":"{event.start}","EndNs":"{event.end}"}}}}'
        )
    path.write_text("\n".join([*lines, "], \"otherData\": {}}"]))  # fmt: skip
    return kineto.Written(path, kineto.Style(), None, tuple(content.in_order()), (), None)
