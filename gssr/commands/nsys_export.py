"""``gssr import`` of a report of Nsight Systems: makes of it the file that the other commands read; they run no program."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

from gssr.commands import BAD_INPUT, OK, USAGE, fail, put, tell

if TYPE_CHECKING:
    from subprocess import Popen

_HEAD = b"SQLite format 3\0"
_SAID = 4096
"""Bytes of what nsys prints that are looked at, from the end."""
_PATIENCE = 5.0  # s, for nsys to end when it is told to


def export(report: str, output: str, replaces: bool) -> int:
    """Have nsys write the SQLite database of a report.

    ``replaces``: a file at ``output`` may be replaced. Returns the exit code: 0 when the file is there; 1 when nsys is
    not, or could not write it; 2 for wrong usage. Failures are said.
    """
    import shutil

    problem = _no_report(report)
    if problem is not None:
        return fail(f"{report}: {problem}", BAD_INPUT)
    if os.path.isdir(output) or (os.path.exists(output) and os.path.samefile(report, output)):
        return fail(f"-o {output}: is {'a folder' if os.path.isdir(output) else 'the report itself'}", USAGE)
    if os.path.lexists(output) and not replaces:
        return fail(f"{output}: already exists: gssr analyze reads it, or -f replaces it", BAD_INPUT)
    nsys = shutil.which("nsys")
    if nsys is None:
        return fail(
            f"{report}: nsys, which alone can read it, is not on PATH: load the module of Nsight Systems, or run"
            " `nsys export --type sqlite` where it is",
            BAD_INPUT,
        )
    with ended_like_interrupted():
        return _exported(nsys, report, output)


def _no_report(path: str) -> str | None:
    """Say why a file can't be a report of nsys; None when it may be."""
    if not os.path.isfile(path):
        return "no such file" if not os.path.lexists(path) else "is not a file"
    try:
        with open(path, "rb") as stream:
            head = stream.read(len(_HEAD))
    except OSError as error:
        return f"can't be read: {error.strerror}"
    if not head:
        return "is empty"
    return "is an SQLite database already: gssr analyze reads it" if head == _HEAD else None


@contextmanager
def ended_like_interrupted() -> Iterator[None]:
    """Raise KeyboardInterrupt on SIGTERM and SIGHUP within the block, so that what was begun is cleared away."""

    def interrupt(_: int, __: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _exported(nsys: str, report: str, output: str) -> int:
    """Run ``nsys export`` in a folder of its own beside the output, and move the file from there when it is whole;
    return the exit code."""
    import shutil
    import sys
    from errno import EDQUOT, ENOSPC

    from gssr.store.disk import FOLDER

    aside = os.path.join(os.path.dirname(os.path.abspath(output)), f".gssr-{os.urandom(8).hex()}")
    made = os.path.join(aside, "report.sqlite")
    try:
        os.mkdir(aside, FOLDER)
        if sys.stderr is not None and sys.stderr.isatty():
            tell(f"{report}: nsys export is running, which may take minutes")
        code, said = _run([nsys, "export", "--type=sqlite", f"--output={made}", os.path.abspath(report)], aside)
        if code != 0 or not _is_database(made):
            how = f"was ended by signal {-code}" if code < 0 else "failed" if code else "has made no file"
            full = "; the disk is full" if _is_full(aside) else ""
            return fail(f"{report}: nsys export {how}{full}: {said or 'it said nothing'}", BAD_INPUT)
        mode = os.stat(report).st_mode & 0o666 | 0o600  # as private as the report, and as the user's umask has it
        os.chmod(made, os.stat(made).st_mode & mode)
        os.replace(made, output)
    except OSError as error:
        reason = "the disk is full" if error.errno in (ENOSPC, EDQUOT) else error.strerror
        return fail(f"{output}: can't be written: {reason}", BAD_INPUT)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    from gssr.render.cells import clean

    return put(f"{clean(output)}: written; gssr analyze reads it\n") or OK


def _run(command: list[str], folder: str) -> tuple[int, str]:
    """Run a command; return its exit code (-n for signal n) and the last line that it printed, or "".

    What it prints goes into ``folder``. However this ends, the command and what it started are ended too. Raises
    OSError.
    """
    import subprocess

    said, child = os.path.join(folder, "said"), None
    try:
        with open(said, "wb") as stream:
            child = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=stream, stderr=subprocess.STDOUT, start_new_session=True
            )  # fmt: skip
        code = child.wait()
    finally:
        for number in (signal.SIGTERM, signal.SIGKILL):
            if child is not None:
                _end(child, number)
    with open(said, "rb") as stream:
        stream.seek(max(os.path.getsize(said) - _SAID, 0))
        lines = [line.strip() for line in stream.read().decode("utf-8", "replace").replace("\r", "\n").split("\n")]
    return code, next((line for line in reversed(lines) if line), "")


def _end(child: "Popen[bytes]", number: int) -> None:
    """Send a signal to a command and what it has started, and wait _PATIENCE seconds for it at most."""
    from subprocess import TimeoutExpired

    try:
        os.killpg(child.pid, number)
        child.wait(_PATIENCE)
    except (ProcessLookupError, TimeoutExpired):
        pass


def _is_database(path: str) -> bool:
    """Tell whether a file is an SQLite database, by its first bytes."""
    try:
        with open(path, "rb") as stream:
            return stream.read(len(_HEAD)) == _HEAD
    except OSError:
        return False


def _is_full(folder: str) -> bool:
    """Tell whether the disk of a folder has no space left for a small file."""
    from gssr.store.disk import Reserve

    try:
        Reserve(os.path.join(folder, "x")).release()
    except OSError:
        return True
    return False
