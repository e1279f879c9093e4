"""What was allocated is booked whole, wherever the recorded steps lie, and read as sacct prints it."""

import math
import random

import pytest

from gssr.model.fleet.allocations import PLACES, Allocation, JobUse, gpus_of, hours_by_place, join, read_sacct
from gssr.model.fleet.figures import GPU_COLUMNS, RUN_COLUMNS, GpuFigures, RunFigures

NOW = 1_700_000_000.0
FULL = "JobID|JobIDRaw|Cluster|User|Account|Partition|State|Start|End|ElapsedRaw|AllocTRES|JobName"
# As sacct of Slurm 22.05 prints it with --parsable2 and SLURM_TIME_FORMAT=%s: an array, its steps, a name with the
# separator in it, one that was cancelled, one that waits, one that runs, one without GPUs.
PRINTED = f"""{FULL}
28136_4|28140|alps|ada|g1|gpu|COMPLETED|1699990000|1699993600|3600|billing=8,cpu=8,gres/gpu:a100=4,gres/gpu=4,node=1|a|b
28136_4.batch|28140.batch|alps||g1||COMPLETED|1699990000|1699993600|3600|cpu=8,gres/gpu:a100=4,gres/gpu=4,node=1|batch
28136_4.0|28140.0|alps||g1||COMPLETED|1699990060|1699993600|3540|cpu=8,gres/gpu:a100=4,gres/gpu=4,node=1|python
28141|28141|alps|bob|g2|gpu|CANCELLED by 1001|1699990000|1699991800|1800|cpu=8,gres/gpu=2,node=1|wrap
28142_[5-9]|28142|alps|bob|g2|gpu|PENDING|Unknown|Unknown|0||waits
28143|28143|alps|bob|g2|gpu|RUNNING|1699999100|Unknown|900|cpu=8,gres/gpu:h100=8,node=1|runs
28144|28144|alps|bob|g2|cpu|COMPLETED|1699990000|1699991800|1800|cpu=8,node=1|no GPU
"""


def run_of(job: str | None, began: float, seconds: float, gpus: list[int], **own: object) -> RunFigures:
    empty = RunFigures(*[None] * len(RUN_COLUMNS))
    gpu = GpuFigures._make([None] * len(GPU_COLUMNS))
    return empty._replace(
        run_id=f"{job}-{began}", job_id=job, began=began, started_at=began, duration_s=seconds, n_gpus=len(gpus),
        gpus=tuple(gpu._replace(gpu=at, node=f"n{at // 4}", device_index=at % 4) for at in gpus), **own,
    )  # fmt: skip


def job_of(number: str, start: float, seconds: float, n_gpus: int, **own: object) -> Allocation:
    base = Allocation(number, number, None, None, None, None, None, None, start, start + seconds, n_gpus)
    return base._replace(**own)


def sums(use: JobUse) -> dict[str, float]:
    return {name: getattr(use, name) for name in PLACES}


def test_every_gpu_hour_of_a_job_is_in_one_place() -> None:
    """Whatever steps were recorded: side by side, twice, beyond the job's ends, on more GPUs than it has."""
    chance = random.Random(7)
    for _ in range(300):
        job = job_of("1", NOW, chance.uniform(10, 1e5), chance.randrange(1, 9))
        runs = [
            run_of(
                "1", NOW + chance.uniform(-0.2, 1.1) * (job.end - NOW), chance.uniform(0, 0.6) * (job.end - NOW),
                chance.sample(range(8), chance.randrange(1, 9)),
            )
            for _ in range(chance.randrange(4))
        ]  # fmt: skip
        (use,), _ = join(runs, [job])[0].jobs, None
        assert math.fsum(sums(use).values()) == pytest.approx(job.gpu_hours, rel=1e-9)
        assert min(sums(use).values()) >= 0
        assert use.unrecorded == pytest.approx(job.gpu_hours - use.recorded, abs=1e-9)
        # Counted anew, second by second in 2,000 pieces.
        pieces = [NOW + (at + 0.5) / 2000 * (job.end - NOW) for at in range(2000)]
        seen = [
            len({gpu.gpu for run in runs if run.began <= t < run.began + run.duration_s for gpu in run.gpus})
            for t in pieces
        ]
        counted = sum(min(n, job.n_gpus) for n in seen) / 2000 * (job.end - NOW) / 3600
        assert use.recorded == pytest.approx(counted, abs=0.01 * job.gpu_hours)


def test_time_before_between_and_after_the_steps_is_told_apart() -> None:
    job = job_of("1", NOW, 3600, 4)
    runs = [run_of("1", NOW + 600, 600, [0, 1]), run_of("1", NOW + 1800, 900, [0, 1, 2, 3])]
    allocated, _ = join(runs, [job, job_of("2", NOW, 1800, 2)])
    of_two, of_one = allocated.jobs
    hour = 1 / 3600
    assert sums(of_two) == pytest.approx({
        "recorded": hour * (600 * 2 + 900 * 4), "beside": hour * 600 * 2, "before": hour * 600 * 4,
        "between": hour * 600 * 4, "after": hour * 900 * 4, "never": 0.0,
    })  # fmt: skip
    assert sums(of_one) == {name: 1.0 if name == "never" else 0.0 for name in PLACES}
    assert hours_by_place(allocated.jobs)["gpu_hours"] == 5.0


