"""A real Prometheus, of Debian's package."""

import json
import socket
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_NO_PROXY = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def make_blocks(folder: Path, text: str) -> None:
    """Turn a file of OpenMetrics in the folder into the data that the server there has."""
    make = ["promtool", "tsdb", "create-blocks-from", "openmetrics", text, "data"]
    subprocess.run(make, cwd=folder, check=True, timeout=60, capture_output=True)


@contextmanager
def running(folder: Path, config: str = "") -> Iterator[str]:
    """The address of a server that keeps its data in the folder, while the block runs."""
    (folder / "prometheus.yml").write_text(config)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    own = f"127.0.0.1:{port}"
    command = ["prometheus", "--config.file=prometheus.yml", "--storage.tsdb.path=data", f"--web.listen-address={own}",
               "--storage.tsdb.retention.time=100y"]  # fmt: skip
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)
    try:
        for _ in range(600):
            try:
                with _NO_PROXY.open(f"http://{own}/-/ready", timeout=5):
                    break
            except OSError:
                assert process.poll() is None, (folder / "log").read_text()
                time.sleep(0.05)
        yield f"http://{own}"
    finally:
        process.kill()
        process.wait()


def ask(server: str, what: str, **parameters: Any) -> Any:
    """What ``/api/v1/WHAT`` answers: its ``data``."""
    query = urllib.parse.urlencode(parameters)
    try:
        with _NO_PROXY.open(f"{server}/api/v1/{what}?{query}", timeout=30) as answer:
            found = json.load(answer)
    except urllib.error.HTTPError as error:
        raise AssertionError(f"{parameters}: {error.read().decode()}") from None
    assert found["status"] == "success", found
    return found["data"]
