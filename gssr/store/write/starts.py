"""How the ranks of a run decide alike, without talking and without waiting for one another: by who was first.

``NAME.sql.d/run``, then ``run.2``, ``run.3`` … each tell of one run that was to be begun, in one line: its id, what tells
its launch from others, whether it is recorded, and the ids of the runs that it replaces. A rank reads them in turn. Where
one is its run's, that counts; where they end, it decides by what it sees, and makes the next file, which only one can: it
then is what all others of the run read. Only ``merge`` removes them, with the folder.

A file comes into being as a whole, by a link; where there are none, as it is written. Whoever was killed meanwhile has left
a part: others wait a moment for the rest, then go on without a recording, and after a minute take it for none.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from errno import EEXIST
from itertools import count
from typing import NamedTuple, Union
from urllib.parse import quote, unquote

from gssr.launch import is_name
from gssr.store.disk import is_file_or_none, make_file, make_folder, small_text
from gssr.store.format.schema import START_NAME
from gssr.store.liveness import time_in

PATIENCE = 2.0
"""How long a rank waits for what another has begun to write, s."""
FRESH_SECONDS = 60.0
"""Ranks of one launch begin within this time of each other; what was to begin longer ago, and has left nothing but the word
of it, has not begun."""

_LONGEST = 1 << 24
"""Bytes of a line, at most: it names the runs that are replaced, which may be the thousands of an array."""

ASIDE = "start."
"""What is to become one of the files is called so, until it is."""

_PAUSE = 0.02
_RECORDED, _REFUSED = "recorded", "refused"
_NOTHING = "-"


class UnagreedError(Exception):
    """It can't be found out what the other ranks do; the text is one sentence."""


class RunStart(NamedTuple):
    """One run that was to be begun.

    ``launch`` as in ``Place``, "" where it has none; ``refused``: it was decided that it is not recorded; ``age``:
    since that was written, s, by the filesystem's clock; ``replaces``: ids of runs that were over when the first rank
    looked, and are deleted when this run is merged.
    """

    run_id: str
    launch: str
    refused: bool
    age: float = 0.0
    replaces: tuple[str, ...] = ()

    @property
    def fresh(self) -> bool:
        """True while ranks of the run may still be about to begin, as the start was written so lately."""
        return self.age <= FRESH_SECONDS


Ours = Union[str, Callable[[RunStart], bool]]


def agree(folder: str, ours: Ours, decide: Callable[[Sequence[RunStart]], RunStart]) -> RunStart:
    """Find out what the first rank of our run decided. If no rank has yet, this one decides, by ``decide``, which is
    given what was to be begun before, the oldest first.

    ``ours`` is the run's id, or a function that tells of a run whether it is ours. Raises UnagreedError when another
    rank does not write in time or the folder can't be written.
    """
    reading = _PatientReader(folder)
    try:
        while True:
            try:
                found = _look(folder, reading, ours, decide)
                if found is not None:
                    return found
            except FileNotFoundError:
                if not os.path.isdir(os.path.dirname(folder)):
                    raise
            reading.pause(folder)  # a merge has just removed what was in it
    except OSError as error:
        raise UnagreedError(f"{folder}: can't be written: {error.strerror or error}") from None


class _PatientReader:
    """Reads the files of a folder, and waits for them no longer than it may in all."""

    def __init__(self, folder: str) -> None:
        self._folder, self._pauses = folder, int(PATIENCE / _PAUSE)
        self._now: float | None = None

    def pause(self, path: str) -> None:
        """Wait a moment for others to write. Raises UnagreedError when that was done for long enough in all."""
        if not self._pauses:
            raise UnagreedError(f"{path}: another rank has not written there whether this run is recorded")
        self._pauses -= 1
        time.sleep(_PAUSE)

    def age(self, path: str) -> float:
        """Seconds since the file was written. Raises OSError."""
        if self._now is None:
            self._now = time_in(self._folder)
        return self._now - os.stat(path).st_mtime

    def whole(self, path: str) -> str | None:
        """Read a file once all of it is there, or never will be; None when there is none. Raises UnagreedError when it
        is not there in time, OSError."""
        while True:
            try:
                text = small_text(path, _LONGEST)
                if text.endswith("\n") or self.age(path) > FRESH_SECONDS:
                    return text
            except FileNotFoundError:
                return None
            self.pause(path)


