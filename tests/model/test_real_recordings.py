"""What is said of public recordings of real GPUs holds against plain Python on the same files.

tests/golden/real_gpus/README.md says where they come from; GSSR_REAL_RECORDINGS names the folder that holds them. They are
read here by the csv module.
"""

import csv
import json
import os
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from gssr.arrays import Floats
from gssr.cli import main
from gssr.model.account.activity import IDLE_ACTIVITY, UNUSED_SHARE

FOLDER = Path(os.environ.get("GSSR_REAL_RECORDINGS", "/nonexistent"))
FILES = sorted(path.name for path in FOLDER.glob("*.csv"))
pytestmark = pytest.mark.skipif(not FILES, reason="on this machine GSSR_REAL_RECORDINGS names no folder of recordings")
WRITTEN_TOGETHER = {"four_gpus_idle.csv": 4, "five_gpus_scene.csv": 5}
"""Files without a column for the GPU: how many rows belong to one look."""
METRICS = {
    "gpu_utilization": ("utilization.gpu", 0.01),
    "memory_copy_utilization": ("utilization.memory", 0.01),
    "memory_used": ("memory.used", 2.0**20),
    "power_usage": ("power.draw", 1.0),
    "temperature": ("temperature.gpu", 1.0),
}
OF_WHOLE_TIME = ("working", "communication")
"""Branches in which kernels run: all that is left is idle, unused or unmeasured."""


class Held(NamedTuple):
    """What a file holds: of each GPU the times, unix s, and the values of each metric."""

    times: list[Floats]
    values: dict[str, list[Floats]]

    @property
    def interval(self) -> float:
        """The longest time between two samples, s."""
        return max(float(np.diff(times).max()) for times in self.times)

    @property
    def start(self) -> float:
        return min(float(times[0]) for times in self.times)

    @property
    def end(self) -> float:
        return max(float(times[-1]) for times in self.times)

    def utilization(self, gpu: int, start: float = -np.inf, end: float = np.inf) -> Floats:
        times = self.times[gpu]
        return self.values["gpu_utilization"][gpu][(times >= start) & (times <= end)]


def unix(text: str) -> float:
    if "/" in text:
        return datetime.strptime(text, "%Y/%m/%d %H:%M:%S.%f").replace(tzinfo=UTC).timestamp()
    return datetime.fromisoformat(text).timestamp() if "T" in text else float(text)


def held(name: str) -> Held:
    with (FOLDER / name).open(newline="") as file:
        rows = list(csv.DictReader(file, skipinitialspace=True))
    rows = [{str(key).partition(" [")[0]: value for key, value in row.items()} for row in rows]
    n = WRITTEN_TOGETHER.get(name)
    of = np.array([at % n if n else int(row.get("index") or 0) for at, row in enumerate(rows)])
    times = np.array([unix(row["timestamp"]) for row in rows])
    values = {
        metric: np.array([float(row[column].split()[0]) * factor for row in rows])
        for metric, (column, factor) in METRICS.items()
        if column in rows[0]
    }
    gpus = range(int(of.max()) + 1)
    return Held(
        [times[of == gpu] for gpu in gpus], {key: [own[of == gpu] for gpu in gpus] for key, own in values.items()}
    )


@pytest.fixture(scope="module", params=FILES)
def recording(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Held, Path]:
    """What a file holds, and the recording that gssr import makes of it."""
    name = str(request.param)
    path = tmp_path_factory.mktemp("real") / f"{name}.sql"
    assert main(["import", str(FOLDER / name), "--timezone", "UTC", "-o", str(path)]) == 0
    return held(name), path


@pytest.fixture
def analyzed(recording: tuple[Held, Path], capsys: pytest.CaptureFixture[str]) -> Callable[..., dict[str, Any]]:
    def run(*options: str) -> dict[str, Any]:
        capsys.readouterr()
        assert main(["analyze", "--json", *options, str(recording[1])]) == 0
        found: dict[str, Any] = json.loads(capsys.readouterr().out)["runs"][0]
        return found

    return run


def shares_by_gpu(run: dict[str, Any]) -> Iterator[tuple[int, dict[str, float]]]:
    names = [each["name"] for each in run["breakdown"]["categories"]]
    own = run["breakdown"]["by_gpu"]
    for gpu, shares in zip(own["gpus"], own["shares"], strict=True):
        yield gpu, dict(zip(names, shares, strict=True))


def means(values: Floats, times: Floats) -> list[float]:
    """The mean, each sample counted for the time before it, after it, or as much as any other."""
    apart = np.diff(times)
    usual = float(np.median(apart))
    return [
        float(values.mean()),
        float(np.average(values, weights=np.append(usual, apart))),
        float(np.average(values, weights=np.append(apart, usual))),
    ]


