"""``python -m benchmarks [NAME...]``: run all benchmarks, or those named, and print one table."""

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from typing import NamedTuple

from benchmarks.processes import CACHE
from benchmarks.table import Figure, head, line, machine


def _named(module: str, function: str, **options: object) -> Callable[[], Iterator[Figure]]:
    """A function of a module that is imported when it is called: the memory of a process that is run can't be told below
    that of this one (benchmarks.processes.Cost)."""
    return lambda: getattr(import_module(module), function)(**options)


class Benchmark(NamedTuple):
    """One subject: how it is measured, and whether it is when none is named."""

    measure: Callable[[], Iterator[Figure]]
    by_default: bool = True


def _module(name: str, by_default: bool = True) -> Benchmark:
    return Benchmark(_named(f"benchmarks.{name}", "measure"), by_default)


_USUAL = ("start", "rank", "sampler", "busy", "driver", "write", "analyze")
_OTHERS = ("collector", "large", "published", "scale", "live", "follow", "fleet", "bulk", "merge", "shared", "transparency",
           "soak", "amd", "size", "traces", "digests", "trace_screens", "imports", "engines")  # fmt: skip
BENCHMARKS = {
    **{name: _module(name) for name in _USUAL},
    **{name: _module(name, by_default=False) for name in _OTHERS},
    "fleet_index": Benchmark(_named("benchmarks.fleet", "second_look"), by_default=False),
    "fleet_nodes": Benchmark(_named("benchmarks.fleet", "simulated_nodes"), by_default=False),
    "fleet_history": Benchmark(_named("benchmarks.fleet", "simulated_histories"), by_default=False),
    "truth": Benchmark(_named("benchmarks.truth", "measure_developed"), by_default=False),
    "truth-examined": Benchmark(_named("benchmarks.truth", "measure_examined"), by_default=False),
    "truth-blind": Benchmark(_named("benchmarks.truth", "measure_blind"), by_default=False),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code: 0, 1 when a limit was missed, 2 for wrong usage."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure what GSSR costs.")
    usual = [name for name, benchmark in BENCHMARKS.items() if benchmark.by_default]
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help=f"{', '.join(BENCHMARKS)} (default: {', '.join(usual)})",
    )
    parser.add_argument("--all", action="store_true", help="all of these: an hour and a half, 20 GB of disk, a network")
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
