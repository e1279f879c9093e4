"""A recording of each kind that Python meets."""

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``gaps.sql``: 4 GPUs for 36 s, with missing rows, missing values, a GPU that is lost and comes back."""
    folder = tmp_path_factory.mktemp("recorded")
    command = [sys.executable, "-m", "gssr.backends.synthetic", "gaps", "--gpus", "4", "--hours", "0.01", "-t", "100"]
    subprocess.run([*command, "-o", "gaps.sql"], cwd=folder, check=True, capture_output=True, timeout=60)
    return folder / "gaps.sql"
