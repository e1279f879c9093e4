"""Made loops of training whose ailment is known (tests/fakes/traces): what HolisticTraceAnalysis says of them is said with
``--like-hta``, and the ailment is named."""

import json
from pathlib import Path

import pytest

from gssr.cli import main
from tests.fakes.traces import loop, samples
from tests.golden.traces.check import hta_differences

SAMPLES = Path(__file__).parent / "samples"


@pytest.mark.parametrize(
    "sample",
    [sample for sample in samples.SAMPLES if sample.style.clock != "boot"],  # there HTA adds up doubles: 2 µs of 6,518
    ids=lambda sample: sample.name,
)
def test_like_hta_gives_its_figures(sample: samples.Sample, capsys: pytest.CaptureFixture[str]) -> None:
    golden = json.loads((SAMPLES / f"{sample.name}.hta.json").read_text())
    paths = [str(path) for path in samples.paths(SAMPLES, sample)]
    assert main(["analyze", "--json", "--like-hta", *paths]) == 0
    assert hta_differences(json.loads(capsys.readouterr().out), golden) == []


CODES = {
    "launch": {"short_kernels"},
    "pageable": {"pageable_copies"},
    "sync": {"sync_storm"},
    "communication": {"exposed_communication"},
    "loader": {"loader_waits"},
    "straggler": {"straggling_rank"},
    "checkpoint": {"empty_between_steps"},
    "gap": {"gpu_gaps"},
    "sync copy": {"sync_copies"},
    "healthy": set[str](),
}


@pytest.mark.parametrize("form", ["kineto", "nsys"])
@pytest.mark.parametrize("label", CODES)
def test_the_cause_that_was_put_in_is_named(
    label: loop.Label, form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    traces, report = samples.labelled(tmp_path, label)
    words = [str(path) for path in traces] if form == "kineto" else [str(report)]
    assert main(["analyze", "--json", *words]) == 0
    verdicts = json.loads(capsys.readouterr().out)["verdicts"]
    warned = {each["code"] for each in verdicts if each["severity"] != "info"}
    assert CODES[label] <= warned, (label, warned)
    assert label != "healthy" or not warned, warned
