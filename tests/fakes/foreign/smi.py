"""Stand-ins for what ``nvidia-smi dmon`` and ``nvidia-smi --query-gpu`` print, and for kempnerpulse's CSV."""

import random
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, tzinfo
from typing import NamedTuple
from zoneinfo import ZoneInfo

from .case import MIB, Card, Case, Column, Row, column, unknown

BEGIN = 1763828881.0  # 2025-11-22 16:28:01 UTC
BERLIN = ZoneInfo("Europe/Berlin")
FOLD = 1792890000.0  # 2026-10-25 01:00 UTC: in Berlin it is 02:00 for the second time

MB = Column(None, 1e6, 0, 0, 30_000)
DMON: dict[str, tuple[str, Column]] = {
    "pwr": ("W", Column("power_usage", 1, 0, 60, 700)), "gtemp": ("C", column("temperature")),
    "mtemp": ("C", column("memory_temperature")), "sm": ("%", column("gpu_utilization")),
    "mem": ("%", column("memory_copy_utilization")), "enc": ("%", unknown()), "dec": ("%", unknown()),
    "jpg": ("%", unknown()), "ofa": ("%", unknown()), "mclk": ("MHz", unknown(405, 2619)),
    "pclk": ("MHz", column("sm_clock")), "fb": ("MB", column("memory_used")), "bar1": ("MB", unknown()),
    "ccpm": ("MB", unknown()), "rxpci": ("MB/s", MB._replace(metric="pcie_rx_bytes")),
    "txpci": ("MB/s", MB._replace(metric="pcie_tx_bytes")),
}  # fmt: skip


class Ticks(NamedTuple):
    """Printed cells by (tick, GPU), and the rows that they mean by GPU."""

    cells: dict[tuple[int, int], list[str]]
    rows: list[list[Row]]
    times: dict[tuple[int, int], float]


def draw(
    columns: Sequence[Column], gpus: int, n: int, time: Callable[[int, int], float], seed: int,
    blank: Callable[[int, int, int], str | None] = lambda tick, gpu, index: None,
) -> Ticks:  # fmt: skip
    """``time`` of (tick, GPU); ``blank``: what stands in a cell in place of a value."""
    chance = random.Random(seed)
    found = Ticks({}, [[] for _ in range(gpus)], {})
    for tick in range(n):
        for gpu in range(gpus):
            texts, values = [], {}
            for index, one in enumerate(columns):
                text, value = one.draw(chance)
                instead = blank(tick, gpu, index)
                texts.append(text if instead is None else instead)
                if one.metric is not None and instead is None:
                    values[one.metric] = value
            found.cells[tick, gpu] = texts
            found.times[tick, gpu] = time(tick, gpu)
            found.rows[gpu].append(Row(time(tick, gpu), values))
    return found


def _dmon(
    name: str, fields: Sequence[str], n: int, option: str = "", begin: float = BEGIN, crlf: bool = False,
    options: tuple[str, ...] = ("--timezone", "UTC"), **more: object,
) -> Case:  # fmt: skip
    """A dash where a GPU lacks the sensor; two lines of header every 30 rows; empty lines, as copied from a terminal."""
    drawn = draw([DMON[field][1] for field in fields], 2, n, lambda tick, gpu: begin + tick, 21,
                 lambda tick, gpu, index: "-" if fields[index] == "mtemp" and gpu else None)  # fmt: skip
    heads = {"D": ("#Date       ", "#YYYYMMDD   "), "T": ("#Time        ", "#HH:MM:SS    "), "": ("# ", "# ")}
    heads["DT"] = (heads["D"][0] + "Time        ", heads["D"][1] + "HH:MM:SS    ")
    header = [f"{heads[option][0]}gpu {' '.join(f'{field:>6}' for field in fields)} ",
              f"{heads[option][1]}Idx {' '.join(f'{DMON[field][0]:>6}' for field in fields)} "]  # fmt: skip
    lines = []
    for number, (key, cells) in enumerate(drawn.cells.items()):
        lines += header if number % 30 == 0 else [""] if number % 17 == 0 else []
        when = datetime.fromtimestamp(drawn.times[key], UTC)
        stamp = (f" {when:%Y%m%d}  " if "D" in option else "") + (f" {when:%H:%M:%S}" if "T" in option else "")
        lines.append(f"{stamp}{key[1]:>6} {' '.join(f'{cell:>6}' for cell in cells)} ")
    text = "".join(f"{line}\n" for line in lines)
    cards = [Card({"device_index": gpu, "mig": None}, rows) for gpu, rows in enumerate(drawn.rows)]
    data = text.replace("\n", "\r\n").encode() if crlf else text.encode()
    return Case(f"dmon-{name}", {"m.log": data}, cards, options, rough=True, **more)  # type: ignore[arg-type]


