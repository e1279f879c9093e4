"""Writes the tables of docs/verdicts.md from the account of GPU time and the rules: run it after every change there."""

import ast
import re
from collections.abc import Iterator
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

from marked_parts import table, with_parts

from gssr.model.breakdown.categories import CATEGORIES, TimeCategory
from gssr.model.traces.trace_rules import IN_TORCH
from gssr.model.traces.trace_rules import TABLE as OF_TRACES
from gssr.model.verdicts.rules import TABLE
from gssr.model.verdicts.table import CRITICAL, LEAST_TOLD, Rule, Threshold
from gssr.model.verdicts.words import percent

PAGE = Path(__file__).with_name("verdicts.md")

LATE = ("straggler", "slow_node", "imbalance", "rotating_stragglers", "taking_turns")
VERDICTS: dict[str, tuple[str, ...]] = {
    "working.tensor": ("compute_bound",),
    "working.fp64": ("fp64", "compute_bound"),
    "working.memory": ("memory_bound", "memory_peak"),
    "working.other": ("compute_bound", "tensor_unused", "little_arithmetic"),
    "working.few_sms": ("small_kernels", "low_occupancy"),
    "working.slowed": (
        "throttled_thermal", "throttled_power_brake", "throttled_hardware", "power_capped", "slow_clock",
    ),
    "communication.transferring": ("communication_bound",),
    "communication.waiting": (*LATE, "communication_bound"),
    "idle.between_kernels": ("launch_gaps", "low_use"),
    "idle.imbalance": LATE,
    "idle.input_output": ("io_wait",),
    "idle.copies": ("transfer_bound",),
    "idle.host": ("cpu_starved",),
    "idle.unexplained": ("unexplained", "pauses", "recurring_dips"),
    "startup": ("start_up",),
    "end": ("tear_down",),
    "unused": ("gpus_unused",),
    "unmeasured": ("gpu_lost",),
}  # fmt: skip
"""The verdicts that tell of each category's time."""

STEPS = {
    "activity": "Active or not, start-up and end",
    "sparse_kernels": "Kernels that use few SMs",
    "quiet_kernels": "Kernels that compute nothing, where SM activity was not measured",
    "link_traffic": "Communication: transferring or waiting",
    "active_time": "Work of several kinds",
    "idle_time": "Idle time",
    "compare_gpus": "Comparing GPUs",
    "late_gpus": "Who is late",
}
"""The modules of gssr/model/account that infer, in the order in which they do, with what each splits."""


def _number(threshold: Threshold) -> str:
    return f"{threshold.value:.10g}" if abs(threshold.value) < 1e6 else _power_of_ten(threshold.value)


def _power_of_ten(value: float) -> str:
    return f"{value:g}".replace("e+0", "e").replace("e+", "e")


def _category(category: TimeCategory) -> tuple[str, ...]:
    codes = VERDICTS[category.name]
    for code in codes:
        TABLE.rule(code)  # raises StopIteration if there is no such rule
    links = ", ".join(f"[`{code}`](#{code})" for code in codes)
    if not category.is_loss:
        return f"`{category.name}`", category.label, "no", "–", links
    source = f": {category.source}" if category.source else ""
    return f"`{category.name}`", category.label, "yes", f"{percent(category.ordinary)}{source}", links


def _constants(module_name: str) -> Iterator[tuple[str, ...]]:
    """The numbers of a module of the account, with the sentence that stands below each."""
    module = import_module(f"gssr.model.account.{module_name}")
    body = ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8")).body
    for statement, below in pairwise(body):
        if not (isinstance(statement, ast.Assign) and isinstance(below, ast.Expr)):
            continue
        target = statement.targets[0]
        names = [each.id for each in ast.walk(target) if isinstance(each, ast.Name)]
        values = [getattr(module, name) for name in names]
        if all(isinstance(value, int | float | dict) for value in values) and isinstance(below.value, ast.Constant):
            text = " ".join(str(below.value.value).split())
            yield ", ".join(f"`{name.lstrip('_')}`" for name in names), ", ".join(map(_shown, values)), text


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {_shown(each)}" for key, each in value.items())
    return f"{value:.10g}" if abs(value) < 1e6 else _power_of_ten(value)


def _inference() -> str:
    parts = []
    for module_name, title in STEPS.items():
        rows = table(("Name", "Value", "What it means, and its source"), _constants(module_name))
        parts.append(f"**{title}** (`gssr/model/account/{module_name}.py`)\n\n{rows}")
    return "\n".join(parts)


def _thresholds(rule: Rule) -> str:
    return table(
        ("Name", "Value", "What it means", "Source"),
        ((f"`{each.name}`", _number(each), each.meaning, each.source) for each in rule.thresholds),
    )


def _rule(rule: Rule, more: str = "") -> str:
    needs = "; ".join(" or ".join(f"`{name}`" for name in group) for group in rule.needs)
    about = f"Severity: {rule.severity}." + (f" Needs {needs}." if needs else "")
    if rule.explains:
        about += f" Hides {', '.join(f'`{code}`' for code in rule.explains)}."
    if rule.aliases:
        about += f" Earlier called {', '.join(f'`{name}`' for name in rule.aliases)}."
    advice = f"{rule.advice} {more}".rstrip()
    title = re.sub(r"(?<=[\w}])\{", " {", rule.title).replace("{", "*").replace("}", "*")
    return f"### {rule.code}\n\n> {title}\n\n{advice}\n\n{about}\n\n{_thresholds(rule)}\n"


def sections() -> dict[str, str]:
    """The parts of the page that are made from the code, by the name of their marker."""
    head = ("Category", "What the GPU does", "Loss", "Ordinary share", "Verdicts")
    return {
        "categories": table(head, map(_category, CATEGORIES))
        + f"\nA loss above its ordinary share is a warning; from {percent(CRITICAL)} of the GPU time on it is critical. "
        f"A loss of {percent(LEAST_TOLD)} or more that is below its ordinary share is an info. If the cause is a "
        "[guess](#how-certain-it-is), waiting for files, copies or the CPU is an info below "
        f"{percent(TABLE.rule('io_wait').at('guess'))}.\n",
        "constants": _inference(),
        "rules": "".join(_rule(rule) for rule in TABLE.rules).rstrip("\n") + "\n",
        "rules for traces": "".join(_rule(rule, IN_TORCH.get(rule.code, "")) for rule in OF_TRACES.rules).rstrip()
        + "\n",
    }


def page(text: str) -> str:
    """The page with its made parts as the code has them now."""
    return with_parts(text, "make_verdicts.py", sections())


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
