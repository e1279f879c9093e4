"""What --from and --to mean, and what --detect-outliers leaves out."""

import re
import time as clock
from collections.abc import Iterator
from datetime import UTC, datetime

import numpy as np
import pytest
from ticks import T0, Record, ticks

from gssr.model.analyze import Options, analyze
from gssr.model.results import AnalysisWindow
from gssr.model.window import cut, parse_time
from gssr.store.read.time_window import Window

START, END = 1000.0, 5000.0


@pytest.fixture
def zurich(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Europe/Zurich")
    clock.tzset()
    yield
    monkeypatch.undo()
    clock.tzset()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("90", START + 90),
        ("90s", START + 90),
        ("0", START),
        (" 1.5 ", START + 1.5),
        (".5m", START + 30),
        ("5m", START + 300),
        ("1h", START + 3600),
        ("1h30m", START + 5400),
        ("1m30s", START + 90),
        ("1d", START + 86400),
        ("1:30", START + 90),
        ("90:00", START + 5400),
        ("00:10:00", START + 600),
        ("1:00:00.5", START + 3600.5),
        ("-60", END - 60),
        ("-5m", END - 300),
        ("-1:30", END - 90),
        ("-0", END),
    ],
)
def test_times_count_from_the_start_or_before_the_end(text: str, expected: float) -> None:
    assert parse_time(text, START, END) == pytest.approx(expected)


def test_an_end_at_the_epoch_is_closed() -> None:
    assert Window(0.0, 10.0).close_at(5.0, 20.0) == Window(0.0, 10.0)
    assert Window(-10.0, 0.0).close_at(-20.0, 20.0) == Window(-10.0, 0.0)
    assert Window().close_at(5.0, None) == Window(5.0, 0.0)


@pytest.mark.usefixtures("zurich")
@pytest.mark.parametrize(
    ("text", "utc"),
    [
        ("2026-05-01T12:00:00", (2026, 5, 1, 10, 0, 0)),
        ("2026-05-01 12:00", (2026, 5, 1, 10, 0, 0)),
        ("2026-05-01T12:00:00Z", (2026, 5, 1, 12, 0, 0)),
        ("2026-05-01T12:00:00-07:00", (2026, 5, 1, 19, 0, 0)),
        ("2026-05-01", (2026, 4, 30, 22, 0, 0)),
    ],
)
def test_a_date_is_local_unless_it_names_a_zone(text: str, utc: tuple[int, ...]) -> None:
    assert parse_time(text, START, END) == datetime(*utc, tzinfo=UTC).timestamp()  # type: ignore[arg-type, misc]


@pytest.mark.parametrize(
    "text", ["", "-", "soon", "1x", "1:2:3:4", "--5", "5 m", "nan", "inf", "1e3", "2026-13-01", "5m1h"]
)
def test_nonsense_is_refused_with_a_sentence(text: str) -> None:
    with pytest.raises(ValueError, match="is not a time: give seconds") as caught:
        parse_time(text, START, END)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        (None, None, (None, None)),
        ("100", "-100", (START + 100, END - 100)),
        ("0", "-0", (None, None)),
        ("-2h", None, (None, None)),
        ("1m", "2h", (START + 60, None)),
        (START + 5, END + 5, (START + 5, None)),
    ],
)
def test_a_window_is_cut_to_the_run(
    start: str | float | None, end: str | float | None, expected: tuple[float | None, float | None]
) -> None:
    assert cut(Window(START, END), start, end) == Window.between(*expected)


