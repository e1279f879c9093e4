"""``gssr completion``: the script by which a shell asks ``gssr`` itself, through argcomplete, what can be typed."""

from __future__ import annotations

import argparse

from gssr.commands import OK, USAGE, Command, Option, fail, put

SHELLS = ("bash", "zsh", "fish")
OPTIONS = (
    Option(
        ("shell",),
        {"nargs": "?", "choices": SHELLS, "metavar": "bash|zsh|fish", "help": "the shell that is to read the script"},
    ),
)


def script(shell: str) -> str:
    """Make what bash, zsh or fish is to read."""
    from argcomplete.shell_integration import shellcode

    use_defaults = False  # gssr completes files itself
    return shellcode(["gssr"], use_defaults, shell)


def handle(options: argparse.Namespace, _workload: list[str] | None) -> int:
    """Exit code 0; 2 for wrong usage."""
    if options.shell is None:
        return fail(f"name the shell: gssr completion {'|'.join(SHELLS)}", USAGE)
    return put(script(options.shell)) or OK


COMMAND = Command(
    "completion",
    "print the script that lets Tab complete gssr's options in your shell",
    "gssr completion bash|zsh|fish",
    OPTIONS,
    handle,
)
