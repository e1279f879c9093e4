"""Where a run is recorded: which file, under which name of the run, and what to do with what stands there already.

One rank records into ``NAME.sql``. Where there may be several, each records into a file of its own in ``NAME.sql.d``; and
so does one that adds its run (-a) where others may do so at the same time: each step of a job.
"""

import os
import stat
import time
from errno import EINVAL
from itertools import count
from typing import NamedTuple

from gssr import launch
from gssr.profile.request import Request, UsageError
from gssr.store.private import FILE, PLANTED, is_planted, make_folder


class Output(NamedTuple):
    """The file to record into, and the run's name in it. ``append``: a run is added to the recording that is there.
    ``overwrite``: that recording is deleted first. ``shard``: it is one rank's share of a recording."""

    path: str
    run_id: str
    append: bool
    overwrite: bool
    shard: bool


class _Found(NamedTuple):
    """A run of the recording that stands at the output."""

    run_id: str
    job_id: str | None
    state: str


def whole_of(path: str) -> str:
    """The recording that a rank's file is part of: ``NAME.sql``."""
    folder = os.path.dirname(path)
    return folder.removesuffix(".d") if folder.endswith(".sql.d") else path


def choose(request: Request, place: launch.Place, make: bool = True) -> Output:
    """The output of this process. Raises UsageError when what stands there must not be touched. Without ``make`` no file or
    folder is made, and a name that this would decide is guessed."""
    named = request.output is not None or place.job_id is not None
    if not named and (place.world_size or 1) > 1:
        raise UsageError("several ranks need one name for their recording: give it with -o FILE.sql")
    shard = place.parallel and named  # a name after the time is each process's own
    output = launch.default_output(place) if request.output is None else request.output
    if request.output is None and not (shard or request.append or request.overwrite or place.restart_count):
        output = _reserved(output, make)
    try:
        output = os.path.abspath(output)
    except OSError:
        pass  # the folder that we are in is gone: the sampler will say that no file can be made there
    append, overwrite, taken = _look_at_file(output, request, place)
    if shard or (request.append and (taken or place.step_id is not None)):
        return _shard_output(output, request, place, make)
    run_id = place.run_id or _own_run_id(place)
    if request.output is not None and not request.append and _shards(output):
        what = "holds the recording of several ranks"
        if request.overwrite:
            raise UsageError(f"-o {request.output}: {request.output}.d {what}, which -f leaves alone: delete it first")
        raise UsageError(f"-o {request.output}: {request.output}.d {what}; use -a to add a run to it")
    if append:
        run_id = _unused(run_id, {run.run_id for run in _runs_in(output)})
    path = os.path.realpath(output) if os.path.islink(output) else output  # a link stays, wherever it leads
    return Output(path, run_id, append, overwrite, shard=False)


def _shard_output(output: str, request: Request, place: launch.Place, make: bool) -> Output:
    """What must come out the same for all ranks of a run, whichever of them have begun: only runs of before count."""
    own_start = f"{place.node}.{place.rank}."
    names = _shards(output)
    adds = request.append or request.overwrite or request.output is None
    adds = adds or (place.run_id is None and place.restart_count > 0)  # ranks that were started again
    if place.run_id is None and not adds and any(name.startswith(own_start) for name in names):
        raise UsageError(_holds_another(request))  # before a name is made for a run that will not be
    run_id = place.run_id or (_agreed_run_id(output, place, own_start) if make else _own_run_id(place))
    mine = {name.removeprefix(own_start).removesuffix(".sql") for name in names if name.startswith(own_start)}
    if os.path.exists(output):  # looked at after the ranks' files, which may just be merged into it
        mine.update(run.run_id for run in _runs_in(output))
    job = run_id.partition(".")[0]
    others = [name for name in names if not name.endswith(f".{run_id}.sql")]
    if place.restart_count:  # a requeued job goes on beside its own files
        others = [name for name in others if f".{job}." not in name]
    if (others or run_id in mine) and not adds:
        raise UsageError(_holds_another(request))
    run_id = _unused(run_id, mine)
    if make:
        _make_shards_folder(output)
    path = os.path.join(output + ".d", f"{own_start}{run_id}.sql")
    return Output(path, run_id, append=False, overwrite=False, shard=True)


def _holds_another(request: Request) -> str:
    return f"-o {request.output}: {request.output}.d holds another run; use -a to add a run to it"


def _make_shards_folder(output: str) -> None:
    try:
        make_folder(output + ".d")
    except OSError:
        pass  # the sampler will say why the file can't be made


def _reserved(name: str, make: bool) -> str:
    """The default name, numbered where it is taken: by another command of the job, maybe beside this one, or of the same
    second. An empty file keeps it."""
    stem = name.removesuffix(".sql")
    for number in range(1, 1000):
        name = f"{stem}-{number}.sql" if number > 1 else name
        if not make:
            if os.path.lexists(name):
                continue
            break
        try:
            os.close(os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, FILE))
        except FileExistsError:
            continue
        except OSError:
            pass  # the sampler will say why it can't be made
        break
    return name


