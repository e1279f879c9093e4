"""Which recordings and traces a command reads, and which of their runs."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from shlex import quote
from typing import TYPE_CHECKING

from gssr.commands import Option, tell
from gssr.workers import HERE, Workers

if TYPE_CHECKING:
    from gssr.model.fleet.fleet import Fleet, FleetRequest
    from gssr.model.fleet.held_idle import Growing
    from gssr.store.index import Index
    from gssr.store.read.recording import RecordingReader, RunReader


RULES = Option(
    ("--rules",),
    {
        "metavar": "FILE",
        "help": "TOML file that changes the rules of the notes, such as imbalance.warning = 0.2 (default: $GSSR_RULES)",
    },
)
"""What a run is judged by."""
_NUMBER = re.compile("-?[0-9]{1,9}")
_DIGITS = re.compile("[0-9]+")
_ADDRESS = re.compile("[A-Za-z][A-Za-z0-9+.-]*://")


def own_recordings() -> list[str]:
    """Return the recordings that a command looks at when none is named.

    These are all of this job's with the default name, also one with only its ranks' files; else the newest one in the
    working directory. Empty if there is none.
    """
    from gssr import launch
    from gssr.recognise import recordings_beside

    own = launch.default_output(launch.where_am_i())
    if os.path.exists(own) or os.path.exists(own + ".d"):
        stem = own.removesuffix(".sql")
        further = [f"{stem}-{number}.sql" for number in range(2, 1000)]
        return [own, *itertools.takewhile(os.path.exists, further)]
    return recordings_beside("")[:1]


def no_recording_in(places: Sequence[str]) -> str:
    """Say in a sentence that these folders and files hold no recording, and by which names one was looked for."""
    return f"{', '.join(places)}: no recording is there: looked for *.sql and *.sql.d"


def selectors(text: str) -> tuple[str, ...]:
    """Split what --gpus names, at the commas; see gssr.gpu_name.select_gpus. Empty if nothing is named."""
    return tuple(word.strip() for word in text.split(",") if word.strip())


def wrong_name(name: str, wait: bool) -> str:
    """Say in a sentence what is wrong with the name of a recording that is not there yet.

    "" if it can be waited for, or is there. ``wait``: it may be like another recording's name, which else counts as a
    slip. A name that differs in numbers alone is another run's, and no slip.
    """
    if os.path.lexists(name) or os.path.lexists(f"{name}.d"):
        return ""
    if _ADDRESS.match(name):
        return f"{name}: is an address, not a file: copy it here, or look at it where it is"
    folder = os.path.dirname(name)
    if folder and not os.path.isdir(folder):
        return f"{name}: there is no folder {folder} in which it could appear"
    from gssr.recognise import meant
    from gssr.spelling import did_you_mean

    near = [] if wait else [each for each in meant(name) if _DIGITS.sub("0", each) != _DIGITS.sub("0", name)]
    return f"{name}: no such file{did_you_mean(near)} --wait waits for it" if near else ""


def not_yet(name: str) -> str:
    """Return what a screen says while it waits for a recording: which others there are. "" if it is there."""
    if os.path.lexists(name) or os.path.lexists(f"{name}.d"):
        return ""
    from gssr.recognise import recordings_beside

    others = [os.path.basename(each) for each in recordings_beside(name)[:3]]
    return f"not there yet; here {'are' if len(others) > 1 else 'is'} {', '.join(others) or 'no recording'}"


def with_run(text: str) -> tuple[str, str | None]:
    """Split ``FILE@RUN`` into the file and the run; the run is None where none is named, or a file has that very name."""
    if os.path.lexists(text) or os.path.lexists(f"{text}.d"):
        return text, None
    named = [(text[:at], text[at + 1 :]) for at, char in enumerate(text) if char == "@" and 0 < at < len(text) - 1]
    there = [(file, run) for file, run in named if os.path.lexists(file) or os.path.lexists(f"{file}.d")]
    found = there or named
    return found[-1] if found else (text, None)


def traces_among(names: Iterable[str], kinds: Sequence[str] = ()) -> list[str]:
    """Return those of the files and folders that hold traces, by their content; with ``kinds`` only traces of these
    kinds."""
    from gssr.recognise import TRACES, recognise

    return [name for name in names if recognise(name).kind in (kinds or TRACES)]


@contextmanager
def looking_at(names: Sequence[str], together: bool = False, live: bool = False) -> Iterator[dict[str, str]]:
    """Convert other tools' metric files among ``names``, and folders of them, to temporary recordings, which are
    deleted after the block.

    That is said on stderr.

    Args:
        names: files and folders.
        together: one recording is made of all of them, in place of the first one.
        live: the recording grows with a file that is being written.

    Yields:
        By name what is to be opened in its place: "" for nothing, with ``together``. Other names are not in it.

    Raises:
        RecordingError: a file can't be read.
    """
    from gssr.recognise import FOREIGN, recognise

    found_kinds = {name: recognise(name).kind for name in names}
    ours = [name for name, kind in found_kinds.items() if kind in FOREIGN and not _holds_recordings(name)]
    found: dict[str, str] = {}
    with ExitStack() as until_end:
        for group in [ours] if together and ours else [[name] for name in ours]:
            from gssr.foreign.follow import followed, is_growing
            from gssr.foreign.open import temporary_recording

            growing = live and is_growing(group[0])
            path, problems = until_end.enter_context(followed(group[0]) if growing else temporary_recording(group))
            for problem in problems:
                tell(problem)
            words = " ".join(map(quote, group[:3])) + (" ..." if len(group) > 3 else "")
            tell(f"read into a temporary recording; to keep it: gssr import {words} -o NAME.sql")
            found |= dict.fromkeys(group, "") | {group[0]: path}
        yield found


@contextmanager
def with_foreign(places: Sequence[str]) -> Iterator[list[str]]:
    """Yield the files and folders, followed by temporary recordings of other tools' metric files among and in them.

    These are deleted after the block. Raises RecordingError.
    """
    from gssr.foreign.open import files_in, temporary_recording
    from gssr.foreign.series import ForeignError
    from gssr.recognise import FOREIGN, recognise

    found = [place for place in places if os.path.isdir(place) or recognise(place).kind not in FOREIGN]
    with ExitStack() as until_end:
        for place in places:
            if os.path.isdir(place):
                try:
                    files_in([place])
                except ForeignError:
                    continue  # recordings alone
            elif place in found:
                continue
            path, problems = until_end.enter_context(temporary_recording([place], apart=True))
            for problem in problems:
                tell(problem)
            found.append(path)
        yield found


def _holds_recordings(name: str) -> bool:
    """Tell whether a path is a folder that holds recordings: then these are what is meant."""
    from gssr.store.read.find_recordings import recordings_in

    return os.path.isdir(name) and bool(recordings_in([name])[0])


def chosen_runs(recording: RecordingReader, run: str | None) -> Sequence[RunReader]:
    """Return the runs that --run names by id, label or number (-1 is the last); all for None.

    Raises ValueError with a sentence that lists those there are.
    """
    runs = recording.runs
    if run is None:
        return runs
    found = [reader for reader in runs if run in (reader.run.run_id, reader.run.label)]
    if not found and _NUMBER.fullmatch(run) and 0 < abs(int(run)) <= len(runs):
        found = [runs[int(run) - 1 if int(run) > 0 else int(run)]]
    if not found:
        there = ", ".join(
            f"{number} ({reader.run.label or reader.run.run_id})" for number, reader in enumerate(runs, 1)
        )
        raise ValueError(f"no run {run!r}; there are: {there or 'none'}")
    return found


def open_index(name: str | None = None) -> Index | None:
    """Open the index of what was read of fleets: the file of that name, or the one in the user's cache folder.

    Returns None for a user without a cache folder. Raises ValueError, a sentence, for a named file that is none.
    """
    from gssr.model.fleet.index import TABLES
    from gssr.store.index import Index, default_index

    path = name or default_index()
    return None if path is None else Index(path, TABLES, named=name is not None)


def fleet_at(
    places: Sequence[str],
    request: FleetRequest,
    index: Index | None,
    progress: Callable[[float], None] = lambda _: None,
    workers: Workers = HERE,
) -> Fleet:
    """Read the runs of all recordings in these folders and files.

    Args:
        places: folders and files.
        request: which runs, and how they are judged.
        index: what it holds is not read again, and what is read goes into it; None: everything is read.
        progress: gets the share done, 0-1.
        workers: who reads them.
    """
    from gssr.model.fleet.fleet import read_fleet
    from gssr.store.read.find_recordings import recordings_in

    if index is not None:
        index.load(places)
    found, unreadable = recordings_in(places, None if index is None else index.is_known)
    fleet = read_fleet(found, request, progress, index, workers)
    if index is not None:
        index.keep((), index.gone())
    return fleet._replace(unreadable=(*unreadable, *fleet.unreadable))


def growing_at(places: Sequence[str], index: Index | None, progress: Callable[[float], None]) -> Growing:
    """Find the runs that go on in these folders and files, and what they hold idle. What the ``index`` knows has ended,
    and is not opened. ``progress`` gets the share done, 0-1."""
    from gssr.model.fleet.held_idle import read_growing
    from gssr.store.read.find_recordings import recordings_in

    if index is not None:
        index.load(places)
    found, unreadable = recordings_in(places, None if index is None else index.is_known)
    ended = {} if index is None else index.known(found)
    growing = read_growing([name for name in found if name not in ended], progress)
    return growing._replace(n_recordings=len(found), unreadable=(*unreadable, *growing.unreadable))
