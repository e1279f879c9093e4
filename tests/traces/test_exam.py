"""Readers against files that were made without knowing them, and whose meaning is known: tests/fakes/traces."""

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from gssr.cli import main
from gssr.traces.open import TraceError, open_traces
from gssr.traces.timeline import BUSY, Timeline
from tests.fakes.traces import bad, kineto, loop, nsys, samples
from tests.fakes.traces.compare import differences
from tests.fakes.traces.content import Content
from tests.golden.traces.check import hta_differences

SAMPLES = Path(__file__).parent / "samples"
CONTENT = loop.ail("sync", seed=3, ranks=1, steps=2).ranks[0]


def opened(written: kineto.Written | nsys.Written) -> Timeline:
    timeline = open_traces([str(written.path)]).timeline()
    bare = tuple(name.removeprefix(f"{timeline.domains.get(name)}:") for name in timeline.names)
    return replace(timeline, names=bare)


@pytest.mark.parametrize("clock", ["base", "integer", "decimal", "boot"])
@pytest.mark.parametrize("layout", ["compact", "tabs", "four", "lines"])
def test_every_event_of_an_unkind_kineto_file_comes_out(clock: str, layout: str, tmp_path: Path) -> None:
    style = kineto.Style(clock, layout, evils=tuple(kineto.EVILS))  # type: ignore[arg-type]
    written = kineto.write(tmp_path / "rank0.json.gz", CONTENT, style)
    assert differences(opened(written), written) == []


@pytest.mark.parametrize("cut", kineto.CUTS)
def test_of_a_cut_file_every_whole_event_comes_out(cut: str, tmp_path: Path) -> None:
    written = kineto.write(tmp_path / "rank0.json", CONTENT, kineto.Style(evils=(cut,)))
    timeline = opened(written)
    assert differences(timeline, written) == []
    assert timeline.sources[0].notes


@pytest.mark.parametrize("version", nsys.VERSIONS)
def test_every_event_of_an_unkind_report_comes_out(version: str, tmp_path: Path) -> None:
    written = nsys.write(tmp_path / "report.sqlite", loop.ail("pageable", 1, 2, 2).ranks, version, tuple(nsys.EVILS))
    assert differences(opened(written), written) == []


@pytest.mark.parametrize("layout", nsys.LAYOUTS)
def test_a_report_reads_the_same_however_its_pages_lie(layout: str, tmp_path: Path) -> None:
    written = nsys.write(tmp_path / "report.sqlite", [CONTENT], layout=layout)
    assert differences(opened(written), written) == []


def test_what_is_no_trace_is_refused_in_a_sentence_that_names_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    view, _ = bad.hostile(tmp_path, CONTENT)
    for each in [*bad.refused(tmp_path), view]:
        code = main(["analyze", str(each.path)])
        out, err = capsys.readouterr()
        assert (code, out, err.count("\n")) == (1, "", 1), (each, code, err)
        assert each.path.name in err, (each, err)


def test_a_trigger_in_a_report_is_never_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, trigger = bad.hostile(tmp_path, CONTENT)
    before = trigger.path.read_bytes()
    assert main(["analyze", str(trigger.path)]) == 0
    assert "kernels" in capsys.readouterr().out and trigger.path.read_bytes() == before


def test_a_bomb_is_refused_beyond_a_cap(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="--max-size"):
        open_traces([str(bad.bomb(tmp_path / "bomb.json.gz"))]).timeline()


@pytest.mark.parametrize("make", [bad.jax, bad.rocprof])
def test_chrome_traces_of_other_tools_open_with_what_they_hold(
    make: Callable[[Path, Content], kineto.Written], tmp_path: Path
) -> None:
    """They do not tell kinds and links; and what runs on a GPU only by the names of processes."""
    timeline = opened(make(tmp_path / "trace.json", CONTENT))
    own = timeline.intervals
    found = Counter(timeline.names[name] for name in own.name.tolist())
    assert found == Counter(event.name for event in CONTENT.events)
    on_gpu = [timeline.tracks[track].kind == "gpu_stream" for track in own.track.tolist()]
    assert sum(on_gpu) == sum(event.device is not None for event in CONTENT.events)
    assert [kind in BUSY for kind in own.kind.tolist()] == on_gpu
    meant = sum(event.length for event in CONTENT.events if event.kind in BUSY)
    assert abs(int(own.length[on_gpu].sum()) - meant) <= 1000 * sum(on_gpu)


def test_ranks_are_found_in_names_and_none_counts_twice(tmp_path: Path) -> None:
    contents = loop.ail("healthy", 0, 3, 2).ranks
    bad.ranks(tmp_path, contents, told=False)
    assert [source.rank for source in open_traces([str(tmp_path)]).sources] == [0, 1, 2]
    (tmp_path / "twice").mkdir()
    bad.ranks(tmp_path / "twice", contents, twice=1)
    with pytest.raises(TraceError, match="rank 1"):
        open_traces([str(tmp_path / "twice")])


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
    _, traces, report = samples.labelled(tmp_path, label, 0, 2)
    words = [str(path) for path in traces] if form == "kineto" else [str(report)]
    assert main(["analyze", "--json", *words]) == 0
    verdicts = json.loads(capsys.readouterr().out)["verdicts"]
    warned = {each["code"] for each in verdicts if each["severity"] != "info"}
    assert CODES[label] <= warned, (label, warned)
    assert label != "healthy" or not warned, warned
