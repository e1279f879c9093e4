"""What an installation weighs: packages and bytes of ``pip install .`` in a new environment, by package; what each extra
adds; and gssr.pyz. Needs a package index."""

import importlib.util
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from benchmarks.processes import CACHE, MB, PYTHON, ROOT, run
from benchmarks.table import Figure

LIMIT_MB = 240
SHOWN_MB = 1.0
"""Packages below it are shown together."""
EXTRAS = ("parquet", "traces", "web", "scorep")
_WEIGH = """
import json, os
from importlib.metadata import distributions
found = {}
for each in distributions():
    files = [each.locate_file(file) for file in each.files]
    sizes = [(os.path.getsize(file), file.suffix) for file in files if file.is_file()]
    found[each.name] = [sum(size for size, _ in sizes), sum(size for size, suffix in sizes if suffix == ".pyc")]
print(json.dumps(found))
"""
_OF_THE_ENVIRONMENT = ("pip", "setuptools")
"""Packages that a new environment has already."""


class Weight(NamedTuple):
    """What a package has on disk, in bytes: all its files, and those of them that are bytecode, which pip makes."""

    files: int
    bytecode: int


def measure(extras: tuple[str, ...] = EXTRAS) -> Iterator[Figure]:
    """Install, weigh, and install the extras one after another."""
    with tempfile.TemporaryDirectory(dir=CACHE) as name:
        environment = Path(name) / "environment"
        run((PYTHON, "-m", "venv", environment))
        seconds = _install(environment, "")
        packages = _weigh(environment)
        total = sum(weight.files for weight in packages.values())
        yield Figure("footprint: packages", len(packages), "packages")
        yield Figure("footprint: size", total / MB, "MB", LIMIT_MB)
        yield Figure("footprint: of that bytecode, which pip install --no-compile leaves out",
                     sum(weight.bytecode for weight in packages.values()) / MB, "MB")  # fmt: skip
        yield Figure("footprint: pip install, CPU", seconds, "s")
        rest = 0
        for package, weight in sorted(packages.items(), key=lambda pair: -pair[1].files):
            if weight.files >= SHOWN_MB * MB:
                yield Figure(f"footprint: {package}", weight.files / MB, "MB")
            else:
                rest += weight.files
        yield Figure(f"footprint: all packages below {SHOWN_MB:g} MB", rest / MB, "MB")
        for extra in extras:
            _install(environment, f"[{extra}]")
            before, packages = packages, _weigh(environment)
            new = sum(weight.files for package, weight in packages.items() if package not in before)
            yield Figure(f"footprint: added by the extra {extra}", new / MB, "MB")
    yield Figure("footprint: gssr.pyz", _one_file_bytes() / MB, "MB")


def _install(environment: Path, extra: str) -> float:
    """Install this checkout with an extra (``[NAME]``, "" for none), in the versions of constraints.txt; CPU seconds."""
    pip = (environment / "bin" / "python", "-m", "pip", "install", "-qq", "--only-binary", ":all:")
    return run((*pip, "--constraint", ROOT / "constraints.txt", f"{ROOT}{extra}")).cpu


def _weigh(environment: Path) -> dict[str, Weight]:
    """Weigh each package of an environment but those that are in every one."""
    output = environment / "weights"
    run((environment / "bin" / "python", "-c", _WEIGH), output)
    found = json.loads(output.read_text())
    return {name: Weight(*sizes) for name, sizes in found.items() if name not in _OF_THE_ENVIRONMENT}


def _one_file_bytes() -> int:
    spec = importlib.util.spec_from_file_location("one_file", ROOT / ".ci" / "one_file.py")
    assert spec is not None and spec.loader is not None
    one_file = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(one_file)
    return len(one_file.build(ROOT, 1_800_000_000))
