"""Which packages each command needs, and what to install where one of them is missing.

docs/install.md shows the same table. A package that makes something only faster (msgspec, isal) is needed by nothing.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import NamedTuple

from gssr.module_path import is_one_file


class Package(NamedTuple):
    """A package: the ``module`` that is imported, what pip installs (``requirement``), and the extra of GSSR that brings it;
    "" for one that always comes with GSSR."""

    module: str
    requirement: str
    extra: str = ""

    @property
    def name(self) -> str:
        """The name by which pip installs it: the requirement without its versions."""
        return self.requirement.partition(">")[0]


PACKAGES = (
    Package("numpy", "numpy>=1.26,<3"),
    Package("plotext", "plotext>=6.1,<7"),
    Package("matplotlib", "matplotlib>=3.8,<4"),
    Package("PIL", "pillow>=10,<14"),
    Package("textual", "textual>=6.12,<9"),
    Package("rich", "rich>=14.2,<16"),
    Package("argcomplete", "argcomplete>=3.5,<4"),
    Package("textual_serve", "textual-serve>=1.1.3,<2", "web"),
    Package("aiohttp", "aiohttp>=3.9.5,<4", "web"),
    Package("pyarrow", "pyarrow>=17,<27", "parquet"),
    Package("sqlite_utils", "sqlite-utils>=3.37,<5"),
    Package("_otf2", "otf2>=3,<4", "scorep"),
    Package("ncu_report", "ncu-report>=2025.3,<2027", "ncu"),
    Package("google.protobuf", "protobuf>=6.31.1,<8", "perfetto"),
    Package("perfetto", "perfetto>=0.56,<1", "perfetto"),
    Package("mcp", "mcp>=2,<3", "mcp"),
    Package("distributed", "distributed>=2025.1,<2027", "dask"),
    Package("mpi4py", "mpi4py>=4.1,<5", "mpi"),
)
"""Of those that GSSR asks for what a command can't do without. NVIDIA's driver is asked through nvidia-ml-py by the sampler,
which says so where that is missing; pandas is for Python alone."""


class Use(NamedTuple):
    """A use of a command, as one types it, the modules it needs, and whether these options are such a use."""

    typed: str
    modules: tuple[str, ...]
    applies: Callable[[argparse.Namespace], bool] = lambda _options: True


def _draws_pictures(options: argparse.Namespace) -> bool:
    from gssr.commands.analyze import drawing_of

    return drawing_of(options).png


def _draws_text(options: argparse.Namespace) -> bool:
    from gssr.commands.analyze import drawing_of

    return drawing_of(options).terminal


def _reports(ending: str) -> Callable[[argparse.Namespace], bool]:
    return lambda options: options.report is not None and options.report.lower().endswith(ending)


def _reads(*kinds: str) -> Callable[[argparse.Namespace], bool]:
    """Return what tells whether one of the files on the command line is of one of these kinds."""

    def applies(options: argparse.Namespace) -> bool:
        from gssr.recognise import recognise

        named = next((getattr(options, name) for name in ("files", "inputs", "places") if hasattr(options, name)), ())
        return any(recognise(name).kind in kinds for name in (*named, *getattr(options, "input", ())))

    return applies


def _reads_columns(options: argparse.Namespace) -> bool:
    """Tell whether one of the folders on the command line is an export of Nsight Systems in columns, or holds one."""
    from gssr.recognise import is_in_columns, traces_in

    named = next((getattr(options, name) for name in ("files", "inputs", "places") if hasattr(options, name)), ())
    folders = [name for name in (*named, *getattr(options, "input", ())) if os.path.isdir(name)]
    return any(
        is_in_columns(each) or any(map(is_in_columns, (path for path, _ in traces_in(each)))) for each in folders
    )


def _opens_recording(options: argparse.Namespace) -> bool:
    """Tell whether ``gssr merge`` with these options reads a recording: to attach traces, to make a digest, or because the
    file is there already. Merging ranks' files into a new one needs no numpy."""
    from gssr.store.merge import names_of

    return options.attach is not None or options.digest or os.path.isfile(names_of(options.file)[0])


