"""``gssr completion``: the script with which a shell completes the words of ``gssr``, made from the commands' options."""

import argparse

from gssr.commands import OK, USAGE, Command, Option, fail, put

SHELLS = ("bash", "zsh", "fish")
OPTIONS = (
    Option(
        ("shell",),
        {"nargs": "?", "choices": SHELLS, "metavar": "bash|zsh|fish", "help": "the shell that is to read the script"},
    ),
    Option(("--values",), {"nargs": "+", "metavar": "KIND", "help": argparse.SUPPRESS}),
)


def handle(options: argparse.Namespace, _workload: list[str] | None) -> int:
    """Exit code 0; 2 for wrong usage."""
    if options.values:
        from gssr.commands.completion.recorded import values
        from gssr.render.cells import clean

        kind, *files = options.values
        return put("".join(f"{value}\t{clean(about)}\n" for value, about in values(kind, files).items()))
    if options.shell is None:
        return fail(f"name the shell: gssr completion {'|'.join(SHELLS)}", USAGE)
    from gssr.commands.completion.scripts import script

    return put(script(options.shell)) or OK


COMMAND = Command(
    "completion",
    "print what makes a shell complete the words of gssr",
    "gssr completion bash|zsh|fish",
    OPTIONS,
    handle,
)
