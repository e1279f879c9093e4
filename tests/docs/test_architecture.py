"""docs/architecture.md is a map: what stands on it exists, and what exists stands on it."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MAP = (ROOT / "docs" / "architecture.md").read_text()
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()
FOLDERS = sorted({path.parent.relative_to(ROOT / "gssr") for path in (ROOT / "gssr").rglob("*.py")} - {Path(".")})
PICTURE = MAP.partition("```text")[2].partition("```")[0]


def folders_drawn() -> set[str]:
    """The folders of the picture, each by its last name."""
    return set(re.findall(r"(\w+)/(?:\s|$)", PICTURE))


@pytest.mark.parametrize("folder", FOLDERS, ids=str)
def test_every_folder_is_on_the_map(folder: Path) -> None:
    assert folder.name in folders_drawn()


def test_every_folder_of_the_map_exists() -> None:
    assert folders_drawn() <= {folder.name for folder in FOLDERS}


@pytest.mark.parametrize("text", [MAP, CONTRIBUTING], ids=["architecture", "contributing"])
def test_every_path_that_is_named_exists(text: str) -> None:
    named = set(re.findall(r"`((?:gssr|docs|tests|benchmarks|screenshots|\.ci)/[\w./*-]*|\w+\.toml)`", text))
    assert len(named) > 10
    assert [path for path in named if not list(ROOT.glob(path.rstrip("/")))] == []


def test_every_top_level_file_that_others_share_is_on_the_map() -> None:
    own = {path.name for path in (ROOT / "gssr").glob("*.py")} - {"__init__.py", "__main__.py"}
    assert [name for name in own if name not in MAP] == []


def test_a_files_first_line_says_what_it_is_for() -> None:
    first = {path: path.read_text().partition("\n")[0] for path in (ROOT / "gssr").rglob("*.py")}
    assert [path for path, line in first.items() if not (line.startswith('"""') and len(line.split()) >= 3)] == []
