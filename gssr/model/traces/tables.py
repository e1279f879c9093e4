"""The tables of an analysis of traces, column by column: what JSON, CSV, exports and pandas have of it."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gssr.model.traces import call_tree
from gssr.model.traces.lengths import statistics
from gssr.model.traces.pipelines import stages, transfer_waits
from gssr.model.traces.trace_results import TYPES, TraceAnalysis
from gssr.store.format.schema import Column
from gssr.traces.timeline import Track

Columns = Mapping[str, NDArray[Any] | Sequence[Any]]
"""Values by name of a column, all of one length; None where unknown."""


class TraceTable(NamedTuple):
    """A table of an analysis: ``about`` says what a row is, ``values`` makes its columns."""

    about: str
    columns: tuple[Column, ...]
    values: Callable[[TraceAnalysis], Columns]


RANK = Column("rank", "INTEGER", "the rank; NULL if the file does not name it")
GPU = Column("gpu", "INTEGER", "the GPU's number in its process")
PLACE = Column("place", "TEXT NOT NULL", "what pages and screens call the GPU")
_COUNT = Column("count", "INTEGER NOT NULL", "how many")
_TOTAL = Column("total_ns", "INTEGER NOT NULL", "their sum")
_NAME = Column("name", "TEXT NOT NULL", "the name in the file")
_DOMAIN = Column("domain", "TEXT", "the NVTX domain; NULL for the usual one")
_STYLE = Column("style", "TEXT", "PushPop or StartEnd, as NVTX has them; NULL where the format does not tell")
_CATEGORY = Column("category", "TEXT NOT NULL", "compute, communication or copy")
_OPERATION = Column(
    "operation", "TEXT NOT NULL", "HtoD, DtoH, DtoD, PtoP, HtoH, memset, unified HtoD, unified DtoH, other"
)
_GPU_NS = Column("gpu_ns", "INTEGER NOT NULL", "how long the work took that they launched, on all GPUs together")
_RATE = Column("bytes_per_s", "REAL", "bytes divided by their time; NULL if that is 0 or a size is unknown")
_BY_XLA = (
    Column("flops_per_s", "REAL", "operations on numbers per second, by XLA's count; NULL if that is unknown"),
    Column("moved_bytes_per_s", "REAL", "bytes read and written per second, by XLA's count; NULL if that is unknown"),
)
_BYTES = Column("bytes", "INTEGER NOT NULL", "sum of the bytes copied or set; an unknown size counts as 0")


def _numbers(unit: str, own: tuple[Column, ...] = ()) -> tuple[Column, ...]:
    """Return the columns of statistics on a quantity in ``unit``, with ``own`` columns behind the total."""
    return (
        _COUNT, Column(f"total_{unit}", "INTEGER NOT NULL", "their sum"), *own,
        Column(f"mean_{unit}", "REAL NOT NULL", "the mean"), Column(f"median_{unit}", "REAL NOT NULL", "the median"),
        Column(f"min_{unit}", "INTEGER NOT NULL", "the least"), Column(f"max_{unit}", "INTEGER NOT NULL", "the greatest"),
        Column(f"std_{unit}", "REAL NOT NULL", "standard deviation, ddof 1; 0 if there is only one"),
        Column("share", "REAL NOT NULL", "total as a share of the sum of all totals in this table, 0-1"),
    )  # fmt: skip


def _of_lengths(name: str, keys: tuple[Column, ...], unit: str = "ns", own: tuple[Column, ...] = ()) -> TraceTable:
    """Make the table ``name`` of statistics on lengths in ``unit``: ``keys`` are the columns that identify a row,
    ``own`` the columns of sums that it has besides."""

    def values(trace: TraceAnalysis) -> Columns:
        """Make the table's columns: keys, statistics, sums and, where bytes were summed, their rate."""
        found = trace.kernels_by_rank if name == "kernels_by_rank" else statistics(trace.lengths[name])
        rows: Sequence[Sequence[Any]] = found.keys
        named = [key.name for key in keys]
        if RANK in keys:
            rows, named = [_on_gpu(trace.places, *key) for key in found.keys], [*named, "place"]
        columns: dict[str, Any] = dict(zip(named, zip(*rows, strict=True), strict=False))
        columns |= {name: columns.get(name, ()) for name in named}
        numbers = {each: getattr(found, each) for each in ("total", "mean", "median", "min", "max", "std")}
        columns |= {f"{each}_{unit}": numbers[each] for each in numbers} | {"count": found.count, "share": found.share}
        if "bytes" in found.sums:
            known = (found.total > 0) & (found.sums["n_sized"] == found.count)
            columns["bytes_per_s"] = np.where(known, found.sums["bytes"] * 1e9 / np.maximum(found.total, 1), np.nan)
        if name == "hlo":
            known = (found.total > 0) & (found.sums["n_counted"] == found.count)
            for each, sum_ in (("flops_per_s", "flops"), ("moved_bytes_per_s", "moved")):
                columns[each] = np.where(known, found.sums[sum_] * 1e9 / np.maximum(found.total, 1), np.nan)
        return {**columns, **found.sums}

    keys_first = tuple(key for key in keys if key is not _STYLE)  # columns that were added later stand behind
    about = {"kernels": "one kernel, by name", "kernels_by_rank": "one kernel on one GPU of one rank",
             "copies": "one kind of copy, by time", "copy_sizes": "one kind of copy, by size",
             "api": "one call of CUDA or HIP", "ranges": "one range that the program marked",
             "operators": "one operator of the framework",
             "hlo": "one category of operations in one program that XLA has compiled",
             "os": "one call of the operating system"}[name]  # fmt: skip
    added = [*([PLACE] if RANK in keys else []), *([_STYLE] if _STYLE in keys else [])]
    return TraceTable(about, (*keys_first, *_numbers(unit, own), *added), values)


