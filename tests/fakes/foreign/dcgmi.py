"""Stand-ins for what ``dcgmi dmon`` prints: columns at fixed places, a header every 15 ticks, no times of its own."""

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from .case import Card, Case, Column, Row, column, unknown

COLUMNS: dict[str, Column] = {
    "GPUTL": column("gpu_utilization"), "MCUTL": column("memory_copy_utilization"), "GRACT": column("gr_engine_active"),
    "SMACT": column("sm_active"), "SMOCC": column("sm_occupancy"), "TENSO": column("tensor_active"),
    "DRAMA": column("dram_active"), "FP64A": column("fp64_active"), "FP32A": column("fp32_active"),
    "FP16A": column("fp16_active"), "TIMMA": column("tensor_imma_active"), "THMMA": column("tensor_hmma_active"),
    "TDFMA": column("tensor_dfma_active"), "INTAC": column("integer_active"), "PCITX": column("pcie_tx_bytes"),
    "PCIRX": column("pcie_rx_bytes"), "NVLTX": column("nvlink_tx_bytes"), "NVLRX": column("nvlink_rx_bytes"),
    "POWER": column("power_usage"), "TOTEC": column("energy"), "TMPTR": column("temperature"),
    "MMTMP": column("memory_temperature"), "SMCLK": column("sm_clock"), "FBUSD": column("memory_used"),
    "DVCCTR": column("clock_event_reasons"), "ESVTL": unknown(), "XIDER": unknown(),
}  # fmt: skip
UNITS = {"POWER": "W", "TOTEC": "mJ", "TMPTR": "C", "MMTMP": "C", "SMCLK": "MHz"}
NARROW = ("TMPTR", "MMTMP", "ESVTL", "XIDER")
FIRST = 16
BEGIN = 1763828881  # 2025-11-22 16:28:01 UTC
PROFILED = ("GRACT", "SMACT", "SMOCC", "TENSO", "DRAMA", "FP64A", "FP32A", "FP16A", "TIMMA", "THMMA", "TDFMA", "INTAC")
SENTINELS = ("9223372036854775792", "9223372036854775794", "2147483632", "140737488355328.000", "N/A")
Stamp = Callable[[float], str]


class Line(NamedTuple):
    """A row of the table: ``entity`` such as ``GPU 0``; ``cells`` as they are printed."""

    time: float
    entity: str
    cells: tuple[str, ...]


def _width(name: str) -> int:
    return (5 if name in NARROW else 10) + 6 + 2


def _header(names: Sequence[str]) -> tuple[str, str]:
    units = (f"{UNITS.get(name, ''):<{_width(name)}}" for name in names)
    return f"{'#Entity':<{FIRST}}" + "".join(f"{name:<{_width(name)}}" for name in names), f"{'ID':<{FIRST}}" + "".join(
        units
    )


def _fitted(cell: str, width: int) -> str:
    """As dcgmi shortens what is too long: no number any more."""
    return cell if len(cell) <= width else cell[: width - 3] + "..."


def table(names: Sequence[str], ticks: Iterable[Sequence[Line]], stamp: Stamp | None = None) -> str:
    """The text; ``stamp`` puts a time before every line, as a wrapper does."""
    lines, last = [], 0.0
    for number, tick in enumerate(ticks):
        if number % 15 == 0:
            lines += [(tick[0].time if tick else last, text) for text in _header(names)]
        for line in tick:
            cells = "".join(
                f"{_fitted(cell, _width(name) - 2):<{_width(name)}}"
                for name, cell in zip(names, line.cells, strict=True)
            )
            lines.append((line.time, f"{line.entity:<{FIRST}}{cells}"))
            last = line.time
    return "".join(f"{stamp(time) if stamp else ''}{text}\n" for time, text in lines)


class Drawn(NamedTuple):
    """Ticks of lines, and the rows that they mean by entity."""

    ticks: list[list[Line]]
    rows: dict[str, list[Row]]


def draw(
    names: Sequence[str], entities: Sequence[str], n: int, begin: float, interval: float, seed: int = 0,
    cell: Callable[[int, str, str], str | None] = lambda tick, entity, name: None,
    there: Callable[[int, str], bool] = lambda tick, entity: True,
) -> Drawn:  # fmt: skip
    """``cell`` may print something that is no value in place of one; ``there`` says whether an entity has a row."""
    chance = random.Random(seed)
    ticks: list[list[Line]] = []
    rows: dict[str, list[Row]] = {entity: [] for entity in entities}
    for tick in range(n):
        time = begin + tick * interval
        lines = []
        for entity in entities:
            texts, values = [], {}
            for name in names:
                text, value = COLUMNS[name].draw(chance)
                instead = cell(tick, entity, name)
                metric = COLUMNS[name].metric
                if instead is None and metric is not None:
                    values[metric] = value
                texts.append(text if instead is None else instead)
            if there(tick, entity):
                lines.append(Line(time, entity, tuple(texts)))
                rows[entity].append(Row(time, values))
        ticks.append(lines)
    return Drawn(ticks, rows)


def gpus(drawn: Drawn) -> list[Card]:
    """The entities that are GPUs, or instances of one, which the file calls by a number of DCGM's."""
    split = any(entity.startswith("GPU-") for entity in drawn.rows)
    found = []
    for entity, rows in drawn.rows.items():
        if entity.startswith("GPU-I "):
            found.append(Card({"mig": ...}, rows))
        elif entity.startswith("GPU ") and "LINK" not in entity:
            found.append(Card({"device_index": int(entity[4:]), "mig": None}, rows, whole=split))
    return found


TWO = ("GPU 0", "GPU 1")
USUAL = ("GPUTL", "SMACT", "DRAMA", "POWER", "TMPTR", "FBUSD")
TIMES = ("--start", str(BEGIN), "--interval", "0.5")


