"""Figures of an Nsight Systems .sqlite report by plain SQL, all in whole ns: what any reader of it is held against.

``python make_nsys.py OUT.json [--hash-names] REPORT``, or ``figures_of(REPORT)`` in a test. ``--hash-names`` keeps the 40
names with most time only and, in place of each, the first 12 digits of its SHA-256. A table is {"columns": …, "rows": …}.
"""

import hashlib
import json
import re
import sqlite3
import sys
from pathlib import Path
from typing import Any

HASHED = 40
COPY_KINDS = {1: "HtoD", 2: "DtoH", 8: "DtoD", 9: "HtoH", 10: "PtoP", 11: "unified HtoD", 12: "unified DtoH"}
STATISTICS = ("count", "total", "mean", "median", "min", "max", "std")
PAGEABLE = 0

Table = dict[str, list[Any]]


def text(raw: bytes) -> str:
    """Text of a report is not always UTF-8."""
    return raw.decode("utf-8", "replace")


class Report:
    """One open report."""

    def __init__(self, path: str | Path) -> None:
        self.db = sqlite3.connect(f"{Path(path).absolute().as_uri()}?mode=ro&immutable=1", uri=True)
        self.db.text_factory = text
        self.columns: dict[str, list[str]] = {}
        for (name,) in self.db.execute("select name from sqlite_master where type = 'table'").fetchall():
            self.columns[name] = [row[1] for row in self.db.execute(f'pragma table_info("{name}")')]

    def has(self, table: str, *columns: str) -> bool:
        """Whether a table with these columns is there."""
        return table in self.columns and all(column in self.columns[table] for column in columns)

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """All rows of a query."""
        return self.db.execute(sql).fetchall()

    def statistics(self, keys: str, source: str) -> list[tuple[Any, ...]]:
        """Per key: STATISTICS of ``length`` in the rows of ``source``, most time first; std over n-1, 0 for one row."""
        on = " and ".join(f"a.{k.strip()} is m.{k.strip()}" for k in keys.split(","))
        sql = f"""
            with rows as ({source}),
            placed as (select {keys}, length, row_number() over (partition by {keys} order by length) as place,
                              count(*) over (partition by {keys}) as n from rows),
            middle as (select {keys}, avg(length) as median from placed
                       where place in ((n + 1) / 2, (n + 2) / 2) group by {keys}),
            average as (select {keys}, count(*) as n, sum(length) as total, avg(length) as mean,
                               min(length) as least, max(length) as most from rows group by {keys})
            select {", ".join("a." + k.strip() for k in keys.split(","))}, a.n, a.total, a.mean, m.median, a.least, a.most,
                   (select sum((r.length - a.mean) * (r.length - a.mean)) from rows r
                    where {" and ".join(f"r.{k.strip()} is a.{k.strip()}" for k in keys.split(","))})
            from average a join middle m on {on} order by a.total desc, 1"""
        return [(*row[:-1], (row[-1] / (row[-7] - 1)) ** 0.5 if row[-7] > 1 else 0.0) for row in self.rows(sql)]


def string_of(column: str) -> str:
    """SQL for the text that a number stands for."""
    return f"(select value from StringIds where id = {column})"


def gpu_rows(report: Report, *, unified: bool) -> str | None:
    """SQL for all that keeps a GPU busy: pid, deviceId, streamId, correlationId, start, end."""
    parts = []
    for table in ("KERNEL", "MEMCPY", "MEMSET", "GRAPH_TRACE"):
        name = f"CUPTI_ACTIVITY_KIND_{table}"
        if not report.has(name, "start", "end", "deviceId"):
            continue
        pid = "((globalPid >> 24) & 0xFFFFFF)" if report.has(name, "globalPid") else "0"
        link = "correlationId" if report.has(name, "correlationId") else "null"
        stream = "streamId" if report.has(name, "streamId") else "0"
        only = "" if unified or table != "MEMCPY" else " and copyKind not in (11, 12)"
        parts.append(
            f"select {pid} as pid, deviceId, {stream} as streamId, {link} as correlationId, start, end from {name} "
            f"where end >= start and end > 0{only}"
        )
    return " union all ".join(parts) or None


