"""Lines from hosts: what the sampler writes is read as it was, and what anybody else writes costs that line alone."""

import json
import os
import random
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from gssr.metrics import NAMES, PLACES
from gssr.profile.hosts.read_lines import MOST_EVENTS, MOST_GPUS, HostLines, RecordedHosts
from gssr.profile.sampling.line_writer import FORMAT, MOST_LINE, LineWriter
from gssr.store.format.host_rollups import HOST
from gssr.store.read.newest import NodesNow, nodes_now
from gssr.store.read.recording import open_recording
from gssr.store.write.writer import Writer

NOW = 1_800_000_000.0
GPU = {"device_index": 0, "uuid": "GPU-1", "name": "H100", "memory_total": 80 << 30, "backend": "gpm"}
VALUES = [0.5] * len(NAMES)


class Reading:
    """A recording that lines of the host ``n7`` are read into."""

    def __init__(self, path: Path) -> None:
        self.path, self._writer = str(path), Writer(str(path))
        self._writer.begin({"run_id": "r", "command": "[]", "started_at": NOW, "sampling_ms": 1000.0},
                           {"rank": 0, "started_at": NOW})  # fmt: skip
        self.host = HostLines("n7", RecordedHosts(self._writer))

    def take(self, *lines: object, now: float = NOW) -> "Reading":
        for line in lines:
            self.host.take(line if isinstance(line, bytes) else json.dumps(line).encode(), now)
        return self

    def begin(self) -> "Reading":
        return self.take([FORMAT, 1.0, NAMES], ["gpu", 0, GPU])

    def nodes(self) -> NodesNow:
        self._writer.commit(NOW)
        return nodes_now(self.path)


@pytest.fixture
def reading(tmp_path: Path) -> Iterator[Reading]:
    yield Reading(tmp_path / "r.sql")


def test_what_the_sampler_writes_is_read_as_it_was(reading: Reading) -> None:
    fds = os.pipe()
    writer = LineWriter(fds[1])
    row = (0, NOW, *(None if name == "temperature" else PLACES[name] / 7 for name in NAMES))
    writer.begin({"sampling_ms": 500.0}, {})
    writer.add_gpus([GPU | {"mig": None}], NAMES, 0.5)
    writer.add([row])
    writer.add_host(NOW, [float(place) for place in range(len(HOST.values))])
    writer.add_processes(0, NOW, [(7, "a" * 500, "ö" * 500, 5 << 30, 0.25), (8, "b", None, None, None)])
    writer.event(NOW, "xid", "e" * 5000, 0)
    writer.commit(NOW)
    lines = os.read(fds[0], 1 << 16).splitlines(keepends=True)
    assert all(len(line) <= MOST_LINE and line.isascii() for line in lines)
    reading.take(*(line.rstrip(b"\n") for line in lines))
    now = reading.nodes()
    assert reading.host.n_broken == 0 and reading.host.seconds == 0.5
    (gpu,) = now.gpus
    assert (gpu.gpu.node, gpu.gpu.uuid, gpu.gpu.memory_total, gpu.time) == ("n7", "GPU-1", 80 << 30, NOW)
    assert gpu.values["sm_active"] == row[PLACES["sm_active"]] and gpu.values["temperature"] is None
    assert gpu.processes is not None and [each.pid for each in gpu.processes] == [7, 8]
    assert now.hosts["n7"]["load1"] == HOST.values.index("load1")
    (run,) = open_recording(reading.path).runs
    assert [(event.kind, event.gpu) for event in run.events] == [("xid", 0)] and len(run.events[0].message or "") < 200
    for fd in fds:
        os.close(fd)


def test_what_gpus_there_are_is_said_again_so_that_a_missed_line_costs_seconds(reading: Reading) -> None:
    with closing(os.fdopen(os.open(os.devnull, os.O_WRONLY), "wb")) as nowhere:
        writer = LineWriter(nowhere.fileno())
    own, end = os.pipe()
    writer = LineWriter(end)
    writer.begin({"sampling_ms": 1000.0}, {})
    writer.add_gpus([GPU], NAMES, 1.0)
    writer.commit(NOW)
    os.read(own, 1 << 16)  # missed
    for tick in range(1, 13):
        writer.add([(0, NOW + tick, *VALUES)])
        writer.commit(NOW + tick)
        reading.take(*os.read(own, 1 << 16).splitlines(), now=NOW + tick)
    assert 0 < reading.host.n_broken <= 10 and reading.host.n_rows[0] >= 2
    os.close(own)
    os.close(end)


FORGED = [
    b"", b"\xff\xfe", b"null", b"7", b"[]", b"{}", b'"row"', b"[" * 900, b'["row"]', b'["rm", 1]', b"[" + b"9" * 900 + b"]",
    ["row", 1, NOW, *VALUES], ["row", -1, NOW, *VALUES], ["row", True, NOW, *VALUES], ["row", "0", NOW, *VALUES],
    ["row", 0, NOW, *VALUES[1:]], ["row", 0, NOW + 3600, *VALUES], ["row", 0, NOW - 1, *VALUES], ["row", 0, None, *VALUES],
    ["row", 0, "now", *VALUES], ["row", 0, NOW + 1, "x", *VALUES[1:]], ["row", 0, NOW + 1, [], *VALUES[1:]],
    ["row", 0, NOW + 1, 1e300, *VALUES[1:]], ["row", 0, NOW + 1, 1 << 64, *VALUES[1:]],
    b'["row", 0, 1800000001.0, NaN' + b", 0.5" * (len(NAMES) - 1) + b"]",
    ["gpu", 5, GPU], ["gpu", 1, {}], ["gpu", 1, []], ["gpu", 1, GPU | {"device_index": "0"}], ["gpu", 1, GPU | {"uuid": 7}],
    ["gpu", 1, GPU | {"memory_total": 1 << 80}], ["host", NOW, None], ["host", NOW + 99, {}], ["host", NOW, {"load1": "9"}],
    ["memory", -1, 5], ["memory", 1, 0], ["memory", 1.5, 2], ["on", 0, NOW, 1, [[1, 2]]],
    ["on", 0, NOW, 0, [[1, "a", "b", 1, 1]]],
    ["on", 3, NOW, 0, []], ["on", 0, NOW, 1, [[1, "a", 5, 1, 1]]], ["event", NOW, "boom", "text", None],
    ["event", NOW, "xid", None, None], ["event", NOW, "xid", "text", 4], [FORMAT, 0, NAMES], [FORMAT, 1.0, "names"],
    ["gssr.lines/9", 1.0, NAMES],
]  # fmt: skip


