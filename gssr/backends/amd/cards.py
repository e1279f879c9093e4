"""The AMD GPUs of this machine, as the amdgpu driver shows them in sysfs, and which of them are this process's.

Every GPU of the node is shown to everybody. A process may use those whose render node it can open: a job's device cgroup
goes by that, and KFD, on which HIP rests. HIP and ROCr number the GPUs in the order of KFD's nodes, and so does GSSR.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from errno import EACCES, ENOENT, EPERM
from typing import NamedTuple

from gssr import launch
from gssr.backends.amd.gpu_metrics import MOST_BYTES, MetricsReading, revision_of, table_of
from gssr.backends.base import Device, UnusableError
from gssr.backends.choose import choose

ROOT = "GSSR_AMD_ROOT"
"""The variable that names a folder in place of ``/``, for tests."""
NONE_SHOWN = "AMD's driver, amdgpu, shows no GPU with gpu_metrics"
_AMD, _INTEL = "0x1002", "0x8086"
_NAMES = {
    "0x7408": "MI250X", "0x740c": "MI250X", "0x740f": "MI210", "0x74a0": "MI300A", "0x74a1": "MI300X", "0x74a2": "MI308X",
    "0x74a5": "MI325X", "0x75a0": "MI350X", "0x75a3": "MI355X",
}  # fmt: skip
"""By PCI device id. Source: libdrm's amdgpu.ids. What the board calls itself is often of another form, or empty."""
_MI250_UNITS = 104
"""Of one of its dies: MI250X has 110, and may have the same id."""
_ADDRESS = re.compile(r"[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_CARD, _RENDER = re.compile(r"card\d+"), re.compile(r"renderD(\d+)")
_REFUSED = (EPERM, EACCES, ENOENT)
_ACCELERATOR = "AMD Instinct"
_WHOLE = "SPX"
_ASK = "ask for GPUs when the job is submitted"
_OF_TWO_DIES = ("gfx90a", None)
_INTEGRATED = ("revision 2.", "revision 3.")
"""Tables of the graphics in a processor, which measure other things."""


class Card(NamedTuple):
    """A GPU as sysfs shows it: of an MI250X one of its two dies, of an MI300 that is split into partitions all of it.

    ``path`` is its folder, ``address`` its PCI address, ``renders`` the numbers of its render nodes, ``orders`` its
    places among KFD's GPUs, ``kfd_ids`` what KFD calls it. ``reading`` is its first, None where its table can't be
    read. ``unknown`` says then of which form the table is; it is "" where the table could be read, and where there was
    none.
    """

    device: Device
    path: str
    address: str
    renders: tuple[int, ...]
    orders: tuple[int, ...]
    kfd_ids: tuple[str, ...]
    shares_memory: bool
    reading: MetricsReading | None
    unknown: str

    @property
    def is_mi300(self) -> bool:
        """True for an MI300 or MI350: its memory activity is one of bandwidth, and its links are counted."""
        return (self.device.compute_capability or "").startswith(("gfx94", "gfx95"))

    @property
    def is_integrated(self) -> bool:
        """True for the graphics in a processor, of which nothing is measured."""
        return self.unknown.startswith(_INTEGRATED) and not (self.device.name or "").startswith(_ACCELERATOR)

    @property
    def is_second_die(self) -> bool:
        """True for the die of a card whose power and energy the card's other die tells; its own table says 0 of both."""
        reading = self.reading
        dies = self.device.compute_capability in _OF_TWO_DIES
        return dies and reading is not None and reading.energy == 0 and not reading.power


def path(name: str) -> str:
    """Return the path of a file of the system, ``name`` without the leading slash: below ``/``, or below the folder
    that the variable ROOT names."""
    return os.path.join(os.environ.get(ROOT) or "/", name)


def text(name: str) -> str | None:
    """Read what a file holds, without the white space and zero bytes around it; None where it can't be read."""
    try:
        with open(name, encoding="ascii", errors="replace") as stream:
            return stream.read(MOST_BYTES).strip("\0 \n")
    except OSError:
        return None


def number(name: str) -> int | None:
    """Read the number, of 18 digits at most, with which a file begins; None where it can't be read or begins with none."""
    found = re.match(r"\d{1,18}(?!\S)", text(name) or "", re.ASCII)
    return int(found[0]) if found else None


def find_cards() -> list[Card]:
    """Find every AMD GPU that has a ``gpu_metrics`` file, in the order in which the kernel driver KFD, and so HIP,
    numbers them. Those that KFD doesn't show fill the places that are free, by ascending PCI address. Integrated
    graphics are left out where there are other GPUs.

    Returns the cards, each with its index in this list as ``device_index``; [] if there is none. Whether this process
    may use them is not looked at: see ``usable_cards``.
    """
    drm = path("sys/class/drm")
    try:
        names = os.listdir(drm)
    except OSError:
        return []
    folders = {
        os.path.realpath(os.path.join(drm, name, "device")): os.path.join(drm, name, "device")
        for name in sorted(names, reverse=True)
        if _CARD.fullmatch(name)
    }
    renders: dict[str, list[int]] = {}
    for name in names:
        match = _RENDER.fullmatch(name)
        if match:
            renders.setdefault(os.path.realpath(os.path.join(drm, name, "device")), []).append(int(match[1]))
    amds = [
        (real, folder)
        for real, folder in folders.items()
        if text(f"{folder}/vendor") == _AMD and os.path.exists(f"{folder}/gpu_metrics")
    ]
    nodes = _nodes()
    cards = sorted(
        (_read_card(real, folder, renders.get(real, []), nodes) for real, folder in amds), key=lambda c: c.address
    )
    cards = _placed([card for card in cards if not card.is_integrated] or cards, len(nodes))
    return [card._replace(device=card.device._replace(device_index=index)) for index, card in enumerate(cards)]


def n_intels() -> int:
    """Count Intel's GPUs that the machine shows."""
    drm = path("sys/class/drm")
    try:
        names = [name for name in os.listdir(drm) if _CARD.fullmatch(name)]
    except OSError:
        return 0
    return sum(text(f"{drm}/{name}/device/vendor") == _INTEL for name in names)


def _nodes() -> list[tuple[str, dict[str, int]]]:
    """List KFD's GPUs in its order: the id by which KFD's folders name each, and its properties by name. A GPU of
    another job is there as ("", {}). CPUs are left out; [] where there is no KFD."""
    folder = path("sys/class/kfd/kfd/topology/nodes")
    try:
        names = sorted((name for name in os.listdir(folder) if name.isdigit()), key=int)
    except OSError:
        return []
    nodes: list[tuple[str, dict[str, int]]] = []
    for name in names:
        try:
            with open(f"{folder}/{name}/properties", encoding="ascii", errors="replace") as stream:
                words = [line.split() for line in stream]
        except OSError:
            nodes.append(("", {}))
            continue
        told = {
            pair[0]: int(pair[1])
            for pair in words
            if len(pair) == 2 and pair[1].isdigit() and len(pair[1]) <= (20 if pair[0] == "unique_id" else 9)
        }
        if told.get("simd_count"):
            nodes.append((text(f"{folder}/{name}/gpu_id") or "", told))
    return nodes


def _read_card(real: str, folder: str, renders: Sequence[int], nodes: Sequence[tuple[str, Mapping[str, int]]]) -> Card:
    """Read what sysfs and KFD say about one GPU. What cannot be read is None in ``device``, whose name is then "AMD GPU"
    and whose UUID is made of the PCI address. Its index is 0, and left to the caller. A GPU that KFD does not show has
    no ``orders``.

    Args:
        real: The GPU's folder in sysfs without links, which is named by its PCI address.
        folder: The same folder by the name of its card, ``.../card0/device``.
        renders: The numbers of its render nodes.
        nodes: KFD's GPUs, as ``_nodes`` returns them. Those with one of ``renders`` are this GPU, and so are all that
            have the same unique id: the partitions of a GPU that is split. If none has one of ``renders``, the unique id
            in sysfs decides.
    """
    kfd_ids, properties = [kfd_id for kfd_id, _ in nodes], [node for _, node in nodes]
    told_id = re.fullmatch("(?:0x)?([0-9a-f]{1,16})", (text(f"{folder}/unique_id") or "").lower())
    unique = int(told_id[1], 16) if told_id else 0
    own = [place for place, node in enumerate(properties) if node.get("drm_render_minor") in renders]
    ids = {properties[place].get("unique_id") for place in own} - {0, None}
    if not own and unique:
        ids = {unique}
    own += [place for place, node in enumerate(properties) if node.get("unique_id") in ids and place not in own]
    told = properties[own[0]] if own else {}
    minors = {*renders, *(properties[place].get("drm_render_minor", 0) for place in own)} - {0}
    found = _ADDRESS.fullmatch(os.path.basename(real))
    address = found[0] if found else os.path.basename(os.path.dirname(folder))
    partition = text(f"{folder}/current_compute_partition")
    name = _NAMES.get(text(f"{folder}/device") or "")
    units = sum(_compute_units(properties[place]) for place in own) or None
    if name == "MI250X" and units == _MI250_UNITS:
        name = "MI250"
    shares_memory = name == "MI300A"
    total, system = number(f"{folder}/mem_info_vram_total"), number(f"{folder}/mem_info_gtt_total")
    reading, unknown = _first_reading(folder)
    return Card(
        Device(
            device_index=0,
            uuid=f"GPU-{unique:016x}" if unique else f"PCI-{address}",
            name=f"{_ACCELERATOR} {name}" if name else text(f"{folder}/product_name") or "AMD GPU",
            memory_total=max(total or 0, system or 0) or None if shares_memory else total,
            power_limit=_read_power_limit(folder),
            sm_count=units,
            max_sm_clock=told.get("max_engine_clk_fcompute") or None,
            compute_capability=_target(told.get("gfx_target_version", 0)),
            driver_version=text(path("sys/module/amdgpu/version")),
            mig="/".join(part for part in (partition, text(f"{folder}/current_memory_partition")) if part)
            if partition and partition != _WHOLE
            else None,
        ),
        folder, address, tuple(sorted(minors)), tuple(own), tuple(kfd_ids[place] for place in own), shares_memory,
        reading, unknown,
    )  # fmt: skip


def _first_reading(folder: str) -> tuple[MetricsReading | None, str]:
    """Read a GPU's gpu_metrics table. Returns None and the form of the table if that is unknown; None
    and "" if the file can't be read."""
    try:
        with open(f"{folder}/gpu_metrics", "rb", buffering=0) as stream:
            data = bytearray(stream.read(MOST_BYTES))
    except OSError:
        return None, ""
    table = table_of(data, len(data))
    reading = None if table is None else table.read(data)
    return reading, "" if reading is not None else revision_of(data, len(data))


def _placed(cards: Sequence[Card], n_nodes: int) -> list[Card]:
    """Sort the cards in KFD's order, of which ``n_nodes`` places are KFD's own GPUs. Cards that KFD doesn't show get
    places that are left, in the order of ``cards``, and are returned with these in ``orders``."""
    taken = {place for card in cards for place in card.orders}
    left = iter([place for place in range(n_nodes + len(cards)) if place not in taken])
    placed = [card if card.orders else card._replace(orders=(next(left),)) for card in cards]
    return sorted(placed, key=lambda card: card.orders)


def _read_power_limit(folder: str) -> float | None:
    """Read a GPU's power limit in W from the ``hwmon`` folders below ``folder``: the first that is not 0. None if there
    is none or it can't be read."""
    try:
        names = sorted(os.listdir(f"{folder}/hwmon"))
    except OSError:
        return None
    limits = (number(f"{folder}/hwmon/{name}/power1_cap") for name in names)
    return next((limit / 1e6 for limit in limits if limit), None)  # a second die says 0


def _compute_units(told: Mapping[str, int]) -> int:
    return told.get("simd_count", 0) // (told.get("simd_per_cu") or 4)


def _target(version: int) -> str | None:
    """Name the target of a gfx_target_version, as ``gfx942`` for 90402; None for 0."""
    return f"gfx{version // 10000}{version // 100 % 100:x}{version % 100:x}" if version else None


def refusal(card: Card) -> str:
    """Say why none of the card's render nodes can be opened; "" where one can."""
    why = "it has no render node"
    for minor in card.renders:
        name = path(f"dev/dri/renderD{minor}")
        try:
            os.close(os.open(name, os.O_RDWR | os.O_CLOEXEC))
            return ""
        except OSError as error:
            if error.errno not in _REFUSED:
                return ""  # it is ours, though it may be broken
            why = f"{name}: {error.strerror}"
    return why


def usable_cards(visible: Sequence[str] | None) -> tuple[list[Card], list[Card], list[str]]:
    """Find the GPUs of this process. Returns this process's, all of the node, and sentences about what is not as one
    might expect. ``visible``: gssr.launch.gpu_ids. Raises BackendError when this process has none."""
    cards = find_cards()
    if not cards:
        raise UnusableError(NONE_SHOWN, "run on a node with AMD GPUs")
    refused = [refusal(card) for card in cards]
    opened = [card for card, why in zip(cards, refused) if not why]
    if not opened:
        what = f"none of the node's {len(cards)} AMD GPUs may be used by this process ({refused[0]})"
        raise UnusableError(what, f"{_ASK}; on a machine without jobs, join the groups video and render")
    shown = sorted((order, card.device.uuid) for card in opened for order in card.orders)
    names, remarks = _in_kfds_order([order for order, _ in shown], cards, visible)
    positions, remark = choose([(Device(order, uuid), uuid) for order, uuid in shown], names)
    remarks += filter(None, (remark,))
    if not positions:
        raise UnusableError("the launcher gives this process none of the node's AMD GPUs", _ASK)
    chosen = {shown[position][1] for position in positions}
    return [card for card in opened if card.device.uuid in chosen], cards, remarks


def _in_kfds_order(
    mine: Sequence[int], cards: Sequence[Card], visible: Sequence[str] | None
) -> tuple[Sequence[str] | None, list[str]]:
    """Convert the ids in ``visible`` to places among KFD's GPUs where they are indices that count something else:
    Slurm's count the render nodes, the runtime's what the process may open. ``mine``: the places of the GPUs that this
    process may open.

    Returns the ids to choose by (None: all that may be opened), and sentences about what was assumed.
    """
    if visible is None:
        return None, []
    if not all(name.isdigit() for name in visible):
        return [name if name.isdigit() else f"GPU-{name[4:].lower()}" for name in visible], []
    wanted = {int(name) for name in visible}
    if not wanted or len(wanted) >= len(mine):
        return visible, []
    if launch.gpu_ids_are_slurms():
        nodes = sorted(pair for card in cards for pair in zip(card.renders, card.orders))
        return [str(order) for index, (_, order) in enumerate(nodes) if index in wanted] or visible, []
    as_nodes, as_own = wanted.issubset(mine), max(wanted) < len(mine)
    own = [mine[index] for index in sorted(wanted)] if as_own else []
    if as_own and (not as_nodes or own == sorted(wanted)):
        told = f"{', '.join(visible)} taken to count the {len(mine)} GPUs that may be opened here, as HIP does"
        return [str(order) for order in own], [f"{told}: no launcher says so"]
    if as_own:
        told = f"{', '.join(visible)} may be the node's numbers of GPUs or this process's own"
        return None, [f"{told}: all {len(mine)} that may be opened here are sampled"]
    return visible, []


def first_dies(cards: Sequence[Card]) -> dict[str, Card | None]:
    """Find the first die of each card's second die, which tells power and energy of both. Returns it by the second
    die's UUID; None where it isn't shown. The two are neighbours by address."""
    dies = sorted(cards, key=lambda card: card.address)
    pairs: dict[str, Card | None] = {}
    for place, card in enumerate(dies):
        if card.is_second_die:
            other = dies[place ^ 1] if place ^ 1 < len(dies) else None
            pairs[card.device.uuid] = None if other is None or other.is_second_die else other
    return pairs
