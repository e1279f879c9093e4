"""The made traces are what they say: held against json, plain SQL and HolisticTraceAnalysis' own figures."""

import gzip
import json
import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from gssr.traces.timeline import NO_LINK, OPERATIONS, Clock, Counter, Intervals, Kind, Timeline, TraceSource, Track
from tests.fakes.traces import bad, kineto, loop, nsys, samples
from tests.fakes.traces.compare import differences
from tests.fakes.traces.content import Event, Sample, same_name, split
from tests.golden.traces import check, make_nsys

SAMPLES = Path(__file__).parent / "samples"


def timeline_of(events: list[Event], written: kineto.Written | nsys.Written, by_pid: bool) -> Timeline:
    """What a perfect reader gives."""
    events = sorted(events, key=lambda e: (e.start, -e.length))
    place = [(e.device, e.pid, e.tid, e.stream) if e.device is not None else (None, e.pid, e.tid, None) for e in events]
    places = sorted(set(place), key=str)
    tracks = tuple(
        Track("gpu_stream", "", pid=pid if by_pid else None, device=device, stream=stream)
        if device is not None
        else Track("cpu_thread", "", pid=pid, tid=tid)
        for device, pid, tid, stream in places
    )
    names = tuple({e.name: None for e in events})
    at = {name: i for i, name in enumerate(names)}

    def column(values: Iterator[int], kind: type) -> np.ndarray:
        return np.array(list(values), dtype=kind)

    rows = Intervals(
        column((e.start for e in events), np.int64), column((e.length for e in events), np.int64),
        column((places.index(p) for p in place), np.int32), column((at[e.name] for e in events), np.int32),
        column((e.kind for e in events), np.int8), column((e.category for e in events), np.int8),
        column((NO_LINK if e.link == NO_LINK else e.link + 10_000 * e.pid for e in events), np.int64),
        column((e.size for e in events), np.int64),
        column((OPERATIONS.index(e.operation) if e.operation else -1 for e in events), np.int8),
    )  # fmt: skip
    series: dict[str, list[Sample]] = {}
    for sample in sorted(written.samples, key=lambda s: s.time):
        series.setdefault(sample.name, []).append(sample)
    counters = tuple(
        Counter(name, "", "gauge", np.array([s.time for s in of]), np.array([s.value for s in of]))
        for name, of in series.items()
    )
    source = TraceSource(str(written.path), "kineto", left_out=written.left_out)
    return Timeline((source,), Clock(written.unix_ns), tracks, names, rows, counters)


@pytest.mark.parametrize("clock", kineto.CLOCKS)
@pytest.mark.parametrize("layout", kineto.LAYOUTS)
def test_sound_files_mean_what_json_reads(tmp_path: Path, clock: kineto.Clock, layout: kineto.Layout) -> None:
    content = loop.ail("communication", 1, 1, 1).ranks[0]
    style = kineto.Style(clock, layout, evils=samples.SOUND_EVILS, rocm=layout == "tabs", old=layout == "four")
    written = kineto.write(tmp_path / "rank0.json.gz", content, style)
    text = gzip.decompress(written.path.read_bytes()).decode("utf-8-sig")
    whole = json.loads(text if layout != "open array" else text.rstrip().rstrip(",") + "]")
    records = whole if isinstance(whole, list) else whole["traceEvents"]
    base = 0 if isinstance(whole, list) else whole.get("baseTimeNanoseconds", 0)
    read = sorted((round(e["ts"] * 1000) + base, round(e["dur"] * 1000), e["name"]) for e in records if e["ph"] == "X")
    zero = written.unix_ns if written.unix_ns is not None else read[0][0] - written.events[0].start
    meant = sorted((e.start + zero, e.length, e.name) for e in written.events)
    assert len(read) == len(meant)
    assert max(abs(a[0] - b[0]) for a, b in zip(read, meant, strict=True)) <= (256 if clock == "decimal" else 0)
    assert sorted(a[1:] for a in read) == sorted(b[1:] for b in meant)


@pytest.mark.parametrize("evil", [*kineto.EVILS, *kineto.CUTS])
def test_each_evil_is_in_the_file(tmp_path: Path, evil: str) -> None:
    content = loop.ail("healthy", 0, 1, 1).ranks[0]
    plain = kineto.write(tmp_path / "plain.json", content)
    written = kineto.write(tmp_path / "evil.json", content, kineto.Style(evils=(evil,)))
    assert written.path.read_bytes() != plain.path.read_bytes()
    assert (len(written.events), len(written.samples), written.left_out, written.junk) != (
        len(plain.events), len(plain.samples), 0, 0,
    )  # fmt: skip
    again = kineto.write(tmp_path / "again.json", content, kineto.Style(evils=(evil,)))
    assert again.path.read_bytes() == written.path.read_bytes()


