"""Reading tables of other tools: rows a second of CPU, beside pandas.read_csv alone, which leaves "92 %" and times as text;
and memory, which must not grow with the file.

What is measured is this module as a process: ``python -m benchmarks.imports ours|pandas KIND FILE``, or ``make``.
"""

import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path

from benchmarks.processes import CACHE, MB, PYTHON, run
from benchmarks.table import Figure

ROWS, MORE = 1_000_000, 3
ROWS_PER_SECOND, MEMORY_GROWTH = 1e6, 1.2
"""Of CSV; and how much more memory a file of MORE times as many rows may need."""
GPUS = 8
_BEGIN = 1_760_000_000


def _query(rng: random.Random, rows: int) -> Iterator[str]:
    yield "timestamp, index, name, utilization.gpu [%], memory.used [MiB], power.draw [W], "
    yield "temperature.gpu, clocks.sm [MHz]\n"
    for row in range(rows):
        at = datetime.fromtimestamp(_BEGIN + row // GPUS, UTC)
        yield (
            f"{at:%Y/%m/%d %H:%M:%S}.{row % GPUS:03}, {row % GPUS}, NVIDIA H100 80GB HBM3, {rng.randrange(101)} %, "
            f"{rng.randrange(81559)} MiB, {rng.uniform(60, 700):.2f} W, {rng.randrange(30, 90)}, "
            f"{rng.randrange(300, 1980)} MHz\n"
        )


def _pulse(rng: random.Random, rows: int) -> Iterator[str]:
    yield "timestamp,gpu_id,model,gpu_util_pct,mem_used_mib,sm_active_pct,tensor_active_pct,dram_active_pct\n"
    for row in range(rows):
        shares = ",".join(f"{rng.uniform(0, 100):.2f}" for _ in range(3))
        used = rng.randrange(81559)
        yield f"{_BEGIN + row // GPUS}.12,{row % GPUS},H100,{rng.uniform(0, 100):.2f},{used}.0000,{shares}\n"


def _dcgmi(rng: random.Random, rows: int) -> Iterator[str]:
    head = (
        "#Entity   GPUTL             SMACT        TENSO        DRAMA        POWER             FBUSD             \nID\n"
    )
    for row in range(rows):
        if row % (15 * GPUS) == 0:
            yield head
        shares = "".join(f"{rng.random():<13.3f}" for _ in range(3))
        yield (
            f"GPU {row % GPUS}     {rng.randrange(101):<18}{shares}{rng.uniform(60, 700):<18.3f}"
            f"{rng.randrange(81559):<18}\n"
        )


def _smi(rng: random.Random, rows: int) -> Iterator[str]:
    head = "#Date       Time        gpu    pwr  gtemp     sm    mem     fb  rxpci   pclk\n"
    for row in range(rows):
        if row % (15 * GPUS) == 0:
            yield head
        at = datetime.fromtimestamp(_BEGIN + row // GPUS, UTC)
        numbers = (rng.randrange(60, 700), rng.randrange(30, 90), rng.randrange(101), rng.randrange(101))
        more = (rng.randrange(81559), rng.randrange(30_000), rng.randrange(300, 1980))
        yield f" {at:%Y%m%d   %H:%M:%S} {row % GPUS:6} " + "".join(f"{number:7}" for number in (*numbers, *more)) + "\n"


def _prometheus(rng: random.Random, rows: int) -> Iterator[str]:
    names = ("DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_PROF_SM_ACTIVE", "DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_FB_USED")
    for row in range(rows):
        look, which = divmod(row, GPUS * len(names))
        name, gpu = names[which // GPUS], which % GPUS
        labels = f'gpu="{gpu}",UUID="GPU-{gpu:036}",modelName="NVIDIA H100",Hostname="n1"'
        yield f"{name}{{{labels}}} {rng.random():.6f} {(_BEGIN + look) * 1000}\n"


KINDS: dict[str, tuple[str, Callable[[random.Random, int], Iterator[str]], dict[str, object]]] = {
    "nvidia-smi CSV": ("csv_rows", _query, {"skipinitialspace": True}),
    "kempnerpulse CSV": ("csv_rows", _pulse, {}),
    "dcgmi dmon": ("dmon", _dcgmi, {}),
    "nvidia-smi dmon": ("dmon", _smi, {}),
    "Prometheus text": ("prometheus_text", _prometheus, {}),
}
"""By what they are called: the module of gssr.foreign, the maker, and how pandas reads it, if it does."""


def measure() -> Iterator[Figure]:
    """Each format; the files are deleted afterwards."""
    with tempfile.TemporaryDirectory(dir=CACHE) as folder:
        for kind, (module, _, _) in KINDS.items():
            try:
                import_module(f"gssr.foreign.{module}")
            except ModuleNotFoundError:
                continue
            yield from _of_one(kind, Path(folder))


def _of_one(kind: str, folder: Path) -> Iterator[Figure]:
    path, larger = folder / "small", folder / "large"
    for file, rows in ((path, ROWS), (larger, MORE * ROWS)):
        run((PYTHON, "-m", "benchmarks.imports", "make", kind, file, str(rows)))
    is_csv = kind.endswith("CSV")
    speed, memory = _read("ours", kind, path)
    case = f"{kind}, {ROWS:,} rows"
    yield Figure(f"{case}: rows a second of CPU", speed, "rows/s", ROWS_PER_SECOND if is_csv else None, at_least=is_csv)
    if is_csv:
        yield Figure(f"{case}: the same, pandas.read_csv alone", _read("pandas", kind, path)[0], "rows/s")
    yield Figure(f"{case}: peak resident memory", memory / MB, "MB")
    growth = _read("ours", kind, larger)[1] / memory
    yield Figure(f"{kind}, {MORE} times as many rows: memory", growth, "times", MEMORY_GROWTH)
    path.unlink()
    larger.unlink()


def _read(how: str, kind: str, path: Path) -> tuple[float, float]:
    """Rows a second of CPU, of a small file, and bytes of memory."""
    said = path.with_suffix(".said")
    cost = run((PYTHON, "-m", "benchmarks.imports", how, kind, path), said)
    return ROWS / float(said.read_text()), cost.rss


def main(words: Sequence[str]) -> None:
    """Make a file, or read one and print how many seconds of CPU that took. Raises SystemExit where nothing came of it."""
    how, kind, path = words[:3]
    module, make, options = KINDS[kind]
    if how == "make":
        with open(path, "w", encoding="ascii") as stream:
            stream.writelines(make(random.Random(1), int(words[3])))
        return
    if how == "pandas":
        import pandas

        began = time.process_time()
        rows = len(pandas.read_csv(path, **options))  # type: ignore[call-overload]
    else:
        from gssr.foreign.series import ByteSource, ImportHints

        read = import_module(f"gssr.foreign.{module}").read
        with open(path, "rb") as stream:
            began = time.process_time()
            series = read(
                ByteSource(path, iter(lambda: stream.read(1 << 20), b""), _BEGIN + ROWS), ImportHints(timezone=UTC)
            )
            rows = sum(len(piece.gpu) for piece in series.pieces)
    print(time.process_time() - began)
    sys.exit(not rows)


if __name__ == "__main__":
    main(sys.argv[1:])
