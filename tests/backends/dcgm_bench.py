"""What the tests of the DCGM backend have in common: the stand-in bindings, virtual time, and an engine as a process."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from tests.waiting import until

FAKE = Path(__file__).parent.parent / "fakes" / "dcgm"
START = 1_700_000_000.0
UUIDS = ["GPU-a", "GPU-b", "GPU-c", "GPU-d", "GPU-e", "GPU-f", "GPU-g", "GPU-h"]


def bindings_folder(major: int) -> str:
    """The stand-in for the bindings of DCGM 3 or 4."""
    return str(FAKE / f"bindings{major}")


def fake_modules() -> list[str]:
    """Names of the modules of the stand-in that are loaded."""
    return [
        name for name in sys.modules if name.split(".")[0] in ("fakedcgm", "dcgm_agent", "dcgm_structs", "dcgm_fields")
    ]


class VirtualTime:
    """A clock that moves when told."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> float:
        return self.now


class Bench:
    """Sessions on an engine in this process, in virtual time. ``clock`` is true time and the recording's."""

    def __init__(self, client: ModuleType, engine_class: Any) -> None:
        self.clock = VirtualTime()
        self._client = client
        self._engine_class = engine_class
        self.engine: Any = None

    def start_engine(self, **knobs: Any) -> Any:
        """An engine, for the sessions to come."""
        self.engine = self._engine_class(self.clock, **{"gpus": UUIDS[:2]} | knobs)
        self._client.EMBEDDED = lambda: self.engine
        return self.engine

    def session(
        self, interval: float = 0.1, pause: bool = False, choose: Callable[..., Any] | None = None, beside: bool = False,
        shared: bool = False,
    ) -> Any:  # fmt: skip
        """A session on all GPUs of the engine, or on those that ``choose`` makes of them; ``shared`` as on one that is not
        in this process."""
        from gssr.backends.dcgm import BESIDE, PAUSE
        from gssr.backends.dcgm.engine import reach
        from gssr.backends.dcgm.entities import discover
        from gssr.backends.dcgm.session import Session

        engine = reach()
        engine.embedded = not shared
        found = discover(engine)
        chosen = choose(found) if choose else found
        spec = PAUSE if pause else BESIDE if beside else "dcgm"
        return Session(engine, chosen, [False] * len(chosen), spec, interval, self.clock)

    def run(self, session: Any, seconds: float, poll: float | None = None) -> tuple[list[Any], list[Any]]:
        """Rows and changes of this many seconds; polled when it is due, or every ``poll`` s, and on a busy node when the
        engine gets to answer."""
        rows, changes = [], []
        end = self.clock.now + seconds
        while self.clock.now < end - 1e-6:
            self.clock.now += min(poll or session.due_in, end - self.clock.now)
            answered = self.engine.runs_at(self.engine.now()) / 1e6 - self.engine.knobs["ahead"]
            self.clock.now = max(self.clock.now, answered)
            new_rows, new_changes = session.poll()
            rows += new_rows
            changes += new_changes
        return rows, changes

    def rest(self, session: Any) -> list[Any]:
        """The last rows, as at the end of a recording."""
        rows, _ = session.poll()
        return [*rows, *session.flush()]


class EngineProcess:
    """The stand-in's hostengine as a process on a unix socket: to be killed, restarted and stopped."""

    def __init__(self, folder: Path) -> None:
        self.socket = str(folder / "dcgm.sock")
        self.control = folder / "control.json"
        self.log = folder / "engine.log"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def environ(self) -> dict[str, str]:
        """The variables that lead a process to it."""
        return {"DCGM_HOST": f"unix://{self.socket}", "DCGM_BINDINGS": bindings_folder(4)}

    def start(self, **knobs: Any) -> None:
        """Start it and wait until it listens."""
        self.set(**knobs)
        if os.path.exists(self.socket):
            os.unlink(self.socket)
        environ = os.environ | {
            "FAKEDCGM_CONTROL": str(self.control), "FAKEDCGM_LOG": str(self.log), "PYTHONPATH": str(FAKE)
        }  # fmt: skip
        self._process = subprocess.Popen([sys.executable, "-m", "fakedcgm", self.socket], env=environ)
        until(self._listens)

    def _listens(self) -> bool:
        """By the flag that the kernel gives a socket for it: its file is there a moment before."""
        sockets = (line.split() for line in Path("/proc/net/unix").read_text().splitlines())
        return any(fields[-1] == self.socket and fields[3] == "00010000" for fields in sockets)

    def set(self, **knobs: Any) -> None:
        """Change its knobs, from its next request on."""
        fresh = self.control.with_suffix(".new")
        fresh.write_text(json.dumps(knobs))
        fresh.rename(self.control)

    def signal(self, number: signal.Signals) -> None:
        """SIGKILL it, or hang it with SIGSTOP and let it go on with SIGCONT; wait until it is dead or has stopped."""
        assert self._process is not None
        self._process.send_signal(number)
        if number == signal.SIGKILL:
            self._process.wait()
        elif number == signal.SIGSTOP:
            os.waitid(os.P_PID, self._process.pid, os.WSTOPPED)

    def stop(self) -> None:
        """End it, also when it is stopped."""
        if self._process is not None and self._process.poll() is None:
            self.signal(signal.SIGKILL)

    def logged(self) -> list[tuple[str, int, int, Any, int]]:
        """Every sample it has taken: (UUID, field, stamp in us, value or None, time of insertion in us)."""
        return [tuple(json.loads(line)) for line in self.log.read_text().splitlines()]


def values_of(rows: Sequence[Any], gpu: int, metric: str) -> list[Any]:
    """One metric of one GPU, row by row, without the missing."""
    from gssr.metrics import PLACES

    return [row[PLACES[metric]] for row in rows if row[0] == gpu and row[PLACES[metric]] is not None]


def messages(changes: Sequence[Any], kind: str) -> list[str]:
    """What was said about one kind of change."""
    return [change.message for change in changes if change.kind == kind]
