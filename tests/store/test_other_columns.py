"""Files whose ``samples`` have other columns than this version makes, or another order: what is added to them or merged with
them is counted where their own columns say."""

import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from sample_rows import rows_of, write

from gssr.metrics import DERIVED, NAMES
from gssr.store.merge import merge
from gssr.store.read.recording import RunReader, open_recording
from gssr.store.write import create

N_TICKS = 150  # of half a second: a few buckets of 10 s
OTHERS = pytest.mark.parametrize(
    "columns",
    [
        pytest.param([name for name in reversed(NAMES) if name != "sm_occupancy"], id="another order, one less"),
        pytest.param([*NAMES[:5], "of_a_later_version", *NAMES[5:]], id="one of a later version among ours"),
    ],
)


@contextmanager
def made_with(columns: Sequence[str]) -> Iterator[None]:
    """Inside, new files have these columns of samples and no others."""
    before = create.create_statements

    def statements() -> list[str]:
        kept = [each for each in before() if "gpu_samples" not in each]
        return [re.sub(r"( samples \().*", rf"\1gpu, time, {', '.join(columns)})", each) for each in kept]

    with mock.patch.object(create, "create_statements", statements), mock.patch.object(create, "_add_missing_columns"):
        yield


def counted(run: RunReader) -> dict[str, list]:
    """By metric what the rollups and the sketches count of it."""
    buckets, names = run.buckets(), [*NAMES, *(metric.name for metric in DERIVED)]
    found: dict[str, list] = {"rows": buckets.vectors[:, :2].sum(axis=0).tolist()}
    for metric, start, width in buckets.layout.blocks:
        if metric.name in names:
            vectors = np.nan_to_num(buckets.vectors[:, start : start + width], nan=-1.0)
            found[metric.name] = np.sort(vectors, axis=0).tolist()
    for name, bins in run.histograms([name for name in names if name in buckets.layout.sketched]).counts.items():
        seen = np.flatnonzero(bins)
        found[name] += [seen.tolist(), bins.ravel()[seen].tolist()]
    return found


def measured_in(columns: Sequence[str]) -> list[str]:
    return [name for name in NAMES if name in columns]


@OTHERS
def test_a_run_added_to_such_a_file_counts_as_in_a_new_one(tmp_path: Path, columns: Sequence[str]) -> None:
    rows = rows_of(N_TICKS, 2)
    with made_with(columns):
        write(tmp_path / "a.sql", rows[:50], 2, measured=measured_in(columns))
    added = write(tmp_path / "a.sql", rows, 2, run_id="s", append=True)
    alone = write(tmp_path / "b.sql", rows, 2, run_id="s")
    first, second = open_recording(tmp_path / "a.sql").runs
    (expected,) = open_recording(tmp_path / "b.sql").runs
    assert counted(second) == counted(expected)
    assert counted(first)["rows"] == [50, 0]
    np.testing.assert_array_equal(list(added.totals.values()), list(alone.totals.values()))


@OTHERS
def test_thinning_such_a_file_leaves_the_same_means(tmp_path: Path, columns: Sequence[str]) -> None:
    names = measured_in(columns)
    with made_with(columns):
        write(tmp_path / "a.sql", rows_of(50, 1), 1, measured=names)
    left = []
    for path, append in ((tmp_path / "a.sql", True), (tmp_path / "b.sql", False)):
        write(path, rows_of(N_TICKS, 1), 1, run_id="s", append=append, measured=names, keep="10s")
        with closing(sqlite3.connect(path)) as connection:
            query = f"SELECT {', '.join(names)} FROM samples JOIN gpus USING (gpu) WHERE run_id = 's' ORDER BY time"
            left.append(connection.execute(query).fetchall())
    assert left[0] == left[1] and 0 < len(left[0]) < N_TICKS / 10


@OTHERS
@pytest.mark.parametrize("older", [0, 1])
def test_ranks_files_of_two_versions_merge_into_what_they_count_apart(
    tmp_path: Path, columns: Sequence[str], older: int
) -> None:
    folder = tmp_path / "a.sql.d"
    folder.mkdir()
    for rank in range(2):
        rows = rows_of(N_TICKS, 1, seed=rank)
        with made_with(columns if rank == older else NAMES):
            # One GPU of both ranks, as where they sample it one after the other.
            write(folder / f"n{rank}.{rank}.r.sql", rows, 1, rank=rank, measured=measured_in(columns))
    (before,) = open_recording(tmp_path / "a.sql").runs
    expected = counted(before)
    assert not merge(str(tmp_path / "a.sql")).left
    (after,) = open_recording(tmp_path / "a.sql").runs
    assert counted(after) == expected
