"""Figures and exports of the ranks' files are those of the file they are merged into."""

from pathlib import Path

import pyarrow.parquet as pq
from merging import record

from gssr.cli import main
from gssr.convert.tables import EXPORTED
from gssr.model.fleet.fleet import read_fleet
from gssr.store.merge import merge
from gssr.store.read.find_recordings import recordings_in


def rows(folder: Path, table: str) -> list[tuple[object, ...]]:
    """Sorted; sums depend in their last digit on the order of what is added."""
    found = pq.read_table(folder / table).to_pylist()
    plain = (tuple(f"{v:.12g}" if isinstance(v, float) else v for v in row.values()) for row in found)
    return sorted(plain, key=repr)


def test_ranks_files_and_what_they_are_merged_into_give_the_same(tmp_path: Path) -> None:
    recording = tmp_path / "job.sql"
    shared = ["GPU-own", "GPU-shared"]
    record(recording, 0, uuids=shared, node="n0", sampled={0: (0, 60), 1: (0, 30)})
    record(recording, 1, uuids=shared[1:], node="n0", sampled={0: (30, 60)})  # goes on where the other ended
    record(recording, 2, node="n1")
    record(recording, 3, node="n1")
    (name,), _ = recordings_in([tmp_path])
    before = read_fleet([name])
    assert main(["export", str(tmp_path), "-o", str(tmp_path / "shards")]) == 0
    assert merge(str(recording)).n_files == 4
    after = read_fleet([name])
    assert after.runs[0].n_samples == before.runs[0].n_samples == 360
    for one, other in zip(before.runs[0].gpus, after.runs[0].gpus, strict=True):
        assert (one.uuid, one.n_samples, one.score, one.energy_j) == (
            other.uuid,
            other.n_samples,
            other.score,
            other.energy_j,
        )
    assert main(["export", str(tmp_path), "-o", str(tmp_path / "merged")]) == 0
    for table in EXPORTED:
        if (tmp_path / "shards" / table).exists():
            assert rows(tmp_path / "shards", table) == rows(tmp_path / "merged", table), table
    assert len(rows(tmp_path / "merged", "samples")) == 360
