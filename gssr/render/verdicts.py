"""Verdicts in lines of text: each with its mark, what it rests on and what to do; and the rules that abstained."""

import math
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from shlex import quote

from gssr.model.results import Severity, Verdict
from gssr.render.cells import cell_width, clean, fit, wrap
from gssr.render.roles import Role, Row, Span, text_of
from gssr.render.scale import count

LOOKS: dict[Severity, tuple[str, Role]] = {
    "critical": ("!!", "bad"),
    "warning": ("!", "outlier"),
    "info": ("i", "dim"),
}
"""The mark of each severity, and its role."""


COSTLY = 0.05
"""An info that costs at least this share of the GPUs' time is told with what to do, as warnings are (a threshold of our
own)."""


def is_told_whole(verdict: Verdict) -> bool:
    """Whether a page, or a screen with room, tells what it rests on and what to do beside its title."""
    return verdict.severity != "info" or (verdict.lost or 0.0) >= COSTLY


def verdict_rows(verdict: Verdict, width: int, whole: bool, with_limits: bool = False) -> list[Row]:
    """Draw one verdict: its mark and title; if ``whole``, the numbers it rests on and what to do as well, and
    ``with_limits``, whose limits these were held against."""
    mark, role = LOOKS[verdict.severity]
    rows = wrap(clean(verdict.title), width - 3, role="value" if verdict.severity != "info" else "plain")
    rows = [(Span(f"{mark if number == 0 else '':<3}", role), *row) for number, row in enumerate(rows)]
    if not whole:
        return rows
    numbers = "; ".join(clean(text) for text in texts_of(verdict))
    if with_limits:
        numbers = " ".join([*([f"{numbers}."] if numbers else []), limits_of(clean(verdict.source))])
    rows += wrap(numbers, width, "   ", "   ", "dim")
    return rows + advice_rows(verdict, width)


_PROGRAM = r"(?:gssr|nsys|ncu|rocprofv3|py-spy|gdb|nvidia-smi|amd-smi|rocminfo|srun|sacct|python)"
_PROSE = r"(?:on|in|within|and|or|then|it|shows|says|tells|counts|compares)(?=[ ;]|\. |\.?$)"
_WORD = r"""(?:'[^']*'|"[^"]*"|[^;'" ])+?"""
"""A word of a shell's line; files are quoted in it."""
_AFTER_COLON = re.compile(rf"(?<=: )({_PROGRAM}(?: (?!{_PROSE}){_WORD})*?)(?:; |\. |\.?$)")
"""A command that has a line of its own: it follows a colon, and ends with a semicolon, a full stop, or the text."""
_BETWEEN = ("then: ", "and: ")
"""What stands between two commands in a sentence, and not between their lines."""
_WITHIN = re.compile(rf"\b{_PROGRAM}(?: (?:-[^ )]*[\w/]|[A-Z]{{3,}}\b|[a-z_-]+(?= (?:-|[A-Z]{{3,}}))))+")
"""A command within a sentence, from its program to its last option or name to be filled in."""


def advice_parts(advice: str) -> list[tuple[bool, str]]:
    """Split an advice into its sentences and the commands that have a line of their own, in order: (whether it is a
    command, its text)."""
    parts: list[tuple[bool, str]] = []
    for number, text in enumerate(_AFTER_COLON.split(advice)):
        if text.strip() and text not in _BETWEEN:
            parts.append((number % 2 == 1, text.strip()))
    return parts


def advice_rows(verdict: Verdict, width: int, most: int | None = None, ellipsis: str = "") -> list[Row]:
    """Draw what to do about a verdict, in at most ``most`` rows (None: all); if there are more, the last one ends with
    ``ellipsis``. Commands within a sentence are not broken if they fit on a line."""
    rows: list[Row] = []
    for is_command, text in advice_parts(clean(verdict.advice)):
        if is_command:
            rows += command_rows(text, width, "   $ ", "   ")
        else:
            rows += wrap(text, width, "   " if rows else " > ", "   ", unbroken=_WITHIN)
    if most is None or len(rows) <= most:
        return rows
    rows = rows[: most + 1]
    cut = f"{text_of(rows[most - 1])} {text_of(rows[most]).strip()}{ellipsis}"
    return [*rows[: most - 1], (Span(fit(cut, width, ellipsis)),)] if most else []


