"""Who and where this process is, from the environment its launcher gave it.

The rules, most of them learnt the hard way:

- The launcher nearest to the process wins: ``mpirun`` or ``torchrun`` inside a Slurm job runs as one Slurm task per node,
  and all its ranks inherit that task's ``SLURM_PROCID``.
- A local rank is never computed from the rank: cyclic layouts and Open MPI 5's default mapping break that.
- A batch script and a salloc shell have Slurm variables too, but no step of their own: they are alone inside a job.
- A number that is no number counts as not there.

The launchers that gssr.launch recognises, and the names of their variables.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Mapping
from typing import NamedTuple


class Launcher(NamedTuple):
    """One launcher: how it is recognised and the names of its variables ("" where it has none).

    It is present when ``rank`` is a number, all of ``needs`` are set, one of ``one_of`` is (if any are named), and, with
    ``in_step``, the process is in a Slurm step that srun made. ``local_ranks`` lists the ranks of the node, where nothing
    counts them. ``run_id`` is its own name for the launch, which the user may have chosen (``run_id_is_users``);
    ``restarts`` counts its ranks' restarts. ``inherits_step``: all ranks see the same SLURM_STEP_ID, so that it may name the
    run; under mpirun those on the first node can lack it. ``inherits_node``: SLURMD_NODENAME is this node's; hydra hands the
    first node's to all ranks. ``launch``: variables that tell a launch without a run id from others; ``below_proxy``: the
    process that started its ranks does. ``pods``: each rank is a pod, which is started again by itself.
    """

    name: str
    rank: str
    local_rank: str = ""
    world_size: str = ""
    local_size: str = ""
    local_ranks: str = ""
    n_nodes: str = ""
    run_id: str = ""
    run_id_is_users: bool = False
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
        run_id="TORCHELASTIC_RUN_ID", run_id_is_users=True, restarts="TORCHELASTIC_RESTART_COUNT",
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
        launch=("MASTER_ADDR", "MASTER_PORT"),
    ),
)  # fmt: skip
"""In the order in which they are asked."""


class LaunchPlace(NamedTuple):
    """Where this process stands among those of its launch. None is unknown; numbers count from 0.

    ``launcher`` is one of ``LAUNCHERS``' names or ``alone``. ``world_size`` ranks in all, ``local_size`` of them on this
    ``node``; ``node`` is the launcher's name for it, ``hostname`` the kernel's. ``job_name`` is the user's name for the job,
    ``called`` what it is called where its user gave none as well. ``account`` is what the scheduler books the job to,
    ``partition`` the queue it runs in.
    ``restart_count`` says how often the job was requeued or its ranks were restarted: above 0 an earlier recording may
    exist. ``run_id`` is the same for all ranks and safe in file names; None when the launcher gives its ranks nothing to
    agree on. ``launch`` then tells their launch from others as far as that can be told: the same for all ranks, "" for
    nothing. So it does with ``shares_run_id``: other launches, of this job or another one, may have the same, and the first
    rank that records adds to it what no other has (gssr.profile.output). ``pod``: this rank is one, and may be started again
    while the others run on.
    """

    launcher: str
    rank: int
    local_rank: int | None
    world_size: int | None
    local_size: int | None
    n_nodes: int | None
    node: str
    hostname: str
    cluster: str | None
    job_id: str | None
    step_id: str | None
    array_job_id: str | None
    array_task_id: str | None
    job_name: str | None
    restart_count: int
    user: str
    run_id: str | None
    called: str | None = None
    launch: str = ""
    shares_run_id: bool = False
    pod: bool = False
    account: str | None = None
    partition: str | None = None

    @property
    def parallel(self) -> bool:
        """True unless this is known to be the only rank: others may record beside it."""
        return self.world_size != 1

    @property
    def in_array(self) -> bool:
        """Whether this is a task of an array of jobs, which its user has submitted as one."""
        return self.array_task_id is not None


ALONE = "alone"
"""What ``launcher`` says when none is present: a command by itself, a batch script, the shell of an interactive job."""

_ALONE: tuple[int, int | None, int | None, int | None, int | None] = (0, 0, 1, 1, 1)
JOB_IDS = ("SLURM_JOB_ID", "FLUX_JOB_ID", "PBS_JOBID", "LSB_JOBID")
_JOB_NAMES = ("SLURM_JOB_NAME", "PBS_JOBNAME", "LSB_JOBNAME")
_ACCOUNTS = ("SLURM_JOB_ACCOUNT", "PBS_ACCOUNT", "LSB_PROJECT_NAME")
_PARTITIONS = ("SLURM_JOB_PARTITION", "PBS_QUEUE", "LSB_QUEUE")
_ARRAYS = (
    ("SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID"),
    ("PBS_ARRAY_ID", "PBS_ARRAY_INDEX"),
    ("LSB_JOBID", "LSB_JOBINDEX"),
)
"""Id of an array of jobs, and the task's number in it. LSF has them everywhere, the number 0 outside of an array."""
_NAMES_OF_SLURM = frozenset({"interactive", "wrap", "bash", "sh", "gssr"})
"""What Slurm calls a job whose user gave no name: after the way it was started, or srun's command."""
_SCRIPT = re.compile(r".+\.(?:sh|bash|batch|sbatch|slurm|job|py)", re.IGNORECASE)
"""So a script is called, after which sbatch names the job of a user who gave it no name."""
_NO_RUN_ID = "none"
"""What torchrun has in place of a run id when nobody chose one."""

