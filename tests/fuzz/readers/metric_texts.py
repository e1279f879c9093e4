"""Hostile tables of metrics of other tools: dcgmi dmon, nvidia-smi, kempnerpulse, damaged and put together. They are
refused in a sentence, or come to rows that ascend, of which no value is one that the text does not say."""

import random
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np

from gssr.arrays import Floats
from gssr.foreign import csv_rows, dmon
from gssr.foreign.series import ByteSource, ForeignError, ForeignSeries, ImportHints
from tests.fuzz.readers import Parser, damage, text

_WRITTEN = 1_764_000_000.0
_NUMBER = re.compile(rb"0[xX][0-9a-fA-F]{1,16}|(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d{1,3})?")
_FACTORS = (1.0, 0.01, 1e-3, 1e6, 1e-6, 2.0**20)
"""From units of files to ours."""
_DMON = (
    b"#Entity   GPUTL        SMACT        POWER             FBUSD        TOTEC\nID                                  W\n",
    b"GPU 0     95           0.912        301.250           18342        9123456789\n",
    b"GPU 1     N/A          0.905                          18310        9123456790\n",
    b"GPU-I 3                0.500                          20\n", b"GPU 0 LINK 3  1  2  3  4  5\n", b"CPU 0     1\n",
    b"2025-11-22 16:28:01 GPU 0  1  0.1  2.5  3  4\n", b"[1763828881.25] GPU 0  1  0.1  2.5  3  4\n",
    b"# gpu    pwr  gtemp     sm    mem     fb  rxpci   pclk\n# Idx      W      C      %      %     MB   MB/s    MHz\n",
    b"    0    117     45     13      6   2847     39   1410\n", b"    1      -     45     13      6      -      -   1410\n",
    b"#Date       Time        gpu    pwr     sm\n", b" 20240104   13:54:35      0    100     20\n",
    b"#Time        gpu    pwr     sm\n", b" 23:59:59      0    100     20\n", b" 00:00:01      1    100     20\n",
    b"dmon was stopped due to receiving a signal\n",
)  # fmt: skip
_QUERY = (
    b"timestamp, index, name, utilization.gpu [%], memory.used [MiB], power.draw [W]\n",
    b"2024/11/23 12:23:29.950, 0, NVIDIA RTX A6000, 92 %, 25073 MiB, 301.25 W\n",
    b"2024/11/23 12:23:29.951, 1, NVIDIA RTX A6000, 0 %, [N/A], 15.00 W\n",
    b"2024/10/27 02:59:59.000, 0, A, 1 %, 1 MiB, 1 W\n", b"2024/10/27 02:00:00.000, 0, A, 2 %, 2 MiB, 2 W\n",
    b"timestamp, name, power.draw [W]\n", b"2024/11/23 12:23:30.950, Orin, 22.31 W\n", b"03-11-2026 15:13:16, Orin, 9\n",
    b"index, utilization.gpu, clocks_throttle_reasons.active\n", b"0, 5, 0x0000000000000001\n", b"1, 7, 0x4\n",
    b"timestamp, uuid, power.limit [W], memory.total [MiB], utilization.memory [%]\n",
    b"2026/11/23 12:23:29.950, GPU-aaaaaaaa-bbbb, 700.00 W, 81559 MiB, 5 %\n",
)  # fmt: skip
_PULSE = (
    b"timestamp,gpu_id,model,sm_active_pct,mem_used_mib,power_w,energy_j,nvlink_gbps\n",
    b"1743782400.12,0,H100,55.50,18342.0000,301.2500,123456.5,1.5\n", b"1743782401.12,1,H100,,,,,\n",
)  # fmt: skip
_SPLICED = (
    b" ", b"\n", b"\r\n", b",", b"\0", b"#", b"GPU", b"GPU ", b"N/A", b"-", b"-1", b".", b"1e999", b"1e5", b"9" * 17, b"nan",
    b"0x", b"\xff", b"9223372036854775794", b"2147483632", b"1.2.3", b" MiB", b"12:00:00", b"9999/99/99 99:99:99.999", b"[",
    b"2024/02/30 12:00:00.000", b"\t", b"_", b"\xe2\x80\x93", b"Feb 31 12:00:00", b"0001/01/01 00:00:00.000", b"inf", b"+1",
)  # fmt: skip