def test_the_whole_time_is_told_and_agrees_with_utilization(
    recording: tuple[Held, Path], analyzed: Callable[..., dict[str, Any]]
) -> None:
    data, run = recording[0], analyzed()
    window, breakdown = run["window"], run["breakdown"]
    assert abs(window["start"] - data.start) <= data.interval and abs(window["end"] - data.end) <= data.interval
    seconds = len(data.times) * (window["end"] - window["start"])
    # Times are whole microseconds, those of bins too: each bin of a GPU may miss or add one.
    off = 1e-6 * sum(len(times) for times in data.times)
    assert breakdown["gpu_seconds"] == pytest.approx(seconds, abs=off)
    assert run["gpu_hours"] * 3600 == pytest.approx(seconds, abs=off)
    assert sum(each["gpu_seconds"] for each in breakdown["categories"]) == pytest.approx(seconds, abs=off)
    assert abs(sum(each["share"] for each in breakdown["categories"]) - 1) < 1e-9
    assert all(0 <= each["share"] <= 1 for each in breakdown["categories"])
    for gpu, shares in shares_by_gpu(run):
        assert abs(sum(shares.values()) - 1) <= 0.5e-6 * len(shares)  # each is written with six digits
        assert all(0 <= share <= 1 for share in shares.values())
        utilization = data.utilization(gpu)
        if shares["unused"]:
            assert (utilization > IDLE_ACTIVITY).mean() <= UNUSED_SHARE
            continue
        runs = sum(share for name, share in shares.items() if name.split(".")[0] in OF_WHOLE_TIME)
        likely = means(utilization, data.times[gpu])
        # Bins have one width and samples have not: at each end one more or less may count, in full.
        most = 2 * float(np.ptp(utilization)) / len(utilization)
        assert min(likely) - most - 1e-6 <= runs <= max(likely) + most + 1e-6


def test_sentences_agree_with_the_samples(
    recording: tuple[Held, Path], analyzed: Callable[..., dict[str, Any]]
) -> None:
    data, run = recording[0], analyzed()
    start, end = run["window"]["start"], run["window"]["end"]
    for category in run["breakdown"]["categories"]:
        assert all(start - 1e-3 <= first < last <= end + 1e-3 for first, last in category["spans"]), category["name"]
    shares = {each["name"]: each["share"] for each in run["breakdown"]["categories"]}
    for verdict in run["verdicts"]:
        title = verdict["title"]
        assert start - 1e-3 <= verdict["start"] <= verdict["end"] <= end + 1e-3, title
        gpus = verdict["gpus"] or range(len(data.times))
        share = next((each["value"] for each in verdict["evidence"] if each["metric"] == "share"), None)
        if verdict["gpu_hours"] is not None:
            assert share is not None and verdict["gpu_hours"] == pytest.approx(share * run["gpu_hours"], rel=1e-6), (
                title
            )
            assert verdict["gpu_hours"] <= run["gpu_hours"] * (1 - shares["startup"] - shares["end"]) + 1e-9, title
        for each in verdict["evidence"]:
            own = data.values.get(each["metric"])
            if own is None or verdict["code"].startswith("memory_"):  # told as shares of the GPU's memory
                continue
            every = np.concatenate([own[gpu] for gpu in gpus])
            assert every.min() - 1e-9 <= each["value"] <= every.max() + 1e-9, title
            if share is not None and "at the peak" not in each["text"]:
                assert share * each["value"] <= every.mean() * (1 + 1e-9), title
        if "did nothing" in title or ("ever used" in title and "hardly" not in title):
            for gpu in gpus:
                if verdict["code"] == "gpus_unused" or shares["unused"] == 0:
                    quiet = data.utilization(gpu, verdict["start"], verdict["end"])
                    assert (quiet <= IDLE_ACTIVITY).all(), title
        if verdict["code"] == "pauses":  # a sample stands for the time before it or after it, so one more at each end
            number, unit = re.search(r"([\d.]+) (\w+) at most", title).groups()  # type: ignore[union-attr]
            told = float(number) * {"s": 1, "min": 60, "h": 3600}[unit]
            times = int(found.group(1)) if (found := re.search(r"pause (\d+) times", title)) else 1
            assert times * told >= 0.5 * share * (end - start) * 0.95, (
                title
            )  # they hold most of what they are said to cost
            assert told <= 1.05 * longest_quiet(data, gpus) + 2 * data.interval, title


def longest_quiet(data: Held, gpus: Any) -> float:
    """The longest time, s, in which samples of a GPU are below what counts as idle."""
    longest = 0.0
    for gpu in gpus:
        quiet = data.utilization(gpu) <= IDLE_ACTIVITY
        edges = np.flatnonzero(np.diff(np.concatenate(([False], quiet, [False])).astype(np.int8)))
        for first, end in zip(edges[::2], edges[1::2], strict=True):
            if end - first > 1:
                longest = max(longest, float(data.times[gpu][end - 1] - data.times[gpu][first]))
    return longest


def test_halves_add_up_to_the_whole(recording: tuple[Held, Path], analyzed: Callable[..., dict[str, Any]]) -> None:
    data, whole = recording[0], analyzed()
    middle = (data.end - data.start) / 2
    halves = [analyzed("--to", str(middle)), analyzed("--from", str(middle))]
    names = [each["name"] for each in whole["breakdown"]["categories"]]
    seconds = [
        {each["name"]: each["gpu_seconds"] for each in run["breakdown"]["categories"]} for run in (whole, *halves)
    ]
    for run in halves:
        assert abs(sum(each["share"] for each in run["breakdown"]["categories"]) - 1) < 1e-9
    # The sample at the cut is in one of them, or in none: what lies between it and its neighbours may miss or count twice.
    off = 2 * data.interval * len(data.times)
    assert abs(sum(sum(each.values()) for each in seconds[1:]) - sum(seconds[0].values())) <= off
    if shares_unused(whole) == shares_unused(halves[0]) == shares_unused(halves[1]):
        runs = [sum(each[name] for name in names if name.split(".")[0] in OF_WHOLE_TIME) for each in seconds]
        assert abs(runs[1] + runs[2] - runs[0]) <= off


def shares_unused(run: dict[str, Any]) -> list[bool]:
    return [shares["unused"] > 0 for _, shares in shares_by_gpu(run)]
