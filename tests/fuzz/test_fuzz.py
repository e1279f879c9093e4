"""Hostile inputs for every reader: some always, and thousands where tests may be slow. ``--seed`` begins elsewhere,
``--seconds`` says how long each reader is given them."""

import pytest

from tests.fuzz.readers import Parser, Reader, amplify, large
from tests.fuzz.readers.attempts import INPUTS, READERS, bounds, crashes


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
@pytest.mark.parametrize("name", large.FILES)
def test_recordings_that_list_very_much_take_no_more_than_is_promised(name: str) -> None:
    assert [figure for figure in large.measure([name]) if figure.missed] == []


@pytest.mark.slow
@pytest.mark.timeout(0)
@pytest.mark.parametrize("name", amplify.FILES)
def test_small_files_made_to_be_dear_take_no_more_than_is_promised(name: str) -> None:
    assert [figure for figure in amplify.measure([name]) if figure.missed] == []
