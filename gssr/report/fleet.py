"""The page of ``gssr fleet``: what many runs used and wasted, and who, which jobs and which nodes stand out."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from gssr.gpu_vendors import words_of
from gssr.model.breakdown.categories import CATEGORIES, POSITIONS
from gssr.model.fleet import fleet
from gssr.model.fleet.allocations import Allocated, hours_by_place
from gssr.model.fleet.bad_nodes import BadNode
from gssr.model.fleet.figures import RunFigures
from gssr.model.fleet.fleet import Fleet, NodeHealth, RunGroup, ScoreBin
from gssr.render.cells import as_many_as_fit, clean, fit, flow, wrap
from gssr.render.columns import bar
from gssr.render.glyphs import Glyphs, glyph_set
from gssr.render.roles import Row, Span
from gssr.render.scale import UNKNOWN, count, fixed
from gssr.render.table import Cell, TableColumn, table
from gssr.report.page import labelled, section

_KWH = 3.6e6  # J
_BAR, _MOST_NAMED = 30, 5
_GAP = 2
"""Cells between the columns of a table."""
_WIDE = 76
"""From so many cells on there is room for bars beside the totals."""
_KINDS = {
    "slow_clock": (
        "slow clock",
        "its clocks are lower than those of the other nodes of the same jobs. Leave it out (#SBATCH --exclude) and tell the "
        "operators: nvidia-smi -q -d PERFORMANCE,CLOCK says whether heat, power or set clocks hold it down.",
    ),
    "busier": (
        "busier",
        "at the same clocks it is longer busy than the others, which wait for it. Compare it with another node (dcgmi diag "
        "-r 3: memory, PCIe, row remaps), unless a rank with more work always runs there.",
    ),
    "less_busy": (
        "less busy",
        "it is less busy than the others and takes less power: its GPUs wait for its host, its links or its filesystem. "
        "Compare it with another node (CPU clocks, nvidia-smi topo -m, link errors, mounts).",
    ),
}
"""What a kind of bad node is called, and what it means and to do."""
_FIRST = ("user", "account", "label", "command", "state")
"""By these a page ranks that is about everything, where there is more than one."""
_RUNS_WITH_MOST = {
    "wasted": "Most GPU-hours × (1 - score)",
    "idle": "Most idle GPU-hours",
    "hours": "Most GPU-hours",
}
"""What the table of the runs to look at first is called, by what it is sorted by; otherwise it is by ``wasted``."""
_OF_KEY, _OF_NAME, _OF_USER = 0.4, 0.2, 0.14
"""As much of a page's width a name takes at most: what a line is about, a job's name beside its number, a user's."""
_PLACES = {
    "recorded": "a GPU was recorded",
    "beside": "the job's other GPUs meanwhile",
    "before": "until the first recorded step",
    "between": "between recorded steps",
    "after": "after the last recorded step",
    "never": "jobs without any recording",
}
"""Where GPU-hours of an allocation are, as a page says it."""
LEAST_UNRECORDED = 0.01
"""A job of which less is missing than this share is as good as recorded."""
_ALLOCATED_BY = ("user", "account", "partition")
"""Rankings by these say what was allocated as well."""
_LONGEST_ID = 20
"""Cells of a job's number, as of 28136001_17."""
_IDS = ("job", "array")
"""Keys of these end with a number, which is never cut off."""


class FleetPageOptions(NamedTuple):
    """What a page shows: ``by``: one of fleet.BY, or fleet.CAUSE, alone, or everything (None); ``sort``: one of fleet.SORTS;
    ``most`` lines of each table; ``width`` in cells; ``ascii`` for pure ASCII."""

    by: str | None = None
    sort: str = "wasted"
    most: int = 10
    width: int = 80
    ascii: bool = False


