"""Why, Balance and Compare: what they say of planted causes, and how their user works them."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from contextlib import closing
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest
from textual.pilot import Pilot

from gssr.backends.synthetic.bulk import generate
from gssr.model.breakdown.categories import CATEGORIES
from gssr.model.breakdown.result import positions_of
from gssr.model.compare.comparison import analyze_to_compare, compare
from gssr.model.live.alignment import aligned, shares_columns
from gssr.model.live.live_result import Query, Result
from gssr.model.live.steady_order import SteadyOrders
from gssr.model.live.watched_recording import WatchedRecording
from gssr.model.results import Finding, Judgement, LeadingLoss, Verdict
from gssr.model.verdicts.rules import TABLE
from gssr.render.breakdown import LEAST_TOLD
from gssr.render.glyphs import ASCII, UTF8, Glyphs
from gssr.render.roles import text_of
from gssr.render.scale import percent
from gssr.report.compared_figures import compared_figures, figure_text
from gssr.report.live.gpu_columns import CLASS, columns_of
from gssr.report.live.run_effects import effects, outcome_of_sentence, sentence, use_change
from gssr.report.live.times_of_run import part_text
from gssr.report.live.unevenness import costs, reads_as
from gssr.store.read.recording import open_recording
from gssr.tui.app import LiveScreen
from gssr.tui.balance.gpu_bars import GpuBars
from gssr.tui.compare.curves import Curves
from gssr.tui.compare.effect_table import EffectTable
from gssr.tui.compare.sentence import CompareSentence
from gssr.tui.gpus.nodes import NodeTable
from gssr.tui.gpus.table import GpuTable
from gssr.tui.shared.verdict_card import command_of, evidence_bar
from gssr.tui.view import View
from gssr.tui.why.account import AccountTree, items_of
from gssr.tui.why.causes import Causes
from tests import looking
from tests.fakes.frames import frame_of
from tests.fakes.planted import START
from tests.looking import Fixed, live_screen, open_tab, seen, until

_WHOLE = Query(causes=TABLE)
_COMPARED = Query(columns=80, causes=TABLE)
Work = Callable[[Pilot[int], LiveScreen], Awaitable[None]]


@lru_cache(maxsize=16)
def judged(path: str, query: Query = _WHOLE) -> Result:
    return looking.judged(path, query)


def balance(frame: Result, orders: SteadyOrders | None = None) -> str:
    return text_of(reads_as(frame, orders or SteadyOrders(most=0), frame.unevenness.imbalance))


def work(paths: list[str], steps: Work, size: tuple[int, int] = (120, 40), glyphs: Glyphs = UTF8) -> None:
    """Do the steps once the recordings are shown and judged."""
    app = LiveScreen([WatchedRecording(path) for path in paths], glyphs, 10.0, 256)

    async def run() -> None:
        async with app.run_test(size=size) as pilot:
            await until(pilot, lambda: bool(app.results) and app.results[0].judgement is not None)
            await steps(pilot, app)

    asyncio.run(run())


# Why


def test_cards_open_one_at_a_time_and_the_command_is_copied(plants: dict[str, str]) -> None:
    async def steps(pilot: Pilot[int], app: LiveScreen) -> None:
        await pilot.press("5")
        await until(pilot, lambda: len(app.query("#causes VerdictCard")) >= 2)
        causes = app.query_one(Causes)
        text = seen(app)
        flat = " ".join(re.sub("[│┃▌]", " ", text).split())
        assert "reported from 16 % on" in flat and "┃" in text and "nsys profile" in text and "not judged" in text
        assert "Copy data" not in text, "the other one is closed"
        await pilot.press("y")
        assert app.clipboard.startswith("nsys profile") and app.clipboard.endswith("PROGRAM")
        causes.focus()
        await pilot.press("down")
        await until(pilot, lambda: "Copy data" in seen(app) and "nsys profile" not in seen(app))
        assert app.view.note == 1
        await pilot.press("up")
        await pilot.click(list(app.query("#causes VerdictCard"))[1])
        await until(pilot, lambda: app.view.note == 1)

    work([plants["before"]], steps)


def test_the_account_is_a_tree_that_opens_to_gpus(plants: dict[str, str]) -> None:
    frame = judged(plants["before"])
    assert frame.judgement is not None and frame.judgement.breakdown is not None
    items = items_of(frame.judgement.breakdown, frame)
    assert sum(item.share for item in items) == pytest.approx(1.0, abs=LEAST_TOLD)
    seconds = sum(item.hours for item in items) * 3600
    assert seconds == pytest.approx(frame.judgement.breakdown.gpu_seconds, rel=LEAST_TOLD)
    idle = next(item for item in items if item.name == "is idle")
    imbalance = next(item for item in idle.below if item.category == "idle.imbalance")
    assert imbalance.below[0].name == "nid000002:1" and "other GPUs" in imbalance.below[-1].name
    assert sum(gpu.share for gpu in imbalance.below) == pytest.approx(imbalance.share, abs=LEAST_TOLD)

    async def steps(pilot: Pilot[int], app: LiveScreen) -> None:
        await pilot.press("5")
        await until(pilot, lambda: "GPU-h" in seen(app))
        account = app.query_one(AccountTree)
        text = seen(app)
        assert "±" in text and "computes on tensor cores" in text and "nid000002:1  " not in text
        account.focus()
        await pilot.press("end", "up", "up", "enter")  # below it stand "before the first work" and "in smaller parts"
        await until(pilot, lambda: "nid000002:1  " in seen(app))

    work([plants["before"]], steps, (200, 60))


def test_enter_on_a_card_goes_to_the_gpus_that_it_blames(plants: dict[str, str]) -> None:
    async def steps(pilot: Pilot[int], app: LiveScreen) -> None:
        await pilot.press("5")
        await until(pilot, lambda: len(app.query("#causes VerdictCard")) >= 1)
        app.query_one(Causes).focus()
        await pilot.press("enter")
        await until(pilot, lambda: app.view.screen == "gpus" and bool(app.query(GpuTable)))
        await until(pilot, lambda: app.query_one(GpuTable).item == 8)

    work([plants["slow_node"]], steps)


@pytest.mark.parametrize(
    ("advice", "command"),
    [
        ("Share out evenly; gssr analyze -plb run.sql shows which GPUs wait.", "gssr analyze -plb run.sql"),
        ("See: nsys profile --trace=cuda -o step PROGRAM on one rank; then gssr analyze it.",
         "nsys profile --trace=cuda -o step PROGRAM"),
        ("Which do most: gssr analyze -plb 'a run.sql'. https://example.org/a", "gssr analyze -plb 'a run.sql'"),
        ("Record with DCGM (gssr doctor says what is there).", "gssr doctor"),
        ("gssr analyze -plb 'a run.sql' shows it", "gssr analyze -plb 'a run.sql'"),
        ("Tell the operators which node it is.", ""),
    ],
)  # fmt: skip
def test_the_command_ends_where_the_sentence_goes_on(advice: str, command: str) -> None:
    finding = Finding("share", 0.2, 0.1, "20 %")
    assert command_of(Verdict("a", "info", "t", (finding,), advice, "ours", 0.0, 1.0)) == command


# Balance


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("straggler", "nid000007:2 below the others"), ("slow_node", "constant: node nid000003"),
        ("rotating", "rotates: some GPU is behind"),
        ("late_start", "for 20.0 % of the time: node nid000005 below the others, over all of the time 65.6 %"),
    ],
)  # fmt: skip
def test_each_cause_is_named_with_its_cost(plants: dict[str, str], name: str, says: str) -> None:
    frame = judged(plants[name])
    assert says in balance(frame)
    found, breakdown = frame.unevenness.imbalance, frame.judgement and frame.judgement.breakdown
    assert found.resolved is not None and breakdown is not None
    waits, said = breakdown.share("idle.imbalance") + breakdown.share("communication.waiting"), costs(frame, found)
    assert said.startswith(
        f"In {percent(waits)} of the GPU time a GPU idles or waits in communication while others work. "
    )
    assert f" {percent(found.resolved)} less than if " in said


@pytest.mark.parametrize(
    ("low", "says"),
    [
        ([5], "constant: nid000002:1 below"), ([1, 5], "points below the mean of its node, and below it in 2 of 2 nodes"),
        ([1, 5, 9, 13], "by place: GPU 1 of each node"), ([1, 5, 9], "constant: 3 GPUs"),
    ],
)  # fmt: skip
def test_a_place_is_slow_where_it_is_so_on_nearly_every_node(low: list[int], says: str) -> None:
    """One straggler on one of two nodes made the mean of its place look slow."""
    n_gpus = 8 if max(low) < 8 else 16
    values = np.full((n_gpus, 30), 0.8) + 1e-4 * np.arange(n_gpus)[:, None]
    values[low] = 0.35
    assert says in balance(frame_of(values))


def test_of_a_run_that_grows_balance_says_what_the_verdicts_say() -> None:
    """Its own reading of a few columns came and went within seconds."""

    def live(values: np.ndarray, judgement: Judgement | None = None) -> Result:
        frame = frame_of(values, width=1.0, state="live", judgement=judgement)
        return replace(frame, query=replace(frame.query, causes=TABLE))

    values = np.full((6, 40), 0.8)
    values[np.arange(40) % 6, np.arange(40)] = 0.2
    assert "shown after 30 s" in balance(live(values[:, :10]))
    verdict = Verdict("rotating_stragglers", "info", "Another GPU holds up the others", (), "", "ours", 0.0, 1.0)
    for verdicts, says in ((), "balanced: no GPU stands out"), ((verdict,), "! Another GPU holds up the others"):
        assert balance(live(values, judgement=Judgement(verdicts, {}, 0.0, 1.0))) == says
    assert "! rotates" in balance(frame_of(values, width=1.0))


@pytest.mark.parametrize("metric", ["sm_active", "power_usage"])
def test_of_a_run_that_grows_names_keep_their_order_over_differences_that_cannot_be_seen(metric: str) -> None:
    full = 700.0 if metric == "power_usage" else 1.0
    values = np.tile(full * (0.8 + 1e-4 * np.arange(12))[:, None], 40)
    orders = SteadyOrders()
    for second in range(4):  # two stragglers, lower than each other in turn
        values[[3, 7]] = full * np.array([[0.3 + 0.001 * (second % 2)], [0.301 - 0.001 * (second % 2)]])
        frame = frame_of(values, width=1.0, metric=metric, state="live")
        assert "2 GPUs: nid000001:3, nid000002:3 below" in balance(frame, orders)


def test_what_a_gpu_does_most_is_of_the_branch_with_most_of_its_time(plants: dict[str, str]) -> None:
    """A GPU that works in two ways for most of the time was said to idle, which was the largest single category."""
    frame = judged(plants["slow_node"])
    assert frame.judgement is not None and frame.judgement.breakdown is not None
    most = columns_of(frame)[CLASS]
    for gpu, seconds in enumerate(frame.judgement.breakdown.by_gpu):
        (shown,) = [each for each in CATEGORIES if each.short == most.text(frame, gpu)]
        assert seconds[positions_of(shown.branch)].sum() >= seconds.sum() / 2


def test_bars_are_sorted_and_lead_to_their_gpu_and_nodes_to_theirs(plants: dict[str, str]) -> None:
    async def steps(pilot: Pilot[int], app: LiveScreen) -> None:
        await open_tab(pilot, app, "4")
        text = seen(app)
        assert (
            "less than if each did as much as" in text and "imbalance over time" in text and "lowest of 8 nodes" in text
        )
        bars = app.query_one(GpuBars)
        bars.focus()
        await pilot.press("end", "home")
        assert "nid000003" in seen(app)
        await pilot.press("enter")
        await until(pilot, lambda: app.view.screen == "gpus" and bool(app.query(GpuTable)))
        await until(pilot, lambda: app.query_one(GpuTable).item in range(8, 12))
        await pilot.press("v", "v")
        await until(pilot, lambda: app.query_one(NodeTable).has_focus and "▲ nid000003" in seen(app))
        await pilot.press("home", "down", "down", "enter")
        await until(pilot, lambda: app.query_one(GpuTable).order.tolist() == [8, 9, 10, 11])

    work([plants["slow_node"]], steps, (160, 50))


@pytest.mark.parametrize("keys", ["", "r"])
def test_the_gpu_that_balance_speaks_of_leads_the_bars(keys: str) -> None:
    """The highest GPU stood last of 24, below the edge of a small terminal, while the sentence was about it."""
    values = np.full((24, 30), 0.4) + 1e-4 * np.arange(24)[:, None]
    values[13] = 0.9
    app = live_screen(Fixed(frame_of(values)), view=View(screen="balance"))

    async def steps(pilot: Pilot[int]) -> None:
        await until(pilot, lambda: len(app.query_one(GpuBars).order) > 0)
        app.query_one(GpuBars).focus()
        await pilot.press(*keys)
        order = app.query_one(GpuBars).order.tolist()
        assert "nid000004:1 above the others" in seen(app) and order[0] == 13
        assert order[1:] == sorted(order[1:], reverse=bool(keys)), "the others by their means"
        assert "▲ nid000004:1 " in seen(app)
        await pilot.press("s")
        assert app.query_one(GpuBars).order.tolist() == list(range(24)), "by name"

    looking.work(app, steps, (80, 24))


def test_the_cursor_of_the_bars_begins_on_the_gpu_that_the_judgement_singles_out() -> None:
    """The judgement came after the first lines, and the cursor was pushed down to where nothing was said of it."""
    values = np.full((8, 30), 0.4) + 1e-4 * np.arange(8)[:, None]
    frame = frame_of(values)
    app = live_screen(Fixed(frame), view=View(screen="balance"))

    async def steps(pilot: Pilot[int]) -> None:
        bars = app.query_one(GpuBars)
        await until(pilot, lambda: len(bars.order) > 0)
        assert bars.item == 0
        bars.show(frame.with_judgement(late), app.view)
        assert bars.order.tolist() == [5, 0, 1, 2, 3, 4, 6, 7] and bars.item == 5
        bars.point_at_item(3)
        bars.show(frame, app.view)
        bars.show(frame.with_judgement(late), app.view)
        assert bars.item == 3, "where the reader put it"

    late = Judgement((), {}, 0.0, 6.0, leading_loss=LeadingLoss(0.2, "spent waiting", (5,)))
    looking.work(app, steps, (80, 24))


# Compare


def pair(plants: dict[str, str], first: str, second: str, asked: Query = _COMPARED) -> tuple[Result, Result]:
    one = two = None
    for _ in range(2):
        queries = aligned(asked, "start", one, two)
        one, two = judged(plants[first], queries[0]), judged(plants[second], queries[1])
    assert one is not None and two is not None and shares_columns(one, two)
    return one, two


def test_the_sentence_is_judged_by_time_and_by_where_the_gpu_time_goes(plants: dict[str, str]) -> None:
    one, two = pair(plants, "before", "after")
    said = sentence(one, two)
    label = "idle while other GPUs work"
    assert "B takes 16.7 % less time" in said and f"{label} 2.7 % → 0.7 %" in said and "score" not in said
    assert outcome_of_sentence(one, two) == "better" and outcome_of_sentence(two, one) == "worse"
    found = effects(one, two)
    assert [(each.first, each.second, each.unit) for each in found if each.name == label] == [("2.7", "0.7", "%")]
    assert [each.outcome for each in found[:2]] == ["better", "better"] and found[0].weight >= found[1].weight
    assert all(each.outcome == "within noise" for each in effects(one, one) if each.outcome != "unknown")
    assert "as long as A" in sentence(one, one) and "score" in sentence(one, one)


def test_the_screen_lists_what_the_command_lists_with_the_same_noise_and_outcomes(plants: dict[str, str]) -> None:
    analysed = []
    for name in ("before", "after"):
        with closing(open_recording(plants[name])) as recording:
            analysed.append(analyze_to_compare(recording.runs[-1], TABLE))
    comparison = compare(*analysed)
    found = {each.name: each for each in effects(*pair(plants, "before", "after"))}
    for label, unit, change in compared_figures(comparison).values():
        shown = found.pop(label)
        texts = tuple(figure_text(unit, value) for value in (change.a, change.b, change.noise))
        assert (shown.first, shown.second, shown.noise, shown.outcome) == (*texts, change.outcome)
    certain = {each.category.label: each for each in comparison.breakdown if each.is_certain}
    assert found.keys() == certain.keys()
    assert found["before the first work"].outcome == "better"


@pytest.mark.parametrize("end", [None, START + 300.0])
def test_a_window_is_the_one_of_other_screens_and_no_total_of_it_is_better(
    plants: dict[str, str], end: float | None
) -> None:
    asked = Query(columns=80, causes=TABLE, span=60.0, end=end)
    one, two = pair(plants, "after", "before", asked)
    elsewhere = judged(plants["after"], asked)
    assert (one.window.start, one.window.end) == (elsewhere.window.start, elsewhere.window.end)
    assert part_text(one) == part_text(elsewhere)
    assert two.window.start - two.first == pytest.approx(one.window.start - one.first, abs=one.grid.width)
    outcomes = {each.name: each.outcome for each in effects(one, two)}
    assert {outcomes[name] for name in ("duration", "GPU-hours", "energy")} == {"unknown"}
    assert "SM active" in outcomes and outcome_of_sentence(one, two) == "unknown"


def test_of_a_window_after_the_end_of_the_other_run_nothing_is_compared(plants: dict[str, str]) -> None:
    one, two = pair(plants, "before", "after", Query(columns=80, causes=TABLE, span=60.0))
    assert effects(one, two) == [] and sentence(one, two) == "B has nothing in this window."


def test_a_run_whose_gpus_do_less_is_not_called_better_nor_one_worse_for_doing_more(
    plants: dict[str, str], tmp_path: Path
) -> None:
    idle = str(tmp_path / "idle.sql")
    generate(idle, "idle", 8, 0.1, 0.5)
    worked, unused = pair({**plants, "idle": idle}, "before", "idle")
    assert use_change(worked, unused) == -1 and use_change(unused, worked) == 1 and use_change(worked, worked) == 0
    assert outcome_of_sentence(worked, unused) == "lower" and outcome_of_sentence(unused, worked) == "higher"
    said = sentence(worked, unused)
    assert "B takes 25.0 % less time" in said and "GPUs that did nothing 0.0 % → 100.0 %" in said
    assert said.endswith("score 0.600 → 0.000.")
    outcomes = {each.name: each.outcome for each in effects(worked, unused)}
    assert {outcomes[name] for name in ("duration", "GPU-hours", "energy", "idle while other GPUs work")} == {"lower"}
    assert "better" not in outcomes.values() and outcomes["GPUs that did nothing"] == "worse"
    back = {each.name: each.outcome for each in effects(unused, worked)}
    assert {back[name] for name in ("duration", "GPU-hours", "energy")} == {"higher"} and "worse" not in back.values()


def test_compare_shows_both_runs_over_each_other_and_in_words(plants: dict[str, str]) -> None:
    async def steps(pilot: Pilot[int], app: LiveScreen) -> None:
        await pilot.press("6")
        await until(pilot, lambda: len(app.results) == 2 and app.results[1].judgement is not None)
        await until(pilot, lambda: "B takes 1" in seen(app))
        text = seen(app)
        assert "% less time" in text and "better" in text
        table = app.query_one(EffectTable)
        table.focus()
        await pilot.press("ctrl+end")
        await until(pilot, lambda: table.row_count > 10 and "within noise" in seen(app))
        assert "aligned at their starts" in str(app.query_one(Curves).border_subtitle)
        await pilot.press("a")
        await until(pilot, lambda: "begin to work" in str(app.query_one(Curves).border_subtitle))
        await pilot.press("plus")
        await until(pilot, lambda: "run better?, 0:" in str(app.query_one(CompareSentence).border_title))
        assert "B takes" not in seen(app)
        await until(pilot, lambda: "effect first, 0:" in str(table.border_title))  # once the window is analysed

    work([plants["before"], plants["after"]], steps, (120, 50))


@pytest.mark.parametrize("size", [(30, 8), (80, 24), (200, 60)])
def test_every_size_draws_in_ascii(plants: dict[str, str], size: tuple[int, int]) -> None:
    async def steps(pilot: Pilot[int], app: LiveScreen) -> None:
        for digit in "456":
            await open_tab(pilot, app, digit)
            if digit == "6":
                await until(pilot, lambda: len(app.results) == 2)
            drawn = seen(app).rpartition("\n")[0]
            drawn = "\n".join(drawn.splitlines()[:-1])
            assert size[1] < 10 or drawn.isascii(), {char for char in drawn if ord(char) > 127}

    work([plants["before"], plants["after"]], steps, size, ASCII)


def test_a_short_screen_says_what_to_do_where_the_sentence_says_what_is_lost(tmp_path: Path) -> None:
    path = str(tmp_path / "train.sql")
    generate(path, "train", 4, 0.05, 0.2)

    async def look(pilot: Pilot[int], app: LiveScreen) -> None:
        await until(pilot, lambda: "waiting for copies." in seen(app))
        text = " ".join(seen(app).split())
        assert "▲ → Copy from pinned memory" in text and "between host and GPU" not in text

    work([path], look, size=(80, 24))


def test_a_share_is_a_bar_of_the_whole() -> None:
    finding = Finding("share", 0.25, 0.05, "25 %")
    assert text_of(evidence_bar(finding, "warning", 20, UTF8)).count("━") == 4 and evidence_bar(
        finding, "info", 20, ASCII
    )
