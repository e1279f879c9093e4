"""Chrome traces are read as they were meant: whole, sorted, in whole nanoseconds, and nothing that is not in them."""

import gzip
import json
import random
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from chrome import UNIX_US, kernel, read, rows, span, spans, text
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gssr.model.traces.analyze_trace import analyze_timeline
from gssr.model.traces.levels import levels_of
from gssr.model.traces.part import part_of
from gssr.report.trace import describe
from gssr.traces import event_columns, json_events
from gssr.traces.join import join
from gssr.traces.timeline import NO_LINK, OPERATIONS, Category, Kind, Timeline, TraceError

EVENTS = [
    {"name": "process_name", "ph": "M", "ts": 0, "pid": 4, "tid": 0, "args": {"name": "python"}},
    {"name": "thread_name", "ph": "M", "ts": 0, "pid": 4, "tid": 5, "args": {"name": "thread 5 (python)"}},
    span("ProfilerStep#3", 100.5, 90, "user_annotation"),
    span("aten::add", 101.25, 8.125, **{"Input Dims": [[2, 3], []], "note": "},{\"ph\": ["}),
    span("cudaLaunchKernel", 102, 5, "cuda_runtime", correlation=17, cbid=211),
    {"ph": "s", "id": 17, "pid": 4, "tid": 5, "ts": 102, "cat": "ac2g", "name": "ac2g"},
    kernel("void add<float>(x)", 110, 20.001, correlation=17, grid=[1, 2, 3]),
    {"ph": "f", "id": 17, "pid": 0, "tid": 7, "ts": 110, "cat": "ac2g", "name": "ac2g", "bp": "e"},
    kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)", 120, 30, stream=20, correlation=18),
    span("Memcpy HtoD (Pageable -> Device)", 111, 3, "gpu_memcpy", 0, 9, device=0, stream=9, correlation=19, bytes=4096),
    span("Memset (Device)", 112, 1, "gpu_memset", 0, 9, device=0, stream=9, bytes=64, correlation=20),
    span("Stream Sync", 113, 9, "cuda_sync", 0, 9, device=0, stream=9),
    span("ProfilerStep#3", 110, 40, "gpu_user_annotation", 0, 7),
    span("train.py(3): step", 101, 50, "python_function"),
    span("PyTorch Profiler (0)", 0, 500, "Trace", "Spans", "PyTorch Profiler"),
    {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "pid": 4, "tid": 5, "ts": 103, "args": {
        "Device Type": 1, "Device Id": 0, "Bytes": 512, "Addr": 1, "Total Allocated": 512, "Total Reserved": 2048}},
    {"name": "Record Window End", "ph": "i", "s": "g", "pid": "", "tid": "", "ts": 400},
]  # fmt: skip
KEYS = {
    "schemaVersion": 1,
    "deviceProperties": [{"id": 0, "name": "NVIDIA H100"}, {"id": 1, "name": "NVIDIA H100"}],
    "distributedInfo": {"backend": "nccl", "rank": 3, "world_size": 8, "pg_config": [{"pg_name": "0"}]},
    "host_name": "node7",
    "baseTimeNanoseconds": 1_711_964_646_000_000_000,
}
WHOLE = {"traceEvents": EVENTS, **KEYS}
FORMS = {
    "pretty": text(EVENTS, **KEYS),
    "keys-behind": text(EVENTS, behind=True, **KEYS),
    "compact": json.dumps(WHOLE),
    "tight": json.dumps(WHOLE, separators=(",", ":")),
    "tight-keys-first": json.dumps({**KEYS, "traceEvents": EVENTS}, separators=(",", ":")),
    "four-spaces": json.dumps(WHOLE, indent=4),
    "tabs": json.dumps(WHOLE, indent="\t"),
    "lines": '{"traceEvents":[\n' + ",\n".join(map(json.dumps, EVENTS)) + "\n]" + json.dumps(KEYS).replace("{", ",", 1),
    "crlf": text(EVENTS, **KEYS).replace("\n", "\r\n"),
    "bom": "\ufeff" + text(EVENTS, **KEYS),
}


