"""A site's rules change numbers, severities and advice; a wrong file is one sentence."""

import re
from pathlib import Path

import numpy as np
import pytest
from evidences import GIB, HEALTHY, during, evidence, scaled

from gssr.model.verdicts import judge, losses
from gssr.model.verdicts.rules import GREATEST, TABLE, from_environment, load
from gssr.model.verdicts.table import RuleTable


def written(folder: Path, text: str) -> str:
    path = folder / "rules.toml"
    path.write_text(text)
    return str(path)


def test_numbers_severity_and_advice_are_changed_and_the_source_says_so(tmp_path: Path) -> None:
    path = written(tmp_path, '[memory_full]\nshare = 0.7\nseverity = "warning"\nadvice = "Ask us."\n')
    found = evidence(memory_used=60 * GIB)
    assert "memory_full" not in {verdict.code for verdict in judge(found).verdicts}
    (told,) = (verdict for verdict in judge(found, load(path)).verdicts if verdict.code == "memory_full")
    assert (told.severity, told.advice) == ("warning", "Ask us.") and path in told.source


def test_a_rule_can_be_turned_off(tmp_path: Path) -> None:
    table = load(written(tmp_path, "[tensor_unused]\nenabled = false\n"))
    assert "tensor_unused" not in {rule.code for rule in table.rules} and len(table.rules) == len(TABLE.rules) - 1
    found = evidence(tensor_active=0.0, fp32_active=0.4)
    assert "tensor_unused" not in {verdict.code for verdict in judge(found, table).verdicts}


def test_every_number_that_a_site_can_change_is_read_by_a_condition() -> None:
    """A condition names the numbers that it reads; severities are read by Rule.graded."""
    sources = [path.read_text(encoding="utf-8") for path in Path(losses.__file__).parent.glob("*.py")]
    conditions = "\n".join(re.sub(r'Threshold\(\s*"\w+"', "", source) for source in sources)
    names = {threshold.name for rule in TABLE.rules for threshold in rule.thresholds}
    assert not {name for name in names - {"warning", "critical"} if f'"{name}"' not in conditions}


def test_a_site_may_warn_of_less_than_is_told_otherwise(tmp_path: Path) -> None:
    found = evidence(workload={"cpu": 6.0}, **scaled(during(300, 100, 109, 0.0)))
    assert "cpu_starved" not in {verdict.code for verdict in judge(found).verdicts}
    table = load(written(tmp_path, "[cpu_starved]\nwarning = 0.02\nguess = 0.02\n"))
    (told,) = (verdict for verdict in judge(found, table).verdicts if verdict.code == "cpu_starved")
    assert told.severity == "warning"


def test_every_rule_but_one_turned_off_still_judges(tmp_path: Path) -> None:
    off = "".join(f"[{rule.code}]\nenabled = false\n" for rule in TABLE.rules if rule.code != "memory_unused")
    found = judge(evidence(memory_used=1 * GIB), load(written(tmp_path, off)))
    assert [verdict.code for verdict in found.verdicts] == ["memory_unused"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[memory_full\n", "is no TOML"),
        ("[memry_full]\nshare = 1\n", "there is no rule 'memry_full'; did you mean memory_full?"),
        ("memory_full = 3\n", "must be a table: [memory_full]"),
        ("[memory_full]\nshares = 1\n", "did you mean share?"),
        ('[memory_full]\nshare = "much"\n', "must be a number, not 'much'"),
        ("[memory_full]\nshare = true\n", "must be a number"),
        ("[memory_full]\nshare = nan\n", "must be a number"),
        ("[memory_full]\nshare = -1\n", "from 0 to 1e+15, not -1"),
        ("[memory_full]\nshare = inf\n", "from 0 to 1e+15"),
        (f"[memory_full]\nshare = {10**400}\n", "from 0 to 1e+15"),
        ("[slow_down]\nparts = 0\n", "from 2 to 1e+15, not 0"),
        ('[memory_full]\nseverity = "bad"\n', "must be one of critical, warning, info"),
        ("[memory_full]\nadvice = 1\n", "must be text"),
        ('[memory_full]\nenabled = "no"\n', "must be true or false"),
    ],
)
def test_a_wrong_file_is_one_sentence_that_names_it(tmp_path: Path, text: str, said: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(ValueError) as caught:
        load(path)
    assert path in str(caught.value) and said in str(caught.value) and "\n" not in str(caught.value)


def test_a_file_that_is_missing_or_no_text_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="can't be read"):
        load(str(tmp_path / "none.toml"))
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValueError, match="is no TOML"):
        load(str(tmp_path / "binary"))


def test_the_environment_names_the_file(tmp_path: Path) -> None:
    path = written(tmp_path, "[memory_full]\nshare = 0.5\n")
    assert from_environment({"GSSR_RULES": path}).rule("memory_full").at("share") == 0.5
    assert from_environment({}) is TABLE and from_environment({"GSSR_RULES": ""}) is TABLE


@pytest.mark.parametrize("value", ["least", "greatest"])
def test_whatever_number_a_site_gives_a_rule_jobs_are_judged(value: str) -> None:
    """No condition divides by it, and none says that something holds for no time at all."""
    half = np.tile([0.8, 0.8, 0.8, 0.8, 0.05], 60)
    jobs = [evidence(sm_active=half), evidence(n_gpus=4, sm_active=np.outer([1.0, 1.0, 1.0, 0.6], half))]
    for rule in TABLE.rules:
        for threshold in rule.thresholds:
            number = threshold.least if value == "least" else GREATEST
            thresholds = tuple(t._replace(value=number) if t is threshold else t for t in rule.thresholds)
            own = rule._replace(thresholds=thresholds)
            rules = tuple(own if each is rule else each for each in TABLE.rules)
            table = RuleTable(rules)
            for job in jobs:
                found = judge(job, table).verdicts
                assert not any("0 % of the time (0 s)" in each.title for each in found), (rule.code, threshold.name)


@pytest.mark.parametrize(("severity", "said"), [("info", "warning"), ("critical", "critical")])
def test_what_makes_an_info_a_warning_takes_nothing_from_what_a_site_calls_critical(
    tmp_path: Path, severity: str, said: str
) -> None:
    known = {"gpu_utilization": 1.0, "power_usage": 150.0, "memory_copy_utilization": 0.05}
    job = evidence(without=tuple(set(HEALTHY) - known.keys()), **known)
    found = judge(job, load(written(tmp_path, f'[low_power]\nseverity = "{severity}"\n'))).verdicts
    assert [each.severity for each in found if each.code == "low_power"] == [said]
