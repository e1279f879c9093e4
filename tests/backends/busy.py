"""Processes that use CPU time, and how much."""

import time

import psutil

BUSY = "while True: pass"


def cpu_seconds(pid: int) -> float:
    times = psutil.Process(pid).cpu_times()
    return times.user + times.system


def wait_for_cpu(pid: int, seconds: float) -> None:
    target = cpu_seconds(pid) + seconds
    while cpu_seconds(pid) < target:
        time.sleep(0.02)
