"""Hostile inputs for every reader: some always, and thousands where tests may be slow. ``--seed`` begins elsewhere,
``--seconds`` says how long each reader is given them."""

import pytest

from tests.fuzz.readers import (
    Drawn,
    Parser,
    Reader,
    amplify,
    blobs,
    dumps,
    guided,
    kernel_reports,
    large,
    metric_files,
    metric_texts,
    recordings,
    reports,
    texts,
    tool_traces,
    traces,
)
from tests.fuzz.readers.attempts import MEMORY, PATIENCE, READERS, bounds, crashes

HERE = "on this machine"
INPUTS = {
    recordings: 4, reports: 30, blobs: 6, texts: 100, traces: 500, tool_traces: 5, metric_texts: 175, metric_files: 60,
    dumps: 75, kernel_reports: 12,
}  # fmt: skip


def _named(value: object) -> str:
    return value.name if isinstance(value, Reader | Parser) else ""


@pytest.mark.parametrize(
    ("reader", "inputs"),
    [(reader, inputs) for module, inputs in INPUTS.items() for reader in module.READERS],
    ids=_named,
)
def test_hostile_input_is_read_or_refused_in_a_sentence(reader: Reader | Parser, inputs: int) -> None:
    assert crashes(reader, 1, inputs) == []


@pytest.mark.slow
@pytest.mark.timeout(0)
@pytest.mark.parametrize("reader", READERS, ids=_named)
def test_thousands_of_hostile_inputs_are(reader: Reader | Parser, pytestconfig: pytest.Config) -> None:
    with bounds():
        assert crashes(reader, pytestconfig.getoption("seed"), seconds=pytestconfig.getoption("seconds")) == []


@pytest.mark.slow
@pytest.mark.timeout(0)
@pytest.mark.parametrize("reader", READERS, ids=_named)
def test_inputs_that_lead_to_code_which_none_has_reached_yet_are(
    reader: Reader | Parser, pytestconfig: pytest.Config
) -> None:
    if not guided.is_installed():
        pytest.skip(f"{HERE} atheris is not installed: pip install '.[fuzz]'")
    seconds, seed = pytestconfig.getoption("seconds"), pytestconfig.getoption("seed")
    row = guided.attempts(reader, seconds, seed, PATIENCE, MEMORY)
    assert row.crash is None and row.inputs > 0 and row.branches > 0


@pytest.mark.slow
@pytest.mark.timeout(0)
@pytest.mark.parametrize("name", large.FILES)
def test_recordings_that_list_very_much_take_no_more_than_is_promised(name: str) -> None:
    assert [figure for figure in large.measure([name]) if figure.missed] == []


@pytest.mark.slow
@pytest.mark.timeout(0)
@pytest.mark.parametrize("name", amplify.FILES)
def test_small_files_made_to_be_dear_take_no_more_than_is_promised(name: str) -> None:
    assert [figure for figure in amplify.measure([name]) if figure.missed] == []


def test_bytes_choose_an_input_and_whatever_they_are_it_ends() -> None:
    numbers = [
        [rng.random(), rng.sample(range(1000), 30), rng.randbytes(9)] for rng in (Drawn(b"a" * 50), Drawn(b"a" * 50))
    ]
    assert numbers[0] == numbers[1]
    for data in (b"", b"\0" * 9, b"\xff" * 500):
        rng = Drawn(data)
        assert 0 <= rng.random() < 1 and len(set(rng.sample(range(1000), 30))) == 30
    assert Drawn(b"\1\2").getrandbits(12) == 0x201
