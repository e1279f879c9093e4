"""The launchers that gssr.launch recognises, and the names of their variables."""

from typing import NamedTuple


class Launcher(NamedTuple):
    """One launcher: how it is recognised and the names of its variables ("" where it has none).

    It is present when ``rank`` is a number, all of ``needs`` are set, one of ``one_of`` is (if any are named), and, with
    ``in_step``, the process is in a Slurm step that srun made. ``local_ranks`` lists the ranks of the node, where nothing
    counts them. ``run_id`` is its own name for the launch, ``restarts`` counts its ranks' restarts. ``inherits_step``:
    all ranks see the same SLURM_STEP_ID, so that it may name the run; under mpirun those on the first node can lack it.
    ``inherits_node``: SLURMD_NODENAME is this node's; hydra hands the first node's to all ranks. ``launch``: variables that
    tell a launch without a run id from others; ``below_proxy``: the process that started its ranks does. ``pods``: each
    rank is a pod, which is started again by itself.
    """

    name: str
    rank: str
    local_rank: str = ""
    world_size: str = ""
    local_size: str = ""
    local_ranks: str = ""
    n_nodes: str = ""
    run_id: str = ""
    restarts: str = ""
    needs: tuple[str, ...] = ()
    one_of: tuple[str, ...] = ()
    in_step: bool = False
    inherits_step: bool = False
    inherits_node: bool = True
    launch: tuple[str, ...] = ()
    below_proxy: bool = False
    pods: bool = False


LAUNCHERS: tuple[Launcher, ...] = (
    Launcher(
        "openmpi", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_SIZE",
        "OMPI_COMM_WORLD_LOCAL_SIZE", run_id="PMIX_NAMESPACE",
    ),
    Launcher(
        "pals", "PALS_RANKID", "PALS_LOCAL_RANKID", "PMI_SIZE", "PALS_LOCAL_SIZE", run_id="PALS_APID",
    ),
    # hydra (MPICH, Intel MPI). srun --mpi=pmi2 sets PMI_RANK too, but none of hydra's own variables.
    Launcher(
        "mpich", "PMI_RANK", "MPI_LOCALRANKID", "PMI_SIZE", "MPI_LOCALNRANKS", needs=("MPI_LOCALRANKID",),
        one_of=("PMI_FD", "HYDI_CONTROL_FD"), inherits_step=True, inherits_node=False, below_proxy=True,
    ),
    Launcher(
        "jsrun", "JSM_NAMESPACE_RANK", "JSM_NAMESPACE_LOCAL_RANK", "JSM_NAMESPACE_SIZE", run_id="PMIX_NAMESPACE",
    ),
    Launcher(
        "flux", "FLUX_TASK_RANK", "FLUX_TASK_LOCAL_ID", "FLUX_JOB_SIZE", n_nodes="FLUX_JOB_NNODES", run_id="FLUX_JOB_ID",
    ),
    # Before Slurm: srun starts one torchrun per node, whose workers all inherit its SLURM_PROCID.
    Launcher(
        "torchrun", "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", n_nodes="GROUP_WORLD_SIZE",
        run_id="TORCHELASTIC_RUN_ID", restarts="TORCHELASTIC_RESTART_COUNT",
        needs=("LOCAL_RANK", "TORCHELASTIC_RUN_ID"), inherits_step=True, launch=("MASTER_ADDR", "MASTER_PORT"),
    ),
    Launcher(
        "slurm", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_STEP_NUM_TASKS", local_ranks="SLURM_GTIDS",
        n_nodes="SLURM_STEP_NUM_NODES", in_step=True, inherits_step=True,
    ),
    # A rank is a pod: of Kubeflow's PyTorchJob and TrainJob, outside the torchrun in it; then of an Indexed Job or a JobSet,
    # of which a TrainJob is made, and which don't tell how many there are.
    Launcher("kubernetes", "PET_NODE_RANK", world_size="PET_NNODES", n_nodes="PET_NNODES", pods=True),
    Launcher("kubernetes", "JOB_COMPLETION_INDEX", pods=True),
    # What torch.distributed looks for (env://): set by DeepSpeed, Accelerate, older PyTorchJobs and scripts. Last, because
    # scripts set it for one rank and start many.
    Launcher(
        "pytorch", "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", needs=("WORLD_SIZE", "MASTER_ADDR"),
    ),
)  # fmt: skip
"""In the order in which they are asked."""
