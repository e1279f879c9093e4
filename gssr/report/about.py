"""About a run: what a recording says of itself and its GPUs, and what the page says of it.

What the page says about the job and its data: the verdicts with their evidence and advice, then the data's flaws.
"""

import shlex
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import groupby

from gssr.model.results import Analysis, GpuSummary, Verdict
from gssr.render.cells import clean, wrap
from gssr.render.clock import duration
from gssr.render.glyphs import Glyphs, glyph_set
from gssr.render.roles import Row
from gssr.render.scale import UNKNOWN, count, fixed
from gssr.render.table import TableColumn, table
from gssr.render.verdicts import abstention_rows, is_told_whole, verdict_rows
from gssr.report.page import PageOptions, section
from gssr.store.format.rows import ranges

_LABEL = 13
_DROPPED = (0, 1, 2, 0, 0, 4, 3)
"""Which columns of processes give way first on a narrow page."""
_NODES = {"low": 4, "medium": 16, "high": 100_000}


def metadata(analysis: Analysis, options: PageOptions) -> list[Row]:
    """Draw the part of the page that shows every field of the run, the window looked at, the GPUs by node, and the
    processes if there are any."""
    from gssr.report.content import process_table

    width, marks = options.width, glyph_set(options.ascii)
    rows = section("Metadata", width, marks)
    for name, value in _fields(analysis):
        rows += _field(name, value, width)
    rows += _gpus(analysis, options, marks)
    found = process_table(analysis)
    if found is not None:
        columns = [
            TableColumn(
                title.lower() if at else "on the GPUs", "left" if at < found.n_text else "right", drop=_DROPPED[at]
            )
            for at, title in enumerate(found.head)
        ]
        rows += [(), *table(columns, found.rows, width, marks)]
    return rows


def _field(name: str, value: str, width: int) -> list[Row]:
    if width < 2 * _LABEL:
        return wrap(f"{name}: {value}", width)
    return wrap(value, width, f"{name:<{_LABEL}}", " " * _LABEL)


_OF_ARRAYS = ("array_job_id", "array_task_id")
"""Shown together, and only of a job that is a task of an array."""


def _fields(analysis: Analysis) -> list[tuple[str, str]]:
    """List every field of the run as name and text, then window, what was left out, and backend; UNKNOWN for None."""
    run, window = analysis.run, analysis.window
    shown = {
        "command": shlex.join(run.command) or None,
        "started_at": _date(run.started_at),
        "ended_at": _date(run.ended_at),
        "state": analysis.state if analysis.state == run.state else f"{analysis.state} (stored: {run.state})",
    }
    fields = [
        (name, UNKNOWN if (value := shown.get(name, getattr(run, name))) is None else str(value))
        for name in run._fields
        if name not in _OF_ARRAYS
    ]
    if run.array_job_id is not None:
        fields.append(("array task", run.shown_job or UNKNOWN))
    part = "the whole run" if window.whole else "a part of the run"
    fields.append(("window", f"{_date(window.start)} to {_date(window.end)}: {duration(window.duration)}, {part}"))
    left_out = f"{fixed(window.leading, 1)} s leading, {fixed(window.trailing, 1)} s trailing"
    fields.append(("left out", left_out))
    fields.append(("backend", _backend(analysis)))
    return fields


def _backend(analysis: Analysis) -> str:
    """Return the backend as the first rank that opened it describes it, with why no other was taken and what each
    costs; only its name if nothing describes it."""
    name = analysis.backend or UNKNOWN
    told = (event.message for event in analysis.events if event.kind == "backend")
    return next((clean(message) for message in told if message.startswith(f"{name}: ")), name)


def _date(seconds: float | None) -> str | None:
    """Write unix seconds as a date in UTC, so that a page reads the same everywhere; None for None."""
    if seconds is None:
        return None
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S} UTC ({seconds:.3f})"


def _gpus(analysis: Analysis, options: PageOptions, marks: Glyphs) -> list[Row]:
    """List the GPUs, a line for each node, as many nodes as the verbosity allows; at high verbosity a line for each
    GPU beneath."""
    nodes = [(node, list(gpus)) for node, gpus in groupby(analysis.gpus, key=lambda gpu: gpu.node)]
    if not nodes:
        return _field("GPUs", "none", options.width)
    rows: list[Row] = []
    most = _NODES[options.verbosity]
    for i, (node, gpus) in enumerate(nodes[:most]):
        ranks = ranges(gpu.rank for gpu in gpus if gpu.rank is not None)
        models = ", ".join(sorted({gpu.name or "unknown model" for gpu in gpus}))
        indices = ranges(gpu.device_index for gpu in gpus if gpu.device_index is not None)
        text = f"{node or UNKNOWN}: {indices} ({models})" + (f", ranks {ranks}" if ranks else "")
        rows += _field("GPUs" if i == 0 else "", text, options.width)
        if options.verbosity == "high":
            for gpu in gpus:
                rows += _field("", f"  {gpu.place} key {gpu.gpu} {_rank(gpu)}{gpu.uuid or UNKNOWN}", options.width)
    if len(nodes) > most:
        rows += _field("", f"{marks.ellipsis} and {len(nodes) - most} more nodes", options.width)
    return rows


def _rank(gpu: GpuSummary) -> str:
    return "" if gpu.rank is None else f"rank {gpu.rank} "


MOST = 6
"""Verdicts shown unless all are asked for: the worst."""


def notes(analysis: Analysis, options: PageOptions) -> list[Row]:
    """Draw the verdicts by severity, then one bullet for each sentence about the data; no rows if there are none.

    At low verbosity verdicts are titles alone; at high verbosity all are shown, not MOST, and so are the rules that
    could not be judged.
    """
    return note_rows(analysis.judgement.verdicts, analysis.judgement.abstentions, analysis.notes, options)


def note_rows(
    verdicts: Sequence[Verdict], abstentions: Mapping[str, str], sentences: Sequence[str], options: PageOptions
) -> list[Row]:
    """Draw notes as ``notes`` does, from verdicts, abstentions and sentences of whatever was judged."""
    width, marks, high = options.width, glyph_set(options.ascii), options.verbosity == "high"
    abstained = abstentions if high else {}
    if not (verdicts or sentences or abstained):
        return []
    rows = section("Notes", width, marks)
    shown = verdicts if high else verdicts[:MOST]
    for verdict in shown:
        told = options.verbosity != "low" and (high or is_told_whole(verdict))
        rows += verdict_rows(verdict, width, told, with_limits=high)
    rest = len(verdicts) - len(shown)
    if rest:
        rows += wrap(f"{count(rest, 'more note')} with -v high", width, "   ", "   ", "dim")
    for sentence in sentences:
        rows += wrap(sentence, width, f"{marks.bullet}  ", "   ")
    return rows + abstention_rows(abstained, width, marks.bullet)
