"""Calls as its user works it: sub-tabs, sorting, search, the full name, the communication matrix, a profile's tree."""

import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from textual.pilot import Pilot
from textual.widgets import Static, Tabs

from gssr.commands.tui import watches_of
from gssr.model.live.watched_trace import WatchedTrace
from gssr.model.traces.part import part_of
from gssr.render.clock import exact
from gssr.render.function_names import short_name
from gssr.render.glyphs import ASCII, UTF8, Glyphs
from gssr.report.live.call_outline import COLUMNS as COLUMNS_OF_TREE
from gssr.report.live.call_tables import COLUMNS, TITLES, cell_text, tables_of
from gssr.traces.open import open_traces
from gssr.traces.timeline import OPERATIONS, Timeline
from gssr.tui.app import LiveScreen
from gssr.tui.calls.matrix import MessageMatrix
from gssr.tui.calls.pane import CallsPane
from gssr.tui.calls.table import CallTable
from gssr.tui.calls.tree import CallTreeTable
from gssr.tui.job.most import MostTime
from gssr.tui.time.trace_lanes import TraceLanes
from gssr.tui.time.trace_lines import TraceLines
from gssr.tui.vampir import DISPLAYS
from tests.fakes.traces.cube import write_solver
from tests.fakes.training import training
from tests.looking import open_tab, seen, until, work

sys.path.append(str(Path(__file__).parents[1] / "model" / "traces"))
from exchanging import exchanging


def of_trace(timeline: Timeline, glyphs: Glyphs = UTF8) -> LiveScreen:
    return LiveScreen([WatchedTrace("trace.json", lambda: timeline)], glyphs, 10.0, 256)


async def to_calls(app: LiveScreen, pilot: Pilot[int]) -> None:
    await pilot.press("7")
    await until(pilot, lambda: app.results[0].part is not None and app.results[0].part.analysis is not None)
    await until(pilot, lambda: isinstance(app.focused, CallTable | CallTreeTable | MessageMatrix))


def test_a_table_sorts_by_every_column_and_the_cursor_stays_on_its_name() -> None:
    app = of_trace(training(3))

    async def steps(pilot: Pilot[int]) -> None:
        await to_calls(app, pilot)
        table = app.query_one(CallTable)
        names = table.values["name"]
        await pilot.press("down")
        held = names[table.item]
        seen_keys = set()
        for _ in table.headings():
            await pilot.press("s")
            seen_keys.add(table.sort)
            values = table.values[table.sort]
            shown = [values[row] for row in table.order.tolist()]
            if table.sort == "name":
                assert [name.lower() for name in shown] == sorted(name.lower() for name in names)
            else:
                assert shown == sorted(shown, reverse=True)
            assert names[table.item] == held
        assert seen_keys == {heading.key for heading in table.headings() if heading.key}
        await pilot.press("r")
        assert not table.descending and names[table.item] == held
        assert str(app.query_one("#calls-name", Static).render()) == held

    work(app, steps, (200, 60))


def test_a_click_on_a_head_sorts_and_a_search_counts() -> None:
    app = of_trace(training(3))

    async def steps(pilot: Pilot[int]) -> None:
        await to_calls(app, pilot)
        table = app.query_one(CallTable)
        left = table.content_region.offset - table.region.offset
        head = next(heading for heading in table.headings() if heading.key == "count")
        await pilot.click(CallTable, offset=(left.x + head.end - 1, left.y))
        assert table.sort == "count" and table.descending
        await pilot.click(CallTable, offset=(left.x + head.begin, left.y))
        assert not table.descending
        name = str(table.values["name"][0])[:5]
        await pilot.press("slash", *name, "enter")
        assert table.has_focus and 0 < len(table.order) <= len(table.values["name"])
        assert all(name.lower() in str(table.values["name"][row]).lower() for row in table.order.tolist())
        assert f"hold {name}" in str(table.border_title)
        await pilot.press("escape")
        assert len(table.order) == len(table.values["name"])
        whole = str(table.border_title)
        await pilot.press("plus")
        await until(pilot, lambda: " to " in str(table.border_title))
        await pilot.press("s")
        assert " to " in seen(app).splitlines()[3] and " to " not in whole

    work(app, steps, (80, 24))


@pytest.mark.parametrize("size", [(60, 16), (80, 24), (120, 36), (200, 60)])
def test_columns_never_run_into_each_other(size: tuple[int, int]) -> None:
    app = of_trace(training(3))

    async def steps(pilot: Pilot[int]) -> None:
        await to_calls(app, pilot)
        table = app.query_one(CallTable)
        for _ in range(len(app.query_one(CallsPane).offered)):
            if table.display:
                columns = table.headings()
                for row in table.order[: table.size.height].tolist():
                    for head in columns:
                        if head.key not in ("", "name"):
                            text = cell_text(head.key, table.values[head.key][row])
                            assert len(text) <= head.end - head.begin
                assert all(one.end < other.begin for one, other in pairwise(columns))
            await pilot.press("v")

    work(app, steps, size)


