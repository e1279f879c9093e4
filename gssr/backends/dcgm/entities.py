"""What a hostengine can measure: whole GPUs, and MIG's instances in place of the GPUs they divide.

DCGM's own ids are NVML's order at the hostengine's start, outside any job's cgroup: they are used to talk to it and for
nothing else. A GPU is known by its UUID.

Which of a hostengine's GPUs are this process's.

The hostengine sees all of the node's GPUs, other jobs' included. What is this process's, the driver tells it here, inside
its cgroup or container; the two are joined by UUID.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from gssr.backends.base import Device, UnusableError
from gssr.backends.choose import choose
from gssr.backends.dcgm import codes
from gssr.backends.dcgm.codes import COMPUTE_INSTANCE, GPU, GPU_INSTANCE, DcgmError, blank_reason
from gssr.backends.dcgm.engine import Engine

_MIB = 1 << 20
Entity = tuple[int, int]
"""(entity group, id) in the hostengine."""


class Sampled(NamedTuple):
    """A GPU or MIG instance to sample. ``gpu_uuid`` and ``gpu``: the UUID and DCGM's id of its whole GPU; ``entity``:
    what is measured for it; ``engine_name``: its name in the engine, the same for every process and after a restart."""

    device: Device
    gpu_uuid: str
    gpu: int
    entity: Entity
    engine_name: str

    @property
    def model(self) -> str:
        """The GPU's product name: DCGM watches GPUs of one model together."""
        return self.device.name or "GPU"


def discover(engine: Engine) -> list[Sampled]:
    """List the hostengine's GPUs that have a UUID, with MIG's instances in place of the GPUs they divide. Raises
    EngineError."""
    ids = list(engine.call("dcgmGetAllDevices"))
    known = live_values(engine, [(GPU, gpu) for gpu in ids], codes.IDENTITY)
    devices = {gpu: _device(gpu, known.get((GPU, gpu), {})) for gpu in ids}
    instances = _instances(engine, devices)
    found = []
    for gpu, device in devices.items():
        if gpu in instances:
            found += instances[gpu]
        elif device.uuid:
            found.append(Sampled(device, device.uuid, gpu, (GPU, gpu), device.uuid))
    return found


def live_values(engine: Engine, entities: Sequence[Entity], fields: Sequence[int]) -> dict[Entity, dict[int, Any]]:
    """Read the present values of fields from the driver. Returns for each entity its values by field id, None for a
    blank; entities of which the engine tells nothing, and fields that this DCGM does not know, are absent. Raises
    EngineError."""
    wanted = [field for field in fields if engine.knows_field(field)]
    values: dict[Entity, dict[int, Any]] = {}
    if not entities or not wanted:
        return values
    pairs = [engine.entity(*entity) for entity in entities]
    for value in engine.ask("dcgmEntitiesGetLatestValues", pairs, wanted, codes.LIVE_DATA) or ():
        values.setdefault((value.entityGroupId, value.entityId), {})[value.fieldId] = _plain(value)
    return values


def unsupported(engine: Engine, entities: Sequence[Entity], fields: Sequence[int]) -> set[int]:
    """Return those of the fields that the engine says none of the entities has, and those of which it says nothing;
    empty if it does not answer. Raises EngineError."""
    pairs = [engine.entity(*entity) for entity in entities]
    values = (
        engine.ask("dcgmEntitiesGetLatestValues", pairs, list(fields), codes.LIVE_DATA) if pairs and fields else None
    )
    if values is None:
        return set()
    lacking = set(fields)
    for value in values:
        number = value.value.dbl if chr(value.fieldType) == "d" else value.value.i64
        if value.status != codes.NOT_SUPPORTED and (value.status or blank_reason(number) != "not supported"):
            lacking.discard(value.fieldId)
    return lacking


def _plain(value: Any) -> str | int | float | None:
    """Return a value as Python has it; None if it is blank."""
    if value.status:
        return None
    kind = chr(value.fieldType)
    if kind == "s":
        text = str(value.value.str)
        return None if text.startswith("<<<") else text
    number: int | float = value.value.dbl if kind == "d" else value.value.i64
    return None if blank_reason(number) else number


def _device(gpu: int, known: Mapping[int, Any]) -> Device:
    """Describe the whole GPU that has the id ``gpu`` in DCGM. ``known``: the values of its fields codes.IDENTITY, by
    field id; what is missing there is None in the result, and "" as its UUID."""
    capability, memory = known.get(codes.COMPUTE_CAPABILITY), known.get(codes.MEMORY_TOTAL)
    index = known.get(codes.NVML_INDEX)
    return Device(
        device_index=gpu if index is None else index,
        uuid=known.get(codes.UUID) or "",
        name=known.get(codes.NAME),
        memory_total=None if memory is None else memory * _MIB,
        power_limit=known.get(codes.POWER_LIMIT),
        max_sm_clock=known.get(codes.MAX_SM_CLOCK),
        compute_capability=None if capability is None else f"{capability >> 16}.{capability & 0xFFFF}",
        driver_version=known.get(codes.DRIVER_VERSION),
    )


