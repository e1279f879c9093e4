"""Writes docs/reliability.md from the guarantees below and the results of ``pytest -m slow tests/faults --update-docs``: run
it after either has changed."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tests.faults.tried.table import HEAD, kept_in, line

PAGE = Path(__file__).with_name("reliability.md")
RESULTS = Path(__file__).with_name("reliability.json")


class Guarantee(NamedTuple):
    """A promise, and the tests that hold it: a file below tests/, and names of tests in it (with the fault in brackets where
    one test tries many)."""

    sentence: str
    file: str
    tests: Sequence[str]


FAULTS = "faults/test_process_faults.py"
_TRIED = "test_the_job_runs_as_if_nothing_had_happened_and_its_recording_opens"


def tried(*names: str) -> list[str]:
    """The tests of these faults."""
    return [f"{_TRIED}[{name}]" for name in names]


LOST: tuple[Guarantee, ...] = (
    Guarantee(
        "SIGKILL of the sampler, or of everything, costs at most 1 s of samples: they are committed every 0.5 s, whatever "
        "the sampling interval.",
        FAULTS,
        tried("sampler-killed", "all-killed"),
    ),
    Guarantee(
        "The same holds when Slurm kills the ranks, or `srun` itself is killed.",
        "slurm/test_slurm_ends.py",
        [
            "test_when_srun_is_killed_slurm_ends_the_ranks_which_lose_a_second_at_most",
            "test_when_srun_is_terminated_ranks_are_killed_at_once_and_lose_a_second_at_most",
            "test_what_does_not_heed_sigterm_is_recorded_until_its_sigkill",
        ],
    ),
    Guarantee(
        "SIGTERM, SIGHUP, SIGINT and SIGQUIT cost no samples, whichever of GSSR's processes gets them.",
        FAULTS,
        tried("supervisor-told-to-end", "sampler-told-to-end"),
    ),
    Guarantee(
        "SIGKILL of `gssr profile` costs the command's exit code, but no sample.",
        FAULTS,
        tried("supervisor-killed"),
    ),
    Guarantee(
        "A loss of power costs, on a local disk, what was written since the last checkpoint (SQLite's write-ahead log, "
        "`synchronous=NORMAL`, a checkpoint every 10 s). On a filesystem shared between hosts it costs the last commit "
        "(`journal_mode=TRUNCATE`). The file can be opened.",
        "faults/test_guarantees.py",
        [
            "test_what_a_loss_of_power_costs_is_what_the_pragmas_give",
            "test_the_file_without_its_log_lacks_ten_seconds_at_most",
        ],
    ),
    Guarantee(
        "A loss of power may cut a file at any page: the write-ahead log after the last checkpoint, a journal whose "
        "transaction has not changed the recording yet, or what a transaction appends to the recording. What was on the "
        "disk before stays, and no reader reports damage.",
        "faults/test_storage_faults.py",
        ["test_whatever_page_a_loss_of_power_cuts_off_what_was_on_the_disk_stays"],
    ),
    Guarantee(
        "Wherever a recording was cut off, commands show what is left, and say that it is damaged.",
        "faults/test_storage_faults.py",
        ["test_what_a_killed_writer_left_is_read_wherever_it_ends"],
    ),
    Guarantee(
        "If the driver or DCGM's hostengine hangs, its samples are missing until it answers; those of the host never are.",
        "profile/test_real_backends.py",
        [
            "test_a_hang_is_said_and_everything_else_recorded",
            "test_one_that_is_slow_to_open_is_sampled_from_then_on_and_the_host_meanwhile",
            "test_one_that_answers_again_is_sampled_again",
        ],
    ),
    Guarantee(
        "On a filesystem shared between hosts, a reader that holds a transaction costs no samples: up to 50,000 of them "
        "wait in memory, and are written bit by bit.",
        "store/test_writer.py",
        [
            "test_rows_wait_in_memory_for_a_reader_and_are_written_bit_by_bit_once_it_is_gone",
            "test_rows_that_are_lost_to_a_reader_are_told_of_however_soon_it_is_gone",
        ],
    ),
    Guarantee(
        "Samples that a hostengine did not deliver before the end of the command are recorded as a gap and an event.",
        "backends/test_dcgm_profile.py",
        ["test_an_engine_that_is_gone_at_the_end_does_not_touch_the_workload_and_is_a_gap"],
    ),
)

NEVER: tuple[Guarantee, ...] = (
    Guarantee(
        "The job's environment keeps the command from running, for example by modules on PYTHONPATH that are called like "
        "Python's own, or by few file descriptors; or it keeps GSSR from being found where `pip --user`, EasyBuild or Spack "
        "installed it.",
        "profile/test_environment.py",
        [
            "test_modules_of_the_job_hide_none_of_pythons_own",
            "test_modules_in_the_folder_of_the_job_hide_none_either",
            "test_with_few_descriptors_the_command_runs_unrecorded",
            "test_a_python_without_sqlite_runs_the_command",
        ],
    ),
    Guarantee(
        "The command's exit code changes.",
        "profile/test_supervise.py",
        [
            "test_exit_code_is_the_workloads",
            "test_signal_after_the_end_ends_the_waiting_with_the_workloads_code",
            "test_our_own_failure_leaves_the_workload_alone",
        ],
    ),
    Guarantee(
        "The command's output changes: a byte more, a byte less, or in another order.",
        "benchmarks/test_transparency.py",
        ["test_output_and_exit_code_of_random_commands_are_the_same_with_and_without"],
    ),
    Guarantee(
        "A signal is lost, comes twice, or comes to the wrong process.",
        "profile/test_supervise.py",
        [
            "test_each_signal_reaches_the_workload_once",
            "test_burst_of_signals_arrives_complete",
            "test_signal_before_the_workload_exists_is_not_lost",
            "test_workload_starts_with_pristine_signals",
        ],
    ),
    Guarantee(
        "The command waits for GSSR, the end of the command is noticed late, or a hanging driver delays it.",
        "profile/test_real_backends.py",
        ["test_one_that_hangs_from_the_start_does_not_delay_the_end"],
    ),
    Guarantee(
        "A failing recorder ends the command.",
        FAULTS,
        tried("sampler-killed", "driver-crashes", "supervisor-killed"),
    ),
    Guarantee(
        "An existing recording is overwritten without `-f`, for a command that can't be executed, or while a job records "
        "into it; or a file that is no recording is overwritten.",
        "profile/test_profile.py",
        [
            "test_an_existing_recording_is_kept_overwritten_or_added_to",
            "test_nothing_is_overwritten_for_a_command_that_can_not_be_executed",
            "test_a_recording_that_is_being_written_is_never_overwritten_and_may_be_added_to",
            "test_what_is_no_recording_is_never_overwritten",
        ],
    ),
    Guarantee(
        "Some ranks of a run are recorded and others refused, whichever jobs use the same name; or a run is refused after "
        "some of its commands have started.",
        "profile/test_profile_output.py",
        [
            "test_ranks_of_jobs_that_begin_in_any_order_and_end_meanwhile_are_refused_whole_or_not_at_all",
        ],
    ),
    Guarantee(
        "`-f` deletes only a part of a run, or the run of another task of the same job array, or a run that was not over "
        "when the new run's first rank looked, whatever clocks say.",
        "profile/test_profile_output.py",
        [
            "test_what_is_to_be_replaced_is_what_was_over_when_the_first_rank_looked_and_no_clock_is_asked",
            "test_a_run_whose_ranks_have_not_all_begun_is_not_over_before_a_minute_has_passed",
            "test_tasks_of_an_array_spare_each_other_and_replace_what_was_before",
        ],
    ),
    Guarantee(
        "A task of a job array is refused or lost because of another task with the same `-o`, with or without `-f` and "
        "`-a`.",
        "slurm/test_slurm_races.py",
        ["test_all_tasks_of_an_array_with_one_name_run_and_are_recorded"],
    ),
    Guarantee(
        "A rank is refused because of old files on its own node's disk, so that the other ranks wait for it.",
        "slurm/test_slurm_runs.py",
        ["test_what_one_nodes_own_disk_was_left_with_tears_no_job_and_the_end_says_how_to_merge"],
    ),
    Guarantee(
        "A recording with samples can't be opened because its writer was killed.",
        FAULTS,
        tried("sampler-killed", "all-killed", "merge-killed"),
    ),
    Guarantee(
        "A killed merge loses a sample, or counts one twice.",
        "store/test_merge_killed.py",
        ["test_a_merge_killed_at_any_moment_is_as_if_it_had_not_begun_or_had_ended"],
    ),
    Guarantee(
        "Setting the clock shifts a sample.",
        "profile/test_clock.py",
        [
            "test_a_step_of_the_system_clock_is_told_once_and_shifts_nothing",
            "test_what_was_told_just_before_the_clock_was_set_keeps_its_time",
        ],
    ),
    Guarantee(
        "Memory, descriptors or files grow while a job runs, except the recording with its samples.",
        "benchmarks/test_soak.py",
        ["test_nothing_grows_in_hours_but_the_recording"],
    ),
    Guarantee(
        "The write-ahead log keeps the size that it reached while a reader was stopped.",
        "faults/test_guarantees.py",
        ["test_a_log_that_grew_beside_a_stopped_reader_is_cut_again"],
    ),
)

TEXT = """\
# What GSSR guarantees

