"""One line on stderr for all ranks of a run that have the same to say, instead of one from each.

The first rank that has it to say leaves a sign where the others look: among the ranks' files in ``NAME.sql.d``, which are
merged and removed with it, or beside a recording that is refused, as long as other ranks keep coming. Where there can be no
sign, or a filesystem may not be waited for, the first rank of each node holds a lock in the node's memory and speaks.

Only what does not matter more for being said by several is said this way. What names a GPU or a process is not.
"""

from __future__ import annotations

import os
import signal
import time
from binascii import crc32
from collections.abc import Callable
from typing import TYPE_CHECKING

from gssr.launch import LaunchPlace
from gssr.profile.sampling.plan import Plan
from gssr.profile.stderr import say
from gssr.store.disk import FILE
from gssr.store.format.schema import ENDED_SUFFIX

if TYPE_CHECKING:
    from gssr.profile.sampling.claims import Claims

SAID = "said"
"""In place of a rank's number, in the sign of a run that something was said."""
FOR_NODE = "\x1e"
"""Begins a line from the sampler that one rank of the node is to say."""
LATER_RANK_SECONDS = 2.0
"""The sign of a refusal stays until no other rank has come for so long."""

_NEW = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW
_PAUSE = 0.05  # s
_ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)


def leave_sign(folder: str, run_id: str, subject: str) -> bool | None:
    """Leave the sign, among the ranks' files, that ``subject`` was said.

    Returns:
        True if this process left it, False if another rank of the run has before, None if it can't be left.
    """
    try:
        os.close(os.open(os.path.join(folder, f"{_name(subject)}.{run_id}{ENDED_SUFFIX}"), _NEW, FILE))
    except FileExistsError:
        return False
    except OSError:
        return None
    return True


def say_from_sampler(plan: Plan, tell: Callable[[str], None], text: str, subject: str | None = None) -> None:
    """Hand a line to the supervisor by ``tell``, unless another rank of the run has said the same.

    Instead of this rank's own file the line names the folder. ``subject``: identifies the line where its text differs
    between the ranks; None: the text does.
    """
    folder = os.path.dirname(plan.path)
    if plan.siblings and folder.endswith(".sql.d"):
        text = text.replace(plan.path, folder)
        first = leave_sign(folder, str(plan.run["run_id"]), subject or text)
        if first is False:
            return
        text = text if first else FOR_NODE + text
    tell(text)


class _Voice:
    """What the supervisor needs to know of its run, and the lines that it says for its node."""

    def __init__(self, node: str, run_id: str, folder: str | None) -> None:
        self.run_id, self.folder = run_id, folder
        self._node = node
        self._claims: Claims | None = None

    def is_first_on_node(self, subject: str) -> bool:
        """Tell whether no other rank of this node that still runs has said ``subject``; also True where there are no
        locks."""
        from gssr.profile.sampling.claims import Claims  # only here, because it is seldom needed

        try:
            self._claims = self._claims or Claims(self._node, self.run_id)
            return bool(self._claims.take([_name(subject)]))
        except OSError:
            return True

    def close(self) -> None:
        """Release what was said, so that another rank of the node can say it again."""
        if self._claims is not None:
            self._claims.close()
            self._claims = None


_voice: _Voice | None = None


def begin(place: LaunchPlace, run_id: str | None, folder: str | None) -> None:
    """Make this process a rank of that run, for ``say_for_all``; nothing if there are no other ranks or the run has no
    name.

    ``folder``: where the ranks' files are; None where the run has a single file.
    """
    global _voice
    run_id = run_id or place.run_id or place.launch
    _voice = _Voice(place.node, run_id, folder) if place.parallel and run_id else None


def end() -> None:
    """Release what this process said for its node. Does nothing without ``begin``."""
    if _voice is not None:
        _voice.close()


def say_for_all(text: str, subject: str | None = None, running: bool = False) -> None:
    """Say a line on stderr, unless another rank of the run has said the same.

    Args:
        text: the line.
        subject: identifies the line where its text differs between the ranks; None: the text does.
        running: the workload runs, so that no filesystem may be waited for: then one rank of each node says it.
    """
    subject, first = subject or text, None
    if _voice is not None:
        if _voice.folder is not None and not running:
            first = leave_sign(_voice.folder, _voice.run_id, subject)
        if first is None:
            first = _voice.is_first_on_node(subject)
    if first is not False:
        say(text)


def say_line_of_sampler(line: bytes) -> None:
    """Say a line that the sampler has handed over; one that begins with FOR_NODE only once on the node."""
    text = line.decode("utf-8", "replace")
    if text.startswith(FOR_NODE):
        say_for_all(text.removeprefix(FOR_NODE), running=True)
    else:
        say(text)


def say_refusal(text: str, place: LaunchPlace, output: str | None, tell: Callable[[str], None]) -> None:
    """Say by ``tell`` why nothing was started, unless another rank has. The rank that says it waits until the others
    have come.

    ``output``: beside which the ranks find each other, as the user named it; None: a default name.
    """
    run_id, beside = place.run_id or place.launch, os.path.abspath(output or "gssr.sql")
    folder, name = os.path.split(beside)
    sign = os.path.join(folder, f".{name}.{_name(text)}.{run_id}")
    if not place.parallel or not run_id:
        tell(text)
        return
    mask = signal.pthread_sigmask(
        signal.SIG_BLOCK, _ENDING
    )  # whoever ends the other ranks must not leave a sign behind
    try:
        os.close(os.open(sign, _NEW, FILE))
    except FileExistsError:
        _add_to(sign)
    except OSError:
        tell(text)
    else:
        tell(text)
        _wait_for_others(sign, place.world_size)
        os.unlink(sign)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _add_to(sign: str) -> None:
    """Add a byte to the sign, which says that another rank has come; nothing if it is gone."""
    try:
        descriptor = os.open(sign, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return  # it has just been removed
    os.write(descriptor, b".")
    os.close(descriptor)


def _wait_for_others(sign: str, world_size: int | None) -> None:
    """Wait until all ranks have come, none has for LATER_RANK_SECONDS, or a signal asks for the end; ``world_size``
    None: unknown."""
    came, last = 0, time.monotonic()
    while came + 1 != world_size and time.monotonic() < last + LATER_RANK_SECONDS:
        if signal.sigtimedwait(_ENDING, _PAUSE):
            return
        before, came = came, os.stat(sign).st_size
        last = time.monotonic() if came != before else last


def _name(subject: str) -> str:
    """Return the name of the sign for a subject."""
    return f"{SAID}-{crc32(subject.encode('utf-8', 'surrogateescape')):08x}"