def test_what_sacct_prints_is_read() -> None:
    jobs, n_unreadable = read_sacct(PRINTED.splitlines(keepends=True), NOW)
    assert n_unreadable == 0
    assert [(job.job_id, job.shown, job.user, job.state, job.n_gpus, job.gpu_hours) for job in jobs] == [
        ("28140", "28136_4", "ada", "completed", 4, 4.0),
        ("28141", "28141", "bob", "cancelled", 2, 1.0),
        ("28143", "28143", "bob", "running", 8, 2.0),
    ]
    assert jobs[0].name == "a|b"
    same = "\n".join(line + "|" for line in PRINTED.replace("|a|b", "|ab").splitlines())  # of --parsable
    assert [job[:6] for job in read_sacct(same.splitlines(), NOW)[0]] == [job[:6] for job in jobs]


def test_a_csv_of_it_and_dates_are_read_too() -> None:
    text = 'JobID,Start,End,AllocTRES,User\r\n7,2023-11-14T20:00:00,2023-11-14T21:00:00,"cpu=4,gres/gpu=2",ada\r\n'
    ((job,), n_unreadable) = read_sacct(text.splitlines(keepends=True), NOW)
    assert (job.job_id, job.n_gpus, job.gpu_hours, job.user, n_unreadable) == ("7", 2, 2.0, "ada", 0)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n\n",
        "SELECT 1;",
        "JobID|State\n1|COMPLETED\n",
        "JobID|Start|AllocTRES\n",
        '"' * 9,
        "JobID,Start,End\n1,2,3\n",
    ],
)
def test_anything_else_is_a_sentence(text: str) -> None:
    with pytest.raises(ValueError, match=r"is no output of sacct|is no CSV"):
        read_sacct(text.splitlines(keepends=True), NOW)


def test_lines_that_can_not_be_are_counted_and_cost_the_others_nothing() -> None:
    strange = (
        "x|y\n1|1|c|u|a|p|S|soon|later|x|gres/gpu=1|n\n2|2|c|u|a|p|S|99999999999999999999|5|1|gres/gpu=1|n\n\x00\n"
    )
    jobs, n_unreadable = read_sacct((PRINTED + strange).splitlines(keepends=True), NOW)
    assert (len(jobs), n_unreadable) == (3, 4)


def test_a_job_that_slurm_began_again_counts_each_time() -> None:
    """As sacct of Slurm 22.05.8 printed it, with its database: a node failed, and the job was queued again; one was
    cancelled before it began anew, one runs."""
    said = f"""{FULL}
3_3|4|gssr|root|acct|debug|COMPLETED|1796029764|1796029780|16|billing=1,cpu=1,gres/gpu=1,node=1|arr
5|5|gssr|root|acct|debug|NODE_FAIL|1796029802|1796029815|13|billing=3,cpu=3,gres/gpu=12,node=3|watched
5|5|gssr|root|acct|debug|CANCELLED by 0|None|1796029850|0||watched
6|6|gssr|root|acct|debug|NODE_FAIL|1796029853|1796029871|18|billing=3,cpu=3,gres/gpu=12,node=3|watched
6|6|gssr|root|acct|debug|RUNNING|1796029992|Unknown|95|billing=3,cpu=3,gres/gpu=12,node=3|watched
"""
    jobs, n_unreadable = read_sacct(said.splitlines(keepends=True), 1796029992.0 + 95)
    assert n_unreadable == 0
    assert [round(job.gpu_hours * 3600) for job in jobs] == [16, 13 * 12, 18 * 12, 95 * 12]


def test_gpus_are_the_total_or_the_sum_of_the_models() -> None:
    for tres, n in (("gres/gpu=4", 4), ("cpu=1,gres/gpu:a=2,gres/gpu:b=3", 5), ("gres/gpu:a=2,gres/gpu=2", 2), ("", 0)):
        assert gpus_of(tres) == n


def test_runs_find_their_job_by_number_cluster_and_time_and_learn_its_name() -> None:
    jobs = [
        job_of("9", NOW, 100, 1, cluster="a", shown="5_3", name="mine", account="g", partition="p"),
        job_of("9", NOW, 100, 1, cluster="b", name="another"),
        job_of("9", NOW + 500, 100, 1, cluster="a", shown="5_3", name="requeued"),
    ]
    runs = [
        run_of("9", NOW + 10, 50, [0], cluster="a"),
        run_of("9", NOW + 510, 50, [0], cluster="a", job_name="known"),
        run_of("9", NOW + 5000, 50, [0], cluster="a"),
        run_of(None, NOW, 50, [0]),
    ]
    allocated, told = join(runs, jobs)
    assert [run.job_name for run in told] == ["mine", "known", None, None]
    assert (told[0].account, told[0].partition, told[0].shown_job) == ("g", "p", "5_3")
    assert allocated.n_without == 1
    assert {use.allocation.name: use.n_runs for use in allocated.jobs} == {"mine": 1, "another": 0, "requeued": 1}
