"""The promises of docs/security.md are held by tests that are there."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
NEVER = {"eval", "exec", "compile", "__import__", "system", "popen"}
"""Functions that run what they are given."""
NEVER_IMPORTED = {"pickle", "marshal", "shelve", "dill", "yaml", "cloudpickle", "joblib"}


def test_every_test_that_a_promise_names_exists() -> None:
    named = set(re.findall(r"`(test_\w+)`", (ROOT / "docs" / "security.md").read_text(encoding="utf-8")))
    there = set()
    for path in (ROOT / "tests").rglob("test_*.py"):
        there |= set(re.findall(r"^def (test_\w+)", path.read_text(encoding="utf-8"), re.MULTILINE))
    assert len(named) > 20 and named <= there, named - there


def test_nothing_is_unpickled_evaluated_or_given_to_a_shell() -> None:
    for path in (ROOT / "gssr").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                function = node.func
                name = function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")
                of_re = isinstance(function, ast.Attribute) and name == "compile"
                assert name not in NEVER or of_re, f"{path}:{node.lineno}: {name}"
                for keyword in node.keywords:
                    runs = keyword.arg in ("shell", "allow_pickle") and getattr(keyword.value, "value", True) is True
                    assert not runs, f"{path}:{node.lineno}: {keyword.arg}"
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not {name.split(".")[0] for name in names} & NEVER_IMPORTED, f"{path}: {names}"
