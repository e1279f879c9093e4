"""Files that are named like those of a tool, or lie beside them, and are none: each is refused in one sentence."""

import base64
import gzip
import json
from collections.abc import Iterator

from .case import Case

POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"4d7a" * 16 + b"\nsize 12345\n"
JOBSTATS = {
    "nodes": {"n1": {"used_memory": 1, "cpus": 8, "gpu_utilization": {"0": 87.5}}},
    "gpus": 1,
    "total_time": 600,
}


def _files() -> Iterator[tuple[str, bytes, str]]:
    yield "empty.csv", b"", "empty"
    yield "pointer.csv", POINTER, "LFS|pointer"
    yield "notes.txt", b"GPU 0 is slow, says Ann.\nSee the log.\n", "."
    yield "page.html", b"<!DOCTYPE html><html><body>404</body></html>", "."
    yield "noise.bin", bytes(range(256)) * 8, "."
    yield "zeros.bin", bytes(4096), "."
    packed = base64.b64encode(gzip.compress(json.dumps(JOBSTATS).encode(), mtime=0))
    yield "jobstats.txt", b"JS1:" + packed + b"\n", "mean|series|sample"
    yield "short.txt", b"JS1:Short\n", "."
    yield "header.log", b"#Entity         SMACT             \nID                              \n", "."
    yield "header.csv", b"timestamp, index, utilization.gpu [%]\n", "."
    yield "pairs.csv", b"GPUId,TimeStampUs,Field,Values\n0,1718783836956328,power_usage_instant,71.20\n", "."
    yield "foreign.prom", b"# HELP up x\n# TYPE up gauge\nup 1\n", "."
    yield "other.json", b'{"hello": [1, 2, 3]}', "."
    yield "cut.json", b'{"status":"success","data":{"resultType":"matrix","resu', "."
    yield "bomb.gz", gzip.compress(bytes(1 << 22), mtime=0), "."
    yield "cut.gz", gzip.compress(b"#Entity         SMACT\n" * 500, mtime=0)[:-30], "."


def cases() -> Iterator[Case]:
    for name, data, said in _files():
        yield Case(f"odd-{name}", {name: data}, [], refused=f"{name}.*({said})")
