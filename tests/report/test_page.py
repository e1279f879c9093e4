"""The page of ``gssr analyze``: what a stranger reads in a batch log."""

import os
import re
import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pytest
from analyses import (
    activity,
    analysis,
    judged,
    one_sample,
    run,
    without_counters,
    without_gpus,
    without_samples,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from gssr.model.results import Analysis, AnalysisWindow
from gssr.render.breakdown import LOOKS, breakdown_bar
from gssr.render.cells import cell_width
from gssr.render.roles import text_of
from gssr.report.json_document import document
from gssr.report.page import PageOptions, Parts, Verbosity, series_needed
from gssr.report.terminal import page, pages, to_text
from gssr.score import score_of_means
from gssr.store.format.rows import Event

Golden = Callable[[str, str], None]

ALL = Parts(summary=True, time_series=True, load_balancing=True, metadata=True)
RUNS: dict[str, Callable[[], Analysis]] = {
    "16_gpus": analysis,
    "64_gpus": lambda: analysis(64, 16, base=0.5 + 0.5 * activity(64, 240)),
    "4_gpus": lambda: analysis(4, 1),
    "no_gpus": without_gpus,
    "no_samples": without_samples,
    "one_sample": one_sample,
    "no_counters": without_counters,
}
PIPES = ("fp64_active", "fp32_active", "fp16_active", "tensor_active")
VERBOSITIES: tuple[Verbosity, ...] = ("low", "medium", "high")


def _text(found: Analysis, parts: Parts = ALL, **options: object) -> str:
    chosen = PageOptions(**options)  # type: ignore[arg-type]
    return to_text(page(found, parts, chosen), color=False, ascii_only=chosen.ascii)


@pytest.mark.parametrize("name", RUNS)
def test_pages_look_as_somebody_last_saw_them(name: str, golden: Golden) -> None:
    golden(f"page_{name}.txt", _text(RUNS[name]()))


@pytest.mark.parametrize("verbosity", ["low", "high"])
def test_verbosity_looks_as_somebody_last_saw_it(verbosity: Verbosity, golden: Golden) -> None:
    golden(f"page_16_gpus_{verbosity}.txt", _text(analysis(), verbosity=verbosity))


def test_the_ascii_page_looks_as_somebody_last_saw_it(golden: Golden) -> None:
    golden("page_16_gpus_ascii_60.txt", _text(analysis(), width=60, ascii=True))


def test_colours_look_as_somebody_last_saw_them(golden: Golden) -> None:
    golden("page_16_gpus_colour.txt", to_text(page(analysis(), ALL, PageOptions()), color=True, ascii_only=False))


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("verbosity", VERBOSITIES)
def test_a_plain_page_holds_no_escape_and_fits_80_columns(name: str, verbosity: Verbosity) -> None:
    text = _text(RUNS[name](), verbosity=verbosity)
    assert "\x1b" not in text and "\r" not in text and "\t" not in text
    assert max(cell_width(line) for line in text.splitlines()) <= 80
    assert all(line == line.rstrip() for line in text.splitlines())


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("verbosity", VERBOSITIES)
def test_an_ascii_page_holds_ascii_only_and_lines_up_with_the_other(name: str, verbosity: Verbosity) -> None:
    found = RUNS[name]()
    text = _text(found, verbosity=verbosity, ascii=True)
    assert (
        text.isascii()
        and "\x1b" not in text
        and "?" not in text.replace("used?", "").replace("not?", "").replace("differ?", "")
    )
    assert len(text.splitlines()) == len(_text(found, verbosity=verbosity).splitlines())


@pytest.mark.parametrize("name", RUNS)
def test_colour_adds_escapes_and_nothing_else(name: str) -> None:
    rows = page(RUNS[name](), ALL, PageOptions())
    coloured = to_text(rows, color=True, ascii_only=False)
    assert "\x1b[" in coloured
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == to_text(rows, color=False, ascii_only=False)
    assert set(re.findall(r"\x1b\[[^a-zA-Z]*([a-zA-Z])", coloured)) == {"m"}  # no cursor is moved


@settings(max_examples=20)
@given(st.integers(20, 300), st.sampled_from(sorted(RUNS)), st.sampled_from(VERBOSITIES), st.booleans())
def test_nothing_but_the_closing_line_leaves_its_width(
    width: int, name: str, verbosity: Verbosity, ascii_only: bool
) -> None:
    rows = page(RUNS[name](), ALL, PageOptions(width, ascii_only, verbosity))
    assert all(cell_width(text_of(row)) <= width for row in rows[:-1])


@pytest.mark.parametrize("name", RUNS)
def test_a_page_ends_with_the_line_for_programs(name: str) -> None:
    found = RUNS[name]()
    for width in (20, 80):
        last = _text(found, width=width).splitlines()[-1]
        assert re.fullmatch(r"GSSR score=(\d\.\d{3}|unknown) imbalance=(\d\.\d{3}|unknown) gpus=\d+ gaps=\d+", last), (
            last
        )


def test_the_closing_line_gives_the_numbers_of_the_analysis() -> None:
    found = analysis()
    imbalance = found.balance["sm_active"].imbalance
    assert _text(found).endswith(f"\nGSSR score={found.score:.3f} imbalance={imbalance:.3f} gpus=16 gaps=16\n")


def test_the_closing_imbalance_is_of_sm_active_or_unknown() -> None:
    found = without_counters()
    assert found.balance["gpu_utilization"].imbalance is not None
    assert _text(found).endswith("GSSR score=unknown imbalance=unknown gpus=16 gaps=16\n")


@pytest.mark.parametrize("verbosity", VERBOSITIES)
def test_a_page_begins_with_where_the_time_goes_and_then_why(verbosity: Verbosity) -> None:
    text = _text(judged(), verbosity=verbosity)
    parts = ("GPUs on", "Where the GPU time goes", "Notes", "How well used?", "When not?", "Which GPUs differ?")
    places = [text.index(part) for part in parts]
    assert places == sorted(places)
    assert text.count("Notes") == 1 and text.splitlines()[-1].startswith("GSSR score=")


@pytest.mark.parametrize("width", [20, 40, 79, 80, 133])
@pytest.mark.parametrize("ascii_only", [False, True])
def test_the_bar_adds_up_to_the_width(width: int, ascii_only: bool) -> None:
    found = analysis().judgement.breakdown
    assert found is not None
    bar = breakdown_bar(found, width, ascii_only)
    assert cell_width(text_of(bar)) == width and " " not in text_of(bar)
    cells = dict.fromkeys(LOOKS, 0)
    roles = {look.role: name for name, look in LOOKS.items()}
    for span in bar:
        cells[roles[span.role]] += cell_width(span.text)
    for name, n in cells.items():
        assert n / width == pytest.approx(found.share(name), abs=1 / width), name


def test_the_headline_gives_the_numbers_of_the_breakdown() -> None:
    found = analysis()
    breakdown = found.judgement.breakdown
    assert breakdown is not None
    share, text = breakdown.share, " ".join(_text(found).split())
    computes = share("working") - share("working.few_sms") - share("working.slowed")
    assert f"{100 * computes:.1f} % of the GPU time is spent computing" in text
    assert f"; {100 * share('idle.imbalance'):.1f} % is idle while other GPUs work." in text
    marks = {f"{look.mark} " for look in LOOKS.values()}
    rows = [line for line in _text(found).splitlines() if " % " in line and line[:2] in marks]
    assert sum(float(re.search(r"([\d.]+) %", row)[1]) for row in rows) == pytest.approx(100, abs=0.5)  # type: ignore[index]


@pytest.mark.parametrize("name", RUNS)
def test_the_score_never_stands_without_its_caveat(name: str) -> None:
    words = " ".join(_text(RUNS[name](), Parts()).split())
    assert "indicative only: it does not compare algorithms and does not replace time to solution" in words


def test_the_page_says_what_a_tenth_more_of_each_input_would_do_to_the_score() -> None:
    found = analysis()
    text = " ".join(_text(found, verbosity="high").split())
    said = re.search(r"of one input alone: SM active (\S+), FLOP active (\S+), SM occupancy (\S+)", text)
    assert said is not None and found.score is not None
    means = {name: found.metrics[name].mean or 0.0 for name in ("sm_active", "sm_occupancy", *PIPES)}
    assert score_of_means(means) == pytest.approx(found.score, abs=1e-3)
    for change, names in zip(said.groups(), (["sm_active"], PIPES, ["sm_occupancy"]), strict=True):
        more = score_of_means(means | {name: min(1.1 * means[name], 1.0) for name in names})
        assert more is not None and more - found.score == pytest.approx(float(change), abs=1e-3)


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (without_gpus(), "unknown: no GPU was recorded"),
        (without_samples(), "unknown: there are no samples"),
        (without_counters(), "unknown: none of its inputs was measured by nvml"),
        (analysis(missing=("fp64_active",), score=None), "unknown: FP64 pipe active was not measured"),
        (analysis(score=None, metrics={}), "unknown: its inputs were not looked at"),
    ],
)
def test_an_unknown_score_says_why(found: Analysis, why: str) -> None:
    assert why in " ".join(_text(found).split())


