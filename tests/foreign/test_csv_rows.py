"""The CSV of nvidia-smi --query-gpu and of kempnerpulse, against reading the same text line by line."""

import csv
import random
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from gssr.foreign.csv_rows import read
from gssr.foreign.names import KEMPNERPULSE, QUERY
from gssr.foreign.series import ByteSource, ForeignError, ImportHints
from tests.foreign.texts import IN_UTC, WRITTEN, Taken

HEAD = (
    "timestamp, index, uuid, name, utilization.gpu [%], memory.used [MiB], memory.total [MiB], power.draw [W], "
    "clocks.sm [MHz], clocks_throttle_reasons.active, driver_version, encoder.stats\n"
)
BEGIN = datetime(2024, 11, 23, 12, 23, 29, 950_000)


def stamp(at: datetime) -> str:
    return f"{at:%Y/%m/%d %H:%M:%S}.{at.microsecond // 1000:03}"


def log(rng: random.Random, looks: int, gpus: int, units: bool = True) -> str:
    """As nvidia-smi writes it; ``units`` False: with nounits."""
    lines = [HEAD if units else ", ".join(name.partition(" [")[0] for name in HEAD.split(", "))]
    for look in range(looks):
        for gpu in range(gpus):
            values = [
                f"{rng.randrange(101)} %", f"{rng.randrange(81559)} MiB", "81559 MiB", f"{rng.uniform(60, 700):.2f} W",
                f"{rng.randrange(300, 1980)} MHz", f"0x{rng.randrange(512):016x}",
            ]  # fmt: skip
            values = [rng.choice(("[N/A]", "N/A", "[Not Supported]")) if rng.random() < 0.05 else v for v in values]
            if not units:
                values = [value.split(" ")[0] if value[0].isdigit() else value for value in values]
            at = BEGIN + look * timedelta(seconds=1, milliseconds=4) + timedelta(milliseconds=gpu)
            cells = [stamp(at), str(gpu), f"GPU-{gpu:036x}", "NVIDIA H100 80GB HBM3", *values, "550.54.15", "0"]
            lines.append(", ".join(cells) + "\n")
    return "".join(lines)


def plain(text: str) -> list[dict[str, str]]:
    rows = list(csv.reader(text.splitlines(), skipinitialspace=True))
    names = [name.partition(" [")[0] for name in rows[0]]
    return [dict(zip(names, row, strict=True)) for row in rows[1:]]


def number(cell: str, factor: float) -> float:
    word = cell.split(" ")[0]
    if not word[:1].isdigit():
        return float("nan")
    return (int(word, 16) if word.startswith("0x") else float(word)) * factor


@pytest.mark.parametrize("units", [True, False])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_every_value_time_and_gpu_is_what_the_text_says(units: bool, end: str) -> None:
    text = log(random.Random(3), 60, 3, units)
    rows = plain(text)
    taken = Taken(read, text.replace("\n", end).encode())
    assert taken.gpu.tolist() == [int(row["index"]) for row in rows]
    times = [datetime.strptime(row["timestamp"] + "+0000", "%Y/%m/%d %H:%M:%S.%f%z").timestamp() for row in rows]
    assert taken.time.tolist() == times and taken.series.kind == "nvidia-smi-query"
    for name in ("utilization.gpu", "memory.used", "power.draw", "clocks.sm", "clocks_throttle_reasons.active"):
        want = [number(row[name], QUERY[name].factor) for row in rows]
        assert np.array_equal(taken.values[QUERY[name].name], want, equal_nan=True), name
    assert [(gpu.device_index, gpu.uuid, gpu.memory_total) for gpu in taken.series.gpus] == [
        (gpu, f"GPU-{gpu:036x}", 81559 << 20) for gpu in range(3)
    ]
    assert taken.series.gpus[0].name == "NVIDIA H100 80GB HBM3" and taken.series.gpus[0].driver_version == "550.54.15"
    assert taken.notes == "columns that are no metrics here are left out: encoder.stats"
    for size in (512, 1013):
        assert Taken(read, text.replace("\n", end).encode(), size=size).same_as(taken)


def lines_at(times: list[str]) -> bytes:
    rows = (f"{time}, 0, {n}.50 W" for n, time in enumerate(times))
    return "\n".join(["timestamp, index, power.draw [W]", *rows, ""]).encode()