@pytest.mark.parametrize(
    ("start", "end", "sentence"),
    [
        ("100", "100", "window from 100 to 100 is empty"),
        ("-10", "10", "window from -10 to 10 is empty"),
        ("4000", None, "begins at or after the run's end .the run lasted 4000 s"),
        (None, "1970-01-01T00:00:00Z", "ends at or before the run's start"),
    ],
)
def test_a_window_without_anything_of_the_run_is_refused(start: str | None, end: str | None, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        cut(Window(START, END), start, end)


@pytest.mark.parametrize(
    ("start", "end"), [("2100-01-01T00:00:00Z", None), (None, "2001-01-01"), ("2100-01-02", "2100-01-01")]
)
def test_a_date_outside_of_the_run_is_answered_with_the_runs_dates(start: str | None, end: str | None) -> None:
    run = Window(1_700_000_000.0, 1_700_000_360.0)
    with pytest.raises(ValueError, match="the run is from") as error:
        cut(run, start, end)
    dates = re.search(r"the run is from (\S+) to (\S+)\)", str(error.value))
    assert dates is not None and [parse_time(date, 0.0, 0.0) for date in dates.groups()] == list(run)


LENGTH = 300


def job(*phases: tuple[float, float]) -> np.ndarray:
    """Activity for each of LENGTH seconds, from (until, level) phases."""
    second = np.arange(LENGTH)
    activity = np.zeros(LENGTH)
    for until, level in reversed(phases):
        activity[second < until] = level
    return activity


def with_dips(activity: np.ndarray, *, every: int, length: int) -> np.ndarray:
    return np.where((np.arange(LENGTH) % every >= every - length) & (activity > 0), 0.01, activity)


def left_out(record: Record, activity: np.ndarray, metric: str = "sm_active", exact: bool = True) -> AnalysisWindow:
    random = np.random.default_rng(11)
    gpu, time = ticks(2, 5 * LENGTH, 0.2)
    values = np.clip(activity[((time - T0) + 1e-3).astype(int)] * random.normal(1, 0.05, len(time)), 0, 1)
    reader = record(gpu, time, {metric: values}, sampling_ms=200.0, started_at=T0, ended_at=T0 + LENGTH)
    return analyze(reader, Options(outliers="all", exact=exact)).window


STEADY = [
    ("steady", job((300, 0.9))),
    ("idle", job((300, 0.0))),
    ("idle with noise", np.random.default_rng(1).random(LENGTH) * 0.01),
    ("idle with a few spikes", np.where(np.isin(np.arange(LENGTH), [20, 21, 130, 250]), 0.9, 0.0)),
    ("a weak job", job((300, 0.04))),
    ("two working levels", job((140, 0.9), (300, 0.3))),
    ("checkpoints", with_dips(job((300, 0.8)), every=70, length=8)),
    ("a little work after the last checkpoint", with_dips(job((300, 0.8)), every=95, length=10)),
    ("a long pause in the middle", job((60, 0.8), (230, 0.0), (300, 0.8))),
    ("noisy", 0.3 + 0.6 * np.random.default_rng(2).random(LENGTH)),
    ("a slow start", 0.5 + 0.4 * np.arange(LENGTH) / LENGTH),
]


@pytest.mark.parametrize("activity", [shape for _, shape in STEADY], ids=[name for name, _ in STEADY])
def test_nothing_is_left_out_of_work(record: Record, activity: np.ndarray) -> None:
    window = left_out(record, activity)
    assert (window.leading, window.trailing, window.whole) == (0.0, 0.0, True)


SHAPES = [
    ("idle start", job((60, 0.0), (300, 0.8)), 60, 0),
    ("idle end", job((250, 0.8), (300, 0.0)), 0, 50),
    ("both", job((30, 0.0), (280, 0.8), (300, 0.02)), 30, 20),
    ("a slow warm-up", job((40, 0.2), (300, 0.8)), 40, 0),
    ("a spike in an idle start", job((20, 0.0), (24, 0.9), (80, 0.0), (300, 0.8)), 80, 0),
    ("a spike at the very start", job((3, 0.9), (50, 0.0), (300, 0.8)), 50, 0),
    ("late and short work", job((250, 0.0), (290, 0.7), (300, 0.0)), 250, 10),
    ("idle start, then checkpoints", with_dips(job((62, 0.0), (300, 0.8)), every=60, length=8), 62, 8),
    ("two levels after an idle start", job((60, 0.0), (180, 0.9), (300, 0.3)), 60, 0),
]


@pytest.mark.parametrize(
    ("activity", "leading", "trailing"), [shape[1:] for shape in SHAPES], ids=[shape[0] for shape in SHAPES]
)
@pytest.mark.parametrize("exact", [True, False])
def test_warm_up_and_tear_down_are_left_out(
    record: Record, activity: np.ndarray, leading: float, trailing: float, exact: bool
) -> None:
    window = left_out(record, activity, exact=exact)
    tolerance = 1.0 if exact else 10.0
    assert window.leading == pytest.approx(leading, abs=tolerance)
    assert window.trailing == pytest.approx(trailing, abs=tolerance)
    assert window.duration == pytest.approx(LENGTH - window.leading - window.trailing)


def test_without_sm_activity_the_next_best_metric_tells(record: Record) -> None:
    assert left_out(record, job((60, 0.0), (300, 0.8)), "gpu_utilization").leading == pytest.approx(60, abs=1)
    assert left_out(record, job((60, 0.0), (300, 0.8)), "power_usage").whole


@pytest.mark.parametrize(("which", "expected"), [("leading", (60, 0)), ("trailing", (0, 50)), ("none", (0, 0))])
def test_only_the_ends_asked_for_are_left_out(record: Record, which: str, expected: tuple[float, float]) -> None:
    gpu, time = ticks(1, LENGTH, 1.0)
    values = job((60, 0.0), (250, 0.8), (300, 0.0))
    reader = record(gpu, time, {"sm_active": values}, sampling_ms=1000.0, started_at=T0, ended_at=T0 + LENGTH)
    analysis = analyze(reader, Options(outliers=which))  # type: ignore[arg-type]
    window = analysis.window
    assert (window.leading, window.trailing) == pytest.approx(expected, abs=1)
    assert analysis.n_samples == LENGTH - sum(expected)
    if which == "leading":
        assert analysis.metrics["sm_active"].mean == pytest.approx(0.8 * 190 / 240)
