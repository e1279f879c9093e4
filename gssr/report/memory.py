"""The page of PyTorch's memory snapshots and memory timelines, its JSON object and its tables.

The object's keys are a contract (docs/traces.md): they are only ever added to. Bytes are whole, times ns from a file's first
step.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np

from gssr.model.traces.memory import (
    DeviceMemory,
    Fit,
    MemoryAllocation,
    OutOfMemory,
    bytes_of,
    frame_text,
    name_of,
    places,
)
from gssr.model.verdicts.words import binary, took
from gssr.render.cells import clean, wrap
from gssr.render.columns import bar, strip
from gssr.render.glyphs import Glyphs, glyph_set
from gssr.render.roles import Row, Span
from gssr.render.scale import count, percent
from gssr.render.table import Cell, TableColumn, table
from gssr.report.page import PageOptions, files_head, remark, rest_rows, section

SCHEMA = "gssr.memory/1"
_MOST = {"low": 3, "medium": 10, "high": 50}
_MOST_NAMED, _MOST_IN_SENTENCE = 100, 3
"""Allocations in the JSON object, and in a sentence."""
_MOST_FRAMES = 60
NO_STACK = "(no stack was recorded)"

TABLES = {
    "memory": (
        "path", "rank", "device", "peak_bytes", "peak_ns", "reserved_at_peak_bytes", "end_requested_bytes",
        "end_allocated_bytes", "end_reserved_bytes", "end_free_bytes", "end_largest_free_bytes", "steps",
    ),
    "allocations": ("path", "rank", "device", "bytes", "place"),
    "memory_over_time": ("path", "rank", "device", "time_ns", "category", "bytes"),
    "segments": (
        "path", "rank", "device", "stream", "kind", "segments", "reserved_bytes", "allocated_bytes", "awaiting_free_bytes",
        "free_bytes", "largest_free_bytes",
    ),
}  # fmt: skip
"""The tables that ``--csv`` prints, and their columns."""


def memory_page(found: Sequence[DeviceMemory], options: PageOptions) -> list[Row]:
    """Draw the page, at most ``options.width`` cells wide but for the closing line."""
    width, marks = options.width, glyph_set(options.ascii)
    rows = files_head(list(dict.fromkeys(each.path for each in found)), width, marks)
    n_snapshots, n_timelines = (
        len({each.path for each in found if (each.pools is None) == is_timeline}) for is_timeline in (False, True)
    )
    kinds = [count(n, f"memory {noun}") for n, noun in ((n_snapshots, "snapshot"), (n_timelines, "timeline")) if n]
    rows += wrap(f"{' and '.join(kinds)} of PyTorch, {count(len(found), 'GPU')}", width)
    if len(found) > 1:
        rows += _draw_overview(found, options, marks)
    for each in found:
        rows += _device(each, options, marks)
    return [*rows, (), (Span(_closing_line(found), "value"),)]


def _closing_line(found: Sequence[DeviceMemory]) -> str:
    peaks = [each.peak_bytes for each in found if each.peak_bytes is not None]
    failed = sum(len(each.failures) for each in found)
    return f"GSSR peak_bytes={max(peaks) if peaks else 'unknown'} gpus={len(found)} out_of_memory={failed}"


def _place(each: DeviceMemory) -> str:
    """Name the GPU of a file as far as it is known."""
    named = [] if each.rank is None else [f"rank {each.rank}"]
    named += [] if each.device is None else [f"GPU {each.device}"]
    return ", ".join(named) or clean(os.path.basename(each.path))


def _draw_overview(found: Sequence[DeviceMemory], options: PageOptions, marks: Glyphs) -> list[Row]:
    """Draw the table of all GPUs, the one with the highest peak first; an unknown peak counts as 0. How many are shown
    depends on the verbosity; a line says how many more there are."""
    head = (
        TableColumn("GPU"), TableColumn("peak", "right"), TableColumn("reserved then", "right", drop=1),
        TableColumn("out of memory", "right", drop=2), TableColumn("file", drop=3, keep="end"),
    )  # fmt: skip
    ordered = sorted(found, key=lambda each: -(each.peak_bytes or 0))
    lines: list[list[Cell]] = [
        [_place(each), _known(each.peak_bytes), _known(each.reserved_at_peak), f"{len(each.failures) or ''}",
         clean(os.path.basename(each.path))]
        for each in ordered[: _MOST[options.verbosity]]
    ]  # fmt: skip
    rows = [*section("Which GPU?", options.width, marks), *table(head, lines, options.width, marks)]
    return rows + rest_rows(len(ordered) - len(lines), "GPU", "--csv memory", options.width)


def _known(n: int | None) -> str:
    return "unknown" if n is None else binary(n)


def _device(each: DeviceMemory, options: PageOptions, marks: Glyphs) -> list[Row]:
    """Draw the sections of one GPU."""
    width = options.width
    rows = section("How full?", width, marks, _place(each))
    if each.peak_bytes is None:
        rows += labelled_text("peak", "unknown: no history was recorded, so this is the moment of the snapshot", width)
    else:
        when = "" if each.peak_ns is None else f", {took(each.peak_ns)} after the first of {count(each.steps, 'step')}"
        held = "" if each.reserved_at_peak is None else f"; PyTorch had reserved {binary(each.reserved_at_peak)} then"
        what = "requested at once" if each.pools is not None else "at once, over all categories"
        rows += labelled_text("peak", f"{binary(each.peak_bytes)} {what}{when}{held}", width)
    rows += _at_the_end(each, options, marks) + _over_time(each, options, marks)
    rows += _alive(each, options, marks)
    for failure in each.failures[: _MOST[options.verbosity]]:
        rows += _failure(failure, each, options, marks)
    if each.fit is not None:
        rows += section("What would have to go?", width, marks, f"to fit into {binary(each.fit.limit)}")
        rows += wrap(_fit_sentence(each, each.fit), width)
    return rows


def labelled_text(label: str, text: str, width: int) -> list[Row]:
    """Draw a label and a text, which is wrapped."""
    return remark(text, width, "plain", label)


def _at_the_end(each: DeviceMemory, options: PageOptions, marks: Glyphs) -> list[Row]:
    """Say how much of what is reserved is allocated in the end, and in what pieces the rest lies."""
    reserved, allocated, free, waiting = (each.total(name) for name in ("reserved", "allocated", "free", "awaiting"))
    if each.pools is None or reserved is None or allocated is None or free is None:
        return []
    share = f", {percent(allocated / reserved)}" if reserved else ""
    rows = labelled_text(
        "at the end", f"{binary(allocated)} allocated ({binary(each.requested or 0)} requested) of "
        f"{binary(reserved)} reserved{share}", options.width,
    )  # fmt: skip
    pieces = f"{binary(free)} reserved and free, the largest piece {binary(each.largest_free or 0)}"
    held = f"; {binary(waiting)} is freed, and waits for a stream" if waiting else ""
    rows += labelled_text("", f"{pieces}{held}", options.width)
    if options.verbosity == "low" or len(each.pools) < 2:
        return rows
    head = (
        TableColumn("stream"), TableColumn("blocks"), TableColumn("segments", "right", drop=2),
        TableColumn("reserved", "right"), TableColumn("allocated", "right"), TableColumn("free", "right", drop=1),
        TableColumn("largest free", "right"),
    )  # fmt: skip
    lines: list[list[Cell]] = [
        [str(pool.stream), clean(pool.kind), f"{pool.segments:,}", binary(pool.reserved), binary(pool.allocated),
         binary(pool.free), binary(pool.largest_free)]
        for pool in each.pools[: _MOST[options.verbosity]]
    ]  # fmt: skip
    rows += [(), *table(head, lines, options.width, marks)]
    return rows + rest_rows(len(each.pools) - len(lines), "line", "--csv segments", options.width)


def _over_time(each: DeviceMemory, options: PageOptions, marks: Glyphs) -> list[Row]:
    """Draw each series over time, as the greatest of each column, in parts of the largest value."""
    if len(each.times) < 2 or each.times[-1] <= 0:
        return []
    full = int(each.sizes.sum(axis=1).max() if each.pools is None else each.sizes.max())
    head = (TableColumn(""), TableColumn("most", "right"), TableColumn("over time", least=10, most=200))
    lines: list[list[Cell]] = []
    for number, name in enumerate(each.series):
        values = each.sizes[:, number]
        if values.any():
            lines.append([name, binary(int(values.max())), _drawn(each.times, values, full, marks)])
    rows = [(), *table(head, lines, options.width, marks)]
    return [
        *rows,
        *wrap(f"0 to {took(float(each.times[-1]))}; a full mark is {binary(full)}", options.width, role="dim"),
    ]


def _drawn(times: Any, values: Any, full: int, marks: Glyphs) -> Any:
    """Return what draws a series into a number of cells: in each the greatest value that was held within it."""

    def draw(width: int) -> Row:
        edges = np.linspace(0, float(times[-1]), width + 1)
        first = np.maximum(np.searchsorted(times, edges[:-1], "right") - 1, 0)  # what is held at a column's begin
        last = np.maximum(np.searchsorted(times, edges[1:], "left"), first + 1)
        return strip([float(values[a:b].max()) / max(full, 1) for a, b in zip(first, last, strict=True)], marks)

    return draw


def _alive(each: DeviceMemory, options: PageOptions, marks: Glyphs) -> list[Row]:
    """Draw what holds the memory at the peak: by category, or by the line of the program that allocated it."""
    width = options.width
    when = "at the peak" if each.peak_bytes is not None else "at the end"
    if each.at_peak is not None:
        return [*section("What holds it?", width, marks, when), *_categories(each.at_peak, width, marks)]
    alive = each.alive or ()
    if not alive:
        return []
    total = bytes_of(alive) or 1
    head = (
        TableColumn("allocated by", keep="end"), TableColumn("share", "right"), TableColumn("bytes", "right"),
        TableColumn("count", "right", drop=1), TableColumn("largest", "right", drop=2),
    )  # fmt: skip
    found = places(alive)
    lines: list[list[Cell]] = [
        [clean(name) or NO_STACK, percent(bytes_of(own) / total), binary(bytes_of(own)), f"{len(own):,}",
         binary(own[0].size)]
        for name, own in islice(found.items(), _MOST[options.verbosity])
    ]  # fmt: skip
    about = f"{when}, {count(len(alive), 'allocation')}"
    rows = [*section("What holds it?", width, marks, about), *table(head, lines, width, marks)]
    return rows + rest_rows(len(found) - len(lines), "line", "--csv allocations", width)


def _categories(at_peak: Mapping[str, int], width: int, marks: Glyphs) -> list[Row]:
    """Draw the table of bytes by category, most bytes first."""
    total = max(sum(at_peak.values()), 1)
    head = (
        TableColumn("category"), TableColumn("share", "right"), TableColumn("bytes", "right"),
        TableColumn("", least=10, most=40),
    )  # fmt: skip
    by_size = sorted(at_peak.items(), key=lambda item: -item[1])
    lines = [[name, percent(n / total), binary(n), _bar(n / total, marks)] for name, n in by_size if n]
    return table(head, lines, width, marks)


def _bar(share: float, marks: Glyphs) -> Any:
    return lambda width: bar(share, width, marks)


def _failure(failure: OutOfMemory, each: DeviceMemory, options: PageOptions, marks: Glyphs) -> list[Row]:
    """Draw the section of an allocation that failed."""
    when = "" if failure.at_ns is None else f"{took(failure.at_ns)} after the first step"
    rows = section("Out of memory", options.width, marks, when)
    name = clean(name_of(failure.stack))
    rows += wrap(
        f"{binary(failure.asked)} were asked for{f' by {name}' if name else ''}, and not to be had: "
        f"{binary(failure.requested)} were in use of {binary(failure.reserved)} reserved, and the driver had "
        f"{binary(failure.free)} free.",
        options.width,
        role="bad",
    )
    return rows + wrap(_fit_sentence(each, failure.fit), options.width)


def _fit_sentence(each: DeviceMemory, fit: Fit) -> str:
    """Say what would have to go, or that the sum fits."""
    limit = binary(fit.limit)
    if fit.over <= 0:
        return (
            f"The sum would fit into {limit}, with {binary(-fit.over)} to spare: what is missing is one piece, or what "
            "rounding takes."
        )
    if each.alive is None:
        return f"{binary(fit.over)} would have to go to fit into {limit}; the file does not tell single allocations."
    gone = bytes_of(fit.largest)
    if gone < fit.over:
        return f"{binary(fit.over)} would have to go to fit into {limit}: more than everything that was alive."
    by_place = places(fit.largest)
    named = [
        f"{binary(bytes_of(own))} ({len(own):,}) by {clean(name) or 'unknown lines'}"
        for name, own in islice(by_place.items(), _MOST_IN_SENTENCE)
    ]
    rest = count(len(by_place) - len(named), "more line")
    more = f" and {rest}" if len(by_place) > len(named) else ""
    return (
        f"At least {binary(fit.over)} would have to go to fit into {limit}: as much as the "
        f"{count(len(fit.largest), 'largest allocation')}, {binary(gone)}: {'; '.join(named)}{more}."
    )


def memory_document(found: Sequence[DeviceMemory]) -> dict[str, Any]:
    """Return the JSON object; None is unknown."""
    peaks = [each.peak_bytes for each in found if each.peak_bytes is not None]
    return {
        "schema": SCHEMA,
        "memory": {"peak_bytes": max(peaks, default=None), "devices": [_make_device_object(each) for each in found]},
    }


def _make_device_object(each: DeviceMemory) -> dict[str, Any]:
    """Return the JSON object of a GPU's memory; None is unknown. At most _MOST_NAMED of the largest allocations are in
    it, and all places, largest first."""
    known = dict(zip(TABLES["memory"], _numbers(each), strict=True))
    alive = each.alive or ()
    return known | {
        "kind": "timeline" if each.pools is None else "snapshot",
        "at_peak_bytes": each.at_peak,
        "alive": None if each.alive is None else len(alive),
        "largest": None if each.alive is None else [_allocation(one) for one in alive[:_MOST_NAMED]],
        "places": None if each.alive is None else [
            {"place": name, "bytes": bytes_of(own), "count": len(own), "largest_bytes": own[0].size}
            for name, own in places(alive).items()
        ],
        "segments": None if each.pools is None else [
            dict(zip(TABLES["segments"][3:], pool, strict=True)) for pool in each.pools
        ],
        "out_of_memory": [
            {"time_ns": one.at_ns, "asked_bytes": one.asked, "requested_bytes": one.requested,
             "reserved_bytes": one.reserved, "driver_free_bytes": one.free, "place": name_of(one.stack),
             "fit": _fit_object(one.fit)}
            for one in each.failures
        ],
        "fit": None if each.fit is None else _fit_object(each.fit),
    }  # fmt: skip


def _allocation(one: MemoryAllocation) -> dict[str, Any]:
    stack = [frame_text(frame) for frame in one.stack[:_MOST_FRAMES]]
    return {"bytes": one.size, "place": one.place, "stack": stack}


def _fit_object(fit: Fit) -> dict[str, Any]:
    largest = [{"bytes": one.size, "place": one.place} for one in fit.largest[:_MOST_NAMED]]
    return {"limit_bytes": fit.limit, "over_bytes": fit.over, "n_largest": len(fit.largest), "largest": largest}


def _numbers(each: DeviceMemory) -> tuple[Any, ...]:
    return (
        each.path, each.rank, each.device, each.peak_bytes, each.peak_ns, each.reserved_at_peak, each.requested,
        each.total("allocated"), each.total("reserved"), each.total("free"), each.largest_free, each.steps,
    )  # fmt: skip


def memory_rows(name: str, found: Sequence[DeviceMemory]) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a table in TABLES."""
    for each in found:
        head = (each.path, each.rank, each.device)
        if name == "memory":
            yield _numbers(each)
        elif name == "allocations":
            yield from ((*head, one.size, one.place) for one in each.alive or ())
        elif name == "segments":
            yield from ((*head, *pool) for pool in each.pools or ())
        else:
            for at, time in enumerate(each.times.tolist()):
                yield from ((*head, time, *pair) for pair in zip(each.series, each.sizes[at].tolist(), strict=True))
