"""What amdgpu's ``gpu_metrics`` holds, by revision: the structures of the kernel's
``drivers/gpu/drm/amd/include/kgd_pp_interface.h`` (1.3 to 1.8, for x86-64), and 1.9's attributes as
``pm/swsmu/smu13/smu_v13_0_6_ppt.h`` lists them and the macros of ``pm/swsmu/smu_cmn.h`` pack them.

Names and order are the kernel's; all that is not given is all ones, as there.
"""

import ctypes
import struct
from collections.abc import Mapping, Sequence
from typing import Any

U16, U32, U64 = ctypes.c_uint16, ctypes.c_uint32, ctypes.c_uint64
HBM, LINKS, CLOCKS, GFX_CLOCKS, VCN, JPEG, JPEG_V1, XCC, XCP = 4, 8, 4, 8, 4, 32, 40, 8, 8

Field = tuple[str, Any]
Value = int | Sequence[int]


class Header(ctypes.Structure):
    """What each revision begins with."""

    _fields_ = [("structure_size", U16), ("format_revision", ctypes.c_uint8), ("content_revision", ctypes.c_uint8)]


def _u16(*names: str) -> list[Field]:
    return [(name, U16) for name in names]


def _u32(*names: str) -> list[Field]:
    return [(name, U32) for name in names]


def _u64(*names: str) -> list[Field]:
    return [(name, U64) for name in names]


class _Xcp(ctypes.Structure):
    _fields_ = [
        ("gfx_busy_inst", U32 * XCC), ("jpeg_busy", U16 * JPEG), ("vcn_busy", U16 * VCN), ("gfx_busy_acc", U64 * XCC),
    ]  # fmt: skip


class _Xcp11(ctypes.Structure):
    _fields_ = [
        ("gfx_busy_inst", U32 * XCC), ("jpeg_busy", U16 * JPEG), ("vcn_busy", U16 * VCN), ("gfx_busy_acc", U64 * XCC),
        ("gfx_below_host_limit_acc", U64 * XCC),
    ]  # fmt: skip


class _Xcp12(ctypes.Structure):
    _fields_ = [
        ("gfx_busy_inst", U32 * XCC), ("jpeg_busy", U16 * JPEG_V1), ("vcn_busy", U16 * VCN),
        ("gfx_busy_acc", U64 * XCC), ("gfx_below_host_limit_ppt_acc", U64 * XCC),
        ("gfx_below_host_limit_thm_acc", U64 * XCC), ("gfx_low_utilization_acc", U64 * XCC),
        ("gfx_below_host_limit_total_acc", U64 * XCC),
    ]  # fmt: skip


_HEADER: list[Field] = [("header", Header)]
_HOT = _u16("temperature_hotspot", "temperature_mem", "temperature_vrsoc", "curr_socket_power", "average_gfx_activity",
            "average_umc_activity")  # fmt: skip
_RESIDENCIES = _u32(
    "accumulation_counter", "prochot_residency_acc", "ppt_residency_acc", "socket_thm_residency_acc",
    "vr_thm_residency_acc", "hbm_thm_residency_acc",
)  # fmt: skip
_BUS = _u16("pcie_link_width", "pcie_link_speed", "xgmi_link_width", "xgmi_link_speed")
_ACTIVITY = _u32("gfx_activity_acc", "mem_activity_acc")
_PCIE = _u64("pcie_bandwidth_acc", "pcie_bandwidth_inst", "pcie_l0_to_recov_count_acc", "pcie_replay_count_acc",
             "pcie_replay_rover_count_acc")  # fmt: skip
_NAK = _u32("pcie_nak_sent_count_acc", "pcie_nak_rcvd_count_acc")
_XGMI: list[Field] = [("xgmi_read_data_acc", U64 * LINKS), ("xgmi_write_data_acc", U64 * LINKS)]
_STATUS: list[Field] = [("xgmi_link_status", U16 * LINKS), ("padding", U16)]
_CLOCKS: list[Field] = [
    ("firmware_timestamp", U64), ("current_gfxclk", U16 * GFX_CLOCKS), ("current_socclk", U16 * CLOCKS),
    ("current_vclk0", U16 * CLOCKS), ("current_dclk0", U16 * CLOCKS), ("current_uclk", U16),
]  # fmt: skip
_TIMES = _u64("energy_accumulator", "system_clock_counter")
_VCN: list[Field] = [("vcn_activity", U16 * VCN)]
_JPEG: list[Field] = [("jpeg_activity", U16 * JPEG)]
_LOCK, _THROTTLE = _u32("gfxclk_lock_status"), _u32("throttle_status")
_END = _u32("pcie_lc_perf_other_end_recovery")