def _look(
    folder: str, reading: _PatientReader, ours: Ours, decide: Callable[[Sequence[RunStart]], RunStart]
) -> RunStart | None:
    """Find the start of our run among those that ranks have written in a folder, or write it, as ``decide`` says, if
    none has. ``ours`` is the run's id, or a function that recognises its start; ``reading`` limits for how long others
    are waited for. None if the files were removed meanwhile: look again then. Raises UnagreedError, OSError."""
    make_folder(folder)
    before: list[RunStart] = []
    path, last = "", ""
    for number in count(1):
        path, last = os.path.join(folder, START_NAME if number == 1 else f"{START_NAME}.{number}"), path
        text = reading.whole(path)
        while text is None:
            own = decide(before)
            if _make_start_file(path, own):
                if not last or os.path.exists(last):
                    return own
                os.unlink(path)
                return None
            text = reading.whole(path)
            if text is None:
                reading.pause(path)
        start = _parsed(text)
        if start is None:
            continue
        if start.run_id == ours:
            return start
        start = start._replace(age=reading.age(path))
        if callable(ours) and ours(start):
            return start
        before.append(start)
    raise AssertionError  # there is always one number more


def started_in(folder: str) -> dict[str, RunStart]:
    """Read the starts that are written in a folder, by the names of their files, the newest first. What is no line of
    theirs, or no file, is left out. Raises OSError."""
    names = [name for name in os.listdir(folder) if name.partition(".")[0] == START_NAME]
    names = [name for name in names if is_file_or_none(os.path.join(folder, name))]
    reading, found = _PatientReader(folder), {}
    for name in sorted(names, key=lambda name: (len(name), name), reverse=True):
        path = os.path.join(folder, name)
        start = _parsed(small_text(path, _LONGEST))
        if start is not None:
            found[name] = start._replace(age=reading.age(path))
    return found


def _parsed(text: str) -> RunStart | None:
    """Read the line of a start; None where gssr has not written it."""
    words = text.split()
    if len(words) < 3 or not (is_name(words[0]) and is_name(words[1])) or words[2] not in (_RECORDED, _REFUSED):
        return None
    launch = "" if words[1] == _NOTHING else words[1]
    return RunStart(words[0], launch, words[2] == _REFUSED, replaces=tuple(map(unquote, words[3:])))


def _make_start_file(path: str, start: RunStart) -> bool:
    """Make the file of a start. Returns whether this rank made it: False where it is there already, or the folder is gone.
    Raises OSError where none can be made."""
    words = [start.run_id, start.launch or _NOTHING, _REFUSED if start.refused else _RECORDED]
    # Quoted: what another tool's file was imported from may have run ids of any form.
    text = " ".join([*words, *(quote(run_id, safe="") for run_id in start.replaces)]).encode() + b"\n"
    aside = f"{os.path.dirname(path)}/{ASIDE}{os.uname().nodename}-{os.getpid()}"
    try:
        _write_file(aside, text, os.O_TRUNC)
        try:
            os.link(aside, path)
            return True
        except FileExistsError:
            # On NFS the answer to a link that was made can get lost, and the second try finds the first one's.
            return os.stat(aside).st_nlink > 1
        except FileNotFoundError:
            return False  # a merge has just removed the folder, or what lay aside in it
        except OSError:
            pass  # a filesystem without hard links
    finally:
        try:
            os.unlink(aside)
        except OSError:
            pass
    try:
        _write_file(path, text, os.O_EXCL)
        return True
    except FileExistsError:
        return False


def _write_file(path: str, text: bytes, flag: int) -> None:
    """Write a file in one go, never through a link. ``flag`` is O_TRUNC or O_EXCL. Raises FileExistsError if only a part
    could be written, or if O_EXCL finds one there; another OSError if it can't be made."""
    descriptor = make_file(path, os.O_NOFOLLOW | flag)
    try:
        if os.write(descriptor, text) != len(text):
            raise OSError(EEXIST, "is half written")
    finally:
        os.close(descriptor)
