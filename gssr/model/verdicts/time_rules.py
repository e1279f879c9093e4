"""The rules about the course of the work: what the GPUs wait for, dips, pauses (gssr.model.verdicts.rules)."""

from gssr.model.verdicts.table import DCGM, KEMPNER, LEAD, Rule, Threshold

_GB = 1e9
_PCIE_C2C = ("pcie_rx_bytes", "pcie_tx_bytes", "c2c_rx_bytes", "c2c_tx_bytes")
_HOST_IO = ("read_bytes", "write_bytes", "net_rx_bytes", "net_tx_bytes")

RULES: tuple[Rule, ...] = (
    Rule(
        "io_wait", "warning", "The GPUs wait {long} while the nodes {what}",
        (
            Threshold("rate", 100e6, "disk or network of a node moves at least so much while the GPUs wait"),
            Threshold("more", 1.5, "and so many times what they move while the GPUs work"),
            Threshold("share", 0.02, "that is at least this share of the time"),
            Threshold("critical", 0.25, "from this share on it is critical"),
        ),
        "Read ahead in more workers, keep data in larger files or on node-local storage, and write checkpoints in the "
        "background.",
        (LEAD, _HOST_IO),
        ("transfer_bound", "cpu_starved", "pauses", "gaps", "low_use"),
    ),
    Rule(
        "transfer_bound", "warning", "The GPUs wait {long} while {link} carries {rate}",
        (
            Threshold("rate", _GB, "a GPU moves at least so much over PCIe (on Grace: C2C) while the GPUs wait", KEMPNER),
            Threshold("load", 0.05, "and this share of the link's bandwidth, where that is known: less holds nothing up"),
            Threshold("copy", 0.4, "or so much of the time goes to memory copies (no C2C, no PCIe counters)", KEMPNER),
            Threshold("share", 0.02, "that is at least this share of the time"),
            Threshold("critical", 0.25, "from this share on it is critical"),
        ),
        "Copy less and earlier: pinned memory, asynchronous copies beside the computation, data that stays on the GPU.",
        (LEAD, (*_PCIE_C2C, "memory_copy_utilization")),
        ("pauses", "gaps", "low_use"),
    ),
    Rule(
        "communication_bound", "warning", "The GPUs wait {long} while NVLink carries {rate} a GPU",
        (
            Threshold("load", 0.15, "NVLink carries at least this share of its bandwidth (that of one direction) ..."),
            Threshold("bandwidth", 300e9, "... which is taken to be this where it is unknown", least=1.0),
            Threshold("more", 1.1, "and so many times what it carries while the GPUs work, or they never do"),
            Threshold("share", 0.05, "while the GPUs wait, for at least this share of the time"),
            Threshold("busy", 0.4, "or it carries this share of its bandwidth all the time ..."),
            Threshold("arithmetic", 0.25, "... while the arithmetic pipes' activities sum up to less than this"),
            Threshold("sm_active", 0.5, "or the first share all the time while SM activity is below this ...", DCGM),
            Threshold("gr_engine_active", 0.8, "... and the engine is active at least this much: in kernels that move data"),
            Threshold("critical", 0.25, "from this share of the time on it is critical"),
        ),
        "Overlap communication with computation (bucketed gradients, streams), send less or less often (larger batches, "
        "gradient accumulation), keep heavy exchange within a node.",
        (LEAD, ("nvlink_tx_bytes", "nvlink_rx_bytes")),
        ("cpu_starved", "pauses", "gaps", "little_arithmetic", "low_use"),
    ),
    Rule(
        "cpu_starved", "warning", "The GPUs wait {long} for the CPU: {what}",
        (
            Threshold("share", 0.1, "the GPUs wait for at least this share of the time"),
            Threshold("cores_low", 0.85, "meanwhile each rank keeps at least so many cores busy ..."),
            Threshold("cores_high", 1.2, "... and at most so many: one, or ..."),
            Threshold("node", 0.9, "... the node's cores are busy to this share"),
            Threshold("critical", 0.5, "from this share of the time on it is critical"),
        ),
        "Use more worker processes for loading and preparing data, or move it to the GPU; check that the job's CPU binding "
        "gives each rank more than one core.",
        (LEAD, ("workload_cpu", "cpu_utilization")),
        ("gaps", "pauses", "low_use"),
    ),
    Rule(
        "recurring_dips", "info", "Every {period} the GPUs wait for {length}{what}",
        (
            Threshold("depth", 0.3, "activity falls by at least this share of the working level"),
            Threshold("correlation", 0.3, "and again after one period: the autocorrelation is at least this"),
            Threshold("pairs", 3.0, "and more than so many pairs of dips that are as far apart by chance would make it"),
            Threshold("periods", 4.0, "so many times at least: of fewer the distances may be alike by chance", least=2.0),
            Threshold("filled", 0.67, "and fill at least this share of the time from the first to the last"),
            Threshold("samples", 8.0, "a period is at least so many samples long: a shorter one may be a beat with steps"),
            Threshold("lost", 0.02, "and at least this share of the work is lost to it"),
            Threshold("warning", 0.08, "from this share on it is a warning"),
            Threshold("critical", 0.3, "from this share on it is critical"),
            Threshold("more", 1.5, "what a link or a disk carries then is told from so many times its usual rate on"),
        ),
        "See what the program does at this rhythm (checkpoint, validation, data loading): do it less often, or in the "
        "background beside the computation.",
        (LEAD,),
        ("pauses", "low_use"),
    ),
    Rule(
        "pauses", "info", "All GPUs paused {times}, {longest} at most: {share} of the time",
        (
            Threshold("more", 1.5, "what a link or a disk carries then is told from so many times its usual rate on"),
            Threshold("share", 0.02, "all GPUs together pause (as above) for at least this share of the time"),
            Threshold("warning", 0.05, "from this share on it is a warning"),
            Threshold("critical", 0.25, "from this share on it is critical"),
        ),
        "See in the program's log what it did then: output, evaluation, a new compilation, a wait for the file system.",
        (LEAD,),
        ("low_use",),
    ),
    Rule(
        "slow_down", "warning", "The job grows slower: {drop} less activity at its end than at its beginning",
        (
            Threshold("drop", 0.15, "the last quarter's median is lower than the first one's by at least this share"),
            Threshold("trend", 0.7, "and it falls steadily: Kendall's correlation with time is at least this, negative"),
            Threshold("parts", 12.0, "looked at in so many parts of the time", least=2.0),
            Threshold("memory", 0.05, "memory in use that grows by this share of the whole is told"),
            Threshold("critical", 0.4, "from this drop on it is critical"),
        ),
        "Look for something that grows: a list of results, a fragmented heap, logs, files per folder; compare the time of "
        "a step at the beginning and the end.",
        (LEAD,),
        ("low_use",),
    ),
)  # fmt: skip
