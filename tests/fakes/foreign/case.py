"""A file of another tool and what it means: a Case; ``differences`` holds a recording made of it against that.

The meanings are written down by those who write the files (dcgmi.py, smi.py, prometheus.py, ranks.py of this folder), from
what the tools print, without the readers.
"""

import random
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

MIB = float(1 << 20)
STATED = ("run_id", "gpu", "time")
NEAR = {"temperature": 0.51, "memory_temperature": 0.51, "sm_clock": 0.51}
"""Metrics that a recording may hold as whole numbers, and by how much they may be missed then."""
ROUGH = {"pcie_tx_bytes": 0.05, "pcie_rx_bytes": 0.05}
"""``nvidia-smi`` says MB/s and does not say which: 10^6 or 2^20 bytes."""


class Row(NamedTuple):
    """``values`` by our metrics, in our units, without those that are not known. ``sure``: false of a row that was cut:
    it may be absent or lack values, but what is there must be true."""

    time: float
    values: dict[str, float]
    sure: bool = True


class Card(NamedTuple):
    """A GPU or an instance of one: what columns of ``gpus`` must say, its rows, and the step of the job that they belong
    to, where a case has several. ``whole``: of a GPU that is split; a recording may leave it out, so as to count nothing
    twice, and say so."""

    told: dict[str, object]
    rows: list[Row]
    step: str | None = None
    whole: bool = False


class Case(NamedTuple):
    """``files`` by name; those in ``given`` are named on the command line (default: all). ``said``: patterns, each found in
    a note; ``refused``: one in the only line of the answer instead, or, if there are cards as well, maybe
    instead. ``within``: s that a time may be off; ``mtime`` of the
    files; ``rough``: whether rates are MB of unknown size; ``energy``: whether only its differences are known."""

    name: str
    files: dict[str, bytes]
    cards: list[Card]
    options: tuple[str, ...] = ()
    given: tuple[str, ...] = ()
    said: tuple[str, ...] = ()
    refused: str | None = None
    within: float = 0.002
    mtime: float | None = None
    rough: bool = False
    energy: bool = False
    sampling_ms: float | None = None


class Column(NamedTuple):
    """A column of a file: our metric (None: it is none of ours), the factor to our unit, digits after the point, and the
    range that values are drawn from."""

    metric: str | None
    factor: float = 1.0
    digits: int = 0
    low: float = 0.0
    high: float = 100.0

    def draw(self, chance: random.Random) -> tuple[str, float]:
        """A value as it is printed, and what that is in our unit."""
        text = f"{chance.uniform(self.low, self.high):.{self.digits}f}"
        return text, float(text) * self.factor


PERCENT, RATIO = Column("", 0.01), Column("", 1.0, 3, 0, 1)
METRICS = {
    "gpu_utilization": PERCENT, "memory_copy_utilization": PERCENT, "gr_engine_active": RATIO, "sm_active": RATIO,
    "sm_occupancy": RATIO, "tensor_active": RATIO, "dram_active": RATIO, "fp64_active": RATIO, "fp32_active": RATIO,
    "fp16_active": RATIO, "tensor_imma_active": RATIO, "tensor_hmma_active": RATIO, "tensor_dfma_active": RATIO,
    "integer_active": RATIO, "power_usage": Column("", 1.0, 3, 60, 700), "temperature": Column("", 1, 0, 20, 90),
    "memory_temperature": Column("", 1, 0, 20, 95), "sm_clock": Column("", 1, 0, 210, 1980),
    "memory_used": Column("", MIB, 0, 1, 80_000), "clock_event_reasons": Column("", 1, 0, 0, 511),
    "energy": Column("", 0.001, 0, 1e9, 2e9),
}  # fmt: skip
METRICS |= {f"{a}_{b}_bytes": Column("", 1.0, 0, 0, 3e10) for a in ("pcie", "nvlink", "c2c") for b in ("tx", "rx")}


def column(metric: str) -> Column:
    """How DCGM says this metric: percent or ratio, MiB, mJ."""
    return METRICS[metric]._replace(metric=metric)


def unknown(low: float = 0, high: float = 100) -> Column:
    """A column that no recording has."""
    return Column(None, low=low, high=high)