_FIELDS: dict[str, list[Field]] = {
    "1.3": [
        *_HEADER,
        *_u16("temperature_edge", "temperature_hotspot", "temperature_mem", "temperature_vrgfx", "temperature_vrsoc"),
        *_u16("temperature_vrmem", "average_gfx_activity", "average_umc_activity", "average_mm_activity"),
        *_u16("average_socket_power"), *_TIMES,
        *_u16("average_gfxclk_frequency", "average_socclk_frequency", "average_uclk_frequency"),
        *_u16("average_vclk0_frequency", "average_dclk0_frequency", "average_vclk1_frequency"),
        *_u16("average_dclk1_frequency", "current_gfxclk", "current_socclk", "current_uclk", "current_vclk0"),
        *_u16("current_dclk0", "current_vclk1", "current_dclk1"), *_THROTTLE,
        *_u16("current_fan_speed", "pcie_link_width", "pcie_link_speed", "padding"), *_ACTIVITY,
        ("temperature_hbm", U16 * HBM), *_u64("firmware_timestamp"),
        *_u16("voltage_soc", "voltage_gfx", "voltage_mem", "padding1"), *_u64("indep_throttle_status"),
    ],
    "1.4": [
        *_HEADER, *_HOT, *_VCN, *_TIMES, *_THROTTLE, *_LOCK, *_BUS, *_ACTIVITY, *_PCIE, *_XGMI, *_CLOCKS,
        *_u16("padding"),
    ],
    "1.5": [
        *_HEADER, *_HOT, *_VCN, *_JPEG, *_TIMES, *_THROTTLE, *_LOCK, *_BUS, *_ACTIVITY, *_PCIE, *_NAK, *_XGMI, *_CLOCKS,
        *_u16("padding"),
    ],
    # As it was in Linux 6.11 and taken back: another structure under the number that 1.6 then got.
    "1.6 of 6.11": [
        *_HEADER, *_HOT, *_VCN, *_JPEG, *_TIMES, *_RESIDENCIES, *_THROTTLE, *_LOCK, *_BUS, *_ACTIVITY, *_PCIE, *_NAK,
        *_XGMI, *_CLOCKS, *_u16("padding"),
    ],
    "1.6": [
        *_HEADER, *_HOT, *_TIMES, *_RESIDENCIES, *_LOCK, *_BUS, *_ACTIVITY, *_PCIE, *_NAK, *_XGMI, *_CLOCKS,
        *_u16("num_partition"), ("xcp_stats", _Xcp * XCP), *_END,
    ],
    "1.7": [
        *_HEADER, *_HOT, *_u64("mem_max_bandwidth"), *_TIMES, *_RESIDENCIES, *_LOCK, *_BUS, *_ACTIVITY, *_PCIE, *_NAK,
        *_XGMI, *_STATUS, *_CLOCKS, *_u16("num_partition"), ("xcp_stats", _Xcp11 * XCP), *_END,
    ],
    "1.8": [
        *_HEADER, *_HOT, *_u64("mem_max_bandwidth"), *_TIMES, *_RESIDENCIES, *_LOCK, *_BUS, *_ACTIVITY, *_PCIE, *_NAK,
        *_XGMI, *_STATUS, *_CLOCKS, *_u16("num_partition"), ("xcp_stats", _Xcp12 * XCP), *_END,
    ],
    # Of an APU: what it begins with, and as long as it is there.
    "2.3": [
        *_HEADER, *_u16("temperature_gfx", "temperature_soc"), ("temperature_core", U16 * 8), ("temperature_l3", U16 * 2),
        *_u16("average_gfx_activity", "average_mm_activity"), *_u64("system_clock_counter"),
        *_u16("average_socket_power", "average_cpu_power", "average_soc_power", "average_gfx_power"),
        ("average_core_power", U16 * 8), ("rest", U16 * 36),
    ],
}  # fmt: skip
STRUCTURES: dict[str, type[ctypes.Structure]] = {
    name: type(f"Metrics{name}", (ctypes.Structure,), {"_fields_": fields}) for name, fields in _FIELDS.items()
}
"""By revision, as "1.3"; "1.6 of 6.11" and "2.3" besides."""

