"""Names that are not there: what may have been meant is said, and what is plainly a slip is not waited for."""

import os
from pathlib import Path

import pytest

from gssr.cli import main
from gssr.commands.inputs import not_yet, own_recordings, wrong_name
from gssr.metrics import BY_NAME as CATALOGUE
from gssr.metrics import NAMES
from gssr.recognise import is_recording, meant, recordings_beside
from gssr.spelling import meant as named
from gssr.spelling import similar
from gssr.store.write.writer import Writer

T0 = 1_700_000_000.0


def _record(path: Path, age: float) -> None:
    """A recording that was written ``age`` s ago."""
    writer = Writer(str(path))
    writer.begin({"run_id": "r", "started_at": T0, "sampling_ms": 500, "state": "completed"}, {"rank": 0, "node": "n"})
    writer.add_gpus([{"device_index": 0, "uuid": "GPU-0"}], ("sm_active",), 0.5)
    writer.add([(0, T0 + at / 2, *[0.5] * len(NAMES)) for at in range(10)])
    assert writer.finish(T0 + 5, 0, "completed", T0 + 5)
    os.utime(path, (path.stat().st_mtime - age,) * 2)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """``training.sql``, the newest recording; ``run1.sql``; ``gssr_7.sql``, the oldest one; and what is none."""
    for name, age in (("training.sql", 10.0), ("run1.sql", 20.0), ("gssr_7.sql", 30.0)):
        _record(tmp_path / name, age)
    (tmp_path / "trainings.sql").write_text("not a recording")
    (tmp_path / "shards.sql.d").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("word", "found"),
    [
        ("profle", ["profile"]), ("anaylze", ["analyze"]), ("tui", []), ("tiu", ["tui"]), ("ANALYSE", ["analyze"]),
        ("x", []), ("nothing", []),
    ],
)  # fmt: skip
def test_a_slip_is_recognised(word: str, found: list[str]) -> None:
    assert similar(word, ("profile", "tui", "analyze", "compare")) == found


@pytest.mark.parametrize(
    ("word", "found"),
    [
        ("sm_activ", ["sm_active"]), ("tensr_active", ["tensor_active"]), ("gpu_utilisation", ["gpu_utilization"]),
        ("pcie_tx_byte", ["pcie_tx_bytes", "pcie_rx_bytes"]), ("fp_active", ["fp64_active", "fp32_active", "fp16_active"]),
        ("dram", ["dram_active"]), ("sm", ["sm_active", "sm_occupancy", "sm_clock"]), ("", []),
    ],
)  # fmt: skip
def test_the_most_alike_is_said_first_and_what_is_equally_alike_in_the_order_of_the_catalogue(
    word: str, found: list[str]
) -> None:
    assert named(word, CATALOGUE) == found


def test_the_dashes_of_options_make_none_alike() -> None:
    assert similar("--sampling", ("--png", "--sampling-time", "--linger")) == ["--sampling-time"]
    assert similar("--outliers", ("--linger", "--offset")) == []


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("line", "code", "said"),
    [
        (("profle", "--", "true"), 2, "'profle' is no command, and no file; did you mean profile?"),
        (("--versoin",), 2, "'--versoin' is no option; did you mean --version?"),
        (("trainin.sql",), 2, "did you mean training.sql?"),
        (("nothing.sql",), 2, "'nothing.sql' is no command, and no file (see gssr --help)"),
        (("analyze", "--jsn", "training.sql"), 2, "unknown argument '--jsn'; did you mean --json?"),
        (("profile", "--backnd=x", "--", "true"), 2, "did you mean --backend?"),
        (("analyze", "trainin.sql"), 1, "trainin.sql: no such file; did you mean training.sql?"),
        (("compare", "trainin.sql", "run1.sql"), 1, "trainin.sql: no such file; did you mean training.sql?"),
        (("export", "../x/trainin.sql"), 1, "trainin.sql: no such file\n"),
        (("merge", "trainin.sql"), 1, "nor trainin.sql.d; did you mean training.sql?"),
    ],
)
def test_what_may_have_been_meant_is_said(
    capsys: pytest.CaptureFixture[str], line: tuple[str, ...], code: int, said: str
) -> None:
    try:
        found = main(line)
    except SystemExit as leaving:
        found = int(leaving.code or 0)
    told = capsys.readouterr()
    assert (found, told.out) == (code, "")
    assert said in told.err and told.err.count("\n") == 1


def test_without_a_command_the_help_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    told = capsys.readouterr()
    assert "usage: gssr" in told.err and "profile" in told.err and not told.out


@pytest.mark.usefixtures("folder")
def test_a_file_alone_is_a_page_where_nobody_watches(capsys: pytest.CaptureFixture[str]) -> None:
    main(["analyze", "training.sql"])
    page = capsys.readouterr()
    main(["training.sql"])
    assert capsys.readouterr() == page


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("training.sql", ""), ("later.sql", ""), ("trainin.sql", "no such file; did you mean training.sql?"),
        ("run2.sql", ""), ("runs1.sql", "did you mean run1.sql?"), ("no/such/x.sql", "there is no folder no/such"),
        ("https://example.org/run.sql", "is an address, not a file"), ("S3://bucket/run.sql", "is an address"),
        ("trainings1.sql", "did you mean training.sql?"), ("shards.sql", ""),
    ],
)  # fmt: skip
def test_what_can_be_waited_for_and_what_is_a_slip(name: str, wrong: str) -> None:
    found = wrong_name(name, wait=False)
    assert (wrong in found and found.startswith(f"{name}: ")) if wrong else not found
    waited = wrong_name(name, wait=True)
    assert waited == (found if "folder" in wrong or "address" in wrong else "")


def test_recordings_are_told_by_their_content_and_the_newest_is_opened(folder: Path) -> None:
    assert recordings_beside("") == ["training.sql", "run1.sql", "gssr_7.sql"]
    assert own_recordings() == ["training.sql"]
    assert meant("trainin.sql") == ["training.sql"] and meant("nowhere/trainin.sql") == []
    assert not is_recording("shards.sql.d") and not is_recording("trainings.sql") and not is_recording("none")
    _record(folder / "shards.sql.d" / "n.0.r.sql", 0.0)
    assert recordings_beside("")[0] == "shards.sql" and own_recordings() == ["shards.sql"]
    os.mkfifo(folder / "pipe.sql")
    assert "pipe.sql" not in recordings_beside("")


@pytest.mark.usefixtures("folder")
def test_who_waits_is_told_what_else_there_is(tmp_path: Path) -> None:
    assert not_yet("training.sql") == ""
    assert not_yet("later.sql") == "not there yet; here are training.sql, run1.sql, gssr_7.sql"
    (tmp_path / "empty").mkdir()
    assert not_yet("empty/later.sql") == "not there yet; here is no recording"
