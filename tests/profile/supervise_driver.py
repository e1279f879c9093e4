"""Runs ``supervise`` as ``gssr profile`` does: ``supervise_driver.py LOG OPTIONS COMMAND...``.

LOG gets one JSON line per call of the recorder. OPTIONS is a JSON object: supervise's keyword arguments, and ``sampler``,
what kind of sampler to fork before (SAMPLERS), none without it.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path


def _finish_well(control: int, say: int) -> int:
    os.read(control, 1)
    os.write(say, b"recorded 3 samples\nall is ")
    os.write(say, b"well")
    return 0


def _say_why_and_end(_control: int, say: int) -> int:
    os.write(say, b"no GPU here: recording the host only\n")
    return 3


def _be_killed(_control: int, _say: int) -> int:
    time.sleep(0.1)
    os.kill(os.getpid(), signal.SIGKILL)
    return 0


def _crash(_control: int, _say: int) -> int:
    return 5


def _end_early(_control: int, _say: int) -> int:
    return 0


def _hang(_control: int, _say: int) -> int:
    time.sleep(60)
    return 0


SAMPLERS = {
    "finishes": _finish_well,
    "says why": _say_why_and_end,
    "is killed": _be_killed,
    "crashes": _crash,
    "ends early": _end_early,
    "hangs": _hang,
}


class LoggingRecorder:
    def __init__(self, log: str, sampler: str | None, raises: str | None) -> None:
        self.pid: int | None = None
        self.fd = -1
        self._raises = raises
        self._log = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC)
        if sampler is not None:
            self._fork(sampler)

    def _fork(self, sampler: str) -> None:
        control, self._control = os.pipe()
        self.fd, say = os.pipe()
        os.set_blocking(self.fd, False)
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self._control)
            for sig in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(sig, signal.SIG_IGN)
            os._exit(SAMPLERS[sampler](control, say))
        os.close(say)
        os.close(control)

    def _write(self, *call: object) -> None:
        os.write(self._log, json.dumps(call).encode() + b"\n")
        if call[0] == self._raises:
            raise RuntimeError("on purpose")

    def started(self, pid: int, when: float) -> None:
        self._write("started", pid, when)

    def event(self, kind: str, message: str) -> None:
        self._write("event", kind, message)

    def ended(self, exit_code: int, state: str, when: float) -> None:
        if self.pid is not None:
            os.close(self._control)
        self._write("ended", exit_code, state, when)


def main() -> None:
    sys.path.insert(0, str(Path(__file__).parents[2]))  # not through PYTHONPATH: the workload would see it
    from gssr.profile.supervise import supervise
    from gssr.profile.terminal import leave

    log, options = sys.argv[1], json.loads(sys.argv[2])
    recorder = LoggingRecorder(log, options.pop("sampler", None), options.pop("raises", None))
    leave(supervise(sys.argv[3:], recorder, **options))


if __name__ == "__main__":
    main()
