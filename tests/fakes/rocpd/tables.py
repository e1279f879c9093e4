"""The tables of rocprofv3's ``*_results.db`` (rocpd, schema 3): their columns as rocprofiler-sdk's
``source/share/rocprofiler-sdk-rocpd/rocpd_tables.sql`` names them, and the views of its data_views.sql that people read.
"""

from collections.abc import Sequence

_ID = '"id" INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT'
_JSON = 'JSONB DEFAULT "{}" NOT NULL'
_N, _I, _B, _T = "INTEGER NOT NULL", "INTEGER", "BIGINT NOT NULL", "TEXT"

_OF = {"nid": "info_node", "pid": "info_process", "tid": "info_thread", "agent_id": "info_agent", "event_id": "event",
       "stream_id": "info_stream", "queue_id": "info_queue", "name_id": "string", "kernel_id": "info_kernel_symbol",
       "category_id": "string", "region_name_id": "string", "src_agent_id": "info_agent", "dst_agent_id": "info_agent",
       "track_id": "track", "code_object_id": "info_code_object"}  # fmt: skip
"""Where a column points."""
_SIZES = {f"{what}_size_{axis}": _N for what in ("workgroup", "grid") for axis in "xyz"}

COLUMNS: dict[str, dict[str, str]] = {
    "metadata": {"tag": "TEXT NOT NULL", "value": "TEXT NOT NULL"},
    "string": {"string": "TEXT NOT NULL UNIQUE ON CONFLICT ABORT"},
    "info_node": {
        "hash": "BIGINT NOT NULL UNIQUE", "machine_id": "TEXT NOT NULL UNIQUE", "system_name": _T, "hostname": _T,
        "release": _T, "version": _T, "hardware_name": _T, "domain_name": _T,
    },
    "info_process": {
        "nid": _N, "ppid": _I, "pid": _N, "init": "BIGINT", "fini": "BIGINT", "start": "BIGINT", "end": "BIGINT",
        "command": _T, "environment": _JSON, "extdata": _JSON,
    },
    "info_thread": {
        "nid": _N, "ppid": _I, "pid": _N, "tid": _N, "name": _T, "start": "BIGINT", "end": "BIGINT", "extdata": _JSON,
    },
    "info_agent": {
        "nid": _N, "pid": _N, "type": "TEXT CHECK (\"type\" IN ('CPU', 'GPU'))", "absolute_index": _I,
        "logical_index": _I, "type_index": _I, "uuid": _I, "name": _T, "model_name": _T, "vendor_name": _T,
        "product_name": _T, "user_name": _T, "extdata": _JSON,
    },
    "info_queue": {"nid": _N, "pid": _N, "name": _T, "extdata": _JSON},
    "info_stream": {"nid": _N, "pid": _N, "name": _T, "extdata": _JSON},
    "info_pmc": {"nid": _N, "pid": _N, "agent_id": _I, "name": "TEXT NOT NULL", "symbol": "TEXT NOT NULL", "extdata": _JSON},
    "info_code_object": {"nid": _N, "pid": _N, "agent_id": _I, "uri": _T, "extdata": _JSON},
    "info_kernel_symbol": {
        "nid": _N, "pid": _N, "code_object_id": _N, "kernel_name": _T, "display_name": _T, "kernel_object": _I,
        "kernarg_segment_size": _I, "kernarg_segment_alignment": _I, "group_segment_size": _I,
        "private_segment_size": _I, "sgpr_count": _I, "arch_vgpr_count": _I, "accum_vgpr_count": _I, "extdata": _JSON,
    },
    "track": {"nid": _N, "pid": _I, "tid": _I, "name_id": _I, "extdata": _JSON},
    "event": {
        "category_id": _I, "stack_id": _I, "parent_stack_id": _I, "correlation_id": _I, "call_stack": _JSON,
        "line_info": _JSON, "extdata": _JSON,
    },
    "arg": {"event_id": _N, "position": _N, "type": "TEXT NOT NULL", "name": "TEXT NOT NULL", "value": _T, "extdata": _JSON},
    "pmc_event": {"event_id": _I, "pmc_id": _N, "value": "REAL DEFAULT 0.0", "extdata": 'JSONB DEFAULT "{}"'},
    "region": {
        "nid": _N, "pid": _N, "tid": _N, "start": _B, "end": _B, "name_id": _N, "event_id": _I, "extdata": _JSON,
    },
    "sample": {"track_id": _N, "timestamp": _B, "event_id": _I, "extdata": _JSON},
    "kernel_dispatch": {
        "nid": _N, "pid": _N, "tid": _I, "agent_id": _N, "kernel_id": _N, "dispatch_id": _N, "queue_id": _N,
        "stream_id": _N, "start": _B, "end": _B, "private_segment_size": _I, "group_segment_size": _I, **_SIZES,
        "region_name_id": _I, "event_id": _I, "extdata": _JSON,
    },
    "memory_copy": {
        "nid": _N, "pid": _N, "tid": _I, "start": _B, "end": _B, "name_id": _N, "dst_agent_id": _I, "dst_address": _I,
        "src_agent_id": _I, "src_address": _I, "size": _N, "queue_id": _I, "stream_id": _I, "region_name_id": _I,
        "event_id": _I, "extdata": _JSON,
    },
    "memory_allocate": {
        "nid": _N, "pid": _N, "tid": _I, "agent_id": _I,
        "type": "TEXT CHECK (\"type\" IN ('ALLOC', 'FREE', 'REALLOC', 'RECLAIM'))",
        "level": "TEXT CHECK (\"level\" IN ('REAL', 'VIRTUAL', 'SCRATCH'))", "start": _B, "end": _B, "address": _I,
        "size": _N, "queue_id": _I, "stream_id": _I, "event_id": _I, "extdata": _JSON,
    },
}  # fmt: skip
"""By table without ``rocpd_``: columns after the id (and the guid, which all but metadata have) with their types."""


