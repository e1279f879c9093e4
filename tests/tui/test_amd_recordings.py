"""Recordings of AMD's GPUs: pages, screens and advice say what AMD says, and are as useful as of NVML alone."""

import ast
import json
import re
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from textual.pilot import Pilot
from textual.widgets import Label

from gssr.api.writing import from_pandas
from gssr.gpu_vendors import AMD, BOTH, NVIDIA, WORDS, maker_of, say
from gssr.metrics import BY_NAME, METRICS
from gssr.model.account.book import account_for
from gssr.model.analyze import Options, analyze
from gssr.model.breakdown.result import positions_of
from gssr.model.evidence.gather import gather
from gssr.model.results import Analysis
from gssr.model.verdicts.rules import SUBJECTS, TABLE
from gssr.render.glyphs import glyph_set
from gssr.render.roles import text_of
from gssr.report import now
from gssr.report.html.html_document import html_report
from gssr.report.live.gpu_filter import metric_called
from gssr.report.page import PageOptions, Parts
from gssr.report.terminal import page
from gssr.score import NOT_ON_AMD
from gssr.store.read.newest import nodes_now
from gssr.store.read.recording import open_recording
from gssr.tui.app import LiveScreen
from tests.looking import live_screen, seen, work

NVIDIAS = re.compile(
    r"nvidia-smi|dcgmi|DCGM|CUDA|\bNCCL|NVLink|\bSMs?\b|Hopper|GPM|nsys|\bMIG\b|cudaMem| -q\b| -d [A-Z]"
)
TOLD = {metric.name for metric in METRICS if metric.amd}
CAP = {"AMD Instinct MI300X": 750.0, "AMD Instinct MI250X": 560.0, "NVIDIA H100 80GB HBM3": 700.0}
BY_MI300X, BY_MI250X, BY_H100 = CAP


