"""Schema 1 of a recording: every table and column, declared once.

``docs/recording.md`` is held against these tables by a test. Columns may be added without raising the version (an
absent column reads as NULL); a file of a higher version is refused.
"""

from typing import NamedTuple

from gssr.metrics import FLOP_ACTIVE, METRICS

APPLICATION_ID = 0x47535352  # "GSSR"
SCHEMA_VERSION = 1
GPU_KEYS_PER_RANK = 64
"""In a fresh run the key of a rank's i-th GPU is rank * 64 + i: unique over all ranks without talking."""

GAP_INTERVALS = 2.5
"""A gap is more than this many sampling intervals between two rows of a GPU."""

ENDED_SUFFIX = ".ended"
"""A rank that is through leaves an empty file beside its own: ``RANK.RUN_ID.ended``."""

START_NAME = "run"
"""Files of this name, and of ``run.2``, ``run.3`` …, say which runs were to be begun: gssr.store.write.starts."""

LIVE_SUFFIX = ".live"
"""Of a rank's live block, beside its file: gssr.store.live_block.write."""

LEVELS = (10, 60, 600)
"""Lengths of the rollups' buckets, seconds; buckets are aligned to unix time."""
FINEST_LEVEL = "(SELECT min(level) FROM rollup)"
"""SQL for the length of the shortest buckets that a file holds: an imported file may have none of 10 s
(gssr.store.write.bulk)."""
SKETCH_SECONDS, FINE_SKETCH_SECONDS = 600, 60
SKETCHES = {FINE_SKETCH_SECONDS: "sketch_minute", SKETCH_SECONDS: "sketch"}
"""Tables of histograms by the length of their buckets, seconds."""
YOUNG_SECONDS = SKETCH_SECONDS + 60.0
"""A bucket of 10 s is thinned this long after it began: by then the writer has closed the sketch and the coarsest bucket
that hold it, also those of a GPU that fell silent."""

STATES = ("running", "completed", "failed", "timeout", "killed")
"""How a run stands. ``lost`` is never stored: readers derive it (gssr.store.read.recording)."""

RECORDING_STOPPED = "recording stopped: the sampler "
"""How the event of the kind backend_lost begins that the supervisor adds when its sampler has died."""
RANKS_MISSING = "ranks_missing"
ALL_GPUS = "all GPUs of the node are recorded, others' as well: the scheduler names none as this step's, and hides none"
"""A part of an event of the kind backend."""
NO_GPU = "no GPU is sampled"
"""How the line from the sampler, and its event of the kind backend, begins that says so, and why."""

EVENT_KINDS: dict[str, str] = {
    "start": "the command was started",
    "end": "the command ended",
    "signal": "a signal was passed on to the command",
    "timeout": "--max-runtime was reached",
    "gap": "the sampler was held up, so samples are missing",
    "clock_step": "the system clock was set; the recording's own clock runs on",
    "backend": "which backend was opened, and what it can't measure",
    "backend_lost": "the backend stopped answering",
    "backend_back": "the backend answers again",
    "gpu_lost": "a GPU no longer answers",
    "gpu_back": "a GPU answers again",
    "xid": "the driver reported an error of a GPU (XID)",
    "ecc": "a GPU counted more memory errors (ECC), or remapped rows of its memory",
    "throttle_begin": "clocks are held down",
    "throttle_end": "clocks are free again",
    "storage": "the recording could not be written for a while",
    "mark": "a mark of the command's own: gssr.mark",
    "import": "what is uncertain, or was left out, of files that another tool wrote",
    "trace": "a note about traces beside the recording: some were left out, or a trace was asked for",
    RANKS_MISSING: "the run was merged without some of its ranks",
    "out_of_memory": "the command was killed while its memory was at the limit of its cgroup, or by the kernel for that",
}


class Column(NamedTuple):
    """One column: SQL name and type, and what it means, with its unit."""

    name: str
    type: str
    meaning: str


