from spack_repo.builtin.packages.py_plotext.package import PyPlotext as Builtin

from spack.package import *


class PyPlotext(Builtin):
    """plotext, newer than Spack's own."""

    version("6.1.0", sha256="6b729ce6376c5c1c2152fe85e0449dcc54879d0923b3c6c8d1670108245c6f84")

    depends_on("cxx", when="@6:", type="build")
    depends_on("python@3.8:", when="@6:", type=("build", "run"))
    depends_on("py-setuptools@64:", when="@6:", type="build")