def _drawn(lines: tuple[bytes, ...]) -> Callable[[random.Random], bytes]:
    def drawn(rng: random.Random) -> bytes:
        data = rng.choice((lines[0], lines[0], lines[0], rng.choice(lines)))
        data += b"".join(rng.choices(lines, k=rng.choice((1, 3, 9, 30))))
        for _ in range(rng.choice((0, 1, 1, 2, 4))):
            at = rng.randrange(len(data) + 1)
            if rng.random() < 0.4:
                data = damage(data, rng)
            elif rng.random() < 0.8:
                data = data[:at] + rng.choice(_SPLICED) + data[at + rng.choice((0, 0, 1, 5)) :]
            else:
                data = data[:at] + text(rng).encode("utf-8", "replace") + data[at:]
        return data

    return drawn


def _parser(name: str, read: Callable[[ByteSource, ImportHints], ForeignSeries], lines: tuple[bytes, ...]) -> Parser:
    def parse(_: Path, data: bytes) -> None:
        size = len(data) + 1 if len(data) % 4 else len(data) // 3 + 1
        chunks = (data[at : at + size] for at in range(0, len(data), size))
        told = ImportHints(start=1e9 if len(data) % 2 else None)
        try:
            check(read(ByteSource("log", chunks, _WRITTEN), told), data)
        except ForeignError as error:
            if not str(error).startswith("log: ") or not str(error).isprintable():
                raise AssertionError(f"no sentence: {error}") from None

    return Parser(name, _drawn(lines), parse)


def _possible(data: bytes) -> Floats:
    numbers = [
        float(int(word, 16)) if word[1:2] in b"xX" and word[1:2] else float(word) for word in _NUMBER.findall(data)
    ]
    with np.errstate(over="ignore"):
        return np.sort(np.concatenate([np.array([*numbers, 0.0]) * factor for factor in _FACTORS]))


def check(series: ForeignSeries, data: bytes, ends: bytes = b"\n", apart: str = "") -> None:
    """Raises AssertionError for rows that can't be: behind each stands one of ``ends``; ``apart``: a metric whose values add
    up what is there."""
    last, n, possible = -np.inf, 0, _possible(data)
    for piece in series.pieces:
        n += len(piece.time)
        if not len(piece.time) or last > piece.time[0] or (np.diff(piece.time) < 0).any():
            raise AssertionError("times that go back, or a piece of nothing")
        if piece.gpu.min() < 0 or piece.gpu.max() >= len(series.gpus):
            raise AssertionError("a GPU that is not there")
        last = float(piece.time[-1])
        if not np.isfinite(piece.time).all():
            raise AssertionError("no time")
        for name, column in piece.values.items():
            values = np.abs(column[~np.isnan(column) & (name != apart)])
            at = np.searchsorted(possible, values * (1 - 1e-12))
            if (
                len(column) != len(piece.time)
                or (at >= len(possible)).any()
                or (possible[at] > values * (1 + 1e-12)).any()
            ):
                raise AssertionError(f"{name} of nowhere")
    if n > data.count(ends):
        raise AssertionError("more rows than there can be")
    for note in series.notes:
        if not note.text.isprintable():
            raise AssertionError(f"no sentence: {note.text!r}")
    for gpu in series.gpus:
        if not all(word is None or word.isprintable() for word in (gpu.name, gpu.uuid, gpu.mig, gpu.driver_version)):
            raise AssertionError(f"no name: {gpu}")


READERS = (
    _parser("dmon", dmon.read, _DMON),
    _parser("smi-query", csv_rows.read, _QUERY),
    _parser("kempnerpulse", csv_rows.read, _PULSE),
)
