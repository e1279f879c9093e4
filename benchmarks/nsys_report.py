"""Makes .sqlite files as ``nsys export`` writes them, of any size."""

import itertools
import os
import random
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

Row = Mapping[str, Any]
_KERNEL = (
    "start!", "end!", "deviceId!", "contextId!", "greenContextId", "streamId!", "correlationId", "globalPid",
    "demangledName!", "shortName!", "mangledName", "launchType", "cacheConfig", "registersPerThread!", "gridX!", "gridY!",
    "gridZ!", "blockX!", "blockY!", "blockZ!", "staticSharedMemory!", "dynamicSharedMemory!", "localMemoryPerThread!",
    "localMemoryTotal!", "gridId!", "sharedMemoryExecuted", "graphNodeId", "sharedMemoryLimitConfig",
)  # fmt: skip
_CALL = ("start!", "end!", "eventClass!", "globalTid", "correlationId", "nameId!", "returnValue!", "callchainId")
TABLES: Mapping[str, Sequence[str]] = {
    "StringIds": ("id! PRIMARY KEY", "value! TEXT"),
    "TARGET_INFO_SESSION_START_TIME": ("utcEpochNs", "utcTime TEXT", "localTime TEXT"),
    "TARGET_INFO_SYSTEM_ENV": ("globalVid", "devStateName! TEXT", "name! TEXT", "nameEnum!", "value! TEXT"),
    "TARGET_INFO_GPU": ("vmId!", "id!", "name TEXT", "busLocation TEXT", "smCount", "uuid TEXT", "cuDevice"),
    "TARGET_INFO_CUDA_DEVICE": ("gpuId", "cudaId!", "pid!", "uuid TEXT"),
    "TARGET_INFO_GPU_METRICS": ("typeId!", "sourceId!", "typeName! TEXT", "metricId!", "metricName! TEXT"),
    "GPU_METRICS": ("timestamp", "typeId!", "metricId!", "value!"),
    "TARGET_INFO_NETWORK_METRICS": ("metricsListId!", "metricsIdx!", "name! TEXT", "description! TEXT", "unit! TEXT"),
    "TARGET_INFO_NIC_INFO": ("GUID!", "stateName! TEXT", "nicId!", "name! TEXT", "deviceId!", "vendorId!", "linkLayer!"),
    "NIC_ID_MAP": ("nicId!", "globalId!"),
    "NET_NIC_METRIC": ("start!", "end!", "globalId!", "portId", "metricsListId!", "metricsIdx!", "value!"),
    "ThreadNames": ("nameId!", "priority", "globalTid"),
    "PROCESSES": ("globalPid", "pid", "name TEXT"),
    "DIAGNOSTIC_EVENT": ("timestamp!", "timestampType!", "source!", "severity!", "text! TEXT", "globalPid"),
    "META_DATA_EXPORT": ("name! TEXT", "value! TEXT"),
    "EXPORT_META_DATA": ("name! TEXT", "value! TEXT"),
    "CUPTI_ACTIVITY_KIND_KERNEL": _KERNEL,
    "CUPTI_ACTIVITY_KIND_MEMCPY": (
        "start!", "end!", "deviceId!", "contextId!", "greenContextId", "streamId!", "correlationId", "globalPid", "bytes!",
        "copyKind!", "deprecatedSrcId", "srcKind", "dstKind", "srcDeviceId", "srcContextId", "dstDeviceId", "dstContextId",
        "migrationCause", "graphNodeId", "virtualAddress",
    ),
    "CUPTI_ACTIVITY_KIND_MEMSET": (
        "start!", "end!", "deviceId!", "contextId!", "greenContextId", "streamId!", "correlationId", "globalPid", "value!",
        "bytes!", "graphNodeId", "memKind",
    ),
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE": (
        "start!", "end!", "deviceId!", "contextId!", "greenContextId", "streamId!", "correlationId", "globalPid", "graphId!",
        "graphExecId!",
    ),
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": (
        "start!", "end!", "deviceId!", "contextId!", "greenContextId", "streamId!", "correlationId", "globalPid",
        "deprecatedSyncType", "syncType!", "eventId!", "eventSyncId",
    ),
    "CUPTI_ACTIVITY_KIND_RUNTIME": _CALL,
    "OSRT_API": ("start!", "end!", "eventClass!", "globalTid", "nameId!", "returnValue!", "nestingLevel", "callchainId!"),
    "OSRT_FILE_ACCESS_EVENTS": (
        "fileAccessId!", "threadId!", "startedAt!", "endedAt!", "eventType!", "apiCallId!", "bytesProcessed!",
        "context! TEXT",
    ),
    "OSRT_FILE_ACCESS_DESCRIPTORS": ("fileAccessId!", "processId!", "openedAt!", "closedAt!", "filePath! TEXT"),
    "PROFILER_OVERHEAD": ("start!", "end!", "globalTid", "nameId", "returnValue!"),
    "MPI_COLLECTIVES_EVENTS": ("start!", "end!", "globalTid", "textId", "commHandle", "rootRank", "size", "recvSize"),
    "NVTX_EVENTS": (
        "start!", "end", "eventType!", "rangeId", "category", "color", "text TEXT", "globalTid", "endGlobalTid", "textId",
        "domainId", "uint64Value", "int64Value", "doubleValue REAL", "uint32Value", "int32Value", "floatValue REAL",
        "jsonTextId", "jsonText TEXT", "binaryData TEXT",
    ),
}  # fmt: skip
"""Columns in the order of the file; ``!`` may not be NULL; INTEGER where nothing is said."""
OLD = {"CUPTI_ACTIVITY_KIND_KERNEL": tuple(name for name in _KERNEL if name != "greenContextId")}
"""As 2022.2 wrote them."""


