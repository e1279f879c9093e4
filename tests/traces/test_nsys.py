"""Reports of Nsight Systems: what is read of them is what plain SQL reads, of every version and whatever lies in them."""

import os
import random
import re
import sqlite3
import tracemalloc
from collections import Counter
from contextlib import closing
from itertools import islice

import numpy as np
import pytest

from benchmarks.nsys_report import OLD, PID, TABLES, TID, UUID, small_tables, strings, write_report
from benchmarks.nsys_report import kernels as kernels_of
from gssr.gpu_name import gpu_label
from gssr.guarded_sqlite import Guarded
from gssr.model.traces.analyze_trace import analyze_files, analyze_timeline, analyze_timelines
from gssr.model.traces.io import file_calls
from gssr.model.traces.levels import levels_of
from gssr.model.traces.only import Only
from gssr.model.traces.part import only, part_of
from gssr.model.traces.tables import as_nsys
from gssr.model.traces.tables import rows_of as rows_of_table
from gssr.store.read import database
from gssr.traces.join import join
from gssr.traces.nsys import read_nsys, told_by_report
from gssr.traces.open import open_traces
from gssr.traces.timeline import NO_LINK, OPERATIONS, Category, Kind, Timeline, TraceError

NEW = {
    **TABLES,
    "CUPTI_ACTIVITY_KIND_KERNEL": (*TABLES["CUPTI_ACTIVITY_KIND_KERNEL"], "graphId", "tensorSize! TEXT"),
}
"""As 2026.2 wrote them: a text behind the numbers."""
KERNEL = {"start": 100, "end": 150, "deviceId": 0, "contextId": 1, "streamId": 7, "globalPid": PID, "demangledName": 1}


def report(path, layout=TABLES, **tables) -> str:
    """Of these tables, by their names or the ends of them."""
    full = {
        end if end in layout else next(name for name in layout if name.endswith(end)): tables[end] for end in tables
    }
    names = full.setdefault("StringIds", [])
    full["StringIds"] = [*names, *({"id": n, "value": f"name {n}"} for n in range(1, 5) if not names)]
    full.setdefault("TARGET_INFO_SYSTEM_ENV", [])
    write_report(str(path), full, layout)
    return str(path)


def rows_of(timeline: Timeline, *kinds: Kind) -> list[tuple]:
    """Start, length, name, size and link of these, in order."""
    own = timeline.intervals
    chosen = np.isin(own.kind, kinds)
    names = [timeline.names[place] for place in own.name[chosen]]
    columns = (own.start[chosen].tolist(), own.length[chosen].tolist(), names, own.size[chosen].tolist())
    return list(zip(*columns, own.link[chosen].tolist(), strict=True))


def tracks_of(timeline: Timeline, kind: Kind) -> list:
    own = timeline.intervals
    return [timeline.tracks[place] for place in own.track[own.kind == kind].tolist()]


def change(path, *statements: str) -> str:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement).fetchall()
    return str(path)


SQL = {
    (Kind.KERNEL,): "SELECT start, end - start, value, -1 FROM CUPTI_ACTIVITY_KIND_KERNEL"
    " JOIN StringIds ON id = demangledName",
    (Kind.MEMCPY,): "SELECT start, end - start, '', bytes FROM CUPTI_ACTIVITY_KIND_MEMCPY",
    (Kind.MEMSET,): "SELECT start, end - start, 'Memset (Device)', bytes FROM CUPTI_ACTIVITY_KIND_MEMSET",
    (Kind.GRAPH,): "SELECT start, end - start, 'CUDA graph ' || graphId, -1 FROM CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
    (Kind.RUNTIME, Kind.DRIVER): "SELECT start, end - start, replace(value, '_v7000', ''), -1"
    " FROM CUPTI_ACTIVITY_KIND_RUNTIME JOIN StringIds ON id = nameId",
    (Kind.OS,): "SELECT start, end - start, value, -1 FROM OSRT_API JOIN StringIds ON id = nameId",
    (Kind.CPU_OP,): "SELECT start, end - start, value, -1 FROM MPI_COLLECTIVES_EVENTS JOIN StringIds ON id = textId",
    (Kind.RANGE,): "SELECT start, ifnull(end, {last}) - start,"
    " iif(domainId = 1, 'NCCL:', '') || coalesce(text, value, '(no name)'), -1"
    " FROM NVTX_EVENTS LEFT JOIN StringIds ON id = textId WHERE eventType IN (59, 60, 70, 71)",
}  # fmt: skip