ALL = tuple(DMON)
OLD = ("pwr", "gtemp", "mtemp", "sm", "mem", "enc", "dec", "mclk", "pclk")

QUERY: dict[str, tuple[str, Column]] = {
    "utilization.gpu": ("%", column("gpu_utilization")), "utilization.memory": ("%", column("memory_copy_utilization")),
    "memory.used": ("MiB", column("memory_used")), "power.draw": ("W", Column("power_usage", 1, 2, 60, 700)),
    "temperature.gpu": ("", column("temperature")), "temperature.memory": ("", column("memory_temperature")),
    "clocks.current.sm": ("MHz", column("sm_clock")), "fan.speed": ("%", unknown()),
    "memory.free": ("MiB", unknown(1, 80_000)), "clocks.current.memory": ("MHz", unknown(405, 2619)),
}  # fmt: skip
USUAL = ("utilization.gpu", "utilization.memory", "memory.used", "power.draw", "temperature.gpu")
UUIDS = ("GPU-5f0b3f2a-1111-2222-3333-444455556666", "GPU-77a0c1de-aaaa-bbbb-cccc-ddddeeeeffff")


class Look(NamedTuple):
    """How a query is printed. ``every``: ticks after which the header stands again; ``local``: the pattern of the time."""

    identity: tuple[str, ...] = ("index",)
    units: bool = True
    header: bool = True
    every: int = 10_000
    local: str = "%Y/%m/%d %H:%M:%S"
    decimals: int = 3
    zone: tzinfo = UTC
    unit_in_cells: bool = True
    encoding: str = "utf-8"
    newline: str = "\n"


