"""The end of a run whose ranks wrote a file each: the last of them to finish merges these, and shows the page.

A rank that is through leaves an empty file beside its own; whoever then sees such a file of every rank is last. Should two
see that, the lock of the merge decides. All of it is done by a child, so that a filesystem that hangs holds nobody up, and
everything may go wrong: then the ranks' files stay as they are, which every command reads as well.
"""

from __future__ import annotations

import math
import os
import signal
import sys
import time
from shlex import quote
from types import FrameType
from typing import NamedTuple, NoReturn

from gssr.module_path import is_one_file
from gssr.profile.output import whole_of
from gssr.profile.sampling.plan import Plan
from gssr.profile.stderr import say
from gssr.store.disk import is_local, make_file
from gssr.store.format.schema import ENDED_SUFFIX
from gssr.store.liveness import process_start, time_in

LOOK_SECONDS = 2.0
"""How long a rank may take to find out whether it is last."""
MERGE_SECONDS = 30.0
"""By how much merging and showing the page delay the end of the last rank, at most. Files of ranks that are too big for
that are not merged."""
TOLD_SECONDS = 2.0
"""The same once a signal has asked for the end: who sent it will not wait."""

_BYTES_PER_SECOND = 50e6  # merged, on a slow filesystem
_PAUSE = 0.01  # s
_LONGEST_PAUSE = 0.1
"""As what a pause counts at most, s: a job that was suspended, or a machine that stood still, has not made anybody wait."""
_ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
_MOST_LOST = 8
"""If no more ranks than this are not through, it is looked whether they are lost."""


class Finishing(NamedTuple):
    """What there is to finish: the run, its recording ``NAME.sql``, and the folder of its ranks' files. ``local_size``: so
    many ranks are on this ``node``; None where that, or whether there are other nodes, is not known."""

    run_id: str
    rank: int
    world_size: int
    target: str
    folder: str
    overwrite: bool
    summary: bool
    node: str = ""
    local_size: int | None = None


def finish(
    plan: Plan,
    sampler: int | None,
    overwrite: bool,
    summary: bool,
    told_to_end: bool,
    local_size: int | None = None,
) -> None:
    """Merge the ranks' files, if this process recorded one of them and all others are through, and show the page where
    ``summary`` says so. Never raises.

    Args:
        plan: what was recorded.
        sampler: pid of the process that recorded. None: nothing was recorded.
        overwrite: an older recording is deleted.
        summary: show the page.
        told_to_end: a signal has asked for the end.
        local_size: number of ranks on this node, where that is known.
    """
    folder, world_size = os.path.dirname(plan.path), plan.run["world_size"]
    if not folder.endswith(".d"):
        return
    if sampler is None or process_start(sampler) is not None:
        return  # nothing was recorded; or its end is still being written
    rank = int(plan.process["rank"] or 0)
    if not isinstance(world_size, int):  # nobody knows who is the last
        if summary and rank == 0 and os.path.exists(plan.path):
            say(f"recorded into {folder}; when all ranks have ended: gssr merge {quote(folder[:-2])}")
        return
    run_id, node = str(plan.run["run_id"]), str(plan.process.get("node"))
    run = Finishing(run_id, rank, world_size, folder[:-2], folder, overwrite, summary, node, local_size)
    try:
        _finish_in_child(run, told_to_end)
    except OSError as error:
        say(f"{run.folder}: is not merged: {error.strerror or error}")


def stand_in_for_screen(plan: Plan) -> None:
    """Show the page in place of a live screen that left by itself, and say how to open the screen again.

    The page is left out where the ranks wrote a file each, because ``finish`` shows it. It is waited for MERGE_SECONDS
    at most. Never raises.
    """
    path, run_id = whole_of(plan.path), str(plan.run["run_id"])
    try:
        if path == plan.path:
            pid = os.fork()
            if pid == 0:
                try:
                    _show(path, run_id)
                finally:
                    os._exit(1)
            deadline = time.monotonic() + MERGE_SECONDS
            while os.waitpid(pid, os.WNOHANG)[0] == 0:
                if time.monotonic() > deadline:
                    os.kill(pid, signal.SIGKILL)
                time.sleep(_PAUSE)
    except OSError as error:
        say(f"the page can't be shown: {error.strerror or error}")
    say(f"the screen left by itself; it opens again with: gssr tui {quote(path)}")


