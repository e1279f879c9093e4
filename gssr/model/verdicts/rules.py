"""The rules: what each looks for, from which numbers on, what it says and what to do, and where its numbers come from.

The order matters: causes come before what they explain. The conditions are in the modules beside this one, under the same
codes. A site may change every number, severity and advice (gssr.model.verdicts.site).
"""

from gssr.model.verdicts.table import CSCS, DCGM, JOBSTATS, KEMPNER, NVML, OURS, TRACEML, Rule, Table, Threshold

_GB = 1e9
_LEAD = ("sm_active", "gr_engine_active", "gpu_utilization")
"""What tells work from waiting, best first."""
_PCIE_C2C = ("pcie_rx_bytes", "pcie_tx_bytes", "c2c_rx_bytes", "c2c_tx_bytes")
_HOST_IO = ("read_bytes", "write_bytes", "net_rx_bytes", "net_tx_bytes")

COMMON = Rule(
    "common", "info", "",
    (
        Threshold("idle", 0.02, "below it a GPU does nothing (SM active, or the nearest to it that was measured)"),
        Threshold("working", 0.5, "above this share of the working level a job works; below it, it waits"),
        Threshold("low", 0.3, "below this SM activity a job waits whatever its working level is", KEMPNER),
        Threshold("unused", 0.02, "a GPU that does something in less than this share of the time is unused", JOBSTATS),
        Threshold("paused", 0.25, "below this share of the working level a job pauses"),
        Threshold("explained", 0.8, "a symptom is explained by a cause that holds in this share of its time"),
    ),
    "", (),
)  # fmt: skip

