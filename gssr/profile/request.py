"""What ``gssr profile`` was asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from gssr.profile.screen import Show
    from gssr.store.write.thinning import Keep


Processes = Literal["own", "all"]
"""Which processes on the GPUs are recorded: the job's own, or everybody's."""


class UsageError(Exception):
    """What was asked for makes no sense; nothing was started. The text is one sentence."""


class ProfileRequest(NamedTuple):
    """What the user asked for. ``sampling_ms``, ``max_runtime`` (s) and ``status_every`` as in the options of the
    same names. ``live``: what draws the live screen, where one is wanted; it stays ``linger`` s after the run's end, or the
    last key since. ``attach``: there is no command; a job is recorded from beside. ``redact``: who runs what where is left
    out. ``processes``: which of those on the GPUs are recorded.
    ``textfile``: the folder for node_exporter to read from. ``group``: whose members may read the recording as well.
    ``trace``: the tool that traces the command, and ``trace_when`` when traces are asked for, as in the options of these
    names. ``digest``: what keeps in a recording what its traces say; it may take its time, and raise what it wants."""

    command: Sequence[str]
    output: str | None = None
    label: str | None = None
    sampling_ms: float = 500.0
    max_runtime: float | None = None
    overwrite: bool = False
    append: bool = False
    backend: str = "auto"
    gpus: str = "all"
    metrics: str | None = None
    keep: Keep = "raw"
    summary: bool = True
    status_every: str | None = None
    live: Show | None = None
    linger: float = 30.0
    attach: bool = False
    redact: bool = False
    processes: Processes = "own"
    textfile: str | None = None
    group: str | None = None
    trace: str | None = None
    trace_when: str | None = None
    digest: Callable[[str], None] | None = None
