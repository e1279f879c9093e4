from spack_repo.builtin.build_systems.python import PythonPackage

from spack.package import *


class PyClickDefaultGroup(PythonPackage):
    """A group of click whose default command needs no name."""

    homepage = "https://github.com/click-contrib/click-default-group"
    pypi = "click-default-group/click_default_group-1.2.4.tar.gz"

    version("1.2.4", sha256="eb3f3c99ec0d456ca6cd2a7f08f7d4e91771bef51b01bdd9580cc6450fe1251e")

    depends_on("py-flit-core@3.2:3", type="build")
    depends_on("py-click", type=("build", "run"))
