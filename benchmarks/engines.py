"""The same three questions to ``gssr fleet`` and to other engines, from exported Parquet: the answers must agree.

Dask and Spark are run where an interpreter is named that has them: GSSR_BENCHMARK_DASK, GSSR_BENCHMARK_SPARK.
"""

import json
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks import fleet
from benchmarks.processes import CACHE, ENVIRONMENT, GSSR, PYTHON, run
from benchmarks.table import Figure

EXPORTED = "runs,gpus,summary,gpu_summary,verdicts,samples"
CLOSE = 1e-6
"""Samples are exported with 7 digits: so far may means of them be off."""
Key = tuple[Any, ...]


def interpreters() -> dict[str, str | Path]:
    """By engine the Python that has it."""
    found: dict[str, str | Path] = {"DuckDB": PYTHON}
    for engine in ("Dask", "Spark"):
        if python := os.environ.get(f"GSSR_BENCHMARK_{engine.upper()}"):
            found[engine] = python
        else:
            print(f"{engine}: not run; GSSR_BENCHMARK_{engine.upper()} names no Python that has it", file=sys.stderr)
    return found


def measure(recordings: int = 50, hours: float = 0.1) -> Iterator[Figure]:
    """Whole processes, with their start. A wrong answer is a difference, whose limit is 0."""
    with tempfile.TemporaryDirectory(dir=CACHE) as name:
        folder = Path(name)
        fleet.make(folder / "recordings", recordings, hours)
        run((*GSSR, "export", folder / "recordings", "-o", folder / "gssr_export", "--tables", EXPORTED))
        ours = _ours(folder)
        ask = Path(__file__).with_name("ask.py")
        what = f"{recordings} recordings of {fleet.GPUS} GPUs, {hours:g} h at 1 Hz"
        for engine, python in interpreters().items():
            said = folder / f"{engine}.json"
            there = ENVIRONMENT | {"PWD": str(folder)}
            cost = run(("env", "-C", folder, python, ask, engine), said, there)
            answers = json.loads(said.read_text(encoding="utf-8").splitlines()[-1])
            wrong = [text for key, values in ours.items() for text in differences(answers[key], values, key != "busy")]
            for text in wrong[:5]:
                print(f"{engine}: {text}", file=sys.stderr)
            yield Figure(f"{engine}, {what}: wall", cost.wall, "s")
            yield Figure(f"{engine}: differences from gssr fleet", len(wrong), "", 0)


def _ours(folder: Path) -> dict[str, dict[Key, float | None]]:
    """By question, what gssr says of each run, GPU and user."""
    import duckdb

    said = folder / "fleet.json"
    run((*GSSR, "fleet", folder / "recordings", "--json"), said)
    found = json.loads(said.read_text(encoding="utf-8"))
    rows = (
        duckdb.connect()
        .execute(
            f"SELECT run_id, gpu, sm_active FROM read_parquet('{folder}/gssr_export/gpu_summary/**/*.parquet',"
            " hive_partitioning = true, hive_types_autocast = false)"
        )
        .fetchall()
    )
    return {
        "wasted": {(each["run_id"],): each["wasted_gpu_hours"] for each in found["runs"]},
        "busy": {(run_id, gpu): value for run_id, gpu, value in rows},
        "hours": {(each["key"],): each["gpu_hours"] for each in found["groups"]["user"]},
    }


def differences(rows: Sequence[Sequence[Any]], ours: dict[Key, float | None], falling: bool) -> list[str]:
    """What is wrong with an engine's ranking (keys, then the value): sentences. Where our values are equal, their order is
    anything."""
    wrong, sign, before = [], -1.0 if falling else 1.0, -float("inf")
    keys = [tuple(row[:-1]) for row in rows]
    if sorted(keys) != sorted(ours):
        return [f"{len(keys)} rows for {len(ours)}, or others: {sorted(set(keys) ^ set(ours))[:3]}"]
    for key, row in zip(keys, rows, strict=True):
        value, mine = row[-1], ours[key]
        if value is None or mine is None or abs(value - mine) > CLOSE * max(abs(mine), 1e-3):
            wrong.append(f"{key} is {value} for {mine}")
        elif sign * mine < before - CLOSE * max(abs(before), 1e-3):
            wrong.append(f"{key} with {mine} stands after {sign * before}")
        else:
            before = sign * mine
    return wrong
