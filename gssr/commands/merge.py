"""``gssr merge``: put the files of a run's ranks together into one."""

import argparse

from gssr.commands import BAD_INPUT, OK, Command, Option, fail, put
from gssr.commands.printing import Bar

OPTIONS = (Option(("file",), {"metavar": "FILE.sql", "help": "the recording: NAME.sql, or the folder NAME.sql.d"}),)

_PATIENCE = 10.0  # s, for another merge of the same recording


def handle(options: argparse.Namespace, _workload: list[str] | None) -> int:
    """Exit code: 1 when something can't be merged, or repaired, which stays as it is."""
    import os

    from gssr.render.cells import clean
    from gssr.store.merge import merge, names_of
    from gssr.store.read.open import RecordingError

    path, folder = names_of(options.file)
    if not os.path.isdir(folder):
        if os.path.isdir(path):
            return fail(f"{path}: is a folder: name a recording in it, NAME.sql", BAD_INPUT)
        if not os.path.lexists(path):
            return fail(f"{path}: no such recording: neither this file is there nor {folder}", BAD_INPUT)
        return _repair(path)
    bar = Bar("merging")
    try:
        outcome = merge(options.file, patience=_PATIENCE, progress=bar.show)
    except RecordingError as error:
        bar.clear()
        return fail(str(error), BAD_INPUT)
    bar.clear()
    left = [*outcome.left, *outcome.waiting.values()]
    for sentence in left:
        fail(sentence, BAD_INPUT)
    path = clean(outcome.path)
    if not outcome.n_files:
        return BAD_INPUT if left else put(f"{path}: there was nothing to merge\n")
    files = "1 file" if outcome.n_files == 1 else f"{outcome.n_files:,} files"
    return put(f"{path}: {files} merged\n") or (BAD_INPUT if left else OK)


def _repair(path: str) -> int:
    """Of a recording in one file, make the rollups anew that are missing or damaged."""
    from gssr.render.cells import clean
    from gssr.store.merge.repair import repair
    from gssr.store.read.open import RecordingError

    try:
        repaired = repair(path)
    except RecordingError as error:
        return fail(str(error), BAD_INPUT)
    name = clean(path)
    if repaired.n_thinned:
        return fail(
            f"{path}: rollups of {repaired.n_thinned:,} x 10 minutes of a GPU are damaged, and the samples are thinned",
            BAD_INPUT,
        )
    wrong = [f"the rollups of {repaired.n:,} x 10 minutes of a GPU were missing or damaged"] if repaired.n else []
    wrong += [f"the rollups of {table} did not count all of it" for table in repaired.use]
    if not wrong:
        return put(f"{name}: is in one file, and its rollups are whole: there was nothing to do\n")
    return put(f"{name}: {', and '.join(wrong)}: made anew\n")


COMMAND = Command("merge", "put the files of a run's ranks together into one", "gssr merge FILE.sql", OPTIONS, handle)
