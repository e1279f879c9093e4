"""Where the options of ``gssr profile`` end and the workload begins."""

import pytest

from gssr.commands.profile import split

WORKLOAD = ["./app", "-o", "theirs", "--", "-t", "7"]


@pytest.mark.parametrize(
    "own",
    [
        [],
        ["-f"],
        ["-t", "100"],
        ["-t100"],
        ["-ft", "100"],
        ["-ft100"],
        ["-fo", "a.sql"],
        ["-oft"],
        ["--gpus", "0,1"],
        ["--gpus=0,1"],
        ["--sampling", "100", "--summary"],
        ["--no-summary", "-l", "-x", "-m", "5"],
    ],
)
def test_the_workload_begins_where_our_options_end_with_or_without_dashes(own):
    assert split([*own, "--", *WORKLOAD]) == (own, WORKLOAD)
    assert split([*own, *WORKLOAD]) == (own, WORKLOAD)
