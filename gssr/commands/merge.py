"""``gssr merge``: put the files of a run's ranks together into one."""

import argparse
import sys
import time

from gssr.commands import BAD_INPUT, OK, Command, Option, fail, put

OPTIONS = (Option(("file",), {"metavar": "FILE.sql", "help": "the recording: NAME.sql, or the folder NAME.sql.d"}),)

_PATIENCE = 10.0  # s, for another merge of the same recording
_BAR_AFTER, _BAR_WIDTH = 1.0, 40  # s, cells


def handle(options: argparse.Namespace, _workload: list[str] | None) -> int:
    """Exit code: 1 when something can't be merged, which stays as it is."""
    from gssr.store.merge import merge
    from gssr.store.open import RecordingError

    bar = _Bar()
    try:
        outcome = merge(options.file, patience=_PATIENCE, progress=bar.show)
    except RecordingError as error:
        bar.clear()
        return fail(str(error), BAD_INPUT)
    bar.clear()
    for sentence in outcome.left:
        fail(sentence, BAD_INPUT)
    if not outcome.n_files:
        return BAD_INPUT if outcome.left else put(f"{outcome.path}: there was nothing to merge\n")
    files = "1 file" if outcome.n_files == 1 else f"{outcome.n_files:,} files"
    return put(f"{outcome.path}: {files} merged\n") or (BAD_INPUT if outcome.left else OK)


class _Bar:
    """How far it is, on a terminal's stderr, when it takes longer than a second."""

    def __init__(self) -> None:
        self._begun = time.monotonic()
        self._shown = False

    def show(self, share: float) -> None:
        """Draw the share done, 0-1."""
        if time.monotonic() - self._begun < _BAR_AFTER or sys.stderr is None or not sys.stderr.isatty():
            return
        done = round(share * _BAR_WIDTH)
        print(f"\rmerging {'#' * done}{'.' * (_BAR_WIDTH - done)} {share:4.0%}", end="", file=sys.stderr, flush=True)
        self._shown = True

    def clear(self) -> None:
        """Leave nothing of it."""
        if self._shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


COMMAND = Command("merge", "put the files of a run's ranks together into one", "gssr merge FILE.sql", OPTIONS, handle)
