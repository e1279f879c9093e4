"""What an interval is for, by its kind and name: one table for every format."""

import re

from gssr.traces.timeline import OPERATIONS, Category, Kind

_COMMUNICATION = re.compile(
    r"""
      (?:^|[\s:*&])(?: nccl | rccl | hccl | cncl | xccl | oneccl | msccl )    # libraries, at the start of a function's name
    | ncclDevKernel | ncclKernel
    | (?:^|[\s:*&]) nvshmem | (?:^|[\s:*&]) roc_?shmem | (?:^|[\s:*&]) userbuffers_
    | \b(?: dpsk::ep | deep_ep | mscclpp | pplx )::                          # namespaces
    | \bcross_device_reduce
    | \b(?: multimem | (?: one | two )_?shot )_(?:\w*_)?(?: all_reduce | all_gather | reduce_scatter )
    | (?: one | two )shotallreduce | \ballreduce_fusion_kernel | \b(?:quick|custom)_?all_?reduce
    """,
    re.VERBOSE | re.IGNORECASE,
)
"""Kernels that move data between GPUs: of libraries, of DeepEP, of vLLM, TensorRT-LLM, Transformer Engine and torch's
symmetric memory."""
_WORTH_A_LOOK = ("ccl", "shmem", "userbuffers", "dpsk::ep", "deep_ep", "pplx", "reduce", "all_gather", "scatter")
"""One of these is in whatever that pattern finds: telling so takes a tenth of the time."""
_XLA_COMMUNICATION = re.compile(
    r"^(?:all-reduce|all-gather|(?:ragged-)?all-to-all|reduce-scatter|collective-(?:permute|broadcast)|send|recv)(?:[-.\d]|$)"
)
_COMMUNICATION_CALL = re.compile(
    r"^(?:c10d|nccl|gloo|mpi|ucc|hccl|xccl|_c10d_functional)::?|^(?:MPI|nccl|ncclGroup)_?[A-Z]"
)
_HOST_COMMUNICATION = re.compile(r"^(?:gloo|mpi|ucc):")
"""What torch's backends that communicate on the host annotate: the work itself, not the call that starts it."""
_COPY = re.compile(r"^(?:hip|mtia)?_?(?:memcpy|memset)|^dma|^copy(?:Host|Device|Buffer)", re.IGNORECASE)
_BLIT = re.compile(r"^__amd_rocclr_(?:copy|fill)")
"""Kernels by which AMD's runtime copies and sets where it does not leave that to a copy engine. They run on compute units,
and their names do not tell the direction."""
_WAIT = re.compile(r"Synchronize|StreamWaitEvent|EventQuery|StreamQuery|StreamWaitValue|signal_wait", re.IGNORECASE)
_OS_WAIT = re.compile(r"wait|^p?poll|^p?select|lock|futex|sleep|join|^accept|^connect|^sched_yield")
_OS_IO = re.compile(
    r"^f?(?:open|close|read|write|sync|put|get)|^p(?:read|write)|^(?:mmap|munmap|msync|ioctl|sendfile|stat|lseek)"
)
_LOADER = re.compile(r"^enumerate\(DataLoader\)|DataLoader(?:Iter)?\.__next__")
_OF_HTA = re.compile(r"^nccl|ncclKernel|^hccl")
_BY_KIND = {
    Kind.KERNEL: Category.COMPUTE,
    Kind.GRAPH: Category.COMPUTE,
    Kind.MEMCPY: Category.COPY,
    Kind.MEMSET: Category.COPY,
    Kind.GPU_SYNC: Category.SYNC,
    Kind.GPU_RANGE: Category.RANGE,
    Kind.RUNTIME: Category.LAUNCH,
    Kind.DRIVER: Category.LAUNCH,
    Kind.RANGE: Category.RANGE,
    Kind.MARK: Category.RANGE,
}
_BY_NAME = {
    Kind.KERNEL: (
        (_COMMUNICATION, Category.COMMUNICATION),
        (_XLA_COMMUNICATION, Category.COMMUNICATION),
        (_COPY, Category.COPY),
        (_BLIT, Category.COPY),
    ),
    Kind.RUNTIME: ((_WAIT, Category.SYNC),),
    Kind.DRIVER: ((_WAIT, Category.SYNC),),
    Kind.CPU_OP: ((_COMMUNICATION_CALL, Category.COMMUNICATION), (_LOADER, Category.IO)),
    Kind.RANGE: ((_HOST_COMMUNICATION, Category.COMMUNICATION),),
    Kind.OS: ((_OS_WAIT, Category.SYNC), (_OS_IO, Category.IO)),
}
"""The first pattern that is found counts."""
_COPIED = re.compile(
    r"(?:^|cpy|[^a-z])(h|d|p)(?:to|2)(h|d|p)|(host|device|peer)\s*To\s*(host|device|peer)", re.IGNORECASE
)


