"""``gssr compare``: what is better or worse in one run than in another, and whether it is more than noise; of traces, which
names take more time."""

import argparse
import math
import re
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple

from gssr.commands import BAD_INPUT, OK, USAGE, Command, Option, fail, page_options, put, tell
from gssr.commands.inputs import RULES, chosen_runs, looking_at, traces_among, with_run
from gssr.commands.progress_bar import ProgressBar

if TYPE_CHECKING:
    from gssr.model.compare.comparison import Comparison
    from gssr.model.results import Analysis
    from gssr.model.verdicts.table import RuleTable

FAILED = 3
"""Exit code when --fail-below, --fail-if or --fail-if-worse says so."""
MOST = 26

OPTIONS = (
    Option(
        ("files",),
        {
            "nargs": "+",
            "metavar": "FILE[@RUN]",
            "help": "recordings or traces; the others are compared with the first. RUN is the number, id or label of a run "
            "(default: the last). One recording alone: all its runs. A trace is a file, or a folder of one run's ranks",
        },
    ),
    Option(("--json",), {"action": "store_true", "help": "print one JSON object instead of a page"}),
    Option(
        ("--fail-below",),
        {
            "type": float,
            "metavar": "SCORE",
            "help": "exit with code 3 if any run but the first has a lower score, or none",
        },
    ),
    Option(
        ("--fail-if-worse",),
        {
            "metavar": "LIMIT",
            "help": "exit with code 3 if a score is lower than the first by more than LIMIT (5%% of the first, or 0.05) "
            "and by more than noise",
        },
    ),
    Option(
        ("--fail-if",),
        {
            "action": "append",
            "metavar": "CHANGE",
            "help": "exit with code 3 if a number differs from the first run's by more than this and by more than noise: "
            "'score < -5 %%', 'duration_s > 10 %%', 'imbalance > 0.02', or the share of a category of the GPU time: "
            "'idle.copies > 0.05'; may be given several times",
        },
    ),
    Option(
        ("--from",),
        {"dest": "start", "metavar": "TIME", "help": "of traces: begin 1.5 (s) or 250ms after each trace's zero"},
    ),
    Option(
        ("--to",), {"dest": "end", "metavar": "TIME", "help": "of traces: end here; -30ms is before each trace's end"}
    ),
    Option(
        ("--steps",),
        {"metavar": "N-M", "help": "of traces: only from step N to step M, by the numbers in the steps' names"},
    ),
    RULES,
    *page_options.OPTIONS,
)


class Condition(NamedTuple):
    """A change that is too much: of the number ``name`` (a key of the JSON object), down (-1) or up (1) by more than
    ``limit``, which is a share of the first run's value where it ``is_relative``. ``option``: as it was given; ``worse``:
    what such a change is called."""

    name: str
    sign: int
    limit: float
    is_relative: bool
    option: str
    worse: str

    def allowed(self, first: float) -> float:
        """Return the limit in units of the number that is compared; ``first``: its value in the first run."""
        return self.limit * first if self.is_relative else self.limit


_CHANGE = re.compile(r"\s*([\w.]+)\s*([<>])\s*([+-]?\d*\.?\d+)\s*(%?)\s*")


def condition_of(text: str) -> Condition:
    """Parse a condition, ``score < -5 %`` or ``imbalance > 0.02``. Raises ValueError with a sentence."""
    from gssr.model.breakdown.categories import POSITIONS
    from gssr.model.compare.compared_metrics import METRICS
    from gssr.model.compare.comparison import BETTER

    found = _CHANGE.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is no change such as 'score < -5 %' or 'imbalance > 0.02'")
    name, sign, number, percent = found.groups()
    known = dict.fromkeys((*BETTER, *METRICS, *POSITIONS))
    if name not in known:
        raise ValueError(f"{name!r} is not compared; there are {', '.join(known)}")
    value, down = float(number) / (100 if percent else 1), sign == "<"
    if value and (value < 0) != down:
        raise ValueError(f"{text!r}: after {sign} comes a change {'below' if down else 'above'} 0, as in '{name} {sign} "
                         f"{'-' * down}5 %'")  # fmt: skip
    worse = "lower" if down else "higher"
    return Condition(name, -1 if down else 1, abs(value), bool(percent), f"--fail-if '{text}'", worse)


