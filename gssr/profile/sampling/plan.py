"""What the sampler is to record."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from gssr.store.format.schema import ALL_GPUS

if TYPE_CHECKING:
    from gssr.profile.request import Processes
    from gssr.profile.sampling.low_score import Low
    from gssr.store.write.pending import Value
    from gssr.store.write.thinning import Keep

SEPARATOR = "\x1f"
"""Between the words of a line from the supervisor to the sampler."""


class Plan(NamedTuple):
    """What is to be recorded. ``run`` and ``process`` are columns of those tables, as far as they are known beforehand.

    ``visible_gpus`` are the launcher's (gssr.launch.gpu_ids), ``same_for_all`` says whether they mean the same in every
    process of the node. ``siblings``: other ranks of the run may be on this node. ``host``: this one samples the host if
    they can't agree on who does. ``attached``: there is no workload; somebody else's is recorded from beside. ``hidden``:
    names that may not be recorded (--redact); None where all may. ``processes``: as in the request. ``most_bytes``: the
    recording is only for who watches the node now: it is deleted, and begun anew, when it has grown so large, and with its
    folder when they are gone; None for one that stays. ``textfile``: the folder for node_exporter to read from.
    ``trace_when``: when traces are asked for; None: never. ``hurried``: somebody waits for the first samples: with each
    of them the host is looked at, and what was added is committed. ``lines_to``: the descriptor at which another machine
    gets lines; None for a recording at ``path``."""

    path: str
    append: bool
    overwrite: bool
    run: dict[str, Value]
    process: dict[str, Value]
    sampling_seconds: float
    backend: str
    gpus: str
    metrics: Sequence[str]
    visible_gpus: Sequence[str] | None
    same_for_all: bool
    siblings: bool
    host: bool
    summary: bool
    attached: bool = False
    keep: Keep = "raw"
    hidden: Sequence[str] | None = None
    processes: Processes = "own"
    most_bytes: int | None = None
    textfile: str | None = None
    trace_when: Low | None = None
    hurried: bool = False
    lines_to: int | None = None

    def whose(self, gpus: Sequence[object]) -> Sequence[str]:
        """Return a sentence that all GPUs of the node are recorded, where the job's scheduler does not say which are
        the job's; else nothing.

        ``gpus``: those that the backend has found.
        """
        chosen = self.visible_gpus is not None or self.gpus != "all"
        is_real = self.backend.partition(":")[0] not in ("synthetic", "replay")
        return (ALL_GPUS,) if gpus and is_real and not chosen and self.run.get("job_id") is not None else ()