def _instances(engine: Engine, devices: Mapping[int, Device]) -> dict[int, list[Sampled]]:
    """Find the MIG instances of the GPUs ``devices``, which are by DCGM's id of a GPU. Returns by the same ids one item
    for each compute instance of the GPU; the ids of GPUs that are not divided, or have no compute instance yet, are
    absent. {} if DCGM tells of no instance.

    A compute instance that has its GPU instance to itself is measured as that GPU instance (``Sampled.entity``).
    """
    hierarchy = engine.ask("dcgmGetGpuInstanceHierarchy")  # some drivers before MIG answer with an error
    entries = [hierarchy.entityList[position] for position in range(hierarchy.count)] if hierarchy else []
    if not entries:
        return {}
    parents = {entry.entity.entityId: entry for entry in entries if entry.entity.entityGroupId == GPU_INSTANCE}
    children = [entry for entry in entries if entry.entity.entityGroupId == COMPUTE_INSTANCE]
    holders = [entry.parent.entityId for entry in children]
    # A GPU instance with one compute instance is measured as a whole, as dcgm-exporter does: DCGM reads it by the driver's
    # call for instances, a compute instance by that for whole GPUs, which may refuse it. Of one that several share
    # only the compute instances can be told apart, and memory traffic is nobody's own.
    measured: list[Entity] = [
        (GPU_INSTANCE, holder) if holders.count(holder) == 1 else (COMPUTE_INSTANCE, entry.entity.entityId)
        for entry, holder in zip(children, holders)
    ]
    memory = live_values(engine, measured, [codes.MEMORY_TOTAL])
    uuids = _mig_uuids()
    found: dict[int, list[Sampled]] = {}
    for entry, holder, entity in zip(children, holders, measured):
        if holder not in parents or parents[holder].parent.entityId not in devices:
            continue
        gpu = parents[holder].parent.entityId
        whole, numbers = devices[gpu], (entry.info.nvmlInstanceId, entry.info.nvmlComputeInstanceId)
        total = memory.get(entity, {}).get(codes.MEMORY_TOTAL)
        name = f"MIG-{whole.uuid}/{numbers[0]}/{numbers[1]}"
        device = whole._replace(
            uuid=uuids.get((whole.uuid, *numbers)) or name,
            memory_total=None if total is None else total * _MIB,
            power_limit=None,
            mig=f"GI {numbers[0]} CI {numbers[1]}",
        )
        found.setdefault(gpu, []).append(Sampled(device, whole.uuid, gpu, entity, name))
    return found


def _mig_uuids() -> dict[tuple[str, int, int], str]:
    """Return the UUIDs of the MIG devices that this process can see, by UUID of the GPU, GPU instance and compute
    instance: DCGM does not tell them. Empty without NVIDIA's library: then older drivers' names, made of these three,
    are used."""
    import pynvml

    from gssr.backends.driver import ask, start, stop

    uuids: dict[tuple[str, int, int], str] = {}
    try:
        start()
    except UnusableError:
        return uuids
    for index in range(ask(pynvml.nvmlDeviceGetCount) or 0):
        whole = ask(pynvml.nvmlDeviceGetHandleByIndex, index)
        for number in range((whole and ask(pynvml.nvmlDeviceGetMaxMigDeviceCount, whole)) or 0):
            mig = ask(pynvml.nvmlDeviceGetMigDeviceHandleByIndex, whole, number)
            if mig:
                instance = ask(pynvml.nvmlDeviceGetGpuInstanceId, mig), ask(pynvml.nvmlDeviceGetComputeInstanceId, mig)
                uuids[(ask(pynvml.nvmlDeviceGetUUID, whole), *instance)] = ask(pynvml.nvmlDeviceGetUUID, mig)
    stop()
    return uuids


def choose_mine(found: Sequence[Sampled], visible: Sequence[str] | None) -> tuple[list[Sampled], list[str]]:
    """Choose from ``found`` the GPUs that this process may use and its launcher gives it (``visible``: as
    gssr.launch.gpu_ids returns them). Returns them, and remarks for the user. If NVIDIA's library cannot be used here,
    indices are taken for the hostengine's own. Raises BackendError if there is none."""
    from gssr.backends import driver

    try:
        driver.start()
    except UnusableError:
        return _by_hostengine(found, visible)
    try:
        seen, remarks = driver.visible_gpus(visible)
    finally:
        driver.stop()
    devices = {gpu.device.uuid: gpu.device for gpu in seen}
    mine = [each._replace(device=devices[each.device.uuid]) for each in found if each.device.uuid in devices]
    if not mine:
        there = ", ".join(each.device.uuid for each in found) or "none"
        raise DcgmError(
            f"DCGM's hostengine has none of this process's GPUs ({', '.join(devices) or 'none'}), it has: {there}",
            "see that DCGM_HOST names this node, and restart a hostengine that is older than its GPUs or MIG instances",
        )
    absent = [uuid for uuid in devices if uuid not in {each.device.uuid for each in mine}]
    if absent:
        remarks.append(f"not known to DCGM's hostengine: {', '.join(absent)}")
    return mine, remarks


def _by_hostengine(found: Sequence[Sampled], visible: Sequence[str] | None) -> tuple[list[Sampled], list[str]]:
    """Choose from ``found`` the GPUs that ``visible`` names, by the hostengine's own indices and UUIDs (None: all).
    Returns them, and remarks for the user. Raises DcgmError if ``found`` is empty or the launcher gives this process no
    GPU, and BackendError if none has one of the UUIDs."""
    if not found:
        raise DcgmError("DCGM's hostengine has no GPU", "see that NVIDIA's driver runs on its machine, and restart it")
    positions, remark = choose([(each.device, each.gpu_uuid) for each in found], visible)
    if not positions:
        raise DcgmError("the launcher gives this process no GPU", "ask it for some")
    remarks = [remark] if remark else []
    if visible is not None and any(name.isdigit() for name in visible):
        remarks.append(
            "NVIDIA's library can't be used in this process, so the launcher's GPU indices are taken for the hostengine's"
        )
    return [found[position] for position in positions], remarks
