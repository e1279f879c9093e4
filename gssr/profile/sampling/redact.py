"""``--redact``: a recording that says how GPUs were used, not by whom, where and with which command.

Names of hosts, clusters, users and jobs, ids of devices and of machines give way to others that tell them apart within the
run, and in no other. They come from a hash over what nobody reads in the recording: the run's own id, the user and the path.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence

from gssr.launch import LaunchPlace
from gssr.profile.request import ProfileRequest
from gssr.store.write.pending import Value
from gssr.store.write.thinning import Keep
from gssr.store.write.writer import ProcessRow, Writer

LEFT_OUT = "(left out)"
_PATH = re.compile(r"(?<![\w/])~?/[^\s'\",;:()]+")
_SHORTEST = 3
"""A shorter name may be part of anything."""


def redacted(place: LaunchPlace, request: ProfileRequest) -> LaunchPlace:
    """Return the place as it is recorded: with names made from a hash, which are the same in all ranks of the run and
    in no other run."""
    try:
        where = os.path.abspath(request.output) if request.output is not None else os.getcwd()
    except OSError:  # the folder that we are in is gone
        where = request.output or ""
    run = "\0".join(map(str, (place.run_id, place.cluster, place.job_id, os.geteuid(), where)))
    node = f"node-{_digest(run, place.node)[:8]}"
    run_id = None if place.run_id is None else f"run-{_digest(run, '')}"
    launch = _digest(run, place.launch) if place.launch else ""
    names = place._replace(node=node, hostname=node, cluster=None, job_name=None, user="")
    return names._replace(run_id=run_id, launch=launch, account=None, partition=None)


def names_to_hide(place: LaunchPlace, environ: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """Return the names that messages may not hold, of host, cluster, user and job, longer ones first.

    ``place``: as it was before ``redacted``.
    """
    words = {place.hostname, place.hostname.split(".")[0], place.node, place.cluster, place.user, place.called}
    words |= {place.account}
    words |= {environ.get("DCGM_HOST"), environ.get("LOGNAME"), environ.get("USER")}
    return tuple(
        sorted((word for word in words if word and len(word) >= _SHORTEST), key=lambda word: (-len(word), word))
    )


class RedactedWriter(Writer):
    """A Writer that names nobody: not in messages, and no device by its id."""

    def __init__(self, path: str, append: bool, keep: Keep, hidden: Sequence[str]) -> None:
        """See Writer; ``hidden``: names that messages may not hold."""
        super().__init__(path, append, keep)
        self._hidden = hidden

    def add_gpus(self, gpus: Sequence[Mapping[str, Value]], measured: Sequence[str], sampling_seconds: float) -> None:
        """Add the GPUs that this rank may use, as Writer.add_gpus does, but with UUIDs, which belong to the devices for
        life, replaced by ones made from a hash with the run's id. ``gpus``: columns of the table ``gpus``, in the order
        of the positions that rows will name; ``measured``: the metrics that may have values. Raises RecordingError."""
        run_id = self._pending.run_id
        own = [{**gpu, "uuid": f"GPU-{_digest(run_id, str(gpu['uuid']))}"} for gpu in gpus]
        super().add_gpus(own, measured, sampling_seconds)

    def add_processes(self, gpu: int, time: float, rows: Sequence[ProcessRow]) -> None:
        """See Writer. Ids, names and users are left out."""
        super().add_processes(gpu, time, [(None, None, None, *row[3:]) for row in rows])

    def event(self, time: float, kind: str, message: str, gpu: int | None = None) -> None:
        """See Writer. Names and paths are left out of the message."""
        super().event(time, kind, without(message, self._hidden), gpu)


def without(message: str, hidden: Sequence[str]) -> str:
    """Return the message with LEFT_OUT in place of these names, where they stand as whole words, and of paths."""
    message = _PATH.sub(LEFT_OUT, message)
    for word in hidden:
        message = re.sub(rf"(?<!\w){re.escape(word)}(?!\w)", LEFT_OUT, message)
    return message


def _digest(run: str, name: str) -> str:
    from hashlib import sha256

    return sha256(f"{run}\0{name}".encode("utf-8", "surrogateescape")).hexdigest()[:12]
