"""What other tools call the metrics of the catalogue, and in which units they write them: one row a metric.

A name decides what a number is, its size never does: 0.9 is a legal GPU_UTIL in percent. Sources: DCGM 4.6's
``dcgm_fields.h`` (ids, macros old and new) and ``dcgm_fields.cpp`` (tags, short names of ``dcgmi dmon``), ``nvidia-smi
--help-query-gpu``, the headers of ``nvidia-smi dmon`` as they are found, kempnerpulse's ``docs/export.md``.
"""

from typing import NamedTuple

import numpy as np

from gssr.arrays import Floats
from gssr.metrics import BY_NAME, RATIO

_MIB = float(1 << 20)


class Meant(NamedTuple):
    """What a foreign name stands for: a metric of the catalogue or one of ``OF_GPUS``, and what a value in its unit is
    multiplied by."""

    name: str
    factor: float


class Spellings(NamedTuple):
    """One metric, or one of ``OF_GPUS``. Names of one tool are separated by blanks, "" is none.

    ``dcgm`` macros without DCGM_FI_, today's first; ``tag`` DCGM's own, which published gssr takes; ``dmon`` short names of
    ``dcgmi dmon``; ``query`` and ``smi`` columns of ``nvidia-smi --query-gpu`` and ``nvidia-smi dmon``; ``pulse``
    kempnerpulse's."""

    name: str
    id: int
    dcgm: str
    tag: str
    dmon: str
    query: str = ""
    smi: str = ""
    pulse: str = ""


MEMORY_TOTAL, MEMORY_FREE, MEMORY_RESERVED, POWER_LIMIT = OF_GPUS = (
    "memory_total",
    "memory_free",
    "memory_reserved",
    "power_limit",
)
"""What describes a GPU and is no metric, in bytes and W: a total that isn't given is used + free + reserved."""