def _list_sample_columns() -> tuple[Column, ...]:
    """List the columns of ``samples``: the GPU's key, the time, and one for each metric in the order of METRICS."""
    columns = [
        Column("gpu", "INTEGER NOT NULL", "key of the GPU (gpus.gpu)"),
        Column("time", "REAL NOT NULL", "unix time of the sample, s"),
    ]
    for metric in METRICS:
        kind = "INTEGER" if metric.integral else "REAL"
        unit = "ratio, 0-1" if metric.unit == "1" else metric.unit
        columns.append(
            Column(metric.name, kind, f"{metric.meaning[0].lower()}{metric.meaning[1:].rstrip('.')} ({unit})")
        )
    return tuple(columns)


_HOST = (
    Column("cpu_utilization", "REAL", "share of all cores that was busy since the row before (ratio, 0-1)"),
    Column("load1", "REAL", "load average over one minute"),
    Column("memory_used", "INTEGER", "memory in use, bytes (total minus available)"),
    Column("memory_total", "INTEGER", "memory, bytes"),
    Column("read_bytes", "REAL", "read from local disks, bytes per second"),
    Column("write_bytes", "REAL", "written to local disks, bytes per second"),
    Column("net_rx_bytes", "REAL", "received over the network (loopback apart), bytes per second"),
    Column("net_tx_bytes", "REAL", "sent over the network (loopback apart), bytes per second"),
    Column("fabric_rx_bytes", "REAL", "received over InfiniBand, RoCE or Slingshot, bytes per second"),
    Column("fabric_tx_bytes", "REAL", "sent over InfiniBand, RoCE or Slingshot, bytes per second"),
)
_WORKLOAD = (
    Column("cpu", "REAL", "cores the command's processes kept busy since the row before"),
    Column("rss", "INTEGER", "resident memory of the command's processes, bytes (shared pages count in each)"),
    Column("n_processes", "INTEGER", "number of processes of the command"),
)


def _rollup_of(owner: Column, table: str, values: tuple[Column, ...]) -> tuple[Column, ...]:
    """Return the columns of the rollup of a table with samples of nodes or ranks. ``owner``: the column that says whose
    they are; ``values``: the columns that are added up."""
    counted = (
        (
            Column(f"{column.name}_n", "INTEGER", f"samples of {column.name}"),
            Column(f"{column.name}_sum", "REAL", "their sum"),
            Column(f"{column.name}_max", column.type, "the greatest of them"),
        )
        for column in values
    )
    return (
        Column("run_id", "TEXT NOT NULL", "the run"),
        owner,
        Column("level", "INTEGER NOT NULL", "length of the bucket, s: 10, 60 or 600"),
        Column("bucket", "INTEGER NOT NULL", "unix time at which the bucket begins, a multiple of level"),
        Column("n_rows", "INTEGER NOT NULL", f"rows of {table} in it; a bucket may have several rows: they add up"),
        *(column for columns in counted for column in columns),
    )


