"""What a report of Nsight Systems says of itself: when it was made, on which machines and GPUs, as which rank, and what was
lost."""

import os
import re
from collections import Counter
from typing import Any

from gssr.launch import ALONE, where_am_i
from gssr.recognise import RANK_IN_NAME
from gssr.traces.tables import Tables

TABLES = (
    "TARGET_INFO_SESSION_START_TIME", "TARGET_INFO_SYSTEM_ENV", "TARGET_INFO_GPU", "TARGET_INFO_CUDA_DEVICE", "ThreadNames",
    "META_DATA_EXPORT", "EXPORT_META_DATA", "DIAGNOSTIC_EVENT", "ANALYSIS_DETAILS",
)  # fmt: skip
"""Those that are read here."""
MOST_ROWS = 100_000
"""Of tables that are looked at row by row: threads, GPUs, processes, metrics."""
TID_BITS = 24
OF_A_PROCESS = ~((1 << TID_BITS) - 1)
"""A globalTid without its lowest 24 bits, the thread, is a globalPid; the next 24 are the process, the rest the machine."""
_FACTS = {"NvDriverVersion": "driver", "CudaDriverVersion": "cuda"}
_LOST = re.compile(r"not all .* (?:collected|recorded)|\b(?:lost|dropped|overflow|truncated)", re.IGNORECASE)
_MOST_LOST = 5
_WARNING = 2
_BETWEEN_VARIABLES = re.compile("[;\0\n]")


