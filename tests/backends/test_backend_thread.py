"""A backend that samples in a thread of its own: on its own ticks, and a driver that hangs costs its samples only."""

import time
from itertools import pairwise

import pytest

from gssr.backends.backend_thread import ThreadedBackend
from gssr.backends.base import BackendChange, BackendError, Device, OpenedBackend
from gssr.backends.nvml import open_nvml
from tests.waiting import until


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
        return [BackendChange("backend", None, f"asked {self.asked}")]

    def close(self):
        self.closed += 1
        return [(0, "last")]


def times(rows):
    return [row[1] for row in rows if row[1] != "last"]


def test_it_samples_on_its_own_ticks_however_seldom_it_is_collected_from():
    inner = Ticking()
    backend = ThreadedBackend("it", lambda: OpenedBackend(inner), 0.02)
    assert backend.sample(1000.0) == []  # it begins, and is not waited for
    until(lambda: inner.asked >= 26)
    rows = list(backend.sample(1000.5))
    assert len(rows) >= 25
    assert len(backend.changes()) >= len(rows) and backend.changes() == []
    taken = times([*rows, *backend.close()])
    assert 1000.0 <= taken[0] < 1060.0, "on the recording's clock"
    late = [(when - taken[0]) % 0.02 for when in taken[:-1]]
    assert sum(by < 0.005 for by in late) > 0.4 * len(late), "by chance it would be a quarter of them"
    assert all(after - before > 0.009 for before, after in pairwise(taken))


def test_a_run_shorter_than_an_interval_has_its_first_sample_and_what_was_said():
    inner = Ticking()
    backend = ThreadedBackend("it", lambda: OpenedBackend(inner), 60.0)
    backend.sample(0.0)
    began = time.monotonic()
    rows = backend.close()
    assert time.monotonic() - began < 30
    assert len(times(rows)) == 1 and rows[-1] == (0, "last") and inner.closed == 1
    assert [change.message for change in backend.changes()] == ["asked 1"]


@pytest.fixture
def jump(monkeypatch):
    """``jump(s)`` sets the clock that the samples are taken by so far ahead of the real one."""
    ahead = [0.0]
    real = time.clock_gettime
    monkeypatch.setattr("gssr.backends.backend_thread.clock_gettime", lambda clock: real(clock) + ahead[0])
    return lambda seconds: ahead.__setitem__(0, seconds)


@pytest.mark.parametrize(("seconds", "samples"), [(130.0, 2), (20.0, 1)])
def test_the_end_is_sampled_when_a_sample_is_nearly_due(jump, seconds, samples):
    inner = Ticking()
    backend = ThreadedBackend("it", lambda: OpenedBackend(inner), 200.0)
    backend.sample(0.0)
    until(lambda: inner.asked == 1)
    time.sleep(0.05)
    jump(seconds)
    taken = times(backend.close())
    assert len(taken) == samples and seconds * (samples - 1) <= taken[-1] - taken[0] < seconds + 60


def test_one_that_was_never_sampled_is_closed():
    inner = Ticking()
    assert ThreadedBackend("it", lambda: OpenedBackend(inner), 0.01).close() == [(0, "last")]
    assert (inner.asked, inner.closed) == (0, 1)


