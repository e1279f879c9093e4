"""What nvidia-smi says meanwhile: asked once a second, in a thread, each answer with the times around it."""

import subprocess
import threading
import time
from collections.abc import Sequence
from typing import NamedTuple

PATIENCE = 10.0
_POWERS = ("power.draw.instant", "power.draw")
"""The second where a driver doesn't have the first."""
_OTHERS = ("memory.used", "utilization.gpu", "temperature.gpu", "clocks.sm")


class Reading(NamedTuple):
    """One answer, asked for between two unix times: W, bytes, 0-1, °C, MHz; None is not available."""

    begin: float
    end: float
    power_usage: float | None
    memory_used: float | None
    gpu_utilization: float | None
    temperature: float | None
    sm_clock: float | None


class Watch:
    """Readings of one GPU from ``with`` to its end, in ``readings``; ``power`` is the field that was read."""

    def __init__(self, uuid: str, every: float = 1.0) -> None:
        self.readings: list[Reading] = []
        self.power = _POWERS[0]
        self._uuid = uuid
        self._every = every
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "Watch":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(2 * PATIENCE)

    def _watch(self) -> None:
        if ask(self._uuid, [self.power]) is None:
            self.power = _POWERS[1]
        while not self._stop.wait(self._every):
            begin = time.time()
            values = ask(self._uuid, [self.power, *_OTHERS])
            if values is not None:
                power, memory, utilization, *rest = values
                scaled = (power, _times(memory, 1 << 20), _times(utilization, 0.01), *rest)
                self.readings.append(Reading(begin, time.time(), *scaled))


def ask(uuid: str, fields: Sequence[str]) -> list[float | None] | None:
    """The fields of a GPU in nvidia-smi's units; None when it doesn't know one of them, or doesn't answer."""
    query = ["nvidia-smi", "-i", uuid, f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(query, capture_output=True, text=True, timeout=PATIENCE)
    except (OSError, subprocess.TimeoutExpired):
        return None
    lines = done.stdout.splitlines()
    return [_number(text) for text in lines[0].split(",")] if done.returncode == 0 and lines else None


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:  # [N/A], [Not Supported]
        return None


def _times(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor
