"""What came of a round, judged from outside: exit codes, what the workloads left, and what the recordings hold for ``gssr
analyze --json`` and for SQLite alone."""

import json
import re
import sqlite3
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from tests.races.rounds.drawn import RANKS, Race
from tests.races.rounds.started import Attempt, Outcome, gssr

KILLED = 137
REFUSED = 2
_SAYS_UNRECORDED = re.compile(r"^gssr: .*(unrecorded|not recorded|nothing is recorded)", re.MULTILINE)
_SAYS_NOT_SAMPLED = re.compile(r"^gssr: no GPU is sampled", re.MULTILINE)
_MERGED_WITHIN = 15.0
"""Seconds in which what the last rank left to do is done: the sampler finishes for 10 s at most."""
_BEFORE = 0.5
"""A recording must have been there for so many seconds before a job that has to be refused because of it."""


class Held(NamedTuple):
    """What the recordings of a round hold, by SQLite. ``processes``: label, run, rank and exit code, row by row. ``gpus``:
    label, run, rank, node, index and number of samples of each GPU. ``astray``: rows that belong to no run or GPU, in
    words."""

    processes: list[tuple[str, str, int, int | None]]
    gpus: list[tuple[str, str, int | None, str, int, int]]
    astray: list[str]


class Verdict(NamedTuple):
    """Problems by kind, each a sentence, of ``stray`` a file; and counts. ``beyond``: how long each rank that ended took
    beyond its workload, s."""

    torn: list[str]
    wrongly: list[str]
    lost: list[str]
    unsaid: list[str]
    stray: list[str]
    jobs_refused: int
    ranks: int
    unrecorded: int
    unsampled: int
    replaced: int
    beyond: list[float]

    @property
    def problems(self) -> list[str]:
        """All of them but waits, which are judged by what is usual."""
        stray = [f"after gssr merge: {', '.join(self.stray)}"] if self.stray else []
        return [*self.torn, *self.wrongly, *self.lost, *self.unsaid, *stray]


def merged(records: Path) -> list[str]:
    """Merge what the jobs left, as a user would; what lies astray after that."""
    problems = []
    for shards in sorted(records.glob("*.sql.d")):
        name = shards.name.removesuffix(".d")
        deadline = time.monotonic() + _MERGED_WITHIN
        while True:
            done = gssr(["merge", name], records)
            if not shards.exists() or time.monotonic() > deadline:
                break
            time.sleep(1.0)
        if done.returncode:
            said = "; ".join(done.stderr.splitlines())
            problems.append(f"exit code {done.returncode} for {name} ({said})")
    left = [path.relative_to(records) for path in records.rglob("*") if path.is_file() and path.suffix != ".sql"]
    left += [path.relative_to(records) for path in records.glob("*.sql.d/*.sql")]
    left += [path.relative_to(records) for path in records.glob("*.sql.d") if not any(path.iterdir())]
    return [*problems, *map(str, sorted(left))]


def held(records: Path) -> Held:
    """What all recordings of the round hold."""
    found = Held([], [], [])
    for path in sorted([*records.glob("*.sql"), *records.glob("*.sql.d/*.sql")]):
        if not path.is_file():
            continue
        try:
            with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
                found.processes.extend(
                    connection.execute(
                        "SELECT label, run_id, rank, processes.exit_code FROM processes JOIN runs USING (run_id)"
                    )
                )
                found.gpus.extend(
                    connection.execute(
                        "SELECT label, run_id, rank, node, device_index, (SELECT count(*) FROM samples WHERE"
                        " samples.gpu = gpus.gpu) FROM gpus JOIN runs USING (run_id)"
                    )
                )
                for table, key, of in (
                    ("samples", "gpu", "gpus"),
                    ("gpus", "run_id", "runs"),
                    ("processes", "run_id", "runs"),
                ):
                    query = f"SELECT count(*) FROM {table} WHERE {key} NOT IN (SELECT {key} FROM {of})"
                    (rows,) = connection.execute(query).fetchone()
                    if rows:
                        found.astray.append(f"{path.name}: {rows} rows of {table} belong to none of its {of}")
        except sqlite3.Error as error:
            found.astray.append(f"{path.name}: {error}")
    return found


