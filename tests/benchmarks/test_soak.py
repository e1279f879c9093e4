"""Half an hour of a recording in seconds; ``python -m benchmarks soak`` is a week."""

from pathlib import Path

import pytest

from benchmarks import soak
from tests.faults.tried import NotHereError

MOST_GROWN = {"sampler": 1.5e6, "follow": 1.5e6, "live screen": 6e6}
"""Bytes; caches are still being filled. Keeping what was sampled would take more."""


@pytest.mark.slow
def test_nothing_grows_in_hours_but_the_recording(tmp_path: Path) -> None:
    try:
        looks = soak.soaked(tmp_path, hours=0.5)
    except NotHereError as error:
        pytest.skip(f"on this machine {error}")
    warm = looks[len(looks) // 2 :]
    grown = {process: soak.grown_memory(looks, process) for process in MOST_GROWN}
    assert all(grown[process] < most for process, most in MOST_GROWN.items()), grown
    for process in MOST_GROWN:
        opened = [look.descriptors[process] for look in warm]
        assert max(opened) - min(opened) <= 2
    assert all(not look.others and look.log < 16e6 for look in looks)
    assert warm[-1].size > warm[0].size
