"""``gssr merge``: put the files of a run's ranks together into one."""

import argparse

from gssr.commands import BAD_INPUT, OK, Command, Option, fail, put
from gssr.commands.bar import Bar

OPTIONS = (Option(("file",), {"metavar": "FILE.sql", "help": "the recording: NAME.sql, or the folder NAME.sql.d"}),)

_PATIENCE = 10.0  # s, for another merge of the same recording


def handle(options: argparse.Namespace, _workload: list[str] | None) -> int:
    """Exit code: 1 when something can't be merged, which stays as it is."""
    from gssr.render.cells import clean
    from gssr.store.merge import merge
    from gssr.store.open import RecordingError

    bar = Bar("merging")
    try:
        outcome = merge(options.file, patience=_PATIENCE, progress=bar.show)
    except RecordingError as error:
        bar.clear()
        return fail(str(error), BAD_INPUT)
    bar.clear()
    for sentence in outcome.left:
        fail(sentence, BAD_INPUT)
    path = clean(outcome.path)
    if not outcome.n_files:
        return BAD_INPUT if outcome.left else put(f"{path}: there was nothing to merge\n")
    files = "1 file" if outcome.n_files == 1 else f"{outcome.n_files:,} files"
    return put(f"{path}: {files} merged\n") or (BAD_INPUT if outcome.left else OK)


COMMAND = Command("merge", "put the files of a run's ranks together into one", "gssr merge FILE.sql", OPTIONS, handle)
