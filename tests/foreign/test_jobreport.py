"""What CSCS's jobreport leaves of a step: rows as it prints them."""

from pathlib import Path

import numpy as np
import pytest
from series import by_gpu, said

from gssr.cli import main
from gssr.foreign import jobreport
from gssr.foreign.series import ForeignError, ImportHints
from gssr.store.read.recording import open_recording

HEAD = (
    "jobId,stepId,username,slurm_account,n_nodes,host,gpuId,powerUsageMin,powerUsageMax,powerUsageAvg,startTime,endTime,"
    "smUtilizationMin,smUtilizationMax,smUtilizationAvg,memoryUtilizationMin,memoryUtilizationMax,memoryUtilizationAvg,"
    "maxAllocatedMemory"
)
START = 1_720_000_000


def row(
    node: int, gpu: int, power: str = "431.250000", busy: str = "87", memory: str = "30000000000", step: int = 0,
    seconds: int = 600,
) -> str:  # fmt: skip
    times = f"{START}000000,{START + seconds}000000"
    return (
        f"123,{step},anna,proj,2,nid{node:04},{gpu},75.000000,500.000000,{power},{times},0,100,{busy},0,40,21,{memory}"
    )


def step(folder: Path, *nodes: list[str], number: int = 0) -> Path:
    own = folder / "jobreport_123" / f"step_{number}"
    own.mkdir(parents=True)
    (folder / "jobreport_123" / ".jobreport").write_text("")
    for node, rows in enumerate(nodes):
        (own / f"proc_{node * 4}.csv").write_text("\n".join([HEAD, *rows]) + "\n")
    return own


def files(folder: Path) -> list[str]:
    return sorted(map(str, folder.rglob("*.csv")))


def test_the_means_of_a_step_are_a_run_with_one_sample_of_each_gpu(tmp_path: Path) -> None:
    step(tmp_path, [row(0, gpu) for gpu in range(4)], [row(1, gpu, busy="55") for gpu in range(4)])
    (series,) = jobreport.read(files(tmp_path), ImportHints())
    own = by_gpu(series)
    assert [(each.gpu.node, each.gpu.device_index) for each in own] == [
        (f"nid000{node}", gpu) for node in (0, 1) for gpu in range(4)
    ]
    for each, busy in zip(own, [0.87] * 4 + [0.55] * 4, strict=True):
        assert each.time.tolist() == [START + 600]
        found = {name: value.tolist() for name, value in each.values.items()}
        assert found == pytest.approx(
            {"gpu_utilization": [busy], "memory_copy_utilization": [0.21], "power_usage": [431.25]}
        )
    assert (series.job_id, series.step_id, series.user, series.sampling_seconds) == ("123", "0", "anna", 600)
    assert (series.started_at, series.ended_at) == (START, START + 600)
    assert "jobreport keeps no samples" in said(series) and "at most 30.0 GB were in use, on nid0000:0" in said(series)


def test_what_was_not_measured_is_unknown(tmp_path: Path) -> None:
    blank = ("140737488355328.000000", "2147483632", "9223372036854775792")
    step(tmp_path, [row(0, 0, "-nan"), row(0, 1, *blank), row(0, 2, "100.0", memory="-1"), row(0, 3)[:60]])
    (series,) = jobreport.read(files(tmp_path), ImportHints())
    own = by_gpu(series)
    np.testing.assert_equal([each.values["power_usage"][0] for each in own], [np.nan, np.nan, 100.0])
    np.testing.assert_equal([each.values["gpu_utilization"][0] for each in own], [0.87, np.nan, 0.87])
    assert "1 rows that are cut off" in said(series) and "30.0 GB were in use, on nid0000:0" in said(series)


def test_a_folder_with_several_steps_is_several_runs(tmp_path: Path) -> None:
    step(tmp_path, [row(0, 0)])
    step(tmp_path, [row(0, 0, step=1, seconds=60)], [row(1, 0, step=1, seconds=61)], number=1)
    back = tmp_path / "back.sql"
    assert main(["import", str(tmp_path / "jobreport_123"), "-o", str(back)]) == 0
    runs = open_recording(back).runs
    assert [(run.run.step_id, len(run.gpus), run.n_rows) for run in runs] == [("0", 1, 1), ("1", 2, 2)]
    assert {run.gpus[0].backend for run in runs} == {"import:jobreport"} and main(["analyze", str(back)]) == 0


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("jobId,stepId,username,host,gpuId,\n", "is no file of jobreport: it has no column startTime"),
        (HEAD + "\n", "holds no row of a GPU"),
        (HEAD + "\n" + row(0, 0).replace(f"{START}000000", "x"), "holds no row of a GPU"),
    ],
)
def test_what_holds_nothing_is_one_sentence(tmp_path: Path, text: str, sentence: str) -> None:
    path = tmp_path / "proc_0.csv"
    path.write_text(text)
    with pytest.raises(ForeignError, match=r"^\S+proc_0\.csv: [^\n]+$") as caught:
        jobreport.read([str(path)], ImportHints())
    assert sentence in str(caught.value)