ROWS = (
    Spellings("gpu_utilization", 203, "DEV_GPU_UTIL_RATIO DEV_GPU_UTIL", "gpu_utilization", "GPUTL",
              "utilization.gpu", "sm", "gpu_util_pct"),
    Spellings("memory_copy_utilization", 204, "DEV_MEM_COPY_UTIL DEV_MEM_COPY_UTIL_RATIO", "mem_copy_utilization", "MCUTL",
              "utilization.memory", "mem", "memcpy_util_pct"),
    Spellings("gr_engine_active", 1001, "PROF_GR_ENGINE_UTIL_RATIO PROF_GR_ENGINE_ACTIVE", "gr_engine_active", "GRACT",
              "", "gract", "gr_engine_active_pct"),
    Spellings("sm_active", 1002, "PROF_SM_UTIL_RATIO PROF_SM_ACTIVE", "sm_active", "SMACT",
              "", "smutil", "sm_active_pct"),
    Spellings("sm_occupancy", 1003, "PROF_SM_OCCUPANCY_RATIO PROF_SM_OCCUPANCY", "sm_occupancy", "SMOCC",
              "", "smocc", "sm_occupancy_pct"),
    Spellings("tensor_active", 1004, "PROF_TENSOR_UTIL_RATIO PROF_PIPE_TENSOR_ACTIVE", "tensor_active", "TENSO",
              "", "mmaact", "tensor_active_pct"),
    Spellings("tensor_hmma_active", 1014, "PROF_HMMA_UTIL_RATIO PROF_PIPE_TENSOR_HMMA_ACTIVE", "tensor_hmma_active",
              "THMMA", "", "", "tc_hmma_pct"),
    Spellings("tensor_imma_active", 1013, "PROF_IMMA_UTIL_RATIO PROF_PIPE_TENSOR_IMMA_ACTIVE", "tensor_imma_active",
              "TIMMA", "", "", "tc_imma_pct"),
    Spellings("tensor_dfma_active", 1015, "PROF_DFMA_UTIL_RATIO PROF_PIPE_TENSOR_DFMA_ACTIVE", "tensor_dfma_active",
              "TDFMA", "", "", "tc_dfma_pct"),
    Spellings("fp64_active", 1006, "PROF_FP64_UTIL_RATIO PROF_PIPE_FP64_ACTIVE", "fp64_active", "FP64A",
              "", "fp64", "fp64_pipe_pct"),
    Spellings("fp32_active", 1007, "PROF_FP32_UTIL_RATIO PROF_PIPE_FP32_ACTIVE", "fp32_active", "FP32A",
              "", "fp32", "fp32_pipe_pct"),
    Spellings("fp16_active", 1008, "PROF_FP16_UTIL_RATIO PROF_PIPE_FP16_ACTIVE", "fp16_active", "FP16A",
              "", "fp16", "fp16_pipe_pct"),
    Spellings("integer_active", 1016, "PROF_INT_UTIL_RATIO PROF_PIPE_INT_ACTIVE", "integer_active", "INTAC"),
    Spellings("dram_active", 1005, "PROF_DRAM_UTIL_RATIO PROF_DRAM_ACTIVE", "dram_active", "DRAMA DRACT",
              "", "dram", "dram_active_pct"),
    Spellings("pcie_tx_bytes", 1009, "PROF_PCIE_TX_BYTES", "pcie_tx_bytes", "PCITX", "", "txpci", "pcie_tx_bytes_s"),
    Spellings("pcie_rx_bytes", 1010, "PROF_PCIE_RX_BYTES", "pcie_rx_bytes", "PCIRX", "", "rxpci", "pcie_rx_bytes_s"),
    Spellings("nvlink_tx_bytes", 1011, "PROF_NVLINK_TX_BYTES", "nvlink_tx_bytes", "NVLTX"),
    Spellings("nvlink_rx_bytes", 1012, "PROF_NVLINK_RX_BYTES", "nvlink_rx_bytes", "NVLRX"),
    Spellings("c2c_tx_bytes", 1076, "PROF_C2C_TX_ALL_BYTES", "c2c_tx_all_bytes", "C2CTXAB"),
    Spellings("c2c_rx_bytes", 1078, "PROF_C2C_RX_ALL_BYTES", "c2c_rx_all_bytes", "C2CRXAB"),
    Spellings("power_usage", 155, "DEV_BOARD_POWER_WATTS DEV_POWER_USAGE", "power_usage", "POWER",
              "power.draw power.draw.average power.draw.instant", "pwr", "power_w"),
    Spellings("energy", 156, "DEV_TOTAL_ENERGY_CONSUMPTION", "total_energy_consumption", "TOTEC", "", "", "energy_j"),
    Spellings("temperature", 150, "DEV_GPU_TEMP_CELSIUS DEV_GPU_TEMP", "gpu_temp", "TMPTR GTEMP GTMP",
              "temperature.gpu", "gtemp temp", "gpu_temp_c"),
    Spellings("memory_temperature", 140, "DEV_MEMORY_TEMP_CELSIUS DEV_MEMORY_TEMP", "memory_temp", "MMTMP MTMP",
              "temperature.memory", "mtemp", "mem_temp_c"),
    Spellings("sm_clock", 100, "DEV_SM_CLOCK", "sm_clock", "SMCLK", "clocks.sm clocks.current.sm", "pclk", "sm_clock_mhz"),
    Spellings("memory_used", 252, "DEV_FB_USED", "fb_used", "FBUSD", "memory.used", "fb", "mem_used_mib"),
    Spellings("clock_event_reasons", 112, "DEV_CLOCKS_EVENT_REASONS DEV_CLOCK_THROTTLE_REASONS",
              "current_clocks_event_reasons", "DVCCTR",
              "clocks_event_reasons.active clocks_throttle_reasons.active"),
    Spellings(MEMORY_TOTAL, 250, "DEV_FB_TOTAL", "fb_total", "FBTTL", "memory.total", "", "mem_total_mib"),
    Spellings(MEMORY_FREE, 251, "DEV_FB_FREE", "fb_free", "FBFRE", "memory.free"),
    Spellings(MEMORY_RESERVED, 253, "DEV_FB_RESERVED", "fb_resv", "FBRSV", "memory.reserved"),
    Spellings(POWER_LIMIT, 160, "DEV_BOARD_POWER_LIMIT_REQUESTED_WATTS DEV_POWER_MGMT_LIMIT", "power_management_limit",
              "PMLMT", "power.limit"),
)  # fmt: skip
"""kempnerpulse's nvlink_gbps is both directions in one: no metric. Short names of ``dcgmi dmon`` after a row's first are of
other builds."""