def test_missing_is_never_zero_on_a_page() -> None:
    without = analysis(missing=("dram_active",))
    assert not any(line.startswith("DRAM") for line in _text(without).splitlines())
    asked = _text(without, metrics=("dram_active",)).splitlines()
    line = next(line for line in asked if line.startswith("DRAM"))
    assert "not measured" in line and "0" not in line and "─" not in line
    zero = next(line for line in _text(analysis()).splitlines() if line.startswith("FP64"))
    assert "0.0 ───" in zero


def test_a_gap_is_blank_and_an_idle_time_is_not() -> None:
    base = np.full((1, 100), 0.5)
    base[0, 20:40] = 0.0
    base[0, 60:80] = np.nan
    lines = _text(analysis(1, 1, 100, 100.0, base)).splitlines()
    strip = next(line for line in lines if line.startswith("over time"))[11:].ljust(69)
    assert set(strip[15:26]) == {"▁"} and set(strip[42:54]) == {" "} and set(strip[56:]) == {"▅"}


def test_a_silent_gpu_is_neither_idle_nor_the_lowest() -> None:
    base = np.full((3, 60), 0.6)
    base[1] = np.nan
    text = _text(analysis(3, 1, 60, 60.0, base))
    line = next(line for line in text.splitlines() if line.startswith("  nid000001:1"))
    assert line.split() == ["nid000001:1", "-", "-"]
    assert "1 GPU without samples of SM active" in text
    assert "lowest nid000001:0" in " ".join(text.split())


