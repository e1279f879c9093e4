"""Recordings that are removed, renamed, replaced or cut off under the writer and under readers, that others left behind, or
that two jobs want to write."""

import contextlib
import os
import random
import shutil
import signal
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from benchmarks.processes import ENVIRONMENT
from gssr.model.live.live_result import Query
from gssr.model.live.watched_recording import WatchedRecording
from gssr.store.read.open import RecordingError
from tests.faults.tried import Fault, Seen
from tests.faults.tried.job import Job, Steps, first_wrong, in_words, passed_on, recorded, seen, workshop
from tests.waiting import until

RANKS = {"PMI_SIZE": "2", "MPI_LOCALRANKID": "0", "MPI_LOCALNRANKS": "2", "HYDI_CONTROL_FD": "9"}


def _sound() -> Path:
    """A recording of another run, made once."""
    path = workshop() / "another"
    if not (path / "run.sql").exists():
        path.mkdir(exist_ok=True)
        with Job(path, ["sh", "-c", "sleep 0.3"]) as job:
            job.end()
    return path / "run.sql"


class _Watcher(threading.Thread):
    """Looks at a recording all the time, as the live screen does; ``wrong`` is what it should not have met."""

    def __init__(self, path: Path) -> None:
        super().__init__(daemon=True)
        self._path, self._over = path, threading.Event()
        self.wrong: str | None = None

    def run(self) -> None:
        try:
            with closing(WatchedRecording(str(self._path))) as watch:
                while not self._over.wait(0.05):
                    watch.look(Query())
        except Exception as error:
            self.wrong = f"the live screen met {type(error).__name__}: {error}"

    def stop(self) -> None:
        self._over.set()
        self.join(60)


def _remove(path: Path) -> None:
    for name in path.parent.glob("run.sql*"):
        name.unlink()


def _rename(path: Path) -> None:
    path.rename(path.with_name("elsewhere.sql"))


def _replace(path: Path) -> None:
    shutil.copyfile(_sound(), path.with_name("new"))
    path.with_name("new").rename(path)


def _replace_by_folder(path: Path) -> None:
    path.rename(path.with_name("elsewhere.sql"))
    path.mkdir()


def _replace_by_text(path: Path) -> None:
    path.with_name("new").write_text("no recording, but words that are long enough to be one's head" * 9)
    path.with_name("new").rename(path)


def _cut_off(path: Path) -> None:
    os.truncate(path, 0)


def _damage(path: Path) -> None:
    with path.open("r+b") as stream:
        stream.seek(4096)
        stream.write(b"\xff" * 8192)


_TAKEN_AWAY: dict[str, Callable[[Path], None]] = {
    "file-removed": _remove,
    "file-renamed": _rename,
    "file-replaced": _replace,
    "file-a-folder": _replace_by_folder,
    "file-a-text": _replace_by_text,
    "file-cut-off": _cut_off,
    "file-overwritten": _damage,
}


def _taken_away(how: Callable[[Path], None]) -> Callable[[Path, random.Random], Seen]:
    def taken_away(folder: Path, rng: random.Random) -> Seen:
        steps = Steps(rng.randint(12, 25), rng.choice((0, 7)))
        with Job(folder, ["sh", "-c", steps.script]) as job:
            watcher = _Watcher(job.path)
            watcher.start()
            try:
                job.records()
                time.sleep(rng.uniform(0.0, 0.8))
                how(job.path)
                stays = how in (_replace, _replace_by_text)
                after = job.path.read_bytes() if stays else b""
                ended = job.end()
            finally:
                watcher.stop()
            try:
                recorded(job.path)
                opened = None
            except RecordingError:
                opened = None
            except Exception as error:
                opened = f"the reader met {type(error).__name__}: {error}"
            return Seen(
                None,
                in_words(ended.said, folder),
                watcher.wrong
                or opened
                or first_wrong(
                    *passed_on(ended, steps),
                    (not stays or job.path.read_bytes() == after, "what stands in its place was changed"),
                ),
            )

    return taken_away


