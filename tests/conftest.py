"""What all tests share: a plain environment, one way to need a system package, and deterministic properties."""

import os
import shutil
from collections.abc import Callable, Generator

import pytest
from hypothesis import HealthCheck, settings

from gssr.launch import JOB_IDS, LAUNCHERS

Requires = Callable[..., None]

# What the terminal or the job around the tests says must not show in their results.
_TERMINAL = ("NO_COLOR", "FORCE_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "PY_COLORS", "COLUMNS", "LINES")
_LAUNCHER = {*JOB_IDS, *(row.rank for row in LAUNCHERS), "CUDA_VISIBLE_DEVICES"}
for _name in list(os.environ):
    if _name in _TERMINAL or _name in _LAUNCHER or _name.startswith(("SLURM", "GSSR_SLURM")):
        del os.environ[_name]

# The same examples in every run, and no verdict on how fast the machine is.
settings.register_profile("gssr", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("gssr")


@pytest.fixture(scope="session")
def requires() -> Requires:
    """``requires("srun", "munged", package="slurm-wlm munge")`` skips the test when a command is missing."""

    def check(*commands: str, package: str) -> None:
        path = os.environ.get("PATH", os.defpath) + ":/usr/local/sbin:/usr/sbin:/sbin"
        missing = [command for command in commands if shutil.which(command, path=path) is None]
        if missing:
            pytest.skip(f"{', '.join(missing)} not found: install the Debian package(s) {package}")

    return check


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """With GSSR_TEST_STRICT=1 nothing may be skipped: a skip is a failure that gives its reason."""
    report = yield
    if report.skipped and not hasattr(report, "wasxfail") and os.environ.get("GSSR_TEST_STRICT") == "1":
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        report.outcome, report.longrepr = "failed", f"GSSR_TEST_STRICT=1 allows no skip. {reason}"
    return report
