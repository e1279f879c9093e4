"""Messages as DCGM sends them: a header, then the arguments, with room for the answer in the same message.

The numbers of commands, the versions (size and number in one) and the places of what a message holds are those of 3.3.9 and
4.6.0. An engine refuses a command it has not with -20, and a message of another version with -12.
"""

import struct
from collections.abc import Callable, Sequence
from typing import Any

from fakedcgm.engine import HostEngine, Refused, Value

FUNCTION_NOT_FOUND, VER_MISMATCH, BADPARAM = -20, -12, -1
LARGEST = 4 * 1024 * 1024
SAMPLES_BUFFER = 4186112
CORE, PROFILING = 0, 8

HEADER = struct.Struct("<6I")  # length, module, command, connection, request, version
_PACKED = struct.Struct("<HBBbBHqII")  # how a value travels, before the value itself
_INT, _DOUBLE = struct.Struct("<q"), struct.Struct("<d")


def pack(values: Sequence[Value]) -> bytes:
    """Values as they travel."""
    parts = []
    for group, entity, field, kind, status, stamp, content in values:
        if kind == ord("d"):
            data = _DOUBLE.pack(content)
        elif kind == ord("i"):
            data = _INT.pack(content)
        else:
            data = str(content).encode() + b"\0"
        parts.append(_PACKED.pack(24 + len(data), 1, kind, status, group, field, stamp, entity, 0) + data)
    return b"".join(parts)


class Message:
    """One request, to be turned into its answer. Places are counted after the header."""

    def __init__(self, data: bytearray, length: int) -> None:
        self.data = data
        self.length = length

    def get(self, form: str, place: int) -> Any:
        """One number."""
        return struct.unpack_from("<" + form, self.data, HEADER.size + place)[0]

    def get_all(self, form: str, place: int) -> tuple[Any, ...]:
        return struct.unpack_from("<" + form, self.data, HEADER.size + place)

    def put(self, form: str, place: int, *values: Any) -> None:
        struct.pack_into("<" + form, self.data, HEADER.size + place, *values)

    def text(self, place: int, size: int) -> str:
        return bytes(self.data[HEADER.size + place : HEADER.size + place + size]).split(b"\0")[0].decode()

    def end(self, length: int) -> None:
        """The answer is this long."""
        self.length = length
        struct.pack_into("<I", self.data, 0, length)


def _devices(engine: HostEngine, client: int, message: Message) -> None:
    ids = engine.request(client, "devices", ())
    message.put(f"{len(ids)}I", 4, *ids)
    message.put("ii", 132, len(ids), 0)


def _version(engine: HostEngine, client: int, message: Message) -> None:
    version = engine.request(client, "version", ())
    message.put("512s", 4, f"version:{version};arch:x86_64;buildtype:Release".encode())


def _login(_engine: HostEngine, _client: int, message: Message) -> None:
    message.put("i", 4, 0)


