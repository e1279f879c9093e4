"""Where samples come from: one table of backends, checked and opened by name. See ``base`` for the interface."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gssr.backends.base import (
    NO_DRIVER_PACKAGE,
    Backend,
    BackendError,
    Device,
    News,
    OpenedBackend,
    Row,
    UnusableError,
)


class BackendKind(NamedTuple):
    """A backend one can ask for: its name, how it is written on the command line, and what it is."""

    name: str
    spec: str
    what: str


BACKENDS: tuple[BackendKind, ...] = (
    BackendKind("auto", "auto", "the best one this machine offers, else host metrics only"),
    BackendKind("dcgm", "dcgm[:pause]", "all metrics, from DCGM's hostengine"),
    BackendKind("gpm", "gpm", "all metrics of Hopper and newer GPUs, from the driver"),
    BackendKind(
        "nvml", "nvml", "utilization, memory, power, clocks and links, from the driver; no profiling metrics, no score"
    ),
    BackendKind(
        "amd",
        "amd",
        "utilization, memory, power, clocks and links of AMD GPUs, from their driver; no score; untested on hardware",
    ),
    BackendKind("synthetic", "synthetic[:SCENARIO[:GPUS]]", "GPUs that don't exist, running a scenario"),
    BackendKind("replay", "replay:FILE[@SPEED]", "a recording, played back"),
)


def check(spec: str) -> None:
    """Check that a backend can be asked for as ``spec``, without loading a driver. Raises BackendError, with a
    sentence, if not."""
    name = spec.partition(":")[0]
    if name not in {kind.name for kind in BACKENDS}:
        known = ", ".join(kind.spec for kind in BACKENDS)
        raise BackendError(f"unknown backend {spec!r}; known: {known}")
    if name == "synthetic":
        from gssr.backends.synthetic import parse

        parse(spec)
    elif name == "replay":
        from gssr.backends.replay import check_spec

        check_spec(spec)
    elif name == "dcgm":
        from gssr.backends import dcgm

        dcgm.check_spec(spec)
    elif spec not in (name, "auto:beside"):
        raise BackendError(f"backend {name} takes no {spec[len(name) :]!r}")


def open_backend(
    spec: str, node: str, visible: Sequence[str] | None, sampling_seconds: float, among_ranks: bool = False
) -> OpenedBackend:
    """Open the backend that ``spec`` asks for.

    Args:
        spec: as ``check`` takes it.
        node: name of this node, from which synthetic GPUs get their UUIDs.
        visible: the GPUs that the launcher gives this process, as gssr.launch.gpu_ids returns them; None if it does not
            say.
        sampling_seconds: the interval between two samples, s.
        among_ranks: other ranks of the run may be on this node, and this process can agree with them on who samples;
            the backend may then have ``at_engine`` (see OpenedBackend).

    Raises BackendError.
    """
    name = spec.partition(":")[0]
    if name == "synthetic":
        from gssr.backends.synthetic import DEFAULT_GPUS, SyntheticBackend, parse

        scenario, gpus = parse(spec)
        if gpus is not None or visible is None:
            return OpenedBackend(SyntheticBackend(scenario, gpus or DEFAULT_GPUS, node))
        indices = [int(name) if name.isdigit() else position for position, name in enumerate(visible)]
        return OpenedBackend(SyntheticBackend(scenario, indices, node))
    if name == "replay":
        from gssr.backends.replay import open_replay

        return OpenedBackend(open_replay(spec))
    if visible is not None and not visible:
        raise BackendError(
            "the launcher gives this process no GPU: ask for some when the job, or its step, is submitted"
        )
    from gssr.backends.auto import open_best, open_real

    open_it = open_best if name == "auto" else open_real
    try:
        return open_it(spec, visible, sampling_seconds, among_ranks)
    except ModuleNotFoundError as error:
        if error.name != "pynvml":
            raise
        raise UnusableError(*NO_DRIVER_PACKAGE) from None


def open_at_engine(spec: str, chosen: Mapping[str, Device], sampling_seconds: float) -> OpenedBackend:
    """Open the backend that samples the GPUs ``chosen``, by their names in a hostengine (``OpenedBackend.at_engine``),
    whichever process of the node uses them. Raises BackendError."""
    from gssr.backends.auto import open_at_engine

    return open_at_engine(spec, chosen, sampling_seconds)


class Selection:
    """A backend of which only the GPUs at ``positions`` are sampled; a Backend itself."""

    def __init__(self, backend: Backend, positions: Sequence[int]) -> None:
        self.name = backend.name
        self.gpus: Sequence[Device] = [backend.gpus[position] for position in positions]
        self.measures = backend.measures
        self._backend = backend
        self._new = {position: index for index, position in enumerate(positions)}

    def sample(self, now: float) -> Sequence[Row]:
        """Return the chosen GPUs' rows, numbered by their position in ``gpus``."""
        return self._chosen(self._backend.sample(now))

    def changes(self) -> Sequence[News]:
        """Return what happened to the chosen GPUs, or to all, and what runs on them."""
        new = self._new
        changes = self._backend.changes()
        return [
            change if change.gpu is None else change._replace(gpu=new[change.gpu])
            for change in changes
            if change.gpu is None or change.gpu in new
        ]

    def close(self) -> Sequence[Row]:
        """Close the backend. Returns the chosen GPUs' last rows."""
        return self._chosen(self._backend.close())

    def _chosen(self, rows: Sequence[Row]) -> Sequence[Row]:
        new = self._new
        return [(new[row[0]], *row[1:]) for row in rows if row[0] in new]  # type: ignore[index]


def select_gpus(backend: Backend, wanted: str) -> Backend:
    """Limit a backend to the GPUs in a comma-separated list of device indices and UUIDs, which stay in the backend's
    order, each once; a device index names all GPUs that have it. A list of ``all`` alone and an empty one return the
    backend itself. Raises BackendError, which names the GPUs that exist, if one of the list does not."""
    names = [name.strip() for name in wanted.split(",") if name.strip()]
    if names == ["all"] or not names:
        return backend
    positions = []
    for name in names:
        found = [position for position, gpu in enumerate(backend.gpus) if name in (str(gpu.device_index), gpu.uuid)]
        if not found:
            there = ", ".join(f"{gpu.device_index} ({gpu.uuid})" for gpu in backend.gpus) or "none"
            raise BackendError(f"--gpus: no GPU {name!r}; there are: {there}")
        positions += [position for position in found if position not in positions]
    return Selection(backend, sorted(positions))
