"""What can stand behind each option, and where no option does, for argcomplete: functions of what has been typed so far."""

import argparse
import os
import shlex
from collections.abc import Callable, Iterable, Mapping

from gssr.commands import Command, Option
from gssr.commands.completion.recorded import values

SCREENS = ("job", "gpus", "time", "balance", "why", "compare", "calls")
EXPORTED = (
    "runs", "processes", "gpus", "events", "summary", "gpu_summary", "statistics", "verdicts", "breakdown",
    "host_samples", "workload_samples", "gpu_processes", "samples",
)  # fmt: skip
TRACE_TABLES = (
    "ranks", "kernel_types", "kernels", "kernels_by_rank", "api", "copies", "copy_sizes", "ranges", "operators", "os",
    "idle", "gaps", "launches", "steps", "counters", "metrics", "messages", "collectives", "io", "calltree",
    "calltree_metrics", "functions", "paradigms_by_rank", "verdicts", "cuda_gpu_kern_sum", "cuda_api_sum",
    "cuda_gpu_mem_time_sum", "cuda_gpu_mem_size_sum", "nvtx_sum", "osrt_sum",
)  # fmt: skip
"""What gssr.tui, gssr.convert and gssr.model call these: importing them would take longer than one waits for a key."""
RECORDING = (".sql",)
LOOKED_AT = (*RECORDING, ".json", ".json.gz", ".sqlite", ".otf2", ".cubex")

Completer = Callable[..., Iterable[str]]
"""Called by argcomplete with keywords; ``prefix``: the word so far. What does not begin so is left out by argcomplete. In a
mapping each value has a word of explanation."""


def nothing(**_typed: object) -> Iterable[str]:
    """Of a number or a free text: nothing."""
    return ()


def words(*known: str) -> Completer:
    """These words."""
    return lambda **_typed: known


def listed(known: Callable[[], Iterable[str]]) -> Completer:
    """These words, of which several can stand with commas between: those that do not yet."""

    def complete(prefix: str, **_typed: object) -> Iterable[str]:
        before = prefix[: prefix.rfind(",") + 1]
        found = known()
        taken = before.split(",")
        about = found if isinstance(found, Mapping) else dict.fromkeys(found, "")
        return {f"{before}{name}": text for name, text in about.items() if name not in taken}

    return complete


def files(*endings: str) -> Completer:
    """Folders, and the files with these endings; all files where there are none, or none of these."""

    def complete(prefix: str, **_typed: object) -> Iterable[str]:
        folder, begin = os.path.split(prefix)
        folders: list[str] = []
        wanted: list[str] = []
        others: list[str] = []
        try:
            with os.scandir(os.path.expanduser(folder) or ".") as entries:
                for entry in entries:
                    name = entry.name
                    if not name.startswith(begin) or not name.isprintable() or (name[0] in ".~#" and not begin):
                        continue
                    path = os.path.join(folder, name)
                    if entry.is_dir():
                        folders.append(path + "/")
                    else:
                        (wanted if name.endswith(endings) else others).append(path)
        except OSError:
            pass  # nothing can be named there
        return sorted(folders + (wanted or ([] if folders and endings else others)))

    return complete


def folders(prefix: str, **_typed: object) -> Iterable[str]:
    """Folders."""
    return [name for name in files()(prefix) if name.endswith("/")]


def recordings(*endings: str) -> Completer:
    """FILE[@RUN]."""

    def complete(prefix: str, **_typed: object) -> Iterable[str]:
        file, at, _ = prefix.rpartition("@")
        if at and os.path.exists(os.path.expanduser(file)):
            return {f"{file}@{run}": about for run, about in values("run", [file]).items()}
        return files(*endings)(prefix)

    return complete


