"""Each fault of processes, once: test_rounds_of_faults.py does many rounds of the same."""

import random
from functools import partial
from pathlib import Path

import pytest

from tests.faults.tried import Fault, NotHereError, clocks, processes, workloads

SHORTENED = {
    "week": partial(clocks.week, seconds=600.0),
    "floods": partial(workloads.floods, size=50_000_000),
}
"""What takes long: the same, with less of it."""
HERE = "on this machine"


@pytest.mark.parametrize("fault", processes.FAULTS, ids=lambda fault: fault.name)
def test_the_job_runs_as_if_nothing_had_happened_and_its_recording_opens(fault: Fault, tmp_path: Path) -> None:
    try_round = SHORTENED.get(fault.name, fault.round)
    try:
        seen = try_round(tmp_path, random.Random(0))
    except NotHereError as error:
        pytest.skip(f"{HERE} {error}")
    assert seen.problem is None, seen