COUNTED_RANGE = "cuda_profiler_range"
"""What torch.profiler calls a kernel, or more, of which it tells what CUPTI counted, but not when it ran."""
ON_GPU = {
    "kernel": Kind.KERNEL,
    "Kernel": Kind.KERNEL,
    "gpu_memcpy": Kind.MEMCPY,
    "Memcpy": Kind.MEMCPY,
    "gpu_memset": Kind.MEMSET,
    "Memset": Kind.MEMSET,
    "cuda_sync": Kind.GPU_SYNC,
    "gpu_user_annotation": Kind.GPU_RANGE,
    COUNTED_RANGE: Kind.GPU_RANGE,
    "mtia_ccp_events": Kind.KERNEL,
}
"""What torch.profiler calls what runs on a GPU, and"""
CALLS = {
    "cuda_runtime": Kind.RUNTIME,
    "Runtime": Kind.RUNTIME,
    "mtia_runtime": Kind.RUNTIME,
    "xpu_runtime": Kind.RUNTIME,
    "privateuse1_runtime": Kind.RUNTIME,
    "cuda_driver": Kind.DRIVER,
    "privateuse1_driver": Kind.DRIVER,
}
"""the calls that start it, and"""
KINDS = {
    **ON_GPU,
    **CALLS,
    "cpu_op": Kind.CPU_OP,
    "Operator": Kind.CPU_OP,
    "python_function": Kind.PYTHON,
    "user_annotation": Kind.RANGE,
    "overhead": Kind.OVERHEAD,
}
"""everything it sorts its events into."""


def category_of(kind: Kind, name: str) -> Category:
    """Return the category of an interval by its kind and name; OTHER if neither says anything."""
    lower = name.lower()
    for pattern, category in _BY_NAME.get(kind, ()):
        if pattern is _COMMUNICATION and not any(part in lower for part in _WORTH_A_LOOK):
            continue
        if pattern.search(name):
            return category
    return _BY_KIND.get(kind, Category.OTHER)


def work_named(name: str) -> Kind:
    """Return the kind of a GPU's work of which a file tells the name alone: a copy, a memset, or a kernel."""
    if not _COPY.search(name):
        return Kind.KERNEL
    return Kind.MEMSET if "memset" in name.lower() else Kind.MEMCPY


def category_as_hta(name: str) -> Category:
    """Return the category of an interval on a GPU as HolisticTraceAnalysis 0.5 does, by its name alone, so that a
    "Stream Wait Event" is computation and a "Stream Sync" is not. For comparisons with it only."""
    if _OF_HTA.search(name):
        return Category.COMMUNICATION
    if re.search("^(?:hip)?Mem(?:cpy|set)|^dma", name):
        return Category.COPY
    return Category.SYNC if "Sync" in name else Category.COMPUTE


def operation_of(name: str) -> int:
    """Return the index in OPERATIONS of a copy or memset by its name, such as "Memcpy HtoD (Pageable -> Device)" or
    "CopyHostToDevice"; the index of "other" if the name does not say the direction."""
    if "memset" in name.lower():
        return OPERATIONS.index("memset")
    found = _COPIED.search(name)
    if found:
        source, into = (part[0].upper() for part in found.groups() if part)
        if f"{source}to{into}" in OPERATIONS:
            return OPERATIONS.index(f"{source}to{into}")
    return OPERATIONS.index("other")
