"""Where the hostengine is: DCGM_HOST, else this machine's usual port."""

import os
import socket
from collections.abc import Mapping
from typing import Literal, NamedTuple

PORT = 5555
UNIX_PREFIX = "unix://"
_PROBE_SECONDS = 1.0


class Address(NamedTuple):
    """A hostengine's address. ``named``: the user named it in DCGM_HOST; with ``unix``, ``host`` is a socket's path."""

    host: str
    port: int
    unix: bool
    named: bool

    def __str__(self) -> str:
        if self.unix:
            return UNIX_PREFIX + self.host
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def address_of(environ: Mapping[str, str] = os.environ) -> Address:
    """The address in DCGM_HOST (``host``, ``host:port``, ``[IPv6]:port`` or ``unix:///path``), else localhost:5555."""
    text = environ.get("DCGM_HOST", "").strip()
    if not text:
        return Address("127.0.0.1", PORT, False, False)
    if text.startswith(UNIX_PREFIX):
        return Address(text[len(UNIX_PREFIX) :], 0, True, True)
    host, colon, port = text.rpartition(":")
    if not colon or not _is_port(port) or (":" in host and not host.startswith("[")):
        return Address(text.strip("[]"), PORT, False, True)
    return Address(host.strip("[]"), int(port), False, True)


def _is_port(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 5 and int(text) < 1 << 16


def probe(address: Address) -> Literal["listens", "silent", "forbidden"]:
    """Does anything listen there? It connects and hangs up, and takes a second at most."""
    try:
        if address.unix:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
                client.settimeout(_PROBE_SECONDS)
                client.connect(address.host)
        else:
            socket.create_connection((address.host, address.port), _PROBE_SECONDS).close()
    except PermissionError:
        return "forbidden"
    except (OSError, UnicodeError):  # or a name that no host can have
        return "silent"
    return "listens"
