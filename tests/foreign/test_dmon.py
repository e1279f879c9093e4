"""The text of dcgmi dmon and nvidia-smi dmon, against reading the same text line by line."""

import errno
import random
from datetime import UTC, datetime

import numpy as np
import pytest

from gssr.foreign.dmon import read
from gssr.foreign.names import DCGMI_DMON
from gssr.foreign.series import ByteSource, ForeignError, ForeignGpu, ImportHints
from tests.foreign.texts import IN_UTC, WRITTEN, Taken, cut

COLUMNS = ("GPUTL", "SMACT", "XXXXX", "PCITX", "POWER", "TOTEC", "FBUSD")
WIDTHS = (18, 13, 13, 28, 18, 24, 18)


def written(fields: list[str]) -> str:
    """A line as dcgmi dmon writes it."""
    return fields[0].ljust(10) + "".join(map(str.ljust, fields[1:], WIDTHS))


def dcgm_log(rng: random.Random, ticks: int, gpus: int, front: str = "") -> tuple[str, list[list[str]]]:
    """A log, its header every 15 ticks, and its rows."""
    lines, rows = [], []
    for tick in range(ticks):
        if tick % 15 == 0:
            lines += [written(["#Entity", *COLUMNS]), written(["ID", "", "", "", "", "W", "mJ", ""])]
        for gpu in range(gpus):
            values = [
                str(rng.randrange(101)),
                f"{rng.random():.3f}",
                "7",
                str(rng.randrange(10**11)),
                f"{rng.uniform(20, 700):.3f}",
                str(rng.randrange(10**12)),
                str(rng.randrange(81559)),
            ]
            values = [rng.choice(("N/A", "")) if rng.random() < 0.1 else value for value in values]
            if any(values):
                rows.append([str(tick), str(gpu), *values])
                lines.append(written([f"GPU {gpu}", *values]))
    return "".join(f"{front}{line.rstrip()}\n" for line in lines), rows


def expected(rows: list[list[str]], column: str) -> np.ndarray:
    cells = [row[2 + COLUMNS.index(column)] for row in rows]
    return (
        np.array([float("nan") if cell in ("", "N/A") else float(cell) for cell in cells]) * DCGMI_DMON[column].factor
    )


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_every_value_of_dcgmi_dmon_is_where_and_what_the_text_says(end: str) -> None:
    text, rows = dcgm_log(random.Random(5), 70, 3)
    taken = Taken(read, text.replace("\n", end).encode())
    assert taken.gpu.tolist() == [int(row[1]) for row in rows]
    assert taken.series.kind == "dcgmi-dmon" and taken.series.gpus == [ForeignGpu(device_index=gpu) for gpu in range(3)]
    for column in COLUMNS:
        if column in DCGMI_DMON:
            got = taken.values[DCGMI_DMON[column].name]
            assert np.array_equal(got, expected(rows, column), equal_nan=True), column
    ticks = np.array([int(row[0]) for row in rows], float)
    assert np.array_equal(taken.time, WRITTEN + ticks - ticks[-1]) and taken.series.sampling_seconds == 1.0
    assert "the file says no times" in taken.notes and "left out: XXXXX" in taken.notes
    for size in (1 << 9, 1013):
        assert Taken(read, cut(text.replace("\n", end).encode(), size)).same_as(taken)


@pytest.mark.parametrize("lost", [0, 1, 2])
@pytest.mark.parametrize("size", [200, 1 << 20])
def test_a_gpu_without_rows_for_a_while_moves_no_others(lost: int, size: int) -> None:
    rows = [(tick, gpu) for tick in range(20) for gpu in (0, 2, 1) if gpu != lost or tick not in (4, 5, 6, 11)]
    text = "#Entity   SMACT\n" + "".join(f"GPU {gpu}     0.5\n" for _, gpu in rows)
    assert Taken(read, text.encode(), ImportHints(start=0.0), size).time.tolist() == [tick for tick, _ in rows]


def test_start_and_interval_are_taken_where_the_file_says_no_times() -> None:
    text, rows = dcgm_log(random.Random(6), 40, 2)
    taken = Taken(read, text.encode(), ImportHints(start=1e9, interval=0.1))
    assert np.allclose(taken.time, 1e9 + 0.1 * np.array([int(row[0]) for row in rows]), rtol=0, atol=1e-6)
    assert taken.series.sampling_seconds == 0.1 and "no times" not in taken.notes


