"""Following a metric file that another tool is writing: a process of its own reads what is added, and records it."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from select import select

from gssr.foreign.open import NOTHING, STREAMED, Bytes, is_export_of_runs, streamed
from gssr.foreign.series import ForeignError, ImportHints
from gssr.foreign.write import Cursor, RunFrom
from gssr.recognise import recognise
from gssr.store.read.open import RecordingError
from gssr.store.read.private_copy import PRIVATE, private_folder
from gssr.store.write.writer import COMMIT_SECONDS, Writer

GROWING_SECONDS = 30.0
"""A file that was written this recently may still grow."""
SILENT_SECONDS = 60.0
"""What has not grown for so long has ended."""
_LOOK_SECONDS = 0.5
_MOST_SAID = 4096
_BEGIN_SECONDS = 3.0
"""So long the first samples are waited for, or what is wrong with the file."""


def is_growing(path: str) -> bool:
    """Tell whether a path is a metric file of a kind that can be followed and was written in the last GROWING_SECONDS.
    False for a file that does not exist, and for an export of GSSR."""
    try:
        recent = time.time() - os.stat(path).st_mtime < GROWING_SECONDS
    except OSError:
        return False
    if not (recent and recognise(path).kind in STREAMED and os.path.isfile(path)):
        return False
    try:
        return not is_export_of_runs(path)
    except ForeignError:
        return True  # whoever follows it says why it can't be read


def follow(path: str, recording: str, told: ImportHints, goes_on: Callable[[], bool]) -> None:
    """Write the contents of a metric file into a new recording as they come. Blocks until the file has not grown for
    SILENT_SECONDS or ``goes_on`` returns False, which is asked each time the end of the file is reached. Raises
    RecordingError, also for a damaged file, then after everything readable was written."""
    run = RunFrom(Writer(recording), told)
    grown = written = looked = time.monotonic()
    is_at_end = False

    def write() -> None:
        nonlocal written
        written = time.monotonic()
        run.write_what_came(time.time())

    def took(_: int) -> None:
        nonlocal grown
        grown = time.monotonic()

    def wait_for_growth() -> bool:
        """Write what was read, and wait a moment for the file to grow. Returns True if it is to be read on, False if it
        has ended. At the first end it returns True without waiting."""
        nonlocal is_at_end, looked
        write()
        if not is_at_end:  # a reader that dates rows back from the last one has it only now
            is_at_end = True
            return True
        if not goes_on() or looked - grown > SILENT_SECONDS:  # not now: writing may have taken long, and the file grown
            return False
        time.sleep(_LOOK_SECONDS)
        looked = time.monotonic()
        return True

    cursor = Cursor(streamed(recognise(path).kind, path, Bytes(path, wait_for_growth, took), told), told.host)
    while cursor.head is not None:
        run.take(cursor)
        if time.monotonic() - written >= COMMIT_SECONDS:
            write()
        cursor.advance()
    run.finish()
    if cursor.problem:
        raise ForeignError(cursor.problem)


@contextmanager
def followed(path: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Record a file in a child process for as long as the block runs. Yields the private recording, which grows with
    the file and is removed at the end. Waits up to a few seconds for the first rows. Raises RecordingError if the child
    says by then that the file cannot be read."""
    with ExitStack() as until_end:
        try:
            recording = os.path.join(until_end.enter_context(private_folder("import")), PRIVATE)
            hear, say = os.pipe()
            child = os.fork()
        except OSError as error:
            raise ForeignError(f"{path}: can't be followed: {error.strerror}") from None
        if child == 0:
            _record(path, recording, say)
        os.close(say)
        until_end.callback(_end, child)
        until_end.callback(os.close, hear)
        said = select([hear], [], [], _BEGIN_SECONDS)[0] and os.read(hear, _MOST_SAID).strip()
        if said:
            raise ForeignError(said.decode("utf-8", "replace"))
        yield recording, ()


def _record(path: str, recording: str, say: int) -> None:
    """Record the file in the child process until the parent ends, and exit the process. Writes one blank to the file
    descriptor ``say`` when all that was there has been read, or the problem if the file cannot be read."""
    parent, begun = os.getppid(), False

    def goes_on() -> bool:
        nonlocal begun
        if not begun:  # all that was there has been read
            begun = bool(os.write(say, b" "))
        return os.getppid() == parent

    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # which is a key of the screen's
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        nothing = os.open(os.devnull, os.O_RDWR)
        for stream in range(3):
            os.dup2(nothing, stream)
        follow(path, recording, NOTHING, goes_on)
    except RecordingError as error:
        with suppress(OSError):
            os.write(say, str(error).encode("utf-8", "backslashreplace")[:_MOST_SAID])
    finally:
        os._exit(0)


def _end(child: int) -> None:
    with suppress(OSError):
        os.kill(child, signal.SIGTERM)
        os.waitpid(child, 0)