def busy(report: Report, source: str) -> Table:
    """Per process and GPU: rows, span, and the length of the union of all intervals."""
    sql = f"""
        with rows as ({source}),
        running as (select pid, deviceId, start, end, max(end) over (partition by pid, deviceId order by start, end
                    rows between unbounded preceding and 1 preceding) as before from rows)
        select pid, deviceId, count(*), min(start), max(end), max(end) - min(start),
               sum(max(0, end - max(start, coalesce(before, start)))) from running group by pid, deviceId order by 1, 2"""
    rows = [[*row, row[5] - row[6]] for row in report.rows(sql)]
    return {"columns": ["pid", "device", "count", "start", "end", "span", "busy", "idle"], "rows": rows}


def launches(report: Report, source: str) -> dict[str, Any] | None:
    """Of GPU rows whose call is in the report: how many, and how long after the call's end they began (0 where before)."""
    if not report.has("CUPTI_ACTIVITY_KIND_RUNTIME", "globalTid", "correlationId"):
        return None
    found = report.rows(f"""
        with rows as ({source}),
        calls as (select (globalTid >> 24) & 0xFFFFFF as pid, correlationId, min(start) as start, max(end) as end
                  from CUPTI_ACTIVITY_KIND_RUNTIME where correlationId > 0 group by 1, 2)
        select count(*), sum(max(0, rows.start - calls.end)), max(max(0, rows.start - calls.end)),
               count(distinct calls.pid || ' ' || calls.correlationId)
        from rows join calls on rows.pid = calls.pid and rows.correlationId = calls.correlationId""")
    return dict(zip(("rows", "delay_sum", "delay_max", "calls"), found[0], strict=True))


def stripped(name: str | None) -> str | None:
    """An API's name without its version: ``cudaMalloc_v3020`` is cudaMalloc."""
    if name and len(name) > 6 and name[-6:-4] == "_v" and name[-4:].isdigit():
        return name[:-6]
    return name


def without_running_numbers(name: str | None) -> str | None:
    """A range's name without what PyTorch adds to it at each call: ``aten::mm, op_id = 7`` is aten::mm."""
    return name and re.sub(", (?:op_id|seq) = [0-9]+", "", name)


