"""The user's settings: from a file of his own, and from nowhere else."""

import os
from pathlib import Path

import pytest

from gssr.tui.settings import Settings, read_settings, settings_file


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    found = tmp_path / "gssr" / "config.toml"
    found.parent.mkdir()
    return found


def written(file: Path, text: str, mode: int = 0o644) -> Settings:
    file.write_text(text)
    file.chmod(mode)
    return read_settings()


def test_without_a_file_nothing_is_said(file: Path) -> None:
    assert read_settings() == Settings()
    file.parent.rmdir()
    file.parent.touch()
    assert read_settings() == Settings()


def test_what_it_says_is_taken(file: Path) -> None:
    assert written(file, 'theme = "ansi-light"\n') == Settings(theme="ansi-light")
    assert written(file, 'screen = "GPUs"\nmetric = "sm"\n') == Settings(screen="gpus", metric="sm_active")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('screen = "gpu"', "did you mean gpus"),
        ('metric = "sm_activ', "Illegal character|Unterminated|Expected"),
        ('metric = "nothing"', "no metric"),
        ('theme = "dark"', "ansi-dark, ansi-light"),
        ("screen = 3", "text in quotes"),
        ('colour = "red"', "known: theme, screen, metric"),
        ("a = " + "[" * 5000, "is not used"),
        ("#" * 100_000, "too long"),
    ],
)
def test_what_is_wrong_is_one_sentence_and_everything_as_it_is_by_default(file: Path, text: str, why: str) -> None:
    import re

    found = written(file, f'{text}\ntheme = "ansi-light"\n' if text.count('"') == 2 and "theme" not in text else text)
    assert found[:3] == (None, None, None) and "\n" not in found.problem
    assert found.problem.startswith(f"{file}: is not used") and re.search(why, found.problem)


@pytest.mark.parametrize("mode", [0o666, 0o664])
def test_a_file_that_others_may_write_is_not_used(file: Path, mode: int) -> None:
    assert "chmod go-w" in written(file, 'theme = "ansi-light"\n', mode).problem


def test_a_file_of_another_user_is_not_used(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_text('theme = "ansi-light"\n')
    monkeypatch.setattr("os.geteuid", lambda: os.getuid() + 1)
    assert "another user's" in read_settings().problem


def test_what_is_no_file_is_not_waited_for(file: Path) -> None:
    os.mkfifo(file)
    assert "not a file" in read_settings().problem


def test_bytes_that_are_no_text_are_not_used(file: Path) -> None:
    file.write_bytes(b"\xff\xfe")
    assert "UTF-8" in read_settings().problem


def test_nothing_is_read_from_the_folder_one_is_in(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_text('theme = "ansi-light"\n')
    monkeypatch.chdir(tmp_path)
    for own in ("", ".", "gssr/.."):
        monkeypatch.setenv("XDG_CONFIG_HOME", own)
        found = settings_file()
        assert found is not None and found.startswith(os.path.expanduser("~/.config/"))
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setenv("HOME", "")
    assert read_settings() == Settings() or settings_file() is not None
