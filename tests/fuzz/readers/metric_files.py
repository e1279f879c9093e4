"""Hostile files of metrics that other tools leave of ranks, or that Prometheus gives: each is refused in a sentence, or
comes to rows whose values stand in it."""

import base64
import gzip
import json
import random
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path

from gssr.foreign import (
    gssr_record,
    jobreport,
    jobstats,
    prometheus_range,
    prometheus_runs,
    prometheus_text,
    published_json,
    published_sqlite,
)
from gssr.foreign.series import ByteSource, ForeignError, ForeignSeries, ImportHints
from gssr.prometheus import labels
from gssr.store.format.limits import LEAST_BYTES
from tests.fuzz.readers import Parser, damage, text
from tests.fuzz.readers.metric_texts import check

_START = 1.7e9
_WORDS = (
    b"NaN", b"+Inf", b"1e999", b"-1", b"0x1", b"1_0", b"9223372036854775794", b'"', b"{", b"}", b"} ", b"\\", b"\\n", b"#",
    b"# EOF\n", b",", b"=", b"\r", b"\t", b"\0", b"\xff", b"\xef\xbb\xbf", b"null", b"[", b"]", b"1700000000000", b"1e300",
)  # fmt: skip
_FIELDS = ("DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_PROF_SM_ACTIVE", "DCGM_FI_DEV_FB_USED", "gssr_sm_clock_hertz", "up")


def _worse(sound: Callable[[random.Random], bytes]) -> Callable[[random.Random], bytes]:
    """Mostly damaged, or with words in it that mean something."""

    def drawn(rng: random.Random) -> bytes:
        data = sound(rng)
        for _ in range(rng.choice((0, 1, 2, 5))):
            at = rng.randrange(len(data) + 1)
            word = rng.choice(_WORDS) if rng.random() < 0.8 else text(rng).encode("utf-8", "replace")
            data = data[:at] + word + data[at + rng.choice((0, 0, 1, 5, 30)) :]
        return damage(data, rng) if rng.random() < 0.3 else data

    return drawn


def _about(gpu: int) -> dict[str, str]:
    return {"gpu": str(gpu % 2), "UUID": f"GPU-{gpu % 2}", "Hostname": "n1"} | ({"GPU_I_ID": "3"} if gpu > 1 else {})


def _drawn_text(rng: random.Random) -> bytes:
    timed = rng.random() < 0.5
    scrapes = []
    for tick in range(rng.choice((1, 3, 8))):
        when = f" {1_700_000_000_000 + 1000 * tick}" if timed else ""
        lines = [
            f"{field}{labels(_about(gpu))} {rng.randrange(99) / 4}{when}"
            for field in rng.sample(_FIELDS, rng.randrange(1, 6))
            for gpu in range(rng.randrange(1, 4))
        ]
        scrapes.append("\n".join(["# TYPE x gauge", *lines, ""]))
    return "".join(scrapes).encode()


def _text(_: Path, data: bytes) -> None:
    cut = len(data) // 3
    with suppress(ForeignError):
        source = ByteSource("x", iter([data[:cut], b"", data[cut:]]), _START)
        check(prometheus_text.read(source, ImportHints(interval=1.0)), data)


def _drawn_runs(rng: random.Random) -> bytes:
    lines = ["# TYPE gssr_run info"]
    n_runs, n_gpus = rng.randrange(1, 4), rng.randrange(1, 3)
    for run in range(n_runs):
        for gpu in range(n_gpus):
            about = labels({"node": "n1", "gpu": gpu, "run": f"r{run}", "command": "python 'x y'"})
            lines += [f"gssr_run_info{about} 1 {_START + 20 * run + end}" for end in (0, 10)]
    for name in rng.sample(("gssr_sm_active_ratio", "gssr_power_usage_watts", "gssr_sm_clock_hertz"), 2):
        lines.append(f"# TYPE {name} gauge")
        for gpu in range(n_gpus):
            about = labels({"node": "n1", "gpu": gpu})
            lines += [f"{name}{about} {rng.randrange(99) / 4} {_START + tick}" for tick in range(0, 20 * n_runs, 5)]
    return "\n".join([*lines, "# EOF", ""]).encode()


def _runs(_: Path, data: bytes) -> None:
    cut = len(data) // 3
    with suppress(ForeignError):
        source = ByteSource("x", iter([data[:cut], data[cut:]]), _START)
        for series in prometheus_runs.read(source, ImportHints(interval=1.0)):
            check(series, data)


def _drawn_range(rng: random.Random) -> bytes:
    found = [
        {"metric": {"__name__": field, **_about(gpu)},
         "values": [[_START + 15 * tick, str(rng.randrange(99) / 4)] for tick in range(rng.randrange(1, 5))]}
        for field in rng.sample(_FIELDS, rng.randrange(1, 4))
        for gpu in range(rng.randrange(1, 4))
    ]  # fmt: skip
    return json.dumps({"status": "success", "data": {"resultType": "matrix", "result": found}}).encode()


