"""What a query asks of a recording: columns of time, and means over its window, its last minute and its cursor."""

import math
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np

from gssr.arrays import Floats, Ints
from gssr.metrics import DETECTION_METRICS, SCORE_INPUTS
from gssr.model.findings.notes import FINEST
from gssr.model.live.kept_answers import KeptAnswers
from gssr.model.live.live_result import RECENT_SECONDS, Query, Result
from gssr.model.live.run_totals import RunTotals
from gssr.model.results import Grid, HostUse, Means, Series, over_space
from gssr.model.statistics.grid import Columns, Spans, choose_width, column_of, columns_over, is_fine
from gssr.model.statistics.sources import host_use
from gssr.model.window import warm_up_and_tear_down
from gssr.score import score_of_means
from gssr.store.format.schema import LEVELS
from gssr.store.read.recording import RunReader
from gssr.store.read.time_window import Window

QUICK_CELLS = 50_000
"""More than so many (GPU, column) cells are not read for a quick look."""
MOST_CELLS = 2_000_000
"""No more (GPU, column) cells are counted, so that of very many GPUs there are fewer columns than were asked for."""
FEW_ROWS = 20_000
"""A minute that cuts buckets of 10 s is widened to them where more rows than these would have to be read."""
SELDOM_WIDTH = 2.0
"""Where the files are read seldom, columns are at least so wide, s: about two live blocks."""
SCORE_CELLS, LEAST_SCORES = 50_000, 8
"""The score's curve is made of no more (GPU, column) cells of each of its metrics, but has so many columns at least."""
HOST_BEGINS_SECONDS = 10.0
"""A run whose nodes have no samples so long after its first one has none: theirs come a second after the GPUs'."""
_KEPT = 2 + 2 * len(SCORE_INPUTS)
"""Grids: those of two screens and of two score curves."""
_KEPT_SECONDS = 60.0
"""New rows are counted into a grid as long as a screen has asked for it in the last so many seconds."""
_KEPT_MEANS = 24

Read = Callable[[], RunReader]
"""The run, to read from now."""


_Answer = TypeVar("_Answer")