def columns_of(table: str, layout: Mapping[str, Sequence[str]] = TABLES) -> list[str]:
    """The names of a table's columns."""
    return [column.split()[0].rstrip("!") for column in layout[table]]


def statement(table: str, layout: Mapping[str, Sequence[str]] = TABLES) -> str:
    """What creates it."""
    told = []
    for column in layout[table]:
        name, *kind = column.split()
        kinds = " ".join(kind) if kind and kind[0] in ("TEXT", "REAL") else "INTEGER " + " ".join(kind)
        told.append(f'"{name.rstrip("!")}" {kinds}{" NOT NULL" * name.endswith("!")}')
    return f"CREATE TABLE {table} (\n" + ",\n".join(told) + "\n)"


def write_report(path: str, tables: Mapping[str, Iterable[Row]], layout: Mapping[str, Sequence[str]] = TABLES) -> None:
    """Write a report of these tables. What a row lacks is NULL, or 0 where that may not be."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode=OFF")
    connection.execute("PRAGMA synchronous=OFF")
    connection.execute("BEGIN")
    for table, rows in tables.items():
        connection.execute(statement(table, layout))
        names = columns_of(table, layout)
        missing = [None if "!" not in column else "" if "TEXT" in column else 0 for column in layout[table]]
        marks = ",".join("?" * len(names))
        values = ([row.get(name, other) for name, other in zip(names, missing, strict=True)] for row in rows)
        connection.executemany(f"INSERT INTO {table} VALUES ({marks})", values)
    connection.execute("COMMIT")
    connection.close()


PID, TID = 281474976710656 + (4321 << 24), 281474976710656 + (4321 << 24) + 4321
UUID = "6bab45c9-f608-a3f8-ebd3-e926434d9a50"


def kernels(n: int, n_names: int = 300, n_streams: int = 4) -> Iterator[Row]:
    """So many, as a training step's: a few µs each, on streams that overlap, sorted as nsys writes them."""
    draw = random.Random(1)
    free, time = [0] * n_streams, 2_000_000_000
    weights = list(itertools.accumulate(1 / (place + 1) for place in range(n_names)))
    names = draw.choices(range(n_names), cum_weights=weights, k=n)
    for number, name in enumerate(names):
        stream = 0 if draw.random() < 0.8 else draw.randrange(n_streams)
        time = max(time + 500, free[stream]) + draw.randrange(3_000)
        free[stream] = end = time + 1_500 + draw.randrange(20 * (name + 10))
        yield {
            "start": time, "end": end, "deviceId": 0, "contextId": 1, "streamId": 7 + 6 * stream,
            "correlationId": 1_000 + 3 * number, "globalPid": PID, "demangledName": 100 + 2 * name,
            "shortName": 101 + 2 * name, "mangledName": 101 + 2 * name, "launchType": 1, "cacheConfig": 0,
            "registersPerThread": 32 + name % 200, "gridX": 1 + name * 7, "gridY": 1, "gridZ": 1, "blockX": 128, "blockY": 1,
            "blockZ": 1, "dynamicSharedMemory": 1024 * (name % 3), "localMemoryTotal": 127401984, "gridId": number,
            "sharedMemoryExecuted": 32768,
        }  # fmt: skip


def strings(n_names: int) -> Iterator[Row]:
    """The names of such kernels."""
    for name in range(n_names):
        kind = "ncclDevKernel_AllReduce_Sum_bf16" if name % 50 == 7 else f"gemm_{name}"
        yield {"id": 100 + 2 * name, "value": f"void {kind}<float, {name}>(T1 *, const T1 *, int)"}
        yield {"id": 101 + 2 * name, "value": kind}


def large_report(path: str, n_kernels: int) -> None:
    """A report of kernels alone."""
    if os.path.exists(path):
        os.unlink(path)
    write_report(
        path,
        {
            "StringIds": strings(300),
            "TARGET_INFO_SESSION_START_TIME": [{"utcEpochNs": 1_773_680_614_431_681_058}],
            "TARGET_INFO_GPU": [
                {"vmId": 1 << 48, "id": 0, "name": "NVIDIA A100-SXM4-40GB", "uuid": UUID, "cuDevice": 0}
            ],
            "TARGET_INFO_CUDA_DEVICE": [{"gpuId": 0, "cudaId": 0, "pid": 4321}],
            "CUPTI_ACTIVITY_KIND_KERNEL": kernels(n_kernels),
        },
    )


