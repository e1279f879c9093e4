"""``--textfile DIR``: the newest samples as a file for node_exporter's textfile collector, which Prometheus asks.

Who reads the folder sees a whole file or none. Node, job and rank are the file's name, and labels of all that is in it: no
two files hold the same series, for which node_exporter would refuse them all, also where two jobs record one GPU. (Exports
have no such labels: gssr/convert/openmetrics.py.) RUN_INFO says the same as there, as far as everybody may read it: no run,
user, label or command. The first line says whose file it is, so
that the next recording can remove what one that was killed has left.
"""

from __future__ import annotations

import json
import math
import os
import re
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

from gssr.backends.base import Device
from gssr.backends.pods import Pod
from gssr.metrics import NAMES, PLACES
from gssr.profile.sampling.plan import Plan
from gssr.prometheus import FAMILIES, POD_INFO, RUN_INFO, labels
from gssr.store.format.rollup import Row
from gssr.store.format.schema import GAP_INTERVALS
from gssr.store.liveness import boot_id, process_start

EVERY_SECONDS = 5.0
"""At most so often it is written anew."""
NAMES_AT_ONCE = 100
"""Files that are looked at each time, between two samples: each takes some 20 µs. Where everybody may make files there can
be a hundred thousand of them."""
MODE = 0o644
"""For node_exporter, which is another user: whatever the umask."""
_OWNER = "# gssr "
_HEAD_BYTES = 1000
_OLD_SECONDS = 60.0
"""After so long nobody is still about to write into an empty file."""
_INFO_HEAD = f"# HELP {RUN_INFO.sample} {RUN_INFO.help}\n# TYPE {RUN_INFO.sample} gauge\n"
"""The text format that node_exporter reads has no type "info"."""
_POD_HEAD = f"# HELP {POD_INFO.sample} {POD_INFO.help}\n# TYPE {POD_INFO.sample} gauge\n"
_NO_NAME = re.compile(r"[^A-Za-z0-9.-]")


class _Owner(NamedTuple):
    """The process that writes a file."""

    pid: int
    start: int | None
    boot: str | None
    node: str


