"""docs/gssr.ipynb runs as it stands, and shows what it has in it."""

import json
import runpy
from pathlib import Path
from typing import Any

import pytest
from browser import ROOT

pytestmark = [pytest.mark.site, pytest.mark.timeout(300)]


def kinds(notebook: Any) -> list[list[str]]:
    """Of each cell, what its outputs are."""
    return [
        [kind for output in cell.get("outputs", []) for kind in sorted(output.get("data", {output["output_type"]: ""}))]
        for cell in notebook["cells"]
    ]


@pytest.mark.usefixtures("generator")
def test_the_notebook_shows_what_it_shows_when_it_is_run(tmp_path: Path) -> None:
    module = runpy.run_path(str(ROOT / "docs" / "make_notebook.py"))
    stored = json.loads(module["NOTEBOOK"].read_text(encoding="utf-8"))
    assert kinds(stored) == kinds(module["executed"](str(tmp_path))), "run docs/make_notebook.py"
    shown = [kind for cell in kinds(stored) for kind in cell]
    assert shown.count("image/png") >= 4 and shown.count("text/html") >= 4
    assert "error" not in shown and "<svg" in json.dumps(stored)
