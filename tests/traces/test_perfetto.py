"""Traces of Perfetto: slices, counters, flows, clocks and interned texts, as its own messages have them."""

import gzip
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest

from gssr.model.traces.analyze_trace import analyze_timeline
from gssr.recognise import recognise
from gssr.traces.open import open_traces
from gssr.traces.perfetto import read_perfetto
from gssr.traces.timeline import OPERATIONS, Category, Kind, Timeline, TraceError
from tests.traces.chrome import rows, spans

pytest.importorskip("perfetto")

from tests.fakes.perfetto import BOOT_NS, UNIX_NS, Event, Maker, as_rocprofv3


def read(folder: Path, data: bytes | Maker) -> Timeline:
    path = folder / "a.pftrace"
    path.write_bytes(data.made() if isinstance(data, Maker) else data)
    return read_perfetto(str(path))


def from_boot(timeline: Timeline) -> list[tuple[str, int, int]]:
    return [(name, start - BOOT_NS, length) for name, start, length in spans(timeline)]


def test_what_rocprofv3_writes(tmp_path: Path) -> None:
    found = read(tmp_path, as_rocprofv3())
    assert recognise(str(tmp_path / "a.pftrace")).kind == "perfetto"
    own = {name: (Kind(kind), track, link, size) for name, _, _, kind, track, link, size in rows(found)}
    assert own["hipMemcpyAsync"][:3] == (Kind.RUNTIME, "main", 1) and own["step 1"][0] is Kind.RANGE
    assert own["gemm"] == (Kind.KERNEL, "COMPUTE AGENT [4] STREAM [2] (GPU)", 2, -1)
    assert own["MEMORYCOPYHOSTTODEVICE"][2:] == (1, 4096) and own["MEMORYCOPYDEVICETOHOST"][2:] == (4, 64)
    copies = found.intervals.operation[found.intervals.kind == Kind.MEMCPY]
    assert [OPERATIONS[at] for at in copies] == ["HtoD", "DtoH"]
    places = {(track.kind, track.device, track.stream, track.pid) for track in found.tracks}
    assert places == {
        ("cpu_thread", None, None, 4711), ("gpu_stream", 4, 2, 4711), ("gpu_stream", 4, 1, 4711),
    }  # fmt: skip
    assert {track.tid for track in found.tracks if track.kind == "cpu_thread"} == {4712}
    one = analyze_timeline(found)
    (gpu,) = one.gpus
    assert (gpu.n_kernels, gpu.compute_ns, gpu.communication_ns, gpu.copy_ns) == (2, 4000, 3000, 3000)
    assert one.launches.n == 4 and (one.steps[0].name, one.steps[0].busy_ns) == ("step 1", 10_000)
    (moved,) = found.counters
    assert (moved.name, moved.unit, moved.value.tolist()) == ("COPY BYTES to AGENT [4] (GPU)", "B", [4096, 0])
    assert found.clock.unix_ns == UNIX_NS - BOOT_NS and found.clock.origin == "unix"


def test_packed_files_and_packed_packets_are_the_same(tmp_path: Path) -> None:
    plain = as_rocprofv3()
    maker = Maker(with_clocks=False)
    for begin in range(2):  # in two halves, each of whole packets
        inside = Maker()
        inside.builder.trace.ParseFromString(plain)
        half = len(inside.builder.trace.packet) // 2
        del inside.builder.trace.packet[slice(half, None) if begin == 0 else slice(half)]
        maker.packet().compressed_packets = zlib.compress(inside.made())
    expected = rows(read(tmp_path, plain))
    assert rows(read(tmp_path, maker)) == expected == rows(read(tmp_path, gzip.compress(plain)))
    assert len(open_traces([str(tmp_path)]).timeline().intervals) == len(expected)


def test_names_are_those_of_the_sequence_until_it_forgets_them(tmp_path: Path) -> None:
    one, other = Maker(1), Maker(2)
    one.slice(5, "first", 0, 10)
    other.slice(6, "second", 0, 10)
    cleared = one.packet(20, sequence_flags=1)
    cleared.interned_data.event_names.add(iid=1, name="renamed")
    cleared.track_event.type, cleared.track_event.track_uuid, cleared.track_event.name_iid = Event.TYPE_INSTANT, 5, 1
    found = read(tmp_path, one.made() + other.made())
    assert from_boot(found) == [("first", 0, 10), ("second", 0, 10), ("renamed", 20, 0)]


def test_after_a_loss_only_what_needs_no_names_is_read(tmp_path: Path) -> None:
    maker = Maker()
    maker.packet(previous_packet_dropped=1)
    for time, named in ((10, {"name": "told"}), (20, {"name_iid": 3})):
        event = maker.packet(time, sequence_flags=2).track_event
        event.type, event.track_uuid = Event.TYPE_INSTANT, 5
        for key, value in named.items():
            setattr(event, key, value)
    found = read(tmp_path, maker)
    assert from_boot(found) == [("told", 10, 0)] and found.sources[0].left_out == 1


