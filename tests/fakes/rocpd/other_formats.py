"""The same process as rocprofv3's JSON and CSV, by plain SQL over its database: the layouts are those of public files
(ROCm 6.2 to 7.1)."""

import csv
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

_KINDS = ("NONE", "KERNEL_DISPATCH", "MEMORY_COPY", "HIP_RUNTIME_API", "MARKER_CORE_RANGE_API")
_EVENTS = """SELECT x.*, event.stack_id, kind.string AS category, event.extdata AS told FROM {table} x
    JOIN rocpd_event event ON event.id = x.event_id JOIN rocpd_string kind ON kind.id = event.category_id"""


def _rows(path: Path, suffix: str) -> dict[str, list[dict[str, Any]]]:
    """The rows of the tables of one process."""
    with closing(sqlite3.connect(path)) as db:
        db.row_factory = sqlite3.Row

        def every(statement: str) -> list[dict[str, Any]]:
            for name in ("event", "string", "info_kernel_symbol", "info_thread"):
                statement = statement.replace(f"rocpd_{name} ", f"rocpd_{name}{suffix} ")
            return [dict(row) for row in db.execute(statement)]

        found = {
            name: every(_EVENTS.format(table=f"rocpd_{name}{suffix}"))
            for name in ("kernel_dispatch", "memory_copy", "region")
        }
        found |= {name: every(f"SELECT * FROM rocpd_{name}{suffix}") for name in
                  ("string", "info_kernel_symbol", "info_agent", "info_process", "info_thread", "info_node")}  # fmt: skip
    return found


def _named(row: dict[str, Any], strings: dict[int, str]) -> str:
    return str(json.loads(row["told"]).get("message") or strings[row["name_id"]])


def as_json(path: Path, suffix: str) -> dict[str, Any]:
    """The object that ``rocprofv3 --output-format json`` writes."""
    rows = _rows(path, suffix)
    strings = {row["id"]: row["string"] for row in rows["string"]}
    threads = {row["id"]: row["tid"] for row in rows["info_thread"]}
    operations: dict[str, list[str]] = {kind: [] for kind in _KINDS}
    marks: list[dict[str, Any]] = []

    def record(row: dict[str, Any], **more: Any) -> dict[str, Any]:
        named = strings[row["name_id"]] if "name_id" in row else "KERNEL_DISPATCH_COMPLETE"
        known = operations[row["category"]]
        if named not in known:
            known.append(named)
        return {"size": 64, "kind": _KINDS.index(row["category"]), "operation": known.index(named),
                "correlation_id": {"internal": row["stack_id"], "external": 0}, "start_timestamp": row["start"],
                "end_timestamp": row["end"], **more}  # fmt: skip

    kernels = [
        record(row, thread_id=1, stream_id={"handle": row["stream_id"]},
               dispatch_info={"agent_id": {"handle": row["agent_id"]}, "queue_id": {"handle": row["queue_id"]},
                              "kernel_id": row["kernel_id"], "grid_size": {"x": 65536, "y": 1, "z": 1}})
        for row in rows["kernel_dispatch"]
    ]  # fmt: skip
    copies = [
        record(row, src_agent_id={"handle": row["src_agent_id"]}, dst_agent_id={"handle": row["dst_agent_id"]},
               bytes=row["size"], stream_id={"handle": row["stream_id"]})
        for row in rows["memory_copy"]
    ]  # fmt: skip
    calls: dict[str, list[dict[str, Any]]] = {"hip_api": [], "marker_api": []}
    for row in rows["region"]:
        is_mark = row["category"].startswith("MARKER")
        calls["marker_api" if is_mark else "hip_api"].append(record(row, thread_id=threads[row["tid"]]))
        if is_mark:
            marks.append({"key": row["stack_id"], "value": json.loads(row["told"])["message"]})
    first = rows["info_process"][0]
    agents = [
        {"id": {"handle": row["id"]}, "type": 2 if row["type"] == "GPU" else 1, "product_name": row["product_name"],
         "logical_node_type_id": row["type_index"], **json.loads(row["extdata"] or "{}"), "name": row["name"]}
        for row in rows["info_agent"]
    ]  # fmt: skip
    return {"rocprofiler-sdk-tool": [{
        "metadata": {"node": {"hostname": rows["info_node"][0]["hostname"]}, "pid": first["pid"]},
        "agents": [agent | {"id": {"handle": row["id"]}} for agent, row in zip(agents, rows["info_agent"], strict=True)],
        "counters": [{"id": {"handle": 5}, "name": "SQ_WAVES"}],
        "strings": {"buffer_records": [{"kind": kind, "operations": known} for kind, known in operations.items()],
                    "marker_api": marks},
        "kernel_symbols": [{"kernel_id": row["id"], "kernel_name": row["kernel_name"],
                            "formatted_kernel_name": row["display_name"]} for row in rows["info_kernel_symbol"]],
        "buffer_records": {"kernel_dispatch": kernels, "memory_copy": copies, **calls},
        "callback_records": {"counter_collection": [
            {"dispatch_data": {"start_timestamp": row["start"], "end_timestamp": row["end"]},
             "records": [{"counter_id": {"handle": 5}, "value": 64.0}]} for row in rows["kernel_dispatch"][:3]]},
    }]}  # fmt: skip


