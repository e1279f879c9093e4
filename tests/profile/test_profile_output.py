"""Which file a run goes into, and what is never touched."""

import os
import random
import sqlite3
from itertools import count

import pytest

from gssr.launch import where_am_i
from gssr.profile.output import choose
from gssr.profile.request import Request, UnrecordedError, UsageError
from gssr.store.merge import merge
from gssr.store.read.recording import open_recording
from gssr.store.write.writer import Writer

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


def array_task(task, rank, step=0):
    own = {"SLURM_ARRAY_JOB_ID": "70", "SLURM_ARRAY_TASK_ID": str(task), "SLURM_JOB_NAME": "my job/1"}
    return slurm(rank, job=70 + task, step=step, ranks=4, **own)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "getpid", count(1000).__next__)  # each is another process
    return tmp_path


def chosen(environ, output="a.sql", **flags):
    return choose(Request(["true"], output=output, **flags), where_am_i({"USER": "me", **environ}))


def begin(environ, output="a.sql", **flags):
    """Choose an output and begin to record a run into it."""
    found = chosen(environ, output, **flags)
    writer = Writer(found.path, found.append)
    place = where_am_i({"USER": "me", **environ})
    writer.begin({"run_id": found.run_id, "job_id": place.job_id, "state": "running"}, {"rank": place.rank})
    return found, writer


def record(environ, output="a.sql", code=0, **flags):
    """Choose an output and record a short run into it."""
    found, writer = begin(environ, output, **flags)
    assert writer.finish(1.0, code, "failed" if code else "completed", 1.0)
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
    monkeypatch.setattr("gssr.store.read.open.looks_like_recording", deleted_meanwhile)
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


def test_a_pod_that_failed_is_started_again_as_another_run_and_so_are_others_with_it():
    for rank in range(3):
        record(indexed_job(rank), code=rank)  # the first one was through
    again = [begin(indexed_job(rank))[0] for rank in (1, 2)]
    assert len({one.run_id for one in again}) == 1 and len(runs()) == 2
    third = record(indexed_job(2), code=1)  # killed: nobody wrote an end
    assert third.run_id not in {one.run_id for one in again} and len(runs()) == 3
    with pytest.raises(UsageError, match="use -a"):
        chosen(indexed_job(0))


def test_a_pod_that_is_started_again_after_the_merge_adds_a_run():
    for rank in range(2):
        record(indexed_job(rank), code=rank)
    merge("a.sql")
    with sqlite3.connect("a.sql") as connection:
        connection.execute("UPDATE processes SET node = ?", (os.uname().nodename,))
    assert record(indexed_job(1)).shard and len(runs()) == 2


def test_pods_of_another_job_are_refused_all_of_them(monkeypatch):
    for job in ("one", "two"):
        for rank in range(3):
            name = os.uname_result(("Linux", f"{job}-{rank}", "", "", ""))
            monkeypatch.setattr(os, "uname", lambda name=name: name)
            if job == "one":
                record(indexed_job(rank))
            else:
                with pytest.raises(UsageError, match="use -a"):
                    chosen(indexed_job(rank))


def test_ranks_of_jobs_that_begin_in_any_order_and_end_meanwhile_are_refused_whole_or_not_at_all():
    for seed in range(12):
        rng = random.Random(seed)
        name = f"{seed}.sql"
        ranks = [(task, rank) for task in range(3) for rank in range(4)]
        rng.shuffle(ranks)
        begun, refused = {}, []
        for task, rank in ranks:
            try:
                begun.setdefault(task, []).append(begin(array_task(task, rank), name)[1])
            except UsageError:
                refused.append(task)
            if rng.random() < 0.3:
                for writer in begun.get(task, ()):
                    writer.finish(1.0, 0, "completed", 1.0)
                begun.get(task, []).clear()
            if rng.random() < 0.3 and os.path.isdir(name + ".d"):
                merge(name)  # by hand, in the middle of it
        assert sorted(refused.count(task) for task in range(3)) == [0, 4, 4], seed


def test_what_is_half_written_leaves_the_run_unrecorded_and_is_nothing_after_a_minute(folder, monkeypatch):
    monkeypatch.setattr("gssr.store.write.starts.PATIENCE", 0.1)
    (folder / "a.sql.d").mkdir()
    (folder / "a.sql.d" / "run").write_text("c-9.0 -")
    with pytest.raises(UnrecordedError, match="another rank has not written"):
        chosen(slurm(0))
    old = os.stat(folder).st_mtime - 100
    os.utime(folder / "a.sql.d" / "run", (old, old))
    assert chosen(slurm(0)).run_id == "c-1.0"


def test_where_there_are_no_hard_links_the_first_decides_as_well(monkeypatch):
    def refused(*_):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refused)
    assert len({chosen(hydra(rank)).run_id for rank in range(2)}) == 1
    with pytest.raises(UsageError, match="another run"):
        chosen(slurm(0))


def test_a_run_that_was_to_begin_and_never_did_keeps_its_name_for_a_minute(folder):
    chosen(slurm(0))
    with pytest.raises(UsageError, match="another run"):
        chosen(slurm(0, job=2))
    old = os.stat(folder).st_mtime - 100
    for name in os.listdir("a.sql.d"):
        os.utime(folder / "a.sql.d" / name, (old, old))
    assert record(slurm(0, job=3)).run_id == "c-3.0"


def test_a_rank_that_comes_after_the_others_were_merged_joins_its_run():
    for rank in range(2):
        record(slurm(rank, ranks=3))
    merge("a.sql")
    assert record(slurm(2, ranks=3)).run_id == "c-1.0" and len(runs()) == 1


@pytest.mark.parametrize("pattern, name", [
    ("%x_%A_%a.%s.sql", "my_job_1_70_3.0.sql"), ("%j.sql", "73.sql"), ("100%%_%t%.sql", "100%_%t%.sql"),
    ("%%j.sql", "%j.sql"),
])  # fmt: skip
def test_a_name_is_filled_in_as_sbatch_does(pattern, name):
    assert os.path.basename(chosen(array_task(3, 0), pattern).path.rpartition("/")[0]) == f"{name}.d"


def test_what_a_name_is_to_hold_and_nothing_has_is_called_none():
    pattern = "%j_%A_%a_%s_%x.sql"
    assert os.path.basename(chosen(ALONE, pattern).path) == "none_none_none_none_none.sql"
    batch = {"SLURM_JOB_ID": "5", "SLURM_JOB_NAME": "wrap"}
    assert os.path.basename(chosen(batch, pattern).path) == "5_5_none_batch_wrap.sql"


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