def differences(recording: Path, case: Case) -> list[str]:
    """What is wrong with a recording that was made of the case's files: sentences, [] where all is right."""
    with closing(sqlite3.connect(f"file:{recording}?mode=ro", uri=True)) as connection:
        connection.row_factory = sqlite3.Row
        gpus = [dict(row) for row in connection.execute("SELECT * FROM gpus")]
        runs = {row["run_id"]: dict(row) for row in connection.execute("SELECT * FROM runs")}
        notes = [row["message"] or "" for row in connection.execute("SELECT message FROM events")]
        split = any(_found(r"MIG|instance", [note]) for note in notes)
        cards = [card for card in case.cards if not (card.whole and split and len(gpus) < len(case.cards))]
        wrong = _gpus(connection, case._replace(cards=cards), gpus, runs)
    wrong += [f"nothing says {pattern!r}: {notes}" for pattern in case.said if not _found(pattern, notes)]
    wrong += [f"state {run['state']}, exit code {run['exit_code']}" for run in runs.values()
              if run["state"] != "completed" or run["exit_code"] is not None]  # fmt: skip
    if case.sampling_ms is not None:
        wrong += [f"sampling_ms {run['sampling_ms']}" for run in runs.values()
                  if abs(run["sampling_ms"] / case.sampling_ms - 1) > 0.02]  # fmt: skip
    return wrong


def invented(recording: Path, case: Case) -> list[str]:
    """Rows of a recording that none of the case's has said, whatever it lacks: of a part of its files."""
    true = [row for card in case.cards for row in card.rows]
    with closing(sqlite3.connect(f"file:{recording}?mode=ro", uri=True)) as connection:
        connection.row_factory = sqlite3.Row
        rows = [
            row for gpu in connection.execute("SELECT gpu FROM gpus").fetchall() for row in _read(connection, dict(gpu))
        ]
    near = [(row, [one for one in true if abs(one.time - row.time) <= case.within]) for row in rows]
    return [
        f"{row}" for row, those in near if all(_values(row.values, one._replace(sure=False), case, {}) for one in those)
    ]


def _found(pattern: str, notes: list[str]) -> bool:
    return any(re.search(pattern, note, re.IGNORECASE) for note in notes)


def _gpus(connection: sqlite3.Connection, case: Case, gpus: list[Any], runs: dict[str, Any]) -> list[str]:
    wrong = []
    if len(gpus) != len(case.cards):
        shown = [{key: gpu[key] for key in ("node", "device_index", "uuid", "mig")} for gpu in gpus]
        wrong.append(f"{len(gpus)} GPUs for {len(case.cards)}: {shown}")
    for card in case.cards:
        fits = [gpu for gpu in gpus if all(_same(gpu[key], told) for key, told in card.told.items())]
        if card.step is not None:
            fits = [gpu for gpu in fits if str(runs[gpu["run_id"]]["step_id"]) == card.step]
        if not fits:
            wrong.append(f"no GPU is {card.told} of step {card.step}")
            continue
        # Of several that could be meant it is the nearest: that none is there twice, their number says.
        said = [_rows(_read(connection, gpu), card.rows, case) for gpu in fits]
        wrong += [f"{card.told}: {text}" for text in min(said, key=len)[:3]]
    return wrong


def _read(connection: sqlite3.Connection, gpu: dict[str, Any]) -> list[Row]:
    """The rows of a GPU; its key tells it within the file."""
    found = connection.execute("SELECT * FROM samples WHERE gpu = ? ORDER BY time", (gpu["gpu"],)).fetchall()
    dicts = [dict(row) for row in found]
    return [Row(one["time"], {k: v for k, v in one.items() if k not in STATED and v is not None}) for one in dicts]


def _same(found: object, told: object) -> bool:
    """``...`` stands for anything but NULL."""
    return found is not None if told is ... else found == told


def _rows(found: list[Row], meant: list[Row], case: Case) -> list[str]:
    """Rows without any value may be there or not."""
    left = [row for row in found if row.values]
    first = {key: next((r.values[key] for r in rows if key in r.values), 0.0)
             for key in ("energy",) for rows in (left,)} if case.energy else {}  # fmt: skip
    wrong, index = [], 0
    for row in meant:
        if not row.values:
            continue
        near = index < len(left) and abs(left[index].time - row.time) <= case.within
        if not near and not row.sure:
            continue
        if not near:
            at = left[index].time if index < len(left) else None
            wrong.append(f"row {index} is at {at} for {row.time}, of {len(left)} for {len(meant)}")
            break
        wrong += _values(left[index].values, row, case, first)
        index += 1
    if not wrong and index < len(left):
        wrong.append(f"{len(left) - index} rows too many: {left[index]}")
    return wrong


def _values(found: dict[str, float], row: Row, case: Case, first: dict[str, float]) -> list[str]:
    wrong = []
    for metric in {*found, *row.values}:
        a, b = found.get(metric), row.values.get(metric)
        if b is None:
            wrong.append(f"at {row.time} {metric} {a} is invented")
        elif a is None:
            wrong += [f"at {row.time} {metric} is NULL for {b}"] if row.sure else []
        else:
            a -= first.get(metric, 0.0)
            close = ROUGH.get(metric, 0.0) if case.rough else 1e-6
            if abs(a - b) > max(close * abs(b), NEAR.get(metric, 1e-9)):
                wrong.append(f"at {row.time} {metric} is {a} for {b}")
    return wrong