def pages(folders: Iterable[Path]) -> dict[str, list[dict[str, Any]]]:
    """What ``gssr analyze --json`` says of all recordings in these folders, by the runs' labels."""
    names = {path.with_name(path.name.removesuffix(".d")) for folder in folders for path in folder.glob("*.sql*")
             if path.name.endswith((".sql", ".sql.d"))}  # fmt: skip
    found: dict[str, list[dict[str, Any]]] = {}
    for run in _analyzed(sorted(names)):
        found.setdefault(run["label"], []).append(run)
    return found


def _analyzed(names: Sequence[Path]) -> list[dict[str, Any]]:
    """Of all together; where one of them can't be read, of each alone."""
    if not names:
        return []
    done = gssr(["analyze", "--json", *names], names[0].parent)
    if done.returncode == 0:
        runs: list[dict[str, Any]] = json.loads(done.stdout)["runs"]
        return runs
    return [run for name in names for run in _analyzed([name])] if len(names) > 1 else []


def judged(
    race: Race, outcome: Outcome, stray: Sequence[str], held: Held, pages: Mapping[str, Sequence[dict[str, Any]]]
) -> Verdict:
    """What is wrong with a round."""
    jobs = range(len(race.jobs))
    states = {job: _state(race, outcome, job) for job in jobs}
    torn = [f"job {job} is torn: {states[job]}" for job in jobs if states[job] not in (RAN, ALL_REFUSED)]
    ran = [job for job in jobs if any(attempt.began for rank in range(RANKS) for attempt in outcome.ranks[job, rank])]
    unrecorded = {at for at in outcome.ranks if _SAYS_UNRECORDED.search(_said(outcome, *at))}
    recorded = [job for job in ran if any((job, rank) not in unrecorded for rank in range(RANKS))]
    replaced = _replaced(race, outcome, held, recorded)
    lost = []
    for job in recorded:
        if job not in replaced:
            lost += _lost(race, outcome, held, pages, job, unrecorded)
    if race.earlier and race.label_of_earlier not in _labels(held) and _NO_JOB not in replaced:
        lost.append("the recording from before is gone, and none with -f has taken its place")
    lost += _mixed(race, held)
    return Verdict(
        torn,
        _wrongly(race, outcome, ran, recorded),
        lost,
        _unsaid(race, held, pages),
        [*stray, *held.astray],
        jobs_refused=list(states.values()).count(ALL_REFUSED),
        ranks=sum(1 for attempts in outcome.ranks.values() for attempt in attempts if attempt.began),
        unrecorded=len(unrecorded),
        unsampled=sum(bool(_SAYS_NOT_SAMPLED.search(_said(outcome, *at))) for at in outcome.ranks),
        replaced=len(replaced),
        beyond=beyond(outcome),
    )


def beyond(outcome: Outcome) -> list[float]:
    """How long each rank that ended took beyond its workload, s; those that were killed are left out."""
    return [
        attempt.stop - attempt.start - sum(end - begin for begin, end in zip(attempt.began, attempt.ended, strict=True))
        for attempts in outcome.ranks.values()
        for attempt in attempts
        if attempt.stop is not None and len(attempt.began) == len(attempt.ended) and attempt.code != KILLED
    ]


RAN, ALL_REFUSED = "ran", "refused"
_NO_JOB = -1
"""The number of the run from before the round."""


def _state(race: Race, outcome: Outcome, job: int) -> str:
    """``ran``, ``refused``, or what the ranks of a torn job did."""
    did = []
    for rank in range(RANKS):
        attempts = outcome.ranks[job, rank]
        own = race.jobs[job].ranks[rank]
        expected = [own.code] if (job, rank) != race.killed else [KILLED, *[own.code] * (len(own.works) - 1)]
        if not all(attempt.is_output_whole for attempt in attempts):
            did.append("did not print what its workload did")
        elif [(attempt.code, len(attempt.began)) for attempt in attempts] == [(code, 1) for code in expected]:
            did.append(RAN)
        elif [(attempt.code, len(attempt.began)) for attempt in attempts] == [(REFUSED, 0)]:
            did.append(ALL_REFUSED)
        else:
            did.append("; again ".join(_odd(attempt, own.code) for attempt in attempts) or "never began")
    if len(set(did)) == 1 and did[0] in (RAN, ALL_REFUSED):
        return did[0]
    return ", ".join(f"rank {rank} {what}" for rank, what in enumerate(did))


