"""``gssr profile --group``: what a group may read, while it grows and in the end, and what it may not."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OWN = str(os.getegid())


def record(folder: Path, *words: str, ranks: int = 1, group: str = OWN) -> list[subprocess.CompletedProcess[str]]:
    """Ranks that list the folder while they are recorded, under a umask that leaves nobody anything."""
    listed = "sleep 1; find . -printf '%M %G %p\\n'"
    command = [sys.executable, "-m", "gssr", "profile", "--backend", "synthetic:idle:1", "--no-summary"]
    started = []
    for rank in range(ranks):
        several = {
            "RANK": str(rank),
            "LOCAL_RANK": str(rank),
            "WORLD_SIZE": str(ranks),
            "MASTER_ADDR": "here",
            "MASTER_PORT": "1",
        }
        started.append(subprocess.Popen(
            [*command, "--group", group, *words, "--", "sh", "-c", listed], cwd=folder, text=True, umask=0o077,
            env=os.environ | {"PYTHONPATH": str(ROOT)} | (several if ranks > 1 else {}),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        ))  # fmt: skip
    return [subprocess.CompletedProcess("", process.wait(60), *process.communicate()) for process in started]


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_group_may_read_what_is_recorded_and_nobody_else(tmp_path: Path, ranks: int) -> None:
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(0o2750)
    done = record(folder, "-o", "run.sql", ranks=ranks)
    assert [each.returncode for each in done] == [0] * ranks, done
    seen = {name: mode for line in done[0].stdout.splitlines() for mode, _, name in [line.split(" ", 2)]}
    recorded = {name: mode for name, mode in seen.items() if ".sql" in name}
    assert any(name.endswith("-wal") for name in recorded)
    assert {mode for name, mode in recorded.items() if mode.startswith("-")} == {"-rw-r-----"}
    assert {mode for name, mode in recorded.items() if mode.startswith("d")} <= {"drwxr-s---"}
    assert {mode for name, mode in seen.items() if "traces" in name} <= {"drwx--S---"}
    assert stat.S_IMODE((folder / "run.sql").stat().st_mode) == 0o640
    assert os.listdir(folder) == ["run.sql"]


@pytest.mark.parametrize(
    ("group", "words", "said"),
    [
        (OWN, ("-o", "run.sql"), "is not that group's with the bit setgid: chgrp"),
        ("no such group", ("-o", "run.sql"), "there is no group 'no such group' on this node"),
        (OWN, ("-o", "nowhere/run.sql"), "nowhere: No such file or directory"),
    ],
)
def test_what_a_group_could_not_read_is_refused_before_anything_runs(
    tmp_path: Path, group: str, words, said: str
) -> None:
    (done,) = record(tmp_path, *words, group=group)
    assert (done.returncode, done.stdout) == (2, "") and said in done.stderr
    assert os.listdir(tmp_path) == []