@pytest.mark.parametrize(
    ("front", "first"),
    [
        ("2025-11-22 16:28:01 ", datetime(2025, 11, 22, 16, 28, 1, tzinfo=UTC)),
        ("[2025-11-22 16:28:01.250] ", datetime(2025, 11, 22, 16, 28, 1, 250_000, tzinfo=UTC)),
        ("host-17 ", None),
        ("Nov 22 16:28:01 ", datetime(2025, 11, 22, 16, 28, 1, tzinfo=UTC)),
        ("Dec 30 16:28:01 ", datetime(2024, 12, 30, 16, 28, 1, tzinfo=UTC)),
        ("1763828881.5 ", datetime.fromtimestamp(1763828881.5, UTC)),
        ("[1763828881] ", datetime.fromtimestamp(1763828881, UTC)),
        ("2025-11-22T16:28:01+0100 ", datetime(2025, 11, 22, 15, 28, 1, tzinfo=UTC)),
    ],
)
def test_a_time_in_front_is_taken(front: str, first: datetime | None) -> None:
    text, rows = dcgm_log(random.Random(7), 1, 3, front)
    if first is None:
        with pytest.raises(ForeignError, match="words before its rows that are no times"):
            Taken(read, text.encode())
        return
    taken = Taken(read, text.encode())
    assert taken.time.tolist() == [first.timestamp()] * len(rows) and taken.series.sampling_seconds is None
    assert np.array_equal(taken.values["power_usage"], expected(rows, "POWER"), equal_nan=True)


def test_instances_links_and_other_entities() -> None:
    head = "#Entity   SMACT        FBTTL        FBFRE\nID\n"
    rows = (
        "GPU 0     0.500        81559        100\nGPU-I 3   0.900\nGPU-CI 2  0.7\nGPU 0 LINK 3  5  6  7\nCPU 0     1\n"
    )
    taken = Taken(read, (head + rows * 2 + "dmon was stopped due to receiving a signal\nGPU 0     0.1").encode())
    assert taken.series.gpus == [ForeignGpu(device_index=0, memory_total=81559 << 20), ForeignGpu(mig="GPU-I 3")]
    assert taken.gpu.tolist() == [0, 1, 0, 1] and taken.values["sm_active"].tolist() == [0.5, 0.9, 0.5, 0.9]
    for text in ("MIG instances", "left out: GPU-CI", "left out: LINK", "left out: CPU", "last line has no end"):
        assert text in taken.notes
    assert "neither" not in taken.notes


def test_a_total_that_is_not_given_is_the_sum_of_its_parts() -> None:
    head = b"#Entity   FBFRE        FBUSD        FBRSV\nID\n"
    text = head + b"GPU 0     N/A          N/A          N/A\nGPU 0     70000        11000        512\n"
    taken = Taken(read, text)
    assert taken.series.gpus[0].memory_total == 81512 << 20 and np.isnan(taken.values["memory_used"][0])


def test_what_does_not_stand_under_a_name_is_left_out() -> None:
    head = b"#Entity   SMACT        DRAMA        FBUSD\nID\n"
    good = b"GPU 0     0.500        0.400        7\n"
    for bad in (
        b"GPU 0     0.500      0.400\n",
        b"GPU 0     0.5 0.4 7 8\n",
        b"GPU x     0.1          0.2          3\n",
        b"what\n",
    ):
        taken = Taken(read, head + good + bad)
        assert len(taken.gpu) == 1 and "1 lines are neither rows" in taken.notes, bad


def test_a_new_header_has_columns_of_its_own() -> None:
    one = b"#Entity   SMACT\nID\nGPU 0     0.500\n"
    two = b"#Entity   POWER        SMACT\nID        W\nGPU 0     300.5        0.250\n"
    taken = Taken(read, one + two + one)
    assert taken.values["sm_active"].tolist() == [0.5, 0.25, 0.5] and taken.values["power_usage"][1] == 300.5
    assert np.isnan(taken.values["power_usage"][[0, 2]]).all()


def test_blanks_of_dcgm_are_unknown() -> None:
    rows = "".join(f"GPU 0     {value}\n" for value in (5, 2147483632, 9223372036854775794, 0))
    assert np.array_equal(
        Taken(read, f"#Entity   PCITX\n{rows}".encode()).values["pcie_tx_bytes"], [5, np.nan, np.nan, 0], True
    )


SMI = """#Date       Time        gpu    pwr     sm    mem     fb  rxpci   pclk   what
#YYYYMMDD   HH:MM:SS    Idx      W      %      %     MB   MB/s    MHz      %
"""


