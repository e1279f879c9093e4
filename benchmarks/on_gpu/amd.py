"""What is not known of AMD's GPUs, asked of some: a table to send in (docs/amd.md). The first half needs Python alone,
the second PyTorch for ROCm."""

import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from gssr.backends.amd import cards
from gssr.backends.amd.amd_backend import JOULE
from gssr.backends.amd.cards import Card
from gssr.backends.amd.gpu_metrics import MOST_BYTES, MetricsReading, revision_of, table_of
from gssr.backends.base import BackendError
from gssr.launch import RUNTIMES

TABLE = "amd.md"
READS = 200
LOAD_SECONDS = 10.0
_TOOLS = (("amd-smi", "metric"), ("rocm-smi", "-a"))
_VARIABLES = (*RUNTIMES, "GPU_DEVICE_ORDINAL", "SLURM_STEP_GPUS", "SLURM_JOB_GPUS")
_WORK = """
import sys, time, torch
kind, gpu, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
here = f"cuda:{gpu}"
n = 8192 if kind == "matmul" else 1 << 28
a = torch.randn((n, n) if kind == "matmul" else n, device=here, dtype=torch.bfloat16)
other = torch.empty_like(a, device=f"cuda:{gpu + 1}") if kind == "peer" else torch.empty_like(a)
once = (lambda: torch.mm(a, a, out=other)) if kind == "matmul" else (lambda: other.copy_(a))
once(); torch.cuda.synchronize(gpu)
print("begun", flush=True)
begin, times = time.time(), 0
while time.time() - begin < seconds:
    for _ in range(10):
        once()
    torch.cuda.synchronize(gpu); times += 10
took = time.time() - begin
print(times / took * (2 * n**3 if kind == "matmul" else a.nbytes), flush=True)
"""
"""Matrix products (FLOP/s), copies within a GPU (bytes/s read, and as many written), or to the next one (bytes/s)."""


class Answer(NamedTuple):
    """One row of the table."""

    question: str
    seen: str


class Stretch(NamedTuple):
    """Two readings of a GPU, so many seconds apart, the power between them in W, and what the work came to a second."""

    seconds: float
    before: MetricsReading
    after: MetricsReading
    power: float
    rate: float


def main(out: Path) -> int:
    """Fill ``out`` with the table and what AMD's tools say. Exit code: 0, 2 when no GPU may be used here."""
    try:
        own, shown, remarks = cards.usable_cards(None)
    except BackendError as error:
        print(f"on_gpu: {error}", file=sys.stderr)
        return 2
    out.mkdir(parents=True, exist_ok=True)
    with (out / TABLE).open("w") as stream:
        for line in ("| question | seen |", "|---|---|"):
            print(line, file=stream)
        for answer in _answers(own, shown, remarks, out):
            line = f"| {answer.question} | {answer.seen} |"
            print(line, flush=True)
            print(line, file=stream, flush=True)
    print(f"\nPlease send in what is in {out}: see docs/amd.md")
    return 0


def _answers(own: Sequence[Card], shown: Sequence[Card], remarks: Sequence[str], out: Path) -> Iterator[Answer]:
    yield Answer("driver", cards.text(cards.path("sys/module/amdgpu/version")) or f"of Linux {os.uname().release}")
    yield Answer(
        "variables", ", ".join(f"{name}={os.environ[name]}" for name in _VARIABLES if name in os.environ) or "none"
    )
    yield Answer("render nodes that open", ", ".join(str(card.renders) for card in own))
    yield Answer(
        "ours", ", ".join(str(card.device.device_index) for card in own) + "".join(f"; {text}" for text in remarks)
    )
    for card in shown:
        yield from _at_rest(card)
    for words in _TOOLS:
        if shutil.which(words[0]) is not None:
            with (out / f"{words[0]}.txt").open("w") as stream:
                subprocess.run(words, stdout=stream, stderr=subprocess.STDOUT, check=False, timeout=60)
            yield Answer(" ".join(words), f"in {words[0]}.txt")
    if find_spec("torch") is None:
        yield Answer("under load", "PyTorch is missing: not looked at")
        return
    yield from _under_load(own)