def test_a_local_time_is_of_the_zone_that_is_told() -> None:
    zurich = ZoneInfo("Europe/Zurich")
    for text in (
        "2024/07/01 12:00:00.000",
        "2024/12/01 12:00:00.000",
        "12-01-2024 12:00:00",
        "2024/03/31 02:30:00.000",
    ):
        form = "%m-%d-%Y %H:%M:%S" if text[2] == "-" else "%Y/%m/%d %H:%M:%S.%f"
        taken = Taken(read, lines_at([text]), ImportHints(timezone=zurich))
        assert taken.time.tolist() == [datetime.strptime(text, form).replace(tzinfo=zurich).timestamp()]


def test_that_this_machines_zone_is_taken_is_said() -> None:
    text = lines_at(["2024/07/01 12:00:00.000"])
    assert "no time zone: this machine's is taken" in Taken(read, text, ImportHints()).notes
    assert not Taken(read, text, IN_UTC).notes


@pytest.mark.parametrize("size", [60, 1 << 20])
def test_the_hour_that_comes_twice_is_said_and_not_sorted(size: int) -> None:
    zurich = ZoneInfo("Europe/Zurich")
    first = datetime(2024, 10, 27, 0, 20, tzinfo=UTC)
    true = [(first + timedelta(minutes=10 * n)).timestamp() for n in range(14)]
    text = lines_at([f"{datetime.fromtimestamp(at, zurich):%Y/%m/%d %H:%M:%S}.000" for at in true])
    taken = Taken(read, text, ImportHints(timezone=zurich), size)
    assert taken.time.tolist() == true and taken.values["power_usage"].tolist() == [n + 0.5 for n in range(14)]
    (note,) = taken.series.notes
    assert note.time == datetime(2024, 10, 27, 1, tzinfo=UTC).timestamp() and "set back" in note.text
    other = Taken(read, text, IN_UTC, size)
    assert len(other.time) == 8 and "5 rows lie before rows above them, and are left out" in other.notes
    assert "1 rows have the time of an earlier row" in other.notes


@pytest.mark.parametrize(("begin", "said"), [(0, True), (50, True), (-50, False), (120, False)])
def test_that_nothing_shows_which_of_the_two_hours_it_was_is_said(begin: int, said: bool) -> None:
    zurich = ZoneInfo("Europe/Zurich")
    times = [datetime(2024, 10, 27, 2, tzinfo=zurich) + timedelta(minutes=begin + 4 * n) for n in range(10)]
    taken = Taken(read, lines_at([f"{time:%Y/%m/%d %H:%M:%S}.000" for time in times]), ImportHints(timezone=zurich))
    assert taken.time.tolist() == [time.timestamp() for time in times]
    assert ("of an hour that comes twice the first is taken" in taken.notes) is said


def test_a_clock_that_steps_a_little_back_moves_no_row_far() -> None:
    taken = Taken(read, lines_at([f"2024/11/23 12:00:0{second}" for second in ("1.000", "2.000", "1.900", "2.100")]))
    assert (taken.time % 60).round(3).tolist() == [
        1.0,
        2.0,
        2.1,
    ] and "1 rows have the time of an earlier" in taken.notes


def test_the_same_gpu_twice_at_a_time_is_taken_once() -> None:
    times = ["2024/11/23 12:00:01.000", "2024/11/23 12:00:01.000", "2024/11/23 12:00:02.000"]
    taken = Taken(read, lines_at(times))
    assert (
        taken.values["power_usage"].tolist() == [0.5, 2.5] and "1 rows have the time of an earlier row" in taken.notes
    )


def test_headers_in_the_middle_and_columns_that_change() -> None:
    one = "timestamp, index, power.draw [W]\n2024/11/23 12:00:01.000, 0, 5.50 W\n"
    two = "index, timestamp, temperature.gpu, power.draw\n0, 2024/11/23 12:00:02.000, 41, 6.5\n\n"
    taken = Taken(read, ("noise\n" + one + two + one.replace(":01.", ":03.") + "2024/11/23 12:0").encode())
    assert taken.values["power_usage"].tolist() == [5.5, 6.5, 5.5]
    assert np.array_equal(taken.values["temperature"], [np.nan, 41, np.nan], equal_nan=True)
    assert "1 lines are neither rows" in taken.notes and "last line has no end" in taken.notes


def test_lines_before_the_header_are_left_out() -> None:
    taken = Taken(read, b"Mon Nov 23 2024: started, by cron\n\n" + lines_at(["2024/11/23 12:00:01.000"]))
    assert len(taken.time) == 1 and "1 lines are neither rows of GPUs nor headers" in taken.notes


