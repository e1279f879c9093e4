"""What holds for the package as a whole: its layers, its names, what a command line imports, what is cleaned."""

import ast
import os
import re
import subprocess
import symtable
import sys
from collections.abc import Iterator
from functools import cache
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


def test_no_name_at_the_root_looks_like_an_option() -> None:
    """As of a script's output folder where somebody asked for its help: commands with a wildcard take it for an option."""
    assert not [name for name in os.listdir(ROOT) if name.startswith("-")]


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


def test_what_runs_beside_a_job_imports_nothing_heavy() -> None:
    assert not imported_by(f"import {', '.join(BESIDE_A_JOB)}") & (HEAVY - {"sqlite3"})


@cache
def _tree(source: Path) -> ast.Module:
    return ast.parse(source.read_text())


def _parsed(folder: str = "gssr") -> Iterator[tuple[Path, ast.Module]]:
    """Each file below a folder of the package, and its tree."""
    for source in SOURCES:
        if source.is_relative_to(ROOT / folder):
            yield source, _tree(source)


def _texts(tree: ast.Module) -> list[ast.Constant]:
    """All constants of a file that are texts."""
    return [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]


def test_no_text_that_may_be_printed_names_a_page_that_is_not_installed() -> None:
    found = []
    for source, tree in _parsed():
        named = [text for text in _texts(tree) if re.search(r"docs/\w+\.md", text.value)]
        docstrings = {id(each.value) for each in ast.walk(tree) if isinstance(each, ast.Expr)} if named else set()
        found += [(source, text.value) for text in named if id(text) not in docstrings]
    assert not found


# Names


def _namesakes(names: Iterator[tuple[str, Path]]) -> dict[str, list[str]]:
    """The names that stand in more than one file, and these."""
    files: dict[str, set[Path]] = {}
    for name, source in names:
        files.setdefault(name, set()).add(source)
    return {
        name: sorted(str(each.relative_to(ROOT)) for each in those) for name, those in files.items() if len(those) > 1
    }


def test_no_two_files_have_a_public_class_of_one_name() -> None:
    classes = (
        (node.name, source)
        for source, tree in _parsed()
        for node in tree.body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert not _namesakes(classes)


LAYERS = sorted(folder.name for folder in (ROOT / "gssr").iterdir() if (folder / "__init__.py").exists())


def test_no_two_modules_of_a_layer_have_one_name() -> None:
    """In tui/ a module's name is completed by its tab's folder: each has a pane.py, most a table.py."""
    for layer in LAYERS:
        if layer != "tui":
            own = [source for source in SOURCES if source.is_relative_to(ROOT / "gssr" / layer)]
            assert not _namesakes((source.stem, source) for source in own if source.stem != "__init__"), layer


def _shadowing(table: symtable.SymbolTable, outer: set[str]) -> Iterator[str]:
    for child in table.get_children():
        if isinstance(child, symtable.Function) and not child.get_name().endswith(("comp", "genexpr")):
            for symbol in child.get_symbols():
                local = symbol.is_parameter() or (symbol.is_local() and symbol.is_assigned())
                if local and not symbol.is_imported() and symbol.get_name() in outer:
                    yield f"{child.get_lineno()}: {symbol.get_name()} in {child.get_name()}"
        yield from _shadowing(child, outer)


def test_no_local_name_shadows_one_of_its_module() -> None:
    """As pylint's W0621, which ruff doesn't have."""
    found = []
    for source in SOURCES:
        module = symtable.symtable(source.read_text(), str(source), "exec")
        outer = {symbol.get_name() for symbol in module.get_symbols() if symbol.is_local()}
        found += [f"{source}:{place}" for place in _shadowing(module, outer)]
    assert not found


# What may be in a file

SQL = re.compile(r"\s*(SELECT|INSERT INTO|UPDATE \w+ SET|DELETE FROM|CREATE|DROP|PRAGMA|ATTACH|WITH \w+ AS)\b")


def test_model_holds_no_sql() -> None:
    executed = ("execute", "executemany", "executescript")
    found = []
    for source, tree in _parsed("gssr/model"):
        found += [(source, text.value) for text in _texts(tree) if SQL.match(text.value)]
        calls = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
        found += [(source, call.attr) for call in calls if isinstance(call, ast.Attribute) and call.attr in executed]
    assert not found


def _called(node: ast.AST) -> set[str]:
    """The names of what is called within: the last one of ``a.b.c()``."""
    calls = [each.func for each in ast.walk(node) if isinstance(each, ast.Call)]
    return {_last_name(call) for call in calls}


def _last_name(called: ast.expr) -> str:
    if isinstance(called, ast.Attribute):
        return called.attr
    return called.id if isinstance(called, ast.Name) else ""


CLEANING = {"clean", "cleaned", "harmless", "to_text"}


def test_what_is_said_to_clean_text_does() -> None:
    """The functions that gssr/render/cells.py names are there, and call ``clean``, if by others of their file."""
    import gssr.render.cells

    names = re.findall(r"``(gssr\.[\w.]+)``", gssr.render.cells.__doc__ or "")
    assert len(names) >= 6
    for name in names:
        parts = name.split(".")
        n = next(n for n in range(len(parts), 0, -1) if (source := ROOT.joinpath(*parts[:n]).with_suffix(".py")).exists()
                 or (source := ROOT.joinpath(*parts[:n], "__init__.py")).exists())  # fmt: skip
        tree = ast.parse(source.read_text())
        functions = {each.name: each for each in ast.walk(tree) if isinstance(each, ast.FunctionDef)}
        reached: set[str] = set()
        new = {parts[-1]}
        assert n < len(parts) and new <= set(functions), name
        while new:
            reached |= new
            new = {called for each in new if each in functions for called in _called(functions[each])} - reached
        assert reached & CLEANING, name


WRITES = {"put", "print", "sys.stdout.write", "sys.stderr.write"}
LAST_NAMES = {name.rpartition(".")[2] for name in WRITES}
OF_OURSELVES = {"gssr/backends/synthetic/__main__.py", "gssr/profile/screen.py"}
"""What these write comes from no recording: errors of the program itself, as Python quotes them."""


def test_what_writes_words_together_cleans_them() -> None:
    """A function that writes a text with something filled in cleans what may come from users or files. Whole pages go
    through ``to_text``, objects and tables through what encodes them."""
    careless = []
    for source, tree in _parsed():
        if str(source.relative_to(ROOT)) in OF_OURSELVES:
            continue
        for function in ast.walk(tree):
            if not isinstance(function, ast.FunctionDef):
                continue
            written = [
                argument
                for call in ast.walk(function)
                if isinstance(call, ast.Call)
                and _last_name(call.func) in LAST_NAMES
                and ast.unparse(call.func) in WRITES
                for argument in call.args
            ]
            filled = any(isinstance(part, ast.FormattedValue) for text in written for part in ast.walk(text))
            if filled and not _called(function) & CLEANING:
                careless.append(f"{source.relative_to(ROOT)}: {function.name}")
    assert not careless
