"""``python -m fakedcgm ADDRESS``: the hostengine as a process, on a unix socket (a path) or a port of 127.0.0.1."""

import json
import os
import socketserver
import struct
import sys
import threading
import time
from typing import Any

from fakedcgm.engine import HostEngine
from fakedcgm.messages import answer

FRAME = struct.Struct("<IIiii")  # magic, request, length, type, status
MAGIC = 0xADBCBCAD

_lock = threading.Lock()


class _Knobs:
    """The control file, read again when it changes."""

    def __init__(self) -> None:
        self.path = os.environ.get("FAKEDCGM_CONTROL", "")
        self._seen = 0

    def read(self) -> dict[str, Any]:
        try:
            changed = os.stat(self.path).st_mtime_ns
            if changed == self._seen:
                return {}
            self._seen = changed
            with open(self.path) as stream:
                return dict(json.load(stream))
        except (OSError, ValueError):
            return {}


KNOBS = _Knobs()
ENGINE = HostEngine(time.time, **KNOBS.read())


def _log() -> None:
    path = os.environ.get("FAKEDCGM_LOG")
    if path and ENGINE.log:
        with open(path, "a") as stream:
            stream.writelines(json.dumps(entry) + "\n" for entry in ENGINE.log)
    ENGINE.log.clear()
    ENGINE.calls.clear()


class _Client(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        client = id(self)
        stream = self.request.makefile("rb")
        try:
            while len(head := stream.read(FRAME.size)) == FRAME.size:
                _, request, length, kind, _ = FRAME.unpack(head)
                status, data = self._answer(client, stream.read(length))
                self.request.sendall(FRAME.pack(MAGIC, request, len(data), kind, status) + data)
        except OSError:
            pass  # the client died
        with _lock:
            ENGINE.forget(client)
            _log()

    def _answer(self, client: int, message: bytes) -> tuple[int, bytes]:
        with _lock:
            now = ENGINE.now()
            wait = ENGINE.runs_at(now) - now
        time.sleep(wait / 1e6)
        while True:
            with _lock:
                ENGINE.knobs |= KNOBS.read()
                if not ENGINE.knobs["hang"]:
                    ENGINE.be_alive()
                    status, data = answer(ENGINE, client, message)
                    _log()
                    return status, data
            time.sleep(0.02)


def _be_alive() -> None:
    while True:
        time.sleep(0.1)
        with _lock:
            ENGINE.be_alive()


def main(address: str) -> None:
    time.sleep(ENGINE.knobs["start"])
    threading.Thread(target=_be_alive, daemon=True).start()
    kind = socketserver.ThreadingTCPServer if address.isdigit() else socketserver.ThreadingUnixStreamServer
    kind.daemon_threads = kind.allow_reuse_address = True
    with kind(("127.0.0.1", int(address)) if address.isdigit() else address, _Client) as server:
        server.serve_forever()


if __name__ == "__main__":
    main(sys.argv[1])
