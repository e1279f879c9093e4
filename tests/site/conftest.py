"""The site, built once, and a browser to look at it. All tests here are marked ``site``: ``make test-site`` runs them."""

import importlib.util
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import ROOT, Browser


@pytest.fixture(scope="session")
def generator() -> str:
    """The interpreter that makes the site; skips the test where its packages are not installed."""
    missing = [
        name for name in ("sphinx", "myst_nb", "furo", "sphinx_copybutton") if not importlib.util.find_spec(name)
    ]
    if missing:
        pytest.skip(f"{', '.join(missing)} not found: make docs installs the extra docs")
    return sys.executable


@pytest.fixture(scope="session")
def site(generator: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site's folder, made as ``make docs`` does; a warning is an error."""
    folder = tmp_path_factory.mktemp("site")
    words = ["-q", "-W", "--keep-going", "-c", "docs", "-d", str(folder / "doctrees"), ".", str(folder / "site")]
    done = subprocess.run([generator, "-m", "sphinx", *words], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return folder / "site"


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory, requires) -> Iterator[Browser]:
    """Debian's chromium, without a window."""
    requires("chromium", package="chromium")
    with Browser(shutil.which("chromium") or "", tmp_path_factory.mktemp("browser")) as found:
        yield found
