"""``gssr merge`` says what is wrong with the name that it was given."""

from pathlib import Path

import pytest

from gssr.cli import main


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("nothing.sql", "nothing.sql: no such recording: neither this file is there nor nothing.sql.d"),
        ("folder", "folder: is a folder: name a recording in it, NAME.sql"),
        (".", ".: is a folder"),
        ("notes.txt", "notes.txt: is not a recording"),
    ],
)
def test_what_is_no_recording_is_one_sentence(tmp_path: Path, monkeypatch, capsys, name: str, expected: str) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "notes.txt").write_text("precious")
    assert main(["merge", name]) == 1
    out, err = capsys.readouterr()
    assert out == "" and err.startswith(f"gssr: {expected}") and err.count("\n") == 1
    assert (tmp_path / "notes.txt").read_text() == "precious"