def _finish_in_child(run: Finishing, told_to_end: bool) -> None:
    """Fork a process that finishes the run, and wait for it: LOOK_SECONDS if this rank is not the last, else
    MERGE_SECONDS, and TOLD_SECONDS once a signal has asked for the end (``told_to_end``: one has already). Then it is
    killed, and what is left to do is said."""

    def hear(_signal: int, _frame: FrameType | None) -> None:
        nonlocal told_to_end
        told_to_end = True

    last, is_last = os.pipe()
    os.set_blocking(last, False)
    for sig in _ENDING:
        if signal.getsignal(sig) != signal.SIG_IGN:
            signal.signal(sig, hear)
    limit = TOLD_SECONDS if told_to_end else MERGE_SECONDS
    pid = os.fork()
    if pid == 0:
        _finish(run, is_last, limit)
    os.close(is_last)
    waited, before = 0.0, time.monotonic()
    seconds, told_limit = LOOK_SECONDS, math.inf
    while os.waitpid(pid, os.WNOHANG)[0] == 0:
        now = time.monotonic()
        waited, before = waited + min(now - before, _LONGEST_PAUSE), now
        if seconds == LOOK_SECONDS and _readable(last):
            seconds = MERGE_SECONDS
        if told_to_end:
            told_limit = min(told_limit, waited + TOLD_SECONDS)
        if waited > min(seconds, told_limit):
            os.kill(pid, signal.SIGKILL)
            if seconds == MERGE_SECONDS and not _readable(last):
                say(f"{run.folder}: merging took too long; it is finished by: gssr merge {quote(run.target)}")
            return
        time.sleep(_PAUSE)


def _readable(descriptor: int) -> bool:
    """Read a byte from a non-blocking descriptor; False if none has arrived."""
    try:
        return bool(os.read(descriptor, 1))
    except BlockingIOError:
        return False


def _finish(run: Finishing, is_last: int, seconds: float) -> NoReturn:
    """Leave this rank's sign and, if all ranks are through, merge and show the page; in the child, which never returns.
    A byte is written to ``is_last`` when this rank turns out to be the last one, and another when only the page is left
    to do. ``seconds``: for how long merging may take."""
    try:
        signal.set_wakeup_fd(-1)
        for sig in _ENDING:
            signal.signal(sig, signal.SIG_IGN)  # the parent decides
        if _everybody_is_through(run):
            os.write(is_last, b"!")
            shows = run.summary and _is_first_to_show(run)
            is_readable = _merge(run, seconds, shows)
            os.write(is_last, b"!")
            if is_readable and shows and not is_one_file():
                _show(run.target, run.run_id)
        elif run.summary and _has_only_this_node(run) and _is_first_to_say(run):
            name = os.path.basename(run.folder)
            say(
                f"recorded into {run.folder} on {run.node}: {run.local_size} of {run.world_size} ranks; other nodes keep"
                f" theirs on their own disks: copy what is in all these folders into one {name}, then: gssr merge"
                f" {quote(os.path.basename(run.target))}"
            )
    except Exception as error:
        if os.path.isdir(run.folder):  # else another rank has merged it
            say(f"{run.folder}: is not merged: {error}; it can be read as it is")
    finally:
        os._exit(0)


def _everybody_is_through(run: Finishing) -> bool:
    """Leave a file in the ranks' folder as the sign that this rank is through, and find out whether all ranks of the
    run are. Returns True if each has left its sign; or if at most _MOST_LOST have not, each of these has its own file
    there, and these files say that they were lost. Raises OSError."""
    suffix = f".{run.run_id}{ENDED_SUFFIX}"
    os.close(make_file(_sign(run), 0))
    names = os.listdir(run.folder)
    through = {rank for name in names if name.endswith(suffix) and (rank := name.removesuffix(suffix)).isdigit()}
    missing = run.world_size - len(through)
    if not 0 < missing <= _MOST_LOST:
        return missing <= 0
    files = [name for name in names if name.endswith(f".{run.run_id}.sql")]
    others = [name for name in files if name.removesuffix(f".{run.run_id}.sql").rpartition(".")[2] not in through]
    return len(others) == missing and all(_is_lost(os.path.join(run.folder, name)) for name in others)


def _has_only_this_node(run: Finishing) -> bool:
    """Tell whether all ranks of this node are through, and none of another node has left anything in the folder, which is on
    a disk of this node's own."""
    if run.local_size is None or run.local_size >= run.world_size or not is_local(run.folder):
        return False
    names = os.listdir(run.folder)
    files = [name for name in names if name.endswith(f".{run.run_id}.sql")]
    through = [name for name in names if name.endswith(f".{run.run_id}{ENDED_SUFFIX}")]
    return len(files) == run.local_size <= len(through) and all(name.startswith(f"{run.node}.") for name in files)


