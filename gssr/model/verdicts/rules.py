"""The table of all rules, and how a site changes it.

What each rule looks for, from which numbers on, what it says and what to do, and where its numbers come from, stands at its
condition, in the modules by subject beside this one. A site may change every number, severity and advice in a TOML file, or
turn rules off:

[memory_full]
share = 0.95
severity = "warning"
advice = "Ask help@example.org for larger GPUs."
link = "https://example.org/gpus"

[tensor_unused]
enabled = false

[traces.exposed_communication]
warning = 0.2
"""

import os
from collections.abc import Mapping
from typing import Any

from gssr.model.results import SEVERITIES
from gssr.model.verdicts import clocks, errors, limits, losses, spans
from gssr.model.verdicts.table import TRACES, Rule, RuleTable, rules_of
from gssr.spelling import did_you_mean, did_you_mean_or_list, similar

SUBJECTS = (errors, spans, losses, clocks, limits)
TABLE = RuleTable(tuple(rule for subject in SUBJECTS for rule in rules_of(subject)))

VARIABLE = "GSSR_RULES"
"""Names a file of this kind."""
GREATEST = 1e15
"""No number of a rule is greater."""


def load(path: str, table: RuleTable = TABLE) -> RuleTable:
    """Read a site's file and return the table as the file changes it; a table of one section is changed by that section
    alone. Rules that the file turns off are not in it. Raises ValueError with one sentence that names the file and what
    is wrong in it."""
    import tomllib  # here, because hardly any page has rules of its own

    try:
        with open(path, "rb") as file:
            wanted = tomllib.load(file)
    except OSError as error:
        raise ValueError(f"{path}: rules can't be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:  # beside what is no TOML: numbers too long, brackets too deep
        raise ValueError(f"{path}: is no TOML: {error}") from None
    of_traces = wanted.pop(TRACES, {})
    if table.section:
        wanted = of_traces if isinstance(of_traces, dict) else {table.section: of_traces}
    codes = [rule.code for rule in table.rules]
    for code, changes in wanted.items():
        if code not in codes:
            raise ValueError(f"{path}: there is no rule {code!r}{did_you_mean(similar(code, codes))}")
        if not isinstance(changes, dict):
            raise ValueError(f"{path}: {code} must be a table: [{code}]")
    rules = (_changed(rule, wanted.get(rule.code, {}), path) for rule in table.rules)
    return table._replace(rules=tuple(rule for rule in rules if rule is not None))


def from_environment(environment: Mapping[str, str] = os.environ, table: RuleTable = TABLE) -> RuleTable:
    """Return the table as the file that GSSR_RULES names changes it; the table itself where none is named. Raises
    ValueError as ``load``."""
    path = environment.get(VARIABLE)
    return load(path, table) if path else table


def _changed(rule: Rule, changes: Mapping[str, Any], path: str) -> Rule | None:
    """Return the rule with its changes; None where it is turned off. Raises ValueError with one sentence that names
    ``path`` where a change is wrong."""
    names = [threshold.name for threshold in rule.thresholds]
    for name, value in changes.items():
        where = f"{path}: {name} in [{rule.code}]"
        if name == "enabled":
            if not isinstance(value, bool):
                raise ValueError(f"{where} must be true or false, not {value!r}")
        elif name == "severity":
            if value not in SEVERITIES:
                raise ValueError(f"{where} must be one of {', '.join(SEVERITIES)}, not {value!r}")
            rule = rule._replace(severity=value)
        elif name == "advice":
            if not isinstance(value, str):
                raise ValueError(f"{where} must be text, not {value!r}")
            rule = rule._replace(advice=value)
        elif name == "link":
            if not isinstance(value, str):
                raise ValueError(f"{where} must be text, not {value!r}")
            rule = rule._replace(link=value)
        elif name not in names:
            known = [*names, "severity", "advice", "link", "enabled"]
            raise ValueError(f"{where} is not known{did_you_mean_or_list(similar(name, known), 'there are:', known)}")
        elif isinstance(value, bool) or not isinstance(value, int | float) or value != value:
            raise ValueError(f"{where} must be a number, not {value!r}")
        elif not (least := next(each.least for each in rule.thresholds if each.name == name)) <= value <= GREATEST:
            raise ValueError(f"{where} must be a number from {least:g} to {GREATEST:g}, not {value!r}")
        else:
            rule = rule._replace(
                thresholds=tuple(
                    threshold._replace(value=float(value), source=f"{path}") if threshold.name == name else threshold
                    for threshold in rule.thresholds
                )
            )
    return rule if changes.get("enabled", True) else None