@pytest.mark.parametrize("version", nsys.VERSIONS)
def test_reports_mean_what_sql_reads(tmp_path: Path, version: str) -> None:
    content = loop.ail("pageable", 0, 2, 2).ranks
    written = nsys.write(
        tmp_path / "r.sqlite", content, version, tuple(nsys.EVILS), list(nsys.LAYOUTS)[len(version) % 7]
    )
    figures = make_nsys.figures_of(written.path)
    for row, rank in zip(figures["gpus"]["rows"], sorted(written.events), strict=True):
        meant = split(written.events[rank])
        assert (row[5], row[6], row[7]) == (meant.span, meant.busy, meant.idle)
    for key, kinds in (("kernels", (Kind.KERNEL,)), ("api", (Kind.RUNTIME, Kind.DRIVER)), ("os", (Kind.OS,))):
        lengths = [e.length for found in written.events.values() for e in found if e.kind in kinds]
        assert sum(row[1] for row in figures[key]["rows"]) == len(lengths)
        assert sum(row[2] for row in figures[key]["rows"]) == sum(lengths)
    assert figures["open_ranges"] == len(written.open_ranges)


@pytest.mark.parametrize("layout", nsys.LAYOUTS)
def test_a_report_is_the_same_however_it_lies_on_disk(tmp_path: Path, layout: str) -> None:
    content = loop.ail("sync", 0, 1, 1).ranks
    plain = make_nsys.figures_of(nsys.write(tmp_path / "plain.sqlite", content).path)
    assert make_nsys.figures_of(nsys.write(tmp_path / "other.sqlite", content, layout=layout).path) == plain


@pytest.mark.parametrize("label", [label for label in loop.LABELS if label != "healthy"])
def test_an_ailment_costs_time_and_shows(tmp_path: Path, label: loop.Label) -> None:
    for seed in range(3):
        ailing, files, report = samples.labelled(tmp_path, label, seed)
        assert len(files) == len(ailing.ranks) and make_nsys.figures_of(report)["gpus"]
        healthy = loop.ail("healthy", seed)
        assert ailing.won_ns > ailing.wall_ns // 10
        assert healthy.won_ns == 0 and split(healthy.ranks[0].events).busy > 0.95 * split(healthy.ranks[0].events).span
        for content in ailing.ranks:
            streams: dict[tuple[object, ...], int] = {}
            for event in sorted((e for e in content.events if e.device is not None), key=lambda e: e.start):
                place = (event.device, event.stream)
                assert event.start >= streams.get(place, 0)
                streams[place] = event.end
            calls = {e.link: e for e in content.events if e.kind is Kind.RUNTIME and e.link != NO_LINK}
            assert all(calls[e.link].start < e.start for e in content.events if e.device is not None)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> list[kineto.Written]:
    return samples.write(tmp_path_factory.mktemp("samples"))


@pytest.mark.parametrize("sample", samples.SAMPLES, ids=lambda s: s.name)
def test_hta_says_of_the_samples_what_a_sweep_says(made: list[kineto.Written], sample: samples.Sample) -> None:
    meant = [w for w in made if w.path.name.startswith(sample.name + "-")]
    golden = json.loads((SAMPLES / f"{sample.name}.hta.json").read_text())
    columns, rows = (golden["whole"]["temporal_breakdown"][key] for key in ("columns", "rows"))
    assert len(rows) == len(meant)
    for row, written in zip(rows, meant, strict=True):
        assert gzip.decompress((SAMPLES / written.path.name).read_bytes()) == gzip.decompress(written.path.read_bytes())
        said = dict(zip(columns, row, strict=True))
        busy = [e for e in written.events if e.kind in (Kind.KERNEL, Kind.MEMCPY, Kind.MEMSET, Kind.GPU_SYNC)]
        sync = [e._replace(kind=Kind.KERNEL) for e in busy if e.kind is Kind.GPU_SYNC]  # HTA counts these as busy
        truth = split([e for e in busy if e.kind is not Kind.GPU_SYNC] + sync)
        edges = 1 + 2 * len(busy)  # each is rounded to whole µs
        assert math.isclose(said["kernel_time(us)"] * 1000, truth.span, abs_tol=2_000)
        assert abs(said["idle_time(us)"] * 1000 - truth.idle) <= 1000 * edges
        assert abs(said["compute_time(us)"] * 1000 - truth.compute) <= 1000 * edges


def test_the_kept_reports_are_those_that_are_made(tmp_path: Path) -> None:
    for written in samples.write_reports(tmp_path):
        assert make_nsys.figures_of(SAMPLES / written.path.name) == make_nsys.figures_of(written.path)


def test_the_comparison_finds_what_differs(tmp_path: Path) -> None:
    content = loop.ail("pageable", 0, 2, 1)
    file = kineto.write(tmp_path / "rank0.json", content.ranks[0])
    assert differences(timeline_of(list(file.events), file, False), file) == []
    report = nsys.write(tmp_path / "r.sqlite", content.ranks, evils=("unified", "graph", "os"))
    meant = [e for found in report.events.values() for e in found]
    assert differences(timeline_of(meant, report, True), report) == []
    kernel = next(i for i, e in enumerate(meant) if e.kind is Kind.KERNEL)
    for wrong in (
        meant[1:], [*meant, meant[-1]], [e._replace(start=e.start + 1) if i == kernel else e for i, e in enumerate(meant)],
        [e._replace(link=NO_LINK) if i == kernel else e for i, e in enumerate(meant)],
        [e._replace(name="other") if i == kernel else e for i, e in enumerate(meant)],
    ):  # fmt: skip
        assert differences(timeline_of(wrong, report, True), report)


