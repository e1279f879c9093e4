"""Writes Kineto files of several ages and layouts, with what is odd in real ones.

``write(path, content, Style(clock="base", layout="tabs", evils=("graph",)))`` gives the path.
"""

import gzip
import io
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple

from gssr.traces.timeline import NO_LINK, Category, Kind

from .content import Content, Event

Clock = Literal["integer", "decimal", "base", "boot"]
Layout = Literal["two", "four", "tabs", "compact", "lines"]
"""How the JSON stands: indented by 2, 4 or tabs; without any space; an event a line."""
BASE_NS = 1_759_300_000_000_000_000

CATEGORIES = {
    Kind.KERNEL: "kernel", Kind.MEMCPY: "gpu_memcpy", Kind.MEMSET: "gpu_memset", Kind.GPU_SYNC: "cuda_sync",
    Kind.GPU_RANGE: "gpu_user_annotation", Kind.RUNTIME: "cuda_runtime", Kind.DRIVER: "cuda_driver",
    Kind.CPU_OP: "cpu_op", Kind.PYTHON: "python_function", Kind.RANGE: "user_annotation", Kind.OVERHEAD: "overhead",
    Kind.OTHER: "mtia_ccp_events",
}  # fmt: skip
OLD_CATEGORIES = CATEGORIES | {
    Kind.KERNEL: "Kernel", Kind.MEMCPY: "Memcpy", Kind.MEMSET: "Memset", Kind.RUNTIME: "Runtime", Kind.CPU_OP: "Operator",
}  # fmt: skip
CPU_KINDS = (Kind.RUNTIME, Kind.DRIVER, Kind.CPU_OP, Kind.PYTHON, Kind.RANGE, Kind.OVERHEAD, Kind.OTHER)


class Style(NamedTuple):
    """How a content is written. ``with_rank``: whether the file tells its rank; ``tail``: whether what belongs to the
    file as a whole stands after the events (as since 2023) or before."""

    clock: Clock = "base"
    layout: Layout = "two"
    tail: bool = True
    with_rank: bool = True
    old: bool = False
    rocm: bool = False
    evils: tuple[str, ...] = ()


