"""DCGM: GPUs as NVIDIA's hostengine samples them, on DCGM 3 and 4.

The hostengine is the one of DCGM_HOST (``host``, ``host:port`` or ``unix:///path``), else the one on this machine's port
5555, else one started inside the sampler. DCGM's Python bindings are found by themselves, or in the folder DCGM_BINDINGS.
They must be of the hostengine's major version.

GPUs before Hopper lend their profiling counters to one at a time. To run Nsight or another CUPTI tool on them under
``gssr profile``, ask for ``--backend dcgm:pause``: DCGM then lets go of the counters from the start of the run to its end,
for all its users on the node (as ``dcgmi profile --pause`` does), and everything but the profiling metrics is recorded.
Should the sampler be killed in between, ``dcgmi profile --resume`` gives them back. On Hopper and newer nothing needs to be
paused, and nothing is.

``dcgm:beside``, which ``gssr top`` uses, takes nothing away from who works on the GPUs: it starts no engine, and before
Hopper watches no profiling fields, which would take the counters from a recording or a profiler.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from gssr.backends.base import BackendError, Device, Offer, OpenedBackend

if TYPE_CHECKING:
    from gssr.backends.dcgm.dcgm_backend import DcgmBackend

PAUSE = "dcgm:pause"
BESIDE = "dcgm:beside"


def check_spec(spec: str) -> None:
    """Raise BackendError when ``spec`` is neither ``dcgm`` nor one of its variants."""
    if spec not in ("dcgm", PAUSE, BESIDE):
        raise BackendError(f"{spec!r}: after dcgm: only pause can be asked for, as in {PAUSE}")


def open_dcgm(
    spec: str, visible: Sequence[str] | None, sampling_seconds: float, chosen: Mapping[str, Device] | None = None
) -> DcgmBackend:
    """Open the backend for ``dcgm`` or a variant, connected and watching.

    Args:
        spec: ``dcgm``, ``dcgm:pause`` or ``dcgm:beside``.
        visible: the GPUs that the launcher gives this process, as gssr.launch.gpu_ids returns them.
        sampling_seconds: the interval; shorter ones than SHORTEST_SECONDS are lengthened, and a remark says so.
        chosen: instead of ``visible``, the GPUs to sample by their names in the hostengine.

    Raises BackendError with the reason and the cure.
    """
    from gssr.backends.dcgm.dcgm_backend import DcgmBackend
    from gssr.backends.dcgm.session import SHORTEST_SECONDS

    check_spec(spec)
    backend = DcgmBackend(spec, visible, max(sampling_seconds, SHORTEST_SECONDS), chosen)
    if sampling_seconds < SHORTEST_SECONDS:
        backend.say(
            f"dcgm: samples are taken every {1000 * SHORTEST_SECONDS:g} ms, not every {1000 * sampling_seconds:g} ms: "
            "faster ones have no profiling metrics"
        )
    return backend


def find_at_engine(spec: str, visible: Sequence[str] | None) -> OpenedBackend | None:
    """Find this process's GPUs at the hostengine that runs on the node, without sampling them. ``spec``: ``dcgm`` or a
    variant, with which they are to be sampled later; ``visible``: as gssr.launch.gpu_ids returns it. The result has
    ``at_engine``. None if no hostengine listens. Raises BackendError."""
    from gssr.backends.dcgm.availability import find_gpus

    check_spec(spec)
    return find_gpus(spec, visible)


def offer(try_out: bool = False) -> Offer:
    """Find out what DCGM could do here, without keeping anything open. Takes a few seconds if a hostengine hangs. With
    ``try_out`` it is also looked for what a recording would lack. Never raises: an offer that does not work says why."""
    from gssr.backends.dcgm.availability import look_for_dcgm

    return look_for_dcgm(try_out)
