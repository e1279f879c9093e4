"""What public metric files hold, by plain Python: ``python -m tests.golden.foreign.figures FOLDER`` imports each file that
figures.json names from its repository below FOLDER, and says what differs. ``--renew`` writes figures.json anew.

A repository is a folder OWNER+NAME/repo in FOLDER, bare or not. Times without a zone are taken as UTC.
"""

import csv
import hashlib
import io
import json
import re
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

HERE = Path(__file__).with_name("figures.json")
MIB = float(1 << 20)
BEGIN = 1700000000.0
QUERY = {
    "utilization.gpu": ("gpu_utilization", 0.01), "utilization.memory": ("memory_copy_utilization", 0.01),
    "memory.used": ("memory_used", MIB), "power.draw": ("power_usage", 1.0), "temperature.gpu": ("temperature", 1.0),
    "clocks.current.sm": ("sm_clock", 1.0), "clocks.sm": ("sm_clock", 1.0),
}  # fmt: skip
DMON = {"GPUTL": ("gpu_utilization", 0.01), "MCUTL": ("memory_copy_utilization", 0.01), "POWER": ("power_usage", 1.0),
        "TMPTR": ("temperature", 1.0), "FBUSD": ("memory_used", MIB)}  # fmt: skip
Figures = dict[str, Any]


def bytes_of(folder: Path, source: Figures) -> bytes | None:
    """A file at its commit, None where its repository is not below the folder."""
    repository = folder / source["repository"].replace("/", "+") / "repo"
    if not repository.exists():
        return None
    command = ["git", "-C", str(repository), "show", f"{source['commit']}:{source['path']}"]
    return subprocess.run(command, capture_output=True, check=True).stdout


def query(text: str) -> Figures:
    """``nvidia-smi --query-gpu``: GPUs by index, else one; metrics as (rows with a value, their mean)."""
    rows = list(csv.reader(io.StringIO(text), skipinitialspace=True))
    names = [name.partition(" [")[0] for name in rows[0]]
    values: dict[str, list[float]] = {}
    times, gpus = [], set()
    for row in rows[1:]:
        if len(row) != len(names):
            continue
        cells = dict(zip(names, row, strict=True))
        times.append(_time(cells["timestamp"]))
        gpus.add(cells.get("index", "0"))
        for name, (metric, factor) in QUERY.items():
            number = re.match(r"[\d.]+", cells.get(name, ""))
            if number:
                values.setdefault(metric, []).append(float(number[0]) * factor)
    return _figures(gpus, times, values)


def dmon(text: str) -> Figures:
    """``dcgmi dmon`` of one GPU, whose cells are all there: by order."""
    lines = text.splitlines()
    names = lines[0].split()[1:]
    rows = [line.split()[2:] for line in lines if line.startswith("GPU ")]
    values: dict[str, list[float]] = {}
    for row in rows:
        for name, cell in zip(names, row, strict=True):
            if name in DMON:
                metric, factor = DMON[name]
                values.setdefault(metric, []).append(float(cell) * factor)
    return _figures({"0"}, [BEGIN + number for number in range(len(rows))], values)


READ = {"query": query, "dmon": dmon}
OPTIONS = {"query": ("--timezone", "UTC"), "dmon": ("--start", str(BEGIN), "--interval", "1")}


def _time(text: str) -> float:
    shape = "%m-%d-%Y %H:%M:%S" if text[2] == "-" else "%Y/%m/%d %H:%M:%S.%f"
    return datetime.strptime(text, shape).replace(tzinfo=UTC).timestamp()


def _figures(gpus: set[str], times: list[float], values: dict[str, list[float]]) -> Figures:
    metrics = {name: [len(some), sum(some) / len(some), some[0], some[-1]] for name, some in sorted(values.items())}
    return {"gpus": len(gpus), "rows": len(times), "times": [min(times), max(times)], "metrics": metrics}


def imported(data: bytes, name: str, options: tuple[str, ...]) -> Figures:
    """The same figures of the recording that ``gssr import`` makes."""
    with tempfile.TemporaryDirectory() as folder:
        source, out = Path(folder) / name, Path(folder) / "out.sql"
        source.write_bytes(data)
        command = [sys.executable, "-m", "gssr", "import", str(source), "-o", str(out), *options]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            return {"refused": done.stderr.strip()}
        with closing(sqlite3.connect(out)) as connection:
            connection.row_factory = sqlite3.Row
            rows = [dict(row) for row in connection.execute("SELECT * FROM samples ORDER BY time, gpu")]
            gpus = connection.execute("SELECT count(*) FROM gpus").fetchone()[0]
    values: dict[str, list[float]] = {}
    for row in rows:
        for metric, value in row.items():
            if metric not in ("run_id", "gpu", "time") and value is not None:
                values.setdefault(metric, []).append(value)
    return _figures({str(number) for number in range(gpus)}, [row["time"] for row in rows], values)


def differences(found: Figures, meant: Figures) -> list[str]:
    """Sentences; numbers may differ in the last digits, temperatures by what whole degrees leave out."""
    if "refused" in found:
        return [found["refused"]]
    wrong = [f"{key}: {found[key]} for {meant[key]}" for key in ("gpus", "rows") if found[key] != meant[key]]
    if any(abs(a - b) > 0.002 for a, b in zip(found["times"], meant["times"], strict=True)):
        wrong.append(f"times: {found['times']} for {meant['times']}")
    for name in {*found["metrics"], *meant["metrics"]}:
        a, b = (one["metrics"].get(name) for one in (found, meant))
        if a is None or b is None or a[0] != b[0]:
            wrong.append(f"{name}: {a} for {b}")
        else:
            near = 0.51 if name == "temperature" else 0.0
            if any(abs(x - y) > max(1e-6 * abs(y), near) for x, y in zip(a[1:], b[1:], strict=True)):
                wrong.append(f"{name}: {a} for {b}")
    return wrong


def main(folder: Path, renew: bool) -> int:
    """Exit code 1 where something differs."""
    sources, bad = json.loads(HERE.read_text(encoding="utf-8")), 0
    for source in sources:
        data = bytes_of(folder, source)
        where = f"{source['repository']}@{source['commit'][:7]}:{source['path']}"
        if data is None:
            print(f"{where}: not there")
            continue
        if renew:
            source |= {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
            source["figures"] = READ[source["kind"]](data.decode())
            continue
        assert hashlib.sha256(data).hexdigest() == source["sha256"], where
        wrong = differences(imported(data, Path(source["path"]).name, OPTIONS[source["kind"]]), source["figures"])
        bad += bool(wrong)
        print(f"{where}: {'; '.join(wrong) or 'the same'}")
    if renew:
        HERE.write_text("[\n" + ",\n".join(map(json.dumps, sources)) + "\n]\n", encoding="utf-8")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), "--renew" in sys.argv))
