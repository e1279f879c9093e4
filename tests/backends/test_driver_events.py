"""What the driver tells of GPUs beside their samples: processes, XIDs and memory errors, on one that is told what to say."""

import json
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from dcgm_bench import EngineProcess

from gssr.backends import driver
from gssr.backends.base import BackendChange, ProcessSnapshot, Running
from gssr.backends.driver_events import LOOK_SECONDS, MEMORY_ERRORS_EVERY, DriverWatch
from gssr.backends.errors import AGAIN_SECONDS, Xids

GIB = 1 << 30
METRICS = 512
UNCORRECTED, CORRECTED_ROWS, FAILED = 480, 481, 484


@pytest.fixture
def gpus(tmp_path, fake_driver, monkeypatch):
    """``gpus(gpus=2, ...)``: such GPUs of a driver that is up."""
    started = []

    def open_(**settings):
        for name in ("procs", "xid"):
            (tmp_path / name).touch()
        fake_driver.load(monkeypatch, processes=tmp_path / "procs", xid=tmp_path / "xid", **settings)
        driver.start()
        started.append(True)
        return driver.gpus()[0]

    yield open_
    for _ in started:
        driver.stop()


def put(folder: Path, *lines: str) -> None:
    (folder / "procs").write_text("".join(f"{line}\n" for line in lines))


def looked(beside: DriverWatch, ticks: float) -> list[BackendChange | ProcessSnapshot]:
    """All that is due is asked for."""
    news: list[BackendChange | ProcessSnapshot] = []
    while (found := beside.step(ticks, 1000.0 + ticks)) is not None:
        news += found
    return news


def running(beside: DriverWatch, ticks: float) -> dict[int, tuple[Running, ...]]:
    return {news.gpu: news.running for news in looked(beside, ticks) if isinstance(news, ProcessSnapshot)}