def test_an_idling_gpu_does_not_look_like_a_busy_one() -> None:
    def strip(level: float) -> str:
        lines = _text(analysis(1, 1, 60, 60.0, np.full((1, 60), level))).splitlines()
        return next(line for line in lines if line.startswith("over time"))

    assert set(strip(0.01)[11:]) == {"▁"} and set(strip(0.98)[11:]) == {"█"}


def test_a_straggler_is_marked_by_a_letter_not_by_colour_alone() -> None:
    lines = [line for line in _text(analysis()).splitlines() if line.startswith("! ")]
    assert [line.split()[1] for line in lines[:-1]] == ["nid000002:1"]
    assert "1 GPU unlike the rest; the median GPU 55.0 %" in lines[-1]


def test_beyond_16_gpus_the_extremes_are_shown() -> None:
    text = _text(analysis(64, 16))
    assert "lowest 5" in text and "highest 5" in text and "all GPUs" not in text
    assert text.count("nid000001:0") >= 2 and "nid000007:2" not in text


def test_metrics_asked_for_by_name_are_always_shown() -> None:
    text = _text(analysis(), Parts(), verbosity="low", metrics=("temperature", "tensor_hmma_active"))
    assert "Temperature" in text and "Tensor HMMA active" in text and "Graphics engine" not in text


def test_series_asked_for_are_those_drawn() -> None:
    needed = series_needed(PageOptions(metrics=("nvlink_tx_bytes", "sm_active")))
    assert needed[0] == "sm_active" and "nvlink_tx_bytes" in needed and len(needed) == len(set(needed))


def test_parts_are_shown_when_asked_for() -> None:
    text = _text(analysis(), Parts(summary=False))
    assert "How well" not in text and text.startswith("GSSR  llm-train") and "GSSR score=" in text
    assert "When not?" in _text(analysis(), Parts(False, True))


def test_metadata_shows_every_field_of_the_run() -> None:
    found = analysis(run=run(user=None))
    text = _text(found, Parts(metadata=True))
    for field, value in found.run._asdict().items():
        if field.startswith("array_"):
            continue  # of a task of an array alone, see below
        assert re.search(rf"^{field} +\S", text, re.MULTILINE), field
        if isinstance(value, str):
            assert value in text
    assert re.search(r"^user +unknown$", text, re.MULTILINE)
    assert "nid000003: 0-3 (NVIDIA H100), ranks 8-11" in text


