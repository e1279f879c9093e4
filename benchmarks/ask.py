"""Puts the three questions of docs/export.md to one engine, by the code of that page: ``python ask.py ENGINE``, in the
folder that ``gssr_export`` is in, by an interpreter that has the engine. On its last line it prints ``{question: rows}``
as JSON."""

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

PAGE = (Path(__file__).parent.parent / "docs" / "export.md").read_text(encoding="utf-8")
SECTIONS = {"wasted": "Runs by what they wasted", "busy": "GPUs by how busy they were", "hours": "GPU-hours by user"}
IMPORTS = {"DuckDB": "import duckdb", "Dask": "import dask", "Spark": "from pyspark"}
"""How the block of each engine begins."""


def block(language: str, beginning: str) -> str:
    """The first fenced block in a language after a text, or that has it."""
    found = re.search(rf"^```{language}\n((?:(?!^```).)*{re.escape(beginning)}.*?)^```$", PAGE, re.M | re.S)
    if found is None:
        raise LookupError(f"docs/export.md has no block with {beginning!r}")
    return found[1]


def question(section: str) -> str:
    """The SQL below a heading."""
    after = PAGE.partition(f"### {section}\n")[2]
    return after.partition("```sql\n")[2].partition(";\n```")[0]


def duckdb() -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(block("python", IMPORTS["DuckDB"]), names)
    return {key: names["connection"].execute(question(section)).fetchall() for key, section in SECTIONS.items()}


def spark() -> dict[str, Any]:
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["PYSPARK_SUBMIT_ARGS"] = "--master local[2] --conf spark.ui.enabled=false pyspark-shell"
    names: dict[str, Any] = {}
    exec(block("py", IMPORTS["Spark"]), names)
    return {
        key: [tuple(row) for row in names["spark"].sql(question(section)).collect()]
        for key, section in SECTIONS.items()
    }


def dask() -> dict[str, Any]:
    from dask import config
    from dask.distributed import LocalCluster

    names: dict[str, Any] = {}
    with LocalCluster(n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None) as cluster:
        config.set({"scheduler-address": cluster.scheduler_address})
        exec(block("py", IMPORTS["Dask"]), names)
        answers = {key: names[key].values.tolist() for key in SECTIONS}
        names["client"].close()
    return answers


if __name__ == "__main__":
    answers = {"DuckDB": duckdb, "Dask": dask, "Spark": spark}[sys.argv[1]]()
    print("\n" + json.dumps(answers))
