"""``python -m fakedcgm ADDRESS``: the hostengine as a process, on a unix socket (a path) or a port of 127.0.0.1."""

import json
import os
import socketserver
import sys
import threading
import time
from typing import Any

from fakedcgm.client import GENERIC_ERROR, receive, send
from fakedcgm.engine import HostEngine, Refused

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


class _Client(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        client = id(self)
        try:
            while (message := receive(self.request)) is not None:
                major, name, arguments = message
                with _lock:
                    ENGINE.knobs |= KNOBS.read()
                    try:
                        if major != ENGINE.knobs["major"]:
                            raise Refused(GENERIC_ERROR)
                        answer = (0, ENGINE.request(client, name, arguments))
                    except Refused as refused:
                        answer = (refused.code, None)
                    _log()
                send(self.request, answer)
        except OSError:
            pass  # the client died
        with _lock:
            ENGINE.forget(client)


def main(address: str) -> None:
    kind = socketserver.ThreadingTCPServer if address.isdigit() else socketserver.ThreadingUnixStreamServer
    kind.daemon_threads = kind.allow_reuse_address = True
    with kind(("127.0.0.1", int(address)) if address.isdigit() else address, _Client) as server:
        server.serve_forever()


if __name__ == "__main__":
    main(sys.argv[1])
