from spack_repo.builtin.build_systems.python import PythonPackage

from spack.package import *


class PySqliteFts4(PythonPackage):
    """Functions for full-text search with SQLite's FTS4."""

    homepage = "https://github.com/simonw/sqlite-fts4"
    pypi = "sqlite-fts4/sqlite-fts4-1.0.3.tar.gz"

    license("Apache-2.0")

    version("1.0.3", sha256="78b05eeaf6680e9dbed8986bde011e9c086a06cb0c931b3cf7da94c214e8930c")

    depends_on("py-setuptools", type="build")