def fleet_page(places: Sequence[str], found: Fleet, options: FleetPageOptions) -> list[Row]:
    """Draw the page, at most ``options.width`` cells wide but for the closing line. ``places``: what was named on the
    command line. Without runs only head and notes are there."""
    width, marks = options.width, glyph_set(options.ascii)
    runs, whole = found.runs, fleet.together(found.runs)
    said = words_of(gpu for run in runs for gpu in run.gpus)
    page = _Page(options, marks, _decimals(whole.gpu_hours), said, found)
    rows = _head(places, found, width, marks)
    if runs:
        lost = fleet.lost_gpu_hours(runs) if fleet.is_by_cause(options.by) else None
        rows += [(), *page.totals(whole, lost)]
    if found.allocated is not None:
        rows += page.allocated(found.allocated)
    if runs:
        if options.by is not None:
            found_groups = fleet.groups(runs, options.by, options.sort)
            by_cause = fleet.is_by_cause(options.by)
            rows += page.causes(found_groups) if by_cause else page.ranking(options.by, found_groups)
        else:
            rows += page.scores(fleet.scores(runs))
            for by in _FIRST:
                own = fleet.groups(runs, by, options.sort)
                if len(own) > 1:
                    rows += page.ranking(by, own)
            sort = options.sort if options.sort in _RUNS_WITH_MOST else "wasted"
            rows += page.runs(_RUNS_WITH_MOST[sort], fleet.runs_with_most(runs, sort), sort)
            rows += page.runs("Which never used some of their GPUs?", fleet.with_unused(runs), "unused")
            rows += page.runs("Which are badly balanced?", fleet.uneven(runs), "uneven %")
            rows += page.nodes(fleet.slow_nodes(runs))
            rows += page.bad_nodes(fleet.nodes_apart(runs))
    rows += _notes(found, whole, width, marks)
    return [*rows, (), (Span(closing_line(found, whole), "value"),)]


def closing_line(found: Fleet, whole: RunGroup) -> str:
    """Return the line for programs about all runs, of which ``whole`` is the sum; what can't be known is ``unknown``."""
    values = (whole.wasted_gpu_hours, whole.idle_gpu_hours, whole.score)
    wasted, idle, score = (fixed(value, 3, UNKNOWN) for value in values)
    return (
        f"GSSR fleet runs={len(found.runs)} gpu_hours={whole.gpu_hours:.3f} wasted={wasted} idle={idle} score={score} "
        f"unreadable={len(found.unreadable)}"
    )


def _head(places: Sequence[str], found: Fleet, width: int, marks: Glyphs) -> list[Row]:
    """Say what was looked at: places, recordings, runs, users and days."""
    named = ", ".join(places[:_MOST_NAMED]) + (f" and {len(places) - _MOST_NAMED} more" * (len(places) > _MOST_NAMED))
    users = {run.user for run in found.runs if run.user is not None}
    begun = [run.started_at for run in found.runs if run.started_at is not None]
    days = [day for time in (min(begun), max(begun)) if (day := _day(time)) is not None] if begun else []
    what = [count(found.n_recordings, "recording"), count(len(found.runs), "run")]
    if users:
        what.append(count(len(users), "user"))
    if days:
        what.append(days[0] if days[0] == days[-1] else f"{days[0]} to {days[-1]}")
    title = flow([(Span("GSSR fleet", "title"),), (Span(clean(named), "value"),)], width, marks.ellipsis)
    return title + flow([(Span(word),) for word in what], width, marks.ellipsis, separator=", ")


def _day(time: float | None) -> str | None:
    """Return the UTC day of a unix time as YYYY-MM-DD, or None if it is unknown or no calendar has it."""
    minute = _minute(time)
    return None if minute is None else minute.partition(" ")[0]


def _minute(time: float | None) -> str | None:
    """Return a unix time as YYYY-MM-DD HH:MM, UTC, or None if it is unknown or no calendar has it."""
    try:
        return None if time is None else datetime.fromtimestamp(time, UTC).isoformat(" ", "minutes").partition("+")[0]
    except (ValueError, OverflowError, OSError):
        return None


def _decimals(gpu_hours: float) -> int:
    """Return the decimals of all GPU-hours on a page whose sum is ``gpu_hours``."""
    return 3 if gpu_hours < 10 else 2 if gpu_hours < 1000 else 1 if gpu_hours < 1e5 else 0


