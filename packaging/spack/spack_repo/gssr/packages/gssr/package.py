from spack_repo.builtin.build_systems.python import PythonPackage

from spack.package import *


class Gssr(PythonPackage):
    """GSSR, the GPU saturation scorer: how well a job saturates its GPUs, when and where it does
    not, and why."""

    pypi = "gssr-profiler/gssr_profiler-0.5.0.tar.gz"

    license("BSD-3-Clause")

    version("0.5.0")  # a release: sha256 of the sdist

    variant("parquet", default=False, description="Export recordings as Parquet")
    variant("traces", default=True, description="Read traces several times as fast")

    depends_on("python@3.11:", type=("build", "run"))
    depends_on("py-setuptools@77:84", type="build")
    depends_on("py-argcomplete@3.5:3", type=("build", "run"))

    with default_args(type="run"):
        depends_on("py-textual@6.12:8")
        depends_on("py-rich@14.2:15")
        depends_on("py-nvidia-ml-py@12.560:13")
        depends_on("py-numpy@1.26:2")
        depends_on("py-pandas@2.1:3")
        depends_on("py-plotext@6.1:6")
        depends_on("py-sqlite-utils@3.37:4")
        depends_on("py-matplotlib@3.8:3")
        depends_on("py-pillow@10:13")
        depends_on("py-pyarrow@17:26", when="+parquet")
        depends_on("py-isal@1.6:1", when="+traces")

    @run_after("install")
    @on_package_attributes(run_tests=True)
    def check_install(self):
        gssr = Executable(self.prefix.bin.gssr)
        gssr("--version")
        gssr("demo", "-m", "1")
