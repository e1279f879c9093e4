"""Which recordings and traces a command reads, and which of their runs."""

import itertools
import os
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from gssr.commands import Option

if TYPE_CHECKING:
    from gssr.store.read.recording import Recording, RunReader


RULES = Option(
    ("--rules",),
    {"metavar": "FILE", "help": "TOML that changes the rules of the notes: docs/verdicts.md (default: GSSR_RULES)"},
)
"""What a run is judged by."""
_DEFAULT_ENDS = (".sql", ".sql.d")
_NUMBER = re.compile("-?[0-9]{1,9}")


def own_recordings() -> list[str]:
    """This job's default recording, else the newest of the default names in this folder. One that only has shards yet is
    there as well."""
    from gssr import launch

    own = launch.default_output(launch.where_am_i())
    if os.path.exists(own) or os.path.exists(own + ".d"):
        stem = own.removesuffix(".sql")
        further = [f"{stem}-{number}.sql" for number in range(2, 1000)]
        return [own, *itertools.takewhile(os.path.exists, further)]
    found = [
        entry for entry in os.scandir(".") if entry.name.startswith("gssr_") and entry.name.endswith(_DEFAULT_ENDS)
    ]
    return [max(found, key=lambda entry: entry.stat().st_mtime).name.removesuffix(".d")] if found else []


def with_run(text: str) -> tuple[str, str | None]:
    """``FILE@RUN`` as the file and the run in it; without a run, or where a file has that very name, None."""
    if os.path.lexists(text) or os.path.lexists(f"{text}.d"):
        return text, None
    named = [(text[:at], text[at + 1 :]) for at, char in enumerate(text) if char == "@" and 0 < at < len(text) - 1]
    there = [(file, run) for file, run in named if os.path.lexists(file) or os.path.lexists(f"{file}.d")]
    found = there or named
    return found[-1] if found else (text, None)


def traces_among(names: Iterable[str]) -> list[str]:
    """Those of the files and folders that hold traces, by their content."""
    from gssr.recognise import TRACES, recognise

    return [name for name in names if recognise(name).kind in TRACES]


def chosen_runs(recording: "Recording", run: str | None) -> "Sequence[RunReader]":
    """The runs that --run names. Raises ValueError with a sentence that lists those there are."""
    runs = recording.runs
    if run is None:
        return runs
    found = [reader for reader in runs if run in (reader.run.run_id, reader.run.label)]
    if not found and _NUMBER.fullmatch(run) and 0 < abs(int(run)) <= len(runs):
        found = [runs[int(run) - 1 if int(run) > 0 else int(run)]]
    if not found:
        there = ", ".join(
            f"{number} ({reader.run.label or reader.run.run_id})" for number, reader in enumerate(runs, 1)
        )
        raise ValueError(f"no run {run!r}; there are: {there or 'none'}")
    return found
