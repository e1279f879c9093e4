"""Where a run is recorded: which file, under which name of the run, and what to do with what stands there already.

One rank records into ``NAME.sql``. Where there may be several, each records into a file of its own in ``NAME.sql.d``; and
so does one that adds its run (-a) where others may do so at the same time: each step of a job.

All ranks of a run decide alike, though each looks at another moment and jobs begin and end meanwhile. With -a and the
default name nothing is to be decided where the launcher names the run. Where it doesn't, where a recording that is there
must not be touched, or where it is to be replaced (-f), the first rank decides for all (gssr.store.write.starts).

The tasks of an array of jobs add their runs to one recording, as with -a: their user has submitted them as one. So do the
ranks of several nodes in a folder of which nobody knows whether they share it: what a rank finds there may be what its own
node was left with, and were it to refuse, the others would wait for it.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Sequence
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

from gssr import launch
from gssr.profile.request import ProfileRequest, UsageError
from gssr.profile.stderr import say
from gssr.store.disk import PLANTED, is_local, is_planted, make_file, make_folder
from gssr.store.format.schema import ENDED_SUFFIX
from gssr.store.write.starts import RunStart, agree

if TYPE_CHECKING:
    from gssr.store.format.rows import Process, RunRow

_LONGEST_GIVEN = 80
"""As much of what a launcher calls a run goes into its name, of which files are called: with the node's name and the time
that is within the 255 bytes of a file's name."""


class OutputTarget(NamedTuple):
    """The file to record into, and the run's name in it. ``append``: a run is added to the recording that is there.
    ``overwrite``: that recording is deleted first. ``shard``: it is one rank's share of a recording, which holds other runs
    (``beside_others``)."""

    path: str
    run_id: str
    append: bool
    overwrite: bool
    shard: bool
    beside_others: bool = False


def whole_of(path: str) -> str:
    """Return the recording that a rank's file is part of: ``NAME.sql``."""
    folder = os.path.dirname(path)
    return folder.removesuffix(".d") if folder.endswith(".sql.d") else path


def choose(request: ProfileRequest, place: launch.LaunchPlace, make: bool = True) -> OutputTarget:
    """Choose the output of this process. Without ``make`` no file or folder is made, and a name that this would decide is
    guessed. Raises UsageError when what stands there must not be touched, UnagreedError when it can't be told what the other
    ranks do."""
    named = request.output is not None or place.job_id is not None
    if not named and (place.world_size or 1) > 1:
        raise UsageError("several ranks need one name for their recording: give it with -o FILE.sql")
    if request.output is not None:
        request = request._replace(output=launch.named(request.output, place))
    # A name after the time is each process's own, and one after the job is a task's own.
    shard = (place.parallel and named) or (place.in_array and request.output is not None)
    output = launch.default_output(place) if request.output is None else request.output
    if request.output is None and not (shard or request.append or request.overwrite or place.restart_count):
        output = _reserved(output, make)
    try:
        output = os.path.abspath(output)
    except OSError:
        pass  # the folder that we are in is gone: the sampler will say that no file can be made there
    there = _is_recording(output, request)
    if shard:
        return _shard_output(output, request, place, make)
    append, overwrite, taken = _what_to_do(output, request, place) if there else (False, request.overwrite, False)
    run_id = _own_run_id(place) if place.run_id is None or place.shares_run_id else place.run_id
    if request.append and (taken or place.step_id is not None):
        return _shard(output, place, _unused(run_id, _OutputState(output, place).uses), make)
    if request.output is not None and not request.append and _shards(output):
        what = "holds the recording of several ranks"
        if request.overwrite:
            raise UsageError(f"-o {request.output}: {request.output}.d {what}, which -f leaves alone: delete it first")
        raise UsageError(f"-o {request.output}: {request.output}.d {what}; use -a to add a run to it")
    if append:
        run_id = _unused(run_id, {run.run_id for run, _ in _runs_in(output)}.__contains__)
    path = os.path.realpath(output) if os.path.islink(output) else output  # a link stays, wherever it leads
    return OutputTarget(path, run_id, append, overwrite, shard=False)


