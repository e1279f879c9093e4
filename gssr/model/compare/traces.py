"""Two traces number by number, and name by name: what took longer, what is new and what is gone."""

import re
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from gssr.model.statistics.balance import imbalance
from gssr.model.traces.call_tree import TIME, VISITS, CallTree, by_paradigm, flat_profile, spread
from gssr.model.traces.lengths import without_running_numbers
from gssr.model.traces.tables import TABLES
from gssr.model.traces.trace_results import TraceAnalysis

NAMED = ("kernels", "copies", "ranges", "operators", "api", "os")
"""Tables of names that are compared."""


class Number(NamedTuple):
    """``a`` and ``b``: a share, 0-1, or a time in ns, as ``unit`` says; None where it is not known."""

    name: str
    unit: str
    a: float | None
    b: float | None


class Calls(NamedTuple):
    """How often a name stands in a trace, and for how long, ns, all ranks together. ``imbalance``: of a function over the
    ranks, 0-1, None where it is not known."""

    n: int = 0
    total_ns: int = 0
    imbalance: float | None = None

    @property
    def mean_ns(self) -> float | None:
        """The mean time of a call, ns; None without calls."""
        return self.total_ns / self.n if self.n else None


class NameChange(NamedTuple):
    """A name of one of the tables NAMED in both traces; without any calls in ``a`` it is new, in ``b`` gone. ``names_a``,
    ``names_b``: of kernels that only one of the traces has, but which are alike without tiles and hashes, the names that
    ``name`` stands for, with ``*`` for what differs; else empty."""

    table: str
    name: str
    a: Calls
    b: Calls
    names_a: tuple[str, ...] = ()
    names_b: tuple[str, ...] = ()

    @property
    def difference_ns(self) -> int:
        """The time that the name has in B less that in A, ns."""
        return self.b.total_ns - self.a.total_ns


def numbers(a: TraceAnalysis, b: TraceAnalysis) -> tuple[Number, ...]:
    """Compare how long two traces are, how long a step takes, how the GPUs' time divides, and how evenly over the
    GPUs. If no GPU did anything, how the ranks' time divides by paradigms. None for what a trace lacks."""
    own, other = ({**_numbers(trace), **_of_tree(trace)} for trace in (a, b))
    return tuple(Number(*key, own.get(key), other.get(key)) for key in dict.fromkeys((*own, *other)))


def _of_tree(trace: TraceAnalysis) -> dict[tuple[str, str], float | None]:
    """Return the time of all threads and each paradigm's share and imbalance, by (name, unit); nothing if there are
    GPUs or no call tree."""
    if trace.tree is None or trace.gpus:
        return {}
    times = by_paradigm(trace.tree)
    total = float(np.nansum(list(times.values())))
    found: dict[tuple[str, str], float | None] = {("time of all threads", "ns"): total}
    for name, time in times.items():
        found[name, "1"] = float(np.nansum(time)) / total if total else None
        found[f"imbalance of {name}", "1"] = imbalance(time[np.isfinite(time)]) if len(time) > 1 else None
    return found


def _numbers(trace: TraceAnalysis) -> dict[tuple[str, str], float | None]:
    """Return a trace's numbers by (name, unit); without GPUs only the duration."""
    gpus, span = trace.gpus, trace.span_ns
    if not gpus:
        return {("duration", "ns"): float(trace.window[1] - trace.window[0])} if trace.window[1] else {}

    def share(key: str) -> float | None:
        return sum(int(getattr(gpu, key)) for gpu in gpus) / span if span else None

    def uneven(key: str) -> float | None:
        return imbalance(np.array([getattr(gpu, key) for gpu in gpus], np.float64)) if gpus[1:] else None

    steps = [step.length_ns for step in trace.steps]
    return {
        ("duration", "ns"): float(trace.window[1] - trace.window[0]),
        ("step, median", "ns"): float(np.median(steps)) if steps else None,
        ("busy", "1"): share("busy_ns"),
        ("compute", "1"): share("compute_ns"),
        ("exposed communication", "1"): share("exposed_communication_ns"),
        ("exposed copies", "1"): share("exposed_copy_ns"),
        ("idle", "1"): trace.idle_ns / span if span else None,
        ("imbalance of busy", "1"): uneven("busy_ns"),
        ("imbalance of compute", "1"): uneven("compute_ns"),
        ("imbalance of communication", "1"): uneven("communication_ns"),
    }