<!-- Made by docs/make_reliability.py: change that, not this. -->

This page says what a job that GSSR records can rely on, which tests (in the folder `tests/`) check each promise, and what
happened when we tried to break the promises. GSSR is two processes beside the command: `gssr profile`, which starts the
command and waits for it (the supervisor), and the sampler, which records.

## What can be lost at most

{lost}
## What never happens

{never}
## What was tried

    .venv/bin/python -m pytest -m slow tests/faults [--rounds N] [-k NAME] [--seed N]

This command starts real jobs beside synthetic GPUs, and does to each, at a random moment, what the first column of the
table below says. Then it checks the exit code, every byte of the output, and the recording. If a promise is broken, the
test fails and prints the seed that reproduces it. `make test` does one round of each fault, `make test-slow` twenty.

*Lost at most* is the longest time without samples in the worst round, beyond the sampling interval and the machine's own
delays. After a loss of power, which is tried at every page, it is the time from the last sample that is left to the last
one that was committed. The last column has the lines that GSSR printed most often on stderr, with N for numbers.

A preloaded library shifts the job's clock and makes weeks pass in minutes. Drivers and DCGM's hostengine are stand-ins
(`tests/fakes`) that hang and crash on demand. No real power plug was pulled.

{head}
{rows}
With `--update-docs`, the results of a run are written into this table. These two benchmarks test other promises; their
figures are in [benchmarks/README.md](../benchmarks/README.md):

    python -m benchmarks transparency    # 200 random commands with and without GSSR: output, exit code, time
    python -m benchmarks soak            # a week of a recording in minutes: memory, descriptors, files
"""


def promised(head: str, guarantees: Sequence[Guarantee]) -> str:
    """A table of promises, each with its tests."""
    return f"| {head} | Test |\n| --- | --- |\n" + "".join(
        f"| {each.sentence} | `{each.file}`: {', '.join(f'`{test}`' for test in each.tests)} |\n" for each in guarantees
    )


def page() -> str:
    """The text of docs/reliability.md."""
    rows = "".join(line(row) + "\n" for row in kept_in(RESULTS))
    return TEXT.format(lost=promised("Promise", LOST), never=promised("Never", NEVER), head=HEAD, rows=rows)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
