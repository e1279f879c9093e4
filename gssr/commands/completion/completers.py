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
    "ranks", "kernel_types", "kernels", "kernels_by_rank", "api", "copies", "copy_sizes", "ranges", "operators",
    "os", "kernel_sequences", "operator_counters", "stages", "transfer_waits", "hlo", "idle", "gaps", "critical_path",
    "launches", "steps", "flops", "counters", "metrics", "messages", "collectives", "io", "calltree", "calltree_metrics",
    "functions", "sampled_functions", "paradigms_by_rank", "verdicts", "cuda_gpu_kern_sum", "cuda_api_sum",
    "cuda_gpu_mem_time_sum", "cuda_gpu_mem_size_sum", "nvtx_sum", "osrt_sum",
)  # fmt: skip
"""What gssr.tui, gssr.convert and gssr.model call these: importing them would take longer than one waits for a key."""
RECORDING = (".sql",)
LOOKED_AT = (*RECORDING, ".json", ".json.gz", ".sqlite", ".otf2", ".cubex", ".pb", ".pftrace", ".perfetto-trace")

Completer = Callable[..., Iterable[str]]
"""Called by argcomplete with keywords; ``prefix``: the word so far. What does not begin so is left out by argcomplete. In a
mapping each value has a word of explanation."""


def offer_nothing(**_typed: object) -> Iterable[str]:
    """Offer nothing: a number, or a free text, is typed."""
    return ()


def offer_words(*known: str) -> Completer:
    """Make what offers these words."""
    return lambda **_typed: known


def offer_list(known: Callable[[], Iterable[str]]) -> Completer:
    """Make what offers those of the words that do not stand there yet: several can, with commas between."""

    def complete(prefix: str, **_typed: object) -> Iterable[str]:
        """Offer each word that is not in the list yet, behind what stands in it up to the last comma, with its
        explanation or ""."""
        before = prefix[: prefix.rfind(",") + 1]
        found = known()
        taken = before.split(",")
        about = found if isinstance(found, Mapping) else dict.fromkeys(found, "")
        return {f"{before}{name}": text for name, text in about.items() if name not in taken}

    return complete


def offer_files(*endings: str) -> Completer:
    """Make what offers folders, and the files with these endings; all files if no endings are given, or if there is
    neither a folder nor such a file."""

    def complete(prefix: str, **_typed: object) -> Iterable[str]:
        """Offer the folders, which get a slash, and the files that begin like the word, sorted by path. Hidden and
        temporary ones (``.``, ``~``, ``#``) are offered only once the name is begun. Nothing if the folder can't be
        listed."""
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


def offer_folders(prefix: str, **_typed: object) -> Iterable[str]:
    """Offer folders."""
    return [name for name in offer_files()(prefix) if name.endswith("/")]


def offer_recordings(*endings: str) -> Completer:
    """Make what offers FILE[@RUN]: files, and behind the @ the runs in the file."""

    def complete(prefix: str, **_typed: object) -> Iterable[str]:
        file, at, _ = prefix.rpartition("@")
        if at and os.path.exists(os.path.expanduser(file)):
            return {f"{file}@{run}": about for run, about in values("run", [file]).items()}
        return offer_files(*endings)(prefix)

    return complete


def _named_files() -> list[str]:
    """Find the words of the whole line, also behind the cursor, that name a file or folder that is there."""
    line = os.environ.get("COMP_LINE", "")
    try:
        typed = shlex.split(line)
    except ValueError:  # a quote is open
        typed = line.split()
    named = (os.path.expanduser(word) for word in typed[1:] if not word.startswith("-"))
    return [name for name in named if os.path.exists(name) or os.path.exists(f"{name}.d")]


def offer_runs(**_typed: object) -> Iterable[str]:
    """Offer the runs of the recording on the line, by label and id."""
    return values("run", _named_files())


def _metrics() -> Iterable[str]:
    from gssr.metrics import BY_NAME

    return tuple(BY_NAME)


def offer_backends(prefix: str, **_typed: object) -> Iterable[str]:
    """Offer backends, with the scenarios of ``synthetic``, and the recordings that ``replay`` plays."""
    from gssr.backends import BACKENDS
    from gssr.backends.synthetic.scenarios import SCENARIOS

    if prefix.startswith("replay:"):
        return [f"replay:{name}" for name in offer_files(*RECORDING)(prefix.removeprefix("replay:"))]
    kinds = [kind.name + ":" * (kind.name == "replay") for kind in BACKENDS]
    return (*kinds, "dcgm:pause", *(f"synthetic:{name}" for name in SCENARIOS))


def offer_scenarios(**_typed: object) -> Iterable[str]:
    """Offer the jobs that the synthetic backend knows."""
    from gssr.backends.synthetic.scenarios import SCENARIOS

    return tuple(SCENARIOS)


_OF_METAVAR: dict[str, Completer] = {
    "FILE": offer_files(*LOOKED_AT),
    "FILE|DIR": offer_files(*LOOKED_AT),
    "DIR|FILE": offer_files(*RECORDING),
    "FILE.sql": offer_files(*RECORDING),
    "NAME.sql": offer_files(*RECORDING),
    "FILE[@RUN]": offer_recordings(*LOOKED_AT),
    "TRACE": offer_files(*LOOKED_AT[1:], ".nsys-rep"),
    "DIR": offer_folders,
    "RUN": offer_runs,
}
_OF_OPTION: dict[tuple[str, str], Completer] = {
    ("--metrics", "LIST"): offer_list(_metrics),
    ("--metric", "NAME"): lambda **_typed: _metrics(),
    ("--gpus", "LIST"): offer_list(lambda: values("gpus", _named_files())),
    ("--gpus", "IDS"): offer_words("all"),
    ("--backend", "NAME"): offer_backends,
    ("--scenario", "NAME[:GPUS]"): offer_scenarios,
    ("--screen", "NAME"): offer_words(*SCREENS),
    ("--tables", "LIST"): offer_list(lambda: EXPORTED),
    ("--csv", "TABLE"): offer_words(*TRACE_TABLES),
    ("--report", "FILE"): offer_files(".html", ".pdf"),
    ("--rules", "FILE"): offer_files(".toml"),
    ("--token-file", "FILE"): offer_files(),
    ("--index", "FILE"): offer_files(".index"),
    ("--output", "DIR|FILE"): offer_files(),
    ("--trace", "nsys[:SECONDS]"): offer_words("nsys"),
    ("--trace-when", "low[:LIMIT[:TIME]]"): offer_words("low"),
}
"""What stands behind an option of this name and metavar, where the metavar alone does not say it."""


def completer_of(command: Command, option: Option) -> Completer | None:
    """Find what completes the value of an option; None where argparse's own choices do."""
    if option.settings.get("choices") or not (option.takes_value or not option.flags[0].startswith("-")):
        return None
    if command.name == "import" and option.flags == ("files",):
        return offer_files()
    if command.name == "top" and option.flags == ("--gpus",):
        return offer_nothing  # of this node: there is no recording
    metavar = option.settings.get("metavar", "")
    return _OF_OPTION.get((option.flags[-1], metavar)) or _OF_METAVAR.get(metavar, offer_nothing)


def add_completers(parser: argparse.ArgumentParser, command: Command) -> None:
    """Give a parser the options of a command, each with what completes it."""
    for option in command.options:
        action = parser.add_argument(*option.flags, **option.settings)
        completer = completer_of(command, option)
        if completer is not None:
            action.completer = completer  # type: ignore[attr-defined]
