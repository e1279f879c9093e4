"""Which file a run goes into, and what is never touched."""

import os
import random
import sqlite3
from itertools import count
from pathlib import Path

import pytest

from gssr.launch import where_am_i
from gssr.profile.output import choose
from gssr.profile.request import ProfileRequest, UsageError
from gssr.store.merge import merge
from gssr.store.read.recording import open_recording
from gssr.store.write.starts import UnagreedError
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


def array_task(task, rank):
    own = {"SLURM_ARRAY_JOB_ID": "70", "SLURM_ARRAY_TASK_ID": str(task), "SLURM_JOB_NAME": "my job/1"}
    return slurm(rank, job=70 + task, step=0, ranks=4, **own)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """An empty folder on a filesystem that all nodes share."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("gssr.profile.output.is_local", lambda _: False)
    monkeypatch.setattr(os, "getpid", count(1000).__next__)  # each is another process
    return tmp_path


def chosen(environ, output="a.sql", **flags):
    return choose(ProfileRequest(["true"], output=output, **flags), where_am_i({"USER": "me", **environ}))


def begin(environ, output="a.sql", **flags):
    """Choose an output and begin to record a run into it."""
    found = chosen(environ, output, **flags)
    writer = Writer(found.path, found.append)
    place = where_am_i({"USER": "me", **environ})
    run = {
        "run_id": found.run_id, "job_id": place.job_id, "cluster": place.cluster, "world_size": place.world_size,
        "array_job_id": place.array_job_id, "array_task_id": place.array_task_id, "state": "running",
        "sampling_ms": 3.6e6,  # so long without a word, and it is still going on
    }  # fmt: skip
    writer.begin(run, {"rank": place.rank})
    writer.event(0.0, "start", "the command was started")
    return found, writer


def record(environ, output="a.sql", code=0, **flags):
    """Choose an output and record a short run into it; a rank leaves the sign that it is through."""
    found, writer = begin(environ, output, **flags)
    end_of(found, writer, environ, code)
    return found


def end_of(found, writer, environ, code=0):
    assert writer.finish(1.0, code, "failed" if code else "completed", 1.0)
    if found.path.endswith(f".{found.run_id}.sql"):
        rank = where_am_i({"USER": "me", **environ}).rank
        Path(found.path).with_name(f"{rank}.{found.run_id}.ended").touch()


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
                begun.setdefault(task, []).append(begin(slurm(rank, job=70 + task, ranks=4), name)[1])
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
    with pytest.raises(UnagreedError, match="another rank has not written"):
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


def end(output="a.sql"):
    """Merge what is there."""
    return merge(output) if os.path.isdir(output + ".d") else None


@pytest.mark.parametrize("ranks", [1, 4])
@pytest.mark.parametrize("option", [{}, {"append": True}, {"overwrite": True}])
def test_tasks_of_an_array_are_never_refused_and_add_their_runs_whatever_began_or_ended_meanwhile(option, ranks):
    for seed in range(6):
        rng = random.Random(seed)
        name = f"{seed}.sql"
        everybody = [(task, rank) for task in range(3) for rank in range(ranks)]
        rng.shuffle(everybody)
        begun = {}
        for task, rank in everybody:
            task_of_many = array_task(task, rank) | {"SLURM_STEP_NUM_TASKS": str(ranks)}
            begun.setdefault(task, []).append(begin(task_of_many, name, **option)[1])
            if len(begun[task]) == ranks and rng.random() < 0.5:
                for writer in begun[task]:
                    assert writer.finish(1.0, 0, "completed", 1.0)
                end(name)
                begun[task] = []
        for writer in [writer for writers in begun.values() for writer in writers]:
            assert writer.finish(1.0, 0, "completed", 1.0)
        end(name)
        found = {reader.run.shown_job: len(reader.processes) for reader in open_recording(name).runs}
        assert found == {"70_0": ranks, "70_1": ranks, "70_2": ranks}, seed


def test_a_task_of_an_array_runs_also_where_there_is_an_earlier_recording():
    record(ALONE)
    for rank in range(2):
        record(array_task(0, rank))
    assert len(runs()) == 2


def test_what_is_to_be_replaced_is_what_was_over_when_the_first_rank_looked_and_no_clock_is_asked():
    record(slurm(0, ranks=1), append=True)
    end()
    going_on, writer = begin(slurm(0, job=2, ranks=1), append=True)
    first = record(slurm(0, job=3), overwrite=True)
    assert writer.finish(-1e9, 0, "completed", -1e9)  # by a clock that is wrong
    late = record(slurm(1, job=3), overwrite=True)  # by now the other one is over as well
    outcome = end()
    assert set(runs()) == {going_on.run_id, first.run_id} and late.run_id == first.run_id
    assert outcome.replaced == ("a.sql: c-1.0 is deleted: it was over when c-3.0 began, which replaces it (-f)",)


def test_a_run_that_is_merged_by_another_replaces_what_it_was_to_replace_too():
    record(ALONE)
    for rank in range(2):
        record(slurm(rank), overwrite=True)
    record(slurm(0, job=2, ranks=1), append=True)
    merge("a.sql", own="c-2.0")  # by the end of the other one
    assert sorted(runs()) == ["c-1.0", "c-2.0"] and not os.path.exists("a.sql.d")


def test_a_run_that_goes_on_is_not_replaced_although_it_is_over_at_the_end():
    before, writer = begin(slurm(0, ranks=1), append=True)
    for rank in range(2):
        record(slurm(rank, job=3), overwrite=True)
    end_of(before, writer, slurm(0, ranks=1))
    outcome = merge("a.sql", own="c-3.0", overwrite=True)
    assert set(runs()) == {before.run_id, "c-3.0"} and outcome.replaced == ()
    assert outcome.left == (f"a.sql: {before.run_id} is not overwritten: it was not over yet when this run began",)


def test_a_run_whose_ranks_have_not_all_begun_is_not_over_before_a_minute_has_passed(folder):
    record(slurm(0, job=1, ranks=2), append=True)
    record(slurm(0, job=2), overwrite=True)
    record(slurm(1, job=2), overwrite=True)
    merge("a.sql", own="c-2.0", overwrite=True)
    assert set(runs()) == {"c-1.0", "c-2.0"}
    old = os.stat(folder).st_mtime - 100
    for name in ("a.sql", *(f"a.sql.d/{name}" for name in os.listdir("a.sql.d"))):
        os.utime(name, (old, old))
    for rank in range(2):
        record(slurm(rank, job=3), overwrite=True)
    merge("a.sql", own="c-3.0", overwrite=True)
    assert runs() == ["c-3.0"]


def test_tasks_of_an_array_spare_each_other_and_replace_what_was_before():
    record(ALONE)
    for task in range(2):  # one after the other
        for rank in range(4):
            record(array_task(task, rank), overwrite=True)
        merge("a.sql", own=f"c-{70 + task}.0", overwrite=True)
    assert runs() == ["c-70.0", "c-71.0"]


def test_a_command_that_was_mistyped_replaces_nothing_whoever_merges_it():
    record(ALONE)
    found = chosen(slurm(0, ranks=2), overwrite=True)
    writer = Writer(found.path)
    writer.begin({"run_id": found.run_id, "state": "running"}, {"rank": 0})
    assert writer.finish(1.0, 127, "failed", 1.0)
    assert merge("a.sql").replaced == () and len(runs()) == 2


def test_a_run_is_deleted_from_among_others_which_stay_as_they_are():
    record(slurm(0, ranks=1), append=True)
    end()
    going_on, writer = begin(slurm(0, job=2, ranks=1), append=True)
    chosen(slurm(0, job=3), overwrite=True)
    assert writer.finish(1.0, 0, "completed", 1.0)
    end()  # in which the one that is to be deleted and the one that is not are together
    before = [reader.run for reader in open_recording("a.sql").runs][1]
    for rank in range(2):
        record(slurm(rank, job=3), overwrite=True)
    end()
    assert runs() == [going_on.run_id, "c-3.0"]
    assert open_recording("a.sql").runs[0].run == before


@pytest.mark.parametrize("launcher", [slurm, hydra, indexed_job])
def test_on_several_nodes_own_disks_a_rank_is_not_refused_for_what_its_node_was_left_with(launcher, monkeypatch, capfd):
    monkeypatch.setattr("gssr.profile.output.is_local", lambda _: True)
    for rank in range(2):
        record(launcher(rank))
    capfd.readouterr()
    later = [slurm(rank, job=2) if launcher is slurm else launcher(rank) for rank in range(2)]
    for environ in later:
        record(environ)
    assert len(runs()) == 2
    assert "-o a.sql: holds another run: this one is added to it" in capfd.readouterr().err
    if launcher is slurm:
        with pytest.raises(UsageError, match="holds another run"):
            chosen(slurm(0, job=3, SLURM_STEP_NUM_NODES="1"))  # all of them see it


def test_jobs_that_their_launcher_calls_alike_have_names_of_their_own():
    worker = {"LOCAL_RANK": "0", "WORLD_SIZE": "2", "TORCHELASTIC_RUN_ID": "100"}
    names = set()
    for number in range(3):
        job = {"SLURM_JOB_ID": str(number), "SLURM_CLUSTER_NAME": "c"} if number else {}
        found = [record(job | worker | {"RANK": str(rank)}, f"{number}.sql") for rank in range(2)]
        assert len({one.run_id for one in found}) == 1 and "100" in found[0].run_id
        names.add(found[0].run_id)
    assert len(names) == 3


def test_a_rank_of_a_launch_whose_name_is_made_here_is_found_again_by_the_others():
    mpirun = {"OMPI_COMM_WORLD_LOCAL_RANK": "0", "OMPI_COMM_WORLD_SIZE": "3", "PMIX_NAMESPACE": "3626696705"}
    found = [record(mpirun | {"OMPI_COMM_WORLD_RANK": str(rank)}) for rank in range(3)]
    assert len({one.run_id for one in found}) == 1 and found[0].run_id.startswith("3626696705-")
