"""What the published GSSR 0.4.0 wrote, against plain Python on the same files."""

import gzip
import json
from datetime import UTC
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from published_files import START, TAGS, name, ranks, write_json, write_sqlite
from series import by_gpu, said

from gssr.foreign import published_json, published_sqlite
from gssr.foreign.series import ForeignError, ForeignSeries, ImportHints

OWN = Path(__file__).parents[1] / "golden" / "foreign" / "gssr-0.4.0"
FACTORS = {"gpu_utilization": 0.01, "fb_used": 2.0**20}
NOTHING = ImportHints(timezone=UTC)


def files(folder: Path) -> list[str]:
    """Those of ranks, as gssr import finds them."""
    return sorted(str(path) for path in folder.rglob("*_proc_*.json*"))


def check(series: ForeignSeries, found: list[dict[str, Any]], off: float = 1e-6, lost: bool = False) -> None:
    """Has a run the values, times and identities of its ranks' files, ``lost``: of the last GPU of each?"""
    own = {(each.gpu.node, each.gpu.device_index): each for each in by_gpu(series)}
    assert len(own) == len(series.gpus) == sum(len(rank["data"]) for rank in found)
    for rank in found:
        about = rank["metadata"]
        for gpu, columns in rank["data"].items():
            each = own.pop((about["hostname"], int(gpu)))
            assert each.gpu.rank == about["proc_id"]
            n = len(columns["sm_active"])
            if lost and gpu != list(rank["data"])[-1]:
                assert not len(each.time) and f"GPU {gpu} of {about['hostname']} has no samples" in said(series)
                continue
            assert each.gpu.memory_total == 97871 << 20
            spacing = (about["end_time"] - about["start_time"]) / n
            expected = about["end_time"] - spacing * np.arange(n - 1, -1, -1)
            np.testing.assert_allclose(each.time, expected, rtol=0, atol=off)
            for tag in TAGS:
                ours = {"fb_used": "memory_used"}.get(tag, tag)
                if tag not in ("fb_total", "fb_free", "fb_resv"):
                    np.testing.assert_allclose(
                        each.values[ours], np.array(columns[tag]) * FACTORS.get(tag, 1), rtol=1e-12
                    )
    assert not own


def test_its_own_files_are_what_the_stand_in_writes(tmp_path: Path) -> None:
    found = ranks(4, 2, 6)
    write_json(tmp_path, found)
    for rank in found:
        assert (OWN / name(rank)).read_bytes() == next(tmp_path.rglob(name(rank))).read_bytes()
    for path in (OWN, tmp_path):
        (series,) = published_json.read(files(path), NOTHING)
        check(series, found)
    (series,) = published_sqlite.read([str(OWN / "export.sql")], NOTHING)
    check(series, found, off=1.0, lost=True)


@pytest.mark.parametrize("gpus_each", [1, 2])
def test_sixteen_ranks_have_their_gpus_values_and_times(tmp_path: Path, gpus_each: int) -> None:
    found = ranks(16, gpus_each, 40)
    write_json(tmp_path, found)
    (series,) = published_json.read(files(tmp_path), NOTHING)
    check(series, found)
    assert (series.label, series.job_id, series.step_id, series.world_size) == ("train", "77", "2", 16)
    assert series.started_at == START + 0.123 and series.sampling_seconds == 0.521
    assert series.command == ("python", "train.py", "--lr", "1e-3")
    assert "kept no times" in said(series)
    write_sqlite(tmp_path / "x.sql", found)
    (series,) = published_sqlite.read([str(tmp_path / "x.sql")], NOTHING)
    check(series, found, off=1.0, lost=True)
    assert (series.label, series.job_id, series.world_size) == ("train", "77", 16)
    assert ("has no samples" in said(series)) == (gpus_each == 2)
    assert "the last one only" in said(series) and "whole seconds" in said(series)


def test_each_step_is_a_run(tmp_path: Path) -> None:
    found = [ranks(2, 2, 5, step=step, seed=step) for step in (0, 1)]
    write_json(tmp_path, [*found[0], *found[1]])
    write_sqlite(tmp_path / "x.sql", [*found[0], *found[1]])
    for series, own in zip(published_json.read(files(tmp_path), NOTHING), found, strict=True):
        check(series, own)
    for series, own in zip(published_sqlite.read([str(tmp_path / "x.sql")], NOTHING), found, strict=True):
        check(series, own, off=1.0, lost=True)


def test_a_gpu_that_two_ranks_sampled_is_one(tmp_path: Path) -> None:
    found = ranks(4, 1, 9)
    for rank in found[1:3]:
        rank["data"] = {"0": next(iter(rank["data"].values()))}
        rank["metadata"]["gpu_ids"] = [0]
    for column in found[2]["data"]["0"].values():
        column.append(column[-1])
    write_json(tmp_path, found)
    (series,) = published_json.read(files(tmp_path), NOTHING)
    assert [(gpu.device_index, gpu.rank) for gpu in series.gpus] == [(0, 2), (3, 3)]
    assert len(by_gpu(series)[0].time) == 10
    assert "GPU 0 of nid0000 was sampled by ranks 0 and 2: the samples of rank 2 are taken" in said(series)


def test_what_is_uncertain_or_missing_is_said(tmp_path: Path) -> None:
    found = ranks(4, 1, 4)
    found[0]["data"]["0"]["sm_active"] = [0.25, None, 2.0**63]
    found[0]["data"]["0"]["what"] = [1, 2, 3, 4]
    write_json(tmp_path, found[:3])
    folder = next(tmp_path.rglob("*_proc_0.json")).parent
    (folder / "x_proc_9.json").write_text(json.dumps(found[3])[:-9])
    packed = next(tmp_path.rglob("*_proc_1.json"))
    packed.with_suffix(".json.gz").write_bytes(gzip.compress(packed.read_bytes()))
    packed.unlink()
    (series,) = published_json.read(files(tmp_path), ImportHints(start=5e8, interval=2.0))
    own = by_gpu(series)
    assert len(own) == 3
    np.testing.assert_array_equal(own[0].values["sm_active"], [np.nan, 0.25, np.nan, np.nan])
    end = 5e8 + 4 * 0.5213
    np.testing.assert_allclose(own[0].time, [end - 6, end - 4, end - 2, end])
    assert "has more values of some metrics than of others" in said(series)
    assert "x_proc_9.json: is cut off" in said(series)
    assert "does not know are left out: what" in said(series)


@pytest.mark.parametrize(
    "data", [b"", b"{}", b"[1]", b'{"metadata": {}, "data": {}}', b'{"metadata": {"job_id": 1}', b"[" * 9000]
)
def test_what_holds_nothing_is_one_sentence(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(data)
    with pytest.raises(ForeignError, match=r"^\S+x\.json: [^\n]+$"):
        published_json.read([str(path)], NOTHING)
    (tmp_path / "x.sql").write_bytes(data)
    with pytest.raises(ForeignError, match=r"^\S+x\.sql: [^\n]+$"):
        published_sqlite.read([str(tmp_path / "x.sql")], NOTHING)
