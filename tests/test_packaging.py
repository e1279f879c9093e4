"""packaging/ and the files beside it say what pyproject.toml says: one version, the same packages within the same bounds."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from gssr.cli import main
from gssr.commands import profile
from gssr.version import DISTRIBUTION, __version__

ROOT = Path(__file__).parents[1]
PACKAGING = ROOT / "packaging"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
FILE = DISTRIBUTION.replace("-", "_")
SPACK = PACKAGING / "spack" / "spack_repo" / "gssr" / "packages"
NAMED = {"matplotlib-base": "matplotlib", "python-isal": "isal"}
"""What conda calls otherwise."""
IN_MODULES = {"Python": "python", "SciPy-bundle": "numpy", "matplotlib": "matplotlib", "Pillow": "pillow"}
"""Modules of EasyBuild, and what is in them."""


def bounds(*extras: str) -> dict[str, SpecifierSet]:
    """What is needed to run, with these extras, Python included."""
    listed = [*PROJECT["dependencies"], *(each for extra in extras for each in PROJECT["optional-dependencies"][extra])]
    found = {canonicalize_name(each.name): each.specifier for each in map(Requirement, listed)}
    return {**found, "python": SpecifierSet(PROJECT["requires-python"])}


def spack_bound(specifier: SpecifierSet) -> str:
    """As Spack writes it: ``>=1.26,<3`` is ``1.26:2``, which 2.9 is in."""
    limits = {each.operator: each.version for each in specifier}
    return f"{limits['>=']}:{int(limits['<']) - 1 if '<' in limits else ''}"


def easyconfig() -> dict[str, Any]:
    (path,) = (PACKAGING / "easybuild").glob("*.eb")
    found: dict[str, Any] = {}
    exec(path.read_text(), found)
    assert path.name == f"{found['name']}-{found['version']}-gfbf-{found['toolchain']['version']}.eb"
    return found


def test_spack_asks_for_the_same() -> None:
    recipe = (SPACK / "gssr" / "package.py").read_text()
    asked = dict(re.findall(r'depends_on\("(?:py-)?([\w-]+)@([\d.:]+)"(?!.*type="build")', recipe))
    assert asked == {name: spack_bound(found) for name, found in bounds("parquet").items()} | {
        "isal": spack_bound(bounds("traces")["isal"])
    }


def test_packages_that_spack_lacks_are_new_enough() -> None:
    needed = bounds()
    for path in SPACK.glob("py_*/package.py"):
        (version,) = re.findall(r'^    version\("([\d.]+)", sha256="[0-9a-f]{64}"\)$', path.read_text(), re.MULTILINE)
        name = path.parent.name.removeprefix("py_").replace("_", "-")
        assert needed.get(name, SpecifierSet()).contains(version), name


def test_conda_asks_for_the_same() -> None:
    recipe = (PACKAGING / "conda" / "recipe.yaml").read_text()
    needed = bounds("parquet", "traces")
    run = recipe.partition("\n  run:\n")[2].partition("\ntests:")[0]
    asked = {NAMED.get(name, name): SpecifierSet(found) for name, found in re.findall(r"- ([\w-]+) ([\d.<>=,]+)", run)}
    assert asked == needed
    build = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    assert f"- {build[0].replace('>=', ' >=')}\n" in recipe


def test_easybuild_brings_versions_that_are_allowed() -> None:
    found = easyconfig()
    versions = {canonicalize_name(name): version for name, version, *_ in found["exts_list"]}
    versions |= {IN_MODULES[name]: version for name, version in found["dependencies"] if name in IN_MODULES}
    needed = bounds()
    for name in needed.keys() - {"numpy", "pandas"}:  # of that year, in SciPy-bundle
        assert needed[name].contains(versions[name]), name
    assert versions[DISTRIBUTION] == __version__


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("CITATION.cff", f"\nversion: {__version__}\n"),
        ("packaging/Containerfile", f"/{FILE}-{__version__}-py3-none-any.whl /"),
        ("packaging/conda/recipe.yaml", f"\n  version: {__version__}\n"),
        ("packaging/conda/recipe.yaml", f"\n  name: {DISTRIBUTION}\n"),
        ("packaging/easybuild/GSSR-{}-gfbf-2025b.eb", f"\nversion = '{__version__}'\n"),
        ("packaging/modulefiles/gssr/{}", f'\nmodule-whatis "Version: {__version__}"\n'),
        ("packaging/modulefiles/gssr/{}.lua", f'\nwhatis("Version: {__version__}")\n'),
        ("packaging/spack/spack_repo/gssr/packages/gssr/package.py", f'\n    version("{__version__}"'),
        ("packaging/spack/spack_repo/gssr/packages/gssr/package.py", f'"{DISTRIBUTION}/{FILE}-{__version__}.tar.gz"'),
    ],
)
def test_the_version_is_the_same_everywhere(path: str, text: str) -> None:
    assert text in (ROOT / path.format(__version__)).read_text()


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("CITATION.cff", "repository-code: {}"),
        ("packaging/conda/recipe.yaml", "  homepage: {}"),
        ("packaging/easybuild/GSSR-{version}-gfbf-2025b.eb", "homepage = '{}'"),
        ("packaging/spack/spack_repo/gssr/packages/gssr/package.py", '    homepage = "{}"'),
    ],
)
def test_the_projects_address_is_that_of_pyproject_and_none_is_made_up(path: str, line: str) -> None:
    home = PROJECT.get("urls", {}).get("Homepage")
    text = (ROOT / path.format(version=__version__)).read_text()
    before, after = map(re.escape, line.split("{}"))
    named = re.findall(f"^{before}(.*?){after}(?: +#.*)?$", text, re.MULTILINE)
    assert named == [home] if home else named in ([], ["(none)"])


@pytest.mark.parametrize("path", sorted((PACKAGING / "kubernetes").glob("*.yaml")), ids=lambda path: path.stem)
def test_manifests_mount_what_they_name_and_their_commands_are_understood(path: Path) -> None:
    text = path.read_text()
    volumes = text.partition("volumes:\n")[2] if text.count("  volumes:\n") == 1 else ""
    assert set(re.findall(r"- name: ([\w-]+)(?: #.*)?\n +mountPath", text)) == set(
        re.findall(r"- name: ([\w-]+)", volumes)
    )
    assert set(re.findall(r"image: registry.example/gssr:(\S+)", text)) == {__version__}
    options = re.findall(r"--[a-z][a-z-]+", text.partition("args:")[2].partition("- --\n")[0])
    known = {flag for option in profile.OPTIONS for flag in option.flags} | {"--no-summary"}
    assert set(options) <= known


def test_a_pod_is_found_again_by_the_label_that_its_manifest_gives(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (PACKAGING / "kubernetes" / "injected.yaml").read_text()
    told = {"metadata.namespace": "research", "metadata.name": "training-0"}
    fields = dict(re.findall(r"- name: (\w+)(?: #.*)?\n +valueFrom:\n +fieldRef:\n +fieldPath: ([\w.]+)", text))
    (container,) = re.findall(r"  containers:\n    - name: (\w+)", text)
    words = re.findall(r"^        - (--\S+)", text.partition("args:")[2].partition("- --\n")[0], re.MULTILINE)
    words = [
        re.sub(r"\$\((\w+)\)", lambda found: told[fields[found[1]]], word) for word in words
    ]  # as the kubelet does
    words = [word.replace("=/recordings/", f"={tmp_path}/") for word in words]
    command = [sys.executable, "-m", "gssr", "profile", "--backend=synthetic", *words, "--", "true"]
    subprocess.run(command, check=True, capture_output=True, cwd=ROOT, timeout=60)
    assert main(["fleet", str(tmp_path), "--no-index", "--by", "label", "--csv"]) == 0
    assert capsys.readouterr().out.splitlines()[1].startswith(f"research/training-0/{container},1,")


def test_the_changelog_begins_with_this_version() -> None:
    first = re.findall(r"^## (.*)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)[0]
    assert re.fullmatch(
        rf"\[Unreleased\] – {re.escape(__version__)}|\[{re.escape(__version__)}\] – \d{{4}}-\d\d-\d\d", first
    )


def test_the_package_is_called_what_is_said() -> None:
    assert PROJECT["name"] == DISTRIBUTION


def test_the_versions_of_python_that_are_tested_are_those_of_the_page() -> None:
    prefix = "Programming Language :: Python :: 3."
    tested = [each.removeprefix(prefix) for each in PROJECT["classifiers"] if each.startswith(prefix)]
    assert (
        f"GSSR is tested with Python 3.{', 3.'.join(tested[:-1])} and 3.{tested[-1]}"
        in (ROOT / "docs/install.md").read_text()
    )
    assert PROJECT["requires-python"] == f">=3.{tested[0]}"


def test_the_oldest_versions_are_those_that_are_allowed() -> None:
    lines = [line.partition("==") for line in (ROOT / "constraints-min.txt").read_text().splitlines()]
    oldest = {canonicalize_name(name): Version(version) for name, _, version in lines}
    needed = bounds(*PROJECT["optional-dependencies"].keys() - {"docs"})  # which nothing of GSSR runs with
    checks = {"python", "mypy", "ruff", "pandas-stubs", "types-psutil"}  # which check the code, and do not run it
    for name in needed.keys() - checks:
        (least,) = (Version(each.version) for each in needed[name] if each.operator == ">=")
        assert oldest[name].release[: len(least.release)] == least.release, f"{name} {least} was not tried"
