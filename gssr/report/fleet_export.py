"""What ``gssr fleet`` prints for programs: one JSON object, or CSV. Keys are only ever added; what is not known is null."""

import csv
import io
import json
from collections.abc import Iterable, Sequence
from typing import Any

from gssr.model.fleet import fleet
from gssr.model.fleet.allocations import PLACES, Allocated, hours_by_place
from gssr.model.fleet.figures import RUN_COLUMNS, RunFigures
from gssr.model.fleet.fleet import Fleet, RunGroup
from gssr.render.cells import clean
from gssr.render.csv_cells import cell
from gssr.report.json_document import number

SCHEMA = "gssr.fleet/1"


def document(found: Fleet, by: Sequence[str], sort: str, most: int | None) -> dict[str, Any]:
    """Build the object from plain dictionaries, lists, strings, numbers and None. ``by``: what to group by; ``most``:
    groups of each (None: all)."""
    totals = _plain(fleet.together(found.runs)._asdict())
    del totals["key"]
    totals["hours_by_category"] = fleet.hours_by_category(found.runs)
    return {
        "schema": SCHEMA,
        "n_recordings": found.n_recordings,
        "totals": totals,
        "scores": [_plain(each._asdict()) for each in fleet.scores(found.runs)],
        "groups": {name: [_plain(g._asdict()) for g in fleet.groups(found.runs, name, sort)[:most]] for name in by},
        "slow_nodes": [_plain(each._asdict()) for each in fleet.slow_nodes(found.runs)],
        "bad_nodes": [_plain(each._asdict()) for each in fleet.nodes_apart(found.runs)],
        "runs": [_run(run) for run in found.runs],
        "unreadable": list(found.unreadable),
        "copies": list(found.copies),
        "n_earlier": found.n_earlier,
        "allocated": None if found.allocated is None else _allocated(found.allocated),
    }


def to_json(found: Fleet, by: Sequence[str], sort: str, most: int | None) -> str:
    """The object as ASCII text with a newline at its end."""
    return json.dumps(document(found, by, sort, most), indent=1, allow_nan=False) + "\n"


def groups_csv(groups: Iterable[RunGroup]) -> str:
    """A line of names, then one for each group; what is unknown is empty."""
    return _csv(RunGroup._fields, groups)


def runs_csv(runs: Iterable[RunFigures]) -> str:
    """Write a line of names, then one for each run, with the columns of RUN_COLUMNS; what is unknown is empty."""
    names = [column.name for column in RUN_COLUMNS]
    return _csv(names, (run[: len(names)] for run in runs))


def _csv(names: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Write a line of names and one for each row, cleaned; None is an empty cell."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    shown = ([clean(value) if isinstance(value, str) else value for value in row] for row in rows)
    writer.writerows([cell(value) for value in row] for row in shown)
    return text.getvalue()


def _run(run: RunFigures) -> dict[str, Any]:
    """Return a run as an object, with its verdicts' codes (None if it was not judged) and its GPU-hours by category."""
    own = {column.name: getattr(run, column.name) for column in RUN_COLUMNS}
    verdicts = None if run.verdicts is None else list(run.verdicts)
    return _plain(own) | {"verdicts": verdicts, "hours_by_category": fleet.hours_by_category([run])}


def _allocated(found: Allocated) -> dict[str, Any]:
    """Return what was allocated: the sums over all jobs, and each job with where its GPU-hours are."""
    return {
        "totals": _plain(hours_by_place(found.jobs)),
        "jobs": [
            _plain(use.allocation._asdict() | {"gpu_hours": use.allocation.gpu_hours, "n_runs": use.n_runs})
            | _plain({f"{name}_gpu_hours": getattr(use, name) for name in PLACES})
            for use in found.jobs
        ],
        "since": number(found.since),
        "n_unreadable_lines": found.n_unreadable,
        "n_runs_without": found.n_without,
    }


def _plain(values: dict[str, Any]) -> dict[str, Any]:
    return {name: number(value) if isinstance(value, float) else value for name, value in values.items()}
