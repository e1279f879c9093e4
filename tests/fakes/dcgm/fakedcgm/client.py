"""What the real library does for the bindings: connections, and requests to the engine at their other end."""

import marshal
import os
import socket
import struct
from collections.abc import Callable
from typing import Any

from fakedcgm.engine import HostEngine, Refused

GENERIC_ERROR, CONNECTION_NOT_VALID, NVML_NOT_LOADED = -3, -21, -56
LENGTH = struct.Struct("<I")

EMBEDDED: Callable[[], HostEngine] | None = None
"""Makes the engine of dcgmStartEmbedded; without it there is no driver."""


class Remote:
    """A connection to an engine in another process. Once broken, broken for ever."""

    def __init__(self, address: str, is_path: bool, seconds: float) -> None:
        try:
            if is_path:
                self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
                self._socket.settimeout(seconds)
                self._socket.connect(address)
            else:
                host, _, port = address.rpartition(":")
                self._socket = socket.create_connection((host, int(port)), seconds)
        except OSError:
            raise Refused(CONNECTION_NOT_VALID) from None
        self._socket.settimeout(None)  # the time limit is for connecting only

    def request(self, major: int, name: str, arguments: tuple[Any, ...]) -> Any:
        try:
            send(self._socket, (major, name, arguments))
            answer = receive(self._socket)
        except OSError:
            answer = None
        if answer is None:
            self._socket.close()
            raise Refused(CONNECTION_NOT_VALID)
        code, value = answer
        if code:
            raise Refused(code)
        return value

    def close(self) -> None:
        self._socket.close()


class Embedded:
    """An engine in this process."""

    def __init__(self) -> None:
        if EMBEDDED is None:
            raise Refused(NVML_NOT_LOADED)
        self.engine = EMBEDDED()

    def request(self, major: int, name: str, arguments: tuple[Any, ...]) -> Any:
        if major != self.engine.knobs["major"]:
            raise Refused(GENERIC_ERROR)
        return self.engine.request(0, name, arguments)

    def close(self) -> None:
        self.engine.forget(0)


def send(connection: socket.socket, message: Any) -> None:
    data = marshal.dumps(message)
    connection.sendall(LENGTH.pack(len(data)) + data)


def receive(connection: socket.socket) -> Any:
    """The next message; None when there will be none."""
    head = _exactly(connection, LENGTH.size)
    data = head and _exactly(connection, LENGTH.unpack(head)[0])
    return marshal.loads(data) if data else None


def _exactly(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = connection.recv(size - len(data))
        if not more:
            return b""
        data += more
    return data


def library_is_missing() -> bool:
    """FAKEDCGM_NO_LIBRARY is set: DCGM's library is not installed."""
    return bool(os.environ.get("FAKEDCGM_NO_LIBRARY"))
