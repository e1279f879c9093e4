"""Each fault of storage, once or a few times: ``python -m benchmarks faults`` does hundreds of rounds of the same."""

import random
from pathlib import Path

import pytest

from benchmarks.faults import Fault, NotHereError, storage
from benchmarks.faults.power import boundaries, cut
from benchmarks.fuzz.seeds import seeds

HERE = "on this machine"


@pytest.mark.parametrize("fault", storage.FAULTS, ids=lambda fault: fault.name)
def test_the_job_runs_and_every_reader_gives_what_is_left_or_a_sentence(fault: Fault, tmp_path: Path) -> None:
    try:
        seen = fault.round(tmp_path, random.Random(1))
    except NotHereError as error:
        pytest.skip(f"{HERE} {error}")
    assert seen.problem is None, seen


@pytest.mark.parametrize("name", ["killed", "journal"])
def test_what_a_killed_writer_left_is_read_wherever_it_ends(name: str, tmp_path: Path) -> None:
    seed = next(folder for folder in seeds() if folder.name == name)
    for path in sorted(seed.iterdir()):
        ends = boundaries(path)
        for number, at in enumerate((ends[0], ends[1], ends[len(ends) // 2], ends[-1])):
            seen = cut(seed, path.name, at, tmp_path / f"{path.name}-{number}")
            assert seen.problem is None, (path.name, at, seen)