class _OutputState:
    """What there is, at one moment, at an output where ranks write a file each."""

    def __init__(self, output: str, place: launch.LaunchPlace) -> None:
        """Look at the files that are there now. A damaged one counts as there, without runs."""
        self._place, self._output, self._folder = place, output, output + ".d"
        self._shards = _shards(output)  # first: they may just be merged into the file
        self._merged = _runs_in(output) if os.path.exists(output) else []
        self._is_taken = os.path.exists(output) and os.path.getsize(output) > 0

    def uses(self, run_id: str) -> bool:
        """Tell whether this rank is part of the run ``run_id`` already, by its own file or in the merged recording."""
        rank = self._place.rank
        return any(name.endswith(f".{rank}.{run_id}.sql") for name in self._shards) or any(
            run.run_id == run_id and any(process.rank == rank for process in processes)
            for run, processes in self._merged
        )

    def holds(self, run_id: str) -> bool:
        """Tell whether any rank is part of the run ``run_id``, by a file of its own or in the merged recording."""
        return any(name.endswith(f".{run_id}.sql") for name in self._shards) or any(
            run.run_id == run_id for run, _ in self._merged
        )

    def holds_another(self, run_id: str, begun: Sequence[RunStart]) -> bool:
        """Tell whether another run than ``run_id`` stands here: in files of ranks, in the merged recording, or among
        ``begun``, the starts that ranks have written, if its ranks may just be beginning. Earlier runs of a job that was
        requeued don't count. True as well if a recording is there that can't be read."""
        again, job = self._place.restart_count > 0, run_id.partition(".")[0]
        shards = [name for name in self._shards if not name.endswith(f".{run_id}.sql")]
        merged = [run for run, _ in self._merged if run.run_id != run_id]
        starts = [start for start in begun if start.fresh and not start.refused and start.run_id != run_id]
        if again:
            shards = [name for name in shards if not self._is_of_this_job(name)]
            merged = [run for run in merged if run.job_id is None or run.job_id != self._place.job_id]
            starts = [start for start in starts if start.run_id.partition(".")[0] != job]
        return bool(shards or merged or starts or (self._is_taken and not self._merged))

    def _is_of_this_job(self, shard: str) -> bool:
        """Tell whether a rank's file, named within the folder, holds a run of this job."""
        return any(run.job_id == self._place.job_id for run, _ in _runs_in(f"{self._folder}/{shard}"))

    def replaceable(self, run_id: str) -> tuple[str, ...]:
        """List the ids of the runs that this one, which is given -f, replaces: all that are over, but those of its own
        array."""
        from gssr.store.write.replaced import find_runs_that_are_over

        signs = [name for name in os.listdir(self._folder) if name.endswith(ENDED_SUFFIX)]
        place = self._place
        return tuple(
            run.run_id
            for run in find_runs_that_are_over(self._output, self._shards, signs)
            if run.run_id != run_id
            and (not place.in_array or (run.cluster, run.array_job_id) != (place.cluster, place.array_job_id))
        )

    def attempt(self) -> str | None:
        """Find the state of the newest attempt of this pod, as it was recorded: "running", "completed", "failed", ...;
        None before its first attempt."""
        node, rank = self._place.node, self._place.rank
        own = [name for name in self._shards if name.startswith(f"{node}.{rank}.")]
        found = [
            (run.started_at or 0.0, process.state or "")
            for run, processes in (*self._merged, *(run for name in own for run in _runs_in(f"{self._folder}/{name}")))
            for process in processes
            if process.rank == rank and process.node in (node, None)
        ]
        return max(found)[1] if found else None

    def runs_on(self, run_id: str) -> bool:
        """Tell whether a rank of that run is still recording."""
        names = [name for name in self._shards if name.endswith(f".{run_id}.sql")]
        return any(run.state == "running" for name in names for run, _ in _runs_in(f"{self._folder}/{name}"))


def _shard_output(output: str, request: ProfileRequest, place: launch.LaunchPlace, make: bool) -> OutputTarget:
    """Choose the file of this rank in the output's folder, and agree with the other ranks on the run, for which a file
    is written there (not without ``make``). Raises UsageError when what stands there must not be touched, UnagreedError
    when it can't be told what the other ranks do."""
    seen = _OutputState(output, place)
    may_add = request.append or request.overwrite or request.output is None or place.in_array
    adds = may_add or not _all_ranks_see(output, place)
    if place.run_id is None or place.shares_run_id:
        start = _nameless(output, request, place, seen, adds, make)
    else:
        run_id = _unused(place.run_id, seen.uses)
        second = run_id != place.run_id  # command of the same ranks
        start = RunStart(run_id, "", not adds and (second or seen.holds_another(run_id, ())))

        def decide(begun: Sequence[RunStart]) -> RunStart:
            now = _OutputState(output, place)
            refused = not adds and (second or now.holds_another(run_id, begun))
            return RunStart(run_id, "", refused, replaces=now.replaceable(run_id) if request.overwrite else ())

        if make and (request.overwrite or not adds) and (os.path.isdir(output + ".d") or not start.refused):
            start = agree(output + ".d", run_id, decide)
    if start.refused:
        raise UsageError(_holds_another(output, request))
    beside_others = seen.holds_another(start.run_id, ())
    if make and not may_add and not place.local_rank and beside_others:
        say(
            f"-o {request.output}: holds another run: this one is added to it, because ranks on other nodes may not see that"
        )
    return _shard(output, place, start.run_id, make)._replace(beside_others=beside_others)


