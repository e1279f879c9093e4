"""Whoever sets the system clock, a recording's own clock runs on."""

import time

import pytest

from gssr.profile.sampling.clock import RecordingClock


def test_a_step_of_the_system_clock_is_told_once_and_shifts_nothing(monkeypatch):
    clock, real = RecordingClock(), time.time
    for set_by in (0.0, 3600.0, -7200.0, -7200.2):
        before = clock.step()
        assert before == 0.0
        now = clock.now()
        monkeypatch.setattr(time, "time", lambda by=set_by: real() + by)
        assert clock.now() - now < 1.0
        assert clock.of_system(time.time()) == pytest.approx(clock.now(), abs=0.05)
        moved = clock.step()
        assert moved == pytest.approx({0.0: 0.0, 3600.0: 3600.0, -7200.0: -10800.0, -7200.2: 0.0}[set_by], abs=0.05)


@pytest.mark.parametrize("set_by", [3600.0, -3600.0])
def test_what_was_told_just_before_the_clock_was_set_keeps_its_time(monkeypatch, set_by):
    clock, real = RecordingClock(), time.time
    told, now = time.time(), clock.now()
    monkeypatch.setattr(time, "time", lambda: real() + set_by)
    assert clock.of_system(told) == pytest.approx(now, abs=0.5)
    assert clock.of_system(time.time()) == pytest.approx(clock.now(), abs=0.5)
    assert clock.step() == pytest.approx(set_by, abs=0.05)