class ReportInfo:
    """What a report says about itself, its machines and GPUs.

    ``version``: of nsys, "" if unknown. ``unix_ns``: when the session began, None if unknown or ambiguous.
    ``duration_ns``: how long it lasted, None if unknown. ``host``: the machine's name, None if unknown or several.
    ``gpus``: names of GPU models. ``facts``: what to show of it, by name. ``thread_names``: by globalTid, an id in
    StringIds. ``notes``: sentences on what is lost or doubtful.
    """

    def __init__(self, database: Tables) -> None:
        def rows(table: str, *names: str) -> list[tuple[Any, ...]]:
            return database.rows(table, names, MOST_ROWS)

        self._path = database.path
        told = dict((*rows("EXPORT_META_DATA", "name", "value"), *rows("META_DATA_EXPORT", "name", "value")))
        self.version = str(told.get("EXPORT_PRODUCT_VERSION", ""))
        self.notes: list[str] = []
        starts = [
            ns for (ns,) in rows("TARGET_INFO_SESSION_START_TIME", "utcEpochNs") if isinstance(ns, int) and ns > 0
        ]
        self.unix_ns = starts[0] if len(set(starts)) == 1 else None
        if len(set(starts)) > 1:
            self.notes.append(f"{len(starts)} sessions are in it, begun at different times: which is whose is not told")
        self._hosts: dict[int, str] = {}
        self._environments: list[dict[str, str]] = []
        self.facts: dict[str, str] = {}
        for machine, name, value in rows("TARGET_INFO_SYSTEM_ENV", "globalVid", "name", "value"):
            if not isinstance(value, str):
                continue
            if name == "Hostname":
                self._hosts[_machine(machine)] = value
            elif name == "DeviceEnvironment":
                self._environments.append(_environment(value))
            elif name in _FACTS:
                self.facts.setdefault(_FACTS[str(name)], value)
        hosts = set(self._hosts.values())
        self.host = hosts.pop() if len(hosts) == 1 else None
        self._uuid_of_id: dict[tuple[int, int], str] = {}
        self._uuid_of_device: dict[tuple[int, int | None, int], str] = {}
        gpus = rows("TARGET_INFO_GPU", "vmId", "id", "cuDevice", "uuid", "name")
        self.gpus = tuple(dict.fromkeys(name for *_, name in gpus if isinstance(name, str) and name.strip()))
        if self.gpus:
            self.facts["gpu"] = ", ".join(self.gpus)
        lasted = [ns for (ns,) in rows("ANALYSIS_DETAILS", "duration") if isinstance(ns, int) and ns > 0]
        self.duration_ns = max(lasted, default=None)
        numbered = Counter((_machine(machine), device) for machine, _, device, _, _ in gpus)
        for machine, number, device, uuid, _ in gpus:
            if isinstance(uuid, str) and uuid and isinstance(number, int):
                self._uuid_of_id[_machine(machine), number] = _prefixed(uuid)
                if (
                    isinstance(device, int) and numbered[_machine(machine), device] == 1
                ):  # else it depends on the process
                    self._uuid_of_device[_machine(machine), None, device] = _prefixed(uuid)
        devices = rows("TARGET_INFO_CUDA_DEVICE", "gpuId", "cudaId", "pid", "uuid")
        if devices:
            self._uuid_of_device.clear()  # that is what the tool saw, not the processes
        for machine in dict.fromkeys(machine for machine, _ in self._uuid_of_id):
            for number, device, process, uuid in devices:
                if isinstance(number, int) and isinstance(device, int) and isinstance(process, int):
                    own = _prefixed(uuid) if isinstance(uuid, str) and uuid else self._uuid_of_id.get((machine, number))
                    if own:
                        self._uuid_of_device[machine, process, device] = own
        threads = rows("ThreadNames", "globalTid", "nameId")
        self.thread_names = {
            thread: name for thread, name in threads if isinstance(thread, int) and isinstance(name, int)
        }
        lost = [
            text.strip()
            for severity, text in rows("DIAGNOSTIC_EVENT", "severity", "text")
            if isinstance(severity, int) and severity >= _WARNING and isinstance(text, str) and _LOST.search(text)
        ]
        self.notes += [f"nsys: {text}" for text in list(dict.fromkeys(lost))[:_MOST_LOST]]

    def node(self, number: int) -> str | None:
        """Return the host of a globalPid or globalTid, None if unknown."""
        return self.host or self._hosts.get(_machine(number))

    def uuid(self, process: int, device: int) -> str | None:
        """Return the UUID of a device as a process (a globalPid) counts them. None if the report does not say it."""
        machine, own = _machine(process), process >> TID_BITS & 0xFFFFFF
        return self._uuid_of_device.get((machine, own, device)) or self._uuid_of_device.get((machine, None, device))

    def uuid_of_id(self, number: int) -> str | None:
        """Return the UUID of the GPU with this id in the report, None if it is unknown or ambiguous."""
        found = {uuid for (_, own), uuid in self._uuid_of_id.items() if own == number}
        return found.pop() if len(found) == 1 else None

    def rank(self) -> tuple[int | None, str]:
        """Find the rank by the environment of the tool, or by the file's name. Returns it, and a phrase that says where
        it is from; (None, "") if neither says it."""
        ranks = {
            (place.rank, place.launcher) for place in map(where_am_i, self._environments) if place.launcher != ALONE
        }
        if len(ranks) == 1:
            rank, launcher = ranks.pop()
            return rank, f"what {launcher} told it"
        told = RANK_IN_NAME.search(os.path.basename(self._path))
        return (int(told[1]), "the file's name") if told else (None, "")


def _machine(number: object) -> int:
    """Return the machine's part of a globalPid, globalTid or vmId."""
    return number >> 48 if isinstance(number, int) else 0


def _environment(text: str) -> dict[str, str]:
    """Read the variables of an environment, NAME=VALUE, between which versions of nsys write a semicolon, a zero byte
    or a line's end. One without "=" has the value ""."""
    pairs = (variable.partition("=") for variable in _BETWEEN_VARIABLES.split(text))
    return {name: value for name, _, value in pairs}


def _prefixed(uuid: str) -> str:
    """Write a UUID as recordings have it."""
    return uuid if uuid.startswith(("GPU-", "MIG-")) else f"GPU-{uuid}"
