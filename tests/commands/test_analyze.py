"""``gssr analyze`` as its user meets it: right answers, and one line for everything that is wrong."""

import html
import json
import os
import shlex
import shutil
import sqlite3
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from forked import gssr

from gssr.backends.synthetic.bulk import generate
from gssr.cli import main
from gssr.metrics import METRICS
from gssr.score import score_of_means
from tests.waiting import UNTIL_GO

GSSR = [sys.executable, "-m", "gssr"]


def analyze(*words: str, cwd: Path, **settings) -> subprocess.CompletedProcess:
    if not settings:
        return gssr("analyze", *words, cwd=cwd)
    return subprocess.run([*GSSR, "analyze", *words], cwd=cwd, capture_output=True, text=True, timeout=60, **settings)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """A folder with three recordings, each made once: never to be changed."""
    folder = tmp_path_factory.mktemp("recorded")
    for name, backend, seconds in (("a.sql", "synthetic:train:8", "2"), ("gaps.sql", "synthetic:gaps:4", "2")):
        command = [*GSSR, "profile", "--backend", backend, "-t", "20", "-o", name, "-l", name, "--no-summary"]
        subprocess.run([*command, "--", "sleep", seconds], cwd=folder, check=True, timeout=60)
    command = [*GSSR, "profile", "-t", "20", "-o", "host.sql", "--no-summary", "--", "sleep", "0.3"]
    subprocess.run(command, cwd=folder, check=True, timeout=60, stderr=subprocess.DEVNULL)
    return folder


@pytest.fixture
def folder(recorded, tmp_path):
    for name in os.listdir(recorded):
        shutil.copyfile(recorded / name, tmp_path / name)
    return tmp_path


@pytest.mark.parametrize("name", ["a.sql", "gaps.sql"])
def test_the_numbers_are_those_of_a_plain_computation_on_the_samples(recorded, name):
    (run,) = json.loads(analyze("-i", name, "--json", cwd=recorded).stdout)["runs"]
    with sqlite3.connect(recorded / name) as connection:
        cursor = connection.execute("SELECT * FROM gpu_samples")
        names = [column[0] for column in cursor.description]
        columns = dict(zip(names, zip(*cursor.fetchall(), strict=True), strict=True))
    gpu = np.array(columns["gpu"])
    assert run["n_samples"] == len(gpu) and run["n_gpus"] == len(run["gpus"])
    means = {}
    per_gpu = {}
    for metric in [*(metric.name for metric in METRICS if metric.kind != "bits"), "flop_active"]:
        values = np.array(columns[metric], dtype=float)
        found, known = run["metrics"][metric], values[~np.isnan(values)]
        assert found["n"] == len(known)
        if not len(known):
            assert all(value is None for key, value in found.items() if key != "n")
            continue
        means[metric] = known.mean()
        expected = {
            "mean": known.mean(), "median": np.median(known), "min": known.min(), "max": known.max(),
            "std": known.std(), "p05": np.percentile(known, 5), "p95": np.percentile(known, 95), "p_error": 0.0,
        }  # fmt: skip
        for key, value in expected.items():
            assert found[key] == pytest.approx(value, rel=1e-9, abs=1e-9), (metric, key)
        own = {key: values[(gpu == key) & ~np.isnan(values)] for key in set(gpu.tolist())}
        per_gpu[metric] = {key: numbers.mean() for key, numbers in own.items() if len(numbers)}
        for row in run["gpus"]:
            if row["gpu"] in per_gpu[metric]:
                assert row["mean"][metric] == pytest.approx(per_gpu[metric][row["gpu"]], rel=1e-9, abs=1e-9)
            else:
                assert row["mean"][metric] is None
    assert run["score"] == pytest.approx(score_of_means(means), rel=1e-9)
    own = list(per_gpu["sm_active"].values())
    assert run["balance"]["sm_active"]["imbalance"] == pytest.approx(1 - np.mean(own) / np.max(own), rel=1e-9)
    energy = np.array(columns["energy"], dtype=float)
    times = np.array(columns["time"])
    total = 0.0
    for key in set(gpu.tolist()):
        mine = energy[gpu == key][np.argsort(times[gpu == key])]
        total += np.maximum(np.diff(mine[~np.isnan(mine)]), 0).sum()
    assert run["energy_j"] == pytest.approx(total, rel=1e-9)


