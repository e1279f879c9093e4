"""What Nsight Compute writes of a few launches, in each of its layouts: CSV of the pages "details" and "raw" and of
summaries as ncu 2022 to 2025 print them, and what its package ncu-report says of a report.

The layouts are those of public files (ncu 2021.2 to 2025.3); the launches are made up, so that every figure is known.
"""

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

BANNER = (
    "==PROF== Connected to process 4711 (/usr/bin/python3.11)",
    '==PROF== Profiling "gemm" - 0: 0%....50%....100% - 9 passes',
    'loading "the data',
    "step 1, loss 0.5",
)
STALLS = {"long_scoreboard": 6.0, "wait": 2.0, "barrier": 1.0, "not_selected": 0.5, "selected": 1.0}
"""Warp cycles for an instruction, 10.5 in all."""


class Launch(NamedTuple):
    """A launch: ``flop`` per cycle of additions, multiplications and fused ones (each two), ``dram`` bytes/s."""

    name: str
    grid: tuple[int, int, int]
    ns: float
    sm: float
    memory: float
    occupancy: tuple[float, float]
    flop: tuple[float, float, float] = (10.0, 30.0, 480.0)
    dram: float = 500e9
    advice: tuple[tuple[str, str, str, str, str], ...] = ()


GEMM = Launch("void gemm<float, 128>(float *, const float *, int)", (64, 8, 1), 375_000.0, 80.5, 40.25, (45.5, 50.0),
              (100.0, 300.0, 30_000.0),
              advice=(("SOLBottleneck", "INF", "The kernel is utilizing greater than 80.0% of the compute.", "", ""),
                      ("TheoreticalOccupancy", "OPT", 'Limited by "registers".', "global", "12.50")))  # fmt: skip
COPY = Launch("copy_kernel", (1024, 1, 1), 12_500.0, 5.25, 91.0, (88.0, 100.0), (0.0, 0.0, 0.0))
LAUNCHES = (GEMM, COPY, GEMM._replace(ns=380_000.0))
CLOCK, PEAK_FLOP, PEAK_BYTES, MEMORY_CLOCK = 1.5e9, 43_520.0, 640.0, 2.5e9
"""Hz; operations and bytes per cycle at the GPU's peak."""
_FMA = "sass_thread_inst_executed_op_ffma_pred_on"


def metrics(launch: Launch) -> dict[str, tuple[str, float]]:
    """The metrics of a launch, by name their unit and value."""
    add, multiply, fused = launch.flop
    found = {
        "gpu__time_duration.sum": ("us", launch.ns / 1000),
        "sm__throughput.avg.pct_of_peak_sustained_elapsed": ("%", launch.sm),
        "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed": ("%", launch.memory),
        "sm__warps_active.avg.pct_of_peak_sustained_active": ("%", launch.occupancy[0]),
        "sm__maximum_warps_per_active_cycle_pct": ("%", launch.occupancy[1]),
        "launch__registers_per_thread": ("register/thread", 128),
        "smsp__sass_thread_inst_executed_op_fadd_pred_on.sum.per_cycle_elapsed": ("inst/cycle", add),
        "smsp__sass_thread_inst_executed_op_fmul_pred_on.sum.per_cycle_elapsed": ("inst/cycle", multiply),
        f"derived__smsp__{_FMA}_x2": ("inst", fused),
        f"derived__sm__{_FMA}_x2": ("inst", PEAK_FLOP),
        "smsp__cycles_elapsed.avg.per_second": ("Ghz", CLOCK / 1e9),
        "sm__cycles_elapsed.avg.per_second": ("cycle/nsecond", CLOCK / 1e9),
        "dram__bytes.sum.per_second": ("Gbyte/s", launch.dram / 1e9),
        "dram__bytes.sum.peak_sustained": ("byte/cycle", PEAK_BYTES),
        "dram__cycles_elapsed.avg.per_second": ("Ghz", MEMORY_CLOCK / 1e9),
        "smsp__pcsamp_warps_issue_stalled_wait_not_issued": ("", 7),
    }
    found |= {f"smsp__average_warps_issue_stalled_{name}_per_issue_active.ratio": ("inst", value)
              for name, value in STALLS.items()}  # fmt: skip
    return found