def test_ticks_that_pass_while_a_sample_is_taken_are_left_out_and_no_gap():
    inner = Ticking(takes=0.1)
    backend = ThreadedBackend("it", lambda: OpenedBackend(inner), 0.03)
    backend.sample(0.0)
    until(lambda: inner.asked >= 8)
    steps = [after - before for before, after in pairwise(times(backend.sample(0.65)))]
    assert len(steps) >= 5 and min(steps) > 0.1 and sorted(steps)[len(steps) // 2] == pytest.approx(0.12, abs=0.03)
    gaps = [change.kind for change in backend.changes()].count("gap")
    assert gaps <= sum(step > 0.16 for step in steps), "only where the machine itself stood still"
    backend.close()


def test_being_held_up_between_two_samples_is_a_gap(jump):
    inner = Ticking()
    backend = ThreadedBackend("it", lambda: OpenedBackend(inner), 0.05)
    backend.sample(0.0)
    until(lambda: inner.asked >= 2)
    gaps = []
    for seconds in (300.0, 600.0, 900.0):  # one that falls into a sample is none between two
        jump(seconds)  # as after a machine that was suspended
        asked = inner.asked
        until(lambda asked=asked: inner.asked >= asked + 2)
        backend.sample(0.0)
        gaps += [change.message for change in backend.changes() if change.kind == "gap"]
    assert 1 <= sum(gap.startswith("no samples for 3") for gap in gaps) <= 3
    backend.close()


def test_a_fault_reaches_who_collects_after_what_was_sampled_before():
    inner = Ticking()
    inner.fails_at = 4
    backend = ThreadedBackend("it", lambda: OpenedBackend(inner), 0.01)
    backend.sample(0.0)
    until(lambda: backend._error is not None)
    with pytest.raises(BackendError, match="it broke"):
        backend.sample(0.1)
    assert len(times(backend.close())) == 3 and inner.closed == 1


def test_its_errors_when_opened_are_the_backends():
    def refuse() -> OpenedBackend:
        raise BackendError("no")

    with pytest.raises(BackendError, match="no"):
        ThreadedBackend("it", refuse, 0.1)


class TestADriverThatHangs:
    """Through the real nvidia-ml-py."""

    @pytest.fixture
    def command(self, tmp_path, fake_driver, monkeypatch):
        path = tmp_path / "command"
        fake_driver.load(monkeypatch, gpus=2, command=path)
        return path

    @pytest.fixture
    def backend(self, command, monkeypatch):
        assert not command.exists()  # so that the driver answers
        monkeypatch.setattr("gssr.backends.backend_thread.ANSWER_SECONDS", 0.5)
        backend = ThreadedBackend("the driver", lambda: open_nvml(None), 0.05)
        rows = list(backend.sample(time.time()))
        until(lambda: rows.extend(backend.sample(time.time())) or len(rows) >= 8)
        backend.changes()
        yield backend
        backend.close()

    def changed(self, backend):
        """The changes, once there are some; what it samples meanwhile is passed over."""
        found = []
        until(lambda: backend.sample(time.time()) is None or found.extend(backend.changes()) or found)
        return found

    def test_it_is_said_and_its_end_as_well(self, command, backend):
        command.write_text("hang 1")
        (change,) = self.changed(backend)
        assert change.kind == "backend_lost" and "has not answered" in change.message
        began = time.monotonic()
        assert all(backend.sample(time.time()) == [] for _ in range(20)) and time.monotonic() - began < 5
        command.unlink()
        back = time.time()
        rows = []
        until(lambda: rows.extend(backend.sample(time.time())) or {row[0] for row in rows} == {0, 1})
        backend.sample(time.time())
        assert [change.kind for change in backend.changes()] == ["backend_back"]
        assert next(row for row in rows if row[0] == 1)[1] > back - 0.05, (
            "late values have the times they were taken at"
        )

    def test_for_good_is_left_alone(self, command, backend, monkeypatch):
        command.write_text("hang")
        self.changed(backend)
        monkeypatch.setattr("gssr.backends.backend_thread.ANSWER_SECONDS", 60.0)
        began = time.monotonic()
        backend.close()
        assert time.monotonic() - began < 30
        command.unlink()  # let the thread go
        until(lambda: backend._ended.is_set())

    def test_that_began_just_before_the_end_is_said_and_a_gap(self, command, backend):
        until(lambda: backend.sample(time.time()))
        command.write_text("hang")
        until(
            lambda: backend._asked_at is not None and time.clock_gettime(time.CLOCK_BOOTTIME) - backend._asked_at > 0.3
        )
        began = time.time()
        rows = backend.close()
        (change,) = [change for change in backend.changes() if change.kind == "backend_lost"]
        assert "has not answered for" in change.message and "at the end" in change.message
        assert [row[0] for row in rows[-2:]] == [0, 1]
        assert all(row[1] >= began and set(row[2:]) == {None} for row in rows[-2:])
        command.unlink()  # let the thread go
        until(lambda: backend._ended.is_set())

    @pytest.mark.usefixtures("fake_driver")
    def test_when_opened_is_an_error(self, command, monkeypatch):
        monkeypatch.setattr("gssr.backends.backend_thread.OPEN_SECONDS", 0.3)
        command.write_text("hang")
        with pytest.raises(BackendError, match=r"has not answered for 0.3 s"):
            ThreadedBackend("the driver", lambda: open_nvml(None), 0.05)
        command.unlink()
        time.sleep(0.1)