def _plain() -> Case:
    drawn = draw(tuple(COLUMNS), TWO, 40, BEGIN, 0.5)
    return Case(
        "dcgmi",
        {"d.log": table(tuple(COLUMNS), drawn.ticks).encode()},
        gpus(drawn),
        TIMES,
        said=("ESVTL",),
        sampling_ms=500,
    )


def _no_times() -> Case:
    drawn = draw(USUAL, TWO, 12, BEGIN - 11, 1.0, 1)
    text = table(USUAL, drawn.ticks) + "dmon was stopped due to receiving a signal.\n"
    said = (r"no times?|without times?|times? .*(missing|assumed|uncertain)",)
    return Case("dcgmi-no-times", {"d.log": text.encode()}, gpus(drawn), said=said, mtime=BEGIN)


def _stamped(name: str, stamp: Stamp, interval: float = 2.0, begin: float = BEGIN, **more: object) -> Case:
    drawn = draw(USUAL, TWO, 20, begin, interval, 2, cell=lambda t, e, c: "N/A" if t == 0 and c in PROFILED else None)
    files = {"d.log": table(USUAL, drawn.ticks, stamp).encode()}
    return Case(name, files, gpus(drawn), ("--timezone", "UTC"), **more)  # type: ignore[arg-type]


def _format(pattern: str) -> Stamp:
    return lambda time: f"{datetime.fromtimestamp(time, UTC):{pattern}} "


def _instances() -> Case:
    """An instance has no GPUTL, TMPTR and FBUSD of its own: cells that are empty, not N/A. Compute
    instances are parts of it again, and are left out."""
    lacking = ("GPUTL", "TMPTR", "FBUSD")
    drawn = draw(USUAL, ("GPU 0", "GPU-I 0", "GPU-CI 0", "GPU-I 1", "GPU-CI 1"), 16, BEGIN, 0.5, 3,
                 cell=lambda t, e, c: "" if e.startswith("GPU-") and c in lacking else None)  # fmt: skip
    return Case("dcgmi-mig", {"d.log": table(USUAL, drawn.ticks).encode()}, gpus(drawn), TIMES, said=("GPU-CI",))


def _links() -> Case:
    drawn = draw(
        ("POWER", "NVLTX"), ("GPU 0", "GPU 0 LINK 3", "GPU 1", "GPU 1 LINK 3", "SW 1 LINK 2", "CPU 0"), 8, BEGIN, 0.5, 4
    )
    text = table(("POWER", "NVLTX"), drawn.ticks)
    return Case("dcgmi-links", {"d.log": text.encode()}, gpus(drawn), TIMES, said=("LINK|link|CPU|SW",))


def _dirty() -> Case:
    """Two tables in one file, the second with other columns; CRLF, BOM, no values at first, and a number that is cut."""
    other = ("SMACT", "MMTMP", "SMCLK", "POWER")
    first = draw(USUAL, TWO, 17, BEGIN, 0.5, 5, cell=lambda t, e, c: "N/A" if t == 0 else None)
    second = draw(other, TWO, 18, BEGIN + 8.5, 0.5, 6)
    text = table(USUAL, first.ticks) + table(other, second.ticks)
    cut = text.rstrip()[:-4].replace("\n", "\r\n").encode("utf-8-sig")
    rows = {entity: first.rows[entity] + second.rows[entity] for entity in TWO}
    last = rows["GPU 1"][-1]
    rows["GPU 1"][-1] = last._replace(sure=False, values={k: v for k, v in last.values.items() if k != "power_usage"})
    return Case("dcgmi-dirty", {"d.log": cut}, gpus(Drawn([], rows)), TIMES)


def _blanks() -> Case:
    chance = random.Random(7)
    drawn = draw(USUAL, TWO, 20, BEGIN, 0.5, 7,
                 cell=lambda t, e, c: chance.choice(SENTINELS) if (t + len(c) + int(e[-1])) % 3 == 0 else None)  # fmt: skip
    return Case("dcgmi-blanks", {"d.log": table(USUAL, drawn.ticks).encode()}, gpus(drawn), TIMES)


def _spaced_anew() -> Case:
    """As in READMEs and chats: runs of spaces squeezed, so that only the order of the cells counts."""
    drawn = draw(USUAL, TWO, 6, BEGIN, 0.5, 8)
    text = "\n".join("  ".join(line.split()).replace("GPU  ", "GPU ") for line in table(USUAL, drawn.ticks).split("\n"))
    return Case("dcgmi-spaced-anew", {"d.log": text.encode()}, gpus(drawn), TIMES)


def _lost(entity: str) -> Case:
    """A GPU has no rows for a while: the others' ticks must not move."""
    drawn = draw(USUAL, TWO, 12, BEGIN, 0.5, 9, there=lambda tick, which: which != entity or not 4 <= tick < 7)
    return Case(f"dcgmi-lost-{entity[-1]}", {"d.log": table(USUAL, drawn.ticks).encode()}, gpus(drawn), TIMES)


def cases() -> Iterator[Case]:
    yield _plain()
    yield _no_times()
    yield _stamped("dcgmi-awk", _format("%Y-%m-%d %H:%M:%S"))
    yield _stamped("dcgmi-epoch", lambda time: f"{time:.3f} ", 0.25)
    yield _stamped("dcgmi-ts", _format("%b %d %H:%M:%S"), mtime=BEGIN + 60.0)
    yield _stamped("dcgmi-ts-new-year", _format("%b %d %H:%M:%S"), begin=1767225580, mtime=1767225640.0)
    yield _instances()
    yield _links()
    yield _dirty()
    yield _blanks()
    yield _spaced_anew()
    yield _lost("GPU 0")
    yield _lost("GPU 1")