def _look_at_file(output: str, request: Request, place: launch.Place) -> tuple[bool, bool, bool]:
    """(append, overwrite, taken): what to do with what stands at ``output``; ``taken``: others are recording into it, and
    this run is to be added beside them. Raises UsageError when it must not be touched."""
    shown = request.output or os.path.basename(output)
    for name in (output, output + ".d"):
        if is_planted(name):
            raise UsageError(f"-o {shown}: {name} {PLANTED}: choose another name")
    if os.path.isdir(output):
        raise UsageError(f"-o {shown}: is a directory; name a file in it, such as {os.path.join(shown, 'run.sql')}")
    if not os.path.lexists(output):
        return False, request.overwrite, False  # another may make it, or be just overwriting it
    try:
        status = os.stat(output)
        if not stat.S_ISREG(status.st_mode):
            raise UsageError(f"-o {shown}: is not a file: choose another name")  # but a pipe, or a device
        if status.st_size == 0:
            return False, False, False  # it is used as it is
        from gssr.store.open import looks_like_recording  # only here: most outputs are new

        ours = looks_like_recording(output)
    except FileNotFoundError:
        if os.path.islink(output):
            raise UsageError(f"-o {shown}: is a link to nothing: choose another name") from None
        return False, request.overwrite, False  # another has just deleted it to overwrite it
    except OSError as error:
        raise UsageError(f"-o {shown}: exists and can't be read: {error.strerror}") from None
    if not ours:
        raise UsageError(f"-o {shown}: exists and is not a recording: choose another name")
    runs = _runs_in(output)
    same_job = bool(runs) and all(run.job_id == place.job_id for run in runs)
    if request.output is None and place.parallel and same_job:
        return False, False, False  # a step whose ranks write beside it
    taken = any(run.state == "running" for run in runs)
    if taken and not request.append:
        raise UsageError(f"-o {shown}: is being recorded into right now: choose another name")
    if place.restart_count and not request.overwrite and same_job:
        return True, False, taken  # a requeued job goes on in its own file
    if request.append:
        return True, False, taken
    if not request.overwrite:
        raise UsageError(f"-o {shown}: exists; use -f to overwrite it or -a to add a run to it")
    return False, True, False


def _runs_in(path: str) -> list[_Found]:
    """Every run of a recording; none of one that can't be read."""
    import sqlite3
    from contextlib import closing

    from gssr.store.open import RecordingError, connect
    from gssr.store.records import read_runs, state_in

    try:
        with closing(connect(path)) as connection:
            return [_Found(run.run_id, run.job_id, state_in(connection, run, path)) for run in read_runs(connection)]
    except (RecordingError, sqlite3.DatabaseError):
        return []


def _shards(output: str) -> list[str]:
    """Names of the ranks' files that belong to ``output``."""
    try:
        return [name for name in os.listdir(output + ".d") if name.endswith(".sql")]
    except OSError:
        return []


def _unused(run_id: str, taken: set[str]) -> str:
    """The run id, numbered where it is taken: two commands of one job step."""
    names = (f"{run_id}-{number}" for number in count(2))
    return run_id if run_id not in taken else next(name for name in names if name not in taken)


def _own_run_id(place: launch.Place) -> str:
    return f"{place.hostname}-{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}-{os.getpid()}"


def _agreed_run_id(output: str, place: launch.Place, own_start: str) -> str:
    """A name for the run where the launcher gives its ranks none in common: the first to make ``NAME.sql.d/run`` decides.
    Where this rank has recorded under that name before, it is an earlier run's: then ``run.2`` decides, and so on."""
    own, folder = _own_run_id(place), output + ".d"
    try:
        make_folder(folder)
        for number in count(1):
            run_id = _first_said(os.path.join(folder, "run" if number == 1 else f"run.{number}"), own)
            used = os.path.exists(os.path.join(folder, f"{own_start}{run_id}.sql"))
            if run_id == own or not (used or run_id in (run.run_id for run in _runs_in(output))):
                return run_id
    except OSError:
        pass  # nothing can be written there: the sampler will say so
    return own


def _first_said(path: str, own: str) -> str:
    """What stands in the file, which is made with ``own`` in it where there is none. Raises OSError."""
    try:
        with open(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, FILE), "w") as stream:
            stream.write(own)
        return own
    except FileExistsError:
        pass
    from gssr.store.open import small_text

    for _ in range(50):
        said = small_text(path)
        if said and not launch.is_name(said):
            raise OSError(EINVAL, f"{path} holds no name of a run")
        if said:
            return said
        time.sleep(0.02)  # made, not yet written
    return own