def test_what_is_no_trace_is_made(tmp_path: Path) -> None:
    content = loop.ail("straggler", 0, 2, 1).ranks
    refused = bad.refused(tmp_path)
    assert len({found.why for found in refused}) >= 18
    assert all(found.path.exists() for found in refused if found.why != "no file")
    assert len(bad.hostile(tmp_path, content[0])) == 2
    assert bad.bomb(tmp_path / "bomb.json.gz", 3).stat().st_size < 20_000
    whole = json.loads(bad.many_names(tmp_path / "names.json", 25_000).read_bytes())
    assert len({e["name"] for e in whole["traceEvents"]}) == 25_000
    assert json.loads(bad.rocprof(tmp_path / "rocprof.json", content[0]).path.read_text())["traceEvents"]
    assert json.loads(bad.jax(tmp_path / "jax.json", content[0]).path.read_text())["traceEvents"]
    assert [w.rank for w in bad.ranks(tmp_path, content, twice=1)] == [0, 1, 1]
    assert same_name("a\x07b", "a b") and not same_name("a", "b")


def test_the_check_of_goldens_finds_what_differs(tmp_path: Path) -> None:
    report = nsys.write(tmp_path / "r.sqlite", loop.ail("pageable", 0, 2, 1).ranks, evils=("unified",))
    figures = make_nsys.figures_of(report.path)
    found = {
        "copies": [
            {"operation": time[0], "count": time[2], "total_ns": time[3], "bytes": size[3]}
            for time in figures["memory_by_time"]["rows"]
            for size in figures["memory_by_size"]["rows"]
            if time[0] == size[0]
        ],
        "ranks": [{"span_ns": row[5], "busy_ns": row[6]} for row in figures["gpus"]["rows"]],
        "ranges": [{"name": row[2], "count": row[3], "total_ns": row[4]} for row in figures["ranges"]["rows"]],
    }
    for key in ("kernels", "api"):
        columns = ["name", *check.STATISTICS.values()]
        found[key] = [dict(zip(columns, row, strict=True)) for row in figures[key]["rows"]]
    assert check.nsys_differences(found, figures) == []
    for rows in found.values():
        number = next(key for key, value in rows[0].items() if isinstance(value, int))
        rows[0][number] += 1
        assert check.nsys_differences(found, figures)
        rows[0][number] -= 1


def test_the_check_against_hta_finds_what_differs() -> None:
    golden = json.loads((SAMPLES / "communication.hta.json").read_text())
    figures = golden["without_last_step"]
    kernels: dict[str, float] = {}
    for row in figures["kernel_breakdown"]["kernels"]["rows"]:
        kernels[row[0]] = kernels.get(row[0], 0) + row[1] * 1000
    idle: dict[str, float] = {}
    for row in figures["idle"]["rows"]:
        idle[row[2]] = idle.get(row[2], 0) + row[3] * 1000
    count = sum(row["count"] for row in figures["launches"])
    kinds = {theirs: ours for ours, theirs in check.TYPES.items()}
    found = {
        "ranks": [
            {"rank": rank, "idle_ns": idle_us * 1000, "compute_ns": compute * 1000, "span_ns": span * 1000,
             "busy_ns": (compute + rest) * 1000, "overlap": overlap[1] / 100}
            for (rank, idle_us, compute, rest, span, *_), overlap in zip(
                figures["temporal_breakdown"]["rows"], figures["overlap"]["rows"], strict=True)
        ],
        "kernel_types": [
            {"types": [kinds[kind] for kind in row[0].split(" overlapping ")], "total_ns": row[1] * 1000}
            for row in figures["kernel_breakdown"]["types"]["rows"]
        ],
        "kernels": [{"name": name, "total_ns": total} for name, total in kernels.items()],
        "idle": [{"cause": "host", "total_ns": idle["host_wait"]}, {"cause": "launch", "total_ns": idle["kernel_wait"]}],
        "launches": {
            "count": count,
            "short_kernels": sum(row["short_kernels"] for row in figures["launches"]),
            "long_delays": sum(row["long_delays"] for row in figures["launches"]),
            "delay_ns": {"mean": sum(row["delay_sum"] for row in figures["launches"]) / count * 1000},
        },
    }  # fmt: skip
    assert check.hta_differences(found, golden) == []
    for rows in (found["ranks"], found["kernel_types"], found["kernels"], found["idle"], [found["launches"]]):
        assert isinstance(rows, list)
        key = next(key for key in ("span_ns", "total_ns", "count") if key in rows[0])
        rows[0][key] += 1000
        assert check.hta_differences(found, golden)
        rows[0][key] -= 1000
