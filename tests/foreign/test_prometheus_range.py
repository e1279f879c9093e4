"""Answers of Prometheus as JSON, as its API gives them."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from series import by_gpu, said

from gssr.foreign import prometheus_range
from gssr.foreign.series import ForeignError, ImportHints

START = 1.7e9 + 0.123


def labels(name: str | None, gpu: int) -> dict[str, str]:
    about = {"gpu": str(gpu), "UUID": f"GPU-{gpu}", "Hostname": "n1", "instance": "10.0.0.1:9400", "job": "dcgm"}
    return about if name is None else {"__name__": name, **about}


def answer(*series: tuple[str | None, int, list[tuple[float, str]]], kind: str = "matrix", **more: Any) -> str:
    found = [
        {"metric": labels(name, gpu), **({"values": pairs} if kind == "matrix" else {"value": pairs[0]})}
        for name, gpu, pairs in series
    ]
    return json.dumps({"status": "success", "data": {"resultType": kind, "result": found}, **more})


def pairs(n: int, factor: float = 1.0, start: float = START, skip: int = 0) -> list[tuple[float, str]]:
    return [(start + 15 * k, repr(k * factor)) for k in range(skip, n)]


def write(folder: Path, *texts: str) -> list[str]:
    for number, text in enumerate(texts):
        (folder / f"x{number}.json").write_text(text)
    return [str(folder / f"x{number}.json") for number in range(len(texts))]


def test_series_of_an_answer_are_rows_by_gpu(tmp_path: Path) -> None:
    util, sm = "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_PROF_SM_ACTIVE"
    text = answer(
        (util, 0, pairs(20)), (sm, 0, pairs(20, 0.01, skip=5)), (sm, 1, [*pairs(19, 0.02), (START + 285, "NaN")]),
        ("up", 0, pairs(20)), warnings=["partial\nanswer"],
    )  # fmt: skip
    (series,) = prometheus_range.read(write(tmp_path, text), ImportHints())
    first, second = by_gpu(series)
    assert first.gpu[:3] == ("n1", 0, "GPU-0")
    np.testing.assert_array_equal(first.time, START + 15 * np.arange(20))
    np.testing.assert_allclose(first.values["gpu_utilization"], np.arange(20) / 100)
    np.testing.assert_allclose(first.values["sm_active"], [*[np.nan] * 5, *(0.01 * np.arange(5, 20))])
    np.testing.assert_array_equal(second.time, START + 15 * np.arange(19))
    np.testing.assert_allclose(second.values["sm_active"], 0.02 * np.arange(19))
    assert "repeats a value for up to 5 min" in said(series) and "Prometheus warned: partial answer" in said(series)


def test_answers_to_one_query_a_metric_are_one_run_and_those_of_other_days_another(tmp_path: Path) -> None:
    util, sm = "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_PROF_SM_ACTIVE"
    files = write(
        tmp_path, answer((util, 0, pairs(9))), answer((sm, 0, pairs(9, 0.1, START + 2.5))),
        answer((util, 0, pairs(4, 2, START + 86400))),
    )  # fmt: skip
    first, second = prometheus_range.read(files, ImportHints())
    (own,) = by_gpu(first)
    np.testing.assert_allclose(own.time, START + 15 * np.arange(9))
    np.testing.assert_allclose(own.values["sm_active"], 0.1 * np.arange(9))
    np.testing.assert_allclose(own.values["gpu_utilization"], 0.01 * np.arange(9))
    assert "up to 2.5 s apart" in said(first)
    np.testing.assert_allclose(by_gpu(second)[0].values["gpu_utilization"], 0.02 * np.arange(4))


def test_values_without_a_name_are_of_the_metric_that_is_told(tmp_path: Path) -> None:
    files = write(tmp_path, answer((None, 0, pairs(5))))
    for name, factor in (
        ("DCGM_FI_DEV_GPU_UTIL", 0.01),
        ("gpu_utilization", 0.01),
        ("memory_used", 2**20),
        ("sm_active", 1),
    ):
        (series,) = prometheus_range.read(files, ImportHints(metric=name))
        (values,) = by_gpu(series)[0].values.values()
        np.testing.assert_allclose(values, factor * np.arange(5))
    with pytest.raises(ForeignError, match=r"x0\.json: does not say which metric its values are of: --metric NAME"):
        prometheus_range.read(files, ImportHints())


def test_a_vector_is_one_moment(tmp_path: Path) -> None:
    text = answer(
        ("DCGM_FI_PROF_SM_ACTIVE", 0, [(START, "0.5")]), ("DCGM_FI_PROF_SM_ACTIVE", 1, [(START, "1")]), kind="vector"
    )
    (series,) = prometheus_range.read(write(tmp_path, text), ImportHints())
    assert [(own.time.tolist(), own.values["sm_active"].tolist()) for own in by_gpu(series)] == [
        ([START], [0.5]), ([START], [1.0])
    ]  # fmt: skip


def test_what_is_no_value_is_left_out_and_said(tmp_path: Path) -> None:
    bad = [[START, "1_0"], [START + 15, "x"], ["y", "1"], [START + 45], 7, [1e300, "1"], [START + 90, "0.5"]]
    found = json.loads(answer(("DCGM_FI_PROF_SM_ACTIVE", 0, [])))
    found["data"]["result"][0]["values"] = bad
    found["data"]["result"] += [{"metric": {"__name__": "x"}, "histograms": [[1, {}]]}, 3]
    (series,) = prometheus_range.read(write(tmp_path, json.dumps(found)), ImportHints())
    (own,) = by_gpu(series)
    assert own.time.tolist() == [START + 90] and own.values["sm_active"].tolist() == [0.5]
    assert "5 values or series that can't be read" in said(series) and "1 series are histograms" in said(series)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "cut off, or no sound JSON"),
        (answer(("DCGM_FI_PROF_SM_ACTIVE", 0, pairs(9)))[:-9], "cut off, or no sound JSON"),
        ('{"status": "error", "error": "bad\\n query"}', "is an error of Prometheus: bad query"),
        ('{"status": "success", "data": {"resultType": "scalar", "result": [1, "2"]}}', "without series"),
        (answer(("up", 0, pairs(3))), "holds no metric of a GPU"),
        (answer(), "holds no metric of a GPU"),
        ('{"nodes": {"n1": {"gpu_utilization": {"0": 97.5}}}, "gpus": 1, "total_time": 60}', "is no answer of Prometheus"),
        ("[]", "is no answer of Prometheus"),
    ],
)  # fmt: skip
def test_what_holds_nothing_is_one_sentence(tmp_path: Path, text: str, sentence: str) -> None:
    with pytest.raises(ForeignError, match=r"^\S+x0\.json: [^\n]+$") as caught:
        prometheus_range.read(write(tmp_path, text), ImportHints())
    assert sentence in str(caught.value)
