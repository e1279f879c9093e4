"""Traces beside a recording: ``gssr profile`` gives its workload a folder for them, ``NAME.traces``, named in the
environment. When a rank has ended, what it has put there gets a row of the recording's table ``traces``.

A trace belongs to the rank that its content tells (torch.profiler's do), or its name (``rank3.json``, ``3.sqlite``, what
``-o $GSSR_TRACES/%q{SLURM_PROCID}`` gives; the host and the process id that torch puts there); else to whoever finds it.

A process of its own looks, when the recording is complete, and not for long: the folder may hold anything, on a filesystem
that hangs.
"""

from __future__ import annotations

import os
import re
import signal
import stat
import time
from collections.abc import Callable, Iterator
from types import FrameType

from gssr.launch import rank_told
from gssr.profile.detach import in_child
from gssr.profile.output import whole_of
from gssr.profile.recorder import database
from gssr.profile.sampling.plan import Plan
from gssr.profile.workload import ENDING
from gssr.store.disk import FOLDER, is_planted, remove_unused, traces_beside
from gssr.trace_requests import REQUEST, TraceRequest, write_request

ENVIRONMENT = "GSSR_TRACES"
"""The variable that names the folder."""
SECONDS = 1.0
"""By how much all of it delays the end of a rank, at most."""
DIGEST_SECONDS = 30.0
"""The same of finding out what the traces say, where that is asked for; no longer once a signal asks for the end."""
LOOK_SECONDS = 0.6
"""Then no further file is looked at."""
DIGEST_BYTES = 1_000_000_000
"""Traces of more are left alone: reading them takes too long, and too much of the job's memory."""
MOST = 1000
"""Traces of a rank that get a row."""

_DEEPEST = 3
_MOST_FILES = 100_000
_TAIL = 4096
_FORMATS = ("kineto", "chrome", "nsys", "nsys-rep", "rocpd", "otf2", "cube", "xspace", "perfetto")
_ARCHIVE = "traces.otf2"
_NUMBER = re.compile(r"(\d{1,9})\.")
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_COLUMNS = ("run_id", "node", "rank", "path", "format", "size", "mtime")
_INSERT = (
    f"INSERT INTO traces ({', '.join(_COLUMNS)}) SELECT ?, ?, ?, ?, ?, ?, ? "
    "WHERE EXISTS (SELECT 1 FROM runs WHERE run_id = ?) "
    "AND NOT EXISTS (SELECT 1 FROM traces WHERE run_id = ? AND path = ?)"
)
_TELL = (
    "INSERT INTO events (run_id, node, rank, time, kind, message) SELECT ?, ?, ?, ?, 'trace', ? "
    "WHERE EXISTS (SELECT 1 FROM runs WHERE run_id = ?)"
)


class TraceFolder:
    """The folder of one rank of a run. Nothing here raises; where there can be no folder there are no traces."""

    def __init__(self, plan: Plan) -> None:
        """Make the folder ``NAME.traces`` and name it in the environment, for the workload; ``folder`` is None where
        there is none.

        There is none beside a job, with names hidden, or where it can't be made safely. With --trace-when a request
        without traces is left in it.
        """
        self._plan = plan
        self.folder: str | None = None
        self._since = 0.0
        os.environ.pop(ENVIRONMENT, None)
        if plan.attached or plan.hidden is not None:
            return  # there is no workload; or what a trace tells is to be hidden
        folder = traces_beside(plan.path)
        try:
            os.mkdir(folder, FOLDER)
        except FileExistsError:
            try:
                if is_planted(folder) or not stat.S_ISDIR(os.lstat(folder).st_mode):
                    return
                os.utime(folder)  # by the clock that stamps what is written there
                self._since = os.stat(folder).st_mtime
            except OSError:
                return
        except OSError:
            return  # the sampler will say that nothing can be made there
        self.folder = os.environ[ENVIRONMENT] = folder
        if plan.trace_when is not None:
            try:
                write_request(folder, TraceRequest(0, 0), make="new" if plan.process["rank"] else "any")
            except OSError:
                pass  # it is there; or nobody will be asked

    def note(self, workload: int | None, digest: Callable[[str], None] | None = None) -> bool:
        """Add a row for each of this rank's traces to its recording, which is complete; takes SECONDS at most, and
        DIGEST_SECONDS for the digest.

        Args:
            workload: the process id that the workload had; None: it never ran.
            digest: finds out afterwards what the traces say; called with the recording's path, in a child. None:
                nothing does.

        Returns:
            Whether a signal has asked for the end during the digest.
        """
        folder, told = self.folder, False
        if folder is None:
            return False
        self._wait(lambda: _note(self._plan, folder, self._since, workload), SECONDS, lambda: False)
        if digest is None:
            return False

        def hear(_signal: int, _frame: FrameType | None) -> None:
            nonlocal told
            told = True

        for sig in ENDING:
            if signal.getsignal(sig) != signal.SIG_IGN:
                signal.signal(sig, hear)
        self._wait(lambda: digest(self._plan.path), DIGEST_SECONDS, lambda: told)
        return told

    def _wait(self, work: Callable[[], None], seconds: float, is_enough: Callable[[], bool]) -> None:
        """Do ``work`` in a child, and wait for it; the child is killed after ``seconds``, or once ``is_enough`` says
        so."""
        deadline = time.monotonic() + seconds
        try:
            pid = in_child(work, "gssr-traces")
            while os.waitpid(pid, os.WNOHANG)[0] == 0:
                if time.monotonic() >= deadline or is_enough():
                    os.kill(pid, signal.SIGKILL)
                    os.killpg(pid, signal.SIGKILL)  # what it has started
                    return
                time.sleep(0.002)
        except OSError:
            pass  # no process is to be had, or somebody else has reaped it