def limit_of(text: str) -> tuple[float, bool]:
    """Parse a limit from 0 to 1, ``5%`` or ``0.05``. Returns it as a number, and whether it is a share of the first run's
    value. Raises ValueError with a sentence."""
    relative = text.strip().endswith("%")
    try:
        value = float(text.strip().rstrip("%"))
    except ValueError:
        raise ValueError(f"{text!r} is neither a share such as 5% nor a difference of scores such as 0.05") from None
    value = value / 100 if relative else value
    if not 0 <= value <= 1:
        raise ValueError(f"{text!r} is not between 0 and {'100%' if relative else '1'}")
    return value, relative


def handle(options: argparse.Namespace, _workload: list[str] | None) -> int:
    """Exit code 0; 3 when a condition does not hold; 1 when a recording could not be read; 2 for wrong usage."""
    wrong = page_options.wrong_width(options)
    if wrong is not None:
        return fail(wrong, USAGE)
    if options.fail_below is not None and not 0 <= options.fail_below <= 1:
        return fail(f"--fail-below: {options.fail_below:g} is not between 0 and 1", USAGE)
    try:
        conditions = _conditions(options)
    except ValueError as error:
        return fail(str(error), USAGE)

    traces = traces_among(options.files)
    if traces and len(traces) < len(options.files):
        other = next(name for name in options.files if name not in traces)
        return fail(f"{traces[0]} is a trace and {other} is none: they can't be compared", USAGE)
    if traces:
        return _compare_traces(options)
    if options.start or options.end or options.steps:
        return fail(f"--from, --to and --steps are for traces: {options.files[0]} is none", USAGE)

    from gssr.model.verdicts.rules import from_environment, load
    from gssr.store.read.open import RecordingError

    try:
        rules = load(options.rules) if options.rules is not None else from_environment()
    except ValueError as error:
        return fail(str(error), USAGE)
    try:
        with looking_at([with_run(text)[0] for text in options.files]) as places:
            names, analyses, damage = _analyses(options.files, rules, places)
    except RecordingError as error:
        return fail(str(error), BAD_INPUT)
    except ValueError as error:
        return fail(str(error), USAGE)
    if not 2 <= len(analyses) <= MOST:
        return fail(f"{len(analyses)} run: name another one to compare it with" if len(analyses) < 2 else
                    f"{len(analyses)} runs: no more than {MOST} can be compared", USAGE)  # fmt: skip

    from gssr.model.compare.comparison import compare

    comparisons = [compare(analyses[0], own, chr(ord("A") + at)) for at, own in enumerate(analyses[1:], 1)]
    failed = _failed(comparisons, options.fail_below, conditions)
    code = _show(names, comparisons, failed, options)
    for sentence in (*failed, *_undecided(comparisons, conditions)):
        fail(sentence, FAILED)
    for sentence in damage:
        code = fail(sentence, BAD_INPUT)
    return code or (FAILED if failed else OK)


def _compare_traces(options: argparse.Namespace) -> int:
    """Compare traces, the first with each of the others, and print the page or JSON; return the exit code.

    Conditions such as --fail-if are refused.
    """
    from gssr.model.traces.analyze_trace import analyze_timelines
    from gssr.model.traces.trace_selection import TraceSelection
    from gssr.report.page import PageOptions
    from gssr.report.terminal import to_text
    from gssr.report.trace_comparison import to_json, trace_comparison_page
    from gssr.traces.open import TraceError, open_traces

    names = options.files
    if options.fail_below is not None or options.fail_if_worse is not None or options.fail_if:
        return fail(f"--fail-below, --fail-if and --fail-if-worse are not for traces, such as {names[0]}", USAGE)
    if not 2 <= len(names) <= MOST:
        return fail(
            f"{'one trace' if len(names) == 1 else f'{len(names)} traces'}: name from 2 to {MOST} to compare", USAGE
        )
    wanted, found = TraceSelection(options.start, options.end, options.steps), []
    for name in names:
        try:
            traces = open_traces([name])
            found.append(analyze_timelines(traces.timelines(), wanted, tables=("verdicts",)))
            for problem in traces.problems:
                tell(problem)
        except TraceError as error:
            return fail(str(error), BAD_INPUT)
        except ValueError as error:
            return fail(f"{name}: {error}", USAGE)
    if options.json:
        return put(to_json(names, found))
    ascii_only = page_options.ascii_only(options)
    rows = trace_comparison_page(names, found, PageOptions(width=options.width, ascii=ascii_only))
    return put(to_text(rows, page_options.wants_color(options), ascii_only))