def test_names_of_columns_may_be_told() -> None:
    row = b"2024/11/23 12:00:01.000, 1, 93 %\n"
    with pytest.raises(ForeignError, match=r"^log: its columns have no names: say them with --columns$"):
        Taken(read, row)
    taken = Taken(read, row, IN_UTC._replace(columns=("timestamp", "index", "utilization.gpu")))
    assert taken.values["gpu_utilization"].tolist() == [93 * 0.01]
    assert taken.series.gpus[0].device_index == 1


NO_ID = "timestamp, name, power.draw [W]\n"


def looks(gpus: list[str], times: list[list[str]]) -> bytes:
    rows = [
        f"2024/11/23 12:00:{second}, {name}, {n}.00 W\n"
        for look in times
        for n, (name, second) in enumerate(zip(gpus, look, strict=False))
    ]
    return (NO_ID + "".join(rows)).encode()


@pytest.mark.parametrize("column", ["host", "hostname", "node"])
def test_gpus_of_the_same_number_on_nodes_that_a_column_names_are_told_apart(column: str) -> None:
    rows = [(second, node, gpu) for second in range(9) for node in ("n2", "n1") for gpu in range(2)]
    text = f"timestamp, {column}, index, utilization.gpu [%]\n" + "".join(
        f"2024/11/23 12:23:{second:02}.000, {node}, {gpu}, {10 * second + 2 * gpu + (node == 'n1')} %\n"
        for second, node, gpu in rows
    )
    for size in (100, 1 << 20):
        taken = Taken(read, text.encode(), size=size)
        known = [(gpu.node, gpu.device_index) for gpu in taken.series.gpus]
        assert known == [("n2", 0), ("n2", 1), ("n1", 0), ("n1", 1)]
        assert taken.gpu.tolist() == [0, 1, 2, 3] * 9 and not taken.notes
        want = [(10 * second + 2 * gpu + (node == "n1")) / 100 for second, node, gpu in rows]
        assert taken.values["gpu_utilization"].tolist() == pytest.approx(want)


def test_gpus_that_no_column_names_are_told_apart_by_what_is_written_together() -> None:
    text = looks(["A", "A", "A"], [[f"{second:02}.95{gpu}" for gpu in range(3)] for second in range(9)])
    taken = Taken(read, text)
    assert taken.gpu.tolist() == [0, 1, 2] * 9 and taken.values["power_usage"].tolist() == [0, 1, 2] * 9
    assert "no column says which GPU" in taken.notes and taken.series.gpus[2].device_index is None
    assert Taken(read, text, size=75).same_as(taken)
    assert Taken(read, text.rpartition(b"2024")[0]).gpu.tolist() == [*[0, 1, 2] * 8, 0, 1]  # cut between its lines
    alone = Taken(read, looks(["A"], [[f"{second:02}.950"] for second in range(9)]))
    assert len(alone.series.gpus) == 1 and "no column" not in alone.notes
    by_name = Taken(read, looks(["A", "B"], [[f"{second:02}"] * 2 for second in range(9)]))
    assert by_name.gpu.tolist() == [0, 1] * 9 and by_name.series.gpus[1].name == "B"


