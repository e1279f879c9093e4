"""What many hosts in one view cost: 200 of 8 GPUs, of which each is a process that says what a sampler said once."""

import json
import re
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.processes import CACHE, ENVIRONMENT, GSSR, child_called, cpu_seconds
from benchmarks.table import Figure
from benchmarks.terminal import on_terminal

HOSTS, GPUS, INTERVAL = 200, 8, 2.0
"""The interval is what gssr top asks of so many."""
SIZES = (80, 24), (200, 60)
LIMITS = {(80, 24): 10.0}
"""% of a core, for what gathers the lines and the screen together."""
_WITH_TIME = ("row", "host", "on", "event")


def measure(
    n_hosts: int = HOSTS, seconds: float = 60.0, settle: float = 30.0, recorded: float = 60.0
) -> Iterator[Figure]:
    """CPU of the process that gathers the lines and of the screen. Needs gcc; raises CalledProcessError where that fails."""
    with tempfile.TemporaryDirectory(dir=CACHE) as name:
        folder = Path(name)
        environment = {"PATH": f"{folder}:{ENVIRONMENT['PATH']}", "LINES_OF_HOST": str(_recorded_lines(recorded))}
        subprocess.run(["gcc", "-O2", "-o", folder / "ssh", Path(__file__).with_suffix(".c")], check=True)
        (folder / "hosts").write_text("".join(f"n{number}\n" for number in range(n_hosts)))
        for size in SIZES:
            command = (*GSSR, "top", "--hostfile", folder / "hosts")
            with on_terminal(command, *size, ENVIRONMENT | environment) as terminal:
                terminal.read_until(f"{n_hosts} live".encode())
                terminal.read_for(settle)
                gathering = child_called("gssr-collector", terminal.pid)
                before, began = (cpu_seconds(gathering), cpu_seconds(terminal.pid)), time.perf_counter()
                terminal.read_for(seconds)
                passed = time.perf_counter() - began
                shares = [
                    100 * (cpu_seconds(pid) - was) / passed
                    for pid, was in zip((gathering, terminal.pid), before, strict=True)
                ]
                terminal.leave()
            case = f"hosts, {n_hosts} of {GPUS} GPUs, {size[0]}x{size[1]}"
            yield Figure(f"{case}: gathering, CPU", shares[0], "% of a core")
            yield Figure(f"{case}: screen, CPU", shares[1], "% of a core")
            yield Figure(f"{case}: both, CPU", sum(shares), "% of a core", LIMITS.get(size))


def _recorded_lines(seconds: float) -> Path:
    """Return the file that the stand-in for ssh reads: what a sampler says in so many seconds, which is recorded once."""
    path = CACHE / "lines-of-host"
    if path.exists():
        return path
    command = (*GSSR, "top", "--lines", f"--sampling-time={1000 * INTERVAL:g}", f"--backend=synthetic:train:{GPUS}")
    blocks: list[tuple[float, str]] = []
    with subprocess.Popen(
        command, env=ENVIRONMENT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as sampler:
        assert sampler.stdin is not None and sampler.stdout is not None
        began = time.monotonic()
        while (now := time.monotonic()) < began + seconds:
            line = _marked(sampler.stdout.readline())
            if blocks and now < blocks[-1][0] + 0.1:
                line = blocks.pop()[1] + line
            blocks.append((now, line))
        sampler.stdin.close()
    ends = [when for when, _ in blocks[1:]]
    text = "".join(f"{lines}\x03{end - when:.3f}\n" for (when, lines), end in zip(blocks, ends, strict=False))
    path.write_text(text)
    return path


def _marked(line: str) -> str:
    """Return a line with marks in place of the time and the end of the GPU's id."""
    kind, *rest = json.loads(line)
    if kind in _WITH_TIME:
        when = rest[1] if kind in ("row", "on") else rest[0]
        return line.replace(json.dumps(when), "\x01", 1)
    return re.sub(r'("uuid":"[^"]*)[^"]{4}"', '\\1\x02"', line)
