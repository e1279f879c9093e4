"""Which file a run goes into, and what is never touched."""

import os
import sqlite3
from itertools import count

import pytest

from gssr.launch import where_am_i
from gssr.profile.output import choose
from gssr.profile.request import Request, UsageError
from gssr.store.merge import merge
from gssr.store.reader import open_recording
from gssr.store.writer import Writer

ALONE: dict[str, str] = {}


def slurm(rank, job=1, step=0, ranks=2, **more):
    return {
        "SLURM_JOB_ID": str(job), "SLURM_STEP_ID": str(step), "SLURM_PROCID": str(rank), "SLURM_LOCALID": str(rank),
        "SLURM_STEP_NUM_TASKS": str(ranks), "SLURMD_NODENAME": "node.site", "SLURM_CLUSTER_NAME": "c", **more,
    }  # fmt: skip


def hydra(rank, ranks=2):
    return {"PMI_RANK": str(rank), "MPI_LOCALRANKID": str(rank), "PMI_SIZE": str(ranks), "PMI_FD": "9"}


def indexed_job(rank):
    return {"JOB_COMPLETION_INDEX": str(rank)}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "getpid", count(1000).__next__)  # each is another process
    return tmp_path


def chosen(environ, output="a.sql", **flags):
    return choose(Request(["true"], output=output, **flags), where_am_i({"USER": "me", **environ}))


def record(environ, output="a.sql", **flags):
    """Choose an output and record a short run into it."""
    found = chosen(environ, output, **flags)
    writer = Writer(found.path, found.append)
    place = where_am_i({"USER": "me", **environ})
    writer.begin({"run_id": found.run_id, "job_id": place.job_id, "state": "running"}, {"rank": place.rank})
    assert writer.finish(1.0, 0, "completed", 1.0)
    return found


def runs(path="a.sql"):
    return [reader.run.run_id for reader in open_recording(path).runs]


def test_what_is_not_a_file_is_neither_read_nor_replaced():
    os.mkfifo("pipe")
    os.symlink("/dev/null", "null")
    os.symlink("nowhere.sql", "broken")
    for name in ("pipe", "null", "broken", "/dev/null"):
        for flags in ({}, {"overwrite": True}, {"append": True}):
            with pytest.raises(UsageError, match=r"is not a file|is a link to nothing"):
                chosen(ALONE, name, **flags)


def test_overwriting_a_link_keeps_the_link(folder):
    (folder / "elsewhere").mkdir()
    record(ALONE, "elsewhere/b.sql")
    os.symlink("elsewhere/b.sql", "a.sql")
    found = chosen(ALONE, overwrite=True)
    assert (found.path, found.overwrite) == (str(folder / "elsewhere" / "b.sql"), True)


