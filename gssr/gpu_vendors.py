"""Whose GPUs a recording is of, and what their maker calls things.

Texts are written in NVIDIA's words. Of AMD's GPUs they are said in AMD's: whoever makes a page, a screen or a verdict says
once whose GPUs it is about (``speaking_of``, ``words_of``), and no text need be written twice. Names of metrics in files
and options are the same for all.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache, partial, wraps
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from typing import Concatenate, ParamSpec  # which Python 3.9 does not have

    _Rest = ParamSpec("_Rest")

NVIDIA, AMD, BOTH = range(3)
"""Whose GPUs they are; those whose maker is unknown count as NVIDIA's."""

WORDS: tuple[tuple[str, str] | tuple[str, str, str], ...] = (
    ("nvidia-smi -q -d PERFORMANCE,CLOCK", "amd-smi metric"),
    ("nvidia-smi -q -d PERFORMANCE", "amd-smi metric"),
    ("nvidia-smi -q -d CLOCK", "amd-smi metric --clock"),
    ("nvidia-smi -q -d POWER", "amd-smi static --limit"),
    ("nvidia-smi -q", "amd-smi metric"),
    ("nvidia-smi topo -m", "amd-smi topology"),
    ("nvidia-smi -L", "rocminfo"),
    ("nvidia-smi", "rocminfo"),
    ("dcgmi diag -r 3: memory, PCIe, row remaps", "the ROCm Validation Suite, rvs"),
    ("nsys profile --trace=cuda,nvtx,osrt --export=sqlite -o step PROGRAM", "rocprofv3 --sys-trace -d step -- PROGRAM"),
    ("nsys profile --trace=cuda,nvtx", "rocprofv3 --runtime-trace"),
    ("SM activity tells which. Record it with DCGM (dcgm-exporter: add DCGM_FI_PROF_SM_ACTIVE), or on Hopper and newer "
     "with GPM (gssr doctor says what is there).",
     "A trace of one rank tells which (rocprofv3 --runtime-trace, then gssr analyze it).",
     "SM activity (DCGM, or GPM on Hopper and newer) or a trace (rocprofv3 --runtime-trace) tells which."),
    ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES, HIP_VISIBLE_DEVICES"),
    ("cudaMallocHost, cudaHostRegister", "hipHostMalloc, hipHostRegister"),
    ("cudaMemcpyAsync", "hipMemcpyAsync"),
    ("cudaMemset", "hipMemset"),
    ("cudaMemsetAsync", "hipMemsetAsync"),
    ("CUDA or HIP", "HIP", "CUDA or HIP"),
    ("CUDA", "HIP"),
    ("NCCL", "RCCL"),
    ("a share of one (MIG)", "a partition of one", "a part of one (MIG, a partition)"),
    ("NVLinks", "xGMI links"),
    ("NVLink", "xGMI", "NVLink/xGMI"),
    ("nvl tx", "xgmi tx", "link tx"),
    ("nvl rx", "xgmi rx", "link rx"),
    ("SM clock", "GFX clock", "SM or GFX clock"),
    ("SM active below 2 %", "GPU utilization below 2 %", "activity below 2 %"),
    ("SM active", "CU active", "SM active"),
    ("SM occupancy", "CU occupancy", "SM occupancy"),
    ("SMs", "CUs"),
    ("SM", "CU"),
)  # fmt: skip
"""(NVIDIA's, AMD's, and what is said of both in one text: by default one "or" the other); the longest that fits is taken.
Sources: AMD's documentation of amd-smi, rocminfo and rocprofv3, and of ROCm for who comes from CUDA."""

_SAID = {each[0]: (each[0], each[1], each[2] if len(each) == 3 else f"{each[0]} or {each[1]}") for each in WORDS}
_PATTERN = re.compile(
    r"(?<![\w./:-])(?:" + "|".join(map(re.escape, sorted(_SAID, key=len, reverse=True))) + r")(?![\w:/-]|\.\w)"
)
"""Words, and no part of a host's name or an address."""


class Made(Protocol):
    """What tells whose a GPU is: its product name, and its ``backend`` where that is known."""

    @property
    def name(self) -> str | None: ...


class HasGpus(Protocol):
    """What has GPUs."""

    @property
    def gpus(self) -> Sequence[Made]: ...


_About = TypeVar("_About", bound=HasGpus)
_Page = TypeVar("_Page")


def maker_of(gpus: Iterable[Made]) -> int:
    """Return whose GPUs these are: NVIDIA, AMD or BOTH; NVIDIA if there are none or the maker is unknown."""
    kinds = {(getattr(gpu, "backend", None), gpu.name) for gpu in gpus}
    amds = {backend == "amd" or (name or "").startswith("AMD ") for backend, name in kinds}
    return BOTH if len(amds) == 2 else AMD if True in amds else NVIDIA


def words_of(gpus: Iterable[Made]) -> Callable[[str], str]:
    """Return a function that says a text in the words of these GPUs' makers."""
    return partial(say, maker_of(gpus))


_spoken: ContextVar[int | None] = ContextVar("spoken", default=None)
_usual = NVIDIA


@contextmanager
def speaking_of(maker: int) -> Generator[None]:
    """Make all labels within the block be in this maker's words."""
    before = _spoken.set(maker)
    try:
        yield
    finally:
        _spoken.reset(before)


def spoken() -> int:
    """Return whose words are used now: NVIDIA, AMD or BOTH."""
    own = _spoken.get()
    return _usual if own is None else own


def speak_of(maker: int) -> None:
    """Use this maker's words from now on wherever no ``speaking_of`` says otherwise, in all threads."""
    global _usual
    _usual = maker


def in_its_words(page: Callable[Concatenate[_About, _Rest], _Page]) -> Callable[Concatenate[_About, _Rest], _Page]:
    """Decorate a function whose first argument has ``gpus``: it runs with the words of these GPUs' makers."""

    @wraps(page)
    def speaking(about: _About, /, *args: _Rest.args, **kwargs: _Rest.kwargs) -> _Page:
        with speaking_of(maker_of(about.gpus)):
            return page(about, *args, **kwargs)

    return speaking


@lru_cache(1024)
def say(maker: int, text: str) -> str:
    """Return a text, written in NVIDIA's words, in the words of a maker (NVIDIA, AMD or BOTH)."""
    return text if maker == NVIDIA else _PATTERN.sub(lambda found: _SAID[found[0]][maker], text)