def test_a_task_of_an_array_is_called_as_squeue_calls_it() -> None:
    task = analysis(run=run(job_id="125", array_job_id="124", array_task_id="0"))
    text = _text(task, Parts(metadata=True))
    assert "job 124_0" in text.splitlines()[0]
    assert re.search(r"^job_id +125$", text, re.MULTILINE) and re.search(r"^array task +124_0$", text, re.MULTILINE)
    assert "array" not in _text(analysis(), Parts(metadata=True))
    (told,) = document([task])["runs"]
    assert (told["job_id"], told["array_job_id"], told["array_task_id"]) == ("125", "124", "0")


def test_a_window_says_what_it_leaves_out() -> None:
    start = analysis().window.start
    text = _text(analysis(window=AnalysisWindow(start + 30, start + 280, 12.5, 3.0, False)), Parts())
    assert "only 30.0 s to 280.0 s after the start; left out: 12.5 s of warm-up" in " ".join(text.split())


def test_states_and_exit_codes_read_as_words() -> None:
    killed = _text(analysis(state="killed", run=run(exit_code=137)), Parts())
    assert "killed, exit code 137 (SIGKILL)" in killed
    assert "lost: the recording stopped without an end" in _text(without_samples(), Parts())


def test_hostile_names_can_not_steer_the_terminal() -> None:
    evil = "\x1b]0;owned\x07\x1b[2J\nGSSR score=1.000\u202e"
    gpus = tuple(analysis().gpus)
    hostile = analysis(
        run=run(label=evil, job_id=evil, command=(evil,), user=evil), backend=evil, notes=(evil,), gpus=gpus
    )
    text = _text(hostile)
    assert "\x1b" not in text and "\x07" not in text and "\u202e" not in text
    assert len(re.findall(r"^GSSR score=", text, re.MULTILINE)) == 1


def test_wide_labels_keep_to_the_page_in_utf8_and_ascii() -> None:
    found = analysis(run=run(label="学習" * 40))
    assert max(cell_width(line) for line in _text(found).splitlines()) <= 80
    assert _text(found, ascii=True).isascii()


def test_several_runs_are_set_apart() -> None:
    text = to_text(pages([analysis(), one_sample()], Parts(), PageOptions()), color=False, ascii_only=False)
    assert text.count("═" * 80) == 1 and len(re.findall(r"^GSSR score=", text, re.MULTILINE)) == 2
    assert pages([], Parts(), PageOptions()) == []


def test_the_same_analysis_gives_the_same_page() -> None:
    assert _text(analysis()) == _text(analysis())


def test_the_terminal_around_does_not_change_a_page() -> None:
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from analyses import analysis\n"
        "from gssr.report.page import PageOptions, Parts\n"
        "from gssr.report.terminal import page, to_text\n"
        "rows = page(analysis(), Parts(True, True, True, True), PageOptions())\n"
        "sys.stdout.buffer.write(to_text(rows, False, False).encode())\n"
    )
    here = os.path.dirname(os.path.abspath(__file__))
    found = subprocess.run(
        [sys.executable, "-c", code, here],
        env={
            **os.environ,
            "COLUMNS": "37",
            "LINES": "9",
            "FORCE_COLOR": "1",
            "TERM": "dumb",
            "PYTHONPATH": os.getcwd(),
        },
        stdout=subprocess.PIPE,
        check=True,
    ).stdout.decode()
    assert found == _text(analysis())


def test_the_summary_alone_loads_neither_plotext_nor_matplotlib_nor_rich() -> None:
    code = "import sys, gssr.report.terminal; print(sorted({'plotext', 'matplotlib', 'rich', 'textual'} & set(sys.modules)))"
    found = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=True, text=True).stdout
    assert found == "[]\n"


def test_what_was_before_the_start_has_no_negative_time() -> None:
    early = Event(analysis().window.start - 1.2, "n", None, 0, "backend_lost", "the driver was slow")
    text = _text(analysis(events=(early, *analysis().events)))
    assert "before" in text and "-0:0" not in text and "-1 s" not in text
