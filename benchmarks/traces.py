"""Reading traces of torch.profiler: large files, made of one step of training again and again; beside msgspec alone, which
only decodes the same pieces, and HolisticTraceAnalysis where GSSR_BENCHMARK_HTA names the Python of an environment with it.

What is measured is this module as a process: ``python -m benchmarks.traces read|compare FILE`` or ``make FILE MB``.
"""

import gzip
import itertools
import os
import random
import re
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from benchmarks import scorep
from benchmarks.nsys_report import large_report
from benchmarks.processes import CACHE, MB, PYTHON, Cost, median, proportional_bytes, run, spawn
from benchmarks.table import Figure
from tests.fakes.traces.cube import large

WALL, MEMORY, PACKED_WALL, TIMES_MSGSPEC, TIMES_HTA, SHARE_OF_HTA = 6.0, 300.0, 10.0, 2.5, 12.0, 1 / 8
TIMES_SQLITE, KERNELS_MEMORY, TABLE_MEMORY, KERNELS = 0.7, 450.0, 60.0, 4_700_000
PROFILE, CALLS, RANKS = 0.3, 200, 64
SMALL, LARGE = 161, 752
"""MB."""
_HEAD = """{
  "schemaVersion": 1,
  "deviceProperties": [
    {
      "id": 0, "name": "NVIDIA H100 80GB HBM3", "totalGlobalMem": 84929347584,
      "computeMajor": 9, "computeMinor": 0, "numSms": 132
    }
  ],
  "distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 8},
  "displayTimeUnit": "ms",
  "baseTimeNanoseconds": 1760000000000000000,
  "traceEvents": [
"""
_KERNELS = (
    "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_segment_k_off_kernel__5x_cublas",
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul> >(int, "
    "at::native::CUDAFunctor_add<float>, std::array<char*, 3ul>)",
    "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous namespace)::"
    "TensorListMetadata<4>, at::native::(anonymous namespace)::FusedAdamMathFunctor<float, 4>, float const*, double>()",
    "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
)
_OPS = (
    "aten::linear",
    "aten::addmm",
    "aten::add_",
    "aten::copy_",
    "autograd::engine::evaluate_function: AddmmBackward0",
)


def _operation(number: int, at: float, rng: random.Random) -> Iterator[str]:
    """One operation, its launch and its kernel, as torch.profiler writes them; "@" stands before times, "#" before links."""
    thread, kernel, dur = 4037 + number % 2, rng.choices(_KERNELS, (6, 6, 2, 1))[0], rng.uniform(3, 30)
    stream = 20 if kernel.startswith("nccl") else 7
    shapes = f"[[{rng.choice((64, 512, 4096))}, 4096], [4096, 4096], []]"
    yield f"""  {{
    "ph": "X", "cat": "cpu_op", "name": "{rng.choice(_OPS)}", "pid": 4037, "tid": {thread},
    "ts": @{at:.3f}, "dur": {rng.uniform(9, 12):.3f},
    "args": {{
      "External id": #{number},"Record function id": 0, "Sequence number": {number}, "Fwd thread id": 0,"""
    yield f""" "Input Dims": {shapes}, "Input type": ["c10::BFloat16", "c10::BFloat16", "Scalar"], "Ev Idx": {number}
    }}
  }},
  {{
    "ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 4037, "tid": {thread},
    "ts": @{at + 2:.3f}, "dur": {rng.uniform(3, 7):.3f},
    "args": {{
      "External id": #{number}, "cbid": 211, "correlation": #{number}
    }}
  }},
  {{
    "ph": "s", "id": #{number}, "pid": 4037, "tid": {thread}, "ts": @{at + 2:.3f},
    "cat": "ac2g", "name": "ac2g"
  }},
"""
    yield f"""  {{
    "ph": "X", "cat": "kernel", "name": "{kernel}", "pid": 0, "tid": {stream},
    "ts": @{at + 20:.3f}, "dur": {dur:.3f},
    "args": {{
      "External id": #{number},
      "queued": 0, "device": 0, "context": 1,
      "stream": {stream}, "correlation": #{number},
      "registers per thread": 32,
      "shared memory": 0,
      "blocks per SM": 3.878788,
      "warps per SM": 15.515152,
      "grid": [512, 1, 1],
      "block": [128, 1, 1],
      "est. achieved occupancy %": 24
    }}
  }},
  {{
    "ph": "f", "id": #{number}, "pid": 0, "tid": {stream}, "ts": @{at + 20:.3f},
    "cat": "ac2g", "name": "ac2g", "bp": "e"
  }},
"""


def make(path: Path, megabytes: float) -> None:
    """A trace of so many MB: one step of training, again and again. A name that ends in .gz: packed."""
    rng = random.Random(1)
    n = 10_000
    text = "".join(part for number in range(n) for part in _operation(number, 4e12 + 25.0 * number, rng))
    parts = re.split("@([0-9.]+)|#([0-9]+)", text)
    literals, times, links = parts[::3], parts[1::3], parts[2::3]
    with gzip.open(path, "wt", 6) if path.suffix == ".gz" else path.open("w") as stream:
        stream.write(_HEAD)
        done = step = 0
        while done < megabytes * MB:
            at, first = step * n * 25.0, step * n + 1
            numbers = [
                f"{float(time) + at:.3f}" if time else str(int(link or 0) + first)
                for time, link in zip(times, links, strict=True)
            ]
            block = "".join(itertools.chain.from_iterable(zip(literals, [*numbers, ""], strict=True)))
            span = f"""  {{
    "ph": "X", "cat": "user_annotation", "name": "ProfilerStep#{step}", "pid": 4037, "tid": 4037,
    "ts": {4e12 + at - 1:.3f}, "dur": {n * 25.0:.3f},
    "args": {{
      "External id": 0
    }}
  }},
"""
            stream.write(span + block)
            done += len(span) + len(block)
            step += 1
        stream.write(
            """  {
    "name": "Record Window End", "ph": "i", "s": "g", "pid": "", "tid": "", "ts": %.3f
  }
  ],
  "traceName": "/tmp/trace.json"
}
"""
            % (4e12 + step * n * 25.0)
        )


def _made(megabytes: int, suffix: str = "") -> Path:
    """Kept for the next time."""
    path = CACHE / f"rank0-{megabytes}.pt.trace.json{suffix}"
    if not path.exists():
        part = path.with_name(f"part{suffix or '.json'}")
        run((PYTHON, "-m", "benchmarks.traces", "make", part, str(megabytes)))
        part.rename(path)
    return path


def measure(repeats: int = 3) -> Iterator[Figure]:
    """Each as a process of its own, by turns, the file in the page cache as far as it fits."""
    files = {"small": _made(SMALL), "large": _made(LARGE), "packed": _made(LARGE, ".gz")}
    jobs = {f"read {name}": (PYTHON, "-m", "benchmarks.traces", "read", path) for name, path in files.items()}
    if python := os.environ.get("GSSR_BENCHMARK_HTA"):
        jobs["hta small"] = (python, Path(__file__).with_name("with_hta.py"), files["small"])
    costs: dict[str, list[Cost]] = {name: [] for name in jobs}
    times = []
    for _ in range(repeats):
        for name, command in jobs.items():
            costs[name].append(run(command))
        times.append(_compared(files["small"]))
    cost = {name: median(some) for name, some in costs.items()}
    yield from _of_kernels(repeats)
    yield from scorep.figures(repeats)
    yield from _of_calls(repeats)
    case = f"traces, {LARGE} MB of torch.profiler"
    yield Figure(f"{case}: read: wall clock", cost["read large"].wall, "s", WALL)
    yield Figure(f"{case}: read: CPU", cost["read large"].cpu, "s")
    yield Figure(f"{case}: read: peak memory, all processes", _together(jobs["read large"]) / MB, "MB", MEMORY)
    yield Figure(f"{case}, packed: read: wall clock", cost["read packed"].wall, "s", PACKED_WALL)
    yield Figure(f"{case}, packed: read: peak memory", cost["read packed"].rss / MB, "MB")
    case = f"traces, {SMALL} MB of torch.profiler"
    own, alone = (statistics.median(column) for column in zip(*times, strict=True))
    yield Figure(f"{case}: read by one process: CPU", own, "s")
    yield Figure(f"{case}: only decoded by msgspec: CPU", alone, "s")
    yield Figure(f"{case}: read by one process, times msgspec's", own / alone, "", TIMES_MSGSPEC)
    if "hta small" in cost:
        peer = cost["hta small"]
        yield Figure(f"{case}: read and split by HTA: CPU", peer.cpu, "s")
        yield Figure(f"{case}: read and split by HTA: peak memory", peer.rss / MB, "MB")
        yield Figure(
            f"{case}: CPU of HTA, times gssr's", peer.cpu / cost["read small"].cpu, "", TIMES_HTA, at_least=True
        )
        yield Figure(f"{case}: peak memory, share of HTA's", _together(jobs["read small"]) / peer.rss, "", SHARE_OF_HTA)


def _of_kernels(repeats: int) -> Iterator[Figure]:
    """A report of Nsight Systems, beside SQLite that groups its kernels by name."""
    path = CACHE / f"kernels-{KERNELS}.sqlite"
    if not path.exists():
        run((PYTHON, "-m", "benchmarks.traces", "report", path.with_name("part.sqlite")))
        path.with_name("part.sqlite").rename(path)
    jobs = {name: (PYTHON, "-m", "benchmarks.traces", name, path) for name in ("grouped", "split")}
    jobs["page"] = (PYTHON, "-m", "gssr", "analyze", path)
    few = CACHE / "few-kernels.sqlite"
    large_report(str(few), 1)
    for name, of in (("table", path), ("bare", few)):
        jobs[name] = (PYTHON, "-m", "gssr", "analyze", "--csv", "cuda_gpu_kern_sum", of)
    costs: dict[str, list[Cost]] = {name: [] for name in jobs}
    for _ in range(repeats):
        for name, command in jobs.items():
            costs[name].append(run(command))
    cost = {name: median(some) for name, some in costs.items()}
    case = f"traces, {KERNELS / 1e6:g} M kernels of nsys"
    yield Figure(f"{case}: grouped by SQLite: CPU", cost["grouped"].cpu, "s")
    yield Figure(
        f"{case}: split and table, times SQLite's CPU", cost["split"].cpu / cost["grouped"].cpu, "", TIMES_SQLITE
    )
    yield Figure(f"{case}: the whole page, times SQLite's CPU", cost["page"].cpu / cost["grouped"].cpu, "")
    yield Figure(f"{case}: the whole page: peak memory", cost["page"].rss / MB, "MB", KERNELS_MEMORY)
    yield Figure(f"{case}: the table alone: CPU", cost["table"].cpu, "s")
    more = cost["table"].rss - cost["bare"].rss
    yield Figure(f"{case}: the table alone: memory beyond that for one kernel", more / MB, "MB", TABLE_MEMORY)


def _of_calls(repeats: int) -> Iterator[Figure]:
    """A profile of Score-P, beside Python that starts and ends."""
    path = CACHE / "profile.cubex"
    path.write_bytes(large(CALLS, RANKS))
    jobs = {"page": (PYTHON, "-m", "gssr", "analyze", path), "start": (PYTHON, "-c", "pass")}
    costs: dict[str, list[Cost]] = {name: [] for name in jobs}
    for _ in range(3 * repeats):
        for name, command in jobs.items():
            costs[name].append(run(command))
    cost = {name: median(some) for name, some in costs.items()}
    case = f"traces, a profile of {CALLS} calls on {RANKS} ranks"
    yield Figure(
        f"{case}: the whole page, beyond Python's start: CPU", cost["page"].cpu - cost["start"].cpu, "s", PROFILE
    )
    yield Figure(f"{case}: the whole page: peak memory", cost["page"].rss / MB, "MB")


def _report(path: str) -> None:
    large_report(path, KERNELS)


def _grouped(path: str) -> None:
    length = '"end" - start'
    sums = f"count(*), sum({length}), avg({length}), min({length}), max({length})"
    sqlite3.connect(path).execute(
        f"SELECT demangledName, {sums} FROM CUPTI_ACTIVITY_KIND_KERNEL GROUP BY demangledName"
    ).fetchall()


def _split(path: str) -> None:
    from gssr.model.traces.analyze_trace import analyze_timelines
    from gssr.traces.open import open_traces

    analyze_timelines(open_traces([path]).timelines(), tables=("ranks", "kernels"))


def _compared(path: Path) -> tuple[float, float]:
    with tempfile.NamedTemporaryFile(dir=CACHE) as said:
        run((PYTHON, "-m", "benchmarks.traces", "compare", path), Path(said.name))
        own, alone = Path(said.name).read_text().split()
    return float(own), float(alone)


def _together(command: Sequence[str | Path]) -> float:
    """The greatest memory of a process and its children at one time, each page counted once."""
    pid, greatest = spawn(command), 0.0
    while os.waitpid(pid, os.WNOHANG)[0] == 0:
        with suppress(OSError, RuntimeError):
            children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
            greatest = max(greatest, sum(proportional_bytes(int(one)) for one in (str(pid), *children)))
        time.sleep(0.01)
    return greatest


def _read(path: str) -> None:
    from gssr.traces.open import open_traces

    open_traces([path]).timeline()


def _compare(path: str) -> None:
    """CPU seconds of reading a file by one process, and of decoding the same pieces of it, with the same structures."""
    from gssr.traces.json_events import Decoder, JsonEvents

    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    pieces = [bytes(text) for _, text in JsonEvents(path)]
    decode = Decoder()
    began = time.process_time()
    for piece in pieces:
        decode(piece)
    alone = time.process_time() - began
    del pieces
    began = time.process_time()
    _read(path)
    print(time.process_time() - began, alone)


if __name__ == "__main__":
    if sys.argv[1] == "make":
        make(Path(sys.argv[2]), float(sys.argv[3]))
    else:
        jobs = {"read": _read, "compare": _compare, "grouped": _grouped, "split": _split, "report": _report}
        jobs[sys.argv[1]](sys.argv[2])
