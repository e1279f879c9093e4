"""Runs docs/gssr.ipynb anew and writes what its cells show into it: needs the extra ``docs``."""

import tempfile
from pathlib import Path
from typing import Any

NOTEBOOK = Path(__file__).parent / "gssr.ipynb"


def executed(folder: str) -> Any:
    """The notebook, run in this folder by a kernel of its own. Raises what a cell raises."""
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(NOTEBOOK, as_version=4)  # type: ignore[no-untyped-call]
    NotebookClient(notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": folder}}).execute()
    for number, cell in enumerate(notebook.cells, 1):
        cell["metadata"], cell["id"] = {}, f"cell-{number}"  # when it ran is nobody's business
    notebook["metadata"] = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    return notebook


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        text = __import__("nbformat").writes(executed(folder))
    NOTEBOOK.write_text(text + "\n", encoding="utf-8")