def _on_gpu(places: Mapping[Track | None, str], gpu: Any, *key: Any) -> Sequence[Any]:
    return (gpu.rank, gpu.device, *key, places[gpu])


def _rows(
    about: str, columns: tuple[Column, ...], rows: Callable[[TraceAnalysis], Sequence[Sequence[Any]]]
) -> TraceTable:
    """Make a table of the rows that ``rows`` lists for an analysis, each with a value for each of the columns. ``about``
    says what a row is."""

    def values(trace: TraceAnalysis) -> Columns:
        """Make the table's columns from the rows of the analysis."""
        found = rows(trace)
        listed = zip(*found, strict=True) if found else ((),) * len(columns)
        return dict(zip([column.name for column in columns], listed, strict=True))

    return TraceTable(about, columns, values)


def _like(about: str, columns: tuple[Column, ...], field: str) -> TraceTable:
    """Make a table with a row for each element of the analysis's ``field``: the element's attributes that have the
    columns' names. ``about`` says what a row is."""
    names = [column.name for column in columns]
    return _rows(
        about, columns, lambda trace: [[getattr(own, name) for name in names] for own in getattr(trace, field) or ()]
    )


def _ns(*pairs: tuple[str, str]) -> tuple[Column, ...]:
    return tuple(Column(name, "INTEGER NOT NULL", meaning) for name, meaning in pairs)


_RANKS = (
    RANK, Column("node", "TEXT", "the node"), GPU, Column("uuid", "TEXT", "its UUID"),
    *_ns(("n_kernels", "number of kernels"), ("begin_ns", "start of its first work"),
         ("span_ns", "from begin_ns to the end of its last kernel, copy or set"),
         ("busy_ns", "time in which any of them ran"), ("idle_ns", "span_ns minus busy_ns"),
         ("compute_ns", "time with computation"),
         ("communication_ns", "time with communication"), ("copy_ns", "time with copies and sets"),
         ("exposed_communication_ns", "time with communication and no computation"),
         ("exposed_copy_ns", "time with a copy and neither computation nor communication")),
    Column("overlap", "REAL", "share of the communication during which the GPU computes, 0-1; NULL without communication"),
    *_ns(("exposed_p2p_ns", "the part of exposed_communication_ns that only sends to or receives from single ranks")),
    PLACE,
)  # fmt: skip


def _kernel_types(trace: TraceAnalysis) -> list[Sequence[Any]]:
    """List the rows of the table ``kernel_types``, GPU by GPU, the longest combination first."""
    total = max(int(trace.types.sum()), 1)
    return [
        (
            "+".join(kind for bit, kind in enumerate(TYPES) if subset >> bit & 1),
            gpu.rank,
            gpu.gpu,
            ns,
            ns / total,
            gpu.place,
        )
        for gpu in trace.gpus
        for subset, ns in sorted(enumerate(gpu.types), key=lambda each: -each[1])
        if ns
    ]


