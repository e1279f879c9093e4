"""What a backend is: where samples come from.

A backend is opened and used by the sampler process only. It imports nothing heavy, answers ``sample`` quickly, and
raises only ``BackendError``: one sentence that says what is wrong and what to do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol, Union

from gssr.metrics import PLACES

Row = tuple[Union[int, float, None], ...]
"""One sample: (gpu, time, value, ...). ``gpu`` is the position in ``Backend.gpus``, ``time`` unix seconds, then one value
per metric, each at its place in ``gssr.metrics.PLACES``; None is missing. Integers fit into 64 bits with a sign."""


_NOTHING = (None,) * len(PLACES)


def make_row(gpu: int, time: float, values: Mapping[str, int | float | None]) -> Row:
    """Make the row of a sample of the GPU at this position, at ``time`` (unix s), from values by metric name; all other
    metrics are missing. Raises KeyError for a name that is not in the catalogue."""
    row = [gpu, time, *_NOTHING]
    for name, value in values.items():
        row[PLACES[name]] = value
    return tuple(row)


class BackendError(Exception):
    """A backend can't be opened or has ended; the text is one sentence for the user."""


class UnusableError(BackendError):
    """Something that a backend needs cannot be used. ``what``: what is wrong; ``cure``: what to do."""

    def __init__(self, what: str, cure: str) -> None:
        super().__init__(f"{what}; {cure}")
        self.what = what
        self.cure = cure


NO_DRIVER_PACKAGE = (
    "NVIDIA's driver can't be asked without nvidia-ml-py",
    "pip install 'nvidia-ml-py>=12.560,<14'",
)
"""What is wrong, and what to do, where the package is not installed that asks NVIDIA's driver."""


class Device(NamedTuple):
    """A GPU or MIG instance as its backend knows it; None is unknown. ``memory_total`` in bytes, ``power_limit`` in W,
    ``max_sm_clock`` in MHz; ``mig``: the name of the MIG instance, None for a whole GPU."""

    device_index: int
    uuid: str
    name: str | None = None
    memory_total: int | None = None
    power_limit: float | None = None
    sm_count: int | None = None
    max_sm_clock: int | None = None
    compute_capability: str | None = None
    driver_version: str | None = None
    mig: str | None = None


class Offer(NamedTuple):
    """What a backend could do on this machine, found out without side effects.

    ``details``: one line; ``cure``: what to do if it does not work, "" for nothing. ``profiles``: all GPUs have
    profiling metrics this way, as far as was looked at, so that the score is known. ``profiles_already``: DCGM's
    hostengine samples them now for some other client.
    """

    name: str
    works: bool
    details: str
    cure: str = ""
    profiles: bool = True
    profiles_already: bool = False


class BackendChange(NamedTuple):
    """Something that happened to a backend or one of its GPUs, to be kept as an event.

    ``kind`` is one of gssr.store.format.schema.EVENT_KINDS; ``gpu`` the position in ``Backend.gpus``, None for all."""

    kind: str
    gpu: int | None
    message: str


class Running(NamedTuple):
    """A process on a GPU as the driver knows it. ``memory_used``: bytes; ``sm_utilization``: 0-1 since it was last
    looked at; None is unknown."""

    pid: int
    memory_used: int | None
    sm_utilization: float | None


class ProcessSnapshot(NamedTuple):
    """All processes that were on a GPU (a position in ``Backend.gpus``) at ``time``, unix s, whoever's they are; () if
    there were none."""

    gpu: int
    time: float
    running: tuple[Running, ...]


News = Union[BackendChange, ProcessSnapshot]


class Backend(Protocol):
    """The interface. ``now`` is unix seconds on the recording's own clock (see gssr.profile.sampling.clock)."""

    @property
    def name(self) -> str:
        """The backend's name, as in ``gpus.backend``."""
        ...

    @property
    def gpus(self) -> Sequence[Device]:
        """The GPUs it samples; fixed once it is open."""
        ...

    @property
    def measures(self) -> Sequence[str]:
        """Names of the metrics it can measure here, in the catalogue's order; all others are None in every row."""
        ...

    def sample(self, now: float) -> Sequence[Row]:
        """Return what is new: usually one row for each GPU; none for a GPU that is lost or has nothing new; several if
        the backend samples by itself."""
        ...

    def changes(self) -> Sequence[News]:
        """Return what happened since the last call, oldest first (GPU lost or back, backend lost or back, gap, errors
        of a GPU), and which processes were seen on the GPUs."""
        ...

    def close(self) -> Sequence[Row]:
        """Give everything back, and return the rows that are left. Called once; never raises."""
        ...


class AtEngine(NamedTuple):
    """GPUs of a hostengine that runs outside the processes that use them, so that one process can sample the GPUs of
    all. ``spec``: asks for the backend that does it. ``names``: by UUID, what the engine calls the GPUs; that is the
    same in every process of the node, while a process may not see the UUIDs of others' MIG instances."""

    spec: str
    names: Mapping[str, str]


class OpenedBackend(NamedTuple):
    """An opened backend, and sentences about what is not as one might expect (``remarks``).

    ``sampling_seconds``: the interval it samples at if that is not the one asked for, else None. ``passed_over``: why
    each better backend is not used. ``by_itself``: it keeps its own deadlines, and ``sample`` only collects.
    ``at_engine``: the backend only tells what happens to its GPUs; one process for the whole node must open them with
    gssr.backends.open_at_engine to sample them. None for every other backend.
    """

    backend: Backend
    remarks: Sequence[str] = ()
    sampling_seconds: float | None = None
    passed_over: Sequence[str] = ()
    by_itself: bool = False
    at_engine: AtEngine | None = None
