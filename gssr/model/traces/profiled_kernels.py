"""What launches that Nsight Compute has measured say: how close each is to the roofline, and how much of a trace's time
launches of the same kernel and shape take."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from gssr.traces.categories import category_of
from gssr.traces.kernel_profile import ProfiledLaunch
from gssr.traces.launch_shapes import KernelShape, Totals
from gssr.traces.timeline import Category, Kind

_SPELLING = re.compile(r"\(anonymous namespace\)::|\b\w+::|\((?:unsigned )?(?:int|long|bool)\)|\s+")
"""What tools write or leave out: namespaces, types of numbers in templates, spaces."""


class RooflinePosition(NamedTuple):
    """Where a launch stands. ``precision`` is that with the most operations. ``rate``: FLOP/s, ``intensity``: FLOP for each
    byte of device memory, ``ridge``: the intensity from which on not memory limits; ``share`` (0-1) of the rate that
    memory or cores allow there. None is unknown."""

    precision: str
    rate: float
    intensity: float | None
    ridge: float | None
    share: float | None

    @property
    def limit(self) -> str | None:
        """What limits at this intensity: "memory" left of the ridge, "compute" right of it; None if unknown."""
        if self.intensity is None or self.ridge is None:
            return None
        return "memory" if self.intensity < self.ridge else "compute"


class InTrace(NamedTuple):
    """Launches of a profiled kernel in a trace, of the same grid and block where ``has_shape``, else of the same name: how
    many, their ns together, and the ``share`` (0-1) of the time of all kernels."""

    n_launches: int
    total_ns: int
    share: float
    has_shape: bool


@dataclass(frozen=True)
class ProfiledKernel:
    """A profiled launch, and what is derived of it. ``in_trace`` is None without a trace, and if the trace has no kernel of
    that name, or several that can't be told apart."""

    launch: ProfiledLaunch
    roofline: RooflinePosition | None
    in_trace: InTrace | None = None


def roofline_of(launch: ProfiledLaunch) -> RooflinePosition | None:
    """Return where a launch stands in the roofline of device memory. None where no operations were counted, or there were
    none: tensor cores' are not counted."""
    work = max(launch.work, key=lambda each: each.rate, default=None)
    if work is None or work.rate <= 0:
        return None
    intensity = work.rate / launch.dram_rate if launch.dram_rate else None
    ridge = work.peak / launch.dram_peak if work.peak and launch.dram_peak else None
    share = None
    if intensity is not None and work.peak and launch.dram_peak:
        share = work.rate / min(work.peak, intensity * launch.dram_peak)
    return RooflinePosition(work.precision, work.rate, intensity, ridge, share)


def profiled_kernels(
    launches: Sequence[ProfiledLaunch], traced: Totals | None, function_of: Callable[[str], str]
) -> list[ProfiledKernel]:
    """Return the launches, the longest first, with what is derived of them. ``traced``: the launches of a trace, None
    without one. ``function_of`` gives the name of a kernel's function without namespaces, templates and arguments: Nsight
    Compute leaves namespaces out, and names of other tools have no arguments."""
    by_function: dict[str, dict[KernelShape, tuple[int, int]]] = {}
    for shape, totals in (traced or {}).items():
        by_function.setdefault(function_of(shape.name), {})[shape] = totals
    total = sum(ns for _, ns in (traced or {}).values())
    found = [
        ProfiledKernel(
            launch, roofline_of(launch), _found_in(by_function.get(function_of(launch.name), {}), launch, total)
        )
        for launch in launches
    ]
    return sorted(found, key=lambda each: -(each.launch.duration_ns or 0.0))


class UnprofiledKernel(NamedTuple):
    """A kernel of a trace that computes and was not profiled. ``share`` (0-1): of the time of all kernels; ``others``: the
    names of the trace's other kernels."""

    name: str
    share: float
    others: Sequence[str]


def most_time_unprofiled(
    found: Sequence[ProfiledKernel], traced: Totals, function_of: Callable[[str], str]
) -> UnprofiledKernel | None:
    """Return the kernel with the most time in a trace of those that compute and were not profiled, by their function. None
    if there is none."""
    profiled = {function_of(each.launch.name) for each in found}
    total, by_name = 0, dict[str, int]()
    for shape, (_, ns) in traced.items():
        total += ns
        if function_of(shape.name) not in profiled and category_of(Kind.KERNEL, shape.name) is Category.COMPUTE:
            by_name[shape.name] = by_name.get(shape.name, 0) + ns
    name = max(by_name, key=lambda each: by_name[each], default=None)
    if name is None or not total:
        return None
    return UnprofiledKernel(name, by_name[name] / total, [*{shape.name for shape in traced} - {name}])


def _bare(name: str) -> str:
    return _SPELLING.sub("", name)


def _found_in(
    candidates: Mapping[KernelShape, tuple[int, int]], launch: ProfiledLaunch, total_ns: int
) -> InTrace | None:
    """Find the launches of the same function, and shape where any has it; of several names those that are spelt alike but
    for namespaces. None if several are left, which may be other kernels, or there are none."""
    same = {
        shape: totals
        for shape, totals in candidates.items()
        if shape.grid is not None and shape.grid == launch.grid and (shape.block or launch.block) == launch.block
    }
    shapes = same or ({} if launch.grid and any(shape.grid for shape in candidates) else dict(candidates))
    if alike := {shape: totals for shape, totals in shapes.items() if _bare(shape.name) == _bare(launch.name)}:
        shapes = alike
    if len({shape.name for shape in shapes}) != 1 or not total_ns:
        return None
    count, ns = sum(n for n, _ in shapes.values()), sum(ns for _, ns in shapes.values())
    return InTrace(count, ns, ns / total_ns, bool(same))