_SHELL_WORD = re.compile(r"""(?:'[^']*'|"[^"]*"|[^'" ])+""")


def command_rows(command: str, width: int, first: str = "", rest: str = "", role: Role = "plain") -> list[Row]:
    """Draw a command on one line if it fits, else on several that a shell joins. ``first`` and ``rest`` begin the first and
    every other line, but for those that go on with a word that is longer than a line."""
    if cell_width(first + command) <= width:
        return [(Span(first + command, role),)]
    lines: list[str] = []
    begin = line = first
    for word in _SHELL_WORD.findall(command):
        if line != begin and cell_width(f"{line} {word} \\") > width:
            lines.append(f"{line} \\")
            begin = line = rest
        line += word if line == begin else f" {word}"
        while cell_width(f"{line} \\") > width:
            text = shlex.split(word)[0]
            ahead = line[: len(line) - len(word)]
            n = next((n for n in range(len(text) - 1, 0, -1) if cell_width(f"{ahead}{quote(text[:n])}\\") <= width), 0)
            if not n:
                break
            lines.append(f"{ahead}{quote(text[:n])}\\")
            begin, line = "", (word := quote(text[n:]))
    return [(Span(each, role),) for each in [*lines, line]]


_COMMAND = re.compile(r"(\bgssr(?: [a-z_-]+)+) FILE\b")
_MOST_FILES = 16


def naming(verdicts: Sequence[Verdict], files: Sequence[str]) -> tuple[Verdict, ...]:
    """Return the verdicts with FILE in their commands replaced by the files looked at, quoted for a shell; as they are
    if there are none, more than _MOST_FILES, or names that can't be shown. A command that names them runs as it stands."""
    words = " ".join(map(quote, files))
    if not 0 < len(files) <= _MOST_FILES or not words.isprintable():
        return tuple(verdicts)
    return tuple(
        replace(own, advice=_COMMAND.sub(lambda command: f"{command[1]} {words}", own.advice)) for own in verdicts
    )


def texts_of(verdict: Verdict) -> list[str]:
    """List the numbers that a verdict rests on, and what its cure would save, if that is known."""
    saving = saving_of(verdict)
    return [*(finding.text for finding in verdict.evidence), *([saving] if saving else [])]


def saving_of(verdict: Verdict) -> str:
    """Say what the cure of a verdict would save, to two digits, in seconds of a GPU where that is less than a hundredth of a
    GPU-hour; "" if it is not known."""
    hours = verdict.gpu_hours
    if not hours:
        return ""
    amount, unit = (hours, "GPU-hours") if hours >= 0.01 else (3600 * hours, "GPU-seconds")
    return f"would save about {float(f'{amount:.2g}'):,.10g} {unit}"


def limits_of(source: str) -> str:
    """Say in a sentence whose limits the numbers were held against, from a verdict's ``source``."""
    names = source.split(", ")
    others = ", ".join(name for name in names if name != "ours")
    if not others:
        return "Its limits are GSSR's own."
    own = "; GSSR's own" if "ours" in names else ""
    return f"Limits: {others}{own}."


def abstention_rows(abstentions: Mapping[str, str], width: int, bullet: str, most_named: float = math.inf) -> list[Row]:
    """Say which rules could not be judged, with the reason (``abstentions``, by code), those with the same reason together:
    by name, or if they are more than ``most_named`` only how many. No rows for none."""
    reasons: dict[str, list[str]] = {}
    for code, why in abstentions.items():
        reasons.setdefault(why, []).append(code)
    rows: list[Row] = []
    for reason, codes in reasons.items():
        named = ", ".join(codes) if len(codes) <= most_named else count(len(codes), "rule")
        text = f"not judged: {named} ({reason})"
        rows += wrap(text, width, f"{bullet}  ", "   ", "dim")
    return rows
