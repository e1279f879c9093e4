"""One A4 page for a computing-time proposal: how well the GPUs were used, where their time went, how runs on more GPUs
compare, and the energy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import BinaryIO

from gssr.gpu_vendors import in_its_words
from gssr.model.compare.scaling import ScalingKind, efficiency_of, scaling_runs, speedup_of
from gssr.model.results import Analysis
from gssr.render.cells import clean, fit
from gssr.render.clock import duration
from gssr.render.scale import UNKNOWN, count, fixed, metric_of, percent
from gssr.report.breakdown import breakdown_remarks
from gssr.report.breakdown_drawing import breakdown_drawing
from gssr.report.content import ContentTable, along_time, facts, title
from gssr.report.page import drawn
from gssr.report.pdf.pdf import write_figures, write_table
from gssr.report.pdf.pictures import draw_bar_and_legend, panel_of
from gssr.report.pdf.sheet import BODY, DIM, MARGIN, SMALL, WIDE, Font, Sheet, write_pdf
from gssr.report.png.figure import FAINT, INK
from gssr.report.png.png import band
from gssr.score import CAVEAT

MOST_LOSSES, _COMMAND_LINES = 3, 2
"""What one page has room for beside the rest: losses, lines of the command."""
_FACTS = ("State", "GPUs", "Started", "Duration", "Part", "Samples", "Command")
_LAYOUTS = ((1.3, 8), (0.9, 8), (0.9, 5), (0.7, 2))
"""How tall the picture over time may be, in inches, and how many runs the table of the scaling may have. The first layout
with which all is on one page is taken: where the GPU time went takes more room in some runs than in others."""
_OVER_TIME_AROUND = 0.55
"""Inches that the labels around the picture over time take."""
_JOULES_PER_KWH = 3.6e6
_WORK = {
    "strong": "Strong scaling: all runs did the same work. The efficiency is the GPU time of the run on the fewest GPUs, "
    "divided by that of each run.",
    "weak": "Weak scaling: each GPU had the same work in all runs. The efficiency is the duration of the run on the fewest "
    "GPUs, divided by that of each run.",
    None: "No efficiency is given, as the recordings do not say what work the runs did: --for proposal:strong if it was the "
    "same in all, --for proposal:weak if it was the same for each GPU.",
}


def proposal_pdf(analyses: Sequence[Analysis], file: BinaryIO, kind: ScalingKind | None = None) -> None:
    """Write the page as a PDF to ``file``; the same analyses give the same bytes. Raises OSError. ``kind``: of the
    scaling, None if nobody said it.

    The run on the most GPUs that completed (of several such, the last) stands for what is proposed, and the others are for
    the scaling. If none completed, it is the one on the most GPUs.
    """
    rated = [(run.state == "completed", len(run.gpus), number) for number, run in enumerate(analyses)]
    shown = analyses[max(rated)[-1]]
    foot = fit(f"{title(shown)}, {shown.run.run_id}", 80, "…")
    runs = scaling_runs(analyses)
    sheets = ((foot, _on_one_page(run, runs, kind)) for run in (shown,))  # made in the style of the PDF
    write_pdf(f"GPU usage: {title(shown)}", sheets, file)


def _on_one_page(analysis: Analysis, runs: Sequence[Analysis], kind: ScalingKind | None) -> Sheet:
    """Write the page by the first of the layouts with which it is one page, or by the last."""
    for over_time, most in _LAYOUTS:
        sheet = _written(analysis, runs, kind, over_time, most)
        if len(sheet.figures) == 1:
            break
    return sheet


@in_its_words
def _written(
    analysis: Analysis, runs: Sequence[Analysis], kind: ScalingKind | None, over_time: float, most: int
) -> Sheet:
    """Write the page about one run, with a scaling series if there is one.

    ``over_time`` and ``most``: a layout.
    """
    sheet = Sheet()
    sheet.write("GPU usage, for a computing-time proposal", Font(9.0, FAINT, bold=True))
    sheet.write(title(analysis), Font(17.0, INK, bold=True), most=1)
    sheet.y += 0.06
    if runs:
        sheet.write(f"Of {len(runs)} runs that completed, this is the one on the most GPUs.", DIM)
    for label, value in facts(analysis):
        if label in _FACTS:
            sheet.put(label, DIM, MARGIN, sheet.y)
            sheet.write(value, SMALL, indent=0.85, most=_COMMAND_LINES)
    write_figures(sheet, analysis)
    sheet.write(f"The score is {CAVEAT}.", DIM)
    _breakdown(sheet, analysis)
    if drawn(analysis):
        name, *_ = along_time(analysis)
        sheet.heading(
            f"{metric_of(name).label} over time: mean, and lowest to highest GPU shaded", over_time + _OVER_TIME_AROUND
        )
        panel = panel_of(sheet, MARGIN + 0.35, WIDE - MARGIN, sheet.y + 0.12, over_time)
        band(panel, analysis, analysis.series[name], legend=False)
        panel.set_title("")
        sheet.y += over_time + _OVER_TIME_AROUND
    if runs:
        _scaling(sheet, runs, kind, analysis, most)
    return sheet


def _breakdown(sheet: Sheet, analysis: Analysis) -> None:
    """Write where the GPU time went, and the largest losses with what they cost; nothing if it was not accounted for."""
    drawing, breakdown = breakdown_drawing(analysis), analysis.judgement.breakdown
    if drawing is None or breakdown is None:
        return
    sheet.heading("Where does the GPU time go?", 1.0)
    sheet.write(drawing.headline, BODY)
    remarks = [*breakdown_remarks(breakdown), "times are GPU time: a minute of four GPUs is 4 min"]
    draw_bar_and_legend(sheet, drawing, remarks)
    losses = [verdict for verdict in analysis.judgement.verdicts if verdict.severity != "info"]
    for verdict in losses[:MOST_LOSSES]:
        cost = f" (about {float(f'{verdict.gpu_hours:.2g}'):,.10g} GPU-hours)" if verdict.gpu_hours else ""
        sheet.write(f"•  {clean(verdict.title)}{cost}", SMALL, most=2)
    if len(losses) > MOST_LOSSES:
        sheet.write(f"and {count(len(losses) - MOST_LOSSES, 'more')}: see gssr analyze", DIM)


def _scaling(sheet: Sheet, runs: Sequence[Analysis], kind: ScalingKind | None, shown: Analysis, most: int) -> None:
    """Write a table of how runs on different numbers of GPUs compare: the run that all are compared with, the one that the
    page is about, and of the others those on the most GPUs, ``most`` runs in all."""
    smallest, *larger = runs
    others = [run for run in larger if run is not shown]
    left_out = others[: max(len(runs) - most, 0)]
    kept = [run for run in runs if not any(run is other for other in left_out)]
    columns = {
        "GPUs": [str(len(run.gpus)) for run in kept],
        "nodes": [str(run.n_nodes) for run in kept],
        "duration": [duration(run.window.duration) for run in kept],
        "GPU-hours": [fixed(run.gpu_hours, 3) for run in kept],
        "energy, kWh": [_kwh(run.energy_j) for run in kept],
        "score": [fixed(run.score, 3, UNKNOWN) for run in kept],
    }
    if kind == "strong":
        columns["speedup"] = [fixed(speedup_of(run, smallest), 2) for run in kept]
    if kind is not None:
        columns["efficiency"] = [percent(efficiency_of(run, smallest, kind)) for run in kept]
    sheet.heading("Scaling", 0.8)
    write_table(sheet, "", ContentTable(tuple(columns), tuple(zip(*columns.values(), strict=True)), 0))
    if left_out:
        sheet.write(f"Left out: {count(len(left_out), 'more run')}.", DIM)
    sheet.write(_WORK[kind], DIM)


def _kwh(joules: float | None) -> str:
    return UNKNOWN if joules is None else fixed(joules / _JOULES_PER_KWH, 3)
