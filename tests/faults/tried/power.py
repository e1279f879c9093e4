"""What a loss of power leaves: a recording, its write-ahead log or its journal that ends at some page, or is not there."""

import random
import re
import shutil
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

from gssr.backends.base import BackendError
from gssr.backends.replay import open_replay
from gssr.model.live.live_result import Query
from gssr.model.live.watched_recording import WatchedRecording
from gssr.store.read.open import RecordingError
from gssr.store.read.recording import open_recording
from tests.faults.tried import Fault, Seen
from tests.faults.tried.job import in_words
from tests.fuzz.readers.recordings import command
from tests.fuzz.readers.seeds import seeds

_PAGE, _LOG_HEAD, _FRAME = 4096, 32, 4120


def boundaries(path: Path) -> list[int]:
    """Where the pages of a database or a journal, or the frames of a write-ahead log, begin and end."""
    size = path.stat().st_size
    begin, step = (_LOG_HEAD, _FRAME) if path.name.endswith("-wal") else (0, _PAGE)
    return [0, *range(begin or step, size, step)]


def _watch(path: Path) -> str:
    with closing(WatchedRecording(str(path))) as watch:
        watch.look(Query())
    return ""


def _replay(path: Path) -> str:
    with suppress(BackendError), closing(open_replay(f"replay:{path}")) as backend:
        backend.sample(0.0)
    return ""


_READERS: tuple[Callable[[Path], str], ...] = (
    lambda path: command(["analyze", str(path)]),
    lambda path: command(["analyze", "--json", "-d", "all", str(path)]),
    lambda path: command(["compare", str(path), str(path)]),
    lambda path: command(["fleet", str(path)]),
    _watch,
    _replay,
    lambda path: command(["merge", str(path)]),
)


def _rows(path: Path) -> int:
    try:
        with closing(open_recording(path)) as recording:
            return sum(len(run.samples([]).time) for run in recording.runs)
    except RecordingError:
        return 0


def cut(seed: Path, name: str, at: int, folder: Path) -> Seen:
    """A recording of which one file, ``name`` in it, ends after ``at`` bytes, given to every command that reads."""
    shutil.copytree(seed, folder, dirs_exist_ok=True)
    path = folder / "run.sql"
    whole = _rows(path)
    with (folder / name).open("r+b") as stream:
        stream.truncate(at)
    left = _rows(path)
    said = [read(path) for read in _READERS]
    lines = [line.removeprefix("gssr: ") for line in said[0].splitlines()]
    shown = in_words([re.sub(r"is damaged.*", "is damaged", line) for line in lines[-1:]], folder)
    return Seen(None, shown, None if left <= whole else f"{left} rows of {whole} are left")


def power_lost(folder: Path, rng: random.Random) -> Seen:
    """Any of the small recordings, cut off anywhere."""
    seed = rng.choice(seeds())
    path = rng.choice([path for path in sorted(seed.rglob("*")) if path.is_file()])
    return cut(seed, str(path.relative_to(seed)), rng.choice(boundaries(path)), folder / "own")


FAULTS: tuple[Fault, ...] = (
    Fault("power-loss", "the recording, its log or its journal cut off at any page", power_lost),
)
