"""A site's rules hold wherever a run is judged: one file, one answer."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import gssr
from gssr.backends.synthetic.bulk import generate
from gssr.cli import main


def _codes(path: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> list[set[str]]:
    """The verdicts on a run, as each way to ask for them says."""
    assert main(["analyze", "--json", str(path)]) == 0
    printed = json.loads(capsys.readouterr().out)["runs"][0]["verdicts"]
    assert main(["fleet", "--json", "--by", "cause", str(path)]) == 0
    fleet = json.loads(capsys.readouterr().out)["runs"][0]["verdicts"]
    assert main(["export", str(path), "-o", str(folder), "--tables", "verdicts"]) == 0
    capsys.readouterr()
    exported = pq.read_table(folder / "verdicts").column("code").to_pylist()
    with gssr.open(path) as recording:
        run = recording[0]
        return [
            {each["code"] for each in printed}, set(fleet), set(exported), set(run.verdicts().code),
            {each.code for each in gssr.analyze(run).judgement.verdicts},
        ]  # fmt: skip


def test_everything_that_judges_goes_by_the_same_rules(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, rules = tmp_path / "a.sql", tmp_path / "site.toml"
    generate(str(path), "imbalanced", 4, 1 / 60, 0.5)
    built_in = _codes(path, tmp_path / "one", capsys)
    assert all(codes == built_in[0] for codes in built_in) and built_in[0]
    code = min(built_in[0])
    rules.write_text(f"[{code}]\nenabled = false\n")
    monkeypatch.setenv("GSSR_RULES", str(rules))
    changed = _codes(path, tmp_path / "two", capsys)
    assert all(codes == changed[0] for codes in changed) and code not in changed[0]


@pytest.mark.parametrize("words", [["analyze"], ["compare"], ["fleet"], ["export"]])
def test_rules_with_a_mistake_are_refused(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "site.toml").write_text("[nonsense]\n")
    monkeypatch.setenv("GSSR_RULES", str(tmp_path / "site.toml"))
    monkeypatch.chdir(tmp_path)
    assert main([*words, "a.sql"]) == 2
    assert "there is no rule 'nonsense'" in capsys.readouterr().err