def _note(plan: Plan, folder: str, since: float, workload: int | None) -> None:
    """Find this rank's traces in ``folder`` and write their rows into its recording, in the child; takes about
    LOOK_SECONDS at most. Traces that are damaged, not whole yet or too many are left out, and that is written as well.

    ``since``: files that were last changed before (unix s, by the filesystem's clock) are left out. ``workload``: the
    process id that the workload had; None: it never ran.
    """
    from gssr.recognise import DAMAGED

    begin = time.monotonic()
    deadline = begin + LOOK_SECONDS
    if whole_of(plan.path) == plan.path and not os.path.lexists(plan.path + ".d"):
        # Else others may still want it, and who merges removes it.
        remove_unused(folder, REQUEST)
    own = _TraceOwner(plan, workload)
    files = sorted((own.order(path), path, status) for path, status in _files(folder, since, begin + LOOK_SECONDS / 2))
    rows: list[tuple[object, ...]] = []
    left: list[str] = []
    unreadable: list[str] = []
    signal.signal(signal.SIGALRM, _stop_looking)
    for place, (order, path, status) in enumerate(files):
        if order == _OTHERS:
            break
        remaining = deadline - time.monotonic()
        if remaining <= 0 or len(rows) >= MOST:
            left.append(f"{len(files) - place:,} files are not looked at: there are too many")
            break
        signal.setitimer(signal.ITIMER_REAL, remaining)
        try:
            kind, problem = _kind_of(os.path.join(folder, path), status.st_size)
            if kind is None:
                left.append(f"{path} is not whole yet")
            elif kind == DAMAGED:
                unreadable.append(f"{path} {problem}")
            elif kind in _FORMATS and (row := own.row(folder, path, status, kind)) is not None:
                rows.append(row)
        except Exception as error:  # whatever lies there: the other traces are kept
            why = "takes too long to look at" if isinstance(error, _TooLongError) else f"can't be looked at: {error!r}"
            unreadable.append(f"{path} {why}")
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    _write(plan, rows, left, unreadable)


class _TooLongError(Exception):
    pass


def _stop_looking(_signal: int, _frame: FrameType | None) -> None:
    """Handle SIGALRM: raise _TooLongError in whatever looks at a file."""
    raise _TooLongError


_MINE, _ANYBODYS, _OTHERS = range(3)


class _TraceOwner:
    """What tells this rank's traces from others'."""

    def __init__(self, plan: Plan, workload: int | None) -> None:
        """``workload``: the process id of this rank's workload; None: it never ran."""
        rank, node, size = plan.process["rank"], plan.process["node"], plan.run["world_size"]
        self._run_id = plan.run["run_id"]
        self._rank = rank if isinstance(rank, int) else 0
        self._node = None if node is None else str(node)
        self._size = size if isinstance(size, int) else None
        self._alone = not plan.siblings and self._size in (None, 1)
        self._process = f"{plan.process['hostname']}_{workload}."

    def order(self, path: str) -> int:
        """Tell by its name alone whose a trace is: _MINE, _ANYBODYS, or _OTHERS."""
        if self._alone:
            return _MINE
        named = rank_in_name(path)
        if os.path.basename(path).startswith(self._process) or named == self._rank:
            return _MINE
        return _ANYBODYS if named is None or not self._is_rank(named) else _OTHERS

    def _is_rank(self, number: int) -> bool:
        """Tell whether a rank of the run has this number. A trace may count ranks of another kind, as torchrun does."""
        return self._size is None or number < self._size

    def row(self, folder: str, name: str, status: os.stat_result, kind: str) -> tuple[object, ...] | None:
        """Return the row of a trace for the table ``traces``; None where another rank writes it.

        ``name``: its path within the folder; ``kind``: its format. The row's node is None where the trace may be anybody's,
        its rank where that is unknown.
        """
        from gssr.recognise import environments_in, rank_and_size

        path = os.path.join(folder, name)
        told, size = rank_and_size(path) if kind == "kineto" else (None, None)
        if kind == "rocpd":
            told, size = rank_told(environments_in(path))
        mine = self.order(name) == _MINE
        if told is not None and size in (None, self._size) and self._is_rank(told) and not self._alone:
            if told != self._rank:
                return None
            mine = True
        named = rank_in_name(name)
        rank = told if told is not None else named if named is not None else self._rank if mine else None
        return (self._run_id, self._node if mine else None, rank, name, kind, status.st_size, status.st_mtime)