def launch_numbers(trace: TraceAnalysis) -> dict[str, Any]:
    """Return the one row of the table ``launches``, by column."""
    found = trace.launches
    delay = statistics(found.delay)
    known = {name: getattr(delay, name).tolist()[0] if found.n else None for name in ("mean", "median", "max")}
    return {"count": found.n, "delay_ns": known, **{name: getattr(found, name) for name in found._fields[2:]}}


def _launches(trace: TraceAnalysis) -> list[Sequence[Any]]:
    found = launch_numbers(trace)
    return [(found["count"], *found["delay_ns"].values(), *list(found.values())[2:])]


def _whole(values: "NDArray[Any]") -> list[Any]:
    """Round values to whole numbers, None where unknown."""
    return [round(value) if value == value else None for value in values.tolist()]


def _spread(tree: "call_tree.CallTree", values: "NDArray[Any]") -> Columns:
    """Make the columns that summarize a time [n, n_places] over the places."""
    found = call_tree.spread(values)
    most = [tree.called(place) if place >= 0 else None for place in found.most.tolist()]
    return {"mean_ns": _whole(found.mean), "min_ns": _whole(found.least), "max_ns": _whole(found.greatest), "most": most,
            "imbalance": found.imbalance}  # fmt: skip


def _calls(tree: "call_tree.CallTree") -> Columns:
    """Return the columns that calls and functions share: names, how often they were called, and their times."""
    times = tree.values(call_tree.TIME)
    return {
        "name": tree.names, "paradigm": tree.paradigm,
        "count": _whole(tree.values(call_tree.VISITS).exclusive.sum(axis=1)),
        "inclusive_ns": _whole(times.inclusive.sum(axis=1)), "exclusive_ns": _whole(times.exclusive.sum(axis=1)),
    }  # fmt: skip


def _calltree(tree: "call_tree.CallTree") -> Columns:
    """Return the columns of the call tree: a row for each call, in the tree's order."""
    inclusive = tree.values(call_tree.TIME).inclusive
    total = max(np.nansum(inclusive[tree.depth == 0]), 1e-9)
    return {
        "id": np.arange(len(tree)), "parent": [None if above < 0 else above for above in tree.parent.tolist()],
        "depth": tree.depth, "share": inclusive.sum(axis=1) / total, **_calls(tree), **_spread(tree, inclusive),
    }  # fmt: skip


def _functions(tree: "call_tree.CallTree") -> Columns:
    """Return the columns of the functions, each with all its calls together."""
    flat = call_tree.flat_profile(tree)
    exclusive = flat.values(call_tree.TIME).exclusive
    share = exclusive.sum(axis=1) / max(np.nansum(exclusive), 1e-9)
    return {**_calls(flat), "share": share, **_spread(flat, exclusive)}


def _paradigms(trace: TraceAnalysis) -> list[Sequence[Any]]:
    """List the rows of the table ``paradigms_by_rank``; none without a call tree that has times."""
    tree = trace.tree
    if tree is None or not tree.has(call_tree.TIME):
        return []
    found = call_tree.by_paradigm(tree)
    totals = np.maximum(np.sum(list(found.values()), axis=0), 1e-9)
    return [
        (tree.called(at), track.rank, track.node, name, round(time[at]), time[at] / totals[at])
        for at, track in enumerate(tree.places)
        for name, time in found.items()
    ]


def _metrics(trace: TraceAnalysis) -> list[Sequence[Any]]:
    """Make the columns of all metrics but time, which the other tables have."""
    tree, rows = trace.tree, list[Sequence[Any]]()
    for metric in () if tree is None else tree.metrics:
        if tree is not None and metric.name != call_tree.TIME:
            below, own = (call_tree.spread(each, metric.combine) for each in tree.values(metric.name))
            columns = (below.total.tolist(), own.total.tolist(), own.least.tolist(), own.greatest.tolist())
            rows += [(at, metric.name, metric.unit, *each) for at, each in enumerate(zip(*columns, strict=True))]
    return rows


