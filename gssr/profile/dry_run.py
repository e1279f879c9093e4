"""``gssr profile --dry-run``: what would be recorded, and how much it would be. Starts nothing and writes nothing.

How large a recording becomes, before it is made. A GPU at work is assumed: one that does nothing needs half of it.

The sizes are those of recordings that were measured (the test of this module measures some): SQLite's pages of 4 KiB with
what is lost in them.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from typing import NamedTuple

from gssr import launch
from gssr.backends.base import NO_DRIVER_PACKAGE, BackendError, OpenedBackend, UnusableError
from gssr.backends.driver_inquiry import inquire
from gssr.gpu_vendors import AMD, NVIDIA, say
from gssr.metrics import BY_NAME, METRICS
from gssr.profile.request import ProfileRequest
from gssr.profile.sampling.backend_offer import BackendOffer, read_offer, write_offer
from gssr.profile.sampling.plan import Plan
from gssr.profile.session import plan_of
from gssr.store.format.layout import LAYOUT
from gssr.store.format.schema import FINE_SKETCH_SECONDS, INDEXES, LEVELS, SKETCH_SECONDS, TABLES, YOUNG_SECONDS
from gssr.store.write.thinning import KEEPS, Keep

PAGE = 4096
ROW, VALUE = 52.0, 5.3
"""Bytes of a row of ``samples`` without values, and of a value: whole numbers and zeros take less than fractions."""
MEANS = 1.15
"""A row of means holds nothing but fractions."""
_ROLLUP = PAGE / max(PAGE // (8 * LAYOUT.width + 24), 1) + 18.0
"""Bytes of a rollup, and of its place in the index."""
_SKETCHED = {SKETCH_SECONDS: 200.0, FINE_SKETCH_SECONDS: 30.0}
"""Bytes that a metric takes in a sketch, by how long that is; the fine ones are packed."""
_HOST, _WORKLOAD = 62.0, 24.0
"""Bytes of a row of these tables, the names of the run and the node apart; there is one a second."""
_HOST_ROLLUP, _WORKLOAD_ROLLUP = 204.0, 80.0
"""Bytes of a bucket of theirs and of its place in the index, likewise."""
_EMPTY = PAGE * (len(TABLES) + len(INDEXES) + 9)
"""A recording without rows: a page for each table and index, and some for the schema."""


class Forecast(NamedTuple):
    """What is to be recorded: ``n_gpus`` GPUs of which ``n_metrics`` metrics are measured every ``interval`` seconds, and,
    with ``host``, the host. ``names``: bytes that the names of the run and its node take in a row."""

    n_gpus: int
    n_metrics: int
    interval: float
    host: bool
    names: int

    def per_gpu(self, keep: Keep, seconds: float) -> float:
        """Predict how many bytes one GPU takes in a recording of so many ``seconds``, once they are over."""
        return self._statistics(seconds) + self._rows(keep, seconds)

    def size(self, keep: Keep, seconds: float) -> float:
        """Predict how many bytes the whole recording has, with all GPUs, after so many ``seconds``."""
        rows = (_HOST + self.names if self.host else 0.0) + _WORKLOAD + self.names
        buckets = (_HOST_ROLLUP + self.names if self.host else 0.0) + _WORKLOAD_ROLLUP + self.names
        beside = rows * seconds + buckets * _buckets(seconds)
        return _EMPTY + beside + self.n_gpus * self.per_gpu(keep, seconds)

    def young(self) -> float:
        """Predict how many bytes the youngest samples take besides, at most: a recording that is thinned keeps them
        while it grows."""
        return self.n_gpus * self._rows("raw", YOUNG_SECONDS)

    def _statistics(self, seconds: float) -> float:
        """Predict the bytes of one GPU's rollups and sketches."""
        sketches = sum((seconds / length + 1) * size for length, size in _SKETCHED.items())
        return _buckets(seconds) * _ROLLUP + sketches * self.n_metrics

    def _rows(self, keep: Keep, seconds: float) -> float:
        """Predict the bytes of one GPU's rows of samples, which depends on what is kept; 0 with ``none``."""
        row = ROW + VALUE * self.n_metrics
        if keep == "10s":
            return (seconds / LEVELS[0] + 1) * row * MEANS
        return seconds / self.interval * row if keep == "raw" else 0.0


def _buckets(seconds: float) -> float:
    """Return how many buckets of all levels there are in so many seconds."""
    return sum(seconds / level + 1 for level in LEVELS)


def core_share(n_gpus: int, interval: float) -> float:
    """Estimate what share of a core the sampler takes, 0-1; ``interval`` in s.

    It is as measured with synthetic GPUs (benchmarks/README.md), so without what a driver takes to answer.
    """
    return 0.0008 + (0.00026 + 0.000016 * n_gpus) / interval


