"""How long ``gssr analyze`` takes for 64 GPUs x 1 h x 10 Hz, against reading it all into pandas, which gives the same
numbers."""

import json
import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.processes import CACHE, GSSR, MB, PYTHON, Cost, median, run
from benchmarks.table import Figure

GPUS, HOURS, INTERVAL_MS = 64, 1, 100
WITH_PANDAS = Path(__file__).parent / "with_pandas.py"
IMPORTS = {
    "gssr": "import gssr.cli, gssr.store.reader, gssr.model.analyze, gssr.report.document",
    "pandas": "import json, sqlite3, pandas",
}


def measure(repeats: int = 3) -> Iterator[Figure]:
    """Each as a process of its own, by turns, the file in the page cache; and what only starting the interpreter and
    importing the same modules takes. Raises RuntimeError when the two don't agree on the numbers."""
    path = recording()
    _read_once(path)
    whole: dict[str, list[Cost]] = {"gssr": [], "page": [], "pandas": []}
    imports: dict[str, list[Cost]] = {"gssr": [], "pandas": []}
    with tempfile.TemporaryDirectory(dir=CACHE) as folder:
        ours, theirs = Path(folder) / "gssr", Path(folder) / "pandas"
        for _ in range(repeats):
            for name, code in IMPORTS.items():
                imports[name].append(run((PYTHON, "-c", code)))
            whole["gssr"].append(run((*GSSR, "analyze", path, "--json"), ours))
            whole["page"].append(run((*GSSR, "analyze", path, "--terminal")))
            whole["pandas"].append(run((PYTHON, WITH_PANDAS, path), theirs))
        _compare(json.loads(ours.read_text()), json.loads(theirs.read_text()))
    for name, title in (("gssr", "gssr analyze --json"), ("pandas", "pandas"), ("page", "gssr analyze --terminal")):
        cost = median(whole[name])
        yield Figure(f"analyze, {title}: wall clock", cost.wall, "s")
        yield Figure(f"analyze, {title}: CPU", cost.cpu, "s")
        if name in imports:
            own = median(imports[name])
            yield Figure(f"analyze, {title}: wall clock to start and import", own.wall, "s")
            yield Figure(f"analyze, {title}: CPU to start and import", own.cpu, "s")
        yield Figure(f"analyze, {title}: peak resident memory", cost.rss / MB, "MB")
    turns = list(zip(whole["pandas"], whole["gssr"], strict=True))
    yield Figure("analyze, pandas / gssr: wall clock", statistics.median(a.wall / b.wall for a, b in turns), "times")
    yield Figure("analyze, pandas / gssr: peak memory", statistics.median(a.rss / b.rss for a, b in turns), "times")


def recording() -> Path:
    """The recording, made when it isn't there yet."""
    path = CACHE / f"train-{GPUS}-gpus-{HOURS}-h.sql"
    if not path.exists():
        options = ("--gpus", str(GPUS), "--hours", str(HOURS), "-t", str(INTERVAL_MS), "-o", path)
        run((PYTHON, "-m", "gssr.backends.synthetic", "train", *options))
    return path


def _read_once(path: Path) -> None:
    with path.open("rb") as stream:
        while stream.read(1 << 24):
            pass


def _compare(ours: dict, theirs: dict) -> None:  # type: ignore[type-arg]
    run_ = ours["runs"][0]
    for name, statistics_ in theirs["metrics"].items():
        found = run_["metrics"][name]
        for key, value in statistics_.items():
            slack = found["p_error"] if key in ("p05", "median", "p95") else 0.0
            if abs(found[key] - value) > slack + 1e-9 * abs(value):
                raise RuntimeError(f"{name}: {key} is {found[key]} by gssr, {value} by pandas")
    for gpu in run_["gpus"]:
        for name, value in theirs["gpus"][str(gpu["gpu"])].items():
            if abs(gpu["mean"][name] - value) > 1e-9 * abs(value):
                raise RuntimeError(f"{name} of GPU {gpu['gpu']}: {gpu['mean'][name]} by gssr, {value} by pandas")