class _Page:
    """Draws sections about what was ``found``, all in the same units: GPU-hours with ``decimals``; ``said``: in the
    words of the GPUs' makers."""

    def __init__(
        self,
        options: FleetPageOptions,
        marks: Glyphs,
        decimals: int,
        said: Callable[[str], str],
        found: Fleet,
    ) -> None:
        self._options, self._marks, self._decimals, self._said, self._found = options, marks, decimals, said, found
        clusters = {run.cluster for run in found.runs}
        self._cluster = clusters.pop() if len(clusters) == 1 else None

    def _hours(self, value: float | None) -> str:
        return "-" if value is None else f"{value:,.{self._decimals}f}"

    def totals(self, whole: RunGroup, lost: float | None) -> list[Row]:
        """Draw what all runs add up to, with its share of the GPU-hours; UNKNOWN or "-" where a number is not known,
        energy only if it is. ``lost``: the GPU-hours that are lost by any cause; None where the page is not about causes."""
        width = self._options.width
        lines: list[tuple[str, float | None, str]] = [
            ("GPU-hours", whole.gpu_hours, ""),
            ("wasted", whole.wasted_gpu_hours, "GPU-hours × (1 - score)"),
            *[("lost", lost, "a GPU could have worked then")] * (lost is not None),
            ("idle", whole.idle_gpu_hours, self._said("SM active below 2 %")),
            ("unused", whole.unused_gpu_hours, "of GPUs that were never used"),
            ("uneven", whole.imbalance_gpu_hours, "GPU-hours × imbalance"),
            ("throttled", whole.throttled_gpu_hours, "slowed down by heat or hardware"),
        ]
        wide = max(len(self._hours(value)) for _, value, _ in lines)
        rows = []
        for name, value, about in lines:
            share = None if value is None or not whole.gpu_hours else value / whole.gpu_hours
            percent = "" if name == "GPU-hours" else f"{fixed(None if share is None else 100 * share, 1):>6} % "
            drawn = bar(share, 20, self._marks) if percent and width >= _WIDE else ()
            shown = Span(f"{self._hours(value):>{wide}}", "value")
            row = labelled(name, width, shown, Span(f"  {percent}"), *drawn)
            rows.append(as_many_as_fit([row, (Span(about, "dim"),)], width))
        if whole.energy_j is not None:
            wasted = "" if whole.wasted_energy_j is None else f", {_kwh(whole.wasted_energy_j)} of it wasted"
            rows.append(labelled("energy", width, Span(f"{_kwh(whole.energy_j)} kWh", "value"), Span(wasted)))
        mean = Span(fixed(whole.score, 3, UNKNOWN), "value")
        rows.append(labelled("score", width, mean, Span("  mean by GPU-hours", "dim")))
        return rows

    def allocated(self, found: Allocated) -> list[Row]:
        """Draw where the GPU-hours are that the scheduler allocated, with their share of all, and the jobs of which some
        were not recorded."""
        width, sums = self._options.width, hours_by_place(found.jobs)
        whole = sums.pop("gpu_hours")
        wide = max(len(self._hours(value)) for value in (whole, *sums.values()))
        first = _minute(found.since)
        about = count(len(found.jobs), "job") + (f" since {first} UTC" if first else "")
        rows = section("What was allocated?", width, self._marks, about)
        rows.append(labelled("allocated", width, Span(f"{self._hours(whole):>{wide}}", "value")))
        for name, about in _PLACES.items():
            value = sums[f"{name}_gpu_hours"]
            share = value / whole if whole else None
            percent = f"  {fixed(None if share is None else 100 * share, 1):>6} % "
            drawn = bar(share, 20, self._marks) if width >= _WIDE else ()
            row = labelled(name, width, Span(f"{self._hours(value):>{wide}}", "value"), Span(percent), *drawn)
            rows.append(as_many_as_fit([row, (Span(about, "dim"),)], width))
        lacking = [use for use in found.jobs if use.unrecorded > LEAST_UNRECORDED * use.allocation.gpu_hours]
        columns = [
            TableColumn("job", keep="end"), TableColumn("user", drop=1), TableColumn("name", drop=4, cut=True),
            TableColumn("state", drop=3), TableColumn("GPUs", "right", drop=5), TableColumn("runs", "right", drop=2),
            TableColumn("GPU-h", "right"), TableColumn("unrecorded", "right"),
            TableColumn("%", "right", drop=1),
        ]  # fmt: skip
        lines: list[list[Cell]] = [
            [
                clean(use.allocation.shown), self._name(use.allocation.user or "-", _OF_USER),
                self._name(use.allocation.name or "-", _OF_NAME), clean(use.allocation.state or "-"),
                f"{use.allocation.n_gpus:,}", f"{use.n_runs:,}", self._hours(use.allocation.gpu_hours),
                (Span(self._hours(use.unrecorded), "value"),),
                fixed(100 * use.unrecorded / use.allocation.gpu_hours, 0),
            ]
            for use in lacking[: self._options.most]
        ]  # fmt: skip
        return rows + (
            self._section("Which jobs were not fully recorded?", columns, lines, len(lacking), "") if lines else []
        )

    def scores(self, bins: Sequence[ScoreBin]) -> list[Row]:
        """Draw the distribution of scores under a heading, a line for each bin; the bin without bounds holds the
        unknown scores."""
        width = self._options.width
        most = max((each.gpu_hours for each in bins), default=0.0) or 1.0
        columns = [
            TableColumn("score"),
            TableColumn("runs", "right"),
            TableColumn("GPU-h", "right"),
            TableColumn("", least=8, most=_BAR),
        ]
        rows: list[list[Cell]] = [
            [
                UNKNOWN if each.low is None else f"{each.low:.1f} - {each.high:.1f}",
                f"{each.n_runs:,}",
                self._hours(each.gpu_hours),
                _bar_of(each.gpu_hours / most, self._marks),
            ]
            for each in bins
        ]
        return [*section("How well used?", width, self._marks), *table(columns, rows, width, self._marks, gap=2)]

    def ranking(self, by: str, groups: Sequence[RunGroup]) -> list[Row]:
        """Draw a table of the first ``most`` of these groups, which are in order; ``by`` says what they are grouped
        by."""
        options, about = self._options, self._about_jobs(groups[: self._options.most]) if by == "job" else {}
        allocated = self._allocated_by(by)
        groups = [*groups, *fleet.without_runs(allocated.keys() - {group.key for group in groups})]
        columns = [
            TableColumn(by, keep="end" if by in _IDS else "start"),
            *[TableColumn("user", drop=3), TableColumn("name", cut=True), TableColumn("state", drop=3)] * bool(about),
            TableColumn("runs", "right", drop=2), *[TableColumn("allocated", "right", drop=1)] * bool(allocated),
            TableColumn("GPU-h", "right"), TableColumn("wasted", "right"),
            TableColumn("idle", "right"), TableColumn("unused", "right", drop=5), TableColumn("uneven", "right", drop=3),
            TableColumn("throttled", "right", drop=7), TableColumn("score", "right"), TableColumn("kWh", "right", drop=4),
            TableColumn("wasted kWh", "right", drop=6),
        ]  # fmt: skip
        rows: list[list[Cell]] = [
            [
                self._key(by, group.key), *about.get(group.key, ()), f"{group.n_runs:,}",
                *[self._hours(allocated.get(group.key))] * bool(allocated), self._hours(group.gpu_hours),
                (Span(self._hours(group.wasted_gpu_hours), "value"),), self._hours(group.idle_gpu_hours),
                self._hours(group.unused_gpu_hours), self._hours(group.imbalance_gpu_hours),
                self._hours(group.throttled_gpu_hours), fixed(group.score, 3), _kwh(group.energy_j),
                _kwh(group.wasted_energy_j),
            ]
            for group in groups[: options.most]
        ]  # fmt: skip
        return self._section(f"By {by}", columns, rows, len(groups), f"by {options.sort}")

    def causes(self, groups: Sequence[RunGroup]) -> list[Row]:
        """Draw a table of what the GPU-hours went to, with their share of all of them; all causes, so that they add up.

        A cause that counts in no run, and whose hours round to none, is left out. Where the page is too narrow for the
        causes' codes, by which the database and JSON know them, a line says how wide it has to be.
        """
        columns = [
            TableColumn("cause", drop=3), TableColumn("what"), TableColumn("runs", "right", drop=2),
            TableColumn("GPU-h", "right"),
            TableColumn("lost", "right"), TableColumn("%", "right", drop=1),
        ]  # fmt: skip
        total = sum(group.gpu_hours for group in groups)
        shown = [group for group in groups if group.n_runs or round(group.gpu_hours, self._decimals)]
        texts = [
            [
                group.key, CATEGORIES[POSITIONS[group.key]].label if group.key in POSITIONS else "computes",
                f"{group.n_runs:,}", self._hours(group.gpu_hours),
                self._hours(group.wasted_gpu_hours) if group.wasted_gpu_hours else "-",
                fixed(100 * group.gpu_hours / total if total else None, 1),
            ]
            for group in shown
        ]  # fmt: skip
        rows: list[list[Cell]] = [[*own[:4], (Span(own[4], "value"),), *own[5:]] for own in texts]
        sort = "lost" if self._options.sort == "wasted" else self._options.sort
        page = self._section("Where do the GPU-hours go?", columns, rows, len(shown), f"by {sort}")
        titles = [column.title for column in columns]
        needed = sum(max(map(len, cells)) for cells in zip(titles, *texts, strict=True)) + _GAP * (len(columns) - 1)
        if self._options.width < needed:
            page += wrap(f"--width {needed} shows the causes' codes, too", self._options.width)
        return page

    def runs(self, title: str, runs: Sequence[RunFigures], about: str = "") -> list[Row]:
        """Draw a table of the first ``most`` runs; no rows without any. ``about``: the column that stays on a narrow
        page."""
        shown = runs[: self._options.most]
        users, jobs = any(run.user for run in shown), any(run.shown_job for run in shown)
        columns = [
            TableColumn("job", keep="end") if jobs else TableColumn("run"),
            *[TableColumn("user", drop=2)] * users, *[TableColumn("name", cut=True)] * jobs, TableColumn("state", drop=3),
            TableColumn("GPUs", "right", drop=1), TableColumn("unused", "right", drop=6), TableColumn("GPU-h", "right"),
            TableColumn("wasted", "right"), TableColumn("idle", "right", drop=4),
            TableColumn("uneven %", "right", drop=5), TableColumn("score", "right"),
        ]  # fmt: skip
        columns = [each._replace(drop=0) if each.title == about else each for each in columns]
        rows: list[list[Cell]] = []
        for run in shown:
            uneven = None if run.imbalance is None else 100 * run.imbalance
            rows.append([
                self._key("job", fleet.job_of(run)) if jobs else self._name(fleet.name_of(run) or run.run_id),
                *[self._name(run.user or "-", _OF_USER)] * users,
                *[self._name(fleet.name_of(run) or "-", _OF_NAME)] * jobs, run.state,
                f"{run.n_gpus:,}", "-" if run.unused_gpus is None else f"{run.unused_gpus:,}",
                self._hours(run.gpu_hours), (Span(self._hours(run.wasted_gpu_hours), "value"),),
                self._hours(run.idle_gpu_hours), fixed(uneven, 0), fixed(run.score, 3),
            ])  # fmt: skip
        return self._section(title, columns, rows, len(runs), "") if rows else []

    def nodes(self, nodes: Sequence[NodeHealth]) -> list[Row]:
        """Draw a table of nodes that are slow in some runs; no rows without any."""
        columns = [
            TableColumn("node"), TableColumn("runs", "right"), TableColumn("slow in", "right"),
            TableColumn("GPU-h", "right", drop=1),
            TableColumn("throttled %", "right"), TableColumn("lowest clock %", "right"), TableColumn("GPUs", drop=2),
        ]  # fmt: skip
        rows: list[list[Cell]] = []
        for node in nodes[: self._options.most]:
            throttled = None if node.throttled is None else 100 * node.throttled
            clock = None if node.lowest_clock is None else 100 * node.lowest_clock
            rows.append([
                self._name(node.node), f"{node.n_runs:,}", (Span(f"{node.n_slow:,}", "value"),), self._hours(node.gpu_hours),
                fixed(throttled, 1), fixed(clock, 1), " ".join(map(str, node.devices)),
            ])  # fmt: skip
        return self._section("Which nodes are slow?", columns, rows, len(nodes), "") if rows else []

    def bad_nodes(self, nodes: Sequence[BadNode]) -> list[Row]:
        """Draw a table of nodes that are slow whoever runs there, and say what to do; no rows without any."""
        columns = [
            TableColumn("node"), TableColumn("what"), TableColumn("jobs", "right"), TableColumn("users", "right", drop=4),
            TableColumn("shown in %", "right", drop=2), TableColumn("clock %", "right"),
            TableColumn("activity %", "right", drop=1),
            TableColumn("power %", "right", drop=1), TableColumn("throttled %", "right", drop=3),
        ]  # fmt: skip
        rows: list[list[Cell]] = []
        for node in nodes[: self._options.most]:
            numbers = [None if value is None else 100 * value for value in (node.clock, node.activity, node.power)]
            throttled = None if node.throttled is None else 100 * node.throttled
            rows.append([
                self._name(node.node), (Span(_KINDS[node.kind][0], "value"),), f"{node.n_jobs:,}", f"{node.n_users:,}",
                fixed(100 * node.share, 0), *(fixed(number, 0) for number in numbers), fixed(throttled, 1),
            ])  # fmt: skip
        if not rows:
            return []
        page = self._section("Which nodes are slow whatever runs there?", columns, rows, len(nodes), "")
        width, marks = self._options.width, self._marks
        for kind in dict.fromkeys(node.kind for node in nodes[: self._options.most]):
            page += wrap(f"{_KINDS[kind][0]}: {self._said(_KINDS[kind][1])}", width, f"{marks.bullet} ", "  ")
        for node in nodes[: self._options.most]:
            if node.verdicts:
                held = ", ".join(f"{code} in {count(n, 'run')}" for code, n in sorted(node.verdicts.items()))
                page += wrap(f"{self._name(node.node)}: {held}", width, f"{marks.bullet} ", "  ")
        return page

    def _section(
        self, title: str, columns: Sequence[TableColumn], rows: Sequence[Sequence[Cell]], n: int, about: str
    ) -> list[Row]:
        """Draw a titled table; the title says ``about`` and, if there are more than these rows, that they are the
        first of ``n``."""
        shown = f"the first {len(rows)} of {n:,}" if n > len(rows) else ""
        head = section(title, self._options.width, self._marks, ", ".join(word for word in (about, shown) if word))
        return [*head, *table(columns, rows, self._options.width, self._marks, gap=_GAP)]

    def _allocated_by(self, by: str) -> dict[str, float]:
        """Return the GPU-hours that were allocated to each user, account or partition; {} for other keys, and where
        nobody asked what was allocated."""
        if self._found.allocated is None or by not in _ALLOCATED_BY:
            return {}
        sums: dict[str, float] = {}
        for use in self._found.allocated.jobs:
            key = getattr(use.allocation, by) or fleet.UNKNOWN
            sums[key] = sums.get(key, 0.0) + use.allocation.gpu_hours
        return sums

    def _about_jobs(self, groups: Sequence[RunGroup]) -> dict[str, list[str]]:
        """Return user, name and state of these jobs by their key, "-" where no run tells; of several the first, and how
        many others there are."""
        wanted = {group.key: [list[str](), list[str](), list[str]()] for group in groups}
        for run in self._found.runs:
            for values, value in zip(
                wanted.get(fleet.job_of(run), ()), (run.user, fleet.name_of(run), run.state), strict=False
            ):
                if value and value not in values:
                    values.append(value)
        return {
            key: [
                self._name(own[0], share) + f" +{len(own) - 1}" * (len(own) > 1) if own else "-"
                for own, share in zip(about, (_OF_USER, _OF_NAME, _OF_NAME), strict=True)
            ]
            for key, about in wanted.items()
        }

    def _key(self, by: str, key: str) -> str:
        """Write what a group has in common. A job's number stays whole, and its cluster is left out where all runs are of
        one."""
        if by not in _IDS:
            return self._name(key)
        shown = key.removeprefix(f"{self._cluster}/") if self._cluster else key
        return fit(shown, max(int(self._options.width * _OF_KEY), _LONGEST_ID), self._marks.ellipsis, "end")

    def _name(self, text: str, share: float = _OF_KEY) -> str:
        """Cut a name to this share of the page."""
        return fit(text, max(int(self._options.width * share), 8), self._marks.ellipsis)