def unit_of(name: str) -> str:
    """Return the unit, as the catalogue writes it, of a metric or one of ``OF_GPUS``."""
    metric = BY_NAME.get(name)
    return metric.unit if metric else "W" if name == POWER_LIMIT else "B"


def _factor(name: str, bytes_per_second: float = 1.0) -> float:
    """Return the factor to the catalogue's unit for tools that write percent and MiB."""
    return {RATIO: 0.01, "B": _MIB, "B/s": bytes_per_second}.get(unit_of(name), 1.0)


def _factor_of_dcgm(name: str) -> float:
    return BY_NAME[name].dcgm_factor if name in BY_NAME else _factor(name)


QUERY = {word: Meant(row.name, _factor(row.name)) for row in ROWS for word in row.query.split()}
"""By column of ``nvidia-smi --query-gpu``: percent, MiB, W."""
SMI_DMON = {word: Meant(row.name, _factor(row.name, 1e6)) for row in ROWS for word in row.smi.split()}
"""By column of ``nvidia-smi dmon``, whose ``sm`` is no SM activity: percent, MB/s, and MiB that it calls MB."""
KEMPNERPULSE = {word: Meant(row.name, _factor(row.name)) for row in ROWS for word in row.pulse.split()}
"""By column of kempnerpulse's export: percent, MiB, bytes/s, J."""
PULSE_DECIMALS = {"tc_hmma_pct": 2, "tc_imma_pct": 2, "tc_dfma_pct": 2}
"""Digits behind the point where these are percent, since 0.5.0: up to 0.4.1 they are 0-1, with four."""
DCGMI_DMON = {word: Meant(row.name, _factor_of_dcgm(row.name)) for row in ROWS for word in row.dmon.split()}
"""By short name of ``dcgmi dmon``."""
_DCGM = {
    word: Meant(row.name, _factor_of_dcgm(row.name))
    for row in ROWS
    for word in (str(row.id), row.tag, *row.dcgm.split())
}


def of_dcgm(name: str) -> Meant | None:
    """Return the metric that a field of DCGM holds, or None for a field that GSSR does not know. ``name`` is a macro,
    old or new, with DCGM_FI_ or without, a tag (also with ``dcgm_`` before it, as the first exporters wrote it), or a
    field id."""
    return _DCGM.get(name.removeprefix("DCGM_FI_")) or _DCGM.get(name.removeprefix("dcgm_"))


MISSING = frozenset(
    ("", "-", "–", "n/a", "[n/a]", "nan", "err!", "[not supported]", "[unknown error]", "[insufficient permissions]",
     "[gpu requires reset]", "[gpu is lost]", "null", "none")
)  # fmt: skip
"""What stands, in small letters, where a tool knows no value."""

_INT32_BLANK = 0x7FFFFFF0
_BLANK = float(1 << 47)


def blanks_to_nan(values: Floats) -> Floats:
    """Replace DCGM's blank values and values that are not finite by NaN. Pass values as the file has them, before any
    factor, in any shape. Blanks are DCGM's four 32-bit ones, and everything from 2^47 on (its blank of doubles; that of
    64-bit integers is larger)."""
    blank = (values >= _INT32_BLANK) & (values <= _INT32_BLANK + 3)
    return np.where(blank | ~(np.abs(values) < _BLANK), np.nan, values)
