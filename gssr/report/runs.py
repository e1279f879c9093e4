"""Many runs of one file as a table: what there is, and how each of them was."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from gssr.model.results import Analysis
from gssr.render.cells import clean, fit, flow
from gssr.render.clock import duration
from gssr.render.glyphs import glyphs
from gssr.render.roles import Row, Span
from gssr.render.scale import UNKNOWN, fixed, percent
from gssr.render.table import Column, table
from gssr.report.options import Options

MOST_PAGES = 20
"""Of a file with more runs the page is a table of them."""
_NAME = 10
_COLUMNS = (
    Column("run", align="right"),
    Column("id", drop=2),
    Column("label", drop=3),
    Column("state"),
    Column("started", drop=4),
    Column("lasted", align="right", drop=5),
    Column("GPUs", align="right"),
    Column("score", align="right"),
    Column("imbalance", align="right", drop=1),
)


class RunLine(NamedTuple):
    """One run: its ``number`` in the file, from 1; ``started`` is a unix time, ``lasted`` in s."""

    number: int
    run_id: str
    label: str | None
    state: str
    started: float | None
    lasted: float
    n_gpus: int
    score: float | None
    imbalance: float | None


def run_line(number: int, analysis: Analysis) -> RunLine:
    """What the table says of a run."""
    run = analysis.run
    return RunLine(
        number, run.run_id, run.label, analysis.state, run.started_at, analysis.window.duration, len(analysis.gpus),
        analysis.score, analysis.imbalance,
    )  # fmt: skip


def runs_page(name: str, lines: Sequence[RunLine], options: Options) -> list[Row]:
    """The table of the runs of the recording ``name``, at most ``options.width`` cells wide but for the closing line, which
    says how one of them is shown."""
    marks = glyphs(options.ascii)

    def short(text: str | None) -> str:
        return fit(clean(text or ""), _NAME, marks.ellipsis)

    rows = [
        (
            str(line.number), short(line.run_id), short(line.label), line.state, _moment(line.started),
            duration(line.lasted), f"{line.n_gpus}", fixed(line.score, 3, UNKNOWN),
            percent(line.imbalance) if line.n_gpus > 1 else "",
        )
        for line in lines
    ]  # fmt: skip
    head = [(Span("GSSR", "title"),), (Span(clean(name), "value"),), (Span(f"{len(lines):,} runs"),)]
    last = f"{len(lines):,} runs; one of them: gssr analyze --run NUMBER {clean(name)}"
    return [
        *flow([*head], options.width, marks.ellipsis), (), *table(_COLUMNS, rows, options.width, marks), (),
        (Span(last, "value"),),
    ]  # fmt: skip


def _moment(time: float | None) -> str:
    try:
        return "" if time is None else f"{datetime.fromtimestamp(time):%m-%d %H:%M}"
    except (ValueError, OverflowError, OSError):
        return UNKNOWN