def test_sub_tabs_are_those_that_hold_anything_and_enter_leads_to_the_time() -> None:
    app = of_trace(training(3))

    async def steps(pilot: Pilot[int]) -> None:
        await to_calls(app, pilot)
        part = app.results[0].part
        assert part is not None and part.analysis is not None
        there = tables_of(part.analysis)
        tabs = app.query_one("#calls-tabs", Tabs)
        shown = {tab.id.removeprefix("calls-of-") for tab in tabs.query("Tab").results() if tab.display}  # type: ignore[union-attr]
        assert shown == set(there) and set(there) <= set(TITLES)
        name = app.query_one(CallTable).values["name"][app.query_one(CallTable).order[0]]
        await pilot.press("enter")
        await until(pilot, lambda: app.view.screen == "time" and app.query_one(TraceLines).has_focus)
        assert app.view.metric.endswith(name) and app.view.name == name
        assert app.query_one("#tabs", Tabs).active == "time"
        await pilot.press("escape", "escape")
        await until(pilot, lambda: app.view.screen == "calls" and app.query_one("#tabs", Tabs).active == "calls")

    work(app, steps, (120, 36))


def test_l_leads_to_the_longest_interval_of_a_name_on_its_track() -> None:
    app = of_trace(training(3))

    async def steps(pilot: Pilot[int]) -> None:
        await to_calls(app, pilot)
        table, lanes = app.query_one(CallTable), None
        part = app.results[0].part
        assert part is not None and part.analysis is not None
        own = part.trace.intervals
        for name in tables_of(part.analysis):
            app.query_one(CallsPane).choose(name)
            if not table.display or name == "functions":
                continue
            for _ in table.order[: 2 if lanes is None else 1]:  # the next row of the first table as well
                await pilot.pause()
                longest = table.values["max_ns"][table.item]
                held = table.values["name"][table.item]
                await pilot.press("l")
                await until(pilot, lambda: app.view.opened and app.query_one(TraceLanes).has_focus)
                lanes = app.query_one(TraceLanes)
                await until(pilot, lambda lanes=lanes: lanes.picked() >= 0)  # type: ignore[misc]
                place = lanes.picked()
                assert own.length[place] == longest
                assert held in (part.trace.names[own.name[place]], OPERATIONS[own.operation[place]])
                cells = lanes.cells_in_sight(app.results[0])
                assert cells.start <= own.start[place] / 1e9 and (own.start[place] + longest) / 1e9 <= cells.end
                assert cells.end - cells.start <= 1.25 * max(longest / 1e9, 1e-6 * cells.n)
                await pilot.press("escape")  # the name that is looked for
                await pilot.press("escape")
                await until(pilot, lambda: app.view.screen == "calls" and table.has_focus)
                await pilot.press("down")
        assert lanes is not None

    work(app, steps, (120, 36))


def test_why_tells_of_the_interval_and_of_the_gpu_that_the_longest_one_led_to() -> None:
    app = of_trace(training(3))

    async def steps(pilot: Pilot[int]) -> None:
        await to_calls(app, pilot)
        app.query_one(CallsPane).choose("kernels")
        await pilot.pause()
        await pilot.press("l")
        await until(pilot, lambda: app.view.opened and app.query_one(TraceLanes).picked() >= 0)
        place, gpus = app.query_one(TraceLanes).picked(), app.view.selection
        await pilot.press("5")

        def is_told() -> bool:
            part = app.results[0].part
            return (
                app.view.screen == "why" and part is not None and part.around is not None and part.around.place == place
            )

        await until(pilot, is_told)
        assert app.view.selection == gpus and len(gpus) == 1

    work(app, steps, (120, 36))


def test_only_some_intervals_are_left_and_a_wrong_filter_says_so() -> None:
    app = of_trace(training(3))

    async def steps(pilot: Pilot[int]) -> None:
        await to_calls(app, pilot)
        table = app.query_one(CallTable)
        every = len(table.values["name"])
        await pilot.press("i", *"name=nccl", "enter")
        await until(pilot, lambda: len(table.values["name"]) < every)
        assert all("nccl" in name.lower() for name in table.values["name"])
        assert "only name=nccl" in seen(app)
        await pilot.press("i", *"x takes<", "enter")
        await pilot.pause(0.2)
        assert app.view.filter == "name=nccl"
        await pilot.press("escape")
        await until(pilot, lambda: len(table.values["name"]) == every)

    work(app, steps, (160, 36))


def _ring(n: int) -> Timeline:
    return exchanging(n, [(rank, (rank + 1) % n, 10, 20, 10 ** (rank % 10)) for rank in range(n)])