@pytest.mark.parametrize(
    "text",
    [
        looks(["A", "A"], [["01.950", "01.951"], ["02.950", "02.951"], ["03.950"], ["04.950", "04.951"]]),
        looks(["A"] * 3, [["01.950", "01.951"], ["02.950", "02.951", "02.952"]]),
        looks(["A", "B"], [["01.950", "01.951"]]) + looks(["B", "A"], [["02.950", "02.951"]]).partition(b"\n")[2],
        looks(["A", "A"], [["01", "01"], ["02", "02"]]),
        b"name, power.draw [W]\nA, 5.00 W\nA, 5.00 W\n",
        b"timestamp, host, power.draw [W]\n"
        + b"".join(b"2024/11/23 12:23:0%d.950, n%d, 5.00 W\n" % (n // 2, n % 2) for n in range(8)),
    ],
)
@pytest.mark.parametrize("size", [75, 1 << 20])
def test_gpus_that_can_not_be_told_apart_are_refused(text: bytes, size: int) -> None:
    with pytest.raises(ForeignError, match=r"^log: no column says which GPU a row is of"):
        Taken(read, text, size=size)


def test_without_times_a_look_ends_where_a_gpu_comes_again() -> None:
    rows = "".join(f"{gpu}, {n} %\n" for n in range(5) for gpu in (0, 2))
    taken = Taken(read, ("index, utilization.gpu [%]\n" + rows).encode(), ImportHints(interval=2.0))
    assert taken.time.tolist() == [WRITTEN - 8 + 2 * n for n in range(5) for _ in (0, 1)]
    assert [gpu.device_index for gpu in taken.series.gpus] == [0, 2] and "says no times" in taken.notes


def test_what_is_no_number_is_unknown_and_said() -> None:
    cells = [
        "1.5 W",
        "[Unknown Error]",
        "ERR!",
        "",
        "-",
        "abc W",
        "1.2.3 W",
        "12e W",
        "0x W",
        "5 kW",
        "-3.25 W",
        "1e2 W",
        ".",
        "+7",
    ]
    text = "timestamp, index, power.draw [W]\n"
    text += "".join(f"2024/11/23 12:00:{n:02}.000, 0, {cell}\n" for n, cell in enumerate(cells))
    taken = Taken(read, text.encode())
    want = [1.5, *[np.nan] * 9, -3.25, 100.0, np.nan, 7.0]
    assert (
        np.array_equal(taken.values["power_usage"], want, equal_nan=True) and "6 values are no numbers" in taken.notes
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"", "no rows of GPUs"),
        (b"timestamp, index, what\n2024/11/23 12:00:01.000, 0, 5\n", "left out: what"),
        (b"timestamp, index, power.draw [W]\n", "no rows of GPUs"),
        (b"timestamp, index, power.draw [W]\nyesterday, 0, 5.00 W\n", "1 lines are neither"),
        (b"timestamp, index, power.draw [mW]\n2024/11/23 12:00:01.000, 0, 5 mW\n", r"left out: power.draw \[mW\]"),
        (b"timestamp,GPU0,GPU1\n1,2,3\n", "left out: GPU0, GPU1"),
        (b"2024/11/23 12:00:01.000, 0, 5 W\n", "say them with --columns"),
    ],
)
def test_what_can_not_be_read_is_one_sentence(text: bytes, said: str) -> None:
    with pytest.raises(ForeignError, match=f"^log: .*{said}"):
        list(read(ByteSource("log", iter([text]), WRITTEN), IN_UTC).pieces)


PULSE = (
    "timestamp,gpu_id,model,real_util_pct,status,sm_active_pct,gpu_util_pct,mem_used_mib,mem_total_mib,power_w,"
    "pcie_rx_bytes_s,nvlink_gbps,energy_j,tc_hmma_pct\n"
)


def test_kempnerpulse_is_percent_and_its_seconds_are_unix() -> None:
    rng = random.Random(2)
    text = PULSE + "".join(
        f"{1743782400.12 + n // 2:.2f},{n % 2},H100,50.00,BUSY,{rng.uniform(0, 100):.2f},{rng.randrange(101)}.00,"
        f"{rng.randrange(80000)}.0000,81559.0,{'' if n % 5 == 0 else f'{rng.uniform(60, 700):.4f}'},"
        f"{rng.uniform(0, 1e11):.4f},1.5,{123456789.5 + n:.1f},{rng.uniform(0, 100):.2f}\n"
        for n in range(200)
    )
    taken = Taken(read, text.encode(), size=4000)
    rows = plain(text)
    assert taken.series.kind == "kempnerpulse" and taken.gpu.tolist() == [n % 2 for n in range(200)]
    assert taken.time.tolist() == [float(row["timestamp"]) for row in rows]
    for name, meant in KEMPNERPULSE.items():
        if name in rows[0] and meant.name in taken.values:
            want = [float(row[name] or "nan") * meant.factor for row in rows]
            assert np.allclose(taken.values[meant.name], want, rtol=1e-15, atol=0, equal_nan=True), name
    assert taken.series.gpus[1].name == "H100" and taken.series.gpus[1].memory_total == 81559 << 20
    assert taken.notes == "columns that are no metrics here are left out: nvlink_gbps"


def test_kempnerpulses_tensor_columns_are_percent_only_with_two_digits() -> None:
    text = b"timestamp,gpu_id,tc_hmma_pct\n1743782400.12,0,62.08\n1743782401.12,0,0.6208\n1743782402.12,0,\n"
    taken = Taken(read, text)
    want = [62.08 * 0.01, np.nan, np.nan]
    assert np.array_equal(taken.values["tensor_hmma_active"], want, equal_nan=True)
    assert taken.notes == "1 values are no numbers, or in no known unit, and are left out"
