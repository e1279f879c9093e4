"""What ``gssr fleet --watch`` prints: the runs that go on, and the GPUs that they hold idle now; as a page or as JSON."""

import json
from collections.abc import Sequence
from typing import Any

from gssr.model.fleet import fleet
from gssr.model.fleet.figures import RUN_COLUMNS
from gssr.model.fleet.held_idle import HELD_IDLE_SECONDS, Growing, GrowingRun
from gssr.render.cells import clean, fit, flow, wrap
from gssr.render.clock import duration
from gssr.render.glyphs import glyph_set
from gssr.render.roles import Row, Span
from gssr.render.scale import count
from gssr.render.table import Cell, TableColumn, table
from gssr.report.json_document import number
from gssr.report.page import section

SCHEMA = "gssr.fleet-watch/1"
_MOST_NODES = 3


def watch_page(places: Sequence[str], found: Growing, most: int, width: int, ascii_only: bool) -> list[Row]:
    """Draw the page, at most ``width`` cells wide but for the closing line: a line for each of the first ``most`` runs
    that hold GPUs idle. ``places``: what was named on the command line."""
    marks = glyph_set(ascii_only)
    held = [own for own in found.runs if own.idle]
    what = [count(found.n_recordings, "recording"), f"{count(len(found.runs), 'run')} going on", _gpus(found)]
    page = flow([(Span("GSSR fleet", "title"),), (Span(clean(", ".join(places)), "value"),)], width, marks.ellipsis)
    page += flow([(Span(word),) for word in what], width, marks.ellipsis, separator=", ")
    if held:
        about = f"for {duration(HELD_IDLE_SECONDS)} or longer"
        if len(held) > most:
            about += f", the first {most} of {len(held):,}"
        columns = [
            TableColumn("job", keep="end"), TableColumn("user", cut=True), TableColumn("name", drop=3),
            TableColumn("idle", "right"), TableColumn("GPUs", "right", drop=2), TableColumn("for", "right"),
            TableColumn("GPU-h", "right", drop=1), TableColumn("where", drop=4),
        ]  # fmt: skip
        rows: list[list[Cell]] = []
        for own in held[:most]:
            longest = max(seconds for _, seconds in own.idle)
            rows.append([
                clean(own.run.shown_job or own.run.run_id), fit(own.run.user or "-", max(width // 7, 8), marks.ellipsis),
                fit(fleet.name_of(own.run) or "-", max(width // 5, 8), marks.ellipsis),
                (Span(f"{len(own.idle):,}", "value"),), f"{own.run.n_gpus:,}", duration(longest),
                f"{own.idle_gpu_hours:,.2f}", _where(own),
            ])  # fmt: skip
        page += section("Held idle now", width, marks, about)
        page += table(columns, rows, width, marks, gap=2)
    if found.unreadable:
        page += section("Notes", width, marks)
        sentence = f"{count(len(found.unreadable), 'recording')} could not be read completely:"
        page += wrap(sentence, width, f"{marks.bullet} ", "  ")
        for sentence in found.unreadable:
            page += wrap(sentence, width, "  ", "    ")
    return [*page, (), (Span(closing_line(found), "value"),)]


def closing_line(found: Growing) -> str:
    """Return the line for programs: how many runs go on, their GPUs, and those that are held idle now."""
    return (
        f"GSSR fleet running={len(found.runs)} gpus={sum(own.run.n_gpus for own in found.runs)} "
        f"idle_gpus={sum(len(own.idle) for own in found.runs)} "
        f"idle_gpu_hours={sum(own.idle_gpu_hours for own in found.runs):.3f} unreadable={len(found.unreadable)}"
    )


def watch_json(found: Growing, most: int | None) -> str:
    """Write one object as ASCII text with a newline at its end: the first ``most`` runs that go on (None: all)."""
    document = {
        "schema": SCHEMA,
        "held_idle_s": HELD_IDLE_SECONDS,
        "n_recordings": found.n_recordings,
        "runs": [_make_run_object(own) for own in found.runs[:most]],
        "unreadable": list(found.unreadable),
    }
    return json.dumps(document, indent=1, allow_nan=False) + "\n"


def _make_run_object(own: GrowingRun) -> dict[str, Any]:
    """Return the JSON object of a run that goes on: the columns of a run, and its GPUs that are held idle. None is
    unknown."""
    values = {column.name: getattr(own.run, column.name) for column in RUN_COLUMNS}
    return {name: number(value) if isinstance(value, float) else value for name, value in values.items()} | {
        "held_idle_gpus": [
            {"gpu": gpu.gpu, "node": gpu.node, "device_index": gpu.device_index, "uuid": gpu.uuid,
             "idle_s": number(seconds)}
            for gpu, seconds in own.idle
        ],
        "held_idle_gpu_hours": number(own.idle_gpu_hours),
    }  # fmt: skip


def _gpus(found: Growing) -> str:
    n_idle = sum(len(own.idle) for own in found.runs)
    return f"{count(sum(own.run.n_gpus for own in found.runs), 'GPU')}, {n_idle:,} of them held idle"


def _where(own: GrowingRun) -> str:
    """List the idle GPUs as ``node:0,1``, those of the first nodes, with how many other nodes there are."""
    nodes: dict[str, list[str]] = {}
    for gpu in sorted((gpu for gpu, _ in own.idle), key=lambda gpu: gpu.gpu):
        index = "?" if gpu.device_index is None else str(gpu.device_index)
        nodes.setdefault(gpu.node or "?", []).append(index)
    shown = [f"{clean(node)}:{','.join(indices)}" for node, indices in list(nodes.items())[:_MOST_NODES]]
    return " ".join(shown) + (
        f" and {count(len(nodes) - _MOST_NODES, 'node')} more" if len(nodes) > _MOST_NODES else ""
    )
