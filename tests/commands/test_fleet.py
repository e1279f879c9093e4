"""``gssr fleet`` as an operator meets it: any folder, any width, damaged files among thousands."""

import csv
import io
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gssr.backends.synthetic.bulk import generate
from gssr.cli import main
from gssr.commands.fleet import since_of
from gssr.model.breakdown.categories import CATEGORIES, POSITIONS
from gssr.model.fleet.fleet import FleetRequest, read_fleet
from gssr.render.cells import cell_width, clean
from gssr.report.fleet import FleetPageOptions, fleet_page
from gssr.report.terminal import to_text

NOW = 1_700_000_000.0
HOSTILE = "=1+1\x1b[31m\n☃漢"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four runs of two users, a copy, and what can't be read; never to be changed."""
    place = tmp_path_factory.mktemp("site")
    for number, (user, job) in enumerate(
        (("ada", "train"), ("ada", "idle"), ("bob", "imbalanced"), (HOSTILE, "stencil"))
    ):
        path = place / str(number) / f"{job}.sql"
        path.parent.mkdir()
        generate(str(path), job, 4, 1 / 60, 0.5, number)
        with sqlite3.connect(path) as connection:
            words = json.dumps(["python", f"{job}.py"])
            connection.execute("UPDATE runs SET user = ?, job_id = ?, command = ?", (user, str(number), words))
    whole = (place / "0" / "train.sql").read_bytes()
    (place / "copy.sql").write_bytes(whole)
    (place / "cut.sql").write_bytes(whole[:20_000])
    (place / "script.sql").write_text("SELECT 1;")
    return place


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["fleet", *words]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    return captured.out


def test_a_run_without_a_label_is_known_by_its_job(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = tmp_path / "a.sql"
    copy.write_bytes((folder / "1" / "idle.sql").read_bytes())
    called = (
        ("mine", "4711", "given", "4711 +ada +mine"),
        (None, "4711", "given", "4711 +ada +given"),
        (None, "4711", None, "4711 +ada +idle.py"),
        (None, None, None, "idle.py +ada"),
    )
    for label, job_id, job_name, line in called:
        with sqlite3.connect(copy) as connection:
            connection.execute("UPDATE runs SET label = ?, job_id = ?, job_name = ?", (label, job_id, job_name))
        page = printed(capsys, str(copy), "--no-index", "--width", "72", "--ascii")
        assert re.search(f"^{line} ", page.partition("(1 - score)")[2], re.MULTILINE)


@pytest.mark.parametrize("width", ["20", "40", "80", "200"])
def test_a_jobs_number_is_never_cut_off(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], width: str
) -> None:
    """A task of an array goes by the number that squeue shows; the cluster is said where there are several."""
    for name, cluster, task in (("a", "a-cluster-with-a-long-name", "17"), ("b", "other", None)):
        copy = tmp_path / f"{name}.sql"
        copy.write_bytes((folder / "1" / "idle.sql").read_bytes())
        with sqlite3.connect(copy) as connection:
            words = ("x" * 60, "y" * 60, cluster, "28136099", "28136001" if task else None, task, f"run-{name}")
            columns = ("label", "user", "cluster", "job_id", "array_job_id", "array_task_id", "run_id")
            connection.execute(f"UPDATE runs SET {', '.join(f'{column} = ?' for column in columns)}", words)
            connection.execute("UPDATE gpus SET run_id = ?", words[-1:])
        for by in ([], ["--by", "job"]):
            page = printed(capsys, str(copy), "--no-index", "--width", width, *by)
            assert ("28136001_17" if task else "28136099") in page and cluster not in page
    page = printed(capsys, str(tmp_path), "--no-index", "--width", width, "--by", "job")
    assert width == "20" or ("28136001_17" in page and "28136099" in page)
    assert width != "200" or ("a-cluster-with-a-long-name/28136001_17" in page and "other/28136099" in page)
    page = printed(capsys, str(tmp_path), "--no-index", "--width", width, "--by", "array")
    assert width == "20" or "28136001" in page