def stale_ranks(folder: Path, rng: random.Random) -> Seen:
    """Ranks' files of an earlier job, one of them killed: refused and left alone without a word to go on."""
    steps, environment = Steps(rng.randint(20, 30), 0), ENVIRONMENT | RANKS | {"PMI_RANK": "0"}
    ranks = folder / "run.sql.d"
    with Job(folder, ["sh", "-c", steps.script], environment=environment) as job:
        sampler = job.sampler()
        until(lambda: list(ranks.glob("*.sql")), "a rank's file")
        time.sleep(rng.uniform(0.0, 0.4))
        if rng.random() < 0.5:
            with contextlib.suppress(ProcessLookupError):
                os.kill(sampler, signal.SIGKILL)
        job.end()
    before = {path.name: path.read_bytes() for path in ranks.iterdir()}
    option = rng.choice(("", "-a", "-f"))
    with Job(
        folder,
        ["sh", "-c", steps.script],
        environment=environment,
        options=["--no-summary", *([option] if option else [])],
    ) as job:
        ended = job.end()
        after = {path.name: path.read_bytes() for path in ranks.iterdir()} if ranks.exists() else {}
        kept = all(after.get(name) == content for name, content in before.items() if name.endswith(".sql"))
        if not option:
            words = len(ended.said) == 1 and "use -a to add a run" in ended.said[0]
            return seen(
                ended,
                folder,
                None,
                (ended.code == 2 and not ended.out, f"exit code {ended.code}"),
                (words, f"said {ended.said}"),
                (kept, "the earlier job's files were changed"),
            )
        return seen(ended, folder, None, *passed_on(ended, steps), (kept, "files changed"))


def two_jobs(folder: Path, rng: random.Random) -> Seen:
    """Both begin at once or one a little later, with -f or without: both run, one is recorded, the other says so."""
    first, second = folder / "1", folder / "2"
    first.mkdir()
    second.mkdir()
    steps = Steps(rng.randint(25, 35), rng.choice((0, 7)))
    force = ["-f"] if rng.random() < 0.5 else []
    target = folder / "run.sql"
    (first / "run.sql").symlink_to(target)
    (second / "run.sql").symlink_to(target)
    target.touch()
    with Job(first, ["sh", "-c", steps.script], options=["--no-summary", *force]) as one:
        time.sleep(rng.choice((0.0, 0.0, rng.uniform(0.0, 1.0))))
        with Job(second, ["sh", "-c", steps.script], options=["--no-summary", *force]) as other:
            ends = [one.end(), other.end()]
    said = [*ends[0].said, *ends[1].said]
    ran = [end for end in ends if end.out]
    refused = [end for end in ends if not end.out]
    found = recorded(target)
    return Seen(
        None,
        in_words(said, folder),
        first_wrong(
            *(check for end in ran for check in passed_on(end, steps)),
            (all(end.code == 2 and len(end.said) == 1 for end in refused), f"said {said}"),
            (len(ran) > 0 and len(said) == 1, f"said {said}"),
            (found.exit_code == steps.code and len(found.times) > 0, f"{found.state}, {len(found.times)} samples"),
        ),
    )


_SENTENCES = {
    "file-removed": "the recording removed under writer and reader",
    "file-renamed": "the recording renamed under writer and reader",
    "file-replaced": "the recording replaced by another one under writer and reader",
    "file-a-folder": "a folder in the recording's place under writer and reader",
    "file-a-text": "a text file in the recording's place under writer and reader",
    "file-cut-off": "the recording cut off to nothing under writer and reader",
    "file-overwritten": "pages of the recording overwritten under writer and reader",
}

FAULTS: tuple[Fault, ...] = (
    *(Fault(name, _SENTENCES[name], _taken_away(how)) for name, how in _TAKEN_AWAY.items()),
    Fault("stale-ranks", "ranks' files of an earlier job at the same name", stale_ranks),
    Fault("two-jobs", "two jobs that write to the same name", two_jobs),
)