def _of_tree(about: str, columns: tuple[Column, ...], values: Callable[["call_tree.CallTree"], Columns]) -> TraceTable:
    """Make a table whose columns the function ``values`` makes of the call tree; it is empty where the analysis has none."""

    def of(trace: TraceAnalysis) -> Columns:
        none: Columns = {column.name: () for column in columns}
        return none if trace.tree is None else values(trace.tree)

    return TraceTable(about, columns, of)


_PARADIGM = Column(
    "paradigm",
    "TEXT NOT NULL",
    "what it belongs to: user, mpi, openmp, cuda ..., as Score-P names it; in traces, the category",
)
_CALLED = Column("count", "INTEGER", "number of calls; NULL if unknown")
_INCLUSIVE = Column(
    "inclusive_ns", "INTEGER", "its time with all that it called, on all ranks together; NULL if unknown"
)
_EXCLUSIVE = Column("exclusive_ns", "INTEGER", "its time without what it called; NULL if unknown")
_OVER_RANKS = (
    Column("mean_ns", "INTEGER", "the mean over the ranks (if there is one rank, over its threads)"),
    Column("min_ns", "INTEGER", "the least"), Column("max_ns", "INTEGER", "the greatest"),
    Column("most", "TEXT", "the rank or thread with the greatest time"), Column("imbalance", "REAL", "1 - mean / max, 0-1"),
)  # fmt: skip


def _verdicts(trace: TraceAnalysis) -> list[Sequence[Any]]:
    """List the verdicts of a trace as rows of the table ``verdicts``."""
    return [
        (own.code, own.severity, own.title, "; ".join(finding.text for finding in own.evidence), own.advice, own.source,
         own.start, own.end, ", ".join(trace.gpus[gpu].place for gpu in own.gpus) or None)
        for own in trace.verdicts
    ]  # fmt: skip


def _messages(trace: TraceAnalysis) -> list[Sequence[Any]]:
    """List the rows of the table ``messages``; none if the trace tells of none."""
    found = trace.exchange
    if found is None:
        return []
    columns = (found.source, found.target, found.count, found.size, found.time, found.timed, found.late, found.called)
    rates = found.rate().tolist()
    return [
        (*_end(found.ends[source]), *_end(found.ends[target]), count, size, time if timed else None,
         None if rate != rate else rate, late if called else None)
        for source, target, count, size, time, timed, late, called, rate in zip(
            *(column.tolist() for column in columns), rates, strict=True)
    ]  # fmt: skip


def _end(track: Track) -> tuple[int | None, str | None]:
    return track.rank, track.node