def _details(launch: Launch) -> list[tuple[str, str, str, str, str]]:
    """Rows of the page "details" (section, part of its chart, label, unit, value) with ``--print-details all``."""
    add, multiply, fused = launch.flop
    light, roofline = "GPU Speed Of Light Throughput", "GPU Speed Of Light Roofline Chart"
    achieved, roof = "Single Precision Achieved Value", "Single Precision Roofline"
    return [
        (light, "", "DRAM Frequency", "Ghz", "2.50"), (light, "", "Elapsed Cycles", "cycle", "13,485"),
        (light, "", "Memory Throughput", "%", f"{launch.memory:.2f}"),
        (light, "", "Duration", "us", f"{launch.ns / 1e3:,.2f}"),
        (light, "", "Compute (SM) Throughput", "%", f"{launch.sm:.2f}"), (light, "", "SM Frequency", "Ghz", "1.30"),
        ("Memory Workload Analysis", "", "Memory Throughput", "Gbyte/s", f"{launch.dram / 1e9:.2f}"),
        ("Occupancy", "", "Theoretical Occupancy", "%", f"{launch.occupancy[1]:g}"),
        ("Occupancy", "", "Achieved Occupancy", "%", f"{launch.occupancy[0]:g}"),
        ("Launch Statistics", "", "Registers Per Thread", "register/thread", "128"),
        (roofline, "", "Predicated-On FFMA Thread Instructions Executed Per Cycle", "inst/cycle", f"{fused / 2:,.2f}"),
        (roofline, roof, "Theoretical Predicated-On FFMA Operations", "inst", f"{PEAK_FLOP:,.0f}"),
        (roofline, roof, "SM Frequency", "Ghz", "1.50"),
        (roofline, roof, "Theoretical DRAM Bytes Accessible", "byte/cycle", f"{PEAK_BYTES:g}"),
        (roofline, achieved, "Predicated-On FFMA Operations Per Cycle", "inst", f"{fused:,.2f}"),
        (roofline, achieved, "SM Frequency", "Ghz", "1.50"),
        (roofline, achieved, "Predicated-On FADD Thread Instructions Executed Per Cycle", "inst/cycle", f"{add:,.2f}"),
        (roofline, achieved, "Predicated-On FMUL Thread Instructions Executed Per Cycle", "inst/cycle", f"{multiply:,.2f}"),
        (roofline, achieved, "DRAM Bandwidth", "Gbyte/s", f"{launch.dram / 1e9:.2f}"),
        *(("Warp State Statistics", "Warp State", "Selected" if name == "selected" else
           f"Stall {name.replace('_', ' ').title()}", "inst", f"{value:g}") for name, value in STALLS.items()),
        ("Command line profiler metrics", "", "flop_count_hp.sum", "", "n/a"),
    ]  # fmt: skip


def _csv(rows: Sequence[Sequence[object]]) -> list[str]:
    text = io.StringIO()
    csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(rows)
    return text.getvalue().splitlines()


def _sides(grid: Sequence[int]) -> str:
    return f"({', '.join(map(str, grid))})"


_HEAD = ("ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream", "Block Size", "Grid Size",
         "Device", "CC")  # fmt: skip
_RULE = ("Rule Name", "Rule Type", "Rule Description", "Estimated Speedup Type", "Estimated Speedup")


def _before(at: int, launch: Launch) -> tuple[object, ...]:
    return (at, 4711, "python3.11", "127.0.0.1", launch.name, 1, 7, "(256, 1, 1)", _sides(launch.grid), 0, "9.0")


def details(launches: Sequence[Launch] = LAUNCHES) -> str:
    """``ncu --csv --print-details all``."""
    rows: list[Sequence[object]] = [
        (*_HEAD, "Section Name", "Body Item Label", "Metric Name", "Metric Unit", "Metric Value", *_RULE)
    ]
    for at, launch in enumerate(launches):
        rows += [(*_before(at, launch), *row) for row in _details(launch)]
        rows += [(*_before(at, launch), "SpeedOfLight", "", "", "", "", *rule) for rule in launch.advice]
    return "\n".join([*BANNER, *_csv(rows), "==PROF== Disconnected from process 4711", ""])


