"""Metrics of Prometheus as text: scrapes of dcgm-exporter as it writes them, and GSSR's own export."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from series import OfGpu, by_gpu, said

import gssr
from gssr.convert import openmetrics
from gssr.foreign import prometheus_text
from gssr.foreign.series import ByteSource, ForeignError, ForeignSeries, ImportHints
from gssr.metrics import METRICS

MODIFIED = 1.7e9


def read(text: str | Iterable[str], told: ImportHints = ImportHints(), at_once: int = 1 << 20) -> ForeignSeries:  # noqa: B008
    """A text, or what has been added to a file each time that it was looked at."""
    parts = [text] if isinstance(text, str) else text
    chunks: list[bytes] = []
    for part in parts:
        data = part.encode()
        chunks += [data[at : at + at_once] for at in range(0, len(data), at_once)] or [b""]
    return prometheus_text.read(ByteSource("x.prom", iter(chunks), MODIFIED), told)


def line(name: str, value: object, gpu: int = 0, more: str = "", end: str = "") -> str:
    return (
        f'DCGM_FI_{name}{{gpu="{gpu}",UUID="GPU-{gpu}",pci_bus_id="00:0{gpu}",device="nvidia{gpu}",modelName="NVIDIA H100"'
        f',Hostname="n1",DCGM_FI_DRIVER_VERSION="535.1"{more}}} {value}{end}\n'
    )


def scrape(util: Sequence[float], sm: Sequence[float], end: str = "") -> str:
    return (
        "# HELP DCGM_FI_DEV_GPU_UTIL GPU utilization (in %).\n# TYPE DCGM_FI_DEV_GPU_UTIL gauge\n"
        + "".join(line("DEV_GPU_UTIL", value, gpu, end=end) for gpu, value in enumerate(util))
        + "# HELP DCGM_FI_PROF_SM_ACTIVE (in %)\n# TYPE DCGM_FI_PROF_SM_ACTIVE gauge\n"
        + "".join(line("PROF_SM_ACTIVE", value, gpu, end=end) for gpu, value in enumerate(sm))
        + 'go_gc_duration_seconds{quantile="0.5"} 0.001\ngo_goroutines 12\n'
    )


def same(own: OfGpu, metric: str, expected: Sequence[float]) -> None:
    np.testing.assert_allclose(own.values[metric], expected, rtol=1e-12)


def test_one_scrape_is_a_moment_with_its_gpus() -> None:
    series = read(
        scrape([0.9, 100], [0.000003, 1])
        + line("DEV_FB_USED", 1024)
        + line("DEV_FB_FREE", 3072)
        + line("DEV_TOTAL_ENERGY_CONSUMPTION", "5e+06")
        + line("DEV_MEMORY_TEMP", 9223372036854775794)
        + line("DEV_POWER_USAGE", "NaN")
        + line("DEV_XID_ERRORS", 31)
    )
    first, second = by_gpu(series)
    assert first.gpu[:8] == ("n1", 0, "GPU-0", "NVIDIA H100", 4 << 30, None, "535.1", None)
    assert first.time.tolist() == second.time.tolist() == [MODIFIED]
    same(first, "gpu_utilization", [0.009])
    same(first, "sm_active", [0.000003])
    same(first, "memory_used", [2**30])
    same(first, "energy", [5000])
    assert "memory_temperature" not in first.values and "power_usage" not in first.values
    assert np.isnan(second.values["energy"]).all()
    assert "one scrape, without a time" in said(series) and "DCGM_FI_DEV_XID_ERRORS" in said(series)


@pytest.mark.parametrize("at_once", [1 << 20, 700, 1])
@pytest.mark.parametrize("told", [ImportHints(), ImportHints(start=5e8, interval=15.0)])
def test_scrapes_are_parted_where_a_series_comes_again(at_once: int, told: ImportHints) -> None:
    texts = [scrape([k, k + 1], [k / 10, k / 20]) for k in range(1, 8)]
    texts[3] = texts[3].replace('gpu="1"', 'gpu="1",pod=""').replace("\n", "\r\n")
    series = read("".join(texts), told, at_once)
    start, interval = (MODIFIED - 6, 1.0) if told.start is None else (5e8, 15.0)
    for gpu, own in enumerate(by_gpu(series)):
        np.testing.assert_allclose(own.time, start + interval * np.arange(7))
        same(own, "gpu_utilization", [(k + gpu) / 100 for k in range(1, 8)])
        same(own, "sm_active", [k / (10 + 10 * gpu) for k in range(1, 8)])
    assert ("7 scrapes have no times" in said(series)) == (told.start is None)


@pytest.mark.parametrize("unit", [1000, 1])
def test_times_are_taken_and_need_no_order_within_a_scrape(unit: int) -> None:
    texts = [scrape([k, k], [k / 10, k / 10], end=f" {(1_600_000_000 + 30 * k) * unit}") for k in range(200)]
    series = read("".join(texts), at_once=5000)
    for own in by_gpu(series):
        np.testing.assert_array_equal(own.time, 1.6e9 + 30 * np.arange(200))
        same(own, "sm_active", np.arange(200) / 10)
    assert said(series) == ""


@pytest.mark.parametrize("n_gpus", [1, 2])
def test_scrapes_are_parted_where_a_pod_has_gone(n_gpus: int) -> None:
    texts = [scrape([k] * n_gpus, [k / 10] * n_gpus).replace('gpu="0",', f'gpu="0",pod="{k // 2}",') for k in range(6)]
    for own in by_gpu(read("".join(texts), at_once=900)):
        same(own, "gpu_utilization", np.arange(6) / 100)
        same(own, "sm_active", np.arange(6) / 10)


def test_scrapes_of_several_nodes_are_one_moment() -> None:
    texts = [scrape([k], [k / 10]) for k in range(4)]
    other = [text.replace("GPU-0", "GPU-9").replace('"n1"', '"n2"') for text in texts]
    first, second = by_gpu(read("".join(own + of_other for own, of_other in zip(texts, other, strict=True))))
    assert (first.gpu.node, second.gpu.node) == ("n1", "n2")
    assert first.time.tolist() == second.time.tolist() == [MODIFIED - 3 + k for k in range(4)]


def test_metrics_that_stand_one_behind_the_other_are_rows_again() -> None:
    times = 1.6e9 + np.arange(50.0)
    texts = [
        f'# TYPE gssr_{name} gauge\ngssr_{name}{{run="r{gpu}",node="n",gpu="{gpu}",uuid="GPU-{gpu}",rank="{gpu + 4}"}} '
        f"{factor * (gpu + k)} {when}\n"
        for name, factor in (("sm_active_ratio", 0.01), ("sm_clock_hertz", 1e6), ("energy_joules_total", 3.0))
        for gpu in range(3)
        for k, when in enumerate(times.tolist())
    ]
    series = read("".join([*texts, "# EOF\n"]), at_once=999)
    own = by_gpu(series)
    assert "3 runs of GSSR" in said(series)
    assert [(each.gpu.node, each.gpu.device_index, each.gpu.uuid, each.gpu.rank) for each in own] == [
        ("n", gpu, f"GPU-{gpu}", gpu + 4) for gpu in range(3)
    ]
    for gpu, each in enumerate(own):
        np.testing.assert_array_equal(each.time, times)
        same(each, "sm_active", 0.01 * (gpu + np.arange(50)))
        same(each, "sm_clock", gpu + np.arange(50))
        same(each, "energy", 3 * (gpu + np.arange(50)))


def test_what_a_job_publishes_names_it_in_all_versions_of_gssr() -> None:
    about = 'node="n1",gpu="0",uuid="GPU-0"'
    info = f'# TYPE gssr_run_info gauge\ngssr_run_info{{job_id="77",{about},rank="3",model="NVIDIA H100"}} 1\n'
    for labels, head in (
        (f'job_id="77",{about},rank="3"', info),
        (f'job_id="77",job="node",{about}', ""),
        (f'job="77",{about}', ""),  # before 0.5
        (f'exported_job="77",job="node",{about}', ""),  # the same, as Prometheus keeps it
    ):
        series = read(f"{head}# TYPE gssr_sm_active_ratio gauge\ngssr_sm_active_ratio{{{labels}}} 0.5\n")
        (own,) = by_gpu(series)
        same(own, "sm_active", [0.5])
        assert series.job_id == "77" and (own.gpu.name, own.gpu.rank) == (("NVIDIA H100", 3) if head else (None, None))


def test_instances_stand_for_the_gpu_that_they_split() -> None:
    mig = [f',GPU_I_PROFILE="1g.10gb",GPU_I_ID="{instance}"' for instance in (7, 8)]
    texts = [
        line("DEV_POWER_USAGE", 300) + line("PROF_SM_ACTIVE", 0.9) + line("PROF_SM_ACTIVE", 0.5, more=mig[0])
        + line("PROF_SM_ACTIVE", 0.25, more=mig[1]) + line("PROF_SM_ACTIVE", 0.1, gpu=1)
        for _ in range(3)
    ]  # fmt: skip
    series = read("".join(texts))
    own = {each.gpu.mig or each.gpu.uuid: each for each in by_gpu(series)}
    assert own.keys() == {"1g.10gb GI 7", "1g.10gb GI 8", "GPU-1"}
    same(own["1g.10gb GI 7"], "sm_active", [0.5] * 3)
    same(own["1g.10gb GI 8"], "sm_active", [0.25] * 3)
    assert {each.gpu.uuid for each in own.values()} == {"GPU-0", "GPU-1"}
    assert "split by MIG" in said(series)


def test_a_gpu_told_of_twice_is_one() -> None:
    pod, job = ',namespace="a",pod="p"', ',job="other"'
    alike = line("PROF_SM_ACTIVE", 0.5) + line("PROF_SM_ACTIVE", 0.5, more=pod)
    series = read(alike * 2)
    assert [own.values["sm_active"].tolist() for own in by_gpu(series)] == [[0.5, 0.5]]
    assert "several values" not in said(series)
    differs = line("PROF_SM_ACTIVE", 0.75, more=pod) + line("PROF_SM_ACTIVE", 0.5, more=job)
    series = read(differs * 2)
    assert [own.values["sm_active"].tolist() for own in by_gpu(series)] == [[0.75, 0.75]]
    assert "several values at one time" in said(series)


def test_repeated_values_tell_the_exporters_own_interval() -> None:
    texts = [scrape([50], [(k // 6) / 100], end=f" {1_600_000_000 + 5 * k}") for k in range(200)]
    series = read("".join(texts))
    assert len(by_gpu(series)[0].time) == 200 and series.sampling_seconds == 30.0
    assert "steps, not samples" in said(series)


def test_pcie_rates_of_nothing_while_memory_is_used_are_unknown() -> None:
    texts = [
        line("PROF_PCIE_TX_BYTES", 0, gpu)
        + line("PROF_PCIE_RX_BYTES", k * gpu, gpu)
        + line("PROF_DRAM_ACTIVE", 0.5, gpu)
        for k in range(30)
        for gpu in range(2)
    ]
    series = read("".join(texts))
    first, second = by_gpu(series)
    assert np.isnan(first.values["pcie_rx_bytes"]).all() and second.values["pcie_rx_bytes"].tolist() == list(range(30))
    assert "0 throughout" in said(series)


def test_names_escapes_spaces_and_exemplars() -> None:
    text = (
        ' DCGM_FI_PROF_SM_ACTIVE {gpu="0", UUID="GPU-a", Hostname="a \\"b\\" \\\\ c} 5", pod="#"}  0.5 \n'
        'DCGM_FI_PROF_SM_OCCUPANCY{gpu="0",UUID="GPU-a",} 2.5e-1\n'
        'dcgm_gpu_utilization{gpu="0",uuid="GPU-a"}\t50\n'
        'DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION_total{gpu="0",UUID="GPU-a"} 7000 # {trace_id="x} 9"} 0.67\n'
        'DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION_created{gpu="0",UUID="GPU-a"} 1.7e9\n'
        'sm_active{gpu="0",UUID="GPU-a"} 0.9\nDCGM_FI_PROF_SM_ACTIVE{pod="x"} 1\n'
    )
    (own,) = by_gpu(read(text))
    assert own.gpu.node == 'a "b" \\ c} 5'
    assert {name: column.tolist() for name, column in own.values.items()} == {
        "sm_active": [0.5], "sm_occupancy": [0.25], "gpu_utilization": [0.5], "energy": [7.0]
    }  # fmt: skip


def test_what_is_no_sample_is_left_out_and_counted() -> None:
    sound = line("PROF_SM_ACTIVE", 0.5)
    bad = [line("PROF_SM_ACTIVE", value) for value in ("1_0", "x", "", "1 2 3", "1,5", "1\0002", "9" * 400)]
    series = read([sound + "".join(bad) + "<html>\n" + sound + line("PROF_SM_ACTIVE", 0.123456)[:-5]])
    (own,) = by_gpu(series)
    assert own.values["sm_active"].tolist() == [0.5, 0.5]
    assert "8 lines that are no samples are left out" in said(series) and "may be cut off" in said(series)


@pytest.mark.parametrize(
    "text", ["", "# EOF\n", "go_goroutines 12\n", 'DCGM_FI_PROF_SM_ACTIVE{gpu="0"} NaN\n', "\0\n{}\n"]
)
def test_what_holds_no_gpu_is_one_sentence(text: str) -> None:
    with pytest.raises(ForeignError, match=r"^x\.prom: [^\n]+$"):
        list(read(text).pieces)


def test_a_file_that_grows_gives_rows_as_scrapes_are_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prometheus_text, "time", lambda: MODIFIED + 100)
    text = [scrape([k], [k / 10]) for k in range(4)]
    series = read([text[0] + text[1] + text[2][:300], "", text[2][300:], "", "", text[3], "", ""])
    seen = [(piece.time - MODIFIED).tolist() for piece in series.pieces]
    assert seen == [[-1, 0], [1], [100]]
    timed = [text.replace("\n", f" {1_600_000_000 + k}\n") for k, text in enumerate(text)]
    series = read([timed[0] + timed[1], "", timed[2], "", timed[3]])
    assert [(piece.time - 1.6e9).tolist() for piece in series.pieces] == [[0, 1], [2], [3]]


def test_what_gssr_exports_comes_back(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    n, gpus = 400, 3
    frame = pd.DataFrame({"gpu": np.tile(np.arange(gpus), n), "time": 1.7e9 + np.repeat(np.arange(n) * 0.5, gpus)})
    for metric in METRICS:
        values = rng.random(gpus * n) * (1.0 if metric.unit == "1" else 1e6)
        values = np.floor(values) if metric.integral else values
        frame[metric.name] = np.where(rng.random(gpus * n) < 0.1, np.nan, values)
    about = pd.DataFrame(
        {"node": ["a", "a", 'b"\\'], "device_index": [0, 1, 0], "uuid": ["x", "y", "z"], "rank": [0, 1, 2]}
    )
    recording = gssr.from_pandas(frame, tmp_path / "x.sql", about)
    with (tmp_path / "x.prom").open("wb") as stream:
        openmetrics.write([run.reader for run in recording.runs], stream)
    own = by_gpu(read((tmp_path / "x.prom").read_text(), at_once=100_000))
    assert [each.gpu[:3] + each.gpu[8:] for each in own] == [("a", 0, "x", 0), ("a", 1, "y", 1), ('b"\\', 0, "z", 2)]
    for gpu, each in enumerate(own):
        rows = frame[frame["gpu"] == gpu]
        np.testing.assert_array_equal(each.time, rows["time"])
        for metric in METRICS:
            np.testing.assert_allclose(each.values[metric.name], rows[metric.name], rtol=1e-7)