def as_csv(path: Path, suffix: str, folder: Path) -> list[Path]:
    """The files that ``rocprofv3 --output-format csv`` writes, into a folder: of agents, kernels, copies, calls, marks and
    counters."""
    rows = _rows(path, suffix)
    strings = {row["id"]: row["string"] for row in rows["string"]}
    threads = {row["id"]: row["tid"] for row in rows["info_thread"]}
    pid = rows["info_process"][0]["pid"]
    agent = {row["id"]: f"Agent {row['absolute_index']}" for row in rows["info_agent"]}
    names = {row["id"]: row["display_name"] for row in rows["info_kernel_symbol"]}
    api = ("Domain", "Function", "Process_Id", "Thread_Id", "Correlation_Id", "Start_Timestamp", "End_Timestamp")

    def calls(marks: bool) -> list[tuple[Any, ...]]:
        return [
            (row["category"], _named(row, strings), pid, threads[row["tid"]], row["stack_id"], row["start"], row["end"])
            for row in rows["region"] if row["category"].startswith("MARKER") == marks
        ]  # fmt: skip

    tables: dict[str, list[tuple[Any, ...]]] = {
        "agent_info": [("Node_Id", "Logical_Node_Id", "Agent_Type", "Name", "Product_Name", "Logical_Node_Type_Id"), *(
            (row["absolute_index"], row["logical_index"], row["type"], row["name"], row["product_name"], row["type_index"])
            for row in rows["info_agent"])],
        "kernel_trace": [("Kind", "Agent_Id", "Queue_Id", "Stream_Id", "Thread_Id", "Dispatch_Id", "Kernel_Id",
                          "Kernel_Name", "Correlation_Id", "Start_Timestamp", "End_Timestamp", "LDS_Block_Size"), *(
            ("KERNEL_DISPATCH", agent[row["agent_id"]], row["queue_id"], row["stream_id"], 1, row["dispatch_id"],
             row["kernel_id"], names[row["kernel_id"]], row["stack_id"], row["start"], row["end"], 0)
            for row in rows["kernel_dispatch"])],
        "memory_copy_trace": [("Kind", "Direction", "Stream_Id", "Source_Agent_Id", "Destination_Agent_Id", "Correlation_Id",
                               "Start_Timestamp", "End_Timestamp"), *(
            ("MEMORY_COPY", strings[row["name_id"]], row["stream_id"], agent[row["src_agent_id"]],
             agent[row["dst_agent_id"]], row["stack_id"], row["start"], row["end"]) for row in rows["memory_copy"])],
        "hip_api_trace": [api, *calls(False)],
        "marker_api_trace": [api, *calls(True)],
        "counter_collection": [("Correlation_Id", "Dispatch_Id", "Agent_Id", "Queue_Id", "Process_Id", "Thread_Id",
                                "Kernel_Id", "Kernel_Name", "Counter_Name", "Counter_Value", "Start_Timestamp",
                                "End_Timestamp"), *(
            (row["stack_id"], row["dispatch_id"], agent[row["agent_id"]], 1, pid, 1, row["kernel_id"],
             names[row["kernel_id"]], "SQ_WAVES", 64.0, row["start"], row["end"]) for row in rows["kernel_dispatch"][:3])],
        "hip_api_stats": [("Name", "Calls", "TotalDurationNs", "AverageNs"), ("hipMalloc", 1, 5, 5.0)],
    }  # fmt: skip
    written = []
    for name, lines in tables.items():
        written.append(folder / f"{pid}_{name}.csv")
        with written[-1].open("w", newline="") as file:
            csv.writer(file, quoting=csv.QUOTE_NONNUMERIC).writerows(lines)
    return written
