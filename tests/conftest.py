"""What all tests share: a plain environment, one way to need a system package, and deterministic properties."""

import ctypes
import gc
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from benchmarks.driver import build
from gssr.launch import JOB_IDS, LAUNCHERS

Requires = Callable[..., None]

HERE = "on this machine"
"""How the reason of a skip begins that no package can cure: rights or devices are missing."""
LONGEST_ID = 200
"""Characters of a parameter by which a test is named: enough to tell from each other all that a person has written."""

# What the terminal or the job around the tests says must not show in their results.
_TERMINAL = ("NO_COLOR", "FORCE_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "PY_COLORS", "COLUMNS", "LINES")
_LAUNCHER = {*JOB_IDS, *(row.rank for row in LAUNCHERS), "CUDA_VISIBLE_DEVICES"}
for _name in list(os.environ):
    if _name in _TERMINAL or _name in _LAUNCHER or _name.startswith(("SLURM", "GSSR_SLURM")):
        del os.environ[_name]

# What is kept for the next look must not be that of whoever runs the tests.
_CACHE = tempfile.TemporaryDirectory(prefix="gssr-tests-cache-")
os.environ["XDG_CACHE_HOME"] = _CACHE.name

# What nohup, or a shell that runs the tests in its background, has made them ignore must not reach what they start.
for _signal in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM):
    if signal.getsignal(_signal) == signal.SIG_IGN:
        signal.signal(_signal, lambda *_: None)  # still without effect here, and with its usual one after an exec