@pytest.mark.parametrize("glyphs", [UTF8, ASCII])
def test_the_matrix_of_a_thousand_ranks_fits_and_says_what_its_marks_mean(glyphs: Glyphs) -> None:
    app = of_trace(_ring(1024), glyphs)

    async def steps(pilot: Pilot[int]) -> None:
        await to_calls(app, pilot)
        app.query_one(CallsPane).choose("messages")
        await until(pilot, lambda: app.query_one(MessageMatrix).has_focus)
        matrix = app.query_one(MessageMatrix)
        assert "sends" in seen(app) and "lines send, columns receive" in seen(app)
        assert "1,024 messages" in str(matrix.border_subtitle)
        await pilot.press("down", "s")
        assert "messages" in str(matrix.border_title).rpartition(",")[2]
        drawn = [matrix.render_line(y).text for y in range(matrix.content_size.height)]
        assert glyphs is UTF8 or all(line.isascii() for line in drawn)

    work(app, steps, (80, 24))


def test_the_tree_of_a_profile_opens_closes_sorts_and_searches(tmp_path: Path) -> None:
    (watch,) = watches_of([str(write_solver(tmp_path / "profile.cubex"))])
    app = LiveScreen([watch], UTF8, 10.0, 256)
    app.view = replace(app.view, screen="calls")

    async def steps(pilot: Pilot[int]) -> None:
        await until(pilot, lambda: app.results[0].part is not None)
        app.query_one(CallsPane).choose("calltree")
        await until(pilot, lambda: app.query_one(CallTreeTable).has_focus)
        panel = app.query_one(CallTreeTable)
        tree = panel._tree
        assert tree is not None
        first = panel.order.tolist()
        assert tree.names[first[0]] in seen(app) and "- " in seen(app)
        await pilot.press("home", "enter")
        assert len(panel.order) < len(first)
        await pilot.press("right")
        assert panel.order.tolist() == first
        await pilot.press("down", "left")
        await pilot.press("s")
        assert panel.sort == COLUMNS_OF_TREE[1].key and panel.descending
        await pilot.press("slash", *"iterate", "enter")
        found = panel.outline()
        assert found is not None and found.found and all("iterate" in tree.names[node].lower() for node in found.found)
        assert "found" in str(panel.border_title)
        await pilot.press("escape")
        found = panel.outline()
        assert found is not None and found.found is None
        names = {name for name in ("job", "time", "calls") if app.query_one(f"#tabs #{name}").display}
        assert names == {"calls"}  # a profile has no times

    work(app, steps, (120, 40))


def test_vampirs_names_lead_to_what_is_here() -> None:
    app = of_trace(_ring(8))

    async def steps(pilot: Pilot[int]) -> None:
        await to_calls(app, pilot)
        await open_tab(pilot, app, "1")
        await pilot.press("ctrl+p", *"communication matrix")
        await until(pilot, lambda: "Communication matrix view" in seen(app))
        await pilot.press("enter")
        await until(pilot, lambda: app.view.screen == "calls" and app.query_one(MessageMatrix).display)
        assert {display.table for display in DISPLAYS if display.table} <= set(TITLES)

    work(app, steps, (120, 36))


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [("total_ns", 1500.0, "1.50 µs"), ("share", 0.9996, "100 %"),
     ("bytes", 445_447_628.073, "445.4 MB"), ("count", 12345, "12,345"),
     ("mean_ns", None, "-"), ("imbalance", np.nan, "-")],
)  # fmt: skip
def test_cells_read_at_a_glance(key: str, value: float | None, text: str) -> None:
    assert cell_text(key, value) == text
    assert key in {column.key for column in COLUMNS}


def test_how_busy_gpus_are_does_not_depend_on_the_lines_of_the_timeline() -> None:
    app = of_trace(training(3))

    async def steps(pilot: Pilot[int]) -> None:
        await until(pilot, lambda: app.results and app.results[0].part is not None)
        busy = app.results[0].window.overall().get("busy")
        await pilot.press("3")
        await until(pilot, lambda: app.query_one(TraceLines).has_focus)
        await pilot.press("v")
        await until(pilot, lambda: app.view.level == "streams")
        await pilot.press("1")
        await until(pilot, lambda: app.view.screen == "job" and app.results[0].part.level.name == "gpus")  # type: ignore[union-attr]
        assert app.results[0].window.overall().get("busy") == busy

    work(app, steps, (120, 36))


@pytest.mark.parametrize("size", [(80, 24), (120, 34), (120, 40), (200, 60)])
def test_job_of_a_trace_fits_into_the_screen(size: tuple[int, int]) -> None:
    app = of_trace(training(1))

    async def steps(pilot: Pilot[int]) -> None:
        await until(pilot, lambda: app.results and app.results[0].part is not None and app.pane.is_ready)
        body = app.query_one("#job-pane").region
        assert max(panel.region.bottom for panel in app.query("#job-right > *") if panel.display) <= body.bottom

    work(app, steps, size)


