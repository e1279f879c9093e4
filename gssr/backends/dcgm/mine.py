"""Which of a hostengine's GPUs are this process's.

The hostengine sees all of the node's GPUs, other jobs' included. What is this process's, the driver tells it here, inside
its cgroup or container; the two are joined by UUID.
"""

from collections.abc import Sequence

from gssr.backends.choose import Seen, choose
from gssr.backends.dcgm.entities import Found
from gssr.backends.dcgm.errors import DcgmError


def choose_mine(found: Sequence[Found], visible: Sequence[str] | None) -> tuple[list[Found], list[str]]:
    """Those of ``found`` that this process may use and its launcher gives it (``visible``: gssr.launch.gpu_ids), and lines
    to be said. Where NVIDIA's library can't be used here, the hostengine's own indices have to do. Raises BackendError
    when there is none."""
    from gssr.backends import driver

    try:
        driver.start()
    except driver.DriverError:
        return _by_hostengine(found, visible)
    try:
        seen, remarks = driver.chosen(visible)
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


def _by_hostengine(found: Sequence[Found], visible: Sequence[str] | None) -> tuple[list[Found], list[str]]:
    if not found:
        raise DcgmError("DCGM's hostengine has no GPU", "see that NVIDIA's driver runs on its machine, and restart it")
    seen = [Seen(each.device.device_index, each.gpu_uuid, each.device.uuid) for each in found]
    choice = choose(seen, visible)
    if not choice.positions:
        raise DcgmError("the launcher gives this process no GPU", "ask it for some")
    remarks = [choice.remark] if choice.remark else []
    if visible is not None and any(name.isdigit() for name in visible):
        remarks.append(
            "NVIDIA's library can't be used in this process, so the launcher's GPU indices are taken for the hostengine's"
        )
    return [found[position] for position in choice.positions], remarks
