"""Writes Kineto files of all ages and layouts, with every unkindness seen in real ones, and says what each file means.

``write(path, content, Style(clock="base", layout="tabs", evils=("nan", "graph")))`` returns a Written: the path, the events
a reader is to give (in whole ns after ``unix_ns``), how many records are not to be read, and the counters.
"""

import gzip
import io
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple

from gssr.traces.timeline import NO_LINK, Category, Kind

from .content import Content, Event, Sample

Clock = Literal["integer", "decimal", "base", "boot"]
CLOCKS: tuple[Clock, ...] = ("integer", "decimal", "base", "boot")
Layout = Literal["two", "four", "tabs", "compact", "lines", "array", "open array", "crlf", "bom"]
LAYOUTS: tuple[Layout, ...] = ("two", "four", "tabs", "compact", "lines", "array", "open array", "crlf", "bom")
"""How the JSON stands: indented by 2, 4 or tabs; without any space; an event a line; the events alone, closed or not."""
SPAN = "PyTorch Profiler (0)"
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
    seed: int = 0


class Written(NamedTuple):
    """A file and what it means. ``unix_ns``: of the zero that the events' starts count from, None where the file has no
    unix time; ``left_out``: records with a name that no reader can use; ``junk``: what is no event at all, counted or not;
    ``cut``: whether the file ends too early. An event named SPAN may be given or not."""

    path: Path
    style: Style
    rank: int | None
    events: tuple[Event, ...]
    samples: tuple[Sample, ...]
    unix_ns: int | None
    left_out: int = 0
    junk: int = 0
    cut: bool = False