def rank_in_name(path: str) -> int | None:
    """Return the rank that the name of a trace tells: the number before the first dot, or the one behind ``rank``;
    None if none."""
    from gssr.recognise import RANK_IN_NAME

    name = os.path.basename(path)
    found = _NUMBER.match(name) or RANK_IN_NAME.search(name)
    return int(found[1]) if found else None


def _files(folder: str, since: float, deadline: float) -> Iterator[tuple[str, os.stat_result]]:
    """Yield the files in a folder and below it that were changed at ``since`` (unix s, by the filesystem's clock) or
    later: each one's path within the folder and its status.

    Empty and hidden files, links and copies are left out. Of a Score-P archive only the files that stand for it come.
    ``deadline``: monotonic s, after which nothing more comes.
    """
    from gssr.recognise import copies_of_profiles

    pending = [("", 0)]
    n = 0
    while pending:
        above, depth = pending.pop()
        try:
            descriptor = os.open(os.path.join(folder, above), _DIRECTORY)
        except OSError:
            continue
        try:
            with os.scandir(descriptor) as found:
                entries = [(entry.name, entry) for entry in found if not entry.name.startswith(".")]
                n += len(entries)
                copies = copies_of_profiles([name for name, _ in entries])
                archive = any(name == _ARCHIVE for name, _ in entries)
                for name, entry in entries:
                    path = os.path.join(above, name)
                    if name in copies or (archive and not name.endswith((".otf2", ".cubex"))):
                        continue
                    status = entry.stat(follow_symlinks=False)
                    if stat.S_ISDIR(status.st_mode) and depth < _DEEPEST:
                        pending.append((path, depth + 1))
                    elif stat.S_ISREG(status.st_mode) and status.st_mtime >= since and status.st_size:
                        yield path, status
                    if time.monotonic() > deadline:
                        return
        except OSError:
            pass  # it is gone, or can't be read
        finally:
            os.close(descriptor)
        if n > _MOST_FILES:
            return


def _kind_of(path: str, size: int) -> tuple[str | None, str]:
    """Return the kind of a file that had ``size`` bytes, and its problem, as gssr.recognise says.

    The kind is None for a trace that is still being written, and "" for a file that is gone.
    """
    from gssr.recognise import DAMAGED, recognise

    kind, problem = recognise(path)
    try:
        if kind in ("nsys", "rocpd", DAMAGED):
            is_whole = not any(os.path.lexists(path + left) for left in ("-journal", "-wal"))
        elif kind in ("kineto", "chrome") and not _is_packed(path):
            is_whole = _end_of(path).rstrip().endswith((b"}", b"]"))
        else:
            is_whole = True
        return (kind if is_whole and os.stat(path).st_size == size else None), problem
    except OSError:
        return "", problem


def _is_packed(path: str) -> bool:
    """Tell whether a file is compressed by gzip. Raises OSError."""
    with open(path, "rb") as stream:
        return stream.read(2) == b"\x1f\x8b"


def _end_of(path: str) -> bytes:
    """Return the last _TAIL bytes of a file. Raises OSError."""
    with open(path, "rb") as stream:
        stream.seek(max(0, os.fstat(stream.fileno()).st_size - _TAIL))
        return stream.read(_TAIL)


def _write(plan: Plan, rows: list[tuple[object, ...]], left: list[str], unreadable: list[str]) -> None:
    """Write the rows into the recording, and one event that says which files have none; nothing if all three are
    empty.

    ``left``: sentences on files that can be attached later; ``unreadable``: on those that can't be read.
    """
    if not (rows or left or unreadable):
        return
    import sqlite3

    run_id, node, rank = plan.run["run_id"], plan.process["node"], plan.process["rank"]
    connection = sqlite3.connect(database(plan.path), uri=True, timeout=SECONDS)
    with connection:
        for row in rows:
            try:
                connection.execute(_INSERT, (*row, run_id, run_id, row[3]))
            except UnicodeEncodeError:
                left.append("a file whose name is no UTF-8 is left out")
        if left or unreadable:
            said = [f"{_first_of(left)}; gssr merge --attach adds it"] if left else []
            said += [_first_of(unreadable)] if unreadable else []
            text = f"of what lies in {os.path.basename(traces_beside(plan.path))}: {'; '.join(said)}"
            safe = text.encode("utf-8", "backslashreplace").decode()
            connection.execute(_TELL, (run_id, node, rank, time.time(), safe, run_id))
    connection.close()


def _first_of(sentences: list[str]) -> str:
    """Return the first sentence, and how many more there are."""
    more = f", and {len(sentences) - 1} more" if len(sentences) > 1 else ""
    return f"{sentences[0]}{more}"