def small_tables(draw: random.Random) -> dict[str, list[dict[str, Any]]]:
    """A report with something in every table, of two processes with a GPU each."""
    texts = [
        "",
        "cudaLaunchKernel_v7000",
        "cuMemAlloc_v2",
        "gemm",
        "ncclDevKernel_AllReduce",
        "read",
        "main",
        "NCCL",
        "MPI_Bcast",
    ]
    pids = [(1 << 48) + (process << 24) for process in (4321, 4322)]

    def times() -> dict[str, int]:
        start = draw.randrange(-(10**6), 10**10)
        return {"start": start, "end": start + draw.randrange(10**6), "correlationId": draw.randrange(1, 60)}

    def on_gpu(**more: Any) -> dict[str, Any]:
        process = draw.randrange(2)
        own = {"deviceId": 0, "contextId": 1, "streamId": draw.choice((7, 13)), "globalPid": pids[process]}
        return times() | own | {name: value() for name, value in more.items()}

    def on_cpu(*names: int, column: str = "nameId") -> dict[str, Any]:
        return times() | {"globalTid": draw.choice(pids) + draw.randrange(4321, 4324), column: draw.choice(names)}

    def each(n: int, make: Any, **more: Any) -> list[dict[str, Any]]:
        return [make(**more) for _ in range(draw.randrange(n))]

    ranges = [
        on_cpu(6, column="textId")
        | {"eventType": draw.choice((34, 59, 60, 70, 71, 99)), "domainId": draw.choice((0, 1, None))}
        for _ in range(draw.randrange(30))
    ]  # fmt: skip
    for own in ranges:
        own |= draw.choice(({}, {"text": "step 1", "textId": None}, {"end": None}, {"endGlobalTid": pids[0] + 1}))
    return {
        "StringIds": [{"id": number, "value": text} for number, text in enumerate(texts)],
        "TARGET_INFO_SESSION_START_TIME": [{"utcEpochNs": 1_773_680_614_431_681_058}],
        "TARGET_INFO_SYSTEM_ENV": [
            {"globalVid": 1 << 48, "name": "Hostname", "value": "nid001"},
            {"globalVid": 1 << 48, "name": "DeviceEnvironment", "value": "SLURM_JOB_ID=5;SLURM_STEP_ID=0;SLURM_PROCID=3"},
        ],
        "TARGET_INFO_GPU": [
            {"vmId": 1 << 48, "id": gpu, "name": "NVIDIA A100-SXM4-40GB", "uuid": f"{gpu}{UUID[1:]}", "cuDevice": gpu}
            for gpu in (0, 1)
        ],
        "TARGET_INFO_CUDA_DEVICE": [{"gpuId": gpu, "cudaId": 0, "pid": 4321 + gpu} for gpu in (0, 1)],
        "ThreadNames": [{"nameId": 6, "globalTid": pids[0] + 4321}],
        "META_DATA_EXPORT": [{"name": "EXPORT_PRODUCT_VERSION", "value": "2025.1.3.140"}],
        "DIAGNOSTIC_EVENT": [{"severity": 2, "text": "Not all CUDA events might have been collected."}],
        "TARGET_INFO_GPU_METRICS": [
            {"typeId": 0x700 + gpu, "metricId": 1, "metricName": "SMs Active [Throughput %]"} for gpu in (0, 1)
        ],
        "GPU_METRICS": [
            {"timestamp": 1000 * at, "typeId": 0x700 + at % 2, "metricId": 1, "value": draw.randrange(100)}
            for at in range(draw.randrange(300))
        ],
        "CUPTI_ACTIVITY_KIND_RUNTIME": each(60, lambda: on_cpu(1, 2)),
        "CUPTI_ACTIVITY_KIND_KERNEL": each(
            200, on_gpu, demangledName=lambda: draw.choice((3, 4)), graphNodeId=lambda: draw.choice((None, 1 << 40))
        ),
        "CUPTI_ACTIVITY_KIND_GRAPH_TRACE": each(5, on_gpu, graphId=lambda: draw.randrange(3)),
        "CUPTI_ACTIVITY_KIND_MEMCPY": each(
            30, on_gpu, bytes=lambda: draw.randrange(1 << 40), copyKind=lambda: draw.randrange(14),
            srcKind=lambda: draw.randrange(8), dstKind=lambda: draw.randrange(8),
        ),
        "CUPTI_ACTIVITY_KIND_MEMSET": each(10, on_gpu, bytes=lambda: 4096, memKind=lambda: 2),
        "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": each(10, on_gpu, streamId=lambda: (1 << 32) - 1, syncType=lambda: 4),
        "OSRT_API": each(30, lambda: on_cpu(5)),
        "PROFILER_OVERHEAD": each(5, lambda: on_cpu(6)),
        "MPI_COLLECTIVES_EVENTS": each(5, lambda: on_cpu(8, column="textId")),
        "NVTX_EVENTS": [
            {"start": -5, "eventType": 75, "text": "NCCL", "domainId": 1, "globalTid": pid + 4321} for pid in pids
        ] + ranges,
    }  # fmt: skip
