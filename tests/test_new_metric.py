"""A metric that is added where docs/architecture.md says, among its kind, is recorded, analysed, exported and shown: tried
in a copy of the package in which nothing else is changed."""

import csv
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gssr.metrics import NAMES

ROOT = Path(__file__).parents[1]
NAME, LABEL = "share_of_the_test", "Share of the test"
ROW = f'''    Metric(
        "{NAME}", "{LABEL}", "test", RATIO, "gauge", 1.0, "Share of something.", "Of nothing real.", _NVML, dcgm=999,
    ),
'''
BEFORE = '    Metric(\n        "sm_active"'
VALUE = f'        "{NAME}": 0.625,\n'

SCREEN = """
import sys
from tests import looking

async def choose(pilot):
    await pilot.press("m", *"of the test".replace(" ", "_"), "enter")
    await pilot.pause(0.3)
    print(looking.seen(app))

app = looking.live_screen(sys.argv[1])
looking.work(app, choose)
"""


def insert(path: Path, new: str, before: str) -> None:
    text = path.read_text()
    assert text.count(before) == 1
    path.write_text(text.replace(before, new + before))


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package with one metric more, and a recording by it."""
    folder = tmp_path_factory.mktemp("copy")
    shutil.copytree(ROOT / "gssr", folder / "gssr")
    assert NAME not in NAMES
    insert(folder / "gssr" / "metrics.py", ROW, BEFORE)
    insert(folder / "gssr" / "backends" / "synthetic" / "gpu.py", VALUE, '        "sm_active": sm,\n')
    gssr(folder, "profile", "--backend", "synthetic:train:2", "-t", "100", "-o", "run.sql", "--", "sleep", "0.5")
    return folder


def python(folder: Path, *words: str) -> str:
    own = os.environ | {"PYTHONPATH": f"{folder}:{ROOT}", "PYTHONDONTWRITEBYTECODE": ""}
    done = subprocess.run([sys.executable, *words], cwd=folder, env=own, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def gssr(folder: Path, *words: str) -> str:
    return python(folder, "-m", "gssr", *words)


def test_pages_and_exports_have_it(copy: Path) -> None:
    (run,) = json.loads(gssr(copy, "analyze", "--json", "run.sql"))["runs"]
    assert run["metrics"][NAME]["n"] == run["n_samples"] > 0 and run["metrics"][NAME]["mean"] == 0.625
    assert list(run["metrics"]).index(NAME) < list(run["metrics"]).index("sm_active")
    gssr(copy, "export", "run.sql", "--format", "csv", "--tables", "samples", "-o", "tables")
    with open(copy / "tables" / "samples.csv", newline="") as file:
        assert {row[NAME] for row in csv.DictReader(file)} == {"0.625"}


def test_the_screen_shows_it(copy: Path) -> None:
    shown = python(copy, "-c", SCREEN, "run.sql")
    assert LABEL in shown and "62" in shown


def test_all_lists_of_the_screen_have_it(copy: Path) -> None:
    listed = "from tests.looking import *; from gssr.report.live.metric_scales import shown_metrics\n"
    listed += "app = live_screen('run.sql')\n"
    listed += "async def tell(pilot):\n    print(*shown_metrics(app.results[0]))\nwork(app, tell)"
    assert NAME in python(copy, "-c", listed).split()