def _odd(attempt: Attempt, code: int) -> str:
    if attempt.code is None:
        return "never ended"
    times = len(attempt.began)
    return f"ended with {attempt.code} instead of {code}, its workload ran {'once' if times == 1 else f'{times} times'}"


def _wrongly(race: Race, outcome: Outcome, ran: Sequence[int], recorded: Sequence[int]) -> list[str]:
    """Jobs that were refused or let in against the rules of docs/profile.md."""
    problems = []
    for job, (option, _) in enumerate(race.jobs):
        if job not in ran and (option == "-a" or not race.refuses):
            problems.append(f"job {job} was refused, though {option or 'such a job'} never is")
    if not race.refuses:
        return problems
    if not race.earlier and not ran:
        problems.append("all jobs were refused, though there was no recording")
    plain = [job for job in recorded if not race.jobs[job].option]
    if len(plain) > 1:
        problems.append(f"jobs {', '.join(map(str, plain))} were all let in at one name")
    for job in plain:
        began = min(attempt.start for rank in range(RANKS) for attempt in outcome.ranks[job, rank])
        if race.earlier:
            problems.append(f"job {job} was let in, though there was a recording")
        before = [other for other in recorded if other != job and _work_of(outcome, other)[0] < began - _BEFORE]
        problems += [f"job {job} was let in, though job {other} was recorded before" for other in before]
    return problems


def _said(outcome: Outcome, job: int, rank: int) -> str:
    """What a rank wrote on stderr, in all its attempts."""
    return "".join(attempt.said for attempt in outcome.ranks[job, rank])


def _labels(held: Held) -> Counter[str]:
    return Counter(label for label, *_ in held.processes)


def _work_of(outcome: Outcome, job: int) -> tuple[float, float]:
    """When the first workload of a job began, and when the last one ended; unix times, s. One that was killed ended with
    its rank."""
    attempts = [attempt for rank in range(RANKS) for attempt in outcome.ranks[job, rank]]
    began = [time for attempt in attempts for time in attempt.began]
    ended = [time for attempt in attempts for time in (attempt.ended or (attempt.stop or 0.0,)) if attempt.began]
    return min(began, default=0.0), max(ended, default=0.0)


def _starts_of(race: Race, outcome: Outcome, held: Held, job: int) -> list[float]:
    """When the runs of a job began: with its first workload, and, where a rank that was started again is a run of its own
    (a restarted pod adds one), with that of this rank; unix times, s."""
    runs = {run for label, run, *_ in held.processes if label == race.label(job)}
    again = [began for rank in range(RANKS) for attempt in outcome.ranks[job, rank][1:] for began in attempt.began]
    return [_work_of(outcome, job)[0], *(again if len(runs) > 1 else [])]


def _replaced(race: Race, outcome: Outcome, held: Held, recorded: Sequence[int]) -> set[int]:
    """The jobs of which nothing is left because one with ``-f``, a run of which began after all their workloads had ended,
    took their place, or another one that took the place of that one in turn. Tasks of an array replace none of it."""
    labels = _labels(held) + Counter(label for label, *_ in held.gpus)
    gone = {job for job in recorded if race.label(job) not in labels}
    if race.earlier and race.label_of_earlier not in labels:
        gone.add(_NO_JOB)
    replaced: set[int] = set()
    while True:
        took = [job for job in recorded if race.jobs[job].option == "-f" and (job not in gone or job in replaced)]
        more = {
            job
            for job in gone - replaced
            if any(
                other != job
                and (
                    job == _NO_JOB
                    or (
                        not race.in_array
                        and any(_work_of(outcome, job)[1] <= start for start in _starts_of(race, outcome, held, other))
                    )
                )
                for other in took
            )
        }
        if not more:
            return replaced
        replaced |= more


