"""Holds `gssr analyze --json` (gssr.trace/1) against the figures of other tools.

``nsys_differences(found, figures)`` and ``hta_differences(found, golden)`` give sentences, [] where all agrees.
``python -m tests.golden.traces.check FOLDER…`` analyses each file there that a golden JSON of this folder names.
"""

import hashlib
import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
Found = dict[str, Any]  # gssr.trace/1
STATISTICS = {"count": "count", "total": "total_ns", "mean": "mean_ns", "median": "median_ns", "min": "min_ns",
              "max": "max_ns", "std": "std_ns"}  # fmt: skip
TYPES = {"compute": "COMPUTATION", "communication": "COMMUNICATION", "copy": "MEMORY"}
ORDER = ("compute", "communication", "copy")
CLOSE = 1e-9  # of means and the like; counts and sums are whole


def digest(name: str) -> str:
    """How names stand in goldens of files that are not here."""
    return hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()[:12]


def dicts(table: dict[str, list[Any]]) -> list[dict[str, Any]]:
    """The rows of a golden's table."""
    return [dict(zip(table["columns"], row, strict=True)) for row in table["rows"]]


def agree(a: float | None, b: float | None) -> bool:
    """Equal but for the last digits of a float."""
    if a is None or b is None:
        return a is b
    return math.isclose(a, b, rel_tol=CLOSE, abs_tol=1e-6)