@pytest.fixture(params=[16, 700, 1 << 20], ids=["tiny-pieces", "small-pieces", "whole"])
def piece(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """How much is decoded at once."""
    monkeypatch.setattr(json_events, "PIECE", request.param)


def same(one: Timeline, other: Timeline) -> None:
    assert rows(one) == rows(other)
    assert one.sources[0]._replace(path="") == other.sources[0]._replace(path="")
    assert (one.clock, one.tracks, one.facts) == (other.clock, other.tracks, other.facts)
    assert [c._replace(time=0, value=0) for c in one.counters] == [c._replace(time=0, value=0) for c in other.counters]


@pytest.mark.usefixtures("piece")
@pytest.mark.parametrize("form", FORMS)
def test_a_trace_means_the_same_in_every_form(form: str, tmp_path: Path) -> None:
    for content in (FORMS[form], gzip.compress(FORMS[form].encode())):
        timeline = read(tmp_path, content)
        same(timeline, read(tmp_path, FORMS["pretty"]))
        assert timeline.sources[0].notes == () and timeline.sources[0].left_out == 0


def test_what_it_holds(tmp_path: Path) -> None:
    timeline = read(tmp_path, FORMS["pretty"])
    (source,) = timeline.sources
    assert (source.format, source.rank, source.host, source.n_events) == ("kineto", 3, "node7", len(EVENTS))
    assert timeline.clock.unix_ns == 1_711_964_646_000_000_000 and timeline.clock.origin == "unix"
    assert timeline.facts["GPU 1"] == "NVIDIA H100"
    assert rows(timeline) == [
        ("ProfilerStep#3", 100_500, 90_000, Kind.RANGE, "thread 5 (python)", NO_LINK, -1),
        ("train.py(3): step", 101_000, 50_000, Kind.PYTHON, "thread 5 (python)", NO_LINK, -1),
        ("aten::add", 101_250, 8_125, Kind.CPU_OP, "thread 5 (python)", NO_LINK, -1),
        ("cudaLaunchKernel", 102_000, 5_000, Kind.RUNTIME, "thread 5 (python)", 17, -1),
        ("ProfilerStep#3", 110_000, 40_000, Kind.GPU_RANGE, "stream 7", NO_LINK, -1),
        ("void add<float>(x)", 110_000, 20_001, Kind.KERNEL, "stream 7", 17, -1),
        ("Memcpy HtoD (Pageable -> Device)", 111_000, 3_000, Kind.MEMCPY, "stream 9", 19, 4096),
        ("Memset (Device)", 112_000, 1_000, Kind.MEMSET, "stream 9", 20, 64),
        ("Stream Sync", 113_000, 9_000, Kind.GPU_SYNC, "stream 9", NO_LINK, -1),
        ("ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)", 120_000, 30_000, Kind.KERNEL, "stream 20", 18, -1),
    ]
    one = timeline.intervals
    assert one.category[[5, 6, 9]].tolist() == [Category.COMPUTE, Category.COPY, Category.COMMUNICATION]
    assert [OPERATIONS[place] for place in one.operation if place >= 0] == ["HtoD", "memset"]
    assert timeline.pageable is not None and timeline.pageable.tolist() == [6]
    gpus = {(t.device, t.stream, t.rank, t.node) for t in timeline.tracks if t.kind == "gpu_stream"}
    assert gpus == {(0, 7, 3, "node7"), (0, 9, 3, "node7"), (0, 20, 3, "node7")}
    allocated, reserved = timeline.counters
    assert (allocated.name, allocated.unit, allocated.time.tolist()) == ("Total Allocated (GPU 0)", "B", [103_000])
    assert (reserved.name, reserved.value.tolist()) == ("Total Reserved (GPU 0)", [2048.0])


def test_a_process_with_the_number_of_a_gpu_is_not_that_gpu(tmp_path: Path) -> None:
    timeline = read(tmp_path, [span("aten::add", 1, 2, pid=7, tid=7), kernel("k", 3, 4, device=7, stream=7)])
    assert [(track.kind, track.device) for track in timeline.tracks] == [("cpu_thread", None), ("gpu_stream", 7)]


@pytest.mark.parametrize(
    ("ts", "ns"),
    [
        (f"{UNIX_US}", UNIX_US * 1000),
        (f"{UNIX_US}.047", UNIX_US * 1000 + 47),
        (f"{UNIX_US}.999", UNIX_US * 1000 + 999),
        (f"{UNIX_US}.5", UNIX_US * 1000 + 500),
        (f'"{UNIX_US}.047"', UNIX_US * 1000 + 47),
        ("4203669603018.756", 4_203_669_603_018_756),
        ("8796093022207.999", 8_796_093_022_207_999),
        ("8796093022208.001", 8_796_093_022_208_001),
        ("0.001", 1),
        ("-5.25", -5_250),
        ("1e3", 1_000_000),
        ('"12345"', 12_345_000),
    ],
)
@pytest.mark.parametrize("is_fast", [True, False])
def test_times_are_exact_to_the_nanosecond(
    ts: str, ns: int, is_fast: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not is_fast:
        monkeypatch.setitem(sys.modules, "msgspec", None)
    content = text([span("a", 77777, 2.001), span("b", 1, 2)]).replace("77777", ts)
    assert ("a", ns, 2_001) in spans(read(tmp_path, content))


def test_clocks(tmp_path: Path) -> None:
    unix = read(tmp_path, [span("a", UNIX_US, 2)]).clock
    assert (unix.unix_ns, unix.origin) == (0, "unix")
    boot = read(tmp_path, [span("a", 4_458_676.5, 2)]).clock
    assert (boot.unix_ns, boot.origin) == (None, "unknown")
    for base in (0, -1, "x", 1 << 70, None, [1], 1e300):
        assert read(tmp_path, [span("a", 5, 2)], baseTimeNanoseconds=base).clock.unix_ns is None


def test_without_msgspec_the_same_is_read_and_one_note_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    no_arguments = text(
        [span("aten::mm", 1, 2) | {"args": own} for own in ({}, None, {"Input Dims": [[2, 3], [3, 4]]})]
    )
    fast, odd = read(tmp_path, FORMS["pretty"]), read(tmp_path, no_arguments)
    monkeypatch.setitem(sys.modules, "msgspec", None)
    monkeypatch.setitem(sys.modules, "isal", None)
    assert rows(read(tmp_path, no_arguments)) == rows(odd)
    slow = read(tmp_path, gzip.compress(FORMS["pretty"].encode()))
    (note,) = slow.sources[0].notes
    assert "pip install msgspec isal" in note and rows(slow) == rows(fast) and slow.facts == fast.facts


@pytest.mark.usefixtures("piece")
@pytest.mark.parametrize(
    ("bad", "name"),
    [
        ("a\x01b\nc", "a b c"),
        ("C:\\Users\\me.py(3): f", "C:\\Users\\me.py(3): f"),
        ("\\ud83d half", "\ufffd half"),
        ("\\ud83d\\ude00 whole \\u00e9", "😀 whole é"),
        ('say \\"}, {\\" \\\\', 'say "}, {" \\'),
    ],
)
def test_what_writers_get_wrong_in_strings_is_mended(bad: str, name: str, tmp_path: Path) -> None:
    events = [span("first", 1, 1), span("@@", 2, 1), *(span(f"more {n}", 3 + n, 1) for n in range(20))]
    timeline = read(tmp_path, text(events).replace("@@", bad))
    assert spans(timeline)[1] == (name, 2_000, 1_000) and len(timeline.intervals) == 22
    assert timeline.sources[0].left_out == 0


@pytest.mark.usefixtures("piece")
def test_bytes_that_are_no_text_and_numbers_that_are_none(tmp_path: Path) -> None:
    events = [span(f"n{n}", n, 1, x=[1, 77, 3], y=88) for n in range(20)]
    content = text(events).encode().replace(b"n7", b"n\xff7").replace(b"77", b"NaN").replace(b"88", b"-Infinity")
    timeline = read(tmp_path, content)
    assert [name for name, *_ in spans(timeline)] == [f"n{n}" if n != 7 else "n\ufffd7" for n in range(20)]
    assert timeline.sources[0].left_out == 0 and "sound JSON" in timeline.sources[0].notes[0]


@pytest.mark.usefixtures("piece")
@pytest.mark.parametrize("broken", ['"ts": }', '"ts": true', '"name": ["list"]', '"dur" 3', "@", '"name": "C:\\"'])
def test_an_event_that_is_broken_is_left_out_and_counted(broken: str, tmp_path: Path) -> None:
    events = [span(f"n{n}", n, 1) for n in range(20)]
    content = text(events).replace('"name": "n7"', broken)
    timeline = read(tmp_path, content)
    assert [name for name, *_ in spans(timeline)] == [f"n{n}" for n in range(20) if n != 7]
    assert (
        timeline.sources[0].left_out == 1
        and "events that could not be read, and are left out: 1" in timeline.sources[0].notes[0]
    )


@pytest.mark.parametrize("form", ["pretty", "tight", "keys-behind"])
def test_of_a_file_that_is_cut_all_whole_events_are_read(form: str, tmp_path: Path) -> None:
    content = FORMS[form]
    at = content.index("[", content.index("traceEvents")) + 1
    ends = []
    for _ in EVENTS:
        _, end = json.JSONDecoder().raw_decode(content, content.index("{", at))
        ends.append(at := end)
    for cut in range(ends[0] - 50, len(content) - 2, 23):
        n_whole = sum(end <= cut for end in ends)
        try:
            (source,) = read(tmp_path, content[:cut]).sources
        except TraceError:
            assert n_whole == 0
        else:
            assert source.n_events == n_whole and source.left_out == 0 and "cut off" in source.notes[0]


def test_a_packed_file_that_is_cut(tmp_path: Path) -> None:
    events = [span(f"name {random.Random(n).random()}", n, 1) for n in range(3000)]
    packed = gzip.compress(text(events).encode())
    half = len(packed) // 2
    for damaged, said in ((packed[:half], "cut off"), (packed[:half] + bytes(500) + packed[half + 500 :], "damaged")):
        timeline = read(tmp_path, damaged)
        assert 1000 < len(timeline.intervals) < 1800
        assert any(said in note and "could be unpacked" in note for note in timeline.sources[0].notes)


@pytest.mark.parametrize("is_packed", [False, True])
def test_of_a_file_that_is_cut_off_before_its_gpu_rows_it_is_not_known_that_there_are_none(
    is_packed: bool, tmp_path: Path
) -> None:
    events = [span(f"name {random.Random(n).random()}", n, 1) for n in range(3000)]
    whole = text([*events, kernel("gemm", 4000, 5)], **KEYS).encode()
    whole = gzip.compress(whole) if is_packed else whole
    for content, is_damaged in ((whole, False), (whole[: len(whole) // 2], True)):
        timeline = read(tmp_path, content)
        (source,) = timeline.sources
        head = ", ".join(describe(analyze_timeline(timeline)))
        assert source.is_damaged == is_damaged
        assert ("no GPU's work in what could be read: the file is damaged" in head) == is_damaged
        assert ("no GPU rows: the file is damaged, so they may be missing" in " ".join(source.notes)) == is_damaged
        assert "was not on for GPUs" not in " ".join(source.notes) and "no GPU did anything" not in head


def test_members_of_a_packed_file_follow_each_other(tmp_path: Path) -> None:
    whole = FORMS["pretty"].encode()
    packed = b"".join(gzip.compress(whole[at : at + 999]) for at in range(0, len(whole), 999))
    same(read(tmp_path, packed + b"\0" * 512), read(tmp_path, whole))


def test_keys_that_are_damaged_are_passed_over(tmp_path: Path) -> None:
    base = '"baseTimeNanoseconds": 1711964646000000000'
    for bad in ('"distributedInfo": {"rank": ' + "[" * 3000 + "}", '"x": @'):
        timeline = read(tmp_path, f'{{{base}, {bad}, "traceEvents": [{json.dumps(span("a", 1, 2))}]}}')
        assert timeline.clock.unix_ns == 1_711_964_646_000_000_000 and timeline.sources[0].rank is None
        assert "around the events" in timeline.sources[0].notes[0]


def test_events_without_a_sound_time_are_left_out_and_counted(tmp_path: Path) -> None:
    sound = kernel("sound", 5, 1)
    for bad in (
        {**sound, "dur": -1}, {**sound, "dur": None}, {**sound, "ts": None}, {**sound, "ts": 1e300}, {**sound, "ts": "x"},
        {**sound, "ts": 0, "dur": 0}, {**sound, "dur": 1e17}, {**sound, "ts": 10**30},
    ):  # fmt: skip
        timeline = read(tmp_path, [sound, bad, sound])
        assert len(timeline.intervals) == 2 and timeline.sources[0].left_out == 1, bad


def test_odd_values_of_arguments_are_no_links_and_no_sizes(tmp_path: Path) -> None:
    odd: list[Any] = ["17", "0x0", None, True, -5, 0, 10**30, 1e308, [1], {"a": 1}, ""]
    events = [kernel(f"k{n}", 5 + n, 1, correlation=value) for n, value in enumerate(odd)]
    timeline = read(tmp_path, [*events, kernel("last", 90, 1, correlation=4, bytes="12")])
    links = {row[0]: row[5] for row in rows(timeline)}
    assert links["k0"] == 17 and links["k1"] == links["k2"] == links["k4"] == links["k5"] == links["k6"] == NO_LINK
    assert rows(timeline)[-1][5:] == (4, 12)


def test_begin_and_end_make_an_interval(tmp_path: Path) -> None:
    def phase(ph: str, name: str, ts: float, tid: int = 1) -> dict[str, Any]:
        return {"ph": ph, "name": name, "pid": 1, "tid": tid, "ts": ts}

    events = [
        phase("B", "outer", 1), phase("B", "inner", 2), phase("B", "other", 2.5, 2), phase("E", "", 3), phase("E", "", 5),
        phase("E", "", 4, 2), phase("B", "never ends", 6), phase("E", "never began", 7, 3),
        {"ph": "C", "name": "queue", "pid": 1, "ts": 2, "args": {"length": 3, "other": "x", "more": 1.5}},
        {"ph": "C", "name": "queue", "pid": 1, "ts": 1, "args": {"length": 2}},
        {"ph": "b", "name": "async", "pid": 1, "id": 1, "ts": 3}, {}, {"ph": "i", "name": "mark", "ts": 9},
    ]  # fmt: skip
    timeline = read(tmp_path, events)
    assert spans(timeline) == [("outer", 1_000, 4_000), ("inner", 2_000, 1_000), ("other", 2_500, 1_500)]
    assert timeline.sources[0].format == "chrome" and timeline.sources[0].left_out == 2
    assert any(note.startswith("events of kinds") and note.endswith(": 1") for note in timeline.sources[0].notes)
    length, more = timeline.counters
    assert (length.name, length.time.tolist(), length.value.tolist()) == ("queue (length)", [1000, 2000], [2.0, 3.0])
    assert more.name == "queue (more)"


@pytest.mark.parametrize("value", [[], [1], [[]], [[1, 2]], {}, {"a": 1}, True, None, "x"])
def test_a_counter_whose_value_is_no_number_has_none(value: Any, tmp_path: Path) -> None:
    events = [{"ph": "C", "name": "queue", "pid": 1, "ts": 2, "args": {"length": value}}, kernel("k", 1, 1)]
    assert not any(len(counter.value) for counter in read(tmp_path, events).counters if not isinstance(value, bool))


def test_the_profiler_of_jax(tmp_path: Path) -> None:
    def named(what: str, name: str, tid: int = 0) -> dict[str, Any]:
        return {"ph": "M", "name": what, "pid": 1, "tid": tid, "args": {"name": name}}

    events = [
        named("process_name", "/device:GPU:3"),
        named("thread_name", "Stream #13(Compute)", 2), named("thread_name", "XLA Ops", 4),
        {"ph": "X", "pid": 1, "tid": 2, "ts": 0.0, "dur": 5, "name": "loop_fusion"},
        {"ph": "X", "pid": 1, "tid": 2, "ts": 5.5, "dur": 5, "name": "MemcpyD2H"},
        {"ph": "X", "pid": 1, "tid": 2, "ts": 11, "dur": 5, "name": "ncclDevKernel_AllReduce(x)"},
        {"ph": "X", "pid": 1, "tid": 4, "ts": 0.0, "dur": 5, "name": "fusion.1"},
        {"ph": "X", "pid": 9, "tid": 4, "ts": 0.0, "dur": 5, "name": "cuLaunchKernel"},
    ]  # fmt: skip
    timeline = read(tmp_path, json.dumps({"displayTimeUnit": "ns", "traceEvents": events}))
    found = {
        row[0]: (Kind(row[3]), timeline.tracks[t].kind)
        for row, t in zip(rows(timeline), timeline.intervals.track, strict=True)
    }
    assert found == {
        "loop_fusion": (Kind.KERNEL, "gpu_stream"),
        "MemcpyD2H": (Kind.MEMCPY, "gpu_stream"),
        "ncclDevKernel_AllReduce(x)": (Kind.KERNEL, "gpu_stream"),
        "fusion.1": (Kind.OTHER, "other"),
        "cuLaunchKernel": (Kind.RUNTIME, "cpu_thread"),
    }
    assert [(t.device, t.stream) for t in timeline.tracks if t.kind == "gpu_stream"] == [(3, 13)]


def test_the_profiler_of_rocm(tmp_path: Path) -> None:
    events = [
        {}, {"args": {"name": "6 GPU1"}, "ph": "M", "pid": 6, "name": "process_name"},
        {"ph": "X", "name": "gemm(float*)", "pid": 6, "tid": 2, "ts": "12345", "dur": "70", "args": {"Name": "gemm"}},
        {"ph": "X", "name": "hipLaunchKernel", "pid": 2, "tid": 2, "ts": "12300", "dur": "7", "args": {"pid": "3"}},
    ]  # fmt: skip
    timeline = read(tmp_path, json.dumps({"traceEvents": events}))
    assert spans(timeline) == [("hipLaunchKernel", 12_300_000, 7_000), ("gemm(float*)", 12_345_000, 70_000)]
    assert timeline.tracks[0][:1] == ("gpu_stream",) and (timeline.tracks[0].device, timeline.tracks[0].stream) == (
        1,
        2,
    )


def test_accelerators_of_other_makers(tmp_path: Path) -> None:
    names = ("dma_request", "event_wait", "add-dtype_Float")
    events = [span(name, 5 + n, 1, "mtia_ccp_events", 17, 3, stream=108, size=64) for n, name in enumerate(names)]
    timeline = read(tmp_path, events)
    assert [row[3] for row in rows(timeline)] == [Kind.MEMCPY, Kind.GPU_SYNC, Kind.KERNEL]
    assert timeline.tracks[0].stream == 108 and timeline.intervals.size[0] == 64


def test_a_request_without_a_stream_is_of_the_gpu_of_the_others(tmp_path: Path) -> None:
    events = [
        span("dma_request", 0, 10, "mtia_ccp_events", 9, 3, size=64),
        span("add-dtype_Float", 20, 40, "mtia_ccp_events", 9, 4, stream=108),
        span("mul-dtype_Float", 80, 20, "mtia_ccp_events", 9, 4, stream=108),
    ]
    timeline = read(tmp_path, events)
    (gpu,) = analyze_timeline(timeline).gpus
    assert (gpu.gpu, gpu.span_ns, gpu.compute_ns, gpu.copy_ns) == (9, 100_000, 60_000, 10_000)
    assert len(levels_of(part_of(timeline))["gpus"].gpus) == 1
    (gpu,) = analyze_timeline(timeline, like_hta=True).gpus  # which leaves out what is on no stream
    assert (gpu.span_ns, gpu.compute_ns, gpu.copy_ns) == (80_000, 60_000, 0)


def test_what_a_thread_waits_in_is_no_wait_of_a_stream(tmp_path: Path) -> None:
    """The waits are listed by stream; one of an older torch's has device 0, whichever GPU the process uses."""
    events = [
        kernel("gemm", 100, 50, device=1), kernel("gemm", 200, 50, device=1),
        span("Stream Wait Event", 150, 20, "cuda_sync", 1, 7, device=1, stream=7),
        span("Stream Sync", 10, 300, "cuda_sync", 1, 7, device=1, stream=7),
        span("Context Sync", 50, 300, "cuda_sync", 0, -1, device=0, stream=-1),
        span("cudaStreamSynchronize", 5, 310, "cuda_runtime", 5, 5),
    ]  # fmt: skip
    timeline = read(tmp_path, events)
    levels = levels_of(part_of(timeline))
    assert [each.device_index for each in levels["gpus"].gpus] == [1]
    assert "streams" not in levels and len(levels["threads"].gpus) == 1
    means = levels["gpus"].means(5_000, 315_000)
    assert means.overall()["waiting"] == pytest.approx(20 / 150) and means.overall()["busy"] == pytest.approx(100 / 150)
    split, time = levels["gpus"].split(None, 1, 5_000, 310_000, 1)
    assert split.sum() == 120_000 and time.sum() == 150_000


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"traceEvents": []}', '{"traceEvents": [1, "a", null]}', "[{}]", "a"]
)
def test_what_holds_no_events_is_said_to(content: str, tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"trace\.json: holds no trace"):
        read(tmp_path, content)


def test_a_bomb_is_refused_with_the_option_that_lifts_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_events, "_NEVER_TOO_MUCH", 1 << 20)
    path = tmp_path / "bomb.json.gz"
    path.write_bytes(gzip.compress(b'{"traceEvents": [' + b" " * (3 << 20)))
    with pytest.raises(TraceError, match=r"unpacks to more than 0\.00105 GB: --max-size SIZE allows more"):
        event_columns.columns_of(str(path))
    with pytest.raises(TraceError, match="unpacks to more than 1e-06 GB"):
        event_columns.columns_of(str(path), 1000)
    assert event_columns.columns_of(str(path), 1 << 30).n_events == 0


def test_two_processes_read_what_one_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(4)
    events = [
        *(
            span(f"op {rng.randrange(30)}", n, 2, tid=n % 3, nested=[{"ph": "X", "ts": 1}, {"a": 2}])
            for n in range(500)
        ),
        *(kernel(f"k {rng.randrange(9)}", 600 + n, 2, stream=n % 4, correlation=n, bytes=n) for n in range(500)),
    ]
    rng.shuffle(events)
    content = text(EVENTS + events, behind=True, **KEYS)
    broken = content.replace('"stream": 2', '"stream": @')
    alone = [read(tmp_path, one) for one in (content, broken)]
    monkeypatch.setattr(event_columns.os, "sched_getaffinity", lambda _: {0, 1})
    monkeypatch.setattr(json_events, "_WORTH_TWO", 1 << 10)
    monkeypatch.setattr(json_events, "PIECE", 1 << 12)
    sent = []
    monkeypatch.setattr(
        event_columns.EventColumns,
        "add",
        lambda one, other, add=event_columns.EventColumns.add: (sent.append(1), add(one, other)),
    )
    same(read(tmp_path, content), alone[0])
    same(read(tmp_path, broken), alone[1])
    assert len(sent) == 2 and alone[1].sources[0].left_out == 126


NAMES = st.one_of(st.text(max_size=12), st.sampled_from(['},{"ph": "X"', '"}]', "]}", "\\", '\\"', "{[", "é😀"]))
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), NAMES),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(NAMES, inner, max_size=3)),
    max_leaves=5,
)
STYLES = st.sampled_from([{}, {"indent": 2}, {"indent": 1}, {"separators": (",", ":")}, {"ensure_ascii": False}])


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    names=st.lists(NAMES, min_size=1, max_size=12), extra=st.lists(VALUES, max_size=12), style=STYLES,
    keys=st.dictionaries(st.text("abc", max_size=3), VALUES, max_size=3), behind=st.booleans(), size=st.integers(1, 400),
)  # fmt: skip
def test_exactly_the_events_are_read_whatever_is_in_them(
    names: list[str], extra: list[Any], style: dict[str, Any], keys: dict[str, Any], behind: bool, size: int,
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(json_events, "PIECE", size)
    events = [
        {
            "args": {"odd": extra[n % len(extra)] if extra else 0},
            **span(name, n, 1, x=extra[n % len(extra)] if extra else 0),
        }
        for n, name in enumerate(names)
    ]
    whole = {"traceEvents": events, **keys} if behind else {**keys, "traceEvents": events}
    content = json.dumps(whole, **style)
    try:
        content.encode()
    except UnicodeEncodeError:
        return
    timeline = read(tmp_path, content)
    meant = [name.encode("utf-16", "surrogatepass").decode("utf-16", "replace") for name in names]
    assert spans(timeline) == [(name, 1000 * n, 1000) for n, name in enumerate(meant)]
    assert timeline.sources[0].left_out == 0 and np.all(np.diff(timeline.intervals.start) >= 0)


def test_what_cupti_counted_is_told_by_range(tmp_path: Path) -> None:
    counts: dict[str, Any] = {"dram__bytes_read.sum": 10, "sm__cycles.avg": 2.5, "odd": "many", "huge": 10**400}
    events = [
        span("one", 0, 5, "cuda_profiler_range", 0, 0, **counts),
        span("two", 5, 5, "cuda_profiler_range", 0, 0, **counts),
        span("three", 10, 5, "cuda_profiler_range", 0, 0),
        span("aten::mm", 0, 20),
    ]
    found = read(tmp_path, events)
    known = {"dram__bytes_read.sum": 10, "sm__cycles.avg": 2.5}
    assert [(each.name, each.values) for each in found.counted] == [("one", known), ("two", known), ("three", {})]
    assert spans(found) == [("aten::mm", 0, 20_000)] and [track.kind for track in found.tracks] == ["cpu_thread"]
    assert any("3 kernels" in note for note in found.sources[0].notes)
    alone = read(tmp_path, events[:3])
    assert not len(alone.intervals) and len(alone.counted) == 3
    twice = join([found, found])
    assert [(each.name, each.source) for each in twice.counted[2:4]] == [("three", 0), ("one", 1)]
    assert {each.operator for each in analyze_timeline(alone).operator_counters} == {None}


def test_of_very_many_counters_some_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_columns, "_MOST_COUNTED", 3)
    events = [span("k", at, 1, "cuda_profiler_range", 0, 0, a=at, b=at) for at in range(3)]
    found = read(tmp_path, events)
    assert [each.values for each in found.counted] == [{"a": 0, "b": 0}, {}, {}]
    assert any(note.startswith("of what CUPTI counted") for note in found.sources[0].notes)
