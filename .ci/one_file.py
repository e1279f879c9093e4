#!/usr/bin/env python3
"""Builds gssr.pyz: the commands that need no package, in one file that Python runs as it is, for nodes and containers where
nothing is installed.

In it are the modules of gssr that these commands import, also inside functions, as far as Python alone can import them; and
pynvml, through which NVIDIA's driver is asked: without it no NVIDIA GPU would be recorded where nothing can be installed. It
is one module of plain Python, under a BSD licence with which it begins.
"""

import ast
import importlib.util
import os
import re
import sys
import time
import zipfile
from collections.abc import Container, Iterator
from functools import cache
from importlib.metadata import version
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

NAME = "gssr.pyz"
OLDEST_PYTHON = (3, 9)
BUNDLED, BUNDLED_PACKAGE = "pynvml", "nvidia-ml-py"
_LATER = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_INTERPRETER = b"#!/usr/bin/env python3\n"
_BEGIN = f"""import os
import sys

if sys.version_info < {OLDEST_PYTHON}:
    sys.stderr.write("gssr: {NAME} needs Python %d.%d or newer, this is %d.%d\\n" % ({OLDEST_PYTHON} + sys.version_info[:2]))
    sys.exit(2)
sys.path[0] = os.path.dirname(os.path.abspath(__file__))  # modules are still imported when the folder has changed

from gssr.__main__ import run

run()
"""
"""The file's ``__main__.py``, which any Python can read: it says so if it is too old for the rest."""


class Import(NamedTuple):
    """A module that another one imports: when it is imported itself (``at_once``), or later, by a function."""

    module: str
    at_once: bool


def build(tree: Path, epoch: int) -> bytes:
    """Build the file from a checkout. ``epoch``: the unix time (s) of everything in it. Raises ValueError if the bundled
    package has another version than constraints.txt."""
    contents = {
        "__main__.py": _BEGIN.encode(),
        "LICENSE": (tree / "LICENSE").read_bytes(),
        f"{BUNDLED}.py": _bundled(tree),
        **{str(path.relative_to(tree)): path.read_bytes() for path in modules(tree).values()},
    }
    packed = BytesIO(_INTERPRETER)
    packed.seek(0, os.SEEK_END)
    with zipfile.ZipFile(packed, "a", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, data in sorted(contents.items()):
            entry = zipfile.ZipInfo(name, _date(epoch))
            entry.create_system, entry.external_attr = 3, 0o100644 << 16  # as on Unix, wherever it is built
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, data)
    return packed.getvalue()


def _date(epoch: int) -> tuple[int, int, int, int, int, int]:
    return time.gmtime(epoch)[:6]


def _bundled(tree: Path) -> bytes:
    """Read the bundled module as it is installed. Raises ValueError if it has another version than the checkout asks for."""
    (wanted,) = re.findall(f"^{BUNDLED_PACKAGE}==(.*)$", (tree / "constraints.txt").read_text(), re.MULTILINE)
    if version(BUNDLED_PACKAGE) != wanted:
        raise ValueError(
            f"{BUNDLED_PACKAGE} {version(BUNDLED_PACKAGE)} is installed, constraints.txt asks for {wanted}"
        )
    spec = importlib.util.find_spec(BUNDLED)
    assert spec is not None and spec.origin is not None
    return Path(spec.origin).read_bytes()


def modules(tree: Path) -> dict[str, Path]:
    """Find the modules of gssr that belong into the file, by name, with their paths."""
    from gssr.commands import NAMES
    from gssr.commands.needed_packages import COMMANDS_OF_ONE_FILE

    paths = {_name_of(path.relative_to(tree)): path for path in sorted((tree / "gssr").rglob("*.py"))}
    there = {*sys.stdlib_module_names, "gssr", BUNDLED}
    left_out = {f"gssr.commands.{name}" for name in {*NAMES} - {*COMMANDS_OF_ONE_FILE}}

    @cache
    def imported(name: str) -> list[Import]:
        return [*_imports(ast.parse(paths[name].read_text()), paths)]

    @cache
    def needs_a_package(name: str) -> bool:
        """Tell whether a module can't be imported without a package, be it that another module needs it."""
        at_once = [each.module for each in imported(name) if each.at_once]
        return any(
            module.partition(".")[0] not in there or (module in paths and needs_a_package(module)) for module in at_once
        )

    found: dict[str, Path] = {}
    left = ["gssr.__main__", *(f"gssr.commands.{name}" for name in COMMANDS_OF_ONE_FILE)]
    while left:
        name = left.pop()
        if name in paths and name not in found and name not in left_out and not needs_a_package(name):
            found[name] = paths[name]
            left += [name.rpartition(".")[0], *(each.module for each in imported(name))]
    return found


def _name_of(path: Path) -> str:
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imports(node: ast.AST, names: Container[str], at_once: bool = True) -> Iterator[Import]:
    """Find what a module imports when it runs, not what it does for types alone. ``names``: the modules of gssr."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and isinstance(child.test, ast.Name) and child.test.id == "TYPE_CHECKING":
            continue
        if isinstance(child, ast.Import):
            yield from (Import(alias.name, at_once) for alias in child.names)
        elif isinstance(child, ast.ImportFrom) and child.module:
            inner = (f"{child.module}.{alias.name}" for alias in child.names)
            yield from (Import(name if name in names else child.module, at_once) for name in inner)
        yield from _imports(child, names, at_once and not isinstance(child, _LATER))


def main(tree: Path, to: Path) -> int:
    """Write the file into a folder. The time of the commit is in SOURCE_DATE_EPOCH (unix s)."""
    sys.path.insert(0, str(tree))
    path = to / NAME
    path.write_bytes(build(tree, int(os.environ["SOURCE_DATE_EPOCH"])))
    path.chmod(0o755)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve(), Path(sys.argv[2])))
