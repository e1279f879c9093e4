"""Traces of Perfetto, made with its own messages."""

from typing import Any

from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as messages
from perfetto.trace_builder.proto_builder import TraceProtoBuilder

BOOT_NS, UNIX_NS = 5_000_000_000_000, 1_771_595_650_000_000_000
"""One moment by both clocks."""
Event = messages.TrackEvent


class Maker:
    """Makes a trace packet by packet. Times are ns after BOOT_NS."""

    def __init__(self, sequence: int = 7, with_clocks: bool = True) -> None:
        self.builder, self.sequence = TraceProtoBuilder(), sequence
        self._iids: dict[tuple[str, str], int] = {}
        if with_clocks:
            clocks = self.packet().clock_snapshot
            for clock, time in ((6, BOOT_NS), (1, UNIX_NS), (3, BOOT_NS - 1000)):
                clocks.clocks.add(clock_id=clock, timestamp=time)

    def packet(self, time: int | None = None, **keys: Any) -> messages.TracePacket:
        made: messages.TracePacket = self.builder.add_packet()
        made.trusted_packet_sequence_id = self.sequence
        if time is not None:
            made.timestamp = time + BOOT_NS
        for key, value in keys.items():
            setattr(made, key, value)
        return made

    def track(self, uuid: int, name: str = "", parent: int = 0) -> messages.TrackDescriptor:
        told = self.packet().track_descriptor
        told.uuid, told.name, told.parent_uuid = uuid, name, parent
        return told

    def interned(self, kind: str, text: str, into: messages.TracePacket) -> int:
        """The number of a text, which a packet tells where it is new."""
        if (kind, text) not in self._iids:
            iid = self._iids[kind, text] = len(self._iids) + 1
            getattr(into.interned_data, kind).add(iid=iid, name=text)
        return self._iids[kind, text]

    def slice(
        self, track: int, name: str, start: int, end: int, category: str = "", flow: int = 0, **args: Any
    ) -> None:
        packet = self.packet(start)
        event = packet.track_event
        event.type, event.track_uuid = Event.TYPE_SLICE_BEGIN, track
        event.name_iid = self.interned("event_names", name, packet)
        if category:
            event.category_iids.append(self.interned("event_categories", category, packet))
        if flow:
            event.flow_ids.append(flow)
        for key, value in args.items():
            told = event.debug_annotations.add(name_iid=self.interned("debug_annotation_names", key, packet))
            setattr(told, "string_value" if isinstance(value, str) else "uint_value", value)
        event = self.packet(end).track_event
        event.type, event.track_uuid = Event.TYPE_SLICE_END, track

    def value(self, track: int, time: int, value: float) -> None:
        event = self.packet(time).track_event
        event.type, event.track_uuid, event.double_counter_value = Event.TYPE_COUNTER, track, value

    def made(self) -> bytes:
        return self.builder.serialize()


def as_rocprofv3() -> bytes:
    """What rocprofv3 --output-format pftrace writes of a copy to a GPU, two kernels and a copy back."""
    maker = Maker()
    process = maker.track(1)
    process.process.pid, process.process.process_name = 4711, "app"
    thread = maker.track(2, parent=1)
    thread.thread.pid, thread.thread.tid, thread.thread.thread_name = 4711, 4712, "main"
    maker.track(1 << 63, "COMPUTE AGENT [4] STREAM [2] (GPU)", 1)
    maker.track((1 << 63) + 1, "COPY to AGENT [4] STREAM [1] (GPU)", 1)
    maker.track((1 << 63) + 2, "COPY to AGENT [0] STREAM [1] (CPU)", 1)
    bytes_ = maker.track(9, "COPY BYTES to AGENT [4] (GPU)")
    bytes_.counter.unit, bytes_.counter.unit_multiplier = messages.CounterDescriptor.UNIT_SIZE_BYTES, 1024
    maker.slice(2, "step 1", 0, 20_000, "marker_api")
    for at, (name, link) in enumerate(
        (("hipMemcpyAsync", 1), ("hipLaunchKernel", 2), ("hipLaunchKernel", 3), ("hipMemcpy", 4))
    ):
        maker.slice(2, name, 1000 * at, 1000 * at + 500, "hip_api", flow=link << 40, corr_id=link)
    copied = {"src_agent": "Agent-0", "dst_agent": "Agent-4", "copy_bytes": 4096, "corr_id": 1}
    maker.slice((1 << 63) + 1, "MEMORY_COPY_HOST_TO_DEVICE", 2000, 4000, "memory_copy", flow=1 << 40, **copied)
    maker.slice(1 << 63, "gemm", 5000, 9000, "kernel_dispatch", flow=2 << 40, corr_id=2, agent="Agent-4")
    maker.slice(1 << 63, "ncclDevKernel_AllReduce", 9000, 12_000, "kernel_dispatch", corr_id=3, agent="Agent-4")
    back = {"src_agent": "Agent-4", "dst_agent": "Agent-0", "copy_bytes": 64, "corr_id": 4}
    maker.slice((1 << 63) + 2, "MEMORY_COPY_DEVICE_TO_HOST", 13_000, 14_000, "memory_copy", **back)
    maker.value(9, 2000, 4)
    maker.value(9, 4000, 0)
    return maker.made()