def names(a: "ByName", b: "ByName") -> tuple[NameChange, ...]:
    """Compare how often and how long each name was called in two traces. Returns a change for each name of either, those
    whose time differs most first."""
    paired = _paired_kernels(a, b)
    alone = {("kernels", name) for each in paired for name in (*each.names_a, *each.names_b)}
    keys = [key for key in dict.fromkeys((*a, *b)) if key not in alone]
    found = [*paired, *(NameChange(*key, a.get(key, Calls()), b.get(key, Calls())) for key in keys)]
    return tuple(sorted(found, key=lambda each: (-abs(each.difference_ns), each.table, each.name)))


ByName = Mapping[tuple[str, str], Calls]
"""By table and name."""
_TILES_AND_HASHES = re.compile(
    r"""
      (?<![A-Za-z0-9])[A-Za-z]*\d+x\d+(?:x\d+)*(?![A-Za-z0-9])    # tiles: 128x64, tilesize128x128x64, sliced1x4
    | (?<=_)(?!(?:b?f\d+)+(?:_|$))(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{8,}(?=_|$)  # a hash, no types (bf16bf16)
    | (?<=_)\d+(?:d\d+)+(?:de(?:\d+)?)*(?=_|$)                    # how the arguments of Triton's kernels divide
    | (?<=_)\d+$                                                 # the number of a kernel that a compiler has made
    """,
    re.VERBOSE,
)
"""What names of kernels of one kind differ in from version to version, and from size to size."""


def _paired_kernels(a: ByName, b: ByName) -> list[NameChange]:
    """Pair kernels that only one of two traces has each, where their names are alike without tiles and hashes."""
    groups: dict[str, tuple[list[str], list[str]]] = {}
    for at, (own, other) in enumerate(((a, b), (b, a))):
        for table, name in own:
            if table == "kernels" and (table, name) not in other:
                groups.setdefault(_TILES_AND_HASHES.sub("*", name), ([], []))[at].append(name)

    def added(own: ByName, of_kernels: list[str]) -> Calls:
        every = [own["kernels", name] for name in of_kernels]
        return Calls(sum(each.n for each in every), sum(each.total_ns for each in every))

    return [
        NameChange("kernels", name, added(a, of_a), added(b, of_b), tuple(of_a), tuple(of_b))
        for name, (of_a, of_b) in groups.items()
        if of_a and of_b
    ]


def calls(trace: TraceAnalysis) -> ByName:
    """Return how often and how long each name was called, by table and name; ranges without the steps, which have
    names of their own. If no GPU did anything, what functions take themselves instead."""
    if trace.tree is not None and not trace.gpus:
        return _functions(trace, trace.tree)
    steps = {step.name for step in trace.steps}
    found: dict[tuple[str, str], Calls] = {}
    for table in NAMED:
        values = TABLES[table].values(trace)
        columns = (np.asarray(values[column]).tolist() for column in ("count", "total_ns"))
        for name, count, total in zip(values["operation" if table == "copies" else "name"], *columns, strict=True):
            if name not in steps:
                key = table, name
                known = found.get(key, Calls())  # a kernel can be of two categories
                found[key] = Calls(known.n + count, known.total_ns + total)
    return found


def _functions(trace: TraceAnalysis, tree: CallTree) -> ByName:
    """Return the calls of each function by ("functions", name), with running numbers in names joined; without steps
    and functions that were never called."""
    flat, steps = flat_profile(tree), {step.name for step in trace.steps}
    at: dict[str, int] = {}
    of = np.array(
        [at.setdefault(without_running_numbers(name), len(at)) for name in flat.names], np.int64
    )  # of two paradigms
    time, visits = np.zeros((2, len(at), len(tree.places)))
    np.add.at(time, of, flat.values(TIME).exclusive)
    np.add.at(visits, of, flat.values(VISITS).exclusive)
    over = spread(time)
    columns = (each.tolist() for each in (visits.sum(axis=1), over.total, over.imbalance))
    found = {}
    for name, n, total, uneven in zip(at, *columns, strict=True):
        if name not in steps and n > 0 and total == total:
            is_known = uneven == uneven and time.shape[1] > 1
            found["functions", name] = Calls(round(n), round(total), uneven if is_known else None)
    return found
