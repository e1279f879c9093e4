"""Hostile dumps of PyTorch: memory snapshots, memory timelines and dumps of NCCL's flight recorder that were damaged, in
their bytes or in their values, or that hold themselves; and CSV of Nsight Compute."""

import json
import pickle
import random
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from gssr.model.traces.hang import analyze_hang
from gssr.model.traces.memory import device_memories
from gssr.model.traces.profiled_kernels import UnprofiledKernel, profiled_kernels
from gssr.render.function_names import short_name
from gssr.report.hang import hang_document, hang_page, hang_rows
from gssr.report.kernel_profiles import TABLES as KERNEL_TABLES
from gssr.report.kernel_profiles import kernels_document, kernels_page, kernels_rows
from gssr.report.memory import TABLES, memory_document, memory_page, memory_rows
from gssr.report.page import PageOptions
from gssr.traces.flight_recorder import read_flight_recorder
from gssr.traces.kernel_profile import ProfiledLaunch
from gssr.traces.launch_shapes import KernelShape
from gssr.traces.memory_dump import read_memory_dump
from gssr.traces.ncu_csv import read_ncu_csv
from gssr.traces.timeline import TraceError
from tests.fakes.traces import ncu
from tests.fakes.traces.flight_recorder import chained, piped
from tests.fakes.traces.torch_memory import snapshot, trained, write_timeline
from tests.fuzz.readers import SMALL, TEXT, Parser, damage

_PAGE = PageOptions(80, True, "high")


@cache
def _timelines() -> tuple[bytes, ...]:
    with TemporaryDirectory(prefix="gssr-seed-") as folder:
        return tuple(write_timeline(Path(folder) / "t.json", raw).read_bytes() for raw in (True, False))


@cache
def _recorded() -> tuple[dict[str, Any], ...]:
    return tuple(each.dump() for each in (*chained(), *piped()))


def changed(held: Any, rng: random.Random) -> Any:
    """The same with some of its values changed, or with itself somewhere within it."""
    held = pickle.loads(pickle.dumps(held))
    for _ in range(rng.choice((1, 1, 3, 20))):
        place = held
        while True:
            keys = list(place) if isinstance(place, dict) else range(len(place))
            if not keys:
                break
            key = rng.choice(keys)
            if isinstance(place[key], dict | list) and rng.random() < 0.8:
                place = place[key]
                continue
            place[key] = rng.choice((held, place, [], {}, None, 0.5, b"x", (), rng.choice(SMALL), rng.choice(TEXT)))
            break
    return held


def _bytes_of(held: Any, rng: random.Random) -> bytes:
    """The pickle or JSON of what was changed, or a damaged pickle of what was not."""
    if rng.random() < 0.4:
        return damage(pickle.dumps(held, rng.choice((2, 3, 4, 5))), rng)
    other = changed(held, rng)
    if rng.random() < 0.3:
        try:
            return json.dumps(other, default=str).encode()
        except (ValueError, RecursionError):
            pass  # it holds itself
    return pickle.dumps(other, rng.choice((2, 4)))


def _memory(rng: random.Random) -> bytes:
    if rng.random() < 0.3:
        return damage(rng.choice(_timelines()), rng)
    return _bytes_of(snapshot(trained(seed=3), trained(1, 2)), rng)


def _flight(rng: random.Random) -> bytes:
    return _bytes_of(rng.choice(_recorded()), rng)


def _refused_or(read: Callable[[Path], None], name: str) -> Callable[[Path, bytes], None]:
    """Read the bytes under a name; they may be refused in one sentence that names the file."""

    def parse(folder: Path, data: bytes) -> None:
        path = folder / name
        path.write_bytes(data)
        try:
            read(path)
        except TraceError as error:
            assert "\n" not in str(error) and name in str(error)

    return parse


def _read_memory(path: Path) -> None:
    found = device_memories(str(path), read_memory_dump(str(path)), 1 << 27)
    for each in found:
        if each.alive is not None and each.peak_bytes is not None:
            assert sum(one.size for one in each.alive) == each.peak_bytes
    if found:
        memory_page(found, _PAGE)
        json.dumps(memory_document(found), allow_nan=False)
        for table in TABLES:
            list(memory_rows(table, found))


def _read_flight(path: Path) -> None:
    found = analyze_hang([read_flight_recorder(str(path))])
    hang_page(found, _PAGE)
    json.dumps(hang_document(found), allow_nan=False)
    list(hang_rows("hang", found))


_NCU_TEXTS = (b'"', b",", b"\n", b"\r\n", b'""', b"(1, 1, 1)", b"n/a", b"1,234", b"1e999", b"-1", b"%", b"ns", b"Gbyte/s",
              b"\0", b'"ID","Process ID","Kernel Name"\n', b"==PROF== ", b'"Metric Name"', b"\xff\xfe",
              b"x" * 900)  # fmt: skip


def _ncu_csv(rng: random.Random) -> bytes:
    data = rng.choice((ncu.details, ncu.raw, ncu.listed, ncu.summary))().encode()
    for _ in range(rng.choice((1, 1, 3, 20))):
        at = rng.randrange(len(data) + 1)
        data = data[:at] + rng.choice(_NCU_TEXTS) + data[at + rng.choice((0, 0, 1, 40)) :]
    return damage(data, rng) if rng.random() < 0.3 else data


def _read_ncu(path: Path) -> None:
    look_at_kernels(read_ncu_csv(str(path), problems=[]))


def look_at_kernels(launches: Sequence[ProfiledLaunch]) -> None:
    """Draw and list launches as the command does. Raises AssertionError where they do not hold together."""
    found = profiled_kernels(launches, {KernelShape("gemm", (64, 8, 1), None): (1, 10)}, short_name)
    for launch in launches:
        assert launch.launches >= 1 and sum(launch.stalls.values()) <= 1 + 1e-9
    kernels_page(found, UnprofiledKernel("gemm", 1.0, []), _PAGE)
    json.dumps(kernels_document(found, None), allow_nan=False)
    for table in KERNEL_TABLES:
        list(kernels_rows(table, found))


READERS = (
    Parser("ncu-csv", _ncu_csv, _refused_or(_read_ncu, "kernels.csv")),
    Parser("memory-dump", _memory, _refused_or(_read_memory, "a.pickle")),
    Parser("flight-recorder", _flight, _refused_or(_read_flight, "nccl_trace_rank_0")),
)