def by_name(rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The rows of a found table by name and by digest of the name."""
    return {key: row for row in rows for key in (row["name"], digest(row["name"]))}


def nsys_differences(found: Found, figures: dict[str, Any]) -> list[str]:
    """What differs between an analysed report and make_nsys's figures of it."""
    said = []
    for key in ("kernels", "api"):
        table = figures.get(key)
        if not table:
            continue
        ours = by_name(found[key])
        length = table.get("length", len(table["rows"]))
        if len(found[key]) != length:
            said.append(f"{key}: {len(found[key])} names for {length}")
        for row in dicts(table):
            mine = ours.get(row["name"] or "")
            if mine is None:
                said.append(f"{key}: {row['name']} is not there")
                continue
            said += [
                f"{key}: {row['name']}: {name} {mine[name]} for {row[theirs]}"
                for theirs, name in STATISTICS.items()
                if not agree(mine[name], row[theirs])
            ]
    for key, name in (("memory_by_time", "total_ns"), ("memory_by_size", "bytes")):
        ours = {row["operation"]: row for row in found["copies"]}
        for row in dicts(figures[key]) if figures.get(key) else []:
            mine = ours.get(row["operation"])
            if mine is None or (mine["count"], mine[name]) != (row["count"], row["total"]):
                said.append(f"copies: {row['operation']}: {mine} for {row['count']}, {name} {row['total']}")
    wanted = [(r["count"], r["span"], r["busy"]) for r in dicts(figures["gpus"])] if figures.get("gpus") else []
    if sorted((r["span_ns"], r["busy_ns"]) for r in found["ranks"] if r["span_ns"]) != sorted(
        w[1:] for w in wanted if w[1]
    ):
        ours_said = [(r["span_ns"], r["busy_ns"]) for r in found["ranks"]]
        said.append(f"ranks: (span, busy) {ours_said} for {[w[1:] for w in wanted]}")
    if figures.get("ranges"):
        types: dict[tuple[str, int], tuple[int, int]] = {}
        for row in dicts(figures["ranges"]):
            key_of = (row["name"] or "", row["domain"])
            before = types.get(key_of, (0, 0))
            types[key_of] = (before[0] + row["count"], before[1] + row["total"])
        mine_of: dict[str, list[int]] = {}
        for row in found["ranges"]:
            bare = row["name"].removeprefix(f"{row.get('domain')}:")  # a range's name begins with its domain
            for name in (bare, digest(bare)):
                total = mine_of.setdefault(name, [0, 0])
                total[0] += row["count"]
                total[1] += row["total_ns"]
        for name in dict.fromkeys(name for name, _ in types):
            theirs_of = [sum(t[i] for (n, _), t in types.items() if n == name) for i in (0, 1)]
            if mine_of.get(name) != theirs_of and not figures.get("open_ranges"):
                said.append(f"ranges: {name}: {mine_of.get(name)} for {theirs_of}")
    return said


def hta_differences(found: Found, golden: dict[str, Any]) -> list[str]:
    """What differs between an analysis with --like-hta and make_hta's figures, to the digit that HTA prints."""
    figures = golden["without_last_step"]
    said = []
    ours = sorted(found["ranks"], key=lambda row: row["rank"] if row["rank"] is not None else -1)
    columns = {"idle_time(us)": "idle_ns", "compute_time(us)": "compute_ns", "kernel_time(us)": "span_ns"}
    times = dicts(figures["temporal_breakdown"])
    if len(times) != len(ours):
        return [f"{len(ours)} GPUs for {len(times)}"]
    for row, mine in zip(times, ours, strict=True):
        values = {theirs: mine[name] / 1000 for theirs, name in columns.items()}
        values["non_compute_time(us)"] = (mine["busy_ns"] - mine["compute_ns"]) / 1000
        said += [f"rank {row['rank']}: {k} {v} for {row[k]}" for k, v in values.items() if v != row[k]]
    for row, mine in zip(dicts(figures["overlap"]), ours, strict=True):
        value = round(100 * mine["overlap"], 2) if mine["overlap"] is not None else None
        if (value or 0.0) != (row["comp_comm_overlap_pctg"] or 0.0):
            said.append(f"rank {row['rank']}: overlap {value} for {row['comp_comm_overlap_pctg']}")
    sums: dict[str, int] = {}
    for row in found["kernel_types"]:
        name = " overlapping ".join(TYPES[kind] for kind in ORDER if kind in row["types"])
        sums[name] = sums.get(name, 0) + row["total_ns"]
    for row in dicts(figures["kernel_breakdown"]["types"]):
        if sums.get(row["kernel_type"], 0) != row["sum"] * 1000:
            said.append(f"types: {row['kernel_type']}: {sums.get(row['kernel_type'])} ns for {row['sum']} us")
    mine_of = by_name(found["kernels"])
    totals: dict[str, tuple[int, float]] = {}
    for row in dicts(figures["kernel_breakdown"]["kernels"]):
        before = totals.get(row["name"], (0, 0.0))
        totals[row["name"]] = (before[0] + 1, before[1] + row["sum (us)"])
    for name, (n_ranks, total) in totals.items():
        if n_ranks == len(times) and (name not in mine_of or not agree(mine_of[name]["total_ns"], total * 1000)):
            said.append(f"kernels: {name}: {mine_of.get(name, {}).get('total_ns')} ns for {total} us")
    if isinstance(figures["idle"], dict) and "rows" in figures["idle"]:
        waits = {"host_wait": 0.0, "kernel_wait": 0.0}
        for row in dicts(figures["idle"]):
            if row["idle_category"] in waits:
                waits[row["idle_category"]] += row["idle_time"]
        idle = {row["cause"]: row["total_ns"] for row in found["idle"]}
        for theirs, cause in (("host_wait", "host"), ("kernel_wait", "launch")):
            if not agree(idle.get(cause, 0), waits[theirs] * 1000):
                said.append(f"idle: {cause}: {idle.get(cause, 0)} ns for {waits[theirs]} us")
    launched = figures["launches"]
    if isinstance(launched, list) and sum(row["count"] for row in launched):
        count = sum(row["count"] for row in launched)
        mean = sum(row["delay_sum"] for row in launched) / count * 1000
        wanted = {
            "count": count, "short_kernels": sum(row["short_kernels"] for row in launched),
            "long_delays": sum(row["long_delays"] for row in launched),
        }  # fmt: skip
        said += [
            f"launches: {k} {found['launches'][k]} for {v}" for k, v in wanted.items() if found["launches"][k] != v
        ]
        if not agree(found["launches"]["delay_ns"]["mean"], mean):
            said.append(f"launches: mean delay {found['launches']['delay_ns']['mean']} for {mean}")
    return said


def main() -> int:
    """Prints what differs; the exit code is the number of goldens that do."""
    there = {path.name: path for folder in sys.argv[1:] for path in Path(folder).rglob("*") if path.is_file()}
    bad = 0
    for golden in sorted([*HERE.glob("hta-*.json"), *HERE.glob("nsys-*.json")]):
        figures = json.loads(golden.read_text(encoding="utf-8"))
        files = [row["name"] for row in figures.get("files", [figures.get("file")])]
        if not all(name in there for name in files):
            print(f"{golden.name}: not there: {', '.join(files)}")
            continue
        hta = golden.name.startswith("hta-")
        command = [sys.executable, "-m", "gssr", "analyze", "--json", *(["--like-hta"] if hta else [])]
        done = subprocess.run(
            [*command, *(str(there[name]) for name in files)], capture_output=True, text=True, check=False
        )
        if not done.stdout:
            print(f"{golden.name}: exit code {done.returncode}: {done.stderr.strip()[-300:]}")
            bad += 1
            continue
        found = json.loads(done.stdout)
        said = hta_differences(found, figures) if hta else nsys_differences(found, figures)
        print(f"{golden.name}: {'agrees' if not said else f'{len(said)} differences'}")
        for sentence in said[:8]:
            print(f"    {sentence}")
        bad += bool(said)
    return bad


if __name__ == "__main__":
    sys.exit(main())