@pytest.mark.parametrize("layout", [{**TABLES, **OLD}, TABLES, NEW], ids=["2022.2", "2025.1", "2026.2"])
@pytest.mark.parametrize("by", ["pages", "SQL"])
def test_all_that_is_read_is_what_plain_sql_reads(tmp_path, layout, by):
    for seed in range(4):
        path = tmp_path / f"{seed}.sqlite"
        write_report(str(path), small_tables(random.Random(seed)), layout)
        if by == "SQL":
            change(path, "PRAGMA journal_mode=WAL")
        timeline = read_nsys(str(path))
        last = int((timeline.intervals.start + timeline.intervals.length).max())
        with closing(sqlite3.connect(path)) as connection:
            for kinds, query in SQL.items():
                found = [row[:4] for row in rows_of(timeline, *kinds)]
                if Kind.MEMCPY in kinds:
                    found = [(start, length, "", size) for start, length, _, size in found]
                assert Counter(found) == Counter(connection.execute(query.format(last=last)).fetchall()), kinds
        starts, lengths = timeline.intervals.start, timeline.intervals.length
        in_order = list(zip(starts.tolist(), (-lengths).tolist(), strict=True))
        assert in_order == sorted(in_order)


@pytest.mark.parametrize("by", ["pages", "SQL"])
def test_a_table_alone_is_the_same_as_with_all_others(tmp_path, by):
    for seed in range(6):
        path = tmp_path / f"{seed}.sqlite"
        write_report(str(path), small_tables(random.Random(seed)))
        if by == "SQL":
            change(path, "PRAGMA journal_mode=WAL")
        run = open_traces([str(path)])
        whole = analyze_timelines(run.timelines())
        for table in ("kernels", "copies", "copy_sizes", "api", "os"):
            alone = analyze_files(run, tables=(table,))
            assert [*rows_of_table(table, alone)[1]] == [*rows_of_table(table, whole)[1]]


