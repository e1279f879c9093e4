"""How large the code is and how it hangs together: lines of code, files, modules that ``gssr analyze`` loads, circles of
imports, the fullest folder. Nothing is timed."""

import ast
import io
import os
import subprocess
import sys
import tempfile
import tokenize
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from benchmarks.table import Figure

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "gssr"
LIMIT_LINES, LIMIT_FILES, LIMIT_LOADED, LIMIT_FOLDER = 29_000, 260, 90, 20
_SILENT = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def measure() -> Iterator[Figure]:
    """Lines of code count without blank lines, comments and docstrings."""
    sources = {path: path.read_text() for path in sorted(PACKAGE.rglob("*.py"))}
    graph = imports(sources)
    yield Figure(
        "size: lines of code in gssr/", sum(code_lines(text) for text in sources.values()), "lines", LIMIT_LINES
    )
    yield Figure("size: files in gssr/", len(sources), "files", LIMIT_FILES)
    yield Figure("size: files in the fullest folder", max(Counter(path.parent for path in sources).values()), "files",
                 LIMIT_FOLDER)  # fmt: skip
    yield Figure("size: modules in circles of imports, type-only ones counted", len(in_circles(graph)), "modules", 0)
    yield Figure("size: modules of gssr that gssr analyze loads", loaded_by_analyze(), "modules", LIMIT_LOADED)


def code_lines(text: str) -> int:
    """Lines of a source on which something other than white space, a comment or a docstring stands."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _SILENT:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, _DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            lines.difference_update(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    return len(lines)


def imports(sources: Mapping[Path, str]) -> dict[str, set[str]]:
    """Which modules of the package each imports, wherever and for whatever in it: also inside functions and for types."""
    names = {_name_of(path): path for path in sources}
    found: dict[str, set[str]] = {name: set() for name in names}
    for name, path in names.items():
        for node in ast.walk(ast.parse(sources[path])):
            if isinstance(node, ast.Import):
                asked = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module:
                within = [f"{node.module}.{alias.name}" for alias in node.names]
                asked = [inner if inner in names else node.module for inner in within]
            else:
                continue
            found[name].update(other for other in asked if other in names and other != name)
    return found


def _name_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def in_circles(graph: Mapping[str, set[str]]) -> set[str]:
    """The modules that import themselves by way of others."""

    def reached(name: str) -> set[str]:
        seen: set[str] = set()
        left = list(graph[name])
        while left:
            other = left.pop()
            if other not in seen:
                seen.add(other)
                left += graph[other]
        return seen

    return {name for name in graph if name in reached(name)}


def loaded_by_analyze() -> int:
    """Modules of the package in a process that has shown the page of a short recording."""
    code = "import sys; from gssr.cli import main; main(sys.argv[1:]); " + (
        "print(sum(name.partition('.')[0] == 'gssr' for name in sys.modules), file=sys.stderr)"
    )
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "run.sql")
        made = [sys.executable, "-m", "gssr.backends.synthetic", "train", "--gpus", "4", "--hours", "0.01", "-o", path]
        subprocess.run(made, env=environ, check=True, capture_output=True)
        shown = [sys.executable, "-c", code, "analyze", path]
        done = subprocess.run(shown, env=environ, check=True, capture_output=True, text=True)
    return int(done.stderr.split()[-1])