class Textfile:
    """The file of this process in ``folder``. Nothing here raises: ``say`` is told what is wrong, once until it is well
    again."""

    def __init__(self, folder: str, node: str, job: str | None, rank: int | None, say: Callable[[str], None]) -> None:
        """Name the file after node, job and rank, without touching it.

        ``rank``: None where there is but one. ``say``: gets a line for the user.
        """
        self._folder, self._say = folder, say
        names = [_NO_NAME.sub("-", each) for each in (node, job or "-", str(rank or 0))]
        self._path = os.path.join(folder, "_".join(["gssr", *names]) + ".prom")
        self._labels = {"job_id": job, "node": node, "rank": rank}
        pid = os.getpid()
        self._owner = _Owner(pid, process_start(pid), boot_id(), node)
        self._columns: list[tuple[int, float, str, list[str]]] = []
        self._infos: list[str] = []
        """Of each GPU, its line of RUN_INFO."""
        self._gpus: list[dict[str, Any]] = []
        """Of each GPU, the labels that name it."""
        self._pods: dict[int, list[str]] = {}
        """Of each GPU by its position, a line of POD_INFO for each pod that was seen on it last."""
        self._rows: dict[int, Row] = {}
        self._fresh_seconds = EVERY_SECONDS
        self._due = -math.inf
        self._is_begun = self._is_taken = self._has_failed = False
        self._unseen: Iterator[os.DirEntry[str]] | None = None
        """The files of the folder that were not looked at yet; None before the first look."""

    def add_gpus(
        self, gpus: Sequence[Device], measured: Sequence[str], sampling_seconds: float, ranks: Sequence[int] = ()
    ) -> None:
        """Add GPUs, in the order of the positions that rows will name, and the metrics that may have values. A second
        call adds GPUs behind the first ones.

        Args:
            gpus: the GPUs to add.
            measured: names of metrics.
            sampling_seconds: between two samples.
            ranks: the rank that uses each GPU; empty: this process's rank uses all.
        """
        whose = [self._labels | {"rank": rank} for rank in ranks] or [self._labels] * len(gpus)
        about = [who | {"gpu": g.device_index, "uuid": g.uuid, "mig": g.mig} for who, g in zip(whose, gpus)]
        own = list(map(labels, about))
        self._gpus += about
        infos = (labels(each | {"model": gpu.name}) for each, gpu in zip(about, gpus))
        self._infos += [f"{RUN_INFO.sample}{info} 1\n" for info in infos]
        self._fresh_seconds = max(EVERY_SECONDS, GAP_INTERVALS * sampling_seconds)
        before = {column: begins for column, _, _, begins in self._columns}
        for name in NAMES:
            if name in measured and PLACES[name] in before:
                before[PLACES[name]] += [FAMILIES[name].sample + each for each in own]
            elif name in measured:
                family = FAMILIES[name]
                head = f"# HELP {family.sample} {family.help}\n# TYPE {family.sample} {family.type}\n"
                self._columns.append((PLACES[name], family.factor, head, [family.sample + each for each in own]))

    def add(self, rows: Sequence[Row]) -> None:
        """Keep the newest sample of each GPU: (position of the GPU, unix time in s, values in catalogue order)."""
        for row in rows:
            self._rows[row[0]] = row

    def see_pods(self, position: int, pods: Iterable[Pod]) -> None:
        """Keep which pods have a process on a GPU, in place of those seen there before.

        ``position``: the GPU's, as in rows; nothing is kept of one that was not added.
        """
        if position >= len(self._gpus):
            return
        gpu = self._gpus[position]
        found = (labels(gpu | {"rank": None} | pod._asdict()) for pod in sorted(set(pods)))
        self._pods[position] = [f"{POD_INFO.sample}{each} 1\n" for each in found]

    def tick(self, now: float) -> None:
        """Write the newest samples, if EVERY_SECONDS have passed since the last time; ``now`` in unix s.

        Nothing is written before the first sample, nor if another recording writes the file. A failure removes it, for
        it is out of date.
        """
        if now < self._due or not self._rows or self._is_taken:
            return
        self._due = now + EVERY_SECONDS
        try:
            if not self._is_begun:
                self._begin()
            if not self._is_taken:
                self._write(self._text(now - self._fresh_seconds).encode("utf-8", "backslashreplace"))
                self._tidy()
            self._has_failed = False
        except OSError as error:
            if not self._has_failed:
                self._say(f"--textfile {self._folder}: can't be written: {error.strerror}")
            self._has_failed = True
            self.remove()  # what is there is not true any more

    def remove(self) -> None:
        """Delete the file, if this process has written it."""
        if self._is_begun and not self._is_taken:
            try:
                os.unlink(self._path)
            except OSError:
                pass  # it is not there, or the folder is gone

    def _begin(self) -> None:
        """Find out whether another recording that still runs writes the file; if so, say it and never write."""
        found = _owner_of(self._path)[0]
        self._is_taken = found is not None and found != self._owner and not self._is_gone(found)
        self._is_begun = True
        if self._is_taken:
            self._say(f"--textfile {self._path}: another recording on this node writes it: this one does not")

    def _tidy(self) -> None:
        """Look at some more files of the folder, and remove those that recordings of this user on this node have left
        that are over."""
        try:
            if self._unseen is None:
                self._unseen = os.scandir(self._folder)
            for entry in islice(self._unseen, NAMES_AT_ONCE):
                if entry.name.startswith(("gssr_", ".gssr_")):
                    found, is_ours, is_old = _owner_of(entry.path)
                    if is_ours and (is_old if found is None else self._is_gone(found)):
                        os.unlink(entry.path)
        except OSError:
            pass  # a folder that can't be listed may still be written to; or another rank was quicker

    def _is_gone(self, owner: _Owner) -> bool:
        """Tell whether the process of a file is known to be over. False for another node or container, of which that
        can't be known."""
        if owner.node != self._owner.node or owner.boot is None or self._owner.boot is None:
            return False
        if owner.boot == self._owner.boot:
            return process_start(owner.pid) != owner.start
        return owner.boot.split()[0] != self._owner.boot.split()[0]

    def _text(self, oldest: float) -> str:
        """Return the file's text, with the newest sample of each GPU unless that is from before ``oldest`` (unix s)."""
        rows = [row for row in self._rows.values() if row[1] >= oldest]
        parts = [f"{_OWNER}{json.dumps(self._owner)}\n"]
        if rows:
            parts += [_INFO_HEAD, *(self._infos[row[0]] for row in rows)]
            pods = [line for row in rows for line in self._pods.get(row[0], ())]
            parts += [_POD_HEAD, *pods] if pods else []
        for column, factor, head, begins in self._columns:
            values = [(begins[row[0]], value) for row in rows if (value := row[column]) is not None]
            lines = [f"{begin} {value * factor!r}\n" for begin, value in values if math.isfinite(value)]
            if lines:
                parts += [head, *lines]
        return "".join(parts)

    def _write(self, data: bytes) -> None:
        """Write the file whole: under another name first, which is then renamed. Raises OSError."""
        aside = os.path.join(self._folder, f".gssr_{os.urandom(8).hex()}")  # no *.prom: nobody reads it
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(aside, flags, MODE)
        try:
            with open(descriptor, "wb", buffering=0) as file:
                os.fchmod(descriptor, MODE)
                while data:
                    data = data[file.write(data) :]
            os.rename(aside, self._path)
        except OSError:
            os.unlink(aside)
            raise


def textfile_of(plan: Plan, folder: str, say: Callable[[str], None]) -> Textfile:
    """Return the file of this process of the run."""
    job, rank = plan.run["job_id"], int(plan.process["rank"] or 0)
    node = str(plan.process["node"])
    return Textfile(folder, node, None if job is None else str(job), rank if plan.siblings else None, say)


def _owner_of(path: str) -> tuple[_Owner | None, bool, bool]:
    """Find out who writes a file of the folder, in which anybody may have made anything.

    Returns:
        (its owner or None, whether the file is this user's, whether it is older than _OLD_SECONDS). (None, False,
            False) if it can't be read or is no regular file.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None, False, False
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            return None, False, False
        is_ours, is_old = status.st_uid == os.geteuid(), time.time() - status.st_mtime > _OLD_SECONDS
        head = os.read(descriptor, _HEAD_BYTES).decode("utf-8", "replace").split("\n")[0]
        return _owner_in(head), is_ours, is_old
    except OSError:
        return None, False, False
    finally:
        os.close(descriptor)


def _owner_in(head: str) -> _Owner | None:
    """Read the owner from a file's first line; None if it names none."""
    try:
        found: Any = json.loads(head.removeprefix(_OWNER)) if head.startswith(_OWNER) else None
        owner = _Owner(*found)
    except (ValueError, TypeError, RecursionError):
        return None
    kinds = ((int,), (int, type(None)), (str, type(None)), (str,))
    return owner if all(isinstance(value, kind) for value, kind in zip(owner, kinds)) else None