def create(table: str, suffix: str, guid: str, loose: bool = False) -> str:
    """The statement that makes a table of one file; ``loose``: columns may be NULL, as damage makes them."""

    def typed(kind: str) -> str:
        return kind.replace(" NOT NULL", "") if loose else kind

    columns = [
        _ID,
        *([] if table == "metadata" else [f'"guid" TEXT DEFAULT "{guid}" NOT NULL']),
        *(f'"{name}" {typed(kind)}' for name, kind in COLUMNS[table].items()),
        *(
            f"FOREIGN KEY ({name}) REFERENCES `rocpd_{_OF[name]}{suffix}` (id) ON UPDATE CASCADE"
            for name in COLUMNS[table]
            if name in _OF and (table, name) != ("info_process", "pid")
        ),
    ]
    return f"CREATE TABLE IF NOT EXISTS `rocpd_{table}{suffix}` ({', '.join(columns)})"


def views(suffixes: Sequence[str]) -> list[str]:
    """The statements that make the views: of each table under its plain name, of all files that are in it, and those that
    put rows and names together."""
    made = []
    for table in COLUMNS:
        parts = " UNION ALL ".join(f"SELECT * FROM `rocpd_{table}{suffix}`" for suffix in suffixes)
        made.append(f"CREATE VIEW `rocpd_{table}` AS {parts}")
    kernels = """CREATE VIEW `kernels` AS SELECT K.id, K.guid, T.tid, S.display_name AS name, K.nid, P.pid,
        A.absolute_index AS agent_abs_index, A.type_index AS agent_type_index, A.type AS agent_type, K.dispatch_id,
        K.stream_id, K.queue_id, Q.name AS queue, ST.name AS stream, K.start, K.end, (K.end - K.start) AS duration,
        E.stack_id, E.correlation_id AS corr_id
        FROM `rocpd_kernel_dispatch` K JOIN `rocpd_info_agent` A ON A.id = K.agent_id AND A.guid = K.guid
        JOIN `rocpd_event` E ON E.id = K.event_id AND E.guid = K.guid
        JOIN `rocpd_info_kernel_symbol` S ON S.id = K.kernel_id AND S.guid = K.guid
        LEFT JOIN `rocpd_info_stream` ST ON ST.id = K.stream_id AND ST.guid = K.guid
        LEFT JOIN `rocpd_info_queue` Q ON Q.id = K.queue_id AND Q.guid = K.guid
        JOIN `rocpd_info_process` P ON P.id = K.pid AND P.guid = K.guid
        JOIN `rocpd_info_thread` T ON T.id = K.tid AND T.guid = K.guid"""
    copies = """CREATE VIEW `memory_copies` AS SELECT M.id, M.guid, M.nid, P.pid, M.start, M.end,
        (M.end - M.start) AS duration, S.string AS name, M.stream_id, M.size, D.absolute_index AS dst_agent_abs_index,
        D.type AS dst_agent_type, R.absolute_index AS src_agent_abs_index, R.type AS src_agent_type
        FROM `rocpd_memory_copy` M JOIN `rocpd_string` S ON S.id = M.name_id AND S.guid = M.guid
        JOIN `rocpd_info_agent` D ON D.id = M.dst_agent_id AND D.guid = M.guid
        JOIN `rocpd_info_agent` R ON R.id = M.src_agent_id AND R.guid = M.guid
        JOIN `rocpd_info_process` P ON P.id = M.pid AND P.guid = M.guid"""
    regions = """CREATE VIEW `regions` AS SELECT R.id, R.guid, (SELECT string FROM `rocpd_string` C WHERE
        C.id = E.category_id AND C.guid = E.guid) AS category, S.string AS name, R.nid, P.pid, T.tid, R.start, R.end,
        (R.end - R.start) AS duration, R.event_id, E.stack_id, E.extdata
        FROM `rocpd_region` R JOIN `rocpd_event` E ON E.id = R.event_id AND E.guid = R.guid
        JOIN `rocpd_string` S ON S.id = R.name_id AND S.guid = R.guid
        JOIN `rocpd_info_process` P ON P.id = R.pid AND P.guid = R.guid
        JOIN `rocpd_info_thread` T ON T.id = R.tid AND T.guid = R.guid"""
    return [*made, kernels, copies, regions]
