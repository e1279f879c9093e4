"""``python -m benchmarks faults``: does rounds of every fault, prints the table, and keeps it for docs/reliability.md."""

import argparse
import json
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.faults import Fault, NotHereError, Seen, processes, storage
from benchmarks.processes import CACHE
from benchmarks.table import machine

FAULTS: tuple[Fault, ...] = (*processes.FAULTS, *storage.FAULTS)
ROUNDS = 20
SHOWN = 3
"""Different things that the user saw, the most frequent ones first."""


class Row(NamedTuple):
    """What ``rounds`` rounds of a fault came to. ``lost_seconds``: in the worst one, None where that is not asked.
    ``said``: what the user saw. ``problems``: each with the seed that brings it back."""

    name: str
    sentence: str
    rounds: int
    lost_seconds: float | None
    said: list[str]
    problems: list[str]


def rounds_of(fault: Fault, rounds: int, seed: int, folder: Path) -> Row:
    """Do rounds of a fault, below ``folder``; round n draws its numbers from ``seed`` + n. Of one whose rounds can be
    counted do each. Raises NotHereError."""
    seen: list[Seen] = []
    problems = []
    tries = fault.cases() if fault.cases else [_round(fault, number) for number in range(seed, seed + rounds)]
    for number, attempt in enumerate(tries, seed):
        with tempfile.TemporaryDirectory(prefix=fault.name, dir=folder) as own:
            try:
                one = attempt(Path(own))
            except NotHereError:
                raise
            except Exception as error:
                one = Seen(None, "", f"{type(error).__name__}: {error}")
        seen.append(one)
        if one.problem is not None:
            problems.append(f"--seed {number}: {one.problem}")
    lost = [one.lost_seconds for one in seen if one.lost_seconds is not None]
    said = [text for text, _ in Counter(one.said for one in seen if one.said).most_common(SHOWN)]
    return Row(fault.name, fault.sentence, len(seen), max(lost, default=None), said, problems)


def _round(fault: Fault, number: int) -> Callable[[Path], Seen]:
    return lambda folder: fault.round(folder, random.Random(number))


def line(row: Row) -> str:
    """One row of the Markdown table."""
    lost = "–" if row.lost_seconds is None else f"{row.lost_seconds:.2f} s"
    said = "<br>".join(text.replace("|", "\\|") for text in row.said) or "nothing"
    return f"| {row.sentence} | {row.rounds} | {lost} | {said} |"


HEAD = "| Fault | Rounds | Lost at most | What the user saw |\n| --- | ---: | ---: | --- |"


def keep(rows: Sequence[Row], path: Path) -> None:
    """Put rows into a file of results, in the table's order; those of other faults stay."""
    kept = {row.name: row for row in kept_in(path)} | {row.name: row for row in rows}
    ordered = [kept[fault.name]._asdict() for fault in FAULTS if fault.name in kept]
    path.write_text(json.dumps(ordered, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def kept_in(path: Path) -> list[Row]:
    """The rows of a file of results; none when there is no file."""
    return [Row(**row) for row in json.loads(path.read_text(encoding="utf-8"))] if path.exists() else []


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code: 0, 1 when a guarantee did not hold, 2 for wrong usage."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks faults", description="Try what can go wrong beside a job, and print what came of it."
    )
    parser.add_argument("--rounds", type=int, default=ROUNDS, metavar="N", help=f"of each fault (default: {ROUNDS})")
    parser.add_argument("--only", action="append", metavar="NAME", help="only this fault; may be given again")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the first round's numbers (default: 0)")
    parser.add_argument("--keep", type=Path, metavar="FILE.json", help="put the results into this file")
    parser.add_argument("--list", action="store_true", help="name the faults")
    options = parser.parse_args(arguments)
    names = [fault.name for fault in FAULTS]
    if options.list:
        print("\n".join(f"{fault.name:24} {fault.sentence}" for fault in FAULTS))
        return 0
    for name in options.only or ():
        if name not in names:
            parser.error(f"unknown fault {name!r}; known: {', '.join(names)}")
    CACHE.mkdir(exist_ok=True)
    print(machine(), HEAD, sep="\n\n", flush=True)
    failed = 0
    for fault in FAULTS:
        if options.only and fault.name not in options.only:
            continue
        try:
            row = rounds_of(fault, options.rounds, options.seed, CACHE)
        except NotHereError as error:
            print(f"{fault.name}: not tried: {error}", file=sys.stderr)
            continue
        print(line(row), flush=True)
        for problem in row.problems:
            print(f"{fault.name}: {problem}", file=sys.stderr, flush=True)
        failed += len(row.problems)
        if options.keep:
            keep([row], options.keep)
    return 1 if failed else 0
