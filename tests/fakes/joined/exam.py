"""How often a clock is found: ``python -m tests.fakes.joined.exam 80`` joins 80 windows of random runs, in half a minute.

Each is 8, 15 or 22 s of 100 s, off by nothing or by up to 5 s, with the engine's activity or NVML's utilization. What counts
as wrong is a place that is told and is not right; a clock that is said to be unchecked or ambiguous is not.
"""

import contextlib
import io
import json
import random
import sys
import tempfile
from collections import Counter
from pathlib import Path

from gssr.cli import main

from .run import CASES, INTERVAL, Case, make


def draw(rng: random.Random, number: int) -> Case:
    """A window somewhere."""
    offset = rng.choice((0.0, rng.uniform(-5, 5), rng.uniform(-5, 5)))
    length = rng.choice((8, 15, 22))
    begin = rng.uniform(0, 100 - length)
    return CASES["late"]._replace(
        name=f"window {number}", offset=offset, ranks=1, seed=rng.randrange(10**6), window=(begin, begin + length),
        nvml=rng.random() < 0.3,
    )  # fmt: skip


def verdict(case: Case) -> str:
    """right, said, not joined or wrong."""
    with tempfile.TemporaryDirectory() as folder:
        joined = make(Path(folder), case)
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            main(["analyze", "--json", str(joined.recording), "--attach", *map(str, joined.traces)])
        rows = json.loads(out.getvalue())["runs"][0]["traces"]
    if not rows:
        return "not joined"
    if abs(rows[0]["offset_s"] + case.offset) <= INTERVAL:
        return "right"
    return "wrong" if rows[0]["clock_check"] in ("agrees", "elsewhere") else "said"


def measure(n: int, seed: int = 1) -> tuple[Counter[tuple[str, int]], list[Case]]:
    """Verdicts by their kind and the window's length; the wrong ones."""
    rng = random.Random(seed)
    found: Counter[tuple[str, int]] = Counter()
    wrong = []
    for number in range(n):
        case = draw(rng, number)
        told = verdict(case)
        found[told, round(case.window[1] - case.window[0])] += 1
        if told == "wrong":
            wrong.append(case)
    return found, wrong


if __name__ == "__main__":
    counts, cases = measure(int(sys.argv[1]) if sys.argv[1:] else 80, int(sys.argv[2]) if sys.argv[2:] else 1)
    for (told, length), count in sorted(counts.items()):
        print(f"{count:4} {told} of windows of {length} s")
    print(*cases, sep="\n")