_NONE, _BATCH = "none", "batch"
"""What a part of a name is called that is not to be had, and the step of a batch script."""

_LONGEST_NAME = 200
_LONGEST_LAUNCHERS_ID = 64
"""As much of a launcher's own id goes into a run's: torchrun's users may choose one of any length, and a file is called
after the run."""
_GENERATIONS = 32
"""So far up hydra's proxy is looked for."""

RUNTIMES = ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")
"""What ROCm and CUDA take the GPUs from that they show."""
_MOST_GPUS = 1024
"""No node has more: a range beyond is no range."""

_FIRST_SPECIAL_STEP = 0xFFFFFFF0
"""Slurm gives the batch script, the shell of an interactive job and the like step ids from here on: srun made none of
them for several tasks, and several commands of one shell share them."""


def rank_told(environments: Iterable[Mapping[str, str]]) -> tuple[int | None, int | None]:
    """Return the rank and the number of ranks that these environments agree on; (None, None) if they differ or none
    says a rank. The second may be None alone."""
    places = {(place.rank, place.world_size) for place in map(where_am_i, environments) if place.launcher != ALONE}
    return places.pop() if len(places) == 1 else (None, None)


def where_am_i(environ: Mapping[str, str] = os.environ) -> LaunchPlace:
    """Find out from the environment where this process stands in its launch. Call it once for each run and pass the
    result on: outside of a launcher ``run_id`` contains the time of the call."""
    step_id = _step_id(environ)
    launcher = next((row for row in LAUNCHERS if _present(row, environ, step_id)), None)
    hostname = os.uname().nodename
    cluster = _cluster(environ)
    job_id = _first(environ, JOB_IDS)
    array_job_id, array_task_id = _array(environ)
    if array_task_id is not None and job_id == environ.get("LSB_JOBID"):
        job_id = f"{job_id}[{array_task_id}]"  # one id for the whole array, as bjobs shows its tasks
    node = environ.get("SLURMD_NODENAME") or hostname
    restarts = [_number(environ, "SLURM_RESTART_COUNT") or 0, 0]
    rank, local_rank, world_size, local_size, n_nodes = _ALONE
    if launcher:
        rank = _number(environ, launcher.rank) or 0
        local_rank = _number(environ, launcher.local_rank)
        world_size = _number(environ, launcher.world_size) or None
        local_size = _number(environ, launcher.local_size) or _length(environ, launcher.local_ranks)
        n_nodes = _number(environ, launcher.n_nodes) or None
        if n_nodes is None and local_size is not None and local_size == world_size:
            n_nodes = 1
        node = node if launcher.inherits_node else hostname
        restarts[1] = _number(environ, launcher.restarts) or 0
    step_id = step_id if launcher and launcher.inherits_step else None
    pod = launcher is not None and (launcher.pods or (launcher.name == "pytorch" and _in_kubernetes(environ)))
    launchers_id = environ.get(launcher.run_id, "") if launcher else ""
    if launchers_id in (_NO_RUN_ID, job_id):
        launchers_id = ""
    return LaunchPlace(
        launcher=launcher.name if launcher else ALONE,
        rank=rank,
        local_rank=local_rank,
        world_size=world_size,
        local_size=local_size,
        n_nodes=n_nodes,
        node=node,
        hostname=hostname,
        cluster=cluster,
        job_id=job_id,
        step_id=step_id,
        array_job_id=array_job_id,
        array_task_id=array_task_id,
        job_name=_job_name(environ),
        restart_count=sum(restarts),
        user=_user(environ),
        run_id=_run_id(
            "-".join(part for part in (cluster, job_id) if part) if job_id else None,
            step_id,
            launchers_id,
            restarts,
            None if launcher else node,
        ),
        called=_first(environ, _JOB_NAMES) if job_id else None,
        launch=_launch(environ, launcher, job_id, step_id, launchers_id, world_size, n_nodes, hostname, sum(restarts))
        if launcher
        else "",
        shares_run_id=launcher is not None
        and (job_id is not None or launchers_id != "")
        and not _names_one_launch(launcher, cluster, job_id, step_id, launchers_id),
        pod=pod,
        account=_first(environ, _ACCOUNTS) if job_id else None,
        partition=_first(environ, _PARTITIONS) if job_id else None,
    )


