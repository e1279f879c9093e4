"""What gssr-record leaves of a step: rows as its write_records prints them, and its meta text."""

import os
from pathlib import Path

import numpy as np
import pytest
from series import by_gpu, said

from gssr.foreign import gssr_record
from gssr.foreign.series import ForeignError, ImportHints

FIELDS = (
    "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_FB_FREE", "DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_FB_RESERVED",
    "DCGM_FI_PROF_SM_ACTIVE", "DCGM_FI_PROF_PCIE_TX_BYTES", "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION",
    "DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_WHAT",
)  # fmt: skip
HEAD = ",".join(["timestamp", "gpuId", *(f"{field}_{end}" for field in FIELDS for end in ("min", "avg", "max"))])
META = """{{
    "gssr-record-version": "2.0",
    "date": "2026-01-20T15:38:10+0100",
    "cluster": "alps",
    "jobid": "123",
    "jobname": "train",
    "nnodes": "2",
    "ntasks": "{tasks}",
    "ngpus": "4",
    "step_nnodes": "2",
    "step_ntasks": "{tasks}",
    "executable": "python",
    "arguments": "{arguments}"
}}

"""
START = 1768919890.0


def row(second: int, gpu: int, util: str = "40,50,60", tx: str = "1,2,3", energy: str = "0,7000,0") -> str:
    return (
        f"{second},{gpu},{util},1000,1000,1000,500,600,700,96,96,96,0.50,0.60,0.70,{tx},{energy},90.0,100.0,110.0,1,1,1"
    )


def files(folder: Path) -> list[str]:
    """As gssr import finds them."""
    return sorted(str(path) for path in folder.rglob("*.csv"))


def step(folder: Path, files: dict[int, list[str]], arguments: str = "'a.py' '--n' '3' ", tasks: int = 2) -> Path:
    own = folder / "alps_123" / "step_4"
    own.mkdir(parents=True)
    for rank, rows in files.items():
        (own / f"proc_{rank}.csv").write_text("\n".join([HEAD, *rows]) + "\n")
    (own / "proc_0.meta.txt").write_text(META.format(arguments=arguments, tasks=tasks))
    return own


def test_nodes_of_a_step_are_a_run_with_its_times_and_identity(tmp_path: Path) -> None:
    rows = [row(second, gpu) for second in (1, 2, 4) for gpu in (0, 1)]
    step(tmp_path, {0: rows, 8: rows[1:]})
    (series,) = gssr_record.read(files(tmp_path), ImportHints())
    own = by_gpu(series)
    assert [(each.gpu.node, each.gpu.device_index, each.gpu.rank) for each in own] == [
        ("proc_0", 0, 0), ("proc_0", 1, 0), ("proc_8", 0, 8), ("proc_8", 1, 8)
    ]  # fmt: skip
    assert [each.gpu.memory_total for each in own] == [1696 << 20] * 4
    np.testing.assert_array_equal(own[0].time - START, [1, 2, 4])
    np.testing.assert_array_equal(own[2].time - START, [2, 4])
    assert own[0].values["gpu_utilization"].tolist() == [0.5] * 3
    assert own[0].values["sm_active"].tolist() == [0.6] * 3
    assert own[0].values["memory_used"].tolist() == [600 << 20] * 3
    assert own[0].values["power_usage"].tolist() == [100.0] * 3
    assert own[0].values["energy"].tolist() == [7.0, 14.0, 21.0]
    assert (series.label, series.job_id, series.step_id, series.cluster) == ("train", "123", "4", "alps")
    assert series.command == ("python", "a.py", "--n", "3") and series.world_size == 2 and series.started_at == START
    assert (
        "of which" not in said(series)
        and "do not say which nodes" in said(series)
        and "DCGM_FI_DEV_WHAT_avg" in said(series)
    )


def test_a_zero_that_stands_for_a_number_too_large_is_unknown(tmp_path: Path) -> None:
    rows = [
        row(1, 0, tx="1500000000,0,0"), row(2, 0, tx="0,0,1500000000"), row(3, 0, tx="0,0,0"), row(4, 0, tx="1,2,0"),
        row(5, 0, util="0,0,3"), row(6, 0, util="0,0,90"), row(7, 0, energy="0,0,0"),
    ]  # fmt: skip
    step(tmp_path, {0: rows}, tasks=4)
    (series,) = gssr_record.read(files(tmp_path), ImportHints(host="n1"))
    (own,) = by_gpu(series)
    np.testing.assert_array_equal(own.values["pcie_tx_bytes"][:4], [np.nan, np.nan, 0, 2])
    np.testing.assert_array_equal(own.values["gpu_utilization"][4:6], [0, np.nan])
    np.testing.assert_array_equal(own.values["energy"][5:], [42, np.nan])
    assert own.gpu.node == "n1" and own.gpu.rank is None
    assert "the step had 2 nodes, of which 1 left a file here" in said(series)
    assert "3 means that are 0" in said(series)


def test_arguments_that_are_not_escaped_and_lines_that_are_no_rows(tmp_path: Path) -> None:
    rows = [row(1, 0), HEAD, row(2, 0)[:-6], "nan" + row(2, 0)[1:], row(3, 0, tx="1,1\r2,3")]
    folder = step(tmp_path, {0: rows}, arguments=r"""'-c' 'print("\d")' 'it's' """)
    path = folder / "proc_0.csv"
    said_so = path.read_bytes().replace(b"WHAT", b"\x1b[31m\xff")
    path.write_bytes(said_so.replace(b"\n", b"\r\n") + row(4, 0)[:40].encode())
    (series,) = gssr_record.read([str(path)], ImportHints())
    (own,) = by_gpu(series)
    np.testing.assert_array_equal(own.time - START, [1, 3])
    np.testing.assert_array_equal(own.values["pcie_tx_bytes"], [2, np.nan])
    assert said(series).replace("\n", "").isprintable()
    assert series.command == ("python", "-c", r'print("\d")', "it's") and series.job_id == "123"
    assert "4 lines that are cut off, or no rows, are left out" in said(series)


def test_without_meta_the_files_age_tells_when_it_was(tmp_path: Path) -> None:
    folder = step(tmp_path, {0: [row(1, 0), row(5, 0)]})
    (folder / "proc_0.meta.txt").unlink()
    os.utime(folder / "proc_0.csv", (1e9, 1e9))
    (series,) = gssr_record.read(files(tmp_path), ImportHints())
    np.testing.assert_array_equal(by_gpu(series)[0].time, [1e9 - 4, 1e9])
    assert "proc_0.meta.txt is missing" in said(series)
    (series,) = gssr_record.read(files(tmp_path), ImportHints(start=5e8))
    np.testing.assert_array_equal(by_gpu(series)[0].time, [5e8 + 1, 5e8 + 5])


@pytest.mark.parametrize("text", ["", "a,b\n1,2\n", HEAD + "\n", HEAD + "\nx,y\n", HEAD.replace("avg", "min") + "\n"])
def test_what_holds_nothing_is_one_sentence(tmp_path: Path, text: str) -> None:
    (tmp_path / "proc_0.csv").write_text(text)
    with pytest.raises(ForeignError, match=r"^\S+proc_0\.csv: [^\n]+$"):
        gssr_record.read(files(tmp_path), ImportHints())