def _query(
    name: str, look: Look, fields: Sequence[str] = USUAL, gpus: int = 2, n: int = 12, interval: float = 1.0,
    begin: float = BEGIN + 0.25, options: tuple[str, ...] = ("--timezone", "UTC"),
    blank: Callable[[int, int, int], str | None] = lambda tick, gpu, index: None,
    told: Callable[[int], dict[str, object]] = lambda gpu: {"device_index": gpu}, **more: object,
) -> Case:  # fmt: skip
    """GPUs of one tick have times that differ by 1 ms; the times have no zone."""
    apart = 0.001 if look.decimals else 0.0
    times = [[begin + tick * interval + gpu * apart for gpu in range(gpus)] for tick in range(n)]
    drawn = draw([QUERY[field][1] for field in fields], gpus, n, lambda tick, gpu: times[tick][gpu], 31, blank)
    identities = {"index": "{0}", "name": "NVIDIA H100 80GB HBM3", "uuid": "", "pci.bus_id": "00000000:{0}7:00.0"}
    titles = ["timestamp", *look.identity]
    for field in fields:
        unit = QUERY[field][0]
        titles.append(f"{field} [{unit}]" if unit and look.units else field)
    lines = []
    for (tick, gpu), cells in drawn.cells.items():
        if look.header and gpu == 0 and tick % look.every == 0:
            lines.append(", ".join(titles))
        time = round(drawn.times[tick, gpu] * 1000)
        when = datetime.fromtimestamp(time // 1000, UTC).astimezone(look.zone)
        stamp = f"{when:{look.local}}" + (f".{time % 1000:03d}" if look.decimals else "")
        shown = [identities[key].format(gpu) or UUIDS[gpu] for key in look.identity]
        for field, cell in zip(fields, cells, strict=True):
            unit = (
                QUERY[field][0] if look.units and look.unit_in_cells and cell[:1].isdigit() and "x" not in cell else ""
            )
            shown.append(f"{cell} {unit}".strip())
        lines.append(", ".join([stamp, *shown]))
    data = "".join(line + look.newline for line in lines).encode(look.encoding)
    cards = [Card(told(gpu), rows) for gpu, rows in enumerate(drawn.rows)]
    return Case(f"query-{name}", {"q.csv": data}, cards, options, **more)  # type: ignore[arg-type]


def _jetson() -> Case:
    """Month first, whole seconds, and units in the header that the cells lack."""
    look = Look(("name",), local="%m-%d-%Y %H:%M:%S", decimals=0, unit_in_cells=False)
    return _query("jetson", look, gpus=1, interval=60, begin=BEGIN, told=lambda gpu: {"name": ...},
                  blank=lambda t, g, i: "[N/A]" if USUAL[i] == "power.draw" else None)  # fmt: skip


def _words(tick: int, gpu: int, index: int) -> str | None:
    words = ("[N/A]", "[Not Supported]", "[Unknown Error]", "N/A", "ERR!", "[GPU requires reset]")
    return words[tick % len(words)] if (tick + gpu + index) % 3 == 0 else None


def _cut(case: Case, size: int) -> Case:
    """The job was killed while a line was written: the number at its end lacks digits."""
    ((name, data),) = case.files.items()
    rows = case.cards[-1].rows
    known = {key: value for key, value in rows[-1].values.items() if key != QUERY[USUAL[-1]][1].metric}
    rows[-1] = rows[-1]._replace(sure=False, values=known)
    return case._replace(name=case.name + "-cut", files={name: data[:-size]})


def _reasons() -> Case:
    """Bits as hexadecimal numbers, of a GPU that is told by its UUID alone."""
    lines, rows = ["timestamp, uuid, clocks_event_reasons.active, pstate"], []
    for tick, bits in enumerate((0, 1, 4, 0x20, 0x24, 0x8000000000000000)):
        when = datetime.fromtimestamp(BEGIN + tick, UTC)
        lines.append(f"{when:%Y/%m/%d %H:%M:%S}.000, {UUIDS[0]}, 0x{bits:016X}, P0")
        if bits < 1 << 63:
            rows.append(Row(BEGIN + tick, {"clock_event_reasons": float(bits)}))
        else:
            rows.append(Row(BEGIN + tick, {"clock_event_reasons": float(bits)}, sure=False))
    data = "\n".join(lines).encode() + b"\n"
    return Case("query-reasons", {"q.csv": data}, [Card({"uuid": UUIDS[0]}, rows)], ("--timezone", "UTC"))


def _kempnerpulse() -> Iterator[Case]:
    fields: dict[str, Column] = {
        "sm_active_pct": Column("sm_active", 0.01, 2), "tensor_active_pct": Column("tensor_active", 0.01, 2),
        "dram_active_pct": Column("dram_active", 0.01, 2), "gr_engine_active_pct": Column("gr_engine_active", 0.01, 2),
        "gpu_util_pct": Column("gpu_utilization", 0.01, 1), "mem_used_mib": Column("memory_used", MIB, 0, 1, 80_000),
        "power_w": Column("power_usage", 1, 1, 60, 700), "gpu_temp_c": column("temperature"),
        "mem_temp_c": column("memory_temperature"), "sm_occupancy_pct": Column("sm_occupancy", 0.01, 2),
        "fp16_pipe_pct": Column("fp16_active", 0.01, 2), "fp32_pipe_pct": Column("fp32_active", 0.01, 2),
        "fp64_pipe_pct": Column("fp64_active", 0.01, 2), "memcpy_util_pct": Column("memory_copy_utilization", 0.01, 1),
        "pcie_rx_bytes_s": column("pcie_rx_bytes"), "pcie_tx_bytes_s": column("pcie_tx_bytes"), "nvlink_gbps": unknown(),
        "sm_clock_mhz": column("sm_clock"), "energy_j": Column("energy", 1, 1, 1e6, 2e6),
        "tc_hmma_pct": Column("tensor_hmma_active", 0.01, 2), "tc_imma_pct": Column("tensor_imma_active", 0.01, 2),
        "tc_dfma_pct": Column("tensor_dfma_active", 0.01, 2), "tc_qmma_pct": unknown(), "real_util_pct": unknown(),
    }  # fmt: skip
    for name, chosen in {
        "all": tuple(fields),
        "default": ("gpu_util_pct", "mem_used_mib", "real_util_pct", "sm_active_pct"),
    }.items():
        drawn = draw([fields[key] for key in chosen], 2, 10, lambda tick, gpu: BEGIN + 0.12 + tick, 41,
                     lambda t, g, i: "" if (t + g + i) % 5 == 0 else None)  # fmt: skip
        lines = [f"timestamp,gpu_id,model,status,{','.join(chosen)}"]
        for (tick, gpu), cells in drawn.cells.items():
            lines.append(f"{drawn.times[tick, gpu]:.2f},{gpu},H100,compute-bound,{','.join(cells)}")
        cards = [Card({"device_index": gpu}, rows) for gpu, rows in enumerate(drawn.rows)]
        yield Case(f"kempnerpulse-{name}", {"k.csv": "\n".join(lines).encode() + b"\n"}, cards, sampling_ms=1000)


def cases() -> Iterator[Case]:
    told = ("--start", str(BEGIN), "--interval", "1")
    yield _dmon("date-and-time", ALL, 20, "DT", crlf=True, sampling_ms=1000)
    midnight = 1763856000.0
    yield _dmon("midnight", OLD, 40, "T", midnight - 20, mtime=midnight + 19)
    yield _dmon("no-times", OLD, 35, options=told)
    yield _dmon(
        "mtime",
        OLD,
        6,
        options=(),
        mtime=BEGIN + 5,
        said=(r"no times?|without times?|times? .*(missing|assumed|uncertain)",),
    )
    yield _dmon("date-only", OLD, 6, "D", options=told)
    plain = Look(("index", "uuid", "name", "pci.bus_id"))
    yield _query("units", plain, told=lambda gpu: {"device_index": gpu, "uuid": UUIDS[gpu]}, sampling_ms=1000)
    yield _query("nounits", Look(("index", "name"), unit_in_cells=False, units=False), tuple(QUERY))
    yield _query("header-again", Look(every=1), n=6)
    yield _query("uuid-alone", Look(("uuid",)), told=lambda gpu: {"uuid": UUIDS[gpu]})
    yield _query("bus-id-alone", Look(("pci.bus_id",)), told=lambda gpu: {})
    yield _query(
        "bursts",
        Look(("name",)),
        told=lambda gpu: {},
        said=(r"(which|GPU).*(order|column|index|inferred)",),
    )
    yield _query("words", Look(), blank=_words)
    yield _query("utf-16", Look(encoding="utf-16", newline="\r\n"))
    yield _query("bom", Look(encoding="utf-8-sig", newline="\r\n"))
    yield _query("100ms", Look(), interval=0.1, n=30, sampling_ms=100)
    yield _query(
        "fold",
        Look(zone=BERLIN),
        begin=FOLD - 5.75,
        options=("--timezone", "Europe/Berlin"),
        said=("clock|summer|hour|back",),
    )
    yield _cut(_query("utf-8", Look()), 2)
    yield _jetson()
    yield _reasons()
    bare = _query(
        "columns", Look(header=False), options=("--timezone", "UTC", "--columns", f"timestamp,index,{','.join(USUAL)}")
    )
    yield bare
    yield bare._replace(name="query-no-header", options=("--timezone", "UTC"), refused="--columns|header", cards=[])
    yield _digits()
    yield from _several()
    yield from _refused()
    yield from _kempnerpulse()


def _digits() -> Case:
    """A number with more digits than any sensor has, and one that is none; the rows around them are right."""
    case = _query("digits", Look(), n=6)
    lines = case.files["q.csv"].decode().splitlines()
    long, none = "9" * 42, "4711111111111111111111111e999"
    for number, text in ((3, long), (7, none)):
        cells = lines[number].split(", ")
        cells[5] = f"{text} W"
        lines[number] = ", ".join(cells)
        rows = case.cards[(number - 1) % 2].rows
        index = (number - 1) // 2
        values = {key: value for key, value in rows[index].values.items() if key != "power_usage"}
        if text == long:
            values["power_usage"] = float(text)
        rows[index] = rows[index]._replace(values=values, sure=False)
    return case._replace(files={"q.csv": "\n".join(lines).encode() + b"\n"})


def _several() -> Iterator[Case]:
    """Files of two nodes at one time; of two runs, one after the other; and one that was written by two loggers."""
    first, second = _query("first", Look()), _query("second", Look(), n=10, begin=BEGIN + 0.6)
    later = _query("later", Look(), n=10, begin=BEGIN + 86_400)
    data = {case.name: case.files["q.csv"] for case in (first, second, later)}
    nodes = [Card({"node": node, "device_index": gpu}, case.cards[gpu].rows)
             for node, case in (("n1", first), ("n2", second)) for gpu in (0, 1)]  # fmt: skip
    files = {"n1.csv": data["query-first"], "n2.csv": data["query-second"]}
    yield Case("query-nodes", files, nodes, first.options)
    files = {"monday.csv": data["query-first"], "tuesday.csv": data["query-later"]}
    yield Case("query-runs", files, [*first.cards, *later.cards], first.options)
    lines = data["query-first"].decode().splitlines(keepends=True)
    doubled = "".join(line * 2 if number else line for number, line in enumerate(lines)).encode()
    yield first._replace(name="query-doubled", files={"q.csv": doubled})
    beside = {
        "d/q.csv": data["query-first"],
        "d/notes.md": b"# What I saw\n",
        "d/._q.csv": b"\0\5\x16\7\0\2\0\0Mac OS X",
    }
    yield first._replace(name="query-folder", files=beside, given=("d",))


def _refused() -> Iterator[Case]:
    """Rows that come now alone, now in twos, of GPUs that nothing tells apart; and what people's own scripts write, one with
    times of ``date --iso-8601=ns``, which have a comma of their own."""
    case = _query("which", Look(("name",)))
    lines = case.files["q.csv"].decode().splitlines()
    data = "\n".join(line for number, line in enumerate(lines) if number not in (4, 9)).encode() + b"\n"
    yield case._replace(name="query-which-gpu", files={"q.csv": data}, refused="no column says which GPU", cards=[])
    lines = ["timestamp,utilization.gpu,power.draw"]
    rows = [
        Row(BEGIN + tick / 4 + 0.125, {"gpu_utilization": tick / 100, "power_usage": 60.5 + tick}) for tick in range(8)
    ]
    for row, fraction in zip(rows, ("125", "375", "625", "875") * 2, strict=True):
        when = datetime.fromtimestamp(row.time, UTC)
        busy = round(row.values["gpu_utilization"] * 100)
        lines.append(f"{when:%Y-%m-%dT%H:%M:%S},{fraction}000000+00:00,{busy},{row.values['power_usage']}")
    data = "\n".join(lines).encode() + b"\n"
    yield Case("query-iso", {"iso.csv": data}, [Card({}, rows)], refused="iso.csv")
    own = b"timestamp,GPU0,GPU1\n1763828881,10,20\n1763828882,11,21\n"
    yield Case("query-own-script", {"own.csv": own}, [], refused="own.csv")
