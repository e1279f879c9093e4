"""Every benchmark that can be named can be loaded."""

import pytest

from benchmarks.__main__ import BENCHMARKS


@pytest.mark.parametrize("name", BENCHMARKS)
def test_every_benchmark_is_there(name: str) -> None:
    assert callable(BENCHMARKS[name].load())
