"""``python -m benchmarks [NAME...]``: run all benchmarks, or those named, and print one table."""

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from benchmarks import (
    analyze,
    bulk,
    busy,
    collector,
    driver,
    fleet,
    follow,
    large,
    live,
    merge,
    published,
    rank,
    sampler,
    scale,
    shared,
    soak,
    start,
    transparency,
    write,
)
from benchmarks.faults import table as faults
from benchmarks.fuzz import table as fuzz
from benchmarks.processes import CACHE
from benchmarks.table import Figure, head, line, machine
from benchmarks.truth import measure as truth


class Benchmark(NamedTuple):
    """One subject: how it is measured, and whether it is when none is named."""

    measure: Callable[[], Iterator[Figure]]
    by_default: bool = True


BENCHMARKS = {
    "start": Benchmark(start.measure),
    "rank": Benchmark(rank.measure),
    "sampler": Benchmark(sampler.measure),
    "busy": Benchmark(busy.measure),
    "driver": Benchmark(driver.measure),
    "collector": Benchmark(collector.measure, by_default=False),
    "write": Benchmark(write.measure),
    "analyze": Benchmark(analyze.measure),
    "large": Benchmark(large.measure, by_default=False),
    "published": Benchmark(published.measure, by_default=False),
    "scale": Benchmark(scale.measure, by_default=False),
    "truth": Benchmark(truth.measure_half, by_default=False),
    "truth-held-out": Benchmark(partial(truth.measure_half, held_out=True), by_default=False),
    "truth-drawn": Benchmark(truth.measure_drawn, by_default=False),
    "live": Benchmark(live.measure, by_default=False),
    "follow": Benchmark(follow.measure, by_default=False),
    "fleet": Benchmark(fleet.measure, by_default=False),
    "bulk": Benchmark(bulk.measure, by_default=False),
    "merge": Benchmark(merge.measure, by_default=False),
    "shared": Benchmark(shared.measure, by_default=False),
    "transparency": Benchmark(transparency.measure, by_default=False),
    "soak": Benchmark(soak.measure, by_default=False),
}

WITH_OPTIONS: dict[str, Callable[[Sequence[str]], int]] = {"faults": faults.main, "fuzz": fuzz.main}
"""Those that are run alone, and have options and a table of their own."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code: 0, 1 when a limit was missed, 2 for wrong usage."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    if words and words[0] in WITH_OPTIONS:
        return WITH_OPTIONS[words[0]](words[1:])
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure what GSSR costs.")
    usual = [name for name, benchmark in BENCHMARKS.items() if benchmark.by_default]
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help=f"{', '.join(BENCHMARKS)} (default: {', '.join(usual)}), or alone, "
        f"with options: {', '.join(WITH_OPTIONS)}",
    )
    parser.add_argument("--all", action="store_true", help="every one of them: an hour, 20 GB of disk, a network")
    options = parser.parse_args(words)
    names = options.names or (list(BENCHMARKS) if options.all else usual)
    for name in names:
        if name not in BENCHMARKS:
            parser.error(f"unknown benchmark {name!r}; known: {', '.join(BENCHMARKS)}")
    CACHE.mkdir(exist_ok=True)
    print(machine(), head(), sep="\n\n", flush=True)
    missed = 0
    for name in names:
        for figure in BENCHMARKS[name].measure():
            print(line(figure), flush=True)
            missed += figure.missed
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