def _at_rest(card: Card) -> Iterator[Answer]:
    device = card.device
    who = f"GPU {device.device_index}"
    about = (device.name, device.uuid, device.compute_capability, card.address, device.mig, device.power_limit)
    yield Answer(f"{who}: is", ", ".join(map(str, about)) + (", a second die" if card.is_second_die else ""))
    data, times = b"", []
    try:
        with open(f"{card.path}/gpu_metrics", "rb", buffering=0) as stream:
            for _ in range(READS):
                began = time.perf_counter()
                data = os.pread(stream.fileno(), MOST_BYTES, 0)
                times.append(time.perf_counter() - began)
    except OSError as error:
        yield Answer(f"{who}: gpu_metrics", str(error))
        return
    times.sort()
    yield Answer(f"{who}: gpu_metrics", f"{revision_of(data, len(data))}; begins {data[:16].hex(' ')}")
    yield Answer(f"{who}: a read takes", f"{1e6 * statistics.median(times):.0f} µs, at most {1e6 * times[-1]:.0f} µs")
    table = table_of(bytearray(data), len(data))
    reading = None if table is None else table.read(bytearray(data))
    told = "nothing that is known" if reading is None else _said(reading)
    yield Answer(f"{who}: at rest", told)
    if table is not None:
        yield Answer(f"{who}: partitions' mean activity and sum", str(table.of_partitions(bytearray(data))))


def _said(reading: MetricsReading) -> str:
    return ", ".join(f"{name} {value:g}" for name, value in reading._asdict().items() if value is not None)


def _under_load(own: Sequence[Card]) -> Iterator[Answer]:
    """PyTorch numbers the GPUs as they are in ``own``, unless a variable says otherwise."""
    for number, card in enumerate(own):
        who = f"GPU {card.device.device_index}"
        alone = _stretch(card, "matmul", number, every=LOAD_SECONDS)
        watched = _stretch(card, "matmul", number, every=0.1)
        if alone is None or watched is None:
            yield Answer(f"{who}: under load", "PyTorch can't use it: not looked at")
            continue
        yield Answer(f"{who}: matrix products", _grown(watched))
        slower = 100 * (1 - watched.rate / alone.rate)
        yield Answer(
            f"{who}: slower when read ten times a second", f"{slower:.1f} % of {alone.rate / 1e12:.0f} TFLOP/s"
        )
        copy = _stretch(card, "copy", number, every=0.1)
        if copy is not None:
            yield Answer(f"{who}: copies of {2 * copy.rate / 1e12:.2f} TB/s, read and written", _grown(copy))
    if len(own) > 1:
        for end, number in (("sends", 0), ("receives", 1)):
            peer = _stretch(own[number], "peer", 0, every=0.1)
            if peer is not None:
                sent, received = (_rate(peer, name) for name in ("xgmi_written", "xgmi_read"))
                told = f"written {sent}, read {received} units of 1000 bytes a second"
                yield Answer(f"GPU {own[number].device.device_index} {end} {peer.rate / 1e9:.2f} GB/s by xGMI", told)


def _rate(stretch: Stretch, name: str) -> str:
    old, new = getattr(stretch.before, name), getattr(stretch.after, name)
    return "untold" if old is None or new is None else f"{(new - old) / stretch.seconds / 1e6:.3f} million"


def _grown(stretch: Stretch) -> str:
    """What the counters grew by for a tick, and the averages at the end."""
    before, after, told = stretch.before, stretch.after, []
    if before.ticks is not None and after.ticks is not None and after.ticks > before.ticks:
        ticks = after.ticks - before.ticks
        told.append(f"{ticks / stretch.seconds:.0f} ticks a second")
        for name in ("gfx_acc", "memory_acc", "ppt", "socket_thm", "hbm_thm"):
            old, new = getattr(before, name), getattr(after, name)
            if old is not None and new is not None:
                told.append(f"{name} {(new - old) / ticks:.3f} a tick")
    if before.energy and after.energy:
        joules = (after.energy - before.energy) * JOULE
        told.append(f"{joules:.0f} J, {joules / stretch.seconds:.0f} W by energy, {stretch.power:.0f} W by power")
    return "; ".join([*told, _said(after)])


def _stretch(card: Card, kind: str, number: int, every: float) -> Stretch | None:
    """What a GPU told while the ``number``th did work of a kind, read ``every`` so many seconds; None if it can't."""
    words = (sys.executable, "-c", _WORK, kind, str(number), str(LOAD_SECONDS))
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as work:
        assert work.stdout is not None
        if work.stdout.readline() != "begun\n":
            return None
        began, readings, power = time.time(), [_reading(card)], []
        while (left := began + 0.8 * LOAD_SECONDS - time.time()) > 0:
            time.sleep(min(every, left))
            readings.append(_reading(card))
            power.append(readings[-1].power or 0.0)
        seconds = time.time() - began
        rate = work.stdout.readline()
    return Stretch(seconds, readings[0], readings[-1], statistics.fmean(power), float(rate)) if rate else None


def _reading(card: Card) -> MetricsReading:
    data = bytearray(Path(f"{card.path}/gpu_metrics").read_bytes())
    table = table_of(data, len(data))
    return (table.read(data) if table else None) or MetricsReading()