def _lost(
    race: Race,
    outcome: Outcome,
    held: Held,
    pages: Mapping[str, Sequence[dict[str, Any]]],
    job: int,
    unrecorded: set[tuple[int, int]],
) -> list[str]:
    """The ranks of a job that ran and are not in the recording as they should be."""
    label = race.label(job)
    rows = [(rank, code) for of, _, rank, code in held.processes if of == label]
    shown = [gpu for run in pages.get(label, ()) for gpu in run["gpus"] if gpu["n_samples"]]
    problems = []
    for rank, own in enumerate(race.jobs[job].ranks):
        attempts = outcome.ranks[job, rank]
        if (job, rank) in unrecorded or not any(attempt.began for attempt in attempts):
            continue
        expected = len([attempt for attempt in attempts if attempt.began])
        if (job, rank) == race.killed and not outcome.killed_seen:
            expected -= 1
        lacks = []
        if [of for of, _ in rows].count(rank) < expected:
            lacks.append("processes")
        elif attempts[-1].code != KILLED and (rank, own.code) not in rows:
            lacks.append("processes with its exit code")
        if race.own_gpus and expected and not _SAYS_NOT_SAMPLED.search(_said(outcome, job, rank)):
            device = race.device(job, rank)
            if not any(of == label and index == device and n for of, _, _, _, index, n in held.gpus):
                lacks.append("samples")
            if not any(gpu["rank"] == rank for gpu in shown):
                lacks.append("gssr analyze --json")
        if lacks:
            lines = _said(outcome, job, rank).splitlines()
            said = "".join(f"; it said: {line}" for line in lines if line.startswith("gssr: "))
            problems.append(f"rank {rank} of job {job} is not in {', '.join(lacks)}{said}")
    silent = not any(
        (job, rank) in unrecorded or _SAYS_NOT_SAMPLED.search(outcome.ranks[job, rank][-1].said)
        for rank in range(RANKS)
    )
    seen = race.killed is None or race.killed[0] != job or outcome.killed_seen
    if not race.own_gpus and silent and seen and not problems:
        shared = {(node, index) for of, _, _, node, index, n in held.gpus if of == label and n}
        at_least = RANKS * race.nodes
        if len(shared) < at_least or len(shown) < at_least:
            problems.append(
                f"of {at_least} GPUs that job {job} shares {len(shared)} have samples, {len(shown)} on the page"
            )
    return problems


def _mixed(race: Race, held: Held) -> list[str]:
    """Runs that hold something of another job, and jobs that are several runs without having been tried again."""
    problems = []
    for job, own in enumerate(race.jobs):
        label = race.label(job)
        codes = {rank.code for rank in own.ranks} | {None, KILLED}
        others = {code for of, _, _, code in held.processes if of == label} - codes
        devices = {race.device(job, rank) for rank in range(RANKS)} if race.own_gpus else set(range(RANKS))
        others |= {index for of, _, _, _, index, _ in held.gpus if of == label} - devices
        if others:
            problems.append(f"the run of job {job} holds ranks or GPUs of another job")
        again = any(len(rank.works) > 1 for rank in own.ranks)
        ranks = Counter((run, rank) for of, run, rank, _ in held.processes if of == label)
        if any(count > 1 for count in ranks.values()):
            problems.append(f"the run of job {job} holds a rank twice")
        runs = {run for run, _ in ranks}
        if len(runs) > 1 + again:
            problems.append(f"job {job} is recorded as {len(runs)} runs")
    return problems


def _unsaid(race: Race, held: Held, pages: Mapping[str, Sequence[dict[str, Any]]]) -> list[str]:
    """Runs that lack ranks, by the number that their launcher told, and do not say so in the JSON object, or the reverse."""
    problems = []
    for job in range(len(race.jobs)):
        for run in pages.get(race.label(job), ()):
            there = {rank for of, name, rank, _ in held.processes if (of, name) == (race.label(job), run["run_id"])}
            lacking = RANKS - len(there)
            missing = run.get("ranks_missing") or 0
            number = missing if isinstance(missing, int) else len(missing)
            told = race.kind != "kubernetes"  # how many there are
            if told and (number != lacking or (lacking and run.get("world_size") != RANKS)):
                problems.append(f"the run of job {job} lacks {lacking} ranks, ranks_missing is {missing!r}")
    return problems