TYPES = {"u8": 0, "s8": 1, "u16": 2, "s16": 3, "u32": 4, "s32": 5, "u64": 6, "s64": 7}
_CODES = "BbHhIiQq"
UNITS = {
    name: number
    for number, name in enumerate(
        ("none", "MHz", "°C", "W", "ns", "10 ns", "GT/s", "0.1 GT/s", "GB/s", "KB", "%")
    )
}  # fmt: skip
_IDS = (
    "temperature_hotspot", "temperature_mem", "temperature_vrsoc", "curr_socket_power", "average_gfx_activity",
    "average_umc_activity", "mem_max_bandwidth", "energy_accumulator", "system_clock_counter", "accumulation_counter",
    "prochot_residency_acc", "ppt_residency_acc", "socket_thm_residency_acc", "vr_thm_residency_acc",
    "hbm_thm_residency_acc", "gfxclk_lock_status", "pcie_link_width", "pcie_link_speed", "xgmi_link_width",
    "xgmi_link_speed", "gfx_activity_acc", "mem_activity_acc", "pcie_bandwidth_acc", "pcie_bandwidth_inst",
    "pcie_l0_to_recov_count_acc", "pcie_replay_count_acc", "pcie_replay_rover_count_acc", "pcie_nak_sent_count_acc",
    "pcie_nak_rcvd_count_acc", "xgmi_read_data_acc", "xgmi_write_data_acc", "xgmi_link_status", "firmware_timestamp",
    "current_gfxclk", "current_socclk", "current_vclk0", "current_dclk0", "current_uclk", "num_partition",
    "pcie_lc_perf_other_end_recovery", "gfx_busy_inst", "jpeg_busy", "vcn_busy", "gfx_busy_acc",
    "gfx_below_host_limit_ppt_acc", "gfx_below_host_limit_thm_acc", "gfx_low_utilization_acc",
    "gfx_below_host_limit_total_acc", "temperature_hbm", "temperature_mid", "temperature_aid", "temperature_xcd",
)  # fmt: skip
IDS = {name: number for number, name in enumerate(_IDS)}

ATTRIBUTES: tuple[tuple[str, str, str, int], ...] = (
    ("temperature_hotspot", "°C", "u16", 1), ("temperature_mem", "°C", "u16", 1),
    ("temperature_vrsoc", "°C", "u16", 1), ("curr_socket_power", "W", "u16", 1),
    ("average_gfx_activity", "%", "u16", 1), ("average_umc_activity", "%", "u16", 1),
    ("mem_max_bandwidth", "GB/s", "u64", 1), ("energy_accumulator", "none", "u64", 1),
    ("system_clock_counter", "ns", "u64", 1), ("accumulation_counter", "none", "u32", 1),
    ("prochot_residency_acc", "none", "u32", 1), ("ppt_residency_acc", "none", "u32", 1),
    ("socket_thm_residency_acc", "none", "u32", 1), ("vr_thm_residency_acc", "none", "u32", 1),
    ("hbm_thm_residency_acc", "none", "u32", 1), ("gfxclk_lock_status", "none", "u32", 1),
    ("pcie_link_width", "none", "u16", 1), ("pcie_link_speed", "0.1 GT/s", "u16", 1),
    ("xgmi_link_width", "none", "u16", 1), ("xgmi_link_speed", "GT/s", "u16", 1),
    ("gfx_activity_acc", "%", "u32", 1), ("mem_activity_acc", "%", "u32", 1), ("pcie_bandwidth_acc", "%", "u64", 1),
    ("pcie_bandwidth_inst", "GB/s", "u64", 1), ("pcie_l0_to_recov_count_acc", "none", "u64", 1),
    ("pcie_replay_count_acc", "none", "u64", 1), ("pcie_replay_rover_count_acc", "none", "u64", 1),
    ("pcie_nak_sent_count_acc", "none", "u32", 1), ("pcie_nak_rcvd_count_acc", "none", "u32", 1),
    ("xgmi_read_data_acc", "KB", "u64", LINKS), ("xgmi_write_data_acc", "KB", "u64", LINKS),
    ("xgmi_link_status", "none", "u16", LINKS), ("firmware_timestamp", "10 ns", "u64", 1),
    ("current_gfxclk", "MHz", "u16", GFX_CLOCKS), ("current_socclk", "MHz", "u16", CLOCKS),
    ("current_vclk0", "MHz", "u16", CLOCKS), ("current_dclk0", "MHz", "u16", CLOCKS), ("current_uclk", "MHz", "u16", 1),
    ("pcie_lc_perf_other_end_recovery", "none", "u32", 1), ("gfx_busy_inst", "%", "u32", XCC),
    ("jpeg_busy", "%", "u16", JPEG_V1), ("vcn_busy", "%", "u16", VCN), ("gfx_busy_acc", "%", "u64", XCC),
    ("gfx_below_host_limit_ppt_acc", "none", "u64", XCC), ("gfx_below_host_limit_thm_acc", "none", "u64", XCC),
    ("gfx_low_utilization_acc", "none", "u64", XCC), ("gfx_below_host_limit_total_acc", "none", "u64", XCC),
)  # fmt: skip
"""1.9 on MI300: name, unit, type, number of values, in the driver's order."""


