"""Figures of recordings kept for the next look, and put together again from the rows of the index.

What was judged by other rules is judged anew. A run that may go on is never kept, and nor is a recording that is damaged:
whether it still is, a look at it tells.
"""

import gc
import json
from collections.abc import Sequence
from contextlib import suppress
from hashlib import sha256
from typing import Any

from gssr.model.breakdown.categories import CATEGORIES
from gssr.model.fleet.figures import GPU_COLUMNS, RUN_COLUMNS, GpuFigures, RunFigures
from gssr.model.verdicts.table import RuleTable
from gssr.store.format.schema import STATES, Column
from gssr.store.index import Index, Rows

_OWN = (
    Column("began", "REAL NOT NULL", "when it began, unix s"),
    Column("step_s", "REAL", "how long a step took, s"),
    Column("rules", "TEXT", "what it was judged by; NULL where it was not"),
    Column("verdicts", "TEXT", "JSON: each verdict's code and GPUs"),
)
_RUN_COLUMNS = [column for column in RUN_COLUMNS if column.name != "file"]
_GPU_COLUMNS = [column for column in GPU_COLUMNS if column.name != "run_id"]
_FILE = [column.name for column in RUN_COLUMNS].index("file")
_RUN = Column("run", "INTEGER NOT NULL", "the run's number in its recording")
TABLES = {
    "runs": (*_RUN_COLUMNS, *_OWN),
    "gpus": (_RUN, *_GPU_COLUMNS),
    "categories": (
        _RUN,
        Column("category", "TEXT NOT NULL", "a category of GPU time"),
        Column("gpu_hours", "REAL NOT NULL", "the run's GPU-hours in it, h"),
    ),
}
ENDED = frozenset(STATES) - {"running"}


def digest(rules: RuleTable) -> str:
    """Return a short text that is the same for the same rules and differs for different ones."""
    return sha256(repr(rules).encode()).hexdigest()[:16]


def rows_of(runs: Sequence[RunFigures], rules: str) -> Rows:
    """Turn the runs of a recording into the rows that the index keeps, by table. ``rules``: the digest of the rules they
    were judged by, if they were."""
    kept = []
    for run in runs:
        figures = run[: len(RUN_COLUMNS)]
        judged = (None, None) if run.verdicts is None else (rules, json.dumps(list(run.verdicts.items())))
        kept.append((*figures[:_FILE], *figures[_FILE + 1 :], run.began, run.step_s, *judged))
    gpus = [(number, *gpu[1:]) for number, run in enumerate(runs) for gpu in run.gpus]
    hours = [
        (number, category.name, hours)
        for number, run in enumerate(runs)
        for category, hours in zip(CATEGORIES, run.hours_by_category or (), strict=False)
    ]
    return {"runs": kept, "gpus": gpus, "categories": hours}


def runs_in_index(index: Index, numbers: dict[str, int], rules: str | None) -> dict[str, list[RunFigures]]:
    """Return the runs of recordings by name, from the index. ``numbers``: each recording's number in the index, by
    name.

    Recordings that were not judged by ``rules`` (a digest; None: whatever they were judged by) are left out. An index
    that holds what we never wrote is discarded, and nothing is returned.
    """
    if not numbers:
        return {}
    collected = gc.isenabled()
    gc.disable()  # of the millions of values that are made none goes
    try:
        gpus, runs = index.rows("gpus", numbers.values()), index.rows("runs", numbers.values())
        hours = {} if rules is None else index.rows("categories", numbers.values())
        found = {}
        for name, number in numbers.items():
            with suppress(LookupError):
                found[name] = _runs(name, runs[number], gpus.get(number, []), hours.get(number, []), rules)
        return found
    except ValueError:
        index.discard()
        return {}
    finally:
        if collected:
            gc.enable()


def _runs(
    name: str,
    rows: Sequence[tuple[Any, ...]],
    gpu_rows: Sequence[tuple[Any, ...]],
    hour_rows: Sequence[tuple[Any, ...]],
    rules: str | None,
) -> list[RunFigures]:
    """Put the runs of the recording ``name`` together from its rows in the index: of runs, of their GPUs, and of their
    hours by category.

    ``rules``: the digest of the rules they must have been judged by; None: they come without judgement. Raises
    LookupError if they were judged by others, ValueError for what we never wrote.
    """
    runs = []
    hours: dict[int, dict[str, float]] = {}
    for _, number, category, own_hours in hour_rows:
        hours.setdefault(number, {})[category] = own_hours
    for number, row in enumerate(rows):
        began, step, judged_by, verdicts = row[-len(_OWN) :]
        if rules is not None and judged_by != rules:
            raise LookupError
        own = gpu_rows if len(rows) == 1 else [each for each in gpu_rows if each[1] == number]
        gpus = tuple([GpuFigures._make((row[1], *each[2:])) for each in own])
        held = None if rules is None else _parse_verdicts(verdicts, len(gpus))
        by_category = None if rules is None else tuple(hours[number][each.name] for each in CATEGORIES)
        figures = (*row[1 : _FILE + 1], name, *row[_FILE + 1 : -len(_OWN)])
        runs.append(RunFigures._make((*figures, gpus, began, held, None if rules is None else step, by_category)))
    return runs


def _parse_verdicts(text: str, n_gpus: int) -> dict[str, tuple[int, ...]]:
    """Parse the verdicts of a run from the JSON text that the index keeps of it.

    Returns the positions of the GPUs that each verdict is about, by the verdict's code. Raises ValueError for a text that
    GSSR never writes, such as one with a position that is not below ``n_gpus``, the number of the run's GPUs."""
    try:
        held = {str(code): tuple(map(int, gpus)) for code, gpus in json.loads(text)}
    except (TypeError, ValueError, RecursionError):
        raise ValueError("no verdicts") from None
    if any(not 0 <= gpu < n_gpus for gpus in held.values() for gpu in gpus):
        raise ValueError("no such GPU")
    return held
