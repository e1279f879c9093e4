"""A real recording for the queries of the pages."""

import subprocess
import sys
from pathlib import Path

import fenced
import pytest

_WORKLOAD = "trap got=1 USR1; kill -USR1 $PPID; until [ $got ]; do :; done; exec sleep 2.2"


@pytest.fixture(scope="session")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``run.sql``, recorded from a real command beside synthetic GPUs: never to be changed."""
    folder = tmp_path_factory.mktemp("recorded")
    own = [sys.executable, "-m", "gssr", "profile", "--backend", "synthetic:train:4", "-t", "50", "-o", "run.sql"]
    command = [*own, "-f", "-l", "example", "--", "sh", "-c", _WORKLOAD]
    for _ in range(5):  # until there is none with gaps, of which the pages' queries find nothing
        done = subprocess.run(
            command, cwd=folder, env=fenced.environment(folder), check=True, timeout=60, capture_output=True, text=True
        )
        if "gaps=0" in done.stderr:
            break
    return folder / "run.sql"