def _hierarchy(engine: HostEngine, client: int, message: Message) -> None:
    entries = engine.request(client, "hierarchy", ())
    message.put("I", 4, len(entries))
    for number, (kind, own, parent_kind, parent, instance, compute) in enumerate(entries):
        place = 8 + 164 * number
        message.put("4I", place, kind, own, parent_kind, parent)
        message.put("128s5I", place + 16, engine.uuid((kind, own))[0].encode(), own // 8, instance, compute, 0, 1)
    message.put("i", 73480, 0)


def _group_create(engine: HostEngine, client: int, message: Message) -> None:
    group = engine.request(client, "group_create", (message.get("i", 0), message.text(4, 1024)))
    message.put("Qi", 1032, group, 0)


def _group_add(engine: HostEngine, client: int, message: Message) -> None:
    engine.request(client, "group_add", message.get_all("III", 0))


def _group_destroy(engine: HostEngine, client: int, message: Message) -> None:
    engine.request(client, "group_destroy", (message.get("I", 0),))


def _group_info(most: int) -> "Command":
    def run(engine: HostEngine, client: int, message: Message) -> None:
        now, name, entities = engine.request(client, "group_info", (message.get("I", 0),))
        message.put("I256s", 8, len(entities), name.encode())
        message.put(f"{2 * len(entities)}I", 268, *(number for entity in entities for number in entity))
        message.put("qi", (268 + 8 * most + 7) // 8 * 8, now, 0)

    return run


def _fields_create(engine: HostEngine, client: int, message: Message) -> None:
    fields = message.get_all(f"{min(message.get('I', 4), 128)}H", 272)
    message.put("Q", 8, engine.request(client, "fields_create", (list(fields), message.text(16, 256))))


def _fields_destroy(engine: HostEngine, client: int, message: Message) -> None:
    engine.request(client, "fields_destroy", (message.get("Q", 8),))


def _fields_info(engine: HostEngine, client: int, message: Message) -> None:
    name, fields = engine.request(client, "fields_info", (message.get("Q", 8),))
    message.put("I", 4, len(fields))
    message.put(f"256s{len(fields)}H", 16, name.encode(), *fields)


def _watch(engine: HostEngine, client: int, message: Message) -> None:
    engine.request(client, "watch", message.get_all("IIqdi", 0))


def _unwatch(engine: HostEngine, client: int, message: Message) -> None:
    engine.request(client, "unwatch", message.get_all("II", 0))


def _update_all(engine: HostEngine, client: int, _message: Message) -> None:
    engine.request(client, "update_all", ())


def _metric_groups(engine: HostEngine, client: int, message: Message) -> None:
    groups = engine.request(client, "supported", (message.get("I", 8),))
    message.put("I", 12, len(groups))
    for number, (major, fields) in enumerate(groups):
        message.put(f"HHI{len(fields)}H", 16 + 136 * number, major, 0, len(fields), *fields)


def _pause(engine: HostEngine, client: int, message: Message) -> None:
    engine.request(client, "pause", (bool(message.get("B", 0)),))


def _latest(most: int) -> "Command":
    counts = 4 + 8 * most  # where the count of entities is

    def run(engine: HostEngine, client: int, message: Message) -> None:
        head = HEADER.size + counts + 280
        group, count = message.get("I", 0), message.get("I", counts)
        field_group, field_count, flags = message.get("I", counts + 4), *message.get_all("II", counts + 264)
        if count > most or field_count > 128:
            raise Refused(BADPARAM)
        numbers = message.get_all(f"{2 * count}I", 4)
        entities = list(zip(numbers[::2], numbers[1::2], strict=True)) or engine.group_info(client, group)[2]
        fields = list(message.get_all(f"{field_count}H", counts + 8)) or engine.fields_info(client, field_group)[1]
        data = pack(engine.request(client, "latest_live" if flags & 1 else "latest", (entities, fields)))
        message.put("iI", counts + 272, 0, len(data))
        message.data[head : head + len(data)] = data
        message.end(head + len(data))

    return run


def _multiple(engine: HostEngine, client: int, message: Message) -> None:
    head = HEADER.size + 48
    kind, own, field = message.get_all("III", 0)
    start, end = message.get_all("qq", 16)
    data = pack(engine.request(client, "samples", ((kind, own), field, start, end)))
    message.put("IiI", 36, len(data) // 32, 0, len(data))
    message.data[head : head + len(data)] = data
    message.end(head + len(data))


Command = Callable[[HostEngine, int, Message], None]


class Known:
    """A command an engine has: what it does, the version of its message, where the result goes (-1: to the header)."""

    def __init__(self, run: Command, size: int, number: int, result: int, head: int = 0) -> None:
        self.run = run
        self.size = size
        self.version = size | number << 24
        self.result = result
        self.head = head  # length of an answer without values; 0: the whole message


def _commands(major: int) -> dict[tuple[int, int], Known]:
    entities = 1024 if major >= 4 else 64
    info_end = (268 + 8 * entities + 7) // 8 * 8
    known = {
        10: Known(_version, 540, 1, -1),
        11: Known(_group_create, 1072, 1, 1040),
        13: Known(_group_destroy, 32, 1, 4),
        16: Known(_group_info(entities), HEADER.size + info_end + 16, 2 if major >= 4 else 1, info_end + 8),
        25: Known(_update_all, 32, 1, 4),
        29: Known(_watch, 56, 1, 28),
        30: Known(_unwatch, 56, 1, 28),
        34: Known(_devices, 164, 1, 136),
        35: Known(_group_add, 40, 1, 12),
        36: Known(_login, 32, 1, 4),
        38: Known(_fields_create, 560, 1, 528),
        39: Known(_fields_destroy, 560, 1, 528),
        40: Known(_fields_info, 560, 1, 528),
        50: Known(_hierarchy, 73508, 1, 73480),
        51: Known(_metric_groups, 1400, 1, -1),
        52: Known(_latest(64), 820 + SAMPLES_BUFFER, 2, 788, 820),
        54: Known(_multiple, 72 + SAMPLES_BUFFER, 2, 40, 72),
    }
    if major >= 4:
        known[79] = Known(_latest(1024), LARGEST, 4, 8468, 8500)
    return {(CORE, number): command for number, command in known.items()} | {(PROFILING, 4): Known(_pause, 28, 1, -1)}


COMMANDS = {major: _commands(major) for major in (3, 4)}


_ZEROS = bytes(LARGEST)
_room = bytearray(LARGEST)


def answer(engine: HostEngine, client: int, data: bytes, room: bool = True) -> tuple[int, bytes]:
    """The status of the whole message, and the message with what the engine answers.

    ``room``: the message came without the room for an answer. The engine makes it, all of it set to 0, as the real one does.
    To be called by one thread at a time.
    """
    _, module, number, _, _, version = HEADER.unpack_from(data)
    command = COMMANDS[engine.knobs["major"]].get((module, number))
    if command is None:
        return FUNCTION_NOT_FOUND, data
    if version != command.version:
        return VER_MISMATCH, data
    if command.head and room:
        _room[:] = _ZEROS
    _room[: len(data)] = data
    message = Message(_room, len(data))
    status = 0
    try:
        command.run(engine, client, message)
    except Refused as refused:
        if command.head:
            message.end(command.head)
        if command.result < 0:
            status = refused.code
        else:
            message.put("i", command.result, refused.code)
    return status, bytes(memoryview(_room)[: message.length])