RULES: tuple[Rule, ...] = (
    Rule(
        "gpus_unused", "critical", "{some} {were} {ever} used",
        (
            Threshold("seconds", 20.0, "a GPU is unused (as above) in a job of at least so many seconds"),
        ),
        "Ask for fewer GPUs, or let the program use all it gets: check the ranks per node, CUDA_VISIBLE_DEVICES and the "
        "launcher's GPU binding.",
        (_LEAD,),
        ("imbalance", "straggler", "rotating_stragglers", "memory_unused", "low_use", "tear_down", "start_up"),
    ),
    Rule(
        "hang", "critical", "Nothing has happened for the last {idle}: the job looks hung",
        (
            Threshold("seconds", 120.0, "all GPUs are idle at the end for at least so long, and the job has not completed"),
            Threshold("longest", 2.0, "that is so many times the longest pause before"),
            Threshold("still", 0.02, "where DRAM and the arithmetic pipes are less active than this the SMs only spin"),
        ),
        "Look at the last lines of its output and at one process of it (py-spy dump, gdb): a rank that died or a collective "
        "that not all ranks entered. Stop the job if it does not go on.",
        (_LEAD,),
        ("tear_down", "pauses", "slow_down", "low_use", "early_end"),
    ),
    Rule(
        "start_up", "info", "The first {idle} ({share} of the time) went by before the GPUs worked",
        (
            Threshold("share", 0.05, "at least this share of the time passes before the GPUs work"),
            Threshold("seconds", 5.0, "and at least so many seconds"),
            Threshold("warning", 0.2, "from this share on it is a warning"),
            Threshold("critical", 0.5, "from this share on it is critical", CSCS),
        ),
        "Stage data and environments to node-local storage, cache compiled kernels, and do preparation that needs no GPU in "
        "a job of its own.",
        (_LEAD,),
        ("low_use",),
    ),
    Rule(
        "tear_down", "info", "The GPUs did nothing in the last {idle} ({share} of the time)",
        (
            Threshold("share", 0.05, "the GPUs do nothing in at least this share of the time, at its end"),
            Threshold("seconds", 5.0, "and for at least so many seconds"),
            Threshold("warning", 0.2, "from this share on it is a warning"),
            Threshold("critical", 0.5, "from this share on it is critical"),
        ),
        "Let the job end when its work is done; move what needs no GPU (output, evaluation on the CPU) to a job of its own.",
        (_LEAD,),
        ("low_use",),
    ),
    Rule(
        "late_start", "warning", "{some} began to work {late} after the others",
        (
            Threshold("share", 0.05, "a GPU begins later than the first quarter of them by at least this share of the time"),
            Threshold("seconds", 5.0, "and by at least so many seconds"),
        ),
        "See what these nodes did meanwhile: a slow file system, an image being pulled, a rank waiting for its data.",
        (_LEAD,),
    ),
    Rule(
        "early_end", "warning", "{some} stopped working {early} before the others",
        (
            Threshold("share", 0.05, "a GPU stops earlier than the last quarter of them by at least this share of the time"),
            Threshold("seconds", 5.0, "and by at least so many seconds"),
        ),
        "Look for a rank that died, or share the work out in smaller pieces so that all end together.",
        (_LEAD,),
    ),
    Rule(
        "throttled_thermal", "warning", "{some} {were} slowed down by heat",
        (
            Threshold("share", 0.05, "heat lowers the clock (by hardware or driver) in at least this share of samples,"),
            Threshold("celsius", 95.0, "or the GPU is so hot in at least this share of the time,", KEMPNER),
            Threshold("celsius_a100", 93.0, "or, if it is an A100, so hot", KEMPNER),
            Threshold("critical", 0.5, "from this share on it is critical"),
        ),
        "Tell the operators which node it is (cooling, dust, a failed fan), and leave it out until then.",
        (("hw_thermal", "sw_thermal", "temperature"),),
        ("throttled_hardware", "slow_clock"),
    ),
    Rule(
        "throttled_power_brake", "critical", "{some} {were} slowed down by the power brake",
        (Threshold("share", 0.05, "the external power brake is on in at least this share of samples", NVML),),
        "Tell the operators: the node's power supply asks the GPUs to slow down.",
        (("power_brake",),),
        ("throttled_hardware", "slow_clock"),
    ),
    Rule(
        "throttled_hardware", "critical", "{some} {were} slowed down by their hardware",
        (Threshold("share", 0.05, "the hardware lowers the clock in at least this share of samples", NVML),),
        "Tell the operators: heat, the power brake or the power supply; nvidia-smi -q -d PERFORMANCE says which.",
        (("hw_slowdown",),),
        ("slow_clock",),
    ),
    Rule(
        "power_capped", "info", "{some} {were} held down by the power limit",
        (
            Threshold("share", 0.2, "the power limit holds the clock down in at least this share of samples"),
            Threshold("clock", 0.7, "it is a warning where the SM clock is below this share of the highest"),
        ),
        "A busy GPU at its limit is doing what it can. If the limit is lower than its model's, ask whether that is meant.",
        (("sw_power_cap",),),
        ("slow_clock",),
    ),
    Rule(
        "slow_node", "warning", "{node} is slower than the others: {why}",
        (
            Threshold("clock", 0.95, "the SM clock of a node, at work, is below this share of the median node's"),
            Threshold("hotter", 8.0, "it is the temperature where that is above the median node's by so many °C"),
            Threshold("flag", 0.05, "it is a clock event reason that is set so much more than on the others, in samples"),
            Threshold("critical", 0.2, "from this loss of clock on it is critical"),
        ),
        "Leave the node out (--exclude) and tell the operators: every other GPU of a synchronous job waits for it.",
        (("sm_clock",), _LEAD),
        ("straggler", "imbalance", "slow_clock", "rotating_stragglers"),
    ),
    Rule(
        "slow_clock", "warning", "{some} ran at a slower clock, and no reason recorded",
        (
            Threshold("clock", 0.9, "the SM clock, at work, is below this share of the median GPU's"),
        ),
        "Compare nvidia-smi -q -d CLOCK on this node with another: application clocks may have been left set.",
        (("sm_clock",), _LEAD),
        ("straggler", "imbalance"),
    ),
    Rule(
        "straggler", "warning", "{some} did {ratio} of what the others did{so}",
        (
            Threshold("ratio", 0.9, "an outlier that does less than this share of the median GPU, or that one of it"),
            Threshold("most", 0.25, "no more than this share of the GPUs is one"),
            Threshold("critical", 0.5, "from this loss against the median GPU on it is critical"),
        ),
        "See whether this rank has less work, a busy neighbour on its node or a bad link; run once without the node.",
        (_LEAD,),
        ("imbalance",),
    ),
    Rule(
        "imbalance", "warning", "The GPUs are not equally busy: {lost} of their time is lost to it",
        (
            Threshold("warning", 0.1, "1 - mean/max of the GPUs' time means is at least this", TRACEML),
            Threshold("critical", 0.2, "from this on it is critical", TRACEML),
        ),
        "Share the work out evenly (domain decomposition, batch sizes, sequence lengths); see which GPUs do most in "
        "gssr analyze -plb.",
        (_LEAD,),
    ),
    Rule(
        "rotating_stragglers", "warning", "At {any} of the time some GPU lags behind, each in its turn",
        (
            Threshold("seconds", 5.0, "looked at in columns of at least so many seconds"),
            Threshold("behind", 0.8, "a GPU is behind below this share of the median GPU"),
            Threshold("any", 0.3, "some GPU is behind in at least this share of the columns"),
            Threshold("same", 0.5, "the one that is behind most often has less than this share of these"),
            Threshold("at_once", 0.34, "no more than this share of the GPUs is behind at once"),
        ),
        "In a synchronous job all wait for the slowest at each step: look for uneven batches, data loading or a shared "
        "file system that hits one rank at a time.",
        (_LEAD,),
    ),
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
        (_LEAD, _HOST_IO),
        ("transfer_bound", "pauses", "gaps", "low_use"),
    ),
    Rule(
        "transfer_bound", "warning", "The GPUs wait {long} while {link} carries {rate}",
        (
            Threshold("rate", _GB, "a GPU moves at least so much over PCIe (on Grace: C2C) while the GPUs wait", KEMPNER),
            Threshold("copy", 0.4, "or so much of the time goes to memory copies (no C2C, no PCIe counters)", KEMPNER),
            Threshold("share", 0.02, "that is at least this share of the time"),
            Threshold("critical", 0.25, "from this share on it is critical"),
        ),
        "Copy less and earlier: pinned memory, asynchronous copies beside the computation, data that stays on the GPU.",
        (_LEAD, (*_PCIE_C2C, "memory_copy_utilization")),
        ("pauses", "gaps", "low_use"),
    ),
    Rule(
        "communication_bound", "warning", "The GPUs wait {long} while NVLink carries {rate} a GPU",
        (
            Threshold("load", 0.15, "NVLink carries at least this share of its bandwidth (that of one direction) ..."),
            Threshold("bandwidth", 300e9, "... which is taken to be this where it is unknown"),
            Threshold("more", 1.1, "and so many times what it carries while the GPUs work, or they never do"),
            Threshold("share", 0.05, "while the GPUs wait, for at least this share of the time"),
            Threshold("busy", 0.4, "or it carries this share of its bandwidth all the time ..."),
            Threshold("arithmetic", 0.25, "... while the arithmetic pipes' activities sum up to less than this"),
            Threshold("critical", 0.25, "from this share of the time on it is critical"),
        ),
        "Overlap communication with computation (bucketed gradients, streams), send less or less often (larger batches, "
        "gradient accumulation), keep heavy exchange within a node.",
        (_LEAD, ("nvlink_tx_bytes", "nvlink_rx_bytes")),
        ("cpu_starved", "pauses", "gaps", "little_arithmetic", "low_use"),
    ),
    Rule(
        "cpu_starved", "warning", "The GPUs wait {long} for the CPU: {what}",
        (
            Threshold("share", 0.1, "the GPUs wait for at least this share of the time"),
            Threshold("gaps", 0.6, "a working level of the engine below this counts as waiting, too"),
            Threshold("cores_low", 0.85, "meanwhile each rank keeps at least so many cores busy ..."),
            Threshold("cores_high", 1.2, "... and at most so many: one, or ..."),
            Threshold("node", 0.9, "... the node's cores are busy to this share"),
            Threshold("critical", 0.5, "from this share of the time on it is critical"),
        ),
        "Use more worker processes for loading and preparing data, or move it to the GPU; check that the job's CPU binding "
        "gives each rank more than one core.",
        (_LEAD, ("workload_cpu", "cpu_utilization")),
        ("gaps", "pauses", "low_use"),
    ),
    Rule(
        "recurring_dips", "info", "Every {period} the GPUs wait for {length}{what}",
        (
            Threshold("depth", 0.3, "activity falls by at least this share of the working level"),
            Threshold("correlation", 0.3, "and again after one period: the autocorrelation is at least this"),
            Threshold("periods", 3.0, "so many times at least"),
            Threshold("lost", 0.02, "and at least this share of the work is lost to it"),
            Threshold("warning", 0.08, "from this share on it is a warning"),
            Threshold("critical", 0.3, "from this share on it is critical"),
            Threshold("more", 1.5, "what a link or a disk carries then is told from so many times its usual rate on"),
        ),
        "See what the program does at this rhythm (checkpoint, validation, data loading): do it less often, or in the "
        "background beside the computation.",
        (_LEAD,),
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
        (_LEAD,),
        ("low_use",),
    ),
    Rule(
        "slow_down", "warning", "The job grows slower: {drop} less activity at its end than at its beginning",
        (
            Threshold("drop", 0.15, "the last quarter's median is lower than the first one's by at least this share"),
            Threshold("trend", 0.7, "and it falls steadily: Kendall's correlation with time is at least this, negative"),
            Threshold("parts", 12.0, "looked at in so many parts of the time"),
            Threshold("memory", 0.05, "memory in use that grows by this share of the whole is told"),
            Threshold("critical", 0.4, "from this drop on it is critical"),
        ),
        "Look for something that grows: a list of results, a fragmented heap, logs, files per folder; compare the time of "
        "a step at the beginning and the end.",
        (_LEAD,),
        ("low_use",),
    ),
    Rule(
        "small_kernels", "warning", "The GPUs are busy, but few of their SMs are: small kernels",
        (
            Threshold("gr_engine_active", 0.4, "the engine is active at least this share of the time", KEMPNER),
            Threshold("sm_active", 0.25, "and SM activity is below this", KEMPNER),
        ),
        "Give each kernel more to do: larger batches or blocks, fused kernels, CUDA graphs; or share the GPU (MPS).",
        (("gr_engine_active",), ("sm_active",)),
        ("gaps", "low_use"),
    ),
    Rule(
        "gaps", "warning", "The GPUs idle between kernels: {gap} of the time nothing runs",
        (
            Threshold("sm_active", 0.5, "SM activity is below this", DCGM),
            Threshold("gr_engine_active", 0.6, "and so is the engine's activity below this"),
            Threshold("idle", 0.05, "but above this", OURS),
            Threshold("ratio", 0.5, "SM activity is at least this share of the engine's: kernels that run fill the GPU"),
            Threshold("critical", 0.75, "from this share of time without a kernel on it is critical"),
        ),
        "Look for the host's part of a step (data loading, launches from Python, synchronisation, .item() and printing) in "
        "a trace: Nsight Systems or torch.profiler.",
        (("gr_engine_active",), ("sm_active",)),
        ("low_use",),
    ),
    Rule(
        "memory_peak", "info", "The device memory works at its practical peak ({dram})",
        (Threshold("dram_active", 0.7, "DRAM is active at least this much; the practical peak is about 0.8", DCGM),),
        "The GPU is saturated in bandwidth: only fewer bytes make it faster (fused kernels, lower precision, better reuse).",
        (("dram_active",),),
        ("memory_bound", "tensor_unused", "little_arithmetic", "low_use"),
    ),
    Rule(
        "memory_bound", "info", "Memory-bound: the device memory is busier ({dram}) than the SMs' pipes",
        (
            Threshold("dram_active", 0.5, "DRAM is active at least this share of the time", KEMPNER),
            Threshold("sm_active", 0.5, "while SM activity is below this, or ...", KEMPNER),
            Threshold("pipes", 0.1, "... while it is more active than the busiest arithmetic pipe by at least this"),
        ),
        "Move fewer bytes: fuse kernels, reuse what is in registers and shared memory, store in lower precision, check that "
        "access is coalesced.",
        (("dram_active",), ("sm_active",)),
        ("little_arithmetic", "low_use"),
    ),
    Rule(
        "compute_bound", "info", "Compute-bound: on the {pipe}, active {value} of the time",
        (
            Threshold("tensor_active", 0.5, "the tensor cores are active at least this share of the time", KEMPNER),
            Threshold("fp64_active", 0.5, "or the FP64 pipe is"),
            Threshold("fp32_active", 0.6, "or the FP32 pipe"),
            Threshold("fp16_active", 0.6, "or the FP16 pipe"),
            Threshold("sm_active", 0.6, "and SM activity is at least this", KEMPNER),
        ),
        "That is what the GPU is for: only less or cheaper arithmetic makes it faster.",
        (("sm_active",), ("tensor_active", "fp64_active", "fp32_active", "fp16_active")),
        ("low_use",),
    ),
    Rule(
        "fp64", "info", "FP64 arithmetic ({value}){what}",
        (
            Threshold("fp64_active", 0.2, "the FP64 pipe or the tensor cores' FP64 is active at least this much", KEMPNER),
            Threshold("sm_active", 0.5, "and SM activity is at least this", KEMPNER),
            Threshold("narrow", 0.1, "a warning on a GPU whose FP64 peak is below this share of its FP32 peak"),
        ),
        "See whether parts would do in FP32, or in matrix products that the FP64 tensor cores take.",
        (("fp64_active", "tensor_dfma_active"), ("sm_active",)),
        ("tensor_unused",),
    ),
    Rule(
        "tensor_unused", "warning", "The tensor cores are unused: FP32 and FP16 arithmetic does the work",
        (
            Threshold("sm_active", 0.5, "SM activity is at least this"),
            Threshold("tensor_active", 0.05, "the tensor cores are active less than this"),
            Threshold("fp32_active", 0.2, "and the FP32 and FP16 pipes together at least this much"),
        ),
        "If these are matrix products, use mixed precision (torch.autocast, TF32: torch.set_float32_matmul_precision) and "
        "sizes that are multiples of 8.",
        (("sm_active",), ("tensor_active",), ("fp32_active",)),
        ("little_arithmetic",),
    ),
    Rule(
        "little_arithmetic", "info", "The SMs are busy, but do little arithmetic ({value})",
        (
            Threshold("sm_active", 0.5, "SM activity is at least this"),
            Threshold("flop_active", 0.125, "and the arithmetic pipes' activities sum up to less than this", CSCS),
        ),
        "Profile one kernel (Nsight Compute): waits for memory or for other GPUs inside kernels, integer or index work, or "
        "occupancy too low to hide latency.",
        (("sm_active",), ("flop_active",)),
        ("low_use",),
    ),
    Rule(
        "low_use", "warning", "The GPUs are little used ({value} of {lead}), and no rule says why",
        (
            Threshold("sm_active", 0.5, "SM activity is below this, or, where that was not measured, ...", DCGM),
            Threshold("gpu_utilization", 0.5, "... GPU utilization (or the engine's activity) is below this", JOBSTATS),
            Threshold("critical", 0.85, "it is critical from this share of unused activity on", JOBSTATS),
        ),
        "Look at its course over time (gssr analyze -pts), then at one step in a trace (Nsight Systems).",
        (_LEAD,),
    ),
    Rule(
        "memory_full", "info", "{some} had {share} of the memory in use",
        (
            Threshold("share", 0.92, "at its peak a GPU's memory is used by at least this share", TRACEML),
            Threshold("warning", 0.97, "from this share on it is a warning", TRACEML),
        ),
        "The next larger batch may fail: watch for out-of-memory errors. Frameworks reserve memory ahead, so used need not "
        "be needed.",
        (("memory_used",),),
    ),
    Rule(
        "memory_unused", "info", "No more than {share} of the memory was ever in use",
        (Threshold("share", 0.5, "at its peak no GPU's memory is used by this share", TRACEML),),
        "There is room for a larger batch or problem; or a smaller GPU, or a share of one (MIG), would do.",
        (("memory_used",),),
    ),
)  # fmt: skip

TABLE = Table(COMMON, RULES)