def _nameless(
    output: str, request: ProfileRequest, place: launch.LaunchPlace, seen: _OutputState, adds: bool, make: bool
) -> RunStart:
    """Agree on the run, and on a name for it, with ranks that have no name of their run in common.

    ``adds``: this run may be added to others that stand there. Without ``make`` nothing is agreed, and what this rank
    alone would decide is returned. Returns the run's start; it is ``refused`` if another run is in the way. Raises
    UsageError for a pod that was through already, UnagreedError when it can't be told what the other ranks do.
    """
    last = seen.attempt() if place.pod else None
    if last == "completed" and not adds:  # and a pod that was through is not started again
        raise UsageError(_holds_another(output, request))
    adds = adds or place.restart_count > 0 or last is not None
    own = RunStart(_own_run_id(place), place.launch, not adds and seen.holds_another("", ()))
    if not make:
        return own

    def is_ours(start: RunStart) -> bool:
        """Tell whether a start that some rank has written is of this rank's run: of the same launch, not recorded by
        this rank yet, and either written lately or still recording. The first attempt of a pod takes a start of any age
        if it was not refused. A refused start is not taken where this run may be added."""
        if start.launch != place.launch or seen.uses(start.run_id) or (start.refused and adds):
            return False
        # Pods may begin long after each other; one that is started again belongs to others that are.
        waits = place.pod and last is None and not start.refused
        return waits or start.fresh or (not start.refused and seen.runs_on(start.run_id))

    def decide_start(begun: Sequence[RunStart]) -> RunStart:
        """Make the start of the run for all of its ranks, given the starts that stand there already: under a run id that
        none has, and refused if another run is in the way."""
        now, names = _OutputState(output, place), {start.run_id for start in begun}
        # In a pod every command may have the same pid, and another attempt may have begun within this second.
        run_id = _unused(own.run_id, lambda name: name in names or now.holds(name))
        refused = not adds and now.holds_another(run_id, begun)
        return RunStart(run_id, place.launch, refused, replaces=now.replaceable(run_id) if request.overwrite else ())

    return agree(output + ".d", is_ours, decide_start)


def _all_ranks_see(output: str, place: launch.LaunchPlace) -> bool:
    """Tell whether what stands at the output is there for every rank of the run: on one node it is, and so it is on a
    filesystem that nodes share. A node's own disk may be any of theirs."""
    return place.n_nodes == 1 or not is_local(output)


def _holds_another(output: str, request: ProfileRequest) -> str:
    """Say, for a UsageError, that another run stands at the output."""
    if not os.path.lexists(output) and os.path.isdir(output + ".d"):
        return f"-o {request.output}: {request.output}.d holds another run; use -a to add a run to it"
    return _exists(str(request.output))


def _exists(shown: str) -> str:
    """Say, for a UsageError, that the output exists."""
    return f"-o {shown}: exists; use -f to overwrite it or -a to add a run to it"


def _shard(output: str, place: launch.LaunchPlace, run_id: str, make: bool) -> OutputTarget:
    """Name the file of this rank of the run ``run_id``, in the folder beside ``output``; with ``make`` the folder is
    made."""
    if make:
        _make_shards_folder(output)
    path = os.path.join(output + ".d", f"{place.node}.{place.rank}.{run_id}.sql")
    return OutputTarget(path, run_id, append=False, overwrite=False, shard=True)


def _make_shards_folder(output: str) -> None:
    """Make the folder ``NAME.sql.d``; nothing where that fails."""
    try:
        make_folder(output + ".d")
    except OSError:
        pass  # the sampler will say why the file can't be made