TABLES: dict[str, TraceTable] = {
    "ranks": _like("one GPU of one rank", _RANKS, "gpus"),
    "kernel_types": _rows(
        "one combination of computation, communication and copies on one GPU",
        (Column("types", "TEXT NOT NULL", "what ran at the same time: compute, communication, copy, joined by +"), RANK, GPU,
         _TOTAL, Column("share", "REAL NOT NULL", "total as a share of the time in which anything ran, on all GPUs, "
                        "0-1"), PLACE),
        _kernel_types),
    "kernels": _of_lengths("kernels", (_NAME, _CATEGORY)),
    "kernels_by_rank": _of_lengths("kernels_by_rank", (RANK, GPU, _NAME, _CATEGORY)),
    "api": _of_lengths("api", (_NAME,)),
    "copies": _of_lengths("copies", (_OPERATION,), own=(_BYTES, _RATE)),
    "copy_sizes": _of_lengths("copy_sizes", (_OPERATION,), "bytes"),
    "ranges": _of_lengths("ranges", (_NAME, _DOMAIN, _STYLE), own=(_GPU_NS,)),
    "operators": _of_lengths("operators", (_NAME,), own=(_GPU_NS,)),
    "os": _of_lengths("os", (_NAME,)),
    "kernel_sequences": _rows(
        "one sequence of kernels that an outermost operator launched at least twice",
        (Column("operator", "TEXT NOT NULL", "the operator"),
         Column("n_kernels", "INTEGER NOT NULL", "number of kernels in it"),
         _COUNT._replace(meaning="how often"), *_ns(("gpu_ns", "the kernels' time in all of these together")),
         Column("kernels", "TEXT NOT NULL", "their names in order, a JSON list")),
        lambda trace: [(each.operator, len(each.kernels), each.n, each.gpu_ns, json.dumps(each.kernels))
                       for each in trace.sequences]),
    "operator_counters": _rows(
        "one counter of CUPTI, of one kernel that one operator launched",
        (Column("operator", "TEXT", "the innermost operator; NULL if unknown or if there is none"),
         Column("outermost", "TEXT", "the outermost operator around the launch; NULL if unknown or if there is none"),
         Column("kernel", "TEXT NOT NULL", "the kernel"), Column("counter", "TEXT NOT NULL", "CUPTI's name of the counter"),
         _COUNT._replace(meaning="number of launches of the kernel"),
         Column("total", "REAL NOT NULL", "sum over the launches, which is meaningful for counts, not for shares"),
         Column("mean", "REAL NOT NULL", "the mean over the launches"), Column("min", "REAL NOT NULL", "the least"),
         Column("max", "REAL NOT NULL", "the greatest")),
        lambda trace: [(*each[:6], each.total / each.n, *each[6:]) for each in trace.operator_counters]),
    "stages": _rows(
        "one GPU as a stage of a pipeline",
        (Column("pipeline", "INTEGER NOT NULL", "the pipeline's number"),
         Column("stage", "INTEGER NOT NULL", "the stage's number, from 0"),
         Column("n_stages", "INTEGER NOT NULL", "number of stages of the pipeline"),
         Column("rank", "INTEGER NOT NULL", "the rank"), PLACE,
         *_ns(("bubble_ns", "the job's time in which the GPU was idle or did nothing but send and receive")),
         Column("share", "REAL NOT NULL", "bubble_ns as a share of the job's time, 0-1"),
         Column("micro_batches", "INTEGER", "how often the first stage sends to the second in a step; NULL if unknown"),
         Column("ideal", "REAL", "least share possible, (p - 1) / (m + p - 1) with p stages and m micro-batches; NULL if "
                "unknown")), stages),
    "transfer_waits": _rows(
        "a pair of ranks, one of which waited for the other in sends and receives between them",
        (Column("rank", "INTEGER NOT NULL", "the rank that waited"),
         Column("other", "INTEGER NOT NULL", "the rank that it waited for"),
         _COUNT._replace(meaning="number of transfers between them"),
         *_ns(("wait_ns", "time until the other's kernel started, summed"))),
        transfer_waits),
    "hlo": _of_lengths("hlo", (Column("category", "TEXT NOT NULL", "the category as XLA names it; empty if unknown"),
                               Column("module", "TEXT NOT NULL", "the compiled program; empty if unknown")), own=_BY_XLA),
    "idle": _rows(
        "one cause of idle time",
        (Column("cause", "TEXT NOT NULL", "host, launch, dependency, copy, unknown or outside"),
         _COUNT._replace(meaning="number of gaps with a part due to it"), _TOTAL),
        lambda trace: [(cause, *own) for cause, own in trace.idle.items()]),
    "gaps": _like(
        "one of the longest times in which a GPU was idle",
        (*_ns(("start_ns", "when it began"), ("length_ns", "how long it was")), RANK, GPU,
         Column("cause", "TEXT NOT NULL", "the cause, as in the table idle"),
         Column("before", "TEXT NOT NULL", "the work that ended there"),
         Column("after", "TEXT NOT NULL", "the work that came next"),
         Column("call", "TEXT", "the call in which the launching thread was in the middle of the gap"),
         Column("range", "TEXT", "the innermost operator or range at that time"),
         Column("python", "TEXT", "the innermost Python function at that time"),
         *_ns(("host_ns", "the part of the gap before the next work was launched")), PLACE), "gaps"),
    "critical_path": _rows(
        "the part of the critical path that has one name",
        (Column("kind", "TEXT NOT NULL", "compute, communication or copy; host: what was innermost on a thread; launch: "
                "between a launch and the start of its work; gap: between work on a GPU"),
         _NAME._replace(meaning="the name in the file; empty: nothing was traced on the thread"),
         _COUNT._replace(meaning="number of pieces of the path"), _TOTAL._replace(meaning="its time on the path"),
         Column("share", "REAL NOT NULL", "the same as a share of the path, 0-1"),
         Column("win_ns", "INTEGER", "how much earlier the path would end if this took no time and every delay stayed as "
                "it was; NULL if that was not worked out")),
        lambda trace: [part for path in [trace.critical_path()] if path for part in path.parts]),
    "launches": _rows(
        "all launches together",
        (_COUNT, Column("delay_mean_ns", "REAL", "time from the end of the call to the start of the work: the mean"),
         Column("delay_median_ns", "REAL", "the median"), Column("delay_max_ns", "INTEGER", "the greatest"),
         *_ns(("short_kernels", "number of pieces of work that are shorter than their call, itself at most 50 µs"),
              ("slow_calls", "number of calls longer than 50 µs"),
              ("long_delays", "number of delays longer than 100 µs"),
              ("queue_max", "the most pieces of work that waited in one stream"),
              ("queue_full", "number of streams in which 1024 waited, which is as many as fit"))), _launches),
    "steps": _like(
        "one step of the program on one rank",
        (_NAME, RANK, *_ns(("start_ns", "when it began"), ("length_ns", "how long it took"),
                           ("busy_ns", "how long its GPU was busy meanwhile; the mean if it has several")),
         Column("flops", "REAL", "floating-point operations of its matrix products; NULL if unknown"),
         Column("mfu", "REAL", "flops as a share of what the rank's GPUs could do meanwhile in dense BF16; NULL if "
                "unknown")),
        "steps"),
    "flops": _like(
        "one operator that multiplies matrices, with inputs of one type",
        (Column("operator", "TEXT NOT NULL", "the operator's name"),
         Column("dtype", "TEXT NOT NULL", "type of its inputs; empty if unknown"),
         Column("n", "INTEGER NOT NULL", "number of its calls that launched work on a GPU"),
         Column("flops", "REAL", "floating-point operations, worked out from the shapes; NULL if these are not known"),
         *_ns(("gpu_ns", "how long the work took that they launched")),
         Column("flops_per_s", "REAL", "flops divided by the time"),
         Column("model", "TEXT", "the GPUs' model; NULL if it or its peaks are not known"),
         Column("peak", "REAL", "the most that one GPU can do per second in dense BF16"),
         Column("mfu", "REAL", "flops_per_s divided by peak")), "flops"),
    "counters": _like(
        "one series of values",
        (_NAME, Column("unit", "TEXT NOT NULL", "its unit"), RANK, GPU, Column("n", "INTEGER NOT NULL", "number of values"),
         Column("mean", "REAL NOT NULL", "mean over time of a gauge; of others, the mean of the values"),
         Column("min", "REAL NOT NULL", "the least"), Column("max", "REAL NOT NULL", "the greatest"),
         Column("last", "REAL NOT NULL", "the last"), *_ns(("at_max_ns", "when it was greatest")),
         PLACE._replace(type="TEXT", meaning="what pages and screens call the GPU; NULL if it is no GPU's")), "counters"),
    "metrics": _like(
        "one metric that you defined, on one GPU or thread",
        (_NAME._replace(meaning="its name"), Column("expression", "TEXT NOT NULL", "its definition"),
         Column("unit", "TEXT NOT NULL", "1 (a share), calls/s or bytes/s; if two were divided also s or bytes; empty: a "
                "number"),
         Column("level", "TEXT", "GPU or thread; NULL if no name fits"), RANK,
         PLACE._replace(type="TEXT", meaning="what pages and screens call it"),
         Column("value", "REAL", "its value in the window; NULL if unknown")), "metrics"),
    "messages": _rows(
        "the messages from one rank to another",
        (RANK._replace(meaning="the sender's rank; NULL if unknown"), Column("node", "TEXT", "the sender's node"),
         Column("to_rank", "INTEGER", "the receiver's rank"), Column("to_node", "TEXT", "the receiver's node"), _COUNT,
         Column("bytes", "INTEGER NOT NULL", "bytes in all"),
         Column("time_ns", "INTEGER", "time from sending to receiving, summed; NULL if either is unknown"),
         Column("bytes_per_s", "REAL", "bytes divided by that time; NULL if that is 0 or unknown"),
         Column("late_ns", "INTEGER", "how long the receiving calls had waited when the sending calls began, together; NULL "
                "where these are not known")), _messages),
    "collectives": _rows(
        "the collective operations of one kind on one communicator",
        (Column("kind", "TEXT NOT NULL", "allreduce, barrier and so on"), Column("comm", "TEXT NOT NULL", "communicator"),
         Column("count", "INTEGER NOT NULL", "number of operations, counted on each rank"), _TOTAL,
         Column("wait_ns", "INTEGER", "time until the last rank had begun, summed; NULL if that is not known"),
         Column("max_wait_ns", "INTEGER", "the longest wait of one rank"),
         *_ns(("n_known", "number of those whose wait is known"), ("sent", "bytes sent"), ("received", "bytes received"))),
        lambda trace: trace.collectives),
    "io": _rows(
        "the operations of one kind on one file by one call",
        (Column("file", "TEXT NOT NULL", "the file's name"),
         Column("operation", "TEXT NOT NULL", "read, write, flush or other"),
         Column("call", "TEXT", "the call; NULL if unknown"),
         Column("layer", "TEXT NOT NULL", "the interface that the call belongs to"),
         _COUNT, Column("bytes", "INTEGER NOT NULL", "bytes in all; an unknown size counts as 0"),
         *_ns(("n_sized", "number of those whose size is known"), ("total_ns", "their sum"), ("max_ns", "the longest")),
         Column("bytes_per_s", "REAL", "bytes divided by that time; NULL if that is 0 or a size is unknown")),
        lambda trace: [(*each, each.bytes_per_s) for each in trace.io or ()]),
    "calltree": _of_tree(
        "one path in the tree of calls",
        (Column("id", "INTEGER NOT NULL", "its number"),
         Column("parent", "INTEGER", "its caller's number; NULL if it has none"),
         Column("depth", "INTEGER NOT NULL", "number of calls around it"), _NAME, _PARADIGM, _CALLED, _INCLUSIVE, _EXCLUSIVE,
         Column("share", "REAL", "inclusive_ns as a share of the time of the whole tree, 0-1"), *_OVER_RANKS), _calltree),
    "calltree_metrics": _rows(
        "one metric other than time, of one path of calls",
        (Column("id", "INTEGER NOT NULL", "the path's number in calltree"),
         Column("metric", "TEXT NOT NULL", "the metric: visits, bytes_sent ..."),
         Column("unit", "TEXT NOT NULL", "its unit"),
         Column("inclusive", "REAL", "its value with all that it called; NULL if unknown"),
         Column("exclusive", "REAL", "its value without what it called"),
         Column("min", "REAL", "the least exclusive value of a rank"),
         Column("max", "REAL", "the greatest")), _metrics),
    "functions": _of_tree(
        "one function, by name",
        (_NAME, _PARADIGM, _CALLED, _INCLUSIVE, _EXCLUSIVE,
         Column("share", "REAL", "exclusive_ns as a share of all time, 0-1"),
         *_OVER_RANKS), _functions),
    "sampled_functions": _rows(
        "one function in which samples of call paths found the program",
        (_NAME, _PARADIGM, Column("exclusive", "INTEGER NOT NULL", "samples in which it ran itself"),
         Column("inclusive", "INTEGER NOT NULL", "samples in which it ran itself or had called what ran"),
         Column("share", "REAL NOT NULL", "exclusive as a share of all samples, 0-1")),
        lambda trace: [(*each, each.exclusive / max(sum(one.exclusive for one in trace.sampled_functions), 1))
                       for each in trace.sampled_functions]),
    "paradigms_by_rank": _rows(
        "one paradigm on one rank (if there is one rank, on one of its threads)",
        (Column("place", "TEXT NOT NULL", "the rank or thread"), RANK, Column("node", "TEXT", "the node"), _PARADIGM,
         Column("time_ns", "INTEGER NOT NULL", "exclusive time"),
         Column("share", "REAL NOT NULL", "the same as a share of the rank's time, 0-1")),
        _paradigms),
    "verdicts": _rows(
        "one verdict",
        (Column("code", "TEXT NOT NULL", "the rule"), Column("severity", "TEXT NOT NULL", "critical, warning or info"),
         Column("title", "TEXT NOT NULL", "one sentence"),
         Column("evidence", "TEXT NOT NULL", "the numbers behind it, in words"),
         Column("advice", "TEXT NOT NULL", "what to do next"),
         Column("source", "TEXT NOT NULL", "where its thresholds come from"),
         Column("start", "REAL NOT NULL", "when it began to hold, s"), Column("end", "REAL NOT NULL", "when it ended, s"),
         Column("gpus", "TEXT", "the GPUs concerned; NULL for all")), _verdicts),
}  # fmt: skip
"""All tables. Times are ns from the trace's zero."""


