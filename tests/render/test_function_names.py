"""Names of functions in few cells are still told apart."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gssr.render.cells import cell_width
from gssr.render.function_names import distinct_names, readable_name, short_name

ELEMENTWISE = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::{}<float>, std::array<char*, 3ul> >(int, "
    "at::native::{}<float>, std::array<char*, 3ul>)"
)


@pytest.mark.parametrize(("name", "short"), [
    ("void flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 4, false>, true>(flash::Params)", "flash_fwd_kernel"),
    (ELEMENTWISE.format("AddFunctor", "AddFunctor"), "vectorized_elementwise_kernel"),
    ("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "ncclDevKernel_AllReduce_Sum_f32_RING_LL"),
    ("std::enable_if<!T1::value, void>::type internal::gemvx::kernel<int, int, float>(Params)", "kernel"),
    ("void (anonymous namespace)::elementwise<(int)4>(int) [clone .kd]", "elementwise"),
    ("void at::native::cut_off_by_the_tool<std::array<char", "cut_off_by_the_tool"),
    ("sm80_xmma_gemm_f32f32_tn_n_tilesize64x256x8", "sm80_xmma_gemm_f32f32_tn_n_tilesize64x256x8"),
    ("Memcpy HtoD (Pageable -> Device)", "Memcpy HtoD (Pageable -> Device)"),
    ("aten::mm", "aten::mm"),
    ("enumerate(DataLoader)#_Iter.__next__", "enumerate(DataLoader)#_Iter.__next__"),
    ("/opt/venv/lib/python3.12/site-packages/torch/nn/modules/module.py(1739): _call_impl", "module.py(1739): _call_impl"),
    ("train.py(12): forward", "train.py(12): forward"),
    ("<built-in method item of Tensor object at 0x7f00>", "<built-in method item of Tensor object at 0x7f00>"),
    ("", ""), ("<(", "<("), ("a<b", "a"),
])  # fmt: skip
def test_templates_namespaces_and_folders_are_stripped(name: str, short: str) -> None:
    assert short_name(name) == short


def test_names_are_short_only_where_there_is_no_room_and_keep_what_differs() -> None:
    names = [ELEMENTWISE.format(one, one) for one in ("AddFunctor", "FillFunctor")] + ["gemm"]
    assert distinct_names(names, 400, "…") == names
    assert distinct_names(names, 48, "…") == [
        "vectorized_elementwise_kernel<AddFunctor>", "vectorized_elementwise_kernel<FillFunctor>", "gemm",
    ]  # fmt: skip
    order = [f"void a::copy<(int){n}, (int)128, (int)1, (int)2>(char *, a::Tensors<{'x' * 40}>)" for n in (1, 2)]
    assert distinct_names(order, 30, "…") == ["copy<1>", "copy<2>"]
    tail = [f"sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize{size}x8_stage3" for size in ("64x256", "128x128")]
    cut = distinct_names([*tail, tail[0] + "_split_k"], 30, "…")
    assert len(set(cut)) == 3 and all(cell_width(each) <= 30 and each.startswith("sm80_xmma") for each in cut)


@given(st.lists(st.text("ab<>(),: _1", max_size=30), max_size=6, unique=True), st.integers(1, 40))
def test_whatever_the_names_none_is_too_long_and_those_that_fit_stay(names: list[str], width: int) -> None:
    found = distinct_names(names, width, "…")
    assert len(found) == len(names)
    for name, own in zip(names, found, strict=True):
        assert cell_width(own) <= width
        assert own == name or cell_width(name) > width


@pytest.mark.parametrize(
    ("mangled", "readable", "short"),
    [
        (
            "_ZN2at6native18elementwise_kernelILi128ELi2EZNS0_22gpu_kernel_impl_nocastINS0_13BinaryFunctorIfffNS0_15binary_"
            "internal10DivFunctorIfEEEEEEvRNS_18TensorIteratorBaseERKT_EUliE_EEviT1_",
            "at::native::elementwise_kernel<128, 2, gpu_kernel_impl_nocast, BinaryFunctor, DivFunctor, TensorIteratorBase>",
            "elementwise_kernel",
        ),
        ("_ZN5aiter24add_rmsnorm_quant_kernelIDF16bDF16bLi256ELb0EEvPT_", "aiter::add_rmsnorm_quant_kernel<256, 0>",
         "add_rmsnorm_quant_kernel"),
        ("_ZN12_GLOBAL__N_13fooIiEEvT_", "foo", "foo"),
        ("_Z6kernelPfS_i", "kernel", "kernel"),
        ("_Z1fILin5EEvv", "f<-5>", "f"),
        ("_ZN2at18elementwise_ker", "_ZN2at18elementwise_ker", "_ZN2at18elementwise_ker"),
        ("_Z", "_Z", "_Z"), ("_Z99x", "_Z99x", "_Z99x"), ("_Zebra_kernel", "_Zebra_kernel", "_Zebra_kernel"),
    ],
)  # fmt: skip
def test_mangled_names_are_written_as_in_source_code(mangled: str, readable: str, short: str) -> None:
    assert readable_name(mangled) == readable
    assert short_name(mangled) == short


def test_mangled_names_are_told_apart_by_their_words() -> None:
    names = [f"_ZN2at6native13reduce_kernelILi512ENS0_8ReduceOpIf{word}EEEvT_" for word in ("NS0_6MaxOpsIfEE", "3Sum")]
    assert distinct_names(names, 30, "…") == ["reduce_kernel<MaxOps>", "reduce_kernel<Sum>"]