def _drawn_published(rng: random.Random) -> bytes:
    n = rng.randrange(1, 5)
    data = {
        str(gpu): {
            tag: [rng.randrange(99) / 4 for _ in range(n)] for tag in ("sm_active", "gpu_utilization", "fb_used")
        }
        for gpu in range(2)
    }
    metadata = {
        "job_id": 7, "step_id": 0, "label": "a_job_7_step_0", "hostname": "n1", "proc_id": 0, "gpu_ids": [0, 1],
        "start_time": _START, "end_time": _START + n / 2, "elapsed": n / 2, "sampling_time": 500, "cmd": "a",
    }  # fmt: skip
    return json.dumps({"metadata": metadata, "data": data}).encode()


@cache
def _head() -> str:
    fields = ("DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_PROF_PCIE_TX_BYTES", "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION")
    return ",".join(["timestamp", "gpuId", *(f"{field}_{end}" for field in fields for end in ("min", "avg", "max"))])


def _drawn_record(rng: random.Random) -> bytes:
    rows = [
        ",".join(map(str, [second, gpu, *(rng.choice((0, rng.randrange(99) / 4)) for _ in range(9))]))
        for second in range(rng.randrange(1, 5))
        for gpu in range(2)
    ]
    return "\n".join([_head(), *rows, ""]).encode()


def _file(read: Callable[[list[str], ImportHints], list[ForeignSeries]], name: str) -> Callable[[Path, bytes], None]:
    def parse(folder: Path, data: bytes) -> None:
        (folder / name).write_bytes(data)
        with suppress(ForeignError):
            for series in read([str(folder / name)], ImportHints(metric="sm_active", start=_START)):
                check(series, data, b",", "energy" if name.endswith("csv") else "")

    return parse


def _drawn_summary(rng: random.Random) -> bytes:
    nodes = {
        f"n{node}": {
            "cpus": 4,
            "gpu_utilization": {str(gpu): rng.randrange(1000) / 10 for gpu in range(rng.randrange(3))},
        }
        for node in range(rng.randrange(1, 3))
    }
    text = json.dumps({"nodes": nodes, "gpus": 1, "total_time": rng.randrange(1, 99)}).encode()
    if rng.random() < 0.5:
        return text
    packed = b"JS1:" + base64.b64encode(gzip.compress(text))
    return packed if rng.random() < 0.5 else b"JobIDRaw|Start|End|AdminComment\n1|2|Unknown|" + packed + b"\n"


def _drawn_report(rng: random.Random) -> bytes:
    rows = [f"1,0,anna,{rng.randrange(9)}.5,n1,{gpu},1700000000000000,1700000060000000,{rng.randrange(99)},5"
            for gpu in range(rng.randrange(4))]  # fmt: skip
    head = "jobId,stepId,username,powerUsageAvg,host,gpuId,startTime,endTime,smUtilizationAvg,maxAllocatedMemory"
    return "\n".join([head, *rows, ""]).encode()


def _means(read: Callable[[list[str], ImportHints], list[ForeignSeries]]) -> Callable[[Path, bytes], None]:
    """A GPU has one row, of its means."""

    def parse(folder: Path, data: bytes) -> None:
        (folder / "x.txt").write_bytes(data)
        with suppress(ForeignError):
            for series in read([str(folder / "x.txt")], ImportHints(start=_START)):
                if sum(len(piece.time) for piece in series.pieces) > len(series.gpus):
                    raise AssertionError("more rows than GPUs")

    return parse


_EXPORT = Path(__file__).parents[2] / "golden" / "foreign" / "gssr-0.4.0" / "export.sql"


def _database(folder: Path, data: bytes) -> None:
    """Its cells are no text: rows are only counted."""
    (folder / "x.sql").write_bytes(data)
    with suppress(ForeignError):
        for series in published_sqlite.read([str(folder / "x.sql")], ImportHints()):
            if sum(len(piece.time) for piece in series.pieces) > len(data) // LEAST_BYTES:
                raise AssertionError("more rows than there can be")


READERS = (
    Parser("prometheus-text", _worse(_drawn_text), _text),
    Parser("prometheus-runs", _worse(_drawn_runs), _runs),
    Parser("prometheus-range", _worse(_drawn_range), _file(prometheus_range.read, "x.json")),
    Parser("published-json", _worse(_drawn_published), _file(published_json.read, "x.json")),
    Parser("published-sqlite", lambda rng: damage(_EXPORT.read_bytes(), rng), _database),
    Parser("jobstats", _worse(_drawn_summary), _means(jobstats.read)),
    Parser("jobreport", _worse(_drawn_report), _means(jobreport.read)),
    Parser("gssr-record", _worse(_drawn_record), _file(gssr_record.read, "proc_0.csv")),
)