# Hundreds of processes are started: what each would compile anew, which takes half of its time, is kept.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# The same examples in every run, so that more of them find nothing new, and no verdict on how fast the machine is.
settings.register_profile(
    "gssr", derandomize=True, max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("gssr")


@pytest.fixture(autouse=True)
def no_debug_afterwards() -> Generator[None]:
    """``main(["--debug", ...])`` sets a variable for whatever it starts: not for what later tests start."""
    yield
    os.environ.pop("GSSR_DEBUG", None)


@pytest.fixture(scope="session")
def plants(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The path of each recording with a planted cause, by name (``tests.fakes.planted``)."""
    from tests.fakes import planted

    return planted.Planted(tmp_path_factory.mktemp("planted"))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Three more than there are cores: tests of screens wait for half of their time, many others for what they have started,
    and one process runs the cluster's tests one after another, which do little but wait."""
    return len(os.sched_getaffinity(0)) + 3


def pytest_configure(config: pytest.Config) -> None:
    """Leave out what is slow where nobody says which tests he wants."""
    config.option.markexpr = config.option.markexpr or "not slow"


def pytest_make_parametrize_id(val: object) -> str | None:
    """Name a case by the beginning of a long text: every process sends the names of all cases to the first one, and texts
    may be of megabytes. Returns None for what pytest names well by itself."""
    return repr(val[:LONGEST_ID]) if isinstance(val, str | bytes) and len(val) > LONGEST_ID else None


def pytest_itemcollected(item: pytest.Item) -> None:
    """Have tests that share what their module makes once run in one process: in each other one it would be made again."""
    shared = getattr(item, "_fixtureinfo").name2fixturedefs.values()  # noqa: B009 - no public name tells a fixture's scope
    if item.get_closest_marker("xdist_group") is None and any(found[-1].scope == "module" for found in shared):
        item.add_marker(pytest.mark.xdist_group(item.path.name))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Those that one process must run one after the other come first, so that no other waits for their end."""
    items.sort(key=lambda item: item.get_closest_marker("xdist_group") is None)
    # pytest-xdist 3.8 marks a group in the test's id, which pytest 9.2 doesn't heed (pytest-xdist#1386).
    grouped = not items or items[0].get_closest_marker("xdist_group") is None or "@" in items[0].nodeid
    if getattr(config.option, "loadgroup", False) and not grouped:
        raise pytest.UsageError("pytest-xdist keeps no groups together: take the versions of constraints.txt")


def pytest_collection_finish() -> None:
    """Exempt modules and tests from garbage collection: they stay, and looking through them takes 7 % of a worker's time.

    What tests leave is looked through at every 20,000 objects, not 700: that takes 5 % of the time of those of screens."""
    gc.freeze()
    gc.set_threshold(20_000)


def pytest_unconfigure() -> None:
    """Let them be collected at the end: some libraries written in C++ warn of what is left."""
    gc.unfreeze()


@pytest.fixture(scope="session")
def requires() -> Requires:
    """``requires("srun", "munged", package="slurm-wlm munge")`` skips the test when a command is missing."""

    def check(*commands: str, package: str) -> None:
        path = os.environ.get("PATH", os.defpath) + ":/usr/local/sbin:/usr/sbin:/sbin"
        missing = [command for command in commands if shutil.which(command, path=path) is None]
        if missing:
            pytest.skip(f"{', '.join(missing)} not found: install the Debian package(s) {package}")

    return check


@pytest.fixture
def fuse() -> None:
    """Skips the test where no filesystem can be mounted in a namespace of one's own."""
    rights = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    done = subprocess.run(["unshare", *rights, "--mount", "true"], capture_output=True, text=True)
    if done.returncode or not os.access("/dev/fuse", os.R_OK | os.W_OK):
        pytest.skip(f"{HERE} nothing can be mounted by way of /dev/fuse: {done.stderr}")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write the golden files anew instead of comparing")
    parser.addoption("--update-docs", action="store_true", help="write what pages show anew instead of comparing it")
    slow = parser.getgroup("slow tests")
    slow.addoption(
        "--rounds", type=int, default=20, metavar="N", help="rounds of each fault, and of races (default: 20)"
    )
    slow.addoption("--seed", type=int, default=0, metavar="N", help="of the first round or hostile input (default: 0)")
    slow.addoption(
        "--seconds", type=float, default=10.0, metavar="N", help="of hostile input, each reader (default: 10)"
    )


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """``golden(name, text)`` compares text with ``golden/name`` beside the test: what it looked like when somebody last
    looked at it. ``--update-golden`` writes it instead."""

    def check(name: str, text: str) -> None:
        path = request.path.parent / "golden" / name
        if request.config.getoption("--update-golden", default=False):
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert text == path.read_text(encoding="utf-8"), f"{path} differs: look at it, then pytest --update-golden"

    return check


class StoppedTime:
    """A time at which only what is told to takes any: ``now`` is unix time and the monotonic clock at once."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library
        self.now = 1.8e9
        self.sleep(0.0)

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self._library.fakenvml_stop_at(ctypes.c_double(self.now))


class FakeDriver:
    """A stand-in for NVIDIA's libnvidia-ml.so.1 that the real nvidia-ml-py calls. Its settings, as keywords here
    (``gpus=8`` is FAKENVML_GPUS), are listed in tests/fakes/nvml/fakenvml.h."""

    def __init__(self, folder: Path) -> None:
        self.library = folder / "libnvidia-ml.so.1"
        self._loaded: ctypes.CDLL | None = None

    def environ(self, **settings: object) -> dict[str, str]:
        """The environment of a process that shall see these GPUs."""
        own = {f"FAKENVML_{name.upper()}": str(value) for name, value in settings.items()}
        return dict(os.environ) | {"LD_LIBRARY_PATH": str(self.library.parent)} | own

    def load(self, monkeypatch: pytest.MonkeyPatch, **settings: object) -> ctypes.CDLL:
        """Make this very process see these GPUs for the rest of the test; the library, for its own functions."""
        for name, value in settings.items():
            monkeypatch.setenv(f"FAKENVML_{name.upper()}", str(value))
        self._library.fakenvml_forget()
        return self._library

    def expected(self, gpu: int, metric: int, start: float, end: float, instance: int = 0) -> float:
        """The exact mean of a metric (GPM id, or 500 and up: see fakenvml.h) between two unix times, in its own unit."""
        return float(self._library.fakenvml_expected_of(gpu, instance, metric, start, end))

    @property
    def _library(self) -> ctypes.CDLL:
        if self._loaded is None:  # under its own name, so that whoever asks for libnvidia-ml.so.1 gets this one
            self._loaded = ctypes.CDLL(str(self.library), mode=ctypes.RTLD_GLOBAL)
            self._loaded.fakenvml_expected_of.restype = ctypes.c_double
            self._loaded.fakenvml_expected_of.argtypes = [ctypes.c_int] * 3 + [ctypes.c_double] * 2
        return self._loaded


@pytest.fixture(scope="session")
def fake_driver(requires: Requires, tmp_path_factory: pytest.TempPathFactory) -> FakeDriver:
    """NVIDIA's driver library, built from tests/fakes/nvml."""
    requires("gcc", package="gcc libc6-dev")
    driver = FakeDriver(tmp_path_factory.mktemp("driver"))
    build(driver.library.parent)
    return driver


@pytest.fixture
def stopped_time(fake_driver: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> Generator[StoppedTime, None, None]:
    """Time stands still for the driver and for the backends in this process, and passes when it is told to."""
    library = fake_driver.load(monkeypatch)
    stopped = StoppedTime(library)
    for module, names in (("nvml", ["monotonic"]), ("gpm", ["monotonic", "sleep"])):
        for name in names:
            monkeypatch.setattr(f"gssr.backends.{module}.{name}", getattr(stopped, name))
    yield stopped
    library.fakenvml_stop_at(ctypes.c_double(0.0))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """With GSSR_TEST_STRICT=1 nothing may be skipped that a package would cure: that is a failure that gives its reason."""
    report = yield
    if report.skipped and not hasattr(report, "wasxfail") and os.environ.get("GSSR_TEST_STRICT") == "1":
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        if HERE not in reason:
            report.outcome, report.longrepr = "failed", f"GSSR_TEST_STRICT=1 allows no skip. {reason}"
    return report
