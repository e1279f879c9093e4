"""What is typed for ``gssr``: the options of its commands, and what stands behind each."""

import argparse
from typing import Literal, NamedTuple

from gssr.commands import Command

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
"""What gssr.tui, gssr.convert and gssr.model call these: a package is built where their numpy is not."""

Kind = Literal["any", "words", "list", "files", "recordings", "folder", "run", "gpus", "command"]


class Value(NamedTuple):
    """What stands behind an option, or where no option does. ``list``: words with commas between; ``files``: those with
    these endings first; ``recordings``: the same, as FILE[@RUN]; ``run``, ``gpus``: asked of the recording on the line."""

    kind: Kind
    words: tuple[str, ...] = ()


_TRACES = (".json", ".json.gz", ".sqlite", ".otf2", ".cubex")
_LOOKED_AT = Value("files", (".sql", *_TRACES))
_OF_METAVAR = {
    "FILE": _LOOKED_AT,
    "FILE|DIR": _LOOKED_AT,
    "DIR|FILE": Value("files", (".sql",)),
    "FILE.sql": Value("files", (".sql",)),
    "NAME.sql": Value("files", (".sql",)),
    "FILE[@RUN]": Value("recordings", (".sql", *_TRACES)),
    "TRACE": Value("files", (*_TRACES, ".nsys-rep")),
    "DIR": Value("folder"),
    "RUN": Value("run"),
}


def _named() -> dict[tuple[str, str], Value]:
    """Return what stands behind an option by its name and metavar, for those of which the metavar alone does not say
    it."""
    from gssr.backends import BACKENDS
    from gssr.backends.synthetic.scenarios import SCENARIOS
    from gssr.metrics import BY_NAME

    metrics, scenarios = tuple(BY_NAME), tuple(SCENARIOS)
    backends = [kind.name + ":" * (kind.name == "replay") for kind in BACKENDS]
    return {
        ("--metrics", "LIST"): Value("list", metrics),
        ("--metric", "NAME"): Value("words", metrics),
        ("--gpus", "LIST"): Value("gpus"),
        ("--gpus", "IDS"): Value("words", ("all",)),
        ("--backend", "NAME"): Value("words", (*backends, "dcgm:pause", *(f"synthetic:{name}" for name in scenarios))),
        ("--scenario", "NAME[:GPUS]"): Value("words", scenarios),
        ("--screen", "NAME"): Value("words", SCREENS),
        ("--tables", "LIST"): Value("list", EXPORTED),
        ("--csv", "TABLE"): Value("words", TRACE_TABLES),
        ("--report", "FILE"): Value("files", (".html", ".pdf")),
        ("--rules", "FILE"): Value("files", (".toml",)),
        ("--token-file", "FILE"): Value("files"),
        ("--index", "FILE"): Value("files", (".index",)),
        ("--output", "DIR|FILE"): Value("files"),
        ("--trace", "nsys[:SECONDS]"): Value("words", ("nsys",)),
        ("--trace-when", "low[:LIMIT[:TIME]]"): Value("words", ("low",)),
    }


class Typed(NamedTuple):
    """An option as it is typed: ``value``: None for a switch; ``many``: "+" when several words follow, "?" when none need
    to."""

    flags: tuple[str, ...]
    help: str
    metavar: str = ""
    value: Value | None = None
    many: str = ""
    again: bool = False


def typed(command: Command) -> tuple[list[Typed], Value]:
    """Return the options of a command as they are typed, without hidden ones, and what stands where no option does."""
    named = _named()
    options, behind = [Typed(("-h", "--help"), "say how the command is used")], Value("any")
    for option in command.options:
        settings = option.settings
        if settings["help"] == argparse.SUPPRESS:
            continue
        choices = tuple(settings.get("choices") or ())
        metavar = settings.get("metavar") or "|".join(choices) or "VALUE"
        if choices:
            value = Value("words", choices)
        else:
            value = named.get((option.flags[-1], metavar)) or _OF_METAVAR.get(metavar, Value("any"))
        if command.name == "top" and value.kind == "gpus":
            value = Value("any")  # of this node: there is no recording
        if not option.flags[0].startswith("-"):
            behind = Value("files") if command.name == "import" else value
            continue
        text = settings["help"].replace("%%", "%")
        again = settings.get("action") in ("append", "extend")
        many = settings["nargs"] if settings.get("nargs") in ("+", "?") else ""
        if option.takes_value:
            options.append(Typed(option.flags, text, metavar, value, many, again))
        else:
            options.append(Typed(option.flags, text))
        if settings.get("action") is argparse.BooleanOptionalAction:
            options.append(Typed((f"--no-{option.flags[-1][2:]}",), "leave it out"))
    return options, Value("command") if command.name == "profile" else behind
