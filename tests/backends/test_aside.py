"""A backend that samples in a thread of its own: on its own ticks, and a driver that hangs costs its samples only."""

import time
from itertools import pairwise

import pytest

from gssr.backends.aside import Aside
from gssr.backends.base import BackendError, Change, Device, Opened
from gssr.backends.nvidia import open_nvml


class Ticking:
    """A backend whose rows are the times it was asked at."""

    name = "ticking"
    gpus = (Device(0, "GPU-a"),)
    measures = ("sm_active",)

    def __init__(self, takes: float = 0.0) -> None:
        self.asked = 0
        self.closed = 0
        self._takes = takes

    def sample(self, now):
        self.asked += 1
        time.sleep(self._takes)
        if self.asked == getattr(self, "fails_at", 0):
            raise BackendError("it broke")
        return [(0, now)]

    def changes(self):
        return [Change("backend", None, f"asked {self.asked}")]

    def close(self):
        self.closed += 1
        return [(0, "last")]


def times(rows):
    return [row[1] for row in rows if row[1] != "last"]


def test_it_samples_on_its_own_ticks_however_seldom_it_is_collected_from():
    backend = Aside("it", lambda: Opened(Ticking()), 0.02)
    assert backend.sample(1000.0) == []  # it begins, and is not waited for
    time.sleep(0.5)
    rows = list(backend.sample(1000.5))
    assert 24 <= len(rows) <= 27
    assert len(backend.changes()) >= len(rows) and backend.changes() == []
    taken = times([*rows, *backend.close()])
    assert taken[0] == pytest.approx(1000.0, abs=0.02), "on the recording's clock"
    late = sorted((when - taken[0]) % 0.02 for when in taken[:-1])
    assert late[len(late) // 2] < 0.005 and all(after > before for before, after in pairwise(taken))


def test_a_run_shorter_than_an_interval_has_its_first_sample_and_what_was_said():
    inner = Ticking()
    backend = Aside("it", lambda: Opened(inner), 60.0)
    backend.sample(0.0)
    began = time.monotonic()
    rows = backend.close()
    assert time.monotonic() - began < 1.0
    assert len(times(rows)) == 1 and rows[-1] == (0, "last") and inner.closed == 1
    assert [change.message for change in backend.changes()] == ["asked 1"]


def test_the_end_is_sampled_when_a_sample_is_nearly_due():
    backend = Aside("it", lambda: Opened(Ticking()), 0.4)
    backend.sample(0.0)
    time.sleep(0.3)
    first, last = times(backend.close())
    assert 0.25 < last - first < 0.4


def test_one_that_was_never_sampled_is_closed():
    inner = Ticking()
    assert Aside("it", lambda: Opened(inner), 0.01).close() == [(0, "last")]
    assert (inner.asked, inner.closed) == (0, 1)


def test_ticks_that_pass_while_a_sample_is_taken_are_left_out_and_no_gap():
    backend = Aside("it", lambda: Opened(Ticking(takes=0.1)), 0.03)
    backend.sample(0.0)
    time.sleep(0.65)
    steps = [after - before for before, after in pairwise(times(backend.sample(0.65)))]
    assert len(steps) >= 3 and all(step == pytest.approx(0.12, abs=0.02) for step in steps)
    assert "gap" not in [change.kind for change in backend.changes()]
    backend.close()


def test_being_held_up_between_two_samples_is_a_gap(monkeypatch):
    now = {"jump": 0.0}
    real = time.clock_gettime
    monkeypatch.setattr("gssr.backends.aside.clock_gettime", lambda clock: real(clock) + now["jump"])
    backend = Aside("it", lambda: Opened(Ticking()), 0.05)
    backend.sample(0.0)
    time.sleep(0.12)
    now["jump"] = 30.0  # as after a machine that was suspended
    time.sleep(0.12)
    backend.sample(0.0)
    (gap,) = [change.message for change in backend.changes() if change.kind == "gap"]
    assert gap.startswith("no samples for 30")
    backend.close()


def test_a_fault_reaches_who_collects_after_what_was_sampled_before():
    inner = Ticking()
    inner.fails_at = 4
    backend = Aside("it", lambda: Opened(inner), 0.01)
    backend.sample(0.0)
    time.sleep(0.1)
    with pytest.raises(BackendError, match="it broke"):
        backend.sample(0.1)
    assert len(times(backend.close())) == 3 and inner.closed == 1


def test_its_errors_when_opened_are_the_backends():
    def refuse() -> Opened:
        raise BackendError("no")

    with pytest.raises(BackendError, match="no"):
        Aside("it", refuse, 0.1)


class TestADriverThatHangs:
    """Through the real nvidia-ml-py."""

    @pytest.fixture
    def command(self, tmp_path, fake_driver, monkeypatch):
        path = tmp_path / "command"
        fake_driver.load(monkeypatch, gpus=2, command=path)
        return path

    @pytest.fixture(autouse=True)
    def impatient(self, monkeypatch):
        monkeypatch.setattr("gssr.backends.aside.PATIENCE", 0.2)
        monkeypatch.setattr("gssr.backends.aside.OPEN_PATIENCE", 0.3)

    @pytest.fixture
    def backend(self):
        backend = Aside("the driver", lambda: open_nvml(None), 0.05)
        backend.sample(time.time())
        time.sleep(0.3)
        assert len(backend.sample(time.time())) >= 8
        yield backend
        backend.close()

    def test_it_is_said_and_its_end_as_well(self, command, backend):
        command.write_text("hang 1")
        time.sleep(0.4)
        began = time.monotonic()
        backend.sample(time.time())
        (change,) = backend.changes()
        assert change.kind == "backend_lost" and "has not answered" in change.message
        assert all(backend.sample(time.time()) == [] for _ in range(20)) and time.monotonic() - began < 0.1
        command.unlink()
        back = time.time()
        time.sleep(0.2)
        rows = backend.sample(time.time())
        assert [change.kind for change in backend.changes()] == ["backend_back"]
        assert {row[0] for row in rows} == {0, 1}
        assert next(row for row in rows if row[0] == 1)[1] > back - 0.05, (
            "late values have the times they were taken at"
        )

    def test_for_good_is_left_alone(self, command, backend):
        command.write_text("hang")
        time.sleep(0.3)
        backend.sample(time.time())
        began = time.monotonic()
        backend.close()
        assert time.monotonic() - began < 0.1
        command.unlink()  # let the thread go
        time.sleep(0.1)

    @pytest.mark.usefixtures("fake_driver")
    def test_when_opened_is_an_error(self, command):
        command.write_text("hang")
        with pytest.raises(BackendError, match=r"has not answered for 0.3 s"):
            Aside("the driver", lambda: open_nvml(None), 0.05)
        command.unlink()
        time.sleep(0.1)
