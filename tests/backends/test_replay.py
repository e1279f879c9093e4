"""Replaying: every recorded row once, at its time, as it was."""

import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from gssr.backends.base import Backend, BackendError, Row
from gssr.backends.replay import ReplayBackend, check_spec, open_replay, parse
from gssr.backends.synthetic import SyntheticBackend
from gssr.metrics import NAMES
from gssr.store.write.writer import Writer

START = 1_700_000_000.0


def record(
    path: Path, scenario: str = "gaps", gpus: int = 4, seconds: float = 20, run_id: str = "r1", start: float = START,
    node: str = "node", append: bool = False, rank: int = 0, ended: bool = True,
) -> list[Row]:  # fmt: skip
    """Record a scenario at 10 Hz; returns the rows, by position of the GPU."""
    backend = SyntheticBackend(scenario, gpus, node, start=start)
    writer = Writer(str(path), append)
    writer.begin({"run_id": run_id, "state": "running", "started_at": start}, {"rank": rank, "node": node})
    writer.add_gpus([gpu._asdict() | {"backend": backend.name} for gpu in backend.gpus], backend.measures, 0.1)
    rows: list[Row] = []
    for tick in range(round(seconds * 10)):
        new = backend.sample(start + tick * 0.1)
        writer.add(new)
        writer.tick(start + tick * 0.1)
        rows += new
    if ended:
        writer.finish(start + seconds, 0, "completed", start + seconds)
    else:
        writer.commit(start + seconds)
        writer._connection.close()
    return rows


def play(backend: Backend, until: float, step: float = 0.25) -> list[tuple[float, Row]]:
    """(now, row) of everything it gives in ``until`` seconds."""
    found: list[tuple[float, Row]] = []
    for tick in range(int(until / step) + 1):
        now = 5e8 + tick * step
        found += [(now, row) for row in backend.sample(now)]
    return found


@pytest.mark.parametrize("step", [0.05, 0.1, 0.7, 30.0])
def test_every_row_comes_once_in_its_interval_with_its_values(tmp_path: Path, step: float) -> None:
    recorded = record(tmp_path / "a.sql")
    played = play(open_replay(f"replay:{tmp_path}/a.sql"), 30, step)
    assert [row[2:] for _, row in played] == [row[2:] for row in recorded]
    assert [row[0] for _, row in played] == [row[0] for row in recorded]
    for (now, row), original in zip(played, recorded, strict=True):
        assert row[1] == pytest.approx(5e8 + original[1] - START, abs=1e-6)
        assert now - step < row[1] <= now


def test_speed_maps_times_and_nothing_else(tmp_path: Path) -> None:
    recorded = record(tmp_path / "a.sql")
    played = play(open_replay(f"replay:{tmp_path}/a.sql@10"), 3, 0.1)
    assert [row[2:] for _, row in played] == [row[2:] for row in recorded]
    for (_, row), original in zip(played, recorded, strict=True):
        assert row[1] == pytest.approx(5e8 + (original[1] - START) / 10, abs=1e-6)


def test_it_ends_once_and_stays_silent(tmp_path: Path) -> None:
    record(tmp_path / "a.sql", seconds=2)
    backend = open_replay(f"replay:{tmp_path}/a.sql")
    assert backend.sample(0.0)
    assert backend.changes() == ()
    assert backend.sample(10.0)
    assert [(change.kind, change.gpu, change.message) for change in backend.changes()] == [
        ("backend_lost", None, "the replayed recording has ended")
    ]
    assert backend.sample(20.0) == []
    assert backend.changes() == ()
    backend.close()


def test_gpus_are_those_recorded_and_unmeasured_stays_unmeasured(tmp_path: Path) -> None:
    record(tmp_path / "a.sql", "train", node="nid7")
    backend = ReplayBackend(str(tmp_path / "a.sql"))
    original = SyntheticBackend("train", 4, "nid7")
    assert tuple(backend.gpus) == tuple(original.gpus)
    assert tuple(backend.measures) == tuple(original.measures)
    assert backend.name == "replay"


def test_a_run_that_never_ended_is_played_as_far_as_it_goes(tmp_path: Path) -> None:
    recorded = record(tmp_path / "a.sql", seconds=3, ended=False)
    backend = ReplayBackend(str(tmp_path / "a.sql"))
    assert set(backend.measures) == set(NAMES)
    assert len(play(backend, 5)) == len(recorded)


def test_only_the_last_run_is_played(tmp_path: Path) -> None:
    record(tmp_path / "a.sql", "train", gpus=2, seconds=3)
    second = record(tmp_path / "a.sql", "idle", gpus=3, seconds=2, run_id="r2", start=START + 100, append=True)
    backend = ReplayBackend(str(tmp_path / "a.sql"))
    assert len(backend.gpus) == 3
    assert [row[2:] for _, row in play(backend, 5)] == [row[2:] for row in second]


