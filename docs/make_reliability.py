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
        "SIGTERM, SIGHUP, SIGINT and SIGQUIT cost nothing, whichever process gets them.",
        FAULTS,
        tried("supervisor-told-to-end", "sampler-told-to-end"),
    ),
    Guarantee(
        "SIGKILL of `gssr profile` costs the exit code, and no sample.",
        FAULTS,
        tried("supervisor-killed"),
    ),
    Guarantee(
        "A loss of power costs what was written since the last checkpoint on a local disk (a write-ahead log, "
        "`synchronous=NORMAL`, a checkpoint every 10 s), and the last commit on a filesystem shared between hosts "
        "(`journal_mode=TRUNCATE`). The file opens.",
        "faults/test_guarantees.py",
        [
            "test_what_a_loss_of_power_costs_is_what_the_pragmas_give",
            "test_the_file_without_its_log_lacks_ten_seconds_at_most",
        ],
    ),
    Guarantee(
        "At whatever page a loss of power cuts the log behind the last checkpoint, a journal whose transaction has not "
        "changed the file yet, or what a transaction appends to the file: what was on the disk before stays, and no reader "
        "reports damage.",
        "faults/test_storage_faults.py",
        ["test_whatever_page_a_loss_of_power_cuts_off_what_was_on_the_disk_stays"],
    ),
    Guarantee(
        "Wherever a file was cut off, readers show what is left, and say that it is damaged.",
        "faults/test_storage_faults.py",
        ["test_what_a_killed_writer_left_is_read_wherever_it_ends"],
    ),
    Guarantee(
        "A driver or hostengine that hangs costs its samples until it answers, never those of the host.",
        "profile/test_real_backends.py",
        [
            "test_a_hang_is_said_and_everything_else_recorded",
            "test_one_that_is_slow_to_open_is_sampled_from_then_on_and_the_host_meanwhile",
            "test_one_that_answers_again_is_sampled_again",
        ],
    ),
    Guarantee(
        "On a filesystem shared between hosts a reader that holds a transaction costs no samples, up to 50,000 of them: "
        "they wait in memory, and are written bit by bit.",
        "store/test_writer.py",
        [
            "test_rows_wait_in_memory_for_a_reader_and_are_written_bit_by_bit_once_it_is_gone",
            "test_rows_that_are_lost_to_a_reader_are_told_of_however_soon_it_is_gone",
        ],
    ),
    Guarantee(
        "What a hostengine did not deliver before the end of the command is a gap and an event.",
        "backends/test_dcgm_profile.py",
        ["test_an_engine_that_is_gone_at_the_end_does_not_touch_the_workload_and_is_a_gap"],
    ),
)

NEVER: tuple[Guarantee, ...] = (
    Guarantee(
        "The job's environment (modules on PYTHONPATH that are called like Python's own, few descriptors) keeps the command "
        "from running, or GSSR from being found where it is installed by `pip --user`, EasyBuild or Spack.",
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
        "Its output changes: a byte more, less, or in another order.",
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
        "The command waits for GSSR, its end is noticed late, or a hanging driver delays it.",
        "profile/test_real_backends.py",
        ["test_one_that_hangs_from_the_start_does_not_delay_the_end"],
    ),
    Guarantee(
        "A failing recorder ends the command.",
        FAULTS,
        tried("sampler-killed", "driver-crashes", "supervisor-killed"),
    ),
    Guarantee(
        "An existing recording is overwritten without `-f`, by a command that can't be executed, or while a job records "
        "into it. Another kind of file is overwritten.",
        "profile/test_profile.py",
        [
            "test_an_existing_recording_is_kept_overwritten_or_added_to",
            "test_nothing_is_overwritten_for_a_command_that_can_not_be_executed",
            "test_a_recording_that_is_being_written_is_never_overwritten_and_may_be_added_to",
            "test_what_is_no_recording_is_never_overwritten",
        ],
    ),
    Guarantee(
        "Some ranks of a run are recorded and others refused, whichever jobs take the same name, or a run is refused after "
        "something has started.",
        "profile/test_profile_output.py",
        [
            "test_ranks_of_jobs_that_begin_in_any_order_and_end_meanwhile_are_refused_whole_or_not_at_all",
        ],
    ),
    Guarantee(
        "`-f` deletes a part of a run, or a run that was not over when the new run's first rank looked, whatever clocks "
        "say, or another task of the same job array.",
        "profile/test_profile_output.py",
        [
            "test_what_is_to_be_replaced_is_what_was_over_when_the_first_rank_looked_and_no_clock_is_asked",
            "test_a_run_whose_ranks_have_not_all_begun_is_not_over_before_a_minute_has_passed",
            "test_tasks_of_an_array_spare_each_other_and_replace_what_was_before",
        ],
    ),
    Guarantee(
        "A task of a job array is refused or lost because of another one, with one `-o`, with or without `-f` and `-a`.",
        "slurm/test_slurm_races.py",
        ["test_all_tasks_of_an_array_with_one_name_run_and_are_recorded"],
    ),
    Guarantee(
        "A rank is refused for what its own node's disk was left with, so that the others wait for it.",
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
        "Memory, descriptors or files grow while a job runs, except the recording by its samples.",
        "benchmarks/test_soak.py",
        ["test_nothing_grows_in_hours_but_the_recording"],
    ),
    Guarantee(
        "The write-ahead log keeps the size it reached beside a stopped reader.",
        "faults/test_guarantees.py",
        ["test_a_log_that_grew_beside_a_stopped_reader_is_cut_again"],
    ),
)

TEXT = """\
# What GSSR guarantees

<!-- Made by docs/make_reliability.py: change that, not this. -->

What a job can rely on, the tests of each promise (below `tests/`), and the results of trying to break them.

## What can be lost at most

{lost}
## What never happens

{never}
## What was tried

    .venv/bin/python -m pytest -m slow tests/faults [--rounds N] [-k NAME] [--seed N]

starts real jobs beside synthetic GPUs and does to each, at a random moment, what the first column says. Then it checks the
exit code, every byte of the output, and the recording. A broken promise is a failure with the seed that reproduces it.
`make test` does a round of each, `make test-slow` twenty.

*Lost* is the longest time without samples in the worst round, beyond the sampling interval and the machine's own delays;
after a loss of power, which is tried at every page, the time from the last sample left to the last one committed. The last
column has GSSR's most frequent lines on stderr, with N for numbers.

A preloaded library shifts the job's clock and makes weeks pass in minutes. Drivers and DCGM's hostengine are stand-ins
(`tests/fakes`) that hang and crash on demand. No real plug was pulled.

{head}
{rows}
`--update-docs` puts a run's results into this table. Also measured, with figures in
[benchmarks/README.md](../benchmarks/README.md):

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
