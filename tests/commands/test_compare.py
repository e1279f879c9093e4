"""``gssr compare`` as a pipeline meets it: which runs, what it prints, and how it exits."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from forked import gssr

from gssr.commands.compare import Condition, limit_of
from gssr.commands.inputs import with_run


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``good.sql``, ``bad.sql``, and ``two.sql`` with two runs."""
    found = tmp_path_factory.mktemp("compared")
    for name, scenario in (("good", "train"), ("bad", "imbalanced")):
        command = [
            sys.executable,
            "-m",
            "gssr.backends.synthetic",
            scenario,
            "--gpus",
            "4",
            "--hours",
            "0.01",
            "-t",
            "200",
        ]
        subprocess.run([*command, "-o", f"{name}.sql"], cwd=found, check=True, capture_output=True, timeout=60)
    for label in ("first", "second"):
        own = [
            "profile",
            "--backend",
            "synthetic:train:2",
            "-t",
            "20",
            "-o",
            "two.sql",
            "-a",
            "-l",
            label,
            "--no-summary",
        ]
        assert gssr(*own, "--", "sleep", "0.4", cwd=found).returncode == 0
    return found


def test_worse_is_said_and_by_itself_is_no_failure(folder: Path) -> None:
    done = gssr("compare", "good.sql", "bad.sql", cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1].endswith("outcome=lower")


@pytest.mark.parametrize(
    ("files", "options", "code"),
    [
        (("good.sql", "bad.sql"), ("--fail-if-worse", "5%"), 3),
        (("good.sql", "bad.sql"), ("--fail-if-worse", "0.9"), 0),
        (("bad.sql", "good.sql"), ("--fail-if-worse", "0%"), 0),
        (("good.sql", "good.sql"), ("--fail-if-worse", "0"), 0),
        (("good.sql", "bad.sql"), ("--fail-below", "0.6"), 3),
        (("good.sql", "bad.sql"), ("--fail-below", "0.1"), 0),
        (("bad.sql", "good.sql", "bad.sql"), ("--fail-below", "0.6"), 3),
        (("good.sql", "bad.sql"), ("--fail-if", "score < -5 %"), 3),
        (("good.sql", "bad.sql"), ("--fail-if", "score<-90%", "--fail-if", "imbalance > 0.02"), 3),
        (("good.sql", "bad.sql"), ("--fail-if", "score < -0.9", "--fail-if", "duration_s > 10 %"), 0),
        (("bad.sql", "good.sql"), ("--fail-if", "score < 0"), 0),
        (("good.sql", "bad.sql"), ("--fail-if", "flop_active < -5 %"), 3),
        (("good.sql", "bad.sql"), ("--fail-if", "idle.imbalance > 0.05"), 3),
        (("bad.sql", "good.sql"), ("--fail-if", "idle.imbalance > 0.05", "--fail-if", "idle.host > 0"), 0),
    ],
)
def test_conditions_decide_the_exit_code(
    folder: Path, files: tuple[str, ...], options: tuple[str, ...], code: int
) -> None:
    done = gssr("compare", *files, *options, cwd=folder)
    assert done.returncode == code and bool(done.stderr) == (code == 3)
    parsed = json.loads(gssr("compare", "--json", *files, *options, cwd=folder).stdout)
    assert bool(parsed["failed"]) == (code == 3)


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        (
            "sm_active < -5 %",
            r"gssr: B's sm_active can't be judged that finely: up to \d\d\.\d % is noise by its spread over GPUs and time: ",
        ),
        (
            "sm_active < -0.05",
            r"gssr: B's sm_active can't be judged that finely: up to 0\.\d+ is noise by its spread over GPUs and time: ",
        ),
        ("duration_s > 1 %", r"gssr: B's duration_s can't be judged that finely: up to 2\.0 % is noise: "),
        ("sm_active < -90 %", ""),
        ("sm_active < 0", ""),
        ("score > 1 %", ""),
    ],
)
def test_a_condition_that_is_finer_than_noise_is_said_to_be(folder: Path, condition: str, said: str) -> None:
    done = gssr("compare", "good.sql", "bad.sql", "--fail-if", condition, cwd=folder)
    assert done.returncode == 0  # sm_active: -19 %, within noise
    assert re.fullmatch(f"{said}--fail-if '{condition}'\n" if said else "", done.stderr), done.stderr


