"""What holds for the package as a whole: its layers, what a command line imports, how long a file may be."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from importlinter.cli import EXIT_STATUS_SUCCESS, lint_imports

ROOT = Path(__file__).parent.parent
SOURCES = sorted((ROOT / "gssr").rglob("*.py"))


def test_imports_go_down_only(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.syspath_prepend(str(ROOT))
    status = lint_imports(config_filename=str(ROOT / "pyproject.toml"), no_cache=True)
    assert status == EXIT_STATUS_SUCCESS, capsys.readouterr().out


HEAVY = {
    "textual", "pandas", "numpy", "plotext", "rich", "sqlite_utils", "matplotlib", "pynvml", "sqlite3",
    "logging", "dataclasses", "subprocess", "asyncio",
}  # fmt: skip

BESIDE_A_JOB = [
    "gssr", "gssr.launch", "gssr.backends.base", "gssr.backends.host",
    "gssr.backends.synthetic", "gssr.store.write.writer",
    *(".".join(source.relative_to(ROOT).with_suffix("").parts) for source in SOURCES
      if "profile" in source.parts[-3:-1] and source.parent.parent.name in ("gssr", "profile") and source.stem !=
      "__init__"),
]  # fmt: skip


def imported_by(code: str) -> set[str]:
    """The top-level modules a Python process that ran ``code`` had imported when it ended."""
    report = "import sys, atexit; atexit.register(lambda: print('\\n', *sys.modules, file=sys.stderr)); "
    environ = dict(os.environ) | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", report + code], env=environ, text=True, capture_output=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return {name.partition(".")[0] for name in done.stderr.splitlines()[-1].split()}


def test_help_imports_nothing_heavy() -> None:
    assert not imported_by("import gssr.cli; gssr.cli.main(['--help'])") & HEAVY


@pytest.mark.parametrize("module", BESIDE_A_JOB)
def test_what_runs_beside_a_job_imports_nothing_heavy(module: str) -> None:
    assert not imported_by(f"import {module}") & (HEAVY - {"sqlite3"})


@pytest.mark.parametrize("source", SOURCES, ids=[str(source.relative_to(ROOT)) for source in SOURCES])
def test_no_text_that_may_be_printed_names_a_page_that_is_not_installed(source: Path) -> None:
    tree = ast.parse(source.read_text())
    told = {id(each.value) for each in ast.walk(tree) if isinstance(each, ast.Expr)}  # docstrings
    texts = [each for each in ast.walk(tree) if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    assert not [text.value for text in texts if re.search(r"docs/\w+\.md", text.value) and id(text) not in told]
