"""The published tool, 0.4.0, beside this one: analysing equal data, and what starting a profile costs."""

import shutil
import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.analyze import IMPORTS, read_once, recording
from benchmarks.processes import CACHE, ENVIRONMENT, GSSR, MB, PYTHON, Cost, median, run
from benchmarks.table import Figure

GPUS, HOURS, INTERVAL_MS = 256, 1, 500
VERSION = "0.4.0"
PUBLISHED = CACHE / f"published-{VERSION}"
TIMES = {"its JSON": 80.0, "its SQLite": 40.0}
"""So many times faster at least, starting the interpreter apart."""
_SHORT = 5
"""What takes tenths of a second is run so many times each turn: what else the machine does moves it more."""
_MODULES = "import GSSR.GSSR, GSSR.analysis.analysis, GSSR.export.export"
_READER = """class DcgmReader:
    def __init__(self, **options): pass
    def GetLatestGpuValuesAsFieldNameDict(self): return {0: {"sm_active": 0.5}}
"""
_STUBS = ("pydcgm", "dcgm_fields", "dcgm_structs", "dcgm_agent", "dcgmvalue")


def measure(repeats: int = 3) -> Iterator[Figure]:
    """Each as a process of its own, by turns, files in the page cache."""
    problem = _install()
    if problem:
        print(f"published: {problem}", flush=True)
        return
    yield from _analyses(repeats)
    yield from _starts(repeats + 2)


def _install() -> str | None:
    """Make its environment, once. What stands in the way, in a sentence, or None."""
    if (PUBLISHED / "bin" / "gssr").exists():
        return None
    try:
        run((PYTHON, "-m", "venv", PUBLISHED))
        run((PUBLISHED / "bin" / "pip", "install", "-q", f"gssr=={VERSION}"))
    except (RuntimeError, OSError) as error:
        shutil.rmtree(PUBLISHED, ignore_errors=True)
        return f"gssr {VERSION} could not be installed: {error}"
    return None


def _analyses(repeats: int) -> Iterator[Figure]:
    path = recording(GPUS, HOURS, INTERVAL_MS)
    folder, database = path.with_suffix(".published"), path.with_suffix(".published.sql")
    theirs = PUBLISHED / "bin" / "gssr"
    if not database.exists():
        shutil.rmtree(folder, ignore_errors=True)
        run((PYTHON, "-m", "benchmarks.as_published", path, folder))
        run((theirs, "analyze", "-i", folder, "-s", "-e", database))
    commands = {
        "gssr": (*GSSR, "analyze", path),
        "its JSON": (theirs, "analyze", "-i", folder),
        "its SQLite": (theirs, "analyze", "-i", database),
    }
    starts = {
        "gssr": (PYTHON, "-c", IMPORTS["page"]),
        "theirs": (PUBLISHED / "bin" / "python", "-c", _MODULES),
    }
    files = {"gssr": [path], "its JSON": [*folder.rglob("*.json")], "its SQLite": [database]}
    whole: dict[str, list[Cost]] = {name: [] for name in (*commands, *starts.keys())}
    begun: dict[str, list[Cost]] = {name: [] for name in starts}
    for _ in range(repeats):
        for name, command in starts.items():
            run(command)  # whatever ran before has emptied the caches
            begun[name].append(median([run(command) for _ in range(_SHORT)]))
        for name, command in commands.items():
            for file in files[name]:
                read_once(file)
            whole[name].append(median([run(command) for _ in range(_SHORT if name == "gssr" else 1)]))
    start = {name: median(costs).wall for name, costs in begun.items()}
    case = f"published, {GPUS} x 7,200 samples"
    yield Figure(f"{case}: start and imports, ours", start["gssr"], "s")
    yield Figure(f"{case}: start and imports, {VERSION}", start["theirs"], "s")
    for name in commands:
        cost = median(whole[name])
        who = "gssr" if name == "gssr" else f"{VERSION} from {name}"
        yield Figure(f"{case}, {who}: wall clock", cost.wall, "s")
        yield Figure(f"{case}, {who}: peak memory", cost.rss / MB, "MB")
    for name, least in TIMES.items():
        turns = list(zip(whole[name], whole["gssr"], strict=True))
        ratio = statistics.median(a.wall / b.wall for a, b in turns)
        apart = statistics.median((a.wall - start["theirs"]) / (b.wall - start["gssr"]) for a, b in turns)
        yield Figure(f"published, {VERSION} from {name} / gssr: with start", ratio, "times")
        yield Figure(f"published, {VERSION} from {name} / gssr: start apart", apart, "times", least, at_least=True)


def _starts(repeats: int) -> Iterator[Figure]:
    """``profile`` around a command that does nothing. Theirs gets a reader of GPUs that costs nothing."""
    with tempfile.TemporaryDirectory(dir=CACHE) as name:
        folder = Path(name)
        (folder / "DcgmReader.py").write_text(_READER)
        for stub in _STUBS:
            (folder / f"{stub}.py").write_text("")
        slurm = {"SLURM_JOB_ID": "1", "SLURM_STEP_ID": "0", "SLURM_PROCID": "0", "SLURM_STEP_GPUS": "0"}
        environment = ENVIRONMENT | slurm | {"PYTHONPATH": name}
        theirs: list[Cost] = []
        ours: list[Cost] = []
        for turn in range(repeats):
            words = ("profile", "-o", folder / f"theirs{turn}", "true")
            theirs.append(run((PUBLISHED / "bin" / "gssr", *words), environment=environment))
            words = ("profile", "--no-summary", "--backend", "synthetic:train:1", "-o", folder / f"{turn}.sql")
            ours.append(run((*GSSR, *words, "--", "true")))
    for who, costs in (("gssr", ours), (VERSION, theirs)):
        yield Figure(f"published, profile of 'true', {who}: wall clock", median(costs).wall, "s")
        yield Figure(f"published, profile of 'true', {who}: CPU", median(costs).cpu, "s")
        yield Figure(f"published, profile of 'true', {who}: peak memory", median(costs).rss / MB, "MB")
