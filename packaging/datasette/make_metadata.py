"""Makes ``metadata.json`` beside it: ``python packaging/datasette/make_metadata.py``. Change this file, not the JSON.

Datasette shows its titles and descriptions above tables and views, and beside columns, of a database that is called
``fleet.db``. What columns mean is taken from the database's own definition (gssr.convert.fleet_database).
"""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from gssr.convert.fleet_database import TABLES, VIEWS
from gssr.model.fleet.fleet import BADLY_BALANCED

PAGE = Path(__file__).with_name("metadata.json")
DATABASE = "fleet"
"""What Datasette calls fleet.db."""
TITLE = "GPU use of recorded jobs"
ABOUT = (
    "What gssr fleet --db has read of many recordings. Begin at the view lost_most. Lost is time in which a GPU could have "
    "worked, by its cause; wasted is GPU-hours x (1 - score); "
    "idle is time in which a GPU did nothing, and can be had back without changing a program. Empty is unknown, never 0."
)
TEXTS = {
    "runs": ("Runs", "One row for each recorded run."),
    "causes": ("Where the GPU-hours of each run went", "One row for each category of a run's GPU time."),
    "nodes": ("Nodes of each run", "One row for each node that a run was on."),
    "jobs": (
        "Allocated jobs",
        "One row for each job with GPUs that Slurm told of (--sacct), and where its GPU-hours are.",
    ),
    "by_user": ("By user", "Who used and wasted how much? Most wasted first."),
    "by_account": ("By account", "Which account or project used and wasted how much? Most wasted first."),
    "by_partition": ("By partition", "In which partition or queue was how much used and wasted? Most wasted first."),
    "by_state": ("By state", "How did the runs end, and how much was used and wasted in each case? Most wasted first."),
    "by_week": ("By week", "How much was used and wasted in each week?"),
    "by_cause": ("By cause", "What did the GPU-hours go to, over all runs? Losses first."),
    "causes_by_user": ("Causes by user", "What do each user's jobs lose their GPU-hours to? Largest loss first."),
    "lost_most": ("Jobs that lost most", "Which jobs should support look at first, and for what? Largest loss first."),
    "waste_most": ("Runs that wasted most", "Which runs are farthest from a score of 1, in GPU-hours?"),
    "never_used_gpus": ("Runs with GPUs that were never used", "Which jobs asked for more GPUs than they use?"),
    "badly_balanced": (
        "Badly balanced runs",
        f"In which runs did the GPUs do at least {BADLY_BALANCED:.0%} less than the busiest one, on average?",
    ),
    "slow_nodes": ("Slow nodes", "Which nodes were slow in how many runs? In most runs first."),
    "not_recorded": ("Jobs that were not recorded", "Which jobs had GPU-hours that no recording covers (--sacct)?"),
}
"""Of each table and view its title and description."""
OF_VIEWS = {
    "runs": "number of runs",
    "lost_gpu_hours": "GPU-hours of all its runs in which a GPU could have worked, h",
    "main_cause": "what most of these were lost to",
    "main_cause_gpu_hours": "GPU-hours that were lost to it, h",
    "slow_in": "number of runs in which it was slow",
    "unused_gpu_hours": "duration times the GPUs that were never used, h",
    "unrecorded_gpu_hours": "GPU-hours that were allocated and not recorded, h",
}
"""What columns mean that only views have."""
SUMMED = {
    "gpu_hours": "GPU-hours, h",
    "wasted_gpu_hours": "GPU-hours x (1 - score), h",
    "idle_gpu_hours": "GPU-hours with SM active below 2 %, h",
    "score": "mean score of the runs by their GPU-hours, 0-1",
    "throttled_gpu_hours": "GPU-hours slowed down by heat or hardware, h",
    "lowest_clock": "least mean clock of a GPU in any run, relative to that run's median GPU",
}
"""And what those of several runs together."""
GROUPED = (
    "by_user", "by_account", "by_partition", "by_state", "by_week", "by_cause", "causes_by_user", "lost_most", "slow_nodes",
)  # fmt: skip
SOURCES = {"by_cause": "causes", "causes_by_user": "causes", "slow_nodes": "nodes", "not_recorded": "jobs"}
"""The table whose columns a view has; of all others that is ``runs``."""


def metadata() -> dict[str, Any]:
    """Return the content of ``metadata.json``. Raises KeyError for a table, view or column that is not described."""
    described = {name: {column.name: column.meaning for column in columns} for name, columns in TABLES.items()}
    for view, columns in _view_columns().items():
        meanings = described["runs"] | described[SOURCES.get(view, "runs")] | OF_VIEWS
        meanings |= SUMMED if view in GROUPED else {}
        described[view] = {column: meanings[column] for column in columns}
    tables = {
        name: {"title": TEXTS[name][0], "description": TEXTS[name][1], "columns": columns}
        for name, columns in described.items()
    }
    return {"title": TITLE, "databases": {DATABASE: {"title": TITLE, "description": ABOUT, "tables": tables}}}


def _view_columns() -> dict[str, list[str]]:
    """Return the names of the columns of each view, as SQLite has them."""
    with closing(sqlite3.connect(":memory:")) as connection:
        for name, columns in TABLES.items():
            connection.execute(f"CREATE TABLE {name} ({', '.join(column.name for column in columns)})")
        for name, query in VIEWS.items():
            connection.execute(f"CREATE VIEW {name} AS {query}")
        return {name: [row[1] for row in connection.execute(f"PRAGMA table_info({name})")] for name in VIEWS}


if __name__ == "__main__":
    PAGE.write_text(json.dumps(metadata(), indent=2) + "\n")
