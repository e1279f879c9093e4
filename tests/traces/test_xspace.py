"""Profiles of XLA: what is on devices and threads, against JAX's own JSON of the same run; and what is damaged."""

import gzip
import json
import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from gssr.model.traces.analyze_trace import analyze_timeline, analyze_timelines
from gssr.model.traces.tables import rows_of
from gssr.recognise import recognise
from gssr.traces.join import join
from gssr.traces.open import open_runs, open_traces
from gssr.traces.timeline import NO_LINK, OPERATIONS, Category, Kind, Timeline, TraceError
from gssr.traces.xspace import read_xspace
from tests.fakes.xspace import UNIX_NS, US, Plane, field, on_gpus, on_tpus, profile
from tests.traces.chrome import rows

pytest.importorskip("google.protobuf")
SAMPLES = Path(__file__).parent / "samples"


def read(folder: Path, data: bytes) -> Timeline:
    path = folder / "a.xplane.pb"
    path.write_bytes(data)
    return read_xspace(str(path))


def test_all_events_are_those_that_jax_tells_in_json() -> None:
    """Both files are JAX 0.10's of one run on the CPU."""
    found = read_xspace(str(SAMPLES / "jax-cpu.xplane.pb"))
    told = json.loads(gzip.decompress((SAMPLES / "jax-cpu.trace.json.gz").read_bytes()))["traceEvents"]
    threads = {each["tid"]: each["args"]["name"] for each in told if each.get("name") == "thread_name"}
    expected = Counter()
    for each in told:
        if each.get("ph") == "X":
            name = each["name"].removeprefix("$")
            name = f"train step {each['args']['step_num']}" if name == "train" else name
            expected[threads[each["tid"]], name, round(each["ts"] * 1000), round(each.get("dur", 0) * 1000)] += 1
    seen = Counter((track, name, start, length) for name, start, length, _, track, *_ in rows(found))
    assert seen.total() == expected.total() == found.sources[0].n_events == 334
    near = {(track, name, start // 10) for track, name, start, _ in seen}
    assert all(
        any((track, name, (start + by) // 10) in near for by in (-1, 0, 1)) for track, name, start, _ in expected
    )
    lengths = [Counter(), Counter()]
    for into, of in zip(lengths, (seen, expected), strict=True):
        for (track, name, _, length), n in of.items():
            into[track, name] += length * n
    assert lengths[0].keys() == lengths[1].keys()
    assert all(abs(lengths[0][key] - lengths[1][key]) <= 40 for key in lengths[0])  # of rounded µs
    assert found.clock.origin == "unix" and found.sources[0].version.startswith("JAX 0.10")
    steps = analyze_timeline(found).steps
    assert [step.name for step in steps] == ["train step 0", "train step 1", "train step 2"]
    names, hlo = rows_of("hlo", analyze_timeline(found))
    assert {row[names.index("module")] for row in hlo} == {"jit_train_step"}


def test_work_of_gpus_has_its_calls_and_its_operations(tmp_path: Path) -> None:
    found = read(tmp_path, on_gpus())
    kinds = {name: (Kind(kind), track, link, size) for name, _, _, kind, track, link, size in rows(found)}
    assert kinds["MemcpyH2D (pageable)"] == (Kind.MEMCPY, "Stream #20(MemcpyH2D)", 1, 4096)
    assert kinds["sm90_xmma_gemm"] == (Kind.KERNEL, "Stream #16(Compute)", 3, -1)
    assert kinds["train step 3"][0] is Kind.RANGE and kinds["train.py:12 main"][0] is Kind.PYTHON
    assert kinds["cuMemcpyHtoDAsync_v2"][0] is Kind.RUNTIME and kinds["PjitFunction(step)"][2] == NO_LINK
    assert len(found.intervals) == 11  # not what XLA derives from streams, nor what allocators tell
    (memory,) = found.counters
    assert memory.name == "allocated by GPU_0_bfc" and memory.value.tolist() == [1 << 20, 1 << 10]
    streams = [track for track in found.tracks if track.kind == "gpu_stream"]
    assert {track.stream for track in streams} == {16, 17, 20} and {track.node for track in found.tracks} == {"node1"}
    assert found.clock.unix_ns == UNIX_NS and {track.pid for track in found.tracks} == {4711}
    assert found.facts["GPU 0"] == "Nvidia GPU, 80 GB"
    assert found.pageable is not None and [found.names[found.intervals.name[at]] for at in found.pageable] == [
        "MemcpyH2D (pageable)"
    ]
    one = analyze_timeline(found)
    (gpu,) = one.gpus
    assert (gpu.busy_ns, gpu.compute_ns, gpu.communication_ns) == (360_000, 300_000, 100_000)
    assert (gpu.n_kernels, gpu.span_ns) == (3, 370_000)
    names, hlo = rows_of("hlo", one)
    told = [tuple(row[names.index(key)] for key in ("category", "module", "count", "total_ns")) for row in hlo]
    assert sorted(told) == [
        ("all-reduce", "jit_step", 1, 100_000), ("custom-call", "jit_step", 1, 200_000),
        ("loop fusion", "jit_step", 1, 100_000),
    ]  # fmt: skip
    (step,) = one.steps
    assert (step.name, step.length_ns, step.busy_ns) == ("train step 3", 900_000, 360_000)


def test_calls_on_threads_of_their_own_are_told(tmp_path: Path) -> None:
    host = Plane("/host:CPU").event("python", "PjitFunction(f)", 0, 50 * US)
    apart = profile(host.event("Host Threads/7", "hipModuleLaunchKernel", 10 * US, US, correlation_id=1))
    (note,) = read(tmp_path, apart).sources[0].notes
    assert "which range launched what is not known" in note
    assert read(tmp_path, on_gpus()).sources[0].notes == ()


def test_operations_of_tpus(tmp_path: Path) -> None:
    found = read(tmp_path, on_tpus())
    first = {name: (kind, length) for name, _, length, kind, *_ in rows(found)}
    assert first["while.1"][0] == Kind.GPU_RANGE == first["jit_train"][0]  # they hold operations
    assert first["barrier-cores"][0] == Kind.GPU_SYNC
    lengths = [length for name, _, length, *_ in rows(found) if name == "fusion.2"]
    assert lengths == [200_000] * 4  # by the device's clock
    own = found.intervals
    copies = np.flatnonzero(own.kind == Kind.MEMCPY)
    assert [OPERATIONS[at] for at in own.operation[copies]] == ["HtoD", "HtoD"]
    assert own.size[copies].tolist() == [5 * 10**7] * 2
    assert own.length[copies].tolist() == [300_000, 200_000]  # of the second what waits for it is all there is
    communicates = [found.names[at] for at in own.name[own.category == Category.COMMUNICATION]]
    assert communicates == ["all-reduce", "all-reduce"]
    one = analyze_timeline(found)
    assert [(gpu.gpu, gpu.compute_ns, gpu.communication_ns) for gpu in one.gpus] == [
        (0, 400_001, 100_000), (1, 400_001, 100_000),
    ]  # fmt: skip
    assert [(step.name, step.length_ns) for step in one.steps] == [("step 7", 1_000_000)]
    names, hlo = rows_of("hlo", one)
    told = {row[0]: dict(zip(names, row, strict=True)) for row in hlo}
    assert told["loop fusion"]["module"] == "jit_train" and told["loop fusion"]["count"] == 4
    assert told["loop fusion"]["flops_per_s"] == pytest.approx(4 * 10**8 / 200e-6)
    assert told["loop fusion"]["moved_bytes_per_s"] == pytest.approx(10**8 / 200e-6)
    for name in ("all-reduce", "copy-start", "copy-done"):  # not told; not done in its own time
        assert told[name]["flops_per_s"] != told[name]["flops_per_s"]
    assert "while" not in told and told["copy-done"]["total_ns"] == 400_000
    assert found.facts["matrix units busy"] == "12 %" and found.facts["peak TFLOP/s"] == "918"


def test_rates_of_operations_that_the_window_cuts_are_unknown(tmp_path: Path) -> None:
    found = read(tmp_path, on_tpus())
    names, hlo = rows_of("hlo", analyze_timeline(found, (100_000, 300_000)))
    rates = {row[0]: row[names.index("flops_per_s")] for row in hlo}
    assert rates["loop fusion"] != rates["loop fusion"]


def test_profiles_of_several_hosts_are_one_run(tmp_path: Path) -> None:
    (tmp_path / "a.xplane.pb").write_bytes(on_tpus())
    (tmp_path / "b.xplane.pb").write_bytes(on_gpus())
    run = open_traces([str(tmp_path)])
    assert [source.rank for source in run.sources] == [0, 1]
    apart = analyze_timelines(run.timelines())
    both = analyze_timeline(join([*run.timelines()]))
    for one in (apart, both):
        names, hlo = rows_of("hlo", one)
        assert sorted((row[0], row[names.index("total_ns")]) for row in hlo if row[1] == "jit_step") == [
            ("all-reduce", 100_000), ("custom-call", 200_000), ("loop fusion", 100_000),
        ]  # fmt: skip


def test_a_folder_of_jax_holds_runs_and_copies(tmp_path: Path) -> None:
    for n, run in enumerate(("2026_01_01", "2026_01_02")):
        folder = tmp_path / "plugins" / "profile" / run
        folder.mkdir(parents=True)
        data = on_gpus().replace(field(3, UNIX_NS), field(3, UNIX_NS + n * 3600 * 10**9))
        data = data.replace(field(3, UNIX_NS + 10**9), field(3, UNIX_NS + 10**9 + n * 3600 * 10**9))
        (folder / "vm.xplane.pb").write_bytes(data)
        shutil.copy(SAMPLES / "jax-cpu.trace.json.gz", folder / "vm.trace.json.gz")
    assert recognise(str(tmp_path)).kind == "xspace"
    assert len(open_runs([str(tmp_path)])) == 2
    run = open_traces([str(folder)])
    assert [Path(source.path).name for source in run.sources] == ["vm.xplane.pb"] and not run.problems


def test_a_profile_is_told_by_its_planes(tmp_path: Path) -> None:
    for plane in (
        "/host:CPU",
        "/device:GPU:0",
        "/host:metadata",
        "/device:CUSTOM:Megascale Trace",
        "#Chip TPU Non-Core",
    ):
        for data in (profile(Plane(plane)), gzip.compress(profile(Plane(plane)))):
            (tmp_path / "x").write_bytes(data)
            assert recognise(str(tmp_path / "x")).kind == "xspace"


@pytest.mark.parametrize("at", range(1, 400, 7))
def test_a_file_that_is_cut_off_is_an_error(tmp_path: Path, at: int) -> None:
    data = on_gpus()
    with pytest.raises(TraceError, match=r"a\.xplane\.pb: is a profile of XLA \(XSpace\) that is cut off or damaged"):
        read(tmp_path, data[: len(data) // 2 + at])


def test_events_of_odd_times_are_left_out(tmp_path: Path) -> None:
    plane = Plane("/device:GPU:0").event("Stream #1", "a", 0, US).event("Stream #1", "b", -5 * US, US)
    found = read(
        tmp_path, profile(plane.event("Stream #1", "c", 5, -(1 << 62)).event("Stream #1", "d", 1 << 62, 1 << 62))
    )
    assert (
        found.sources[0].left_out == 2
        and "events without sound times, which are left out: 2" in found.sources[0].notes[0]
    )


def test_a_file_of_more_events_than_it_can_hold_is_refused(tmp_path: Path) -> None:
    line = field(2, "Stream #1") + field(4, b"") * 2_100_000
    with pytest.raises(TraceError, match="lists more than 1,000,000 events"):
        read(tmp_path, field(1, field(1, 2) + field(2, "/device:GPU:0") + field(3, line)))


def test_without_protobuf_a_sentence_says_what_installs_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from gssr.traces import xspace_messages

    xspace_messages.message.cache_clear()
    monkeypatch.setitem(__import__("sys").modules, "google.protobuf", None)
    with pytest.raises(TraceError, match="needs the package protobuf: pip install"):
        read(tmp_path, on_gpus())
    xspace_messages.message.cache_clear()