class Record(NamedTuple):
    """One object of the file as text, and what it means: nothing for flows and names of processes."""

    text: str
    event: Event | None = None
    sample: Sample | None = None
    unsound: bool = False
    junk: bool = False


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
        self.rng = random.Random(style.seed)
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

    def known(self, event: Event) -> Event:
        """The event as the file can say it: an old one knows whole µs only, and no kind that it had no word for."""
        if self.style.clock == "integer":
            start = (event.start + self.shift) // 1000 * 1000 - self.shift
            event = event._replace(start=start, length=event.length // 1000 * 1000)
        return event._replace(size=-1) if self.style.rocm else event

    def row(self, event: Event, **changes: str) -> Record:
        """An event with a duration. ``changes``: texts in place of a member's value; "" leaves the member out."""
        event = self.known(event)
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
        if event.size >= 0:
            args["bytes"] = event.size
            if not self.style.rocm:
                args["memory bandwidth (GB/s)"] = event.size / max(event.length, 1)
        if event.kind is Kind.PYTHON:
            args |= {"Python id": event.start % 1000, "Python parent id": None}
        members = {
            "ph": '"X"', "cat": json.dumps(names[event.kind]), "name": json.dumps(event.name), "pid": json.dumps(pid),
            "tid": json.dumps(tid), "ts": self.number(event.start), "dur": micros(event.length, self.style.clock),
            "args": json.dumps(args),
        } | changes  # fmt: skip
        text = "{" + ", ".join(f'"{k}": {v}' for k, v in members.items() if v) + "}"
        return Record(text, event)

    def unsound(self, event: Event, **changes: str) -> Record:
        """A record that stands in the file and says nothing sound."""
        return Record(self.row(event, **changes).text, unsound=True)

    def whole(self) -> Iterator[Record]:
        """All that the content holds: events, the flows between them, counters, names of processes."""
        for event in self.content.events:
            if self.style.rocm and event.kind is Kind.RUNTIME:
                event = event._replace(name=event.name.replace("cuda", "hip"))
            yield self.row(event)
            if event.link != NO_LINK and event.kind in (Kind.RUNTIME, Kind.KERNEL):
                at = f'"pid": {event.pid}, "tid": {event.tid}, "ts": {self.number(event.start)}, "cat": "ac2g"'
                ends = '"bp": "e", ' if event.kind is Kind.KERNEL else ""
                phase = "f" if event.kind is Kind.KERNEL else "s"
                yield Record(f'{{"ph": "{phase}", "id": {event.link}, {at}, {ends}"name": "ac2g"}}')
        for sample in self.content.samples:
            time = self.known(Event(Kind.OTHER, "", sample.time, 0)).start
            device = -1 if sample.device is None else sample.device
            kind = 1 if sample.device is not None else 0
            args = f'"Device Id": {device}, "Device Type": {kind}, "Bytes": 512, "{sample.name}": {int(sample.value)}'
            yield Record(
                f'{{"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "pid": 1, "tid": 1, '
                f'"ts": {self.number(sample.time)}, "args": {{{args}}}}}',
                sample=sample._replace(time=time),
            )
        zero = self.number(0)
        yield Record(
            f'{{"name": "process_name", "ph": "M", "ts": {zero}, "pid": 1, "tid": 0, "args": {{"name": "python"}}}}'
        )
        yield Record(
            f'{{"name": "thread_name", "ph": "M", "ts": {zero}, "pid": 0, "tid": 7, "args": {{"name": "stream 7 "}}}}'
        )
        yield Record(f'{{"name": "Record Window End", "ph": "i", "s": "g", "pid": "", "tid": "", "ts": {zero}}}')


def sample_event(writer: Writer, number: int, kind: Kind = Kind.KERNEL, name: str = "probe") -> Event:
    """A short event of its own after all others of the content."""
    start = 1000 * (max((e.end for e in writer.content.events), default=0) // 1000 + 10 * (number + 1))
    if kind in CPU_KINDS:
        return Event(kind, name, start, 2000, 4000, 4000, category=Category.OTHER)
    category = Category.COMPUTE if kind is Kind.KERNEL else Category.COPY
    return Event(kind, name, start, 2000, 4000, 7, writer.content.rank, 7, category=category)


def nan(w: Writer) -> Iterator[Record]:
    """NaN and Infinity, which JSON does not have: in arguments they don't matter, in a time they do."""
    for number, value in enumerate(("NaN", "-Infinity")):
        args = f'{{"device": {w.content.rank}, "stream": 7, "occupancy": {value}}}'
        yield w.row(sample_event(w, number, name=f"{value} in args"), args=args)
    yield w.unsound(sample_event(w, 2, name="nan ts"), ts="NaN")
    yield w.unsound(sample_event(w, 3, name="inf dur"), dur="Infinity")


def control(w: Writer) -> Iterator[Record]:
    """Control characters as they are in a string."""
    for number, name in enumerate(("tab\there", "bell\x07", "new\nline", "\x01")):
        yield w.row(sample_event(w, 4 + number, Kind.CPU_OP, name), name=f'"{name}"')


def escapes(w: Writer) -> Iterator[Record]:
    """A path of Windows whose backslashes nobody has escaped."""
    name = r"C:\Program\conda\lib\site.py(12): go"
    yield w.row(sample_event(w, 9, Kind.PYTHON, name), name=f'"{name}"')
    yield w.row(sample_event(w, 51, Kind.PYTHON, r"C:\users\a.py"), name=r'"C:\users\\a.py"')
    yield w.row(sample_event(w, 52, Kind.PYTHON, "C:\new\train.py"), name=r'"C:\new\train.py"')
    yield w.row(sample_event(w, 10, Kind.PYTHON, '"<a "quoted\\/ one>"'))


def bytes_(w: Writer) -> Iterator[Record]:
    """Bytes that are not UTF-8 (written through surrogates)."""
    name = "k\udcff\udcfeernel\udce4"
    event = sample_event(w, 11, name=name.encode("utf-8", "surrogateescape").decode("utf-8", "replace"))
    yield w.row(event, name=f'"{name}"')
    yield w.row(sample_event(w, 12, name="übergrößer 你好 🚀"))
    yield w.row(sample_event(w, 13, name="half \ud83d pair"), name=r'"half \ud83d pair"')


def graph(w: Writer) -> Iterator[Record]:
    """One launch of a CUDA graph; its kernels share the launch's correlation."""
    launch = sample_event(w, 14, Kind.RUNTIME, "cudaGraphLaunch")._replace(link=900_001, category=Category.LAUNCH)
    yield w.row(launch)
    for number in range(12):
        kernel = sample_event(w, 15, name=f"graph kernel {number % 3}")
        yield w.row(kernel._replace(start=kernel.start + 3000 * number, link=900_001))


def types(w: Writer) -> Iterator[Record]:
    """Members of other types than usual: pid, tid and stream as text, correlation 0, no arguments at all."""
    zero = f'"ts": {w.number(0)}, "dur": 5, "args": {{"Op count": 0}}'
    yield Record(f'{{"ph": "X", "cat": "Trace", "pid": "Spans", "tid": "PyTorch Profiler", "name": "{SPAN}", {zero}}}')
    event = sample_event(w, 20, Kind.OVERHEAD, "Activity Buffer Request")
    yield w.row(event._replace(pid=-1, tid=0))
    yield w.row(sample_event(w, 21, Kind.CPU_OP, "no args"), args="")
    yield w.row(sample_event(w, 22, Kind.RUNTIME, "cudaLaunchKernel")._replace(category=Category.LAUNCH),
                args='{"stream": "0x0", "correlation": 0, "cbid": "211"}')  # fmt: skip
    args = f'{{"device": {w.content.rank}, "stream": "7"}}'
    yield w.row(sample_event(w, 23, Kind.KERNEL, "stream as text"), args=args)
    yield w.row(sample_event(w, 24, Kind.KERNEL, "dup"), name='"first", "name": "dup"')


def lengths(w: Writer) -> Iterator[Record]:
    """Durations that are missing, negative or 0, and CUPTI's rows that begin and end at 0."""
    yield w.unsound(sample_event(w, 25, name="no dur"), dur="")
    yield w.unsound(sample_event(w, 26, name="negative dur"), dur="-3")
    yield w.unsound(sample_event(w, 27, name="null dur"), dur="null")
    yield w.unsound(sample_event(w, 28, name="text ts"), ts='"soon"')
    yield w.unsound(sample_event(w, 29, name="no ts"), ts="")
    zero = "0" if w.style.clock != "base" else micros(-BASE_NS, "base")
    yield w.unsound(sample_event(w, 30, name="zero"), ts=zero, dur="0")
    yield w.unsound(sample_event(w, 31, name="huge"), ts="1e300")
    yield w.row(sample_event(w, 32, name="length 0")._replace(length=0))


def experts(w: Writer) -> Iterator[Record]:
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


def sync(w: Writer) -> Iterator[Record]:
    """Rows of a stream that only waits, and ranges drawn onto one: no work."""
    for number, kind in enumerate((Kind.GPU_SYNC, Kind.GPU_RANGE)):
        event = sample_event(w, 40, name="Stream Wait Event" if number == 0 else "forward")._replace(
            kind=kind, length=9000
        )
        yield w.row(event._replace(category=Category.SYNC if number == 0 else Category.RANGE))


def stacks(w: Writer) -> Iterator[Record]:
    """Python's stack: one function in another, the same bounds as its caller."""
    for number, name in enumerate(("train.py(10): main", "train.py(42): step", "loader.py(7): next")):
        yield w.row(sample_event(w, 45, Kind.PYTHON, name)._replace(length=9000 - 1000 * (number // 2 * 2)))


def counters(w: Writer) -> Iterator[Record]:
    """Counter events as any Chrome trace may have them."""
    for number in range(3):
        time = sample_event(w, 46 + number).start
        value = 300.5 + number
        text = f'"ph": "C", "name": "GPU power", "pid": 0, "tid": 0, "ts": {w.number(time)}, "args": {{"W": {value}}}'
        known = w.known(Event(Kind.OTHER, "", time, 0)).start
        yield Record("{" + text + "}", sample=Sample("GPU power", None, known, value))


def not_events(w: Writer) -> Iterator[Record]:
    """What no object of an event is: null, a number, a list."""
    for text in ("null", "17", "[]", '"text"', "{}", '{"ph": "X"}'):
        yield Record(text, junk=True)
    yield w.unsound(sample_event(w, 50, name="long"), ts="9" * 400)


EVILS: dict[str, Callable[[Writer], Iterator[Record]]] = {
    "nan": nan, "control": control, "escapes": escapes, "bytes": bytes_, "graph": graph, "types": types,
    "lengths": lengths, "experts": experts, "sync": sync, "stacks": stacks, "counters": counters, "not events": not_events,
}  # fmt: skip
CUTS = ("cut in an event", "cut between events", "cut in a string")


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
    """One record as the layout has it; texts that are no JSON at all stay as they are."""
    unit = {"two": "  ", "four": "    ", "tabs": "\t", "crlf": "  ", "bom": "  "}.get(layout)
    if unit is None:
        return text
    members = text[1:-1].split(', "', 1)
    if len(members) < 2 or not text.startswith("{"):
        return unit + text
    return f'{unit}{{\n{unit}{unit}{members[0]},\n{unit}{unit}"{members[1]}\n{unit}}}'


def write(path: Path | str, content: Content, style: Style | None = None) -> Written:
    """Writes the file (gzip where its name ends so) and tells what it means."""
    style = style or Style()
    path = Path(path)
    writer = Writer(content, style)
    records = list(writer.whole())
    for evil in style.evils:
        if evil in EVILS:
            records += EVILS[evil](writer)
    writer.rng.shuffle(records)
    cut = next((e for e in style.evils if e in CUTS), None)
    head, tail = head_of(content, style), tail_of(style)
    members = (head if style.tail else head | tail, tail if style.tail else {})
    open_, close = [", ".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in part.items()) for part in members]
    texts = [indented(record.text, style.layout) for record in records]
    kept = len(records)
    if style.layout in ("array", "open array"):
        body = "[" + ",\n".join(texts) + ("]" if style.layout == "array" else ",\n")
    elif style.layout == "compact":
        body = "{" + open_ + ',"traceEvents":[' + ",".join(texts) + "]" + ("," + close if close else "") + "}"
    else:
        body = "{\n  " + open_ + ',\n  "traceEvents": [\n' + ",\n".join(texts) + "\n  ]"
        body += (",\n  " + close if close else "") + "\n}\n"
    if cut:
        kept = len(records) * 2 // 3
        at = body.index(texts[kept]) if texts.count(texts[kept]) == 1 else body.rindex(texts[kept])
        at += {"cut in an event": len(texts[kept]) // 2, "cut between events": 0}.get(cut, texts[kept].find('"') + 3)
        body = body[:at]
    if style.layout == "crlf":
        body = body.replace("\n", "\r\n")
    raw = body.encode("utf-8", "surrogateescape") if "\ud83d" not in body else body.encode("utf-8", "surrogatepass")
    raw = b"\xef\xbb\xbf" + raw if style.layout == "bom" else raw
    path.write_bytes(packed(raw) if path.suffix == ".gz" else raw)
    records = records[:kept]
    bare = style.layout in ("array", "open array") or (cut is not None and style.tail)
    unix = None if style.clock == "boot" or (style.clock == "base" and bare) else content.unix_ns
    if unix is not None and style.clock == "integer":
        unix = writer.shift
    events = sorted((r.event for r in records if r.event), key=lambda e: (e.start, -e.length))
    samples = sorted((r.sample for r in records if r.sample), key=lambda s: (s.name, s.time))
    ranked = style.with_rank and style.layout not in ("array", "open array")
    return Written(
        path, style, content.rank if ranked else None, tuple(events), tuple(samples), unix,
        sum(r.unsound for r in records), sum(r.junk for r in records), cut is not None,
    )  # fmt: skip


def packed(raw: bytes) -> bytes:
    """gzip without the time of writing, so that the same content is the same file."""
    out = io.BytesIO()
    with gzip.GzipFile(fileobj=out, mode="wb", compresslevel=1, mtime=0) as file:
        file.write(raw)
    return out.getvalue()
