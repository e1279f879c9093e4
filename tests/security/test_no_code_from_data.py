"""Nothing that a file or a message holds is ever run: no pickle, no eval, no shell."""

import ast
from collections.abc import Iterator
from pathlib import Path

import gssr

ROOT = Path(gssr.__file__).parent
MODULES = {
    "pickle",
    "cPickle",
    "_pickle",
    "marshal",
    "shelve",
    "dill",
    "joblib",
    "cloudpickle",
    "yaml",
    "code",
    "codeop",
    "pty",
}
CALLS = {"eval", "exec", "compile", "__import__"}
METHODS = {
    "os.system", "os.popen", "os.spawnlp", "os.spawnvp", "subprocess.getoutput", "subprocess.getstatusoutput",
    "yaml.load", "np.load", "numpy.load", "pd.read_pickle", "pandas.read_pickle", "pd.eval", "pandas.eval", "torch.load",
}  # fmt: skip
KEYWORDS = {"shell", "allow_pickle"}


def dotted(node: ast.expr) -> str:
    """Write out what is called; for names, which most are, without ``ast.unparse``, which takes most of a test's time."""
    if isinstance(node, ast.Name):
        return node.id
    return f"{dotted(node.value)}.{node.attr}" if isinstance(node, ast.Attribute) else ast.unparse(node)


def found_in(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        for name in names:
            if name.partition(".")[0] in MODULES:
                yield f"{path}:{node.lineno}: imports {name}"
        if isinstance(node, ast.Call):
            called = dotted(node.func)
            if called in CALLS or called in METHODS or called.endswith((".read_pickle", ".enable_load_extension")):
                yield f"{path}:{node.lineno}: calls {called}"
            for keyword in node.keywords:
                if keyword.arg in KEYWORDS and not (
                    isinstance(keyword.value, ast.Constant) and not keyword.value.value
                ):
                    yield f"{path}:{node.lineno}: {keyword.arg}={ast.unparse(keyword.value)}"


def test_nothing_is_unpickled_evaluated_or_given_to_a_shell() -> None:
    assert [text for path in sorted(ROOT.rglob("*.py")) for text in found_in(path)] == []


def test_what_is_looked_for_is_found(tmp_path: Path) -> None:
    lines = ("import pickle", "from shelve import open", "eval(x)", "os.system(x)", "run(x, shell=True)", "np.load(x)")
    for line in lines:
        (tmp_path / "a.py").write_text(line)
        assert list(found_in(tmp_path / "a.py")), line
    (tmp_path / "a.py").write_text("run(x, shell=False)\nre.compile(x)\nfoo.eval(x)")
    assert not list(found_in(tmp_path / "a.py"))