def micros(ns: int, clock: Clock) -> str:
    """A time as digits: never through a float, which would lose the last ones."""
    if clock == "integer":
        return str(ns // 1000)
    sign, ns = ("-", -ns) if ns < 0 else ("", ns)
    return f"{sign}{ns // 1000}.{ns % 1000:03d}"


class Writer:
    """The records of one content in one style."""

    def __init__(self, content: Content, style: Style) -> None:
        self.content, self.style = content, style
        clock = style.clock
        self.shift = {
            "integer": content.unix_ns, "decimal": content.unix_ns, "base": content.unix_ns - BASE_NS,
            "boot": 4_203_669_603_018_756,
        }[clock]  # fmt: skip
        if clock == "integer":
            self.shift -= self.shift % 1000

    def number(self, ns: int) -> str:
        """A time of the content as it stands in the file."""
        return micros(ns + self.shift, self.style.clock)

    def row(self, event: Event) -> str:
        """An event with a duration."""
        args: dict[str, Any] = {}
        names = OLD_CATEGORIES if self.style.old else CATEGORIES
        if event.device is not None:
            args = {"External id": 7, "device": event.device, "context": 1, "stream": event.stream}
            if self.style.rocm:
                args["kind"] = event.operation or "Dispatch"
            pid, tid = event.device, event.stream
        else:
            pid, tid = event.pid, event.tid
            if self.style.rocm and event.kind is Kind.RUNTIME:
                args["stream"] = "0x0"
        if event.link != NO_LINK:
            args["correlation"] = event.link
        if event.size >= 0 and not self.style.rocm:
            args["bytes"] = event.size
            args["memory bandwidth (GB/s)"] = event.size / max(event.length, 1)
        if event.kind is Kind.PYTHON:
            args |= {"Python id": event.start % 1000, "Python parent id": None}
        members = {
            "ph": '"X"', "cat": json.dumps(names[event.kind]), "name": json.dumps(event.name), "pid": json.dumps(pid),
            "tid": json.dumps(tid), "ts": self.number(event.start), "dur": micros(event.length, self.style.clock),
            "args": json.dumps(args),
        }  # fmt: skip
        return "{" + ", ".join(f'"{k}": {v}' for k, v in members.items()) + "}"

    def whole(self) -> Iterator[str]:
        """All that the content holds: events, the flows between them, counters, names of processes."""
        for event in self.content.events:
            if self.style.rocm and event.kind is Kind.RUNTIME:
                event = event._replace(name=event.name.replace("cuda", "hip"))
            yield self.row(event)
            if event.link != NO_LINK and event.kind in (Kind.RUNTIME, Kind.KERNEL):
                at = f'"pid": {event.pid}, "tid": {event.tid}, "ts": {self.number(event.start)}, "cat": "ac2g"'
                ends = '"bp": "e", ' if event.kind is Kind.KERNEL else ""
                phase = "f" if event.kind is Kind.KERNEL else "s"
                yield f'{{"ph": "{phase}", "id": {event.link}, {at}, {ends}"name": "ac2g"}}'
        for sample in self.content.samples:
            device = -1 if sample.device is None else sample.device
            kind = 1 if sample.device is not None else 0
            args = f'"Device Id": {device}, "Device Type": {kind}, "Bytes": 512, "{sample.name}": {int(sample.value)}'
            yield (
                f'{{"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "pid": 1, "tid": 1, '
                f'"ts": {self.number(sample.time)}, "args": {{{args}}}}}'
            )
        zero = self.number(0)
        yield f'{{"name": "process_name", "ph": "M", "ts": {zero}, "pid": 1, "tid": 0, "args": {{"name": "python"}}}}'
        yield f'{{"name": "thread_name", "ph": "M", "ts": {zero}, "pid": 0, "tid": 7, "args": {{"name": "stream 7 "}}}}'
        yield f'{{"name": "Record Window End", "ph": "i", "s": "g", "pid": "", "tid": "", "ts": {zero}}}'


def sample_event(writer: Writer, number: int, kind: Kind = Kind.KERNEL, name: str = "probe") -> Event:
    """A short event of its own after all others of the content."""
    start = 1000 * (max((e.end for e in writer.content.events), default=0) // 1000 + 10 * (number + 1))
    if kind in CPU_KINDS:
        return Event(kind, name, start, 2000, 4000, 4000, category=Category.OTHER)
    category = Category.COMPUTE if kind is Kind.KERNEL else Category.COPY
    return Event(kind, name, start, 2000, 4000, 7, writer.content.rank, 7, category=category)


def graph(w: Writer) -> Iterator[str]:
    """One launch of a CUDA graph; its kernels share the launch's correlation."""
    launch = sample_event(w, 14, Kind.RUNTIME, "cudaGraphLaunch")._replace(link=900_001, category=Category.LAUNCH)
    yield w.row(launch)
    for number in range(12):
        kernel = sample_event(w, 15, name=f"graph kernel {number % 3}")
        yield w.row(kernel._replace(start=kernel.start + 3000 * number, link=900_001))


def experts(w: Writer) -> Iterator[str]:
    """DeepEP's kernels are communication; GEMMs of the same namespace are not."""
    names = {
        "void deep_ep::intranode::dispatch<8, 768, 8192>(int4*, float*, int*)": Category.COMMUNICATION,
        "void dpsk::ep::internode::combine<false, 8, __nv_bfloat16, 8, 2, 16, 24>(int4*)": Category.COMMUNICATION,
        "void dpsk::grouped_gemm::cuda::utils::transpose<512, 128, 4, 4>(unsigned char const*)": Category.COMPUTE,
        "void cutlass::device_kernel<dpsk::grouped_gemm::cuda::GemmKernel>(Params)": Category.COMPUTE,
        "ncclKernel_AllGather_RING_LL_Sum_int8_t(ncclWorkElem)": Category.COMMUNICATION,
        "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)": Category.COMMUNICATION,
    }
    for number, (name, category) in enumerate(names.items()):
        yield w.row(sample_event(w, 33 + number, name=name)._replace(category=category))


def sync(w: Writer) -> Iterator[str]:
    """Rows of a stream that only waits, and ranges drawn onto one: no work."""
    for number, kind in enumerate((Kind.GPU_SYNC, Kind.GPU_RANGE)):
        event = sample_event(w, 40, name="Stream Wait Event" if number == 0 else "forward")._replace(
            kind=kind, length=9000
        )
        yield w.row(event._replace(category=Category.SYNC if number == 0 else Category.RANGE))


def stacks(w: Writer) -> Iterator[str]:
    """Python's stack: one function in another, the same bounds as its caller."""
    for number, name in enumerate(("train.py(10): main", "train.py(42): step", "loader.py(7): next")):
        yield w.row(sample_event(w, 45, Kind.PYTHON, name)._replace(length=9000 - 1000 * (number // 2 * 2)))


EVILS: dict[str, Callable[[Writer], Iterator[str]]] = {
    "graph": graph,
    "experts": experts,
    "sync": sync,
    "stacks": stacks,
}


def head_of(content: Content, style: Style) -> dict[str, Any]:
    """What a file says of itself."""
    head: dict[str, Any] = {"schemaVersion": 1}
    if style.with_rank:
        head["distributedInfo"] = {"backend": "nccl", "rank": content.rank, "world_size": 8}
    head["deviceProperties"] = [{"id": content.rank, "name": "NVIDIA H100 80GB HBM3", "numSms": 132}]
    return head


def tail_of(style: Style) -> dict[str, Any]:
    """What newer files say after their events."""
    tail: dict[str, Any] = {"traceName": "/tmp/a \"b\" {c} [d] \\ }, trace.json"}  # fmt: skip
    if style.clock != "integer":
        tail["displayTimeUnit"] = "ns" if style.clock == "decimal" else "ms"
    if style.clock == "base":
        tail["baseTimeNanoseconds"] = BASE_NS
    return tail


def indented(text: str, layout: Layout) -> str:
    """One record as the layout has it."""
    unit = {"two": "  ", "four": "    ", "tabs": "\t"}.get(layout)
    if unit is None:
        return text
    first, rest = text[1:-1].split(', "', 1)
    return f'{unit}{{\n{unit}{unit}{first},\n{unit}{unit}"{rest}\n{unit}}}'


def write(path: Path | str, content: Content, style: Style | None = None) -> Path:
    """Write the file, gzip where its name ends so; its path."""
    style = style or Style()
    path = Path(path)
    writer = Writer(content, style)
    records = list(writer.whole())
    for evil in style.evils:
        records += EVILS[evil](writer)
    random.Random(0).shuffle(records)
    head, tail = head_of(content, style), tail_of(style)
    members = (head if style.tail else head | tail, tail if style.tail else {})
    open_, close = [", ".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in part.items()) for part in members]
    texts = [indented(record, style.layout) for record in records]
    if style.layout == "compact":
        body = "{" + open_ + ',"traceEvents":[' + ",".join(texts) + "]" + ("," + close if close else "") + "}"
    else:
        body = "{\n  " + open_ + ',\n  "traceEvents": [\n' + ",\n".join(texts) + "\n  ]"
        body += (",\n  " + close if close else "") + "\n}\n"
    raw = body.encode()
    path.write_bytes(packed(raw) if path.suffix == ".gz" else raw)
    return path


def packed(raw: bytes) -> bytes:
    """gzip without the time of writing, so that the same content is the same file."""
    out = io.BytesIO()
    with gzip.GzipFile(fileobj=out, mode="wb", compresslevel=1, mtime=0) as file:
        file.write(raw)
    return out.getvalue()