_SCREEN = ("numpy", "plotext", "textual", "rich")
_TRACES = {
    command: (
        Use(f"{command} OTF2", ("_otf2",), _reads("otf2")),
        Use(f"{command} NSYS-COLUMNS", ("pyarrow",), _reads_columns),
        Use(f"{command} XSpace", ("google.protobuf",), _reads("xspace")),
        Use(f"{command} Perfetto", ("google.protobuf", "perfetto"), _reads("perfetto")),
    )
    for command in ("tui", "analyze", "compare", "export")
}
"""Of the commands that read traces."""
_BY_WORKERS = {
    command: (
        Use(f"{command} --dask", ("distributed",), lambda options: options.dask is not None),
        Use(f"{command} --mpi", ("mpi4py",), lambda options: options.mpi),
    )
    for command in ("analyze", "fleet", "export", "merge")
}
"""Of the commands that read many files."""
USES: dict[str, tuple[Use, ...]] = {
    "demo": (Use("demo", ("numpy", "plotext")),),
    "doctor": (Use("doctor", ()),),
    "profile": (
        Use("profile", ()),
        Use("profile --digest", ("numpy",), lambda options: options.digest),
        Use("profile --live", _SCREEN, lambda options: options.live),
    ),
    "top": (
        Use("top --once, --json, --csv, --lines", ()),
        Use("top", _SCREEN, lambda options: not (options.once or options.json or options.csv or options.lines)),
    ),
    "tui": (
        Use("tui", _SCREEN),
        Use("tui --serve", ("textual_serve", "aiohttp"), lambda options: options.serve is not None),
        *_TRACES["tui"],
    ),
    "analyze": (
        Use("analyze", ("numpy",)),
        Use("analyze --terminal", ("plotext",), _draws_text),
        Use("analyze --png", ("matplotlib",), _draws_pictures),
        Use("analyze --report FILE.pdf", ("matplotlib",), _reports(".pdf")),
        Use("analyze --report FILE.html", ("PIL",), _reports(".html")),
        *_TRACES["analyze"],
        Use("analyze NCU-REP", ("ncu_report",), _reads("ncu-report")),
        *_BY_WORKERS["analyze"],
    ),
    "compare": (Use("compare", ("numpy",)), *_TRACES["compare"]),
    "fleet": (
        Use("fleet", ("numpy",)),
        Use("fleet --db", ("sqlite_utils",), lambda options: options.db is not None),
        *_BY_WORKERS["fleet"],
    ),
    "export": (
        Use("export", ("numpy",)),
        Use("export --format parquet", ("pyarrow",), lambda options: options.format == "parquet"),
        *_TRACES["export"],
        *_BY_WORKERS["export"],
    ),
    "import": (Use("import", ("numpy",)),),
    "merge": (
        Use("merge NAME.sql.d", ()),
        Use("merge NAME.sql, --attach, --digest", ("numpy",), _opens_recording),
        *_BY_WORKERS["merge"],
    ),
    "mark": (Use("mark", ()),),
    "completion": (Use("completion", ("argcomplete",)),),
    "mcp": (Use("mcp", ("mcp",)),),
}
"""By command. The first row is of every call; what each further one needs comes on top."""
COMMANDS_OF_ONE_FILE = tuple(command for command, uses in USES.items() if not uses[0].modules)
"""What gssr.pyz can do: the commands that have a use which needs no package, and no other use of theirs."""


def not_in_one_file(typed: str) -> str:
    """Say in one sentence that gssr.pyz does not have what was ``typed``."""
    has = "profile, top --once, merge of ranks' files, mark and doctor"
    return f"{typed} needs the full install of GSSR: gssr.pyz only has {has}"


def _is_there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # of a package that it would be in
        return False


def why_not(command: str, options: argparse.Namespace) -> str | None:
    """Say in one sentence which packages a command lacks, and what installs them; None if it has all that it needs."""
    for use in USES[command]:
        missing = [module for module in use.modules if is_one_file() or not _is_there(module)]
        if missing and use.applies(options):
            typed = f"gssr {use.typed}"
            return not_in_one_file(typed) if is_one_file() else missing_packages(typed, missing)
    return None


def missing_packages(what: str, modules: Sequence[str]) -> str:
    """Say in one sentence that ``what`` needs the packages of these modules, and what installs them. A module that only
    other packages need is named as it is."""
    packages = [package for package in PACKAGES if package.module in modules]
    if not packages:
        return f"{what} needs the module {modules[0]}, which is not installed: install gssr-profiler again"
    extra = next((f" (with GSSR in a checkout: pip install '.[{each.extra}]')" for each in packages if each.extra), "")
    names = " and ".join(package.name for package in packages)
    commands = " ".join(f"'{package.requirement}'" for package in packages)
    return f"{what} needs the package{'s' * (len(packages) > 1)} {names}: pip install {commands}{extra}"