def _bar_of(share: float, marks: Glyphs) -> Callable[[int], Row]:
    return lambda width: bar(share, width, marks)


def _kwh(joules: float | None) -> str:
    """Write an energy (J) in kWh, "-" if it is unknown."""
    if joules is None:
        return "-"
    kwh = joules / _KWH
    return f"{kwh:,.{2 if kwh < 10 else 1 if kwh < 1000 else 0}f}"


def _notes(found: Fleet, whole: RunGroup, width: int, marks: Glyphs) -> list[Row]:
    """List what is missing or not counted: runs without score or GPUs, copies, and recordings that could not be read;
    no rows if there is nothing."""
    sentences = []
    unscored = f"{whole.gpu_hours - (whole.scored_gpu_hours or 0.0):,.{_decimals(whole.gpu_hours)}f}"
    n_unscored = sum(run.score is None and run.n_gpus > 0 for run in found.runs)
    if n_unscored:
        sentences.append(
            f"{count(n_unscored, 'run')} of {unscored} GPU-hours: no score, as not all of its inputs were measured; "
            "they are not counted as wasted"
        )
    without = [run.file for run in found.runs if not run.n_gpus and run.state != "running"]
    if without:
        sentences.append(f"{_named(without, 'run')}: no GPU was recorded; gssr analyze shows why")
    if found.n_earlier:
        ended = None if found.runs else _minute(found.newest_earlier)
        newest = "" if ended is None else f"; the last one ended {ended} UTC"
        sentences.append(f"not counted, as ended before --since: {count(found.n_earlier, 'run')}{newest}")
    n_nameless = sum(run.job_id is None for run in found.runs)
    if found.allocated is not None and n_nameless:
        sentences.append(f"{count(n_nameless, 'run')} without a job's number: the accounting can't tell of which job")
    if found.allocated is not None and found.allocated.n_without:
        runs = count(found.allocated.n_without, "run")
        sentences.append(f"{runs} with a job that the accounting does not have, at that time and with GPUs")
    if found.allocated is not None and found.allocated.n_unreadable:
        sentences.append(f"{count(found.allocated.n_unreadable, 'line')} of the accounting could not be read")
    if found.copies:
        sentences.append(f"{_named(found.copies, 'recording')}: not counted again, as other files hold the same runs")
    if found.unreadable:
        n = len(found.unreadable)
        sentences.append(f"{count(n, 'recording')} could not be read completely:")
    rows = section("Notes", width, marks) if sentences else []
    for sentence in sentences:
        rows += wrap(sentence, width, f"{marks.bullet} ", "  ")
    for sentence in found.unreadable:
        rows += wrap(sentence, width, "  ", "    ")
    return rows


def _named(names: Sequence[str], noun: str) -> str:
    """Count the names and list the first _MOST_NAMED of them."""
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return f"{count(len(names), noun)} ({', '.join(map(clean, names[:_MOST_NAMED]))}{more})"
