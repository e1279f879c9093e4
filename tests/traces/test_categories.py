"""What an interval is for: names as torch, nsys, JAX and ROCm write them."""

import pytest

from gssr.traces.categories import category_as_hta, category_of, operation_of
from gssr.traces.timeline import OPERATIONS, Category, Kind

COMMUNICATION = (
    "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*, unsigned long, ncclWork*)",
    "ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)",
    "void ncclKernel_Generic<1>(x)",
    "rcclGenericKernel",
    "hcclAllReduce",
    "mscclKernel_Sum_half_Simple(int)",
    "void deep_ep::internode::dispatch<true, 8>(int)",
    "void dpsk::ep::intranode::combine<__nv_bfloat16>(int)",
    "void vllm::cross_device_reduce_1stage<__half, 4>(vllm::RankData*)",
    "void sglang::cross_device_reduce_2stage<float, 2>()",
    "void (anonymous namespace)::two_shot_all_reduce_kernel_inplace<4, 8>()",
    "void c10d::multimem_all_reduce_kernel<float>()",
    "tensorrt_llm::kernels::twoShotAllReduceKernel<half>",
    "nvshmemi_transfer_put",
    "userbuffers_fp16_sum_inplace_gpu_rw_ag<8>",
    "all-reduce.17",
)
COMPUTE = (
    "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float>>()",
    "ampere_sgemm_128x64_tn",
    "void phi::funcs::softmax<float, WarpAllReduce<float>>()",
    "triton_red_fused_add_mul_0",
    "reduce-window.3",
    "sendfield",
    "Marker",
)


def test_kernels_that_communicate_are_known_by_name() -> None:
    assert [name for name in COMMUNICATION if category_of(Kind.KERNEL, name) != Category.COMMUNICATION] == []
    assert [name for name in COMPUTE if category_of(Kind.KERNEL, name) != Category.COMPUTE] == []


@pytest.mark.parametrize(
    ("kind", "name", "category"),
    [
        (Kind.MEMCPY, "Memcpy HtoD (Pageable -> Device)", Category.COPY),
        (Kind.KERNEL, "MemcpyD2D", Category.COPY),
        (Kind.KERNEL, "__amd_rocclr_copyBuffer.kd", Category.COPY),
        (Kind.KERNEL, "__amd_rocclr_fillBufferAligned", Category.COPY),
        (Kind.KERNEL, "__amd_rocclr_initHeap", Category.COMPUTE),
        (Kind.GPU_SYNC, "Stream Sync", Category.SYNC),
        (Kind.RUNTIME, "cudaLaunchKernel", Category.LAUNCH),
        (Kind.RUNTIME, "hipStreamSynchronize", Category.SYNC),
        (Kind.DRIVER, "cuCtxSynchronize", Category.SYNC),
        (Kind.CPU_OP, "aten::add", Category.OTHER),
        (Kind.CPU_OP, "c10d::allreduce_", Category.COMMUNICATION),
        (Kind.CPU_OP, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", Category.IO),
        (Kind.RANGE, "ProfilerStep#3", Category.RANGE),
        (Kind.OS, "pthread_cond_timedwait", Category.SYNC),
        (Kind.OS, "poll", Category.SYNC),
        (Kind.OS, "fread", Category.IO),
        (Kind.OS, "pwrite64", Category.IO),
        (Kind.OS, "fork", Category.OTHER),
        (Kind.PYTHON, "train.py(3): main", Category.OTHER),
    ],
)
def test_a_kind_and_a_name_have_one_category(kind: Kind, name: str, category: Category) -> None:
    assert category_of(kind, name) == category


def test_hta_knows_fewer() -> None:
    assert category_as_hta("void dpsk::ep::intranode::combine<float>()") == Category.COMPUTE
    assert category_as_hta("ncclDevKernel_AllGather_RING_LL(x)") == Category.COMMUNICATION
    assert category_as_hta("Memset (Device)") == Category.COPY
    assert category_as_hta("Stream Wait Event") == Category.COMPUTE
    assert category_as_hta("Context Sync") == Category.SYNC


@pytest.mark.parametrize(
    ("name", "operation"),
    [
        ("Memcpy HtoD (Pageable -> Device)", "HtoD"),
        ("Memcpy DtoH (Device -> Pinned)", "DtoH"),
        ("Memcpy DtoD (Device -> Device)", "DtoD"),
        ("Memcpy PtoP (Device -> Device)", "PtoP"),
        ("MemcpyH2D", "HtoD"),
        ("CopyDeviceToHost", "DtoH"),
        ("CopyHostToDevice", "HtoD"),
        ("Memset (Device)", "memset"),
        ("Memcpy Unknown (Unknown -> Unknown)", "other"),
        ("CopyDeviceToPeer", "other"),
    ],
)
def test_what_a_copy_copies_is_in_its_name(name: str, operation: str) -> None:
    assert OPERATIONS[operation_of(name)] == operation


def test_what_torch_annotates_of_backends_on_the_host_is_communication() -> None:
    assert category_of(Kind.RANGE, "gloo:all_reduce") == Category.COMMUNICATION
    assert category_of(Kind.RANGE, "forward") == category_of(Kind.RANGE, "gloomy:") == Category.RANGE