def named(pattern: str, place: LaunchPlace) -> str:
    """Fill in the parts of a file name as sbatch does: ``%j`` job id, ``%A`` id of the whole array, ``%a`` the task's
    number in it, ``%s`` step id, ``%x`` job name, ``%%`` a percent sign; other signs stay. A part that does not exist
    becomes ``none``, the step of a batch script ``batch``; outside of an array ``%A`` is the job id."""
    parts = {
        "j": place.job_id,
        "A": place.array_job_id or place.job_id,
        "a": place.array_task_id,
        "s": place.step_id or (_BATCH if place.job_id else None),
        "x": place.called,
    }
    return re.sub("%([jAasx%])", lambda found: "%" if found[1] == "%" else _safe(parts[found[1]] or _NONE), pattern)


def gpu_ids(environ: Mapping[str, str] = os.environ) -> tuple[str, ...] | None:
    """Return the GPUs that the launcher's variables give this process, as indices or UUIDs; () if it is given none,
    None if no variable says.

    SLURM_STEP_GPUS in a step, and only in a batch script SLURM_JOB_GPUS (in a step it is the batch node's): both hold
    indices of the whole node. Else CUDA_VISIBLE_DEVICES, which ends at its first invalid entry, as CUDA reads it
    (empty, ``-1`` and ``NoDevFiles`` are no GPU), or ROCm's variables, which are read alike; their indices may count
    from 0 in every task of a node. A step of a job with GPUs that Slurm gave none of them has no variable but the
    job's: that is ().
    """
    found = _slurms_gpus(environ) or _runtimes_gpus(environ)
    if found is None and environ.get("SLURM_STEP_ID") and environ.get("SLURM_JOB_GPUS"):
        return ()
    return found


def gpu_ids_are_slurms(environ: Mapping[str, str] = os.environ) -> bool:
    """Tell whether ``gpu_ids`` come from Slurm's variables, so that they are indices of the whole node."""
    return bool(_slurms_gpus(environ))