def _analyses(
    files: Sequence[str], rules: "RuleTable", places: Mapping[str, str]
) -> "tuple[list[str], list[Analysis], list[str]]":
    """Analyse the runs that are compared.

    Args:
        files: FILE or FILE@RUN. Without a run it is the last one; all of them if there is one file.
        rules: for the verdicts.
        places: what is opened in place of a file.

    Returns:
        (what each run is called, its analysis, sentences on what is damaged).

    Raises:
        RecordingError: a recording can't be read.
        ValueError: a run is not there.
    """
    from gssr.model.compare.comparison import analyze_to_compare
    from gssr.store.read.freed_memory import keep_freed
    from gssr.store.read.recording import open_recording

    keep_freed()
    names: list[str] = []
    analyses: list[Analysis] = []
    damage: list[str] = []
    bar = ProgressBar("comparing")
    try:
        for at, text in enumerate(files):
            file, run = with_run(text)
            with closing(open_recording(places.get(file, file))) as recording:
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
                    analyses.append(analyze_to_compare(reader, rules))
                damage += [recording.damage] if recording.damage else []
            del recording, readers, reader  # two may be too much
    finally:
        bar.clear()
    return names, analyses, damage


def _conditions(options: argparse.Namespace) -> list[Condition]:
    """Read the conditions of --fail-if-worse and --fail-if. Raises ValueError, with a sentence that names the option."""
    found = []
    try:
        option = "--fail-if-worse"
        if options.fail_if_worse is not None:
            found.append(Condition("score", -1, *limit_of(options.fail_if_worse), option, "worse"))
        option = "--fail-if"
        return found + [condition_of(text) for text in options.fail_if or ()]
    except ValueError as error:
        raise ValueError(f"{option}: {error}") from None


def _failed(comparisons: "Sequence[Comparison]", below: float | None, conditions: Sequence[Condition]) -> list[str]:
    """Return a sentence for each condition that a run fails; where a value is unknown it fails.

    ``below``: the lowest score of --fail-below, or None.
    """
    found = []
    for letter, each in zip("BCDEFGHIJKLMNOPQRSTUVWXYZ", comparisons, strict=False):
        score = each.score
        if below is not None and not (score.b is not None and score.b >= below):
            what = "an unknown score" if score.b is None else f"a score of {score.b:.3f}"
            found.append(f"{letter} has {what}: --fail-below {below:g}")
        for condition in conditions:
            name, option = condition.name, condition.option
            change = each.change_of(name)
            if change is None or change.a is None or change.difference is None or change.noise is None:
                found.append(f"{letter} can't be compared with A, as {name} or its noise is unknown: {option}")
            elif condition.sign * change.difference > max(condition.allowed(change.a), change.noise, math.ulp(1.0)):
                by = f"{abs(change.difference):.3f}" if name == "score" else f"{abs(change.difference):.3g}"
                found.append(f"{letter}'s {name} is {condition.worse} by {by}, {_share(change.relative)}: {option}")
    return found


def _undecided(comparisons: "Sequence[Comparison]", conditions: Sequence[Condition]) -> list[str]:
    """Return a sentence for each condition that is finer than the noise between two runs, which differ by no more than
    that noise.

    A limit of 0 asks only for what is no noise, so it never is too fine.
    """
    from gssr.model.compare.comparison import ONE_A_RUN

    found = []
    for letter, each in zip("BCDEFGHIJKLMNOPQRSTUVWXYZ", comparisons, strict=False):
        for condition in conditions:
            name, option = condition.name, condition.option
            change = each.change_of(name)
            if change is None or change.a is None or change.noise is None or change.outcome != "within noise":
                continue
            if 0 < condition.allowed(change.a) < change.noise:
                noise = _share(change.noise / change.a) if condition.is_relative else f"{change.noise:.3g}"
                spread = "" if name in ONE_A_RUN else " by its spread over GPUs and time"
                found.append(f"{letter}'s {name} can't be judged that finely: up to {noise} is noise{spread}: {option}")
    return found


def _share(relative: float | None) -> str:
    """Say a relative change in %, without its sign; "from 0" for None."""
    return "from 0" if relative is None else f"{abs(100 * relative):.1f} %"


def _show(
    names: Sequence[str], comparisons: "Sequence[Comparison]", failed: Sequence[str], options: argparse.Namespace
) -> int:
    """Print the page or the JSON object; return the exit code."""
    if options.json:
        from gssr.report.comparison_json import to_json

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
