"""What this machine offers: where samples can come from, where recordings can go, and what is missing."""

from __future__ import annotations

import os
import shlex
import sqlite3
import sys
import time
from typing import Literal, NamedTuple

from gssr import launch
from gssr.backends import BACKENDS, auto
from gssr.backends.amd.cards import NONE_SHOWN, n_intels
from gssr.backends.base import BackendError, Offer
from gssr.backends.driver_inquiry import inquire
from gssr.backends.synthetic.scenarios import SCENARIOS
from gssr.store.disk import filesystem_of, journal_mode
from gssr.version import __version__

OLDEST_SQLITE = (3, 26, 0)
_INTEL = "not supported: Intel's driver tells their utilization to root only"
_DRIVER_FIRST = "make NVIDIA's driver work first: see GPUs above"
_WHAT = {kind.name: kind.what for kind in BACKENDS}


class Advice(NamedTuple):
    """One line of the doctor's report. ``what``: what was looked at; ``details``: what was found; ``cure``: what to do,
    "" if nothing."""

    verdict: Literal["ok", "no", "note"]
    what: str
    details: str
    cure: str = ""


def findings() -> list[Advice]:
    """Look at everything, and return what was found, in the order in which a user meets it. Drivers that don't answer
    take up to 30 s."""
    return [_python(), *_environment(), _sqlite(), _place(), *_real_gpus(), *_stand_ins(), _host(), _folder()]


def _python() -> Advice:
    """Say which GSSR and which Python this is."""
    version = ".".join(map(str, sys.version_info[:3]))
    return Advice("ok", "gssr", f"{__version__} on Python {version}, {sys.executable}")


def _environment() -> list[Advice]:
    """Warn of a PYTHONHOME, which ends gssr if it is that of another Python; empty if there is none."""
    home = os.environ.get("PYTHONHOME")
    if not home:
        return []
    cure = f"set it for the command alone: gssr profile -- env PYTHONHOME={shlex.quote(home)} COMMAND"
    return [
        Advice(
            "note", "PYTHONHOME", f"is {home}: that of another Python ends gssr, and the job, before it begins", cure
        )
    ]


def _sqlite() -> Advice:
    """Say which SQLite this is, and whether it is new enough."""
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        return Advice(
            "no", "SQLite", f"{sqlite3.sqlite_version} is too old", "use a Python built with SQLite 3.26 or newer"
        )
    return Advice("ok", "SQLite", sqlite3.sqlite_version)


def _place() -> Advice:
    """Say which launcher has started this process, as which rank, on which node."""
    place = launch.where_am_i()
    if place.launcher == launch.ALONE:
        shown = launch.shown_job(place.job_id, place.array_job_id, place.array_task_id)
        job = f", in job {shown}" if shown else ""
        return Advice("ok", "launcher", f"none: one process on {place.node}{job}")
    size = place.world_size if place.world_size is not None else "an unknown number"
    return Advice("ok", "launcher", f"{place.launcher}: rank {place.rank} of {size} on {place.node}")


def _real_gpus() -> list[Advice]:
    """Say which GPUs this machine has, and what each backend for them offers.

    There is always a line for the GPUs, one for ``backend auto`` and one for each backend, works it or not; one more
    for Intel GPUs where there are some. If asking the drivers fails, there is only a single "no" for the GPUs.
    """
    offers = _offers()
    if isinstance(offers, str):
        return [Advice("no", "GPUs", offers, "see dmesg, or ask the administrator")]
    *nvidias, amd = offers
    driver = next(offer for offer in nvidias if offer.name == "nvml")
    given = launch.gpu_ids()
    mine = "" if given is None else f"; the launcher gives this process {', '.join(given) or 'none'}"
    taken, why = auto.preferred(*nvidias[:2])
    best = taken or next((offer.name for offer in offers if offer.works), None)
    here = f"here: {best}" if best else "here: host metrics only"
    here += f"; {why}" if why else ""
    gpus = amd if not driver.works and amd.details != NONE_SHOWN else driver
    found = [
        Advice("ok" if gpus.works else "no", "GPUs", gpus.details + mine, gpus.cure),
        Advice("ok", "backend auto", f"{_WHAT['auto']}; {here}"),
    ]
    for offer in nvidias:
        what = f"backend {offer.name}"
        if offer is driver and offer.works:
            found.append(Advice("ok", what, _WHAT["nvml"], offer.cure))
        elif offer.works:
            found.append(Advice("ok" if offer.profiles else "note", what, offer.details, offer.cure))
        elif offer.details == driver.details:
            found.append(Advice("no", what, "needs NVIDIA's driver" + ": see GPUs" * (gpus is driver)))
        else:
            first = _DRIVER_FIRST if gpus is driver else ""
            found.append(Advice("no", what, offer.details, offer.cure if driver.works else first))
    also = f"; auto takes NVIDIA's GPUs: --backend amd records {amd.details}" if amd.works and gpus is driver else ""
    if amd.works:
        found.append(Advice("ok", "backend amd", _WHAT["amd"] + also))
    elif gpus is amd:
        found.append(Advice("no", "backend amd", "see GPUs"))
    else:
        found.append(Advice("no", "backend amd", amd.details, amd.cure))
    if n_intels():
        found.append(Advice("note", "Intel GPUs", _INTEL))
    return found


def _offers() -> list[Offer] | str:
    """Ask in a process of its own what the backends offer, NVIDIA's first and AMD's last; a sentence instead where
    that fails."""

    def ask() -> object:
        return auto.offers(try_out=True)

    try:
        return [Offer(*offer) for offer in inquire(ask)]
    except BackendError as error:
        return str(error)


def _stand_ins() -> list[Advice]:
    """Say what the backends without GPUs are for."""
    scenarios = {"synthetic": f"; scenarios: {', '.join(SCENARIOS)}"}
    return [Advice("ok", f"backend {name}", _WHAT[name] + scenarios.get(name, "")) for name in ("synthetic", "replay")]


def _host() -> Advice:
    """Measure the host for 0.1 s, and say which metrics it does not tell."""
    from gssr.backends.host import HostSampler

    sampler = HostSampler()
    sampler.sample(time.time())
    time.sleep(0.1)  # rates need two looks, and processor time is counted in hundredths of a second
    values = sampler.sample(time.time())
    missing = [name for name, value in values._asdict().items() if value is None]
    fabric = not any(name.startswith("fabric_") for name in missing)
    missing = [name for name in missing if not name.startswith("fabric_")]  # which most machines don't have
    if missing:
        return Advice("note", "host metrics", f"this machine doesn't tell {', '.join(missing)}")
    return Advice("ok", "host metrics", "CPU, load, memory, disk, network" + (", fabric" if fabric else ""))


def _folder() -> Advice:
    """Say whether recordings can be written in the working directory, and how."""
    try:
        folder = os.getcwd()
    except OSError as error:
        return Advice("no", "this folder", f"is gone: {error.strerror}", "go to another one")
    kind, mode = filesystem_of(folder), journal_mode(folder)
    if not os.access(folder, os.W_OK):
        return Advice("no", "this folder", f"{folder} can't be written", "give recordings a place with -o")
    return Advice("ok", "this folder", f"{kind}: recordings are written with journal mode {mode}")
