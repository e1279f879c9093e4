"""The live screen as its user works it: keys, the mouse, sorting, filters, sizes, and a recording that grows."""

import asyncio
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from textual.command import CommandPalette
from textual.events import Key
from textual.pilot import Pilot
from textual.widgets import Digits, Input, Label, Tabs
from textual.widgets._toast import Toast

from gssr import from_pandas
from gssr.backends.synthetic.bulk import START, generate
from gssr.model.live.live_result import Query, Result
from gssr.model.live.watched_recording import WatchedRecording
from gssr.render.glyphs import ASCII, UTF8, Glyphs
from gssr.render.verdicts import limits_of, texts_of
from gssr.report.live.gpu_columns import MEAN, NAME
from gssr.report.live.times_of_run import part_text, width_text
from gssr.tui.app import LiveScreen
from gssr.tui.gpus.inspector import Inspector
from gssr.tui.gpus.table import GpuTable
from gssr.tui.job import verdict_cards
from gssr.tui.job.space_average import SpaceAverage
from gssr.tui.shared.footer import KeyFooter
from gssr.tui.shared.keys_panel import KeysPanel
from gssr.tui.shared.tabs import TABS
from gssr.tui.shared.verdict_card import VerdictCard
from gssr.tui.shared.wall import Wall
from gssr.tui.time.wall import TimeWall
from gssr.tui.view import ScreenName, View
from gssr.tui.why.causes import Causes
from tests.fakes.growing import STEP, Growing
from tests.looking import live_screen, open_tab, seen, until, work


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Eight GPUs of which each does less than the one before."""
    path = str(tmp_path_factory.mktemp("live") / "imbalanced.sql")
    generate(path, "imbalanced", 8, 0.05, 0.5)
    return path


def test_until_there_is_a_result_it_says_what_it_reads(recording: str) -> None:
    may_read = threading.Event()

    class Slow(WatchedRecording):
        """A recording that takes long to read."""

        def read_result(self, query: Query, quick: bool) -> Result:
            may_read.wait(60)
            return super().read_result(query, quick)

    app = live_screen(Slow(recording))
    app.reading = "reading imbalanced.sql"

    async def run() -> None:
        async with app.run_test(size=(120, 40)) as pilot:
            await until(pilot, lambda: "reading imbalanced.sql" in seen(app))
            may_read.set()
            await until(pilot, lambda: "GPU saturation" in seen(app) and "reading" not in seen(app))

    asyncio.run(run())


def test_job_says_the_score_as_such_and_what_is_wrong(recording: str) -> None:
    app = live_screen(recording)

    async def steps(pilot: Pilot[int]) -> None:
        await until(pilot, lambda: app.results[0].judgement is not None)
        score = app.results[0].whole.score()
        assert score is not None
        assert app.query_one("#score-digits", Digits).value == f"{score:.3f}"
        assert str(app.query_one("#score-words", Label).render()).startswith("score\n")
        text = seen(app)
        assert "of the GPU time is spent computing" in text and "warning" in text and "every GPU over time" in text

    work(app, steps)


def test_without_a_score_the_number_is_of_the_time_that_it_names(tmp_path: Path) -> None:
    time = np.arange(300.0)
    values = np.where(time < 150, 0.9, 0.1)
    from_pandas(pd.DataFrame({"gpu": 0, "time": START + time, "gpu_utilization": values}), tmp_path / "a.sql")
    app = live_screen(str(tmp_path / "a.sql"))

    async def steps(_pilot: Pilot[int]) -> None:
        assert "whole run" in seen(app)
        assert app.query_one("#score-digits", Digits).value == "50%"

    work(app, steps)


def test_digits_go_to_screens(recording: str) -> None:
    app = live_screen(recording)

    async def steps(pilot: Pilot[int]) -> None:
        for digit, screen in (("2", "gpus"), ("3", "time"), ("4", "balance"), ("5", "why"), ("1", "job")):
            await pilot.press(digit)
            tabs = app.query_one("#tabs", Tabs)
            await until(pilot, lambda tabs=tabs, at=screen: app.view.screen == tabs.active == at)  # type: ignore[misc]

    work(app, steps)


@pytest.mark.parametrize("seconds", (0.0, 0.03))
def test_of_digits_typed_faster_than_screens_are_drawn_the_last_counts(recording: str, seconds: float) -> None:
    app = live_screen(recording)

    async def steps(pilot: Pilot[int]) -> None:
        for digits in ("2345", "1354", "3451"):  # each ends elsewhere than the one before
            for digit in digits:
                app.post_message(Key(digit, digit))  # as a terminal sends it, and nobody waits for what comes of it
                await asyncio.sleep(seconds)
            name = TABS[int(digits[-1]) - 1].name

            def is_there(name: str = name) -> bool:
                focused = app.screen.focused
                shown, active = app.view.screen, app.query_one("#tabs", Tabs).active
                return shown == active == name and focused is not None and app.pane in focused.ancestors

            await until(pilot, is_there)
            await pilot.pause(0.5)
            assert is_there(), "no older one comes back"

    work(app, steps)


def type_at_once(app: LiveScreen, text: str) -> None:
    """Send all keys before the first is handled."""
    for char in text:
        app.post_message(Key({"/": "slash", ">": "greater_than_sign"}.get(char, char), char))


def test_keys_typed_ahead_are_for_the_tab_that_was_chosen(recording: str) -> None:
    app = live_screen(recording)

    async def steps(pilot: Pilot[int]) -> None:
        type_at_once(app, "2/sm>1")
        await until(pilot, lambda: isinstance(app.screen.focused, Input) and app.view.filter == "sm>1")
        assert app.view.screen == "gpus"

    work(app, steps)


def test_keys_typed_at_once_are_for_what_the_first_of_them_focuses(recording: str) -> None:
    app = live_screen(recording)

    async def steps(pilot: Pilot[int]) -> None:
        await pilot.press("2")
        await until(pilot, lambda: isinstance(app.screen.focused, GpuTable))
        type_at_once(app, "/sm>1")
        await until(pilot, lambda: app.view.filter == "sm>1")
        assert app.query_one("#gpu-filter", Input).value == "sm>1" and app.query_one(GpuTable).sort == NAME
        await pilot.press("escape", "escape")
        type_at_once(app, "t90")
        await until(pilot, lambda: len(app.screen_stack) == 2 and app.screen.query_one(Input).value == "90")

    work(app, steps)


def test_compare_is_there_with_a_second_run_only(recording: str, tmp_path: Path) -> None:
    other = str(tmp_path / "train.sql")
    generate(other, "train", 8, 0.02, 0.5)
    alone, two = live_screen(recording), live_screen(recording, other)

    async def without(pilot: Pilot[int]) -> None:
        assert not alone.query_one("#tabs #compare").display
        await pilot.press("6", "7")
        await until(pilot, lambda: len(alone._notifications) == 2)
        compare, calls = (each.message for each in alone._notifications)
        assert compare.startswith("There is no Compare: only one run is open.") and calls.startswith(
            "There is no Calls:"
        )
        assert alone.view.screen == "job"
        offered = {each.binding.action for each in alone.screen.active_bindings.values()}
        assert {"tab('job')", "tab('why')"} <= offered and not {"tab('compare')", "tab('calls')"} & offered
        await pilot.press("question_mark")
        await until(pilot, lambda: "Balance" in seen(alone) and bool(alone.screen.query(KeysPanel)))
        assert "was another run better" not in " ".join(seen(alone).split()).lower()

    async def with_it(pilot: Pilot[int]) -> None:
        await pilot.press("6")
        await until(pilot, lambda: len(two.results) == 2)
        assert "train" in seen(two)

    work(alone, without, (160, 80))
    work(two, with_it)


def test_a_click_on_a_head_sorts_by_it_and_again_reverses(recording: str) -> None:
    app = live_screen(recording)

    async def steps(pilot: Pilot[int]) -> None:
        await open_tab(pilot, app, "2")
        table = app.query_one(GpuTable)
        assert table.sort == NAME and table.order.tolist() == list(range(8))
        x = next(heading.begin for heading in table.headings() if heading.key == MEAN)
        left = table.content_region.offset - table.region.offset
        await pilot.click(GpuTable, offset=(left.x + x + 1, left.y))
        assert table.sort == MEAN and table.order.tolist() == list(range(7, -1, -1))
        await pilot.click(GpuTable, offset=(left.x + x + 1, left.y))
        assert table.order.tolist() == list(range(8))

    work(app, steps)


def test_the_cursor_stays_on_its_gpu_whatever_the_order(recording: str) -> None:
    app = live_screen(recording)

    async def steps(pilot: Pilot[int]) -> None:
        await open_tab(pilot, app, "2")
        table = app.query_one(GpuTable)
        await pilot.press("home", "down", "down")
        assert table.item == 2
        for _ in range(3):
            await pilot.press("s")
            assert table.item == 2
        await pilot.press("r")
        assert table.item == 2 and app.query_one(Inspector).gpu == 2
        await until(pilot, lambda: app.query_one(Inspector).border_title == app.results[0].place(2))

    work(app, steps)


def test_a_filter_shows_what_passes_and_escape_lets_go_of_it(recording: str) -> None:
    app = live_screen(recording)

    async def steps(pilot: Pilot[int]) -> None:
        await open_tab(pilot, app, "2")
        await pilot.press("slash", *"*:3")
        table = app.query_one(GpuTable)
        assert table.order.tolist() == [3] and "1 of 8" in str(table.border_subtitle)
        await pilot.press("enter")
        assert table.has_focus and app.query_one("#gpu-filter", Input).display
        await pilot.press("escape")
        assert len(table.order) == 8 and not app.query_one("#gpu-filter", Input).display

    work(app, steps)


def test_a_click_on_the_wall_goes_to_its_gpu(recording: str) -> None:
    app = live_screen(recording)

    async def steps(pilot: Pilot[int]) -> None:
        wall = app.query_one(Wall)
        await until(pilot, lambda: app.results[0].judgement is not None and wall.seen is not None)
        left = wall.content_region.offset - wall.region.offset
        line = next(line for line in wall.seen.lines if line.members.tolist() == [5])
        await pilot.click("#wall", offset=(left.x + wall.offset_of(app.results[0]) + 3, left.y + line.top))
        await until(pilot, lambda: app.view.screen == "gpus" and bool(app.query(GpuTable)))
        await until(pilot, lambda: app.query_one(GpuTable).item == 5)

    work(app, steps)


def test_the_wall_says_the_width_of_the_cells_that_it_draws(recording: str) -> None:
    app = live_screen(recording)

    async def steps(pilot: Pilot[int]) -> None:
        wall = app.query_one(Wall)

        def do_agree() -> bool:
            if wall.seen is None:
                return False
            drawn, said = wall.seen.cells, str(wall.border_subtitle)
            return f"{width_text(drawn.width)} a cell" in said and drawn.n == wall.cells(app.results[0])

        async def agree() -> None:
            await until(pilot, do_agree)

        await agree()
        await pilot.click(SpaceAverage, offset=(30, 2))
        await pilot.press("y")
        await agree()
        for size in ((80, 24), (200, 60)):
            await pilot.resize_terminal(*size)
            await agree()
        for keys in ("plus", "w", "minus"):
            span = app.results[0].grid.width
            await pilot.press(keys)
            await until(pilot, lambda span=span: app.results[0].grid.width != span or app.view.span is None)
            await agree()

    work(app, steps)


def test_the_wall_shows_only_the_gpus_that_are_chosen(recording: str) -> None:
    app = live_screen(recording)
    app.wanted_gpus = ("2", "5")

    async def steps(pilot: Pilot[int]) -> None:
        await until(pilot, lambda: app.view.selection == (2, 5))
        for digit, kind in (("1", Wall), ("3", TimeWall)):
            await pilot.press(digit)
            await until(pilot, lambda kind=kind: app.pane.is_ready and app.query_one(kind).view.selection == (2, 5))
            wall = app.query_one(kind)
            lines = wall.seen.lines
            assert [line.members.tolist() for line in lines] == [[2], [5]]
            assert "2 GPUs over time" in str(wall.border_title)

    work(app, steps)


def test_a_notice_leaves_most_of_a_small_terminal_to_the_screen(recording: str) -> None:
    app = live_screen(recording)

    async def steps() -> None:
        async with app.run_test(size=(30, 8), notifications=True) as pilot:
            await until(pilot, lambda: bool(app.results) and app.results[0].n_rows > 0)
            await pilot.press("w")
            await until(pilot, lambda: bool(app.screen.query(Toast)))
            assert "Window" in seen(app) and app.screen.query_one(Toast).region.height <= 2

    asyncio.run(steps())


def test_enter_on_a_card_opens_why(recording: str) -> None:
    app = live_screen(recording)

    async def steps(pilot: Pilot[int]) -> None:
        await until(pilot, lambda: app.results[0].judgement is not None)
        app.query(VerdictCard).first().focus()
        await pilot.press("enter")
        await until(pilot, lambda: app.view.screen == "why")

    work(app, steps)


@pytest.mark.parametrize("said_above", [True, False])
def test_cards_tell_as_much_as_the_screen_has_room_for_and_all_in_their_tooltips(
    recording: str, monkeypatch: pytest.MonkeyPatch, said_above: bool
) -> None:
    """On a short screen what to do, and what is wrong only if the sentence above does not say it already."""
    monkeypatch.setattr(verdict_cards, "is_in_headline", lambda *_: said_above)
    app = live_screen(recording)

    async def steps(pilot: Pilot[int]) -> None:
        await until(pilot, lambda: app.results[0].judgement is not None)
        judgement = app.results[0].judgement
        assert judgement is not None and judgement.verdicts
        verdict, card = judgement.verdicts[0], app.query(VerdictCard).first()
        numbers, advice = texts_of(verdict)[0], verdict.advice.partition(":")[0]

        def told() -> tuple[bool, ...]:
            text = str(card.render())
            return verdict.title in text, advice in text, numbers in text

        for size, expected in (((200, 60), (True, True, True)), ((120, 40), (True, True, False))):
            await pilot.resize_terminal(*size)
            await until(pilot, lambda expected=expected: told() == expected)  # type: ignore[misc]
        await pilot.resize_terminal(80, 24)
        await until(pilot, lambda: told() == (not said_above, True, False))
        assert card.size.height == (1 if said_above else 2)
        tooltip = str(card.tooltip)
        assert all(text in tooltip for text in (verdict.title, advice, numbers, limits_of(verdict.source)))

    work(app, steps, (200, 60))


def test_all_about_a_gpu_is_under_its_name_once_the_cursor_is_on_it(recording: str) -> None:
    app = live_screen(recording)

    async def steps(pilot: Pilot[int]) -> None:
        await pilot.press("2")
        await until(pilot, lambda: bool(app.query(Inspector)) and app.query_one(GpuTable).item >= 0)
        await pilot.press("down")
        await until(pilot, lambda: app.query_one(GpuTable).item == 1)
        await until(pilot, lambda: str(app.query_one(Inspector).border_title) == app.results[0].place(1))
        app.query_one(Inspector).inspect(-1)
        assert not app.query_one(Inspector).border_title

    work(app, steps)


def test_a_metric_is_chosen_by_a_part_of_its_name(recording: str) -> None:
    app = live_screen(recording)

    async def steps(pilot: Pilot[int]) -> None:
        await pilot.press("m")
        assert isinstance(app.screen, CommandPalette)
        await pilot.press(*"dram", "enter")
        await until(pilot, lambda: app.results[0].grid.metric == "dram_active")
        assert "DRAM active" in str(app.query_one(SpaceAverage).border_title)

    work(app, steps)


@pytest.mark.parametrize("screen", ["job", "gpus", "time", "balance", "why", "compare"])
def test_z_gives_the_focused_panel_the_whole_screen_and_takes_it_back(
    recording: str, tmp_path: Path, screen: ScreenName
) -> None:
    watched = [recording, str(tmp_path / "train.sql")][: 2 if screen == "compare" else 1]
    if screen == "compare":
        generate(watched[1], "train", 8, 0.02, 0.5)
    app = live_screen(*watched, view=View(screen=screen))

    async def steps(pilot: Pilot[int]) -> None:
        await until(pilot, lambda: app.focused is not None and len(app.results) == len(watched))
        first = app.focused
        while True:
            assert app.focused is not None
            panel = next((each for each in app.focused.ancestors_with_self if each.has_class("panel")), None)
            if panel is not None:
                before = panel.region
                await pilot.press("z")
                await until(pilot, lambda panel=panel: panel.region == (0, 0, 120, 39))  # type: ignore[misc]
                await pilot.press("z")
                await until(pilot, lambda panel=panel, before=before: panel.region == before)  # type: ignore[misc]
            await pilot.press("tab")
            if app.focused is first:
                break
        await pilot.press("z", "2" if screen != "gpus" else "1")
        await until(pilot, lambda: app.screen.maximized is None and app.view.screen != screen)

    work(app, steps, (120, 40))


@pytest.mark.parametrize("screen", ["balance", "why"])
def test_a_window_that_is_not_the_whole_run_is_named_in_the_title(recording: str, screen: ScreenName) -> None:
    app = live_screen(recording, view=View(screen=screen))

    async def steps(pilot: Pilot[int]) -> None:
        await until(pilot, lambda: app.results[0].judgement is not None)
        titles = {"balance": "what evening out would give", "why": "what keeps it from being saturated"}
        assert f"{titles[screen]}──" in seen(app).replace("━", "─")
        result = app.results[0]
        app.change_view(replace(app.view, span=30.0, end=result.first + 60.0))
        await until(pilot, lambda: app.results[0].judgement is not None and part_text(app.results[0]) != "")
        assert f"{titles[screen]}, {part_text(app.results[0])}─" in seen(app).replace("━", "─") and " to " in part_text(
            app.results[0]
        )

    work(app, steps, (80, 24))


def test_help_names_the_keys_of_the_focused_panel(recording: str) -> None:
    app = live_screen(recording)

    async def steps(pilot: Pilot[int]) -> None:
        await pilot.press("2", "question_mark")
        await until(pilot, lambda: "sort by the next" in " ".join(seen(app).split()))
        keys = [" ".join(line.split()).partition("▏ ")[2] for line in seen(app).split("\n")]
        own = " ".join(keys[: keys.index("all screens")])
        assert "s sort by the next" in own and "Focus Next" not in own and "Quit" not in own
        await pilot.press("question_mark")
        await until(pilot, lambda: not app.screen.query(KeysPanel))

    work(app, steps, (160, 50))


@pytest.mark.parametrize("digit", ["1", "2", "3", "5"])
def test_help_lists_keys_in_our_words_and_as_what_they_do(recording: str, digit: str) -> None:
    app = live_screen(recording)

    async def steps(pilot: Pilot[int]) -> None:
        await pilot.press(digit, "question_mark")
        await until(pilot, lambda: bool(app.screen.query(KeysPanel)))
        for each in list(app.pane.query("*")):
            if each.focusable and each.display:
                app.screen.set_focus(each)
                await pilot.pause(0.1)
                text = " ".join(" ".join(line.partition("▏")[2].split()) for line in seen(app).split("\n"))
                assert "^c super+c copy the text that the mouse has selected; without any," in text
                for textuals in ("Focus", "Scroll", "Cursor", "Quit the app", "Copy selected text", "^q"):
                    assert textuals not in text, each

    work(app, steps, (200, 90))


def test_help_that_does_not_fit_is_scrolled_and_closed_by_keys(recording: str) -> None:
    app = live_screen(recording)

    async def steps(pilot: Pilot[int]) -> None:
        await pilot.press("3", "question_mark")
        await until(pilot, lambda: bool(app.screen.query(KeysPanel)))
        await until(pilot, lambda: app.screen.query_one(KeysPanel).max_scroll_y > 0)
        focused = app.screen.focused
        await pilot.press("ctrl+d", "ctrl+d", "ctrl+u")
        await until(pilot, lambda: 0 < app.screen.query_one(KeysPanel).scroll_y < 40)
        assert app.screen.focused is focused
        await pilot.press("escape")
        await until(pilot, lambda: not app.screen.query(KeysPanel))

    work(app, steps, (80, 24))


@pytest.mark.parametrize("glyphs", [UTF8, ASCII])
def test_every_size_says_the_score(recording: str, glyphs: Glyphs) -> None:
    app = live_screen(recording, glyphs=glyphs)

    async def steps(pilot: Pilot[int]) -> None:
        for size in ((30, 8), (59, 15), (80, 16), (200, 60), (120, 36), (80, 24)):
            await pilot.resize_terminal(*size)
            await until(pilot, lambda size=size: app.screen.size == size and "score" in seen(app))  # type: ignore[misc]
            if glyphs is ASCII:
                drawn = seen(app).rpartition("\n m ")[0] if size[1] > 10 else ""
                assert drawn.isascii(), {char for char in drawn if ord(char) > 127}
        await until(pilot, lambda: "every GPU over time" in seen(app))

    work(app, steps, (30, 8))


def test_in_ascii_textuals_own_widgets_are_so_too(recording: str) -> None:
    app = live_screen(recording, glyphs=ASCII)

    async def steps(pilot: Pilot[int]) -> None:
        app.notify("50 °C – ▁▂ 中 ⠿")
        for opened, closed in (
            ("question_mark",) * 2,
            ("2", "down"),
            *((key, "escape") for key in "mtTe"),
            ("ctrl+p", ""),
        ):
            await pilot.press(opened)
            await pilot.pause(0.2)
            assert seen(app).isascii(), seen(app)
            if closed:
                await pilot.press(closed)

    work(app, steps, (80, 30))


def test_below_the_least_size_the_lowest_gpus_are_told(recording: str) -> None:
    app = live_screen(recording)

    async def steps(_: Pilot[int]) -> None:
        text = seen(app)
        lowest = int(app.results[0].window.per_gpu("sm_active").argmin())
        assert "lowest GPUs" in text and app.results[0].place(lowest)[-3:] in text

    work(app, steps, (58, 15))


@pytest.mark.parametrize("theme", ["gssr", "gssr-viridis", "ansi-light", "colourless", "nord"])
def test_every_theme_draws(recording: str, theme: str) -> None:
    app = LiveScreen([WatchedRecording(recording)], UTF8, 10.0, 256, theme)

    async def steps(pilot: Pilot[int]) -> None:
        assert app.theme == theme and "every GPU over time" in seen(app)
        await open_tab(pilot, app, "2")

    work(app, steps)


def test_a_growing_recording_rolls_in_at_the_right_edge(tmp_path: Path) -> None:
    growing = Growing(tmp_path / "grow.sql")
    growing.grow(40)
    app = live_screen(str(growing.path))

    async def steps(pilot: Pilot[int]) -> None:
        await until(pilot, lambda: app.results[0].query.width == 1.0)
        before, rows = app.results[0].last, app.results[0].n_rows
        growing.grow(8)
        await until(pilot, lambda: app.results[0].n_rows > rows)
        assert app.results[0].last == pytest.approx(before + 8 * STEP)
        wall = app.query_one(Wall)
        wall.render_line(0)
        assert wall.seen.cells.rolls and wall.seen.cells.width == 1.0
        assert "now" in seen(app) and "live" in seen(app)
        await pilot.press("w")
        await until(pilot, lambda: app.results[0].query.span is None)

    work(app, steps)


def test_an_ended_recording_is_drawn_once(recording: str) -> None:
    app = live_screen(recording)

    async def steps(pilot: Pilot[int]) -> None:
        await until(pilot, lambda: app.results[0].judgement is not None)
        shown = app.results
        await pilot.pause(2.5)
        assert app.results is shown

    work(app, steps)


def test_q_leaves_without_an_error(recording: str) -> None:
    app = live_screen(recording)

    async def steps(pilot: Pilot[int]) -> None:
        await pilot.press("q")

    work(app, steps)
    assert app.return_code == 0


@pytest.mark.parametrize("width", [60, 80, 160])
def test_the_footer_cuts_no_key_and_always_leads_to_all(recording: str, width: int) -> None:
    app = live_screen(recording, view=View(screen="why"))

    async def steps(pilot: Pilot[int]) -> None:
        await until(pilot, lambda: isinstance(app.focused, Causes))
        await until(pilot, lambda: "? Keys" in seen(app).splitlines()[-1])
        line = seen(app).splitlines()[-1]
        assert len(line) <= width and line.rstrip().endswith("▏ ^p Commands") and "q Quit" in line
        labels = {each.binding.description for each in app.screen.active_bindings.values()}
        keys = line.partition("▏")[0].strip().split("  ")
        assert {each.partition(" ")[2] for each in keys} <= labels, "each key is named whole"
        await pilot.press("z")
        await until(pilot, lambda: app.screen.maximized is not None and "? Keys" in seen(app).splitlines()[-1])
        await pilot.press("z")
        await pilot.click(KeyFooter, offset=(line.index("? Keys"), 0))
        await until(pilot, lambda: bool(app.query(KeysPanel)))

    work(app, steps, (width, 24))


def test_esc_closes_the_output_when_there_is_nothing_else_to_go_back_from(recording: str) -> None:
    app = live_screen(recording)

    async def steps(pilot: Pilot[int]) -> None:
        await pilot.press("o")
        await until(pilot, lambda: "─output" in seen(app))
        await pilot.press("escape")
        await until(pilot, lambda: "─output" not in seen(app))
        await pilot.press("escape")
        assert not app.shows_output

    work(app, steps, (80, 24))


def test_the_focused_panel_is_told_without_colour(recording: str) -> None:
    app = live_screen(recording)

    async def steps(pilot: Pilot[int]) -> None:
        await until(pilot, lambda: app.screen.focused is not None)
        assert any(line.startswith("━GPU saturation") for line in seen(app).splitlines())

    work(app, steps, (80, 24))


@pytest.mark.parametrize("height", [14, 24, 30])
def test_gpus_keep_five_rows_above_the_output(recording: str, height: int) -> None:
    app = live_screen(recording, view=View(screen="gpus"))

    async def steps(pilot: Pilot[int]) -> None:
        app.action_output()
        await until(pilot, lambda: "─output" in seen(app))
        text = seen(app)
        assert sum(f":{gpu}  " in text for gpu in range(8)) >= 5, text

    work(app, steps, (80, height))


def test_who_is_looked_at_is_said_on_a_small_terminal_and_the_chart_is_of_them(recording: str) -> None:
    app = live_screen(recording)

    async def steps(pilot: Pilot[int]) -> None:
        await until(pilot, lambda: app.results[0].judgement is not None)
        await open_tab(pilot, app, "2")
        await pilot.press("end")
        gpu = app.query_one(GpuTable).item
        place, mean = app.results[0].place(gpu), app.results[0].window.per_gpu(app.results[0].grid.metric)[gpu]
        await pilot.press("enter")
        await until(pilot, lambda: app.view.screen == "job" and app.results[0].query.gpus == (gpu,))
        assert f"looking at {place}" in seen(app).splitlines()[0]
        chart = app.query_one(SpaceAverage)
        assert str(chart.border_title).endswith(f": {place}") and f"mean {100 * mean:.1f} %" == chart.border_subtitle
        app.change_view(replace(app.view, selection=(0, gpu), selected=", ".join(f"node0000:{at}" for at in range(9))))
        await until(pilot, lambda: app.results[0].query.gpus == (0, gpu))
        assert "looking at 2 GPUs" in seen(app).splitlines()[0]
        assert "mean of 2 of 8 GPUs" in str(chart.border_title)

    work(app, steps, (80, 24))


def test_all_tabs_stay_in_sight_beside_the_list_of_keys(recording: str) -> None:
    app = live_screen(recording, recording)

    async def steps(pilot: Pilot[int]) -> None:
        await open_tab(pilot, app, "5")
        before = seen(app).splitlines()[1]
        await pilot.press("question_mark")
        await until(pilot, lambda: bool(app.screen.query(KeysPanel)))
        for number, tab in enumerate(TABS[:6], 1):
            assert f"{number} {tab.title}" in seen(app).splitlines()[1]
        await pilot.press("question_mark")
        await until(pilot, lambda: not app.screen.query(KeysPanel))
        assert seen(app).splitlines()[1] == before

    work(app, steps, (80, 24))


def test_the_key_that_copies_a_command_is_never_broken_off_it(recording: str) -> None:
    app = live_screen(recording)

    async def steps(pilot: Pilot[int]) -> None:
        await until(pilot, lambda: app.results[0].judgement is not None)
        await open_tab(pilot, app, "5")
        await until(pilot, lambda: "y copies it" in seen(app), 10)
        for width in range(48, 72, 4):
            await pilot.resize_terminal(width, 60)
            await until(pilot, lambda width=width: app.size.width == width)  # type: ignore[misc]
            assert "y copies it" in seen(app), width

    work(app, steps, (120, 60))


def test_balance_says_all_of_its_numbers_where_there_is_room(tmp_path: Path) -> None:
    path = str(tmp_path / "imbalanced.sql")
    generate(path, "imbalanced", 16, 0.05, 1.0)
    app = live_screen(path)

    async def steps(pilot: Pilot[int]) -> None:
        await until(pilot, lambda: app.results[0].judgement is not None)
        await open_tab(pilot, app, "4")
        await until(pilot, lambda: "by GPU index, mean over 2 nodes" in seen(app), 10)
        assert "if all ran like the median GPU" in seen(app) and "…" not in seen(app)
        assert "! node" not in seen(app) and "▲ node" in seen(app).partition("nodes and places")[2]

    work(app, steps, (160, 48))


def test_a_key_or_a_filter_that_finds_nothing_says_why(recording: str, monkeypatch: pytest.MonkeyPatch) -> None:
    app, said = live_screen(recording, recording), list[str]()
    monkeypatch.setattr(app, "notify", lambda text, **_: said.append(text))

    async def steps(pilot: Pilot[int]) -> None:
        await open_tab(pilot, app, "6")
        await pilot.press("c")
        assert [text for text in said if "No other run" in text]
        await open_tab(pilot, app, "2")
        await pilot.press("slash", *"000", "enter")
        await until(pilot, lambda: "*000* finds a part" in seen(app), 5)
        await pilot.press("slash", "home", "asterisk", "end", "asterisk", "enter")
        await until(pilot, lambda: len(app.query_one(GpuTable).order) == 8, 5)

    work(app, steps, (120, 40))