def gpu_ids_are_the_nodes(environ: Mapping[str, str] = os.environ) -> bool:
    """Tell whether ``gpu_ids`` mean the same GPUs in every process of the node. UUIDs do, and Slurm's indices, unless a
    variable of CUDA or ROCm gives the process only some of them. Other indices may count from 0 in each process. False
    if no variable says anything."""
    slurms, runtimes = _slurms_gpus(environ), _runtimes_gpus(environ)
    if slurms:
        return runtimes is None or len(runtimes) == len(slurms)
    return bool(runtimes) and not any(_natural(gpu) is not None for gpu in runtimes or ())


def _slurms_gpus(environ: Mapping[str, str]) -> tuple[str, ...] | None:
    """Return the node's GPU indices that Slurm's variables list, None if they list none."""
    in_step, in_job = bool(environ.get("SLURM_STEP_ID")), bool(environ.get("SLURM_JOB_ID"))
    slurm = environ.get("SLURM_STEP_GPUS" if in_step else "SLURM_JOB_GPUS") if in_step or in_job else None
    if not slurm:
        return None
    entries = [entry.strip() for entry in slurm.split(",") if entry.strip()]
    return tuple(dict.fromkeys(gpu for entry in entries for gpu in _spread(entry)))


def _runtimes_gpus(environ: Mapping[str, str]) -> tuple[str, ...] | None:
    """Return the GPUs that the variables of CUDA and ROCm leave visible, None if none is set. ROCR_VISIBLE_DEVICES
    hides all others; HIP_VISIBLE_DEVICES, or instead CUDA's variable, then chooses among these by new indices. A
    launcher may have set two of them alike."""
    rocr, hip, cuda = (_listed(environ.get(name)) for name in RUNTIMES)
    among = cuda if hip is None else hip
    if rocr is None or among is None or among == rocr:
        return among if rocr is None else rocr
    indices = [_natural(gpu) for gpu in among]
    if hip is None and any(index is not None and index >= len(rocr) for index in indices):
        return among  # it isn't HIP that reads it
    found: list[str] = []
    for gpu, index in zip(among, indices):
        if index is not None and index >= len(rocr):
            break
        found.append(gpu if index is None else rocr[index])
    return tuple(dict.fromkeys(found))


def _listed(variable: str | None) -> tuple[str, ...] | None:
    """Return the valid entries of a variable up to the first invalid one, each once; None if it is not set."""
    if variable is None:
        return None
    seen: dict[str, None] = {}
    for entry in variable.split(","):
        device = entry.strip()
        if _natural(device) is None and not device.startswith(("GPU-", "MIG-")):
            break
        seen[device] = None
    return tuple(seen)


def shown_job(job_id: str | None, array_job_id: str | None, array_task_id: str | None) -> str | None:
    """Return a job's id as its scheduler shows it to users: squeue calls a task of an array ``124_0``. PBS and LSF have
    the task in the id already (``124[0]``). None without a job."""
    if job_id is None or array_job_id is None or array_task_id is None or "[" in job_id:
        return job_id
    return f"{array_job_id}_{array_task_id}"


def default_output(place: LaunchPlace) -> str:
    """Return the name of a recording for which none was given: after the job, or outside of one after the date and
    time."""
    return f"gssr_{_safe(place.job_id)}.sql" if place.job_id else time.strftime("gssr_%Y%m%dT%H%M%S.sql")


def _present(launcher: Launcher, environ: Mapping[str, str], step_id: str | None) -> bool:
    """Tell whether a launcher started this process. ``step_id`` is the srun step, None outside of one."""
    return (
        _number(environ, launcher.rank) is not None
        and all(environ.get(name) for name in launcher.needs)
        and (not launcher.one_of or any(environ.get(name) for name in launcher.one_of))
        and (not launcher.in_step or step_id is not None)
    )


