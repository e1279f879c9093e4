"""Another package, the published 0.4.0, has a command ``gssr`` as well: what is said where both are installed."""

from pathlib import Path

import pytest

from gssr.cli import main
from gssr.version import DISTRIBUTION, __version__


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of packages that Python looks into."""
    folder = tmp_path / "site-packages"
    (folder / f"{DISTRIBUTION.replace('-', '_')}-{__version__}.dist-info").mkdir(parents=True)
    (folder / f"gssr-{__version__}.dist-info").mkdir()  # what this one was called
    monkeypatch.syspath_prepend(folder)
    monkeypatch.syspath_prepend(tmp_path / "gone-packages")
    return folder


def said(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit):
        main(words)
    return capsys.readouterr().err


def test_one_sentence_says_that_another_package_has_the_same_command_and_what_to_do(
    installed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said(["--version"], capsys) == ""
    (installed / "gssr-0.4.0.dist-info").mkdir()
    assert said(["--version"], capsys) == (
        "gssr: gssr 0.4.0, another package, is installed here too and has the same command: "
        "pip uninstall gssr gssr-profiler, then install gssr-profiler again\n"
    )
    assert said(["profile", "--help"], capsys) == "", "beside a job nothing is looked for"
