"""Which of the driver's GPUs are this process's.

A launcher names GPUs by index or by UUID. Its indices are those of the whole node, while the driver, inside a device cgroup
or a container, may show this process only its own GPUs and number them from 0; CUDA_VISIBLE_DEVICES may restart at 0 as
well. So UUIDs decide wherever there are any, and an index is only believed where it can't mean anything else.
"""

from __future__ import annotations

from collections.abc import Sequence

from gssr.backends.base import BackendError, Device


def choose(gpus: Sequence[tuple[Device, str]], visible: Sequence[str] | None) -> tuple[Sequence[int], str]:
    """Choose the GPUs that ``visible`` names (as gssr.launch.gpu_ids returns it; None: no launcher says); of a GPU in
    MIG mode all instances.

    ``gpus``: each GPU or MIG instance that the driver shows, and the UUID of its whole GPU. Returns positions in this
    list, ascending, () for none, and a remark for the user, "" without. Raises BackendError if UUIDs are named and the
    driver shows none of them.
    """
    if visible is None:
        return range(len(gpus)), ""
    if any(not name.isdigit() for name in visible):
        return _by_uuid(gpus, visible)
    shown = sorted({device.device_index for device, _ in gpus})
    wanted = {int(name) for name in visible}
    if len(wanted) == len(shown) or not wanted:
        return range(len(gpus)) if wanted else (), ""
    if wanted.issubset(shown):
        return [position for position, (device, _) in enumerate(gpus) if device.device_index in wanted], ""
    if len(wanted) > len(shown):
        remark = f"this process was given {len(wanted)} GPUs and the driver shows {len(shown)}"
    else:
        remark = (
            f"the launcher's indices {', '.join(visible)} are none of the driver's (0 to {max(shown, default=0)}): "
            f"all {len(shown)} GPUs it shows are sampled"
        )
    return range(len(gpus)), remark


def _by_uuid(gpus: Sequence[tuple[Device, str]], visible: Sequence[str]) -> tuple[Sequence[int], str]:
    """Choose the GPUs that ``visible`` names by UUIDs, which may be shortened as CUDA allows; the UUID of a GPU means
    all its MIG instances, and an index among them counts too. Returns positions in ``gpus``, ascending, and a remark on
    names that fit no GPU, "" without any. Raises BackendError if no name fits."""
    positions: set[int] = set()
    absent = []
    for name in visible:
        found = [position for position, gpu in enumerate(gpus) if _means(name, *gpu)]
        positions.update(found)
        if not found:
            absent.append(name)
    if not positions:
        there = ", ".join(device.uuid for device, _ in gpus) or "none"
        raise BackendError(f"the driver shows none of this process's GPUs ({', '.join(visible)}); it shows: {there}")
    return sorted(positions), f"not shown by the driver: {', '.join(absent)}" if absent else ""


def _means(name: str, device: Device, gpu_uuid: str) -> bool:
    """Tell whether a launcher's index or (shortened) UUID means this device, or its whole GPU, which has ``gpu_uuid``."""
    if name.isdigit():
        return device.device_index == int(name)
    return device.uuid.startswith(name) or gpu_uuid.startswith(name)