def _named_files() -> list[str]:
    """The words of the whole line, also behind the cursor, that name something that is there."""
    line = os.environ.get("COMP_LINE", "")
    try:
        typed = shlex.split(line)
    except ValueError:  # a quote is open
        typed = line.split()
    named = (os.path.expanduser(word) for word in typed[1:] if not word.startswith("-"))
    return [name for name in named if os.path.exists(name) or os.path.exists(f"{name}.d")]


def runs(**_typed: object) -> Iterable[str]:
    """The runs of the recording on the line, by label and id."""
    return values("run", _named_files())


def _metrics() -> Iterable[str]:
    from gssr.metrics import BY_NAME

    return tuple(BY_NAME)


def backends(prefix: str, **_typed: object) -> Iterable[str]:
    """Backends, with the scenarios of ``synthetic``, and the recordings that ``replay`` plays."""
    from gssr.backends import BACKENDS
    from gssr.backends.synthetic.scenarios import SCENARIOS

    if prefix.startswith("replay:"):
        return [f"replay:{name}" for name in files(*RECORDING)(prefix.removeprefix("replay:"))]
    kinds = [kind.name + ":" * (kind.name == "replay") for kind in BACKENDS]
    return (*kinds, "dcgm:pause", *(f"synthetic:{name}" for name in SCENARIOS))


def scenarios(**_typed: object) -> Iterable[str]:
    """What a synthetic job does."""
    from gssr.backends.synthetic.scenarios import SCENARIOS

    return tuple(SCENARIOS)


_OF_METAVAR: dict[str, Completer] = {
    "FILE": files(*LOOKED_AT),
    "FILE|DIR": files(*LOOKED_AT),
    "DIR|FILE": files(*RECORDING),
    "FILE.sql": files(*RECORDING),
    "NAME.sql": files(*RECORDING),
    "FILE[@RUN]": recordings(*LOOKED_AT),
    "TRACE": files(*LOOKED_AT[1:], ".nsys-rep"),
    "DIR": folders,
    "RUN": runs,
}
_OF_OPTION: dict[tuple[str, str], Completer] = {
    ("--metrics", "LIST"): listed(_metrics),
    ("--metric", "NAME"): lambda **_typed: _metrics(),
    ("--gpus", "LIST"): listed(lambda: values("gpus", _named_files())),
    ("--gpus", "IDS"): words("all"),
    ("--backend", "NAME"): backends,
    ("--scenario", "NAME[:GPUS]"): scenarios,
    ("--screen", "NAME"): words(*SCREENS),
    ("--tables", "LIST"): listed(lambda: EXPORTED),
    ("--csv", "TABLE"): words(*TRACE_TABLES),
    ("--report", "FILE"): files(".html", ".pdf"),
    ("--rules", "FILE"): files(".toml"),
    ("--token-file", "FILE"): files(),
    ("--index", "FILE"): files(".index"),
    ("--output", "DIR|FILE"): files(),
    ("--trace", "nsys[:SECONDS]"): words("nsys"),
    ("--trace-when", "low[:LIMIT[:TIME]]"): words("low"),
}
"""What stands behind an option of this name and metavar, where the metavar alone does not say it."""


def completer_of(command: Command, option: Option) -> Completer | None:
    """Find what completes the value of an option; None where argparse's own choices do."""
    if option.settings.get("choices") or not (option.takes_value or not option.flags[0].startswith("-")):
        return None
    if command.name == "import" and option.flags == ("files",):
        return files()
    if command.name == "top" and option.flags == ("--gpus",):
        return nothing  # of this node: there is no recording
    metavar = option.settings.get("metavar", "")
    return _OF_OPTION.get((option.flags[-1], metavar)) or _OF_METAVAR.get(metavar, nothing)


def add_completers(parser: argparse.ArgumentParser, command: Command) -> None:
    """Give a parser the options of a command, each with what completes it."""
    for option in command.options:
        action = parser.add_argument(*option.flags, **option.settings)
        completer = completer_of(command, option)
        if completer is not None:
            action.completer = completer  # type: ignore[attr-defined]
