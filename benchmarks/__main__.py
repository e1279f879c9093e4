"""``python -m benchmarks [NAME...]``: run all benchmarks, or those named, and print one table."""

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from typing import NamedTuple

from benchmarks.processes import CACHE
from benchmarks.table import Figure, head, line, machine


class Benchmark(NamedTuple):
    """One subject: which function of which module measures it, and whether it is measured when none is named."""

    module: str
    function: str = "measure"
    by_default: bool = False

    def load(self) -> Callable[[], Iterator[Figure]]:
        """Import what measures it, which is not done before: the memory of a process that is run can't be told below that
        of this one (benchmarks.processes.Cost)."""
        found: Callable[[], Iterator[Figure]] = getattr(import_module(f"benchmarks.{self.module}"), self.function)
        return found


_USUAL = ("start", "rank", "sampler", "busy", "driver", "write", "analyze")
_OTHERS = ("large", "live", "hosts", "follow", "fleet", "merge", "shared", "transparency", "soak", "amd", "footprint",
           "traces", "digests", "trace_screens", "imports", "engines")  # fmt: skip
BENCHMARKS = {
    **{name: Benchmark(name, by_default=True) for name in _USUAL},
    **{name: Benchmark(name) for name in _OTHERS},
    "fleet_index": Benchmark("fleet", "second_look"),
    "fleet_nodes": Benchmark("fleet", "simulated_nodes"),
    "fleet_history": Benchmark("fleet", "simulated_histories"),
    "truth": Benchmark("truth", "measure_developed"),
    "truth-unseen": Benchmark("truth", "measure_unseen"),
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
    parser.add_argument(
        "--all", action="store_true", help="all of these: an hour and a quarter, 16 GB of disk, a network"
    )
    options = parser.parse_args(words)
    names = options.names or (list(BENCHMARKS) if options.all else usual)
    for name in names:
        if name not in BENCHMARKS:
            parser.error(f"unknown benchmark {name!r}; known: {', '.join(BENCHMARKS)}")
    CACHE.mkdir(exist_ok=True)
    print(machine(), head(), sep="\n\n", flush=True)
    missed = 0
    for name in names:
        for figure in BENCHMARKS[name].load()():
            print(line(figure), flush=True)
            missed += figure.missed
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