def test_an_unknown_score_holds_no_condition(folder: Path) -> None:
    own = ["profile", "--backend", "synthetic:train:2", "--metrics", "power_usage", "-o", "power.sql", "--no-summary"]
    gssr(*own, "-f", "--", "sleep", "0.2", cwd=folder)
    for condition in (("--fail-below", "0"), ("--fail-if-worse", "100%"), ("--fail-if", "sm_active > 900 %")):
        done = gssr("compare", "good.sql", "power.sql", *condition, cwd=folder)
        assert done.returncode == 3 and "unknown" in done.stderr


def test_runs_of_one_file_are_compared(folder: Path) -> None:
    for words in (("two.sql",), ("two.sql@1", "two.sql@second"), ("two.sql@first", "two.sql")):
        parsed = json.loads(gssr("compare", "--json", *words, cwd=folder).stdout)
        assert [run["label"] for run in parsed["runs"]] == ["first", "second"]
        assert [run["file"] for run in parsed["runs"]] == ["two.sql@1", "two.sql@2"]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("good.sql",), 2, "another one"),
        (("good.sql", "none.sql"), 1, "no such file"),
        (("good.sql", "good.sql@9"), 2, "no run '9'"),
        (("good.sql", "good.sql@--5"), 2, "no run '--5'"),
        (("good.sql", "bad.sql", "--fail-if-worse", "much"), 2, "5%"),
        (("good.sql", "bad.sql", "--fail-below", "7"), 2, "between 0 and 1"),
        (("good.sql", "bad.sql", "--fail-if", "score -5 %"), 2, "--fail-if: 'score -5 %' is no change"),
        (("good.sql", "bad.sql", "--fail-if", "skore < -5 %"), 2, "'skore' is not compared; there are score,"),
        (("good.sql", "bad.sql", "--fail-if", "score < 5 %"), 2, "as in 'score < -5 %'"),
        (("good.sql", "bad.sql", "--fail-if", "duration_s > -5 %"), 2, "as in 'duration_s > 5 %'"),
        (("good.sql", "bad.sql", "--width", "5"), 2, "--width"),
        ((), 2, "required"),
    ],
)
def test_what_can_not_be_done_is_said_in_one_line(folder: Path, words: tuple[str, ...], code: int, said: str) -> None:
    done = gssr("compare", *words, cwd=folder)
    assert (done.returncode, done.stdout) == (code, "") and said in done.stderr and len(done.stderr.splitlines()) == 1


def test_limits_are_shares_or_scores() -> None:
    assert limit_of("5%") == (0.05, True) and limit_of(" 0.05 ") == (0.05, False)
    of_first, absolute = (Condition("score", -1, *limit_of(text), "", "worse") for text in ("5%", "0.05"))
    assert of_first.allowed(0.8) == pytest.approx(0.04) and absolute.allowed(0.8) == 0.05
    for wrong in ("", "%", "nan", "-1%", "101%", "2", "5 percent"):
        with pytest.raises(ValueError):
            limit_of(wrong)


def test_an_at_sign_in_a_file_name_is_no_run(tmp_path: Path) -> None:
    named = str(tmp_path / "a@1")
    assert with_run(named) == (str(tmp_path / "a"), "1")
    Path(named).touch()
    assert with_run(named) == (named, None)
    assert with_run("@1") == ("@1", None) and with_run("a.sql") == ("a.sql", None)
    (tmp_path / "b.sql").touch()
    assert with_run(f"{tmp_path}/b.sql@me@home") == (f"{tmp_path}/b.sql", "me@home")
    assert with_run("none.sql@me@home") == ("none.sql@me", "home") and with_run("none.sql@") == ("none.sql@", None)


def test_a_sites_rules_judge_both_runs(folder: Path, tmp_path: Path) -> None:
    def verdicts(*words: str) -> set[str]:
        done = gssr("compare", "good.sql", "bad.sql", "--json", *words, cwd=folder)
        return set(re.findall(r'"code": "(\w+)"', done.stdout))

    found = verdicts()
    assert found
    (tmp_path / "off.toml").write_text("".join(f"[{code}]\nenabled = false\n" for code in found))
    assert not found & verdicts("--rules", str(tmp_path / "off.toml"))
    (tmp_path / "wrong.toml").write_text("[no_rule]\n")
    done = gssr("compare", "good.sql", "bad.sql", "--rules", str(tmp_path / "wrong.toml"), cwd=folder)
    assert done.returncode == 2 and "there is no rule 'no_rule'" in done.stderr