class Answers:
    """Answers queries about one run, whose rows ``tally`` counts. ``interval``: sampling interval, s. ``seldom``:
    reading the files is expensive, so what was read of a growing run stays good until ``renew``."""

    def __init__(self, tally: RunTotals, interval: float, n_gpus: int, seldom: bool = False) -> None:
        self._tally = tally
        self._seldom = seldom
        self._interval = interval
        self._n_gpus = n_gpus
        self._grids: OrderedDict[tuple[str, float, int, int | None], Columns] = OrderedDict()
        self._asked: dict[Columns, float] = {}
        """When each grid was asked for last, monotonic s."""
        self._answers = KeptAnswers(_KEPT_MEANS, seldom=seldom)
        self._host: HostUse | None = None
        """What was read of the nodes last."""
        self._host_read = -math.inf
        """The newest sample of the GPUs when that was read, unix s."""

    def add(self, gpu: Ints, moment: Floats, values: dict[str, Floats]) -> None:
        """Count new rows: ``gpu`` positions, ``moment`` unix s, and values by metric, all [n]."""
        self._forget_grids()
        for columns in self._grids.values():
            columns.add(gpu, moment, values[columns.metric])

    def add_spans(self, spans: Spans) -> None:
        """Count what GPUs did between two looks, where their rows are not read one by one."""
        self._forget_grids()
        for columns in self._grids.values():
            row = self._tally.names.index(columns.metric)
            columns.add_spans(spans.gpu, spans.start, spans.end, spans.n[row], spans.total[row])

    def _forget_grids(self) -> None:
        """Forget the grids that nobody has asked for lately, and more than may be kept."""
        least = time.monotonic() - _KEPT_SECONDS
        newest = [key for key, columns in self._grids.items() if self._asked[columns] >= least][-_KEPT:]
        self._grids = OrderedDict((key, self._grids[key]) for key in newest)
        self._asked = {columns: self._asked[columns] for columns in self._grids.values()}

    def renew(self) -> None:
        """Read the files anew for everything asked from now on."""
        self._answers.renew()

    def show(self, frame: Result, read: Read, growing: bool, quick: bool) -> Result:
        """Return the frame with what its query asks for: columns of the metric, means, nodes and the score's curve.
        ``read`` returns the run as it is now; ``growing``: rows may still come; ``quick``: columns that take long to read
        may be coarser, and the first ones of a run whose files are expensive to read are left out (``refined`` is False
        then)."""
        query = frame.query
        tally = self._tally
        metric = query.metric if query.metric in tally.metrics else tally.best() or tally.metrics[0]
        newest = tally.last if query.end is None else min(query.end, tally.last)
        whole = query.span is None or (query.end is None and query.span >= newest - tally.first)
        span = query.span if query.span is not None and not whole else max(newest - tally.first, self._interval)
        n = self._at_most(query.columns)
        width = query.width or choose_width(
            span,
            max(n - 1, 1) if whole else n,
            self._interval,
            self._n_gpus,
            snug=query.end is None,
            least=SELDOM_WIDTH if self._seldom else 0.0,
        )
        refined = not (quick and width < LEVELS[-1] and self._n_gpus * span / width > QUICK_CELLS)
        width = width if refined else float(LEVELS[-1])
        put_off = quick and self._seldom and not self._grids
        if is_fine(width) and max(newest - n * width, tally.first) < tally.thinned:
            width = FINEST
        last = column_of(tally.last, width) if query.end is None else math.ceil(query.end / width - 1e-9) - 1
        if not whole:
            n = min(n, columns_over(span, width, query.end))
        first = column_of(tally.first, width) if whole else last - n + 1
        sliding = query.end is None and not whole
        columns = (
            Columns(metric, width, first, n, self._n_gpus)
            if put_off
            else self._columns([metric], width, first, n, sliding, read)[0]
        )
        grid, space = columns.grid(tally.settled() - 2 * self._interval if growing else math.inf)
        if last - first + 1 < n and query.end is not None:
            grid, space = _up_to(grid, space, max(last - first + 1, 0))
        end = min((last + 1) * width, math.nextafter(tally.last, math.inf))
        window = self._window(query, grid, end, read, growing)
        moment: dict[str, float | None] = {}
        if query.cursor is not None:
            at = grid.start + grid.column(query.cursor) * width
            means = self._means("moment", Window(at, at + width), query, read, growing and at + width > tally.last)
            moment = means.overall(np.array(query.gpus) if query.gpus else None)
        shown = Window(grid.start, grid.end)
        host = None if put_off else self._host_use(query, shown, read, growing)
        recent = self._recent_means(query, end, read, growing)
        active_from = self._active_from(query, read, growing) if query.activity and not put_off else None
        curve = self._score_curve(query, shown, whole, quick, read) if query.score_columns and not put_off else None
        return replace(
            frame, grid=grid, space=space, window=window, recent=recent, moment=moment, host=host,
            refined=refined and not put_off, active_from=active_from, score_curve=curve,
        )  # fmt: skip

    def _score_curve(self, query: Query, shown: Window, whole: bool, quick: bool, read: Read) -> Grid | None:
        """Compute the score of all GPUs together over the window shown, column by column, as a grid of one row. None if one
        of its metrics was not measured, or a quick look would have to read too much."""
        tally, span = self._tally, shown.seconds
        if not set(SCORE_INPUTS) <= set(tally.metrics):
            return None
        n = max(min(query.score_columns, SCORE_CELLS // max(self._n_gpus, 1)), LEAST_SCORES)
        snug = query.end is None
        width = max(choose_width(span, n, self._interval, self._n_gpus, snug=snug), query.width or 0.0)
        if quick and width < LEVELS[-1] and self._n_gpus * span / width * len(SCORE_INPUTS) > QUICK_CELLS:
            return None
        if is_fine(width) and max(shown.start, tally.first) < tally.thinned:
            width = FINEST
        sliding = query.end is None and not whole
        last = column_of(min(shown.end - width / 2, tally.last), width)
        first = column_of(max(shown.start, tally.first), width) if whole else last - n + 1
        columns = self._columns(SCORE_INPUTS, width, first, n, sliding, read)
        metrics = [each.grid(math.inf) for each in columns]
        means = [space.mean.tolist() for _, space in metrics]
        scores = [score_of_means(dict(zip(SCORE_INPUTS, column, strict=True))) for column in zip(*means, strict=True)]
        values = np.array([np.nan if score is None else score for score in scores], np.float64)
        return Grid("score", metrics[0][0].start, width, values[None])

    def _at_most(self, columns: int) -> int:
        """Return this number of columns, or the most that may be computed for so many GPUs; at least 1."""
        return max(min(columns, MOST_CELLS // max(self._n_gpus, 1)), 1)

    def _host_use(self, query: Query, shown: Window, read: Read, growing: bool) -> HostUse | None:
        """Return what the nodes and the workload did in the window that is shown, and keep it; None where nothing was
        recorded of them. Unless the query asks for it (``beside``) it is not read anew, whatever the window: it then
        only serves to tell which metrics there are."""
        tally = self._tally
        if query.beside or (self._host is None and self._host_read < tally.first + HOST_BEGINS_SECONDS):
            ends = growing and shown.end > tally.last
            if growing and not query.beside:  # the newest rows tell it as well
                shown = Window(tally.last - RECENT_SECONDS)
            host = self._kept("host", shown, query, ends, lambda: host_use(read(), shown))
            self._host, self._host_read = host, tally.last
        return self._host

    def _active_from(self, query: Query, read: Read, growing: bool) -> float | None:
        """Find when the warm-up of the run ends, unix s; the time of the first sample if there is none, or no metric
        tells it. ``read`` returns the run as it is now; ``growing``: rows may still come. The answer is kept."""
        tally = self._tally
        metric = tally.best()
        if metric not in DETECTION_METRICS:
            return tally.first

        def average_metric(part: Window, bins: int) -> Series:
            """Average the metric over the GPUs in about ``bins`` columns of time or fewer, as ``warm_up_and_tear_down``
            asks for it; in columns of FINEST seconds at least where samples were thinned."""
            least = FINEST if part.start < tally.thinned else 0.0
            width = choose_width(part.seconds, self._at_most(bins), self._interval, self._n_gpus, least=least)
            first = column_of(part.start, width)
            columns = Columns.read(read(), [metric], width, first, column_of(part.end, width) - first + 1)
            return columns[0].grid(math.inf)[1]

        def compute() -> float:
            return tally.first + warm_up_and_tear_down(average_metric, Window(tally.first, tally.last))[0]

        return self._kept("active_from", Window(tally.first), query, growing, compute)

    def _columns(
        self, metrics: Sequence[str], width: float, first: int, n: int, sliding: bool, read: Read
    ) -> list[Columns]:
        """Return the columns of each of these metrics: those that are kept, columns made of others that are kept, or new
        ones from the recording that ``read`` returns. They are kept as well. ``width``: of a column, s; ``first``: the
        number of the first one, counted from unix time 0; ``n``: how many; ``sliding``: they move on with the run."""
        place = (width, n, None if sliding else first)
        found = {metric: self._grids.pop((metric, *place), None) for metric in metrics}
        for metric in (metric for metric in metrics if found[metric] is None):
            found[metric] = self._made_of_others(metric, width, first, n, sliding)
        lacking = [metric for metric in metrics if found[metric] is None]
        if lacking:
            made = Columns.read(read(), lacking, width, first, n, sliding)
            found |= {columns.metric: columns for columns in made}
        columns = [each for each in found.values() if each is not None]
        for each in columns:
            self._grids[each.metric, *place] = each
            self._asked[each] = time.monotonic()
        if len(self._grids) > _KEPT:
            self._forget_grids()
        return columns

    def _made_of_others(self, metric: str, width: float, first: int, n: int, sliding: bool) -> Columns | None:
        """Make ``n`` columns of ``width`` s, the first with the number ``first``, out of columns of the metric that are
        known already, as for a screen that asks for more or fewer of them. ``sliding``: as of Columns. None if none of
        them can be made so."""
        span = (self._tally.first, self._tally.last)
        others = (columns for columns in reversed(self._grids.values()) if columns.metric == metric)
        made = (Columns.made_of(columns, width, first, n, sliding, *span) for columns in others)
        return next((columns for columns in made if columns is not None), None)

    def _window(self, query: Query, grid: Grid, end: float, read: Read, growing: bool) -> Means:
        """Return the means over the window that a grid shows, up to ``end`` (unix s). ``read`` returns the run as it is
        now; ``growing``: rows may still come."""
        tally = self._tally
        if grid.start <= tally.first and end >= tally.last:
            return tally.whole()
        ends = growing and end >= tally.last
        return self._means("window", Window(grid.start, math.inf if query.end is None else end), query, read, ends)

    def _recent_means(self, query: Query, end: float, read: Read, growing: bool) -> Means:
        """Return the means over the minute up to ``end``, unix s; of a run that is growing and followed, over its
        newest minute. The minute is widened to whole rollups where samples were thinned, or would be many. ``read``
        returns the run as it is now."""
        if query.end is None and growing:
            return self._tally.recent()
        begin, step = end - RECENT_SECONDS, LEVELS[0]
        if end >= self._tally.last:
            end = math.inf
        if begin < self._tally.thinned or self._n_gpus * step / max(self._interval, 1e-3) > FEW_ROWS:
            begin, end = begin // step * step, end if end == math.inf else -(-end // step) * step
        return self._means("recent", Window(begin, end), query, read, False)

    def _means(self, what: str, window: Window, query: Query, read: Read, growing: bool) -> Means:
        """Return the means over a window, as far as there are samples: those that are kept, or new ones from the
        recording that ``read`` returns. ``what`` is the kind of question, by which answers are kept; ``growing``: the
        window's end moves on with the run."""

        def compute() -> Means:
            known = window._replace(end=min(window.end, self._tally.last))
            return self._tally.means_of(read().buckets(window, names=self._tally.counted), known)

        return self._kept(what, window, query, growing, compute)

    def _kept(self, what: str, window: Window, query: Query, growing: bool, compute: Callable[[], _Answer]) -> _Answer:
        """Return an answer that is kept and still good, or call ``compute`` and keep what it returns.

        ``what`` is the kind of question, which with the window identifies the answer. While the run is ``growing`` it is
        the query's span (and for "moment" its cursor) instead of the window: an answer then stays good for some seconds,
        although the window has moved on.
        """
        looked_at = query.cursor if what == "moment" else None
        key = (what, query.span or 0.0, looked_at or 0.0) if growing else (what, *window)
        return self._answers.find(key, compute, growing)


def _up_to(grid: Grid, space: Series, n: int) -> tuple[Grid, Series]:
    """Return a grid with NaN in the columns from index ``n`` on, and what it then is over its GPUs. ``space``: what the
    grid is over its GPUs as it stands."""
    values = np.where(np.arange(grid.n) >= n, np.nan, grid.values)
    nothing = over_space(replace(grid, values=values[:, n:]))
    return replace(grid, values=values), space.continued(n, nothing)


def last_known_values(values: Floats) -> Floats:
    """Return each GPU's last value that is not NaN in a grid's ``values``, float64[n_gpus]; NaN without any."""
    known = np.isfinite(values)
    last = values.shape[1] - 1 - np.argmax(known[:, ::-1], axis=1)
    return np.where(known.any(axis=1), values[np.arange(len(values)), last], np.nan)
