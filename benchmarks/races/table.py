"""``python -m benchmarks races``: jobs that race for one name, round by round, and what came of them."""

import argparse
import contextlib
import itertools
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from benchmarks.faults import NotHereError
from benchmarks.processes import CACHE
from benchmarks.races import judged, started
from benchmarks.races.drawn import IN_SLURM, KINDS, Race, drawn
from benchmarks.races.judged import Verdict
from benchmarks.table import Figure, head, line, machine

ROUNDS = 200
LIMIT_LONGER = 2.0
"""Seconds that a rank may take longer than is usual."""
LIMIT_UNRECORDED = 0.01
"""Share of the ranks that may go on unrecorded, saying so."""
_TOGETHER = 10
"""Rounds that are judged together; as often one is done once more with a name for each job, which tells what is usual."""


def verdicts(
    races: Sequence[Race], environment: Mapping[str, str] = started.ENVIRONMENT
) -> Iterator[tuple[Race, Verdict]]:
    """Do these rounds, then judge each; one that can't be started is told and left out."""
    with tempfile.TemporaryDirectory(dir=CACHE) as name:
        folders = [Path(name) / str(race.seed) for race in races]
        done = []
        for race, folder in zip(races, folders, strict=True):
            folder.mkdir()
            try:
                outcome = started.run(race, folder, environment)
            except (TimeoutError, RuntimeError) as error:
                print(f"races: --seed {race.seed}: {error}", file=sys.stderr, flush=True)
                continue
            done.append((race, folder / "records", outcome, judged.merged(folder / "records")))
        pages = judged.pages(records for _, records, *_ in done)
        for race, records, outcome, stray in done:
            yield race, judged.judged(race, outcome, stray, judged.held(records), pages)


def usual(race: Race, environment: Mapping[str, str] = started.ENVIRONMENT) -> float:
    """The longest that a rank of this round takes beyond its workload where each job has a name of its own, s."""
    with tempfile.TemporaryDirectory(dir=CACHE) as name:
        outcome = started.run(race, Path(name), environment, apart=True)
    return max(judged.beyond(outcome), default=0.0)


def figures(all_verdicts: Sequence[Verdict], longest_usual: float, failed: int) -> Iterator[Figure]:
    """The table of these rounds."""

    def total(values: Iterable[int]) -> int:
        return sum(values)

    ranks = total(one.ranks for one in all_verdicts)
    unrecorded = total(one.unrecorded for one in all_verdicts)
    beyond = [seconds for one in all_verdicts for seconds in one.beyond]
    yield Figure("races: jobs torn", total(len(one.torn) for one in all_verdicts), "jobs", 0)
    yield Figure("races: jobs refused or let in wrongly", total(len(one.wrongly) for one in all_verdicts), "jobs", 0)
    yield Figure("races: jobs refused whole", total(one.jobs_refused for one in all_verdicts), "jobs")
    yield Figure("races: runs replaced whole by one with -f", total(one.replaced for one in all_verdicts), "runs")
    yield Figure("races: ranks that ran", ranks, "ranks")
    yield Figure("races: ranks lost, or in the wrong run", total(len(one.lost) for one in all_verdicts), "ranks", 0)
    share = 100 * unrecorded / ranks if ranks else 0.0
    yield Figure("races: ranks that said they go on unrecorded", share, "% of ranks", 100 * LIMIT_UNRECORDED)
    yield Figure(
        "races: runs that do not say which ranks they lack", total(len(one.unsaid) for one in all_verdicts), "runs", 0
    )
    yield Figure("races: longest beyond the workload, a name each", longest_usual, "s")
    yield Figure("races: longest beyond the workload", max(beyond, default=0.0), "s", longest_usual + LIMIT_LONGER)
    yield Figure("races: stray after gssr merge", total(len(one.stray) for one in all_verdicts), "files", 0)
    yield Figure(f"races: of {len(all_verdicts)} rounds failed", failed, "rounds", 0)


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code: 0, 1 when a limit was missed, 2 for wrong usage."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks races",
        description="Let jobs race for one name: is each recorded whole, or refused whole?",
    )
    parser.add_argument("--rounds", type=int, default=ROUNDS, metavar="N", help=f"how many (default: {ROUNDS})")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the first round (default: 0)")
    parser.add_argument("--only", action="append", choices=KINDS, help="only rounds of this kind; may be given again")
    parser.add_argument(
        "--each",
        choices=("", "-f", "-a"),
        metavar="OPTION",
        help="only rounds of three jobs or more with one -o that all have this option: --each=-f, --each=-a, or --each= for"
        " none",
    )
    parser.add_argument("--without-slurm", action="store_true", help="pass over the rounds that need a real Slurm")
    options = parser.parse_args(arguments)
    kinds = set(options.only or KINDS)
    if options.without_slurm:
        kinds -= set(IN_SLURM)
    CACHE.mkdir(exist_ok=True)
    with contextlib.ExitStack() as stack:
        environment = started.ENVIRONMENT
        if kinds & set(IN_SLURM):
            try:
                environment = stack.enter_context(started.slurm())
            except NotHereError as error:
                print(f"races: no rounds in Slurm: {error}", file=sys.stderr)
                kinds -= set(IN_SLURM)
        if "kubernetes" in kinds and not started.pods_are_possible():
            print("races: no rounds of pods: only root can give processes host names of their own", file=sys.stderr)
            kinds.discard("kubernetes")
        if not kinds:
            parser.error("no kind of rounds is left")
        races = itertools.islice(
            (
                race
                for race in map(drawn, itertools.count(options.seed))
                if race.kind in kinds and (options.each is None or race.each_has(options.each))
            ),
            options.rounds,
        )
        return _table(races, environment)


def _table(races: Iterator[Race], environment: Mapping[str, str]) -> int:
    print(machine(), flush=True)
    done: list[tuple[Race, Verdict]] = []
    longest_usual = 0.0
    while some := list(itertools.islice(races, _TOGETHER)):
        longest_usual = max(longest_usual, usual(some[0], environment))
        for race, verdict in verdicts(some, environment):
            done.append((race, verdict))
            for problem in verdict.problems:
                print(f"races: --seed {race.seed} --rounds 1 ({race}): {problem}", file=sys.stderr, flush=True)
    failed = 0
    for race, verdict in done:
        longest = max(verdict.beyond, default=0.0)
        waited = longest > longest_usual + LIMIT_LONGER
        if waited:
            text = f"a rank took {longest:.1f} s beyond its workload"
            print(f"races: --seed {race.seed} --rounds 1 ({race}): {text}", file=sys.stderr, flush=True)
        failed += bool(verdict.problems) or waited
    rows = list(figures([verdict for _, verdict in done], longest_usual, failed))
    print("", head(), *map(line, rows), sep="\n", flush=True)
    return 1 if any(row.missed for row in rows) else 0
