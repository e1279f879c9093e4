"""Has HolisticTraceAnalysis 0.5 (of a venv of its own) analyse traces, and keeps its figures as JSON.

``python make_hta.py OUT.json [--hash-names] TRACE…``: the traces are ranks 0, 1, … of one run. ``--hash-names`` keeps the 40
kernels with most time only and, in place of their names, the first 12 digits of the names' SHA-256: what figures of other
people's files are compared by. A table is {"columns": […], "rows": [[…]]}; times are in µs, as HTA gives them.
"""

import gzip
import hashlib
import json
import shutil
import sys
import tempfile
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

from hta.trace_analysis import TraceAnalysis

HASHED = 40
SHORT_RUNTIME_US, LONG_DELAY_US = 50, 100  # HTA's default cutoffs


Table = dict[str, list[Any]]


def rows(frame: Any) -> Table:
    """A data frame's rows, with missing values as null."""
    if frame is None:
        return {"columns": [], "rows": []}
    frame = frame.copy()
    frame.columns = [" ".join(c).strip() if isinstance(c, tuple) else c for c in frame.columns]
    table = json.loads(frame.to_json(orient="split"))
    return {"columns": table["columns"], "rows": table["data"]}


def attempt(figures: dict[str, Any], key: str, made: Callable[[], Any]) -> None:
    """Keeps what ``made`` gives, or what HTA says of why it can't: many traces lack what one of its analyses needs."""
    try:
        figures[key] = made()
    except Exception as error:  # HTA raises of all kinds
        figures[key] = {"error": f"{type(error).__name__}: {error}"[:120]}


def launches(analysis: TraceAnalysis, ranks: list[int]) -> list[dict[str, Any]]:
    """HTA's launches per rank, as counts and sums in whole µs (its own histograms are only drawn)."""
    out = []
    for rank, table in analysis.get_cuda_kernel_launch_stats(ranks=ranks, visualize=False).items():
        delay = table["launch_delay"]
        short = (table["gpu_duration"] < table["cpu_duration"]) & (table["cpu_duration"] <= SHORT_RUNTIME_US)
        out.append(
            {
                "rank": rank,
                "count": len(table),
                "delay_sum": float(delay.sum()),
                "delay_median": float(delay.median()) if len(table) else None,
                "delay_max": float(delay.max()) if len(table) else None,
                "cpu_sum": float(table["cpu_duration"].sum()),
                "gpu_sum": float(table["gpu_duration"].sum()),
                "short_kernels": int(short.sum()),
                "long_runtimes": int((table["cpu_duration"] > SHORT_RUNTIME_US).sum()),
                "long_delays": int((delay > LONG_DELAY_US).sum()),
            }
        )
    return out


def figures_of(traces: list[Path], hash_names: bool, include_last_step: bool) -> dict[str, Any]:
    """All of HTA's figures. µs, as HTA gives them."""
    figures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        files = {}
        for rank, trace in enumerate(traces):
            copy = Path(folder, f"rank-{rank}.json.gz")  # HTA goes by suffixes
            if trace.suffix == ".gz":
                shutil.copy(trace, copy)
            else:
                copy.write_bytes(gzip.compress(trace.read_bytes(), 1))
            files[rank] = str(copy)
        try:
            analysis = TraceAnalysis(trace_files=files, trace_dir=folder, include_last_profiler_step=include_last_step)
        except Exception as error:
            return {"error": f"{type(error).__name__}: {error}"[:120]}
        attempt(figures, "temporal_breakdown", lambda: rows(analysis.get_temporal_breakdown(visualize=False)))
        attempt(figures, "overlap", lambda: rows(analysis.get_comm_comp_overlap(visualize=False)))

        def kernels() -> dict[str, Any]:
            types, each = analysis.get_gpu_kernel_breakdown(visualize=False, duration_ratio=1.0, num_kernels=10**6)
            if hash_names:
                each = each.sort_values("sum (us)", ascending=False).head(HASHED).copy()
                each["name"] = [hashlib.sha256(n.encode("utf-8", "replace")).hexdigest()[:12] for n in each["name"]]
            listed = rows(each)
            return {"types": rows(types), "kernels": listed}

        attempt(figures, "kernel_breakdown", kernels)
        ranks = sorted(analysis.t.get_all_traces())
        figures["ranks"] = [int(rank) for rank in ranks]

        attempt(figures, "idle", lambda: rows(analysis.get_idle_time_breakdown(ranks=ranks, visualize=False)[0]))
        attempt(figures, "launches", lambda: launches(analysis, ranks))

        def flat(frame: Any) -> Table:
            return rows(frame.reset_index() if frame is not None else None)

        attempt(figures, "memory_bandwidth", lambda: flat(analysis.get_memory_bw_summary(ranks=ranks)))
        attempt(figures, "queue_length", lambda: flat(analysis.get_queue_length_summary(ranks=ranks)))
    return figures


def one_row_a_line(value: Any, indent: str = "") -> str:
    """JSON with what holds no further lists or objects on one line."""
    inner = indent + " "
    if isinstance(value, dict) and any(isinstance(v, dict | list) for v in value.values()):
        items = [f"{inner}{json.dumps(k)}: {one_row_a_line(v, inner)}" for k, v in sorted(value.items())]
        return "{\n" + ",\n".join(items) + "\n" + indent + "}"
    if isinstance(value, list) and any(isinstance(v, dict | list) for v in value):
        return "[\n" + ",\n".join(inner + one_row_a_line(v, inner) for v in value) + "\n" + indent + "]"
    return json.dumps(value, sort_keys=True)


def main() -> None:
    """Writes one JSON file of the traces named."""
    hash_names = "--hash-names" in sys.argv
    out, *names = [a for a in sys.argv[1:] if a != "--hash-names"]
    traces = [Path(name) for name in names]
    result = {
        "tool": f"HolisticTraceAnalysis {version('HolisticTraceAnalysis')}",
        "files": [{"name": trace.name, "sha256": hashlib.sha256(trace.read_bytes()).hexdigest()} for trace in traces],
        "without_last_step": figures_of(traces, hash_names, False),
        "whole": figures_of(traces, hash_names, True),
    }
    if result["whole"] == result["without_last_step"]:
        result["whole"] = "the same"
    Path(out).write_text(one_row_a_line(result) + "\n")


if __name__ == "__main__":
    main()