def written(path: Path, *models: str, hangs: bool = False, seconds: int = 300) -> str:
    """A node of 4 GPUs of each model that wait 6 s of each minute. Of the first node GPU 1 idles and GPU 2 is too hot; or
    all spin from the middle on, at little power."""
    random, time = np.random.default_rng(1), np.arange(seconds)
    rows, gpus = [], []
    for number in range(4 * len(models)):
        node, index = divmod(number, 4)
        model, apart = models[node], -1 if node or hangs else index
        works = (time % 60 >= 6) & (time >= 10) & (apart != 1)
        spins = (time >= seconds // 2) & hangs
        hot, cap, spin = works & (apart == 2), CAP[model], 0.25 if model == BY_MI250X else 0.4
        noise = 1 + 0.02 * random.standard_normal(seconds)
        own = pd.DataFrame({
            "gpu": number, "time": 1.7e9 + time,
            "gpu_utilization": np.where(spins, 1.0, np.where(works, 0.97, 0.0)),
            "power_usage": cap * noise * np.where(spins, spin, np.where(works, 0.85 - 0.5 * (time % 3 == 0), 0.2)),
            "temperature": np.where(hot, 101.0, 70.0), "sm_clock": np.where(hot, 1300.0, 2000.0),
            "clock_event_reasons": np.where(hot, 0x20, 0.0), "memory_used": (0.3 if apart == 1 else 40.0) * 2.0**30,
        })  # fmt: skip
        moved = np.where(spins | ~works, 0.003, 0.4) * noise
        if model == BY_MI300X:
            own = own.assign(dram_active=moved, nvlink_tx_bytes=moved * 1e11, nvlink_rx_bytes=moved * 1e11)
        elif model == BY_H100:
            own = own.assign(memory_copy_utilization=moved)
        elif index % 2:
            own["power_usage"] = np.nan  # the card's is told of its first die
        rows.append(own)
        gpus.append({
            "node": f"n{node}", "device_index": index, "name": model, "memory_total": 64 * 2**30,
            "power_limit": None if model == BY_MI250X and index % 2 else cap, "max_sm_clock": 2100,
            "backend": "nvml" if model == BY_H100 else "amd",
        })  # fmt: skip
    from_pandas(pd.concat(rows), path, gpus=pd.DataFrame(gpus), state="timeout" if hangs else None)
    return str(path)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("amd")
    return {
        "amd": written(folder / "amd.sql", BY_MI300X, BY_MI300X),
        "nvml": written(folder / "nvml.sql", BY_H100, BY_H100),
        "hang": written(folder / "hang.sql", BY_MI300X, hangs=True, seconds=600),
        "dies": written(folder / "dies.sql", BY_MI250X, hangs=True, seconds=600),
        "mixed": written(folder / "mixed.sql", BY_MI300X, BY_H100),
    }


def analyzed(path: str) -> Analysis:
    with closing(open_recording(path)) as recording:
        return analyze(recording.runs[0], Options(series=tuple(BY_NAME)))


def paged(analysis: Analysis) -> str:
    rows = page(analysis, Parts(True, True, True, True, True, True), PageOptions(width=100))
    return "\n".join(text_of(row) for row in rows)


def codes(analysis: Analysis) -> list[str]:
    return [verdict.code for verdict in analysis.judgement.verdicts]


def test_page_and_report_say_it_in_amds_words(files: dict[str, str]) -> None:
    analysis = analyzed(files["amd"])
    text = paged(analysis)
    assert NOT_ON_AMD in " ".join(text.split())
    assert {"xGMI sent", "GFX clock", "rocminfo", "CU active"} <= set(
        re.findall(r"xGMI sent|GFX clock|rocminfo|CU active", text)
    )
    assert not NVIDIAS.search(text.replace(NOT_ON_AMD.split(" has ")[1], "").replace("SM or pipe", ""))
    report = html_report([analysis])
    assert "xGMI sent" in report and "hottest place" in report
    assert not re.search("nvidia-smi|NVLink|CUDA|DCGM", report)


def test_rules_find_what_they_find_by_nvml_alone(files: dict[str, str]) -> None:
    found = codes(analyzed(files["amd"]))
    assert {"gpus_unused", "throttled_thermal"} <= set(found) and found == codes(analyzed(files["nvml"]))


@pytest.mark.parametrize("name", ["hang", "dies"])
def test_kernels_that_only_spin_are_a_hang(files: dict[str, str], name: str) -> None:
    assert codes(analyzed(files[name]))[0] == "hang"


def test_the_second_die_of_a_card_is_no_busier_than_the_first(files: dict[str, str]) -> None:
    """Its power is unknown, being told of the first: by utilization alone it would seem to do more."""
    with closing(open_recording(files["dies"])) as recording:
        evidence = gather(recording.runs[0], np.arange(4))
    assert not np.isfinite(evidence.series["power_usage"][1]).any()
    works = account_for(evidence).breakdown.shares_by_gpu[:, positions_of("working")].sum(axis=1)
    assert np.ptp(works) < 0.05


def test_a_screen_says_it_in_the_words_of_its_gpus(files: dict[str, str]) -> None:
    for name, said in (("amd", "xGMI sent"), ("mixed", "NVLink/xGMI in"), ("nvml", "Memory copy")):
        app = live_screen(files[name])

        async def steps(_: Pilot[int], app: LiveScreen = app, name: str = name, said: str = said) -> None:
            words = " ".join(re.sub("[│╭╮╰╯─]", " ", seen(app)).split())
            assert said in words and "NVL" not in words.replace("NVLink/xGMI", ""), words
            remark = str(app.query_one("#score-remark", Label).render())
            assert (NOT_ON_AMD in remark) is (name != "nvml"), remark

        work(app, steps, (160, 60))
    assert metric_called("xgmi_tx") == metric_called("nvl_tx") == "nvlink_tx_bytes"


def test_what_top_prints_has_no_column_of_what_amd_never_tells(files: dict[str, str]) -> None:
    heads = text_of(now.page(nodes_now(files["amd"]), 120, glyph_set(False))[0])
    assert "SM" not in heads and "tensor" not in heads and "DRAM %" in heads and "power W" in heads


def test_the_document_says_why_there_is_no_score(files: dict[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "gssr", "analyze", "--json", files["amd"]], capture_output=True, text=True, check=True
    )
    run = json.loads(done.stdout)["runs"][0]
    assert run["score"] is None and NOT_ON_AMD in run["why_no_score"]


def test_words_are_said_of_no_name_and_of_both_makers_as_both() -> None:
    for text in ("node SM-1:0", "https://example.org/CUDA", "SM1", "/opt/NVLink/x"):
        assert say(AMD, text) == text
    assert say(BOTH, "NVLink of the SMs") == "NVLink/xGMI of the SMs or CUs"
    assert all(say(NVIDIA, words[0]) == words[0] and say(AMD, words[0]) == words[1] for words in WORDS)
    gpus = [type("Gpu", (), {"name": name, "backend": None}) for name in (BY_MI300X, BY_H100, None)]
    assert [maker_of(gpus[:1]), maker_of(gpus[1:]), maker_of(gpus), maker_of([])] == [AMD, NVIDIA, BOTH, NVIDIA]


def _told_on_amd() -> set[str]:
    """Codes of the rules that can hold where AMD's driver is all there is."""
    ours = TOLD | {"hw_thermal", "sw_thermal", "sw_power_cap", "hw_slowdown", "power_brake"}
    of_gpus = {*BY_NAME, *ours}
    return {
        rule.code
        for rule in TABLE.rules
        if all(any(name in ours or name not in of_gpus for name in group) for group in rule.needs)
    }


def test_no_rule_that_holds_on_amd_names_what_is_nvidias() -> None:
    told, n = _told_on_amd(), 0
    assert {
        "gpus_unused",
        "hang",
        "low_power",
        "launch_gaps",
        "communication_bound",
    } <= told and "small_kernels" not in told
    for subject in SUBJECTS:
        if subject.__name__.endswith("errors"):  # of the driver's errors AMD's backend hears none
            continue
        for node in ast.parse(Path(subject.__file__ or "").read_text()).body:
            is_rule = isinstance(node, ast.FunctionDef) and any(
                "rule(" in ast.unparse(each) for each in node.decorator_list
            )
            if is_rule and node.name not in told:
                continue
            docs = {ast.get_docstring(each, False) for each in ast.walk(node) if isinstance(each, ast.FunctionDef)}
            texts = [each.value for each in ast.walk(node) if isinstance(each, ast.Constant) and each.value not in docs]
            if isinstance(node, ast.Expr):  # says what the line above is
                continue
            for text in filter(lambda value: isinstance(value, str), texts):
                n += 1
                assert not NVIDIAS.search(say(AMD, text)), text
    assert n > 300
