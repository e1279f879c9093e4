"""rocprofv3's JSON and CSV say the same as its database of the same process."""

import csv
import gzip
import json
from pathlib import Path

import pytest

from gssr.cli import main
from gssr.recognise import recognise, traces_in
from gssr.traces.open import open_traces
from gssr.traces.rocpd import read_rocpd
from gssr.traces.rocprof import read_rocprof
from gssr.traces.timeline import Kind, Timeline, TraceError
from tests.fakes.rocpd.files import Process, Style, Written, trained, write
from tests.fakes.rocpd.other_formats import as_csv, as_json

GPUS = (0x8123456789ABCDEF, 0x1123456789ABCDEF)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    return write(tmp_path_factory.mktemp("rocprof") / "a.db", [Process(trained(1, device=1), GPUS)], Style(rank=False))


def _said(timeline: Timeline, with_sizes: bool = True) -> list[tuple[object, ...]]:
    """What each interval is, where, when and how large."""
    own = timeline.intervals
    found = []
    for at in range(len(own)):
        track = timeline.tracks[own.track[at]]
        where = (track.kind, track.device, track.stream, track.tid)
        size = int(own.size[at]) if with_sizes else 0
        found.append((int(own.start[at]), int(own.length[at]), timeline.names[own.name[at]], Kind(own.kind[at]).name,
                      int(own.category[at]), int(own.operation[at]), int(own.link[at]) & 0xFFFFFFFF, size,
                      *where))  # fmt: skip
    return sorted(found, key=str)


@pytest.mark.parametrize("is_packed", [False, True])
def test_json_says_what_the_database_says(written: Written, tmp_path: Path, is_packed: bool) -> None:
    path = tmp_path / "results"
    text = json.dumps(as_json(written.path, written.tables[0])).encode()
    path.write_bytes(gzip.compress(text) if is_packed else text)
    assert recognise(str(path)) == ("rocprof", "")
    found, wanted = read_rocprof(str(path), 1), read_rocpd(str(written.path), 1)
    assert _said(found) == _said(wanted) and len(found.intervals) > 50
    assert (found.facts, found.sources[0].host, found.clock) == (wanted.facts, wanted.sources[0].host, wanted.clock)
    assert {track.uuid for track in found.tracks} == {track.uuid for track in wanted.tracks}
    (counter,) = found.counters
    kernels = sorted(found.intervals.start[found.intervals.kind == Kind.KERNEL].tolist())
    assert (counter.name, counter.value.tolist()) == ("SQ_WAVES", [64.0] * 3) and set(counter.time.tolist()) <= set(
        kernels
    )


def test_csv_of_a_process_says_it_but_for_sizes(written: Written, tmp_path: Path) -> None:
    files = as_csv(written.path, written.tables[0], tmp_path)
    wanted = _said(read_rocpd(str(written.path), 1), with_sizes=False)
    for path in files:
        if path.name.endswith("stats.csv") or "agent" in path.name:
            assert recognise(str(path)).problem.startswith("is a table of rocprofv3 without kernels")
            continue
        assert recognise(str(path)).kind == "rocprof"
        found = read_rocprof(str(path), 1)
        assert _said(found, with_sizes=False) == wanted
        assert found.counters[0].value.tolist() == [64.0] * 3 and found.facts == {"gpu": "AMD Instinct MI300X"}


def test_counters_without_times_are_left_out_in_a_sentence(written: Written, tmp_path: Path) -> None:
    files = as_csv(written.path, written.tables[0], tmp_path)
    (counters,) = (path for path in files if "counter_collection" in path.name)
    with open(counters, newline="") as file:
        rows = [{name: cell for name, cell in row.items() if "Timestamp" not in name} for row in csv.DictReader(file)]
    with open(counters, "w", newline="") as file:
        writer = csv.DictWriter(file, rows[0], quoting=csv.QUOTE_ALL)
        writer.writeheader()
        writer.writerows(rows)
    notes = read_rocprof(str(counters)).sources[0].notes
    assert "counters have no times in this version of rocprofv3, and are left out" in notes


def test_files_of_a_process_are_one_trace_and_those_of_several_several(written: Written, tmp_path: Path) -> None:
    files = as_csv(written.path, written.tables[0], tmp_path)
    assert len(traces_in(str(tmp_path))) == 1
    assert len(open_traces([str(path) for path in files if "trace" in path.name]).sources) == 1
    for path in files:
        (tmp_path / f"9{path.name}").write_bytes(path.read_bytes())
    assert len(open_traces([str(tmp_path)]).sources) == 2


def test_a_lone_file_is_read_as_far_as_it_goes(written: Written, tmp_path: Path) -> None:
    kernels = next(path for path in as_csv(written.path, written.tables[0], tmp_path) if "kernel" in path.name)
    (tmp_path / "alone").mkdir()
    alone = tmp_path / "alone" / "any name"
    with kernels.open() as file:
        rows = [row[:2] + row[7:11] for row in csv.reader(file)]  # as ROCm 6.2: no streams
    alone.write_text("\n".join(",".join(f'"{field}"' for field in row) for row in rows))
    found = read_rocprof(str(alone))
    assert {Kind(kind) for kind in found.intervals.kind.tolist()} == {Kind.KERNEL}
    assert len(found.intervals) == len(rows) - 1 and {track.kind for track in found.tracks} == {"gpu_stream"}


def test_that_the_last_line_of_a_csv_is_cut_off_is_said_once(
    written: Written, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kernels = next(path for path in as_csv(written.path, written.tables[0], tmp_path) if "kernel" in path.name)
    whole = kernels.read_text().splitlines()
    alone = tmp_path / "alone" / "a_kernel_trace.csv"
    alone.parent.mkdir()
    for content, is_cut in (("\n".join(whole), False), ("\n".join([*whole[:-1], whole[-1][:-40]]), True)):
        alone.write_text(content)
        assert main(["analyze", str(alone)]) == 0
        page = " ".join(capsys.readouterr().out.split())
        assert page.count("left out") == is_cut
        assert ("a_kernel_trace.csv: the last line of a_kernel_trace.csv is cut off, and left out" in page) == is_cut


def test_a_page_is_made_of_it(written: Written, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = as_csv(written.path, written.tables[0], tmp_path)
    assert main(["analyze", "-v", "low", str(files[1])]) == 0
    page = capsys.readouterr().out
    assert main(["analyze", "-v", "low", str(written.path)]) == 0
    assert page.splitlines()[-1] == capsys.readouterr().out.splitlines()[-1]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"rocprofiler-sdk-tool": []}', "holds no process"),
        ('{"rocprofiler-sdk-tool": [{"agents": ', "is cut off, or no sound JSON"),
        ('{"rocprofiler-sdk-tool": [' + "{}," * (30 << 20 >> 2) + "{}]}", "would take"),
    ],
)
def test_what_holds_no_process_is_refused_in_a_sentence(text: str, why: str, tmp_path: Path) -> None:
    (tmp_path / "a").write_text(text)
    with pytest.raises(TraceError, match=why):
        read_rocprof(str(tmp_path / "a"))