def column_as_list(values: "NDArray[Any] | Sequence[Any]") -> list[Any]:
    """Return a column as plain values."""
    return list(values.tolist()) if isinstance(values, np.ndarray) else list(values)


def rows_of(name: str, trace: TraceAnalysis) -> tuple[list[str], "zip[tuple[Any, ...]]"]:
    """Make the table ``name`` of an analysis. Returns the names of its columns, and an iterator of its rows, tuples in the
    order of these."""
    table = TABLES[name]
    values = table.values(trace)
    names = [column.name for column in table.columns]
    return names, zip(*(column_as_list(values[each]) for each in names), strict=True)


NSYS: dict[str, tuple[str, str, str]] = {
    "cuda_gpu_kern_sum": ("kernels", "Instances", "Name"),
    "cuda_api_sum": ("api", "Num Calls", "Name"),
    "cuda_gpu_mem_time_sum": ("copies", "Count", "Operation"),
    "cuda_gpu_mem_size_sum": ("copy_sizes", "Count", "Operation"),
    "nvtx_sum": ("ranges", "Instances", "Range"),
    "osrt_sum": ("os", "Num Calls", "Name"),
}
"""Reports of ``nsys stats`` by their names: the table that has each, and what its columns of numbers and of names are
called."""
ALIASES = {"gpukernsum": "cuda_gpu_kern_sum", "cudaapisum": "cuda_api_sum", "gpumemtimesum": "cuda_gpu_mem_time_sum",
           "gpumemsizesum": "cuda_gpu_mem_size_sum", "nvtxsum": "nvtx_sum", "osrtsum": "osrt_sum"}  # fmt: skip