_TIMES = (("1 hour", 3600.0), ("24 hours", 86_400.0), ("a week", 604_800.0))
_LABEL, _COLUMN = 11, 14
_PREFIXES = (("GB", 1e9), ("MB", 1e6), ("kB", 1e3))
_MEASURED_BY_DCGM = [metric.name for metric in METRICS if metric.dcgm is not None]


def dry_run(request: ProfileRequest) -> str:
    """Return the page of ``gssr profile --dry-run``, which starts and writes nothing.

    It ends with a newline. For a rank other than the first it is empty. Raises UsageError where ``gssr profile``
    would.
    """
    place = launch.where_am_i()
    plan = plan_of(request, place, make=False)
    if place.rank:
        return ""
    found = _ask_for_offer(plan)
    measured = [name for name in plan.metrics if name in found.measures]
    interval = found.sampling_seconds or plan.sampling_seconds
    lines = []
    if request.command:
        lines += _line("command", shlex.join(request.command))
    lines += _line("place", _place(place))
    lines += _line("backend", found.backend)
    lines += _line("GPUs", _gpus(found))
    for sentence in found.remarks:
        lines += _line("", sentence)
    lines += _line("metrics", _metrics(found, measured, plan))
    lines += _line("file", _file(plan))
    lines += _line("interval", f"{interval * 1000:g} ms")
    lines += _line("keep", plan.keep)
    n_gpus = len(found.devices) or (1 if found.measures else 0)
    share = core_share(n_gpus, interval)
    lines += _line("sampler", f"about {100 * share:.2g} % of a core, without the driver's own time")
    names = len(str(plan.run["run_id"])) + len(str(plan.process["node"]))
    forecast = Forecast(n_gpus, len(measured), interval, plan.host, names)
    return "\n".join([*lines, "", *_sizes(forecast, place), "", "Nothing was started or written.", ""])


def _ask_for_offer(plan: Plan) -> BackendOffer:
    """Ask a process of its own what would be sampled. Returns the backend's offer; where no GPU can be sampled, one that
    holds nothing but a sentence with the reason."""

    def ask() -> str:
        try:
            return write_offer(_open_and_see(plan))
        except BackendError as error:
            return write_offer(_nothing_but(str(error)))

    try:
        found = read_offer(inquire(ask))
    except BackendError as error:
        return _nothing_but(str(error))
    assert found is not None  # it was written here
    return found


def _nothing_but(sentence: str) -> BackendOffer:
    """Return what is offered where no GPU can be sampled, with the sentence that says why."""
    return BackendOffer(backend="host metrics only", remarks=[sentence])


def _open_and_see(plan: Plan) -> BackendOffer:
    """Open the backend, see which GPUs and metrics it offers, and close it. To be called in a process of its own.
    Raises BackendError."""
    from gssr.backends import open_backend, select_gpus

    name = plan.backend.partition(":")[0]
    by_dcgm = False
    if name in ("synthetic", "replay"):
        opened = open_backend(plan.backend, str(plan.process["node"]), plan.visible_gpus, plan.sampling_seconds)
    else:
        found = _real(name, plan)
        if isinstance(found, BackendOffer):
            return found
        opened, by_dcgm = found
    chosen = select_gpus(opened.backend, plan.gpus)
    said = [*opened.passed_over, *opened.remarks]
    opened.backend.close()
    backend, measures = ("dcgm", _MEASURED_BY_DCGM) if by_dcgm else (chosen.name, list(chosen.measures))
    return BackendOffer(list(chosen.gpus), backend, measures, opened.sampling_seconds, said)


def _real(name: str, plan: Plan) -> tuple[OpenedBackend, bool] | BackendOffer:
    """Open a backend that shows the real GPUs that ``name`` (auto, dcgm, gpm, nvml or amd) would sample.

    DCGM is only asked whether it is there, because it would begin to sample: the driver stands in for it. Returns the
    opened backend, and whether DCGM would sample its GPUs; where DCGM works and the driver does not, an offer
    without GPUs. Raises BackendError.
    """
    from gssr.backends.auto import has_only_amd_gpus, offers, open_real, preferred

    if name == "amd" or (name == "auto" and has_only_amd_gpus()):
        return open_real("amd", plan.visible_gpus, plan.sampling_seconds), False
    try:
        from gssr.backends.nvml import open_gpm, open_gpm_or_nvml, open_nvml
    except ModuleNotFoundError:
        raise UnusableError(*NO_DRIVER_PACKAGE) from None

    if name in ("auto", "dcgm"):
        dcgm, gpm, *_ = offers()
        taken, why = preferred(dcgm, gpm) if name == "auto" else ("dcgm", "")
        if dcgm.works and taken == "dcgm":
            said = [dcgm.details, *filter(None, [why])]
            try:
                opened = open_nvml(plan.visible_gpus)
            except BackendError:
                return BackendOffer((), "dcgm", _MEASURED_BY_DCGM, remarks=said)
            return opened._replace(remarks=[*opened.remarks, *said]), True
        if name == "dcgm":
            raise BackendError(f"dcgm: {dcgm.details}; {dcgm.cure}")
        opened = open_gpm_or_nvml(plan.visible_gpus)
        return opened._replace(passed_over=[why or f"dcgm not used: {dcgm.details}", *opened.passed_over]), False
    return (open_gpm if name == "gpm" else open_nvml)(plan.visible_gpus), False


