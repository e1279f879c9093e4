"""``--rounds`` of every fault, from ``--seed`` on. With ``--update-docs``, and without ``-n``, what came of them is put into
docs/reliability.json, of which docs/make_reliability.py makes the table."""

from pathlib import Path

import pytest

from tests.faults.tried import Fault, NotHereError
from tests.faults.tried.table import FAULTS, keep, rounds_of

RESULTS = Path(__file__).parents[2] / "docs" / "reliability.json"


@pytest.mark.slow
@pytest.mark.timeout(0)
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_no_round_of_a_fault_breaks_a_promise(fault: Fault, tmp_path: Path, pytestconfig: pytest.Config) -> None:
    try:
        row = rounds_of(fault, pytestconfig.getoption("rounds"), pytestconfig.getoption("seed"), tmp_path)
    except NotHereError as error:
        pytest.skip(f"on this machine {error}")
    if pytestconfig.getoption("update_docs"):
        keep([row], RESULTS)
    assert row.problems == []


def test_faults_have_names_of_their_own() -> None:
    assert len({fault.name for fault in FAULTS}) == len(FAULTS)
