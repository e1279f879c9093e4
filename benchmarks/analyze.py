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
WITH_PANDAS = Path(__file__).with_name("with_pandas.py")
LEAST_TIMES, LEAST_TIMES_EXACT, LEAST_SHARE = 50.0, 8.0, 10.0
"""So many times faster than pandas, starting apart, from rollups and from every sample; and so much less memory."""
TITLES = {
    "gssr": "gssr analyze --json", "exact": "gssr analyze --json --exact", "pandas": "pandas",
    "page": "gssr analyze --terminal",
}  # fmt: skip
_BEGIN = (
    "import os; os.environ['OPENBLAS_NUM_THREADS'] = '1'; import gssr.cli, gssr.commands.analyze, gssr.model.analyze"
)
_LEAVE = "os._exit(0)"  # at once, as gssr does
IMPORTS = {
    "gssr": f"{_BEGIN}, gssr.report.json_document; {_LEAVE}",
    "page": f"{_BEGIN}, gssr.report.terminal, numpy.fft, numpy.ma; {_LEAVE}",
    "pandas": "import json, sqlite3, pandas",
}


def measure(repeats: int = 3) -> Iterator[Figure]:
    """Each as a process of its own, by turns, the file in the page cache; and what only starting the interpreter and
    importing the same modules takes. Raises RuntimeError when they don't agree on the numbers."""
    path = recording()
    read_once(path)
    whole: dict[str, list[Cost]] = {name: [] for name in TITLES}
    imports: dict[str, list[Cost]] = {name: [] for name in IMPORTS}
    with tempfile.TemporaryDirectory(dir=CACHE) as folder:
        ours, exactly, theirs = (Path(folder) / name for name in ("gssr", "exact", "pandas"))
        for _ in range(repeats):
            for name, code in IMPORTS.items():
                imports[name].append(run((PYTHON, "-c", code)))
            whole["gssr"].append(run((*GSSR, "analyze", path, "--json"), ours))
            whole["exact"].append(run((*GSSR, "analyze", path, "--json", "--exact"), exactly))
            whole["page"].append(run((*GSSR, "analyze", path, "--terminal")))
            whole["pandas"].append(run((PYTHON, WITH_PANDAS, path), theirs))
        for found in (ours, exactly):
            _compare(json.loads(found.read_text()), json.loads(theirs.read_text()), 1e-9)
    for name, title in TITLES.items():
        cost = median(whole[name])
        yield Figure(f"analyze, {title}: wall clock", cost.wall, "s")
        yield Figure(f"analyze, {title}: CPU", cost.cpu, "s")
        if name in imports:
            own = median(imports[name])
            yield Figure(f"analyze, {title}: wall clock to start and import", own.wall, "s")
            yield Figure(f"analyze, {title}: CPU to start and import", own.cpu, "s")
        yield Figure(f"analyze, {title}: peak resident memory", cost.rss / MB, "MB")
    start = {name: median(costs).wall for name, costs in imports.items()}
    for name, times, share in (("gssr", LEAST_TIMES, LEAST_SHARE), ("exact", LEAST_TIMES_EXACT, None)):
        turns = list(zip(whole["pandas"], whole[name], strict=True))
        with_start = statistics.median(a.wall / b.wall for a, b in turns)
        apart = statistics.median((a.wall - start["pandas"]) / (b.wall - start["gssr"]) for a, b in turns)
        memory = statistics.median(a.rss / b.rss for a, b in turns)
        yield Figure(f"analyze, pandas / {name}: wall clock", with_start, "times")
        yield Figure(f"analyze, pandas / {name}: wall clock, start apart", apart, "times", times, at_least=True)
        yield Figure(f"analyze, pandas / {name}: peak memory", memory, "times", share, at_least=True)


def recording(gpus: int = GPUS, hours: float = HOURS, interval_ms: float = INTERVAL_MS) -> Path:
    """The recording, made when it isn't there yet."""
    path = CACHE / f"train-{gpus}-gpus-{hours:g}-h-{interval_ms:g}-ms.sql"
    if not path.exists():
        options = ("--host", "--gpus", str(gpus), "--hours", str(hours), "-t", str(interval_ms), "-o", path)
        run((PYTHON, "-m", "gssr.backends.synthetic", "train", *options))
    return path


def read_once(path: Path) -> None:
    """Bring a file into the page cache."""
    with path.open("rb") as stream:
        while stream.read(1 << 24):
            pass


def _compare(ours: dict, theirs: dict, tolerance: float) -> None:  # type: ignore[type-arg]
    run_ = ours["runs"][0]
    for name, statistics_ in theirs["metrics"].items():
        found = run_["metrics"][name]
        for key, value in statistics_.items():
            slack = found["p_error"] if key in ("p05", "median", "p95") else 0.0
            if abs(found[key] - value) > slack + tolerance * abs(value):
                raise RuntimeError(f"{name}: {key} is {found[key]} by gssr, {value} by pandas")
    for gpu in run_["gpus"]:
        for name, value in theirs["gpus"][str(gpu["gpu"])].items():
            if abs(gpu["mean"][name] - value) > tolerance * abs(value):
                raise RuntimeError(f"{name} of GPU {gpu['gpu']}: {gpu['mean'][name]} by gssr, {value} by pandas")
