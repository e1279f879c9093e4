"""Rounds of a fault, what they came to, and where that is kept for docs/reliability.md."""

import json
import random
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.faults.tried import Fault, NotHereError, Seen, processes, storage

FAULTS: tuple[Fault, ...] = (*processes.FAULTS, *storage.FAULTS)
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