def test_shards_are_played_together(tmp_path: Path) -> None:
    folder = tmp_path / "a.sql.d"
    folder.mkdir()
    one = record(folder / "n1.0.r1.sql", "train", gpus=2, seconds=2, node="n1")
    two = record(folder / "n2.1.r1.sql", "train", gpus=2, seconds=2, node="n2", rank=1, start=START + 0.05)
    for name in ("a.sql", "a.sql.d"):
        backend = ReplayBackend(str(tmp_path / name))
        played = [row for _, row in play(backend, 5)]
        assert [row[2:] for row in played if row[0] < 2] == [row[2:] for row in one]
        assert [row[2:] for row in played if row[0] >= 2] == [row[2:] for row in two]
        assert backend.gpus[2].uuid == SyntheticBackend("train", 1, "n2").gpus[0].uuid
        begins = [min(row[1] for row in played if row[0] == gpu) for gpu in range(4)]
        assert begins == pytest.approx([5e8, 5e8, 5e8 + 0.05, 5e8 + 0.05], abs=1e-6)


def test_a_gpu_that_two_ranks_sampled_in_turns_is_one(tmp_path: Path) -> None:
    folder = tmp_path / "a.sql.d"
    folder.mkdir()
    late = record(folder / "n1.0.r1.sql", "train", gpus=2, seconds=2, node="n1", start=START + 2.5)
    early = record(folder / "n1.1.r1.sql", "train", gpus=2, seconds=2, node="n1", rank=1)
    record(folder / "n1.2.r1.sql", "idle", gpus=2, seconds=1, node="n1", rank=2)  # at the same time as another
    backend = ReplayBackend(str(tmp_path / "a.sql"))
    assert len(backend.gpus) == 2
    assert [row[2:] for _, row in play(backend, 9)] == [row[2:] for row in (*early, *late)]


def test_columns_of_another_version_are_missing_or_left_out(tmp_path: Path) -> None:
    recorded = record(tmp_path / "a.sql", "train", seconds=1)
    connection = sqlite3.connect(tmp_path / "a.sql")
    connection.execute("ALTER TABLE samples ADD COLUMN warp_drive REAL")
    connection.execute("DROP VIEW gpu_samples")
    connection.execute("ALTER TABLE samples DROP COLUMN temperature")
    connection.commit()
    connection.close()
    played = play(ReplayBackend(str(tmp_path / "a.sql")), 2)
    heat = 2 + NAMES.index("temperature")
    assert len(played) == len(recorded)
    assert all(row[heat] is None and row[heat + 1] is not None for _, row in played)


def test_specs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "b@2").touch()
    assert parse("replay:a.sql") == ("a.sql", 1.0)
    assert parse("replay:a.sql@2.5") == ("a.sql", 2.5)
    assert parse("replay:/x/job@3:4/a.sql") == ("/x/job@3:4/a.sql", 1.0)
    assert parse("replay:b@2") == ("b@2", 1.0)


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ("replay", "name the recording"),
        ("replay:", "name the recording"),
        ("replay:none.sql", "none.sql: no such file"),
        ("replay:empty.sql", "empty.sql: is empty"),
        ("replay:text.sql", "text.sql: is not a recording"),
        ("replay:norows.sql", "norows.sql: its last run holds no samples"),
        ("replay:norun.sql", "norun.sql: holds no run"),
        ("replay:good.sql@0", "above 0"),
        ("replay:good.sql@-1", "above 0"),
        ("replay:good.sql@nan", "above 0"),
        ("replay:folder", "folder: holds no recording"),
    ],
)
def test_bad_input_gets_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spec: str, sentence: str
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.sql").touch()
    (tmp_path / "text.sql").write_text("this is not a database, whatever its name says")
    (tmp_path / "folder").mkdir()
    record(tmp_path / "good.sql", seconds=0.5)
    record(tmp_path / "norows.sql", seconds=0)
    Writer("norun.sql")._connection.close()
    with pytest.raises(BackendError) as caught:
        check_spec(spec)
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


def test_damage_in_the_middle_is_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "a.sql"
    record(path, "train", gpus=8, seconds=60)
    size = path.stat().st_size
    with open(path, "r+b") as stream:
        stream.seek(size // 2)
        stream.write(b"\xff" * (size // 4))
    with pytest.raises(BackendError, match=r"a\.sql: can't be read any further") as caught:
        play(ReplayBackend(str(path)), 100, 5)
    assert "\n" not in str(caught.value)


def test_replaying_imports_no_numpy(tmp_path: Path) -> None:
    record(tmp_path / "a.sql", seconds=2)
    code = (
        "import sys\n"
        "from gssr.backends.replay import open_replay\n"
        f"backend = open_replay('replay:{tmp_path}/a.sql')\n"
        "assert backend.sample(0.0) and backend.sample(5.0)\n"
        "heavy = {'numpy', 'dataclasses', 'logging', 'pandas'} & set(sys.modules)\n"
        "sys.exit(' '.join(heavy) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