def figures_of(path: str | Path) -> dict[str, Any]:
    """All figures of one report; a table that it lacks is null."""
    report = Report(path)
    report.db.create_function("stripped", 1, stripped, deterministic=True)
    report.db.create_function("without_running_numbers", 1, without_running_numbers, deterministic=True)
    head = ["name", *STATISTICS]
    out: dict[str, Any] = {}

    def table(key: str, needed: str, columns: tuple[str, ...], names: list[str], keys: str, source: str) -> None:
        there = report.has(needed, *columns)
        out[key] = {"columns": names, "rows": [list(r) for r in report.statistics(keys, source)]} if there else None

    for kind in ("META_DATA_EXPORT", "EXPORT_META_DATA"):
        if report.has(kind, "name", "value"):
            said = dict(report.rows(f"select name, value from {kind}"))
            out["version"] = said.get("EXPORT_PRODUCT_VERSION") or said.get("EXPORT_PRODUCT")
            out["schema"] = said.get("EXPORT_SCHEMA_VERSION")
    start = report.has("TARGET_INFO_SESSION_START_TIME", "utcEpochNs")
    out["unix_ns"] = (
        [row[0] for row in report.rows("select utcEpochNs from TARGET_INFO_SESSION_START_TIME")] if start else None
    )
    prefix = "CUPTI_ACTIVITY_KIND_"
    whole = "where end >= start and end > 0"
    out["rows"] = {
        name: report.rows(f'select count(*) from "{name}"')[0][0]
        for name in sorted(report.columns)
        if name.startswith(prefix) or name in ("NVTX_EVENTS", "OSRT_API", "GPU_METRICS")
    }
    kernels = prefix + "KERNEL"
    table(
        "kernels", kernels, ("demangledName",), head, "name",
        f"select {string_of('demangledName')} as name, end - start as length from {kernels} {whole}",
    )  # fmt: skip
    table(
        "api", prefix + "RUNTIME", ("nameId",), head, "name",
        f"select stripped({string_of('nameId')}) as name, end - start as length from {prefix}RUNTIME {whole}",
    )  # fmt: skip
    table(
        "os", "OSRT_API", ("nameId",), head, "name",
        f"select {string_of('nameId')} as name, end - start as length from OSRT_API {whole}",
    )  # fmt: skip
    coalesced = f"coalesce(text, {string_of('textId')})" if report.has("NVTX_EVENTS", "textId") else "text"
    table(
        "ranges", "NVTX_EVENTS", ("eventType", "domainId"), ["type", "domain", *head], "eventType, domainId, name",
        f"select eventType, domainId, without_running_numbers({coalesced}) as name, end - start as length from NVTX_EVENTS "
        f"where eventType in (59, 60, 70, 71) and end >= start",
    )  # fmt: skip
    out["open_ranges"] = (
        report.rows("select count(*) from NVTX_EVENTS where eventType in (59, 60, 70, 71) and end is null")[0][0]
        if report.has("NVTX_EVENTS", "eventType")
        else None
    )
    copies, sets = [], []
    if report.has(prefix + "MEMCPY", "copyKind", "bytes"):
        copies = [f"select copyKind as kind, end - start as length, bytes from {prefix}MEMCPY {whole}"]
    if report.has(prefix + "MEMSET", "bytes"):
        sets = [f"select -1 as kind, end - start as length, bytes from {prefix}MEMSET {whole}"]
    both = " union all ".join(copies + sets)

    def named(rows: list[tuple[Any, ...]]) -> list[list[Any]]:
        return [["memset" if row[0] == -1 else COPY_KINDS.get(row[0], "other"), *row] for row in rows]

    for key, column in (("memory_by_time", "length"), ("memory_by_size", "bytes")):
        source = f"select kind, {column} as length from ({both})" if both else ""
        found = named(report.statistics("kind", source)) if both else []
        out[key] = {"columns": ["operation", "kind", *STATISTICS], "rows": found} if both else None
    out["pageable_copies"] = (
        report.rows(
            f"select count(*), sum(end - start), sum(bytes) from {prefix}MEMCPY {whole} and copyKind in (1, 2) "
            f"and {PAGEABLE} in (srcKind, dstKind)"
        )[0]
        if report.has(prefix + "MEMCPY", "srcKind", "dstKind")
        else None
    )
    source = gpu_rows(report, unified=True)
    out["gpus"] = busy(report, source) if source else None
    less = gpu_rows(report, unified=False)
    out["gpus_without_unified"] = busy(report, less) if less else None
    out["launches"] = launches(report, source) if source else None
    return out


def hashed(figures: dict[str, Any]) -> dict[str, Any]:
    """The same with the names of each table as digests, and only its first rows."""
    for found in figures.values():
        if isinstance(found, dict) and "name" in found.get("columns", ()):
            place = found["columns"].index("name")
            found["length"] = len(found["rows"])
            found["rows"] = found["rows"][:HASHED]
            for row in found["rows"]:
                name = row[place]
                row[place] = name and hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()[:12]
    return figures


def main() -> None:
    """Writes the figures of one report."""
    hash_names = "--hash-names" in sys.argv
    out, name = [a for a in sys.argv[1:] if a != "--hash-names"]
    path = Path(name)
    figures = figures_of(path)
    result = {
        "file": {"name": path.name, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()},
        **(hashed(figures) if hash_names else figures),
    }
    lines = json.dumps(result, indent=1, sort_keys=True, ensure_ascii=False)
    Path(out).write_text(compact(json.loads(lines)) + "\n", encoding="utf-8")


def compact(value: Any, indent: str = "") -> str:
    """JSON with what holds no further lists or objects on one line."""
    inner = indent + " "
    if isinstance(value, dict) and any(isinstance(v, dict | list) for v in value.values()):
        items = [f"{inner}{json.dumps(k)}: {compact(v, inner)}" for k, v in value.items()]
        return "{\n" + ",\n".join(items) + "\n" + indent + "}"
    if isinstance(value, list) and any(isinstance(v, dict | list) for v in value):
        return "[\n" + ",\n".join(inner + compact(v, inner) for v in value) + "\n" + indent + "]"
    return json.dumps(value)


if __name__ == "__main__":
    main()