@pytest.mark.parametrize("line", FORGED, ids=lambda line: str(line)[:40])
def test_a_forged_line_costs_itself_alone(reading: Reading, line: object) -> None:
    reading.begin().take(["row", 0, NOW, *VALUES])
    before = reading.nodes()
    reading.take(line)
    assert reading.host.n_broken == 1 and reading.nodes() == before
    reading.take(["row", 0, NOW + 1, *VALUES], now=NOW + 1)
    assert reading.host.n_broken == 1 and reading.nodes().gpus[0].time == NOW + 1


def test_garbled_lines_never_raise_and_leave_a_recording_that_can_be_read(reading: Reading) -> None:
    chance = random.Random(7)
    whole = [json.dumps(line).encode() for line in (
        [FORMAT, 1.0, NAMES], ["gpu", 0, GPU], ["row", 0, NOW, *VALUES], ["on", 0, NOW, 1, [[1, "a", "b", 5, 0.5]]],
        ["host", NOW, {"load1": 1.0}], ["event", NOW, "xid", "text", 0], ["memory", 1, 2])]  # fmt: skip
    for step in range(3000):
        line = bytearray(chance.choice(whole))
        for _ in range(chance.randrange(4)):
            line[chance.randrange(len(line))] = chance.randrange(256)
        reading.take(bytes(line), now=NOW + step / 1000)
    assert 0 < reading.host.n_broken < 3000
    reading.nodes()


def test_a_host_of_another_version_is_read_by_the_names_of_its_metrics(reading: Reading) -> None:
    reading.take(
        [FORMAT, 1.0, ["temperature", "new_metric", "sm_active"]], ["gpu", 0, GPU], ["row", 0, NOW, 40, 7, 0.25]
    )
    values = reading.nodes().gpus[0].values
    assert reading.host.n_broken == 0
    assert (values["temperature"], values["sm_active"], values["power_usage"]) == (40, 0.25, None)


@pytest.mark.parametrize("skew", [-7200.0, 7200.0])
def test_a_clock_that_is_wrong_is_set_right(reading: Reading, skew: float) -> None:
    reading.begin()
    reading.take(["row", 0, NOW + skew, *VALUES], ["row", 0, NOW + skew + 1, *VALUES], now=NOW + 0.5)
    assert reading.host.n_broken == 0 and reading.nodes().gpus[0].time == NOW + 1.5


def test_control_characters_are_cleaned_and_a_node_cannot_be_another(reading: Reading) -> None:
    evil = GPU | {"name": "\x1b[2Jx\r\ny", "node": "n1", "backend": "\x07"}
    reading.take([FORMAT, 1.0, NAMES], ["gpu", 0, evil], ["on", 0, NOW, 1, [[1, "\x1b]0;t\x07", "u", 1, None]]])
    reading.take(["event", NOW, "xid", "\x1b[31mred\nnext", None])
    gpu = reading.nodes().gpus[0]
    assert gpu.gpu.node == "n7" and "\x1b" not in f"{gpu.gpu}{gpu.processes}" and "\n" not in str(gpu.gpu.name)
    (run,) = open_recording(reading.path).runs
    assert [event.message for event in run.events] == ["n7: ?[31mred next"]


def test_what_is_kept_of_a_host_is_bounded(reading: Reading) -> None:
    reading.take([FORMAT, 1.0, NAMES])
    reading.take(*(["gpu", n, GPU | {"uuid": f"GPU-{n}"}] for n in range(MOST_GPUS + 9)))
    reading.take(*(["event", NOW, "xid", f"{n}", None] for n in range(MOST_EVENTS + 9)))
    assert reading.host.n_broken == 9 and len(reading.nodes().gpus) == MOST_GPUS
    assert len(open_recording(reading.path).runs[0].events) == MOST_EVENTS


def test_idle_is_told_only_of_what_was_measured(reading: Reading) -> None:
    def row(at: int, **values: float | None) -> list[object]:
        return ["row", 0, NOW + at, *(values.get(name) for name in NAMES)]

    reading.begin()
    for at, values, idle in (
        (0, {"gpu_utilization": 0.0}, [0.0]), (5, {"gpu_utilization": 0.01}, [5.0]), (6, {"gpu_utilization": 0.5}, []),
        (7, {"sm_active": 0.0}, [0.0]), (9, {"sm_active": 0.001}, [2.0]), (10, {"power_usage": 70.0}, []),
    ):  # fmt: skip
        reading.take(row(at, **values), now=NOW + at)
        assert reading.host.idle_seconds() == idle, at
    assert reading.host.n_broken == 0


def test_reading_takes_little_time_for_a_line_that_never_ends_in_sense(reading: Reading) -> None:
    begin = time.process_time()
    for _ in range(2000):
        reading.take(b"[" * 990)
    assert time.process_time() - begin < 2 and reading.host.n_broken == 2000