def test_a_table_alone_names_each_part_by_its_own_strings(tmp_path):
    kernels = ({**row, "demangledName": 1 + at // 3} for at, row in enumerate(kernels_of(90_000, n_names=3)))
    names = ({"id": 1 + at, "value": f"kernel {at % 20_000}"} for at in range(0, 30_000, 2))  # every other is missing
    path = report(tmp_path / "a.sqlite", StringIds=list(names), KERNEL=kernels)
    run = open_traces([path])
    alone, whole = analyze_files(run, tables=("kernels",)), analyze_files(run, tables=("kernels", "ranks"))
    found = [sorted(rows_of_table("kernels", each)[1]) for each in (alone, whole)]
    assert found[0] == found[1] and len(found[0]) == 25_000


def test_a_table_alone_is_made_of_what_it_needs(tmp_path):
    path, n = tmp_path / "a.sqlite", 300_000
    write_report(str(path), {"StringIds": strings(3), "CUPTI_ACTIVITY_KIND_KERNEL": kernels_of(n, n_names=3)})
    run, peaks = open_traces([str(path)]), []
    for tables in (("ranks", "kernels"), ("kernels",)):
        tracemalloc.start()
        found = analyze_files(run, tables=tables)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert found.lengths["kernels"].count.sum() == n
    assert peaks[1] < peaks[0] / 2, peaks


def test_links_are_those_of_one_process_only(tmp_path):
    for seed in range(4):
        path = tmp_path / f"{seed}.sqlite"
        write_report(str(path), small_tables(random.Random(seed)))
        timeline = read_nsys(str(path))
        calls = {row[4] for row in rows_of(timeline, Kind.RUNTIME, Kind.DRIVER)}
        kernels = [row[4] for row in rows_of(timeline, Kind.KERNEL)]
        with closing(sqlite3.connect(path)) as connection:
            query = (
                "SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL k WHERE EXISTS (SELECT 1 FROM"
                " CUPTI_ACTIVITY_KIND_RUNTIME r WHERE r.correlationId = k.correlationId"
                " AND r.globalTid >> 24 = k.globalPid >> 24)"
            )
            assert sum(link in calls for link in kernels) == connection.execute(query).fetchone()[0] > 0


def test_without_a_process_kernels_belong_to_the_only_one(tmp_path):
    kernel = {**KERNEL, "globalPid": None, "correlationId": 9}
    call = {"start": 1, "end": 2, "globalTid": TID, "nameId": 1, "correlationId": 9}
    timeline = read_nsys(report(tmp_path / "a.sqlite", KERNEL=[kernel], RUNTIME=[call]))
    assert [row[4] for row in rows_of(timeline, Kind.RUNTIME, Kind.KERNEL)] == [9, 9]


def test_copies_that_nobody_called_for_have_no_link(tmp_path):
    moved = {**KERNEL, "contextId": 0, "streamId": 0, "correlationId": 0, "bytes": 4096, "srcKind": 7, "dstKind": 7}
    copies = [{**moved, "copyKind": 11}, {**moved, "copyKind": 12, "start": 101}]
    kinds = [(1, 0, 2), (2, 2, 1), (2, 2, 0), (8, 2, 2), (10, 2, 2), (3, 1, 3), (99, 9, 9)]
    copies += [
        {**KERNEL, "start": 102 + at, "correlationId": 5, "bytes": 1, "copyKind": kind, "srcKind": source, "dstKind": into}
        for at, (kind, source, into) in enumerate(kinds)
    ]  # fmt: skip
    timeline = read_nsys(report(tmp_path / "a.sqlite", MEMCPY=copies))
    own = timeline.intervals
    operations = [OPERATIONS[place] for place in own.operation.tolist()]
    assert operations == [
        "unified HtoD", "unified DtoH", "HtoD", "DtoH", "DtoH", "DtoD", "PtoP", "other", "other",
    ]  # fmt: skip
    assert own.link.tolist() == [NO_LINK, NO_LINK, *[5] * 7]
    assert timeline.pageable is not None and timeline.pageable.tolist() == [2, 4]
    assert (own.category == Category.COPY).all() and "Memcpy HtoD (Pageable -> Device)" in timeline.names
    assert tracks_of(timeline, Kind.MEMCPY)[0].name == "unified memory"
    layout = {**TABLES, "CUPTI_ACTIVITY_KIND_MEMCPY": TABLES["CUPTI_ACTIVITY_KIND_MEMCPY"][:10]}
    assert read_nsys(report(tmp_path / "b.sqlite", layout, MEMCPY=copies)).pageable is None


def test_calls_are_named_without_the_version_of_their_interface(tmp_path):
    names = [
        "cudaLaunchKernel_v7000",
        "cudaGraphLaunch_v10000",
        "cuMemAlloc_v2",
        "cudaMemcpy_v3020",
        "cuCtxSynchronize",
    ]
    told = [{"id": at, "value": name} for at, name in enumerate(names)]
    calls = [{"start": at, "end": 9, "globalTid": TID, "nameId": at} for at in range(len(names))]
    timeline = read_nsys(report(tmp_path / "a.sqlite", StringIds=told, RUNTIME=calls))
    assert [row[2] for row in rows_of(timeline, Kind.RUNTIME, Kind.DRIVER)] == [
        "cudaLaunchKernel", "cudaGraphLaunch_v10000", "cuMemAlloc_v2", "cudaMemcpy", "cuCtxSynchronize",
    ]  # fmt: skip
    assert Counter(timeline.intervals.kind.tolist()) == {Kind.RUNTIME: 3, Kind.DRIVER: 2}
    assert timeline.intervals.category.tolist()[-1] == Category.SYNC


def test_ranges_begin_before_0_last_to_the_end_and_are_of_the_thread_that_began_them(tmp_path):
    one = {"globalTid": TID, "eventType": 59, "domainId": 0}
    events = [
        {"start": -9, "eventType": 75, "globalTid": TID, "domainId": 3, "textId": 2},
        {**one, "start": -7, "end": 5, "text": "early"},
        {**one, "start": 20, "text": "open"},
        {**one, "start": 30, "end": 40, "eventType": 60, "endGlobalTid": TID + 1, "textId": 1},
        {**one, "start": 50, "end": 60, "domainId": 3, "textId": 1},
        {**one, "start": 55, "eventType": 34, "text": "a mark"},
        {**one, "start": 56, "eventType": 65, "domainId": 3, "textId": 1},
        {**one, "start": 70, "end": 71},
    ]
    timeline = read_nsys(report(tmp_path / "a.sqlite", NVTX_EVENTS=events, KERNEL=[KERNEL]))
    assert [row[:3] for row in rows_of(timeline, Kind.RANGE)] == [
        (-7, 12, "early"), (20, 130, "open"), (30, 10, "name 1"), (50, 10, "name 2:name 1"), (70, 1, "(no name)"),
    ]  # fmt: skip
    assert [row[:3] for row in rows_of(timeline, Kind.MARK)] == [(55, 0, "a mark"), (56, 0, "name 2:name 1")]
    assert timeline.domains == {"name 2:name 1": "name 2"}
    assert {(track.kind, track.tid) for track in tracks_of(timeline, Kind.RANGE)} == {("cpu_thread", 4321)}
    assert any("1 ranges were open" in note for note in timeline.sources[0].notes)


def test_the_table_of_ranges_is_that_of_nsys_and_pytorchs_running_numbers_are_one_range(tmp_path):
    """``nsys stats`` groups by style and name; torch.autograd.profiler.emit_nvtx numbers each call."""
    ranges = [(59, "aten::mm, op_id = 1", 0, 10), (59, "aten::mm, op_id = 27", 20, 40), (60, "step", 0, 100),
              (59, "step", 100, 200), (71, "old", 5, 6), (59, "aten::add, seq = 3, op_id = 4", 50, 60)]  # fmt: skip
    rows = [{"eventType": kind, "text": text, "start": start, "end": end, "globalTid": TID, "domainId": 0}
            for kind, text, start, end in ranges]  # fmt: skip
    timeline = read_nsys(report(tmp_path / "r.sqlite", KERNEL=[KERNEL], NVTX_EVENTS=rows))
    for read in (timeline, join([timeline, timeline])):
        heads, found = as_nsys("nvtx_sum", analyze_timeline(read))
        n = 1 if read is timeline else 2
        assert heads[-2:] == ["Style", "Range"] and heads[:3] == ["Time (%)", "Total Time (ns)", "Instances"]
        assert sorted((*row[-2:], row[1], row[2]) for row in found) == [
            ("PushPop", "aten::add", 10 * n, n), ("PushPop", "aten::mm", 30 * n, 2 * n), ("PushPop", "step", 100 * n, n),
            ("StartEnd", "old", n, n), ("StartEnd", "step", 100 * n, n),
        ]  # fmt: skip
    some = only(timeline, Only(names=(("step",),)))
    assert sorted(row[-2:] for row in as_nsys("nvtx_sum", analyze_timeline(some))[1]) == [
        ["PushPop", "step"], ["StartEnd", "step"],
    ]  # fmt: skip


def test_gpus_without_a_name_are_not_named(tmp_path):
    for names in (["", "  "], ["", "NVIDIA H100"]):
        gpus = [{"vmId": 0, "id": at, "cuDevice": at, "name": name} for at, name in enumerate(names)]
        path = tmp_path / f"{len(names[1])}.sqlite"
        timeline = read_nsys(report(path, KERNEL=[KERNEL], TARGET_INFO_GPU=gpus))
        assert timeline.facts.get("gpu") == (names[1].strip() or None)


def test_a_graph_that_was_traced_as_a_whole_is_busy_time(tmp_path):
    timeline = read_nsys(report(tmp_path / "a.sqlite", GRAPH_TRACE=[{**KERNEL, "graphId": 12, "correlationId": 3}]))
    assert rows_of(timeline, Kind.GRAPH) == [(100, 50, "CUDA graph 12", -1, 3)]
    assert not any("no kernels" in note for note in timeline.sources[0].notes)


def test_waits_are_of_their_contexts_gpu_and_those_of_threads_of_no_stream(tmp_path):
    """CUPTI tells no device of a wait, so that nsys writes 0: a third GPU, and waits of threads, are none of the two."""
    other = PID + (1 << 24)
    second = {**KERNEL, "deviceId": 1, "contextId": 2, "globalPid": other}
    wait = {"deviceId": 0, "contextId": 2, "streamId": 7, "globalPid": other}
    path = report(
        tmp_path / "r.sqlite",
        KERNEL=[KERNEL, second],
        SYNCHRONIZATION=[
            {**wait, "start": 40, "end": 190, "syncType": 3},
            {**wait, "start": 120, "end": 149, "syncType": 2, "streamId": 9},
            {**wait, "start": 140, "end": 190, "syncType": 2, "streamId": 9},
            {**wait, "start": 0, "end": 500, "syncType": 4, "contextId": 5, "globalPid": other + (1 << 24)},
        ],
    )
    timeline = read_nsys(path)
    level = levels_of(part_of(timeline))["gpus"]
    assert [gpu_label(gpu) for gpu in level.gpus] == ["gpu:0", "gpu:1"]
    split, time = level.split(None, 2, 0, 600, 1)
    assert time.tolist() == [[50.0], [50.0]] and split.sum(axis=2).tolist() == [[50.0], [50.0]]
    assert [track.kind for track in tracks_of(timeline, Kind.GPU_SYNC)] == [
        "host_wait", "host_wait", "gpu_stream", "gpu_stream",
    ]  # fmt: skip
    assert [gpu.place for gpu in analyze_timeline(timeline).gpus] == ["gpu:0", "gpu:1"]


def test_gpus_are_told_by_uuid_as_each_process_counts_them(tmp_path):
    other = PID + (1 << 24)
    gpus = [{"vmId": 1 << 48, "id": at, "uuid": f"{at}{UUID[1:]}", "cuDevice": 1 - at, "name": "A100"} for at in (0, 1)]
    devices = [{"gpuId": 1, "cudaId": 0, "pid": 4321}, {"gpuId": 0, "cudaId": 0, "pid": 4322}]
    kernels = [KERNEL, {**KERNEL, "globalPid": other}]
    new = report(tmp_path / "a.sqlite", TARGET_INFO_GPU=gpus, CUDA_DEVICE=devices, KERNEL=kernels)
    told = [(track.pid, track.device, track.uuid) for track in tracks_of(read_nsys(new), Kind.KERNEL)]
    assert told == [(4321, 0, f"GPU-1{UUID[1:]}"), (4322, 0, f"GPU-0{UUID[1:]}")]
    old = report(tmp_path / "b.sqlite", TARGET_INFO_GPU=gpus, KERNEL=[KERNEL])
    assert [track.uuid for track in tracks_of(read_nsys(old), Kind.KERNEL)] == [f"GPU-1{UUID[1:]}"]
    none = report(tmp_path / "c.sqlite", KERNEL=[KERNEL])
    assert [track.uuid for track in tracks_of(read_nsys(none), Kind.KERNEL)] == [None]


@pytest.mark.parametrize("between", [";", "\0"])
def test_the_rank_is_that_of_the_launcher_else_of_the_file_unless_several_use_gpus(tmp_path, between):
    def env(**more: int) -> list[dict]:
        return [
            {"name": "DeviceEnvironment", "value": between.join(["A=RANK=7", *(f"{k}={v}" for k, v in more.items())])}
        ]

    step = env(SLURM_JOB_ID=5, SLURM_STEP_ID=0, SLURM_PROCID=3)
    one = read_nsys(report(tmp_path / "a.sqlite", SYSTEM_ENV=step, KERNEL=[KERNEL]))
    assert one.sources[0].rank == 3 and one.tracks[0].rank == 3
    # The shell of an interactive job has a number, too.
    shell = report(tmp_path / "rank-2.sqlite", SYSTEM_ENV=env(SLURM_JOB_ID=5, SLURM_PROCID=0), KERNEL=[KERNEL])
    assert read_nsys(shell).sources[0].rank == 2 and read_nsys(shell, rank=9).sources[0].rank == 9
    assert read_nsys(report(tmp_path / "b.sqlite", KERNEL=[KERNEL])).sources[0].rank is None
    kernels = [KERNEL, {**KERNEL, "globalPid": PID + (1 << 24)}]
    several = read_nsys(report(tmp_path / "c.sqlite", SYSTEM_ENV=step, KERNEL=kernels))
    assert several.sources[0].rank == 3 and {track.rank for track in several.tracks} == {None}
    assert any("2 processes used GPUs" in note for note in several.sources[0].notes)
    assert told_by_report(str(tmp_path / "c.sqlite")).rank == 3
    assert told_by_report(str(tmp_path / "b.sqlite")).rank is None


def test_the_clock_is_the_sessions_unless_there_are_several(tmp_path):
    one = read_nsys(report(tmp_path / "a.sqlite", START_TIME=[{"utcEpochNs": 1_773_680_614_431_681_058}]))
    assert one.clock == (1_773_680_614_431_681_058, "unix", 0)
    two = read_nsys(report(tmp_path / "b.sqlite", START_TIME=[{"utcEpochNs": 1}, {"utcEpochNs": 2}]))
    assert two.clock.unix_ns is None and any("2 sessions" in note for note in two.sources[0].notes)
    assert read_nsys(report(tmp_path / "c.sqlite", KERNEL=[KERNEL])).clock.origin == "unknown"


def test_metrics_of_gpus_are_counters_with_units(tmp_path):
    told = [
        {"typeId": 0x700 + gpu, "metricId": at, "metricName": name}
        for gpu in (0, 1)
        for at, name in enumerate(["SMs Active [Throughput %]", "GPC Clock Frequency [MHz]", "Plain"])
    ]
    values = [
        (30, 0x700, 0, 3),
        (10, 0x700, 0, 1),
        (20, 0x701, 1, 1410),
        (20, 0x700, 0, 2),
        (25, 0x701, 2, -1),
        (26, 0x709, 4, 8),
    ]
    metrics = [dict(zip(("timestamp", "typeId", "metricId", "value"), row, strict=True)) for row in values]
    gpus = [{"vmId": 1 << 48, "id": at, "uuid": f"{at}{UUID[1:]}", "cuDevice": at} for at in (0, 1)]
    path = report(
        tmp_path / "a.sqlite", GPU_METRICS=metrics, INFO_GPU_METRICS=told, TARGET_INFO_GPU=gpus, KERNEL=[KERNEL]
    )  # fmt: skip
    timeline = read_nsys(path)
    told = [
        (own.name, own.unit, own.time.tolist(), own.value.tolist(), timeline.tracks[own.track].uuid)
        for own in timeline.counters
    ]
    assert told == [
        ("SMs Active [Throughput %]", "%", [10, 20, 30], [1.0, 2.0, 3.0], f"GPU-0{UUID[1:]}"),
        ("GPC Clock Frequency [MHz]", "MHz", [20], [1410.0], f"GPU-1{UUID[1:]}"),
        ("metric 4", "", [26], [8.0], None),
    ]
    assert timeline.counters[0].track == 0 and timeline.sources[0].left_out == 1


def test_metrics_of_network_cards_are_counters_by_the_second(tmp_path):
    card = (1 << 56) + 7
    told = [
        {"metricsListId": 1, "metricsIdx": at, "name": name, "unit": unit}
        for at, name, unit in ((0, "IB: Bytes sent", "bytes/ms"), (1, "IB: Send waits", "ticks/ms"))
    ]
    values = [
        (1_000, 2_000, card, 1, 1, 0, 50_000),
        (2_000, 3_000, card, 1, 1, 0, 25_000),
        (0, 1_000, card, 1, 1, 0, 0),
        (0, 1_000, card, 1, 1, 1, 3),
        (0, 1_000, card + 1, None, 2, 5, 4),
        (0, 1_000, card, 1, 1, 0, -1),
    ]
    names = ("start", "end", "globalId", "portId", "metricsListId", "metricsIdx", "value")
    path = report(
        tmp_path / "a.sqlite",
        NET_NIC_METRIC=[dict(zip(names, row, strict=True)) for row in values],
        NETWORK_METRICS=told,
        NIC_INFO=[{"nicId": 3, "name": "mlx5_0"}],
        NIC_ID_MAP=[{"nicId": 3, "globalId": card}],
        KERNEL=[KERNEL],
    )
    timeline = read_nsys(path)
    assert [(own.name, own.unit, own.time.tolist(), own.value.tolist(), own.track) for own in timeline.counters] == [
        ("mlx5_0/1 IB: Bytes sent", "B/s", [1_000, 2_000, 3_000], [0.0, 5e7, 2.5e7], -1),
        ("mlx5_0/1 IB: Send waits", "ticks/s", [1_000], [3e3], -1),
        ("network card metric 5", "", [1_000], [4.0], -1),
    ]
    assert timeline.sources[0].left_out == 1


def test_files_are_those_that_plain_sql_reads_by_file_and_call(tmp_path):
    draw, process, thread = random.Random(3), 4321, TID & 0xFFFFFF
    opened = [
        {"fileAccessId": 7 + at, "processId": process, "filePath": path}
        for at, path in enumerate(["/data/train.bin", "/data/train.bin", "/scratch/model.pt"])
    ]
    calls = {1: 5, 2: 6, 3: 7, 4: 8}
    events = []
    for at in range(200):
        kind = draw.choice((1, 2, 3, 3, 4))
        events.append({
            "fileAccessId": draw.choice((7, 8, 9, 99)), "threadId": draw.choice((thread, 55)), "startedAt": 1_000 * at,
            "endedAt": 1_000 * at + draw.randrange(900), "eventType": kind, "apiCallId": calls[kind],
            "bytesProcessed": draw.randrange(1 << 20) if kind > 2 else 0,
        })  # fmt: skip
    told = [{"id": at, "value": name} for at, name in ((1, "gemm"), (5, "open"), (6, "close"), (7, "read"))]
    path = report(
        tmp_path / "a.sqlite", StringIds=told, KERNEL=[KERNEL], OSRT_FILE_ACCESS_EVENTS=events, DESCRIPTORS=opened,
        OSRT_API=[{"start": 1, "end": 2, "globalTid": TID, "nameId": 7}],
    )  # fmt: skip
    timeline = read_nsys(path)
    part = file_calls(part_of(timeline))
    assert part is not None and timeline.io is not None
    found = [(each.file, each.operation, each.call, each.n, each.bytes, each.n_sized, each.total_ns, each.max_ns)
             for each in part]  # fmt: skip
    with closing(sqlite3.connect(path)) as connection:
        query = (
            "SELECT coalesce(filePath, '(unknown)'),"
            " CASE eventType WHEN 3 THEN 'read' WHEN 4 THEN 'write' ELSE 'other' END, value, count(*),"
            " sum(bytesProcessed), sum(eventType > 2), sum(endedAt - startedAt), max(endedAt - startedAt)"
            " FROM OSRT_FILE_ACCESS_EVENTS LEFT JOIN OSRT_FILE_ACCESS_DESCRIPTORS USING (fileAccessId)"
            " LEFT JOIN StringIds ON id = apiCallId GROUP BY 1, 2, 3"
        )
        assert sorted(found, key=str) == sorted(connection.execute(query).fetchall(), key=str)
    threads = [(track.pid, track.tid) for track in timeline.tracks if track.kind == "cpu_thread"]
    assert threads[0] == (process, thread) and set(threads[1:]) == {(process, 55), (None, thread), (None, 55)}
    (one,) = file_calls(part_of(timeline, (1_000, 2_000))) or ()
    assert one.total_ns == events[1]["endedAt"] - events[1]["startedAt"]


def test_a_report_that_traced_no_files_tells_nothing_of_them(tmp_path):
    assert read_nsys(report(tmp_path / "a.sqlite", KERNEL=[KERNEL])).io is None
    assert read_nsys(report(tmp_path / "b.sqlite", KERNEL=[KERNEL], OSRT_FILE_ACCESS_EVENTS=[])).io is None


def test_a_report_without_kernels_says_what_was_traced(tmp_path):
    path = report(tmp_path / "a.sqlite", OSRT_API=[{"start": 1, "end": 2, "globalTid": TID, "nameId": 1}])
    assert read_nsys(path).sources[0].notes == ("no kernels were traced; what was: os",)
    empty = read_nsys(report(tmp_path / "b.sqlite"))
    assert len(empty.intervals) == 0 and empty.sources[0].notes == ("no kernels were traced; what was: nothing",)


def test_texts_that_are_no_utf8_are_read_and_missing_names_said(tmp_path):
    kernels = [KERNEL, {**KERNEL, "demangledName": 77}]
    path = report(tmp_path / "a.sqlite", StringIds=[{"id": 1, "value": "x"}], KERNEL=kernels)
    change(path, "UPDATE StringIds SET value = CAST(x'61ff62' AS TEXT)")
    assert [row[2] for row in rows_of(read_nsys(path), Kind.KERNEL)] == ["a\ufffdb", "(string 77 is missing)"]


BAD = [
    {"start": 0, "end": 0}, {"start": 150, "end": 100}, {"start": 2**60, "end": 2**60 + 1}, {"start": -(2**62)},
    {"start": -(2**63), "end": 2**63 - 1}, {"start": "soon"}, {"end": b"x"}, {"start": 0.5}, {"end": 1e300},
]  # fmt: skip


@pytest.mark.parametrize("bad", BAD, ids=str)
def test_rows_that_can_be_no_intervals_are_left_out_and_counted(tmp_path, bad):
    path = report(tmp_path / "a.sqlite", KERNEL=[KERNEL, {**KERNEL, **bad}, {**KERNEL, "start": 120, "deviceId": 3}])
    timeline = read_nsys(path)
    assert [row[0] for row in rows_of(timeline, Kind.KERNEL)] == [100, 120]
    assert (timeline.sources[0].n_events, timeline.sources[0].left_out) == (3, 1)
    assert "rows without sound times, which are left out: 1" in timeline.sources[0].notes


def test_what_is_no_number_elsewhere_is_unknown(tmp_path):
    odd = {**KERNEL, "deviceId": "x", "streamId": 2.5, "correlationId": "y", "globalPid": None, "demangledName": b"z"}
    timeline = read_nsys(report(tmp_path / "a.sqlite", KERNEL=[odd]))
    assert rows_of(timeline, Kind.KERNEL) == [(100, 50, "(unknown)", -1, NO_LINK)]
    track = timeline.tracks[0]
    assert (track.device, track.stream, track.pid) == (None, None, None)


def test_what_nsys_says_was_lost_is_a_note(tmp_path):
    said = ["Not all CUDA events might have been collected.", "No NVTX events collected. Does the process use NVTX?"]
    events = [{"severity": 2, "text": text} for text in said]
    timeline = read_nsys(report(tmp_path / "a.sqlite", DIAGNOSTIC_EVENT=events, KERNEL=[KERNEL]))
    assert timeline.sources[0].notes == (f"nsys: {said[0]}",)


def test_many_names_many_tracks_and_ids_far_apart(tmp_path):
    n = 20_000
    kernels = (
        {
            **KERNEL,
            "start": at,
            "end": at + 1,
            "streamId": at % 3_000,
            "demangledName": at * 2**40,
            "correlationId": 2**32 - 1,
        }
        for at in range(n)
    )
    names = ({"id": at * 2**40, "value": f"k{at}"} for at in range(n))
    timeline = read_nsys(report(tmp_path / "a.sqlite", StringIds=names, KERNEL=kernels))
    own = timeline.intervals
    assert timeline.names == tuple(f"k{at}" for at in range(n)) and own.name.tolist() == list(range(n))
    assert [timeline.tracks[place].stream for place in own.track.tolist()] == [at % 3_000 for at in range(n)]
    assert set(own.link.tolist()) == {2**32 - 1}


HOSTILE = {
    "view": ["ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL RENAME TO k",
             "CREATE VIEW CUPTI_ACTIVITY_KIND_KERNEL AS SELECT * FROM k"],
    "a view in small letters": ["CREATE VIEW nvtx_events AS WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x FROM c)"
                                " SELECT x FROM c"],
    "computed column": ["ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL ADD COLUMN g AS (hex(zeroblob(1000))) VIRTUAL"],
    "virtual table": ["CREATE VIRTUAL TABLE OSRT_API USING fts4(start, end, globalTid, nameId)"],
}  # fmt: skip


@pytest.mark.parametrize("statements", HOSTILE.values(), ids=HOSTILE)
def test_what_is_no_plain_table_is_refused(tmp_path, statements):
    path = change(report(tmp_path / "a.sqlite", KERNEL=[KERNEL]), *statements)
    with pytest.raises(TraceError, match=r"a\.sqlite: is damaged, or not made by nsys export: "):
        read_nsys(path)


def test_what_sqlite_quotes_of_a_statement_is_one_line(tmp_path):
    path = report(tmp_path / "a.sqlite", KERNEL=[KERNEL])
    data = (tmp_path / "a.sqlite").read_bytes()
    (tmp_path / "a.sqlite").write_bytes(data.replace(b'"demangledName"', b'"demangledName '))
    with pytest.raises(TraceError, match=r"^[^\n]*a\.sqlite: is damaged: malformed database schema[^\n]*$"):
        read_nsys(path)


def test_what_else_is_in_the_file_is_never_looked_at(tmp_path):
    never = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x FROM c"
    path = report(tmp_path / "a.sqlite", KERNEL=[KERNEL])
    change(
        path, f"CREATE VIEW runs AS {never}", f"CREATE VIEW gpus AS {never}",
        "CREATE TRIGGER t AFTER INSERT ON StringIds BEGIN DELETE FROM StringIds; END",
    )  # fmt: skip
    assert len(read_nsys(path).intervals) == 1


def test_what_is_no_report_is_refused_in_a_sentence(tmp_path):
    other = change(tmp_path / "other.sqlite", "CREATE TABLE t (x)")
    (tmp_path / "text.sqlite").write_text("version https://git-lfs.github.com/spec/v1\n" * 9)
    (tmp_path / "empty.sqlite").write_bytes(b"")
    for name, said in {
        other: "is an SQLite database of something else, not a report of Nsight Systems",
        str(tmp_path / "text.sqlite"): "is not a report of Nsight Systems (not an SQLite database)",
        str(tmp_path / "empty.sqlite"): "is empty",
        str(tmp_path): "is a directory, not a report of Nsight Systems",
        str(tmp_path / "none"): "no such file",
    }.items():
        with pytest.raises(TraceError, match=re.escape(f"{name}: {said}")):
            read_nsys(name)


def big(path) -> str:
    kernels = [{**KERNEL, "start": 10 * at, "end": 10 * at + 9, "demangledName": 100} for at in range(1, 6_000)]
    return report(path, StringIds=strings(3), KERNEL=kernels)


def test_of_a_damaged_table_what_is_whole_is_read_and_the_rest_said(tmp_path):
    path = big(tmp_path / "a.sqlite")
    whole = rows_of(read_nsys(path), Kind.KERNEL)
    size = os.path.getsize(path)
    with open(path, "r+b") as stream:
        stream.seek(size // 2 // 4096 * 4096)
        stream.write(b"\xff" * 8192)
    timeline = read_nsys(path)
    found = rows_of(timeline, Kind.KERNEL)
    assert found == whole[: len(found)] and 1_000 < len(found) < 5_000
    assert any(f"only {len(found):,} " in note and "KERNEL is damaged" in note for note in timeline.sources[0].notes)


def test_a_text_in_the_midst_is_left_to_sqlite_and_nothing_is_read_twice(tmp_path):
    path = change(big(tmp_path / "a.sqlite"), "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET streamId = 'x' WHERE rowid = 4000")
    timeline = read_nsys(path)
    assert [row[0] for row in rows_of(timeline, Kind.KERNEL)] == [10 * at for at in range(1, 6_000)]
    assert timeline.tracks[timeline.intervals.track[3_999]].stream is None


def test_a_file_that_is_cut_off_is_refused_or_says_so(tmp_path):
    path = big(tmp_path / "a.sqlite")
    os.truncate(path, os.path.getsize(path) // 2 // 4096 * 4096)
    try:
        notes = read_nsys(path).sources[0].notes
    except TraceError as error:
        notes = (str(error),)
    assert any("a.sqlite: is damaged" in note or "is cut off" in note for note in notes)


def test_a_file_that_is_written_meanwhile_is_refused(tmp_path, monkeypatch):
    path = big(tmp_path / "a.sqlite")
    run, checked = open_traces([path]), database.Database.check

    def check(own: database.Database) -> None:
        change(path, "REPLACE INTO StringIds VALUES (999, 'late')")
        checked(own)

    monkeypatch.setattr(database.Database, "check", check)
    with pytest.raises(TraceError, match="was written while it was read"):
        read_nsys(path)
    with pytest.raises(TraceError, match="was written while it was read"):
        analyze_files(run, tables=("kernels",))


def test_what_stands_in_a_log_is_read_and_the_folder_stays_as_it_is(tmp_path):
    path = report(tmp_path / "a.sqlite", KERNEL=[KERNEL])
    with closing(sqlite3.connect(path, isolation_level=None)) as writer:
        writer.execute("PRAGMA journal_mode=WAL").fetchall()
        names = ", ".join(KERNEL)
        for start in (200, 300):
            row = dict.fromkeys(("shortName",), 0) | KERNEL | {"start": start, "end": start + 5}
            rest = [column.rstrip("!") for column in TABLES["CUPTI_ACTIVITY_KIND_KERNEL"] if column.endswith("!")]
            row = dict.fromkeys(rest, 0) | row
            names, marks = ", ".join(row), ", ".join("?" * len(row))
            writer.execute(f"INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL ({names}) VALUES ({marks})", list(row.values()))
        before = sorted(os.listdir(tmp_path))
        assert "a.sqlite-wal" in before
        assert [row[0] for row in rows_of(read_nsys(path), Kind.KERNEL)] == [100, 200, 300]
        assert sorted(os.listdir(tmp_path)) == before


def test_a_row_that_says_it_is_longer_than_memory_ends_its_table(tmp_path, monkeypatch):
    path = change(big(tmp_path / "a.sqlite"), "PRAGMA journal_mode=WAL")

    def execute(own: Guarded, query: str, *more: object):
        rows = sqlite3.Connection.execute(own, query, *more)
        return ends(rows) if "demangledName" in query and query.startswith("SELECT") else rows

    def ends(rows: sqlite3.Cursor):
        yield from islice(rows, 3)
        raise MemoryError  # as the module says it of a damaged row

    monkeypatch.setattr(Guarded, "execute", execute)
    timeline = read_nsys(path)
    assert len(timeline.intervals) == 3
    assert any("KERNEL is damaged (a row that can't be): only 3 rows" in note for note in timeline.sources[0].notes)