def test_times_by_clocks_of_the_sequence_and_by_others(tmp_path: Path) -> None:
    maker = Maker()
    snapshot = maker.packet().clock_snapshot
    snapshot.clocks.add(clock_id=6, timestamp=BOOT_NS + 100_000)
    snapshot.clocks.add(clock_id=64, timestamp=7, is_incremental=True, unit_multiplier_ns=1000)
    maker.packet().trace_packet_defaults.timestamp_clock_id = 64
    maker.builder.trace.packet[-1].trace_packet_defaults.track_event_defaults.track_uuid = 5
    for delta, kind in ((3, Event.TYPE_SLICE_BEGIN), (4, Event.TYPE_SLICE_END)):
        packet = maker.packet(delta - BOOT_NS)
        packet.track_event.type, packet.track_event.name = kind, "by delta"
    packet = maker.packet(50_000, timestamp_clock_id=3)  # monotonic: 1000 ns before boot time
    packet.track_event.type, packet.track_event.name = Event.TYPE_INSTANT, "monotonic"
    found = read(tmp_path, maker)
    assert from_boot(found) == [("monotonic", 51_000, 0), ("by delta", 103_000, 4000)]


def test_slices_nest_whatever_the_order_of_packets(tmp_path: Path) -> None:
    maker = Maker()
    maker.slice(5, "inner", 20, 30)
    maker.slice(5, "outer", 10, 40)
    maker.slice(6, "open", 15, 20)
    del maker.builder.trace.packet[-1]
    lone = maker.packet(60).track_event
    lone.type, lone.track_uuid = Event.TYPE_SLICE_END, 5
    found = read(tmp_path, maker)
    assert from_boot(found) == [("outer", 10, 30), ("open", 15, 45), ("inner", 20, 10)]
    assert found.sources[0].left_out == 1


def test_a_trace_made_by_hand_has_unix_times(tmp_path: Path) -> None:
    maker = Maker(with_clocks=False)
    maker.slice(5, "a", UNIX_NS - BOOT_NS, UNIX_NS - BOOT_NS + 5)
    assert read(tmp_path, maker).clock.unix_ns == 0
    later = Maker(with_clocks=False)
    later.slice(5, "a", 0, 5)
    assert read(tmp_path, later).clock.origin == "unknown"


def test_counters_that_tell_differences(tmp_path: Path) -> None:
    maker = Maker()
    maker.track(9, "instructions").counter.is_incremental = True
    for time, value in ((0, 5), (10, 7), (20, -2)):
        maker.value(9, time, value)
    (counter,) = read(tmp_path, maker).counters
    assert counter.value.tolist() == [5, 12, 10]


def test_what_is_not_read_is_told(tmp_path: Path) -> None:
    maker = Maker()
    for _ in range(3):
        maker.packet(5).ftrace_events.cpu = 1
    with pytest.raises(TraceError, match="without slices and counters on tracks: it has only ftrace_events"):
        read(tmp_path, maker)
    maker.slice(5, "a", 0, 5)
    assert "packets of other kinds (ftrace_events), which are left out: 3" in read(tmp_path, maker).sources[0].notes
    event = maker.packet(3).track_event
    event.track_uuid, event.legacy_event.phase = 5, ord("b")
    assert (
        "packets of other kinds (ftrace_events, legacy_event), which are left out: 4"
        in read(tmp_path, maker).sources[0].notes
    )
    with pytest.raises(TraceError, match="it has no events"):
        read(tmp_path, Maker())


def test_a_file_that_is_cut_off_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    data = as_rocprofv3()
    for at in range(3, len(data), 97):
        try:
            found = read(tmp_path, data[:at])
        except TraceError as error:
            assert "it has no events" in str(error)
            continue
        assert not len(found.intervals) or found.intervals.length.min() >= 0
    assert any("cut off or damaged" in note for note in found.sources[0].notes)


def test_parents_that_go_in_a_circle_end(tmp_path: Path) -> None:
    maker = Maker()
    maker.track(5, "", 6)
    maker.track(6, "", 5)
    maker.slice(5, "a", 0, 5)
    assert read(tmp_path, maker).tracks[0].name == "track 5"


def test_more_packets_than_a_file_can_hold_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="more packets than a trace of its size has"):
        read(tmp_path, gzip.compress(b"\x0a\x02\x50\x01" * 2_100_000))


def test_without_the_packages_a_sentence_says_what_installs_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    monkeypatch.setitem(sys.modules, "perfetto.protos.perfetto.trace", None)
    with pytest.raises(TraceError, match="needs the packages protobuf and perfetto: pip install"):
        read(tmp_path, as_rocprofv3())


def test_categories_are_those_of_every_format(tmp_path: Path) -> None:
    maker = Maker()
    maker.track(8, "GPU 1 stream 3")
    maker.slice(8, "ncclDevKernel_AllReduce", 0, 5, "rocm_kernel_dispatch")
    found = read(tmp_path, maker)
    assert np.asarray(found.intervals.category).tolist() == [Category.COMMUNICATION]
    assert (found.tracks[0].device, found.tracks[0].stream) == (1, 3)
