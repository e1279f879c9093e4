"""A package that is missing is named in one sentence, before anything is done; and no command imports what it does not need.

One interpreter, which has imported nothing but the command line, forks for each call: a package is hidden in the fork by
None in sys.modules, as Python has it for a module that can't be imported."""

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import NamedTuple

import pytest

from gssr.backends.synthetic.bulk import generate
from gssr.commands import NAMES
from gssr.commands.needed_packages import PACKAGES, USES

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
UNNEEDED = ("pandas", "msgspec", "isal", "otf2", "torch", "duckdb")
"""Modules that no command needs: for Python, or faster."""
DRIVER = "pynvml"
SCREENS = "import pkgutil, importlib, gssr.tui; [importlib.import_module(m.name) for m in pkgutil.walk_packages("
SCREENS += "gssr.tui.__path__, 'gssr.tui.') if m.name != 'gssr.tui.serve']"
CALLS: dict[str, list[str] | str] = {
    "profile": ["profile", "--backend", "synthetic:idle:1", "-o", "new.sql", "--", "true"],
    "profile --digest": ["profile", "--digest", "--backend", "synthetic:idle:1", "-o", "new.sql", "--", "true"],
    "profile --live": ["profile", "--live", "--backend", "synthetic:idle:1", "-o", "new.sql", "--", "true"],
    "top --once, --json, --csv, --lines": ["top", "--once", "--backend", "synthetic:idle:1"],
    "top": ["top", "--backend", "synthetic:idle:1"],
    "tui": ["tui", "run.sql"],
    "tui --serve": ["tui", "run.sql", "--serve"],
    "tui OTF2": ["tui", "archive.otf2"],
    "tui NSYS-COLUMNS": ["tui", "columns"],
    "tui XSpace": ["tui", "profile.xplane.pb"],
    "tui Perfetto": ["tui", "trace.pftrace"],
    "analyze": ["analyze", "run.sql"],
    "analyze --terminal": ["analyze", "--terminal", "run.sql"],
    "analyze --png": ["analyze", "--png", "new", "run.sql"],
    "analyze --report FILE.pdf": ["analyze", "--report", "new.pdf", "run.sql"],
    "analyze --report FILE.html": ["analyze", "--report", "new.html", "run.sql"],
    "analyze OTF2": ["analyze", "archive.otf2"],
    "analyze NSYS-COLUMNS": ["analyze", "columns"],
    "analyze XSpace": ["analyze", "profile.xplane.pb"],
    "analyze Perfetto": ["analyze", "trace.pftrace"],
    "analyze NCU-REP": ["analyze", "kernels.ncu-rep"],
    "analyze --dask": ["analyze", "run.sql", "--dask", "tcp://127.0.0.1:1"],
    "analyze --mpi": ["analyze", "run.sql", "--mpi"],
    "compare": ["compare", "run.sql", "run.sql"],
    "compare OTF2": ["compare", "archive.otf2", "archive.otf2"],
    "compare NSYS-COLUMNS": ["compare", "columns", "columns"],
    "compare XSpace": ["compare", "profile.xplane.pb", "profile.xplane.pb"],
    "compare Perfetto": ["compare", "trace.pftrace", "trace.pftrace"],
    "fleet": ["fleet", "--no-index", "."],
    "fleet --db": ["fleet", "--no-index", "--db", "new.db", "."],
    "fleet --dask": ["fleet", "--no-index", ".", "--dask", "tcp://127.0.0.1:1"],
    "fleet --mpi": ["fleet", "--no-index", ".", "--mpi"],
    "export": ["export", "--format", "csv", "-o", "new", "run.sql"],
    "export --format parquet": ["export", "-o", "new", "run.sql"],
    "export OTF2": ["export", "--format", "csv", "-o", "new", "archive.otf2"],
    "export NSYS-COLUMNS": ["export", "--format", "csv", "-o", "new", "columns"],
    "export XSpace": ["export", "--format", "csv", "-o", "new", "profile.xplane.pb"],
    "export Perfetto": ["export", "--format", "csv", "-o", "new", "trace.pftrace"],
    "export --dask": ["export", "--dataset", "new", "run.sql", "--dask", "tcp://127.0.0.1:1"],
    "export --mpi": ["export", "--dataset", "new", "run.sql", "--mpi"],
    "import": ["import", "dmon.txt", "-o", "new.sql"],
    "merge NAME.sql.d": ["merge", "shards.sql.d"],
    "merge NAME.sql, --attach, --digest": ["merge", "run.sql"],
    "merge --dask": ["merge", "run.sql", "--digest", "--dask", "tcp://127.0.0.1:1"],
    "merge --mpi": ["merge", "run.sql", "--digest", "--mpi"],
    "mark": ["mark", "here"],
    "demo": ["demo", "-m", "0.5", "--scenario", "idle:1"],
    "doctor": ["doctor"],
    "completion": ["completion", "bash"],
    "mcp": ["mcp", "."],
}
"""A call for each use of a command."""
IMPORTED = "tui"
"""What draws on a terminal: whether it needs no more is asked by importing all its modules, once for all uses that do."""
NOT_CALLED = (
    "profile --live",
    "top",
    "tui --serve",
    "mcp",
    *(
        use
        for use in CALLS
        if use.endswith(("OTF2", "NSYS-COLUMNS", "XSpace", "Perfetto", "NCU-REP", "--dask", "--mpi"))
    ),
)
FORKS = """
import json, os, sys, tempfile
import gssr.cli
for line in sys.stdin:
    words, hidden, folder = json.loads(line)
    with tempfile.TemporaryFile() as said:
        pid = os.fork()
        if not pid:
            try:
                os.chdir(folder)
                for stream in (1, 2):
                    os.dup2(said.fileno(), stream)
                sys.modules.update(dict.fromkeys(hidden))
                if isinstance(words, str):
                    exec(words)
                    os._exit(0)
                os._exit(gssr.cli.main(words))
            except SystemExit as leaving:
                os._exit(leaving.code)
            except BaseException:
                import traceback
                traceback.print_exc()
            finally:
                for stream in (sys.stdout, sys.stderr):
                    stream.flush()
                os._exit(99)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        said.seek(0)
        print(json.dumps([code, said.read().decode()]), file=sys.__stdout__, flush=True)
"""


