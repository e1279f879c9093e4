"""Two hosts, one folder, no coherent caches: the reader on one sees nothing that the writer on the other did not write."""

from pathlib import Path

import pytest

from benchmarks import shared


@pytest.mark.usefixtures("fuse")
@pytest.mark.parametrize("options", shared.WHEN.values(), ids=["close-to-open", "trusting"])
def test_a_reader_on_another_host_sees_only_what_was_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...]
) -> None:
    monkeypatch.setattr(shared, "CACHE", tmp_path)
    polled, commits, whole = shared.between_hosts(250, options)
    assert (polled.torn, polled.failed) == (0, 0)
    assert polled.polls >= 250 and polled.rows > 0 and commits > 5 and whole
