"""The examination: jobs are drawn, written, judged as a user would have them judged, and the answers counted.

A warning or critical code that neither has to be said nor may be is false; a piece of information only where it is plainly
untrue. What has to be said and was not, of any severity, is missed.
"""

import contextlib
import io
import json
import os
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from gssr.cli import main
from tests.fakes.jobs.draw import draw, half
from tests.fakes.jobs.labels import Job
from tests.fakes.jobs.write import write


class Said(set[tuple[str, str]]):
    """What is said: codes with their severities; ``won``: of some of the codes the GPU-hours that a cure would save."""

    def __init__(self, pairs: Iterable[tuple[str, str]] = (), won: Mapping[str, float] | None = None) -> None:
        super().__init__(pairs)
        self.won = dict(won or {})


Judge = Callable[[str], set[tuple[str, str]]]
"""From a recording's path to what is said of it."""
BLAMES = ("warning", "critical")
NEAR = 0.25
"""GPU-hours are right within this share of the true ones."""


def analyzed(path: str) -> Said:
    """What ``gssr analyze --json`` says."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        code = main(["analyze", "--json", path])
    if code:
        raise RuntimeError(f"analyze ended with {code}")
    found = [each for run in json.loads(out.getvalue())["runs"] for each in run["verdicts"]]
    won = {each["code"]: each["gpu_hours"] for each in found if each["gpu_hours"] is not None}
    return Said(((each["code"], each["severity"]) for each in found), won)


@dataclass
class Answer:
    """One job's: what was said, and of that what is false; what was missed of what had to be."""

    job: Job
    said: set[tuple[str, str]]
    seconds: float
    """How long the job took."""
    false: set[str] = field(default_factory=set)
    found: set[str] = field(default_factory=set)
    missed: set[str] = field(default_factory=set)
    near: dict[str, bool] = field(default_factory=dict)
    """By code that is true: whether the GPU-hours said of it are near the truth."""

    @property
    def blamed(self) -> bool:
        """Whether anything worse than information was said."""
        return any(severity in BLAMES for _, severity in self.said)

    @property
    def right(self) -> bool:
        return not self.false and not self.missed


def mark(job: Job, said: set[tuple[str, str]]) -> Answer:
    """Hold an answer against the truth."""
    answer = Answer(job, said, job.timeline.duration)
    codes = {code for code, _ in said}
    allowed = {code for must in job.must for code in must.split("|")} | job.may
    for code, severity in said:
        if code not in allowed and (severity in BLAMES or job.contradicted(code)):
            answer.false.add(code)
    for must in job.must:
        (answer.found if codes & set(must.split("|")) else answer.missed).add(must)
    for code, hours in said.won.items() if isinstance(said, Said) else ():
        truth = job.won(code)
        if truth is not None and code not in answer.false:
            answer.near[code] = abs(hours - truth) <= NEAR * truth
    return answer


@dataclass
class Result:
    """All answers, and the seconds of work that simulating and judging took."""

    answers: list[Answer]
    made_s: float
    judged_s: float

    def precision(self) -> float:
        """Of the warnings (and untrue information) said, the share that is true."""
        said = sum(len({c for c, s in a.said if s in BLAMES} | a.false) for a in self.answers)
        return 1 - sum(len(a.false) for a in self.answers) / max(said, 1)

    def recall(self) -> float:
        """Of what had to be said, the share that was."""
        found, missed = (sum(len(getattr(a, name)) for a in self.answers) for name in ("found", "missed"))
        return found / max(found + missed, 1)

    def healthy_blamed(self) -> tuple[int, int]:
        """(how many healthy jobs were warned about, of how many)."""
        healthy = [answer for answer in self.answers if answer.job.healthy]
        return sum(answer.blamed for answer in healthy), len(healthy)

    def codes(self) -> dict[str, tuple[int, int, int, int]]:
        """By code: said as a warning, of them false; had to be said (alone, or as the first of alternatives), of them
        missed."""
        said, false, must, missed = Counter[str](), Counter[str](), Counter[str](), Counter[str]()
        for answer in self.answers:
            said.update({code for code, severity in answer.said if severity in BLAMES} | answer.false)
            false.update(answer.false)
            must.update(each.split("|")[0] for each in answer.found | answer.missed)
            missed.update(each.split("|")[0] for each in answer.missed)
        return {code: (said[code], false[code], must[code], missed[code]) for code in sorted({*said, *must})}

    def savings(self) -> dict[str, tuple[int, int]]:
        """By code: how often it is true, is given GPU-hours, and these can be known; how often they are near the truth."""
        given, near = Counter[str](), Counter[str]()
        for answer in self.answers:
            given.update(list(answer.near))
            near.update(code for code, right in answer.near.items() if right)
        return {code: (given[code], near[code]) for code in sorted(given)}

    def lines(self) -> Iterator[str]:
        """A report."""
        savings = self.savings()
        blamed, healthy = self.healthy_blamed()
        yield (
            f"{len(self.answers)} jobs: precision {self.precision():.3f}, recall {self.recall():.3f}, "
            f"{blamed} of {healthy} healthy ones warned about; "
            f"{sum(a.job.undecidable is not None for a in self.answers)} undecidable, "
            f"of them {sum(a.job.undecidable is not None and a.blamed for a in self.answers)} warned about"
        )
        yield f"CPU: simulating {self.made_s:.1f} s, judging {self.judged_s:.1f} s"
        yield f"{'code':<24}{'said':>6}{'false':>6}{'precision':>10}{'wanted':>8}{'missed':>7}{'recall':>8}{'GPU-hours':>16}"
        for code, (said, false, must, missed) in self.codes().items():
            precision = f"{1 - false / said:.2f}" if said else "–"
            recall = f"{1 - missed / must:.2f}" if must else "–"
            given, near = savings.get(code, (0, 0))
            won = f"{near} of {given} near" if given else "–"
            yield f"{code:<24}{said:>6}{false:>6}{precision:>10}{must:>8}{missed:>7}{recall:>8}{won:>16}"
        for a in self.answers:
            if not a.right:
                codes = ", ".join(f"{code}({severity[0]})" for code, severity in sorted(a.said)) or "nothing"
                job = a.job
                wanted = (
                    "nothing: " + job.undecidable if job.undecidable else " and ".join(sorted(job.must)) or "nothing"
                )
                yield (
                    f"{job.seed} {job.name} {job.sampling.name} {len(job.plan.gpus)} GPUs {a.seconds:.0f} s: "
                    f"said {codes}; wanted {wanted}; false {', '.join(sorted(a.false)) or 'none'}"
                )


