"""``gssr mcp DIR``: answers an assistant that speaks the Model Context Protocol, over stdin and stdout, about the recordings
and traces below one folder."""

import argparse
import os
import sys

from gssr.commands import OK, USAGE, Command, Option, fail


def handle(options: argparse.Namespace, _workload: list[str] | None) -> int:
    """Serve until stdin ends. Exit code 0; 2 for what is no folder, or where nobody asks."""
    folder = os.path.realpath(options.folder)
    if not os.path.isdir(folder):
        return fail(f"{options.folder}: is no folder", USAGE)
    if sys.stdin is None or sys.stdin.isatty():
        return fail("gssr mcp is started by an assistant, which asks over stdin: put it into its settings", USAGE)
    from gssr.commands.mcp_server import server

    server(folder).run("stdio")
    return OK


COMMAND = Command(
    "mcp",
    "let an AI assistant ask about recordings (a server of the Model Context Protocol)",
    "gssr mcp DIR",
    (Option(("folder",), {"metavar": "DIR", "help": "the folder whose recordings and traces may be read"}),),
    handle,
)
