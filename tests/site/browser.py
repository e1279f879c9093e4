"""A browser without a window, spoken to in the DevTools protocol through a pipe: nothing listens on a port.

Messages are JSON, each ended by a zero byte, on the browser's file descriptors 3 and 4. Source of the names: the protocol's
own documentation, domains Target, Page, Runtime and Emulation."""

import base64
import json
import os
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any

ROOT = Path(__file__).parents[2]
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", "--remote-debugging-pipe",
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1", "--disable-background-networking", "--no-first-run",
)  # fmt: skip
"""No name is ever looked up: what a page needs from elsewhere is missing."""
SECONDS = 60.0


class Browser:
    """One page. ``asked``: the addresses of all that it has asked for since the last ``open``; ``errors``: what its scripts
    and the browser complained about."""

    def __init__(self, program: str, folder: Path) -> None:
        to_browser, self._write = os.pipe()
        self._read, from_browser = os.pipe()

        def wire() -> None:  # neither of the two may be closed by the other's place
            one, other = os.dup(to_browser), os.dup(from_browser)
            os.dup2(one, 3)
            os.dup2(other, 4)

        quiet = subprocess.DEVNULL
        self._process = subprocess.Popen(
            [program, *FLAGS, f"--user-data-dir={folder}"], preexec_fn=wire, close_fds=False, stdin=quiet, stdout=quiet,
            stderr=quiet,
        )  # fmt: skip
        os.close(to_browser)
        os.close(from_browser)
        self._number, self._buffer, self._session = 0, b"", ""
        self._events: list[dict[str, Any]] = []
        self.asked: list[str] = []
        self.errors: list[str] = []
        page = self.send("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.send("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.send(f"{domain}.enable")

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """What the browser answers. Raises RuntimeError with its words when it can't."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                result: dict[str, Any] = answer["result"]
                return result

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            data = os.read(self._read, 1 << 20)
            if not data:
                raise RuntimeError("the browser has ended")
            self._buffer += data
        text, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        told = message.get("params", {})
        if message.get("method") == "Network.requestWillBeSent":
            self.asked.append(told["request"]["url"])
        elif message.get("method") == "Runtime.exceptionThrown":
            self.errors.append(told["exceptionDetails"].get("exception", {}).get("description", "an error"))
        elif message.get("method") == "Log.entryAdded" and told["entry"]["level"] == "error":
            self.errors.append(f"{told['entry']['text']} {told['entry'].get('url', '')}")
        return message

    def view(self, width: int, height: int = 800, dark: bool = False) -> None:
        """Pages are this wide from now on, as on a phone below 500 px, and for a reader who likes them dark or light."""
        self.send(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 500
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", media="screen", features=[scheme])

    def open(self, address: str) -> None:
        """Returns when the page and what belongs to it are there."""
        self.asked.clear()
        self.errors.clear()
        self.send("Page.navigate", url=address)
        self.wait(f"document.readyState === 'complete' && location.href.startsWith({json.dumps(address)})")

    def evaluate(self, script: str) -> Any:
        """The value of an expression, or of its promise."""
        found = self.send("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in found:
            raise RuntimeError(f"{script}: {found['exceptionDetails']}")
        return found["result"].get("value")

    def wait(self, script: str) -> Any:
        """The value of an expression, as soon as that is true."""
        deadline = time.monotonic() + SECONDS
        while True:
            try:
                if found := self.evaluate(script):
                    return found
            except RuntimeError as error:  # the page before is gone, the next one is not there yet
                if "context" not in str(error):
                    raise
            assert time.monotonic() < deadline, f"waited in vain for {script}"
            time.sleep(0.05)

    def picture(self, path: Path, whole: bool = False) -> Path:
        """A PNG of what is seen, or of the whole page."""
        found = self.send("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(found["data"]))
        return path

    def __enter__(self) -> "Browser":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._write)
        os.close(self._read)
