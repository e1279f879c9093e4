"""A merge that is killed at any moment loses nothing and doubles nothing: readers see the same, and the next one ends it."""

import os
import shutil
from pathlib import Path

import pytest
from merging import RUN, close_to, content, files, json_of, merge_killed_at, record, rollups_are_those_of_the_rows
from sample_rows import rows_of, write

from gssr.store.merge import merge
from gssr.store.write.starts import RunStart, agree

EVERY = int(os.environ.get("GSSR_TEST_KILL_EVERY", "25"))
"""1 kills at every moment there is, which takes minutes."""


def several_ranks(folder: Path) -> Path:
    recording = folder / "run.sql"
    for rank in range(3):
        record(recording, rank, n_ticks=150, lost=rank == 2)
    record(
        recording, 3, n_ticks=9, node="node0", uuids=["GPU-node0-0-0"], sampled={0: (1, 9)}
    )  # another samples it, too
    for rank in range(4):
        Path(f"{recording}.d", f"{rank}.{RUN}.ended").touch()
    return recording


def added_to_another_run(folder: Path) -> Path:
    recording = several_ranks(folder)
    write(recording, rows_of(40, 2), 2, run_id="before")
    return recording


def added_on_a_shared_filesystem(folder: Path) -> Path:
    return added_to_another_run(folder)


def replaces_what_was_before(recording: Path) -> Path:
    agree(f"{recording}.d", RUN, lambda _: RunStart(RUN, "", False, replaces=("before",)))
    return recording


def overwriting(folder: Path) -> Path:
    return replaces_what_was_before(added_to_another_run(folder))


def overwriting_one_of_two(folder: Path) -> Path:
    recording = folder / "run.sql"
    write(recording, rows_of(40, 2), 2, run_id="before")
    record(recording, 0, run_id="c-0.5", world_size=1)
    merge(str(recording))
    return replaces_what_was_before(several_ranks(folder))


@pytest.mark.parametrize(
    "made",
    [
        several_ranks,
        pytest.param(added_to_another_run, marks=pytest.mark.slow),
        added_on_a_shared_filesystem,
        pytest.param(overwriting, marks=pytest.mark.slow),
        overwriting_one_of_two,
    ],
    ids=lambda f: f.__name__,
)
def test_a_merge_killed_at_any_moment_is_as_if_it_had_not_begun_or_had_ended(tmp_path, made, monkeypatch):
    if made is added_on_a_shared_filesystem:
        monkeypatch.setattr("gssr.store.write.create.journal_mode", lambda _path: "TRUNCATE")
    only = "c-1.0" if made in (overwriting, overwriting_one_of_two) else None
    template = tmp_path / "template"
    template.mkdir()
    recording = made(template)
    before, rows = json_of(recording, keys=False), content(files(recording))
    stays = before if only is None else before[1:]
    moment, ended = 1, False
    while not ended:
        recording = Path(shutil.copytree(template, tmp_path / str(moment))) / recording.name
        ended = not merge_killed_at(recording, moment, own=only)
        seen = json_of(recording, keys=False)
        if only is None:
            assert close_to(seen, before), moment
        else:  # the new run is there at any moment, the old one until it is overwritten
            assert close_to(seen[-len(stays) :], stays) and len(seen) <= len(before), moment
        if os.path.exists(f"{recording}.d"):
            assert merge(str(recording), own=only).left == ()
        if only is None:
            assert content([recording]) == rows, moment
        assert close_to(json_of(recording, keys=False), stays), moment
        rollups_are_those_of_the_rows(recording)
        assert os.listdir(recording.parent) == [recording.name], moment
        shutil.rmtree(recording.parent)
        moment += EVERY
    assert moment > 4 * EVERY