def test_a_damaged_recording_is_replaced_when_that_is_wanted_and_only_then():
    record(ALONE)
    with sqlite3.connect("a.sql") as connection:
        (page,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'runs'").fetchone()
    with open("a.sql", "r+b") as stream:
        stream.seek((page - 1) * 4096)
        stream.write(b"\xff" * 4096)
    assert chosen(ALONE, overwrite=True).overwrite
    with pytest.raises(UsageError, match="exists"):
        chosen(ALONE)


@pytest.mark.parametrize("launcher", [slurm, hydra, indexed_job])
def test_ranks_agree_on_a_run_and_write_a_file_each(launcher):
    found = [record(launcher(rank)) for rank in range(2)]
    assert len({one.run_id for one in found}) == 1 and len({one.path for one in found}) == 2
    assert all(one.shard for one in found) and len(runs()) == 1


@pytest.mark.parametrize("launcher", [slurm, hydra, indexed_job])
def test_a_recording_of_ranks_is_refused_or_added_to_as_any_other(launcher):
    for rank in range(2):
        record(launcher(rank))
    later = [slurm(rank, job=2) if launcher is slurm else launcher(rank) for rank in range(2)]
    for environ in later:
        with pytest.raises(UsageError, match="holds another run; use -a"):
            chosen(environ)
    added = [record(environ, append=True) for environ in later]
    assert len({one.run_id for one in added}) == 1 and len(runs()) == 2
    for flags in ({}, {"overwrite": True}):
        with pytest.raises(UsageError, match="several ranks"):
            chosen(ALONE, **flags)
    record(ALONE, append=True)
    assert len(runs()) == 3


def test_a_second_command_of_a_step_is_a_run_of_its_own():
    for rank in range(2):
        record(slurm(rank), output=None)
    again = [record(slurm(rank), output=None) for rank in range(2)]
    assert {one.run_id for one in again} == {"c-1.0-2"} and len(runs("gssr_1.sql")) == 2
    record(slurm(0, step=1), output=None)
    record(slurm(0, step=1, ranks=1), output=None)


def test_a_requeued_step_goes_on_beside_its_own_files():
    for restart in range(3):
        for rank in range(2):
            record(slurm(rank, SLURM_RESTART_COUNT=str(restart)))
    assert len(runs()) == 3
    with pytest.raises(UsageError, match="another run"):
        chosen(slurm(0, job=2, SLURM_RESTART_COUNT="1"))


def test_what_adds_its_run_is_never_refused_because_another_is_being_recorded():
    first = chosen(ALONE)
    writer = Writer(first.path)
    writer.begin({"run_id": first.run_id, "state": "running", "sampling_ms": 3.6e6}, {"rank": 0})
    with pytest.raises(UsageError, match="being recorded into right now"):
        chosen(ALONE, overwrite=True)
    beside = record(ALONE, append=True)
    assert beside.shard and set(runs()) == {first.run_id, beside.run_id}
    assert writer.finish(1.0, 0, "completed", 1.0)
    assert not chosen(ALONE, "b.sql", append=True).shard


def test_a_recording_that_another_deletes_while_it_is_looked_at_is_none(monkeypatch):
    def deleted_meanwhile(path):
        os.unlink(path)
        raise FileNotFoundError

    record(ALONE)
    monkeypatch.setattr("gssr.store.open.looks_like_recording", deleted_meanwhile)
    assert chosen(ALONE, overwrite=True).overwrite


def test_steps_that_add_their_runs_to_one_recording_write_a_file_each():
    found = [record(slurm(0, step=step, ranks=1), append=True) for step in range(3)]
    assert [one.run_id for one in found] == ["c-1.0", "c-1.1", "c-1.2"] and len({one.path for one in found}) == 3
    assert all(one.shard for one in found) and sorted(runs()) == ["c-1.0", "c-1.1", "c-1.2"]


def test_a_pod_that_is_started_again_is_refused_without_a_trace_or_adds_a_run(folder):
    for rank in range(2):
        record(indexed_job(rank))
    before = sorted(os.listdir(folder / "a.sql.d"))
    with pytest.raises(UsageError, match="use -a"):
        chosen(indexed_job(1))
    assert sorted(os.listdir(folder / "a.sql.d")) == before
    again = record(indexed_job(1), append=True)
    assert len(runs()) == 2 and again.run_id not in before
    assert merge("a.sql").n_files == 3 and os.listdir(folder) == ["a.sql"]


def test_workers_of_torchrun_that_are_started_again_go_on_whatever_names_the_run():
    for restart in range(3):
        for rank in range(2):
            worker = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2", "TORCHELASTIC_RUN_ID": "none"}
            record(worker | {"TORCHELASTIC_RESTART_COUNT": str(restart)})
    assert len(runs()) == 3


def test_a_single_rank_leaves_no_folder_behind(folder):
    record(hydra(0, ranks=1))
    assert os.listdir(folder) == ["a.sql"]


def test_unknown_ranks_without_a_name_in_common_record_each_for_itself():
    found = [record(indexed_job(rank), output=None) for rank in range(2)]
    assert not any(one.shard for one in found) and len({one.path for one in found}) == 2
    with pytest.raises(UsageError, match="several ranks need one name"):
        chosen(hydra(0), output=None)