def examine(jobs: Iterable[Job], judge: Judge = analyzed) -> Result:
    """Write each job, have it judged, and mark the answer."""
    answers, made, judged = [], 0.0, 0.0
    with tempfile.TemporaryDirectory() as folder:
        for job in jobs:
            path = os.path.join(folder, f"{job.seed}.sql")
            begun = time.process_time()
            write(job, path)
            written = time.process_time()
            answers.append(mark(job, judge(path)))
            made, judged = made + written - begun, judged + time.process_time() - written
            os.remove(path)
            job.forget()
    return Result(answers, made, judged)


FEWEST, FEW_STEPS, WITHIN = 5.0, 6, 0.02
"""A step of so many readings, met so many times, has to be told, within this share of it."""


@dataclass
class StepAnswers:
    """The seeds of jobs whose steps have to be told: of ``right``, ``wrong`` and ``silent`` answers; and those of the
    ``others``, of which some were ``invented``."""

    right: list[int] = field(default_factory=list)
    wrong: list[int] = field(default_factory=list)
    silent: list[int] = field(default_factory=list)
    others: list[int] = field(default_factory=list)
    invented: list[int] = field(default_factory=list)

    def line(self) -> str:
        """A report."""
        wanted = len(self.right) + len(self.wrong) + len(self.silent)
        return (
            f"step: {len(self.right)} of {wanted} within {WITHIN:.0%}, wrong {self.wrong}, not told {self.silent}; "
            f"invented in {len(self.invented)} of {len(self.others)} others: {self.invented}"
        )


def told_step(path: str) -> float | None:
    """The step that ``gssr analyze --json`` tells, s."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        main(["analyze", "--json", path])
    step = json.loads(out.getvalue())["runs"][0]["step"]
    return None if step is None else float(step["seconds"])


def measure_steps(seeds: Iterable[int], tell: Callable[[str], float | None] = told_step) -> StepAnswers:
    """Draw the jobs of these seeds and hold the steps that are told of them against the truth. A reading is as long as the
    sampling, or as the window of its fields where that is longer."""
    found = StepAnswers()
    with tempfile.TemporaryDirectory() as folder:
        for seed in seeds:
            job = draw(seed)
            path, truth, sampling = os.path.join(folder, f"{seed}.sql"), job.step_seconds, job.sampling
            write(job, path)
            told = tell(path)
            right = told is not None and truth is not None and abs(told / truth - 1) <= WITHIN
            readings = (truth or 0.0) / max(sampling.interval, sampling.window)
            if readings >= FEWEST and job.timeline.step.sum() >= FEW_STEPS:
                (found.right if right else found.silent if told is None else found.wrong).append(seed)
            else:
                found.others.append(seed)
                found.invented += [seed] if told is not None and not right else []
            os.remove(path)
            job.forget()
    return found


def measure(
    judge: Judge = analyzed, n: int = 60, seed: int = 1, is_healthy: bool | None = None, which: int | None = None
) -> Result:
    """Draw ``n`` jobs, all healthy where wanted, and examine them: from ``seed`` on, or those of half ``which``."""
    seeds = range(seed, seed + n) if which is None else half(which, n)
    return examine((draw(each, is_healthy) for each in seeds), judge)