def _reserved(name: str, make: bool) -> str:
    """Find a name that is free: the default ``name``, or with a number, if another command of the job, maybe beside this
    one or in the same second, has taken it. With ``make`` an empty file is made, which keeps it. Returns the name even
    if no file can be made there."""
    stem = name.removesuffix(".sql")
    for number in range(1, 1000):
        name = f"{stem}-{number}.sql" if number > 1 else name
        if not make:
            if os.path.lexists(name):
                continue
            break
        try:
            os.close(make_file(name, os.O_EXCL))
        except FileExistsError:
            continue
        except OSError:
            pass  # the sampler will say why it can't be made
        break
    return name


def _is_recording(output: str, request: ProfileRequest) -> bool:
    """Tell whether a recording stands at ``output``. False if nothing is there, or an empty file, which is used as it
    is: another process may just be making it. Raises UsageError if something else stands there: a folder, a pipe, a link
    to nothing, somebody else's file, or a file that is no recording or can't be read."""
    shown = request.output or os.path.basename(output)
    for name in (output, output + ".d"):
        if is_planted(name):
            raise UsageError(f"-o {shown}: {name} {PLANTED}: choose another name")
    if os.path.isdir(output):
        raise UsageError(f"-o {shown}: is a directory; name a file in it, such as {os.path.join(shown, 'run.sql')}")
    if not os.path.lexists(output):
        return False  # another may make it, or be just overwriting it
    try:
        status = os.stat(output)
        if not stat.S_ISREG(status.st_mode):
            raise UsageError(f"-o {shown}: is not a file: choose another name")  # but a pipe, or a device
        if status.st_size == 0:
            return False  # it is used as it is
        from gssr.store.read.open import looks_like_recording  # only here: most outputs are new

        ours = looks_like_recording(output)
    except FileNotFoundError:
        if os.path.islink(output):
            raise UsageError(f"-o {shown}: is a link to nothing: choose another name") from None
        return False  # another has just deleted it to overwrite it
    except OSError as error:
        raise UsageError(f"-o {shown}: exists and can't be read: {error.strerror}") from None
    if not ours:
        raise UsageError(f"-o {shown}: exists and is not a recording: choose another name")
    return True


def _what_to_do(output: str, request: ProfileRequest, place: launch.LaunchPlace) -> tuple[bool, bool, bool]:
    """Decide what a process without a file of its own does with the recording at ``output``, which exists. Returns three
    flags: append to it, overwrite it, and whether another process is recording into it, so that this run is to be added
    beside it. Raises UsageError when it must not be touched."""
    shown = request.output or os.path.basename(output)
    runs = [run for run, _ in _runs_in(output)]
    taken = any(run.state == "running" for run in runs)
    if taken and not request.append:
        raise UsageError(f"-o {shown}: is being recorded into right now: choose another name")
    same_job = bool(runs) and all(run.job_id == place.job_id for run in runs)
    if request.append or (place.restart_count and same_job and not request.overwrite):
        return True, False, taken  # a requeued job goes on in its own file
    if not request.overwrite:
        if place.pod and _OutputState(output, place).attempt() not in (None, "completed"):
            return True, False, taken  # and so does a pod that is started again
        raise UsageError(_exists(shown))
    return False, True, False


def _runs_in(path: str) -> list[tuple[RunRow, list[Process]]]:
    """Read every run of a recording, with its state as it is now, and the run's processes. Returns nothing of a recording
    that can't be read."""
    import sqlite3
    from contextlib import closing

    from gssr.store.read.open import RecordingError, connect
    from gssr.store.read.small_tables import read_processes, read_runs, state_in

    try:
        with closing(connect(path)) as connection:
            return [
                (run._replace(state=state_in(connection, run, path)), read_processes(connection, run.run_id))
                for run in read_runs(connection)
            ]
    except (RecordingError, sqlite3.DatabaseError):
        return []


def _shards(output: str) -> list[str]:
    """List the names of the ranks' files that belong to ``output``."""
    try:
        return [name for name in os.listdir(output + ".d") if name.endswith(".sql")]
    except OSError:
        return []


def _unused(run_id: str, is_used: Callable[[str], bool]) -> str:
    """Number the run id where it is used: by two commands of one job step."""
    names = (run_id if number == 1 else f"{run_id}-{number}" for number in count(1))
    return next(name for name in names if not is_used(name))


def _own_run_id(place: launch.LaunchPlace) -> str:
    """Make a name for the run that no other has: what its launcher calls it, and which process gave it this name when."""
    parts = [
        (place.run_id or "")[:_LONGEST_GIVEN],
        place.hostname,
        time.strftime("%Y%m%dT%H%M%S", time.gmtime()),
        str(os.getpid()),
    ]
    return "-".join(part for part in parts if part)