def test_processes_of_both_kinds_are_one_list(gpus, tmp_path) -> None:
    beside = DriverWatch(gpus(gpus=2))
    put(tmp_path, "0 0 11 1024 50 c", "0 0 12 2048 -1 g", "0 0 13 512 200 b", "1 0 14 -1 20 c", "1 0 0 5 5 c")
    found = running(beside, 1.0)
    assert found[0] == (Running(11, GIB, 0.5), Running(12, 2 * GIB, 0.0), Running(13, GIB // 2, 0.0))
    assert found[1] == (Running(14, None, 0.2),)
    put(tmp_path)
    assert running(beside, 1.5) == {}  # it is not due
    assert running(beside, 2.5) == {0: (), 1: ()}


def test_utilization_is_unknown_until_the_driver_has_told_any(gpus, tmp_path) -> None:
    beside = DriverWatch(gpus(gpus=1))
    put(tmp_path, "0 0 11 1024 -1 c")
    assert running(beside, 1.0)[0] == (Running(11, GIB, None),)


def test_a_list_may_be_longer_than_there_is_room_for(gpus, tmp_path) -> None:
    beside = DriverWatch(gpus(gpus=1))
    put(tmp_path, *(f"0 0 {pid} 1 1 c" for pid in range(100, 400)))
    assert [process.pid for process in running(beside, 1.0)[0]] == list(range(100, 400))


@pytest.mark.parametrize("refused", ["520", "525"])
def test_lists_that_are_refused_or_never_fit_are_unknown_and_not_empty(gpus, tmp_path, refused) -> None:
    beside = DriverWatch(gpus(gpus=1, not_supported=refused))
    put(tmp_path, "0 0 11 1024 50 c")
    assert running(beside, 1.0) == running(beside, 3.0) == {}


def test_instances_have_processes_of_their_own_without_utilization(gpus, tmp_path) -> None:
    beside = DriverWatch(gpus(gpus=1, mig="0:2"))
    put(tmp_path, "0 1 11 1024 50 c", "0 2 12 1024 50 c")
    assert running(beside, 1.0) == {0: (Running(11, GIB, None),), 1: (Running(12, GIB, None),)}


def test_a_lost_gpu_is_not_known_to_be_free(gpus, tmp_path) -> None:
    beside = DriverWatch(gpus(gpus=2, command=tmp_path / "command"))
    (tmp_path / "command").write_text("lose 1")
    put(tmp_path, "1 0 11 1024 50 c")
    news = looked(beside, 1.0)
    assert [own.gpu for own in news if isinstance(own, ProcessSnapshot)] == [0]


def test_an_xid_that_comes_again_and_again_is_told_once_a_minute(gpus, tmp_path) -> None:
    xids = Xids(gpus(gpus=2))
    assert xids.look(0.0) == []
    with (tmp_path / "xid").open("a") as file:
        file.write("1 31\n" * 5 + "0 12345\n")
    first = [(own.kind, own.gpu, own.message) for own in xids.look(1.0)]
    assert first == [
        ("xid", 1, "XID 31: a kernel accessed memory that is not there"),
        ("xid", 0, "XID 12345: an error of the GPU"),
    ]
    assert xids.look(2.0) == []
    (again,) = xids.look(1.0 + AGAIN_SECONDS)
    assert again.gpu == 1 and again.message.endswith(", 4 more times")
    xids.close()
    assert xids.look(500.0) == []


def test_an_xid_of_before_is_nobodys_news(gpus, tmp_path) -> None:
    (tmp_path / "xid").write_text("0 79\n")
    assert Xids(gpus(gpus=1)).look(1.0) == []


def test_memory_errors_are_told_when_their_counts_rise(gpus, tmp_path) -> None:
    control = tmp_path / "control"
    beside = DriverWatch(gpus(gpus=2, ctl=control))

    def count(gpu: int, metric: int, value: float) -> None:
        with control.open("r+b") as file:
            file.seek(8 * (gpu * METRICS + metric))
            file.write(struct.pack("d", value))

    def told(look: int) -> list[tuple[int | None, str]]:
        news = looked(beside, look * LOOK_SECONDS)
        return [(own.gpu, own.message) for own in news if isinstance(own, BackendChange) and own.kind == "ecc"]

    count(0, UNCORRECTED, 7)
    assert told(0) == []  # they were there before
    count(0, UNCORRECTED, 9)
    count(1, CORRECTED_ROWS, 1)
    assert [told(look) for look in range(1, MEMORY_ERRORS_EVERY)] == [[]] * (MEMORY_ERRORS_EVERY - 1)
    assert sorted(told(MEMORY_ERRORS_EVERY)) == [
        (0, "2 more uncorrectable memory errors (ECC)"),
        (1, "1 more row of memory remapped after correctable errors"),
    ]
    count(0, UNCORRECTED, 0)  # the driver was loaded anew
    count(1, FAILED, 1)
    found = [told(look) for look in range(MEMORY_ERRORS_EVERY + 1, 2 * MEMORY_ERRORS_EVERY + 1)]
    assert found[-1] == [(1, "a row of memory could not be remapped")]


def test_beside_dcgm_the_driver_is_asked_for_them(tmp_path, fake_driver) -> None:
    """A recording through a hostengine whose GPUs the driver knows, in another order."""
    uuids = [f"GPU-fa4e0000-0000-4000-8000-{number:012x}" for number in (2, 1)]
    engine = EngineProcess(tmp_path)
    try:
        engine.start(gpus=uuids)
        for name in ("procs", "xid"):
            (tmp_path / name).touch()
        own = fake_driver.environ(gpus=2, processes=tmp_path / "procs", xid=tmp_path / "xid") | engine.environ
        script = f"""
import json, sys, time
from gssr.backends import open_backend
from gssr.backends.base import ProcessSnapshot
backend = open_backend("dcgm", "n", None, 0.1).backend
looks, errors = [], []
open({str(tmp_path / "procs")!r}, "w").write("0 0 11 1024 50 c\\n")
end = time.monotonic() + 30
while not (errors and any(look[1] for look in looks)) and time.monotonic() < end:
    backend.sample(time.time())
    for news in backend.changes():
        if isinstance(news, ProcessSnapshot):
            looks.append([news.gpu, [process.pid for process in news.running]])
            open({str(tmp_path / "xid")!r}, "w").write("1 79\\n")
        elif news.kind in ("xid", "ecc"):
            errors.append([news.gpu, news.message])
    time.sleep(0.05)
backend.close()
print(json.dumps([[gpu.uuid for gpu in backend.gpus], looks, errors]))
"""
        done = subprocess.run([sys.executable, "-c", script], env=own, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        order, looks, errors = json.loads(done.stdout)
        first, second = order.index(uuids[1]), order.index(uuids[0])
        assert [first, [11]] in looks and all(pids == [] for gpu, pids in looks if gpu == second)
        assert errors == [[second, "XID 79: the GPU has fallen off the bus"]]
    finally:
        engine.stop()
