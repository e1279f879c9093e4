"""What the tests of exports share: a recording with a bit of everything."""

import sqlite3
from pathlib import Path

import pytest

from gssr.backends.synthetic.bulk import generate


@pytest.fixture(scope="session")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """9 GPUs on two nodes, with missing values, host metrics and an awkward label; never to be changed."""
    path = tmp_path_factory.mktemp("recorded") / "a.sql"
    generate(str(path), "gaps", 9, 1 / 30, 0.5)
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE runs SET label = '=1+1', user = 'me'")
        for node in ("node0000", "node0001"):
            connection.execute(
                "INSERT INTO host_samples (run_id, node, time, load1) SELECT run_id, ?, started_at, 0.5 FROM runs",
                (node,),
            )
    return path
