"""What this machine offers: where samples can come from, where recordings can go, and what is missing."""

import os
import sqlite3
import sys
import time
from typing import Literal, NamedTuple

from gssr import __version__, launch
from gssr.backends import BACKENDS
from gssr.backends.synthetic.scenarios import SCENARIOS
from gssr.store.filesystem import filesystem_of, journal_mode

OLDEST_SQLITE = (3, 26, 0)
_DEVICES = "/dev/nvidiactl"


class Finding(NamedTuple):
    """One line: ``ok``, ``no`` or ``note``; what was looked at; what was found; what to do, where there is something."""

    verdict: Literal["ok", "no", "note"]
    what: str
    details: str
    cure: str = ""


def findings() -> list[Finding]:
    """Everything that was looked at, in the order a user meets it."""
    return [_python(), _sqlite(), _place(), *_gpus(), *_backends(), _host(), _folder()]


def _python() -> Finding:
    version = ".".join(map(str, sys.version_info[:3]))
    return Finding("ok", "gssr", f"{__version__} on Python {version}, {sys.executable}")


def _sqlite() -> Finding:
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        return Finding(
            "no", "SQLite", f"{sqlite3.sqlite_version} is too old", "use a Python built with SQLite 3.26 or newer"
        )
    return Finding("ok", "SQLite", sqlite3.sqlite_version)


def _place() -> Finding:
    place = launch.where_am_i()
    if place.launcher == launch.ALONE:
        job = f", in job {place.job_id}" if place.job_id else ""
        return Finding("ok", "launcher", f"none: one process on {place.node}{job}")
    size = place.world_size if place.world_size is not None else "an unknown number"
    return Finding("ok", "launcher", f"{place.launcher}: rank {place.rank} of {size} on {place.node}")


def _gpus() -> list[Finding]:
    """NVIDIA's driver, as its management library tells it."""
    try:
        import pynvml
    except ImportError:
        return [Finding("no", "GPUs", "the package nvidia-ml-py is missing", "pip install nvidia-ml-py")]
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        cure = "run on a node with NVIDIA GPUs and their driver"
        if os.path.exists(_DEVICES):
            cure = (
                "the driver is loaded: make its library libnvidia-ml.so.1 visible here (in a container: --nv or --gpus)"
            )
        return [Finding("no", "GPUs", f"NVIDIA's driver can't be used: {error}", cure)]
    try:
        n_gpus, driver = pynvml.nvmlDeviceGetCount(), pynvml.nvmlSystemGetDriverVersion()
        names = sorted({str(pynvml.nvmlDeviceGetName(pynvml.nvmlDeviceGetHandleByIndex(i))) for i in range(n_gpus)})
    except pynvml.NVMLError as error:
        return [
            Finding(
                "no", "GPUs", f"NVIDIA's driver answers with an error: {error}", "see dmesg, or ask the administrator"
            )
        ]
    finally:
        pynvml.nvmlShutdown()
    details = f"{n_gpus} ({', '.join(names) or 'none'}), driver {driver}"
    return [
        Finding("note", "GPUs", details, "this version of gssr reads no real GPU: it records host metrics beside them")
    ]


def _backends() -> list[Finding]:
    extra = {"synthetic": f"scenarios: {', '.join(SCENARIOS)}", "auto": "here: host metrics only"}
    return [
        Finding("ok", f"backend {kind.name}", kind.what + (f"; {extra[kind.name]}" if kind.name in extra else ""))
        for kind in BACKENDS
    ]


def _host() -> Finding:
    from gssr.backends.host import HostSampler
    from gssr.store.schema import TABLES

    sampler = HostSampler()
    sampler.sample(time.time())
    time.sleep(0.1)  # rates need two looks, and processor time is counted in hundredths of a second
    values = sampler.sample(time.time())
    names = [column.name for column in TABLES["host_samples"]][3:]
    missing = [name for name, value in zip(names, values, strict=True) if value is None]
    if missing:
        return Finding("note", "host metrics", f"this machine doesn't tell {', '.join(missing)}")
    return Finding("ok", "host metrics", "CPU, load, memory, disk, network")


def _folder() -> Finding:
    folder = os.getcwd()
    kind, mode = filesystem_of(folder), journal_mode(folder)
    if not os.access(folder, os.W_OK):
        return Finding("no", "this folder", f"{folder} can't be written", "give recordings a place with -o")
    return Finding("ok", "this folder", f"{kind}: recordings are written with journal mode {mode}")