def test_the_share_on_job_is_of_the_time_beside_it() -> None:
    timeline = training(1)
    app = of_trace(timeline)

    async def steps(pilot: Pilot[int]) -> None:
        await until(pilot, lambda: app.results and app.results[0].part is not None and app.pane.is_ready)
        (first, last), result = part_of(timeline).worked or (0, 0), app.results[0]
        assert (last - first) / 1e9 < result.last - result.first, "the program began before the first work"
        words = str(app.query_one("#score-words").content)
        assert f"of {exact((last - first) / 1e9)}" in words and "first work to last" in seen(app)

    work(app, steps, (120, 40))


def test_a_gap_without_a_known_cause_after_the_last_kernel_is_called_that() -> None:
    sample = Path(__file__).parents[1] / "traces" / "samples" / "straggler-2025.6.sqlite"
    app = of_trace(open_traces([str(sample)]).timeline())

    async def steps(pilot: Pilot[int]) -> None:
        await until(pilot, lambda: "longest gap" in seen(app))
        text = seen(app)
        assert ": mostly after the last kernel" in text and ": unknown" not in text

    work(app, steps, (120, 40))


def test_enter_on_what_took_the_most_time_shows_the_longest_gap_and_esc_comes_back() -> None:
    app = of_trace(training(2))

    async def steps(pilot: Pilot[int]) -> None:
        await until(pilot, lambda: "longest gap" in seen(app))
        gap = max(app.results[0].part.analysis.gaps, key=lambda each: each.length_ns)
        app.screen.set_focus(app.query_one(MostTime))
        await pilot.press("enter")
        await until(pilot, lambda: app.view.screen == "time" and isinstance(app.focused, TraceLines))
        window = app.results[0].window
        assert app.view.cursor == gap.start_ns / 1e9
        assert window.start < gap.start_ns / 1e9 < (gap.start_ns + gap.length_ns) / 1e9 < window.end
        assert window.end - window.start < 6 * gap.length_ns / 1e9
        await pilot.press("escape")
        await until(pilot, lambda: app.view.screen == "job")

    work(app, steps, (120, 40))


def test_calls_has_the_window_of_time_and_says_that_it_cuts_its_intervals() -> None:
    app = of_trace(training(3))

    async def steps(pilot: Pilot[int]) -> None:
        await to_calls(app, pilot)
        table = app.query_one(CallTable)
        assert " cut " not in str(table.border_title)
        await pilot.press("l")
        await until(pilot, lambda: app.view.opened and app.query_one(TraceLanes).picked() >= 0)
        on_time, own = app.results[0].window, app.results[0].part.trace  # type: ignore[union-attr]
        name = short_name(own.names[own.intervals.name[app.query_one(TraceLanes).picked()]])
        assert f"▴{name}" in seen(app), "the end of the line from its launch hides no letter of its name"
        await pilot.press("7")
        await until(pilot, lambda: app.view.screen == "calls" and "cut to" in str(table.border_title))
        assert (app.results[0].window.start, app.results[0].window.end) == (on_time.start, on_time.end)
        app.query_one(CallsPane).choose("calltree")
        await pilot.pause()
        assert "cut to" in str(app.query_one(CallTreeTable).border_title)

    work(app, steps, (101, 36))


def test_the_cursor_stays_on_the_first_line_until_somebody_moves_it() -> None:
    app = of_trace(training(3))

    async def steps(pilot: Pilot[int]) -> None:
        await to_calls(app, pilot)
        table, first_names = app.query_one(CallTable), set()
        for _ in range(len(table.headings())):
            await pilot.press("s")
            assert table.at == 0
            first_names.add(table.values["name"][table.item])
        assert len(first_names) > 1, "all columns have the same name first: this says nothing"
        await pilot.press("down", "up", "r")
        assert table.values["name"][table.item] in first_names and table.at == len(table.order) - 1

    work(app, steps, (200, 60))


def test_the_palette_finds_what_the_keys_of_the_focused_panel_do() -> None:
    app = of_trace(training(1))

    async def steps(pilot: Pilot[int]) -> None:
        await to_calls(app, pilot)
        for typed, done in (("next table", lambda: app.query_one(CallsPane)._table != "kernels"),
                            ("longest", lambda: app.view.screen == "time")):  # fmt: skip
            await pilot.press("ctrl+p", *typed)
            await until(pilot, lambda typed=typed: f"{typed.capitalize()}" in seen(app).replace("▎", ""), 10)  # type: ignore[misc]
            await pilot.press("enter")
            await until(pilot, done, 10)

    work(app, steps, (120, 36))
