"""Profiles as Triton's Proton writes them: the layout is that of the examples in its tests."""

from typing import Any


def node(name: str, *children: dict[str, Any], **metrics: Any) -> dict[str, Any]:
    """A call path; ``ns``: the time of a kernel on GPU ``gpu``."""
    told = dict(metrics)
    if "ns" in told:
        told |= {"time (ns)": told.pop("ns"), "device_id": str(told.pop("gpu", 0)), "device_type": "CUDA"}
    return {"children": list(children), "frame": {"name": name, "type": "function"}, "metrics": told}


def profile() -> list[dict[str, Any]]:
    """A loop with a scope for attention on two GPUs and a matrix multiplication on one, which tells its flops."""
    attention = node(
        "attention", node("softmax", ns=3_000, count=10), node("softmax", ns=5_000, count=10, gpu=1),
        node("launch", node("scan", ns=2_000, count=4)),
    )  # fmt: skip
    root = node(
        "ROOT",
        attention,
        node("matmul [M=64]", node("gemm", ns=40_000, count=8), flops=1e12),
        count=0,
        **{"time (ns)": 0},
    )
    return [root, {"CUDA": {"0": {"arch": "90", "num_sms": 132}, "1": {"arch": "90", "num_sms": 132}}}]
