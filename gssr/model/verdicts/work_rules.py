"""The rules about the work itself: what limits it, and how much memory it takes (gssr.model.verdicts.rules)."""

from gssr.model.verdicts.table import CSCS, DCGM, JOBSTATS, KEMPNER, LEAD, OURS, TRACEML, Rule, Threshold

RULES: tuple[Rule, ...] = (
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
        (LEAD,),
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
