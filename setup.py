"""Adds the manual and the shells' completions to the package; everything else is in pyproject.toml."""

import sys
from pathlib import Path

from setuptools import setup
from setuptools.command.install import install

ROOT = Path(__file__).resolve().parent


class InstallWithManual(install):
    """What a wheel is filled by; an editable installation is not."""

    def run(self) -> None:
        super().run()
        sys.path[:0] = [str(ROOT), str(ROOT / "docs")]
        import make_man

        make_man.write(Path(self.install_data), make_man.pages() | make_man.completions())


setup(cmdclass={"install": InstallWithManual})