class Said(NamedTuple):
    """The exit code of a call, and what it wrote."""

    code: int
    text: str


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording, a file of another tool, and what begins like traces that need packages."""
    folder = tmp_path_factory.mktemp("packages")
    generate(str(folder / "run.sql"), "idle", 1, 0.01, 1.0)
    (folder / "shards.sql.d").mkdir()
    generate(str(folder / "shards.sql.d" / "node.0.run.sql"), "idle", 1, 0.01, 1.0)
    (folder / "archive.otf2").write_bytes(b"\3BOTF2" + bytes(100))
    (folder / "columns").mkdir()
    (folder / "columns" / "TARGET_INFO_GPU.parquet").write_bytes(b"PAR1" + bytes(100))
    (folder / "kernels.ncu-rep").write_bytes(b"NVR\0" + bytes(100))
    (folder / "profile.xplane.pb").write_bytes(b"\x0a\x0b\x12\x09/host:CPU")
    (folder / "trace.pftrace").write_bytes(b"\x0a\x02\x50\x01" * 9)
    (folder / "dmon.txt").write_text("# gpu   pwr\n# Idx     W\n    0    60\n    0    61\n")
    return folder


@pytest.fixture(scope="module")
def forks():
    with subprocess.Popen(
        [sys.executable, "-c", FORKS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    ) as process:  # fmt: skip
        yield process
        process.stdin.close()


@pytest.fixture
def call(folder: Path, forks):
    """``call(words, hidden)``: what gssr does without these modules."""

    def made(words: list[str] | str, hidden: list[str]) -> Said:
        forks.stdin.write(json.dumps([words, hidden, str(folder)]) + "\n")
        forks.stdin.flush()
        return Said(*json.loads(forks.stdout.readline()))

    before = sorted(os.listdir(folder))
    yield made
    for name in set(os.listdir(folder)) - set(before):
        subprocess.run(["rm", "-r", folder / name], check=True)


EVERY_USE = [(command, use) for command, uses in USES.items() for use in uses]


def test_the_table_has_every_command_and_the_versions_of_the_project() -> None:
    assert tuple(USES) == NAMES and {use.typed for _, use in EVERY_USE} == set(CALLS)
    extras = PROJECT["optional-dependencies"]
    for package in PACKAGES:
        asked = extras[package.extra] if package.extra else PROJECT["dependencies"]
        assert package.requirement in asked
    assert {module for _, use in EVERY_USE for module in use.modules} == {package.module for package in PACKAGES}


LACKING = [(use, module) for _, use in EVERY_USE for module in use.modules]


@pytest.mark.parametrize(("use", "module"), LACKING, ids=lambda each: getattr(each, "typed", each))
def test_a_missing_package_is_named_before_anything_is_done(use, module: str, call, folder: Path) -> None:
    before = sorted(os.listdir(folder))
    said = call(CALLS[use.typed], [module])
    package = next(each for each in PACKAGES if each.module == module)
    assert said.code == 2 and len(said.text.splitlines()) == 1, said
    assert re.search(
        rf" needs the packages? (\S+ and )?{package.name}[: ].*pip install .*'{package.requirement}'", said.text
    )
    assert f"'.[{package.extra}]'" in said.text or not package.extra
    assert sorted(os.listdir(folder)) == before


@pytest.mark.parametrize(("command", "use"), [each for each in EVERY_USE if each[1].typed not in NOT_CALLED],
                         ids=lambda each: getattr(each, "typed", ""))  # fmt: skip
def test_nothing_is_imported_that_a_command_does_not_need(command: str, use, call) -> None:
    needed = {*use.modules, *USES[command][0].modules}
    hidden = [*(package.module for package in PACKAGES if package.module not in needed), *UNNEEDED, DRIVER]
    if "matplotlib" in needed:
        hidden.remove("PIL")  # which matplotlib itself imports
    if "pyarrow" in needed:
        hidden.remove("pandas")  # which pyarrow takes for installed if None stands for it
    said = call(SCREENS if use.typed == IMPORTED else CALLS[use.typed], hidden)
    assert said.code == 0 and "needs the" not in said.text, said


def test_without_the_drivers_package_a_recording_says_so_and_goes_on(call, folder: Path) -> None:
    said = call(["profile", "--backend", "gpm", "-o", "new.sql", "--", "echo", "ran"], [DRIVER])
    assert said.code == 0 and "\nran\n" in f"\n{said.text}" and (folder / "new.sql").exists()
    assert "no GPU is sampled: NVIDIA's driver can't be asked without nvidia-ml-py; pip install" in said.text
    doctor = call(["doctor"], [DRIVER])
    assert doctor.code == 0 and "without nvidia-ml-py" in doctor.text


def test_a_module_that_another_package_needs_is_named_as_well(call) -> None:
    said = call(["analyze", "--png", "new", "run.sql"], ["cycler"])
    assert said.code == 2 and said.text.endswith(
        "gssr analyze needs the module cycler, which is not installed: install gssr-profiler again\n"
    ), said


def test_the_page_shows_the_table() -> None:
    page = (ROOT / "docs" / "install.md").read_text()
    always = re.findall(r"^\| `gssr ([^|]*)` \| ([^|]*) \|$", page, re.MULTILINE)
    names = {package.module: package.name for package in PACKAGES}
    wanted = [
        (use.typed, ", ".join(names[module] for module in dict.fromkeys((*uses[0].modules, *use.modules))) or "nothing")
        for uses in USES.values()
        for use in uses
    ]
    assert always == wanted