def attribute(name: str | int, unit: str, kind: str, values: Sequence[int | None]) -> bytes:
    """One of 1.9, as it is packed: its encoding, then its values; None is all ones. ``name``: or a number."""
    number = name if isinstance(name, int) else IDS[name]
    code = _CODES[TYPES[kind]]
    ones = (1 << 8 * struct.calcsize(code)) - 1
    head = UNITS[unit] << 24 | TYPES[kind] << 20 | number << 10 | len(values)
    if code.islower():
        return struct.pack(f"<Q{len(values)}{code}", head, *(-1 if value is None else value for value in values))
    return struct.pack(f"<Q{len(values)}{code}", head, *(ones if value is None else value & ones for value in values))


def packed(attributes: Sequence[bytes]) -> bytes:
    """A whole table of 1.9: its attributes one after the other, without gaps."""
    body = b"".join(attributes)
    return struct.pack("<HBBi", 8 + len(body), 1, 9, len(attributes)) + body


def blob(revision: str, values: Mapping[str, Value]) -> bytes:
    """The bytes of ``gpu_metrics``: ``values`` by field (of arrays as many as there are; the rest is all ones), wrapped
    as the field is wide. A name that the revision lacks is left out."""
    if revision == "1.9":
        return packed([
            attribute(name, unit, kind, [*_sequence(values[name]), *[None] * n][:n] if name in values else [None] * n)
            for name, unit, kind, n in ATTRIBUTES
        ])  # fmt: skip
    structure = STRUCTURES[revision]
    raw = structure.from_buffer(bytearray(b"\xff" * ctypes.sizeof(structure)))
    form, content = revision.split()[0].split(".")
    raw.header = Header(ctypes.sizeof(structure), int(form), int(content))
    for name, kind in _FIELDS[revision]:
        if name not in values or name == "header":
            continue
        if isinstance(values[name], int):
            setattr(raw, name, values[name])
        elif issubclass(kind, ctypes.Array):
            for place, value in enumerate(_sequence(values[name])):
                getattr(raw, name)[place] = value
        else:
            setattr(raw, name, _sequence(values[name])[0])
    return bytes(raw)


def _sequence(value: Value) -> Sequence[int]:
    return [value] if isinstance(value, int) else value


def with_xcp(data: bytes, revision: str, busy: Sequence[Sequence[int]], acc: Sequence[Sequence[int]]) -> bytes:
    """The table with the busy shares (%) of each partition's XCCs, and their accumulators: 1.6 to 1.8."""
    raw = STRUCTURES[revision].from_buffer(bytearray(data))
    raw.num_partition = len(busy)
    for partition, (shares, sums) in enumerate(zip(busy, acc, strict=True)):
        for place, (share, total) in enumerate(zip(shares, sums, strict=True)):
            raw.xcp_stats[partition].gfx_busy_inst[place] = share
            raw.xcp_stats[partition].gfx_busy_acc[place] = total
    return bytes(raw)