def test_the_json_object_has_the_keys_of_its_contract(recorded):
    document = json.loads(analyze("a.sql", "--json", cwd=recorded).stdout)
    assert document["schema"] == "gssr.analyze/1"
    (run,) = document["runs"]
    assert set(run) >= {
        "run_id", "label", "job_id", "command", "state", "exit_code", "started_at", "duration_s", "n_nodes", "n_gpus",
        "n_samples", "n_gaps", "sampling_ms", "backend", "score", "metrics", "gpus", "balance", "verdicts", "energy_j",
        "gpu_hours",
    }  # fmt: skip
    assert set(run["metrics"]) == {metric.name for metric in METRICS if metric.kind != "bits"} | {"flop_active"}
    assert set(run["metrics"]["sm_active"]) == {"mean", "median", "min", "max", "std", "p05", "p95", "n", "p_error"}
    assert set(run["gpus"][0]) == {"gpu", "node", "rank", "uuid", "place", "mig", "score", "n_samples", "mean"}
    assert set(run["balance"]["sm_active"]) == {"imbalance", "lowest", "highest"}
    assert set(run["balance"]["sm_active"]["lowest"]) == {"gpu", "node", "rank", "mean"}


@pytest.mark.parametrize("name", ["run.sql", "sub/my run's (2).sql", "$HOME;ü.sql"])
def test_a_command_that_is_advised_names_the_recording_as_a_shell_takes_it(name: str, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    generate(str(tmp_path / name), "imbalanced", 4, 1 / 60, 0.5)
    page = " ".join(analyze(name, cwd=tmp_path).stdout.split())
    assert f"This shows which GPUs do most: $ gssr analyze --terminal -plb {shlex.quote(name)} " in page
    assert (
        "This shows which GPUs do most: gssr analyze --terminal -plb FILE"
        in analyze("--json", name, cwd=tmp_path).stdout
    )
    assert analyze(name, "--report", "report.html", cwd=tmp_path).returncode == 0
    report = html.unescape((tmp_path / "report.html").read_text())
    assert f"gssr analyze --terminal -plb {shlex.quote(name)}" in report


def test_a_name_that_can_not_be_shown_as_it_is_is_left_to_the_reader(tmp_path: Path) -> None:
    name = "two\nlines.sql"
    generate(str(tmp_path / name), "imbalanced", 4, 1 / 60, 0.5)
    assert "This shows which GPUs do most: $ gssr analyze --terminal -plb FILE " in " ".join(
        analyze(name, cwd=tmp_path).stdout.split()
    )


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("analyze", ""), 1, "gssr: : no such file\n"), (("analyze", "--json", ""), 1, "gssr: : no such file\n"),
        (("",), 2, "gssr: '' is no command, and no file (see gssr --help)\n"),
    ],
)  # fmt: skip
def test_a_name_that_is_empty_is_no_file(words: tuple[str, ...], code: int, said: str, tmp_path: Path) -> None:
    """As of a shell's variable that is not set."""
    done = gssr(*words, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (code, "", said)


def test_verbosity_never_changes_the_json(recorded):
    assert (
        len({analyze("a.sql", "--json", "-v", level, cwd=recorded).stdout for level in ("low", "medium", "high")}) == 1
    )


def test_gaps_are_counted(recorded):
    (run,) = json.loads(analyze("gaps.sql", "--json", cwd=recorded).stdout)["runs"]
    with sqlite3.connect(recorded / "gaps.sql") as connection:
        rows = connection.execute("SELECT gpu, time FROM samples ORDER BY gpu, time").fetchall()
    expected = sum(b[0] == a[0] and b[1] - a[1] > 0.05 for a, b in pairwise(rows))
    assert run["n_gaps"] == expected


def test_the_page_ends_with_the_line_that_programs_read(recorded):
    for words in ((), ("--terminal",), ("-v", "low"), ("-ns",), ("-mtd", "-v", "high"), ("-pts", "--terminal")):
        page = analyze("a.sql", *words, cwd=recorded)
        assert page.returncode == 0 and page.stderr == ""
        words_of_line = page.stdout.splitlines()[-1].split()
        assert words_of_line[0] == "GSSR"
        assert [word.split("=")[0] for word in words_of_line[1:]] == ["score", "imbalance", "gpus", "gaps"]


def test_the_closing_line_is_the_same_whatever_metrics_are_asked_for(recorded):
    lines = {
        analyze("a.sql", *words, cwd=recorded).stdout.splitlines()[-1]
        for words in ((), ("--metrics", "fp64_active"), ("--metrics", "sm_active,energy"))
    }
    assert len(lines) == 1 and "unknown" not in lines.pop()


def test_a_page_in_a_pipe_has_no_escapes_and_80_columns_whatever_the_terminal_says(recorded):
    environment = os.environ | {"COLUMNS": "200", "PYTHONUTF8": "1"}
    page = analyze("a.sql", "--terminal", "-v", "high", "-mtd", cwd=recorded, env=environment).stdout
    assert "\x1b" not in page and max(map(len, page.splitlines())) <= 80
    assert (
        page
        == analyze(
            "a.sql", "--terminal", "-v", "high", "-mtd", cwd=recorded, env=os.environ | {"PYTHONUTF8": "1"}
        ).stdout
    )
    assert "\x1b" in analyze("a.sql", "--color", "always", cwd=recorded).stdout


@pytest.mark.parametrize(
    "environment", [{"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}, {"PYTHONIOENCODING": "latin-1"}]
)
def test_a_stream_that_is_not_utf8_gets_ascii(recorded, environment):
    command = [*GSSR, "analyze", "a.sql", "--terminal"]
    done = subprocess.run(command, cwd=recorded, capture_output=True, timeout=60, env=os.environ | environment)
    assert done.returncode == 0 and done.stdout.isascii() and b"SM active" in done.stdout


def test_plots_without_a_terminal_become_pictures_beside_the_recording(folder):
    done = analyze("a.sql", "-pts", "-plb", cwd=folder)
    assert done.returncode == 0, done.stderr
    for name in ("a.breakdown.png", "a.time-series.png", "a.phases.png", "a.load-balancing.png", "a.heat-map.png"):
        assert (folder / name).read_bytes().startswith(b"\x89PNG")
    assert "When not?" not in done.stdout


def test_pictures_go_where_they_are_wanted(folder):
    done = analyze("a.sql", "gaps.sql", "-plb", "--png", "out/pictures", cwd=folder)
    said = [line.removeprefix("gssr: ") for line in done.stderr.splitlines()]
    assert done.returncode == 0 and len(said) == 4
    assert {line for line in said if ":" not in line} == {
        f"out/pictures/{name}" for name in os.listdir(folder / "out/pictures")
    }
    (folder / "file").touch()
    done = analyze("a.sql", "--png", "file", cwd=folder)
    assert done.returncode == 1 and done.stderr.count("\n") == 1 and "file" in done.stderr


def test_a_picture_that_would_be_empty_is_left_out_with_a_sentence(tmp_path):
    for scenario in ("train", "idle"):
        generate(str(tmp_path / f"{scenario}.sql"), scenario, 2, 1 / 60, 0.5)
    done = analyze("idle.sql", "--png", "idle", cwd=tmp_path)
    left_out = "gssr: idle/idle.roofline.png: left out, there is nothing to draw: no arithmetic: no pipe was active"
    assert done.returncode == 0 and left_out in done.stderr.splitlines()
    names = ("breakdown", "heat-map", "load-balancing", "phases", "time-series")
    assert sorted(os.listdir(tmp_path / "idle")) == [f"idle.{name}.png" for name in names]
    done = analyze("train.sql", "--metrics", "c2c_tx_bytes", "--png", "none", cwd=tmp_path)
    assert done.returncode == 0 and done.stderr.count("none of these metrics was measured") == 2
    assert sorted(os.listdir(tmp_path / "none")) == [
        f"train.{name}.png" for name in ("breakdown", "phases", "roofline", "time-series")
    ]


def test_files_and_runs_are_analysed_one_after_another(folder):
    command = [*GSSR, "profile", "--backend", "synthetic:idle:2", "-o", "a.sql", "-a", "-l", "second", "--", "true"]
    assert subprocess.run(command, cwd=folder, capture_output=True, timeout=60).returncode == 0
    runs = json.loads(analyze("a.sql", "gaps.sql", "--json", cwd=folder).stdout)["runs"]
    assert [run["label"] for run in runs] == ["a.sql", "second", "gaps.sql"]
    for chosen in ("2", "-1", "second", runs[1]["run_id"]):
        found = json.loads(analyze("a.sql", "--run", chosen, "--json", cwd=folder).stdout)["runs"]
        assert [run["label"] for run in found] == ["second"]
    assert analyze("a.sql", "gaps.sql", cwd=folder).stdout.count("GSSR score=") == 3


def test_without_a_name_the_newest_recording_is_read(folder, tmp_path):
    (tmp_path / "empty").mkdir()
    done = analyze(cwd=tmp_path / "empty")
    assert done.returncode == 2 and "no recording named" in done.stderr
    assert json.loads(analyze("--json", cwd=folder).stdout)["runs"][0]["label"] == "gaps.sql"
    shutil.copyfile(folder / "gaps.sql", folder / "gssr_20200101T000000.sql")
    os.utime(folder / "gssr_20200101T000000.sql", (1, 1))
    shutil.copyfile(folder / "a.sql", folder / "gssr_4711.sql")
    assert json.loads(analyze("--json", cwd=folder).stdout)["runs"][0]["label"] == "a.sql"
    environment = os.environ | {"SLURM_JOB_ID": "4711"}
    (folder / "gssr_4712.sql").write_bytes((folder / "gaps.sql").read_bytes())
    assert json.loads(analyze("--json", cwd=folder, env=environment).stdout)["runs"][0]["label"] == "a.sql"


def test_without_a_name_a_recording_that_only_has_shards_is_found(folder):
    os.mkdir(folder / "gssr_4711.sql.d")
    shutil.copyfile(folder / "a.sql", folder / "gssr_4711.sql.d" / "node1.0.sql")
    for environment in (None, os.environ | {"SLURM_JOB_ID": "4711"}):
        assert json.loads(analyze("--json", cwd=folder, env=environment).stdout)["runs"][0]["label"] == "a.sql"


def test_a_window_and_a_selection_narrow_what_is_looked_at(recorded):
    words = ["a.sql", "--json", "--from", "0.5", "--to", "1.5", "--gpus", "1,3", "--metrics", "sm_active,dram_active"]
    (run,) = json.loads(analyze(*words, cwd=recorded).stdout)["runs"]
    assert run["duration_s"] == pytest.approx(1.0) and run["n_gpus"] == 2
    with sqlite3.connect(recorded / "a.sql") as connection:
        ((there,),) = connection.execute(
            "SELECT count(*) FROM samples WHERE gpu IN (1, 3) AND time >= ? AND time < ?",
            (run["window"]["start"], run["window"]["end"]),
        )
    assert run["n_samples"] == there > 0
    assert set(run["metrics"]) == {"sm_active", "dram_active"}


def test_a_time_before_the_end_is_no_option(recorded):
    for words in (["--from", "-1"], ["--from", "-1s"], ["--from=-1s"]):
        (run,) = json.loads(analyze("a.sql", "--json", *words, cwd=recorded).stdout)["runs"]
        assert run["duration_s"] == pytest.approx(1.0)
    done = analyze("a.sql", "--form", "-1s", cwd=recorded)
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert "--form" in done.stderr and "gssr analyze --help" in done.stderr


def test_an_event_names_its_gpu(folder):
    with sqlite3.connect(folder / "gaps.sql") as connection:
        ((node,),) = connection.execute("SELECT node FROM processes")
        connection.execute(
            "INSERT INTO events SELECT run_id, started_at + 1, node, 1, 0, 'gpu_lost', 'gone' FROM processes"
        )
    assert f" {node}:1: gone\n" in analyze("gaps.sql", "-ns", "-pts", "--terminal", cwd=folder).stdout


def test_detected_outliers_are_said(recorded):
    (whole,) = json.loads(analyze("a.sql", "--json", cwd=recorded).stdout)["runs"]
    done = analyze("a.sql", "-d", "all", cwd=recorded)
    assert done.returncode == 0
    (cut,) = json.loads(analyze("a.sql", "-d", "all", "--json", cwd=recorded).stdout)["runs"]
    left_out = cut["window"]["leading_s"] + cut["window"]["trailing_s"]
    assert cut["duration_s"] + left_out == pytest.approx(whole["duration_s"])


def test_a_run_without_gpus_reads_well(recorded):
    done = analyze("host.sql", "--terminal", "-v", "high", "-mtd", cwd=recorded)
    assert done.returncode == 0 and done.stderr == ""
    assert done.stdout.splitlines()[-1] == "GSSR score=unknown imbalance=unknown gpus=0 gaps=0"
    (run,) = json.loads(analyze("host.sql", "--json", cwd=recorded).stdout)["runs"]
    assert (run["score"], run["n_gpus"], run["n_samples"], run["energy_j"]) == (None, 0, 0, None)


ALL_NULL = "UPDATE samples SET " + ", ".join(f"{metric.name} = NULL" for metric in METRICS)


def edit(path: Path, *statements: str) -> None:
    connection = sqlite3.connect(path)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


@pytest.mark.parametrize(
    "statements",
    [
        ("DELETE FROM samples WHERE rowid > 1", "DELETE FROM rollup", "DELETE FROM sketch"),
        ("DELETE FROM samples", "DELETE FROM rollup", "DELETE FROM sketch"),
        ("DELETE FROM gpus", "DELETE FROM process_gpus"),
        (ALL_NULL, "DELETE FROM rollup", "DELETE FROM sketch"),
        ("UPDATE runs SET sampling_ms = NULL, started_at = NULL, ended_at = NULL, exit_code = NULL",),
        ("DROP TABLE rollup", "DROP TABLE sketch"),
        ("DROP TABLE events", "DROP TABLE host_samples"),
    ],
    ids=["one sample", "no sample", "no GPU", "all NULL", "no times", "no rollups", "no events"],
)  # fmt: skip
def test_poor_recordings_give_a_page_and_valid_json(folder, statements):
    edit(folder / "a.sql", *statements)
    for words in ((), ("--terminal", "-v", "high", "-mtd"), ("-d", "all")):
        page = analyze("a.sql", *words, cwd=folder)
        assert "Traceback" not in page.stderr and "an error in gssr" not in page.stderr, page.stderr
        assert page.stdout.splitlines()[-1].startswith("GSSR score=")
    document = json.loads(analyze("a.sql", "--json", cwd=folder).stdout, parse_constant=lambda word: pytest.fail(word))
    assert len(document["runs"]) == 1


def test_a_recording_without_runs_says_so(folder):
    edit(folder / "a.sql", "DELETE FROM runs")
    done = analyze("a.sql", cwd=folder)
    assert done.returncode == 1 and done.stderr.count("\n") == 1 and "a.sql" in done.stderr


@pytest.mark.parametrize("keep", [0.05, 0.4, 0.8, 0.99])
def test_a_truncated_recording_gives_what_is_left_and_exit_code_1(folder, keep):
    data = (folder / "a.sql").read_bytes()
    (folder / "a.sql").write_bytes(data[: int(len(data) * keep)])
    for words in ((), ("--json",), ("--terminal",)):
        done = analyze("a.sql", *words, cwd=folder)
        assert done.returncode == 1
        assert done.stderr.count("\n") == 1 and "a.sql" in done.stderr and "an error in gssr" not in done.stderr, (
            done.stderr
        )


def test_a_recording_that_is_still_written_is_analysed_as_far_as_it_goes(tmp_path):
    command = [
        *GSSR,
        "profile",
        "--backend",
        "synthetic:train:2",
        "-t",
        "20",
        "-o",
        "a.sql",
        "--no-summary",
        "--wrap",
        UNTIL_GO,
    ]
    with subprocess.Popen(command, cwd=tmp_path) as supervisor:
        n_samples = 0
        while supervisor.poll() is None:
            if n_samples > 50:
                (tmp_path / "go").touch()
            done = analyze("a.sql", "--json", cwd=tmp_path)
            if done.returncode == 0 and (runs := json.loads(done.stdout)["runs"]) and runs[0]["state"] == "running":
                assert runs[0]["n_samples"] >= n_samples
                n_samples = runs[0]["n_samples"]
                page = analyze("a.sql", "--terminal", cwd=tmp_path)
                assert page.returncode == 0  # its end is in the file a moment before it ends
                assert "running" in page.stdout or supervisor.wait(20) == 0
        assert n_samples > 50


def test_one_bad_file_among_good_ones_doesnt_hide_them(folder):
    done = analyze("nowhere.sql", "a.sql", cwd=folder)
    assert done.returncode == 1 and done.stderr == "gssr: nowhere.sql: no such file\n"
    assert "GSSR score=" in done.stdout


@pytest.mark.parametrize(
    ("words", "code", "expected"),
    [
        (("nowhere.sql",), 1, "nowhere.sql: no such file"),
        ((".",), 1, "holds no recording"),
        (("notes.txt",), 1, "not an SQLite database"),
        (("empty.sql",), 1, "is empty"),
        (("a.sql", "--metrics", "sm_activ"), 2, "did you mean sm_active"),
        (("a.sql", "--gpus", "99"), 2, "no GPU '99'"),
        (("a.sql", "--gpus", " , "), 2, "no GPU named"),
        (("a.sql", "--gpus", ""), 2, "no GPU named"),
        (("a.sql", "--run", "9"), 2, "no run '9'"),
        (("a.sql", "--run", "²"), 2, "no run '²'"),
        (("a.sql", "--from", "soon"), 2, "soon"),
        (("a.sql", "--from", "2", "--to", "1"), 2, "is empty"),
        (("a.sql", "--width", "3"), 2, "--width"),
        (("a.sql", "-rp"), 2, "GSSR 0.4"),
        (("a.sql", "-v", "loud"), 2, "loud"),
    ],
)
def test_wrong_input_is_one_line_with_the_right_exit_code(folder, words, code, expected):
    (folder / "notes.txt").write_text("some notes that are long enough to have a head")
    (folder / "empty.sql").touch()
    (folder / "deep").mkdir()
    words = tuple("deep" if word == "." else word for word in words)
    done = analyze(*words, cwd=folder)
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr.count("\n") == 1 and done.stderr.startswith("gssr: ") and expected in done.stderr


def test_a_reader_that_goes_away_is_no_error(recorded):
    command = f"{sys.executable} -m gssr analyze a.sql --json | head -c 10; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], cwd=recorded, capture_output=True, text=True, timeout=60)
    assert done.stderr == ""


def test_exact_leaves_no_percentile_estimated(recorded, monkeypatch, capsys):
    monkeypatch.setattr("gssr.model.analyze.EXACT_ROWS", 100)
    found = {}
    for words in ((), ("--exact",)):
        assert main(["analyze", "--json", *words, str(recorded / "a.sql")]) == 0
        (found[words],) = json.loads(capsys.readouterr().out)["runs"]
    errors = {words: [own["p_error"] or 0.0 for own in run["metrics"].values()] for words, run in found.items()}
    assert max(errors[()]) > 0.0 and max(errors[("--exact",)]) == 0.0
    for name, own in found[("--exact",)]["metrics"].items():
        rolled = found[()]["metrics"][name]
        assert own["n"] == rolled["n"] and (not own["n"] or own["p05"] is not None)
