from spack_repo.builtin.build_systems.python import PythonPackage

from spack.package import *


class PySqliteUtils(PythonPackage):
    """Commands and functions for SQLite databases."""

    homepage = "https://github.com/simonw/sqlite-utils"
    pypi = "sqlite-utils/sqlite_utils-3.38.tar.gz"

    license("Apache-2.0")

    version("3.38", sha256="1ae77b931384052205a15478d429464f6c67a3ac3b4eafd3c674ac900f623aab")

    depends_on("python@3.8:", type=("build", "run"))
    depends_on("py-setuptools", type="build")

    with default_args(type="run"):
        depends_on("py-sqlite-fts4")
        depends_on("py-click")
        depends_on("py-click-default-group@1.2.3:")
        depends_on("py-tabulate")
        depends_on("py-python-dateutil")
        depends_on("py-pluggy")
