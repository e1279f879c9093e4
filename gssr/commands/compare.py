"""``gssr compare``: what is better or worse in one run than in another, and whether it is more than noise."""

import argparse
import math
from collections.abc import Sequence
from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple

from gssr.commands import BAD_INPUT, OK, USAGE, Command, Option, fail, page_options, put
from gssr.commands.inputs import RULES, chosen_runs, with_run
from gssr.commands.printing import Bar

if TYPE_CHECKING:
    from gssr.model.compare.comparison import Comparison
    from gssr.model.results import Analysis
    from gssr.model.verdicts.table import Table

FAILED = 3
"""Exit code when --fail-below or --fail-if-worse says so."""
MOST = 26

OPTIONS = (
    Option(
        ("files",),
        {
            "nargs": "+",
            "metavar": "FILE[@RUN]",
            "help": "recordings, the one to compare with first; RUN: its number, id or label (default: the last); one "
            "recording alone: all its runs",
        },
    ),
    Option(("--json",), {"action": "store_true", "help": "print one JSON object instead of a page"}),
    Option(
        ("--fail-below",),
        {"type": float, "metavar": "SCORE", "help": "exit with 3 when a run but the first has a lower score, or none"},
    ),
    Option(
        ("--fail-if-worse",),
        {
            "metavar": "LIMIT",
            "help": "exit with 3 when a score is worse than the first by more than this and more than noise: 5%% of the "
            "first, or 0.05",
        },
    ),
    RULES,
    *page_options.OPTIONS,
)


class Limit(NamedTuple):
    """How much worse a score may be: by ``value``, or by that share of the first score."""

    value: float
    relative: bool

    def allowed(self, first: float) -> float:
        """In units of the score."""
        return self.value * first if self.relative else self.value


def limit_of(text: str) -> Limit:
    """``5%`` or ``0.05``. Raises ValueError with a sentence."""
    relative = text.strip().endswith("%")
    try:
        value = float(text.strip().rstrip("%"))
    except ValueError:
        raise ValueError(f"{text!r} is neither a share such as 5% nor a difference of scores such as 0.05") from None
    value = value / 100 if relative else value
    if not 0 <= value <= 1:
        raise ValueError(f"{text!r} is not between 0 and {'100%' if relative else '1'}")
    return Limit(value, relative)


def handle(options: argparse.Namespace, _workload: list[str] | None) -> int:
    """Exit code 0; 3 when a condition does not hold; 1 when a recording could not be read; 2 for wrong usage."""
    wrong = page_options.wrong_width(options)
    if wrong is not None:
        return fail(wrong, USAGE)
    if options.fail_below is not None and not 0 <= options.fail_below <= 1:
        return fail(f"--fail-below: {options.fail_below:g} is not between 0 and 1", USAGE)
    try:
        limit = None if options.fail_if_worse is None else limit_of(options.fail_if_worse)
    except ValueError as error:
        return fail(f"--fail-if-worse: {error}", USAGE)

    from gssr.model.verdicts.rules import from_environment, load
    from gssr.store.read.open import RecordingError

    try:
        rules = load(options.rules) if options.rules is not None else from_environment()
    except ValueError as error:
        return fail(str(error), USAGE)
    try:
        names, analyses, damage = _analyses(options.files, rules)
    except RecordingError as error:
        return fail(str(error), BAD_INPUT)
    except ValueError as error:
        return fail(str(error), USAGE)
    if not 2 <= len(analyses) <= MOST:
        return fail(f"{len(analyses)} run: name another one to compare it with" if len(analyses) < 2 else
                    f"{len(analyses)} runs: no more than {MOST} can be compared", USAGE)  # fmt: skip

    from gssr.model.compare.comparison import compare

    comparisons = [compare(analyses[0], own, chr(ord("A") + at)) for at, own in enumerate(analyses[1:], 1)]
    failed = _failed(comparisons, options.fail_below, limit)
    code = _show(names, comparisons, failed, options)
    for sentence in failed:
        fail(sentence, FAILED)
    for sentence in damage:
        code = fail(sentence, BAD_INPUT)
    return code or (FAILED if failed else OK)


def _analyses(files: Sequence[str], rules: "Table") -> "tuple[list[str], list[Analysis], list[str]]":
    """What each run is called, its analysis by ``rules``, and what was damaged. Raises RecordingError, and ValueError for a
    run that is not there."""
    from dataclasses import replace

    from gssr.model.analyze import analyze
    from gssr.model.compare.comparison import OPTIONS as WANTED
    from gssr.model.compare.comparison import compared
    from gssr.store.format.vectors import keep_freed
    from gssr.store.read.recording import open_recording

    keep_freed()
    names: list[str] = []
    analyses: list[Analysis] = []
    damage: list[str] = []
    wanted, bar = replace(WANTED, rules=rules), Bar("comparing")
    try:
        for at, text in enumerate(files):
            file, run = with_run(text)
            with closing(open_recording(file)) as recording:
                try:
                    readers = chosen_runs(recording, run)
                except ValueError as error:
                    raise ValueError(f"{file}: {error}") from None
                if run is None and len(files) > 1:
                    readers = readers[-1:]
                for done, reader in enumerate(readers):
                    bar.show((at + done / len(readers)) / len(files))
                    several = len(recording.runs) > 1
                    names.append(f"{file}@{recording.runs.index(reader) + 1}" if several else file)
                    analyses.append(compared(analyze(reader, wanted)))
                damage += [recording.damage] if recording.damage else []
            del recording, readers, reader  # two may be too much
    finally:
        bar.clear()
    return names, analyses, damage


def _failed(comparisons: "Sequence[Comparison]", below: float | None, limit: Limit | None) -> list[str]:
    """One sentence for each condition that does not hold. A score that is unknown holds none."""
    found = []
    for letter, each in zip("BCDEFGHIJKLMNOPQRSTUVWXYZ", comparisons, strict=False):
        score = each.score
        if below is not None and not (score.b is not None and score.b >= below):
            what = "an unknown score" if score.b is None else f"a score of {score.b:.3f}"
            found.append(f"{letter} has {what}: --fail-below {below:g}")
        if limit is None:
            continue
        if score.a is None or score.difference is None or score.noise is None:
            found.append(f"{letter} can't be compared with A, as a score or the noise is unknown: --fail-if-worse")
        elif score.difference < -max(limit.allowed(score.a), score.noise, math.ulp(1.0)):
            found.append(
                f"{letter}'s score is worse by {-score.difference:.3f}, {_share(score.relative)}: --fail-if-worse"
            )
    return found


def _share(relative: float | None) -> str:
    return "from 0" if relative is None else f"{-100 * relative:.1f} %"


def _show(
    names: Sequence[str], comparisons: "Sequence[Comparison]", failed: Sequence[str], options: argparse.Namespace
) -> int:
    if options.json:
        from gssr.report.comparison import to_json

        return put(to_json(names, comparisons, failed))
    from gssr.report.comparison import comparison_page
    from gssr.report.page import PageOptions
    from gssr.report.terminal import to_text

    ascii_only = page_options.ascii_only(options)
    rows = comparison_page(names, comparisons, PageOptions(width=options.width, ascii=ascii_only))
    return put(to_text(rows, page_options.wants_color(options), ascii_only))


COMMAND = Command(
    "compare",
    "say what is better or worse in one run than in another",
    "gssr compare [options] FILE[@RUN] [FILE[@RUN] ...]",
    OPTIONS,
    handle,
)