TABLES: dict[str, tuple[Column, ...]] = {
    "runs": (
        Column("run_id", "TEXT PRIMARY KEY", "name of the run, the same for all its ranks"),
        Column("label", "TEXT", "the label given with --label"),
        Column("command", "TEXT", "the command: a JSON array of its arguments"),
        Column("job_id", "TEXT", "the launcher's job id"),
        Column("step_id", "TEXT", "the launcher's step id"),
        Column("array_job_id", "TEXT", "id of the array of jobs that the job is a task of; NULL outside of an array"),
        Column("array_task_id", "TEXT", "the task's number in its array"),
        Column(
            "launcher",
            "TEXT",
            "slurm, openmpi, mpich, pals, flux, torchrun, jsrun, kubernetes, pytorch or alone; NULL "
            "where it was recorded beside a job (--attach-job)",
        ),
        Column("cluster", "TEXT", "name of the cluster"),
        Column("user", "TEXT", "who ran it"),
        Column("started_at", "REAL", "unix time of the command's start, s"),
        Column("ended_at", "REAL", "unix time of the command's end, s; NULL while it runs"),
        Column("sampling_ms", "REAL", "sampling interval, ms"),
        Column("exit_code", "INTEGER", "the command's exit code, 128 + n for signal n"),
        Column("state", "TEXT", "running, completed, failed, timeout or killed"),
        Column("world_size", "INTEGER", "number of ranks"),
        Column("n_nodes", "INTEGER", "number of nodes, where the launcher says it"),
        Column("gssr_version", "TEXT", "version of GSSR that recorded"),
        Column("job_name", "TEXT", "the job's name, as its scheduler shows it"),
        Column("account", "TEXT", "what the scheduler books the job to: an account or a project"),
        Column("partition", "TEXT", "partition or queue that the job ran in"),
    ),
    "processes": (
        Column("run_id", "TEXT NOT NULL", "the run"),
        Column("rank", "INTEGER NOT NULL", "rank, 0 when alone"),
        Column("local_rank", "INTEGER", "rank within the node"),
        Column("node", "TEXT", "node, as the launcher names it"),
        Column("hostname", "TEXT", "host name"),
        Column("pid", "INTEGER", "process id of the sampler that writes this rank's rows"),
        Column("pid_start", "INTEGER", "its start, clock ticks after boot: distinguishes a reused pid"),
        Column(
            "boot_id",
            "TEXT",
            "the kernel's boot id, in a container its pid namespace too: distinguishes a rebooted node",
        ),
        Column("started_at", "REAL", "unix time at which this rank's command started, s"),
        Column("ended_at", "REAL", "unix time at which it ended, s"),
        Column("exit_code", "INTEGER", "its exit code, 128 + n for signal n"),
        Column("state", "TEXT", "as in runs"),
        Column("clock_offset", "REAL", "this node's clock minus the reference node's, s"),
        Column("clock_error", "REAL", "bound of the error of clock_offset, s"),
        Column("booted_at", "REAL", "unix time at which this node was booted (CLOCK_BOOTTIME was 0), s"),
        Column(
            "n_cores",
            "REAL",
            "cores that this rank's processes may keep busy, by affinity and cgroup at its start; NULL where they are "
            "another job's",
        ),
    ),
    "gpus": (
        Column("gpu", "INTEGER PRIMARY KEY", "key of the GPU, local to the file"),
        Column("run_id", "TEXT NOT NULL", "the run"),
        Column("node", "TEXT", "the node it is in"),
        Column("rank", "INTEGER", "the rank that uses it; NULL when ranks share it"),
        Column("device_index", "INTEGER", "the driver's index on its node"),
        Column("uuid", "TEXT", "the driver's UUID: with run_id and node the GPU's identity"),
        Column("name", "TEXT", "product name"),
        Column("memory_total", "INTEGER", "device memory, bytes"),
        Column("power_limit", "REAL", "power limit in force, W"),
        Column("sm_count", "INTEGER", "number of SMs"),
        Column("max_sm_clock", "INTEGER", "highest SM clock, MHz"),
        Column("compute_capability", "TEXT", "CUDA compute capability, such as 9.0"),
        Column("driver_version", "TEXT", "driver version"),
        Column("backend", "TEXT", "the backend that sampled it"),
        Column("mig", "TEXT", "name of the MIG instance; NULL for a whole GPU"),
    ),
    "process_gpus": (
        Column("run_id", "TEXT NOT NULL", "the run"),
        Column("rank", "INTEGER NOT NULL", "a rank that may use the GPU"),
        Column("gpu", "INTEGER NOT NULL", "key of the GPU"),
    ),
    "samples": _list_sample_columns(),
    "host_samples": (
        Column("run_id", "TEXT NOT NULL", "the run"),
        Column("node", "TEXT NOT NULL", "the node"),
        Column("time", "REAL NOT NULL", "unix time, s"),
        *_HOST,
    ),
    "workload_samples": (
        Column("run_id", "TEXT NOT NULL", "the run"),
        Column("rank", "INTEGER NOT NULL", "the rank"),
        Column("time", "REAL NOT NULL", "unix time, s"),
        *_WORKLOAD,
    ),
    "gpu_processes": (
        Column("gpu", "INTEGER NOT NULL", "key of the GPU (gpus.gpu)"),
        Column("time", "REAL NOT NULL", "unix time at which the GPU was looked at, s"),
        Column("n_processes", "INTEGER NOT NULL", "rows of this look; 0: there was no process, and the rest is NULL"),
        Column("pid", "INTEGER", "process id on the node"),
        Column("name", "TEXT", "name of the process, as the kernel has it (without its arguments)"),
        Column("user", "TEXT", "whose process it is"),
        Column("memory_used", "INTEGER", "device memory of the process, bytes"),
        Column("sm_utilization", "REAL", "share of the SMs' time, mean since the look before (ratio, 0-1)"),
    ),
    "host_rollup": _rollup_of(
        Column("node", "TEXT NOT NULL", "the node; empty: all of them together, where there are several"),
        "host_samples",
        _HOST,
    ),
    "workload_rollup": _rollup_of(
        Column("rank", "INTEGER NOT NULL", "the rank; -1: all of them together, where there are several"),
        "workload_samples",
        _WORKLOAD,
    ),
    "events": (
        Column("run_id", "TEXT NOT NULL", "the run"),
        Column("time", "REAL NOT NULL", "unix time, s"),
        Column("node", "TEXT", "the node"),
        Column("gpu", "INTEGER", "key of the GPU; NULL when it is not about one"),
        Column("rank", "INTEGER", "the rank; NULL when it is not about one"),
        Column("kind", "TEXT NOT NULL", "what happened: " + ", ".join(EVENT_KINDS)),
        Column("message", "TEXT", "one sentence"),
    ),
    "rollup": (
        Column("gpu", "INTEGER NOT NULL", "key of the GPU"),
        Column("level", "INTEGER NOT NULL", "length of the bucket, s: 10, 60 or 600"),
        Column("bucket", "INTEGER NOT NULL", "unix time at which the bucket begins, a multiple of level"),
        Column("first_rowid", "INTEGER NOT NULL", "rowid of the bucket's first row in samples"),
        Column("last_rowid", "INTEGER NOT NULL", "rowid of its last row in samples"),
        Column("data", "BLOB NOT NULL", "float64 values, little endian: see gssr.store.format.layout"),
    ),
    "sketch": (
        Column("gpu", "INTEGER NOT NULL", "key of the GPU"),
        Column("bucket", "INTEGER NOT NULL", "unix time at which the bucket of 600 s begins"),
        Column("data", "BLOB NOT NULL", "one sparse histogram per metric: see gssr.store.format.layout"),
    ),
    "sketch_minute": (
        Column("gpu", "INTEGER NOT NULL", "key of the GPU"),
        Column("bucket", "INTEGER NOT NULL", "unix time at which the bucket of 60 s begins"),
        Column("data", "BLOB NOT NULL", "the same, packed: see gssr.store.format.layout"),
    ),
    "merged": (
        Column("shard", "TEXT PRIMARY KEY", "name of the rank's file, all of which is in this file"),
        Column("run_id", "TEXT NOT NULL", "the run"),
        Column("first_rowid", "INTEGER", "rowid of its first row in samples; NULL when it had none"),
        Column("last_rowid", "INTEGER", "rowid of its last row in samples"),
    ),
    "thinned": (
        Column("run_id", "TEXT NOT NULL", "the run"),
        Column("rank", "INTEGER NOT NULL", "the rank whose samples are thinned"),
        Column(
            "keep", "TEXT NOT NULL", "what takes the place of old rows of samples: 10s (their means) or none (nothing)"
        ),
        Column("end_time", "REAL", "unix time, s: rows from before it are thinned; NULL when none are yet"),
        Column("first_rowid", "INTEGER", "rowid of the first row that was thinned"),
        Column("last_rowid", "INTEGER", "rowid of the last row that was thinned"),
    ),
    "traces": (
        Column("run_id", "TEXT NOT NULL", "the run"),
        Column("node", "TEXT", "the node it was traced on; NULL where that is not known"),
        Column("rank", "INTEGER", "the rank it is of, as the trace or its name tells; NULL where that is not known"),
        Column("path", "TEXT NOT NULL", "the file, below the folder NAME.traces beside the recording"),
        Column("format", "TEXT NOT NULL", "kineto, chrome, nsys, nsys-rep, rocpd, otf2, cube, xspace or perfetto"),
        Column("size", "INTEGER NOT NULL", "its bytes, when the row was written"),
        Column("mtime", "REAL NOT NULL", "when it was last changed, as of then, unix s"),
        Column(
            "zero",
            "INTEGER",
            "unix time of its begin, from which its times count, ns; NULL: not known, or not looked for",
        ),
        Column("clock_error", "REAL", "bound of the error of zero, s"),
        Column(
            "clock_origin", "TEXT", "where zero comes from: unix, boot, by comparison or unknown; NULL: not looked for"
        ),
        Column("gpus", "TEXT", "its GPUs by UUID, or by their numbers in their process: a JSON array"),
        Column(
            "digest", "TEXT", "what it says of the run, to be read in its place: a JSON object; NULL: not asked for"
        ),
    ),
}

