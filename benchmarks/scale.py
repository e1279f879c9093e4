"""What a recording of more and more GPUs costs: its size, writing it, and analysing it. Cost over work is to be a line."""

import math
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import plotext

from benchmarks.processes import CACHE, GSSR, MB, PYTHON, median, run
from benchmarks.table import Figure

GPUS = (1, 8, 64, 512, 4096)
MINUTES, INTERVAL_MS = 10, 1000
WIDE, TALL = 76, 18


def measure(gpus: Sequence[int] = GPUS, repeats: int = 3) -> Iterator[Figure]:
    """Ten minutes, once a second. At the end a chart of what was measured, on both axes by powers of ten."""
    sizes, times = [], []
    with tempfile.TemporaryDirectory(dir=CACHE) as folder:
        path = Path(folder) / "run.sql"
        for n in gpus:
            words = (
                "train",
                "--host",
                "--gpus",
                str(n),
                "--hours",
                f"{MINUTES / 60}",
                "-t",
                str(INTERVAL_MS),
                "-o",
                path,
            )
            made = run((PYTHON, "-m", "gssr.backends.synthetic", *words))
            cost = median(run((*GSSR, "analyze", path)) for _ in range(repeats))
            case, samples = f"scale, {n:,} GPUs", n * MINUTES * 60e3 / INTERVAL_MS
            sizes.append(path.stat().st_size / MB)
            times.append(cost.cpu)
            yield Figure(f"{case}: recording", sizes[-1], "MB")
            yield Figure(f"{case}: recording, of a GPU-sample", path.stat().st_size / samples, "bytes")
            yield Figure(f"{case}: writing in bulk, CPU", made.cpu, "s")
            yield Figure(f"{case}: gssr analyze, CPU", cost.cpu, "s")
            yield Figure(f"{case}: gssr analyze, peak memory", cost.rss / MB, "MB")
            path.unlink()
    for what, unit, values in (("size", "MB", sizes), ("CPU of gssr analyze", "s", times)):
        print(chart(f"{what} ({unit}) of {MINUTES} min at 1 Hz over GPUs", gpus, values), flush=True)


def chart(title: str, xs: Sequence[float], ys: Sequence[float]) -> str:
    """Both axes by powers of ten: points, and lines between them."""
    figure = plotext.figure
    figure.clear.all()
    figure.theme("colorless")
    figure.plot_size(WIDE, TALL)
    powers = range(math.floor(math.log10(min(ys))), math.ceil(math.log10(max(ys))) + 1)
    x, y = figure.ruler("x"), figure.ruler("y")
    x.ticks([math.log10(own) for own in xs], [f"{own:,}" for own in xs])
    y.lim(powers[0], powers[-1])
    y.ticks(list(powers), [f"{10.0**power:,g}" for power in powers])
    points = [math.log10(own) for own in xs], [math.log10(own) for own in ys]
    figure.draw(figure.signal(*points, marker="·").lines())
    figure.draw(figure.signal(*points, marker="o"))
    text = figure.build().string(colorless=True)
    figure.clear.all()
    return f"\n{title}\n\n{text}"