def _line(label: str, text: str) -> list[str]:
    """Return one line of the page in a list: the label, padded, and the text without control characters."""
    from gssr.render.cells import clean

    return [f"{label:<{_LABEL}}{clean(text)}"]


def _place(place: launch.LaunchPlace) -> str:
    """Say how many ranks there are and on which node this one is."""
    if not place.parallel:
        return f"one process on {place.node}"
    size = "an unknown number" if place.world_size is None else str(place.world_size)
    return f"rank {place.rank} of {size} on {place.node}, by {place.launcher}: each rank records into a file of its own"


def _gpus(found: BackendOffer) -> str:
    """Say how many GPUs there are, of which names, and their device indices."""
    if not found.devices:
        return "unknown: what follows is of one" if found.measures else "none"
    names = ", ".join(sorted({" ".join(filter(None, (gpu.name, gpu.mig))) or "unknown" for gpu in found.devices}))
    return f"{len(found.devices)} ({names}): {', '.join(str(gpu.device_index) for gpu in found.devices)}"


def _metrics(found: BackendOffer, measured: Sequence[str], plan: Plan) -> str:
    """Say how many metrics are measured and name those that were asked for and are not."""
    if not found.measures:
        return "of the host and the command's processes"
    maker = AMD if found.backend == "amd" else NVIDIA
    missing = [say(maker, BY_NAME[name].label) for name in plan.metrics if name not in measured]
    without = f"; not measured: {', '.join(missing)}" if missing else ""
    return f"{len(measured)} of {len(METRICS)}{without}"


def _file(plan: Plan) -> str:
    """Say where the recording goes, what happens to one that is there, and how much is free; or that its folder can't
    be written."""
    what = ", to which a run is added" if plan.append else ", which is overwritten" if plan.overwrite else ""
    folder = os.path.dirname(plan.path)
    while not os.path.isdir(folder) and folder != os.path.dirname(folder):
        folder = os.path.dirname(folder)
    if not os.access(folder, os.W_OK):
        return f"{plan.path}: {folder} can't be written"
    disk = os.statvfs(folder)
    return f"{plan.path}{what} ({_bytes(disk.f_bavail * disk.f_frsize)} free)"


def _sizes(forecast: Forecast, place: launch.LaunchPlace) -> list[str]:
    """Return the lines of the table of predicted sizes: a row for each --keep, or only one for the host where there
    are no GPUs."""
    times = [[_bytes(forecast.size(keep, seconds)) for _, seconds in _TIMES] for keep in KEEPS]
    hours = [_bytes(forecast.per_gpu(keep, 86_400.0) / 24) for keep in KEEPS]
    head = ["--keep", "a GPU's hour", *(name for name, _ in _TIMES)]
    rows = [[keep, hour, *sizes] for keep, hour, sizes in zip(KEEPS, hours, times)]
    if not forecast.n_gpus:
        head, rows = ["", *head[2:]], [["host", *times[0]]]
    mine = ", of this rank's file" if place.parallel else ""
    lines = [f"Predicted size{mine}, for GPUs that are always busy:", ""]
    lines += [f"  {row[0]:<8}" + "".join(f"{cell:>{_COLUMN}}" for cell in row[1:]) for row in (head, *rows)]
    young = f"{_bytes(forecast.young())} for the last {YOUNG_SECONDS / 60:.0f} minutes of samples"
    return [*lines, f"  10s and none: plus up to {young}"] if forecast.n_gpus else lines


def _bytes(n: float) -> str:
    """Three digits, with a unit of thousands."""
    unit, size = next((pair for pair in _PREFIXES if n >= 0.9995 * pair[1]), _PREFIXES[-1])
    return f"{float(f'{n / size:.3g}'):g} {unit}"