def test_nvidia_smi_dmon_with_dates_is_read_by_its_own_units() -> None:
    rows = [
        (second, gpu, 100 + gpu, second, gpu, 7 * gpu, 3, "-" if gpu else "1410")
        for second in range(50)
        for gpu in (0, 1)
    ]
    text = SMI + "".join(
        f" 20240104   13:54:{s:02}      {g}    {p}     {sm}    {m}     {fb}  {rx}   {clock}   5\n"
        for s, g, p, sm, m, fb, rx, clock in rows
    )
    taken = Taken(read, text.encode(), IN_UTC)
    first = datetime(2024, 1, 4, 13, 54, tzinfo=UTC).timestamp()
    assert taken.series.kind == "nvidia-smi-dmon" and taken.time.tolist() == [first + row[0] for row in rows]
    assert np.allclose(taken.values["gpu_utilization"], [row[3] / 100 for row in rows], rtol=1e-12)
    assert taken.values["memory_used"].tolist() == [row[5] * 2**20 for row in rows]
    assert set(taken.values["pcie_rx_bytes"]) == {3e6} and np.isnan(taken.values["sm_clock"][1::2]).all()
    assert "left out: what" in taken.notes and Taken(read, text.encode(), size=333).same_as(taken)


def test_times_without_a_date_end_when_the_file_was_written_and_pass_midnight() -> None:
    head = "#Time        gpu    pwr\n#HH:MM:SS    Idx      W\n"
    rows = "".join(f" {t}      0    {p}\n" for p, t in enumerate(["23:59:58", "23:59:59", "00:00:00", "00:00:01"]))
    taken = Taken(read, (head + rows).encode())
    day = datetime.fromtimestamp(WRITTEN, UTC).replace(hour=0, minute=0, second=0).timestamp()
    assert taken.time.tolist() == [day - 2, day - 1, day, day + 1] and "says no dates" in taken.notes
    told = ImportHints(start=datetime(2024, 5, 1, 23, tzinfo=UTC).timestamp(), timezone=UTC)
    assert Taken(read, (head + rows).encode(), told).time[0] == datetime(2024, 5, 1, 23, 59, 58, tzinfo=UTC).timestamp()


def test_a_log_that_grows_goes_on_where_it_was() -> None:
    text, _ = dcgm_log(random.Random(8), 30, 2)
    whole = Taken(read, text.encode(), ImportHints(start=5e8))
    lines = text.encode().splitlines(keepends=True)
    growing = [b"", lines[0], b"", lines[1] + lines[2][:5], b"", lines[2][5:], b"", *lines[3:], b"", b""]
    taken = Taken(read, growing, ImportHints(start=5e8))
    assert taken.same_as(whole) and taken.n_pieces > 20
    now = Taken(read, growing)
    assert now.time[0] == WRITTEN and np.array_equal(np.diff(now.time), np.diff(whole.time))


def test_rows_whose_time_is_not_known_yet_may_be_more_than_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    text, _ = dcgm_log(random.Random(9), 60, 2)
    whole = Taken(read, text.encode(), size=700)
    monkeypatch.setattr("gssr.foreign.times._IN_MEMORY", 1000)
    assert Taken(read, text.encode(), size=700).same_as(whole)


def test_a_header_and_times_may_be_odd() -> None:
    taken = Taken(read, b"#  Entity SMACT\nGPU 0     0.5\n")
    assert taken.values["sm_active"].tolist() == [0.5]
    text = "# gpu    pwr\n" + "".join(f"2025-11-22 16:28:0{n}.{'1' * 400 * n} 0      1\n" for n in (1, 0))
    with pytest.raises(ForeignError, match="no rows of GPUs"):
        Taken(read, text.encode())


def test_no_room_for_rows_whose_time_is_not_known_yet_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(**_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("gssr.foreign.times.tempfile.SpooledTemporaryFile", full)
    with pytest.raises(ForeignError, match=r"^log: .*No space left on device \(give --start"):
        Taken(read, b"#Entity   SMACT\nGPU 0     0.5\n")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"", "no header"),
        (b"nothing\nof this\n", "no header"),
        (b"#Entity   SMACT\nID\n", "no rows of GPUs"),
        (b"#Entity   WHAT\nID\nGPU 0     1\n", "left out: WHAT"),
        (b"#Entity   SMACT\nnode1: GPU 0     0.5\n", "no times"),
        (b"#Entity   SMACT\n" + b"".join(b"GPU %d     1\n" % n for n in range(5000)), ""),
    ],
)
def test_what_can_not_be_read_is_one_sentence(text: bytes, said: str) -> None:
    if not said:
        assert len(Taken(read, text).series.gpus) == 4096
        return
    with pytest.raises(ForeignError, match=f"^log: .*{said}"):
        list(read(ByteSource("log", iter([text]), WRITTEN), IN_UTC).pieces)
