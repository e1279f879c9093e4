"""What is installed with gssr, and what is built of it: bounds that hold, wheels only, the same bytes twice."""

import json
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from importlib.metadata import version
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from gssr.version import __version__

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
AUDIT = ROOT / ".ci" / "audit.py"


def requirements() -> list[Requirement]:
    """Everything that is asked for, to run, to test and to build."""
    project = PROJECT["project"]
    extras = [each for extra in project["optional-dependencies"].values() for each in extra]
    return [Requirement(each) for each in [*project["dependencies"], *extras, *PROJECT["build-system"]["requires"]]]


def constraints() -> dict[str, Version]:
    """The versions that the tests run with."""
    lines = [line.partition("==") for line in (ROOT / "constraints.txt").read_text().splitlines() if line.strip()]
    return {canonicalize_name(name): Version(exact) for name, _, exact in lines}


@pytest.mark.parametrize("requirement", requirements(), ids=lambda requirement: requirement.name)
def test_the_versions_asked_for_end_with_the_major_version_that_is_tested(requirement: Requirement) -> None:
    tested = constraints()[canonicalize_name(requirement.name)]
    bounds = {each.operator: Version(each.version) for each in requirement.specifier}
    assert set(bounds) == {">=", "<"}, "a lowest version that was tried, and an upper bound"
    assert bounds[">="] <= tested < bounds["<"]
    assert bounds["<"] == Version(str(tested.major + 1)), "nothing newer was ever tried"


def test_every_package_that_is_installed_has_one_exact_version() -> None:
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if line.strip()]
    assert all("==" in line and not set(line) & set("<>~*;@/") for line in lines)
    assert len(constraints()) == len(lines)


def test_few_packages_are_needed() -> None:
    assert len(PROJECT["project"]["dependencies"]) <= 10


def test_only_wheels_are_installed_and_no_index_is_named() -> None:
    makefile, run = (ROOT / "Makefile").read_text(), (ROOT / ".ci" / "run").read_text()
    installs = [line for line in (makefile + run).splitlines() if "pip install" in line]
    assert installs and all("--only-binary :all:" in line for line in installs)
    for text in (makefile, run, (ROOT / "pyproject.toml").read_text(), (ROOT / "constraints.txt").read_text()):
        assert "index-url" not in text and "://" not in text


def pip_audit(folder: Path, said: object, code: int = 0) -> list[str]:
    """A stand-in for pip-audit that says this."""
    script = f"import sys; print({json.dumps(said)!r}); print('no route to host', file=sys.stderr); sys.exit({code})"
    (folder / "pip_audit.py").write_text(script)
    return [sys.executable, str(folder / "pip_audit.py")]


@pytest.mark.parametrize(
    ("packages", "code", "told"),
    [
        ([{"name": "a", "version": "1", "vulns": []}], 0, "1 packages, no known vulnerability"),
        ([{"name": "a", "skip_reason": "not found"}], 2, "NOT DONE: no advisory database answers for 1 of 1"),
        ([{"name": "a", "version": "1", "vulns": []}, {"name": "b", "skip_reason": "x"}], 2, "for 1 of 2 packages"),
        ([{"name": "a", "version": "1", "vulns": [{"id": "CVE-1", "fix_versions": ["2"]}]}], 1, "CVE-1; mended in 2"),
        (None, 2, "NOT DONE: no advisory database answers for any package (no route to host)"),
    ],
)
def test_an_audit_passes_only_if_every_package_was_looked_up(
    tmp_path: Path, packages: list[dict[str, object]] | None, code: int, told: str
) -> None:
    command = pip_audit(tmp_path, {} if packages is None else {"dependencies": packages})
    done = subprocess.run([sys.executable, str(AUDIT), *command], capture_output=True, text=True, timeout=60)
    assert done.returncode == code and told in done.stdout + done.stderr


@pytest.mark.slow  # make dist compares as well
@pytest.mark.timeout(600)  # git and setuptools, several times
def test_two_builds_of_a_commit_are_the_same_and_hold_nothing_of_who_built_them(tmp_path: Path) -> None:
    if Version(version("setuptools")) < Version("77"):
        pytest.skip("on this machine setuptools is older than what builds gssr")
    if subprocess.run(["git", "-C", str(ROOT), "rev-parse", "HEAD"], capture_output=True).returncode:
        pytest.skip("on this machine there is no commit to build from")
    command = [sys.executable, str(ROOT / ".ci" / "dist.py"), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,), (sdist,) = tmp_path.glob("*.whl"), tmp_path.glob("*.tar.gz")
    with zipfile.ZipFile(wheel) as built:
        names = set(built.namelist())
        assert {"gssr/cli.py", "gssr/py.typed", "gssr/report/html/assets/report.js"} <= names
        assert not any(name.startswith("tests") for name in names)
        shared = {name.partition(".data/data/share/")[2] for name in names if ".data/" in name}
        assert {"man/man1/gssr-profile.1", "bash-completion/completions/gssr", "zsh/site-functions/_gssr"} <= shared
        for name in names:
            assert str(ROOT).encode() not in built.read(name)
    one_file = tmp_path / "gssr.pyz"
    said = subprocess.run([one_file, "--version"], capture_output=True, text=True, cwd=tmp_path)
    assert said.stdout == f"gssr {__version__}\n", said
    with zipfile.ZipFile(one_file) as built:
        assert len({entry.date_time for entry in built.infolist()}) == 1
        assert not any(str(ROOT).encode() in built.read(name) for name in built.namelist())
    with tarfile.open(sdist) as packed:
        assert {(member.uid, member.gid, member.uname, member.gname) for member in packed} == {(0, 0, "", "")}
        assert len({member.mtime for member in packed}) == 1
