"""Who and where a process is, by the variables real launchers set."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gssr.launch import (
    LAUNCHERS,
    LaunchPlace,
    default_output,
    gpu_ids,
    gpu_ids_are_the_nodes,
    is_name,
    shown_job,
    where_am_i,
)

HOST = os.uname().nodename

JOB = {"SLURM_JOB_ID": "77", "SLURM_CLUSTER_NAME": "alps", "SLURMD_NODENAME": "node2"}
BATCH = JOB | {"SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_NTASKS": "8", "SLURM_NNODES": "2", "SLURM_GTIDS": "0"}
STEP = JOB | {
    "SLURM_STEP_ID": "3", "SLURM_PROCID": "5", "SLURM_LOCALID": "1", "SLURM_STEP_NUM_TASKS": "8",
    "SLURM_STEP_NUM_NODES": "2", "SLURM_GTIDS": "4,5,6,7",
}  # fmt: skip
OPENMPI = {
    "OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_LOCAL_RANK": "1", "OMPI_COMM_WORLD_SIZE": "4",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "2", "PMIX_NAMESPACE": "prterun-node1-4711@1",
}  # fmt: skip
HYDRA = {"PMI_RANK": "3", "PMI_SIZE": "4", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "2", "PMI_FD": "6"}
PALS = {
    "PALS_RANKID": "9", "PALS_LOCAL_RANKID": "1", "PMI_SIZE": "16", "PALS_LOCAL_SIZE": "8", "PALS_APID": "a-b-c",
    "PBS_JOBID": "12[3].pbs",
}  # fmt: skip
FLUX = {"FLUX_TASK_RANK": "1", "FLUX_TASK_LOCAL_ID": "1", "FLUX_JOB_SIZE": "2", "FLUX_JOB_ID": "ƒ2Q8"}
TORCHRUN = {
    "RANK": "6", "LOCAL_RANK": "2", "WORLD_SIZE": "8", "LOCAL_WORLD_SIZE": "4", "GROUP_RANK": "1",
    "GROUP_WORLD_SIZE": "2", "TORCHELASTIC_RUN_ID": "3f2a",
}  # fmt: skip
JSRUN = {
    "JSM_NAMESPACE_RANK": "4", "JSM_NAMESPACE_LOCAL_RANK": "0", "JSM_NAMESPACE_SIZE": "6", "LSB_JOBID": "31",
    "PMIX_NAMESPACE": "jsm-1",
}  # fmt: skip
DEEPSPEED = {
    "RANK": "5", "LOCAL_RANK": "1", "WORLD_SIZE": "8", "LOCAL_WORLD_SIZE": "4", "MASTER_ADDR": "node1",
}  # fmt: skip
PYTORCHJOB = {"RANK": "1", "WORLD_SIZE": "4", "PET_NODE_RANK": "1", "PET_NNODES": "4", "HOSTNAME": "job-worker-0"}


@pytest.mark.parametrize(
    ("environ", "launcher", "rank", "local_rank", "world_size", "local_size", "n_nodes", "run_id"),
    [
        (STEP, "slurm", 5, 1, 8, 4, 2, "alps-77.3"),
        (STEP | {"SLURM_RESTART_COUNT": "2"}, "slurm", 5, 1, 8, 4, 2, "alps-77.3.2"),
        (OPENMPI, "openmpi", 2, 1, 4, 2, None, "prterun-node1-4711_1"),
        (HYDRA, "mpich", 3, 1, 4, 2, None, None),
        (PALS, "pals", 9, 1, 16, 8, None, "12_3_.pbs-a-b-c"),
        (FLUX, "flux", 1, 1, 2, None, None, "f2Q8"),
        (TORCHRUN, "torchrun", 6, 2, 8, 4, 2, "3f2a"),
        (TORCHRUN | {"TORCHELASTIC_RESTART_COUNT": "1"}, "torchrun", 6, 2, 8, 4, 2, "3f2a.0.1"),
        (JSRUN, "jsrun", 4, 0, 6, None, None, "31-jsm-1"),
        ({"JOB_COMPLETION_INDEX": "3"}, "kubernetes", 3, None, None, None, None, None),
        ({"PET_NODE_RANK": "1", "PET_NNODES": "4"}, "kubernetes", 1, None, 4, None, 4, None),
        (PYTORCHJOB, "kubernetes", 1, None, 4, None, 4, None),
        (PYTORCHJOB | {"JOB_COMPLETION_INDEX": "1"}, "kubernetes", 1, None, 4, None, 4, None),  # TrainJob: it tells how many
        (DEEPSPEED, "pytorch", 5, 1, 8, 4, None, None),
        (JOB | DEEPSPEED, "pytorch", 5, 1, 8, 4, None, "alps-77"),
        (STEP | DEEPSPEED | {"RANK": "0"}, "slurm", 5, 1, 8, 4, 2, "alps-77.3"),
        (PYTORCHJOB | TORCHRUN, "torchrun", 6, 2, 8, 4, 2, "3f2a"),  # inside of its pods
        ({"KUBERNETES_SERVICE_HOST": "10.0.0.1"} | OPENMPI, "openmpi", 2, 1, 4, 2, None, "prterun-node1-4711_1"),  # MPIJob
        ({"OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_LOCAL_RANK": "0", "OMPI_COMM_WORLD_SIZE": "4",
          "OMPI_COMM_WORLD_LOCAL_SIZE": "4", "PMIX_NAMESPACE": "3394043905"}, "openmpi", 2, 0, 4, 4, 1, "3394043905"),
        # nested: the nearest launcher wins
        (STEP | OPENMPI, "openmpi", 2, 1, 4, 2, None, "alps-77-prterun-node1-4711_1"),
        (STEP | HYDRA, "mpich", 3, 1, 4, 2, None, "alps-77.3"),
        (BATCH | HYDRA, "mpich", 3, 1, 4, 2, None, "alps-77"),
        (STEP | TORCHRUN, "torchrun", 6, 2, 8, 4, 2, "alps-77.3-3f2a"),
        (BATCH | TORCHRUN, "torchrun", 6, 2, 8, 4, 2, "alps-77-3f2a"),
        (STEP | TORCHRUN | {"TORCHELASTIC_RUN_ID": "none"}, "torchrun", 6, 2, 8, 4, 2, "alps-77.3"),
        (TORCHRUN | {"TORCHELASTIC_RUN_ID": "none"}, "torchrun", 6, 2, 8, 4, 2, None),
        # look-alikes: a launcher's name for a rank is not enough
        (STEP | {"RANK": "1", "LOCAL_RANK": "1", "WORLD_SIZE": "2"}, "slurm", 5, 1, 8, 4, 2, "alps-77.3"),
        (STEP | {"PMI_RANK": "1", "PMI_SIZE": "2", "PMI_FD": "9"}, "slurm", 5, 1, 8, 4, 2, "alps-77.3"),
    ],
)  # fmt: skip
def test_every_launcher_is_recognised(
    environ: dict[str, str], launcher: str, rank: int, local_rank: int | None, world_size: int | None,
    local_size: int | None, n_nodes: int | None, run_id: str | None,
) -> None:  # fmt: skip
    place = where_am_i(environ)
    assert (place.launcher, place.rank, place.local_rank) == (launcher, rank, local_rank)
    assert (place.world_size, place.local_size, place.n_nodes) == (world_size, local_size, n_nodes)
    assert place.run_id == run_id
    assert place.parallel


@pytest.mark.parametrize(
    ("environ", "shared"),
    [
        (STEP, False),
        (STEP | OPENMPI, False),
        (BATCH | OPENMPI, False),  # each mpirun has an id of its own within the job
        (PALS, False),  # PBS's ids name their server
        (STEP | TORCHRUN, False),
        (BATCH | TORCHRUN, True),  # --rdzv-id=$SLURM_JOB_ID, for everything that the script starts
        (BATCH | HYDRA, True),
        (BATCH | DEEPSPEED, True),
        (TORCHRUN, True),
        (OPENMPI, True),  # a hash of a process's number
        (JSRUN, True),  # another cluster's jobs have the same numbers
        (FLUX, True),
        ({name: value for name, value in STEP.items() if name != "SLURM_CLUSTER_NAME"}, True),
        ({}, False),
    ],
)
def test_an_id_that_another_launch_may_have_is_known_for_one(environ: dict[str, str], shared: bool) -> None:
    assert where_am_i(environ).shares_run_id is shared


def test_a_step_of_another_job_knows_its_cluster_by_whom_srun_talks_to() -> None:
    step = {name: value for name, value in STEP.items() if name != "SLURM_CLUSTER_NAME"}
    place = where_am_i(step | {"SLURM_WORKING_CLUSTER": "alps:10.0.0.1:6817:9728:109"})
    assert (place.cluster, place.run_id, place.shares_run_id) == ("alps", "alps-77.3", False)


def test_launches_with_one_id_are_told_apart_by_their_job_and_its_step() -> None:
    jobs = [where_am_i(BATCH | TORCHRUN | {"SLURM_JOB_ID": job}) for job in ("77", "78")]
    steps = [where_am_i(STEP | {"SLURM_CLUSTER_NAME": "", "SLURM_STEP_ID": step}) for step in ("1", "2")]
    assert all(place.shares_run_id for place in (*jobs, *steps))
    assert len({place.launch for place in (*jobs, *steps)}) == 4


def test_a_users_id_of_any_length_fits_into_a_files_name() -> None:
    place = where_am_i(STEP | TORCHRUN | {"TORCHELASTIC_RUN_ID": "x" * 4000})
    assert is_name(place.run_id or "") and is_name(place.launch)


@pytest.mark.parametrize(
    ("environ", "shown"),
    [
        (STEP | {"SLURM_ARRAY_JOB_ID": "70", "SLURM_ARRAY_TASK_ID": "7"}, "70_7"),
        (PALS | {"PBS_ARRAY_ID": "12[].pbs", "PBS_ARRAY_INDEX": "3"}, "12[3].pbs"),
        (JSRUN | {"LSB_JOBINDEX": "2"}, "31[2]"),
        (STEP, "77"),
        ({}, None),
    ],
)
def test_a_task_of_an_array_is_shown_as_its_scheduler_shows_it(environ: dict[str, str], shown: str | None) -> None:
    place = where_am_i(environ)
    assert shown_job(place.job_id, place.array_job_id, place.array_task_id) == shown


@pytest.mark.parametrize(
    ("environ", "prefix"),
    [
        ({}, re.escape(HOST)),
        ({"RANK": "0", "WORLD_SIZE": "4"}, re.escape(HOST)),
        (JOB, "alps-77"),
        (BATCH, "alps-77"),
        (BATCH | {"SLURM_RESTART_COUNT": "1"}, "alps-77\\.1"),
        # an interactive job's shell is a step of its own, but many commands share it
        (BATCH | {"SLURM_STEP_ID": "4294967290", "SLURM_STEP_NUM_TASKS": "1"}, "alps-77"),
        ({"PBS_JOBID": "12.pbs"}, "12\\.pbs"),
    ],
)
def test_alone_is_one_rank_and_its_run_id_holds_the_time(environ: dict[str, str], prefix: str) -> None:
    place = where_am_i(environ)
    assert (place.launcher, place.rank, place.local_rank, place.world_size, place.n_nodes) == ("alone", 0, 0, 1, 1)
    assert not place.parallel
    assert place.step_id is None
    assert re.fullmatch(rf"{prefix}-\d{{8}}T\d{{6}}-{os.getpid()}", place.run_id or "")


def test_all_ranks_agree_on_the_run_id() -> None:
    ids = {where_am_i(STEP | {"SLURM_PROCID": str(rank), "SLURMD_NODENAME": f"n{rank}"}).run_id for rank in range(8)}
    assert len(ids) == 1


def test_a_local_rank_is_never_computed() -> None:
    cyclic = {key: value for key, value in STEP.items() if key != "SLURM_LOCALID"} | {"SLURM_GTIDS": "1,3,5,7"}
    assert where_am_i(cyclic).local_rank is None
    assert where_am_i(cyclic).local_size == 4


def test_the_node_is_slurms_name_and_never_the_shells() -> None:
    assert where_am_i(STEP | {"HOSTNAME": "login1"}).node == "node2"
    assert where_am_i({"HOSTNAME": "login1"}).node == HOST
    assert where_am_i(STEP).hostname == HOST


def test_hydra_hands_on_the_first_nodes_name_so_it_is_not_believed() -> None:
    assert where_am_i(STEP | HYDRA).node == HOST


@pytest.mark.parametrize("bad", ["", "x", "-1", "1.5", "0x1", "٣", "9" * 5000])
def test_a_bad_number_counts_as_absent(bad: str) -> None:
    for row in LAUNCHERS:
        assert where_am_i({row.rank: bad}).launcher == "alone"
    for name, field in {
        "SLURM_LOCALID": "local_rank",
        "SLURM_STEP_NUM_TASKS": "world_size",
        "SLURM_GTIDS": "local_size",
        "SLURM_STEP_NUM_NODES": "n_nodes",
    }.items():
        place = where_am_i(STEP | {name: bad})
        assert (place.launcher, place.rank) == ("slurm", 5)
        assert getattr(place, field) is None
    assert where_am_i(STEP | {"SLURM_STEP_ID": bad}).launcher == "alone"
    assert where_am_i(STEP | {"SLURM_RESTART_COUNT": bad}).restart_count == 0


_VARIABLES = sorted({name for environ in (STEP, OPENMPI, HYDRA, PALS, FLUX, TORCHRUN, JSRUN) for name in environ})
_WORDS = st.one_of(
    st.text(max_size=12),
    st.sampled_from(["0", "1", "7", "none", "../../etc", "a b", "4294967290"]),
)


@given(st.dictionaries(st.sampled_from(_VARIABLES), _WORDS))
def test_no_environment_breaks_it_and_names_are_safe_in_files(environ: dict[str, str]) -> None:
    place = where_am_i(environ)
    assert isinstance(place, LaunchPlace)
    assert place.run_id is None or re.fullmatch(r"[A-Za-z0-9._-]+", place.run_id)
    assert re.fullmatch(r"gssr_[A-Za-z0-9._-]+\.sql", default_output(place))
    assert gpu_ids(environ) is None or all(gpu_ids(environ) or ())


def test_user_comes_from_the_environment_else_from_the_system() -> None:
    assert where_am_i({"USER": "ada"}).user == "ada"
    assert where_am_i({}).user


def test_a_job_is_called_what_its_user_called_it() -> None:
    assert where_am_i(STEP | {"SLURM_JOB_NAME": "training run"}).job_name == "training run"
    for made_up in ("interactive", "wrap", "bash", "gssr", "", "train.sh", "Job.SBATCH", "train.py"):
        place = where_am_i(STEP | {"SLURM_JOB_NAME": made_up})
        assert place.job_name is None and place.called == (made_up or None)
    assert where_am_i({"SLURM_JOB_NAME": "stale"}).job_name is None


def test_what_a_job_is_booked_to_and_its_queue_are_known_inside_of_a_job_alone() -> None:
    own = {"SLURM_JOB_ACCOUNT": "g1", "SLURM_JOB_PARTITION": "gpu"}
    place = where_am_i(STEP | own)
    assert (place.account, place.partition) == ("g1", "gpu")
    assert (where_am_i(own).account, where_am_i(own).partition) == (None, None)
    pbs = where_am_i({"PBS_JOBID": "1.pbs", "PBS_QUEUE": "large", "PBS_ACCOUNT": "g2"})
    assert (pbs.account, pbs.partition) == ("g2", "large")


def test_ranks_of_a_heterogeneous_job_are_counted_over_its_groups() -> None:
    second = STEP | {"SLURM_HET_SIZE": "2", "SLURM_JOB_ID_HET_GROUP_1": "78", "SLURM_NTASKS_HET_GROUP_1": "4"}
    place = where_am_i(second)
    assert (place.job_id, place.rank, place.world_size, place.run_id) == ("77", 5, 8, "alps-77.3")


def test_tasks_of_other_batch_systems_arrays_are_told_apart() -> None:
    pbs = where_am_i(PALS | {"PBS_ARRAY_ID": "12[].pbs", "PBS_ARRAY_INDEX": "3"})
    assert (pbs.job_id, pbs.array_job_id, pbs.array_task_id) == ("12[3].pbs", "12[].pbs", "3")
    lsf = where_am_i(JSRUN | {"LSB_JOBINDEX": "2"})
    assert (lsf.job_id, lsf.array_job_id, lsf.array_task_id) == ("31[2]", "31", "2")
    assert default_output(lsf) == "gssr_31_2_.sql"
    assert where_am_i(JSRUN | {"LSB_JOBINDEX": "0"}).job_id == "31"


def test_an_array_task_is_told() -> None:
    place = where_am_i(STEP | {"SLURM_ARRAY_JOB_ID": "70", "SLURM_ARRAY_TASK_ID": "7"})
    assert (place.job_id, place.array_job_id, place.array_task_id) == ("77", "70", "7")


@pytest.mark.parametrize(
    ("environ", "n"),
    [
        ({}, None),
        ({"CUDA_VISIBLE_DEVICES": ""}, 0),
        ({"CUDA_VISIBLE_DEVICES": "NoDevFiles"}, 0),
        ({"CUDA_VISIBLE_DEVICES": "-1"}, 0),
        ({"CUDA_VISIBLE_DEVICES": "0,-1,1"}, 1),
        ({"CUDA_VISIBLE_DEVICES": "0, 1"}, 2),
        ({"CUDA_VISIBLE_DEVICES": "GPU-8932f937-d72c,MIG-1a2b,3"}, 3),
        (STEP | {"SLURM_STEP_GPUS": "2,3", "CUDA_VISIBLE_DEVICES": "0"}, 2),
        (STEP | {"SLURM_STEP_GPUS": "0-3,6"}, 5),
        # in a step the job's list is the batch node's, and a step that has none of its own was given none
        (STEP | {"SLURM_JOB_GPUS": "0,1,2,3"}, 0),
        (STEP, None),
        (STEP | {"SLURM_JOB_GPUS": "0,1,2,3", "CUDA_VISIBLE_DEVICES": "0"}, 1),
        (BATCH | {"SLURM_JOB_GPUS": "0,1", "CUDA_VISIBLE_DEVICES": "0"}, 2),
        ({"SLURM_JOB_GPUS": "0,1"}, None),
        ({"ROCR_VISIBLE_DEVICES": "0,1"}, 2),
        ({"HIP_VISIBLE_DEVICES": ""}, 0),
        (STEP | {"SLURM_STEP_GPUS": "2,3", "ROCR_VISIBLE_DEVICES": "0"}, 2),
    ],
)
def test_gpus_follow_slurm_then_cuda(environ: dict[str, str], n: int | None) -> None:
    ids = gpu_ids(environ)
    assert (None if ids is None else len(ids)) == n


@pytest.mark.parametrize(
    ("environ", "same"),
    [
        (STEP | {"SLURM_STEP_GPUS": "2,3"}, True),
        (STEP | {"SLURM_STEP_GPUS": "2,3", "CUDA_VISIBLE_DEVICES": "0,1"}, True),
        (STEP | {"SLURM_STEP_GPUS": "0,1,2,3", "CUDA_VISIBLE_DEVICES": "0"}, False),  # the task sees one of them only
        ({"CUDA_VISIBLE_DEVICES": "GPU-8932,MIG-1a"}, True),
        ({"CUDA_VISIBLE_DEVICES": "GPU-8932,1"}, False),
        ({"CUDA_VISIBLE_DEVICES": "0"}, False),
        ({"CUDA_VISIBLE_DEVICES": ""}, False),
        ({}, False),
    ],
)
def test_only_slurms_indices_and_uuids_mean_the_same_in_every_process(environ: dict[str, str], same: bool) -> None:
    assert gpu_ids_are_the_nodes(environ) is same


@pytest.mark.parametrize(
    ("rocr", "hip", "cuda", "ids"),
    [
        ("4,5,6", None, None, ("4", "5", "6")),
        ("4,5,6", "2,0", None, ("6", "4")),  # HIP counts from 0 among ROCr's
        ("4,5,6", None, "1", ("5",)),  # on AMD's GPUs CUDA's variable is HIP's
        ("4,5,6", "1", "2", ("5",)),
        ("4,5,6", "1,3,0", None, ("5",)),  # and ends at what isn't there
        ("4,5", "4,5", "4,5", ("4", "5")),  # Slurm sets all of them alike
        ("1,2", None, "1,2", ("1", "2")),
        ("4,5", None, "5", ("5",)),  # a launcher that sets all, and a script that sets CUDA's
        ("GPU-8932f9,GPU-1a2b3c", "1", None, ("GPU-1a2b3c",)),
        ("0,1", "GPU-1a2b3c", None, ("GPU-1a2b3c",)),
        ("4,5", "", None, ()),
        (None, "3", "0", ("3",)),
    ],
)
def test_rocms_variables_choose_one_among_the_others(
    rocr: str | None, hip: str | None, cuda: str | None, ids: tuple[str, ...]
) -> None:
    named = {"ROCR_VISIBLE_DEVICES": rocr, "HIP_VISIBLE_DEVICES": hip, "CUDA_VISIBLE_DEVICES": cuda}
    assert gpu_ids({name: value for name, value in named.items() if value is not None}) == ids


def test_slurms_ids_are_the_nodes_own() -> None:
    assert gpu_ids(STEP | {"SLURM_STEP_GPUS": "2-4,7,2", "CUDA_VISIBLE_DEVICES": "0"}) == ("2", "3", "4", "7")
    assert gpu_ids({"CUDA_VISIBLE_DEVICES": "GPU-8932, 1"}) == ("GPU-8932", "1")
    assert gpu_ids({}) is None


def test_default_output_is_named_after_the_job_or_the_date() -> None:
    assert default_output(where_am_i(STEP)) == "gssr_77.sql"
    assert default_output(where_am_i(PALS)) == "gssr_12_3_.pbs.sql"
    assert re.fullmatch(r"gssr_\d{8}T\d{6}\.sql", default_output(where_am_i({})))


def test_launches_by_hydra_are_told_apart_by_the_proxy_above_their_ranks(tmp_path: Path) -> None:
    """Which has no name, port or id to hand on; here a program of its name stands in for it."""
    proxy = tmp_path / "hydra_pmi_proxy"
    proxy.symlink_to(sys.executable)
    ask = "from gssr.launch import where_am_i; print(where_am_i().launch)"
    rank = f"import subprocess, sys; subprocess.run(['sh', '-c', '\"$@\"; true', 'sh', sys.executable, '-c', {ask!r}])"
    two = f"exec({rank!r}); exec({rank!r})"
    environ = dict(os.environ) | HYDRA | {"PYTHONPATH": str(Path(__file__).parent.parent)}

    def launches(*options: str, **more: str) -> list[str]:
        command = [str(proxy), "-c", two, *options]
        done = subprocess.run(command, env=environ | more, capture_output=True, text=True, check=True)
        return done.stdout.split()

    alone = {"MPI_LOCALNRANKS": "4"}
    first, second = launches(**alone), launches(**alone)
    assert len({*first}) == len({*second}) == 1 and first[0] != second[0] and first[0].startswith("4-")
    assert launches("--control-port", "n1:7") == ["4-n1_7"] * 2 and launches() == ["4", "4"]