def test_a_page_is_as_wide_as_columns_says_unless_told(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for columns, words, width in (("50", [], 50), ("50", ["--width", "90"], 90), ("", [], 80), ("9999", [], 400)):
        monkeypatch.setenv("COLUMNS", columns)
        page = printed(capsys, str(folder), *words)
        assert max(map(cell_width, page.splitlines()[:-1])) == width


def test_a_run_without_a_gpu_is_named_and_not_counted_as_without_a_score(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], fake_driver
) -> None:
    environ = fake_driver.environ(gpus=0) | {"DCGM_HOST": "127.0.0.1:1"}
    words = ["profile", "--no-summary", "-o", "a.sql", "--", "true"]
    subprocess.run([sys.executable, "-m", "gssr", *words], cwd=tmp_path, env=environ, check=True, timeout=60)
    page = "".join(printed(capsys, str(tmp_path), "--no-index").split())  # a path is broken anywhere
    assert "a.sql):noGPUwasrecorded;gssranalyzeshowswhy" in page and "noscore" not in page


def test_damaged_files_are_named_at_the_end_and_copies_count_once(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = printed(capsys, str(folder))
    assert "6 recordings, 4 runs, 3 users" in page
    end = page.partition("Notes")[2].replace("\n", "").replace(" ", "")
    assert "cut.sql:isdamaged" in end and "script.sql" not in end
    assert "otherfilesholdthesameruns" in end
    assert page.splitlines()[-1].startswith("GSSR fleet runs=4 gpu_hours=0.267 wasted=")
    assert page.splitlines()[-1].endswith(" unreadable=1")


@pytest.mark.parametrize(
    "words", [[], ["--by", "cause"], ["--by", "verdict"], ["--by", "node", "-n", "1"], ["--ascii"]]
)
@pytest.mark.parametrize("width", [20, 80, 130])
def test_no_line_is_wider_than_the_page_nor_does_a_name_steer_the_terminal(
    folder: Path, capsys: pytest.CaptureFixture[str], words: list[str], width: int
) -> None:
    page = printed(capsys, str(folder), "--width", str(width), *words)
    assert "\x1b" not in page and ("--ascii" not in words or page.isascii())
    assert max(cell_width(line) for line in page.splitlines()[:-1]) <= width


def test_the_page_answers_who_wastes_what_idles_and_what_is_uneven(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = printed(capsys, str(folder), "--width", "100")
    section = {
        part.partition(" ─")[0]: part.splitlines()[1:] for part in re.split("^── ", page, flags=re.MULTILINE)[1:]
    }
    assert section["By user"][1].split()[:2] == ["ada", "2"]
    assert [line.split()[0] for line in section["By command"][1:5]] == [
        "idle.py", "imbalanced.py", "stencil.py", "train.py",
    ]  # fmt: skip
    assert section["Which never used some of their GPUs?"][1].split()[:4] == ["1", "ada", "synthetic", "idle"]
    assert section["Which are badly balanced?"][1].split()[:4] == ["2", "bob", "synthetic", "imbalanced"]
    assert "Which nodes are slow?" not in section


def test_the_page_by_cause_adds_up_what_is_lost_and_names_the_codes(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    parts = json.loads(printed(capsys, str(folder), "--json", "--by", "cause"))["groups"]["cause"]
    assert {part["scored_gpu_hours"] for part in parts} == {None}
    lost = sum(part["wasted_gpu_hours"] for part in parts)
    wide, narrow = (printed(capsys, str(folder), "--by", "cause", "--width", width) for width in ("130", "60"))
    for page in (wide, narrow):
        assert re.search(rf"^lost +{lost:.3f} ", page, re.MULTILINE)
        assert re.search(r"^── Where do the GPU-hours go\? ─+ by lost ─$", page, re.MULTILINE)
    codes = re.findall(r"^([a-z_.]+)  +[A-Za-z]", wide.partition(" by lost ")[2], re.MULTILINE)
    assert codes[1:] == [part["key"] for part in parts if part["n_runs"] or round(part["gpu_hours"], 3)]
    assert "--width" not in wide
    (needed,) = re.findall(r"^--width ([0-9]+) shows the causes' codes, too$", narrow, re.MULTILINE)
    exact = printed(capsys, str(folder), "--by", "cause", "--width", needed)
    below = printed(capsys, str(folder), "--by", "cause", "--width", str(int(needed) - 1))
    assert all(f"\n{code} " in exact for code in codes) and not all(f"\n{code} " in below for code in codes)
    by_lost, by_wasted = (printed(capsys, str(folder), "--by", "cause", "--sort", sort) for sort in ("lost", "wasted"))
    assert by_lost == by_wasted


def test_a_cause_in_which_no_run_counts_is_not_on_the_page(folder: Path) -> None:
    found = read_fleet([str(folder / "0" / "train.sql")], FleetRequest(verdicts=True))
    (run,) = found.runs
    hours = [0.0] * len(CATEGORIES)
    hours[POSITIONS["working.other"]] = run.gpu_hours
    for name, own in (("idle.host", 1e-5), ("idle.copies", 0.01 * run.gpu_hours)):
        hours[POSITIONS[name]] = own
    few = found._replace(runs=(run._replace(hours_by_category=tuple(hours)),))
    page = to_text(fleet_page(["x"], few, FleetPageOptions("cause")), False, False)
    assert "waits for copies" in page and "waits for the CPU" not in page


def test_hours_without_a_score_are_told_as_finely_as_all_others(folder: Path) -> None:
    found = read_fleet([str(folder / "0" / "train.sql")])
    unscored = tuple(run._replace(score=None, wasted_gpu_hours=None) for run in found.runs)
    page = to_text(fleet_page(["x"], found._replace(runs=unscored), FleetPageOptions()), False, False)
    assert "GPU-hours  0.067" in page and "1 run of 0.067 GPU-hours: no score" in page


def test_rankings_can_be_sorted_cut_and_read_by_programs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = list(csv.DictReader(io.StringIO(printed_csv(capsys, str(folder), "--by", "user", "--sort", "name"))))
    assert [row["key"] for row in rows] == [f"'{clean(HOSTILE)}", "ada", "bob"]
    assert [row["n_runs"] for row in rows] == ["1", "2", "1"]
    runs = list(csv.DictReader(io.StringIO(printed_csv(capsys, str(folder)))))
    assert len(runs) == 4 and {row["program"] for row in runs} >= {"train.py", "idle.py"}
    found = json.loads(printed(capsys, str(folder), "--json", "--by", "verdict", "-n", "1"))
    assert list(found["groups"]) == ["verdict"] and len(found["groups"]["verdict"]) == 1
    assert found["runs"][1]["verdicts"][0] == "gpus_unused" and len(found["unreadable"]) == len(found["copies"]) == 1
    assert "── Most idle GPU-hours ─" in printed(capsys, str(folder), "--sort", "idle")
    whole = json.loads(printed(capsys, str(folder), "--json"))
    assert whole["runs"][0]["verdicts"] is None
    assert sum(group["gpu_hours"] for group in whole["groups"]["node"]) == pytest.approx(whole["totals"]["gpu_hours"])


def printed_csv(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["fleet", "--csv", *words]) == 0
    captured = capsys.readouterr()
    assert "cut.sql" in captured.err
    return captured.out


def test_runs_from_before_are_left_out(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    late = printed(capsys, str(folder), "--since", "30d")
    assert "6 recordings, 0 runs" in late and "not counted, as ended before --since: 4 runs; the last one ended" in late
    newest = max(run.ended for run in read_fleet(sorted(map(str, folder.rglob("*.sql")))).runs)
    assert datetime.fromtimestamp(newest, UTC).strftime("%Y-%m-%d %H:%M UTC") in " ".join(late.split())
    for more in ([], ["--index", str(folder / "index")], ["--index", str(folder / "index")]):
        assert main(["fleet", str(folder), "--since", "30d", "--json", *more]) == 0
        assert json.loads(capsys.readouterr().out)["n_earlier"] == 4
    assert "6 recordings, 4 runs" in printed(capsys, str(folder), "--since", "2023-11-14")


def test_a_run_that_began_before_and_ended_since_is_counted(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """So that a look each night has every run in one night at least, however long it took. All are from 22:20 to 22:21."""
    for more in (["--no-index"], ["--index", str(folder / "long-index")], ["--index", str(folder / "long-index")]):
        for since, n_runs in (("2023-11-14T22:20:30+00:00", 4), ("2023-11-14T22:21:30+00:00", 0)):
            assert main(["fleet", str(folder), "--since", since, "--json", *more]) == 0
            found = json.loads(capsys.readouterr().out)
            assert (len(found["runs"]), found["n_earlier"]) == (n_runs, 4 - n_runs)


def test_times_are_dates_or_so_long_ago() -> None:
    assert since_of("30d", NOW) == NOW - 30 * 86400
    assert since_of("1d12h", NOW) == NOW - 1.5 * 86400
    assert since_of("2023-11-14T00:00:00+00:00", NOW) == 1_699_920_000
    for text in ("", "soon", "-3d", "2023-13-01"):
        with pytest.raises(ValueError, match="neither a time ago"):
            since_of(text, NOW)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--by", "colour", "."], 2, "--by"),
        (["--since", "soon", "."], 2, "--since: 'soon' is neither"),
        (["-n", "0", "."], 2, "--most: 0 is not above 0"),
        (["--json", "--csv", "."], 2, "choose one"),
        (["--by", "causes", "."], 2, "no 'causes'; did you mean cause? Choose from user, "),
        (
            ["--by", "cause", "--sort", "idle", "."],
            2,
            "by cause, hours can be sorted by lost, wasted, hours, runs, name",
        ),
        (["--sort", "lost", "."], 2, "--sort lost: goes with --by cause; else one of wasted, idle, "),
        (["--width", "3", "."], 2, "--width"),
        (["nothing.sql"], 1, "nothing.sql: no such file"),
        (["."], 1, "no recording is there: looked for *.sql and *.sql.d\n"),
        (["--foreign", "."], 1, "looked for *.sql and *.sql.d and the files of other tools\n"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    code: int,
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    try:
        found = main(["fleet", *words])
    except SystemExit as end:
        found = end.code
    captured = capsys.readouterr()
    assert (found, captured.out) == (code, "") and said in captured.err and captured.err.count("\n") == 1


def test_a_pipe_that_closes_early_is_no_error(folder: Path) -> None:
    environ = dict(os.environ) | {"PYTHONPATH": str(Path(__file__).parents[2])}
    command = f"{sys.executable} -m gssr fleet {folder} | head -n 1"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, env=environ, timeout=60)
    assert (done.returncode, done.stderr) == (0, "") and done.stdout.startswith("GSSR fleet")


SACCT = "JobID|JobIDRaw|User|Account|State|Start|End|AllocTRES|JobName\n"


def test_what_was_allocated_and_not_recorded_is_on_the_page_and_in_the_json(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A job a minute longer at both ends than its only run, and one that was never recorded; of a file, of a CSV of it,
    and of what sacct prints, which the option's place among the folders does not change."""
    start, end = 1_700_000_400 - 60, 1_700_000_400 + 60 + 60
    rows = f"0|0|ada|g1|COMPLETED|{start}|{end}|gres/gpu=4|a name\n7|7|eve|g2|FAILED|{start}|{end}|gres/gpu=2|lost\n"
    (tmp_path / "sacct.txt").write_text(SACCT + rows)
    (tmp_path / "sacct.csv").write_text((SACCT + rows).replace("|", ","))
    (tmp_path / "sacct").write_text(
        f'#!/bin/sh\necho "$SLURM_TIME_FORMAT $*" >{tmp_path}/asked\ncat {tmp_path}/sacct.txt\n'
    )
    (tmp_path / "sacct").chmod(0o755)
    recording = str(folder / "0" / "train.sql")
    answers = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
        for words in (
            [recording, "--sacct", str(tmp_path / "sacct.txt")], [recording, f"--sacct={tmp_path / 'sacct.csv'}"],
            ["--sacct", recording], [recording, "--sacct"],
        ):  # fmt: skip
            found = json.loads(printed(capsys, *words, "--no-index", "--json"))
            answers.append(found["allocated"])
            since = answers[-1].pop("since")
            assert since == (None if len(words) > 1 and "sacct." in words[-1] else 1_700_000_400)
            assert found["runs"][0]["job_name"] == "a name" and found["runs"][0]["account"] == "g1"
    assert all(answer == answers[0] for answer in answers)
    assert (
        (tmp_path / "asked")
        .read_text()
        .startswith("%s --allusers --allocations --duplicates --parsable2 --format=JobID")
    )
    totals = answers[0]["totals"]
    assert totals == pytest.approx({
        "gpu_hours": 6 * 0.05, "recorded_gpu_hours": 4 / 60, "before_gpu_hours": 4 / 60, "after_gpu_hours": 4 / 60,
        "between_gpu_hours": 0, "beside_gpu_hours": 0, "never_gpu_hours": 0.1,
    })  # fmt: skip
    for width in ("20", "40", "80", "200"):
        page = printed(capsys, recording, "--no-index", "--sacct", str(tmp_path / "sacct.txt"), "--width", width)
        assert max(cell_width(line) for line in page.splitlines()[:-1]) <= int(width)
        assert re.search(r"^never +0.100", page, re.MULTILINE) and re.search(r"^7 ", page, re.MULTILINE)
    page = printed(capsys, recording, "--no-index", "--sacct", str(tmp_path / "sacct.txt"), "--by", "user")
    assert re.search(r"^ada +1 +0.200 +0.067", page, re.MULTILINE) and re.search(
        r"^eve +0 +0.100 +0.000 +- ", page, re.MULTILINE
    )
    assert "without a job's number" not in page
    by_hand = shutil.copy(recording, tmp_path / "by_hand.sql")
    with closing(sqlite3.connect(by_hand)) as connection, connection:
        connection.execute("UPDATE runs SET job_id = NULL")
    page = printed(capsys, str(by_hand), "--no-index", "--sacct", str(tmp_path / "sacct.txt"))
    assert "1 run without a job's number: the accounting can't tell of which job" in page


def test_a_job_that_ended_since_then_has_all_its_recorded_hours(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its only step had ended before; without --since the page says from when on sacct was asked."""
    start, end = 1_700_000_400, 1_700_000_400 + 120
    (tmp_path / "sacct").write_text(
        f"#!/bin/sh\nprintf '{SACCT.rstrip()}\\n0|0|ada|g1|COMPLETED|{start}|{end}|gres/gpu=4|n\\n'\n"
    )
    (tmp_path / "sacct").chmod(0o755)
    words = [str(folder / "0" / "train.sql"), "--no-index", "--sacct"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
        found = json.loads(printed(capsys, *words, "--since", "2023-11-14T22:21:30+00:00", "--json"))
        assert (len(found["runs"]), found["n_earlier"]) == (0, 1)
        assert found["allocated"]["totals"]["recorded_gpu_hours"] == pytest.approx(4 / 60)
        assert (
            json.loads(printed(capsys, *words, "--since", "2023-11-14T22:22:30+00:00", "--json"))["allocated"]["jobs"]
            == []
        )
        assert re.search(r"What was allocated\? ─+ 1 job since 2023-11-14 22:20 UTC ─", printed(capsys, *words))


def test_a_prologs_recording_ends_as_slurm_says_its_job_did(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its recorder completed, its job did not. A recorded command says itself how it ended, whatever became of its job."""
    start, end = 1_700_000_400, 1_700_000_400 + 60
    (tmp_path / "sacct.txt").write_text(f"{SACCT}0|0|ada|g1|CANCELLED by 0|{start}|{end}|gres/gpu=4|n\n")
    recording = shutil.copy(folder / "0" / "train.sql", tmp_path / "job.sql")
    words = [str(recording), "--no-index", "--sacct", str(tmp_path / "sacct.txt"), "--by", "state", "--csv"]
    states = []
    for command in (["python", "train.py"], []):
        with closing(sqlite3.connect(recording)) as connection, connection:
            connection.execute("UPDATE runs SET command = ?", (json.dumps(command),))
        states.append([row["key"] for row in csv.DictReader(io.StringIO(printed(capsys, *words)))])
    assert states == [["completed"], ["cancelled"]]
    assert printed(capsys, *words[:4]).count("completed") == 0


def test_accounting_that_can_not_be_had_is_a_sentence(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    recording = str(folder / "0" / "train.sql")
    monkeypatch.setenv("PATH", str(tmp_path))
    cases: list[tuple[str | None, list[str], str]] = [
        (None, [], "sacct is not installed here"),
        ("#!/bin/sh\necho 'sacct: error: no database' >&2\nexit 1\n", [], "sacct failed: sacct: error: no database"),
        ("#!/bin/sh\necho nonsense\n", [], "what sacct printed is no output of sacct"),
        (None, [str(tmp_path / "none")], "none: can't be read: No such file"),
        (None, [recording.replace("train.sql", "other")], "other: can't be read"),
        (None, ["/dev/null"], "/dev/null: is no output of sacct"),
    ]
    for script, file, said in cases:
        (tmp_path / "sacct").unlink(missing_ok=True)
        if script is not None:
            (tmp_path / "sacct").write_text(script)
            (tmp_path / "sacct").chmod(0o755)
        assert main(["fleet", recording, "--no-index", "--sacct", *file]) == 1
        captured = capsys.readouterr()
        assert captured.out == "" and captured.err.startswith("gssr: --sacct: ") and said in captured.err
        assert captured.err.count("\n") == 1
