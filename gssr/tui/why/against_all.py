"""The numbers behind a verdict: its GPUs against all of them, metric by metric; or a time against the run."""

from gssr.metrics import THROTTLES
from gssr.model.compare.contrast import Contrast, contrast, line, measured
from gssr.model.live.live_result import Result
from gssr.model.results import Verdict
from gssr.model.verdicts.words import named
from gssr.render.cells import clean, clip
from gssr.render.roles import Row
from gssr.render.scale import count
from gssr.report.live.marked_gpus import gpus_of_verdict
from gssr.report.live.metric_pairs import chosen_metrics, metric_row, sizes_for, titles
from gssr.report.live.metric_scales import full_scale
from gssr.report.live.times_of_run import at_text, in_part, part_text, seconds_text, window_text
from gssr.tui.shared.panel import RowsPanel
from gssr.tui.view import View

_SIDES = {"gpus": ("these", "all"), "moment": ("moment", "run"), "window": ("window", "run")}


def verdict_of(result: Result, view: View) -> Verdict | None:
    """Return the verdict that the view is about (``view.note``, held within those there are), or None if there is
    none."""
    verdicts = () if result.judgement is None else result.judgement.verdicts
    return verdicts[min(max(view.note, 0), len(verdicts) - 1)] if verdicts else None


def part_of(result: Result, view: View) -> tuple[int, ...]:
    """Return the positions of the GPUs that are compared with all: the selected ones, else those of the verdict.

    Empty if nothing is selected and the verdict names none or all, or a moment was chosen.
    """
    verdict = verdict_of(result, view)
    if view.selection or verdict is None or view.cursor is not None:
        return view.selection
    part = gpus_of_verdict(result, verdict)
    return part if len(part) < result.n_gpus else ()


class AgainstAll(RowsPanel):
    """What the verdict rests on comes first, then what differs most."""

    def show(self, result: Result, view: View) -> None:
        """Draw from this result from now on, and name in the border what is shown."""
        super().show(result, view)
        shown = result.of_gpus or result
        part = part_of(shown, view)
        title = _title(shown, view, found := contrast(shown, part, view.cursor), part)
        self.border_title = in_part(title, part_text(shown) if found.kind == "gpus" else "")

    def rows(self, result: Result, width: int, height: int) -> list[Row]:
        """Draw the table, as many metrics as fit: first those that the verdict rests on, then those that differ most."""
        result, view = result.of_gpus or result, self.view
        found = contrast(result, part_of(result, view), view.cursor)
        known = measured(found)
        verdict = verdict_of(result, view)
        rests_on = [each.metric for each in verdict.evidence if each.metric in known] if verdict is not None else []
        every = [
            line(name, found.own.get(name), found.job.get(name), 1.0 if name in THROTTLES else full_scale(result, name))
            for name in dict.fromkeys((*rests_on, *known))
        ]
        n_first = min(len(set(rests_on)), max(height - 1, 0))
        lines = [*every[:n_first], *chosen_metrics(every[n_first:], height - 1 - n_first)]
        sizes = sizes_for(width)
        rows = [titles(*_SIDES[found.kind], sizes)]
        rows += [metric_row(own, sizes, self.glyphs) for own in lines]
        return [clip(row, width) for row in rows[:height]]


def _title(result: Result, view: View, found: Contrast, part: tuple[int, ...]) -> str:
    """Say what is compared with what: GPUs or a moment or window with the run; "no GPU with samples" if there is
    nothing."""
    rest = f"all {count(result.n_gpus, result.noun)}" if result.n_gpus != 1 else "itself"
    if found.kind == "moment":
        grid = result.grid
        start = grid.start + grid.column(view.cursor or result.first) * grid.width
        return f"{at_text(result, max(start, result.first))} and {seconds_text(grid.width)} on, against the whole run"
    if found.kind == "window":
        return f"{window_text(result)}, against the whole run"
    if part:
        return (
            f"{clean(view.selected if view.selection and view.selected else named(result.gpus, part))} against {rest}"
        )
    if len(found.gpus):
        return f"lowest {result.noun} {clean(result.place(int(found.gpus[0])))} against {rest}"
    return "no GPU with samples"