def _is_first_to_say(run: Finishing) -> bool:
    """Tell whether this rank is the one that says what went wrong: of ranks that end at once each may find all others
    through."""
    from gssr.profile.sampling.say_once import leave_sign  # only here, because it is seldom needed

    return leave_sign(run.folder, run.run_id, "not merged") is not False


def _is_first_to_show(run: Finishing) -> bool:
    """Tell whether this rank is the one that shows the page. Of the ranks that find all others through it is the first
    to leave a sign, whichever of them merges. False if this rank's own sign is gone: then the run was merged meanwhile,
    and another rank has shown it."""
    from gssr.profile.sampling.say_once import leave_sign  # only here, because only the last rank needs it

    if run.world_size == 1:
        return True
    first = leave_sign(run.folder, run.run_id, "shown") is not False
    return first and os.path.exists(_sign(run))


def _sign(run: Finishing) -> str:
    """Return the path of the file which says that this rank is through."""
    return os.path.join(run.folder, f"{run.rank}.{run.run_id}{ENDED_SUFFIX}")


def _is_lost(path: str) -> bool:
    """Tell whether every run in a rank's file is lost; False for a file that can't be read or has no run yet."""
    from contextlib import closing
    from sqlite3 import DatabaseError

    from gssr.store.read.open import RecordingError, connect
    from gssr.store.read.small_tables import read_runs, state_in

    try:
        with closing(connect(path)) as connection:
            folder = os.path.dirname(path)
            states = [state_in(connection, run, path, lambda: time_in(folder)) for run in read_runs(connection)]
            return bool(states) and set(states) == {"lost"}  # without a run, the file has only just been made
    except (RecordingError, DatabaseError, OSError):
        return False


def _merge(run: Finishing, seconds: float, shows: bool) -> bool:
    """Merge the ranks' files, unless that would take longer than ``seconds``. What is not merged is said, and, if this
    rank ``shows`` the page, where the recording is. Returns whether the run can be read, merged or not, so that there is
    something to show; False also if another rank has just merged it or failed to."""
    from gssr.store.merge import NothingToMergeError, Outcome, merge
    from gssr.store.read.open import RecordingError
    from gssr.store.write.create import TakenError

    outcome: Outcome | None = None
    files = "the files of its ranks"
    try:
        names = [name for name in os.listdir(run.folder) if name.endswith(f".{run.run_id}.sql")]
        size = sum(os.path.getsize(os.path.join(run.folder, name)) for name in names)
        files = f"the files of {len(names)} ranks"
        if size / _BYTES_PER_SECOND > seconds:
            say(f"recorded into {run.folder}: {files} are too big to merge now: gssr merge {quote(run.target)}")
            return True
        outcome = merge(run.target, patience=seconds, own=run.run_id, overwrite=run.overwrite)
    except (FileNotFoundError, NothingToMergeError):
        pass  # another rank, perhaps of another run, is merging them, or has done it
    except TakenError:
        if shows:
            say(
                f"recorded into {run.folder}: {run.target} is being recorded into; later: gssr merge {quote(run.target)}"
            )
        return True
    except RecordingError as error:
        if not os.path.isdir(run.folder) or not _is_first_to_say(run):
            return False  # another rank has just done it, or failed as well
        say(f"recorded into {run.folder}: {files} are not merged: {error}")
        return True
    sentences = list(outcome.replaced) if outcome else []
    if outcome:
        sentences += [*outcome.left, *(why for run_id, why in outcome.waiting.items() if run_id == run.run_id)]
    for sentence in sentences:
        say(sentence)
    if not (sentences or _is_merged(run)):
        return False
    if shows:
        say(f"recorded into {run.target}; see it with: gssr analyze {quote(run.target)}")
    return True


def _is_merged(run: Finishing) -> bool:
    """Tell whether the merged recording can be read and holds this run."""
    from contextlib import closing

    from gssr.store.read.open import RecordingError, connect
    from gssr.store.read.small_tables import read_runs

    try:
        with closing(connect(run.target)) as connection:
            return any(found.run_id == run.run_id for found in read_runs(connection))
    except RecordingError:
        return False


def _show(path: str, run_id: str) -> None:
    """Replace this process by ``gssr analyze``, which prints the run's page on stderr. Returns only by raising
    OSError."""
    os.dup2(2, 1)
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # none is used, and starting them takes half as long as all the rest
    for sig in _ENDING:
        signal.signal(sig, signal.SIG_DFL)
    # No module is taken from the folder of the job, nor from its PYTHONPATH before others.
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    os.execve(sys.executable, [sys.executable, "-P", "-m", "gssr", "analyze", "--run", run_id, path], environment)