def raw(launches: Sequence[Launch] = LAUNCHES) -> str:
    """``ncu --csv --page raw``."""
    own = metrics(launches[0])
    rows: list[Sequence[object]] = [(*_HEAD, *own), (*[""] * len(_HEAD), *(unit for unit, _ in own.values()))]
    for at, launch in enumerate(launches):
        values = [f"{value:,.6f} (1; 2)" if at else f"{value:,.6f}" for _, value in metrics(launch).values()]
        rows.append((*_before(at, launch), *values))
    return "\n".join([*BANNER, *_csv(rows), ""])


def listed(launches: Sequence[Launch] = LAUNCHES) -> str:
    """``ncu --csv --metrics ...``: a row for each metric, under its name."""
    rows: list[Sequence[object]] = [(*_HEAD, "Section Name", "Metric Name", "Metric Unit", "Metric Value")]
    for at, launch in enumerate(launches):
        for name, (unit, value) in metrics(launch).items():
            rows.append((*_before(at, launch), "Command line profiler metrics", name, unit, f"{value:,.6f}"))
    return "\n".join([*BANNER, *_csv(rows), ""])


def summary() -> str:
    """``ncu --csv --print-summary per-kernel`` of these launches, those of one name and shape in the mean."""
    rows: list[Sequence[object]] = [
        ("Process ID", "Process Name", "Host Name", "Kernel Name", "Block Size", "Grid Size", "Device", "CC", "Invocations",
         "Section Name", "Metric Name", "Metric Unit", "Minimum", "Maximum", "Average")
    ]  # fmt: skip
    for name, grid in dict.fromkeys((launch.name, launch.grid) for launch in LAUNCHES):
        same = [metrics(launch) for launch in LAUNCHES if (launch.name, launch.grid) == (name, grid)]
        for metric, (unit, _) in same[0].items():
            values = [own[metric][1] for own in same]
            before = (4711, "python3.11", "127.0.0.1", name, "(256, 1, 1)", _sides(grid), 0, "9.0", len(same))
            rows.append((*before, "S", metric, unit, min(values), max(values), f"{sum(values) / len(values):.6f}"))
    return "\n".join([*BANNER, *_csv(rows), ""])


PACKAGE = """
import json, os, time
class _Metric:
    def __init__(self, unit, value): self._unit, self._value = unit, value
    def unit(self): return self._unit
    def value(self): return self._value
class IAction:
    NameBase_DEMANGLED = 1
    def __init__(self, told): self._told = told
    def name(self, base): return self._told["name"]
    def metric_names(self): return tuple(self._told["metrics"])
    def metric_by_name(self, name):
        found = self._told["metrics"].get(name)
        return None if found is None else _Metric(*found)
    def rule_results_as_dicts(self): return self._told["rules"]
def load_report(path):
    told = json.loads(open(path, "rb").read()[4:])
    if "do" in told: exec(told["do"])
    return [[IAction(each) for each in told["launches"]]]
"""
"""A package ncu_report with what is used of NVIDIA's, as its documentation describes it: a report is JSON behind the real
file's first bytes, and may hold what the native code is to do, such as to crash."""


def report(launches: Sequence[Launch] = LAUNCHES, do: str | None = None) -> bytes:
    """A report for that package."""
    import json

    kinds = {"INF": 1, "OPT": 2}
    told = [
        {
            "name": launch.name,
            "metrics": metrics(launch)
            | {f"launch__grid_dim_{axis}": ("", side) for axis, side in zip("xyz", launch.grid, strict=True)}
            | {f"launch__block_dim_{axis}": ("block", side) for axis, side in zip("xyz", (256, 1, 1), strict=True)}
            | {"device__attribute_display_name": ("", "NVIDIA H100"), "sass__inst": ("inst", None)},
            "rules": [
                {"rule_identifier": rule, "rule_message": {"title": rule, "message": f"{text} See @section:A:Occupancy@.",
                                                           "type": kinds[kind]}}
                | ({"speedup_estimation": {"type": 2, "speedup": float(gain)}} if gain else {})
                for rule, kind, text, _, gain in launch.advice
            ],
        }
        for launch in launches
    ]  # fmt: skip
    return b"NVR\0" + json.dumps({"launches": told} | ({"do": do} if do else {})).encode()


def installed(folder: Path) -> Path:
    """Write the package into a folder, which is to be in PYTHONPATH."""
    (folder / "ncu_report").mkdir(parents=True)
    (folder / "ncu_report" / "__init__.py").write_text(PACKAGE)
    return folder