def _cluster(environ: Mapping[str, str]) -> str | None:
    """Return the name of the Slurm cluster, None outside of Slurm. A step of another job (srun --jobid) is told only
    the cluster that srun talks to, as ``NAME:HOST:PORT:VERSION``."""
    name = environ.get("SLURM_CLUSTER_NAME") or environ.get("SLURM_WORKING_CLUSTER", "").partition(":")[0]
    return name or None


def _run_id(
    job: str | None, step_id: str | None, launchers_id: str, restarts: list[int], alone_on: str | None
) -> str | None:
    """Make the run id, ``CLUSTER-JOB.STEP-LAUNCHERS_ID[.RESTART]``, of the parts that exist; None if there are none for
    a launch.

    Args:
        job: cluster and job id.
        launchers_id: the launcher's own id, "" without.
        restarts: how often the job and how often its ranks were restarted, told apart as ``.1`` and ``.0.1``.
        alone_on: the node of a process without a launcher, else None; start time and pid then make the id unique.
    """
    name = (f"{job}.{step_id}" if step_id is not None else job) if job else None
    if launchers_id:
        name = "-".join(part for part in (name, launchers_id[:_LONGEST_LAUNCHERS_ID]) if part)
    name = name or alone_on
    if name is None:
        return None
    if restarts[1]:
        name += f".{restarts[0]}.{restarts[1]}"
    elif restarts[0]:
        name += f".{restarts[0]}"
    if alone_on is not None:
        name += time.strftime("-%Y%m%dT%H%M%S", time.gmtime()) + f"-{os.getpid()}"
    return _safe(name)


def _names_one_launch(
    launcher: Launcher, cluster: str | None, job_id: str | None, step_id: str | None, launchers_id: str
) -> bool:
    """Tell whether no other launch can have this run id, on any cluster at any time.

    A job's number is its cluster's own (PBS has the server in it). A launcher's own id comes from a process's number or
    the user, and only tells apart what one job starts; a user may give the same one to all of that.
    """
    if job_id is None or (cluster is None and "." not in job_id):
        return False
    return step_id is not None or (launchers_id != "" and not launcher.run_id_is_users)


def _launch(
    environ: Mapping[str, str],
    launcher: Launcher,
    job_id: str | None,
    step_id: str | None,
    launchers_id: str,
    world_size: int | None,
    n_nodes: int | None,
    hostname: str,
    restarts: int,
) -> str:
    """Make a name that is the same for all ranks of a launch and, as far as possible, differs from other launches'; ""
    if nothing tells."""
    words = [str(world_size or ""), str(restarts or ""), *(environ.get(name, "") for name in launcher.launch)]
    if launcher.pods:
        words = [words[0], _job_of_pod(environ, hostname)]
    if launcher.below_proxy:
        words.append(_proxy(n_nodes == 1))
    words = [job_id or "", step_id or "", launchers_id[:_LONGEST_LAUNCHERS_ID], *words]
    return _safe("-".join(word for word in words if word))[:_LONGEST_NAME]


def _proxy(alone: bool) -> str:
    """Return what identifies hydra's proxy above this process: the port on which mpiexec listens, the same on all nodes
    of a launch. Without it, ``alone`` (the launch is on one node) lets the proxy itself stand for it, or the session of
    its ranks; else ""."""
    pid, found = os.getppid(), ""
    try:
        for _ in range(_GENERATIONS):
            with open(f"/proc/{pid}/stat", "rb") as stream:
                name, _, rest = stream.read().partition(b"(")[2].rpartition(b")")
            if name.startswith(b"hydra"):
                with open(f"/proc/{pid}/cmdline", "rb") as stream:
                    words = stream.read().decode("utf-8", "replace").split("\0")
                for option, value in zip(words, words[1:]):
                    if option == "--control-port":
                        return value
                fields = rest.split()
                found = f"{pid}.{fields[19].decode()}"
                break
            pid = int(rest.split()[1])
    except (OSError, ValueError, IndexError):
        pass  # at the top, or they are hidden here
    return (found or f"session{os.getsid(0)}") if alone else ""