_CONSTRAINTS = {
    "processes": "PRIMARY KEY (run_id, rank)",
    "process_gpus": "PRIMARY KEY (run_id, rank, gpu)",
    "thinned": "PRIMARY KEY (run_id, rank)",
}

INDEXES = (
    "CREATE UNIQUE INDEX IF NOT EXISTS rollup_level_bucket_gpu ON rollup (level, bucket, gpu)",
    "CREATE UNIQUE INDEX IF NOT EXISTS sketch_bucket_gpu ON sketch (bucket, gpu)",
    "CREATE UNIQUE INDEX IF NOT EXISTS sketch_minute_bucket_gpu ON sketch_minute (bucket, gpu)",
    "CREATE INDEX IF NOT EXISTS host_rollup_level ON host_rollup (level, node, bucket, n_rows)",
    "CREATE INDEX IF NOT EXISTS workload_rollup_level ON workload_rollup (level, rank, bucket, n_rows)",
)


def _create_table(table: str) -> str:
    """Return the SQL statement that makes a table unless it exists."""
    parts = [f"{column.name} {column.type}" for column in TABLES[table]]
    if table in _CONSTRAINTS:
        parts.append(_CONSTRAINTS[table])
    return f"CREATE TABLE IF NOT EXISTS {table} (" + ", ".join(parts) + ")"


def create_view(kind: str = "VIEW") -> str:
    """Return the statement that makes the view ``gpu_samples``. ``kind``: VIEW, or TEMP VIEW for one of the connection
    alone."""
    flop = " + ".join(f"s.{part}" for part in FLOP_ACTIVE.parts)
    metrics = ", ".join(f"s.{metric.name}" for metric in METRICS)
    return (
        f"CREATE {kind} IF NOT EXISTS gpu_samples AS SELECT g.run_id, g.node, g.rank, g.device_index, g.uuid, s.gpu, "
        f"s.time, {metrics}, {flop} AS {FLOP_ACTIVE.name} FROM samples s JOIN gpus g USING (gpu)"
    )


def create_statements() -> list[str]:
    """Return the statements that make an empty recording of this schema. Each may be run again on one that exists."""
    return [*(_create_table(table) for table in TABLES), *INDEXES, create_view()]