_OPERATIONS = {"HtoD": "Host-to-Device", "DtoH": "Device-to-Host", "DtoD": "Device-to-Device", "PtoP": "Peer-to-Peer",
               "HtoH": "Host-to-Host", "unified HtoD": "Unified Host-to-Device",
               "unified DtoH": "Unified Device-to-Host"}  # fmt: skip


def as_nsys(name: str, trace: TraceAnalysis) -> tuple[list[str], list[list[Any]]]:
    """Make a report (NSYS, ALIASES) as ``nsys stats`` prints it: in ns with one decimal, sizes in MB with three, shares in
    percent, the greatest total first. Returns heads and rows."""
    table, instances, named = NSYS[ALIASES.get(name, name)]
    values = {column: column_as_list(own) for column, own in TABLES[table].values(trace).items()}
    times = table != "copy_sizes"
    unit, own = ("ns", "ns") if times else ("MB", "bytes")

    def numbers(column: str) -> list[Any]:
        if times and column in ("total", "min", "max"):
            return values[f"{column}_{own}"]
        return [f"{value:.1f}" if times else f"{value / 1e6:.3f}" for value in values[f"{column}_{own}"]]

    heads = {"total": "Total Time" if times else "Total", "mean": "Avg", "median": "Med", "min": "Min", "max": "Max",
             "std": "StdDev"}  # fmt: skip
    columns = {f"{head} ({unit})": numbers(column) for column, head in heads.items()}
    total = next(iter(columns))
    columns = {total: columns[total], instances: values["count"]} | columns
    if times:
        columns = {"Time (%)": [f"{100 * share:.1f}" for share in values["share"]]} | columns
    labels = values["operation" if named == "Operation" else "name"]
    if named == "Operation":
        labels = [f"[CUDA memcpy {_OPERATIONS[each]}]" if each in _OPERATIONS else f"[CUDA {each}]" for each in labels]
    if named == "Range":
        columns["Style"] = [style or "" for style in values["style"]]
    columns[named] = labels
    return list(columns), [list(row) for row in zip(*columns.values(), strict=True)]
