"""The GPU under the cursor: how it differs, all its metrics beside the job's, its course, its processes and verdicts."""

import numpy as np

from gssr.model.live.live_result import Result
from gssr.render.cells import clean, fit, side_by_side, wrap
from gssr.render.clock import duration
from gssr.render.roles import Row, Span
from gssr.render.scale import NONE, difference, metric_of, percent, quantity, unit_of
from gssr.report.live.band_chart import metric_band
from gssr.report.live.gpu_filter import processes_on
from gssr.report.live.marked_gpus import culprit_mark, gpus_of_verdict, legend_of_culprits
from gssr.report.live.metric_scales import full_scale, shown_metrics
from gssr.report.live.times_of_run import seconds_text
from gssr.tui.shared.panel import RowsPanel

_VALUE = 11
_MOST_CHART, _LEAST_CHART = 12, 4
_SIDE_BY_SIDE = 76


class Inspector(RowsPanel):
    """All about one GPU."""

    gpu = -1

    def inspect(self, gpu: int) -> None:
        """Show this GPU (position; -1 for none) from now on."""
        if gpu != self.gpu:
            self.gpu = gpu
            if self.result is not None:
                self.name_border(self.result)
            self.refresh()

    def name_border(self, result: Result) -> None:
        """Name the GPU, and what it is sold as."""
        is_there = 0 <= self.gpu < result.n_gpus
        self.border_title = clean(result.place(self.gpu)) if is_there else ""
        self.border_subtitle = (
            clean(result.gpus[self.gpu].name or "") if is_there and self.gpu < len(result.gpus) else ""
        )

    def rows(self, result: Result, width: int, height: int) -> list[Row]:
        """Draw all about the GPU: how it differs, its metrics, its chart, verdicts and
        processes. On a wide panel of few lines verdicts and processes are left out, and metrics and chart stand side
        by side. No rows if there is no such GPU."""
        gpu = self.gpu
        if not 0 <= gpu < result.n_gpus:
            return []
        rows = self._unlike(result, gpu, width)
        if width >= _SIDE_BY_SIDE and height < 20:
            left = self._metrics(result, gpu, 34, height - len(rows))
            right = self._chart(result, gpu, width - 36, max(height - len(rows), 3))
            return [*rows, *side_by_side(left, right, 36)]
        verdicts, processes = self._verdicts(result, gpu, width), self._processes(result, gpu, width)
        chart = min(max(height // 4, _LEAST_CHART), _MOST_CHART) if height >= 14 else 0
        room = max(height - len(rows) - chart - len(verdicts) - len(processes), 3)
        rows += self._metrics(result, gpu, width, room)
        if chart:
            rows += [(), *self._chart(result, gpu, width, chart)]
        return [*rows, *verdicts, *processes]

    def _unlike(self, result: Result, gpu: int, width: int) -> list[Row]:
        """Say why the GPU at position ``gpu`` is singled out, how far its mean is from the median, and what is missing of
        its samples; no rows if there is nothing to say."""
        means = result.window.per_gpu(result.grid.metric)
        metric = metric_of(result.grid.metric)
        mean, median = float(means[gpu]), float(np.nanmedian(means)) if np.isfinite(means).any() else float("nan")
        texts = []
        if mean == mean and result.n_gpus > 1:
            apart = abs(mean - median)
            side = "below" if mean < median else "above"
            texts.append(
                f"{metric.label} {difference(apart, metric)} {side} the median"
                if apart * unit_of(metric).factor >= 1
                else f"{metric.label} at the median"
            )
        texts += gap_texts(result, gpu)
        rows = wrap("; ".join(texts), width, role="value") if texts else []
        if gpu in result.singled_out:
            mark = culprit_mark(self.glyphs.levels.isascii())
            rows = [*wrap(legend_of_culprits(result), width, f"{mark} ", "  ", "bad"), *rows]
        return rows

    def _metrics(self, result: Result, gpu: int, width: int, height: int) -> list[Row]:
        """Draw the newest value of each metric of the GPU at position ``gpu``, beside the median of all if there is
        room for both.

        A value that differs by more than a tenth of the full scale is marked.
        """
        names = shown_metrics(result)
        two = width >= 40
        size = max(min(width - _VALUE * (1 + two), 24), 6)
        head: Row = (Span(f"{'':<{size}}{'this':>{_VALUE}}" + f"{'median':>{_VALUE}}" * two, "dim"),)
        rows: list[Row] = [head]
        for name in names[: max(height - 1, 0)]:
            metric = metric_of(name)
            values = result.lately(name)
            own = float(values[gpu])
            median = float(np.nanmedian(values)) if np.isfinite(values).any() else float("nan")
            full = full_scale(result, name)
            differs = abs(own - median) > 0.1 * full if own == own and median == median else False
            label = metric.label if len(metric.label) < size else metric.short
            row: Row = (
                Span(f"{fit(label, size - 1, self.glyphs.ellipsis):<{size}}", "dim"),
                Span(f"{quantity(own, metric, NONE):>{_VALUE}}", "outlier" if differs else "value"),
            )
            rows.append((*row, Span(f"{quantity(median, metric, NONE):>{_VALUE}}", "dim")) if two else row)
        return rows

    def _chart(self, result: Result, gpu: int, width: int, height: int) -> list[Row]:
        """Draw the GPU's values over time, over the band from the lowest to the highest GPU of the job."""
        own, space = result.grid.values[gpu], result.space
        return metric_band(result, own, space.low, space.high, width, height, self.glyphs)

    def _verdicts(self, result: Result, gpu: int, width: int) -> list[Row]:
        """List the titles of the verdicts that are about the GPU at position ``gpu``, below an empty line; no rows if
        there are none."""
        found = result.judgement.verdicts if result.judgement is not None else ()
        rows: list[Row] = []
        for verdict in found:
            if gpu in gpus_of_verdict(result, verdict):
                role = "bad" if verdict.severity == "critical" else "outlier"
                rows += wrap(clean(verdict.title), width, "* " if self.glyphs.levels.isascii() else "▲ ", "  ", role)  # type: ignore[arg-type]
        return [(), *rows] if rows else []

    def _processes(self, result: Result, gpu: int, width: int) -> list[Row]:
        """List the processes on the GPU at position ``gpu`` with user, memory and SM share, below an empty line.

        Says that there is none only if that is known; no rows if nothing is known.
        """
        found = processes_on(result, gpu)
        if not found:
            return [(), (Span("no process on it", "dim"),)] if gpu in result.without_process else []
        rows: list[Row] = [
            (),
            (Span(f"{'process':<{max(width - 34, 8)}} {'user':<10} {'memory':>10} {'SM':>8}", "dim"),),
        ]
        for each in found:
            memory = NONE if each.memory_used is None else quantity(each.memory_used, metric_of("memory_used"))
            sm = NONE if each.sm_utilization is None else percent(each.sm_utilization)
            name = fit(clean(f"{each.pid or NONE} {each.name or ''}"), max(width - 34, 8), self.glyphs.ellipsis)
            rows.append(
                (Span(f"{name:<{max(width - 34, 8)}} {clean(each.user or NONE)[:10]:<10} {memory:>10} {sm:>8}"),)
            )
        return rows


def gap_texts(result: Result, gpu: int) -> list[str]:
    """Say how old the last sample of the GPU at position ``gpu`` is, and how much time has no samples; empty if
    neither is worth saying."""
    texts: list[str] = []
    age, missing = float(result.age[gpu]), float(result.missing[gpu])
    if np.isinf(age):
        return ["no sample in this window"]
    if age > 0:
        texts.append(f"last sample {duration(age) if age >= 60 else f'{age:.0f} s'} old")
    if missing > 0:
        texts.append(f"at least {seconds_text(missing)} without samples")
    return texts
