"""A supervised command, for tests: real processes, started through supervise_driver.py."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.waiting import PATIENCE, until

ROOT = Path(__file__).parents[2]
DRIVER = Path(__file__).with_name("supervise_driver.py")


def driver_command(log: Path, options: dict[str, Any], *command: str | bytes) -> list[str | bytes]:
    return [sys.executable, str(DRIVER), str(log), json.dumps(options), *command]


def sampler_of(supervisor: int) -> int:
    """The pid of the sampler that a supervisor started."""

    def found() -> int:
        for child in Path(f"/proc/{supervisor}/task/{supervisor}/children").read_text().split():
            try:
                if Path(f"/proc/{child}/comm").read_text().strip() == "gssr-sampler":
                    return int(child)
            except OSError:
                pass  # it was one that has ended meanwhile
        return 0

    return until(found, "the sampler")


class Log:
    """What the recorder was told."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def calls(self, name: str) -> list[list[Any]]:
        text = self.path.read_text() if self.path.exists() else ""
        return [call[1:] for call in map(json.loads, text.splitlines()) if call[0] == name]

    def workload(self) -> int:
        """Process id of the workload, once it was started."""
        return until(lambda: self.calls("started"), "the workload's start")[0][0]

    def events(self, kind: str) -> list[str]:
        return [message for found, message in self.calls("event") if found == kind]

    def end(self) -> tuple[int, str]:
        ((code, state, _),) = self.calls("ended")
        return code, state


class Supervised:
    """The driver as a process without a terminal, in a session of its own."""

    def __init__(
        self, folder: Path, *command: str | bytes, options: dict[str, Any] | None = None, **popen: Any
    ) -> None:
        self.log = Log(folder / "calls.jsonl")
        popen = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | popen
        self.process = subprocess.Popen(
            driver_command(self.log.path, options or {}, *command), cwd=ROOT, start_new_session=True, **popen
        )

    def result(self) -> tuple[int, str, str]:
        """Exit code, stdout and stderr, when it has ended."""
        out, err = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, (out or b"").decode(), (err or b"").decode()

    def line(self) -> str:
        """The next line of its stdout."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().decode().rstrip("\n")
