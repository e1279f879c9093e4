"""Each fault of storage, once or a few times: test_rounds_of_faults.py does many rounds of the same."""

import random
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from tests.faults.tried import Fault, NotHereError, outage, storage
from tests.faults.tried.power import boundaries, cut
from tests.fuzz.readers.seeds import seeds

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


SAID = {"", *(f"run.sql: is {why}" for why in ("damaged", "cut off", "empty: nothing was recorded into it"))}


@pytest.mark.parametrize("fault", outage.FAULTS, ids=lambda fault: fault.name)
def test_whatever_page_a_loss_of_power_cuts_off_what_was_on_the_disk_stays(fault: Fault, tmp_path: Path) -> None:
    assert fault.cases is not None
    for number, lose in enumerate(fault.cases()[::6]):
        (tmp_path / str(number)).mkdir()
        seen = lose(tmp_path / str(number))
        assert seen.problem is None and seen.said in SAID, seen


@pytest.mark.parametrize("make", [outage.log_cut, outage.journal_cut])
@pytest.mark.parametrize("page_size", outage.PAGE_SIZES)
def test_every_boundary_of_the_file_and_of_what_is_beside_it_is_a_cut(
    make: Callable[[int], outage.Outage], page_size: int
) -> None:
    made = make(page_size)
    cuts = list(outage.cuts_of(made))
    assert made.path.read_bytes()[16:18] == page_size.to_bytes(2, "big")
    for name, step in (("run.sql", page_size), (made.beside, page_size + (24 if made.earlier is None else 8))):
        places = sorted({cut.at for cut in cuts if cut.name == name})
        size = made.path.with_name(name).stat().st_size
        assert places[0] == 0 and size - places[-1] < step
        assert all(later - earlier <= max(step, 512) for earlier, later in pairwise(places))
    promised = [cut for cut in cuts if cut.possible]
    assert len(promised) > 10 and {cut.name for cut in promised} == {"run.sql", made.beside}
    assert made.synced and (made.earlier is not None or made.synced < len(made.committed))