def _job_of_pod(environ: Mapping[str, str], hostname: str) -> str:
    """Return the Kubernetes job of an Indexed Job's pod, by its host name, JOB-NUMBER; "" if the host name is the
    node's."""
    number = "-" + environ.get("JOB_COMPLETION_INDEX", "")
    if number == "-" or not hostname.endswith(number):
        return ""
    try:
        with open("/etc/hosts", encoding="utf-8", errors="replace") as stream:
            of_node = "(host network)" in stream.readline()  # which kubelet writes there
    except OSError:
        of_node = False
    return "" if of_node else hostname.removesuffix(number)


def _in_kubernetes(environ: Mapping[str, str]) -> bool:
    return bool(environ.get("KUBERNETES_SERVICE_HOST"))


def _safe(name: str) -> str:
    """Replace everything in a name but letters, digits, dot, dash and underscore; the florin sign that begins Flux's
    job ids becomes f."""
    return "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "_" for c in name.replace("ƒ", "f"))


def is_name(text: str) -> bool:
    """Tell whether a text can be a run id, after which files are named."""
    return 0 < len(text) <= _LONGEST_NAME and text == _safe(text)


def _number(environ: Mapping[str, str], name: str) -> int | None:
    """Return a variable as a number from 0 on; None if it is absent or anything else."""
    return _natural(environ.get(name, ""))


def _length(environ: Mapping[str, str], name: str) -> int | None:
    """Return how many numbers a comma-separated variable lists; None if it is absent or lists anything else."""
    entries = environ.get(name, "").split(",")
    return len(entries) if all(_natural(entry) is not None for entry in entries) else None


def _natural(text: str) -> int | None:
    text = text.strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 10 else None


def _spread(entry: str) -> list[str]:
    """Return the ids that an entry of a Slurm list stands for: ``4`` and ``GPU-…`` are one, ``0-3`` is four."""
    low, _, high = entry.partition("-")
    first, last = _natural(low), _natural(high)
    if first is None or last is None or not first <= last < _MOST_GPUS:
        return [entry]
    return [str(index) for index in range(first, last + 1)]


def _step_id(environ: Mapping[str, str]) -> str | None:
    """Return the Slurm step that srun made for this process; None outside of one."""
    step = _number(environ, "SLURM_STEP_ID")
    return str(step) if step is not None and step < _FIRST_SPECIAL_STEP and environ.get("SLURM_JOB_ID") else None


def _array(environ: Mapping[str, str]) -> tuple[str | None, str | None]:
    """Return the id of the array that the job is a task of, and the task's number; (None, None) outside of an array."""
    for job, task in _ARRAYS:
        if environ.get(job) and environ.get(task) and (task != "LSB_JOBINDEX" or environ[task] != "0"):
            return environ[job], environ[task]
    return None, None


def _first(environ: Mapping[str, str], names: Iterable[str]) -> str | None:
    """Return the value of the first of these variables that is set and not empty, None without any."""
    return next((environ[name] for name in names if environ.get(name)), None)


def _job_name(environ: Mapping[str, str]) -> str | None:
    """Return the name that the user gave the Slurm job; None for one that Slurm made up, also after a script."""
    name = environ.get("SLURM_JOB_NAME", "")
    made_up = name in _NAMES_OF_SLURM or _SCRIPT.fullmatch(name)
    return name if name and environ.get("SLURM_JOB_ID") and not made_up else None


def _user(environ: Mapping[str, str]) -> str:
    """Return the user's name, from the environment if possible: a thousand ranks need not ask the directory service.
    The number if the user has no name."""
    for name in ("LOGNAME", "USER"):
        if environ.get(name):
            return environ[name]
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())
