"""Writes the tables of docs/verdicts.md from the rules: run it after every change there."""

from pathlib import Path

from gssr.model.traces.rules import IN_TORCH
from gssr.model.traces.rules import TABLE as OF_TRACES
from gssr.model.verdicts.rules import TABLE
from gssr.model.verdicts.table import Rule, Threshold

PAGE = Path(__file__).with_name("verdicts.md")


def _number(threshold: Threshold) -> str:
    return f"{threshold.value:.10g}" if abs(threshold.value) < 1e6 else f"{threshold.value:.0e}".replace("e+0", "e")


def _thresholds(rule: Rule) -> str:
    lines = "".join(
        f"| `{threshold.name}` | {_number(threshold)} | {threshold.meaning} | {threshold.source} |\n"
        for threshold in rule.thresholds
    )
    return "| Name | Value | What it means | Source |\n| --- | --- | --- | --- |\n" + lines


def _rule(rule: Rule, more: str = "") -> str:
    needs = "; ".join(" or ".join(f"`{name}`" for name in group) for group in rule.needs)
    hides = ", ".join(f"`{code}`" for code in rule.explains)
    about = f"Severity: {rule.severity}. Needs {needs}." + (f" Hides {hides}." if hides else "")
    if rule.delays:
        delays = ", ".join(f"`{code}`" for code in rule.delays)
        about += f" {'Also hides' if hides else 'Hides'}, on all GPUs (they wait for these GPUs): {delays}."
    advice = f"{rule.advice} {more}".rstrip()
    title = rule.title.replace("{", "*").replace("}", "*")
    return f"### {rule.code}\n\n> {title}\n\n{advice}\n\n{about}\n\n{_thresholds(rule)}\n"


def sections() -> dict[str, str]:
    """The parts of the page that are made from the rules, by the name of their marker."""
    return {
        "common": _thresholds(TABLE.common),
        "rules": "".join(_rule(rule) for rule in TABLE.rules).rstrip("\n") + "\n",
        "rules for traces": "".join(_rule(rule, IN_TORCH.get(rule.code, "")) for rule in OF_TRACES.rules).rstrip()
        + "\n",
    }


def page(text: str) -> str:
    """The page with its made parts as the rules have them now."""
    for name, made in sections().items():
        begin, end = f"<!-- {name}: made by docs/make_verdicts.py -->\n", f"<!-- end of {name} -->"
        before, found, rest = text.partition(begin)
        _, closed, after = rest.partition(end)
        if not (found and closed):
            raise ValueError(f"{PAGE.name} has no part marked {name!r}")
        text = f"{before}{begin}\n{made}\n{end}{after}"
    return text


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
